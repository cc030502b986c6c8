"""Columns that grow at their end: in memory, or as files that are memory maps for whoever reads them.

What was appended never changes and never moves while somebody looks at it, so a view taken at any time stays what it
was. A file may hold more than its column says: the rest of a call that was cut off, which the next one overwrites.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class MemoryColumn:
    """Rows (n, width) of one type, or plain numbers (n,) without a width: an array with room at its end."""

    def __init__(self, dtype: Any, width: int | None = None) -> None:
        self.n = 0
        self._array: NDArray[Any] = np.empty((0,) if width is None else (0, width), dtype=dtype)

    def append(self, rows: NDArray[Any]) -> None:
        end = self.n + len(rows)
        if end > len(self._array):
            room = np.empty((max(end, len(self._array) * 3 // 2), *self._array.shape[1:]), dtype=self._array.dtype)
            room[: self.n] = self._array[: self.n]
            self._array = room
        self._array[self.n : end] = rows
        self.n = end

    def view(self) -> NDArray[Any]:
        """All rows so far, read-only."""
        seen = self._array[: self.n]
        seen.flags.writeable = False
        return seen

    def settle(self) -> None:
        """Return when everything appended is where it would survive a crash: never, here."""


def give_back(seen: NDArray[Any]) -> None:
    """Let go of the memory of rows that were looked at, if they are a large file: they are read again when needed.

    The system maps sixteen pages around every row that is touched, so that a few thousand members hold gigabytes.
    """
    base: Any = seen
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    if isinstance(base, np.memmap) and base.nbytes >= _LARGE and hasattr(mmap, "MADV_DONTNEED"):
        base._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


_LARGE = 2**27


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say which file it is that cannot be written."""
    try:
        yield
    except OSError as error:
        raise type(error)(f"cannot write {path}: {error.strerror or error}") from error


class FileColumn:
    """The same as a file of raw little-endian numbers. ``n`` rows of it count; opened for writing, it can grow.

    A reader maps the file at once, so that it keeps its rows when a writer moves on and removes the file.
    """

    def __init__(self, path: Path, dtype: Any, width: int | None, n: int, writes: bool) -> None:
        self._path, self._dtype, self._width, self.n = path, np.dtype(dtype).newbyteorder("<"), width, n
        self._row = self._dtype.itemsize * (1 if width is None else width)
        n_bytes = n * self._row
        size = path.stat().st_size if n_bytes > 0 else 0
        if n < 0 or size < n_bytes:
            raise ValueError(f"{path} has {size:,} bytes, and {n_bytes:,} belong there; the folder is damaged")
        self._seen: NDArray[Any] | None = None
        self._changed = False
        self._descriptor = -1
        if writes:
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
            with writing(path):
                self._descriptor = os.open(path, flags, 0o666)
            weakref.finalize(self, os.close, self._descriptor)
        else:
            self.view()

    def append(self, rows: NDArray[Any]) -> None:
        if self._row == 0 or len(rows) == 0:
            self.n += len(rows)
            return
        raw = memoryview(np.ascontiguousarray(rows, dtype=self._dtype).tobytes())
        with writing(self._path):
            os.lseek(self._descriptor, self.n * self._row, os.SEEK_SET)
            while len(raw):
                raw = raw[os.write(self._descriptor, raw) :]
        self.n += len(rows)
        self._changed = True

    def view(self) -> NDArray[Any]:
        if self._seen is None or len(self._seen) != self.n:
            shape = (self.n,) if self._width is None else (self.n, self._width)
            if self.n * self._row == 0:
                self._seen = np.empty(shape, dtype=self._dtype)
            else:
                self._seen = np.asarray(np.memmap(self._path, dtype=self._dtype, mode="r", shape=shape))
        return self._seen

    def settle(self) -> None:
        if self._changed:
            with writing(self._path):
                os.fsync(self._descriptor)
            self._changed = False


Column = MemoryColumn | FileColumn
