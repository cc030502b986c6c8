"""Independent solvers that the package is compared with.

Exact: SciPy's HiGHS and POT's network simplex. Entropic: a log-domain solver in long double, written for certainty.
"""

from __future__ import annotations

import os

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

for _backend in ("PYTORCH", "JAX", "TENSORFLOW", "CUPY"):  # POT loads them all unless it is told not to
    os.environ.setdefault(f"POT_BACKEND_DISABLE_{_backend}", "1")

import ot  # noqa: E402

SCALE = 1e3
"""HiGHS's tolerances are absolute, at best 1e-10: costs and masses are enlarged to see that much further."""


def pot_values(A, B, cost, pairs):
    """POT's optimal cost of every listed pair."""
    cost = np.ascontiguousarray(cost, dtype=np.float64)
    A, B = (np.ascontiguousarray(H / H.sum(axis=1, keepdims=True)) for H in (A, B))
    return np.array([ot.emd2(A[i], B[j], cost, numItermax=10_000_000) for i, j in pairs])


def highs_values(A, B, cost, pairs, per_program=60):
    """HiGHS's optimal cost of every listed pair; the pairs of a program are its independent blocks."""
    parts = [pairs[start : start + per_program] for start in range(0, len(pairs), per_program)]
    return np.concatenate([_highs_program(A, B, cost, part) for part in parts])


