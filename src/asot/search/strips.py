"""A search for the neighbors of some rows, by itself: the piece of a search that a store keeps and a worker does.

A search of a whole collection looks at each pair once, for both of its ends. Strips know nothing of each other, so that
they can be done anywhere, in any order, and again. Each looks at its rows against all columns, so all strips of one
collection together look at every pair twice. The neighbors are the same, to the last bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from asot._typing import Float, Indices, Info
from asot.results.sinks import distances_of
from asot.run.executors import Stop
from asot.run.pairs import ListedPairs, tiles
from asot.search.sweep import Best, Look, Search

_ROUND = 2**22
"""Pairs that are looked at before the distances found meanwhile are taken into account."""


@dataclass(frozen=True)
class StripSearch:
    """Neighbors of ranges of rows. ``look`` has the bounds of the collection; None: brute force."""

    search: Search
    look: Look | None
    n_neighbors: int

    def nearest(self, low: int, high: int) -> tuple[Indices, Float]:
        """The nearest of the rows low..high-1: indices and distances (high - low, K), ascending, ties by index."""
        strip = _Strip(self.search, self.n_neighbors, low, high)
        look = None if self.look is None else self.look.from_one_end()
        if look is not None:
            strip.solve_promising(look)
        for start, stop in tiles(high, max(1, _ROUND // self.search.shape.n_columns), low):
            strip.solve_what_is_left(look, start, stop)
        self.search.n_exact += strip.n_solved
        return strip.best.indices, strip.best.distances


class Strip(NamedTuple):
    """The answer for a range of rows, from whatever process."""

    indices: Indices  # (rows, K)
    distances: Float  # (rows, K)
    n_exact: int  # pairs that were solved for it, those of its preparation included where it is the first of a process
    made: Info
    """What was used, for ``info``."""


@dataclass(frozen=True)
class SearchStrip:
    """Search a range of rows, in any process: the task of a cluster, and of a store."""

    prepare: Callable[[], StripSearch]

    @functools.cached_property
    def search(self) -> StripSearch:
        """Made once in every process."""
        return self.prepare()

    def __getstate__(self) -> dict[str, Any]:
        return {"prepare": self.prepare}

    def __call__(self, own: tuple[int, int], stop: Stop) -> Strip:
        search = self.search.search
        found = self.search.nearest(*own)
        counted, search.n_exact = search.n_exact, 0
        return Strip(*found, counted, search.made)


class _Strip:
    """The neighbors known so far of the rows low..high-1."""

    def __init__(self, search: Search, n_neighbors: int, low: int, high: int) -> None:
        self._search, self._low, self._high = search, low, high
        self.best = Best(high - low, n_neighbors, symmetric=False)
        self._solved = np.empty(0, dtype=np.int64)
        self.n_solved = 0

    def solve_promising(self, look: Look) -> None:
        """Solve the pairs that look nearest, in two rounds: K of each row, then those that may improve on them."""
        s, k = self._search.shape, self.best.distances.shape[1]
        count = min(s.n_columns, 2 * k + 8 + s.within)
        columns, bounds = look.nearest_by_bound(self._low, self._high, count, self._search.jobs)
        rows = np.broadcast_to(np.arange(self._low, self._high)[:, None], columns.shape)
        first = k + s.within  # a row finds itself
        solved = [self._solve(rows[:, :first].ravel(), columns[:, :first].ravel())]
        hopeful = bounds[:, first:] <= self.best.distances[:, -1:]
        solved.append(self._solve(rows[:, first:][hopeful], columns[:, first:][hopeful]))
        self._solved = np.concatenate(solved)

    def solve_what_is_left(self, look: Look | None, start: int, stop: int) -> None:
        """Solve what the bounds do not exclude of the rows start..stop-1."""
        s = self._search.shape
        if look is None:
            rows, columns = np.divmod(np.arange(start * s.n_columns, stop * s.n_columns), s.n_columns)
        else:
            limits, settled = np.zeros(s.n_rows), np.zeros(s.n_rows, dtype=np.int64)
            own = slice(self._low, self._high)
            limits[own], settled[own] = self.best.limits()
            rows, columns, _ = look.pairs_within(start, stop, limits, settled, self._search.jobs)
        self._solve(rows, columns)

    def _solve(self, rows: Indices, columns: Indices) -> Indices:
        """Solve the pairs that were not solved as promising, and return their keys."""
        search, s = self._search, self._search.shape
        if s.within:
            rows, columns = rows[rows != columns], columns[rows != columns]
        keys = rows * s.n_columns + columns
        fresh = ~np.isin(keys, self._solved)
        rows, columns, keys = rows[fresh], columns[fresh], keys[fresh]
        if len(keys) == 0:
            return keys
        pairs = ListedPairs(np.stack([rows, columns], axis=1), s.n_rows, s.n_columns, symmetric=s.within)
        run = distances_of(pairs, search.solver, n_jobs=search.jobs, memory=search.memory, progress=False)
        self.n_solved += len(keys)
        self.best.keep(rows - self._low, columns, run.values)
        return keys
