"""A corrected estimate of W_1, and how far to trust it (docs/method.md §7).

The distance on the anchors is biased low, and the bias is predictable from what else is known about a pair
(`asot.estimate.pair_features`). The best linear combination is fitted once per collection on a few pairs that are
solved exactly (`asot.estimate.exact_sample` chooses them). These pairs keep their exact values.

The fit is cross-validated. If it does not help on held-out pairs, it is not used. The reported error is the held-out
error; pairs that keep their exact values count as exact. It is an estimate, not a bound.

The sample has weights: a pair that was drawn on purpose represents few others, and a pair that was drawn by chance
represents many. The weights are used everywhere: the fit minimizes the weighted squares, the error is their weighted
mean (`asot.estimate.exact_sample.rms_interval` says how sure it is).

To the engine, `Estimates` is a solver like any other, so that corrected values go to any sink.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Identity, Indices, Info
from asot.estimate.exact_sample import ExactSample, end_after_choice, features_of, pair_keys, rms_interval
from asot.estimate.pair_features import Features, Measured
from asot.run.engine import Resources
from asot.run.protocols import Solution, Solver, Status

EXACT_ERROR = 2.0**-40
"""Relative error of a pair that was solved exactly: the rounding of the simplex's integer costs."""

FOLDS = 8
"""Folds of the cross-validation."""

NOISE, LEAST_NOISE = 0.01, 1e-5
"""Before any pair is seen: the error of a fit, as a share of the distances; and the least that is believed."""

SMALLEST = 1e-12
"""Distances are at least this share of the features: where nearly all are 0, squares must not overflow."""

ROUNDING = 1e-14
"""Of the largest eigenvalue: what pairs say about directions with less of it is rounding."""

MOST_WIDTH = 1e4
"""Squared coefficients are at most so many times what is expected."""

SURE = 2.0
"""How many coefficients the widths of `Features.directions` are worth, beside those that pairs decide."""

ROUNDS = 30
"""Rounds in which error and size of coefficients are estimated. They differ by less than a percent after ten."""

UPDATES = 100
"""Updates of the weights that explain squared errors. Each takes a few microseconds."""

LEAST_EXPECTED = 1e-8
"""Squared errors below this share of their mean count as equal."""


@dataclass(frozen=True)
class Residuals:
    """Root-mean-square residuals, with their 95 percent interval, and relative to the mean distance."""

    rmse: float
    interval: tuple[float, float]
    relative: float

    def as_dict(self, name: str) -> Info:
        own = {"rmse": self.rmse, "rmse_interval": list(self.interval), "relative": self.relative}
        return {f"{name}_{key}": value for key, value in own.items()}


@dataclass(frozen=True)
class Report:
    """What was fitted, and how well it did; `as_dict` becomes ``info["calibration"]``."""

    used: bool
    n_exact: int
    coefficients: dict[str, float]
    mean_distance: float
    held_out: Residuals
    """Of pairs that the fit did not see."""
    anchor: Residuals
    """Of plain distances on the anchors."""
    note: str

    def as_dict(self) -> Info:
        return {
            "used": self.used,
            "n_exact": self.n_exact,
            "coefficients": self.coefficients,
            "mean_distance": self.mean_distance,
            **self.held_out.as_dict("held_out"),
            **self.anchor.as_dict("anchor"),
            "note": self.note,
        }

    @classmethod
    def read(cls, record: Info) -> Report:
        """The report whose `as_dict` this is."""
        sides: Info = {
            side: Residuals(
                float(record[f"{side}_rmse"]), tuple(map(float, record[f"{side}_rmse_interval"])),  # type: ignore[arg-type]
                float(record[f"{side}_relative"]),
            )
            for side in ("held_out", "anchor")
        }  # fmt: skip
        names = ("used", "n_exact", "coefficients", "mean_distance", "note")
        return cls(**{name: record[name] for name in names}, **sides)


