"""Single transport problems in whole numbers, solved with the tree that proves the answer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asot.native import Int, Ints, Record, ShortInts, entry

LANES = 8


class Problem(
    Record, p=Int, q=Int, index_bits=Int, large=Int, cost=Ints, supply=Ints, demand=Ints, row_offset=Ints,
    column_offset=Ints, pivots=Ints, parent=ShortInts, flow=Ints, pi=Ints, below=Ints, stop=Ints,
):  # fmt: skip
    """A problem and its answer (``native/exact/problem.cpp``)."""


_solve = entry("solve_problem", Problem)


class Solved(NamedTuple):
    """Nodes 0..p-1 are sources, and those from ``first`` on sinks."""

    pivots: int
    first: int
    parent: np.ndarray  # (nodes,)
    flow: np.ndarray  # (nodes,) on the arc to the parent
    pi: np.ndarray  # (nodes,) potentials
    below: np.ndarray | None  # (nodes, words) bits of subtrees

    def arcs(self, p):
        """(source, sink, flow) of every arc of the tree."""
        for x, y in enumerate(self.parent.tolist()):
            if y != x:
                i, j = (x, y) if x < p else (y, x)
                yield i, j - self.first, int(self.flow[x])


def index_bits_of(p, q):
    return max(4, (max(p, q) + LANES - 1).bit_length())


def solve_problem(cost, supply, demand, index_bits, *, offsets=None, large=False, subtrees=False, stop=0):
    """Solve with costs (p, q) that are shifted left by ``index_bits``."""
    p, q = cost.shape
    first = -(-p // LANES) * LANES
    n = first + q
    words = 1 if n <= 64 else -(-n // (64 * LANES)) * LANES
    pivots, parent = np.zeros(1, np.int64), np.arange(n, dtype=np.int32)
    flow, pi = np.zeros(n, np.int64), np.zeros(n, np.int64)
    below = np.zeros((n, words), np.int64) if subtrees else None
    rows, columns = offsets or (np.zeros(p, np.int64), np.zeros(q, np.int64))
    _solve(
        Problem(
            p=p, q=q, index_bits=index_bits, large=int(large), cost=cost, supply=supply, demand=demand,
            row_offset=rows, column_offset=columns, pivots=pivots, parent=parent, flow=flow, pi=pi, below=below,
            stop=np.array([stop], np.int64),
        )
    )  # fmt: skip
    return Solved(int(pivots[0]), first, parent, flow, pi, below)
