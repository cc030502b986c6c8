"""A corrected estimate of W_1, and how far to trust it (docs/method.md §7).

The distance on the anchors is biased low, and the bias is predictable from what else is known about a pair
(`asot.estimate.pair_features`). The best linear combination is fitted once per collection on a few pairs that are
solved exactly (`asot.estimate.exact_sample` chooses them, `asot.estimate.fit` fits). These pairs keep their exact
values.

The fit is cross-validated. If it does not help on held-out pairs, it is not used. The reported error is the held-out
error; pairs that keep their exact values count as exact. It is an estimate, not a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Identity, Indices, Info
from asot.bounds.short_vectors import scaled
from asot.data.distributions import Distributions
from asot.estimate.exact_sample import draw_candidates, draw_sample, kinds, pool
from asot.estimate.fit import FOLDS, Fit, combined, end_after_choice, error_model, least_squares, rms_interval
from asot.estimate.pair_features import Features, Measured
from asot.exact.auto import euclidean_simplex
from asot.results.sinks import distances_of
from asot.run import engine
from asot.run.engine import Resources
from asot.run.executors import Progress
from asot.run.pairs import ListedPairs, PairSet, at_places
from asot.run.protocols import Solver

EXACT_PAIRS = 64
"""How many pairs are solved exactly to fit and validate the estimate."""

EXACT_ERROR = 2.0**-40
"""Relative error of a pair that was solved exactly: the rounding of the simplex's integer costs."""

CANDIDATES = 2048
"""Pairs from which they are chosen."""


def features_of(pairs: PairSet, features: Features, resources: Resources) -> Float:
    """Features (P, F) of every pair."""
    parts: list[Float] = []
    with Progress(resources.progress, len(pairs), "measuring") as shown:
        for tile in engine.solved_tiles(pairs, features, resources.jobs, resources.budget):
            assert isinstance(tile.solution, Measured)
            parts.append(tile.solution.features)
            shown.advance(len(parts[-1]))
    return np.concatenate(parts)


def solve_exactly(pairs: PairSet, solver: Solver, resources: Resources) -> Float:
    """Exact distances (P,)."""
    own = resources
    return distances_of(pairs, solver, n_jobs=own.n_jobs, memory=own.memory, progress=own.progress).values


@dataclass(frozen=True)
class ExactSample:
    """Pairs of a set that were solved exactly, and how many pairs each represents, itself included."""

    pairs: ListedPairs
    exact: Float  # (S,)
    weights: Float  # (S,)
    n_kinds: int = 1
    """How many kinds of pairs there are (`asot.estimate.exact_sample.kinds`)."""

    @property
    def left_open(self) -> Float:
        """Of the pairs that each represents: the share (S,) that is estimated, not solved."""
        return np.maximum(1.0 - 1.0 / self.weights, 0.0)

    def look_up(self, rows: Indices, columns: Indices) -> tuple[Float, NDArray[np.bool_]]:
        """Distances (P,) of some pairs, as far as they are here, and which of them (P,) are not."""
        own, asked = pair_keys(*self.pairs.indices(0, len(self.pairs))), pair_keys(rows, columns)
        order = np.argsort(own)
        place = order[np.minimum(np.searchsorted(own, asked, sorter=order), len(own) - 1)]
        return self.exact[place], own[place] != asked


def pair_keys(rows: Indices, columns: Indices) -> Indices:
    """A number (P,) for each pair, in the order of rows and columns."""
    return np.asarray((rows << 32) + columns)


