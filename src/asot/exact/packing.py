"""What is prepared once for all pairs of points: masses as integers, and every distribution in its own coordinates.

What NumPy does as well is not compiled, since the first call would wait for it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asot.exact.workspace import MASS_BITS
from asot.jit.compiled import compiled, inlined

_WHOLE = 2.0**MASS_BITS


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
    used, used_offsets = _find_used(points, offsets, index)
    return used, used_offsets


@compiled
def _find_used(points, offsets, index):  # type: ignore[no-untyped-def]
    n = len(offsets) - 1
    d = points.shape[1]
    used_offsets = np.zeros(n + 1, np.int64)
    seen = np.zeros(d, np.int64)
    used = np.empty(0, np.int32)
    for sweep in range(2):  # count, then write
        for i in range(n):
            for t in range(offsets[i], offsets[i + 1]):
                for c in range(d):
                    if points[index[t], c] != 0.0:
                        seen[c] = sweep * n + i + 1
            count = 0
            for c in range(d):
                if seen[c] == sweep * n + i + 1:
                    if sweep == 1:
                        used[used_offsets[i] + count] = c
                    count += 1
            if sweep == 0:
                used_offsets[i + 1] = used_offsets[i] + count
        if sweep == 0:
            used = np.empty(used_offsets[n], np.int32)
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
    packed, packed_offsets = _pack(points, offsets, index, used_offsets, used)
    return packed, packed_offsets


@compiled
def _pack(points, offsets, index, used_offsets, used):  # type: ignore[no-untyped-def]
    n = len(offsets) - 1
    packed_offsets = np.zeros(n + 1, np.int64)
    for i in range(n):
        size = (offsets[i + 1] - offsets[i]) * (used_offsets[i + 1] - used_offsets[i])
        packed_offsets[i + 1] = packed_offsets[i] + size
    packed = np.empty(packed_offsets[n])
    place = 0
    for i in range(n):
        for t in range(offsets[i], offsets[i + 1]):
            for c in range(used_offsets[i], used_offsets[i + 1]):
                packed[place] = points[index[t], used[c]]
                place += 1
    return packed, packed_offsets
