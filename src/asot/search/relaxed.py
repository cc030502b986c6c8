"""A lower bound on transport from relaxed problems, for every cost (docs/method.md §9).

If every point ships to the nearest one of the other side, no matter how much arrives there, the cost can only fall:

    W(x, y) ≥ max( Σ_i a_i min_j c_ij ,  Σ_j b_j min_i c_ij ).

It is known as the relaxed word mover's distance. It needs no triangle inequality, it does not get weak in high
dimensions as projections do, and with a shared vocabulary the minima serve many pairs. Where the cost is a metric, mass
that both have on a point is left out first, which makes it larger. And the first minima leave room for second ones: f_i
= min_j c_ij, g_j = min_i c_ij - f_i are dual potentials, so that W ≥ Σ a f + Σ b g. On documents of ten words the
relaxed bound leaves a quarter of the pairs to solve, and the reduced one a fifteenth.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices
from asot.data.distinct import SparseHistograms
from asot.exact.any_cost import mass_exponents, quantize_totals
from asot.exact.points import quantize_sparse
from asot.exact.unmatched import Unmatched
from asot.ground.costs import GroundCost
from asot.ground.metrics import CITYBLOCK, EUCLIDEAN, ROUGH, Ground
from asot.native import Bytes, Double, Doubles, Floats, Int, Ints, Record, entry
from asot.run.executors import Stop, in_threads, local_executor
from asot.run.pairs import tiles
from asot.search.cascade import Cascade
from asot.search.kernels import NearestLists, SearchLimits, search_limits
from asot.search.sweep import NANO, Left, Shape

SAMPLED_BLOCKS = 8
"""Blocks of rows, and of columns, whose distinct points are counted."""

_ROWS = 64  # of a block
_ROW_POINTS = 1024
_COLUMNS = 4096
_COLUMN_POINTS = 8192  # with which a block has at most 32 MiB of costs, unless single distributions are larger

# ------------------------------------------------------------------------------------------------ what kernels take


class RelaxedPoints(
    Record, n_points=Int, d=Int, offsets=Ints, names=Ints, masses=Ints, points=Doubles, near_center=Floats,
    squares=Floats, table=Doubles, prices=Floats,
):  # fmt: skip
    """Who has which distinct point, and with what mass (``native/search/relaxed_costs.hpp``)."""


class RelaxedCost(Record, code=Int, order=Double, transform=Int, power=Double, error=Double, cancels=Int):
    """What shipping a unit of mass costs: a power of the ground distance (``native/search/relaxed_costs.hpp``)."""


class RelaxedRange(Record, low=Int, high=Int, first=Int, last=Int):
    """Some rows and some columns."""


class SinglePairs(Record, n=Int, rows=Ints, columns=Ints, possible=Bytes):
    """Some pairs, and where it is marked which of them are left."""


_bounds = entry("relaxed_bounds", RelaxedPoints, RelaxedCost, RelaxedRange, Doubles, Ints)
_keep = entry("keep_smallest", RelaxedRange, Doubles, Int, NearestLists)
_possible = entry("relaxed_possible", RelaxedPoints, RelaxedCost, RelaxedRange, SearchLimits, Doubles, Bytes, Ints)
_singles = entry("relaxed_singles", RelaxedPoints, RelaxedCost, SinglePairs, SearchLimits)


# ------------------------------------------------------------------------------------------------ bounds


@dataclass(frozen=True)
class Relaxed:
    """Relaxed and reduced bounds of the pairs of a collection; see `Look`."""

    scale: float
    """Distances are this many times those of the kernels."""
    histograms: SparseHistograms
    points: RelaxedPoints
    cost: RelaxedCost
    mass: float
    """What 2^60 of the masses weigh."""
    shape: Shape
    row_blocks: list[tuple[int, int]] = field(repr=False)
    column_blocks: list[tuple[int, int]] = field(repr=False)

    def scaled(self, limits: Float) -> Float:
        """Distances in the units of the kernels, where they are costs: d^p times mass."""
        rounded_up = 1.0 + 1e-13 * self.cost.power
        return np.asarray((limits / self.scale) ** self.cost.power / self.mass * rounded_up)

    def nearest_by_bound(self, start: int, stop: int, count: int, n_jobs: int) -> tuple[Indices, Float]:
        columns, smallest = np.full((stop - start, count), -1), np.full((stop - start, count), np.inf)
        lists = NearestLists(top=start, count=count, columns=columns, bounds=smallest)
        own = self.shape.column_start

        def piece(block: tuple[int, int], raised: Stop) -> None:
            for first, last in self.column_blocks:
                bounds = np.empty((block[1] - block[0], last - first))
                _bounds(self.points, self.cost, _range(*block, own + first, own + last), bounds, raised)
                if raised[0] != 0:
                    return
                _keep(_range(*block, first, last), bounds, self.shape.within, lists)

        in_threads(piece, self._row_blocks(start, stop), n_jobs)
        return columns, self.scale * (smallest * self.mass) ** (1.0 / self.cost.power)

    def pairs_within(self, start: int, stop: int, limits: Float, settled: Indices, n_jobs: int) -> Left:
        scaled, within = self.scaled(limits), self.shape.within
        blocks = self._row_blocks(start, stop)
        work = [(*b, *c) for b in blocks for c in self.column_blocks if not within or c[1] > b[0] + 1]

        def piece(part: tuple[int, int, int, int], stop: Stop) -> Left:
            low, high, first, last = part
            first = max(first, low + 1) if within else first
            search, place = search_limits(self.shape, stop, scaled, settled), _range(low, high, first, last)
            possible, doubted = np.zeros((high - low, last - first), dtype=np.int8), np.zeros(1, dtype=np.int64)
            _possible(self.points, self.cost, place, search, np.empty(possible.shape), possible, doubted)
            rows, columns = np.nonzero(possible)
            return Left(rows + low, columns + first, int(doubted[0]))

        found = [Left(_NONE, _NONE), *local_executor(n_jobs).map(piece, work)]
        rows, columns = (np.concatenate([getattr(part, name) for part in found]) for name in ("rows", "columns"))
        return Left(rows, columns, sum(part.doubted for part in found))

    def _row_blocks(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Pieces of work that are the rows start..stop-1."""
        return [(max(low, start), min(high, stop)) for low, high in self.row_blocks if low < stop and high > start]

    def keep(self, rows: Indices, columns: Indices, limits: Float, settled: Indices, n_jobs: int) -> NDArray[np.bool_]:
        """Which of some pairs (P,) may be within the limit of one of its ends, by their reduced bounds."""
        possible, scaled = np.empty(len(rows), dtype=np.bool_), self.scaled(limits)

        def piece(part: tuple[int, int], stop: Stop) -> None:
            own = slice(*part)
            possible[own] = self.kept(rows[own], columns[own], search_limits(self.shape, stop, scaled, settled))

        in_threads(piece, tiles(len(rows), self.pairs_per_piece), n_jobs)
        return possible

    def kept(self, rows: Indices, columns: Indices, search: SearchLimits) -> NDArray[np.bool_]:
        """The same for limits that are costs already, in one thread."""
        possible = np.zeros(len(rows), dtype=np.int8)
        pairs = SinglePairs(n=len(rows), rows=rows, columns=columns, possible=possible)
        _singles(self.points, self.cost, pairs, search)
        return possible.view(np.bool_)

    def from_one_end(self) -> Relaxed:
        return replace(self, shape=self.shape._replace(within=False))

    @property
    def pairs_per_piece(self) -> int:
        """How many single pairs a thread takes at a time: about 30 ms."""
        size = len(self.histograms.index) / (len(self.histograms.offsets) - 1)
        return int(np.clip(3e7 / (size * (size + 16) * (4 + 0.1 * self.points.d)), 16, 2**14))

    # ------------------------------------------------------------------------------------------------ prices

    def prices(self, doubted: float) -> tuple[float, float]:
        """The relaxed bound: a pair's part of the costs of a block, and its sums of minima."""
        rows, x, row_points = self._counted(self.row_blocks, 0)
        columns, v, column_points = self._counted(self.column_blocks, self.shape.column_start)
        costs = x * v * self._cost_price()
        nearest_row = 0.5 * v * row_points
        to_rows = column_points * (0.6 * rows + 0.12 * x)
        to_columns = 1.2 * columns * row_points
        look = NANO * (costs + nearest_row + to_rows + to_columns) / (rows * columns)
        return look, look + doubted * self.reduced_price()

    def reduced_price(self) -> float:
        """Seconds of the reduced bound of a pair whose costs are known."""
        size = self._size()
        return NANO * (70.0 + 18.0 * size + 2.0 * size**2)

    def single_price(self) -> float:
        """Seconds of the costs of one pair by itself."""
        size = self._size()
        return NANO * (200.0 + size * self.points.d + (size + 6) * (size + 16) * self._cost_price())

    def _size(self) -> float:
        """The mean number of points, in the square."""
        return float(np.sqrt(np.mean(np.diff(self.histograms.offsets).astype(float) ** 2)))

    def _cost_price(self) -> float:
        """Nanoseconds of one entry of a block."""
        power = 20.0 if self.cost.power not in (1.0, 2.0) else 0.0
        if self.points.arrays().get("table") is not None:
            return 0.3 + power
        each = {EUCLIDEAN: 0.02, CITYBLOCK: 0.8}.get(self.cost.code, 1.6)
        return 0.2 + each * self.points.d + power

    def _counted(self, blocks: list[tuple[int, int]], start: int) -> tuple[float, float, float]:
        """Means over some blocks: distributions, distinct points, points."""
        chosen = np.unique(np.linspace(0, len(blocks) - 1, SAMPLED_BLOCKS).astype(int))
        counts, offsets = [], self.histograms.offsets
        for low, high in (blocks[b] for b in chosen):
            names = self.histograms.index[offsets[start + low] : offsets[start + high]]
            counts.append((high - low, len(np.unique(names)), len(names)))
        distributions, distinct, points = np.mean(counts, axis=0)
        return float(distributions), float(distinct), float(points)


