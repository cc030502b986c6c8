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
from asot.ground.metrics import CITYBLOCK, EUCLIDEAN, JENSENSHANNON, Ground
from asot.run.executors import Stop, in_threads, local_executor
from asot.run.pairs import tiles
from asot.search.cascade import Cascade
from asot.search.kernels import NearestLists, SearchLimits
from asot.search.relaxed_kernels import (
    Histograms,
    RelaxedCost,
    keep_possible,
    keep_smallest,
    relaxed_bounds,
    still_possible,
)
from asot.search.sweep import NANO, Left, Shape

SAMPLED_BLOCKS = 8
"""Blocks of rows, and of columns, whose distinct points are counted."""

_ROWS = 64  # of a block
_ROW_POINTS = 1024
_COLUMNS = 4096
_COLUMN_POINTS = 8192  # with which a block has at most 32 MiB of costs, unless single distributions are larger


@dataclass(frozen=True)
class Relaxed:
    """Relaxed and reduced bounds of the pairs of a collection; rows, columns and ``within`` as in `Cascade`."""

    scale: float
    """Distances are this many times those of the kernels."""
    histograms: Histograms
    cost: RelaxedCost
    mass: float
    """What 2^60 of the masses weigh."""
    n_rows: int
    n_columns: int
    column_start: int
    within: bool
    row_blocks: list[tuple[int, int]] = field(repr=False)
    column_blocks: list[tuple[int, int]] = field(repr=False)

    def scaled(self, limits: Float) -> Float:
        """Distances in the units of the kernels, where they are costs: d^p times mass."""
        rounded_up = 1.0 + 1e-13 * self.cost.power
        return np.asarray((limits / self.scale) ** self.cost.power / self.mass * rounded_up)

    def nearest_by_bound(self, count: int, n_jobs: int, rows: tuple[int, int] | None = None) -> tuple[Indices, Float]:
        """The ``count`` columns with the smallest relaxed bounds of every row (n_rows, count), ascending, with bounds.

        ``rows`` (start, stop): only of these (stop - start, count).
        """
        top, end = (0, self.n_rows) if rows is None else rows
        columns = np.full((end - top, count), -1)
        smallest = np.full((end - top, count), np.inf)
        lists = NearestLists(top=top, count=count, columns=columns, bounds=smallest)
        blocks = self._row_blocks(top, end)

        def piece(block: tuple[int, int], stop: Stop) -> None:
            for first, last in self.column_blocks:
                named = self.column_start + first, self.column_start + last
                bounds = relaxed_bounds(self.histograms, self.cost, block, named, stop)
                if stop[0] != 0:
                    return
                keep_smallest(bounds, block, (first, last), self.within, lists)

        in_threads(piece, blocks, n_jobs)
        return columns, self.scale * (smallest * self.mass) ** (1.0 / self.cost.power)

    def pairs_within(self, start: int, stop: int, limits: Float, settled: Indices, n_jobs: int) -> Left:
        """Pairs of the rows start..stop-1 whose distance may be within the limit of one of its ends.

        ``limits`` and ``settled`` (n_rows,) as in `Cascade.pairs_within`.
        """
        scaled = self.scaled(limits)
        work = [
            (*b, *c)
            for b in self._row_blocks(start, stop)
            for c in self.column_blocks
            if not self.within or c[1] > b[0] + 1
        ]

        def piece(part: tuple[int, int, int, int], stop: Stop) -> Left:
            low, high, first, last = part
            first = max(first, low + 1) if self.within else first
            search = self._search(scaled, settled, stop)
            possible, doubted = still_possible(self.histograms, self.cost, (low, high), (first, last), search)
            rows, columns = np.nonzero(possible)
            return Left(rows + low, columns + first, doubted)

        found = [Left(_NONE, _NONE), *local_executor(n_jobs).map(piece, work)]
        rows, columns = (np.concatenate([getattr(part, name) for part in found]) for name in ("rows", "columns"))
        return Left(rows, columns, sum(part.doubted for part in found))

    def _search(self, scaled: Float, settled: Indices, stop: Stop) -> SearchLimits:
        settled = np.ascontiguousarray(settled)
        return SearchLimits(
            column_start=self.column_start, within=self.within, limits=scaled, settled=settled, stop=stop
        )

    def _row_blocks(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Pieces of work that are the rows start..stop-1."""
        return [(max(low, start), min(high, stop)) for low, high in self.row_blocks if low < stop and high > start]

    def keep(self, rows: Indices, columns: Indices, limits: Float, settled: Indices, n_jobs: int) -> NDArray[np.bool_]:
        """Which of some pairs (P,) may be within the limit of one of its ends, by their reduced bounds."""
        possible = np.empty(len(rows), dtype=np.bool_)
        scaled = self.scaled(limits)

        def piece(part: tuple[int, int], stop: Stop) -> None:
            own = slice(*part)
            search = self._search(scaled, settled, stop)
            possible[own] = keep_possible(self.histograms, self.cost, rows[own], columns[own], search)

        in_threads(piece, tiles(len(rows), self.pairs_per_piece), n_jobs)
        return possible

    def prices(self, doubted: float) -> tuple[float, float]:
        h = self.histograms
        look = blocks_price(h, self.cost, self.row_blocks, self.column_blocks, self.column_start)
        return look, look + doubted * reduced_price(h)

    def from_one_end(self) -> Relaxed:
        return replace(self, within=False)

    @property
    def pairs_per_piece(self) -> int:
        """How many single pairs a thread takes at a time: about 30 ms."""
        size = len(self.histograms.names) / (len(self.histograms.offsets) - 1)
        return int(np.clip(3e7 / (size * (size + 16) * (4 + 0.1 * self.histograms.points.shape[1])), 16, 2**14))


@dataclass(frozen=True)
class Chain:
    """The cascade first, and for what it leaves the reduced bound of the pair itself."""

    cascade: Cascade
    relaxed: Relaxed

    @property
    def n_rows(self) -> int:
        return self.cascade.n_rows

    def nearest_by_bound(self, count: int, n_jobs: int, rows: tuple[int, int] | None = None) -> tuple[Indices, Float]:
        return self.cascade.nearest_by_bound(count, n_jobs, rows)

    def pairs_within(self, start: int, stop: int, limits: Float, settled: Indices, n_jobs: int) -> Left:
        rows, columns, _ = self.cascade.pairs_within(start, stop, limits, settled, n_jobs)
        kept = self.relaxed.keep(rows, columns, limits, settled, n_jobs)
        return Left(rows[kept], columns[kept], len(rows))

    def prices(self, doubted: float) -> tuple[float, float]:
        first, second = self.cascade.prices(0.0)
        h = self.relaxed.histograms
        return first, second + doubted * (single_price(h, self.relaxed.cost) + reduced_price(h))

    def from_one_end(self) -> Chain:
        return Chain(self.cascade.from_one_end(), self.relaxed.from_one_end())


_NONE = np.empty(0, dtype=np.int64)


def relax(
    histograms: SparseHistograms, cost: GroundCost, shape: Shape, p: float = 1.0, unmatched: Unmatched | None = None
) -> Relaxed:
    """Prepare the bounds: W_p under a ground cost, with or without a price for unmatched mass."""
    ground = cost.ground
    short, squares = _short_points(ground)
    if unmatched is None:
        masses, mass = quantize_sparse(histograms.offsets, histograms.masses), 1.0
        prices = np.full(len(ground.points), np.inf, dtype=np.float32)
    else:
        common = np.full_like(unmatched.totals, mass_exponents(unmatched.totals).max(), dtype=np.int64)
        masses, mass = quantize_totals(histograms, unmatched.totals, common), 2.0 ** float(common[0])
        prices = (unmatched.over(cost.scale) ** p).astype(np.float32)
    data = Histograms(
        histograms.offsets, histograms.index, masses, ground.points, short, squares, cost.table, prices
    )  # fmt: skip
    # A Jensen-Shannon distance is the root of a difference: near 0 it has half the digits of the others.
    error = 1e-6 if ground.code == JENSENSHANNON else 0.0
    cancels = p == 1 and cost.is_metric and unmatched is None
    kernel = RelaxedCost(
        code=ground.code, order=ground.order, transform=cost.transform, power=float(p), error=error, cancels=cancels
    )
    sizes = np.diff(histograms.offsets)
    rows = _blocks(sizes[: shape.n_rows], _ROWS, _ROW_POINTS)
    most = _COLUMN_POINTS if len(ground.points) > _COLUMN_POINTS else len(histograms.index)
    columns = _blocks(sizes[shape.column_start : shape.column_start + shape.n_columns], _COLUMNS, most)
    return Relaxed(cost.scale, data, kernel, mass, *shape, rows, columns)


def block_bytes(histograms: SparseHistograms) -> int:
    """What one block of costs takes at most."""
    largest = int(np.diff(histograms.offsets).max())
    return 4 * max(largest, _ROW_POINTS) * max(largest, _COLUMN_POINTS)


def _short_points(ground: Ground) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Points around their center as float32, and their squared lengths less what rounding can add.

    |x - v|² = |x|² + |v|² - 2 x·v. Rounding the coordinates, and d + 2 products and sums in float32, adds at most
    (d + 16)·2^-22 of |x|² + |v|².
    """
    d = ground.points.shape[1]
    if ground.code != EUCLIDEAN:
        return np.empty((0, d), dtype=np.float32), np.empty(0, dtype=np.float32)
    short = (ground.points - ground.points.mean(axis=0)).astype(np.float32)
    squares = np.einsum("vd,vd->v", short, short, dtype=np.float64) * (1.0 - (d + 16) * 2.0**-22)
    return short, squares.astype(np.float32)


def _blocks(sizes: NDArray[np.int64], most: int, most_points: int) -> list[tuple[int, int]]:
    """Ranges of at most ``most`` distributions and, unless one alone has more, ``most_points`` points."""
    ends = np.concatenate([[0], np.cumsum(sizes)])
    blocks, low = [], 0
    while low < len(sizes):
        high = int(np.searchsorted(ends, ends[low] + most_points, side="right")) - 1
        high = max(low + 1, min(high, low + most, len(sizes)))
        blocks.append((low, high))
        low = high
    return blocks


# ------------------------------------------------------------------------------------------------ prices


def blocks_price(
    h: Histograms,
    cost: RelaxedCost,
    row_blocks: list[tuple[int, int]],
    column_blocks: list[tuple[int, int]],
    start: int,
) -> float:
    """Seconds of the relaxed bound of a pair: its part of the costs of a block, and its sums of minima."""
    rows, x, row_points = _counted(h, row_blocks, 0)
    columns, v, column_points = _counted(h, column_blocks, start)
    costs = x * v * _cost_price(h, cost)
    nearest_row = 0.5 * v * row_points
    to_rows = column_points * (0.6 * rows + 0.12 * x)
    to_columns = 1.2 * columns * row_points
    return NANO * (costs + nearest_row + to_rows + to_columns) / (rows * columns)


def reduced_price(h: Histograms) -> float:
    """Seconds of the reduced bound of a pair whose costs are known."""
    size = _size(h)
    return NANO * (70.0 + 18.0 * size + 2.0 * size**2)


def single_price(h: Histograms, cost: RelaxedCost) -> float:
    """Seconds of the costs of one pair by itself."""
    size = _size(h)
    return NANO * (200.0 + size * h.points.shape[1] + (size + 6) * (size + 16) * _cost_price(h, cost))


def _size(h: Histograms) -> float:
    """The mean number of points, in the square."""
    return float(np.sqrt(np.mean(np.diff(h.offsets).astype(float) ** 2)))


def _cost_price(h: Histograms, cost: RelaxedCost) -> float:
    """Nanoseconds of one entry of a block."""
    power = 20.0 if cost.power not in (1.0, 2.0) else 0.0
    if len(h.table) > 0:
        return 0.3 + power
    each = 0.02 if len(h.short) > 0 else 0.8 if cost.code == CITYBLOCK else 1.6
    return 0.2 + each * h.points.shape[1] + power


def _counted(h: Histograms, blocks: list[tuple[int, int]], start: int) -> tuple[float, float, float]:
    """Means over some blocks: distributions, distinct points, points."""
    chosen = np.unique(np.linspace(0, len(blocks) - 1, SAMPLED_BLOCKS).astype(int))
    counts = []
    for low, high in (blocks[b] for b in chosen):
        names = h.names[h.offsets[start + low] : h.offsets[start + high]]
        counts.append((high - low, len(np.unique(names)), len(names)))
    distributions, distinct, points = np.mean(counts, axis=0)
    return float(distributions), float(distinct), float(points)
