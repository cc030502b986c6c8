"""One entropic problem in the log domain: stable for every ε, and quadratically convergent at the end.

Everything is in units of ε: potentials φ, ψ and costs M = C/ε, with the plan T = exp(φ_i + ψ_j - M_ij). Three pieces:

* a *sweep* is Sinkhorn's iteration with log-sum-exp, so nothing can overflow or vanish;
* a *Newton step* climbs the semi-dual J(φ) = ⟨a, φ⟩ + ⟨b, ψ(φ)⟩, where ψ(φ) makes the column sums exact. Its gradient
  is a - T1 and its Hessian -(diag(T1) - T diag(1/b) Tᵀ). Where Sinkhorn needs 10⁵ sweeps (small ε), it needs a few;
* *annealing* starts at a large ε and lowers it, each level from the last one's potentials.

Only the anchors that carry mass take part. A Newton step counts as one iteration.
"""

from __future__ import annotations

import numpy as np

from asot.compiled import compiled, inlined

LARGEST_MOVE = 4.0
"""A Newton step changes no potential by more than this many ε: beyond, its quadratic model of exp is worthless."""

ANNEALING_FACTOR = 4.0
COARSE_TOLERANCE = 1e-2
"""Marginal error at which an annealing level is left for the next."""

STALLED = 30
"""Steps without a smaller marginal error after which rounding has won."""


@inlined
def _fit_rows(a, M, phi, psi):  # type: ignore[no-untyped-def]
    """φ_i ← log a_i - log Σ_j exp(ψ_j - M_ij): row sums become a."""
    for i in range(M.shape[0]):
        top = -np.inf
        for j in range(M.shape[1]):
            top = max(top, psi[j] - M[i, j])
        total = 0.0
        for j in range(M.shape[1]):
            total += np.exp(psi[j] - M[i, j] - top)
        phi[i] = np.log(a[i]) - top - np.log(total)


@inlined
def _fit_columns(b, M, phi, psi, scratch):  # type: ignore[no-untyped-def]
    """ψ_j ← log b_j - log Σ_i exp(φ_i - M_ij): column sums become b."""
    p, q = M.shape
    for j in range(q):
        psi[j] = -np.inf
        scratch[j] = 0.0
    for i in range(p):
        for j in range(q):
            psi[j] = max(psi[j], phi[i] - M[i, j])
    for i in range(p):
        for j in range(q):
            scratch[j] += np.exp(phi[i] - M[i, j] - psi[j])
    for j in range(q):
        psi[j] = np.log(b[j]) - psi[j] - np.log(scratch[j])


@inlined
def _fill_plan(a, M, phi, psi, T, row_sum):  # type: ignore[no-untyped-def]
    """The plan and its row sums; returns the marginal error Σ|T1 - a|."""
    error = 0.0
    for i in range(M.shape[0]):
        total = 0.0
        for j in range(M.shape[1]):
            T[i, j] = np.exp(phi[i] + psi[j] - M[i, j])
            total += T[i, j]
        row_sum[i] = total
        error += abs(total - a[i])
    return error


@inlined
def _semidual(a, b, phi, psi):  # type: ignore[no-untyped-def]
    value = 0.0
    for i in range(len(a)):
        value += a[i] * phi[i]
    for j in range(len(b)):
        value += b[j] * psi[j]
    return value


@inlined
def _newton_direction(a, b, T, row_sum, H, step):  # type: ignore[no-untyped-def]
    """Solve (diag(T1) - T diag(1/b) Tᵀ) step = a - T1 by Cholesky; the last potential is fixed, since a shift is free.

    Where the plan falls into blocks that hardly touch, the matrix is nearly singular: a pivot that is lost to rounding
    is replaced, so that its direction moves by at most the residual over the floor and `LARGEST_MOVE` tames it.
    """
    n = len(a) - 1
    q = len(b)
    for i in range(n):
        for k in range(i + 1):
            total = 0.0
            for j in range(q):
                total += T[i, j] * T[k, j] / b[j]
            H[i, k] = -total
        H[i, i] += row_sum[i]
    for i in range(n):
        for k in range(i + 1):
            total = H[i, k]
            for m in range(k):
                total -= H[i, m] * H[k, m]
            if i == k:
                H[i, i] = np.sqrt(max(total, 1e-14 * row_sum[i] + 1e-300))
            else:
                H[i, k] = total / H[k, k]
    for i in range(n):
        total = a[i] - row_sum[i]
        for m in range(i):
            total -= H[i, m] * step[m]
        step[i] = total / H[i, i]
    for i in range(n - 1, -1, -1):
        total = step[i]
        for m in range(i + 1, n):
            total -= H[m, i] * step[m]
        step[i] = total / H[i, i]
    step[n] = 0.0
    largest = 0.0
    for i in range(n):
        largest = max(largest, abs(step[i]))
    if largest > LARGEST_MOVE:
        for i in range(n):
            step[i] *= LARGEST_MOVE / largest


