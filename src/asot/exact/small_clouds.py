"""Clouds of one to five points: no simplex, but every way to match them, for eight pairs at a time.

If all distributions of a collection have equally many points of equal mass, and at most five, the cheapest matching is
found by looking at all of them, set by set, in fewer steps than it takes to lay out a problem. Two points of any masses
have two plans that can be best. Points shared by a pair need no special care: under a metric, leaving them alone is
among the matchings.
"""

from __future__ import annotations

import numpy as np

from asot._typing import Identity, Info
from asot.data.distinct import SparseHistograms
from asot.exact.points import describe
from asot.exact.runs import Runs, RunsSolver
from asot.exact.workspace import LANES, MASS_BITS
from asot.ground.metrics import CHEBYSHEV, CITYBLOCK, EUCLIDEAN, Ground
from asot.native import Double, Doubles, Int, Record, entry
from asot.run.protocols import identity_of

MOST_POINTS = 5
"""Points of a cloud. Six have 720 matchings."""

CODES = (EUCLIDEAN, CITYBLOCK, CHEBYSHEV)


class SmallCloudsRecord(
    Record, size=Int, dim=Int, width=Int, code=Int, x=Doubles, masses=Doubles, flow=Double, scale=Double
):
    """All clouds, side by side (``native/exact/small_clouds.cpp``)."""


_solve = entry("small_clouds", SmallCloudsRecord, Runs)


class SmallClouds(RunsSolver):
    """Like `ExactPoints`, for collections of which `asot.exact.auto.are_small_clouds` is true."""

    _most_pairs = 2**20

    def __init__(self, histograms: SparseHistograms, ground: Ground, column_start: int = 0) -> None:
        self._histograms, self._ground = histograms, ground
        n, dim = len(histograms.offsets) - 1, ground.points.shape[1]
        size = len(histograms.index) // n
        width = n + LANES
        x = np.zeros((size * dim, width))
        x[:, :n] = ground.points[histograms.index].reshape(n, size * dim).T
        masses = histograms.masses.reshape(n, size)
        equal = bool(masses.min() == masses.max())
        given = None
        if not equal:
            given = np.zeros((2, width))
            given[:, :n] = masses.T
        # A matching ships what the simplex would, in units of 2^-60, so that its sums have the same bits.
        flow = float(((1 << MASS_BITS) + size // 2) // size)
        self._record = SmallCloudsRecord(
            size=size, dim=dim, width=width, code=ground.code, x=x, masses=given, flow=flow,
            scale=2.0 ** (ground.exponent - (MASS_BITS if equal else 0)),
        )  # fmt: skip
        self._column_start = column_start
        self._seconds = 1e-9 * (1 + 0.1 * size**2 * (dim + 10) + 0.5 * 2**size)
        self.info: Info = {**describe(ground.name, len(ground.points), equal), "solver": "every matching"}

    def identity(self) -> Identity:
        return identity_of(
            "small clouds, 1", histograms=self._histograms, ground=self._ground, column_start=self._column_start
        )

    def solve_kernel(self, runs: Runs) -> None:
        _solve(self._record, runs)
