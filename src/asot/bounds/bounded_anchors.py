"""Distances on anchors, plain or entropic, together with bounds on W_1.

The anchor problem of a pair is solved once; its plan and potentials, or its scalings, then serve the bounds. What an
unfinished or blurred entropic solve still proves about the exact anchor problem (docs/method.md §6):

*Lower*: potentials ε·log u are made feasible by c-transforms; the dual value of feasible potentials is at most the
optimum, no matter how far the iteration got. *Upper*: the plan diag(u) K diag(v) is rounded to one whose marginals are
exact (Altschuler, Weed, Rigollet 2017): rows and columns that are too full are scaled down, and what is then missing is
added as a product. A plan with the right marginals costs at least the optimum.
"""

from __future__ import annotations

import numpy as np

from asot._typing import Float, Identity, Indices, Info
from asot.bounds.error_bars import MOST_PAIRS, Bounds
from asot.entropic.cpu import Scalings, SinkhornSharedCost
from asot.exact.shared_cost import ExactSharedCost
from asot.native import Doubles, Int, Ints, Record, entry
from asot.run.protocols import Solution, Solver, Status, all_ended, identity_of


class BoundedAnchors(Solver):
    """Exact anchor distances with bounds on W_1, moved into them.

    Where the space has soft codes, ``learned`` gives its distances, and ``anchor`` is that of its nearest anchors.
    """

    stage = "distances on anchors"

    def __init__(self, anchor: ExactSharedCost, bounds: Bounds, learned: ExactSharedCost | None = None) -> None:
        self._anchor, self._bounds, self._learned = anchor, bounds, learned
        self.info: Info = {**anchor.info, "bounds": bounds.level}

    def identity(self) -> Identity:
        return identity_of("bounded anchors, 1", anchor=self._anchor, bounds=self._bounds, learned=self._learned)

    def pairs_per_tile(self, memory: int) -> int:
        fitting = memory // (self._anchor.bytes_per_tree() + 256)
        return int(np.clip(min(self._anchor.pairs_per_tile(memory), fitting), 1, MOST_PAIRS))

    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
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
        return identity_of("bounded entropic anchors, 1", anchor=self._anchor, bounds=self._bounds)

    def pairs_per_tile(self, memory: int) -> int:
        return self._anchor.pairs_per_tile(memory // 2)

    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
        solved, scalings = self._anchor.solve_with_scalings(rows, columns, stop)
        low, high = anchor_bounds(scalings, stop)
        lower, upper = self._bounds.of_values(low, high, rows, columns)
        return Solution(
            solved.values, solved.status, solved.n_iter, solved.marginal_error, np.minimum(lower, upper), upper
        )


class ScaledPairs(
    Record, n=Int, k=Int, l=Int, A=Doubles, B=Doubles, Phi=Doubles, Psi=Doubles, M=Doubles, lower=Doubles,
    upper=Doubles, stop=Ints,
):  # fmt: skip
    """Pairs with their potentials, and where their bounds go (``native/bounds/entropic_bracket.cpp``)."""


_bracket = entry("entropic_bracket", ScaledPairs)


def anchor_bounds(s: Scalings, stop: Indices) -> tuple[Float, Float]:
    """Lower and upper bounds (P,) on the exact anchor distance, rounded outward."""
    lower, upper = np.zeros(len(s.a)), np.zeros(len(s.a))
    k, l = s.M.shape
    _bracket(
        ScaledPairs(
            n=len(s.a), k=k, l=l, A=s.a, B=s.b, Phi=s.phi, Psi=s.psi, M=s.M, lower=lower, upper=upper, stop=stop
        )
    )
    slack = 1e-13 * float(s.M.max()) * len(s.M)
    return s.reg * np.maximum(lower - slack, 0.0), s.reg * (upper + slack)
