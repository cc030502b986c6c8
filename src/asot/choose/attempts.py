"""Setting up a strategy: its anchors are learned, its features prepared, and its fit is measured on exact pairs.

If an attempt is accepted, the call continues with what it has computed; nothing is computed twice. Attempts of one call
share their spaces and the pairs that were solved exactly. These pairs are chosen in the first space that is tried. A
strategy records its number of anchors, so that the same pairs are chosen when it is repeated.
"""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from asot.anchors.space import AnchorSpace
from asot.bounds.error_bars import make_bounds
from asot.bounds.short_vectors import Coordinates, leading_directions
from asot.choose.prices import learned_from
from asot.choose.strategy import Strategy
from asot.data.distributions import Distributions
from asot.estimate.calibration import Calibration, ExactSample, draw_exact
from asot.estimate.pair_features import Features, OnAnchors, PairFeatures, View, coordinates_of
from asot.exact.metric_check import is_metric
from asot.exact.shared_cost import ExactSharedCost
from asot.request.accuracy import MaxError
from asot.run.executors import meanwhile
from asot.run.pairs import make_pairs
from asot.run.work import Resources


@dataclass(frozen=True)
class Attempt:
    """A strategy that is ready to solve pairs, and what was measured about it."""

    strategy: Strategy
    features: Features
    sample: ExactSample
    calibration: Calibration
    exact_share: float
    n_anchors: int
    seconds: float  # spent on all parts of it, also by earlier attempts
    begun: Any = None
    """What could be begun with the features before there was a fit."""

    @property
    def rmse(self) -> float:
        return float(self.calibration.report["held_out_rmse"])

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 percent interval of the error."""
        low, high = self.calibration.report["held_out_rmse_interval"]
        return float(low), float(high)

    @property
    def cautious(self) -> float:
        """Halfway from the measured error to the upper end of its interval."""
        return 0.5 * (self.rmse + self.interval[1])

    @property
    def mean(self) -> float:
        return float(self.calibration.report["mean_distance"])


@dataclass(frozen=True)
class Seen:
    """All pairs as one space sees them, and how long it took to look."""

    space: AnchorSpace
    view: View
    seconds: float


class Attempts:
    """Makes attempts for the pairs of one call.

    ``space`` is given by the user, or None. ``level`` says which bounds are wanted in addition to the values, or None.
    """

    def __init__(
        self,
        D: Distributions,
        E: Distributions | None,
        running: Resources,
        *,
        space: AnchorSpace | None = None,
        level: str | None = None,
        accepted: MaxError | None = None,
    ) -> None:
        self._D, self._E, self._running = D, E, running
        self._both = D if E is None else D + E
        self._column_start = None if E is None else len(D)
        self._space, self._level, self._accepted = space, level, accepted
        self._short: Coordinates | None = None
        self._seen: dict[tuple[int | None, int, bool], Seen] = {}
        self._drawn_at: int | None = None
        self._sample: tuple[ExactSample, float, int] | None = None  # with its seconds and its number of draws

    def __call__(self, strategy: Strategy, begin: Callable[[PairFeatures], Any] | None = None) -> Attempt:
        """Set up a strategy. ``begin`` is called with its features; what it returns goes into the attempt."""
        self._drawn_at = self._drawn_at or strategy.drawn_at or strategy.n_anchors
        strategy = replace(strategy, drawn_at=self._drawn_at)
        seen = [self._see(strategy.n_anchors, strategy.seed + s, strategy.bounds) for s in range(strategy.n_spaces)]
        began = time.perf_counter()
        features = self._features([one.view for one in seen], strategy.bounds, self._learned())
        begun = None if begin is None else begin(features)
        preparing = time.perf_counter() - began
        sample, sample_seconds = self._drawn(strategy)
        began = time.perf_counter()
        calibration = Calibration(features, sample, self._running)
        share = share_too_wide(self._accepted, calibration, sample)
        seconds = sample_seconds + sum(one.seconds for one in seen) + preparing + time.perf_counter() - began
        return Attempt(strategy, features, sample, calibration, share, seen[0].space.n_anchors, seconds, begun)

    def _drawn(self, strategy: Strategy) -> tuple[ExactSample, float]:
        """The pairs that are solved exactly, for all attempts, and how long that took."""
        known, seconds, n_draws = (None, 0.0, 0) if self._sample is None else self._sample
        if known is None or n_draws < strategy.n_draws:
            first = self._see(strategy.drawn_at, strategy.seed, False)
            began = time.perf_counter()
            pairs = make_pairs(len(self._D), None if self._E is None else len(self._E))
            known = draw_exact(
                self._features([first.view], with_bounds=False), self._both, pairs, strategy.n_exact, strategy.seed,
                self._running, n_draws=strategy.n_draws, known=known,
            )  # fmt: skip
            seconds += time.perf_counter() - began
            self._sample = known, seconds, strategy.n_draws
        return known, seconds

    def _features(self, views: list[View], with_bounds: bool, learned: ExactSharedCost | None = None) -> PairFeatures:
        assert self._short is not None
        return PairFeatures(views, self._short, self._column_start or 0, with_bounds=with_bounds, learned=learned)

    def _see(self, n_anchors: int | None, seed: int, with_bounds: bool) -> Seen:
        """The pairs as one space sees them, made when it is first asked for."""
        key = n_anchors, seed, with_bounds
        if key not in self._seen:
            plain = self._see(n_anchors, seed, False) if with_bounds else None
            began = time.perf_counter()
            space, view = self._look(n_anchors, seed) if plain is None else (plain.space, copy.copy(plain.view))
            if with_bounds:
                level, n_jobs = self._level or "points", self._running.n_jobs
                view.bounds = make_bounds(space, self._D, self._E, level, n_jobs, self._both)
            earlier = 0.0 if plain is None else plain.seconds
            self._seen[key] = Seen(space, view, earlier + time.perf_counter() - began)
        return self._seen[key]

    def _look(self, n_anchors: int | None, seed: int) -> tuple[AnchorSpace, View]:
        if self._space is not None:
            space = self._space.proven
        else:
            assert n_anchors is not None
            space = learn_space(self._both, n_anchors, seed, self._running)
        return space, self._view(space)

    def _view(self, space: AnchorSpace) -> View:
        """With several threads, what needs few of them is done beside what needs many."""
        both, n_jobs = self._both, self._running.n_jobs
        known = self._short is not None
        directions = meanwhile(functools.partial(leading_directions, both.points, both.masses)) if not known else None
        space.nearest_of(both, device="cpu", n_jobs=n_jobs)  # is remembered
        on_anchors = meanwhile(functools.partial(OnAnchors, space, both, self._column_start, n_jobs))
        if self._short is None:
            assert directions is not None
            self._short = coordinates_of(both, n_jobs, directions())
        return View(space, both, self._short, self._column_start, n_jobs=n_jobs, on_anchors=on_anchors())

    def _learned(self) -> ExactSharedCost | None:
        """Distances in a space with soft codes, in addition to those of its nearest anchors."""
        space = self._space
        if space is None or space.proven is space:
            return None
        A = space.histograms(self._D, device="cpu")
        B = None if self._E is None else space.histograms(self._E, device="cpu")
        return ExactSharedCost(A, B, space.cost, cancel=is_metric(space.cost))


def share_too_wide(accepted: MaxError | None, calibration: Calibration, sample: ExactSample) -> float:
    """The share of all pairs whose bounds are farther apart than is accepted."""
    if accepted is None:
        return 0.0
    wide = accepted.too_wide(*calibration.sampled_bounds())
    return float((sample.weights * wide).sum() / sample.weights.sum())


def learn_space(D: Distributions, k: int, seed: int, running: Resources) -> AnchorSpace:
    """k anchors by k-means on a sample of a collection's points: as good as with all of them, and faster."""
    from asot.anchors.kmeans import KMeansAnchors

    n = len(D.points)
    m = learned_from(k, n)
    pool = D
    if m < n:
        chance = D.masses / D.masses.sum()
        drawn = np.random.default_rng(seed).choice(n, m, p=chance)
        pool = Distributions(D.points[np.sort(drawn)], np.array([0, m]))
    return KMeansAnchors.quietly(k, pool, seed, running.n_jobs, running.progress)
