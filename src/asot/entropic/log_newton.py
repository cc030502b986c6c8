"""One entropic problem in the log domain: stable for every ε, and quadratically convergent at the end.

Everything is in units of ε: potentials φ, ψ and costs M = C/ε, with the plan T = exp(φ_i + ψ_j - M_ij). Three pieces:

* a *sweep* is Sinkhorn's iteration with log-sum-exp, so nothing can overflow or vanish. A fixed number of them is made
  by `asot.entropic.own_kernel`;
* a *Newton step* climbs the semi-dual J(φ) = ⟨a, φ⟩ + ⟨b, ψ(φ)⟩, where ψ(φ) makes the column sums exact. Its gradient
  is a - T1 and its Hessian -(diag(T1) - T diag(1/b) Tᵀ). Where Sinkhorn needs 10⁵ sweeps (small ε), it needs a few;
* *annealing* starts at a large ε and lowers it, each level from the last one's potentials.

With loose marginals (σ = ε/ρ, see `asot.entropic.options`) column sums become b e^(-σ d) and row sums should be a e^(-σ
c), where φ = log a + c and ψ = log b + d; in the Hessian (1 + σ) Tᵀ1 takes the place of b, and its diagonal gains σ
times the row sums that are wanted. σ = 0 is the problem with exact marginals.

Only the anchors that carry mass take part. A Newton step counts as one iteration. The pairs of a tile are solved one
after the other inside compiled code, so that threads do not wait for each other.
"""

from __future__ import annotations

import numpy as np

from asot.entropic.own_kernel import (
    LANES,
    ROWS,
    advance,
    fit_columns,
    fit_rows,
    make_workspace,
    measure,
    padded,
)
from asot.jit.compiled import compiled, inlined, reordered

LARGEST_MOVE = 4.0
"""A Newton step changes no potential by more than this many ε, no matter what a nearly singular matrix suggests."""

TRIALS = 16
"""Lengths tried along a Newton step."""

ANNEALING_FACTOR = 4.0

COARSE_TOLERANCE = 1e-2
"""Marginal error at which an annealing level is left for the next."""

STALLED = 50
"""Steps without a smaller marginal error after which only rounding is left."""


@inlined
def _fit_row(i, a, M, sigma, phi, psi):  # type: ignore[no-untyped-def]
    """φ_i ← log a_i - log Σ_j exp(ψ_j - M_ij) / (1 + σ)."""
    top = -np.inf
    for j in range(M.shape[1]):
        top = max(top, psi[j] - M[i, j])
    total = 0.0
    for j in range(M.shape[1]):
        total += np.exp(psi[j] - M[i, j] - top)
    phi[i] = np.log(a[i]) - (top + np.log(total)) / (1.0 + sigma)


@inlined
def _fit_columns(a, b, M, sigma, phi, psi, T, row_sum, column_sum, wanted):  # type: ignore[no-untyped-def]
    """ψ_j ← log b_j - log Σ_i exp(φ_i - M_ij) / (1 + σ): column sums become b e^(-σ d).

    Also fills the plan T (p, q), its row and column sums and the row sums that are wanted; returns the marginal error.
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
        d = -(psi[j] + np.log(scale[j])) / (1.0 + sigma)
        psi[j] = np.log(b[j]) + d
        column_sum[j] = b[j] * np.exp(-sigma * d) if sigma > 0.0 else b[j]
        scale[j] = column_sum[j] / scale[j]
    error = 0.0
    mass = 0.0
    for i in range(p):
        total = 0.0
        for j in range(q):
            T[i, j] *= scale[j]
            total += T[i, j]
        row_sum[i] = total
        wanted[i] = a[i] * np.exp(-sigma * (phi[i] - np.log(a[i]))) if sigma > 0.0 else a[i]
        error += abs(total - wanted[i])
        mass += wanted[i]
    return error / mass if sigma > 0.0 else error


@inlined
def _fit_rows(a, M, sigma, phi, psi, row_sum):  # type: ignore[no-untyped-def]
    """Sinkhorn's update of all rows, from the row sums of the present plan where these did not vanish."""
    for i in range(len(a)):
        if row_sum[i] > 1e-290:
            phi[i] = np.log(a[i]) + (phi[i] - np.log(row_sum[i])) / (1.0 + sigma)
        else:
            _fit_row(i, a, M, sigma, phi, psi)


