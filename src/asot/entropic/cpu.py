"""Entropic transport between many histograms under one shared cost, on the CPU (docs/method.md §2).

Where float64 can hold K = exp(-C/ε), pairs share it and iterate together (`asot.entropic.shared_kernel`). Pairs that
this leaves open, those with mass on few anchors at small ε, and all pairs where C/ε is too large, are solved one by one
in the log domain (`asot.entropic.log_newton`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Identity, Indices
from asot.entropic import eight_pairs, log_newton
from asot.entropic.options import SinkhornOptions, Stopping
from asot.entropic.shared_kernel import Answers, SharedKernel, solve_in_kernel
from asot.results.distances import Distances
from asot.run.protocols import TILE_SECONDS, Solution, Solver, Status

KERNEL_RANGE = 200.0
"""Largest max C/ε for which K is formed. Scalings then stay within e^±400 of each other; float64 holds e^±700."""

NARROW_RANGE = 25.0
"""The same in float32, which holds e^±87. Beyond it, float64 takes over."""

CACHE_BYTES = 2**22
"""A tile's arrays should stay within a core's caches, ..."""

FEWEST_PAIRS = 128
"""... unless these are too few for fast products with a kernel that does not fit there itself."""


def log_domain_pays(rows: Float, columns: Float, shape: tuple[int, int], largest: float) -> NDArray[np.bool_]:
    """Which pairs converge sooner by themselves in the log domain, on the anchors that carry mass, than with others.

    A pair's own Newton steps factor a matrix of its ``rows`` (P,) anchors, after exponentials for all ``columns`` (P,)
    of them. In the shared kernel, the number of products grows with ``largest``, max C/ε. Microseconds, measured.
    """
    own = ALONE + 0.08 * rows * columns + 6e-4 * rows**2 * columns
    return own < together(shape, largest)


ALONE = 20.0
"""Microseconds that a pair takes by itself, at least."""


def together(shape: tuple[int, int], largest: float) -> float:
    """Microseconds that it takes in the shared kernel."""
    return 8.5e-3 * float(shape[0] * shape[1]) ** 0.8 * largest


class Scalings(NamedTuple):
    """What is known of the P pairs of a tile besides their values, enough to prove bounds: histograms and log-scalings,
    which are -inf where there is no mass."""

    a: Float  # (P, k)
    b: Float  # (P, l)
    phi: Float  # (P, k)
    psi: Float  # (P, l)
    M: Float  # (k, l) cost in units of ε
    reg: float


class SinkhornSharedCost(Solver):
    """Prepared once from histograms and their cost; then solves tiles of pairs.

    Parameters
    ----------
    A : (N, k), B : (M, l) or None
        Rows of total 1, or of any total where marginals are loose.
    cost : (k, l)
    options : SinkhornOptions
    precision : {"float64", "float32"}
        Of the iterations; values are summed in it, too. float32 only where it can hold the kernel.
    """

    stage = "entropic distances"

    def __init__(
        self, A: Float, B: Float | None, cost: Float, options: SinkhornOptions, precision: str = "float64"
    ) -> None:
        self._A, self._B, self._options = A, A if B is None else B, options
        self._M = M = cost / options.reg  # (k, l)
        largest = float(M.max())
        self._dtype = np.dtype("float64" if largest > NARROW_RANGE else precision)
        self._rule = Stopping(np, options.tol or 0.0, largest, float(np.finfo(self._dtype).eps))
        self._kernel = None
        if largest <= KERNEL_RANGE:
            K = np.negative(M)
            np.exp(K, out=K)
            KMT, K = (K * M).T.astype(self._dtype, copy=False), K.astype(self._dtype, copy=False)
            fast = None
            if options.is_plain and K.size <= eight_pairs.LARGEST_KERNEL:
                fast = functools.partial(eight_pairs.advance, eight_pairs.packed(K), eight_pairs.packed(K.T))
            self._kernel = SharedKernel(np, K, K.T, KMT, self._rule, options, fast)
        self.info = options.info(
            "Sinkhorn, log domain" if self._kernel is None else "Sinkhorn, shared kernel", "cpu", str(self._dtype)
        )

    @functools.cached_property
    def _log_sums(self) -> Float:
        """log Σ_j exp(-M_ij) (k,)."""
        from scipy.special import logsumexp

        return np.asarray(logsumexp(-self._M, axis=1))

    @staticmethod
    def seconds_per_pair(shape: tuple[int, int], max_iter: int) -> float:
        """A guess before the start: most pairs converge within a hundred iterations."""
        return 2e-10 * shape[0] * shape[1] * min(max_iter, 100)

    def identity(self) -> Identity:
        given = {"A": self._A, "B": None if self._B is self._A else self._B, "cost": self._M}
        precision = {} if self._dtype == np.float64 else {"precision": str(self._dtype)}
        return {"solver": "entropic, 1", **given, "options": asdict(self._options), **precision}

    def expected_seconds(self, n_pairs: int) -> float:
        shape, options = self._M.shape, self._options
        each = self._seconds_in_log_domain
        if self._kernel is not None:
            each = self.seconds_per_pair(shape, options.max_iter)
            each *= 1.0 if options.tol is not None else max(options.max_iter / 100, 1.0)
        return n_pairs * each

    def pairs_per_tile(self, memory: int) -> int:
        row_bytes = 8 * 4 * sum(self._M.shape)
        if self._kernel is not None:
            in_cache = max(CACHE_BYTES / row_bytes, FEWEST_PAIRS)
            return int(np.clip(min(in_cache, memory / row_bytes), 1, 2**14))
        return int(np.clip(min(TILE_SECONDS / self._seconds_in_log_domain, memory / row_bytes), 1, 2**12))

    @property
    def _seconds_in_log_domain(self) -> float:
        k, l = self._M.shape
        fixed = 1e-9 * k * l * (self._options.max_iter + 20)
        return fixed if self._options.tol is None else 4e-7 * k * l + 1e-8 * k**3

    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
        return self._solve(self._A[rows], self._B[columns], self._answers(len(rows)), stop)

    def solve_with_scalings(self, rows: Indices, columns: Indices, stop: Indices) -> tuple[Solution, Scalings]:
        """Like `solve`, with the scalings that every pair ended with."""
        a, b = self._A[rows], self._B[columns]
        answers = self._answers(len(rows), np.zeros_like(a), np.zeros_like(b))
        solution = self._solve(a, b, answers, stop)
        with np.errstate(divide="ignore"):
            phi, psi = np.log(a) + answers.c, np.log(b) + answers.d
        return solution, Scalings(a, b, phi, psi, self._M, self._options.reg)

    @staticmethod
    def _answers(size: int, *potentials: Float) -> Answers:
        status = np.full(size, Status.MAX_ITER, dtype=np.int8)
        return Answers(np.zeros(size), status, np.zeros(size, dtype=np.int32), np.zeros(size), *potentials)

    def _solve(self, a: Float, b: Float, answers: Answers, stop: Indices) -> Solution:
        still_open = np.arange(len(a))
        if self._kernel is not None:
            alone = np.zeros(len(a), dtype=bool)
            if self._options.tol is not None and together(self._M.shape, self._rule.largest) > ALONE:
                rows, columns = (np.count_nonzero(masses, axis=1).astype(np.float64) for masses in (a, b))
                alone = log_domain_pays(rows, columns, self._M.shape, self._rule.largest)
            which = still_open[~alone]
            if len(which):
                rows, columns = ((x[which] if alone.any() else x).astype(self._dtype, copy=False) for x in (a, b))
                with np.errstate(all="ignore"):  # what leaves the range of floats is left open
                    which = solve_in_kernel(self._kernel, which, rows, columns, answers, stop)
            still_open = np.concatenate([still_open[alone], which])
        if len(still_open):
            self._solve_in_log_domain(still_open, a, b, answers, stop)
        return Solution(self._options.reg * answers.values, answers.status, answers.n_iter, answers.marginal_error)

    def _solve_in_log_domain(self, which: Indices, a: Float, b: Float, answers: Answers, stop: Indices) -> None:
        """Some pairs from the start, on the anchors that carry mass."""
        options, values, M = self._options, np.zeros((len(which), 3)), self._M
        phi, psi = (np.full((len(which), x.shape[1]), -np.inf) for x in (a, b))
        pairs = log_newton.LogPairs(
            n=len(which), which=which, k=M.shape[0], l=M.shape[1], A=a, B=b, M=M, answers=values,
            error=answers.marginal_error, phi=phi, psi=psi, stop=stop,
        )  # fmt: skip
        if options.tol is None:
            log_newton.sweep_pairs(pairs, self._log_sums, int(options.start_at_target), options.max_iter)
            answers.n_iter[which], answers.status[which] = options.max_iter, Status.FIXED_ITERATIONS
        else:
            goal = max(1e-4 * options.tol, self._rule.rounding)  # Newton's last step overshoots any goal
            log_newton.anneal_pairs(pairs, options.sigma, goal, options.max_iter, answers.n_iter)
            done = answers.marginal_error[which] <= self._rule.goal(values[:, 0] / values[:, 2])
            answers.status[which] = np.where(done, Status.CONVERGED, Status.MAX_ITER)
        answers.values[which] = values[:, int(options.regularized)]
        if options.sigma and options.value == "regularized":
            answers.values[which] += a[which].sum(1) * b[which].sum(1)
        if answers.c is not None:
            with np.errstate(divide="ignore", invalid="ignore"):  # any number will do where there is no mass
                answers.c[which] = np.where(a[which] > 0, phi - np.log(a[which]), 0.0)
                answers.d[which] = np.where(b[which] > 0, psi - np.log(b[which]), 0.0)


class Debiased(Solver):
    """Sinkhorn divergences: a solver of regularized values whose answers lose the mean of their two self terms.

    OT_ε(a, a) is not 0; without half of the self terms of both sides the divergence is 0 for equal histograms, and it
    stays ≥ 0 for the usual costs.
    """

    stage = "entropic distances"

    def __init__(self, make: Callable[[], Solver], row_terms: Distances, column_terms: Distances) -> None:
        self._solver, self._row_terms, self._column_terms = make(), row_terms, column_terms
        self.info = self._solver.info

    def identity(self) -> Identity:
        terms = {"row_terms": self._row_terms.values, "column_terms": self._column_terms.values}
        return {"solver": "debiased, 1", "biased": self._solver.identity(), **terms}

    def pairs_per_tile(self, memory: int) -> int:
        return self._solver.pairs_per_tile(memory)

    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
        biased = self._solver.solve(rows, columns, stop)
        bias = 0.5 * (self._row_terms.values[rows] + self._column_terms.values[columns])
        # A divergence is finished only if all three of its parts are; unfinished is the largest status.
        status = np.maximum(biased.status, self._row_terms.status[rows])
        status = np.maximum(status, self._column_terms.status[columns])
        return Solution(biased.values - bias, status, biased.n_iter, biased.marginal_error)