@dataclass(frozen=True, eq=False)
class KnownFit:
    """A fit as it is kept: for F features and U squares, in units of 2^exponent, with the S pairs solved exactly."""

    coefficients: Float  # (F,)
    error_weights: Float  # (U,)
    solved: Indices  # (S,) row << 32 | column, ascending
    exact: Float  # (S,)
    exponent: int
    report: Report

    def without_pairs(self) -> KnownFit:
        """The same for other collections, in which these pairs are others."""
        return replace(self, solved=np.array([-1]), exact=np.zeros(1))


class Calibration:
    """A fit of features to exact pairs.

    ``report`` says what was fitted and how well it did on held-out pairs; it becomes ``info["calibration"]``.
    """

    report: Report

    def __init__(self, features: Features, sample: ExactSample, resources: Resources) -> None:
        self._features = features
        measured = features_of(sample.pairs, features, resources)
        keys, first = np.unique(pair_keys(*sample.pairs.indices(0, len(sample.pairs))), return_index=True)
        self.solved, self.exact = keys, sample.exact[first]  # row << 32 | column of these pairs, ascending, and values
        self._sampled = measured
        self._fit(measured, np.ldexp(sample.exact, -features.exponent), sample)

    @classmethod
    def known(cls, features: Features, fit: KnownFit) -> Calibration:
        """A fit that was made before, for other pairs in the same spaces."""
        self = cls.__new__(cls)
        self._features, self._sampled, self.report = features, np.empty((0, len(features.names))), fit.report
        self.coefficients, self.solved, self.exact = fit.coefficients, fit.solved, fit.exact
        unit = 4.0 ** (fit.exponent - features.exponent)  # of the one square that is no feature
        self.error_weights = fit.error_weights * np.concatenate([[unit], np.ones(len(fit.error_weights) - 1)])
        return self

    def keep(self) -> KnownFit:
        """The fit without the pairs that it is for."""
        own = self._features.exponent
        return KnownFit(self.coefficients, self.error_weights, self.solved, self.exact, own, self.report)

    def estimate(self, measured: Measured, rows: Indices, columns: Indices) -> tuple[Float, Float, NDArray[np.bool_]]:
        """Corrected distances and their expected errors (P,) of a tile, and which of them are exact."""
        x, exponent = measured.features, self._features.exponent
        values = np.ldexp(self._predict(x, self.coefficients), exponent)
        error = np.ldexp(np.sqrt(combined(self._features.squares(x), self.error_weights)), exponent)
        keys = pair_keys(rows, columns)
        place = np.minimum(np.searchsorted(self.solved, keys), len(self.solved) - 1)
        known = self.solved[place] == keys
        exact = self.exact[place]
        return np.where(known, exact, values), np.where(known, EXACT_ERROR * exact, error), known

    def identity(self) -> Identity:
        """All that estimates depend on, beside the features."""
        return {
            "coefficients": self.coefficients,
            "error_weights": self.error_weights,
            "solved": self.solved,
            "exact": self.exact,
        }

    def sampled_bounds(self) -> tuple[Float, Float]:
        """Bounds (S,) of the pairs that were solved exactly, where bounds are features."""
        names = self._features.names
        lower, upper = (self._sampled[:, names.index(name)] for name in ("lower", "upper"))
        return np.ldexp(lower, self._features.exponent), np.ldexp(upper, self._features.exponent)

    def allow_for_choice(self, allowed: float) -> None:
        """Report that this fit was chosen because its error was measured to be no larger than what is ``allowed``."""
        measured = self.report.held_out
        end = end_after_choice(measured.rmse, measured.interval[1], allowed)
        self.report = replace(self.report, held_out=replace(measured, interval=(measured.interval[0], end)))

    def _predict(self, features: Float, coefficients: Float) -> Float:
        lowest, highest = self._features.limits(features)
        return np.minimum(np.maximum(combined(features, coefficients), lowest), highest)

    # ------------------------------------------------------------------------------------------------ the fit

    def _fit(self, features: Float, exact: Float, sample: ExactSample) -> None:
        own, weights = self._features, sample.weights
        fit = self._judge(features, exact, weights)
        self.coefficients, self.error_weights = fit.coefficients, fit.error_weights
        exponent = own.exponent
        mean = float((weights * exact).sum() / weights.sum())
        self.report = Report(
            used=fit.used,
            n_exact=len(exact),
            coefficients=dict(zip(own.names, fit.coefficients.tolist(), strict=True)),
            mean_distance=float(np.ldexp(mean, exponent)),
            held_out=_summary(
                fit.residual * np.sqrt(sample.left_open), weights, mean, exponent,
                n_fitted=fit.n_fitted, n_left=float(weights.sum()) - len(weights),
            ),
            anchor=_summary(features @ own.plain - exact, weights, mean, exponent),
            note=_note(fit.used, exact),
        )  # fmt: skip

    def _judge(self, features: Float, exact: Float, weights: Float) -> Fit:
        own = self._features
        held_out = np.empty(len(exact))
        fold = np.arange(len(exact)) % min(FOLDS, len(exact))
        left_out = np.bincount(fold)
        for size in np.unique(left_out):  # there are two sizes at most
            turns = np.flatnonzero(left_out == size)
            seen = np.stack([np.flatnonzero(fold != turn) for turn in turns])
            found, _ = likeliest(features[seen], exact[seen], weights[seen], own.prior, own.directions)
            for turn, coefficients in zip(turns, found, strict=True):
                held_out[fold == turn] = self._predict(features[fold == turn], coefficients)
        residual = held_out - exact
        without = self._predict(features, own.plain) - exact  # of what is returned if the fit is not used
        if (weights * residual**2).sum() < (weights * without**2).sum():
            coefficients, n_fitted = likeliest(features, exact, weights, own.prior, own.directions)
            return Fit(coefficients, True, float(n_fitted), residual, error_model(own.squares(features), residual))
        return Fit(own.plain, False, 0.0, without, error_model(own.squares(features), without))


