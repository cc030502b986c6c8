"""Where the values of a tile go, so that N² numbers only exist if someone wants N² numbers.

A sink is opened with the pair set and what is known about the run, accepts the solved tiles in pair order, and returns
anything. The engine calls it from one thread, so a sink needs no locks. Bounds and errors come with the values, in the
same tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot._typing import Float, Indices, Info
from asot.native import Doubles, Int, Ints, Record, entry
from asot.results.distances import Distances
from asot.results.neighbors import Neighbors
from asot.run import engine
from asot.run.executors import ProgressLike
from asot.run.pairs import AllPairs, ListedPairs, PairSet, tiles
from asot.run.protocols import EXTRAS, Notes, Sink, SinkBase, Solution, Solver, Tile, UsersSink
from asot.validation import as_positive_int, as_radius, check_sink, refuse_what_cannot_fit, to_float_array

__all__ = ["Callback", "Condensed", "Counts", "Dense", "Radius", "TopK"]  # what `asot.sinks` shows

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    Kept = TypeVarWithDefault("Kept", default=Distances)
else:
    Kept = TypeVar("Kept")
    """What a call returns: what its sink returns, or `Distances` without one."""


class Condensed(SinkBase[Distances]):
    """Every value, in pair order: the default, returned as `Distances`.

    ``extras`` names fields that the result has even if there are no pairs, such as "lower".
    """

    def __init__(self, allocate: Callable[[int, Any], NDArray[Any]] = np.empty, extras: tuple[str, ...] = ()) -> None:
        self._allocate, self._extras = allocate, extras
        self._checked = False

    def open(self, pairs: PairSet, info: Info) -> None:
        size = len(pairs)
        _refuse_large_result(size * (8 + 1 + 4))
        self._pairs = pairs
        self._values = self._allocate(size, np.float64)
        self._status = self._allocate(size, np.int8)
        self._n_iter = self._allocate(size, np.int32)
        self._more: dict[str, Any] = {name: self._allocate(size, np.float64) for name in self._extras}

    def accept(self, tile: Tile) -> None:
        solution = tile.solution
        own = slice(tile.start, tile.start + len(solution.values))
        self._values[own] = solution.values
        self._status[own] = solution.status
        self._n_iter[own] = solution.n_iter
        for name in EXTRAS:
            part = getattr(solution, name)
            if part is not None:
                self._extra(name)[own] = part

    def allocate_with(self, allocate: Callable[[int, Any], NDArray[Any]]) -> None:
        self._allocate = allocate if self._allocate is np.empty else self._allocate

    def tell_all_are_numbers(self) -> None:
        self._checked = True

    def room(self, start: int, stop: int, extras: tuple[str, ...]) -> Solution:
        own = slice(start, stop)
        more: dict[str, Any] = {name: self._extra(name)[own] for name in extras}
        return Solution(self._values[own], self._status[own], self._n_iter[own], **more)

    def _extra(self, name: str) -> NDArray[np.float64]:
        """The array (P,) of something that only some solvers report."""
        if name not in self._more:
            self._more[name] = self._allocate(len(self._values), np.float64)
        return self._more[name]

    def close(self, info: Info) -> Distances:
        more: dict[str, Any] = {**self._more, "info": info, "checked": self._checked}
        return Distances(self._values, self._status, self._n_iter, self._pairs, **more)


class Dense(SinkBase["NDArray[np.float64]"]):
    """The full matrix as an array: (N, N) for all pairs of one set, (N, M) for two sets.

    >>> import numpy as np, asot
    >>> asot.emd_many(np.eye(2), cost=1.0 - np.eye(2), sink=asot.sinks.Dense())
    array([[0., 1.],
           [1., 0.]])
    """

    only_values = True

    def open(self, pairs: PairSet, info: Info) -> None:
        if isinstance(pairs, ListedPairs):
            raise ValueError("a list of pairs does not fill a matrix; use the default sink")
        _refuse_large_result(8 * pairs.n_rows * pairs.n_columns)
        self._symmetric = pairs.symmetric
        self._matrix = np.zeros((pairs.n_rows, pairs.n_columns))

    def accept(self, tile: Tile) -> None:
        if self._symmetric:
            _place_in_upper_half(tile.start, tile.solution.values, self._matrix)
        else:
            flat = self._matrix.reshape(-1)
            flat[tile.start : tile.start + len(tile.solution.values)] = tile.solution.values

    def close(self, info: Info) -> NDArray[np.float64]:
        if self._symmetric:
            _mirror(self._matrix)
        return self._matrix


class TopK(SinkBase[Neighbors]):
    """The ``n_neighbors`` nearest columns of every row, as `Neighbors`. Within one set a row is not its own neighbor.

    >>> import numpy as np, asot
    >>> line = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    >>> asot.emd_many(np.eye(4), cost=line, sink=asot.sinks.TopK(1)).indices.ravel()
    array([1, 0, 1, 2])
    """

    def __init__(self, n_neighbors: int) -> None:
        self.n_neighbors = as_positive_int(n_neighbors, "n_neighbors")

    def open(self, pairs: PairSet, info: Info) -> None:
        if isinstance(pairs, ListedPairs):
            raise ValueError("nearest neighbors need all pairs or two sets, not a list of pairs")
        candidates = pairs.n_columns - pairs.symmetric
        if self.n_neighbors > candidates:
            raise ValueError(f"n_neighbors={self.n_neighbors}, but there are only {candidates} candidates for each row")
        _refuse_large_result(16 * pairs.n_rows * self.n_neighbors)
        self._symmetric = pairs.symmetric
        self._nearest = NearestOfRows(pairs.n_rows, self.n_neighbors)
        self._names: tuple[str, ...] = ()
        self._limits: NDArray[np.float64] | None = None

    def accept(self, tile: Tile) -> None:
        rows, columns = tile.indices()
        told = {name: getattr(tile.solution, name) for name in ("lower", "upper", "error")}
        more = [part for part in told.values() if part is not None]
        if len(more) > len(self._names):  # the first tile: nothing is kept yet
            self._names = tuple(name for name, part in told.items() if part is not None)
            self._nearest = NearestOfRows(*self._nearest.distances.shape, len(more))
        beside = np.stack(more, axis=1) if more else None
        for own, others in ((rows, columns), (columns, rows)) if self._symmetric else ((rows, columns),):
            self._nearest.keep(own, others, tile.solution.values, beside)
        if self._limits is not None:
            for changed in (rows, columns) if self._symmetric else (rows,):
                self._limits[changed] = self._nearest.distances[changed, -1]

    def limits(self) -> NDArray[np.float64]:
        """Per row (N,): the distance to the last neighbor so far. It changes with the next tile."""
        if self._limits is None:  # kept up from now on: reading all rows takes longer than solving a tile on a GPU
            self._limits = self._nearest.distances[:, -1].copy()
        return self._limits

    def close(self, info: Info) -> Neighbors:
        found, parts = self._nearest, np.moveaxis(self._nearest.beside, 2, 0)
        more: dict[str, Any] = {n: np.ascontiguousarray(part) for n, part in zip(self._names, parts, strict=True)}
        return Neighbors(found.indices, found.distances, info, **more)


class Radius(SinkBase[Any]):
    """All pairs within a distance, as a scipy.sparse matrix (N, N) or (N, M); scikit-learn reads it as a graph.

    Zero distances are kept as stored entries.

    >>> import numpy as np, asot
    >>> line = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    >>> graph = asot.emd_many(np.eye(4), cost=line, sink=asot.sinks.Radius(1.0))
    >>> graph.nnz
    6
    """

    only_values = True

    def __init__(self, radius: float) -> None:
        self.radius = as_radius(radius)

    def open(self, pairs: PairSet, info: Info) -> None:
        self._pairs = pairs
        self._found: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []

    def accept(self, tile: Tile) -> None:
        near = tile.solution.values <= self.radius
        rows, columns = tile.indices()
        self._found.append((rows[near], columns[near], tile.solution.values[near]))

    def limits(self) -> NDArray[np.float64]:
        return np.full(self._pairs.n_rows, self.radius)

    def close(self, info: Info) -> Any:
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
        _, order = np.unique(rows * shape[1] + columns, return_index=True)  # a pair that was listed twice is one edge
        rows, columns, values = rows[order], columns[order], values[order]
        indptr = np.searchsorted(rows, np.arange(shape[0] + 1))
        return sparse.csr_matrix((values, columns, indptr), shape=shape)


class Counts(SinkBase["NDArray[np.int64]"]):
    """How many distances fall between edges: counts (B,), with half-open bins except for the last, as in NumPy.

    >>> import numpy as np, asot
    >>> line = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    >>> asot.emd_many(np.eye(4), cost=line, sink=asot.sinks.Counts([0, 1, 2, 3]))
    array([0, 3, 3])
    """

    only_values = True

    def __init__(self, edges: ArrayLike) -> None:
        self.edges: NDArray[np.float64] = np.asarray(to_float_array(edges, "edges"), dtype=np.float64)
        if self.edges.ndim != 1 or len(self.edges) < 2 or not (np.diff(self.edges) > 0).all():
            raise ValueError("edges must be two or more increasing numbers")

    def open(self, pairs: PairSet, info: Info) -> None:
        self._counts = np.zeros(len(self.edges) - 1, dtype=np.int64)

    def accept(self, tile: Tile) -> None:
        self.add(np.histogram(tile.solution.values, self.edges)[0])

    def add(self, counts: NDArray[Any]) -> None:
        """Count a tile that was counted elsewhere."""
        self._counts += counts.astype(np.int64)

    def close(self, info: Info) -> NDArray[np.int64]:
        return self._counts


class Callback(SinkBase[None]):
    """Hand every tile to ``function(rows, columns, values)``, in pair order, and keep nothing.

    >>> import numpy as np, asot
    >>> seen = []
    >>> asot.emd_many(np.eye(3), cost=1.0 - np.eye(3), sink=asot.sinks.Callback(lambda i, j, w: seen.extend(w)))
    >>> len(seen)
    3
    """

    only_values = True

    def __init__(self, function: Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], object]) -> None:
        if not callable(function):
            raise ValueError(f"Callback needs a function of (rows, columns, values); found {function!r}")
        self.function = function

    def open(self, pairs: PairSet, info: Info) -> None:
        pass

    def accept(self, tile: Tile) -> None:
        self.function(*tile.indices(), tile.solution.values)

    def close(self, info: Info) -> None:
        return None


def default_sink(sink: Sink[Kept] | None, extras: tuple[str, ...] = ()) -> SinkBase[Kept]:
    """The sink of a call with all members that engines ask for; if none is given, `Condensed` with these extras."""
    if sink is None:
        return cast("SinkBase[Kept]", Condensed(extras=extras))
    if isinstance(sink, SinkBase):
        return sink
    check_sink(sink)
    return UsersSink(sink)


def distances_of(
    pairs: PairSet,
    solver: Solver,
    *,
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
    notes: Notes = engine.NOTHING,
) -> Distances:
    """Every pair, solved on this machine."""
    return engine.run(pairs, solver, Condensed(), engine.Resources(n_jobs, memory, progress), notes)


def _refuse_large_result(n_bytes: int) -> None:
    advice = "keep less of it with sink=asot.sinks.TopK(...), Radius(...) or Callback(...)"
    refuse_what_cannot_fit(n_bytes, "the result", advice)


def _place_in_upper_half(start: int, values: NDArray[np.float64], matrix: NDArray[np.float64]) -> None:
    """Write values from condensed position ``start`` on, a stretch of a row at a time."""
    order = AllPairs(len(matrix))
    position, stop = start, start + len(values)
    row = order.row_of(start)
    while position < stop:
        end = min(order.row_start(row + 1), stop)
        column = position - order.row_start(row) + row + 1
        matrix[row, column : column + end - position] = values[position - start : end - start]
        position, row = end, row + 1


def _mirror(matrix: NDArray[np.float64]) -> None:
    """Copy the upper half to the lower one, in blocks that a cache holds."""
    blocks = list(tiles(len(matrix), 512))
    for top, bottom in blocks:
        for left, right in blocks:
            if left > top:
                matrix[left:right, top:bottom] = matrix[top:bottom, left:right].T
        square = matrix[top:bottom, top:bottom]
        square += np.triu(square, 1).T


class NewNeighbors(Record, n=Int, extras=Int, rows=Ints, others=Ints, values=Doubles, beside=Doubles):
    """Distances that come in (``native/run/keep_nearest.cpp``)."""


class KeptNeighbors(Record, k=Int, extras=Int, distances=Doubles, indices=Ints, more=Doubles):
    """The nearest so far (``native/run/keep_nearest.cpp``)."""


_keep_nearest = entry("keep_nearest", NewNeighbors, KeptNeighbors)


class NearestOfRows:
    """The K nearest of every row so far (N, K): ascending, ties in order of index, and unused places at infinity.

    ``beside`` (N, K, extras) has whatever else is known about the pairs.
    """

    def __init__(self, n_rows: int, n_neighbors: int, extras: int = 0) -> None:
        self.distances = np.full((n_rows, n_neighbors), np.inf)
        self.indices = np.full((n_rows, n_neighbors), np.iinfo(np.int64).max)
        self.beside = np.empty((n_rows, n_neighbors, extras))

    def keep(self, rows: Indices, others: Indices, values: Float, beside: Float | None = None) -> None:
        """Insert each (value, other) into the list of its row; the largest falls off the end."""
        k, extras = self.beside.shape[1:]
        new = NewNeighbors(
            n=len(rows),
            extras=extras,
            rows=np.ascontiguousarray(rows, dtype=np.int64),
            others=np.ascontiguousarray(others, dtype=np.int64),
            values=np.ascontiguousarray(values, dtype=np.float64),
            beside=np.empty(0) if beside is None else np.ascontiguousarray(beside, dtype=np.float64),
        )
        kept = KeptNeighbors(k=k, extras=extras, distances=self.distances, indices=self.indices, more=self.beside)
        _keep_nearest(new, kept)
