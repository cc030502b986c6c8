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
from asot.exact.packing import quantize_sparse
from asot.jit.compiled import compiled


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


def point_table(histograms: SparseHistograms, cell: NDArray[np.int64], coordinates: Coordinates, k: int) -> PointTable:
    """Renumber the distinct points, cell by cell. ``cell`` (V,) is the anchor of each, of ``k``."""
    first = coordinates.points[:, 0]
    order = np.lexsort((first, cell))
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    index, masses = number[histograms.index], quantize_sparse(histograms.offsets, histograms.masses)
    _sort_each(histograms.offsets, index, masses)
    points, rest = np.ascontiguousarray(coordinates.points[order]), coordinates.rest[order]
    height = np.bincount(cell, weights=first, minlength=k) / np.maximum(np.bincount(cell, minlength=k), 1)
    cells = cell[order].astype(np.int32)
    return PointTable(histograms.offsets, index, masses, cells, points, rest, height, order)


@compiled
def _sort_each(offsets, index, masses):  # type: ignore[no-untyped-def]
    """Put the points of every distribution in ascending order, and their masses with them."""
    for i in range(len(offsets) - 1):
        begin, end = offsets[i], offsets[i + 1]
        keys = np.empty(end - begin, np.int64)
        for t in range(begin, end):
            keys[t - begin] = index[t] << 31 | (t - begin)
        keys.sort()
        old = masses[begin:end].copy()
        for t in range(end - begin):
            index[begin + t] = keys[t] >> 31
            masses[begin + t] = old[keys[t] & 0x7FFFFFFF]
