"""Entropic transport between many histograms under one shared cost, in plain torch, on any device torch knows.

This is the solver behind the gradients of `asot.gradients`, and the plain counterpart that the fused GPU kernels are
compared with. It proceeds like `asot.entropic.cpu`, a whole tile at a time: the loop of
`asot.entropic.shared_kernel` where float32 or float64 can hold the kernel, and for small ε the log domain, with ε
lowered in stages, sweeps and Newton steps (`asot.entropic.log_newton`).

Potentials are relative to the masses: T_ij = a_i b_j exp(c_i + d_j - C_ij/ε). Then c_i = -log Σ_j b_j exp(d_j - C_ij/ε)
is defined and finite also where a_i = 0, and log 0 only occurs as a weight.
"""

from __future__ import annotations

import torch
from torch import Tensor

from asot.entropic.log_newton import ANNEALING_FACTOR, COARSE_TOLERANCE, LARGEST_MOVE, STALLED, TRIALS
from asot.entropic.options import SinkhornOptions, Stopping
from asot.entropic.shared_kernel import Answers, SharedKernel, regularized_values, solve_in_kernel
from asot.run.pairs import tiles
from asot.run.protocols import Status

KERNEL_RANGE = {torch.float32: 40.0, torch.float64: 200.0}
"""Largest max C/ε for which exp(-C/ε) is formed. Scalings stay within e^±2·range; the floats hold e^±87 and e^±708."""

SCRATCH_BYTES = 2**28
"""Memory that the arrays of a tile may take."""

ELIMINATED_AT_ONCE = 16


