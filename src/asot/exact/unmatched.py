"""What mass without a partner costs: the price of every point, read from ``unmatched=`` (docs/method.md §14)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from asot._typing import Float, Identity, Indices
from asot.data.distributions import Distributions
from asot.data.reading import place_of
from asot.ground.costs import GroundCost
from asot.ground.metrics import CHEBYSHEV, CITYBLOCK, EUCLIDEAN, MINKOWSKI, TRANSFORMED
from asot.request import Share
from asot.validation import first_false, is_number, to_float_array

CONSTANT_SLACK = 1.0 + 1e-12
"""A distance may be this much above twice a constant price: rounding must not refuse a price that just suffices."""


@dataclass(frozen=True)
class Unmatched:
    """Prices of the V distinct points, and the masses that distributions have before they are scaled."""

    name: Any
    """As shown in ``info``."""
    prices: Float  # (V,) ≥ 0, in the units of the ground distance
    totals: Float  # (N,)
    constant: float | None
    """The price, where it is the same for all points."""
    share: float = 0.0
    """What must be moved, as a share of the smaller total."""

    def identity(self) -> Identity:
        """All that answers depend on, by the names that stores know it by."""
        return {
            "name": self.name,
            "prices": self.prices,
            "totals": self.totals,
            "constant": self.constant,
            "share": self.share,
        }

    def over(self, scale: float) -> Float:
        """Prices (V,) in units of a cost."""
        with np.errstate(divide="ignore", over="ignore"):
            found = np.divide(self.prices, scale, out=np.zeros_like(self.prices), where=self.prices > 0)
        if not np.isfinite(found).all():
            raise ValueError(
                f"unmatched mass costs up to {self.prices.max():g}, and distances are next to nothing beside that; "
                "scale the points up, or the prices down"
            )
        return found

    def lets_cancel(self, cost: GroundCost) -> bool:
        """Whether mass that both distributions have on a point may stay there for p = 1 and a metric.

        It may if the reservoir is one more point of the metric: prices of neighbors differ by no more than their
        distance. A constant must also be large enough for every pair that there may be, so that none is to be refused.
        """
        if self.share or not cost.is_metric:
            return False
        return self.name == "diagonal" or (self.constant is not None and _widest(cost) <= 2.0 * self.constant)

    def check_reach(self, reach: Float, rows: Indices, columns: Indices) -> None:
        """Refuse a constant price below half of the largest distance of a pair: other libraries then compute a
        different number."""
        if self.constant is None:
            return
        far = reach > 2.0 * self.constant * CONSTANT_SLACK
        if far.any():
            t = int(np.argmax(far))
            raise ValueError(
                f"unmatched={self.constant:g} is less than half of the largest ground distance between distributions "
                f"{rows[t]} and {columns[t]} ({reach[t]:.6g}). EnergyFlow and pyemd then match as much mass as they "
                "can, however far it has to go, while asot would leave some of it unmatched: use at least "
                f"{reach[t] / 2:.6g}, or pass the price of every point as an array if that is what you want"
            )


def read_unmatched(unmatched: Any, pooled: Distributions, index: Indices, cost: GroundCost) -> Unmatched:
    """From a number, an array (n,) with the price of every point of the collection(s), or "diagonal".

    ``index`` (n,) is the distinct point of every point; points without mass have -1.
    """
    n = len(cost.ground.points)
    if isinstance(unmatched, Share):
        return Unmatched(None, np.zeros(n), np.ones(len(pooled)), None, unmatched.amount)
    if not np.isfinite(pooled.totals).all():
        raise ValueError("masses are too large to be compared as they are; divide them all by one number")
    if isinstance(unmatched, str):
        if unmatched != "diagonal":
            raise ValueError(f"unmatched must be a number, an array or 'diagonal'; found {unmatched!r}")
        return Unmatched("diagonal", _to_diagonal(cost), totals_beside(unmatched, pooled.totals), None)
    if isinstance(unmatched, (bool, int, float, np.number)):
        if not is_number(unmatched) or not 0 < unmatched < np.inf:
            raise ValueError(f"unmatched must be a positive price; found {unmatched!r}")
        price = float(unmatched)
        return Unmatched(price, np.full(n, price), pooled.totals, price)
    given = np.asarray(to_float_array(unmatched, "unmatched"), dtype=np.float64)
    if given.shape != (len(index),):
        raise ValueError(
            f"unmatched has shape {given.shape}; as an array it is the price of each of the {len(index)} points, those "
            "of the second collection after those of the first"
        )
    good = np.isfinite(given) & (given >= 0)
    if not good.all():
        (first,) = first_false(good)
        i, row = place_of(first, pooled.offsets)
        raise ValueError(
            f"unmatched is {given[first]:g} at point {row} of {pooled.label(i)}; prices must be finite and ≥ 0"
        )
    held = index >= 0
    prices = np.zeros(n)
    prices[index[held]] = given[held]
    if (prices[index[held]] != given[held]).any():
        t = int(np.flatnonzero(held)[np.argmax(prices[index[held]] != given[held])])
        raise ValueError(
            f"unmatched gives two prices to one point: point {t} is equal to another one with another price"
        )
    return Unmatched("array", prices, pooled.totals, None)


def totals_beside(unmatched: Any, totals: Float) -> Float:
    """Totals (N,) as prices count them: the point on the diagonal that stands for an empty diagram has mass where that
    costs nothing."""
    return np.where(totals > 0, totals, 1.0) if isinstance(unmatched, str) else totals


def _widest(cost: GroundCost) -> float:
    """No two points are farther apart; infinite where that is not known at once."""
    if cost.has_table:
        return float(cost.table.max()) * cost.scale
    return cost.ground.span * (1.0 + 1e-9) if cost.is_plain else np.inf


def _to_diagonal(cost: GroundCost) -> Float:
    """Distances of points (birth, death) to the diagonal."""
    ground = cost.ground
    orders = {EUCLIDEAN: 2.0, CITYBLOCK: 1.0, CHEBYSHEV: np.inf, MINKOWSKI: ground.order}
    if not cost.is_plain or ground.code not in orders or cost.name in TRANSFORMED:
        raise ValueError(
            "unmatched='diagonal' is known for the metrics 'euclidean', 'cityblock', 'chebyshev' and 'minkowski'; "
            f"with {cost.name!r} pass the price of every point as an array"
        )
    if ground.points.shape[1] != 2:
        raise ValueError(
            f"unmatched='diagonal' is for points (birth, death); these have {ground.points.shape[1]} coordinates"
        )
    height = np.abs(ground.points[:, 1] - ground.points[:, 0]) * 2.0**ground.exponent
    return np.asarray(height * 2.0 ** (1.0 / orders[ground.code] - 1.0))
