"""What the bounds of a search cost, in counted work: numbers that a bound has to touch.

Prices are seconds of one reference core, as those of solves are (`asot.exact.price`). The constants were measured once
(``python -m benchmarks documents`` shows prices beside the clock). A plan chosen by them is the same on every run, no
matter how busy the machine is or what had to be compiled first. One chosen by a stopwatch would not be.
"""

from __future__ import annotations

import numpy as np

from asot.ground.metrics import CITYBLOCK
from asot.search.relaxed_costs import Cost, Histograms

NANO = 1.5e-9
"""A nanosecond of a bound, as measured with AVX-512: other cores take about 1.5 times as long."""

SAMPLED_BLOCKS = 8
"""Blocks of rows, and of columns, whose distinct points are counted."""


def tables_price(has_projections: bool, n_groups: int, n_tail: int, n_pool: int) -> tuple[float, float]:
    """Seconds to look at a pair through projections and potentials: groups of rotations, means, potentials.

    First to find the nearest by bound, then with a limit. The second pair of looks is for the pairs that the coarse one
    leaves, about four fifths and half of them.
    """
    coarse = 20.0 + (4.0 * n_tail if has_projections else 0.0)
    fine = (4.0 * n_tail + 65.0 * (1 + n_groups) if has_projections else 0.0) + 0.5 * n_pool
    return NANO * (coarse + 0.8 * fine), NANO * (coarse + 0.5 * fine)


def blocks_price(
    h: Histograms, cost: Cost, row_blocks: list[tuple[int, int]], column_blocks: list[tuple[int, int]], start: int
) -> float:
    """Seconds of the relaxed bound of a pair: its part of the costs of a block, and its sums of minima."""
    rows, x, row_points = _counted(h, row_blocks, 0)
    columns, v, column_points = _counted(h, column_blocks, start)
    costs = x * v * _cost_price(h, cost)
    nearest_row = 0.8 * v * row_points
    to_rows = column_points * (rows + 0.2 * x)
    to_columns = 2.0 * columns * row_points
    return NANO * (costs + nearest_row + to_rows + to_columns) / (rows * columns)


def reduced_price(h: Histograms) -> float:
    """Seconds of the reduced bound of a pair whose costs are known."""
    size = _size(h)
    return NANO * (400.0 + 35.0 * size + 0.9 * size**2)


def single_price(h: Histograms, cost: Cost) -> float:
    """Seconds of the costs of one pair by itself."""
    size = _size(h)
    return NANO * (200.0 + size * h.points.shape[1] + (size + 6) * (size + 16) * _cost_price(h, cost))


def _size(h: Histograms) -> float:
    """The mean number of points, in the square."""
    return float(np.sqrt(np.mean(np.diff(h.offsets).astype(float) ** 2)))


def _cost_price(h: Histograms, cost: Cost) -> float:
    """Nanoseconds of one entry of a block."""
    power = 20.0 if cost.power not in (1.0, 2.0) else 0.0
    if len(h.table) > 0:
        return 0.5 + power
    each = 0.03 if len(h.short) > 0 else 0.8 if cost.code == CITYBLOCK else 1.6
    return 0.3 + each * h.points.shape[1] + power


def _counted(h: Histograms, blocks: list[tuple[int, int]], start: int) -> tuple[float, float, float]:
    """Means over some blocks: distributions, distinct points, points."""
    chosen = np.unique(np.linspace(0, len(blocks) - 1, SAMPLED_BLOCKS).astype(int))
    counts = []
    for low, high in (blocks[b] for b in chosen):
        names = h.names[h.offsets[start + low] : h.offsets[start + high]]
        counts.append((high - low, len(np.unique(names)), len(names)))
    distributions, distinct, points = np.mean(counts, axis=0)
    return float(distributions), float(distinct), float(points)