@dataclass(frozen=True)
class Chain:
    """The cascade first, and for what it leaves the reduced bound of the pair itself."""

    cascade: Cascade
    relaxed: Relaxed

    def nearest_by_bound(self, start: int, stop: int, count: int, n_jobs: int) -> tuple[Indices, Float]:
        return self.cascade.nearest_by_bound(start, stop, count, n_jobs)

    def pairs_within(self, start: int, stop: int, limits: Float, settled: Indices, n_jobs: int) -> Left:
        rows, columns, _ = self.cascade.pairs_within(start, stop, limits, settled, n_jobs)
        kept = self.relaxed.keep(rows, columns, limits, settled, n_jobs)
        return Left(rows[kept], columns[kept], len(rows))

    def prices(self, doubted: float) -> tuple[float, float]:
        first, second = self.cascade.prices(0.0)
        return first, second + doubted * (self.relaxed.single_price() + self.relaxed.reduced_price())

    def from_one_end(self) -> Chain:
        return Chain(self.cascade.from_one_end(), self.relaxed.from_one_end())


_NONE = np.empty(0, dtype=np.int64)


def _range(low: int, high: int, first: int, last: int) -> RelaxedRange:
    return RelaxedRange(low=low, high=high, first=first, last=last)


def relax(
    histograms: SparseHistograms, cost: GroundCost, shape: Shape, p: float = 1.0, unmatched: Unmatched | None = None
) -> Relaxed:
    """Prepare the bounds: W_p under a ground cost, with or without a price for unmatched mass."""
    ground = cost.ground
    short = _short_points(ground) if ground.code == EUCLIDEAN else {}
    if unmatched is None:
        masses, mass = quantize_sparse(histograms.offsets, histograms.masses), 1.0
        prices = np.full(len(ground.points), np.inf, dtype=np.float32)
    else:
        common = np.full_like(unmatched.totals, mass_exponents(unmatched.totals).max(), dtype=np.int64)
        masses, mass = quantize_totals(histograms, unmatched.totals, common), 2.0 ** float(common[0])
        prices = (unmatched.over(cost.scale) ** p).astype(np.float32)
    points = RelaxedPoints(
        n_points=len(ground.points), d=ground.points.shape[1], offsets=histograms.offsets, names=histograms.index,
        masses=masses, points=ground.points, prices=prices, table=cost.table if cost.has_table else None, **short,
    )  # fmt: skip
    error = ROUGH.get(ground.code, 0.0)
    cancels = p == 1 and cost.is_metric and unmatched is None
    kernel = RelaxedCost(
        code=ground.code, order=ground.order, transform=cost.transform, power=float(p), error=error, cancels=cancels
    )
    sizes = np.diff(histograms.offsets)
    rows = _blocks(sizes[: shape.n_rows], _ROWS, _ROW_POINTS)
    most = _COLUMN_POINTS if len(ground.points) > _COLUMN_POINTS else len(histograms.index)
    columns = _blocks(sizes[shape.column_start : shape.column_start + shape.n_columns], _COLUMNS, most)
    return Relaxed(cost.scale, histograms, points, kernel, mass, shape, rows, columns)