class SinkhornTorch:
    """Prepared once from histograms and their cost, on their device and in their dtype; then solves lists of pairs.

    Parameters are those of `asot.entropic.cpu.SinkhornSharedCost`, as tensors; ``scratch`` bounds the bytes of a tile.
    Log-domain work on float32 tensors is done in float64 where the device has it.
    """

    def __init__(
        self, A: Tensor, B: Tensor | None, cost: Tensor, options: SinkhornOptions, *, scratch: int = SCRATCH_BYTES
    ) -> None:
        self._A, self._B, self.options = A.detach(), (A if B is None else B).detach(), options
        cost = cost.detach()
        self._precise = cost.dtype if cost.device.type == "mps" else torch.float64
        self.M = cost.to(self._precise) / options.reg  # (k, l)
        largest = float(self.M.max())
        self._rules = {
            dtype: Stopping(torch, options.tol or 0.0, largest, torch.finfo(dtype).eps)
            for dtype in (cost.dtype, self._precise)
        }
        k, l = cost.shape
        self.pairs_per_tile = max(1, scratch // (cost.element_size() * 8 * (k + l)))
        self.plans_per_tile = max(1, scratch // (self.M.element_size() * (4 * k * l + 2 * k * k)))
        self.in_kernel = largest <= KERNEL_RANGE[cost.dtype]
        if self.in_kernel:
            M = self.M.to(cost.dtype)
            self.K = torch.exp(-M)  # (k, l)
            KT, KMT = self.K.T.contiguous(), (self.K * M).T.contiguous()  # (l, k)
            self._kernel = SharedKernel(torch, self.K, KT, KMT, self._rules[cost.dtype], options)

    def solve(self, rows: Tensor, columns: Tensor) -> Answers:
        """The pairs (rows[t], columns[t]): int64 (P,) on the device of the histograms."""
        with torch.no_grad():
            A, size = self._A, len(rows)
            precision = A.dtype if self.in_kernel else self._precise
            status = A.new_full((size,), int(Status.MAX_ITER), dtype=torch.int8)
            potentials = (A.new_zeros((size, width), dtype=precision) for width in self.M.shape)
            n_iter = A.new_zeros(size, dtype=torch.int32)
            solution = Answers(A.new_zeros(size), status, n_iter, A.new_zeros(size), *potentials)
            per_tile = self.pairs_per_tile if self.in_kernel else self.plans_per_tile
            for start, stop in tiles(size, per_tile):
                order = torch.arange(stop - start, device=A.device)
                problem = self._A[rows[start:stop]], self._B[columns[start:stop]], solution.part(start, stop)
                if self.in_kernel:
                    order = solve_in_kernel(self._kernel, order, *problem, (0,))
                self._solve_in_log_domain(order, *problem)
            solution.values.mul_(self.options.reg)
        return solution

    def _solve_in_log_domain(self, which: Tensor, A: Tensor, B: Tensor, answers: Answers) -> None:
        """Some pairs of a tile from the start, in as many parts as memory requires."""
        options, rule = self.options, self._rules[self._precise]
        for start, stop in tiles(len(which), self.plans_per_tile):
            part = which[start:stop]
            a, b = A[part].to(self._precise), B[part].to(self._precise)
            if not options.sigma:
                a, b = a / a.sum(1, keepdim=True), b / b.sum(1, keepdim=True)  # float32 totals are off by 1e-7
            problem = _LogProblem(a, b, self.M, options.sigma)
            if options.tol is None:
                log_v = torch.log(b) if options.start_at_target else torch.zeros_like(b)
                c, d, error = problem.sweeps(log_v, options.max_iter)
                answers.n_iter[part], answers.status[part] = options.max_iter, int(Status.FIXED_ITERATIONS)
            else:
                goal = max(1e-4 * options.tol, rule.rounding)  # Newton's last step overshoots any goal
                c, d, error, steps = problem.anneal(goal, options.max_iter - answers.n_iter[part])
                answers.n_iter[part] += steps
            plans = problem.fit_columns(c)[1].mul_(b[:, None, :])
            transported = (plans * self.M).sum((1, 2))
            if options.tol is not None:
                done = error <= rule.goal(transported / plans.sum((1, 2)))
                answers.status[part] = torch.where(done, int(Status.CONVERGED), int(Status.MAX_ITER)).to(torch.int8)
            values = transported
            if options.regularized:
                values = regularized_values(torch, options, a, b, c, d, plans.sum(2))
            places = (answers.values, answers.marginal_error, answers.c, answers.d)
            for place, found in zip(places, (values, error, c, d), strict=True):
                place[part] = found.to(place.dtype)


class _LogProblem:
    """P pairs under M = C/ε (k, l) in the log domain. Plans are T_ij = R_ij b_j with Σ_i R_ij = e^(-σ d_j)."""

    def __init__(self, a: Tensor, b: Tensor, M: Tensor, sigma: float = 0.0) -> None:
        self.a, self.b, self.M, self.sigma = a, b, M, sigma
        self.log_a, self.log_b = torch.log(a), torch.log(b)  # -∞ where there is no mass

    def fit_columns(self, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Column sums become b e^(-σ d): d (P, l), R (P, k, l) and the row sums (P, k) of the plan."""
        R = (self.log_a + c)[:, :, None] - self.M
        d = -torch.logsumexp(R, 1) / (1.0 + self.sigma)
        R = R.add_(d[:, None, :]).exp_()
        return d, R, (R @ self.b[:, :, None])[:, :, 0]

    def fit_rows(self, log_v: Tensor) -> Tensor:
        """c (P, k) that makes row sums a e^(-σ c), from the logarithms (P, l) of column scalings."""
        return -torch.logsumexp(log_v[:, None, :] - self.M, 2) / (1.0 + self.sigma)

    def wanted(self, c: Tensor) -> Tensor:
        """The row sums (P, k) that the plan should have."""
        return self.a * torch.exp(-self.sigma * c) if self.sigma else self.a

    def error(self, c: Tensor, row_sums: Tensor) -> Tensor:
        wanted = self.wanted(c)
        return (row_sums - wanted).abs().sum(1) / wanted.sum(1)

    def sweeps(self, log_v: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Exactly ``count`` Sinkhorn iterations, rows first: c, d, marginal error."""
        for _ in range(count):
            c = self.fit_rows(log_v)
            d, _, row_sums = self.fit_columns(c)
            log_v = self.log_b + d
        return c, d, self.error(c, row_sums)

    def anneal(self, goal: float, budget: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Levels of falling ε, coarse but for the last: c, d, marginal error, steps (P,)."""
        level, c = 1.0, torch.zeros_like(self.a)
        while float(self.M.max()) / level > ANNEALING_FACTOR:
            level *= ANNEALING_FACTOR
        steps = torch.zeros_like(budget)
        while True:
            # At `level` times ε the potentials in units of that ε are c / level.
            at_level = _LogProblem(self.a, self.b, self.M / level, self.sigma * level)
            c = at_level.climb(c / level, goal if level == 1.0 else COARSE_TOLERANCE, budget, steps) * level
            if level == 1.0:
                break
            level /= ANNEALING_FACTOR
        d, _, row_sums = self.fit_columns(c)
        c = torch.where(self.a > 0, c, self.fit_rows(self.log_b + d))
        return c, d, self.error(c, row_sums), steps

    def climb(self, c: Tensor, goal: float, budget: Tensor, steps: Tensor) -> Tensor:
        """From c, sweep and Newton in turn until marginal errors are at most ``goal``; ``steps`` counts on in place.

        Every pair takes at least one step, if its budget allows, and stops by itself: at the goal, at the end of its
        budget, or when only rounding is left.
        """
        c = c.clone()
        best = torch.full_like(c[:, 0], torch.inf)
        since_best = torch.zeros_like(steps)
        going = torch.nonzero(steps < budget)[:, 0]
        while len(going):
            part = _LogProblem(self.a[going], self.b[going], self.M, self.sigma)
            moved, error = part.step(c[going], goal)
            c[going] = moved
            steps[going] += 1
            since_best[going] = torch.where(error < best[going], 0, since_best[going] + 1)
            best[going] = torch.minimum(best[going], error)
            more = (error > goal) & (steps[going] < budget[going]) & (since_best[going] < STALLED)
            going = going[more]
        return c

    def step(self, c: Tensor, goal: float) -> tuple[Tensor, Tensor]:
        """A sweep, and a Newton step for pairs above the goal: new c, marginal errors.

        A Newton step is kept if it raises the semi-dual ⟨a, c⟩ + ⟨b, d⟩ or lowers the marginal error, halved if need
        be; one that its limit made too short is followed by steps twice as long, while they are kept.
        """
        c = self.fit_rows(self.log_b + self.fit_columns(c)[0])
        error, height, R, row_sums = self._judged(c)
        searching = error > goal
        if not bool(searching.any()):
            return c, error
        wanted = self.wanted(c)
        residual, ground, weights = wanted - row_sums, self.sigma * wanted, self.b
        if self.sigma:
            ground = ground + self.sigma / (1.0 + self.sigma) * row_sums
            weights = self.b / ((1.0 + self.sigma) * R.sum(1))
        direction = solve_laplacians(
            (R * weights[:, None, :]) @ R.transpose(1, 2), ground + residual.abs() / LARGEST_MOVE, residual
        )
        far = direction.abs().amax(1) > 0.5 * LARGEST_MOVE
        growing, length = torch.zeros_like(searching), torch.ones_like(error)
        for attempt in range(TRIALS):
            trial = c + length[:, None] * direction
            trial_error, trial_height, _, _ = self._judged(trial)
            risen = trial_height > height + 450 * torch.finfo(c.dtype).eps * height.abs()
            better = searching & ((trial_error < 0.9 * error) | risen)
            if attempt == 0:  # blocks that hardly touch may have many ε to go before any mass moves
                growing = better & far & (trial_error > 0.5 * error)
            c = torch.where(better[:, None], trial, c)
            error, height = torch.where(better, trial_error, error), torch.where(better, trial_height, height)
            searching &= better == growing
            if not bool(searching.any()):
                break
            length = length * torch.where(growing, 2.0, 0.5)
        return c, error

    def _judged(self, c: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Marginal errors (P,), semi-dual (P,), R and row sums."""
        d, R, row_sums = self.fit_columns(c)
        if self.sigma == 0.0:
            height = (self.a * c).sum(1) + (self.b * d).sum(1)
        else:
            masses = self.a * torch.expm1(-self.sigma * c), self.b * torch.expm1(-self.sigma * d)
            height = -(masses[0].sum(1) + masses[1].sum(1)) / self.sigma - row_sums.sum(1)
        return self.error(c, row_sums), height, R, row_sums


def solve_laplacians(weights: Tensor, ground: Tensor, residual: Tensor) -> Tensor:
    """Solve (L + diag(ground)) x = residual, L the Laplacian of a graph, for P graphs at once; arguments are consumed.

    ``weights`` (P, k, k) are symmetric and ≥ 0 (their diagonal is not read), ``ground`` (P, k) ≥ 0. Eliminating a node
    only adds to the weights between its neighbors: without a subtraction they keep all their digits (Grassmann,
    Taksar, Heyman). Nodes without any weight get x = 0 if their residual is 0.
    """
    W, x = weights, residual
    k, degree = x.shape[1], torch.empty_like(x)
    smallest = 100 * torch.finfo(x.dtype).tiny
    for first in range(0, k, ELIMINATED_AT_ONCE):
        end = min(first + ELIMINATED_AT_ONCE, k)
        for v in range(first, end):
            row = W[:, v, v + 1 :]
            degree[:, v] = ground[:, v] + row.sum(1) + smallest
            share = row / degree[:, v, None]
            x[:, v + 1 :] += share * x[:, v, None]
            ground[:, v + 1 :] += share * ground[:, v, None]
            W[:, v + 1 : end, v + 1 :] += share[:, : end - v - 1, None] * row[:, None, :]
        block = W[:, first:end, end:]
        W[:, end:, end:] += (block / degree[:, first:end, None]).transpose(1, 2) @ block
    for v in reversed(range(k)):
        x[:, v] = (x[:, v] + (W[:, v, v + 1 :] * x[:, v + 1 :]).sum(1)) / degree[:, v]
    return x


def transport_gradients(a: Tensor, b: Tensor, d: Tensor, M: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of ⟨T, M⟩ in a (P, k), in b (P, l) and, pair by pair, in M (P, k, l), at solutions with potentials d.

    Small changes of T = exp(φ_i + ψ_j - M_ij) must keep its marginals: a linear system in (dφ, dψ). Its adjoint (x, y)
    has a_i x_i + Σ_j T_ij y_j = Σ_j T_ij M_ij, and the same for columns; x and y are the gradients in a and b, and
    T (1 - M + x + y) is that in M. With x = c + x', y = d + y' the right side becomes -Σ_j T_ij log(T_ij / a_i b_j),
    which stays small when ε does. Without y' it is a Laplacian system in x'.
    """
    problem = _LogProblem(a, b, M)
    c = problem.fit_rows(b.log() + d)
    d, R, _ = problem.fit_columns(c)  # columns of R have total 1: T = R diag(b)
    log_ratio = c[:, :, None] + d[:, None, :] - M
    plans, mean = R * b[:, None, :], -(R * log_ratio).sum(1)
    residual = -(plans * (log_ratio + mean[:, None, :])).sum(2)
    # The ground fixes the constant, and what blocks that hardly touch leave undetermined.
    x = solve_laplacians(plans @ R.transpose(1, 2), 4 * torch.finfo(a.dtype).eps * a, residual)
    x = x - (a * (c + x)).sum(1, keepdim=True)  # (x - t, y + t) is as good, and this one is small
    y = mean - (R * x[:, :, None]).sum(1)
    Q = (log_ratio + b.log()[:, None, :]).exp()  # rows of total 1, also where a has no mass
    x = torch.where(a > 0, x, -(Q * (log_ratio + y[:, None, :])).sum(2))
    return c + x, d + y, plans * (1.0 + log_ratio + x[:, :, None] + y[:, None, :])
