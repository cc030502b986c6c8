"""Float data to the integers of the simplex, losing nothing that a float64 answer could show.

Masses become int64 that sum to exactly 2^60; a unit is 1e-18 of the total, below float64's own rounding. Costs become
int64 with as many bits as the longest path of a tree allows: 52 at ten anchors, 40 at two thousand. They only steer the
simplex; values are summed from the unrounded costs. So a basis that is optimal for the integers is optimal for the
floats up to 2^-40 of the largest cost.

Points are prepared here, too: every distribution in the coordinates that it uses. What NumPy does as well is not
compiled, since the first call would wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asot.exact.workspace import LANES, MASS_BITS
from asot.native import Doubles, Int, Ints, Record, ShortInts, entry

OFFSET_WEIGHT = 0.85
"""Share of a node's mean cost that the greedy start subtracts; measured best between 0.7 and 1."""


def quantize_masses(histograms: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rows (N, k) of total 1 to int64 rows that sum to exactly 2^60; the largest entry absorbs the rounding."""
    total = 1 << MASS_BITS
    masses = np.ascontiguousarray(np.rint(histograms * float(total)), dtype=np.int64)
    masses[np.arange(len(masses)), masses.argmax(axis=1)] += total - masses.sum(axis=1)
    return masses


def index_bits_for(n_sources: int, n_sinks: int) -> int:
    """Bits that hold a row or a (padded) column index of a cost block."""
    return max(4, int(max(n_sources, n_sinks) + LANES - 1).bit_length())


def cost_bits_for(index_bits: int) -> int:
    """Bits left for a cost: a potential is a sum along a path, and the column index sits below it."""
    return 62 - 2 * index_bits


@dataclass(frozen=True)
class QuantizedCost:
    """A shared cost, prepared once for all pairs.

    ``unit`` holds the costs divided by 2^exponent, so that they are at most 1 and sums of them cannot overflow.
    """

    integer: NDArray[np.int64]  # (k, l) costs, shifted left by index_bits
    unit: NDArray[np.float64]  # (k, l)
    row_offset: NDArray[np.int64]  # (k,) for the greedy start
    column_offset: NDArray[np.int64]  # (l,)
    index_bits: int
    exponent: int


def quantize_cost(cost: NDArray[np.float64]) -> QuantizedCost:
    """Prepare a finite cost (k, l) ≥ 0."""
    index_bits = index_bits_for(*cost.shape)
    exponent = int(np.frexp(cost.max())[1])
    unit = np.ldexp(np.ascontiguousarray(cost), -exponent)
    scale = 2.0 ** cost_bits_for(index_bits)

    def packed(values: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.rint(values * scale).astype(np.int64) << index_bits

    return QuantizedCost(
        integer=packed(unit),
        unit=unit,
        row_offset=packed(OFFSET_WEIGHT * unit.mean(axis=1)),
        column_offset=packed(OFFSET_WEIGHT * unit.mean(axis=0)),
        index_bits=index_bits,
        exponent=exponent,
    )


# ------------------------------------------------------------------------------------------------ points


class IndexedPoints(Record):
    """Distributions as lists of points, and their coordinates (``native/exact/packing.cpp``)."""

    _fields_ = [  # noqa: RUF012
        ("n", Int), ("d", Int), ("points", Doubles), ("offsets", Ints), ("index", Ints), ("used_offsets", Ints),
        ("used", ShortInts),
    ]  # fmt: skip


_count_used = entry("count_used", IndexedPoints)
_list_used = entry("list_used", IndexedPoints)
_pack_points = entry("pack_points", IndexedPoints, Doubles)


def quantize_sparse(
    offsets: NDArray[np.int64], masses: NDArray[np.float64], bits: int = MASS_BITS
) -> NDArray[np.int64]:
    """Masses as int64 that sum to exactly 2^bits in every distribution; the largest absorbs the rounding."""
    starts = offsets[:-1]
    quantized = np.rint(masses * 2.0**bits).astype(np.int64)
    peaks = np.flatnonzero(masses == np.repeat(np.maximum.reduceat(masses, starts), np.diff(offsets)))
    largest = peaks[np.searchsorted(peaks, starts)]  # the first one of each distribution
    quantized[largest] += (1 << bits) - np.add.reduceat(quantized, starts)
    return quantized


def used_coordinates(
    points: NDArray[np.float64], offsets: NDArray[np.int64], index: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """For every distribution, the ascending list of coordinates in which some point of it is not 0, and offsets."""
    n, d = len(offsets) - 1, points.shape[1]
    if points.all():  # nothing is 0
        return np.tile(np.arange(d, dtype=np.int32), n), d * np.arange(n + 1)
    used_offsets = np.empty(n + 1, dtype=np.int64)
    _count_used(_record(points, offsets, index, used_offsets, None))
    used = np.empty(int(used_offsets[-1]), dtype=np.int32)
    _list_used(_record(points, offsets, index, used_offsets, used))
    return used, used_offsets


def pack_points(
    points: NDArray[np.float64],
    offsets: NDArray[np.int64],
    index: NDArray[np.int64],
    used_offsets: NDArray[np.int64],
    used: NDArray[np.int32],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
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
    points: NDArray[np.float64],
    offsets: NDArray[np.int64],
    index: NDArray[np.int64],
    used_offsets: NDArray[np.int64],
    used: NDArray[np.int32] | None,
) -> IndexedPoints:
    return IndexedPoints(
        n=len(offsets) - 1,
        d=points.shape[1],
        points=np.ascontiguousarray(points, dtype=np.float64),
        offsets=np.ascontiguousarray(offsets, dtype=np.int64),
        index=np.ascontiguousarray(index, dtype=np.int64),
        used_offsets=used_offsets,
        used=used,
    )
