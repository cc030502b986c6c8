"""Sinkhorn's updates of eight pairs in step, compiled, for few anchors: everything stays in the nearest cache.

A pair is a lane of a SIMD register, so a product with the shared kernel is a broadcast entry of K times eight scalings,
six rows at a time, and its result is divided at once. A BLAS library does the same products; this saves moving the
scalings through memory and a library call for every half of an update.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float
from asot.native import Doubles, Int, Ints, Record, entry

DOUBLES = 8
"""Pairs side by side."""

ROWS = 6
"""Rows of a product that are summed together, here and in C++."""

LARGEST_KERNEL = 2**17
"""Entries of a kernel beyond which a BLAS library is faster, because eight pairs are too few for one pass through
memory."""


class EightPairs(Record):
    """Kernels, masses and scalings in lanes (``native/entropic/eight_pairs.cpp``)."""

    _fields_ = [  # noqa: RUF012
        ("k", Int), ("l", Int), ("blocks", Int), ("count", Int), ("K", Doubles), ("KT", Doubles), ("a", Doubles),
        ("b", Doubles), ("v", Doubles), ("stop", Ints),
    ]  # fmt: skip


_advance = entry("eight_pairs", EightPairs)


def packed(K: Float) -> Float:
    """K (k, l) in groups of six rows, which lie side by side column by column; padded with rows of 1."""
    k, l = K.shape
    rows = np.ones((-(-k // ROWS) * ROWS, l))
    rows[:k] = K
    return np.ascontiguousarray(rows.reshape(-1, ROWS, l).transpose(0, 2, 1)).ravel()


def in_lanes(masses: Float, padded_to: int) -> Float:
    """(P, k) → (blocks, padded k, 8), flat; what is padded has no mass."""
    size, k = masses.shape
    blocks = -(-size // DOUBLES)
    lanes = np.zeros((blocks * DOUBLES, -(-k // padded_to) * padded_to))
    lanes[:size, :k] = masses
    return np.ascontiguousarray(lanes.reshape(blocks, DOUBLES, -1).transpose(0, 2, 1)).ravel()


def advance(K: Float, KT: Float, a: Float, b: Float, V: Float, count: int, stop: NDArray[np.int64]) -> Float:
    """V (P, l) after ``count`` further updates from V; K and KT are `packed`, a (P, k), b (P, l)."""
    size, l = b.shape
    v = in_lanes(V, ROWS)
    blocks = -(-size // DOUBLES)
    lanes = EightPairs(
        k=a.shape[1], l=l, blocks=blocks, count=count, K=K, KT=KT, a=in_lanes(a, ROWS), b=in_lanes(b, ROWS), v=v,
        stop=stop,
    )  # fmt: skip
    _advance(lanes)
    return np.ascontiguousarray(
        v.reshape(blocks, -1, DOUBLES).transpose(0, 2, 1).reshape(blocks * DOUBLES, -1)[:size, :l]
    )
