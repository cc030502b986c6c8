"""Gromov–Wasserstein distances from bounds alone: a fit to a sample of pairs that were solved, and its measured error.

The three lower bounds and the price of the third one's plan cost one transport problem per pair and predict the best
value that descents find as well as one descent does (docs/method.md §18).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from asot._typing import Float, Identity, Indices
from asot.data.spaces.reading import Spaces
from asot.results.sinks import distances_of
from asot.run.engine import Resources
from asot.run.pairs import PairSet, at_places
from asot.run.protocols import Solution, Solver, Status
from asot.spaces.solver import FROM_BOUND, FROM_PRODUCT, Gromov

SAMPLE = 128
"""Pairs that are solved for the fit and its error; each is held out once, in one of the folds."""

FOLDS = 8


@dataclass(frozen=True)
class Fit:
    """Weights (4,) of the features, and what held-out pairs say of them."""

    weights: Float
    rmse: float
    interval: tuple[float, float]
    mean: float
    n_pairs: int

    def relative(self, error: float) -> float:
        """As a share of the mean distance; 0 where all distances are 0."""
        return error / self.mean if self.mean > 0 else 0.0


def fit_sample(
    pairs: PairSet, spaces: Spaces, p: float, alpha: float, column_start: int, random_state: Any, resources: Resources
) -> Fit | None:
    """Solve a sample of the pairs, fit their values, and measure the fit on held-out ones; None for few pairs."""
    if len(pairs) < 3 * SAMPLE:
        return None
    rng = np.random.default_rng(0 if random_state is None else random_state)
    chosen = at_places(pairs, np.sort(rng.choice(len(pairs), SAMPLE, replace=False)))
    solved = distances_of(chosen, Gromov(spaces, p, alpha, FROM_BOUND + FROM_PRODUCT, column_start), **vars(resources))
    features = Gromov(spaces, p, alpha, 0, column_start).features(*chosen.indices(0, SAMPLE), np.zeros(1, np.int64))
    fold = rng.permutation(SAMPLE) % FOLDS
    errors = np.empty(SAMPLE)
    for own in range(FOLDS):
        weights = _weights(features[fold != own], solved.values[fold != own])
        errors[fold == own] = _predicted(features[fold == own], weights) - solved.values[fold == own]
    squares = errors**2
    spread = 1.96 * squares.std(ddof=1) / np.sqrt(SAMPLE)
    interval = tuple(float(np.sqrt(max(0.0, squares.mean() + sign * spread))) for sign in (-1, 1))
    mean = float(solved.values.mean())
    weights = _weights(features, solved.values)
    return Fit(weights, float(np.sqrt(squares.mean())), (interval[0], interval[1]), mean, SAMPLE)


def _weights(features: Float, values: Float) -> Float:
    """Least squares with weights ≥ 0: a pair of isometric spaces stays at 0."""
    from scipy.optimize import nnls

    weights: Float = nnls(features, values)[0]
    return weights


def _predicted(features: Float, weights: Float) -> Float:
    return np.clip(features @ weights, features[:, :3].max(axis=1), features[:, 3])


class GromovEstimate(Solver):
    """Values by a `Fit`, between the bounds of each pair."""

    stage = "estimates"

    def __init__(
        self, spaces: Spaces, p: float, alpha: float, fit: Fit, column_start: int = 0, bounds: bool = True
    ) -> None:
        self._bounds, self._has_bounds = Gromov(spaces, p, alpha, 0, column_start), bounds
        self._weights, self._rmse = fit.weights, fit.rmse
        calibration = {
            "held_out_rmse": fit.rmse, "held_out_rmse_interval": fit.interval, "mean_distance": fit.mean,
            "held_out_relative": fit.relative(fit.rmse), "n_solved": fit.n_pairs, "weights": fit.weights.tolist(),
        }  # fmt: skip
        self.info = {**self._bounds.info, "estimate": "calibrated", "calibration": calibration}

    def expected_seconds(self, n_pairs: int) -> float:
        return self._bounds.expected_seconds(n_pairs)

    def identity(self) -> Identity:
        return {
            "solver": "gromov estimates, 1",
            "of": self._bounds.identity(),
            "weights": self._weights,
            "rmse": self._rmse,
            "bounds": self._has_bounds,
        }

    def pairs_per_tile(self, memory: int) -> int:
        return self._bounds.pairs_per_tile(memory)

    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
        features = self._bounds.features(rows, columns, stop)
        values = _predicted(features, self._weights)
        status, steps = np.full(len(rows), Status.ESTIMATED, dtype=np.int8), np.zeros(len(rows), dtype=np.int32)
        error = np.full(len(rows), self._rmse)
        if not self._has_bounds:
            return Solution(values, status, steps, error=error)
        lower = np.minimum(features[:, :3].max(axis=1), values)
        return Solution(values, status, steps, lower=lower, upper=features[:, 3], error=error)
