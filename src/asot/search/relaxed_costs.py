"""What relaxed bounds are made of: who has which points, and what shipping between two of them costs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.native import Double, Doubles, Floats, Int, Ints, Record


class Histograms(NamedTuple):
    """The collection: who has which distinct point, and with what mass."""

    offsets: NDArray[np.int64]  # (N + 1,)
    names: NDArray[np.int64]  # (nnz,) of points, ascending within a distribution
    masses: NDArray[np.int64]  # (nnz,) total 2^60 within a distribution
    points: NDArray[np.float64]  # (V, d) in the units of the ground metric
    short: NDArray[np.float32]  # (V, d) the same around their center, for the Euclidean metric; else (0, d)
    squares: NDArray[np.float32]  # (V,) squared lengths of those, less what rounding can add to a squared distance
    table: NDArray[np.float64]  # (V, V) of distances, for costs without a kernel; else (0, 0)
    prices: NDArray[np.float32]  # (V,) what a unit of mass costs that stays unmatched, to the power; else inf

    def record(self) -> RelaxedPoints:
        """The same as kernels see it."""
        return RelaxedPoints(
            n_points=len(self.points), d=self.points.shape[1], offsets=self.offsets, names=self.names,
            masses=self.masses, points=self.points, prices=self.prices,
            near_center=self.short if len(self.short) else None, squares=self.squares if len(self.short) else None,
            table=self.table if len(self.table) else None,
        )  # fmt: skip


class Cost(NamedTuple):
    """What shipping a unit of mass costs: a power of the ground distance."""

    code: int  # `Ground.code`
    order: float
    transform: int  # as in `asot.ground.costs`
    power: float
    error: float  # by which a computed distance may be off in absolute terms
    cancels: bool  # common mass may be left out: the cost is a metric

    def record(self) -> RelaxedCost:
        """The same as kernels see it."""
        return RelaxedCost(**self._asdict())


class RelaxedPoints(Record):
    """`Histograms` (``native/search/relaxed_costs.hpp``)."""

    _fields_ = [  # noqa: RUF012
        ("n_points", Int), ("d", Int), ("offsets", Ints), ("names", Ints), ("masses", Ints), ("points", Doubles),
        ("near_center", Floats), ("squares", Floats), ("table", Doubles), ("prices", Floats),
    ]  # fmt: skip


class RelaxedCost(Record):
    """`Cost` (``native/search/relaxed_costs.hpp``)."""

    _fields_ = [  # noqa: RUF012
        ("code", Int), ("order", Double), ("transform", Int), ("power", Double), ("error", Double), ("cancels", Int),
    ]  # fmt: skip
