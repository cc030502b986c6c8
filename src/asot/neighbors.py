"""Nearest neighbours under the exact W_1, certain, while only a small share of the pairs is solved (docs/method.md §9).

A pair whose lower bound exceeds the K-th best distance of a query cannot be among its K nearest. So: look at all pairs
through bounds that cost a hundredth of a solve (`asot.bounds.search`), solve those that look nearest to have a first
K-th best distance for every query, and then solve every pair that a bound does not exclude. The answer equals
brute force over `pairwise_exact`, ties included; only the number of solves depends on how good the bounds are.

Work proceeds in rounds of rows whose size depends on the collection alone, so that the pairs that are solved, and not
only the answer, are the same for any number of threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.bounds.search.cascade import Cascade
from asot.bounds.search.choose import prepare_cascade
from asot.data.distinct import sparse_histograms
from asot.data.distributions import Distributions, as_distributions
from asot.exact.points import ExactPoints
from asot.jit.metrics import prepare_metric
from asot.run import engine
from asot.run.pairs import ListedPairs
from asot.run.progress import Progress, ProgressLike
from asot.run.result import Neighbors, neighbor_graph
from asot.run.sinks import Tile, keep_nearest
from asot.validation import as_bytes, as_n_jobs, as_positive_int

Limits = tuple[NDArray[np.float64], NDArray[np.int64]]

_ROUND = 2**21
"""Pairs whose bounds are looked at before the distances found meanwhile are taken into account."""


def kneighbors(
    Q: Distributions,
    D: Distributions | int | None = None,
    n_neighbors: int = 5,
    *,
    space: Any = None,
    metric: str = "euclidean",
    metric_params: dict[str, Any] | None = None,
    bounds: str | bool = "auto",
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
    random_state: Any = None,
) -> Neighbors:
    """The nearest distributions of each query under the exact W_1: what brute force over `pairwise_exact` would find.

    Parameters
    ----------
    Q : Distributions (N)
        The queries. Or a list of point arrays (n_i, d).
    D : Distributions (M), optional
        Where to look for neighbours. None, or the same object as Q: within Q, where no distribution is its own
        neighbour. (Equal ones are neighbours at distance 0.) A number here is `n_neighbors`: ``kneighbors(D, 10)``.
    n_neighbors : int
    space : AnchorSpace or anchor learner, optional
        Anchors that carry further lower bounds (see ``bounds="potentials"``). A learner that is not fitted is fitted (a
        copy of it) on the collection. A learned space lends the nearest anchors it began with. Euclidean metric only.
        The answer does not depend on it.
    metric, metric_params
        Ground metric, as in `pairwise_exact`.
    bounds : {"auto", "projections", "potentials", "all"}
        Which lower bounds exclude pairs: sorted projections (for metrics that are norms), a pool of dual potentials
        (for every metric), or both. "auto": projections where they are proven, else potentials; with a space, both.
        The answer does not depend on it, only how many pairs are solved. True and False mean "auto": the distances of
        neighbours are exact, and need no bounds of their own.
    n_jobs, memory, progress
        As in `pairwise_exact`.
    random_state : int, RandomState or None
        Which pairs the pool of potentials comes from. The answer does not depend on it.

    Returns
    -------
    Neighbors
        ``indices`` and ``distances`` (N, n_neighbors), ascending, ties in order of index; ``n_exact``, the number of
        pairs that were solved; ``graph()``, a sparse matrix for scikit-learn's ``metric="precomputed"``.

    Examples
    --------
    >>> import asot
    >>> from asot.datasets import load_digits
    >>> digits, labels, _ = load_digits(200)
    >>> found = asot.kneighbors(digits, n_neighbors=3)
    >>> found.indices[0], found.distances[0].round(4)
    (array([160,  36, 140]), array([0.0304, 0.032 , 0.0326]))
    >>> brute = asot.pairwise_exact(digits, sink=asot.sinks.TopK(3))
    >>> bool((found.indices == brute.indices).all()), found.n_exact < 0.3 * 200 * 199 / 2
    (True, True)
    """
    if isinstance(D, (int, np.integer)):
        n_neighbors, D = int(D), None
    K = as_positive_int(n_neighbors, "n_neighbors")
    started = time.perf_counter()
    search = _prepare(Q, D, space, metric, metric_params, bounds, n_jobs, memory, random_state)
    candidates = search.cascade.n_columns - search.cascade.within
    if candidates < K:
        raise ValueError(f"n_neighbors={K}, but there are only {candidates} candidates for each query")
    best = _Best(search.cascade.n_rows, K, search.cascade.within)
    shown = Progress(progress, search.n_pairs, "pairs")
    try:
        _solve_promising(search, best, min(candidates, 2 * K + 8))
        search.sweep(lambda: (best.distances[:, -1], best.indices[:, -1]), best, shown)
    finally:
        shown.close()
    return Neighbors(best.indices, best.distances, search.info(started), n_exact=search.n_exact, names=_names(Q, D))


@dataclass(frozen=True, eq=False)
class RadiusNeighbors:
    """All columns within a distance of every row.

    Row i has the columns ``indices[indptr[i]:indptr[i + 1]]`` at ``distances[indptr[i]:indptr[i + 1]]``, nearest first,
    ties in order of index.
    """

    indptr: NDArray[np.int64]  # (N + 1,)
    indices: NDArray[np.int64]  # (edges,)
    distances: NDArray[np.float64]  # (edges,)
    n_exact: int
    """Pairs that were solved exactly."""
    info: dict[str, Any] = field(default_factory=dict, repr=False)
    names: tuple[NDArray[Any] | None, NDArray[Any] | None] = field(default=(None, None), repr=False)

    @property
    def ids(self) -> NDArray[Any]:
        """Names of the rows (N,)."""
        return np.arange(len(self)) if self.names[0] is None else self.names[0]

    @property
    def neighbor_ids(self) -> NDArray[Any]:
        """Names of the neighbours (edges,), in the order of `indices`."""
        return self.indices if self.names[1] is None else self.names[1][self.indices]

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __repr__(self) -> str:
        return f"RadiusNeighbors: {len(self.indices):,} neighbors of {len(self):,}; {self.n_exact:,} pairs solved"

    def graph(self) -> Any:
        """The distances as scipy.sparse.csr_matrix (N, M), zeros stored, as scikit-learn's "precomputed" reads it."""
        return neighbor_graph(self.indptr, self.indices, self.distances, self.info["n_columns"])


