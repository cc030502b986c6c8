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

from asot.exact.distance_block import make_scratch, place_distances, value_of_flows
from asot.exact.integers import cost_bits_for, index_bits_for, quantize_masses
from asot.exact.large import may_be_large, solve_any
from asot.exact.shared_cost import ExactSharedCost, place_masses
from asot.exact.simplex import solve_block
from asot.exact.workspace import MASS_BITS, first_sink, make_workspace, stride_of
from asot.jit.compiled import at, compiled, inlined
from asot.run.result import Status
from asot.run.solver import TILE_SECONDS, Solution

SLACK = 1e-12
"""Share of the largest cost by which a difference may exceed a cost through rounding; a value may be off by this
much."""

TRIANGLES = 4096
"""Triangles checked before anything is solved: a cost that is far from a metric fails at one of these."""


def looks_like_metric(cost: NDArray[np.float64]) -> bool:
    """Whether a cost is square, zero on the diagonal, symmetric, and obeys the triangle inequality in a few
    triangles."""
    k = len(cost)
    if cost.shape != (k, k) or np.diagonal(cost).any():
        return False
    u, v, via = np.random.default_rng(0).integers(k, size=(3, TRIANGLES))
    direct, slack = cost[u, v], SLACK * cost.max()
    return bool((direct == cost[v, u]).all() and (direct <= cost[u, via] + cost[via, v] + slack).all())


class CancelAndCheck:
    """Like `ExactSharedCost`, for a symmetric cost that looks like a metric: every pair proves its own answer.

    If a cost between A and another set B turns out not to be symmetric, the proof fails, and the pair is solved without
    canceling.
    """

    def __init__(self, A: NDArray[np.float64], B: NDArray[np.float64] | None, cost: NDArray[np.float64]) -> None:
        self._exponent = int(np.frexp(cost.max())[1])
        if abs(self._exponent) < 500:  # else sums of costs might leave the range of numbers
            self._exponent = 0
        self._cost = cost if self._exponent == 0 else np.ldexp(cost, -self._exponent)
        self._slack = SLACK * float(self._cost.max())
        self._A = quantize_masses(A)
        self._B = self._A if B is None else quantize_masses(B)
        self._seconds = ExactSharedCost.seconds_per_pair(len(cost))
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
        k = len(self._cost)
        index_bits = index_bits_for(k, k)
        _solve_tile(
            self._A, self._B, rows, columns, self._cost, self._slack, index_bits, 2.0 ** cost_bits_for(index_bits),
            True if may_be_large(k, k) else None, values, pivots, stop,
        )  # fmt: skip
        status = np.full(len(rows), Status.OPTIMAL, dtype=np.int8)
        return Solution(np.ldexp(values, self._exponent - MASS_BITS), status, pivots)


@inlined
def _solve_pair(ws, scratch, a, b, cancel, cost, index_bits, cost_scale, large, stop):  # type: ignore[no-untyped-def]
    """Sources, sinks and pivots of a pair. The optimal tree stays in ``ws``."""
    p, q = place_masses(ws, a, b, cancel)
    if p == 0:
        return p, q, 0
    stride = stride_of(q)
    for i in range(p):
        row = cost[ws.source[i]]
        for j in range(q):
            scratch.distance[at(i * stride, j)] = row[ws.sink[at(0, j)]]
        for j in range(q, stride):
            scratch.distance[at(i * stride, j)] = 0.0
    place_distances(ws, scratch, p, q, index_bits, cost_scale)
    if large is not None:
        return p, q, solve_any(ws, p, q, index_bits, stop)
    return p, q, solve_block(ws, p, q, index_bits, stop)


@inlined
def _is_proven(ws, p, q, a, b, cost, slack, unit, height, held):  # type: ignore[no-untyped-def]
    """Whether the potential of the tree in ``ws`` is 1-Lipschitz on the anchors that hold mass of a or b."""
    first = first_sink(p)
    count = 0
    for u in range(len(a)):
        held[count] = u
        count += a[u] > 0 or b[u] > 0
    for s in range(count):
        height[s] = np.inf
    for j in range(q):
        level = ws.pi[first + j] * unit
        for s in range(count):
            reached = cost[held[s], ws.sink[j]] + level
            height[s] = reached if reached < height[s] else height[s]
    for s in range(count):
        row = cost[held[s]]
        own = height[s]
        broken = 0
        for t in range(count):
            broken |= own - height[t] > row[held[t]] + slack
        if broken != 0:
            return False
    return True


@compiled
def _solve_tile(  # type: ignore[no-untyped-def]
    A, B, rows, columns, cost, slack, index_bits, cost_scale, large, values, pivots, stop
):
    k = len(cost)
    ws = make_workspace(k, k, k)
    scratch = make_scratch(k, k, 1)
    whole = ws  # room for all mass, where it is needed
    height = np.empty(k)
    held = np.empty(k, np.int64)
    for t in range(len(rows)):
        values[t] = 0.0
        pivots[t] = 0
        if stop[0] != 0:
            return
        a = A[rows[t]]
        b = B[columns[t]]
        p, q, pivots[t] = _solve_pair(ws, scratch, a, b, True, cost, index_bits, cost_scale, large, stop)
        unit = scratch.largest[0] / (cost_scale * (np.int64(1) << index_bits))
        if p == 0 or _is_proven(ws, p, q, a, b, cost, slack, unit, height, held):
            values[t] = value_of_flows(ws, scratch, p, q) if p > 0 else 0.0
            continue
        if whole.m == ws.m:
            whole = make_workspace(k, k, 2 * k)
        p, q, pivots[t] = _solve_pair(whole, scratch, a, b, None, cost, index_bits, cost_scale, large, stop)
        values[t] = value_of_flows(whole, scratch, p, q)
