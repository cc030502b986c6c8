"""The search itself: a first answer for every row, and then every pair that a bound does not exclude.

Work proceeds in rounds of rows whose size depends on the collection alone, so that neither the answer nor the pairs
that are solved under given bounds depend on the number of threads.

A search within a collection looks at each pair once, for both of its ends. One of some rows only (`Search.rows`) knows
nothing of the others, and looks at its rows against all columns.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices, Info
from asot.results.sinks import NearestOfRows
from asot.run import engine
from asot.run.executors import Progress
from asot.run.pairs import AllPairs, CrossPairs, ListedPairs, PairSet
from asot.run.protocols import Solver

Limits = tuple[Float, Indices]

_ROUND = 2**21
"""Pairs whose bounds are looked at before the distances found meanwhile are taken into account."""

NANO = 1.5e-9
"""A nanosecond of a bound, as measured with AVX-512: other cores take about 1.5 times as long."""


class Shape(NamedTuple):
    """Which pairs of a collection are searched: rows are its first distributions, columns those from ``column_start``.

    ``within``: rows and columns are one set, so a row is not its own neighbor, and (i, j) is the same pair as (j, i).
    """

    n_rows: int
    n_columns: int
    column_start: int
    within: bool

    @property
    def n_pairs(self) -> int:
        return self.n_rows * (self.n_rows - 1) // 2 if self.within else self.n_rows * self.n_columns


class Left(NamedTuple):
    """Pairs that bounds do not rule out."""

    rows: Indices  # (P,)
    columns: Indices  # (P,)
    doubted: int = 0
    """Pairs that the cheap bound left to an expensive one."""


class Look(Protocol):
    """What a search asks of its bounds. Rows, columns and ``within`` are those of a `Shape`.

    A column j is distribution ``column_start + j`` of the collection.
    """

    def nearest_by_bound(self, start: int, stop: int, count: int, n_jobs: int) -> tuple[Indices, Float]:
        """The ``count`` columns with the smallest bounds of the rows start..stop-1, ascending, and their bounds."""
        ...

    def pairs_within(self, start: int, stop: int, limits: Float, settled: Indices, n_jobs: int) -> Left:
        """Pairs of the rows start..stop-1 whose distance may be within the limit of one of its ends.

        ``limits`` (n_rows,) are distances. A column at or behind ``settled`` (n_rows,) is out of the question for a row
        whose limit is 0: it cannot be nearer than the neighbors that are known. ``within``, only columns behind the row
        are listed, and both ends have a limit; else only the row has one.
        """
        ...

    def prices(self, doubted: float) -> tuple[float, float]:
        """Counted seconds per pair of `nearest_by_bound`, and of `pairs_within` with that share of doubted pairs."""
        ...

    def from_one_end(self) -> Look:
        """The same bounds for rows against all columns: for a search of some rows, which knows no limits of others."""
        ...


@dataclass
class Search:
    """One search: whose pairs, what solves them, and the counts for the report."""

    shape: Shape
    solver: Solver
    jobs: int
    memory: int
    made: Info
    """What was prepared and found, for the report."""
    shown: Progress
    """Counts every pair once: when it is solved, or when it is excluded."""
    p: float = 1.0
    rows: tuple[int, int] | None = None
    """The rows that are searched, by themselves, if not all are."""
    n_exact: int = 0
    _parts: list[Indices] = field(default_factory=list)
    """Sorted keys of the pairs that were solved before the sweep, each part at most half as long as the one before."""

    @property
    def _both_ends(self) -> bool:
        """Whether a pair counts for its row and for its column, and no row is among its columns."""
        return self.shape.within and self.rows is None

    def solved(self) -> Indices:
        """Sorted keys (S,) of the pairs that were solved before the sweep."""
        return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *self._parts]))

    def keys(self, rows: Indices, columns: Indices) -> Indices:
        if self._both_ends:
            rows, columns = np.minimum(rows, columns), np.maximum(rows, columns)
        return rows * self.shape.n_columns + columns

    def solve(self, rows: Indices, columns: Indices, sink: Best | Edges) -> None:
        """Solve listed pairs, with progress."""
        s = self.shape
        asked = ListedPairs(np.stack([rows, columns], axis=1), s.n_rows, s.n_columns, symmetric=False)
        self._solve(replace(asked, symmetric=s.within), asked, sink)

    def _solve(self, pairs: PairSet, asked: PairSet, sink: Best | Edges) -> None:
        """Solve pairs, which the sink gets to know as ``asked``: with their ends as they were."""
        for tile in engine.solved_tiles(pairs, self.solver, self.jobs, self.memory):
            values = tile.solution.values
            sink.keep(*asked.indices(tile.start, tile.start + len(values)), values)
            self.shown.advance(len(values))
        self.n_exact += len(pairs)

    def solve_new(self, rows: Indices, columns: Indices, sink: Best | Edges) -> None:
        """Solve those of the pairs that were not solved before, each once."""
        rows, columns = self._without_itself(rows, columns)
        keys = np.unique(self.keys(rows, columns))
        for part in self._parts:
            keys = keys[~_among(keys, part)]
        if len(keys) == 0:
            return
        self.solve(*np.divmod(keys, self.shape.n_columns), sink)
        self._parts.append(keys)
        while len(self._parts) > 1 and len(self._parts[-2]) < 2 * len(self._parts[-1]):
            self._parts[-2:] = [np.sort(np.concatenate(self._parts[-2:]))]

    def solve_promising(self, look: Look, best: Best, ranges: Iterable[tuple[int, int]] | None = None) -> None:
        """A first answer for every row, or those of some ranges: of the pairs that look nearest, K of each row, and
        then those that may improve on these."""
        K, itself = best.distances.shape[1], self.shape.within and not self._both_ends
        first = K + itself
        count = min(self.shape.n_columns - self._both_ends, 2 * K + 8 + itself)
        for start, stop in self._rounds() if ranges is None else ranges:
            columns, bounds = look.nearest_by_bound(start, stop, count, self.jobs)
            rows = np.broadcast_to(np.arange(start, stop)[:, None], columns.shape)
            self.solve_new(rows[:, :first].ravel(), columns[:, :first].ravel(), best)
            hopeful = bounds[:, first:] <= best.limits()[0][start:stop, None]
            self.solve_new(rows[:, first:][hopeful], columns[:, first:][hopeful], best)

    def _rounds(self, once: bool = False) -> Iterator[tuple[int, int]]:
        """Ranges of rows that have about `_ROUND` pairs; ``once``: with columns behind the row only."""
        start, end, most = (0, self.shape.n_rows, _ROUND) if self.rows is None else (*self.rows, 2 * _ROUND)
        while start < end:
            width = self.shape.n_columns - start - 1 if once else self.shape.n_columns
            stop = min(end, start + max(1, most // max(1, width)))
            yield start, stop
            start = stop

    def sweep(self, look: Look | None, sink: Best | Edges) -> None:
        """Solve every pair that the bounds do not rule out, or every pair: None is brute force."""
        s, once = self.shape, self._both_ends
        if look is None and self.rows is None and not self._parts:
            pairs = AllPairs(s.n_rows) if s.within else CrossPairs(s.n_rows, s.n_columns)
            self._solve(pairs, pairs, sink)
            return
        solved = self.solved()
        for start, stop in self._rounds(once):
            low, high = np.searchsorted(solved, [start * s.n_columns, stop * s.n_columns])
            before = solved[low:high]
            if look is None:
                rows, columns = self._every_pair(start, stop, before)
            else:
                rows, columns, _ = look.pairs_within(start, stop, *sink.limits(), self.jobs)
                rows, columns = self._without_itself(rows, columns)
                if len(before):
                    fresh = ~_among(self.keys(rows, columns), before)
                    rows, columns = rows[fresh], columns[fresh]
            n_pairs = (stop - start) * (2 * s.n_rows - start - stop - 1) // 2 if once else (stop - start) * s.n_columns
            self.shown.advance(n_pairs - len(before) - len(rows))
            self.solve(rows, columns, sink)

    def _every_pair(self, start: int, stop: int, before: Indices) -> tuple[Indices, Indices]:
        """The pairs of some rows, without those with the keys ``before``."""
        first = start + 1 if self._both_ends else 0
        wanted = np.ones((stop - start, self.shape.n_columns - first), dtype=np.bool_)
        if self._both_ends:
            wanted = np.triu(wanted)
        rows, columns = np.divmod(before, self.shape.n_columns)
        wanted[rows - start, columns - first] = False
        rows, columns = np.nonzero(wanted)
        return self._without_itself(rows + start, columns + first)

    def _without_itself(self, rows: Indices, columns: Indices) -> tuple[Indices, Indices]:
        """Pairs of which none is a row with itself."""
        if not self.shape.within or self._both_ends:
            return rows, columns
        other = rows != columns
        return rows[other], columns[other]

    def info(self, started: float) -> Info:
        order = int(self.p) if float(self.p).is_integer() else self.p
        own: Info = {"estimate": "exact", "p": order, "rooted": order != 1}
        own |= {"n_pairs": self.shape.n_pairs, "n_exact": self.n_exact, "n_jobs": self.jobs}
        own |= {"n_columns": self.shape.n_columns, "seconds": time.perf_counter() - started}
        return {**self.solver.info, **self.made, **own}


def _among(keys: Indices, known: Indices) -> NDArray[np.bool_]:
    """Which of some keys (P,) are among sorted ones (S,), S ≥ 1."""
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.asarray(known[place] == keys)


class Best:
    """Keeps the K nearest of every row, or of some ``rows``; ``symmetric``: a pair is also one of its column."""

    def __init__(self, n_rows: int, n_neighbors: int, symmetric: bool, rows: tuple[int, int] | None = None) -> None:
        self._first, end = (0, n_rows) if rows is None else rows
        self._nearest = NearestOfRows(end - self._first, n_neighbors)
        self.distances, self.indices = self._nearest.distances, self._nearest.indices
        self._symmetric, self._n_rows = symmetric, n_rows

    def keep(self, rows: Indices, columns: Indices, values: Float) -> None:
        self._nearest.keep(rows - self._first, columns, values)
        if self._symmetric:
            self._nearest.keep(columns, rows, values)

    def limits(self) -> Limits:
        """Of all rows (n_rows,); 0 for those that are not kept."""
        if len(self.distances) == self._n_rows:
            return self.distances[:, -1], self.indices[:, -1]
        distances, indices = np.zeros(self._n_rows), np.zeros(self._n_rows, dtype=np.int64)
        own = slice(self._first, self._first + len(self.distances))
        distances[own], indices[own] = self.distances[:, -1], self.indices[:, -1]
        return distances, indices


class Edges:
    """Keeps the pairs within a radius."""

    def __init__(self, radius: float, n_rows: int, symmetric: bool) -> None:
        self._radius, self._symmetric, self._n_rows = radius, symmetric, n_rows
        self._parts: list[tuple[Indices, Indices, Float]] = []

    def keep(self, rows: Indices, columns: Indices, values: Float) -> None:
        near = values <= self._radius
        rows, columns, values = rows[near], columns[near], values[near]
        self._parts.append((rows, columns, values))
        if self._symmetric:
            self._parts.append((columns, rows, values))

    def limits(self) -> Limits:
        return np.full(self._n_rows, self._radius), np.full(self._n_rows, np.iinfo(np.int64).max)

    def sorted(self) -> tuple[Indices, Indices, Float]:
        nothing = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        rows, columns, values = (np.concatenate(part) for part in zip(nothing, *self._parts, strict=True))
        order = np.lexsort((columns, values, rows))
        return rows[order], columns[order], values[order]