def block_bytes(histograms: SparseHistograms) -> int:
    """What one block of costs takes at most."""
    largest = int(np.diff(histograms.offsets).max())
    return 4 * max(largest, _ROW_POINTS) * max(largest, _COLUMN_POINTS)


def _short_points(ground: Ground) -> dict[str, NDArray[np.float32]]:
    """Points around their center as float32, and their squared lengths less what rounding can add.

    |x - v|² = |x|² + |v|² - 2 x·v. Rounding the coordinates, and d + 2 products and sums in float32, adds at most
    (d + 16)·2^-22 of |x|² + |v|².
    """
    short = (ground.points - ground.points.mean(axis=0)).astype(np.float32)
    squares = np.einsum("vd,vd->v", short, short, dtype=np.float64) * (1.0 - (short.shape[1] + 16) * 2.0**-22)
    return {"near_center": short, "squares": squares.astype(np.float32)}


def _blocks(sizes: Indices, most: int, most_points: int) -> list[tuple[int, int]]:
    """Ranges of at most ``most`` distributions and, unless one alone has more, ``most_points`` points."""
    ends = np.concatenate([[0], np.cumsum(sizes)])
    blocks, low = [], 0
    while low < len(sizes):
        high = int(np.searchsorted(ends, ends[low] + most_points, side="right")) - 1
        high = max(low + 1, min(high, low + most, len(sizes)))
        blocks.append((low, high))
        low = high
    return blocks
