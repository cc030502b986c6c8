"""The paper's own numbers, as far as they are known here: ``published.csv`` beside this module.

The paper's tables are not part of this project. The file holds the few cells that are quoted in the project's own
documents, each with its source; nothing else in the package is a number of the paper. Whoever has the paper can type
its tables into a file of the same form and pass it with ``--published``: its cells are added, and replace those that
are known.

Columns are ``table`` ("rmse" or "seconds"), ``set``, ``method``, ``value``, ``spread`` (the number after ±, or empty)
and ``source`` (where the number comes from, in words).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from importlib import resources
from typing import NamedTuple

from asot.data.npz import PathLike, reading
from asot_paper.names import METHODS, SETS

COLUMNS = ("table", "set", "method", "value", "spread", "source")
TABLES = ("rmse", "seconds")

Place = tuple[str, str, str]


class Published(NamedTuple):
    """One number of the paper."""

    value: float
    spread: float | None
    source: str


def read_published(path: PathLike | None = None) -> dict[Place, Published]:
    """The known numbers by (table, set, method); those of ``path``, if given, are added to the packaged ones.

    >>> read_published()["rmse", "MUTAG", "ASOT-DL"].value
    0.0262
    """
    packaged = resources.files("asot_paper").joinpath("published.csv")
    found = dict(_cells(packaged.read_text(encoding="utf-8"), "published.csv"))
    if path is not None:
        with reading(path) as stream:
            raw = stream.read()
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not a text file in UTF-8; save the table as CSV") from error
        found.update(_cells(text, path))
    return found


def _cells(text: str, path: PathLike) -> Iterator[tuple[Place, Published]]:
    lines = csv.DictReader(text.splitlines(), strict=True)
    try:
        header = tuple(name.strip() for name in lines.fieldnames or ())
        rows = [(lines.line_num, row) for row in lines]
    except csv.Error as error:
        raise ValueError(f"{path} is not a CSV table: {error}; look for a quote that is not closed") from error
    if header != COLUMNS:
        raise ValueError(f"{path} must begin with the line {','.join(COLUMNS)}; found {','.join(header) or 'nothing'}")
    seen: set[Place] = set()
    for number, row in rows:
        place, entry = _cell(row, f"{path}, line {number}")
        if place in seen:
            raise ValueError(f"{path}, line {number}: {' '.join(place)} is there twice; keep one")
        seen.add(place)
        yield place, entry


def _cell(row: dict[str | None, str | list[str] | None], where: str) -> tuple[Place, Published]:
    if None in row or None in row.values():
        raise ValueError(f"{where} must have {len(COLUMNS)} entries; put text with commas in quotes")
    entries = {str(name).strip(): str(entry).strip() for name, entry in row.items()}
    for column, valid in (("table", TABLES), ("set", SETS), ("method", METHODS)):
        if entries[column] not in valid:
            raise ValueError(f"{where}: unknown {column} {entries[column]!r}; choose from {', '.join(valid)}")
    if not entries["source"]:
        raise ValueError(f"{where}: there is no source; say where the number comes from")
    value = _number(entries["value"], "value", where)
    spread = _number(entries["spread"], "spread", where) if entries["spread"] else None
    place = (entries["table"], entries["set"], entries["method"])
    return place, Published(value, spread, entries["source"])


def _number(text: str, column: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{where}: the {column} {text!r} is not a number ≥ 0")
    return number