def radius_neighbors(
    Q: Distributions,
    D: Distributions | None = None,
    radius: float = 1.0,
    *,
    space: Any = None,
    metric: str = "euclidean",
    metric_params: dict[str, Any] | None = None,
    bounds: str | bool = "auto",
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
    random_state: Any = None,
) -> RadiusNeighbors:
    """All distributions within a distance of each query under the exact W_1; the twin of `kneighbors`.

    Parameters
    ----------
    radius : float
        Pairs with W_1 ≤ radius are found.
    Q, D, space, metric, metric_params, bounds, n_jobs, memory, progress, random_state
        As in `kneighbors`.

    Examples
    --------
    >>> import asot
    >>> D = asot.Distributions.from_list([[[0.0]], [[1.0]], [[5.0]], [[1.5]]])
    >>> found = asot.radius_neighbors(D, radius=1.5)
    >>> found.graph().toarray()
    array([[0. , 1. , 0. , 1.5],
           [1. , 0. , 0. , 0.5],
           [0. , 0. , 0. , 0. ],
           [1.5, 0.5, 0. , 0. ]])
    """
    if isinstance(radius, bool) or not isinstance(radius, (int, float, np.number)) or not 0 <= radius < np.inf:
        raise ValueError(f"radius must be a number ≥ 0; found {radius!r}")
    started = time.perf_counter()
    search = _prepare(Q, D, space, metric, metric_params, bounds, n_jobs, memory, random_state)
    found = _Edges(float(radius), search.cascade.within)
    limits = np.full(search.cascade.n_rows, float(radius))
    nobody = np.full(search.cascade.n_rows, np.iinfo(np.int64).max)
    shown = Progress(progress, search.n_pairs, "pairs")
    try:
        search.sweep(lambda: (limits, nobody), found, shown)
    finally:
        shown.close()
    rows, columns, values = found.sorted()
    indptr = np.searchsorted(rows, np.arange(search.cascade.n_rows + 1))
    return RadiusNeighbors(indptr, columns, values, search.n_exact, search.info(started), _names(Q, D))


# ---------------------------------------------------------------------------------------------------------- the search


