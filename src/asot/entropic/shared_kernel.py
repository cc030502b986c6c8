"""Sinkhorn's iteration for many pairs that share the kernel K = exp(-C/ε), in NumPy or in torch: one loop for both.

A pair is a row, so an update of a whole tile is two matrix products: U ← A ⊘ (V Kᵀ), V ← B ⊘ (U K). Pairs leave the
tile one by one as they finish (see `asot.entropic.options` for when). The slow ones continue together by Newton steps
from where they are. A Newton step climbs the semi-dual J(φ) = ⟨a, φ⟩ + ⟨b, ψ(φ)⟩, φ = log u, where ψ(φ) makes column
sums exact: its gradient is a - T1, its Hessian -(diag(T1) - T diag(1/b) Tᵀ). The linear system is solved by conjugate
gradients, whose steps are again two products with K: no plan is formed, and the cost depends on the number of anchors
as in an update. If λ is the rate of plain updates, their number grows like 1/(1 - λ), and that of conjugate gradients
like its root.

Scalings are kept as what the masses are divided by: U = A ⊘ R, V = B ⊘ S. R and S are positive and finite where there
is no mass, too. Their logarithms are potentials: T_ij = a_i b_j exp(c_i + d_j - C_ij/ε), c = -log R, d = -log S.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from asot.entropic.options import FIRST_LOOK, LOOK_EVERY, SinkhornOptions, Stopping
from asot.run.protocols import Status

SLOW = 30
"""A pair that would need more plain updates than this continues with Newton steps."""

FAST_FROM, FAST_PAIRS = 100.0, 4
"""It pays off to lay a tile out for the faster way from so many pairs on, and from this many updates in a row, times
entries of the kernel for each scaling: laying out takes longer with more scalings, an update with more entries."""

LARGEST_MOVE = 4.0
"""A Newton step changes no potential by more than this many ε, as long as mass is misplaced."""

TRIALS = 6
"""Lengths tried along a Newton step, each half of the last; then the pair is left to a solver in the log domain."""

MOST_STEPS = 60
"""Newton steps; a pair that needs more is left to a solver in the log domain, too."""


class SharedKernel(NamedTuple):
    """What all pairs share, as arrays of ``xp`` (numpy or torch)."""

    xp: Any
    K: Any  # (k, l) exp(-M), M = C/ε
    KT: Any  # (l, k)
    KMT: Any  # (l, k) transposed K ∘ M
    rule: Stopping
    options: SinkhornOptions
    fast: Callable[[Any, Any, Any, int, Any], Any] | None = None
    """A faster way to make many updates in a row, where there is one: (a, b, V, count, stop) → V."""

    @property
    def sigma(self) -> float:
        """How loosely marginals are held; 0 where they are exact."""
        return self.options.sigma

    def damped(self, sums: Any) -> Any:
        """What masses are divided by, from products with the kernel."""
        if self.sigma == 0.0:
            return sums
        return self.xp.exp(self.xp.log(sums) / (1.0 + self.sigma))


@dataclass(frozen=True)
class Answers:
    """What is found for P pairs, filled in place; values are in units of ε."""

    values: Any  # (P,)
    status: Any  # (P,) int8, MAX_ITER until something else is known
    n_iter: Any  # (P,) int32
    marginal_error: Any  # (P,) Σ|T1 - a|
    c: Any = None  # (P, k) and (P, l) potentials, T_ij = a_i b_j exp(c_i + d_j - C_ij/ε), where they are kept
    d: Any = None

    def part(self, start: int, stop: int) -> Answers:
        return Answers(*(array[start:stop] for array in vars(self).values()))


class _Iterate(NamedTuple):
    """The current state of some pairs of a tile: U = a ⊘ R, V = b ⊘ S, KV = V Kᵀ, not damped yet."""

    which: Any
    a: Any
    b: Any
    R: Any
    S: Any
    U: Any
    V: Any
    KV: Any

    def only(self, chosen: Any) -> _Iterate:
        return _Iterate(*(array[chosen] for array in self))


def solve_in_kernel(kernel: SharedKernel, order: Any, a: Any, b: Any, answers: Answers, stop: Any) -> Any:
    """Solve the pairs of histograms a (P, k) and b (P, l), numbered by ``order`` (0, 1, …).

    Returns the numbers of those that the log domain has to finish. ``stop[0]`` ends everything when it is raised.
    """
    xp, rule, options = kernel.xp, kernel.rule, kernel.options
    V = b + 0.0 if options.start_at_target else xp.ones_like(b)
    at = _Iterate(order, a, b, xp.empty_like(a), xp.empty_like(b), xp.empty_like(a), V, V @ kernel.KT)
    previous, before, iteration = xp.zeros_like(a[:, 0]) + xp.inf, 0, 0
    slow: list[tuple[_Iterate, Any]] = []
    still_open: list[Any] = []
    while True:
        at, iteration = _to_next_look(kernel, at, iteration, stop)
        last = iteration == options.max_iter or stop[0] != 0
        error = _error(kernel, at)
        if last:
            done = None
            if options.tol is not None:
                done = error <= 1e-2 * _goal(kernel, at, _transported(kernel, at))
            still_open.append(_leave(kernel, answers, at, error, iteration, done))
            break
        rate = (error / previous) ** (1.0 / (iteration - before))
        previous, before = error, iteration
        if iteration == FIRST_LOOK:
            continue
        converged, values = _converged(kernel, at, error, rate)
        too_slow = ~(rule.updates_needed(error, rate) < SLOW) & ~converged  # also where the error is not a number
        if bool(converged.any()):
            gone = at if bool(converged.all()) else at.only(converged)
            all_done, found = gone.which >= 0, values[converged]
            still_open.append(_leave(kernel, answers, gone, error[converged], iteration, all_done, found))
            if gone is at and not slow:
                break
        if bool(too_slow.any()):
            answers.n_iter[at.which[too_slow]] = iteration
            slow.append((at.only(too_slow), rate[too_slow]))
        stay = ~(converged | too_slow)
        if not bool(stay.all()):
            at, previous = at.only(stay), previous[stay]
        if not len(previous):
            break
    if slow:
        together = _Iterate(*(_joined(xp, parts) for parts in zip(*(state for state, _ in slow), strict=True)))
        rates = _joined(xp, [rate for _, rate in slow])
        still_open.append(_climb(kernel, answers, together, rates, stop))
    return _joined(xp, still_open)


def _to_next_look(kernel: SharedKernel, at: _Iterate, done: int, stop: Any) -> tuple[_Iterate, int]:
    """Updates up to the next iteration in which errors are measured, or the last; which one it is."""
    options = kernel.options
    look = options.max_iter
    if options.tol is not None:
        look = min(look, FIRST_LOOK if done < FIRST_LOOK else done // LOOK_EVERY * LOOK_EVERY + LOOK_EVERY)
    (size, k), l = at.a.shape, at.b.shape[1]
    pays = size >= FAST_PAIRS and (look - done - 1) * k * l >= FAST_FROM * (k + l)
    if kernel.fast is not None and pays:
        V = kernel.fast(at.a, at.b, at.V, look - done - 1, stop)
        at, done = at._replace(V=V, KV=V @ kernel.KT), look - 1
    if options.is_plain:
        return _plain_updates(kernel, at, done, look, stop)
    while done < look:
        at, done = _update(kernel, at), done + 1
        if stop[0] != 0:
            break
    return at, done


def _joined(xp: Any, parts: Any) -> Any:
    return parts[0] if len(parts) == 1 else xp.concatenate(list(parts))


def _plain_updates(kernel: SharedKernel, at: _Iterate, done: int, look: int, stop: Any) -> tuple[_Iterate, int]:
    """Updates with exact marginals from number ``done`` to ``look``, which allocate no memory; how many were done."""
    divide, matmul = kernel.xp.divide, kernel.xp.matmul
    _, a, b, R, S, U, V, KV = at
    while done < look:
        R, KV = KV, R  # the new KV goes where the old R was
        divide(a, R, out=U)
        matmul(U, kernel.K, out=S)
        divide(b, S, out=V)
        matmul(V, kernel.KT, out=KV)
        done += 1
        if stop[0] != 0:
            break
    return at._replace(R=R, KV=KV), done


def _update(kernel: SharedKernel, at: _Iterate) -> _Iterate:
    """One plain update."""
    R = kernel.damped(at.KV)
    U = at.a / R
    S = kernel.damped(U @ kernel.K)
    V = at.b / S
    return at._replace(R=R, S=S, U=U, V=V, KV=V @ kernel.KT)


def _wanted(kernel: SharedKernel, at: _Iterate) -> Any:
    """The row sums that T should have: a, or a e^(-σ c) if marginals are loose."""
    return at.a * kernel.xp.exp(kernel.sigma * kernel.xp.log(at.R)) if kernel.sigma else at.a


def _error(kernel: SharedKernel, at: _Iterate) -> Any:
    """Marginal errors (P,): misplaced mass, as a share of all mass that is transported."""
    wanted = _wanted(kernel, at)
    error = kernel.xp.abs(at.U * at.KV - wanted).sum(1)
    return error / wanted.sum(1) if kernel.sigma else error


def _transported(kernel: SharedKernel, at: _Iterate) -> Any:
    """⟨T, M⟩ (P,)."""
    return (at.U * (at.V @ kernel.KMT)).sum(1)


def _goal(kernel: SharedKernel, at: _Iterate, values: Any) -> Any:
    """The marginal errors (P,) at which pairs with these ⟨T, M⟩ are done."""
    return kernel.rule.goal(values / (at.U * at.KV).sum(1) if kernel.sigma else values)


def _converged(kernel: SharedKernel, at: _Iterate, error: Any, rate: Any) -> tuple[Any, Any]:
    """Which pairs are done, and their ⟨T, M⟩, which cost a product: only where the error is below the tolerance."""
    rule = kernel.rule
    missing = kernel.xp.maximum(error, rule.remaining(error, rate))
    done = missing <= max(rule.tol, rule.rounding)
    near, values = kernel.xp.where(done)[0], kernel.xp.zeros_like(error)
    if len(near):
        those = at if len(near) == len(done) else at.only(near)
        values[near] = _transported(kernel, those)
        done[near] = missing[near] <= _goal(kernel, those, values[near])
    return done, values


def _leave(
    kernel: SharedKernel, answers: Answers, at: _Iterate, error: Any, iteration: Any, converged: Any, values: Any = None
) -> Any:
    """Write down the answers of pairs that leave; which of them left the range of their floats.

    ``values``: ⟨T, M⟩, if it is known.
    """
    xp, which, options = kernel.xp, at.which, kernel.options
    if options.regularized or answers.c is not None:
        c, d = -xp.log(at.R), -xp.log(at.S)
    if options.regularized:
        values = regularized_values(xp, options, at.a, at.b, c, d, at.U * at.KV)
    elif values is None:
        values = _transported(kernel, at)
    answers.values[which], answers.marginal_error[which], answers.n_iter[which] = values, error, iteration
    if answers.c is not None:
        answers.c[which], answers.d[which] = c, d
    if converged is None:
        answers.status[which] = int(Status.FIXED_ITERATIONS)
    else:
        answers.status[which[converged]] = int(Status.CONVERGED)
    in_range = xp.isfinite(values + error)
    for sums in (at.R, at.S):
        if not (xp.amin(sums) > 0 and xp.amax(sums) < xp.inf):  # of all at once, which is quicker than row by row
            in_range &= (xp.amin(sums, 1) > 0) & (xp.amax(sums, 1) < xp.inf)
    return which[~in_range]


def regularized_values(xp: Any, options: SinkhornOptions, a: Any, b: Any, c: Any, d: Any, row_sums: Any) -> Any:
    """The objective in units of ε, for plans with the column sums they should have and the given row sums (P, k).

    With exact marginals that is ⟨T, M⟩ - H(T). With loose ones it is ⟨T, M⟩ + KL(T|a⊗b) + (KL(T1|a) + KL(Tᵀ1|b)) / σ,
    in which the column potentials cancel. Divergences are made of it without the term (Σa)(Σb): what is left of the
    self terms then is the mass term that they need (Séjourné et al. 2019).
    """
    mass = row_sums.sum(1)
    if options.sigma == 0.0:
        return (row_sums * (log_or_zero(xp, a) + c)).sum(1) + (b * (log_or_zero(xp, b) + d)).sum(1) - mass
    log_ratio = log_or_zero(xp, xp.where(a > 0, row_sums, 0.0)) - log_or_zero(xp, a)
    first, second = a.sum(1), b.sum(1)
    values = (row_sums * (c + log_ratio / options.sigma)).sum(1) - mass + (first + second - 2 * mass) / options.sigma
    return values if options.value == "divergence" else values + first * second


def log_or_zero(xp: Any, masses: Any) -> Any:
    """Logarithms of masses; 0 where there is none."""
    return xp.log(xp.where(masses > 0, masses, 1.0))


def _climb(kernel: SharedKernel, answers: Answers, at: _Iterate, rate: Any, stop: Any) -> Any:
    """Updates and Newton steps in turn, until pairs are done; which of them are left open."""
    xp, rule = kernel.xp, kernel.rule
    still_open, failed = [], at.which < 0
    for _ in range(MOST_STEPS):
        at = _update(kernel, at)
        error, values = _error(kernel, at), _transported(kernel, at)
        goal = _goal(kernel, at, values)
        answers.n_iter[at.which] += 1
        # A Newton step ends far below the goal or short of it, so the rate's extra demand costs little.
        converged = error <= (goal * (1.0 - rate).clip(1e-3, 1.0)).clip(rule.rounding)
        converged = converged | (failed & (error <= 1e-2 * goal))
        spent = answers.n_iter[at.which] >= kernel.options.max_iter
        leaving = converged | failed | spent | ~xp.isfinite(error)
        if stop[0] != 0:
            leaving = at.which >= 0
        if bool(leaving.any()):
            gone = at.only(leaving)
            made = answers.n_iter[gone.which]
            lost = _leave(kernel, answers, gone, error[leaving], made, converged[leaving], values[leaving])
            still_open += [lost, at.which[failed & ~converged & ~spent]]
            at, rate, error = at.only(~leaving), rate[~leaving], error[~leaving]
        if not len(error):
            break
        at, failed = _step(kernel, at, error, stop)
    else:
        still_open.append(at.which)
    return _joined(xp, still_open) if still_open else at.which


def _step(kernel: SharedKernel, at: _Iterate, error: Any, stop: Any) -> tuple[_Iterate, Any]:
    """A Newton step, kept where it raises the semi-dual or lowers the marginal error; which pairs it did not help.

    Only KV is changed: the update that follows makes everything else from it.
    """
    xp, eps = kernel.xp, kernel.rule.eps
    step, height, KV = _direction(kernel, at, error, stop), _semidual(kernel, at), at.KV + 0.0
    failed = at.which >= 0
    searching, length = xp.where(failed)[0], 1.0
    for _ in range(TRIALS):
        trial = at.only(searching)
        U = trial.U * xp.exp(length * step[searching])
        S = kernel.damped(U @ kernel.K)
        V = trial.b / S
        trial = trial._replace(R=trial.R * xp.exp(-length * step[searching]), S=S, U=U, V=V, KV=V @ kernel.KT)
        lower = _error(kernel, trial) < 0.9 * error[searching]
        before = height[searching]
        better = lower | (_semidual(kernel, trial) > before + 450 * eps * xp.abs(before))
        KV[searching[better]], failed[searching[better]] = trial.KV[better], False
        searching = searching[~better]
        if not len(searching):
            break
        length *= 0.5
    return at._replace(KV=KV), failed


def _semidual(kernel: SharedKernel, at: _Iterate) -> Any:
    """⟨a, c⟩ + ⟨b, d⟩ (P,), which is J but for a constant; with loose marginals Σ a (1 - e^(-σ c)) / σ, and so on."""
    xp, sigma = kernel.xp, kernel.sigma
    if sigma == 0.0:
        return -(at.a * xp.log(at.R)).sum(1) - (at.b * xp.log(at.S)).sum(1)
    held = xp.exp(sigma * xp.log(at.S))
    return -((at.a * xp.expm1(sigma * xp.log(at.R))).sum(1) + (at.b * (held - 1.0)).sum(1)) / sigma - (at.b * held).sum(
        1
    )


def _direction(kernel: SharedKernel, at: _Iterate, error: Any, stop: Any) -> Any:
    """x (P, k) with (diag(T1 + σt + |r| / LARGEST_MOVE) - T diag(1/b) Tᵀ) x = r, r = t - T1, by conjugate gradients.

    t are the desired row sums; with loose marginals, (1 + σ) Tᵀ1 takes the place of b.

    The system is a graph's Laplacian with every node tied to the ground, which keeps x within LARGEST_MOVE and vanishes
    with r. It is solved to a quarter of r, and better as r gets small, so that the last steps are quadratic.
    """
    xp, tol = kernel.xp, kernel.rule.tol
    row_sums, wanted, W = at.U * at.KV, _wanted(kernel, at), at.V / at.S
    r = wanted - row_sums
    diagonal = row_sums + xp.abs(r) / LARGEST_MOVE
    if kernel.sigma:
        diagonal += kernel.sigma * wanted
        W *= xp.exp(-kernel.sigma * xp.log(at.S)) / (1.0 + kernel.sigma)
        error = error * wanted.sum(1)
    inverse = 1.0 / xp.where(diagonal > 0, diagonal, 1.0)
    goal = (error * xp.sqrt(error).clip(0.0, 0.25)).clip(1e-3 * tol)
    found, going = xp.zeros_like(r), xp.where(error > goal)[0]
    x, z = found[going], r * inverse
    U, W, r, diagonal, inverse, p, z = (y[going] for y in (at.U, W, r, diagonal, inverse, z, z))
    rz = (r * z).sum(1)
    for _ in range(2 * r.shape[1] + 20):
        if stop[0] != 0:
            break
        Hp = diagonal * p - U * (((U * p) @ kernel.K * W) @ kernel.KT)
        length = (rz / (p * Hp).sum(1).clip(1e-300))[:, None]
        x += length * p
        r -= length * Hp
        more = xp.abs(r).sum(1) > goal[going]
        if not bool(more.all()):
            found[going] = x
            going = going[more]
            if not len(going):
                return found
            x, U, W, r, diagonal, inverse, p, rz = (y[more] for y in (x, U, W, r, diagonal, inverse, p, rz))
        z = r * inverse
        rz, last = (r * z).sum(1), rz
        p = z + (rz / last.clip(1e-300))[:, None] * p
    found[going] = x
    return found
