"""Cancel common mass first and prove afterwards that this was valid: for few pairs, and for rows with few anchors.

Mass that two histograms share may stay where it is when the cost is a metric, and proving that takes k³ comparisons.
For one pair, less is enough. Solve what is left after canceling, carry its potential to every anchor that holds mass,

    f_u = min over sinks v of C_uv - g_v,

and check whether f_u - f_v ≤ C_uv from all u with mass of the first to all v with mass of the second histogram. If so,
f and -f are potentials of the whole problem, with the value of the plan that leaves common mass alone, and that plan is
optimal. A metric always passes (f is 1-Lipschitz by the triangle inequality). Where a pair does not, all of its mass is
shipped. Two histograms without a common anchor have nothing to prove.

The cost is not prepared as a whole, either. Each pair reads the costs between its own anchors, and nothing else: with
a vocabulary of thousands and ten words in a row, everything that looks at the vocabulary takes longer than the pairs.
"""

from __future__ import annotations

import functools

import numpy as np

from asot._typing import Float, Identity, Indices, Info
from asot.exact.points import quantize_sparse
from asot.exact.price import PricedSolver, sparse_rows_seconds
from asot.exact.workspace import MASS_BITS
from asot.native import Double, Doubles, Int, Ints, Record, Tile, entry, tile_of
from asot.run.protocols import IN_FLOAT64, Solution, Status, all_ended, identity_of

SLACK = 1e-12
"""Share of the largest cost of a pair by which a difference may exceed a cost through rounding; a value may be off by
this much."""

TRIANGLES = 4096
"""Triangles checked before anything is solved: a cost that is far from a metric fails at one of these."""


def looks_like_metric(cost: Float) -> bool:
    """Whether a cost is square, zero on the diagonal, symmetric, and obeys the triangle inequality in a few
    triangles."""
    k = len(cost)
    if cost.shape != (k, k) or np.diagonal(cost).any():
        return False
    u, v, via = np.frombuffer(random_triangles(k), dtype=np.int64).reshape(3, TRIANGLES)
    direct = cost[u, v]
    return bool((direct == cost[v, u]).all() and ((1.0 - SLACK) * direct <= cost[u, via] + cost[via, v]).all())


@functools.lru_cache(maxsize=16)
def random_triangles(k: int) -> bytes:
    """Corners (3, TRIANGLES) of triangles among k anchors, int64, always the same ones."""
    return np.random.default_rng(0).integers(k, size=(3, TRIANGLES)).tobytes()


class SparseRows(Record, offsets=Ints, index=Ints, masses=Ints):
    """Histograms as lists of anchors (``native/exact/cancel_and_check.cpp``)."""


class CheckedCost(Record, l=Int, cost=Doubles, slack=Double, cancel=Int, most_sources=Int, most_sinks=Int):
    """A cost, and whether it looks like a metric (``native/exact/cancel_and_check.cpp``)."""


_solve_tile = entry("cancel_and_check", SparseRows, SparseRows, CheckedCost, Tile)


class CancelAndCheck(PricedSolver):
    """Like `ExactSharedCost`, without any preparation of the cost: every pair proves its own answer.

    ``cancel`` says whether the cost looks like a metric (`looks_like_metric`). If a pair cannot prove that canceling
    was valid, it is solved without. Otherwise all mass is shipped.
    """

    _most_pairs = 2**16

    def __init__(self, A: Float, B: Float | None, cost: Float, *, cancel: bool = True) -> None:
        self._exponent = int(np.frexp(cost.max())[1])
        if abs(self._exponent) < 500:  # else sums of costs might leave the range of numbers
            self._exponent = 0
        cost = np.ascontiguousarray(cost if self._exponent == 0 else np.ldexp(cost, -self._exponent))
        self._rows, most_sources, mean_sources = _sparse_rows(A)
        self._columns, most_sinks, mean_sinks = (
            (self._rows, most_sources, mean_sources) if B is None else _sparse_rows(B)
        )
        self._within, self._cancel, self._unit_cost = B is None, cancel, cost
        self._cost = CheckedCost(
            l=cost.shape[1], cost=cost, slack=SLACK, cancel=int(cancel), most_sources=most_sources,
            most_sinks=most_sinks,
        )  # fmt: skip
        self._seconds = sparse_rows_seconds(mean_sources, mean_sinks)
        self.info = describe(cancel)

    def identity(self) -> Identity:
        cost = {"unit": self._unit_cost, "exponent": self._exponent}
        A, B = self._rows.arrays(), None if self._within else self._columns.arrays()
        return identity_of("sparse rows, 1", A=A, B=B, cost=cost, cancel=self._cancel)

    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
        tile, values, pivots = tile_of(rows, columns, stop)
        _solve_tile(self._rows, self._columns, self._cost, tile)
        return all_ended(Status.OPTIMAL, np.ldexp(values, self._exponent - MASS_BITS), pivots)


def describe(cancel: bool) -> Info:
    """For ``info`` of a result."""
    canceled = "where a pair proves that it may be" if cancel else False
    return {"solver": "network simplex", "common_mass_canceled": canceled, **IN_FLOAT64}


def _sparse_rows(histograms: Float) -> tuple[SparseRows, int, float]:
    """Rows (N, k) of total 1 as lists, the size of the longest one, and the mean size."""
    n, k = histograms.shape
    place = np.flatnonzero(histograms)
    row = place // k
    offsets = np.searchsorted(row, np.arange(n + 1))
    masses, index = quantize_sparse(offsets, histograms.reshape(-1)[place]), place - row * k
    if not masses.all():  # too little to be a unit
        held = masses > 0
        offsets = np.concatenate([[0], np.cumsum(held)])[offsets]
        masses, index = masses[held], index[held]
    rows = SparseRows(offsets=offsets, index=index, masses=masses)
    sizes = np.diff(offsets)
    return rows, int(sizes.max()), float(sizes.mean())
