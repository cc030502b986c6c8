"""Setting up a strategy: its anchors are learned, its features prepared, and its fit is measured on exact pairs.

If an attempt is accepted, the call continues with what it has computed; nothing is computed twice. Attempts of one call
share their spaces and the pairs that were solved exactly. These pairs are chosen in the first space that is tried. A
strategy records its number of anchors, so that the same pairs are chosen when it is repeated.

The Euclidean W_1 is estimated on anchors (`AnchorAttempts`). Every other distance goes through few points
(`CoarseAttempts`, `asot.estimate.coarse`): estimates are made for norms, in which points have means, and for prices of
unmatched mass that are known at every place.
"""

from __future__ import annotations

import copy
import functools
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from asot._typing import Float, Indices
from asot.anchors.lloyd import learn_space
from asot.anchors.space import AnchorSpace, Assigned
from asot.bounds.error_bars import DistinctPoints, level_for, make_bounds
from asot.bounds.short_vectors import Coordinates, Directions, leading_directions
from asot.data.distinct import MASS_UNIT, SharedPoints, common_mass, sparse_histograms
from asot.data.distributions import Distributions, trusted
from asot.estimate.calibration import Calibration
from asot.estimate.coarse import NORM_NAMES, Cells, Coarse
from asot.estimate.cuda import FeaturesCuda
from asot.estimate.exact_sample import ExactSample, Sampler, exact_distances, solve_exactly
from asot.estimate.pair_features import Features, OnAnchors, PairFeatures, View, coordinates_of
from asot.exact.auto import euclidean_solver, exact_solver
from asot.exact.cost_check import is_metric
from asot.exact.shared_cost import ExactSharedCost
from asot.ground.metrics import KERNELS, Ground, prepare_metric
from asot.request import Accuracy, Request, Strategy
from asot.run.executors import in_ranges, meanwhile
from asot.run.pairs import AllPairs, CrossPairs, ListedPairs, at_places
from asot.run.protocols import Solver

Own = TypeVar("Own", View, Coarse)

LEARNED_FROM, POINTS_PER_ANCHOR = 8192, 64
"""Anchors are learned from at least so many points, and so many for each of them, if the collection has them."""

MUCH, SOME_PAIRS = 0.05, 16
"""Points are counted that distributions share if so many pairs have at least this share of their mass in common."""

ENOUGH_THREADS = 4
"""With so many, one of them can wait for what others do."""


def learned_from(k: int, n_points: int) -> int:
    """Points that k anchors are learned from."""
    return min(n_points, max(LEARNED_FROM, POINTS_PER_ANCHOR * k))


