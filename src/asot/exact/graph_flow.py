"""Exact optimal transport where the cost is the distance along a sparse graph (`graph_metric`).

Mass moves from neighbor to neighbor. Instead of k² arcs there are a few per point, and every spanning tree of the graph
is a feasible start for every pair: its flows follow from the masses, and each arc points where its flow goes. The
simplex is that of large problems (`sparse_tree`), on integers, without any tolerance.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asot._typing import Identity, Indices, Info
from asot.exact.graph_metric import Graph
from asot.exact.price import PricedSolver, graph_seconds
from asot.exact.shared_cost import Histograms, quantize_masses
from asot.exact.workspace import MASS_BITS
from asot.native import Doubles, Int, Ints, Record, ShortInts, Tile, entry, tile_of
from asot.run.protocols import IN_FLOAT64, Solution, Status, all_ended


class GraphArcs(Record):
    """A graph with its lengths as integers, too (``native/exact/graph_flow.cpp``)."""

    _fields_ = [  # noqa: RUF012
        ("k", Int), ("arcs", Int), ("offsets", Ints), ("tails", ShortInts), ("heads", ShortInts), ("costs", Ints),
        ("lengths", Doubles),
    ]  # fmt: skip


_solve_tile = entry("graph_tile", Histograms, GraphArcs, Tile)


class ExactOnGraph(PricedSolver):
    """Prepared once from histograms and the graph of their cost; then solves tiles of pairs.

    Parameters
    ----------
    A : (N, k) float64, rows of total 1
    B : (M, k) float64 or None for pairs within A
    graph : Graph of the k points
    """

    _most_pairs = 2**16

    def __init__(self, A: NDArray[np.float64], B: NDArray[np.float64] | None, graph: Graph) -> None:
        self._A, self._B = quantize_masses(A), None if B is None else quantize_masses(B)
        self._graph = graph
        self._histograms = Histograms(A=self._A, B=self._A if self._B is None else self._B, cancel=1)
        k, longest = A.shape[1], float(graph.lengths.max())
        self._exponent = int(np.frexp(longest)[1])
        lengths = np.ldexp(graph.lengths, -self._exponent)  # at most 1
        # A potential is a sum along a path of at most k - 1 arcs.
        costs = np.rint(lengths * 2.0 ** (61 - k.bit_length())).astype(np.int64)
        self._arcs = GraphArcs(
            k=k, arcs=len(costs), offsets=graph.offsets, tails=graph.tails, heads=graph.heads, costs=costs,
            lengths=lengths,
        )  # fmt: skip
        self._seconds = graph_seconds(k)
        self.info: Info = {
            "solver": "network simplex on the graph of the cost",
            "graph_arcs": len(graph.heads),
            "common_mass_canceled": True,
            **IN_FLOAT64,
        }

    def identity(self) -> Identity:
        return {
            "solver": "graph, 1",
            "A": self._A,
            "B": self._B,
            "offsets": self._graph.offsets,
            "tails": self._graph.tails,
            "heads": self._graph.heads,
            "lengths": self._graph.lengths,
        }

    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
        tile, values, pivots = tile_of(rows, columns, stop)
        _solve_tile(self._histograms, self._arcs, tile)
        return all_ended(Status.OPTIMAL, np.ldexp(values, self._exponent - MASS_BITS), pivots)
