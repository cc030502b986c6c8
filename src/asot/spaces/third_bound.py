"""The third lower bound of every pair by the solvers of distributions, some of which run on GPUs.

It is the W_2 between clouds of sorted distances (docs/method.md §18), but its plans stay where they were found. What
else is wanted of a pair is computed here from the bound alone, tile by tile, as answers come.

For p = 2 and without features there is a stronger bound of the same kind: distances are centered first. With the mean m
of the distances of a space, the means m + h(i) of its rows, and what is left, c(i, i'), every plan's energy is (Δm)² +
2 Σ T (Δh)² + Σ T T (Δc)², since rows of c have the mean 0. Each entry of the last sum is at least the W_2² on the line
between two rows of c. So the bound is the W_2 between clouds of vectors (m, √2 h, sorted row of c).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asot._typing import Float, Indices, Info
from asot.data.distributions import Distributions
from asot.data.spaces.quantiles import binned, default_bins, row_quantiles
from asot.data.spaces.reading import Spaces
from asot.exact.auto import exact_work
from asot.request import Distance, Request
from asot.run.engine import Resources, Work
from asot.run.pairs import PairSet
from asot.run.protocols import Notes, SinkBase, Solution, Status, Tile, all_ended
from asot.spaces.bounds import rounded_down
from asot.spaces.estimate import Fit, estimated, predicted
from asot.spaces.solver import Gromov

ROUNDING, LARGEST = 4e-7, 32.0
"""How far a W_2 may be off, and the largest of its costs, in units of the largest distance: vectors are up to 2.7 times
as long as that."""


def third_bound_work(
    spaces: Spaces,
    column_start: int,
    listed: Any,
    device: str,
    resources: Resources,
    notes: Notes,
    centered: bool = False,
) -> Work:
    """Roots of the third bounds' energies, for p = 2 and without features, on this device; or of the centered ones."""
    clouds = centered_clouds(spaces) if centered else _clouds(spaces)
    rows, columns = (clouds, None) if column_start == 0 else (clouds[:column_start], clouds[column_start:])
    return exact_work(Request(rows, columns, Distance(2.0), listed, None, device, resources), notes)


def _clouds(spaces: Spaces) -> Distributions:
    bins = default_bins(spaces)
    return Distributions(row_quantiles(spaces, bins) / np.sqrt(bins), spaces.start, spaces.mass)


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


@dataclass
class FromThirdBound(SinkBase[Any]):
    """Hands a sink what follows from roots of third bounds."""

    sink: SinkBase[Any]
    answer: Callable[[Indices, Indices, Float], Solution]
    info: Info = field(default_factory=dict)

    def open(self, pairs: PairSet, info: Info) -> None:
        self.sink.open(pairs, {**info, **self.info})

    def accept(self, tile: Tile) -> None:
        rows, columns = tile.indices()
        solution = self.answer(rows, columns, tile.solution.values)
        self.sink.accept(Tile(tile.start, solution, tile.pairs, (rows, columns)))

    def close(self, info: Info) -> Any:
        return self.sink.close({**info, **self.info})


class CenteredBounds:
    """These lower bounds as values, rounded down, from roots of energies."""

    def __init__(self, spaces: Spaces) -> None:
        self._spaces, self._unit = spaces, float(np.ldexp(0.5, spaces.exponent))

    def __call__(self, rows: Indices, columns: Indices, root: Float) -> Solution:
        return all_ended(Status.UNKNOWN, self._unit * rounded_down(root, self._spaces, ROUNDING, LARGEST))


class Estimates:
    """Values by a `Fit` that needs no plan. Pairs that no bound tells apart are searched: they may be isometric."""

    def __init__(self, search: Gromov, fit: Fit) -> None:
        self._search, self._fit = search, fit
        self.info = {**search.info, "estimate": "calibrated", "calibration": fit.info}
        del self.info["device"]

    def __call__(self, rows: Indices, columns: Indices, third: Float) -> Solution:
        bounds = self._search.bounds
        lower = bounds.of(rows, columns, rounded_down(third, self._search.spaces) ** 2)
        upper = bounds.product_price(rows, columns)
        features = np.concatenate([lower, bounds.sizes(rows, columns)], axis=1)
        values = predicted(features, self._fit.weights, lower, upper)
        same = np.flatnonzero(lower.max(axis=1) == 0.0)
        if len(same):
            values[same] = self._search.solve(rows[same], columns[same], np.zeros(1, np.int64)).values
            upper[same] = values[same]
        return estimated(values, lower, upper, self._fit.rmse, self._search.has_bounds)
