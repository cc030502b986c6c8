"""Distances on anchors, plain or entropic, together with bounds on W_1.

The anchor problem of a pair is solved once; its plan and potentials, or its scalings, then serve the bounds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asot._typing import Identity, Info
from asot.bounds.entropic_bracket import anchor_bounds
from asot.bounds.error_bars import Bounds
from asot.entropic.cpu import SinkhornSharedCost
from asot.exact.shared_cost import ExactSharedCost
from asot.run.protocols import Solution, Solver, Status, all_ended

MOST_PAIRS = 2**14
"""Most pairs in a tile: enough to make the overhead of a tile negligible; their plans take a few megabytes."""


class BoundedAnchors(Solver):
    """Exact anchor distances with bounds on W_1, moved into them.

    Where the space has soft codes, ``learned`` gives its distances, and ``anchor`` is that of its nearest anchors.
    """

    stage = "distances on anchors"

    def __init__(self, anchor: ExactSharedCost, bounds: Bounds, learned: ExactSharedCost | None = None) -> None:
        self._anchor, self._bounds, self._learned = anchor, bounds, learned
        self.info: Info = {**anchor.info, "bounds": bounds.level}

    def identity(self) -> Identity:
        return {
            "solver": "bounded anchors, 1",
            "anchor": self._anchor.identity(),
            "bounds": self._bounds.identity(),
            "learned": None if self._learned is None else self._learned.identity(),
        }

    def pairs_per_tile(self, memory: int) -> int:
        fitting = memory // (self._anchor.bytes_per_tree() + 256)
        return int(np.clip(min(self._anchor.pairs_per_tile(memory), fitting), 1, MOST_PAIRS))

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        trees = self._anchor.solve_trees(rows, columns, stop)
        values = trees.values if self._learned is None else self._learned.solve(rows, columns, stop).values
        lower, upper = self._bounds.of_trees(trees, rows, columns, stop)
        values = np.clip(values, lower, upper)
        return all_ended(Status.ON_ANCHORS, values, trees.pivots, lower=lower, upper=upper)


class BoundedSinkhorn(Solver):
    """Entropic anchor distances with bounds on W_1: what the scalings prove about the anchors, and both radii."""

    stage = "entropic distances"

    def __init__(self, anchor: SinkhornSharedCost, bounds: Bounds) -> None:
        self._anchor, self._bounds = anchor, bounds
        self.info: Info = {**anchor.info, "value": "transport", "bounds": bounds.level}

    def identity(self) -> Identity:
        return {
            "solver": "bounded entropic anchors, 1",
            "anchor": self._anchor.identity(),
            "bounds": self._bounds.identity(),
        }

    def pairs_per_tile(self, memory: int) -> int:
        return self._anchor.pairs_per_tile(memory // 2)

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        solved, scalings = self._anchor.solve_with_scalings(rows, columns, stop)
        low, high = anchor_bounds(scalings, stop)
        lower, upper = self._bounds.of_values(low, high, rows, columns)
        return Solution(
            solved.values, solved.status, solved.n_iter, solved.marginal_error, np.minimum(lower, upper), upper
        )
