"""Distributions with their repeated points merged, packed so that a compiled loop gets at the distances of a pair.

A point that occurs twice in a distribution is one point with the mass of both. Points without mass are not part of a
distribution and are left out. How often a point occurs is kept: an iteration that starts at V = 1 has to know.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.data.distinct import distinct_rows
from asot.data.distributions import Distributions
from asot.exact.points import pack_points, used_coordinates
from asot.ground.metrics import prepare_metric
from asot.native import Doubles, Int, Ints, Record, ShortInts

LARGEST_EXPONENT = 1023
"""Of a power of two in float64."""


class MergedCollection(
    Record, offsets=Ints, masses=Doubles, counts=Doubles, used_offsets=Ints, used=ShortInts, packed_offsets=Ints,
    packed=Doubles, dim=Int,
):  # fmt: skip
    """`MergedPoints`, as kernels see them (``native/baselines/merged.hpp``)."""


class MergedPoints(NamedTuple):
    """A collection of distributions over distinct points, each in the coordinates in which it is not all zero."""

    offsets: NDArray[np.int64]  # (N + 1,) into masses and counts
    masses: NDArray[np.float64]  # (nnz,) > 0, total 1 within a distribution
    counts: NDArray[np.float64]  # (nnz,) how many points of the distribution were merged into this one
    used_offsets: NDArray[np.int64]  # (N + 1,) into used
    used: NDArray[np.int32]  # coordinates, ascending within a distribution
    packed_offsets: NDArray[np.int64]  # (N + 1,) into packed
    packed: NDArray[np.float64]  # points of a distribution in its used coordinates, one matrix after the other
    distinct: NDArray[np.float64]  # (V, d) the distinct points of the whole collection
    point: NDArray[np.int64]  # (nnz,) which of them
    unit: float  # distances are this times those of the packed points
    largest: float  # no distance of two points exceeds this
    dim: int

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of distinct points of every distribution (N,)."""
        return np.diff(self.offsets)

    @property
    def record(self) -> MergedCollection:
        return MergedCollection(**{field[0]: getattr(self, field[0]) for field in MergedCollection._fields_})


def merged_points(D: Distributions) -> MergedPoints:
    """Merge and pack a collection. ValueError where float64 may not hold the distances of its points."""
    has_mass = D.masses > 0
    points, index = distinct_rows(D.points[has_mass])
    owner = np.repeat(np.arange(len(D)), D.sizes)[has_mass]
    cells, place, counts = np.unique(owner * len(points) + index, return_inverse=True, return_counts=True)
    masses = np.asarray(np.bincount(place, weights=D.masses[has_mass]), dtype=np.float64)
    rows, index = np.divmod(cells, len(points))
    offsets = np.searchsorted(rows, np.arange(len(D) + 1))
    ground = prepare_metric(points, "euclidean")
    exponent = min(ground.exponent, LARGEST_EXPONENT)
    scaled = np.ldexp(ground.points, ground.exponent - exponent)
    used, used_offsets = used_coordinates(scaled, offsets, index)
    packed, packed_offsets = pack_points(scaled, offsets, index, used_offsets, used)
    unit = float(np.ldexp(1.0, exponent))
    with np.errstate(over="ignore"):
        largest = unit * float(np.linalg.norm(scaled.max(axis=0) - scaled.min(axis=0)))
    if not np.isfinite(largest):
        raise ValueError("the box around all points is larger than the range of float64; scale the points down")
    return MergedPoints(
        offsets, masses, counts.astype(np.float64), used_offsets, used, packed_offsets, packed,
        scaled, index, unit, largest, D.dim,
    )  # fmt: skip
