"""A search that finds a stated share of the neighbors: candidates by vectors, exact solves of those, a measurement.

Where no lower bound rules out a pair, certainty means brute force. Here each row looks only at the columns whose
vectors are nearest (`energy`), and solves those exactly: distances are always right, but a neighbor may be missing. How
many candidates it takes is measured: some held-out rows are solved against all columns, and their true neighbors say
how far down the list of candidates one has to look.

The neighbors of n held-out rows are n K ranks. The r-th smallest of them, r = ⌈recall (n K + 1)⌉, is on average above
the stated share of all ranks, so that is where the lists end. At least three of the ranks lie behind it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.bounds.search.cascade import Shape
from asot.bounds.search.sweep import Best, Search
from asot.run.executors import Stop, in_threads
from asot.run.pairs import tiles
from asot.run.products import one_thread_per_product

_MISSED = 3  # neighbors of held-out rows that lists of candidates leave out, or more
_FEWEST = 12  # held-out rows
_LOOKS = 2**20  # pairs that one piece of work of a thread looks at
_SOLVES = 2**16  # pairs that are collected before they are solved
_NORMAL = 1.96  # two-sided, 95 %

Float = NDArray[np.float64]
Indices = NDArray[np.int64]


def as_recall(recall: Any, prune: Any, space: Any, sink: Any) -> float | None:
    """``recall=`` of a call, and a refusal of what does not go with it."""
    if recall is None:
        return None
    if isinstance(recall, bool) or not isinstance(recall, (int, float, np.number)) or not 0 < recall < 1:
        raise ValueError(
            f"recall is the share of the neighbors to find, a number between 0 and 1; found {recall!r}. "
            "Leave it out to find all of them"
        )
    if space is not None or prune != "auto":
        raise ValueError("recall= looks for candidates without bounds; leave out prune= and space=, or recall=")
    if sink is not None:
        raise ValueError("a store keeps certain neighbors; leave out recall=, or sink=")
    return float(recall)


def choose_held_out(shape: Shape, n_neighbors: int, recall: float, seed: int) -> Indices | None:
    """Rows to measure on, ascending; None if there are too few rows or columns for anything but a certain search."""
    count = max(_FEWEST, -(-_MISSED // ((1.0 - recall) * n_neighbors)))
    if 2 * count > shape.n_rows or shape.n_columns < 8 * n_neighbors:
        return None
    return np.asarray(np.sort(np.random.default_rng(seed).choice(shape.n_rows, int(count), replace=False)))


class Candidates:
    """Columns in the order of how near their vectors are; equally near ones in order of index."""

    def __init__(self, vectors: Float, shape: Shape, n_jobs: int) -> None:
        self._rows = vectors[: shape.n_rows]
        self._columns = vectors[shape.column_start : shape.column_start + shape.n_columns]
        self._squares = np.einsum("ij,ij->i", self._columns, self._columns)
        self._within, self._jobs = shape.within, n_jobs
        self._piece = max(1, _LOOKS // shape.n_columns)

    def nearest(self, start: int, stop: int, count: int) -> Indices:
        """The first ``count`` columns (stop - start, count) of each of the rows start..stop-1, in any order."""
        found = np.empty((stop - start, count), dtype=np.int64)

        def piece(own: tuple[int, int], _: Stop) -> None:
            found[own[0] - start : own[1] - start] = _smallest(self._gaps(np.arange(*own)), count)

        with one_thread_per_product():
            in_threads(piece, tiles(stop, self._piece, start), self._jobs)
        return found

    def ranks(self, rows: Indices, columns: Indices) -> Indices:
        """How many columns are nearer to rows[t] than columns[t] is (P,)."""
        ranks = np.empty(len(rows), dtype=np.int64)

        def piece(own: tuple[int, int], _: Stop) -> None:
            part = slice(*own)
            gaps, column = self._gaps(rows[part]), columns[part, None]
            value = np.take_along_axis(gaps, column, axis=1)
            before = (gaps == value) & (np.arange(gaps.shape[1]) < column)
            ranks[part] = np.count_nonzero((gaps < value) | before, axis=1)

        with one_thread_per_product():
            in_threads(piece, tiles(len(rows), self._piece), self._jobs)
        return ranks

    def _gaps(self, rows: Indices) -> Float:
        """|x - y|² - |x|² of some rows to all columns (R, M): integers, without rounding."""
        gaps = self._rows[rows] @ self._columns.T
        gaps *= -2.0
        gaps += self._squares
        if self._within:
            gaps[np.arange(len(rows)), rows] = np.inf
        return np.asarray(gaps)


def _smallest(values: Float, count: int) -> Indices:
    """Places (R, count) of the smallest values of each row; of equal ones the first."""
    last = np.partition(values, count - 1, axis=1)[:, count - 1, None]
    chosen = values <= last
    for row in np.flatnonzero(np.count_nonzero(chosen, axis=1) > count):
        equal = np.flatnonzero(values[row] == last[row])
        chosen[row, equal[count - np.count_nonzero(chosen[row]) :]] = False
    return np.asarray(np.nonzero(chosen)[1].reshape(len(values), count))


def search_with_recall(
    search: Search, candidates: Candidates, held_out: Indices, best: Best, recall: float
) -> dict[str, Any]:
    """Fill ``best`` and tell what was measured."""
    shape, n_neighbors = search.shape, best.distances.shape[1]
    every = np.arange(shape.n_columns)
    for start, stop in tiles(len(held_out), max(1, _SOLVES // shape.n_columns)):
        rows = np.repeat(held_out[start:stop], shape.n_columns)
        columns = np.tile(every, stop - start)
        other = rows != columns if shape.within else slice(None)
        search.solve_new(rows[other], columns[other], best)
    ranks = _ranks_of_neighbors(candidates, held_out, best.indices[held_out], shape.within)
    place = int(np.ceil(recall * (ranks.size + 1)))
    count = max(n_neighbors, int(np.sort(ranks, axis=None)[place - 1]) + 1)
    if 2 * count >= shape.n_columns:
        search.sweep(None, best)
        return all_were_found(recall, shape.n_columns - shape.within)
    for start, stop in tiles(shape.n_rows, max(1, _SOLVES // count)):
        columns = candidates.nearest(start, stop, count)
        search.solve_new(np.repeat(np.arange(start, stop), count), columns.ravel(), best)
    search.shown.advance(shape.n_pairs - search.n_exact)
    record = {"asked": recall, "held_out_queries": len(held_out), "candidates": count}
    return record | _measured(np.count_nonzero(ranks < count, axis=1), n_neighbors)


def all_were_found(recall: float, n_candidates: int) -> dict[str, Any]:
    """What to tell where every pair was solved, or ruled out for certain."""
    exact = {"measured": 1.0, "interval": (1.0, 1.0)}
    return {"asked": recall, "held_out_queries": 0, "candidates": n_candidates, **exact}


def _ranks_of_neighbors(candidates: Candidates, rows: Indices, neighbors: Indices, within: bool) -> Indices:
    """Ranks (n, K) of the true neighbors of some rows; within a collection, a pair is found from both of its ends."""
    near = neighbors.ravel()
    own = np.repeat(rows, neighbors.shape[1])
    ranks = candidates.ranks(own, near)
    if within:
        ranks = np.minimum(ranks, candidates.ranks(near, own))
    return ranks.reshape(neighbors.shape)


def _measured(found: Indices, n_neighbors: int) -> dict[str, Any]:
    """The share of neighbors that were found, from counts of each row (n,), and Wilson's 95 % interval.

    Neighbors of one row are missed together, so they count as fewer independent ones, as the spread between rows tells.
    """
    shares = found / n_neighbors
    share, n = float(shares.mean()), float(found.size * n_neighbors)
    spread = float(shares.var(ddof=1)) / found.size
    if spread > 0:
        n = min(n, share * (1.0 - share) / spread)
    scale = 1.0 + _NORMAL**2 / n
    middle = (share + _NORMAL**2 / (2.0 * n)) / scale
    half = _NORMAL / scale * float(np.sqrt(share * (1.0 - share) / n + _NORMAL**2 / (4.0 * n**2)))
    return {"measured": share, "interval": (max(0.0, middle - half), min(1.0, middle + half))}
