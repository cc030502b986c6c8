"""What an unfinished or blurred entropic solve still proves about the exact anchor problem (docs/method.md §6).

*Lower*: potentials ε·log u are made feasible by c-transforms; the dual value of feasible potentials is at most the
optimum, no matter how far the iteration got. *Upper*: the plan diag(u) K diag(v) is rounded to one whose marginals are
exact (Altschuler, Weed, Rigollet 2017): rows and columns that are too full are scaled down, and what is then missing is
added as a product. A plan with the right marginals costs at least the optimum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asot.entropic.scalings import Scalings
from asot.jit.compiled import compiled

Float = NDArray[np.float64]


def anchor_bounds(s: Scalings, stop: NDArray[np.int64]) -> tuple[Float, Float]:
    """Lower and upper bounds (P,) on the exact anchor distance, rounded outward."""
    lower, upper = np.zeros(len(s.a)), np.zeros(len(s.a))
    _bound_tile(s.a, s.b, s.phi, s.psi, s.M, lower, upper, stop)
    slack = 1e-13 * float(s.M.max()) * len(s.M)
    return s.reg * np.maximum(lower - slack, 0.0), s.reg * (upper + slack)


@compiled
def _bound_tile(A, B, Phi, Psi, M, lower, upper, stop):  # type: ignore[no-untyped-def]
    k, l = M.shape
    T = np.empty((k, l))
    f = np.empty(k)
    g = np.empty(l)
    missing_a = np.empty(k)
    missing_b = np.empty(l)
    for t in range(len(A)):
        if stop[0] != 0:
            return
        a, b, phi, psi = A[t], B[t], Phi[t], Psi[t]
        _feasible(M, a, b, phi, f, g)
        worth = 0.0
        size = 0.0
        for i in range(k):
            worth += a[i] * f[i]
            size = max(size, abs(f[i]))
        for j in range(l):
            worth += b[j] * g[j]
            size = max(size, abs(g[j]))
        lower[t] = worth - 1e-13 * size if np.isfinite(worth) else 0.0
        for i in range(k):
            for j in range(l):
                T[i, j] = np.exp(phi[i] + psi[j] - M[i, j]) if a[i] > 0.0 and b[j] > 0.0 else 0.0
        upper[t] = _rounded_cost(T, M, a, b, missing_a, missing_b)


@compiled
def _feasible(M, a, b, phi, f, g):  # type: ignore[no-untyped-def]
    """g_j = min_i M_ij - φ_i, then f_i = min_j M_ij - g_j over what carries mass; 0 where there is none."""
    k, l = M.shape
    for j in range(l):
        least = np.inf
        for i in range(k):
            if a[i] > 0.0:
                least = min(least, M[i, j] - phi[i])
        g[j] = least if b[j] > 0.0 else 0.0
    for i in range(k):
        least = np.inf
        for j in range(l):
            if b[j] > 0.0:
                least = min(least, M[i, j] - g[j])
        f[i] = least if a[i] > 0.0 else 0.0


@compiled
def _rounded_cost(T, M, a, b, missing_a, missing_b):  # type: ignore[no-untyped-def]
    """Cost of the plan T once its marginals are those of a and b. Changes T."""
    k, l = T.shape
    for i in range(k):
        total = T[i].sum()
        if total > a[i]:
            T[i] *= a[i] / total
    for j in range(l):
        total = T[:, j].sum()
        if total > b[j]:
            T[:, j] *= b[j] / total
    missing = 0.0
    for i in range(k):
        missing_a[i] = max(0.0, a[i] - T[i].sum())
        missing += missing_a[i]
    for j in range(l):
        missing_b[j] = max(0.0, b[j] - T[:, j].sum())
    cost = 0.0
    for i in range(k):
        for j in range(l):
            cost += T[i, j] * M[i, j]
            if missing > 0.0:
                cost += missing_a[i] * missing_b[j] / missing * M[i, j]
    return cost
