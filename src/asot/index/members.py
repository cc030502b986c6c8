"""The members of an index: flat columns that only grow, bits for those that were removed, and names.

A member has a slot, the place where it was added. Removing it sets a bit, and replacing it removes the old one and
appends the new one. A query works on a `Snapshot`, which no later change touches.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Indices
from asot.data.distributions import Distributions, trusted
from asot.data.reading import text_array
from asot.index.columns import Column, MemoryColumn
from asot.index.frame import Frame, Slack, Tables
from asot.index.words import Vocabulary

Name = str | int

COLUMNS: dict[str, Any] = {"points": np.float64, "masses": np.float64, "ends": np.int64, "totals": np.float64,
                           "narrow": np.int8, "removed": np.int64}  # fmt: skip
"""What is kept of members besides vectors: coordinates, masses, where points end, totals, whether they came as float32;
and the slots of removed members, in the order of removal."""


_BY_POINT = ("places", "words", "vocabulary")


class Columns:
    """All columns of an index. ``make(name, dtype, width)`` makes one."""

    def __init__(self, dim: int, frame: Frame | None, make: Callable[[str, Any, int | None], Column]) -> None:
        self.dim, self.frame = dim, frame
        self._make = make
        self._vocabulary: Vocabulary | None = None
        self.plain = {name: make(name, dtype, dim if name == "points" else None) for name, dtype in COLUMNS.items()}
        self.tables: dict[str, Column] = {}
        if frame is not None:
            self._make_tables(frame)

    def _make_tables(self, frame: Frame) -> None:
        self.frame = frame
        self.tables = {name: self._make(name, dtype, width) for name, (dtype, width) in frame.columns.items()}
        self._vocabulary = Vocabulary(self.tables["vocabulary"]) if frame.has_words else None

    @classmethod
    def in_memory(cls, dim: int) -> Columns:
        return cls(dim, None, lambda name, dtype, width: MemoryColumn(dtype, width))

    def append(self, D: Distributions, narrow: NDArray[np.int8] | None = None) -> None:
        """Points, masses and sizes of new members. ``narrow`` (N,): which came as float32, if not all or none did."""
        ends = self.plain["ends"]
        start = int(ends.view()[-1]) if ends.n else 0
        narrow = np.full(len(D), D.dtype == np.float32, dtype=np.int8) if narrow is None else narrow
        values = {"points": D.points, "masses": D.masses, "ends": start + D.offsets[1:], "totals": D.totals}
        for name, rows in (values | {"narrow": narrow}).items():
            self.plain[name].append(rows)

    def append_vectors(self, frame: Frame, tables: Tables) -> None:
        if not self.tables:
            self._make_tables(frame)
        for name, rows in tables.items():
            if name == "places" and self._vocabulary is not None:
                self.tables["words"].append(self._vocabulary.numbered(rows))
            else:
                self.tables[name].append(rows)

    def lengths(self) -> dict[str, int]:
        return {name: column.n for name, column in (self.plain | self.tables).items()}

    def cut(self, lengths: dict[str, int], frame: Frame | None) -> None:
        """Forget what was appended since, and a frame that was not there; for a change that failed."""
        for name, column in (self.plain | self.tables).items():
            column.n = lengths.get(name, 0)
        if self._vocabulary is not None:
            self._vocabulary.forget()
        if frame is None:
            self.frame, self.tables = None, {}

    def settle(self) -> None:
        for column in (*self.plain.values(), *self.tables.values()):
            column.settle()


class Names:
    """Ids of the members that a query saw, by position; made into arrays only where somebody looks."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __len__(self) -> int:
        return self._snapshot.count

    def __getitem__(self, positions: Any) -> Any:
        slots = self._snapshot.slots[positions]
        names = self._snapshot.names
        if np.ndim(slots) == 0:
            return names[int(slots)]
        return name_array([names[slot] for slot in slots.ravel().tolist()]).reshape(np.shape(slots))

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        return np.asarray(self[np.arange(len(self))], dtype=dtype)

    def tolist(self) -> list[Name]:
        return [self._snapshot.names[slot] for slot in self._snapshot.slots.tolist()]


