"""Gromov–Wasserstein distances from bounds alone: a fit to a sample of pairs that were solved, and its measured error.

The three lower bounds, the price of the third one's plan and the sizes of both spaces cost one transport problem per
pair and predict the best value that descents find about as well as one descent does (docs/method.md §18). A few steps
down from that plan predict it better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from asot._typing import Float, Identity, Indices, Info
from asot.results.sinks import distances_of
from asot.run.engine import Resources
from asot.run.pairs import AllPairs, ListedPairs, PairSet, at_places
from asot.run.protocols import Solution, Solver, Status, all_ended, identity_of
from asot.spaces.bounds import sizes_of
from asot.spaces.solver import MAX_STEPS, Gromov

STEPS = (0, 1, MAX_STEPS)
"""How many steps down from the third bound's plan an estimate may take; it takes as few as its aim allows."""

FEWEST, MOST = 256, 512
"""Pairs that are solved for the fit and its error; each is held out once, in one of the folds."""

SHARE = 1 / 16
"""Between these, the share of all pairs that is solved."""

FOLDS = 8

UNSEEN = 4
"""Errors have long tails: the upper end of their interval allows for so many more pairs as bad as the worst one. Pairs
that may be worse than that, of two spaces much larger than most, are all solved (`large_pairs`)."""

RIDGE = 1e-5
"""Keeps features that say the same from having large weights of opposite signs."""


@dataclass(frozen=True)
class Fit:
    """Weights of the features, and what held-out pairs say of them."""

    weights: Float
    steps: int | None
    rmse: float
    interval: tuple[float, float]
    mean: float
    n_pairs: int

    def relative(self, error: float) -> float:
        """As a share of the mean distance; 0 where all distances are 0."""
        return error / self.mean if self.mean > 0 else 0.0

    @property
    def info(self) -> Info:
        """For ``info["calibration"]``."""
        return {
            "held_out_rmse": self.rmse, "held_out_rmse_interval": self.interval, "mean_distance": self.mean,
            "held_out_relative": self.relative(self.rmse), "n_solved": self.n_pairs, "weights": self.weights.tolist(),
            "steps": self.steps,
        }  # fmt: skip


class Look:
    """What a fit knows of pairs after ``steps`` steps from the third bound's plan; None: without any plan."""

    def __init__(self, solver: Gromov, steps: int | None) -> None:
        self._has_plan = steps is not None
        self.solver = solver.near_bound(steps or 0)

    def __call__(self, rows: Indices, columns: Indices, stop: Indices) -> tuple[Float, Float, Float]:
        """Features (P, k), the lower bounds (P, 3), and the price (P,) of the best plan so far."""
        solver = self.solver
        found = solver.energies(rows, columns, stop)
        lower, sizes = solver.bounds.of(rows, columns, found.third), solver.bounds.sizes(rows, columns)
        if not self._has_plan:
            return np.concatenate([lower, sizes], axis=1), lower, np.full(len(rows), np.inf)
        upper, first = solver.bounds.distance(found.energy), solver.bounds.distance(found.first)
        return np.column_stack([lower, sizes, first, upper]), lower, upper


@dataclass(frozen=True)
class Sample:
    """Pairs of a solver that were searched, to fit values and to measure fits."""

    solver: Gromov
    rows: Indices
    columns: Indices
    values: Float
    weights: Float
    """How many pairs each represents, up to a common factor."""
    fold: Indices

    def fit(self, steps: int | None) -> Fit:
        """The fit after so many steps, measured on held-out pairs."""
        features, lower, upper = Look(self.solver, steps)(self.rows, self.columns, np.zeros(1, np.int64))
        errors = np.empty(len(self.values))
        for own in range(FOLDS):
            weights = _weights(features[self.fold != own], self.values[self.fold != own])
            errors[self.fold == own] = (predicted(features, weights, lower, upper) - self.values)[self.fold == own]
        squares, weighed = errors**2, self.weights / self.weights.mean()
        mean = (weighed * squares).mean()
        spread = 1.96 * (weighed * (squares - mean)).std(ddof=1) / np.sqrt(len(squares))
        unseen = UNSEEN * (weighed * squares).max() / len(squares)
        low, high = (float(np.sqrt(max(0.0, mean + more))) for more in (-spread, spread + unseen))
        weights, rmse = _weights(features, self.values), float(np.sqrt(mean))
        return Fit(weights, steps, rmse, (low, high), float((weighed * self.values).mean()), len(squares))


