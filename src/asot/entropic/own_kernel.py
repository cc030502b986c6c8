"""Sinkhorn's iteration for one pair with its own cost, compiled: u ← a / (K v), v ← b / (Kᵀ u), K = exp(-C/ε).

An iteration is one pass over the rows of K: a row gives its entry of u, which at once gives its share of Kᵀu, so K is
read once per iteration. Four rows go together.

**Range.** Numbers that may have lost digits to the range of float64 are not trusted: all entries of Kv and Kᵀu must lie
in [1e-100, 1e100]. An iteration that breaks this is undone and repeated with logarithms (log-sum-exp). Its result, φ
and ψ, goes into the kernel, K ← exp(φ_i + ψ_j - C_ij/ε), which is the plan as it is now; v starts again at 1. In exact
arithmetic this changes nothing: the state of the iteration is v alone, and v is the product of the two. In float64 the
entries of K that vanish are below 1e-307, and the scalings that could make up for it are at most 1e100.

**Padding.** Blocks are padded with points that repeat the last one and have no mass, so their entries of Kv and Kᵀu
are those of a real point, and their entries of u and v are 0.

A caller makes a `PairScratch`, fills ``distance``, ``a``, ``b``, ``v`` and the potentials, and calls `begin` and
`advance`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.jit.compiled import at, inlined, reordered, unordered
from asot.jit.exponential import exponentials

LANES = 8
"""Rows of a block are padded to a multiple of this."""

ROWS = 4
"""And the number of its rows to a multiple of this."""

SMALLEST, LARGEST = 1e-100, 1e100
"""Sums outside of this are not used."""

KERNEL_RANGE = 690.0
"""Largest max C/ε for which K is formed without potentials: none of its entries is below 1e-300."""

STOP_EVERY = 100
"""Iterations between checks of ``stop``."""


class PairScratch(NamedTuple):
    """Memory of one thread for a pair of at most n × m points."""

    distance: NDArray[np.float64]  # (rows, stride), flat
    K: NDArray[np.float64]  # (rows, stride), flat
    K_bits: NDArray[np.int64]  # the same memory
    a: NDArray[np.float64]  # (rows,)
    b: NDArray[np.float64]  # (stride,)
    u: NDArray[np.float64]  # (rows,)
    v: NDArray[np.float64]  # (stride,)
    ku: NDArray[np.float64]  # (stride,) KᵀU
    phi: NDArray[np.float64]  # (rows,)
    psi: NDArray[np.float64]  # (stride,)
    powers: NDArray[np.float64]  # (stride,)
    power_bits: NDArray[np.int64]  # the same memory


@inlined
def padded(n, step):  # type: ignore[no-untyped-def]
    """n, rounded up to a multiple of ``step``, which is a power of two."""
    return (n + step - 1) & ~(step - 1)


@inlined
def make_workspace(n, m):  # type: ignore[no-untyped-def]
    rows = padded(n, ROWS)
    stride = padded(m, LANES)
    K = np.empty(rows * stride)
    powers = np.empty(stride)
    return PairScratch(
        np.empty(rows * stride), K, K.view(np.int64), np.empty(rows), np.empty(stride), np.empty(rows),
        np.empty(stride), np.empty(stride), np.empty(rows), np.empty(stride), powers, powers.view(np.int64),
    )  # fmt: skip


@reordered
def _row_sums(K, o, stride, v):  # type: ignore[no-untyped-def]
    """⟨K_i, v⟩ of the four rows that begin at o."""
    o1 = o + stride
    o2 = o1 + stride
    o3 = o2 + stride
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for j in range(stride):
        s0 += K[at(o, j)] * v[at(j, 0)]
        s1 += K[at(o1, j)] * v[at(j, 0)]
        s2 += K[at(o2, j)] * v[at(j, 0)]
        s3 += K[at(o3, j)] * v[at(j, 0)]
    return s0, s1, s2, s3


@reordered
def _add_rows(K, o, stride, u0, u1, u2, u3, ku):  # type: ignore[no-untyped-def]
    """KᵀU grows by the share of the four rows that begin at o."""
    o1 = o + stride
    o2 = o1 + stride
    o3 = o2 + stride
    for j in range(stride):
        pair = u0 * K[at(o, j)] + u1 * K[at(o1, j)]
        other = u2 * K[at(o2, j)] + u3 * K[at(o3, j)]
        ku[at(j, 0)] += pair + other


@inlined
def _in_range(s):  # type: ignore[no-untyped-def]
    return s >= SMALLEST and s <= LARGEST


@inlined
def _has_log(u, mass):  # type: ignore[no-untyped-def]
    """Whether the logarithm of a scaling is known: it is not where a tiny mass makes it vanish."""
    return u > 1e-290 or mass == 0.0


@inlined
def _iterate(ws, rows, stride, count):  # type: ignore[no-untyped-def]
    """At most ``count`` iterations; how many were done. V is that of the last one done."""
    for iteration in range(count):
        for j in range(stride):
            ws.ku[j] = 0.0
        good = True
        for i in range(0, rows, ROWS):
            o = i * stride
            s0, s1, s2, s3 = _row_sums(ws.K, o, stride, ws.v)
            good = good and _in_range(s0) and _in_range(s1) and _in_range(s2) and _in_range(s3)
            u0, u1, u2, u3 = ws.a[i] / s0, ws.a[i + 1] / s1, ws.a[i + 2] / s2, ws.a[i + 3] / s3
            good = good and _has_log(u0, ws.a[i]) and _has_log(u1, ws.a[i + 1])
            good = good and _has_log(u2, ws.a[i + 2]) and _has_log(u3, ws.a[i + 3])
            ws.u[i], ws.u[i + 1], ws.u[i + 2], ws.u[i + 3] = u0, u1, u2, u3
            _add_rows(ws.K, o, stride, u0, u1, u2, u3, ws.ku)
        bad = 0
        for j in range(stride):
            bad += not _in_range(ws.ku[at(j, 0)])
        if bad > 0 or not good:
            return iteration
        for j in range(stride):
            ws.v[at(j, 0)] = ws.b[at(j, 0)] / ws.ku[at(j, 0)]
    return count


@inlined
def _fill_kernel(ws, rows, stride, scale):  # type: ignore[no-untyped-def]
    """K ← exp(φ_i + ψ_j - scale · distance_ij)."""
    for i in range(rows):
        o = i * stride
        phi = ws.phi[i]
        for j in range(stride):
            ws.K[at(o, j)] = phi + ws.psi[at(j, 0)] - scale * ws.distance[at(o, j)]
        exponentials(ws.K, ws.K_bits, ws.powers, ws.power_bits, o, stride)


@inlined
def fit_rows(ws, n, m, scale):  # type: ignore[no-untyped-def]
    """φ ← log a - log Σ_j exp(ψ_j - M_ij) with M = scale · distance: row sums become a."""
    stride = padded(m, LANES)
    for i in range(n):
        o = i * stride
        top = -np.inf
        for j in range(m):
            top = max(top, ws.psi[j] - scale * ws.distance[at(o, j)])
        for j in range(stride):
            ws.K[at(o, j)] = ws.psi[at(j, 0)] - scale * ws.distance[at(o, j)] - top
        exponentials(ws.K, ws.K_bits, ws.powers, ws.power_bits, o, stride)
        total = 0.0
        for j in range(m):
            total += ws.K[at(o, j)]
        ws.phi[i] = np.log(ws.a[i]) - top - np.log(total)


@inlined
def fit_columns(ws, n, m, scale):  # type: ignore[no-untyped-def]
    """ψ ← log b - log Σ_i exp(φ_i - M_ij): column sums become b. Then the kernel with φ and ψ, u = 1 and v = 1."""
    rows = padded(n, ROWS)
    stride = padded(m, LANES)
    for i in range(n, rows):
        ws.phi[i] = ws.phi[n - 1]
    for j in range(stride):
        ws.psi[j] = -np.inf
        ws.ku[j] = 0.0
    for i in range(n):
        for j in range(stride):
            ws.psi[j] = max(ws.psi[j], ws.phi[i] - scale * ws.distance[at(i * stride, j)])
    for i in range(n):
        o = i * stride
        for j in range(stride):
            ws.K[at(o, j)] = ws.phi[i] - scale * ws.distance[at(o, j)] - ws.psi[j]
        exponentials(ws.K, ws.K_bits, ws.powers, ws.power_bits, o, stride)
        for j in range(stride):
            ws.ku[j] += ws.K[at(o, j)]
    for j in range(m):
        ws.psi[j] = np.log(ws.b[j]) - ws.psi[j] - np.log(ws.ku[j])
        ws.v[j] = 1.0
    for j in range(m, stride):
        ws.psi[j] = ws.psi[m - 1]
        ws.v[j] = 0.0
    for i in range(rows):
        ws.u[i] = 1.0 if i < n else 0.0
    _fill_kernel(ws, rows, stride, scale)


@inlined
def _absorb(ws, m):  # type: ignore[no-untyped-def]
    """ψ ← ψ + log v."""
    for j in range(m):
        ws.psi[j] += np.log(ws.v[j])
    for j in range(m, padded(m, LANES)):
        ws.psi[j] = ws.psi[m - 1]


@inlined
def advance(ws, n, m, scale, count, stop):  # type: ignore[no-untyped-def]
    """Exactly ``count`` further iterations, in the kernel where its range allows and in logarithms where not."""
    rows = padded(n, ROWS)
    stride = padded(m, LANES)
    done = 0
    while done < count and stop[0] == 0:
        asked = min(count - done, STOP_EVERY)
        got = _iterate(ws, rows, stride, asked)
        done += got
        if got < asked:
            _absorb(ws, m)
            fit_rows(ws, n, m, scale)
            fit_columns(ws, n, m, scale)
            done += 1


@reordered
def _measure_row(K, distance, v, o, stride):  # type: ignore[no-untyped-def]
    """Σ_j K_ij v_j and Σ_j K_ij v_j distance_ij of the row that begins at o."""
    mass = 0.0
    price = 0.0
    for j in range(stride):
        flow = K[at(o, j)] * v[at(j, 0)]
        mass += flow
        price += flow * distance[at(o, j)]
    return mass, price


@inlined
def measure(ws, n, m):  # type: ignore[no-untyped-def]
    """⟨T, distance⟩ and the marginal error Σ|T1 - a| of the plan T = diag(u) K diag(v)."""
    stride = padded(m, LANES)
    value = 0.0
    error = 0.0
    for i in range(n):
        mass, price = _measure_row(ws.K, ws.distance, ws.v, i * stride, stride)
        value += ws.u[i] * price
        error += abs(ws.u[i] * mass - ws.a[i])
    return value, error


@unordered
def _largest(distance, count):  # type: ignore[no-untyped-def]
    largest = 0.0
    for t in range(count):
        largest = max(largest, distance[at(t, 0)])
    return largest


@inlined
def begin(ws, n, m, scale):  # type: ignore[no-untyped-def]
    """Start at φ = ψ = 0 and the given v. Returns how many iterations it took: one where logarithms were needed."""
    rows = padded(n, ROWS)
    stride = padded(m, LANES)
    ws.phi[:] = 0.0
    ws.psi[:] = 0.0
    if _largest(ws.distance, rows * stride) * scale <= KERNEL_RANGE:
        _fill_kernel(ws, rows, stride, scale)
        return 0
    _absorb(ws, m)
    fit_rows(ws, n, m, scale)
    fit_columns(ws, n, m, scale)
    return 1