def _note(helps: bool, exact: Float) -> str:
    if helps:
        return "fitted; the held-out error is that of pairs the fit did not see"
    equal = "all sampled distances are equal; " if np.ptp(exact) <= 1e-12 * exact.max() else ""
    plain = "values are the plain distances on the anchors, within what radii and means prove"
    return f"{equal}the fit did not help on held-out pairs: {plain}"


def _summary(
    residual: Float, weights: Float, mean: float, exponent: int, *, n_fitted: float = 0.0, n_left: float = np.inf
) -> Residuals:
    """Root mean squared residual, absolute and relative to the mean distance, with its 95 percent interval."""
    rmse, low, high = rms_interval(residual, weights, n_fitted, n_left)
    size, least, most = (float(np.ldexp(x, exponent)) for x in (rmse, low, high))
    return Residuals(size, (least, most), rmse / mean if mean > 0 else 0.0)


# ------------------------------------------------------------------------------------------------ a linear fit


def likeliest(features: Float, exact: Float, weights: Float, prior: Float, directions: Float) -> tuple[Float, Float]:
    """Coefficients (F,), and how many of them were decided by the pairs rather than by what is known before.

    They are the ``prior`` and a sum of ``directions`` (F, G), each times a number that is normal around 0. How large
    these numbers are, and how large the errors, is what makes the S pairs likeliest (MacKay's evidence updates). With
    ten pairs, a few numbers are decided; with hundreds, it is least squares. Features may be of any scale, also all
    zero. Many samples (..., S) of one size are fitted at once, each by itself.
    """
    n, weights = exact.shape[-1], weights / weights.mean(axis=-1, keepdims=True)
    most = np.maximum(np.abs(exact).max(axis=-1), SMALLEST * np.abs(features).max(axis=(-2, -1)))[..., None]
    most = np.where(most == 0.0, 1.0, most)
    root = np.sqrt((weights * (exact / most) ** 2).mean(axis=-1, keepdims=True))
    unit = np.maximum(most * root, SMALLEST * most)
    x, y = features @ directions / unit[..., None], (exact - features @ prior) / unit
    size, turns = np.linalg.eigh(np.swapaxes(x * weights[..., None], -1, -2) @ x)
    toward = _product(np.swapaxes(turns, -1, -2), _product(np.swapaxes(x, -1, -2), weights * y))
    toward = np.where(size > ROUNDING * size[..., -1:], toward, 0.0)
    size = np.maximum(size, 0.0)
    total = (weights * y**2).sum(axis=-1, keepdims=True)
    noise, width = np.full_like(total, 4.0 * NOISE**2), np.ones_like(total)
    for _ in range(ROUNDS):
        open_size = size + noise / width
        found = toward / open_size
        decided = (size / open_size).sum(axis=-1, keepdims=True)
        left = np.maximum(total - _dot(found, 2.0 * toward - size * found), 0.0)
        noise = np.maximum((left + NOISE**2) / (n + 1.0 - decided), LEAST_NOISE**2)
        width = np.minimum((_dot(found, found) + SURE) / (decided + SURE), MOST_WIDTH)
    return prior + _product(directions, _product(turns, found)), decided[..., 0]