@compiled
def climb(a, b, M, phi, psi, tol, max_steps, stop):  # type: ignore[no-untyped-def]
    """From φ, sweep and Newton in turn until the marginal error is at most ``tol``; φ and ψ are updated in place.

    A Newton step is kept where it raises the semi-dual (by halving, if need be) or lowers the marginal error. Returns
    (steps, marginal error); the column sums of the plan are exact.
    """
    p, q = M.shape
    T = np.empty((p, q))
    H = np.empty((p, p))
    row_sum = np.empty(p)
    step = np.empty(p)
    trial = np.empty(p)
    trial_psi = np.empty(q)
    scratch = np.empty(q)
    _fit_columns(b, M, phi, psi, scratch)
    error = _fill_plan(a, M, phi, psi, T, row_sum)
    steps = 0
    best = error
    best_at = 0
    while error > tol and steps < max_steps and steps - best_at < STALLED and stop[0] == 0:
        steps += 1
        _fit_rows(a, M, phi, psi)
        _fit_columns(b, M, phi, psi, scratch)
        error = _fill_plan(a, M, phi, psi, T, row_sum)
        if error <= tol:
            break
        height = _semidual(a, b, phi, psi)
        _newton_direction(a, b, T, row_sum, H, step)
        length = 1.0
        for _ in range(12):
            for i in range(p):
                trial[i] = phi[i] + length * step[i]
            _fit_columns(b, M, trial, trial_psi, scratch)
            trial_error = _fill_plan(a, M, trial, trial_psi, T, row_sum)
            if trial_error < 0.9 * error or _semidual(a, b, trial, trial_psi) > height + 1e-13 * abs(height):
                phi[:] = trial
                psi[:] = trial_psi
                error = trial_error
                break
            length *= 0.5
        if error < best:
            best = error
            best_at = steps
    return steps, error


@compiled
def anneal(a, b, M, phi, psi, tol, max_steps, stop):  # type: ignore[no-untyped-def]
    """Solve from nothing at any ε: levels of falling ε, coarse but for the last. Returns (steps, marginal error)."""
    largest = M.max()
    level = 1.0
    while largest / level > ANNEALING_FACTOR:
        level *= ANNEALING_FACTOR
    phi[:] = 0.0
    steps = 0
    error = np.inf
    while True:
        # At `level` times ε the potentials in units of that ε are φ / level.
        phi /= level
        psi /= level
        goal = tol if level == 1.0 else COARSE_TOLERANCE
        used, error = climb(a, b, M / level, phi, psi, goal, max_steps - steps, stop)
        phi *= level
        psi *= level
        steps += used
        if level == 1.0:
            return steps, error
        level /= ANNEALING_FACTOR


@compiled
def sweeps(a, b, M, phi, psi, count, stop):  # type: ignore[no-untyped-def]
    """Exactly ``count`` Sinkhorn iterations from ψ, rows first. Returns the marginal error."""
    scratch = np.empty(M.shape[1])
    for _ in range(count):
        if stop[0] != 0:
            break
        _fit_rows(a, M, phi, psi)
        _fit_columns(b, M, phi, psi, scratch)
    T = np.empty(M.shape)
    return _fill_plan(a, M, phi, psi, T, np.empty(M.shape[0]))


@compiled
def plan_values(M, phi, psi):  # type: ignore[no-untyped-def]
    """In units of ε: the transport cost ⟨T, M⟩ and the regularised value ⟨T, M⟩ - H(T), H(T) = -Σ T (log T - 1)."""
    cost = 0.0
    regularised = 0.0
    for i in range(M.shape[0]):
        for j in range(M.shape[1]):
            log_mass = phi[i] + psi[j] - M[i, j]
            mass = np.exp(log_mass)
            cost += mass * M[i, j]
            regularised += mass * (M[i, j] + log_mass - 1.0)
    return cost, regularised
