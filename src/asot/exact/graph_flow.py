"""Exact optimal transport where the cost is the distance along a sparse graph (`graph_metric`).

Mass moves from neighbor to neighbor. Instead of k² arcs there are a few per point, and every spanning tree of the graph
is a feasible start for every pair: its flows follow from the masses, and each arc points where its flow goes. The
simplex is that of large problems (`sparse_tree`), on integers, without any tolerance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.exact.graph_metric import Graph
from asot.exact.integers import quantize_masses
from asot.exact.shared_cost import ExactSharedCost
from asot.exact.sparse_tree import Arcs, improve, lay_out, make_tree
from asot.exact.workspace import MASS_BITS
from asot.jit.compiled import compiled, inlined
from asot.run.result import Status
from asot.run.solver import TILE_SECONDS, Solution


class ExactOnGraph:
    """Prepared once from histograms and the graph of their cost; then solves tiles of pairs.

    Parameters
    ----------
    A : (N, k) float64, rows of total 1
    B : (M, k) float64 or None for pairs within A
    graph : Graph of the k points
    """

    def __init__(self, A: NDArray[np.float64], B: NDArray[np.float64] | None, graph: Graph) -> None:
        self._graph = graph
        self._A = quantize_masses(A)
        self._B = self._A if B is None else quantize_masses(B)
        k, longest = A.shape[1], float(graph.lengths.max())
        self._exponent = int(np.frexp(longest)[1])
        self._lengths = np.ldexp(graph.lengths, -self._exponent)  # at most 1
        # A potential is a sum along a path of at most k - 1 arcs.
        self._costs = np.rint(self._lengths * 2.0 ** (61 - k.bit_length())).astype(np.int64)
        self._seconds = self.seconds_per_pair(k)
        self.info: dict[str, Any] = {
            "solver": "network simplex on the graph of the cost",
            "graph_arcs": len(graph.heads),
            "common_mass_canceled": True,
            "device": "cpu",
            "precision": "float64",
            "reg": None,
        }

    @staticmethod
    def seconds_per_pair(k: int) -> float:
        return 3e-8 * k**1.6

    def expected_seconds(self, n_pairs: int) -> float:
        return n_pairs * self._seconds

    def pairs_per_tile(self, memory: int) -> int:
        return int(max(1, min(TILE_SECONDS / self._seconds, memory / 64, 2**16)))

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        values = np.empty(len(rows))
        pivots = np.empty(len(rows), dtype=np.int32)
        arcs = Arcs(self._graph.tails, self._graph.heads, self._costs, np.array([len(self._costs)]))
        _solve_tile(self._A, self._B, rows, columns, self._graph.offsets, arcs, self._lengths, values, pivots, stop)
        status = np.full(len(rows), Status.OPTIMAL, dtype=np.int8)
        return Solution(np.ldexp(values, self._exponent - MASS_BITS), status, pivots)


def graph_pays(A: NDArray[np.float64], B: NDArray[np.float64] | None) -> bool:
    """Whether pairs would be solved faster on a graph. Its size is that of all points, however few have mass."""
    held = np.count_nonzero(A) / len(A)
    held += held if B is None else np.count_nonzero(B) / len(B)
    k = A.shape[1]
    return ExactOnGraph.seconds_per_pair(k) < ExactSharedCost.seconds_per_pair(min(k, int(held)))


@inlined
def _cluster_of(x, parent):  # type: ignore[no-untyped-def]
    """The cluster of a point; the path to it gets shorter on the way."""
    while parent[x] != x:
        parent[x] = parent[parent[x]]
        x = parent[x]
    return x


@inlined
def _spanning_arcs(supply, arcs, parent, surplus, best, chosen):  # type: ignore[no-untyped-def]
    """Fill ``chosen`` with k - 1 arcs that span the graph and carry mass only a short way.

    Clusters of points grow together, each along the shortest arc to a cluster that needs what it has, as long as there
    is one.
    """
    k = len(supply)
    for x in range(k):
        parent[x] = x
        surplus[x] = supply[x]
    made = 0
    while made < k - 1:
        for x in range(k):
            best[x] = -1
        for e in range(len(arcs.tail)):
            x = _cluster_of(np.int64(arcs.tail[e]), parent)
            y = _cluster_of(np.int64(arcs.head[e]), parent)
            if x == y:
                continue
            if best[x] < 0:
                best[x] = e
                continue
            useful = (surplus[x] > 0) != (surplus[y] > 0)
            other = surplus[_cluster_of(np.int64(arcs.head[best[x]]), parent)]
            was_useful = (surplus[x] > 0) != (other > 0)
            if (useful and not was_useful) or (useful == was_useful and arcs.cost[e] < arcs.cost[best[x]]):
                best[x] = e
        for t in range(k):
            if best[t] < 0:
                continue
            x = _cluster_of(np.int64(arcs.tail[best[t]]), parent)
            y = _cluster_of(np.int64(arcs.head[best[t]]), parent)
            if x != y:
                parent[x] = y
                surplus[y] += surplus[x]
                chosen[made] = best[t]
                made += 1


@inlined
def _plant(tree, supply, arcs, chosen, start, partner, order, net):  # type: ignore[no-untyped-def]
    """Hang the spanning arcs from point 0, with the flows that the masses ask for and their potentials."""
    k = len(supply)
    for x in range(k + 1):
        start[x] = 0
    for t in range(k - 1):
        start[arcs.tail[chosen[t]]] += 1
        start[arcs.head[chosen[t]]] += 1
    for x in range(k):
        start[x + 1] += start[x]
    for t in range(k - 1):
        for x, y in ((arcs.tail[chosen[t]], arcs.head[chosen[t]]), (arcs.head[chosen[t]], arcs.tail[chosen[t]])):
            start[x] -= 1
            partner[start[x]] = y
            net[start[x]] = arcs.cost[chosen[t]]
    tree.parent[0] = 0
    tree.pi[0] = 0
    order[0] = 0
    reached = 1
    for t in range(k):  # breadth first: shallow trees
        x = order[t]
        for s in range(start[x], start[x + 1]):
            y = np.int64(partner[s])
            if y != tree.parent[x]:
                tree.parent[y] = x
                tree.pi[y] = net[s]  # for now, the length of the arc
                order[reached] = y
                reached += 1
    lay_out(tree, order[:k])
    for x in range(k):
        tree.flow[x] = supply[x]
    for t in range(k - 1, 0, -1):
        x = order[t]
        tree.flow[tree.parent[x]] += tree.flow[x]
        tree.up[x] = tree.flow[x] >= 0  # without flow towards the root: strongly feasible
        tree.flow[x] = abs(tree.flow[x])
    for t in range(1, k):
        x = order[t]
        tree.pi[x] = tree.pi[tree.parent[x]] + (tree.pi[x] if tree.up[x] else -tree.pi[x])


@inlined
def _value(tree, offsets, arcs, lengths):  # type: ignore[no-untyped-def]
    """What the flows cost, in units of 2^-60 of the lengths."""
    total = 0.0
    for x in range(1, len(offsets) - 1):
        for e in range(offsets[x], offsets[x + 1]):
            if arcs.head[e] == tree.parent[x]:
                total += tree.flow[x] * lengths[e]
    return total


@compiled
def _solve_tile(A, B, rows, columns, offsets, arcs, lengths, values, pivots, stop):  # type: ignore[no-untyped-def]
    k = len(offsets) - 1
    long = np.empty((5, 2 * k + 1), np.int64)
    short = np.empty(k, np.int32)
    supply = np.empty(k, np.int64)
    for t in range(len(rows)):
        values[t] = 0.0
        pivots[t] = 0
        if stop[0] != 0:
            return
        a = A[rows[t]]
        b = B[columns[t]]
        moved = np.int64(0)
        for x in range(k):
            supply[x] = a[x] - b[x]
            moved |= supply[x]
        if moved == 0:
            continue
        _spanning_arcs(supply, arcs, long[0], long[1], long[2], long[3])
        tree = make_tree(short, np.empty(k, np.int64), np.empty(k, np.int64), k)
        _plant(tree, supply, arcs, long[3], long[0], long[1], long[2], long[4])
        pivots[t] = improve(tree, arcs, np.int64(1) << 62, stop)
        values[t] = _value(tree, offsets, arcs, lengths)
