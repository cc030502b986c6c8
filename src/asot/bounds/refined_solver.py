"""The solver behind `pairwise` when more than the anchor distance is asked for: bounds, a calibrated value, or both.

The anchor problem of a pair is solved once; its plan and potentials then serve the bounds and the correction. To the
engine this is a solver like any other, so that calibrated values go to any sink.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.bounds.calibration import Calibration
from asot.bounds.entropic_bracket import anchor_bounds
from asot.bounds.error_bars import Bounds, clip
from asot.entropic.kernel import SinkhornSharedCost
from asot.exact.shared_cost import ExactSharedCost
from asot.run.result import Status
from asot.run.solver import Solution

MOST_PAIRS = 2**14
"""Pairs of a tile at most. What a tile costs beside its pairs is then not felt; their plans take some megabytes."""


class Estimates:
    """Exact anchor distances, bounded and corrected as far as ``bounds`` and ``calibration`` are given.

    Where the space has soft codes, ``learned`` gives its distances, and ``anchor`` is that of its nearest anchors.
    """

    def __init__(
        self,
        anchor: ExactSharedCost,
        bounds: Bounds | None,
        calibration: Calibration | None,
        learned: ExactSharedCost | None = None,
    ) -> None:
        self._anchor, self._bounds, self._calibration = anchor, bounds, calibration
        self._learned = learned
        self.info: dict[str, Any] = dict(anchor.info)
        if bounds is not None:
            self.info["bounds"] = bounds.level
        if calibration is not None:
            self.info["calibration"] = calibration.report

    def pairs_per_tile(self, memory: int) -> int:
        fitting = memory // (self._anchor.bytes_per_tree() + 256)
        return int(np.clip(min(self._anchor.pairs_per_tile(memory), fitting), 1, MOST_PAIRS))

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        trees = self._anchor.solve_trees(rows, columns, stop)
        error = None
        if self._calibration is not None:
            values, error = self._calibration.estimate(trees, rows, columns, stop)
        else:
            values = trees.values if self._learned is None else self._learned.solve(rows, columns, stop).values
        lower = upper = None
        if self._bounds is not None:
            lower, upper = self._bounds.of_trees(trees, rows, columns, stop)
            values = clip(values, lower, upper)
            error = None if error is None else np.minimum(error, upper - lower)
        status = np.full(len(rows), Status.OPTIMAL, dtype=np.int8)
        return Solution(values, status, trees.pivots, lower=lower, upper=upper, error=error)


class BoundedSinkhorn:
    """Entropic anchor distances with bounds on W_1: what the scalings prove about the anchors, and both radii."""

    def __init__(self, anchor: SinkhornSharedCost, bounds: Bounds) -> None:
        self._anchor, self._bounds = anchor, bounds
        self.info: dict[str, Any] = {**anchor.info, "value": "transport", "bounds": bounds.level}

    def pairs_per_tile(self, memory: int) -> int:
        return self._anchor.pairs_per_tile(memory // 2)

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        solved, scalings = self._anchor.solve_with_scalings(rows, columns, stop)
        low, high = anchor_bounds(scalings, stop)
        lower, upper = self._bounds.of_values(low, high, rows, columns)
        return Solution(
            solved.values, solved.status, solved.n_iter, solved.marginal_error, np.minimum(lower, upper), upper
        )
