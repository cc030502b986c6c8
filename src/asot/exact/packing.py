"""What is prepared once for all pairs of points: masses as integers, and every distribution in its own coordinates."""

from __future__ import annotations

import numpy as np

from asot.exact.workspace import MASS_BITS
from asot.jit.compiled import compiled


@compiled
def quantize_sparse(offsets, masses, bits=MASS_BITS):  # type: ignore[no-untyped-def]
    """Masses as int64 that sum to exactly 2^bits in every distribution; the largest absorbs the rounding."""
    quantized = np.empty(len(masses), np.int64)
    for i in range(len(offsets) - 1):
        total = np.int64(0)
        largest = offsets[i]
        for t in range(offsets[i], offsets[i + 1]):
            quantized[t] = np.int64(np.rint(masses[t] * 2.0**bits))
            total += quantized[t]
            if masses[t] > masses[largest]:
                largest = t
        quantized[largest] += (np.int64(1) << bits) - total
    return quantized


@compiled
def used_coordinates(points, offsets, index):  # type: ignore[no-untyped-def]
    """For every distribution, the ascending list of coordinates in which some point of it is not 0."""
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


@compiled
def pack_points(points, offsets, index, used_offsets, used):  # type: ignore[no-untyped-def]
    """The points of every distribution in its used coordinates only, one small matrix after the other."""
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
