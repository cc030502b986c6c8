"""Collections from tables: one row per point, with a column that tells the distribution.

``id`` (or the first column) names the distribution, ``mass`` is optional, every other column is a coordinate. Rows of
one id need not be neighbours. Each error names the file, and the line or the column.
"""

from __future__ import annotations

import array
import contextlib
import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from asot.data.distributions import Distributions
from asot.data.npz import PathLike, naming, reading


def load_csv(path: PathLike) -> Distributions:
    with _csv_rows(path) as rows:
        names = [name.strip() for name in next(rows, [])]
        id_column, mass_column = _csv_columns(names, path)
        coordinates = [c for c in range(len(names)) if c not in (id_column, mass_column)]
        ids: list[str] = []
        numbers, masses = array.array("d"), array.array("d")
        for row in rows:
            if not row:
                continue
            where = f"{path}, line {rows.line_num}"
            if len(row) != len(names):
                raise ValueError(f"{where}: found {len(row)} cells for the {len(names)} columns {', '.join(names)}")
            ids.append(_filled(row[id_column], names[id_column], where))
            numbers.extend(_number(row[c], names[c], where) for c in coordinates)
            if mass_column is not None:
                masses.append(_number(row[mass_column], names[mass_column], where))
    if not ids:
        raise ValueError(f"{path} is empty: there is no line below the column names")
    points = np.frombuffer(numbers, dtype=np.float64).reshape(len(ids), len(coordinates))
    with naming(path):
        return Distributions.from_groups(points, np.array(ids), masses if mass_column is not None else None)


def summarise_distances(path: PathLike) -> str | None:
    """A sentence about a CSV file of distances that asot wrote, or None when the columns are not those of one."""
    with _csv_rows(path) as rows:
        if next(rows, [])[:3] != ["id_i", "id_j", "distance"]:
            return None
        values = array.array("d")
        for row in rows:
            where = f"{path}, line {rows.line_num}"
            if len(row) < 3:
                raise ValueError(f"{where}: found {len(row)} cells; the line is incomplete")
            values.append(_number(row[2], "distance", where))
    if not values:
        return "Distances: no pairs"
    mean = math.fsum(values) / len(values)
    return f"Distances: {len(values):,} pairs, {min(values):.4g} to {max(values):.4g} (mean {mean:.4g})"


class _Rows:
    """The rows of a CSV file, counting lines, with `csv`'s own errors made readable."""

    def __init__(self, stream: IO[str], path: PathLike) -> None:
        self._reader = csv.reader(stream)
        self._path = path

    @property
    def line_num(self) -> int:
        return self._reader.line_num

    def __iter__(self) -> _Rows:
        return self

    def __next__(self) -> list[str]:
        try:
            return next(self._reader)
        except UnicodeDecodeError as error:
            raise ValueError(f"{self._path} is not a text file in UTF-8, whatever its name says") from error
        except csv.Error as error:
            raise ValueError(f"{self._path}, line {self.line_num}: not CSV: {error}") from error


@contextlib.contextmanager
def _csv_rows(path: PathLike) -> Iterator[_Rows]:
    with reading(path) as stream:
        if b"\0" in stream.read(4096):
            raise ValueError(f"{path} is not a text file, whatever its name says")
        stream.seek(0)
        yield _Rows(io.TextIOWrapper(stream, encoding="utf-8-sig", newline=""), path)


def _csv_columns(names: list[str], path: PathLike) -> tuple[int, int | None]:
    """Which column holds the ids, and which the masses."""
    if not any(names):
        raise ValueError(f"{path} is empty: its first line must name the columns, such as id,x,y,mass")
    if all(_is_number(name) for name in names):
        raise ValueError(f"{path}, line 1: found numbers; the first line must name the columns, such as id,x,y,mass")
    if len(names) == 1:
        raise ValueError(f"{path}, line 1: found a single column, {names[0]!r}; cells must be separated by commas")
    return _pick_columns(names, path)


def _pick_columns(names: Sequence[str], path: PathLike) -> tuple[int, int | None]:
    for name in ("id", "mass"):
        if names.count(name) > 1:
            raise ValueError(f"{path} has {names.count(name)} columns called {name!r}; it must have one")
    id_column = names.index("id") if "id" in names else 0
    mass_column = names.index("mass") if "mass" in names else None
    if mass_column == id_column:
        raise ValueError(f"{path} has no column of ids: its first column, {names[0]!r}, holds masses")
    if len(names) - 1 - (mass_column is not None) == 0:
        raise ValueError(f"{path} has no coordinates: its columns are {', '.join(names)}")
    return id_column, mass_column


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _filled(cell: str, column: str, where: str) -> str:
    cell = cell.strip()
    if not cell:
        raise ValueError(f"{where}: the cell in column {column!r} is empty")
    return cell


def _number(cell: str, column: str, where: str) -> float:
    try:
        number = float(cell)
    except ValueError:
        _filled(cell, column, where)
        raise ValueError(f"{where}: {cell!r} in column {column!r} is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"{where}: {cell!r} in column {column!r} is not finite; drop or impute it")
    return number


def load_parquet(path: PathLike) -> Distributions:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(f"reading {path} needs pyarrow: pip install asot[tables]") from error
    with reading(path) as stream:
        try:
            table = pyarrow.parquet.ParquetFile(stream).read()
        except (pyarrow.ArrowException, OSError) as error:
            raise ValueError(f"{path} is not a Parquet file, whatever its name says, or it is damaged") from error
    kept = [i for i, name in enumerate(table.column_names) if not re.fullmatch(r"__index_level_\d+__", name)]
    table = table.select(kept)
    names = list(table.column_names)
    if not names:
        raise ValueError(f"{path} has no columns")
    id_column, mass_column = _pick_columns(names, path)
    coordinates = [c for c in range(len(names)) if c not in (id_column, mass_column)]
    if table.num_rows == 0:
        raise ValueError(f"{path} is empty: it has no rows")
    points = np.column_stack([_parquet_numbers(table, c, path) for c in coordinates])
    masses = None if mass_column is None else _parquet_numbers(table, mass_column, path)
    with naming(path):
        return Distributions.from_groups(points, _parquet_ids(table, id_column, path), masses)


def _parquet_numbers(table: Any, column: int, path: PathLike) -> NDArray[Any]:
    name = table.column_names[column]
    _refuse_nulls(table, column, path)
    numbers = table.column(column).to_numpy()
    if numbers.dtype.kind not in "fiub":
        raise ValueError(f"{path}: column {name!r} holds {table.column(column).type}, not numbers")
    return np.asarray(numbers)


def _parquet_ids(table: Any, column: int, path: PathLike) -> NDArray[Any]:
    _refuse_nulls(table, column, path)
    ids = np.asarray(table.column(column).to_pylist())
    if ids.ndim != 1 or (ids.dtype.kind == "O" and not all(type(entry).__hash__ for entry in ids)):
        raise ValueError(f"{path}: column {table.column_names[column]!r} cannot serve as ids; use text or integers")
    return ids


def _refuse_nulls(table: Any, column: int, path: PathLike) -> None:
    values = table.column(column)
    if values.null_count:
        row = int(np.argmax(values.is_null().to_numpy()))
        raise ValueError(f"{path}: column {table.column_names[column]!r} is empty in row {row + 1}")
