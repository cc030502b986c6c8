"""Where the values of a tile go, so that N² numbers exist only when somebody wants N² numbers.

A sink is opened with the pair set, accepts the solved tiles in pair order, and returns the result. The engine calls it
from one thread, so a sink needs no locks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from asot.compiled import compiled
from asot.pairs import ListedPairs, PairSet
from asot.result import Distances, Neighbors
from asot.solvers.base import Solution
from asot.validation import as_positive_int, refuse_what_cannot_fit


@dataclass(frozen=True)
class Tile:
    """The pairs start..start+len-1 of a pair set, solved."""

    start: int
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    solution: Solution


class Sink(Protocol):
    def open(self, pairs: PairSet) -> None: ...
    def accept(self, tile: Tile) -> None: ...
    def close(self, info: dict[str, Any]) -> Any: ...


class Condensed:
    """Every value, in pair order: the default, returned as `Distances`."""

    def open(self, pairs: PairSet) -> None:
        size = len(pairs)
        _refuse_large_result(size * (8 + 1 + 4))
        self._pairs = pairs
        self._values = np.empty(size)
        self._status = np.empty(size, dtype=np.int8)
        self._n_iter = np.empty(size, dtype=np.int32)
        self._more: dict[str, NDArray[np.float64]] = {}

    def accept(self, tile: Tile) -> None:
        own = slice(tile.start, tile.start + len(tile.rows))
        self._values[own] = tile.solution.values
        self._status[own] = tile.solution.status
        self._n_iter[own] = tile.solution.n_iter
        for name in ("marginal_error", "lower", "upper", "error"):
            part = getattr(tile.solution, name)
            if part is not None:
                self._more.setdefault(name, np.empty(len(self._values)))[own] = part

    def close(self, info: dict[str, Any]) -> Distances:
        return Distances(self._values, self._status, self._n_iter, self._pairs, **self._more, info=info)


class Dense:
    """The full matrix as an array: (N, N) for all pairs of one set, (N, M) for two sets.

    >>> import numpy as np, asot
    >>> asot.emd_many(np.eye(2), cost=1.0 - np.eye(2), sink=asot.sinks.Dense())
    array([[0., 1.],
           [1., 0.]])
    """

    def open(self, pairs: PairSet) -> None:
        if isinstance(pairs, ListedPairs):
            raise ValueError("a list of pairs does not fill a matrix; use the default sink")
        _refuse_large_result(8 * pairs.n_rows * pairs.n_columns)
        self._symmetric = pairs.symmetric
        self._matrix = np.zeros((pairs.n_rows, pairs.n_columns))

    def accept(self, tile: Tile) -> None:
        self._matrix[tile.rows, tile.columns] = tile.solution.values
        if self._symmetric:
            self._matrix[tile.columns, tile.rows] = tile.solution.values

    def close(self, info: dict[str, Any]) -> NDArray[np.float64]:
        return self._matrix


class TopK:
    """The ``n_neighbors`` nearest columns of every row, as `Neighbors`. Within one set a row is not its own neighbour.

    >>> import numpy as np, asot
    >>> line = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    >>> asot.emd_many(np.eye(4), cost=line, sink=asot.sinks.TopK(1)).indices.ravel()
    array([1, 0, 1, 2])
    """

    def __init__(self, n_neighbors: int) -> None:
        self.n_neighbors = as_positive_int(n_neighbors, "n_neighbors")

    def open(self, pairs: PairSet) -> None:
        if isinstance(pairs, ListedPairs):
            raise ValueError("nearest neighbours need all pairs or two sets, not a list of pairs")
        candidates = pairs.n_columns - pairs.symmetric
        if self.n_neighbors > candidates:
            raise ValueError(f"n_neighbors={self.n_neighbors}, but there are only {candidates} candidates for each row")
        shape = (pairs.n_rows, self.n_neighbors)
        _refuse_large_result(16 * shape[0] * shape[1])
        self._symmetric = pairs.symmetric
        self._distances = np.full(shape, np.inf)
        self._indices = np.full(shape, np.iinfo(np.int64).max)

    def accept(self, tile: Tile) -> None:
        keep_nearest(tile.rows, tile.columns, tile.solution.values, self._distances, self._indices)
        if self._symmetric:
            keep_nearest(tile.columns, tile.rows, tile.solution.values, self._distances, self._indices)

    def close(self, info: dict[str, Any]) -> Neighbors:
        return Neighbors(self._indices, self._distances, info)


class Radius:
    """All pairs within a distance, as a scipy.sparse matrix (N, N) or (N, M); scikit-learn reads it as a graph.

    Zero distances are kept as stored entries.

    >>> import numpy as np, asot
    >>> line = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    >>> graph = asot.emd_many(np.eye(4), cost=line, sink=asot.sinks.Radius(1.0))
    >>> graph.nnz
    6
    """

    def __init__(self, radius: float) -> None:
        if not np.isfinite(radius) or radius < 0:
            raise ValueError(f"radius must be a number ≥ 0; found {radius!r}")
        self.radius = float(radius)

    def open(self, pairs: PairSet) -> None:
        self._pairs = pairs
        self._found: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []

    def accept(self, tile: Tile) -> None:
        near = tile.solution.values <= self.radius
        self._found.append((tile.rows[near], tile.columns[near], tile.solution.values[near]))

    def close(self, info: dict[str, Any]) -> Any:
        from scipy import sparse

        nothing = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        rows, columns, values = (np.concatenate(parts) for parts in zip(nothing, *self._found, strict=True))
        if self._pairs.symmetric:
            off = rows != columns  # a listed (i, i) must not be doubled
            rows, columns, values = (
                np.concatenate([rows, columns[off]]),
                np.concatenate([columns, rows[off]]),
                np.concatenate([values, values[off]]),
            )
        shape = (self._pairs.n_rows, self._pairs.n_columns)
        order = np.lexsort((columns, rows))
        rows, columns, values = rows[order], columns[order], values[order]
        fresh = np.ones(len(rows), dtype=bool)  # a pair that was listed twice is one edge
        fresh[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
        rows, columns, values = rows[fresh], columns[fresh], values[fresh]
        indptr = np.searchsorted(rows, np.arange(shape[0] + 1))
        return sparse.csr_matrix((values, columns, indptr), shape=shape)


class Callback:
    """Hand every tile to ``function(rows, columns, values)``, in pair order, and keep nothing.

    >>> import numpy as np, asot
    >>> seen = []
    >>> asot.emd_many(np.eye(3), cost=1.0 - np.eye(3), sink=asot.sinks.Callback(lambda i, j, w: seen.extend(w)))
    >>> len(seen)
    3
    """

    def __init__(self, function: Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], object]) -> None:
        if not callable(function):
            raise ValueError(f"Callback needs a function of (rows, columns, values); found {function!r}")
        self.function = function

    def open(self, pairs: PairSet) -> None:
        pass

    def accept(self, tile: Tile) -> None:
        self.function(tile.rows, tile.columns, tile.solution.values)

    def close(self, info: dict[str, Any]) -> None:
        return None


def _refuse_large_result(n_bytes: int) -> None:
    advice = "keep less of it with sink=asot.sinks.TopK(...), Radius(...) or Callback(...)"
    refuse_what_cannot_fit(n_bytes, "the result", advice)


@compiled
def keep_nearest(rows, others, values, distances, indices):  # type: ignore[no-untyped-def]
    """Insert each (value, other) into its row's list sorted by (distance, index); the largest falls off the end."""
    last = distances.shape[1] - 1
    for t in range(len(rows)):
        row = rows[t]
        value = values[t]
        other = others[t]
        if value > distances[row, last] or (value == distances[row, last] and other > indices[row, last]):
            continue
        place = last
        while place > 0 and (
            distances[row, place - 1] > value
            or (distances[row, place - 1] == value and indices[row, place - 1] > other)
        ):
            distances[row, place] = distances[row, place - 1]
            indices[row, place] = indices[row, place - 1]
            place -= 1
        distances[row, place] = value
        indices[row, place] = other