def _names(Q: Any, D: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ids of the queries and of the collection."""
    own = as_distributions(Q).ids
    return own, own if D is None else as_distributions(D).ids


def _prepare(
    Q: Any, D: Any, space: Any, metric: str, parameters: Any, bounds: Any, n_jobs: Any, memory: Any, random_state: Any
) -> _Search:
    first = as_distributions(Q)
    second = None if D is None or D is Q else as_distributions(D)
    if second is not None and second.dim != first.dim:
        raise ValueError(
            f"the queries are in {first.dim} dimensions and the collection in {second.dim}; they must share one space"
        )
    jobs, budget = as_n_jobs(n_jobs), as_bytes(memory, engine.DEFAULT_MEMORY)
    pooled = first if second is None else first + second
    histograms = sparse_histograms(pooled)
    ground = prepare_metric(histograms.points, metric, parameters)
    start = 0 if second is None else len(first)
    solver = ExactPoints(histograms, ground, column_start=start)
    shape = len(first), len(first) if second is None else len(second), start, second is None
    cascade, made = prepare_cascade(pooled, histograms, ground, shape, bounds, space, jobs, budget // 2, random_state)
    return _Search(cascade, solver, jobs, budget // 2, made["n_exact"], made)


@dataclass
class _Search:
    """One search: its bounds, its solver, and the counts for the report."""

    cascade: Cascade
    solver: ExactPoints
    jobs: int
    memory: int
    n_exact: int
    made: dict[str, Any]
    solved: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Sorted keys of the pairs that were solved before the sweep."""

    @property
    def n_pairs(self) -> int:
        c = self.cascade
        return c.n_rows * (c.n_rows - 1) // 2 if c.within else c.n_rows * c.n_columns

    def keys(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.cascade.within:
            rows, columns = np.minimum(rows, columns), np.maximum(rows, columns)
        return rows * self.cascade.n_columns + columns

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], sink: Any) -> None:
        c = self.cascade
        pairs = ListedPairs(np.stack([rows, columns], axis=1), c.n_rows, c.n_columns, symmetric=c.within)
        engine.run(pairs, self.solver, sink, n_jobs=self.jobs, memory=self.memory, progress=False)
        self.n_exact += len(rows)

    def solve_new(self, rows: NDArray[np.int64], columns: NDArray[np.int64], sink: Any) -> None:
        """Solve those of the pairs that were not solved before, each once."""
        keys = np.setdiff1d(self.keys(rows, columns), self.solved)
        self.solve(*np.divmod(keys, self.cascade.n_columns), sink)
        self.solved = np.union1d(self.solved, keys)

    def sweep(self, limits: Callable[[], Limits], sink: Any, shown: Progress) -> None:
        """Solve every pair that the bounds do not exclude; ``limits`` tells those of all rows as of now."""
        c = self.cascade
        start = 0
        while start < c.n_rows:
            width = c.n_columns - start - 1 if c.within else c.n_columns
            stop = min(c.n_rows, start + max(1, _ROUND // max(1, width)))
            distances, settled = limits()
            rows, columns = c.pairs_within(start, stop, distances, settled, self.jobs)
            keys = self.keys(rows, columns)
            place = np.minimum(np.searchsorted(self.solved, keys), max(0, len(self.solved) - 1))
            fresh = self.solved[place] != keys if len(self.solved) else np.ones(len(keys), dtype=np.bool_)
            self.solve(rows[fresh], columns[fresh], sink)
            done = stop - start
            shown.advance(done * c.n_columns if not c.within else done * (2 * c.n_rows - start - stop - 1) // 2)
            start = stop

    def info(self, started: float) -> dict[str, Any]:
        own = {"estimate": "exact", "p": 1, "n_pairs": self.n_pairs, "n_exact": self.n_exact, "n_jobs": self.jobs}
        own |= {"n_columns": self.cascade.n_columns, "seconds": time.perf_counter() - started}
        return {**self.solver.info, **self.made, **own}


def _solve_promising(search: _Search, best: _Best, count: int) -> None:
    """Solve the pairs that look nearest, in two rounds: K of each query, then those that may still improve on them."""
    c = search.cascade
    columns, bounds = c.nearest_by_bound(count, search.jobs)
    rows = np.broadcast_to(np.arange(c.n_rows)[:, None], columns.shape)
    K = best.distances.shape[1]
    search.solve_new(rows[:, :K].ravel(), columns[:, :K].ravel(), best)
    hopeful = bounds[:, K:] <= best.distances[:, -1:]
    search.solve_new(rows[:, K:][hopeful], columns[:, K:][hopeful], best)
    search.made["n_promising"] = len(search.solved)


class _Best:
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


class _Edges:
    """A sink that keeps the pairs within a radius over many runs."""

    def __init__(self, radius: float, symmetric: bool) -> None:
        self._radius, self._symmetric = radius, symmetric
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

    def sorted(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        nothing = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        rows, columns, values = (np.concatenate(part) for part in zip(nothing, *self._parts, strict=True))
        order = np.lexsort((columns, values, rows))
        return rows[order], columns[order], values[order]