def solved_sample(pairs: PairSet, solver: Gromov, random_state: Any, resources: Resources) -> Sample | None:
    """Search some of the pairs; None where there are few."""
    if len(pairs) < 3 * FEWEST:
        return None
    size = int(np.clip(len(pairs) * SHARE, FEWEST, MOST))
    rng = np.random.default_rng(0 if random_state is None else random_state)
    places, weights = _drawn(pairs, solver, size, rng)
    chosen = at_places(pairs, places)
    solved = distances_of(chosen, solver, **vars(resources))
    return Sample(solver, *chosen.indices(0, size), solved.values, weights, rng.permutation(size) % FOLDS)


def _drawn(pairs: PairSet, solver: Gromov, size: int, rng: np.random.Generator) -> tuple[Indices, Float]:
    """Places (size,) of pairs in their order, and how many pairs each represents: the large ones, and some of the
    others."""
    squares, start = sizes_of(solver.spaces)[:, 0] ** 2, solver.column_start
    large = large_pairs(pairs, squares[: pairs.n_rows], squares[start : start + pairs.n_columns], size)
    rest = rng.choice(len(pairs) - len(large), size - len(large), replace=False)
    rest += np.searchsorted(large - np.arange(len(large)), rest, side="right")  # places among all pairs
    places, weights = np.concatenate([large, rest]), np.ones(size)
    weights[len(large) :] = (len(pairs) - len(large)) / len(rest)
    order = np.argsort(places)
    return places[order], weights[order]


def large_pairs(pairs: PairSet, rows: Float, columns: Float, size: int) -> Indices:
    """Ascending places of pairs that may have more of all squared errors than `UNSEEN` pairs of a sample stand for.

    An error is about as large as the smaller one of two spaces; ``rows`` and ``columns`` are squared sizes. There are
    at most size / UNSEEN such pairs.
    """
    if isinstance(pairs, ListedPairs):
        i, j = pairs.indices(0, len(pairs))
        smaller = np.minimum(rows[i], columns[j])
        return np.flatnonzero(smaller > UNSEEN / size * smaller.sum())
    ascending = np.sort(columns)
    below = np.searchsorted(ascending, rows)
    total = (np.concatenate([[0.0], np.cumsum(ascending)])[below] + rows * (len(columns) - below)).sum()
    is_within = isinstance(pairs, AllPairs)
    least = UNSEEN / size * ((total - rows.sum()) / 2 if is_within else total)
    i, j = (each.ravel() for each in np.meshgrid(*map(np.flatnonzero, (rows > least, columns > least)), indexing="ij"))
    if not is_within:
        return np.asarray(i * pairs.n_columns + j)
    i, j = i[i < j], j[i < j]
    return np.asarray(AllPairs(pairs.n_rows).row_start(i) + j - i - 1)


def predicted(features: Float, weights: Float, lower: Float, upper: Float) -> Float:
    """Values (P,) between the bounds of each pair: a price of 0 proves that two spaces are isometric."""
    return np.clip(features @ weights, lower.max(axis=1), upper)


def _weights(features: Float, values: Float) -> Float:
    """Least squares."""
    scale = np.sqrt((features**2).mean(axis=0))
    scaled = features / np.where(scale > 0, scale, 1.0)
    square = scaled.T @ scaled + RIDGE * len(values) * np.eye(scaled.shape[1])
    weights: Float = np.linalg.solve(square, scaled.T @ values) / np.where(scale > 0, scale, 1.0)
    return weights


class GromovEstimate(Solver):
    """Values by a `Fit`, between the bounds of each pair, in place of those of a solver."""

    stage = "estimates"

    def __init__(self, solver: Gromov, fit: Fit) -> None:
        self._look, self._has_bounds = Look(solver, fit.steps), solver.has_bounds
        self._weights, self._rmse = fit.weights, fit.rmse
        self.info = {**self._look.solver.info, "estimate": "calibrated", "calibration": fit.info}

    def expected_seconds(self, n_pairs: int) -> float:
        return self._look.solver.expected_seconds(n_pairs)

    def identity(self) -> Identity:
        of, bounds = self._look.solver, self._has_bounds
        return identity_of("gromov estimates, 2", of=of, weights=self._weights, rmse=self._rmse, bounds=bounds)

    def pairs_per_tile(self, memory: int) -> int:
        return self._look.solver.pairs_per_tile(memory)

    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
        features, lower, upper = self._look(rows, columns, stop)
        return estimated(predicted(features, self._weights, lower, upper), lower, upper, self._rmse, self._has_bounds)


def estimated(values: Float, lower: Float, upper: Float, rmse: float, has_bounds: bool) -> Solution:
    """Answers with these values; lower (P, 3)."""
    bounds = {"lower": np.minimum(lower.max(axis=1), values), "upper": upper} if has_bounds else {}
    return all_ended(Status.ESTIMATED, values, error=np.full(len(values), rmse), **bounds)
