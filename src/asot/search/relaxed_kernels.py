"""The compiled loops of the relaxed bound, as Python calls them (``native/search/relaxed.cpp``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices
from asot.native import Bytes, Double, Doubles, Floats, Int, Ints, Record, entry
from asot.search.kernels import NearestLists, SearchLimits


class Histograms(NamedTuple):
    """The collection: who has which distinct point, and with what mass."""

    offsets: Indices  # (N + 1,)
    names: Indices  # (nnz,) of points, ascending within a distribution
    masses: NDArray[np.int64]  # (nnz,) total 2^60 within a distribution
    points: Float  # (V, d) in the units of the ground metric
    short: NDArray[np.float32]  # (V, d) the same around their center, for the Euclidean metric; else (0, d)
    squares: NDArray[np.float32]  # (V,) squared lengths of those, less what rounding can add to a squared distance
    table: Float  # (V, V) of distances, for costs without a kernel; else (0, 0)
    prices: NDArray[np.float32]  # (V,) what a unit of mass costs that stays unmatched, to the power; else inf

    def record(self) -> RelaxedPoints:
        """The same as kernels see it."""
        return RelaxedPoints(
            n_points=len(self.points), d=self.points.shape[1], offsets=self.offsets, names=self.names,
            masses=self.masses, points=self.points, prices=self.prices,
            near_center=self.short if len(self.short) else None, squares=self.squares if len(self.short) else None,
            table=self.table if len(self.table) else None,
        )  # fmt: skip


class RelaxedPoints(Record):
    """`Histograms` (``native/search/relaxed_costs.hpp``)."""

    _fields_ = [  # noqa: RUF012
        ("n_points", Int), ("d", Int), ("offsets", Ints), ("names", Ints), ("masses", Ints), ("points", Doubles),
        ("near_center", Floats), ("squares", Floats), ("table", Doubles), ("prices", Floats),
    ]  # fmt: skip


class RelaxedCost(Record):
    """What shipping a unit of mass costs: a power of the ground distance (``native/search/relaxed_costs.hpp``)."""

    _fields_ = [  # noqa: RUF012
        ("code", Int),  # `Ground.code`
        ("order", Double),
        ("transform", Int),  # as in `asot.ground.costs`
        ("power", Double),
        ("error", Double),  # by which a computed distance may be off in absolute terms
        ("cancels", Int),  # whether common mass may be left out: the cost is a metric
    ]


class RelaxedRange(Record):
    """Some rows and some columns."""

    _fields_ = [("low", Int), ("high", Int), ("first", Int), ("last", Int)]  # noqa: RUF012


class SinglePairs(Record):
    """Some pairs, and where it is marked which of them are left."""

    _fields_ = [("n", Int), ("rows", Ints), ("columns", Ints), ("possible", Bytes)]  # noqa: RUF012


_bounds = entry("relaxed_bounds", RelaxedPoints, RelaxedCost, RelaxedRange, Doubles, Ints)
_keep = entry("keep_smallest", RelaxedRange, Doubles, Int, NearestLists)
_possible = entry("relaxed_possible", RelaxedPoints, RelaxedCost, RelaxedRange, SearchLimits, Doubles, Bytes, Ints)
_singles = entry("relaxed_singles", RelaxedPoints, RelaxedCost, SinglePairs, SearchLimits)


def relaxed_bounds(
    h: Histograms, cost: RelaxedCost, rows: tuple[int, int], columns: tuple[int, int], stop: Indices
) -> Float:
    """Relaxed bounds (rows, columns), both ranges of distributions of the collection, in units of mass 1."""
    bounds = np.empty((rows[1] - rows[0], columns[1] - columns[0]))
    _bounds(h.record(), cost, _range(rows, columns), bounds, stop)
    return bounds


def keep_smallest(
    bounds: Float, rows: tuple[int, int], columns: tuple[int, int], within: bool, lists: NearestLists
) -> None:
    """Merge bounds (rows, columns) into the smallest ones of each row."""
    _keep(_range(rows, columns), bounds, within, lists)


def still_possible(
    h: Histograms, cost: RelaxedCost, rows: tuple[int, int], columns: tuple[int, int], search: SearchLimits
) -> tuple[NDArray[np.bool_], int]:
    """Which pairs (rows, columns) have bounds that are not above the limit of one end.

    And how many pairs the relaxed bound left to the reduced one.
    """
    possible = np.zeros((rows[1] - rows[0], columns[1] - columns[0]), dtype=np.int8)
    doubted = np.zeros(1, dtype=np.int64)
    scratch = np.empty(possible.shape)
    _possible(h.record(), cost, _range(rows, columns), search, scratch, possible, doubted)
    return possible.view(np.bool_), int(doubted[0])


def keep_possible(
    h: Histograms, cost: RelaxedCost, rows: Indices, columns: Indices, search: SearchLimits
) -> NDArray[np.bool_]:
    """Which of some pairs (P,) have reduced bounds that are not above the limit of one end."""
    possible = np.zeros(len(rows), dtype=np.int8)
    pairs = SinglePairs(n=len(rows), rows=rows, columns=columns, possible=possible)
    _singles(h.record(), cost, pairs, search)
    return possible.view(np.bool_)


def _range(rows: tuple[int, int], columns: tuple[int, int]) -> RelaxedRange:
    return RelaxedRange(low=rows[0], high=rows[1], first=columns[0], last=columns[1])
