"""Sinkhorn's updates of eight pairs in step, compiled, for few anchors: everything stays in the nearest cache.

A pair is a lane of a SIMD register, so a product with the shared kernel is a broadcast entry of K times eight scalings,
six rows at a time, and its result is divided at once. A BLAS library does the same products; this saves moving the
scalings through memory and a library call for every half of an update.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asot.jit.compiled import at, compiled, inlined
from asot.jit.double_lanes import DOUBLES, add_product, load, quotient, store, zeros

ROWS = 6
"""Rows of a product that are summed together: their twelve AVX2 registers leave room for the other factor."""

LARGEST_KERNEL = 2**17
"""Entries of a kernel beyond which a BLAS library is faster, because eight pairs are too few for one pass through
memory."""

STOP_EVERY = 100
"""Updates between checks of ``stop``."""

Float = NDArray[np.float64]


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
    _advance(K, KT, in_lanes(a, ROWS), in_lanes(b, ROWS), v, a.shape[1], l, blocks, count, stop)
    return np.ascontiguousarray(
        v.reshape(blocks, -1, DOUBLES).transpose(0, 2, 1).reshape(blocks * DOUBLES, -1)[:size, :l]
    )


@inlined
def _half(K, masses, x, y, from_size, into_size, o_x, o_y):
    """y ← masses / (K x) of one block; x begins at o_x and y, like the masses, at o_y."""
    for g in range((into_size + ROWS - 1) // ROWS):
        s0, s1, s2, s3, s4, s5 = zeros(), zeros(), zeros(), zeros(), zeros(), zeros()
        o = g * from_size * ROWS
        for j in range(from_size):
            lanes = load(x, o_x + j * DOUBLES)
            s0 = add_product(s0, K[at(o, 0)], lanes)
            s1 = add_product(s1, K[at(o, 1)], lanes)
            s2 = add_product(s2, K[at(o, 2)], lanes)
            s3 = add_product(s3, K[at(o, 3)], lanes)
            s4 = add_product(s4, K[at(o, 4)], lanes)
            s5 = add_product(s5, K[at(o, 5)], lanes)
            o += ROWS
        p = o_y + g * ROWS * DOUBLES
        store(y, p, quotient(load(masses, p), s0))
        store(y, p + 8, quotient(load(masses, p + 8), s1))
        store(y, p + 16, quotient(load(masses, p + 16), s2))
        store(y, p + 24, quotient(load(masses, p + 24), s3))
        store(y, p + 32, quotient(load(masses, p + 32), s4))
        store(y, p + 40, quotient(load(masses, p + 40), s5))


@compiled
def _advance(K, KT, a, b, v, k, l, blocks, count, stop):
    rows = (k + ROWS - 1) // ROWS * ROWS * DOUBLES
    columns = (l + ROWS - 1) // ROWS * ROWS * DOUBLES
    u = np.empty(rows)
    for block in range(blocks):
        own_a = a[block * rows : (block + 1) * rows]
        for iteration in range(count):
            if iteration % STOP_EVERY == 0 and stop[0] != 0:
                return
            _half(K, own_a, v, u, l, k, block * columns, 0)
            _half(KT, b, u, v, k, l, 0, block * columns)