@reordered
def _dot(x, y, n):  # type: ignore[no-untyped-def]
    total = 0.0
    for m in range(n):
        total += x[m] * y[m]
    return total


@inlined
def _newton_direction(T, sigma, row_sum, column_sum, wanted, W, scaled, step):  # type: ignore[no-untyped-def]
    """Solve (L + G) step = r with r = t - T1, t the row sums that are wanted, and L the Laplacian of a graph.

    Its edges weigh W_ik = Σ_j T_ij T_kj / ((1 + σ) (Tᵀ1)_j). G ties every node to the ground: by σ t + σ/(1 + σ) T1 and
    by |r| / LARGEST_MOVE, which keeps all entries of the step within LARGEST_MOVE and vanishes with the residual.
    Eliminating a node of such a graph only adds to the weights between its neighbors: without a subtraction they keep
    all their digits (Grassmann, Taksar, Heyman), even where the plan falls into blocks that hardly touch and a Cholesky
    factor would be noise. Returns the largest entry.
    """
    p, q = T.shape
    loose = sigma / (1.0 + sigma)
    for i in range(p):
        step[i] = wanted[i] - row_sum[i]
        W[i, i] = abs(step[i]) / LARGEST_MOVE + sigma * wanted[i] + loose * row_sum[i]
        for j in range(q):
            scaled[j] = T[i, j] / ((1.0 + sigma) * column_sum[j])
        for k in range(i + 1, p):
            W[i, k] = _dot(scaled, T[k], q)
    for v in range(p):
        ground = W[v, v]
        degree = ground + 1e-300
        for k in range(v + 1, p):
            degree += W[v, k]
        W[v, v] = degree
        for i in range(v + 1, p):
            share = W[v, i] / degree
            step[i] += share * step[v]
            W[i, i] += share * ground
            for k in range(i + 1, p):
                W[i, k] += share * W[v, k]
    largest = 0.0
    for v in range(p - 1, -1, -1):
        step[v] = (step[v] + _dot(W[v, v + 1 :], step[v + 1 :], p - v - 1)) / W[v, v]
        largest = max(largest, abs(step[v]))
    return largest


@inlined
def _semidual(a, b, sigma, phi, psi, column_sum):  # type: ignore[no-untyped-def]
    """⟨a, φ⟩ + ⟨b, ψ⟩; with loose marginals Σ a (1 - e^(-σ c)) / σ + Σ b (1 - e^(-σ d)) / σ - Σ Tᵀ1."""
    if sigma == 0.0:
        return _dot(a, phi, len(a)) + _dot(b, psi, len(b))
    total = 0.0
    for i in range(len(a)):
        total -= a[i] * np.expm1(-sigma * (phi[i] - np.log(a[i]))) / sigma
    for j in range(len(b)):
        total -= b[j] * np.expm1(-sigma * (psi[j] - np.log(b[j]))) / sigma + column_sum[j]
    return total


