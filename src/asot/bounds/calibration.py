"""A corrected estimate of W_1, and how far to trust it (docs/method.md §7).

The distance on the anchors is biased low, and the bias is predictable. Six numbers that cost less than the anchor plan
itself tell what is missing: the anchor distance; the price of the plan between local means, apart for mass that stays
in its cell and mass that moves; the dual of the transport between local means; the two radii; and the distance between
the means of the distributions. Their best linear combination is fitted once per collection on a few pairs that are
solved exactly.

The fit is judged on pairs it did not see, in turns. Where it does not help there, it is not used. What is reported as
its error is that held-out error. It is an estimate, not a bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.anchors.space import AnchorSpace
from asot.bounds.local_means import local_means, reprice
from asot.bounds.short_vectors import leading_coordinates, scaled
from asot.data.distinct import sparse_histograms
from asot.data.distributions import Distributions
from asot.exact.points import ExactPoints
from asot.exact.shared_cost import ExactSharedCost, Trees
from asot.jit.metrics import prepare_metric
from asot.run import engine
from asot.run.pairs import ListedPairs, PairSet, at_places

Float = NDArray[np.float64]
Indices = NDArray[np.int64]

EXACT_PAIRS = 64
"""Pairs that are solved exactly to fit and to judge the estimate."""

CANDIDATES = 2048
"""Pairs looked at to choose them: the exact ones are spread evenly over the range of anchor distances."""

FOLDS = 8
"""The fit is judged in this many turns, each on an eighth of the pairs."""

FEATURES = ("anchor", "radii", "stays", "moves", "dual", "means", "learned")
"""The last one only in a space with soft codes: its own distance beside those of the nearest anchors."""

PRIOR = np.array([0.0, 0.0, 0.5, 0.5, 0.5, 0.0, 0.0])
"""What to do without evidence: the middle between the price of the plan on local means and their dual."""

MOST = 1e100
"""Features are at most this, in units of the collection's size."""

RIDGE = 1e-4
"""Weight of the prior against one exact pair. Keeps fits defined where features coincide or pairs are few."""


class Calibration:
    """Made from a collection (or two) in a space of nearest anchors; then corrects tiles of solved anchor problems.

    ``learned`` solves the same pairs in a space with soft codes; its distances are then one more thing to fit with.
    ``report`` says what was fitted and how well it did on held-out pairs; it becomes ``info["calibration"]``.
    """

    def __init__(
        self,
        space: AnchorSpace,
        D: Distributions,
        E: Distributions | None,
        anchor: ExactSharedCost,
        pairs: PairSet,
        learned: ExactSharedCost | None = None,
    ) -> None:
        self._learned = learned
        self._names = FEATURES if learned is not None else FEATURES[:-1]
        both = D if E is None else D + E
        self._column_start = 0 if E is None else len(D)
        nearest, distance = space.assign(both.points)
        self.radii = np.add.reduceat(both.masses * distance, both.offsets[:-1])
        self._short = leading_coordinates(both.points, both.masses)
        self._means = local_means(space.cells(both, self._short.points, nearest), space.n_anchors)
        rows, columns, features = self._sample(anchor, pairs)
        exact = _exact_distances(both, rows, columns + self._column_start)
        self._fit(features, np.ldexp(exact, -self._short.exponent))

    def estimate(self, trees: Trees, rows: Indices, columns: Indices, stop: Any) -> tuple[Float, Float]:
        """Corrected distances and their expected errors (P,) of a tile."""
        features = self._features(trees, rows, columns, stop)
        values, error = self._predict(features, self.coefficients), _expected_error(features, self._error_weights)
        return scaled(values, self._short.exponent), scaled(error, self._short.exponent)

    # ------------------------------------------------------------------------------------------------ features

    def _features(self, trees: Trees, rows: Indices, columns: Indices, stop: Any) -> Float:
        """(P, 6 or 7), in the order of ``FEATURES`` and at the scale of 1: squares of distances may be out of range."""
        features = np.empty((len(self._names), len(rows))).T  # column by column in memory, as they are used
        if self._learned is not None:
            features[:, 6] = self._at_unit(self._learned.solve(rows, columns, stop).values)
        columns = columns + self._column_start
        features[:, 0] = self._at_unit(trees.values)
        features[:, 1] = self._at_unit(self.radii[rows] + self.radii[columns])
        reprice(self._means, trees, rows, columns, self._short.exponent, features[:, 2:6], stop)
        return features

    def _at_unit(self, values: Float) -> Float:
        """At the scale of 1; a space of quite another scale than the collection must not make squares overflow."""
        with np.errstate(over="ignore"):
            return np.minimum(scaled(values, -self._short.exponent), MOST)

    def _predict(self, features: Float, coefficients: Float) -> Float:
        """The combination, within what radii and means prove about the distance."""
        value, radii, means = features[:, 0], features[:, 1], features[:, 5]
        lowest = np.maximum(np.maximum(value - radii, means), 0.0)
        return np.minimum(np.maximum(_combined(features, coefficients), lowest), value + radii)

    def _sample(self, anchor: ExactSharedCost, pairs: PairSet) -> tuple[Indices, Indices, Float]:
        """The pairs to solve exactly, evenly spread over the range of anchor distances, and their features."""
        rng = np.random.default_rng(0)
        size = min(len(pairs), CANDIDATES)
        chosen = np.sort(rng.choice(len(pairs), size, replace=False)) if len(pairs) > size else np.arange(size)
        rows, columns = at_places(pairs, chosen).indices(0, size)
        features = self._features_of(anchor, rows, columns)
        order = np.argsort(features[:, 0], kind="stable")
        strata = np.array_split(order, min(EXACT_PAIRS, size))
        picked = np.array([stratum[rng.integers(len(stratum))] for stratum in strata])
        return rows[picked], columns[picked], features[picked]

    def _features_of(self, anchor: ExactSharedCost, rows: Indices, columns: Indices) -> Float:
        stop = np.zeros(1, dtype=np.int64)
        return self._features(anchor.solve_trees(rows, columns, stop), rows, columns, stop)

    # ------------------------------------------------------------------------------------------------ the fit

    def _fit(self, features: Float, exact: Float) -> None:
        plain = np.eye(len(self._names))[0 if self._learned is None else 6]
        held_out = np.empty(len(exact))
        fold = np.arange(len(exact)) % min(FOLDS, len(exact))
        for turn in range(fold.max() + 1):
            seen, unseen = fold != turn, fold == turn
            held_out[unseen] = self._predict(features[unseen], _least_squares(features[seen], exact[seen]))
        residual, plain_residual = held_out - exact, features @ plain - exact
        without = self._predict(features, plain) - exact  # of what is returned if the fit is not used
        helps = bool((residual**2).mean() < (without**2).mean())
        self.coefficients = _least_squares(features, exact) if helps else plain
        kept = residual if helps else without
        self._error_weights = _error_model(features, kept)
        self.report = {
            "used": helps,
            "n_exact": len(exact),
            "coefficients": dict(zip(self._names, self.coefficients.tolist(), strict=True)),
            "mean_distance": float(np.ldexp(exact.mean(), self._short.exponent)),
            **_summary("held_out", kept, exact, self._short.exponent),
            **_summary("anchor", plain_residual, exact, self._short.exponent),
            "note": _note(helps, exact),
        }


