"""A linear fit to a few exact distances, cross-validated, with errors that hold for all pairs.

The sample has weights: a pair that was drawn on purpose represents few others, and a pair that was drawn by chance
represents many (`asot.bounds.exact_sample`). The weights are used everywhere: the fit minimizes the weighted squares,
the error is their weighted mean, and its interval comes from resampling (bootstrap-t of its logarithm, which stays
valid when a few errors dominate).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]

FOLDS = 8
"""Folds of the cross-validation."""

RIDGE = 1e-4
"""Weight of the prior relative to one exact pair. Keeps fits defined if features coincide or there are few pairs."""

DRAWS = 1000


class Fit(NamedTuple):
    """A linear combination of features, and what is known about its errors."""

    coefficients: Float  # (F,)
    used: bool  # whether the fit did better on held-out pairs than the plain feature
    residual: Float  # (S,) of held-out pairs
    error_weights: Float  # (U,) of the squares that explain squared residuals


def least_squares(features: Float, exact: Float, weights: Float, prior: Float) -> Float:
    """Coefficients (F,) near the prior where the pairs do not say otherwise; features of any scale, also all zero."""
    weights = weights / weights.mean()
    scale = np.sqrt((weights[:, None] * features**2).mean(axis=0))
    scale[scale == 0] = 1.0
    x = features / scale
    normal = (x * weights[:, None]).T @ x + RIDGE * len(x) * np.eye(len(scale))
    return prior + np.linalg.solve(normal, (x * weights[:, None]).T @ (exact - features @ prior)) / scale


def error_model(squares: Float, residual: Float, weights: Float) -> Float:
    """Weights ≥ 0 (U,) with which ``squares`` (S, U) explain the squared residuals.

    The errors of a mixed collection differ by orders of magnitude. So each squared residual is compared with what is
    expected of it, not with the largest one: the expectation is found in a few turns.
    """
    from scipy.optimize import nnls  # only here: loading it takes longer than many calls

    scale = squares.mean(axis=0)
    scale[scale == 0] = 1.0
    unit = float((weights * residual**2).sum() / weights.sum()) or 1.0
    x, target = squares / scale, residual**2 / unit
    expected = np.ones(len(x))
    found = np.zeros(x.shape[1])
    for _ in range(10):
        found, _ = nnls(x / expected[:, None], target / expected)
        expected = np.maximum(x @ found, 1e-4)
    return np.asarray(found / scale * unit, dtype=np.float64)


def rms_interval(residual: Float, weights: Float) -> tuple[float, float, float]:
    """Root of the weighted mean square, and both ends of its 95 percent interval."""
    n, size = len(residual), float(np.abs(residual).max())
    if size == 0.0 or n < 2:
        return size, size, size
    squares = weights * (residual / size) ** 2  # at the scale of 1: fourth powers follow
    mean = float(squares.sum() / weights.sum())
    draws = np.random.default_rng(0).integers(n, size=(DRAWS, n))
    means = squares[draws].sum(axis=1) / weights[draws].sum(axis=1)
    deviations = _deviation(squares[draws], weights[draws], means)
    tiny = np.finfo(np.float64).tiny
    logs = np.log(np.maximum(means, tiny)) - np.log(mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(deviations > 0, logs * means / deviations, 0.0)
    low, high = np.quantile(t, [0.025, 0.975])
    relative = float(_deviation(squares[None], weights[None], np.array([mean]))[0]) / mean
    factors = np.exp(0.5 * relative * np.clip([-max(high, 1.0), -min(low, -1.0)], -6.0, 6.0))
    root = size * float(np.sqrt(mean))
    return root, root * float(factors[0]), root * float(factors[1])


def _deviation(squares: Float, weights: Float, means: Float) -> Float:
    """Standard deviation (B,) of ratios Σ squares / Σ weights, by linearization. Rows are samples (B, S)."""
    n = squares.shape[1]
    influence = (squares - means[:, None] * weights) / weights.mean(axis=1)[:, None]
    return np.asarray(influence.std(axis=1, ddof=1) / np.sqrt(n), dtype=np.float64)


def combined(features: Float, weights: Float) -> Float:
    """features @ weights, column by column: a matrix product would round differently in tiles of another size."""
    total = features[:, 0] * weights[0]
    for c in range(1, len(weights)):
        total += features[:, c] * weights[c]
    return total
