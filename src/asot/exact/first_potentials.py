"""Rough potentials of a large problem: a few sweeps of Sinkhorn's iteration in float32.

A large problem has n² arcs of which its optimal tree takes 2n. Entropic potentials show which ones matter: an arc far
above them is not in any optimal plan. They need not be accurate, since no answer depends on them: the simplex that
starts from them proves its answer on all arcs. So the exponential is a straight line between powers of two (6 percent
off, one multiplication) of which 16 bits are kept, since sweeps take as long as reading them does. ε goes down in a few
steps, and each step runs a fixed number of sweeps.
"""

from __future__ import annotations

import numpy as np

from asot.jit.compiled import at, inlined, reordered

STEPS = ((0.2, 4), (0.05, 6), (0.016, 10))
"""ε as a share of the spread of costs in a row, and the number of sweeps with it."""

_TINY = np.float32(1e-30)
_ONE = np.float32(2**23)  # what a float32 takes for one power of two, read as an integer


@reordered
def _row_spread(cost, o, q):
    """Mean minus minimum of a row."""
    total = np.float32(0.0)
    for j in range(q):
        total += cost[at(o, j)]
    smallest = cost[o]
    for j in range(q):
        smallest = min(smallest, cost[at(o, j)])
    return total / np.float32(q) - smallest


@reordered
def _fill_row(cost, kernel, o, stride, f, g, scale):
    """2^((f + g - c)·scale), piecewise linear, as the upper 16 bits of float32 numbers."""
    for j in range(stride):
        power = (f + g[at(0, j)] - cost[at(o, j)]) * scale + np.float32(127.0) * _ONE
        power = min(max(power, np.float32(0.0)), np.float32(180.0) * _ONE)
        kernel[at(o, j)] = np.uint16(np.int32(power) >> 16)


@reordered
def _row_sweep(kernel, o, stride, mass, v, w, row, bits):
    """Scale one row to its mass and add it to the column sums, while it is at hand."""
    for j in range(stride):
        bits[at(0, j)] = np.int32(kernel[at(o, j)]) << 16
    total = _TINY
    for j in range(stride):
        total += row[at(0, j)] * v[at(0, j)]
    u = mass / total
    for j in range(stride):
        w[at(0, j)] += row[at(0, j)] * u
    return u


@inlined
def entropic_potentials(cost, kernel, supply, demand, p, q, stride, f, g):
    """Fill f (p,) and g (stride,), float32, with f_i + g_j ≈ c_ij where mass flows. Returns the spread of costs.

    ``cost`` (p·stride,) is float32 and huge in the padding; ``kernel`` (p·stride,) is uint16 scratch memory.
    """
    spread = 0.0
    for i in range(p):
        spread += _row_spread(cost, i * stride, q)
    spread = spread / p
    u = np.empty(p, np.float32)
    v = np.empty(stride, np.float32)
    w = np.empty(stride, np.float32)
    row = np.empty(stride, np.float32)
    bits = row.view(np.int32)
    total = 0.0
    for i in range(p):
        total += supply[i]
    for i in range(p):
        f[i] = 0.0
    for j in range(stride):
        g[j] = 0.0
    if not spread > 0.0:
        return spread
    for share, sweeps in STEPS:
        epsilon = np.float32(share * spread)
        for i in range(p):
            _fill_row(cost, kernel, i * stride, stride, f[i], g, np.float32(1.4426950408889634) * _ONE / epsilon)
        for j in range(stride):
            v[j] = 1.0 if j < q else 0.0
        for _ in range(sweeps):
            for j in range(stride):
                w[j] = _TINY
            for i in range(p):
                u[i] = _row_sweep(kernel, i * stride, stride, np.float32(supply[i] * (p / total)), v, w, row, bits)
            for j in range(q):
                v[j] = np.float32(demand[j] * (p / total)) / w[j]
        for i in range(p):
            f[i] += epsilon * np.log(max(u[i], _TINY))
        for j in range(q):
            g[j] += epsilon * np.log(max(v[j], _TINY))
    return spread
