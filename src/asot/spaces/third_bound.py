"""The third lower bound of every pair by the solvers of distributions, some of which run on GPUs.

It is the W_2 between clouds of sorted distances (docs/method.md §18), but its plans stay where they were found. What
else is wanted of a pair is computed here from the bound alone, tile by tile, as answers come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asot._typing import Float, Indices, Info
from asot.data.distributions import Distributions
from asot.data.spaces.reading import Spaces
from asot.exact.auto import exact_work
from asot.request import Distance, Request
from asot.run.engine import Resources, Work
from asot.run.pairs import PairSet
from asot.run.protocols import Notes, SinkBase, Solution, Status, Tile, all_ended
from asot.spaces.bounds import Bounds, rounded_down
from asot.spaces.centered import centered_clouds
from asot.spaces.estimate import Fit, estimated, predicted
from asot.spaces.solver import FROM_BOUND, FROM_PRODUCT, Gromov


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
    if centered:
        clouds = centered_clouds(spaces)
    else:
        bounds = Bounds(spaces, 2.0, 1.0, column_start)
        clouds = Distributions(bounds.quantiles / np.sqrt(bounds.bins), spaces.start, spaces.mass)
    rows, columns = (clouds, None) if column_start == 0 else (clouds[:column_start], clouds[column_start:])
    return exact_work(Request(rows, columns, Distance(2.0), listed, None, device, resources), notes)


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


class LowerBounds:
    """The largest of the three lower bounds, as values."""

    def __init__(self, spaces: Spaces, column_start: int) -> None:
        self._spaces, self._bounds = spaces, Bounds(spaces, 2.0, 1.0, column_start)

    def all_three(self, rows: Indices, columns: Indices, third: Float) -> Float:
        """(P, 3) as distances."""
        return self._bounds.of(rows, columns, rounded_down(third, self._spaces) ** 2)

    def __call__(self, rows: Indices, columns: Indices, third: Float) -> Solution:
        return all_ended(Status.UNKNOWN, self.all_three(rows, columns, third).max(axis=1))


class Estimates(LowerBounds):
    """Values by a `Fit` that needs no plan. Pairs that no bound tells apart are searched: they may be isometric."""

    def __init__(self, spaces: Spaces, column_start: int, fit: Fit, has_bounds: bool) -> None:
        super().__init__(spaces, column_start)
        self._fit, self._has_bounds = fit, has_bounds
        self._search = Gromov(spaces, 2.0, 1.0, FROM_BOUND + FROM_PRODUCT, column_start)
        self.info = {**self._search.info, "estimate": "calibrated", "calibration": fit.info}
        del self.info["device"]

    def __call__(self, rows: Indices, columns: Indices, third: Float) -> Solution:
        lower, upper = self.all_three(rows, columns, third), self._bounds.product_price(rows, columns)
        features = np.concatenate([lower, self._bounds.sizes(rows, columns)], axis=1)
        values = predicted(features, self._fit.weights, lower, upper)
        same = np.flatnonzero(lower.max(axis=1) == 0.0)
        if len(same):
            values[same] = self._search.solve(rows[same], columns[same], np.zeros(1, np.int64)).values
            upper[same] = values[same]
        return estimated(values, lower, upper, self._fit.rmse, self._has_bounds)