@dataclass(frozen=True)
class Attempt:
    """A strategy that is ready to solve pairs, and what was measured about it."""

    strategy: Strategy
    features: Features
    sample: ExactSample
    calibration: Calibration
    exact_share: float
    """The share of pairs that must still be solved exactly."""
    spaces: tuple[AnchorSpace, ...]
    axes: Float | None
    """(d, w) in which local means or covariances are compared, where these are not all coordinates."""
    seconds: float  # spent on it, also with fewer exact pairs
    begun: FeaturesCuda | None = None
    """What GPUs have begun to measure before there was a fit."""

    @property
    def rmse(self) -> float:
        return self.calibration.report.held_out.rmse

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 percent interval of the error."""
        return self.calibration.report.held_out.interval

    @property
    def cautious(self) -> float:
        """Halfway from the measured error to the upper end of its interval."""
        return 0.5 * (self.rmse + self.interval[1])

    @property
    def n_kinds(self) -> int:
        """Kinds of pairs, whose errors differ."""
        return self.sample.n_kinds

    @property
    def mean(self) -> float:
        """The mean distance."""
        return self.calibration.report.mean_distance


@dataclass(frozen=True)
class SpaceView(Generic[Own]):
    """All pairs as one space sees them."""

    space: AnchorSpace
    view: Own
    assigned: Assigned | None = None


Begin = Callable[[Features], "FeaturesCuda | None"]


class Attempts(ABC, Generic[Own]):
    """Makes attempts for the pairs of one request. ``space`` is given by the user, or None."""

    why_exact: str | None = None
    """Why no estimates can be made of these pairs, if so."""

    def __init__(self, request: Request, space: AnchorSpace | None) -> None:
        self._request, self._space, self._resources = request, space, request.resources
        self._views: dict[tuple[int | None, int, bool], SpaceView[Own]] = {}
        self._drawn_at: int | None = None
        self._sampler: Sampler | None = None
        self._spent: dict[tuple[int | None, int, bool], float] = defaultdict(float)  # seconds, on a kind of strategy

    def __call__(self, strategy: Strategy, begin: Begin | None = None) -> Attempt:
        """Set up a strategy. ``begin`` is called with its features; what it returns goes into the attempt."""
        began = time.perf_counter()
        self._drawn_at = self._drawn_at or strategy.drawn_at or strategy.n_anchors
        strategy = replace(strategy, drawn_at=self._drawn_at)
        views = [self._view(strategy.n_anchors, strategy.seed + s, strategy.bounds) for s in range(strategy.n_spaces)]
        features = self._features([one.view for one in views], strategy.bounds)
        begun = None if begin is None else begin(features)
        sample = self._drawn(strategy, None if begun is None else begun.rest)
        if begun is not None:
            begun.rest()  # where the sample was known
        calibration = Calibration(features, sample, self._resources)
        share = share_too_wide(self._request.max_error, calibration, sample)
        kind = strategy.n_anchors, strategy.n_spaces, strategy.bounds
        self._spent[kind] += time.perf_counter() - began
        spaces, axes = tuple(one.space for one in views), self._axes(features)
        return Attempt(strategy, features, sample, calibration, share, spaces, axes, self._spent[kind], begun)

    def _drawn(self, strategy: Strategy, beside: Callable[[], object] | None) -> ExactSample:
        """The pairs that are solved exactly, for all attempts.

        ``beside`` is called while threads measure the pairs that they are chosen from.
        """
        first = self._view(strategy.drawn_at, strategy.seed, False)
        if self._sampler is None:
            features = self._features([first.view], with_bounds=False, sampling=True)
            self._sampler = Sampler(
                features, self._every_pair, strategy.n_exact, strategy.seed, self._resources, self.exact_pairs, beside
            )  # fmt: skip
        return self._sampler.sample(strategy.n_draws)

    @property
    def _every_pair(self) -> AllPairs | CrossPairs:
        """Of the collections, whatever pairs are asked for."""
        D, E = self._request.D, self._request.E
        return AllPairs(len(D)) if E is None else CrossPairs(len(D), len(E))

    def _view(self, n_anchors: int | None, seed: int, with_bounds: bool) -> SpaceView[Own]:
        """The pairs as one space sees them, made when it is first asked for."""
        key = n_anchors, seed, with_bounds
        if key not in self._views:
            self._views[key] = self._made_view(n_anchors, seed, with_bounds)
        return self._views[key]

    def _learned_space(self, D: Distributions, k: int, seed: int) -> AnchorSpace:
        own = self._resources
        return learn_space(D, k, learned_from(k, len(D.points)), seed, own.n_jobs, own.progress)

    @abstractmethod
    def exact_solver(self) -> Solver:
        """For the original problems, on the CPU."""

    @abstractmethod
    def exact_pairs(self, rows: Indices, columns: Indices) -> Float:
        """The original distances (P,) of some pairs; columns count from the beginning of the first collection."""

    @abstractmethod
    def _made_view(self, n_anchors: int | None, seed: int, with_bounds: bool) -> SpaceView[Own]: ...

    @abstractmethod
    def _axes(self, features: Features) -> Float | None: ...

    @abstractmethod
    def _features(self, views: list[Own], with_bounds: bool, *, sampling: bool = False) -> Features:
        """What a fit learns from; ``sampling``: only to choose exact pairs."""


def attempts_for(request: Request, space: AnchorSpace | None) -> AnchorAttempts | CoarseAttempts:
    """Attempts for the distance that a request asks for."""
    return AnchorAttempts(request, space) if request.distance.is_plain else CoarseAttempts(request, space)


def share_too_wide(accepted: Accuracy | None, calibration: Calibration, sample: ExactSample) -> float:
    """The share of all pairs whose bounds are farther apart than is accepted."""
    if accepted is None:
        return 0.0
    wide = accepted.too_wide(*calibration.sampled_bounds())
    return float((sample.weights * wide).sum() / sample.weights.sum())


# ------------------------------------------------------------------------------------------------ the Euclidean W_1


class AnchorAttempts(Attempts[View]):
    """Estimates of the Euclidean W_1: transport between anchors, and what else is known about a pair.

    ``directions``: in which local means are compared, if that is known.
    """

    def __init__(self, request: Request, space: AnchorSpace | None, directions: Directions | None = None) -> None:
        super().__init__(request, space)
        self._column_start = None if request.E is None else len(request.D)
        self._short: Coordinates | None = None
        self._directions = directions
        self._distinct: Callable[[], DistinctPoints] | None = None
        if request.wants_gpu and self.is_soft:
            self.why_exact = f"device={request.device!r} was asked for, and such estimates are made on the CPU"
        elif request.wants_gpu and request.max_error is not None:
            self.why_exact = f"device={request.device!r} was asked for, where they take no longer than bounds"

    @property
    def is_soft(self) -> bool:
        """Whether the space has soft codes."""
        return self._space is not None and self._space.proven is not self._space

    def exact_solver(self) -> Solver:
        return euclidean_solver(self._request.both, self._request.column_start)

    def exact_pairs(self, rows: Indices, columns: Indices) -> Float:
        return exact_distances(self._request.both, rows, columns, self._resources)

    def _features(self, views: list[View], with_bounds: bool, *, sampling: bool = False) -> PairFeatures:
        return self.features_of(views, self._shared, with_bounds=with_bounds, learned=not sampling)

    def features_of(
        self, views: list[View], shared: SharedPoints | None, *, with_bounds: bool, learned: bool = True
    ) -> PairFeatures:
        """``learned``: with distances in the space of the call, where its codes are soft."""
        assert self._short is not None
        soft, start = None, self._column_start or 0
        if learned and self._space is not None and self.is_soft:
            A, cost = self._space.histograms(self._request.D, device="cpu"), self._space.cost
            B = None if self._request.E is None else self._space.histograms(self._request.E, device="cpu")
            soft = ExactSharedCost(A, B, cost, cancel=is_metric(cost))
        return PairFeatures(views, self._short, start, with_bounds=with_bounds, learned=soft, shared=shared)

    @functools.cached_property
    def _shared(self) -> SharedPoints | None:
        """The points that distributions share, if some pairs have much in common."""
        pairs = self._every_pair
        places = np.unique(np.linspace(0, len(pairs) - 1, SOME_PAIRS).astype(np.int64))
        rows, columns = at_places(pairs, places).indices(0, len(places))
        named, index = np.unique([rows, columns + (self._column_start or 0)], return_inverse=True)
        few = SharedPoints.of(self._request.both[named]).weighed(1.0)
        first, second = index.reshape(2, -1)
        common = MASS_UNIT * common_mass(few, first, second, np.zeros(1, np.int64))
        return SharedPoints.of(self._request.both, in_ranges(self._resources.jobs)) if common.mean() >= MUCH else None

    def _made_view(self, n_anchors: int | None, seed: int, with_bounds: bool) -> SpaceView[View]:
        if not with_bounds:
            if self._space is not None:
                space = self._space.proven
            else:
                assert n_anchors is not None
                space = self._learned_space(self._request.both, n_anchors, seed)
            return SpaceView(space, *self.view_in(space))
        own, n_jobs = self._request, self._resources.n_jobs
        level = own.level or "points"
        if level == "auto" and own.wants_gpu:
            level = "points"  # which GPUs have a kernel for
        if self._distinct is None and level_for(level, own.both, n_anchors or 1) == "points":
            self._distinct = self._distinct_points()
        plain = self._view(n_anchors, seed, False)
        view = copy.copy(plain.view)
        view.bounds = make_bounds(
            plain.space, own.both, own.column_start, level, n_jobs, plain.assigned, self._distinct
        )  # fmt: skip
        return replace(plain, view=view)

    def _distinct_points(self) -> Callable[[], DistinctPoints]:
        """Those of the collection, for the bounds of all spaces; they begin here if there are threads enough."""
        make = functools.partial(DistinctPoints.of, self._request.both, self._resources.jobs)
        return functools.cache(meanwhile(make, with_loops=True) if self._resources.jobs >= ENOUGH_THREADS else make)

    def view_in(self, space: AnchorSpace) -> tuple[View, Assigned]:
        """With several threads, what needs few of them is done beside what needs many."""
        both, n_jobs, directions = self._request.both, self._resources.n_jobs, None
        if self._short is None and self._directions is None:
            directions = meanwhile(functools.partial(leading_directions, both.points, both.masses))
        assigned = space.nearest_of(both, device="cpu", n_jobs=n_jobs)
        own = space, both, self._column_start, assigned
        on_anchors = meanwhile(functools.partial(OnAnchors, *own, for_gpu=self._request.wants_gpu))
        if self._short is None:
            self._directions = self._directions if directions is None else directions()
            self._short = coordinates_of(both, n_jobs, self._directions)
        return View(space, both, self._short, self._column_start, n_jobs=n_jobs, on_anchors=on_anchors()), assigned

    def _axes(self, features: Features) -> Float | None:
        return None if self._directions is None else self._directions.columns


# ------------------------------------------------------------------------------------------------ every other distance


class CoarseAttempts(Attempts[Coarse]):
    """Estimates of other orders and norms, and of unmatched mass: exact transport between fewer points."""

    def __init__(self, request: Request, space: AnchorSpace | None) -> None:
        super().__init__(request, space)
        self.histograms = sparse_histograms(request.both)
        self.ground: Ground | None = None  # of a metric with a kernel
        metric = request.distance.metric
        if not callable(metric) and metric in KERNELS:
            self.ground = prepare_metric(self.histograms.points, metric, request.distance.metric_params)
        self.why_exact = self._why_exact()

    def _why_exact(self) -> str | None:
        distance = self._request.distance
        if self.ground is None or self.ground.code not in NORM_NAMES:
            name = getattr(distance.metric, "__name__", distance.metric)
            return f"estimates need a metric that is a norm, and {name!r} is not known as one"
        if distance.unmatched is None or (isinstance(distance.unmatched, str) and distance.unmatched == "diagonal"):
            return None
        if distance.constant is None:
            return "estimates need prices of unmatched mass that are known everywhere: a number or 'diagonal'"
        half = 0.5 * self.ground.span
        if distance.constant < half:
            return f"estimates need a price of unmatched mass of at least half of what all points span ({half:.6g})"
        return None

    def exact_solver(self) -> Solver:
        return self._solver(self._request.column_start)

    def _solver(self, column_start: int) -> Solver:
        own = self._request
        return exact_solver(
            own.both, own.distance, column_start, self._resources.budget, histograms=self.histograms
        )  # fmt: skip

    def exact_pairs(self, rows: Indices, columns: Indices) -> Float:
        n = len(self._request.both)
        listed = ListedPairs(np.stack([rows, columns], axis=1), n, n, symmetric=True)
        return solve_exactly(listed, self._solver(0), self._resources)

    def on_places(
        self, space: AnchorSpace, *, learned_at: int | None = None, on_anchors: bool = False, axes: Float | None = None
    ) -> Coarse:
        """The collection on few places.

        ``learned_at`` tells that the space is made for points as the metric sees them, divided by that power of two.
        """
        own = self.ground
        assert own is not None
        seen = self.histograms.points if learned_at is None else np.ldexp(own.points, own.exponent - learned_at)
        cell, _ = space.assign(seen)
        places = np.ldexp(space.anchors, -own.exponent) if on_anchors else None
        return Coarse(
            self.histograms, self._request.both.totals, own, self._request.distance,
            Cells(cell, space.n_anchors, places), self._request.column_start, self._resources.budget, axes,
        )  # fmt: skip

    def _axes(self, features: Features) -> Float | None:
        assert isinstance(features, Coarse)
        return features.axes

    def _features(self, views: list[Coarse], with_bounds: bool, *, sampling: bool = False) -> Coarse:
        return views[0]

    def _made_view(self, n_anchors: int | None, seed: int, with_bounds: bool) -> SpaceView[Coarse]:
        if self._space is not None:
            return SpaceView(self._space, self.on_places(self._space.proven))
        h, own = self.histograms, self.ground
        assert n_anchors is not None
        assert own is not None
        seen = trusted(own.points[h.index], h.offsets, h.masses, self._request.both.totals)
        space = self._learned_space(seen, n_anchors, seed)
        return SpaceView(space, self.on_places(space, learned_at=own.exponent))

    def _view(self, n_anchors: int | None, seed: int, with_bounds: bool) -> SpaceView[Coarse]:
        return super()._view(n_anchors, seed, False)  # its features always have bounds
