"""Euclidean distances of a block, the most common ground metric: sums of squares that never leave registers."""

from __future__ import annotations

from asot.jit.compiled import at, inlined, unordered
from asot.jit.double_lanes import load, plus_squared_gap, root, spread, store


@unordered
def largest_size(point):
    """The largest absolute coordinate of a point (d,), by which it is scaled so that its squares stay in range."""
    largest = 0.0
    for c in range(len(point)):
        largest = max(largest, abs(point[c]))
    return largest


@inlined
def fill_euclidean(x, y, p, stride, width, out):
    """Two rows and sixteen columns at a time: sums stay in registers, and the columns in the nearest cache."""
    j = 0
    while j + 16 <= stride:
        for i in range(0, p, 2):
            a = i * width
            b = a + width
            s0 = s1 = t0 = t1 = spread(0.0)
            o = j
            for c in range(width):
                y0 = load(y, o)
                y1 = load(y, o + 8)
                u = spread(x[at(a, c)])
                v = spread(x[at(b, c)])
                s0 = plus_squared_gap(s0, u, y0)
                s1 = plus_squared_gap(s1, u, y1)
                t0 = plus_squared_gap(t0, v, y0)
                t1 = plus_squared_gap(t1, v, y1)
                o += stride
            o = i * stride + j
            store(out, o, root(s0))
            store(out, o + 8, root(s1))
            store(out, o + stride, root(t0))
            store(out, o + stride + 8, root(t1))
        j += 16
    if j < stride:
        for i in range(0, p, 2):
            a = i * width
            b = a + width
            s0 = t0 = spread(0.0)
            o = j
            for c in range(width):
                y0 = load(y, o)
                s0 = plus_squared_gap(s0, spread(x[at(a, c)]), y0)
                t0 = plus_squared_gap(t0, spread(x[at(b, c)]), y0)
                o += stride
            store(out, i * stride + j, root(s0))
            store(out, i * stride + stride + j, root(t0))
