"""A loop over pairs that calls another library's function, run by the engine like every other solver.

Other libraries solve one pair per call. Their adapters here are thin: points and masses of two distributions go in, a
number comes out, and what the library says about it becomes a status. Points without mass are left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.baselines.arguments import run
from asot.data.distributions import Distributions
from asot.request import Request
from asot.results.distances import Distances
from asot.run.executors import ProgressLike
from asot.run.protocols import Solution, Solver, Status

PAIRS_PER_TILE = 16
"""Calls take a tenth of a millisecond and more."""


class Pair(NamedTuple):
    """Two distributions, and their indices."""

    i: int
    j: int
    x: NDArray[np.float64]  # (n, d)
    a: NDArray[np.float64]  # (n,) > 0
    y: NDArray[np.float64]  # (m, d)
    b: NDArray[np.float64]  # (m,) > 0


class Answer(NamedTuple):
    value: float
    status: Status = Status.OPTIMAL
    n_iter: int = 0
    marginal_error: float | None = None


class Loop(Solver):
    """A function of a pair as a solver."""

    def __init__(
        self, D: Distributions, function: Callable[[Pair], Answer], info: dict[str, Any], column_start: int = 0
    ) -> None:
        self._D, self._function, self._column_start = D, function, column_start
        self.info = {"device": "cpu", "precision": "float64", "reg": None, **info}

    def pairs_per_tile(self, memory: int) -> int:
        return PAIRS_PER_TILE

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        size = len(rows)
        values, n_iter = np.zeros(size), np.zeros(size, dtype=np.int32)
        status, error = np.zeros(size, dtype=np.int8), np.full(size, np.nan)
        with np.errstate(all="ignore"):
            for t in range(size):
                if stop[0] != 0:
                    break
                answer = self._function(self._pair(int(rows[t]), int(columns[t]) + self._column_start))
                values[t], status[t], n_iter[t] = answer.value, answer.status, answer.n_iter
                if answer.marginal_error is not None:
                    error[t] = answer.marginal_error
        return Solution(values, status, n_iter, None if np.isnan(error).all() else error)

    def _pair(self, i: int, j: int) -> Pair:
        return Pair(i, j, *self._with_mass(i), *self._with_mass(j))

    def _with_mass(self, i: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        points, masses = self._D[i]
        has_mass = masses > 0
        if has_mass.all():
            return np.asarray(points, dtype=np.float64), masses
        return np.asarray(points[has_mass], dtype=np.float64), masses[has_mass]


def run_loop(
    asked: Request,
    function: Callable[[Pair], Answer],
    method: str,
    info: dict[str, Any],
    *,
    n_jobs: int | None,
    progress: ProgressLike,
) -> Distances:
    """Call the function for every pair. What the library would warn about is in the status."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solver = Loop(asked.both, function, info, asked.column_start)
        return run(asked, solver, method, n_jobs=n_jobs, memory=None, progress=progress)
