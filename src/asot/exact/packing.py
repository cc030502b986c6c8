"""What is prepared once for all pairs of points: masses as integers, and every distribution in its own coordinates.

What NumPy does as well is not compiled, since the first call would wait for it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asot.exact.workspace import MASS_BITS
from asot.jit.compiled import inlined
from asot.native import Doubles, Int, Ints, Record, ShortInts, entry

_WHOLE = 2.0**MASS_BITS


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


@inlined
def quantize_in_kernel(offsets, masses):  # type: ignore[no-untyped-def]
    """The same for compiled functions, to 2^MASS_BITS."""
    quantized = np.empty(len(masses), np.int64)
    for i in range(len(offsets) - 1):
        total = np.int64(0)
        largest = offsets[i]
        for t in range(offsets[i], offsets[i + 1]):
            quantized[t] = np.int64(np.rint(masses[t] * _WHOLE))
            total += quantized[t]
            if masses[t] > masses[largest]:
                largest = t
        quantized[largest] += (np.int64(1) << MASS_BITS) - total
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
        return points[index].reshape(-1), d * offsets
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
