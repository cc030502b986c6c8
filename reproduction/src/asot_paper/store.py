"""The results file: what was computed is kept, no matter what happens next.

``results.json`` holds one record per cell. The whole file is written again after every finished cell, under a temporary
name, and then renamed; so a crash loses at most the cell that was running. A file that this version does not understand
is refused and left alone. While a run writes to it, the file is locked: a second run would lose cells. A file whose
name ends in ``.gz`` is compressed to about a tenth, since records repeat their settings.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from asot.data.npz import PathLike, atomic_write
from asot_paper.datasets.archives import unpack

FORMAT = "asot-paper"
VERSION = 1
"""Version of the files written here; this one and older ones are read."""

Record = dict[str, Any]


class Results:
    """The cells of a results file, by key. ``open_results`` makes one."""

    def __init__(self, path: PathLike, records: list[Record]) -> None:
        self.path = Path(path)
        self._records = {record["key"]: record for record in records}

    def __len__(self) -> int:
        return len(self._records)

    @property
    def records(self) -> list[Record]:
        """Every cell, in the order in which they were first stored."""
        return list(self._records.values())

    def finished(self, key: str) -> Record | None:
        """The record of a cell that was run without an error."""
        record = self._records.get(key)
        return None if record is None or "error" in record else record

    def failure(self, key: str) -> str | None:
        """The message of a cell that failed when it was last run."""
        record = self._records.get(key)
        return None if record is None else record.get("error")

    def add(self, record: Mapping[str, Any]) -> None:
        """Keep a cell, in memory and on disk; one that failed before is replaced, a finished one never by a failure."""
        self.add_all([record])

    def add_all(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Keep several cells, or none of them if one cannot be kept."""
        new = {record["key"]: _plain(record) for record in records}
        for key, record in new.items():
            if "error" not in record or self.finished(key) is None:
                self._records[key] = record
        self._write()

    def _write(self) -> None:
        lines = ",\n".join(json.dumps(cell, ensure_ascii=False, allow_nan=False) for cell in self.records)
        text = f'{{"format": "{FORMAT}", "version": {VERSION}, "cells": [\n{lines}\n]}}\n'.encode()
        with atomic_write(self.path) as stream:
            stream.write(gzip.compress(text, mtime=0) if self.path.suffix == ".gz" else text)


@contextlib.contextmanager
def open_results(path: PathLike) -> Iterator[Results]:
    """A results file, new or from an earlier run, locked against other runs while the block lasts."""
    with _locked(path):
        yield Results(path, read_cells(path) if os.path.exists(path) else [])


def read_cells(path: PathLike) -> list[Record]:
    """The cells of a results file: a list of records, empty for a new file.

    A file that is not a results file, is damaged or comes from a newer version is refused with the reason. Reading
    never changes it.
    """
    raw = unpack(Path(path))
    if not raw.strip():
        return []
    try:
        content = json.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} is not a results file of `asot paper`, or it is truncated ({error}); nothing in it was changed: "
            "restore a copy, or move it away to begin anew"
        ) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path} is not a results file of `asot paper`; give another name with --results")
    _check_version(content.get("version"), path)
    cells = content.get("cells")
    if not isinstance(cells, list):
        raise ValueError(f"{path} has no list of cells; it is damaged: restore a copy, or move it away")
    for place, cell in enumerate(cells):
        _check_cell(cell, place, path)
    return cells


def _check_version(version: Any, path: PathLike) -> None:
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(f"{path} has no version; it is damaged: restore a copy, or move it away")
    if version > VERSION:
        raise ValueError(f"{path} has format version {version}, newer than the {VERSION} read here; upgrade asot")


_TEXTS = ("key", "kind", "condition", "set", "method")
_COUNTS = ("fold", "seed")


def _check_cell(cell: Any, place: int, path: PathLike) -> None:
    """Refuse what later code cannot handle, naming the cell."""
    where = f"{path}: cell {place}"
    if not isinstance(cell, dict):
        raise ValueError(f"{where} is not a record; the file is damaged")
    for name in _TEXTS:
        if not isinstance(cell.get(name), str):
            raise ValueError(f"{where} has no {name!r}; the file is damaged")
    for name in _COUNTS:
        if not isinstance(cell.get(name), int) or isinstance(cell.get(name), bool):
            raise ValueError(f"{where} has no whole number {name!r}; the file is damaged")
    for name in ("settings", "machine", "versions"):
        if not isinstance(cell.get(name), dict):
            raise ValueError(f"{where} has no {name!r}; the file is damaged")


def _plain(value: Any) -> Any:
    """What JSON holds of a value: NumPy numbers and arrays become plain ones; what is not finite is an error."""
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"a result is {value}, which is not a number to keep")
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise TypeError(f"a result holds {type(value).__name__}, which a results file cannot")


# ------------------------------------------------------------------------------------------------------------- locking


@contextlib.contextmanager
def _locked(path: PathLike) -> Iterator[None]:
    """Hold the lock beside a results file. The system releases it when the process ends, however it ends."""
    place = Path(os.path.realpath(path) + ".lock")
    if not place.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: the folder {place.parent} does not exist")
    lock = FileLock(place, blocking=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise BlockingIOError(
            f"another run is writing to {path}; wait for it, or give this one its own file with --results"
        ) from error
    except OSError as error:
        raise type(error)(f"cannot write {path}: {error.strerror}: {place}") from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # where a file that is open cannot be removed, it stays
            place.unlink()
        lock.release()
