"""Setting up a strategy: its anchors are learned, its features prepared, and its fit is measured on exact pairs.

If an attempt is accepted, the call continues with what it has computed; nothing is computed twice. Attempts of one call
share the pairs that were solved exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from asot.anchors.space import AnchorSpace
from asot.bounds.calibration import Calibration, ExactSample, Running, draw_exact
from asot.bounds.error_bars import make_bounds
from asot.bounds.guarantee import MaxError
from asot.bounds.pair_features import PairFeatures, View, coordinates_of
from asot.data.distributions import Distributions
from asot.exact.metric_check import is_metric
from asot.exact.shared_cost import ExactSharedCost
from asot.run.pairs import make_pairs
from asot.run.prices import learned_from
from asot.run.strategy import Strategy


@dataclass(frozen=True)
class Attempt:
    """A strategy that is ready to solve pairs, and what was measured about it."""

    strategy: Strategy
    features: PairFeatures
    sample: ExactSample
    calibration: Calibration
    exact_share: float
    n_anchors: int

    @property
    def rmse(self) -> float:
        return float(self.calibration.report["held_out_rmse"])

    @property
    def cautious(self) -> float:
        """Halfway from the measured error to the upper end of its interval."""
        return 0.5 * (self.rmse + float(self.calibration.report["held_out_rmse_interval"][1]))

    @property
    def mean(self) -> float:
        return float(self.calibration.report["mean_distance"])


class Attempts:
    """Makes attempts for the pairs of one call.

    ``space`` is given by the user, or None. ``level`` says which bounds are wanted in addition to the values, or None.
    """

    def __init__(
        self,
        D: Distributions,
        E: Distributions | None,
        running: Running,
        *,
        space: AnchorSpace | None = None,
        level: str | None = None,
        accepted: MaxError | None = None,
    ) -> None:
        self._D, self._E, self._running = D, E, running
        self._both = D if E is None else D + E
        self._column_start = None if E is None else len(D)
        self._space, self._level, self._accepted = space, level, accepted
        self._short = coordinates_of(self._both)

    def __call__(self, strategy: Strategy, earlier: Attempt | None = None) -> Attempt:
        spaces = self._spaces(strategy)
        views = [self._view(space, strategy) for space in spaces]
        features = PairFeatures(
            views, self._short, self._column_start or 0, with_bounds=strategy.bounds, learned=self._learned()
        )
        if earlier is None:
            pairs = make_pairs(len(self._D), None if self._E is None else len(self._E))
            sample = draw_exact(features, self._both, pairs, strategy.n_exact, strategy.seed, self._running)
        else:
            sample = earlier.sample
        calibration = Calibration(features, sample, self._running)
        share = self._share_too_wide(calibration, sample)
        strategy = replace(strategy, n_exact=max(strategy.n_exact, 1))
        return Attempt(strategy, features, sample, calibration, share, spaces[0].n_anchors)

    def _spaces(self, strategy: Strategy) -> list[AnchorSpace]:
        if self._space is not None:
            return [self._space.proven]
        assert strategy.n_anchors is not None
        seeds = range(strategy.seed, strategy.seed + strategy.n_spaces)
        return [learn_space(self._both, strategy.n_anchors, seed, self._running) for seed in seeds]

    def _view(self, space: AnchorSpace, strategy: Strategy) -> View:
        space.nearest_of(
            self._both, device="cpu", n_jobs=self._running.n_jobs
        )  # on all threads; later ones find it done
        bounds = None
        if self._level is not None or strategy.bounds:
            bounds = make_bounds(space, self._D, self._E, self._level or "points")
        return View(space, self._both, self._short, self._column_start, bounds)

    def _learned(self) -> ExactSharedCost | None:
        """Distances in a space with soft codes, in addition to those of its nearest anchors."""
        space = self._space
        if space is None or space.proven is space:
            return None
        A = space.histograms(self._D, device="cpu")
        B = None if self._E is None else space.histograms(self._E, device="cpu")
        return ExactSharedCost(A, B, space.cost, cancel=is_metric(space.cost))

    def _share_too_wide(self, calibration: Calibration, sample: ExactSample) -> float:
        """The share of all pairs whose bounds are farther apart than is accepted."""
        if self._accepted is None:
            return 0.0
        lower, upper = calibration.sampled_bounds()
        wide = self._accepted.too_wide(lower, upper)
        return float((sample.weights * wide).sum() / sample.weights.sum())


def learn_space(D: Distributions, k: int, seed: int, running: Running) -> AnchorSpace:
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
