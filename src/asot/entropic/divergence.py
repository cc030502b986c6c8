"""The Sinkhorn divergence: entropic costs with their bias removed.

OT_ε(a, a) is not 0; subtracting half of the self terms of both sides makes the divergence 0 for equal histograms and
keeps it ≥ 0 for the usual costs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asot._typing import Identity
from asot.results.distances import Distances
from asot.run.protocols import Solution, Solver


class Debiased(Solver):
    """A solver of regularized values whose answers lose the mean of their two self terms, which are given."""

    stage = "entropic distances"

    def __init__(self, solver: Solver, row_terms: Distances, column_terms: Distances) -> None:
        self._solver, self._row_terms, self._column_terms = solver, row_terms, column_terms
        self.info = solver.info

    def identity(self) -> Identity:
        return {
            "solver": "debiased, 1",
            "biased": self._solver.identity(),
            "row_terms": self._row_terms.values,
            "column_terms": self._column_terms.values,
        }

    def pairs_per_tile(self, memory: int) -> int:
        return self._solver.pairs_per_tile(memory)

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        biased = self._solver.solve(rows, columns, stop)
        bias = 0.5 * (self._row_terms.values[rows] + self._column_terms.values[columns])
        # A divergence is finished only if all three of its parts are; unfinished is the largest status.
        status = np.maximum(biased.status, self._row_terms.status[rows])
        status = np.maximum(status, self._column_terms.status[columns])
        return Solution(biased.values - bias, status, biased.n_iter, biased.marginal_error)
