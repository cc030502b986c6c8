"""The journal of an index on disk: what is final.

Columns are appended to first, and then one record says how long each of them is now. A record has a checksum and
a number, so one that was cut off is not a record, and whatever it was about never happened. The last valid
record is the state of the index. Nothing that a record speaks of is ever written again, so readers need no lock.
"""

from __future__ import annotations

import os
import struct
import warnings
import weakref
import zlib
from pathlib import Path
from typing import NamedTuple

from asot.index.columns import writing

_FORM = struct.Struct("<8s9q3d")  # then a checksum
_SIZE = _FORM.size + 8
_MAGIC = b"asotidx1"


class Entry(NamedTuple):
    """The state of an index after one change."""

    number: int = -1
    """Of the change; -1 before the first."""
    dim: int = 0
    members: int = 0
    """Slots: members and those that were."""
    points: int = 0
    name_bytes: int = 0
    removed: int = 0
    prepared: int = 0
    """Slots that have vectors."""
    next_name: int = 0
    """The number that the next member without a name gets, at least."""
    words: int = 0
    """Distinct points that members share, where they are kept once."""
    extent: float = 0.0
    reach: float = 0.0
    farthest: float = 0.0


class Journal:
    """The file; ``entry`` is the last valid record. Opened for writing, what follows it is cut off."""

    def __init__(self, path: Path, writes: bool) -> None:
        raw = path.read_bytes()  # a generation that was removed is not an empty one
        self._path = path
        self.entry, count = last_entry(raw, path)
        self._end = count * _SIZE
        if len(raw) - self._end >= _SIZE:  # a process that dies leaves less; a machine that does, or a disk, may not
            warnings.warn(
                f"the last record of {path} is damaged: the change that it stood for is left out"
                + (" and now removed" if writes else "; opened for writing, it is removed"),
                RuntimeWarning,
                stacklevel=2,
            )
        self._descriptor = -1
        if writes:
            self._descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
            weakref.finalize(self, os.close, self._descriptor)
            os.ftruncate(self._descriptor, self._end)

    def write(self, entry: Entry) -> None:
        """Make a change final: it is on disk when this returns."""
        body = _FORM.pack(_MAGIC, *entry)
        raw = body + struct.pack("<q", zlib.crc32(body))
        try:
            with writing(self._path):
                os.lseek(self._descriptor, self._end, os.SEEK_SET)
                while raw:
                    raw = raw[os.write(self._descriptor, raw) :]
                os.fsync(self._descriptor)
        except BaseException:
            os.ftruncate(self._descriptor, self._end)  # or readers find it when the next change overwrites columns
            raise
        self._end += _SIZE
        self.entry = entry


def last_entry(raw: bytes, path: Path) -> tuple[Entry, int]:
    """The last record of a journal, and how many there are. Only the end may be cut off; all else is damage."""
    entry, count = Entry(), 0
    for start in range(0, len(raw) - _SIZE + 1, _SIZE):
        body = raw[start : start + _FORM.size]
        (checksum,) = struct.unpack_from("<q", raw, start + _FORM.size)
        if zlib.crc32(body) != checksum:
            if len(raw) - start > _SIZE:
                raise ValueError(f"record {count} of {path} is damaged, and others follow it")
            break
        magic, *numbers = _FORM.unpack(body)
        found = Entry(*numbers)
        if magic != _MAGIC or found.number != count or not _follows(found, entry):
            raise ValueError(f"record {count} of {path} is not one that asot wrote")
        entry, count = found, count + 1
    return entry, count


def _follows(new: Entry, old: Entry) -> bool:
    only_grows = all(a >= b for a, b in zip(new[2:], old[2:], strict=True))  # all but its number and the dimension
    same_space = old.dim in (0, new.dim) and 0 < new.dim < 2**31
    return only_grows and same_space and new.removed <= new.members <= new.points and new.prepared <= new.members
