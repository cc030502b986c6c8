"""Pricing an anchor plan with each distribution's own points: by cell, so that its cost is that of the plan itself.

A distribution keeps, for every anchor it has mass at, the mean of its own points there. A pair's anchor plan is priced
with these means instead of the anchors (docs/method.md §7), and the anchor potentials are improved by c-transforms with
the distances between the means. The two bracket the optimum of the transport between means, which is much nearer to W_1
than the distance on the anchors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices
from asot.anchors.space import Cells
from asot.exact.shared_cost import AnchorPlans, Trees
from asot.native import Doubles, Floats, Int, Ints, Record, ShortInts, entry


class LocalMeans(NamedTuple):
    """Local means of every distribution, ready to be compared: as rows, and transposed with padding."""

    offsets: Indices  # (N + 1,)
    anchor: NDArray[np.int32]  # (cells,)
    mass: Float  # flat: (stride,) for each distribution, zeros behind its cells
    variance: NDArray[np.float32]  # like mass: how far, squared, the points of a cell are from their mean
    mass_offsets: NDArray[np.int64]  # (N + 1,)
    place: NDArray[np.int32]  # (N, k) index of an anchor's cell among those of its distribution, or -1
    rows: NDArray[np.float32]  # flat: (cells + 3, w), the last three are padding
    column_offsets: NDArray[np.int64]  # (N + 1,)
    columns: NDArray[np.float32]  # flat: (w, stride) for each distribution, stride a multiple of 16
    centers: Float  # (N, w) mean of each distribution


class OwnCells(Record):
    """Cells of a collection (``native/bounds/local_means.cpp``)."""

    _fields_ = [  # noqa: RUF012
        ("k", Int), ("width", Int), ("offsets", Ints), ("anchor", ShortInts), ("mass", Doubles), ("mean", Doubles),
        ("variance", Doubles),
    ]  # fmt: skip


class MeansTable(Record):
    """`LocalMeans` (``native/bounds/local_means.cpp``)."""

    _fields_ = [  # noqa: RUF012
        ("k", Int), ("width", Int), ("offsets", Ints), ("anchor", ShortInts), ("mass", Doubles), ("variance", Floats),
        ("mass_offsets", Ints), ("place", ShortInts), ("rows", Floats), ("column_offsets", Ints), ("columns", Floats),
        ("centers", Doubles),
    ]  # fmt: skip


class RepricedPairs(Record):
    """Pairs, and where their prices go (``native/bounds/local_means.cpp``)."""

    _fields_ = [("n", Int), ("rows", Ints), ("columns", Ints), ("prices", Doubles), ("stop", Ints)]  # noqa: RUF012


_lay_out = entry("lay_out_means", OwnCells, MeansTable, Int, Int)
_reprice = entry("reprice_plans", MeansTable, AnchorPlans, RepricedPairs)


def _record(table: LocalMeans) -> MeansTable:
    return MeansTable.of(table, k=table.place.shape[1], width=table.centers.shape[1])


def means_to_lay_out(cells: Cells, n_anchors: int) -> tuple[LocalMeans, Callable[[int, int], object]]:
    """A table without content, and a function that fills it for a range of distributions once their cells are.

    Coordinates of means are at most about 1 in size.
    """
    sizes = np.diff(cells.offsets)
    strides = (sizes + 15) & ~15
    width = cells.mean.shape[1]
    column_offsets = np.concatenate([[0], np.cumsum(strides * width)])
    mass_offsets = np.concatenate([[0], np.cumsum(strides)])
    place = np.empty((len(sizes), n_anchors), dtype=np.int32)
    mass, variance = np.empty(mass_offsets[-1]), np.empty(mass_offsets[-1], dtype=np.float32)
    rows = np.empty((len(cells.mean) + 3, width), dtype=np.float32)
    rows[-3:] = 0.0
    columns = np.empty(column_offsets[-1], dtype=np.float32)
    centers = np.empty((len(sizes), width))
    own = OwnCells.of(cells, k=n_anchors, width=width)
    table = LocalMeans(
        cells.offsets, cells.anchor, mass, variance, mass_offsets, place, rows.ravel(), column_offsets, columns, centers
    )
    record = _record(table)
    return table, lambda low, high: _lay_out(own, record, low, high)


def reprice(
    table: LocalMeans, trees: Trees, rows: NDArray[np.int64], columns: NDArray[np.int64], exponent: int,
    prices: Float, stop: Any,
) -> None:  # fmt: skip
    """Fill ``prices`` (P, 5), columns contiguous, with what the anchor plans of a tile cost between local means.

    The price of mass that stays in its cell, of mass that moves, the dual of the transport between local means, the
    distance between the means of the whole distributions, and the price of all mass if the points of a cell are
    spread around their mean. Means and prices are in units of 2^exponent.
    """
    pairs = RepricedPairs(n=len(rows), rows=rows, columns=columns, prices=prices.T, stop=stop)
    _reprice(_record(table), trees.at_unit(exponent), pairs)