def draw_exact(
    features: Features,
    pairs: PairSet,
    n_exact: int,
    seed: int,
    resources: Resources,
    solve: Callable[[Indices, Indices], Float],
    *,
    n_draws: int = 1,
    known: ExactSample | None = None,
) -> ExactSample:
    """Choose pairs by how uncertain ``features`` leave them, and solve them by ``solve(rows, columns)``.

    Its columns count from the beginning of the first collection.

    They are chosen in ``n_draws`` draws of ``n_exact`` pairs each; a larger number begins with the same draws. Those
    that are ``known`` from fewer draws are not solved again.
    """
    rng = np.random.default_rng(seed)
    candidates = draw_candidates(pairs, features.radii, features.column_start, CANDIDATES, rng)
    listed = at_places(pairs, candidates.places)
    measured = features_of(listed, features, resources)
    rows, columns = listed.indices(0, len(listed))
    kind = kinds(features.radii, rows, columns + features.column_start)
    width = features.width(measured)
    sample = pool(
        [draw_sample(candidates.weights, width, measured[:, 0], kind, n_exact, rng) for _ in range(n_draws)]
    )  # fmt: skip
    chosen = at_places(listed, sample.places)
    rows, columns = chosen.indices(0, len(chosen))
    later = columns + features.column_start
    exact, fresh = np.empty(len(rows)), np.ones(len(rows), dtype=np.bool_)
    if known is not None:
        exact, fresh = known.look_up(rows, columns)
    if fresh.any():
        new = rows[fresh], later[fresh]
        exact[fresh] = solve(*new)
    weights = sample.weights * (len(pairs) / sample.weights.sum())
    return ExactSample(chosen, exact, weights, len(np.unique(kind)))


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
        rows, columns = sample.pairs.indices(0, len(sample.pairs))
        self._remember(rows, columns, sample.exact)
        self._sampled = measured
        self._fit(measured, scaled(sample.exact, -features.exponent), sample)

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
        values = scaled(self._predict(x, self.coefficients), exponent)
        error = scaled(np.sqrt(combined(self._features.squares(x), self.error_weights)), exponent)
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
        return scaled(lower, self._features.exponent), scaled(upper, self._features.exponent)

    def allow_for_choice(self, allowed: float) -> None:
        """Report that this fit was chosen because its error was measured to be no larger than what is ``allowed``."""
        measured = self.report.held_out
        end = end_after_choice(measured.rmse, measured.interval[1], allowed)
        self.report = replace(self.report, held_out=replace(measured, interval=(measured.interval[0], end)))

    def _predict(self, features: Float, coefficients: Float) -> Float:
        lowest, highest = self._features.limits(features)
        return np.minimum(np.maximum(combined(features, coefficients), lowest), highest)

    # ------------------------------------------------------------------------------------------------ exact pairs

    def _remember(self, rows: Indices, columns: Indices, exact: Float) -> None:
        keys, first = np.unique(pair_keys(rows, columns), return_index=True)
        self.solved, self.exact = keys, exact[first]  # row << 32 | column of these pairs, ascending, and their values

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
                n_fitted=len(fit.coefficients) if fit.used else 0, n_left=float(weights.sum()) - len(weights),
            ),
            anchor=_summary(features @ own.plain - exact, weights, mean, exponent),
            note=_note(fit.used, exact),
        )  # fmt: skip

    def _judge(self, features: Float, exact: Float, weights: Float) -> Fit:
        own = self._features
        held_out = np.empty(len(exact))
        fold = np.arange(len(exact)) % min(FOLDS, len(exact))
        for turn in range(fold.max() + 1):
            seen, unseen = fold != turn, fold == turn
            turned = least_squares(features[seen], exact[seen], weights[seen], own.prior)
            held_out[unseen] = self._predict(features[unseen], turned)
        residual = held_out - exact
        without = self._predict(features, own.plain) - exact  # of what is returned if the fit is not used
        used = bool((weights * residual**2).sum() < (weights * without**2).sum())
        kept = residual if used else without
        coefficients = least_squares(features, exact, weights, own.prior) if used else own.plain
        return Fit(coefficients, used, kept, error_model(own.squares(features), kept))


def _note(helps: bool, exact: Float) -> str:
    if helps:
        return "fitted; the held-out error is that of pairs the fit did not see"
    equal = "all sampled distances are equal; " if np.ptp(exact) <= 1e-12 * exact.max() else ""
    plain = "values are the plain distances on the anchors, within what radii and means prove"
    return f"{equal}the fit did not help on held-out pairs: {plain}"


def _summary(
    residual: Float, weights: Float, mean: float, exponent: int, *, n_fitted: int = 0, n_left: float = np.inf
) -> Residuals:
    """Root mean squared residual, absolute and relative to the mean distance, with its 95 percent interval."""
    rmse, low, high = rms_interval(residual, weights, n_fitted, n_left)
    size, least, most = (float(np.ldexp(x, exponent)) for x in (rmse, low, high))
    return Residuals(size, (least, most), rmse / mean if mean > 0 else 0.0)


def exact_distances(D: Distributions, rows: Indices, columns: Indices, resources: Resources) -> Float:
    """W_1 (P,) of a few pairs, looking only at the distributions they name."""
    named, index = np.unique(np.stack([rows, columns]), return_inverse=True)
    solver = euclidean_simplex(D[named])
    few = ListedPairs(index.reshape(2, -1).T, len(named), len(named), symmetric=True)
    return solve_exactly(few, solver, resources)