@inlined
def _climb(a, b, M, sigma, phi, psi, tol, max_steps, stop):  # type: ignore[no-untyped-def]
    """From φ, sweep and Newton in turn until the marginal error is at most ``tol``; φ and ψ are updated in place.

    A Newton step is kept if it raises the semi-dual or lowers the marginal error, halved if need be; one that its limit
    made too short is followed by steps twice as long, while they are kept. Takes at least one step: an error below
    ``tol`` must shrink with ε, or it would have a long way to go later. Returns (steps, marginal error); the plan's
    column sums are exact.
    """
    p, q = M.shape
    T = np.empty((p, q))
    W = np.empty((p, p))
    row_sum = np.empty(p)
    trial_row_sum = np.empty(p)
    step = np.empty(p)
    trial = np.empty(p)
    trial_psi = np.empty(q)
    scaled = np.empty(q)
    column_sum = np.empty(q)
    wanted = np.empty(p)
    trial_wanted = np.empty(p)
    error = _fit_columns(a, b, M, sigma, phi, psi, T, row_sum, column_sum, wanted)
    steps = 0
    best = error
    best_at = 0
    while (error > tol or steps == 0) and steps < max_steps and steps - best_at < STALLED and stop[0] == 0:
        steps += 1
        _fit_rows(a, M, sigma, phi, psi, row_sum)
        error = _fit_columns(a, b, M, sigma, phi, psi, T, row_sum, column_sum, wanted)
        if error > tol:
            height = _semidual(a, b, sigma, phi, psi, column_sum)
            largest = _newton_direction(T, sigma, row_sum, column_sum, wanted, W, scaled, step)
            length, factor = 1.0, 0.5
            for attempt in range(TRIALS):
                for i in range(p):
                    trial[i] = phi[i] + length * step[i]
                trial_error = _fit_columns(a, b, M, sigma, trial, trial_psi, T, trial_row_sum, column_sum, trial_wanted)
                trial_height = _semidual(a, b, sigma, trial, trial_psi, column_sum)
                better = trial_error < 0.9 * error or trial_height > height + 1e-13 * abs(height)
                if attempt == 0 and better and largest > 0.5 * LARGEST_MOVE and trial_error > 0.5 * error:
                    factor = 2.0  # blocks that hardly touch may have many ε to go before any mass moves
                if better:
                    phi[:] = trial
                    psi[:] = trial_psi
                    row_sum[:] = trial_row_sum
                    error, height = trial_error, trial_height
                if better != (factor > 1.0):
                    break
                length *= factor
        if error < best:
            best = error
            best_at = steps
    return steps, error


@inlined
def _anneal(a, b, M, sigma, phi, psi, tol, max_steps, stop):  # type: ignore[no-untyped-def]
    """Solve from scratch at any ε: levels of falling ε, coarse but for the last. Returns (steps, marginal error)."""
    largest = M.max()
    level = 1.0
    while largest / level > ANNEALING_FACTOR:
        level *= ANNEALING_FACTOR
    phi[:] = 0.0
    steps = 0
    while True:
        # At `level` times ε the potentials in units of that ε are φ / level.
        phi /= level
        goal = tol if level == 1.0 else COARSE_TOLERANCE
        used, error = _climb(a, b, M / level, sigma * level, phi, psi, goal, max_steps - steps, stop)
        steps += used
        if level == 1.0:
            return steps, error
        phi *= level
        level /= ANNEALING_FACTOR


@inlined
def _plan_values(a, b, M, sigma, phi, psi):  # type: ignore[no-untyped-def]
    """In units of ε: the cost ⟨T, M⟩, the objective (see `shared_kernel.regularized_values`), and the mass of T."""
    cost = 0.0
    mass = 0.0
    entropy = 0.0
    for i in range(M.shape[0]):
        row_sum = 0.0
        for j in range(M.shape[1]):
            log_mass = phi[i] + psi[j] - M[i, j]
            flow = np.exp(log_mass)
            cost += flow * M[i, j]
            entropy += flow * log_mass
            row_sum += flow
        mass += row_sum
        if sigma > 0.0 and row_sum > 0.0:
            entropy += row_sum * (np.log(row_sum / a[i]) / sigma - np.log(a[i]))
    if sigma == 0.0:
        return cost, cost + entropy - mass, mass
    for j in range(M.shape[1]):
        column_sum = b[j] * np.exp(-sigma * (psi[j] - np.log(b[j])))
        entropy -= column_sum * psi[j]
    return cost, cost + entropy - mass + (a.sum() + b.sum() - 2.0 * mass) / sigma, mass