def _note(helps: bool, exact: Float) -> str:
    if helps:
        return "fitted; the held-out error is that of pairs the fit did not see"
    equal = "all sampled distances are equal; " if np.ptp(exact) <= 1e-12 * exact.max() else ""
    plain = "values are the plain distances on the anchors, within what radii and means prove"
    return f"{equal}the fit did not help on held-out pairs: {plain}"


def _least_squares(features: Float, exact: Float) -> Float:
    """Coefficients near `PRIOR` where the pairs do not say otherwise; features of any scale, also all zero."""
    scale = np.sqrt((features**2).mean(axis=0))
    scale[scale == 0] = 1.0
    x = features / scale
    prior = PRIOR[: len(scale)]
    normal = x.T @ x + RIDGE * len(x) * np.eye(len(scale))
    return prior + np.linalg.solve(normal, x.T @ (exact - features @ prior)) / scale


def _uncertainty(features: Float) -> Float:
    """Squares that an error may grow with: one, the radii, and the gap between price and dual on local means. (P, 3)"""
    gap = features[:, 2] + features[:, 3] - features[:, 4]
    return np.stack([np.ones(len(features)), features[:, 1] ** 2, gap**2]).T


def _error_model(features: Float, residual: Float) -> Float:
    """Weights ≥ 0 (3,) with which the squares explain the squared residuals."""
    from scipy.optimize import nnls  # only here: loading it takes longer than many a call

    squares = _uncertainty(features)
    scale = squares.mean(axis=0)
    scale[scale == 0] = 1.0
    unit = (residual**2).mean() or 1.0
    weights, _ = nnls(squares / scale, residual**2 / unit)
    return weights / scale * unit


def _expected_error(features: Float, weights: Float) -> Float:
    """Root of the expected squared error (P,)."""
    return np.sqrt(_combined(_uncertainty(features), weights))


def _combined(features: Float, weights: Float) -> Float:
    """features @ weights, column by column: a matrix product would round differently in tiles of another size."""
    total = features[:, 0] * weights[0]
    for c in range(1, len(weights)):
        total += features[:, c] * weights[c]
    return total


def _summary(name: str, residual: Float, exact: Float, exponent: int) -> dict[str, Any]:
    """Root mean squared residual, absolute and relative to the mean distance, with a 95 percent bootstrap interval."""
    rng = np.random.default_rng(0)
    draws = rng.integers(len(residual), size=(1000, len(residual)))
    low, high = np.ldexp(np.quantile(np.sqrt((residual[draws] ** 2).mean(axis=1)), [0.025, 0.975]), exponent)
    rmse, mean = float(np.sqrt((residual**2).mean())), float(exact.mean())
    return {
        f"{name}_rmse": float(np.ldexp(rmse, exponent)),
        f"{name}_rmse_interval": (float(low), float(high)),
        f"{name}_relative": rmse / mean if mean > 0 else 0.0,
    }


def _exact_distances(D: Distributions, rows: Indices, columns: Indices) -> Float:
    """W_1 (P,) of a few pairs, looking only at the distributions they name."""
    named, index = np.unique(np.stack([rows, columns]), return_inverse=True)
    histograms = sparse_histograms(D[named])
    solver = ExactPoints(histograms, prepare_metric(histograms.points, "euclidean"))
    few = ListedPairs(index.reshape(2, -1).T, len(named), len(named), symmetric=True)
    return engine.run(few, solver, progress=False).values
