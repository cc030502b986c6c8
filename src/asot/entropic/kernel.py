"""Entropic transport between many histograms under one shared cost, on the CPU (docs/method.md §2).

All pairs share the kernel K = exp(-C/ε), so an iteration of a whole tile is two matrix products:
U ← A ⊘ (V Kᵀ), V ← B ⊘ (U K), with a pair per row. Pairs leave the tile one by one, when

* they have converged: the *remaining* marginal error, extrapolated from the measured rate, is below the tolerance;
* they converge so slowly that a few Newton steps are cheaper (see `asot.entropic.log_newton`);
* max_iter is reached, which their status then says.

When C/ε is too large for a kernel in float64, all pairs take the log-domain road from the start.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from asot.bounds.entropic_bracket import Scalings
from asot.entropic import log_newton as sinkhorn_log
from asot.run.result import Status
from asot.run.solver import TILE_SECONDS, Solution

KERNEL_RANGE = 200.0
"""Largest max C/ε for which K is formed. Scalings then stay within e^±400 of each other; float64 holds e^±700."""

FIRST_LOOK, LOOK_EVERY = 5, 10
"""When convergence is looked at. One look alone decides nothing: it takes two to know the rate."""

PATIENCE = 500
"""A pair that would need more than this many iterations in all is finished by Newton steps."""

CACHE_BYTES = 2**20
"""A tile's arrays should stay within a core's cache."""

Float = NDArray[np.float64]


class SinkhornSharedCost:
    """Prepared once from histograms and their cost; then solves tiles of pairs.

    Parameters
    ----------
    A : (N, k), B : (M, l) or None
        Rows of total 1.
    cost : (k, l)
    reg : float > 0
        ε, in the units of the cost.
    max_iter : int
    tol : float or None
        Relative accuracy of the value, and bound on the marginal error. None runs exactly max_iter iterations.
    regularised : bool
        Return ⟨T, C⟩ - ε H(T) in place of ⟨T, C⟩.
    start_at_target : bool
        Begin with V = B, as the paper's code does, in place of V = 1.
    """

    def __init__(
        self,
        A: Float,
        B: Float | None,
        cost: Float,
        *,
        reg: float,
        max_iter: int,
        tol: float | None,
        regularised: bool,
        start_at_target: bool,
    ) -> None:
        self._A, self._B = A, A if B is None else B
        self._reg, self._max_iter, self._tol = reg, max_iter, tol
        self._regularised, self._start_at_target = regularised, start_at_target
        self._M = cost / reg  # (k, l)
        self._range = float(self._M.max())
        self._rounding = 1e-15 * (1.0 + self._range)  # exponents are this uncertain, and with them every mass
        self._log_sums = logsumexp(-self._M, axis=1)  # (k,)
        self._in_kernel = self._range <= KERNEL_RANGE
        if self._in_kernel:
            self._K = np.exp(-self._M)  # (k, l)
            self._KT = np.ascontiguousarray(self._K.T)  # (l, k)
            self._KMT = np.ascontiguousarray((self._K * self._M).T)  # (l, k)
        self.info: dict[str, Any] = {
            "solver": "Sinkhorn, shared kernel" if self._in_kernel else "Sinkhorn, log domain",
            "device": "cpu",
            "precision": "float64",
            "reg": reg,
            "max_iter": max_iter,
            "tol": tol,
        }

    @staticmethod
    def seconds_per_pair(shape: tuple[int, int], max_iter: int) -> float:
        """A guess before the start: most pairs converge within a hundred iterations."""
        return 2e-10 * shape[0] * shape[1] * min(max_iter, 100)

    def pairs_per_tile(self, memory: int) -> int:
        k, l = self._M.shape
        row_bytes = 8 * 4 * (k + l)
        if not self._in_kernel:
            seconds = 1e-9 * k * l * (self._max_iter + 20) if self._tol is None else 4e-7 * k * l + 1e-8 * k**3
            return int(np.clip(min(TILE_SECONDS / seconds, memory / row_bytes), 1, 2**12))
        return int(np.clip(min(CACHE_BYTES, memory) / row_bytes, 1, 2**14))

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        return self._answer(_Tile(self._A[rows], self._B[columns]), stop)

    def solve_with_scalings(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]
    ) -> tuple[Solution, Scalings]:
        """Like `solve`, with the scalings that every pair ended with."""
        tile = _Tile(self._A[rows], self._B[columns], keep=True)
        solution = self._answer(tile, stop)
        assert tile.phi is not None
        assert tile.psi is not None
        return solution, Scalings(tile.a, tile.b, tile.phi, tile.psi, self._M, self._reg)

    def _answer(self, tile: _Tile, stop: NDArray[np.int64]) -> Solution:
        if self._in_kernel:
            self._iterate(tile, stop)
        else:
            self._solve_in_log_domain(tile, np.arange(len(tile.a)), stop)
        return Solution(self._reg * tile.values, tile.status, tile.n_iter, tile.error)

    # ------------------------------------------------------------------------------------------------ kernel domain

    def _iterate(self, tile: _Tile, stop: NDArray[np.int64]) -> None:
        """Shared-kernel iterations of all pairs of a tile, compacted as pairs finish."""
        active = np.arange(len(tile.a))
        a, b = tile.a, tile.b
        V = b.copy() if self._start_at_target else np.ones_like(b)
        U, KV, KU = np.empty_like(a), np.empty_like(a), np.empty_like(b)
        np.matmul(V, self._KT, out=KV)
        previous, previous_look = np.full(len(a), np.inf), 0
        with np.errstate(all="ignore"):  # what leaves float64's range is caught by `_finish` and solved again
            for iteration in range(1, self._max_iter + 1):
                np.divide(a, KV, out=U)
                np.matmul(U, self._K, out=KU)
                np.divide(b, KU, out=V)
                np.matmul(V, self._KT, out=KV)
                if iteration == self._max_iter or stop[0] != 0:
                    self._finish(tile, active, U, V, KV, iteration, stop)
                    return
                if self._tol is None or (iteration != FIRST_LOOK and iteration % LOOK_EVERY != 0):
                    continue
                error = np.abs(U * KV - a).sum(axis=1)
                rate = (error / previous) ** (1.0 / (iteration - previous_look))
                previous, previous_look = error, iteration
                if iteration == FIRST_LOOK:
                    continue
                converged, slow = self._judge(U, V, error, rate, iteration)
                leaving = converged | slow
                if not leaving.any():
                    continue
                tile.status[active[converged]] = Status.CONVERGED
                self._finish(tile, active[leaving], U[leaving], V[leaving], KV[leaving], iteration, stop)
                if leaving.all():
                    return
                stay = ~leaving
                active, previous = active[stay], previous[stay]
                a, b, U, V, KV, KU = a[stay], b[stay], U[stay], V[stay], KV[stay], KU[stay]

    def _goal(self, values: Any) -> Any:
        """The marginal error at which a pair of this value (in units of ε) has the accuracy asked for."""
        assert self._tol is not None
        relative = self._tol * np.clip(values / max(self._range, 1e-300), 1e-4, 1.0)
        return np.maximum(relative, self._rounding)

    def _judge(
        self, U: Float, V: Float, error: Float, rate: Float, iteration: int
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which pairs have converged, and which converge too slowly (or left float64's range)."""
        goal = self._goal(np.einsum("pk,pk->p", U, V @ self._KMT))
        # What is still missing is a geometric tail: error · (rate + rate² + …). Noise at 1e-15 has no rate.
        remaining = np.where(error < 1e-14, error, error / np.maximum(1.0 - rate, 1e-12))
        converged = (error <= goal) & (remaining <= goal)
        needed = np.log(np.maximum(goal / remaining, 1e-300)) / np.log(np.clip(rate, 1e-9, 1.0 - 1e-12))
        hopeless = ~(iteration + needed < PATIENCE)  # also where the error is not a number
        return converged, hopeless & ~converged

    def _finish(self, tile: _Tile, which: Any, U: Float, V: Float, KV: Float, iteration: int, stop: Any) -> None:
        """Values, errors and status of pairs that leave the iteration; Newton steps for those that need them."""
        transported = np.einsum("pk,pk->p", U, V @ self._KMT)
        row_sums = U * KV
        tile.values[which] = self._regularise(transported, U, V, row_sums, tile.b[which])
        tile.error[which] = np.abs(row_sums - tile.a[which]).sum(axis=1)
        tile.n_iter[which] = iteration
        tile.keep_scalings(which, U, V)
        lost = ~(np.isfinite(tile.values[which]) & np.isfinite(tile.error[which]))
        if self._tol is None:
            tile.status[which] = Status.FIXED_ITERATIONS
            again = lost
        else:
            open_pairs = tile.status[which] != Status.CONVERGED
            converged_last = open_pairs & (tile.error[which] <= 1e-2 * self._goal(transported))
            tile.status[which[converged_last]] = Status.CONVERGED
            again = lost | (open_pairs & ~converged_last & (iteration < self._max_iter))
        if again.any():
            self._solve_in_log_domain(tile, which[again], stop)

    def _regularise(self, transported: Float, U: Float, V: Float, row_sums: Float, b: Float) -> Float:
        if not self._regularised:
            return transported
        with np.errstate(all="ignore"):
            entropy = (row_sums * np.where(U > 0, np.log(U), 0.0)).sum(axis=1)
            entropy += (b * np.where(V > 0, np.log(V), 0.0)).sum(axis=1)
        return np.asarray(entropy - row_sums.sum(axis=1))

    # ------------------------------------------------------------------------------------------------ log domain

    def _solve_in_log_domain(self, tile: _Tile, which: NDArray[np.int64], stop: NDArray[np.int64]) -> None:
        """Pairs from the start, on the anchors that carry mass."""
        answers = np.zeros((len(which), 2))
        phi, psi = (np.full((len(which), x.shape[1]), -np.inf) for x in (tile.a, tile.b))
        found = (answers, tile.error, phi, psi, stop)
        if self._tol is None:
            how = (self._log_sums, self._start_at_target, self._max_iter)
            sinkhorn_log.sweep_pairs(which, tile.a, tile.b, self._M, *how, *found)
            tile.n_iter[which], tile.status[which] = self._max_iter, Status.FIXED_ITERATIONS
        else:
            goal = max(1e-4 * self._tol, self._rounding)  # Newton's last step overshoots any goal: take the tightest
            sinkhorn_log.anneal_pairs(which, tile.a, tile.b, self._M, goal, self._max_iter, tile.n_iter, *found)
            done = tile.error[which] <= self._goal(answers[:, 0])
            tile.status[which] = np.where(done, Status.CONVERGED, Status.MAX_ITER)
        tile.values[which] = answers[:, int(self._regularised)]
        tile.keep_potentials(which, phi, psi)


class _Tile:
    """The pairs of a tile and their answers; values are in units of ε."""

    def __init__(self, a: Float, b: Float, *, keep: bool = False) -> None:
        self.a, self.b = a, b  # (P, k), (P, l)
        self.phi = np.full_like(a, -np.inf) if keep else None
        self.psi = np.full_like(b, -np.inf) if keep else None
        self.values = np.zeros(len(a))
        self.error = np.zeros(len(a))
        self.n_iter = np.zeros(len(a), dtype=np.int32)
        self.status = np.full(len(a), Status.MAX_ITER, dtype=np.int8)

    def keep_scalings(self, which: Any, U: Float, V: Float) -> None:
        """Remember the scalings of some pairs, if that was asked for."""
        if self.phi is not None:
            with np.errstate(divide="ignore"):
                self.keep_potentials(which, np.log(U), np.log(V))

    def keep_potentials(self, which: Any, phi: Float, psi: Float) -> None:
        """The same, from their logarithms."""
        if self.phi is not None and self.psi is not None:
            self.phi[which], self.psi[which] = phi, psi
