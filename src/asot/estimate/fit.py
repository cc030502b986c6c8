"""A linear fit to a few exact distances, cross-validated, with errors that hold for all pairs.

The sample has weights: a pair that was drawn on purpose represents few others, and a pair that was drawn by chance
represents many (`asot.estimate.exact_sample`). The weights are used everywhere: the fit minimizes the weighted squares,
the error is their weighted mean, and its interval comes from resampling (bootstrap-t of its logarithm, which stays
valid when a few errors dominate).

Resampling alone is too sure of itself. A sample of 64 rarely holds the largest errors, so it looks less spread than the
pairs are; residuals of a cross-validated fit have lost a degree of freedom for each coefficient; and what is to be
covered is the error of the pairs that are left, which vary by themselves where they are few. All three widen the
interval (`rms_interval`). An estimate that was chosen because its error looked small enough has one more reason to be
worse than it looks (`end_after_choice`).
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from asot._typing import Float

FOLDS = 8
"""Folds of the cross-validation."""

RIDGE = 1e-4
"""Weight of the prior relative to one exact pair. Keeps fits defined if features coincide or there are few pairs."""

DRAWS = 1000

LEAST_KURTOSIS = 3.5
"""Of errors, whatever the sample shows. Errors of all pairs of a collection have 3 (normal) to 40; samples of 64 mostly
show 3, since they do not hold the largest."""

MOST_DEVIATIONS = 3.0
"""How far an error that decided a choice is moved up at most, in standard deviations."""

UPDATES = 100
"""Updates of the weights that explain squared errors. Each takes a few microseconds."""

LEAST_EXPECTED = 1e-8
"""Squared errors below this share of their mean count as equal."""


def least_squares(features: Float, exact: Float, weights: Float, prior: Float) -> Float:
    """Coefficients (F,) near the prior where the pairs do not say otherwise; features of any scale, also all zero."""
    weights = weights / weights.mean()
    scale = np.sqrt((weights[:, None] * features**2).mean(axis=0))
    scale[scale == 0] = 1.0
    x = features / scale
    normal = (x * weights[:, None]).T @ x + RIDGE * len(x) * np.eye(len(scale))
    return prior + np.linalg.solve(normal, (x * weights[:, None]).T @ (exact - features @ prior)) / scale


def error_model(squares: Float, residual: Float) -> Float:
    """Weights ≥ 0 (U,) with which ``squares`` (S, U) explain the squared residuals (S,).

    The errors of a mixed collection differ by orders of magnitude, so what counts is the ratio of a squared residual to
    what is expected of it. The most likely weights for normal residuals are found by multiplicative updates, each of
    which makes them likelier (the Itakura-Saito divergence of non-negative factorization). They are then increased by
    one standard deviation of a variance estimated from S numbers.
    """
    unit = float((residual**2).mean())
    scale = squares.mean(axis=0)
    if unit == 0.0:
        return np.zeros(len(scale))
    scale[scale == 0] = 1.0
    x, target = squares / scale, residual**2 / unit
    found = np.full(x.shape[1], 1.0 / x.shape[1])
    for _ in range(UPDATES):
        expected = np.maximum(x @ found, LEAST_EXPECTED)
        found *= np.sqrt((target / expected**2) @ x / np.maximum((1.0 / expected) @ x, 1e-300))
    doubt = 1.0 + np.sqrt(2.0 / len(x))
    return np.asarray(found * (doubt * unit / scale), dtype=np.float64)


class Fit(NamedTuple):
    """A linear combination of features, and what is known about its errors."""

    coefficients: Float  # (F,)
    used: bool  # whether the fit did better on held-out pairs than the plain feature
    residual: Float  # (S,) of held-out pairs
    error_weights: Float  # (U,) of the squares that explain squared residuals


def rms_interval(
    residual: Float, weights: Float, n_fitted: int = 0, n_left: float = np.inf
) -> tuple[float, float, float]:
    """Root of the weighted mean square, and both ends of its 95 percent interval.

    Parameters
    ----------
    residual, weights : (S,)
    n_fitted
        Coefficients of the fit that the residuals are held out from.
    n_left
        Pairs whose error is asked for. The interval covers what these happen to have, not only what is expected.
    """
    from scipy.special import stdtrit

    n, size = len(residual), float(np.abs(residual).max())
    if size == 0.0 or n < 2:
        return size, size, size
    squares = weights * (residual / size) ** 2  # at the scale of 1: fourth powers follow
    mean = float(squares.sum() / weights.sum())
    counts = _draws(n)
    means = counts @ squares / (counts @ weights)
    deviations = _deviation(counts, squares, weights, means)
    tiny = np.finfo(np.float64).tiny
    logs = np.log(np.maximum(means, tiny)) - np.log(mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(deviations > 0, logs * means / deviations, 0.0)
    low, high = np.quantile(t, [0.025, 0.975])
    free = max(n - n_fitted - 1, 1)
    least = float(stdtrit(free, 0.975))
    relative = float(_deviation(np.ones((1, n)), squares, weights, np.array([mean]))[0]) / mean
    relative = float(np.sqrt(max(relative**2, (LEAST_KURTOSIS - 1.0) / n) * (n / free) * (1.0 + n / max(n_left, 1.0))))
    factors = np.exp(0.5 * relative * np.clip([-max(high, least), -min(low, -least)], -6.0, 6.0))
    root = size * float(np.sqrt(mean))
    return root, root * float(factors[0]), root * float(factors[1])


def end_after_choice(root: float, high: float, allowed: float) -> float:
    """The upper end of the interval of an error that was chosen because it is small enough.

    Of many errors near what is ``allowed``, those are chosen that the sample shows too small. So the end is the error
    beyond which less than 2.5 percent *of those that would have been chosen* were seen as small as this one: with x the
    logarithm of the error that was seen, s its standard deviation and c the largest that would have been accepted, it
    solves Φ((x - θ)/s) = 0.025 Φ((c - θ)/s). Far below c, it is the end that it was.
    """
    from scipy.special import log_ndtr

    if not 0.0 < root < high:
        return high
    s, reach = np.log(high / root) / 1.96, np.log(allowed / root)
    spare = max(0.0, reach / s - (1.96 if high <= allowed else 0.98))  # (c - x) / s
    below, above = 1.96, MOST_DEVIATIONS
    while above - below > 1e-6:
        middle = 0.5 * (below + above)
        rarer = log_ndtr(-middle) - log_ndtr(spare - middle) <= np.log(0.025)
        below, above = (below, middle) if rarer else (middle, above)
    return max(high, root * float(np.exp(s * below)))


@functools.lru_cache(maxsize=4)
def _draws(n: int) -> Float:
    """How often each of n pairs is drawn (B, n) in B resamples of size n."""
    draws = np.random.default_rng(0).integers(n, size=(DRAWS, n))
    counts = np.bincount((draws + n * np.arange(DRAWS)[:, None]).ravel(), minlength=DRAWS * n)
    return counts.reshape(DRAWS, n).astype(np.float64)


def _deviation(counts: Float, squares: Float, weights: Float, means: Float) -> Float:
    """Standard deviation (B,) of Σ squares / Σ weights, by linearization; ``counts`` (B, n) say what is drawn."""
    n = counts.shape[1]
    influence = counts @ squares**2 - 2 * means * (counts @ (squares * weights)) + means**2 * (counts @ weights**2)
    return np.asarray(np.sqrt(np.maximum(influence, 0.0) * n / (n - 1)) / (counts @ weights), dtype=np.float64)


def combined(features: Float, weights: Float) -> Float:
    """features @ weights, column by column: a matrix product would round differently in tiles of another size."""
    total = features[:, 0] * weights[0]
    for c in range(1, len(weights)):
        total += features[:, c] * weights[c]
    return total
