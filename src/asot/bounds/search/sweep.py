"""The search itself: a first answer for every row, and then every pair that a bound does not exclude.

Work proceeds in rounds of rows whose size depends on the collection alone, so that neither the answer nor the pairs
that are solved under given bounds depend on the number of threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.bounds.search.cascade import Look, Shape
from asot.run import engine
from asot.run.pairs import AllPairs, CrossPairs, ListedPairs, PairSet
from asot.run.progress import Progress
from asot.run.sinks import Tile, keep_nearest
from asot.run.solver import Solver

Limits = tuple[NDArray[np.float64], NDArray[np.int64]]

_ROUND = 2**21
"""Pairs whose bounds are looked at before the distances found meanwhile are taken into account."""


@dataclass
class Search:
    """One search: whose pairs, what solves them, and the counts for the report."""

    shape: Shape
    solver: Solver
    jobs: int
    memory: int
    made: dict[str, Any]
    """What was prepared and measured, for the report."""
    p: float = 1.0
    n_exact: int = 0
    solved: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Sorted keys of the pairs that were solved before the sweep."""

    def keys(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.shape.within:
            rows, columns = np.minimum(rows, columns), np.maximum(rows, columns)
        return rows * self.shape.n_columns + columns

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], sink: Any) -> None:
        s = self.shape
        pairs = ListedPairs(np.stack([rows, columns], axis=1), s.n_rows, s.n_columns, symmetric=s.within)
        engine.run(pairs, self.solver, sink, n_jobs=self.jobs, memory=self.memory, progress=False)
        self.n_exact += len(rows)

    def solve_new(self, rows: NDArray[np.int64], columns: NDArray[np.int64], sink: Any) -> None:
        """Solve those of the pairs that were not solved before, each once."""
        keys = np.setdiff1d(self.keys(rows, columns), self.solved)
        if len(keys):
            self.solve(*np.divmod(keys, self.shape.n_columns), sink)
            self.solved = np.union1d(self.solved, keys)

    def solve_promising(self, look: Look, best: Best, count: int) -> None:
        """Solve the pairs that look nearest, in two rounds: K of each row, then those that may improve on them."""
        columns, bounds = look.nearest_by_bound(count, self.jobs)
        rows = np.broadcast_to(np.arange(self.shape.n_rows)[:, None], columns.shape)
        K = best.distances.shape[1]
        self.solve_new(rows[:, :K].ravel(), columns[:, :K].ravel(), best)
        hopeful = bounds[:, K:] <= best.distances[:, -1:]
        self.solve_new(rows[:, K:][hopeful], columns[:, K:][hopeful], best)
        self.made["n_promising"] = len(self.solved)

    def sweep(self, look: Look, limits: Callable[[], Limits], sink: Any, shown: Progress) -> None:
        """Solve every pair that the bounds do not rule out; ``limits`` returns the current limits of all rows."""
        s = self.shape
        start = 0
        while start < s.n_rows:
            width = s.n_columns - start - 1 if s.within else s.n_columns
            stop = min(s.n_rows, start + max(1, _ROUND // max(1, width)))
            distances, settled = limits()
            rows, columns = look.pairs_within(start, stop, distances, settled, self.jobs)
            keys = self.keys(rows, columns)
            place = np.minimum(np.searchsorted(self.solved, keys), max(0, len(self.solved) - 1))
            fresh = self.solved[place] != keys if len(self.solved) else np.ones(len(keys), dtype=np.bool_)
            self.solve(rows[fresh], columns[fresh], sink)
            done = stop - start
            shown.advance(done * s.n_columns if not s.within else done * (2 * s.n_rows - start - stop - 1) // 2)
            start = stop

    def solve_all(self, sink: Any, shown: Progress) -> None:
        """Brute force, for collections whose bounds rule out too little to pay off."""
        s = self.shape
        pairs: PairSet = AllPairs(s.n_rows) if s.within else CrossPairs(s.n_rows, s.n_columns)
        for tile in engine.solved_tiles(pairs, self.solver, self.jobs, self.memory):
            sink.accept(tile)
            shown.advance(len(tile.solution.values))
        self.n_exact = len(pairs)

    def info(self, started: float) -> dict[str, Any]:
        order = int(self.p) if float(self.p).is_integer() else self.p
        own: dict[str, Any] = {"estimate": "exact", "p": order, "rooted": order != 1}
        own |= {"n_pairs": self.shape.n_pairs, "n_exact": self.n_exact, "n_jobs": self.jobs}
        own |= {"n_columns": self.shape.n_columns, "seconds": time.perf_counter() - started}
        return {**self.solver.info, **self.made, **own}


class Best:
    """A sink that keeps the K nearest of every row over many runs."""

    def __init__(self, n_rows: int, n_neighbors: int, symmetric: bool) -> None:
        self.distances = np.full((n_rows, n_neighbors), np.inf)
        self.indices = np.full((n_rows, n_neighbors), np.iinfo(np.int64).max)
        self._kept = self.distances, self.indices, np.empty((n_rows, n_neighbors, 0))
        self._symmetric = symmetric

    def open(self, pairs: Any, info: dict[str, Any]) -> None:
        pass

    def accept(self, tile: Tile) -> None:
        rows, columns = tile.indices()
        keep_nearest(rows, columns, tile.solution.values, np.empty((len(rows), 0)), *self._kept)
        if self._symmetric:
            keep_nearest(columns, rows, tile.solution.values, np.empty((len(rows), 0)), *self._kept)

    def close(self, info: dict[str, Any]) -> None:
        pass

    def limits(self) -> Limits:
        return self.distances[:, -1], self.indices[:, -1]


class Edges:
    """A sink that keeps the pairs within a radius over many runs."""

    def __init__(self, radius: float, n_rows: int, symmetric: bool) -> None:
        self._radius, self._symmetric, self._n_rows = radius, symmetric, n_rows
        self._parts: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []

    def open(self, pairs: Any, info: dict[str, Any]) -> None:
        pass

    def accept(self, tile: Tile) -> None:
        near = tile.solution.values <= self._radius
        rows, columns = (index[near] for index in tile.indices())
        values = tile.solution.values[near]
        self._parts.append((rows, columns, values))
        if self._symmetric:
            self._parts.append((columns, rows, values))

    def close(self, info: dict[str, Any]) -> None:
        pass

    def limits(self) -> Limits:
        return np.full(self._n_rows, self._radius), np.full(self._n_rows, np.iinfo(np.int64).max)

    def sorted(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        nothing = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        rows, columns, values = (np.concatenate(part) for part in zip(nothing, *self._parts, strict=True))
        order = np.lexsort((columns, values, rows))
        return rows[order], columns[order], values[order]
