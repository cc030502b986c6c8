"""Is a cost the distance along a sparse graph? Then four arcs per pixel can stand for all pairs of pixels.

City-block distances between pixels, steps of a chess king, distances in a road network or a tree: each is the length of
a shortest path between neighbors. Whether a cost is one is decided by Bellman's equations. Let the neighbors of u be
the points with nothing between them and u. If for all u ≠ v

    C_uv = min over neighbors w of u of C_uw + C_wv

and lengths are positive, C is the distance along these arcs, since the equations have no other solution. So it is also
a metric. A symmetric cost needs only u < v: a path from u to v can be taken apart from either end, and so from the
smaller one. Checking takes k² / 2 comparisons per neighbor. Costs that are no such distance, like Euclidean ones, fail
in the first row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.jit.compiled import at, compiled, inlined
from asot.run.executors import Stop, local_executor
from asot.validation import is_symmetric

FEWEST = 256
"""Points from which a graph is looked for. Smaller problems are solved faster with all arcs."""

NEIGHBORS = 12
"""The most neighbors that a point may have."""

NEAREST = 12
"""They are first looked for among so many nearest points, which nearly always is enough."""

SLACK = 1e-11
"""Share of the largest cost by which all roundings along a path may add up."""

COSTS_PER_TILE = 2**22
"""What a thread checks at a time."""

_PART = 512  # columns whose best paths are kept at a time
_STRETCH = 64  # columns that are skipped together if none is near


class Graph(NamedTuple):
    """k points and their arcs, both ways: those of u are ``offsets[u]:offsets[u + 1]``."""

    offsets: NDArray[np.int64]  # (k + 1,)
    tails: NDArray[np.int32]  # (arcs,)
    heads: NDArray[np.int32]  # (arcs,)
    lengths: NDArray[np.float64]  # (arcs,)


def graph_of(cost: NDArray[np.float64], *, symmetric: bool = False, n_jobs: int = 1) -> Graph | None:
    """The graph along which a cost (k, k) is measured, or None if there is no sparse one.

    ``symmetric``: it is known to be.
    """
    k = len(cost)
    if k < FEWEST or cost.shape != (k, k) or not cost.flags.c_contiguous or np.diagonal(cost).any():
        return None
    slack = SLACK * float(cost[0].max()) / k  # the largest cost is at most twice as large
    arcs = _find_arcs(cost, slack, n_jobs, half=True)
    if arcs is not None and not _both_ways(*arcs):  # some were found from one end only
        arcs = _find_arcs(cost, slack, n_jobs, half=False)
    if arcs is None or not _both_ways(*arcs) or not (symmetric or is_symmetric(cost)):
        return None
    heads, counts = arcs
    tails = np.repeat(np.arange(k, dtype=np.int32), counts)
    lengths = cost[tails, heads]
    return Graph(np.concatenate([[0], np.cumsum(counts)]), tails, heads, lengths) if lengths.min() > 4 * slack else None


def _find_arcs(
    cost: NDArray[np.float64], slack: float, n_jobs: int, *, half: bool
) -> tuple[NDArray[np.int32], NDArray[np.int64]] | None:
    """Heads of all arcs, ordered by tail, and how many each tail has; None if they do not explain the cost."""
    k = len(cost)
    heads, counts = np.zeros((k, NEIGHBORS), dtype=np.int32), np.zeros(k, dtype=np.int64)

    def part(rows: tuple[int, int], stop: Stop) -> bool:
        return bool(_paths_explain(cost, slack, half, *rows, heads, counts))

    for holds in local_executor(n_jobs).map(part, _row_tiles(k)):
        if not holds:
            return None
    return heads[np.arange(NEIGHBORS) < counts[:, None]], counts


def _both_ways(heads: NDArray[np.int32], counts: NDArray[np.int64]) -> bool:
    tails, k = np.repeat(np.arange(len(counts)), counts), len(counts)
    return np.array_equal(np.sort(k * tails + heads), np.sort(k * heads.astype(np.int64) + tails))


def _row_tiles(k: int) -> Iterator[tuple[int, int]]:
    yield 0, 1
    step = 1 + COSTS_PER_TILE // k
    for first in range(1, k, step):
        yield first, min(first + step, k)


@inlined
def _nearest(row, u, k, near):  # type: ignore[no-untyped-def]
    """The `NEAREST` nearest points of u in ascending order; how many there are."""
    count = 0
    farthest = np.inf
    for begin in range(0, k, _STRETCH):
        size = min(_STRETCH, k - begin)
        nearer = 0
        for v in range(size):
            nearer |= row[at(begin, v)] < farthest
        if nearer == 0:
            continue
        for v in range(begin, begin + size):
            if row[v] < farthest and v != u:
                place = min(count, NEAREST - 1)
                count = min(count + 1, NEAREST)
                while place > 0 and row[near[place - 1]] > row[v]:
                    near[place] = near[place - 1]
                    place -= 1
                near[place] = v
                farthest = row[near[NEAREST - 1]] if count == NEAREST else np.inf
    return count


@inlined
def _nearest_unexplained(cost, slack, u, heads, count, low, best):  # type: ignore[no-untyped-def]
    """The nearest of the points from ``low`` on that no path over a known neighbor leads to, or -1."""
    row = cost[u]
    found = -1
    for begin in range(low, len(cost), _PART):
        size = min(_PART, len(cost) - begin)
        for v in range(size):
            best[at(0, v)] = np.inf
        for t in range(count):
            step = row[heads[u, t]]
            onward = cost[heads[u, t]]
            for v in range(size):
                length = step + onward[at(begin, v)]
                best[at(0, v)] = length if length < best[at(0, v)] else best[at(0, v)]
        if begin <= u < begin + size:
            best[u - begin] = 0.0
        wrong = 0
        for v in range(size):
            wrong |= abs(best[at(0, v)] - row[at(begin, v)]) > slack
        if wrong != 0:
            for v in range(size):
                if abs(best[v] - row[begin + v]) > slack and (found < 0 or row[begin + v] < row[found]):
                    found = begin + v
    return found


@compiled
def _paths_explain(cost, slack, half, first, last, heads, counts):  # type: ignore[no-untyped-def]
    """Find the neighbors of rows first..last-1, and whether every cost of these rows is that of a path over one.

    ``half``: only costs above the diagonal are looked at.
    """
    k = len(cost)
    near = np.empty(NEAREST, np.int64)
    best = np.empty(_PART)
    for u in range(first, last):
        row = cost[u]
        count = 0
        for s in range(_nearest(row, u, k, near)):
            between = False
            for t in range(count):
                between |= row[heads[u, t]] + cost[heads[u, t], near[s]] <= row[near[s]] + slack
            if not between:
                heads[u, count] = near[s]
                count += 1
        low = u + 1 if half else 0
        while True:
            v = _nearest_unexplained(cost, slack, u, heads, count, low, best)
            if v < 0:
                break
            low = 0
            v = _nearest_unexplained(cost, slack, u, heads, count, low, best)
            if count == NEIGHBORS:
                return False
            heads[u, count] = v
            count += 1
        counts[u] = count
    return True
