"""Sinkhorn's updates of eight pairs in step, compiled, for few anchors: everything stays in the nearest cache.

A pair is a lane of a SIMD register, so a product with the shared kernel is a broadcast entry of K times eight scalings
(sixteen in float32), six rows at a time, and its result is divided at once. A BLAS library does the same products; this
saves moving the scalings through memory and a library call for every half of an update.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.native import Doubles, Floats, Int, Ints, Record, entry

LANE_BYTES = 64
"""Pairs lie side by side in so many bytes: eight of float64, sixteen of float32."""

ROWS = 6
"""Rows of a product that are summed together, here and in C++."""

LARGEST_KERNEL = 2**17
"""Entries of a kernel beyond which a BLAS library is faster, because eight pairs are too few for one pass through
memory."""


Masses = NDArray[np.float64] | NDArray[np.float32]


def _lanes(Real: Any) -> dict[str, type]:
    """Kernels, masses and scalings in lanes of one type of float (``native/entropic/eight_pairs.cpp``)."""
    sizes, numbers = ("k", "l", "blocks", "count"), ("K", "KT", "a", "b", "v")
    return {**dict.fromkeys(sizes, Int), **dict.fromkeys(numbers, Real), "stop": Ints}


class EightPairs(Record, **_lanes(Doubles)):
    pass


class SixteenPairs(Record, **_lanes(Floats)):
    pass


_eight = entry("eight_pairs", EightPairs)
_sixteen = entry("sixteen_pairs", SixteenPairs)


def packed(K: Masses) -> Masses:
    """K (k, l) in groups of six rows, which lie side by side column by column; padded with rows of 1."""
    k, l = K.shape
    rows = np.ones((-(-k // ROWS) * ROWS, l), dtype=K.dtype)
    rows[:k] = K
    return np.ascontiguousarray(rows.reshape(-1, ROWS, l).transpose(0, 2, 1)).ravel()


def in_lanes(masses: Masses, padded_to: int) -> Masses:
    """(P, k) → (blocks, padded k, lanes), flat; what is padded has no mass."""
    size, k = masses.shape
    wide = LANE_BYTES // masses.dtype.itemsize
    blocks = -(-size // wide)
    lanes = np.zeros((blocks * wide, -(-k // padded_to) * padded_to), dtype=masses.dtype)
    lanes[:size, :k] = masses
    return np.ascontiguousarray(lanes.reshape(blocks, wide, -1).transpose(0, 2, 1)).ravel()


def advance(K: Masses, KT: Masses, a: Masses, b: Masses, V: Masses, count: int, stop: NDArray[np.int64]) -> Masses:
    """V (P, l) after ``count`` further updates from V; K and KT are `packed`, a (P, k), b (P, l), all of one type."""
    size, l = b.shape
    v = in_lanes(V, ROWS)
    wide = LANE_BYTES // v.dtype.itemsize
    blocks = -(-size // wide)
    record, entered = (EightPairs, _eight) if v.dtype == np.float64 else (SixteenPairs, _sixteen)
    lanes = record(
        k=a.shape[1], l=l, blocks=blocks, count=count, K=K, KT=KT, a=in_lanes(a, ROWS), b=in_lanes(b, ROWS), v=v,
        stop=stop,
    )  # fmt: skip
    entered(lanes)
    return np.ascontiguousarray(v.reshape(blocks, -1, wide).transpose(0, 2, 1).reshape(blocks * wide, -1)[:size, :l])
