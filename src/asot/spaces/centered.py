"""A lower bound that is stronger than the third one, for p = 2 and without features: distances are centered first.

With the mean m of the distances of a space, the means m + h(i) of its rows, and what is left, c(i, i'), every plan's
energy is (Δm)² + 2 Σ T (Δh)² + Σ T T (Δc)², since rows of c have the mean 0. Each entry of the last sum is at least the
W_2² on the line between two rows of c. So the bound is the W_2 between clouds of vectors (m, √2 h, sorted row of c).
"""

from __future__ import annotations

import numpy as np

from asot._typing import Float, Indices
from asot.data.distributions import Distributions
from asot.data.spaces.quantiles import binned, default_bins
from asot.data.spaces.reading import Spaces
from asot.run.protocols import Solution, Status, all_ended
from asot.spaces.bounds import rounded_down

ROUNDING, LARGEST = 4e-7, 32.0
"""How far a W_2 may be off, and the largest of its costs, in units of the largest distance: vectors are up to 2.7 times
as long as that."""


def centered_clouds(spaces: Spaces) -> Distributions:
    """The clouds (points, 2 + bins) whose W_2 is the root of a lower bound of the energy."""
    bins = default_bins(spaces)
    points = np.empty((int(spaces.start[-1]), bins + 2))
    for i in range(len(spaces)):
        own, d = spaces.masses(i), spaces.matrix(i)
        means = d @ own
        mean = float(own @ means)
        rows = points[spaces.start[i] : spaces.start[i + 1]]
        rows[:, 0], rows[:, 1] = mean, np.sqrt(2.0) * (means - mean)
        rows[:, 2:] = binned(d - means[:, None] - means + mean, own, bins) / np.sqrt(bins)
    return Distributions(points, spaces.start, spaces.mass)


class CenteredBounds:
    """These lower bounds as values, rounded down, from roots of energies."""

    def __init__(self, spaces: Spaces) -> None:
        self._spaces, self._unit = spaces, float(np.ldexp(0.5, spaces.exponent))

    def __call__(self, rows: Indices, columns: Indices, root: Float) -> Solution:
        return all_ended(Status.UNKNOWN, self._unit * rounded_down(root, self._spaces, ROUNDING, LARGEST))