def _product(matrices: Float, vectors: Float) -> Float:
    """matrices (..., F, G) @ vectors (..., G)."""
    return np.asarray((matrices @ vectors[..., None])[..., 0])


def _dot(first: Float, second: Float) -> Float:
    """Scalar products (..., 1) of vectors (..., G)."""
    return np.asarray((first[..., None, :] @ second[..., None])[..., 0])


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
    n_fitted: float  # how many coefficients the pairs decided
    residual: Float  # (S,) of held-out pairs
    error_weights: Float  # (U,) of the squares that explain squared residuals


def combined(features: Float, weights: Float) -> Float:
    """features @ weights, column by column: a matrix product would round differently in tiles of another size."""
    total = features[:, 0] * weights[0]
    for c in range(1, len(weights)):
        total += features[:, c] * weights[c]
    return total


# ------------------------------------------------------------------------------------------------ the solver


class Estimates(Solver):
    """Calibrated distances with their expected errors, and with bounds if they are wanted."""

    stage = "estimates"

    def __init__(self, features: Features, calibration: Calibration, *, give_bounds: bool) -> None:
        self.features, self.calibration = features, calibration
        self.give_bounds = give_bounds
        self.info: Info = {**features.info, "calibration": calibration.report.as_dict()}
        if features.level is not None and give_bounds:
            self.info["bounds"] = features.level

    def identity(self) -> Identity:
        return {
            "solver": "estimates, 1",
            "features": self.features.identity(),
            "calibration": self.calibration.identity(),
            "bounds": self.give_bounds,
        }

    def pairs_per_tile(self, memory: int) -> int:
        return self.features.pairs_per_tile(memory)

    def expected_seconds(self, n_pairs: int) -> float:
        return self.features.expected_seconds(n_pairs)

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        return self.of(self.features.solve(rows, columns, stop), rows, columns)

    def of(self, measured: Measured, rows: Indices, columns: Indices) -> Solution:
        """Estimates of pairs (P,) whose features are known."""
        values, error, known = self.calibration.estimate(measured, rows, columns)
        lower, upper = measured.lower, measured.upper
        if lower is not None and upper is not None:
            values = np.clip(values, lower, upper)
            error = np.minimum(error, upper - lower)
        if not self.give_bounds:
            lower = upper = None
        status = np.where(known, Status.EXACT, Status.ESTIMATED).astype(np.int8)
        return Solution(values, status, measured.n_iter, lower=lower, upper=upper, error=error)
