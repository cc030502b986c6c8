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

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Identity, Indices, Info
from asot.data.distinct import SparseHistograms, left_to_ship
from asot.exact.distance_table import are_long
from asot.exact.points import PackedPoints, PointsSizes, pack, quantize_sparse
from asot.exact.price import GATHERED, IN_PLACE, OTHER, PricedSolver, any_cost_seconds, pair_seconds, per_coordinate
from asot.exact.unmatched import Unmatched
from asot.exact.workspace import MASS_BITS
from asot.ground.costs import ARC, GroundCost
from asot.native import Double, Doubles, Int, Ints, Record, Tile, entry, tile_of
from asot.run.protocols import IN_FLOAT64, Solution, Status, identity_of

FINE = 2.0**-8
"""If a plan uses only costs below this fraction of the largest one, the pair is solved again with the large ones
clipped, since integers that reach that far are coarse for the costs that matter: (1/10)^20 is below every digit of
1."""

CLIPPED = 4.0
"""Costs are then clipped at this multiple of the largest one in use. One clipped cost may be worth several others, so a
plan that uses one is not trusted: costs are clipped ``WIDER`` times as high, at most at ``WIDEST``."""

WIDER = 2.0**8
WIDEST = 2.0**26


TINY = 2.0**-450
"""Squares of distances below this, at the scale of 1, lose digits (``native/exact/points.hpp``)."""


class AnyCost(
    Record, code=Int, order=Double, transform=Int, power=Double, n=Int, table=Doubles, prices=Doubles, exponents=Ints,
    share=Double, cancels=Int,
):  # fmt: skip
    """A cost and the prices of unmatched mass (``native/exact/any_cost.cpp``)."""


class AnyCostOut(Record, units=Doubles, reach=Doubles):
    """What is said of every pair besides its value (``native/exact/any_cost.cpp``)."""


_solve_tile = entry("any_cost_tile", PackedPoints, AnyCost, PointsSizes, Tile, AnyCostOut)


class ExactAnyCost(PricedSolver):
    """Prepared once from sparse histograms and a ground cost; then solves tiles of pairs. See `ExactPoints`.

    ``table`` (V, V): what the cost would compute, if that is known (`asot.exact.distance_table`).
    """

    stage = "exact distances"

    def __init__(
        self,
        histograms: SparseHistograms,
        cost: GroundCost,
        p: float,
        unmatched: Unmatched | None = None,
        column_start: int = 0,
        table: Float | None = None,
    ) -> None:
        self.cost, self.p, self.unmatched, self.column_start = cost, p, unmatched, column_start
        self.histograms, self._sizes = histograms, np.diff(histograms.offsets)
        self._dim = cost.ground.points.shape[1]
        self.mean_size = float(self._sizes.mean())
        self._seconds = any_cost_seconds(2.0 * self.mean_size, self._dim)
        self.exponents: NDArray[np.int64] | None = None
        if unmatched is None:
            self.masses = quantize_sparse(histograms.offsets, histograms.masses)
        else:
            self.exponents = mass_exponents(unmatched.totals)
            self.masses = quantize_totals(histograms, unmatched.totals, self.exponents)
        self._points = pack(cost.ground.points, histograms, self.masses)
        self.cancels = p == 1 and cost.is_metric and (unmatched is None or unmatched.lets_cancel(cost))
        if table is not None and np.count_nonzero(table < TINY) > len(table):
            table = None  # the kernel measures such pairs of points in another unit
        self._kernel = AnyCost(
            code=cost.ground.code, order=cost.ground.order, transform=cost.transform, power=float(p),
            n=len(cost.ground.points), table=cost.table if cost.has_table else table,
            prices=None if unmatched is None else unmatched.over(cost.scale),
            exponents=self.exponents,
            share=0.0 if unmatched is None else unmatched.share, cancels=self.cancels,
        )  # fmt: skip
        self.info: Info = {
            **describe_any(cost.name, len(cost.ground.points)),
            "common_mass_canceled": self.cancels,
            "metric_proven": cost.is_metric,
            "unmatched": None if unmatched is None else unmatched.name,
            "share": unmatched.share if unmatched is not None and unmatched.share else None,
        }

    def seconds_of(self, rows: Indices, columns: Indices) -> float:
        p, q, width = left_to_ship(self.histograms, rows, columns).T.astype(float)
        if not self.cancels:
            p, q = (self._sizes[which].astype(float) for which in (rows, columns))
        each = OTHER if self.cost.has_table else per_coordinate(self.cost.ground.code)
        reading = np.where(width < self._dim, GATHERED, IN_PLACE)
        return float(pair_seconds(p, q, width, each=each, reading=reading).mean())

    def identity(self) -> Identity:
        version = 3 if self.cost.transform == ARC else 2 if are_long(self.cost.ground) else 1
        return identity_of(
            f"any cost, {version}", histograms=self.histograms, cost=self.cost, p=self.p, unmatched=self.unmatched,
            column_start=self.column_start,
        )  # fmt: skip

    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
        units, reach, second = np.empty(len(rows)), np.empty(len(rows)), columns + self.column_start
        sizes = PointsSizes(
            most_sources=int(self._sizes[rows].max()) + 1, most_sinks=int(self._sizes[second].max()) + 1
        )
        tile, values, pivots = tile_of(rows, second, stop)
        _solve_tile(self._points, self._kernel, sizes, tile, AnyCostOut(units=units, reach=reach))
        if self.unmatched is not None and stop[0] == 0:
            self.unmatched.check_reach(reach * self.cost.scale, rows, columns)
        unit = 0 if self.exponents is None else np.maximum(self.exponents[rows], self.exponents[second])
        moved = np.ldexp(values, unit - MASS_BITS)
        status = np.full(len(rows), Status.OPTIMAL, dtype=np.int8)
        return Solution(self.cost.scale * units * moved ** (1.0 / self.p), status, pivots)


def describe_any(metric: str, n_distinct: int) -> Info:
    """For ``info`` of a result: W_p with p > 1 under a metric, all masses matched."""
    return {
        "solver": "network simplex",
        "common_mass_canceled": False,
        **IN_FLOAT64,
        "metric": metric,
        "metric_proven": True,
        "unmatched": None,
        "share": None,
        "distinct_points": n_distinct,
    }


def mass_exponents(totals: Float) -> NDArray[np.int64]:
    """For every distribution the e with which two of its total fit into 2^e. (N,)"""
    return np.frexp(totals)[1].astype(np.int64) + 1


def quantize_totals(histograms: SparseHistograms, totals: Float, exponents: NDArray[np.int64]) -> Indices:
    """Masses that are not scaled to a common total as int64, in units of 2^(exponent - 60) of their distribution."""
    shares = np.ldexp(totals, -exponents)
    return np.rint(histograms.masses * np.repeat(shares, np.diff(histograms.offsets)) * 2.0**MASS_BITS).astype(np.int64)