def name_array(names: Sequence[Name]) -> NDArray[Any]:
    """Ids as an array: of numbers, of text, or of objects where there are both."""
    if all(isinstance(name, int) for name in names):
        return np.array(names, dtype=np.int64)
    if all(isinstance(name, str) for name in names):
        return text_array([str(name) for name in names])
    mixed = np.empty(len(names), dtype=object)
    mixed[:] = names
    return mixed


@dataclass(frozen=True)
class Snapshot:
    """An index as it was at one moment; S slots, of which some are members."""

    names: list[Name]  # of all slots; may grow beyond S, never changes before
    alive: NDArray[np.bool_]  # (S,)
    points: NDArray[np.float64]  # (n, d)
    masses: NDArray[np.float64]  # (n,)
    ends: Indices  # (S,)
    totals: NDArray[np.float64]  # (S,)
    narrow: NDArray[np.int8]  # (S,)
    tables: Tables  # (R, widths), of the first R slots
    frame: Frame | None
    slack: Slack

    @functools.cached_property
    def count(self) -> int:
        return int(np.count_nonzero(self.alive))

    @functools.cached_property
    def slots(self) -> Indices:
        """Slots of the members, in the order in which they were added (count,)."""
        return np.flatnonzero(self.alive)

    def positions(self, slots: Indices) -> Indices:
        """Places of slots among the members."""
        return np.searchsorted(self.slots, slots)

    @property
    def prepared(self) -> int:
        """Slots that have vectors."""
        return len(self.tables["pool"]) if self.tables else 0

    def member(self, slot: int) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Points and masses of one member, as they were added."""
        start, end = int(self.ends[slot - 1]) if slot else 0, int(self.ends[slot])
        points = np.array(self.points[start:end], dtype=np.float32 if self.narrow[slot] else np.float64)
        masses = np.array(self.masses[start:end], dtype=np.float64)
        points.flags.writeable = masses.flags.writeable = False
        return points, masses

    def taken(self, slots: Indices) -> Distributions:
        """Some members as a collection, in float64.

        Files may have been changed by others, and compiled code trusts its input, so numbers are looked at once more.
        """
        rows, offsets = self._rows(slots)
        points, masses = self.points[rows], self.masses[rows]
        sums = np.add.reduceat(masses, offsets[:-1])
        fits = np.isfinite(points).all() and bool((masses >= 0).all()) and bool((np.abs(sums - 1.0) < 1e-6).all())
        if not fits:
            raise ValueError("members are not what was added; the folder of this index is damaged")
        return trusted(points, offsets, masses, np.asarray(self.totals[slots]))

    def _rows(self, slots: Indices) -> tuple[Indices, Indices]:
        """The rows of the points of some slots, one after the other, and where each slot begins."""
        begins = np.where(slots > 0, self.ends[np.maximum(slots - 1, 0)], 0)
        sizes = self.ends[slots] - begins
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], sizes), offsets

    def vectors(self, slots: Indices) -> Tables:
        """The vectors of some slots, as `Frame.vectors` makes them."""
        tables = {name: table[slots] for name, table in self.tables.items() if name not in _BY_POINT}
        if "words" in self.tables:
            words = self.tables["words"][self._rows(slots)[0]]
            known = (words >= 0) & (words < len(self.tables["vocabulary"]))
            tables["places"] = np.full((len(words), self.tables["vocabulary"].shape[1]), np.nan, dtype=np.float32)
            tables["places"][known] = self.tables["vocabulary"][words[known]]
        elif self.tables["places"].shape[1]:
            tables["places"] = self.tables["places"][self._rows(slots)[0]]
        else:
            tables["places"] = np.empty((0, 0), dtype=np.float32)
        return tables


def make_snapshot(columns: Columns, names: list[Name], alive: NDArray[np.bool_], slack: Slack) -> Snapshot:
    seen = {name: columns.plain[name].view() for name in COLUMNS if name != "removed"}
    tables = {name: column.view() for name, column in columns.tables.items()}
    return Snapshot(names=names, alive=alive, tables=tables, frame=columns.frame, slack=slack, **seen)
