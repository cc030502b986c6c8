"""Pricing an anchor plan with each distribution's own points: by cell, so that its cost is that of the plan itself.

A distribution keeps, for every anchor it has mass at, the mean of its own points there. A pair's anchor plan is priced
with these means instead of the anchors (docs/method.md §7), and the anchor potentials are improved by c-transforms with
the distances between the means. The two bracket the optimum of the transport between means, which is much nearer to W_1
than the distance on the anchors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asot._typing import Float, Indices
from asot.anchors.space import Cells
from asot.exact.shared_cost import AnchorPlans, Trees
from asot.native import Doubles, Floats, Int, Ints, Record, ShortInts, entry


class OwnCells(Record, k=Int, width=Int, offsets=Ints, anchor=ShortInts, mass=Doubles, mean=Doubles, variance=Doubles):
    """Cells of a collection (``native/bounds/local_means.cpp``)."""


class MeansTable(
    Record, k=Int, width=Int, offsets=Ints, anchor=ShortInts, mass=Doubles, variance=Floats, mass_offsets=Ints,
    place=ShortInts, rows=Floats, column_offsets=Ints, columns=Floats, centers=Doubles,
):  # fmt: skip
    """Local means of every distribution, ready to be compared: as rows, and transposed with padding
    (``native/bounds/local_means.cpp``)."""


class RepricedPairs(Record, n=Int, rows=Ints, columns=Ints, prices=Doubles, stop=Ints):
    """Pairs, and where their prices go (``native/bounds/local_means.cpp``)."""


_lay_out = entry("lay_out_means", OwnCells, MeansTable, Int, Int)
_reprice = entry("reprice_plans", MeansTable, AnchorPlans, RepricedPairs)


def means_to_lay_out(cells: Cells, n_anchors: int) -> tuple[MeansTable, Callable[[int, int], object]]:
    """A table without content, and a function that fills it for a range of distributions once their cells are.

    Coordinates of means are at most about 1 in size.
    """
    sizes = np.diff(cells.offsets)
    strides = (sizes + 15) & ~15
    width = cells.mean.shape[1]
    column_offsets = np.concatenate([[0], np.cumsum(strides * width)])
    mass_offsets = np.concatenate([[0], np.cumsum(strides)])
    rows = np.empty((len(cells.mean) + 3, width), dtype=np.float32)
    rows[-3:] = 0.0
    own = OwnCells.of(cells, k=n_anchors, width=width)
    table = MeansTable(
        k=n_anchors, width=width, offsets=cells.offsets, anchor=cells.anchor, mass=np.empty(mass_offsets[-1]),
        variance=np.empty(mass_offsets[-1], dtype=np.float32), mass_offsets=mass_offsets,
        place=np.empty((len(sizes), n_anchors), dtype=np.int32), rows=rows.ravel(), column_offsets=column_offsets,
        columns=np.empty(column_offsets[-1], dtype=np.float32), centers=np.empty((len(sizes), width)),
    )  # fmt: skip
    return table, lambda low, high: _lay_out(own, table, low, high)


def reprice(
    table: MeansTable, trees: Trees, rows: Indices, columns: Indices, exponent: int, prices: Float, stop: Any
) -> None:
    """Fill ``prices`` (P, 5), columns contiguous, with what the anchor plans of a tile cost between local means.

    The price of mass that stays in its cell, of mass that moves, the dual of the transport between local means, the
    distance between the means of the whole distributions, and the price of all mass if the points of a cell are
    spread around their mean. Means and prices are in units of 2^exponent.
    """
    pairs = RepricedPairs(n=len(rows), rows=rows, columns=columns, prices=prices.T, stop=stop)
    _reprice(table, trees.at_unit(exponent), pairs)
