"""W_p for every p ≥ 1 and every ground cost, with or without mass that stays unmatched (docs/method.md §14, §15).

The same simplex as in `asot.exact.points`, on other costs: d^p, a function of a Euclidean distance, or an entry of a
table. d^p is not a metric for p > 1, so mass that both distributions have on a point is left out only for p = 1 and a
proven metric, and with unmatched mass only where its prices fit the metric.

With a price ρ(x) for mass that stays unmatched, each side gets one more point, the reservoir. It holds as much as the
other side has in total, so that everything may stay unmatched: sending to it or receiving from it costs ρ^p, and
shipping between the two reservoirs is free.

Partial transport moves a share of the mass, and the rest stays for free: prices are 0, and each reservoir holds only
what the other side may keep. No more is moved than necessary, since costs are not negative.

Distances of a pair are divided by a unit, the largest one that matters, before they are raised to p, so that no power
leaves the range of float64; the root is taken at the end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.data.distinct import SparseHistograms
from asot.exact.distance_block import make_scratch, place_distances
from asot.exact.integers import cost_bits_for, index_bits_for
from asot.exact.packing import pack_points, quantize_sparse, used_coordinates
from asot.exact.points import (
    _place_masses,
    merge_used,
)
from asot.exact.simplex import solve_block
from asot.exact.unmatched import Unmatched
from asot.exact.workspace import MASS_BITS, first_sink, make_workspace, stride_of
from asot.jit.compiled import at, compiled, inlined
from asot.jit.costs import ARC, HALF_SQUARE, SQUARE, GroundCost
from asot.jit.metrics import fill_distances
from asot.run.result import Status
from asot.run.solver import TILE_SECONDS, Solution

FINE = 2.0**-8
"""If a plan uses only costs below this fraction of the largest one, the pair is solved again with the large ones
clipped, since integers that reach that far are coarse for the costs that matter: (1/10)^20 is below every digit of
1."""

ROUNDED_BITS = MASS_BITS - 53
"""A mass of float64 may be off by this many bits of its integer."""

CLIPPED = 4.0
"""Costs are then clipped at this multiple of the largest one in use."""


class _Collection(NamedTuple):
    """Every distribution over the distinct points, and its points in the coordinates that it uses."""

    offsets: NDArray[np.int64]  # (N + 1,)
    names: NDArray[np.int64]  # (nnz,)
    masses: NDArray[np.int64]  # (nnz,)
    totals: NDArray[np.int64]  # (N,)
    used_offsets: NDArray[np.int64]
    used: NDArray[np.int32]
    packed_offsets: NDArray[np.int64]
    packed: NDArray[np.float64]


class _Cost(NamedTuple):
    code: int | None  # `Ground.kernel`
    order: float
    transform: int
    power: float
    table: NDArray[np.float64]  # (V, V) or (0, 0)
    prices: NDArray[np.float64]  # (V,) in the unit of the kernel, or (0,)
    share: float  # of the smaller total that must be moved
    cancels: bool


class ExactAnyCost:
    """Prepared once from sparse histograms and a ground cost; then solves tiles of pairs. See `ExactPoints`."""

    def __init__(
        self,
        histograms: SparseHistograms,
        cost: GroundCost,
        p: float,
        unmatched: Unmatched | None = None,
        column_start: int = 0,
    ) -> None:
        self._cost, self._p, self._unmatched, self._column_start = cost, p, unmatched, column_start
        self._sizes = np.diff(histograms.offsets)
        self._dim = cost.ground.points.shape[1]
        n = 2.0 * float(self._sizes.mean())
        self._seconds = 1e-6 + 1e-8 * n**2 + 5e-12 * n**3 + 1e-10 * n**2 * self._dim
        self._total = 1.0
        if unmatched is None:
            masses = quantize_sparse(histograms.offsets, histograms.masses)
        else:
            masses, self._total = quantize_totals(histograms, unmatched.totals)
        used, used_offsets = used_coordinates(cost.ground.points, histograms.offsets, histograms.index)
        packed, packed_offsets = pack_points(
            cost.ground.points, histograms.offsets, histograms.index, used_offsets, used
        )
        totals = np.add.reduceat(masses, histograms.offsets[:-1])
        self._collection = _Collection(
            histograms.offsets, histograms.index, masses, totals, used_offsets, used, packed_offsets, packed
        )
        self._cancels = p == 1 and cost.is_metric and (unmatched is None or unmatched.lets_cancel(cost))
        prices = np.empty(0) if unmatched is None else unmatched.prices / cost.scale
        self._kernel = _Cost(
            cost.ground.kernel, cost.ground.order, cost.transform, float(p), cost.table, prices,
            0.0 if unmatched is None else unmatched.share, self._cancels,
        )  # fmt: skip
        self.info: dict[str, Any] = {
            "solver": "network simplex",
            "common_mass_canceled": self._cancels,
            "device": "cpu",
            "precision": "float64",
            "reg": None,
            "metric": cost.name,
            "metric_proven": cost.is_metric,
            "unmatched": None if unmatched is None else unmatched.name,
            "share": unmatched.share if unmatched is not None and unmatched.share else None,
            "distinct_points": len(cost.ground.points),
        }

    def expected_seconds(self, n_pairs: int) -> float:
        return n_pairs * self._seconds

    @property
    def cost(self) -> GroundCost:
        return self._cost

    def pairs_per_tile(self, memory: int) -> int:
        return int(max(1, min(TILE_SECONDS / self._seconds, memory / 64, 2**14)))

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        values, units, reach = (np.empty(len(rows)) for _ in range(3))
        pivots = np.empty(len(rows), dtype=np.int32)
        second = columns + self._column_start
        most_sources, most_sinks = int(self._sizes[rows].max()) + 1, int(self._sizes[second].max()) + 1
        every = int(self._sizes.max()) + 1
        index_bits = index_bits_for(every, every)  # of the collection: no answer depends on its tile
        _solve_tile(
            self._collection, self._kernel, rows, second, self._dim, most_sources, most_sinks, index_bits,
            2.0 ** cost_bits_for(index_bits), values, units, reach, pivots, stop,
        )  # fmt: skip
        if self._unmatched is not None and stop[0] == 0:
            self._unmatched.check_reach(reach * self._cost.scale, rows, columns)
        moved = np.ldexp(values, -MASS_BITS) * self._total
        status = np.full(len(rows), Status.OPTIMAL, dtype=np.int8)
        return Solution(self._cost.scale * units * moved ** (1.0 / self._p), status, pivots)


def quantize_totals(histograms: SparseHistograms, totals: NDArray[np.float64]) -> tuple[NDArray[np.int64], float]:
    """Masses that are not scaled to a common total as int64, and what 2^60 of them weigh.

    The two totals of any pair fit into 2^60 together.
    """
    unit = 2.0 * float(totals.max())
    masses = histograms.masses * np.repeat(totals / unit, np.diff(histograms.offsets))
    return np.rint(masses * 2.0**MASS_BITS).astype(np.int64), unit


@inlined
def _place_pair(ws, h, a, b, cost):  # type: ignore[no-untyped-def]
    """Sources and sinks of a pair, the reservoirs last."""
    supply = h.totals[a]
    demand = h.totals[b]
    if cost.cancels:
        p, q = _place_masses(ws, h.offsets, h.names, h.masses, a, b)
        if p == 0 and q == 0:
            return p, q
        supply = np.int64(0)
        demand = np.int64(0)
        for i in range(p):
            supply += ws.supply[i]
        for j in range(q):
            demand += ws.demand[j]
    else:
        p = 0
        q = 0
        for t in range(h.offsets[a], h.offsets[a + 1]):
            if h.masses[t] > 0:
                ws.supply[p] = h.masses[t]
                ws.source[p] = t - h.offsets[a]
                p += 1
        for t in range(h.offsets[b], h.offsets[b + 1]):
            if h.masses[t] > 0:
                ws.demand[q] = h.masses[t]
                ws.sink[q] = t - h.offsets[b]
                q += 1
    if len(cost.prices) > 0:
        moved = np.int64(np.rint(cost.share * min(supply, demand)))
        ws.supply[p] = demand - moved
        ws.demand[q] = supply - moved
        p += 1
        q += 1
    return p, q


@inlined
def _fill_distances(ws, scratch, h, a, b, cost, p, q):  # type: ignore[no-untyped-def]
    """Distances of the first p sources to the first q sinks, rows ``stride`` apart; the largest."""
    stride = stride_of(q + (len(cost.prices) > 0))
    if len(cost.table) > 0:
        for i in range(p):
            row = cost.table[h.names[h.offsets[a] + ws.source[i]]]
            for j in range(q):
                scratch.distance[i * stride + j] = row[h.names[h.offsets[b] + ws.sink[j]]]
    else:
        width = (merge_used(h.used_offsets, h.used, a, b, scratch.place_a, scratch.place_b) + 3) & ~3
        used_a = h.used_offsets[a + 1] - h.used_offsets[a]
        used_b = h.used_offsets[b + 1] - h.used_offsets[b]
        for t in range((p + 1) * width):
            scratch.x[t] = 0.0
        for t in range(width * stride):
            scratch.y[t] = 0.0
        for i in range(p):
            o = h.packed_offsets[a] + ws.source[i] * used_a
            for c in range(used_a):
                scratch.x[at(i * width, scratch.place_a[c])] = h.packed[at(o, c)]
        for j in range(q):
            o = h.packed_offsets[b] + ws.sink[j] * used_b
            for c in range(used_b):
                scratch.y[at(scratch.place_b[c] * stride, j)] = h.packed[at(o, c)]
        fill_distances(cost.code, cost.order, scratch.x, scratch.y, p, stride, width, scratch.distance)
    largest = 0.0
    for i in range(p):
        for j in range(q):
            distance = scratch.distance[at(i * stride, j)]
            if cost.transform == SQUARE:
                distance = distance * distance
            elif cost.transform == HALF_SQUARE:
                distance = 0.5 * distance * distance
            elif cost.transform == ARC:
                distance = 2.0 * np.arcsin(min(1.0, 0.5 * distance))
            scratch.distance[at(i * stride, j)] = distance
            largest = max(largest, distance)
    return largest


@inlined
def _add_reservoirs(ws, scratch, h, a, b, cost, p, q):  # type: ignore[no-untyped-def]
    """Prices in the last row and column; the largest."""
    stride = stride_of(q)
    largest = 0.0
    for i in range(p - 1):
        price = cost.prices[h.names[h.offsets[a] + ws.source[i]]]
        scratch.distance[i * stride + q - 1] = price
        largest = max(largest, price)
    for j in range(q - 1):
        price = cost.prices[h.names[h.offsets[b] + ws.sink[j]]]
        scratch.distance[(p - 1) * stride + j] = price
        largest = max(largest, price)
    scratch.distance[(p - 1) * stride + q - 1] = 0.0
    return largest


@inlined
def _measure(ws, scratch, h, a, b, cost, p, q):  # type: ignore[no-untyped-def]
    """Distances and prices of a pair; the largest distance between two points, and the largest of all."""
    extra = 1 if len(cost.prices) > 0 else 0
    reach = _fill_distances(ws, scratch, h, a, b, cost, p - extra, q - extra)
    if extra == 0:
        return reach, reach
    return reach, max(reach, _add_reservoirs(ws, scratch, h, a, b, cost, p, q))


@inlined
def _raise_to(power, scratch, p, q, unit):  # type: ignore[no-untyped-def]
    """Distances become (d / unit)^power, at most `CLIPPED`, and 0 beyond the last column."""
    stride = stride_of(q)
    for i in range(p):
        for j in range(q):
            part = scratch.distance[at(i * stride, j)] / unit
            if power == 1.0:
                raised = part
            elif power == 2.0:
                raised = part * part
            else:
                raised = part**power
            scratch.distance[at(i * stride, j)] = min(raised, CLIPPED)
        for j in range(q, stride):
            scratch.distance[at(i * stride, j)] = 0.0


@inlined
def _value_of_flows(ws, scratch, p, q, least):  # type: ignore[no-untyped-def]
    """What the flows of the optimal tree cost, and the largest cost among them; flows below ``least`` do not count."""
    total = 0.0
    used = 0.0
    stride = stride_of(q)
    first = first_sink(p)
    for node in range(first + q):
        up = ws.parent[node]
        if up != node and ws.flow[node] >= least:
            arc = node * stride + up - first if node < p else up * stride + node - first
            total += ws.flow[node] * scratch.distance[arc]
            used = max(used, scratch.distance[arc])
    return total, used


@compiled
def _solve_tile(  # type: ignore[no-untyped-def]
    h, cost, rows, columns, dim, most_sources, most_sinks, index_bits, cost_scale, values, units, reach, pivots, stop
):
    """``units`` (P,): the distance that a pair's costs are powers of; ``reach`` (P,): the largest between two points.

    For p > 1, flows below the rounding of float64 masses do not count: nine masses of 1/9 are not exactly 1, and the
    power of a long distance would make what is left over visible.
    """
    ws = make_workspace(most_sources, most_sinks, most_sources + most_sinks)
    scratch = make_scratch(most_sources, most_sinks, dim)
    for t in range(len(rows)):
        if stop[0] != 0:
            return
        a = rows[t]
        b = columns[t]
        values[t] = 0.0
        pivots[t] = 0
        units[t] = 0.0
        reach[t] = 0.0
        p, q = _place_pair(ws, h, a, b, cost)
        if p == 0 or q == 0:
            continue
        least = 1 if cost.power == 1.0 else (p + q) << ROUNDED_BITS
        reach[t], unit = _measure(ws, scratch, h, a, b, cost, p, q)
        top = 1.0
        while unit > 0.0:
            _raise_to(cost.power, scratch, p, q, unit)
            place_distances(ws, scratch, p, q, index_bits, cost_scale)
            pivots[t] += solve_block(ws, p, q, index_bits, stop)
            value, used = _value_of_flows(ws, scratch, p, q, least)
            if stop[0] != 0 or (top == CLIPPED and used >= top):  # what was clipped is needed: the last plan stands
                break
            values[t] = value
            units[t] = unit
            if used >= FINE * top:
                break
            _measure(ws, scratch, h, a, b, cost, p, q)
            unit = _value_of_flows(ws, scratch, p, q, least)[1]
            top = CLIPPED
            _place_pair(ws, h, a, b, cost)
