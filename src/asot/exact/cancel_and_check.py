"""Cancel common mass first, prove afterwards that it was right to: for a large cost and few pairs.

Mass that two histograms share may stay where it is when the cost is a metric, and to prove that takes k³ comparisons.
For one pair less is enough. Solve what is left after cancelling, carry its potential to every anchor that holds mass,

    f_u = min over sinks v of C_uv - g_v,

and look whether |f_u - f_v| ≤ C_uv between those anchors: k² comparisons. If so, f and -f are potentials of the whole
problem, with the value of the plan that leaves common mass alone, and that plan is optimal. A metric always passes
(f is 1-Lipschitz by the triangle inequality). Where a pair does not, all of its mass is shipped.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asot.compiled import compiled, inlined
from asot.result import Status
from asot.solvers.base import Solution
from asot.solvers.exact_shared import ExactSharedCost, place_costs, place_masses, value_of_tree
from asot.solvers.quantise import cost_bits_for
from asot.solvers.simplex import solve_block
from asot.solvers.workspace import MASS_BITS, first_sink, make_workspace

SLACK = 1e-12
"""Share of the largest cost by which a difference may exceed a cost through rounding; so much can a value be off."""

TRIANGLES = 4096
"""Triangles looked at before anything is solved: a cost that is far from a metric fails at one of these."""


def looks_like_metric(cost: NDArray[np.float64]) -> bool:
    """Whether a cost is symmetric, zero on the diagonal, and obeys the triangle inequality wherever we look."""
    k = len(cost)
    if cost.shape != (k, k) or np.diagonal(cost).any() or not np.array_equal(cost, cost.T):
        return False
    u, v, via = np.random.default_rng(0).integers(k, size=(3, TRIANGLES))
    return bool((cost[u, v] <= cost[u, via] + cost[via, v] + SLACK * cost.max()).all())


class CancelAndCheck(ExactSharedCost):
    """As `ExactSharedCost`, for a cost that looks like a metric: every pair proves its own answer."""

    def __init__(
        self, A: NDArray[np.float64], B: NDArray[np.float64] | None, cost: NDArray[np.float64]
    ) -> None:
        super().__init__(A, B, cost, cancel=True)
        self.info["common_mass_cancelled"] = "where proven, pair by pair"

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        values = np.empty(len(rows))
        pivots = np.empty(len(rows), dtype=np.int32)
        c = self._cost
        _solve_tile_checked(
            self._A, self._B, rows, columns, c.integer, c.unit, c.row_offset, c.column_offset, c.index_bits,
            2.0 ** -(cost_bits_for(c.index_bits) + c.index_bits), values, pivots, stop,
        )  # fmt: skip
        status = np.full(len(rows), Status.OPTIMAL, dtype=np.int8)
        return Solution(np.ldexp(values, c.exponent - MASS_BITS), status, pivots)


@inlined
def _is_proven(ws, p, q, a, b, unit, scale, height, held):  # type: ignore[no-untyped-def]
    """Whether the potential of the tree in ``ws`` is 1-Lipschitz on the anchors that hold mass of a or b."""
    first = first_sink(p)
    count = 0
    for u in range(len(a)):
        held[count] = u
        count += a[u] > 0 or b[u] > 0
    for s in range(count):
        height[s] = np.inf
    for j in range(q):
        row = unit[ws.sink[j]]
        level = ws.pi[first + j] * scale
        for s in range(count):
            reached = row[held[s]] + level
            height[s] = reached if reached < height[s] else height[s]
    for s in range(count):
        row = unit[held[s]]
        own = height[s]
        broken = 0
        for t in range(s):
            broken |= abs(own - height[t]) > row[held[t]] + SLACK
        if broken != 0:
            return False
    return True


@compiled
def _solve_tile_checked(  # type: ignore[no-untyped-def]
    A, B, rows, columns, integer, unit, row_offset, column_offset, index_bits, scale, values, pivots, stop
):
    k = len(integer)
    ws = make_workspace(k, k, k)
    whole = ws
    height = np.empty(k)
    held = np.empty(k, np.int64)
    for t in range(len(rows)):
        if stop[0] != 0:
            return
        a = A[rows[t]]
        b = B[columns[t]]
        values[t] = 0.0
        pivots[t] = 0
        p, q = place_masses(ws, a, b, True)
        if p == 0:
            continue
        place_costs(ws, p, q, integer, row_offset, column_offset)
        pivots[t] = solve_block(ws, p, q, index_bits, stop)
        if _is_proven(ws, p, q, a, b, unit, scale, height, held):
            values[t] = value_of_tree(ws, p, q, unit)
            continue
        if len(whole.parent) == len(ws.parent):
            whole = make_workspace(k, k, 2 * k)
        p, q = place_masses(whole, a, b, None)
        place_costs(whole, p, q, integer, row_offset, column_offset)
        pivots[t] = solve_block(whole, p, q, index_bits, stop)
        values[t] = value_of_tree(whole, p, q, unit)
