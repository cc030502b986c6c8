"""Small blocks of distances and potentials that are feasible for them: the arithmetic that bounds and estimates share.

A block holds the distances between n rows and m columns, in float32, with rows padded to whole `float_lanes`. Its
c-transforms turn any potentials into feasible ones: f_i + g_j ≤ d_ij everywhere. Rows are taken four at a time, so
that they share what is read of the columns; arrays have room for an n that is rounded up to a multiple of four.
"""

from __future__ import annotations

import numpy as np

from asot.jit.compiled import inlined, reordered
from asot.jit.float_lanes import (
    WIDTH,
    least,
    lesser,
    load,
    minus,
    plus_square,
    root,
    spread,
    store,
)

BARRED = np.float32(-1e30)
"""Potential of a padding column: no row's minimum takes it."""


@inlined
def block_stride(m):
    """Row length of a block with m columns."""
    return (m + WIDTH - 1) & ~(WIDTH - 1)


@inlined
def fill_block(x, row, y, column, distance, n, width, stride):
    """Distances (n, stride) between points x[row:] (n, width) and y[column:] (width, stride), all flat."""
    zero = np.float32(0.0)
    for i in range(0, n, 4):
        x0 = row + i * width
        x1 = x0 + width
        x2 = x1 + width
        x3 = x2 + width
        for j in range(0, stride, WIDTH):
            d0 = d1 = d2 = d3 = spread(zero)
            for c in range(width):
                v = load(y, column + c * stride + j)
                d0 = plus_square(d0, minus(v, spread(x[x0 + c])))
                d1 = plus_square(d1, minus(v, spread(x[x1 + c])))
                d2 = plus_square(d2, minus(v, spread(x[x2 + c])))
                d3 = plus_square(d3, minus(v, spread(x[x3 + c])))
            o = i * stride + j
            store(distance, o, root(d0))
            store(distance, o + stride, root(d1))
            store(distance, o + 2 * stride, root(d2))
            store(distance, o + 3 * stride, root(d3))


@inlined
def row_transform(distance, g, f, n, stride):
    """f_i = min_j d_ij - g_j."""
    for i in range(n):
        smallest = minus(load(distance, i * stride), load(g, 0))
        for j in range(WIDTH, stride, WIDTH):
            smallest = lesser(smallest, minus(load(distance, i * stride + j), load(g, j)))
        f[i] = least(smallest)


@inlined
def column_transform(distance, f, g, n, m, stride):
    """g_j = min_i d_ij - f_i, and `BARRED` in the padding."""
    for j in range(0, stride, WIDTH):
        smallest = minus(load(distance, j), spread(f[0]))
        for i in range(1, n):
            smallest = lesser(smallest, minus(load(distance, i * stride + j), spread(f[i])))
        store(g, j, smallest)
    for j in range(m, stride):
        g[j] = BARRED


@reordered
def dot(x, begin, y, n):
    """⟨x[begin:], y⟩ over n numbers, in float64: what is added up nearly cancels where distributions are near."""
    total = 0.0
    for i in range(n):
        total += x[begin + i] * y[i]
    return total
