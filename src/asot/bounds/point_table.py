"""The points of a collection as bounds see them: distinct, in few coordinates, numbered cell by cell.

With points numbered by their anchor, the points of a distribution near one anchor are neighbors in its sorted list,
and merging two sorted lists both cancels common mass and keeps the cells together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.bounds.short_vectors import Coordinates
from asot.data.distinct import SparseHistograms
from asot.exact.points import quantize_sparse
from asot.native import Int, Ints, Record, entry
from asot.run.executors import in_ranges, in_stretches


class PointTable(NamedTuple):
    """Distributions as sparse histograms over distinct points that are numbered cell by cell."""

    offsets: NDArray[np.int64]  # (N + 1,)
    point: NDArray[np.int64]  # (nnz,) ascending within a distribution
    masses: NDArray[np.int64]  # (nnz,) sum to 2^60 within a distribution
    cell: NDArray[np.int32]  # (V,) ascending
    points: NDArray[np.float64]  # (V, w)
    rest: NDArray[np.float64]  # (V,)
    height: NDArray[np.float64]  # (k,) mean first coordinate of the points of each cell
    original: NDArray[np.int64]  # (V,) the number each point had before

    def largest(self, rows: NDArray[np.int64]) -> int:
        return int((self.offsets[rows + 1] - self.offsets[rows]).max())


class Renumbering(Record):
    """Histograms and the new numbers of their points (``native/bounds/tables.cpp``)."""

    _fields_ = [("offsets", Ints), ("old", Ints), ("number", Ints), ("index", Ints), ("masses", Ints)]  # noqa: RUF012


_renumber = entry("renumber_points", Renumbering, Int, Int)


def point_table(
    histograms: SparseHistograms,
    cell: NDArray[np.int64],
    coordinates: Coordinates,
    k: int,
    n_jobs: int = 1,
    along: NDArray[np.int64] | None = None,
) -> PointTable:
    """Renumber the distinct points, cell by cell. ``cell`` (V,) is the anchor of each, of ``k``.

    ``along`` is their order by the first coordinate (`order_along`), if it is known.
    """
    first = coordinates.points[:, 0]
    order = _by_cell(order_along(coordinates) if along is None else along, cell, k)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    offsets, masses = histograms.offsets, quantize_sparse(histograms.offsets, histograms.masses)
    index = np.empty_like(histograms.index)
    renumbering = Renumbering(offsets=offsets, old=histograms.index, number=number, index=index, masses=masses)
    in_stretches(offsets, lambda low, high: _renumber(renumbering, low, high), n_jobs)
    points = np.empty(coordinates.points.shape)
    in_ranges(n_jobs)(
        len(order),
        lambda low, high: coordinates.points.take(order[low:high], axis=0, out=points[low:high], mode="clip"),
    )
    height = np.bincount(cell, weights=first, minlength=k) / np.maximum(np.bincount(cell, minlength=k), 1)
    cells = cell[order].astype(np.int32)
    return PointTable(offsets, index, masses, cells, points, coordinates.rest[order], height, order)


def order_along(coordinates: Coordinates) -> NDArray[np.int64]:
    """The order (V,) of points by their first coordinate."""
    return np.argsort(coordinates.points[:, 0], kind="stable")


def _by_cell(along: NDArray[np.int64], cell: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """The order of points by cell, and within each as before: small integers are sorted without comparisons."""
    cells = cell[along]
    return along[np.argsort(cells.astype(np.uint16) if k <= 2**16 else cells, kind="stable")]
