"""`max_error`: the user says which error they can live with, and every pair stays below it.

Most pairs have bounds that are close enough. The others are solved exactly on the original points. How many anchors
make the whole cheapest is a question of strategy (`asot.run.strategy`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.bounds.error_bars import clip
from asot.data.distinct import sparse_histograms
from asot.data.distributions import Distributions
from asot.exact.points import ExactPoints
from asot.ground.metrics import prepare_metric
from asot.run.executors import Stop
from asot.run.result import Status
from asot.run.solver import Identity, Solution, Solver

Float = NDArray[np.float64]
Indices = NDArray[np.int64]

MOST_EXACT_TILES = 32
"""A tile all of whose pairs need an exact solve takes at most this many times as long as another."""


@dataclass(frozen=True)
class MaxError:
    """The largest error that is accepted: an absolute one, or a share of the distance itself."""

    amount: float
    relative: bool

    def allowed(self, lower: Float) -> Float:
        """The half-width (P,) that is accepted for distances of at least ``lower``."""
        return self.amount * lower if self.relative else np.full(len(lower), self.amount)

    def too_wide(self, lower: Float, upper: Float) -> NDArray[np.bool_]:
        """Pairs whose half-width exceeds what is accepted. A share is taken of the lower end, so that it holds."""
        return 0.5 * (upper - lower) > self.allowed(lower)

    def __str__(self) -> str:
        return f"{100 * self.amount:g}%" if self.relative else f"{self.amount:g}"


def as_max_error(value: Any) -> MaxError:
    """A number in the units of the distance, or a share of it as in ``"2%"``."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*%\s*", value) if isinstance(value, str) else None
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    amount = float(match[1]) / 100 if match else float(value) if number else np.nan
    if not 0 < amount < (1.0 if match else np.inf):
        raise ValueError(
            "max_error must be a number > 0 in the units of the distance, or a share of it such as '2%', less than "
            f"100%; found {value!r}"
        )
    return MaxError(amount, relative=match is not None)


class Guaranteed(Solver):
    """A solver with bounds that also solves, on the original points, those of its pairs that are bounded too loosely.

    The other values are moved to where their error is proven.
    """

    def __init__(
        self,
        bounded: Solver,
        D: Distributions,
        E: Distributions | None,
        accepted: MaxError,
        exact: Solver | None = None,
    ) -> None:
        """``exact`` solves the original problems; without it, they are those of the Euclidean W_1."""
        self._bounded, self._accepted = bounded, accepted
        if exact is None:
            histograms = sparse_histograms(D if E is None else D + E)
            ground = prepare_metric(histograms.points, "euclidean")
            exact = ExactPoints(histograms, ground, column_start=0 if E is None else len(D))
        self._exact = exact
        self.info: dict[str, Any] = {**bounded.info, "max_error": str(accepted)}

    def identity(self) -> Identity:
        return {
            "solver": "guaranteed, 1",
            "bounded": self._bounded.identity(),
            "accepted": str(self._accepted),
            "exact": self._exact.identity(),
        }

    def pairs_per_tile(self, memory: int) -> int:
        return min(self._bounded.pairs_per_tile(memory), MOST_EXACT_TILES * self._exact.pairs_per_tile(memory))

    def solve(self, rows: Indices, columns: Indices, stop: Stop) -> Solution:
        found = self._bounded.solve(rows, columns, stop)
        lower, upper = found.lower, found.upper
        assert lower is not None
        assert upper is not None
        allowed = self._accepted.allowed(lower)
        values = clip(found.values, upper - allowed, lower + allowed)
        error = None if found.error is None else np.minimum(found.error, allowed)
        found = replace(found, values=values, error=error)
        wide = np.flatnonzero(self._accepted.too_wide(lower, upper))
        if len(wide):
            exact = self._exact.solve(rows[wide], columns[wide], stop)
            values[wide] = lower[wide] = upper[wide] = exact.values
            found.status[wide], found.n_iter[wide] = Status.EXACT, exact.n_iter
            if error is not None:
                error[wide] = 0.0
        return found