# ------------------------------------------------------------------------------------------------- the pairs of a tile


@inlined
def _with_mass(t, A, B, M):  # type: ignore[no-untyped-def]
    """Anchors with mass of both histograms of pair t (p,), (q,), their masses, and the costs between them (p, q)."""
    rows, columns = np.flatnonzero(A[t]), np.flatnonzero(B[t])
    block = np.empty((len(rows), len(columns)))
    for i in range(len(rows)):
        for j in range(len(columns)):
            block[i, j] = M[rows[i], columns[j]]
    return rows, columns, A[t][rows], B[t][columns], block


@compiled
def sweep_pairs(which, A, B, M, first, start_at_target, count, answers, error, phi, psi, stop):  # type: ignore[no-untyped-def]
    """Exactly ``count`` iterations of some pairs.

    Parameters
    ----------
    which : (n,) int64
        Pairs to solve: rows of A (P, k), B (P, l) and error (P,).
    M : (k, l)
    first : (k,)
        log Σ_j exp(-M_ij), which the first update of φ needs if it starts at V = 1: that counts every column, also
        those without mass.
    start_at_target : bool
        Start at V = B.
    answers : (n, 3)
        Receives ⟨T, M⟩, the objective and the mass of T.
    phi : (n, k), psi : (n, l)
        Receive the potentials of the anchors with mass.
    """
    ws = make_workspace(M.shape[0], M.shape[1])
    for o in range(len(which)):
        if stop[0] != 0:
            break
        t = which[o]
        rows, columns, a, b, block = _with_mass(t, A, B, M)
        p, q = block.shape
        _fill(ws, a, b, block)
        if start_at_target:
            ws.psi[:] = np.log(b[q - 1])
            ws.psi[:q] = np.log(b)
            fit_rows(ws, p, q, 1.0)
        else:
            for i in range(p):
                ws.phi[i] = np.log(a[i]) - first[rows[i]]
        fit_columns(ws, p, q, 1.0)
        advance(ws, p, q, 1.0, count - 1, stop)
        _, error[t] = measure(ws, p, q)
        own_phi, own_psi = ws.phi[:p] + np.log(ws.u[:p]), ws.psi[:q] + np.log(ws.v[:q])
        answers[o] = _plan_values(a, b, block, 0.0, own_phi, own_psi)
        phi[o][rows] = own_phi
        psi[o][columns] = own_psi


@inlined
def _fill(ws, a, b, block):  # type: ignore[no-untyped-def]
    """Costs and masses into a workspace; its padding repeats the last row and column, and has no mass."""
    p, q = block.shape
    stride = padded(q, LANES)
    ws.a[:] = 0.0
    ws.b[:] = 0.0
    ws.a[:p] = a
    ws.b[:q] = b
    for i in range(padded(p, ROWS)):
        for j in range(stride):
            ws.distance[i * stride + j] = block[min(i, p - 1), min(j, q - 1)]


@compiled
def anneal_pairs(which, A, B, M, sigma, tol, max_steps, n_steps, answers, error, phi, psi, stop):  # type: ignore[no-untyped-def]
    """Solve some pairs until their marginal error is at most ``tol``, or ``n_steps`` (P,) is ``max_steps``.

    The other parameters are those of `sweep_pairs`.
    """
    for o in range(len(which)):
        if stop[0] != 0:
            break
        t = which[o]
        rows, columns, a, b, block = _with_mass(t, A, B, M)
        own_phi, own_psi = np.zeros(len(rows)), np.zeros(len(columns))
        steps, error[t] = _anneal(a, b, block, sigma, own_phi, own_psi, tol, max_steps - n_steps[t], stop)
        n_steps[t] += steps
        answers[o] = _plan_values(a, b, block, sigma, own_phi, own_psi)
        phi[o][rows] = own_phi
        psi[o][columns] = own_psi
