"""Cancel common mass first and prove afterwards that this was valid, for a few pairs under a cost.

Mass that two histograms share may stay where it is when the cost is a metric, and proving that takes k³ comparisons.
For one pair, less is enough. Solve what is left after canceling, carry its potential to every anchor that holds mass,

    f_u = min over sinks v of C_uv - g_v,

and check whether |f_u - f_v| ≤ C_uv between those anchors: k² comparisons. If so, f and -f are potentials of the whole
problem, with the value of the plan that leaves common mass alone, and that plan is optimal. A metric always passes
(f is 1-Lipschitz by the triangle inequality). Where a pair does not, all of its mass is shipped.

With few pairs the cost is not prepared as a whole, either: each pair reads what it needs of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.exact.integers import cost_bits_for, index_bits_for, quantize_masses
from asot.exact.shared_cost import ExactSharedCost, Histograms
from asot.exact.workspace import MASS_BITS
from asot.native import Double, Doubles, Int, Record, Tile, entry
from asot.run.result import Status
from asot.run.solver import TILE_SECONDS, Solution

SLACK = 1e-12
"""Share of the largest cost of a pair by which a difference may exceed a cost through rounding; a value may be off by
this much."""

TRIANGLES = 4096
"""Triangles checked before anything is solved: a cost that is far from a metric fails at one of these."""


def looks_like_metric(cost: NDArray[np.float64]) -> bool:
    """Whether a cost is square, zero on the diagonal, symmetric, and obeys the triangle inequality in a few
    triangles."""
    k = len(cost)
    if cost.shape != (k, k) or np.diagonal(cost).any():
        return False
    u, v, via = np.random.default_rng(0).integers(k, size=(3, TRIANGLES))
    direct = cost[u, v]
    return bool((direct == cost[v, u]).all() and ((1.0 - SLACK) * direct <= cost[u, via] + cost[via, v]).all())


class CheckedCost(Record):
    """A cost that looks like a metric (``native/exact/cancel_and_check.cpp``)."""

    _fields_ = [  # noqa: RUF012
        ("k", Int), ("cost", Doubles), ("slack", Double), ("index_bits", Int), ("cost_scale", Double),
    ]  # fmt: skip


_solve_tile = entry("cancel_and_check", Histograms, CheckedCost, Tile)


class CancelAndCheck:
    """Like `ExactSharedCost`, for a symmetric cost that looks like a metric: every pair proves its own answer.

    If a cost between A and another set B turns out not to be symmetric, the proof fails, and the pair is solved without
    canceling.
    """

    def __init__(self, A: NDArray[np.float64], B: NDArray[np.float64] | None, cost: NDArray[np.float64]) -> None:
        self._exponent = int(np.frexp(cost.max())[1])
        if abs(self._exponent) < 500:  # else sums of costs might leave the range of numbers
            self._exponent = 0
        k = len(cost)
        index_bits = index_bits_for(k, k)
        cost = np.ascontiguousarray(cost if self._exponent == 0 else np.ldexp(cost, -self._exponent))
        self._cost = CheckedCost(
            k=k, cost=cost, slack=SLACK, index_bits=index_bits,
            cost_scale=2.0 ** cost_bits_for(index_bits),
        )  # fmt: skip
        masses = quantize_masses(A)
        self._histograms = Histograms(A=masses, B=masses if B is None else quantize_masses(B), cancel=1)
        self._seconds = ExactSharedCost.seconds_per_pair(k)
        self.info: dict[str, Any] = {
            "solver": "network simplex",
            "common_mass_canceled": "where a pair proves that it may be",
            "device": "cpu",
            "precision": "float64",
            "reg": None,
        }

    def expected_seconds(self, n_pairs: int) -> float:
        return n_pairs * self._seconds

    def pairs_per_tile(self, memory: int) -> int:
        return int(max(1, min(TILE_SECONDS / self._seconds, memory / 64, 2**16)))

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        values = np.empty(len(rows))
        pivots = np.empty(len(rows), dtype=np.int32)
        tile = Tile(n=len(rows), rows=rows, columns=columns, values=values, steps=pivots, stop=stop)
        _solve_tile(self._histograms, self._cost, tile)
        status = np.full(len(rows), Status.OPTIMAL, dtype=np.int8)
        return Solution(np.ldexp(values, self._exponent - MASS_BITS), status, pivots)
