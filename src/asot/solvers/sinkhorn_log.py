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

from asot.compiled import compiled, inlined, reordered

LARGEST_MOVE = 64.0
"""A Newton step changes no potential by more than this many ε, whatever a nearly singular matrix asks for."""

TRIALS = 16
"""Lengths tried along a Newton step."""

ANNEALING_FACTOR = 4.0

LEVEL_TOLERANCE = 1e-11
"""Marginal error at which a level is left for the next one."""

STALLED = 50
"""Steps without a smaller marginal error after which rounding has won."""


@inlined
def _fit_row(i, a, M, phi, psi):  # type: ignore[no-untyped-def]
    """φ_i ← log a_i - log Σ_j exp(ψ_j - M_ij): the row sum becomes a_i."""
    top = -np.inf
    for j in range(M.shape[1]):
        top = max(top, psi[j] - M[i, j])
    total = 0.0
    for j in range(M.shape[1]):
        total += np.exp(psi[j] - M[i, j] - top)
    phi[i] = np.log(a[i]) - top - np.log(total)


@inlined
def _fit_columns(a, b, M, phi, psi, T, row_sum):  # type: ignore[no-untyped-def]
    """ψ_j ← log b_j - log Σ_i exp(φ_i - M_ij): column sums become b.

    Also fills the plan T (p, q) and its row sums, and returns the marginal error Σ|T1 - a|.
    """
    p, q = M.shape
    for j in range(q):
        psi[j] = -np.inf
    for i in range(p):
        for j in range(q):
            psi[j] = max(psi[j], phi[i] - M[i, j])
    for i in range(p):
        for j in range(q):
            T[i, j] = np.exp(phi[i] - M[i, j] - psi[j])
    scale = np.zeros(q)
    for i in range(p):
        for j in range(q):
            scale[j] += T[i, j]
    for j in range(q):
        psi[j] = np.log(b[j]) - psi[j] - np.log(scale[j])
        scale[j] = b[j] / scale[j]
    error = 0.0
    for i in range(p):
        total = 0.0
        for j in range(q):
            T[i, j] *= scale[j]
            total += T[i, j]
        row_sum[i] = total
        error += abs(total - a[i])
    return error


@inlined
def _fit_rows(a, M, phi, psi, row_sum):  # type: ignore[no-untyped-def]
    """Sinkhorn's update of all rows, from the row sums of the present plan where these did not vanish."""
    for i in range(len(a)):
        if row_sum[i] > 1e-290:
            phi[i] += np.log(a[i]) - np.log(row_sum[i])
        else:
            _fit_row(i, a, M, phi, psi)


@reordered
def _dot(x, y, n):  # type: ignore[no-untyped-def]
    total = 0.0
    for m in range(n):
        total += x[m] * y[m]
    return total


@inlined
def _newton_direction(a, b, T, row_sum, H, scaled, step):  # type: ignore[no-untyped-def]
    """Solve (diag(T1) - T diag(1/b) Tᵀ) step = a - T1 by Cholesky; the last potential is fixed, since a shift is free.

    Where the plan falls into blocks that hardly touch, the matrix is nearly singular: a pivot that is lost to rounding
    is replaced by a small one, and `LARGEST_MOVE` tames the direction. Returns the slope of the semi-dual along it.
    """
    n = len(a) - 1
    q = len(b)
    for i in range(n):
        for j in range(q):
            scaled[j] = T[i, j] / b[j]
        for k in range(i + 1):
            H[i, k] = -_dot(scaled, T[k], q)
        H[i, i] += row_sum[i]
    for i in range(n):
        for k in range(i):
            H[i, k] = (H[i, k] - _dot(H[i], H[k], k)) / H[k, k]
        H[i, i] = np.sqrt(max(H[i, i] - _dot(H[i], H[i], i), 1e-14 * row_sum[i] + 1e-300))
    for i in range(n):
        step[i] = (a[i] - row_sum[i] - _dot(H[i], step, i)) / H[i, i]
    for i in range(n - 1, -1, -1):
        step[i] /= H[i, i]
        for m in range(i):
            step[m] -= H[i, m] * step[i]
    step[n] = 0.0
    largest = 0.0
    for i in range(n):
        largest = max(largest, abs(step[i]))
    if largest > LARGEST_MOVE:
        for i in range(n):
            step[i] *= LARGEST_MOVE / largest
    return _slope(a, row_sum, step)


