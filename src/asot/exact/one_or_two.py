"""One or two points against many: no simplex, since there is next to no choice.

One point sends its mass everywhere, and the distance is a mean. Two points divide the others between them: whoever is
nearer to the first one, by the difference of the two distances, is served by it, until its mass is used up. That is a
weighted median, found by repeated splitting. Points shared by a pair need no special care: under a metric, leaving
their mass where it is is among the best plans. So nothing has to be merged, numbered or packed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asot._typing import Identity, Info
from asot.data.distributions import Distributions
from asot.exact.distance_table import LONG
from asot.exact.runs import Runs, RunsSolver
from asot.exact.workspace import LANES
from asot.ground.metrics import CHEBYSHEV, CITYBLOCK, EUCLIDEAN
from asot.native import Doubles, Int, Ints, Record, entry
from asot.run.protocols import IN_FLOAT64

METRICS = {"euclidean": EUCLIDEAN, "cityblock": CITYBLOCK, "manhattan": CITYBLOCK, "chebyshev": CHEBYSHEV}
"""Metrics whose points need no other preparation than a power of two."""

MANY = 6
"""Points of the others, on average. `SmallClouds` and `few_pairs` are made for fewer."""


class GivenPoints(Record, n=Int, offsets=Ints, points=Doubles, masses=Doubles):
    """Distributions as they were given (``native/exact/one_or_two.cpp``)."""


class OneOrTwo(
    Record, dim=Int, code=Int, exponent=Int, most=Int, few_offsets=Ints, x=Doubles, x_units=Ints, offsets=Ints,
    starts=Ints, y=Doubles, weights=Doubles, units=Ints,
):  # fmt: skip
    """The few, and the many coordinate by coordinate (``native/exact/one_or_two.cpp``)."""


_prepare = entry("prepare_one_or_two", GivenPoints, GivenPoints, OneOrTwo)
_solve = entry("one_or_two", OneOrTwo, Runs, Int)


def few_are_columns(D: Distributions, E: Distributions, metric: Any) -> bool | None:
    """Whether E (or else D) has one or two points in each distribution, and the other one many.

    None: neither, or the metric has no kernel here.
    """
    dim, sides = D.dim, (len(D.masses) / max(1, len(D)), len(E.masses) / max(1, len(E)))
    if type(metric) is not str or metric not in METRICS or not 1 < dim < LONG:
        return None
    few = sides[1] < sides[0]
    if not sides[few] <= 2.0 or sides[not few] < MANY:
        return None
    return few if sides[few] == 1.0 or np.diff((E if few else D).offsets).max() <= 2 else None


class ExactOneOrTwo(RunsSolver):
    """W_1 between D and E, where `few_are_columns` is not None."""

    def __init__(self, D: Distributions, E: Distributions, metric: str, few_are_columns: bool) -> None:
        few, many = (E, D) if few_are_columns else (D, E)
        self._few, self._many, self._metric, self._turned = few, many, metric, few_are_columns
        dim, room = D.dim, len(many.masses) + (LANES - 1) * len(many)
        self._record = OneOrTwo(
            dim=dim, code=METRICS[metric], few_offsets=few.offsets, x=np.empty((len(few.masses), dim)),
            x_units=np.empty(len(few.masses), np.int64), offsets=many.offsets, starts=np.empty(len(many) + 1, np.int64),
            y=np.empty(dim * room), weights=np.empty(room), units=np.empty(len(many.masses), np.int64),
        )  # fmt: skip
        _prepare(_given(few), _given(many), self._record)
        self._seconds = seconds_of_pair(D, E)
        self.info: Info = {"solver": "a mean, or a split in two", **IN_FLOAT64, "metric": metric}

    def identity(self) -> Identity:
        sides = {"few": self._few, "many": self._many}
        arrays = {
            f"{side}_{name}": getattr(each, name)
            for side, each in sides.items()
            for name in ("points", "offsets", "masses")
        }
        return {"solver": "one or two, 1", "metric": self._metric, "few_are_columns": self._turned, **arrays}

    def solve_kernel(self, runs: Runs) -> None:
        _solve(self._record, runs, self._turned)


def seconds_of_pair(D: Distributions, E: Distributions) -> float:
    """About how long one thread takes for a pair."""
    few, many = sorted((len(D.masses) / len(D), len(E.masses) / len(E)))
    return 5e-8 + 1e-9 * many * (0.25 * few * (D.dim + 3) + (5.0 if few > 1 else 0.0))


def _given(each: Distributions) -> GivenPoints:
    points = np.ascontiguousarray(each.points, dtype=np.float64)
    return GivenPoints(n=len(each), offsets=each.offsets, points=points, masses=each.masses)
