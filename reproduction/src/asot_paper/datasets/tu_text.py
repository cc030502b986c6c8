"""Tables of numbers as TU archives write them: a row per line, commas between columns, and nothing else.

They are read quickly. Only if that fails, the lines are checked one by one to find and name the first bad one.
"""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray


def read_floats(raw: bytes, name: str) -> NDArray[np.float64]:
    """(lines, columns) numbers; ``name`` is what messages call the table."""
    text = _text(raw, name)
    if not text.strip():
        return np.empty((0, 1))
    try:
        table = np.loadtxt(io.StringIO(text), dtype=np.float64, comments=None, ndmin=2)
    except ValueError as error:
        raise ValueError(_first_fault(text, name) or f"{name} is not a table of numbers: {error}") from error
    finite = np.isfinite(table).all(axis=1)
    if not finite.all():
        raise ValueError(f"{_line(text, name, int(np.argmin(finite)))}; numbers must be finite")
    return table


def read_integers(raw: bytes, name: str, columns: int | None = None) -> NDArray[np.int64]:
    """(lines, columns) whole numbers; they may be written as 3.0."""
    table = read_floats(raw, name)
    if columns is not None and len(table) and table.shape[1] != columns:
        expected = f"{columns} number{'s' * (columns > 1)}"
        raise ValueError(f"{name} must have {expected} on every line; found {table.shape[1]}")
    whole = ((table == np.rint(table)) & (np.abs(table) < 2.0**53)).all(axis=1)
    if not whole.all():
        raise ValueError(f"{_line(_text(raw, name), name, int(np.argmin(whole)))}; expected whole numbers")
    return table.astype(np.int64) if len(table) else np.empty((0, columns or 1), np.int64)


def _text(raw: bytes, name: str) -> str:
    try:
        return raw.decode("ascii").replace(",", " ")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is not a table of numbers: byte {error.start:,} is not ASCII") from error


def _rows(text: str) -> list[tuple[int, str]]:
    """Line numbers from 1, and lines, without the blank ones: they are what `numpy.loadtxt` counts."""
    return [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def _line(text: str, name: str, row: int) -> str:
    number, line = _rows(text)[row]
    return f"{name}, line {number:,} is {' '.join(line.split())[:60]!r}"


def _first_fault(text: str, name: str) -> str | None:
    """What is wrong with the first line that cannot be read."""
    width = None
    for number, line in _rows(text):
        fields = line.split()
        for field in fields:
            try:
                float(field)
            except ValueError:
                return f"{name}, line {number:,}: {field[:40]!r} is not a number"
        if width is not None and len(fields) != width:
            return f"{name}, line {number:,} has {len(fields)} numbers, the lines before have {width}"
        width = len(fields)
    return None