@inlined
def _slope(a, row_sum, step):  # type: ignore[no-untyped-def]
    """Derivative of the semi-dual along a step: residuals, hence free of the cancellation in the semi-dual itself."""
    total = 0.0
    for i in range(len(a)):
        total += (a[i] - row_sum[i]) * step[i]
    return total


@compiled
def climb(a, b, M, phi, psi, tol, max_steps, stop):  # type: ignore[no-untyped-def]
    """From φ, sweep and Newton in turn until the marginal error is at most ``tol``; φ and ψ are updated in place.

    The semi-dual is concave, so its slope falls along a step. A length is halved while it leads far beyond the top
    (slope well below zero) and doubled while it leads nowhere (slope as at the start). Returns (steps, marginal
    error); the plan's column sums are exact.
    """
    p, q = M.shape
    T = np.empty((p, q))
    trial_T = np.empty((p, q))
    H = np.empty((p, p))
    row_sum = np.empty(p)
    trial_row_sum = np.empty(p)
    step = np.empty(p)
    start = np.empty(p)
    trial = np.empty(p)
    trial_psi = np.empty(q)
    scaled = np.empty(q)
    error = _fit_columns(a, b, M, phi, psi, T, row_sum)
    steps = 0
    best = error
    best_at = 0
    while error > tol and steps < max_steps and steps - best_at < STALLED and stop[0] == 0:
        steps += 1
        _fit_rows(a, M, phi, psi, row_sum)
        error = _fit_columns(a, b, M, phi, psi, T, row_sum)
        if error > tol:
            slope = _newton_direction(a, b, T, row_sum, H, scaled, step)
            start[:] = phi
            length = 1.0
            for _ in range(TRIALS):
                for i in range(p):
                    trial[i] = start[i] + length * step[i]
                trial_error = _fit_columns(a, b, M, trial, trial_psi, trial_T, trial_row_sum)
                trial_slope = _slope(a, trial_row_sum, step)
                done = trial_error < 0.5 * error  # near the end slopes are noise, but errors are not
                if not done and trial_slope < -0.5 * slope:
                    if length > 1.0:
                        break
                    length *= 0.5
                    continue
                phi[:] = trial
                psi[:] = trial_psi
                row_sum[:] = trial_row_sum
                error = trial_error
                if done or trial_slope < 0.5 * slope or length < 1.0:
                    break
                length *= 2.0  # nothing gained yet: blocks that hardly touch may lie many ε apart
        if error < best:
            best = error
            best_at = steps
    return steps, error


@compiled
def anneal(a, b, M, phi, psi, tol, max_steps, stop):  # type: ignore[no-untyped-def]
    """Solve from nothing at any ε: levels of falling ε. Returns (steps, marginal error).

    Every level is solved nearly to the end: a small surplus that a coarse one left behind could not move later, when
    the kernel between its blocks has vanished.
    """
    largest = M.max()
    level = 1.0
    while largest / level > ANNEALING_FACTOR:
        level *= ANNEALING_FACTOR
    phi[:] = 0.0
    steps = 0
    while True:
        # At `level` times ε the potentials in units of that ε are φ / level.
        phi /= level
        goal = tol if level == 1.0 else max(tol, LEVEL_TOLERANCE)
        used, error = climb(a, b, M / level, phi, psi, goal, max_steps - steps, stop)
        steps += used
        if level == 1.0:
            return steps, error
        phi *= level
        level /= ANNEALING_FACTOR


@compiled
def sweeps(a, b, M, phi, psi, count, stop):  # type: ignore[no-untyped-def]
    """Exactly ``count`` Sinkhorn iterations, rows first; φ is the first row update. Returns the marginal error."""
    T = np.empty(M.shape)
    row_sum = np.empty(M.shape[0])
    error = _fit_columns(a, b, M, phi, psi, T, row_sum)
    for _ in range(count - 1):
        if stop[0] != 0:
            break
        _fit_rows(a, M, phi, psi, row_sum)
        error = _fit_columns(a, b, M, phi, psi, T, row_sum)
    return error


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
