"""The original problems, exactly: W_1 between the distributions themselves (docs/method.md §8).

Every distribution is a sparse histogram over the distinct points of the collection. For each pair the common mass is
canceled, the cost is computed for the p × q points that remain (and only in the coordinates where either
distribution is not all zero: one-hot and count features are mostly zeros), and the simplex runs. No cost matrix is
ever stored, and nothing is of size N × V.

Masses become int64 that sum to exactly 2^60; a unit is 1e-18 of the total, below float64's own rounding. What NumPy
does as well is not compiled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Identity, Indices, Info
from asot.data.distinct import SparseHistograms, left_to_ship
from asot.exact.distance_table import are_long
from asot.exact.price import GATHERED, IN_PLACE, PricedSolver, mean_seconds, pair_seconds, per_coordinate, table_seconds
from asot.exact.workspace import MASS_BITS
from asot.ground.metrics import Ground
from asot.native import Double, Doubles, Int, Ints, Record, ShortInts, Tile, entry, tile_of
from asot.run.protocols import IN_FLOAT64, Solution, Status, identity_of


class IndexedPoints(Record, n=Int, d=Int, points=Doubles, offsets=Ints, index=Ints, used_offsets=Ints, used=ShortInts):
    """Distributions as lists of points, and their coordinates (``native/exact/packing.cpp``)."""


class PackedPoints(
    Record, offsets=Ints, index=Ints, masses=Ints, used_offsets=Ints, used=ShortInts, packed_offsets=Ints,
    packed=Doubles, dim=Int,
):  # fmt: skip
    """A collection as solvers of points read it (``native/exact/packed_points.hpp``)."""


class PointsCost(Record, code=Int, order=Double, n=Int, table=Doubles):
    """A ground metric (``native/exact/points.hpp``)."""


class PointsSizes(Record, most_sources=Int, most_sinks=Int, equal=Int):
    """How large the problems of a tile are (``native/exact/points.hpp``)."""


class SinksOut(Record, starts=Ints, points=Ints, heights=Doubles):
    """Where potentials go (``native/exact/points.cpp``)."""


_count_used = entry("count_used", IndexedPoints)
_list_used = entry("list_used", IndexedPoints)
_pack_points = entry("pack_points", IndexedPoints, Doubles)
_solve_tile = entry("points_tile", PackedPoints, PointsCost, PointsSizes, Tile)
_solve_potentials = entry("points_potentials", PackedPoints, PointsCost, PointsSizes, Tile, SinksOut)


class ExactPoints(PricedSolver):
    """Prepared once from sparse histograms and a ground metric; then solves tiles of pairs.

    ``column_start`` is added to column indices: the second collection of a rectangle follows the first one. ``table``
    (V, V) holds the distances between all distinct points, if they were computed (`distance_table`). ``named`` are the
    distributions that pairs will name, if they are few: the points of others are not laid out.
    """

    stage = "exact distances"

    def __init__(
        self,
        histograms: SparseHistograms,
        ground: Ground,
        column_start: int = 0,
        table: Float | None = None,
        named: Indices | None = None,
    ) -> None:
        masses = quantize_sparse(histograms.offsets, histograms.masses)
        self._histograms, self._ground = histograms, ground
        self._equal = bool(histograms.masses.min() == histograms.masses.max())
        self._exponent = ground.exponent
        self._column_start = column_start
        self._sizes = np.diff(histograms.offsets)
        self._seconds = mean_seconds(histograms, ground.points.shape[1], column_start)
        self._points = pack(ground.points, histograms, masses, named)
        self._cost = PointsCost(code=ground.code, order=ground.order, n=len(ground.points), table=table)
        self._has_table = table is not None
        self.info = describe(ground.name, len(ground.points), self._equal)

    def identity(self) -> Identity:
        solver = "points, 2" if are_long(self._ground) else "points, 1"
        return identity_of(solver, histograms=self._histograms, ground=self._ground, column_start=self._column_start)

    def seconds_of(self, rows: Indices, columns: Indices) -> float:
        p, q, width = left_to_ship(self._histograms, rows, columns).T.astype(float)
        n_points, dim = self._ground.points.shape
        if self._has_table:
            return float(table_seconds(p, q, n_points).mean())
        each, reading = per_coordinate(self._ground.code), np.where(width < dim, GATHERED, IN_PLACE)
        return float(pair_seconds(p, q, width, each=each, reading=reading).mean())

    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
        tile, values, pivots = tile_of(rows, columns + self._column_start, stop)
        _solve_tile(self._points, self._cost, self._sizes_of(tile), tile)
        status = np.full(len(rows), Status.OPTIMAL, dtype=np.int8)
        return Solution(np.ldexp(values, self._exponent - MASS_BITS), status, pivots)

    def potentials(self, rows: Indices, columns: Indices, stop: Indices) -> SinkPotentials:
        """Solve the pairs and give an optimal dual potential of each, on the points it ships to."""
        second = columns + self._column_start
        most = int(self._sizes[second].sum())
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        points, heights = np.empty(most, dtype=np.int64), np.empty(most)
        tile = Tile(n=len(rows), rows=rows, columns=second, stop=stop)
        out = SinksOut(starts=starts, points=points, heights=heights)
        computed = PointsCost(code=self._ground.code, order=self._ground.order)  # without the table
        _solve_potentials(self._points, computed, self._sizes_of(tile), tile, out)
        return SinkPotentials(starts, points[: starts[-1]], heights[: starts[-1]])

    def _sizes_of(self, tile: Tile) -> PointsSizes:
        named = tile.arrays()
        most_sources, most_sinks = (int(self._sizes[named[side]].max()) for side in ("rows", "columns"))
        return PointsSizes(most_sources=most_sources, most_sinks=most_sinks, equal=self._equal)


def describe(metric: str, n_distinct: int, equal: bool) -> Info:
    """For ``info`` of a result."""
    return {
        "solver": "assignment or network simplex" if equal else "network simplex",
        "common_mass_canceled": True,
        **IN_FLOAT64,
        "metric": metric,
        "distinct_points": n_distinct,
    }


def pack(
    points: Float, histograms: SparseHistograms, masses: NDArray[np.int64], named: Indices | None = None
) -> PackedPoints:
    """What kernels take of a collection: distinct points (V, d), and masses as integers; points of those ``named``."""
    offsets, index = (histograms.offsets, histograms.index) if named is None else _only(histograms, named)
    used, used_offsets = used_coordinates(points, offsets, index)
    packed, packed_offsets = pack_points(points, offsets, index, used_offsets, used)
    return PackedPoints(
        offsets=histograms.offsets, index=histograms.index, masses=masses, used_offsets=used_offsets, used=used,
        packed_offsets=packed_offsets, packed=packed, dim=points.shape[1],
    )  # fmt: skip


def _only(histograms: SparseHistograms, named: Indices) -> tuple[Indices, Indices]:
    """Offsets (N + 1,) and indices as if all other distributions were empty."""
    sizes = np.diff(histograms.offsets)
    is_named = np.zeros(len(sizes), dtype=np.bool_)
    is_named[named] = True
    index = histograms.index[np.repeat(is_named, sizes)]
    return np.concatenate([[0], np.cumsum(np.where(is_named, sizes, 0))]), index


class SinkPotentials(NamedTuple):
    """Dual potentials of P pairs, on the points that each pair ships to.

    Pair t has the heights g of the distinct points ``points[starts[t]:starts[t + 1]]``, in units of 2^exponent of the
    ground metric. f(z) = min_j g_j + d(z, y_j) is 1-Lipschitz, and E f(x) - E f(y) is the distance of the pair. A pair
    of distance 0 has none.
    """

    starts: Indices  # (P + 1,)
    points: Indices  # indices of distinct points
    heights: Float


# ------------------------------------------------------------------------------------------------ preparing points


def quantize_sparse(offsets: Indices, masses: Float, bits: int = MASS_BITS) -> NDArray[np.int64]:
    """Masses as int64 that sum to exactly 2^bits in every distribution; the largest absorbs the rounding."""
    starts = offsets[:-1]
    quantized = np.rint(masses * 2.0**bits).astype(np.int64)
    (peaks,) = (masses == np.maximum.reduceat(masses, starts).repeat(offsets[1:] - starts)).nonzero()
    largest = peaks[peaks.searchsorted(starts)]  # the first one of each distribution
    quantized[largest] += (1 << bits) - np.add.reduceat(quantized, starts)
    return quantized


def used_coordinates(points: Float, offsets: Indices, index: Indices) -> tuple[NDArray[np.int32], Indices]:
    """For every distribution, the ascending list of coordinates in which some point of it is not 0, and offsets."""
    n, d = len(offsets) - 1, points.shape[1]
    if points.all():  # nothing is 0
        every = np.empty((n, d), dtype=np.int32)
        every[:] = np.arange(d)
        return every.reshape(-1), d * np.arange(n + 1)
    used_offsets = np.empty(n + 1, dtype=np.int64)
    _count_used(_record(points, offsets, index, used_offsets, None))
    used = np.empty(int(used_offsets[-1]), dtype=np.int32)
    _list_used(_record(points, offsets, index, used_offsets, used))
    return used, used_offsets


def pack_points(
    points: Float, offsets: Indices, index: Indices, used_offsets: Indices, used: NDArray[np.int32]
) -> tuple[Float, Indices]:
    """The points of every distribution in its used coordinates only, one small matrix after the other, and offsets."""
    d = points.shape[1]
    if len(used) == (len(offsets) - 1) * d:  # all coordinates, everywhere
        as_they_are = len(index) == len(points) and bool((index == np.arange(len(index))).all())
        return (points if as_they_are else points[index]).reshape(-1), d * offsets
    packed_offsets = np.concatenate([[0], np.cumsum(np.diff(offsets) * np.diff(used_offsets))])
    packed = np.empty(int(packed_offsets[-1]))
    _pack_points(_record(points, offsets, index, used_offsets, used), packed)
    return packed, packed_offsets


def _record(
    points: Float, offsets: Indices, index: Indices, used_offsets: Indices, used: NDArray[np.int32] | None
) -> IndexedPoints:
    x = np.ascontiguousarray(points, dtype=np.float64)
    offsets, index = (np.ascontiguousarray(each, dtype=np.int64) for each in (offsets, index))
    return IndexedPoints(
        n=len(offsets) - 1, d=x.shape[1], points=x, offsets=offsets, index=index, used_offsets=used_offsets, used=used
    )