def _highs_program(A, B, cost, pairs):
    blocks, totals, prices = [], [], []
    top = cost.max() or 1.0
    for i, j in pairs:
        rows, columns = np.flatnonzero(A[i]), np.flatnonzero(B[j])
        p, q = len(rows), len(columns)
        out = sparse.kron(sparse.identity(p), np.ones((1, q)))
        into = sparse.kron(np.ones((1, p)), sparse.identity(q))
        free = np.arange(q) != B[j, columns].argmax()  # one equation follows from the others: rounding may not matter
        blocks.append(sparse.vstack([out, into.tocsr()[free]]))
        totals += [A[i, rows] / A[i].sum(), B[j, columns[free]] / B[j].sum()]
        prices.append(cost[np.ix_(rows, columns)].ravel() / top)
    program = linprog(
        SCALE * np.concatenate(prices),
        A_eq=sparse.block_diag(blocks, format="csc"),
        b_eq=SCALE * np.concatenate(totals),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert program.status == 0, program.message
    ends = np.cumsum([len(price) for price in prices])[:-1]
    plans = np.split(program.x / SCALE, ends)
    return np.array([top * (price @ plan) for price, plan in zip(prices, plans, strict=True)])


# ------------------------------------------------------------------------------------------- entropic


def entropic_values(A, B, cost, reg):
    """Entropic transport of the pairs (A[t], B[t]): ⟨T, C⟩, ⟨T, C⟩ - ε H(T), and the marginal error of T, each (P,).

    Written for certainty: log-domain sweeps and Newton steps of all pairs at once, in float64 while ε falls from
    max C to where it is wanted, and then in long double until the marginal error stops falling. A plan of the form
    exp(φ_i + ψ_j - C_ij/ε) whose marginals are right is the solution, however it was found.
    """
    M = cost.astype(np.longdouble) / np.longdouble(reg)
    A, B = (H.astype(np.longdouble) / H.astype(np.longdouble).sum(axis=1, keepdims=True) for H in (A, B))
    phi = np.where(A > 0, np.longdouble(0), -np.inf)
    level = float(max(M.max(), 1))
    while level > 1:
        level = max(level / 3, 1.0)
        rough = [array.astype(np.float64) for array in (A, B, M / level, phi / level)]
        phi = _climb(*rough, goal=1e-4 if level > 1 else 1e-12, steps=100).astype(np.longdouble) * level
    phi = _climb(A, B, M, phi, goal=1e-17, steps=5)
    T = _plans(M, phi, _potentials(B, M.T, phi))
    log_T = np.log(np.where(T > 0, T, 1))
    transport, regularized = (T * M).sum((1, 2)), (T * (M + log_T - 1)).sum((1, 2))
    error = np.abs(T.sum(axis=2) - A).sum(axis=1)
    return tuple(np.float64(part) for part in (reg * transport, reg * regularized, error))


def sinkhorn_sweeps(A, B, cost, reg, count, start_at_target=False):
    """⟨T, C⟩ after exactly ``count`` textbook iterations U = A/(KV), V = B/(KᵀU), in logarithms."""
    return swept(A, B, cost, reg, count, start_at_target)[0]


def swept(A, B, cost, reg, count, start_at_target=False):
    """⟨T, C⟩, ⟨T, C⟩ - ε H(T) and the marginal error after exactly ``count`` textbook iterations, each (P,)."""
    M = cost.astype(np.longdouble) / np.longdouble(reg)
    psi = _log(B.astype(np.longdouble)) if start_at_target else np.zeros(B.shape, np.longdouble)
    for _ in range(count):
        phi = _potentials(A, M, psi)
        psi = _potentials(B, M.T, phi)
    T = _plans(M, phi, psi)
    log_T = np.log(np.where(T > 0, T, 1))
    parts = reg * (T * M).sum((1, 2)), reg * (T * (M + log_T - 1)).sum((1, 2)), np.abs(T.sum(2) - A).sum(1)
    return tuple(np.float64(part) for part in parts)


def unbalanced_values(A, B, cost, reg, reg_m):
    """Entropic transport with KL marginals: ⟨T, C⟩, the objective, and its distance from the dual's, each (P,).

    Plain log-domain sweeps in long double until potentials stop moving. The dual value is a lower bound of every plan's
    objective, so a distance of 0 proves T.
    """
    A, B, M = A.astype(np.longdouble), B.astype(np.longdouble), cost.astype(np.longdouble) / np.longdouble(reg)
    sigma = np.longdouble(reg) / np.longdouble(reg_m)
    c, d = np.zeros(A.shape, np.longdouble), np.zeros(B.shape, np.longdouble)
    for _ in range(100_000):
        before = c
        c = _soft_minimum(B, M, d) / (1 + sigma)
        d = _soft_minimum(A, M.T, c) / (1 + sigma)
        if np.abs(c - before).max() < 1e-17:
            break
    T = A[:, :, None] * B[:, None, :] * np.exp(c[:, :, None] + d[:, None, :] - M)
    transport, objective = (T * M).sum((1, 2)), _divergence(T, A[:, :, None] * B[:, None, :], (1, 2))
    objective += transport + (_divergence(T.sum(2), A, 1) + _divergence(T.sum(1), B, 1)) / sigma
    held = (A * np.expm1(-sigma * c)).sum(1) + (B * np.expm1(-sigma * d)).sum(1)
    dual = -held / sigma - T.sum((1, 2)) + A.sum(1) * B.sum(1)
    return tuple(np.float64(part) for part in (reg * transport, reg * objective, reg * (objective - dual)))


def _soft_minimum(B, M, d):
    """-log Σ_j b_j exp(d_j - M_ij)."""
    exponents = (_log(B) + d)[:, None, :] - M
    top = exponents.max(axis=2)
    return -top - np.log(np.exp(exponents - top[:, :, None]).sum(axis=2))


def _divergence(x, y, axis):
    """KL(x|y) = Σ x log(x/y) - x + y."""
    ratio = np.where(x > 0, x / np.where(y > 0, y, 1), 1)
    return (x * np.log(ratio) - x + y).sum(axis=axis)


def _climb(A, B, M, phi, goal, steps):
    """φ of every pair, by sweeps and Newton steps of several lengths, until the marginal error is below ``goal``.

    Of the lengths the one with the highest dual wins, or where duals agree the one with the smallest marginal error.
    """

    def judged(phi):
        psi = _potentials(B, M.T, phi)
        T = _plans(M, phi, psi)
        dual = (A * np.where(A > 0, phi, 0)).sum(axis=1) + (B * np.where(B > 0, psi, 0)).sum(axis=1)
        return T, dual, np.abs(T.sum(axis=2) - A).sum(axis=1)

    _, dual, error = judged(phi)
    for _ in range(steps):
        if (error <= goal).all():
            break
        swept = _potentials(A, M, _potentials(B, M.T, phi))
        step = _newton_step(A, B, judged(swept)[0])
        for length in (0, 1, 0.25, 4, 16, 64, 256):
            trial = swept + length * step
            _, trial_dual, trial_error = judged(trial)
            slack = 1e-12 * np.abs(dual)
            better = (trial_dual > dual + slack) | ((trial_dual > dual - slack) & (trial_error < error))
            better &= error > goal
            phi = np.where(better[:, None], trial, phi)
            dual, error = np.where(better, trial_dual, dual), np.where(better, trial_error, error)
    return phi


def _newton_step(A, B, T):
    """Solve (L + diag|r|/4) step = r for residuals r = A - T1 and L = diag(T1) - T diag(1/B) Tᵀ, of every pair.

    L is a graph's Laplacian, and eliminating a node adds to the weights of the others: no digit is lost.
    """
    residual = np.float64(A - T.sum(axis=2))
    T = np.float64(T)
    W = T @ (T / np.where(B > 0, np.float64(B), 1)[:, None, :]).transpose(0, 2, 1)
    ground, degree = np.abs(residual) / 4, np.empty_like(residual)
    k = T.shape[1]
    for v in range(k):
        later = slice(v + 1, k)
        degree[:, v] = ground[:, v] + W[:, v, later].sum(axis=1) + 1e-300
        share = W[:, v, later] / degree[:, v, None]
        residual[:, later] += share * residual[:, v, None]
        ground[:, later] += share * ground[:, v, None]
        W[:, later, later] += share[:, :, None] * W[:, v, None, later]
    step = residual
    for v in reversed(range(k)):
        step[:, v] += (W[:, v, v + 1 :] * step[:, v + 1 :]).sum(axis=1)
        step[:, v] /= degree[:, v]
    return step


def _potentials(A, M, psi):
    """φ with row sums A: log A_i - log Σ_j exp(ψ_j - M_ij), in the dtype of M."""
    exponents = psi[:, None, :] - M
    top = exponents.max(axis=2)
    return _log(A) - top - np.log(np.exp(exponents - top[:, :, None]).sum(axis=2))


def _plans(M, phi, psi):
    with np.errstate(invalid="ignore"):  # -inf - inf
        return np.exp(phi[:, :, None] + psi[:, None, :] - M)


def _log(masses):
    with np.errstate(divide="ignore"):
        return np.log(masses)
