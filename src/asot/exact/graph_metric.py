"""Is a cost the distance along a sparse graph? Then four arcs per pixel can stand for all pairs of pixels.

City-block distances between pixels, steps of a chess king, distances in a road network or a tree: each is the length of
a shortest path between neighbors. Whether a cost is one is decided by Bellman's equations. Let the neighbors of u be
the points with nothing between them and u. If for all u ≠ v

    C_uv = min over neighbors w of u of C_uw + C_wv

and lengths are positive, C is the distance along these arcs, since the equations have no other solution. So it is also
a metric. A symmetric cost needs only u < v: a path from u to v can be taken apart from either end, and so from the
smaller one. Checking takes k² / 2 comparisons per neighbor. Costs that are no such distance, like Euclidean ones, fail
in the first row.

Mass then moves from neighbor to neighbor. Instead of k² arcs there are a few per point, and every spanning tree of the
graph is a feasible start for every pair: its flows follow from the masses, and each arc points where its flow goes. The
simplex is that of large problems (``native/exact/sparse_tree.hpp``), on integers, without any tolerance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Identity, Indices, Info
from asot.exact.price import PricedSolver, graph_seconds
from asot.exact.shared_cost import Histograms, quantize_masses
from asot.exact.workspace import MASS_BITS
from asot.native import Double, Doubles, Int, Ints, Record, ShortInts, Tile, entry, tile_of
from asot.run.executors import Stop, local_executor
from asot.run.pairs import tiles
from asot.run.protocols import IN_FLOAT64, Solution, Status, all_ended, identity_of
from asot.validation import is_symmetric

FEWEST = 256
"""Points from which a graph is looked for. Smaller problems are solved faster with all arcs."""

NEIGHBORS = 12
"""The most neighbors that a point may have."""

SLACK = 1e-11
"""Share of the largest cost by which all roundings along a path may add up."""

COSTS_PER_TILE = 2**22
"""What a thread checks at a time."""


class CostGraph(Record, k=Int, cost=Doubles, slack=Double, half=Int, most=Int, heads=ShortInts, counts=Ints):
    """A cost and the neighbors found in it (``native/exact/graph_metric.cpp``)."""


_explain_by_paths = entry("explain_by_paths", CostGraph, Int, Int)  # 0 if they do


MOST_RANGE = 2.0**12
"""Longest over shortest arc. Lengths become integers in units of the longest, and a pair that only uses short ones
should not lose digits to it."""


class Graph(NamedTuple):
    """k points and their arcs, both ways: those of u are ``offsets[u]:offsets[u + 1]``."""

    offsets: Indices  # (k + 1,)
    tails: NDArray[np.int32]  # (arcs,)
    heads: NDArray[np.int32]  # (arcs,)
    lengths: Float  # (arcs,)


def graph_of(cost: Float, *, symmetric: bool = False, n_jobs: int = 1) -> Graph | None:
    """The graph along which a cost (k, k) is measured, or None if there is no sparse one.

    ``symmetric``: it is known to be.
    """
    k = len(cost)
    if k < FEWEST or cost.shape != (k, k) or not cost.flags.c_contiguous or np.diagonal(cost).any():
        return None
    slack = _slack(cost)
    arcs = _find_arcs(cost, slack, n_jobs, half=True)
    if arcs is not None and not _both_ways(*arcs):  # some were found from one end only
        arcs = _find_arcs(cost, slack, n_jobs, half=False)
    if arcs is None or not _both_ways(*arcs) or not (symmetric or is_symmetric(cost)):
        return None
    heads, counts = arcs
    tails = np.repeat(np.arange(k, dtype=np.int32), counts)
    lengths = cost[tails, heads]
    if lengths.min() <= max(4 * slack, lengths.max() / MOST_RANGE):
        return None
    return Graph(np.concatenate([[0], np.cumsum(counts)]), tails, heads, lengths)


def _slack(cost: Float) -> float:
    """How much longer than its path a cost may be: rounding, and little of the shortest costs, which are all that some
    pairs have."""
    positive = cost[0][cost[0] > 0]
    if len(positive) == 0:
        return 0.0
    most, least = float(positive.max()), float(positive.min())
    return min(SLACK * most / len(cost), max(1e-12 * least, 1e-15 * most))


def _find_arcs(cost: Float, slack: float, n_jobs: int, *, half: bool) -> tuple[NDArray[np.int32], Indices] | None:
    """Heads of all arcs, ordered by tail, and how many each tail has; None if they do not explain the cost."""
    k = len(cost)
    heads, counts = np.zeros((k, NEIGHBORS), dtype=np.int32), np.zeros(k, dtype=np.int64)

    graph = CostGraph(k=k, cost=cost, slack=slack, half=int(half), most=NEIGHBORS, heads=heads, counts=counts)

    def part(rows: tuple[int, int], stop: Stop) -> bool:
        return _explain_by_paths(graph, *rows) == 0

    for holds in local_executor(n_jobs).map(part, [(0, 1), *tiles(k, 1 + COSTS_PER_TILE // k, 1)]):
        if not holds:
            return None
    return heads[np.arange(NEIGHBORS) < counts[:, None]], counts


def _both_ways(heads: NDArray[np.int32], counts: Indices) -> bool:
    tails, k = np.repeat(np.arange(len(counts)), counts), len(counts)
    return np.array_equal(np.sort(k * tails + heads), np.sort(k * heads.astype(np.int64) + tails))


# ------------------------------------------------------------------------------------------------ on its arcs


class GraphArcs(Record, k=Int, arcs=Int, offsets=Ints, tails=ShortInts, heads=ShortInts, costs=Ints, lengths=Doubles):
    """A graph with its lengths as integers, too (``native/exact/graph_flow.cpp``)."""


_solve_tile = entry("graph_tile", Histograms, GraphArcs, Tile)


class ExactOnGraph(PricedSolver):
    """Like `ExactSharedCost`, prepared once from histograms and the graph of their cost."""

    _most_pairs = 2**16

    def __init__(self, A: Float, B: Float | None, graph: Graph) -> None:
        self._A, self._B = quantize_masses(A), None if B is None else quantize_masses(B)
        self._graph = graph
        self._histograms = Histograms(A=self._A, B=self._A if self._B is None else self._B, cancel=1)
        k, longest = A.shape[1], float(graph.lengths.max())
        self._exponent = int(np.frexp(longest)[1])
        lengths = np.ldexp(graph.lengths, -self._exponent)  # at most 1
        # A potential is a sum along a path of at most k - 1 arcs.
        costs = np.rint(lengths * 2.0 ** (61 - k.bit_length())).astype(np.int64)
        self._arcs = GraphArcs.of(graph, k=k, arcs=len(costs), costs=costs, lengths=lengths)
        self._seconds = graph_seconds(k)
        self.info: Info = {
            "solver": "network simplex on the graph of the cost",
            "graph_arcs": len(graph.heads),
            "common_mass_canceled": True,
            **IN_FLOAT64,
        }

    def identity(self) -> Identity:
        return identity_of("graph, 1", A=self._A, B=self._B, **self._graph._asdict())

    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
        tile, values, pivots = tile_of(rows, columns, stop)
        _solve_tile(self._histograms, self._arcs, tile)
        return all_ended(Status.OPTIMAL, np.ldexp(values, self._exponent - MASS_BITS), pivots)
