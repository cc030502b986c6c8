"""What each method costs, estimated by counting operations (an exact solve: `asot.exact.price`).

Prices are seconds on one reference core, computed from numbers that can be counted before anything is solved: points
left after common mass is canceled, coordinates in use, anchors, pairs. The constants were measured once (``python -m
benchmarks strategy`` measures them again and shows both). A choice based on these prices is the same on every run and
on every machine of a kind; one based on measured time would not be.

They also say where estimates are made (`estimates_work`).
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from asot._typing import Indices, Info
from asot.bounds.error_bars import MOST_POINTS_PER_ANCHOR
from asot.bounds.guarantee import Guaranteed
from asot.choose.on_gpus import finished_on_host, on_places
from asot.data.distinct import left_to_ship, sparse_histograms
from asot.data.distributions import Distributions
from asot.estimate.attempts import AnchorAttempts, CoarseAttempts, learned_from
from asot.estimate.calibration import Calibration, Estimates
from asot.estimate.coarse import Coarse
from asot.estimate.cuda import EstimatesCuda, FeaturesCuda
from asot.estimate.exact_sample import CANDIDATES
from asot.estimate.pair_features import Features, PairFeatures
from asot.exact.auto import place_of_points
from asot.exact.price import MICRO, line_seconds, pair_seconds
from asot.ground.metrics import Ground, prepare_metric
from asot.request import Request
from asot.run import devices, gpu_engine
from asot.run.engine import Ready, Work
from asot.run.pairs import PairSet, at_places
from asot.run.protocols import Notes, Solver

AROUND_A_PAIR = 2.0 * MICRO
"""What a run costs for each pair beside its solve."""

GPU_ESTIMATE_FACTOR, GPU_BOUNDS_FACTOR = 650.0, 100.0
"""How many cores one GPU replaces on anchor problems with the cheap features of their pairs, and on bounds by points
(on the original problems: `asot.exact.price.best_split`)."""

GPU_CALL_SECONDS = 0.02
"""What estimates on a GPU cost beside that: copies, launches, and the answers' way back."""

NUMBERS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Numbers of anchors that are considered."""

PLACES, FIRST_PLACES = (16, 32, 64, 128, 256, 512), 32
"""Numbers of places for other distances, and the one that is tried first."""

TRIAL_SECONDS = 0.01
"""What a trial costs in addition to counted work."""

SAMPLED_PAIRS = 48
"""Pairs whose points are counted."""


@dataclass(frozen=True)
class Load:
    """What is to be solved, counted on a sample of pairs."""

    n_pairs: int
    n_points: int
    dim: int
    size: float  # mean number of points of a distribution
    exact_pair: float  # seconds of one exact solve
    points_pair: float  # seconds of bounds that look at every pair of points

    @property
    def exact(self) -> float:
        """Seconds for all pairs, solved exactly."""
        return self.n_pairs * self.exact_pair + self.distinct

    @property
    def distinct(self) -> float:
        """Seconds to find the distinct points."""
        return self.n_points * MICRO * (0.3 + 0.02 * self.dim)


def count_load(D: Distributions, E: Distributions | None, pairs: PairSet) -> Load:
    """Look at some pairs, spread evenly over their order."""
    both = D if E is None else D + E
    n_points, size = len(both.points), float(both.sizes.mean())
    if len(pairs) == 0:
        return Load(0, n_points, both.dim, size, 0.0, 0.0)
    places = np.unique(np.linspace(0, len(pairs) - 1, min(SAMPLED_PAIRS, len(pairs))).astype(np.int64))
    rows, columns = at_places(pairs, places).indices(0, len(places))
    columns = columns + (0 if E is None else len(D))
    named, index = np.unique(np.stack([rows, columns]), return_inverse=True)
    histograms = sparse_histograms(both[named])
    first, second = index.reshape(2, -1)
    p, q, width = left_to_ship(histograms, first, second).T.astype(float)
    exact = line_seconds(p, q) if both.dim == 1 else pair_seconds(p, q, width) + AROUND_A_PAIR
    bounds = 1.2 + 0.045 * (p + q) + p * q * (9e-4 + 1e-4 * width)
    return Load(len(pairs), n_points, both.dim, size, float(exact.mean()), MICRO * float(bounds.mean()))


def anchor_pair(k: int, load: Load) -> float:
    """Seconds for one pair with its cheap features in one space of k anchors."""
    nodes, width = (k**-2 + max(load.size, 1) ** -2) ** -0.5, min(load.dim, 16)  # fewer than k, and than points
    return MICRO * (0.3 + 0.025 * k + 0.08 * nodes + nodes**2 * (0.002 + 2e-5 * (4 + width)))


def bounds_pair(k: int, level: str, load: Load) -> float:
    """Seconds for the bounds of one pair; "auto" means what it means in `asot.bounds.error_bars.make_bounds`."""
    if level == "points" or (level == "auto" and load.size <= MOST_POINTS_PER_ANCHOR * k):
        return load.points_pair + MICRO * 0.02 * k
    return MICRO * (0.2 if level == "radius" else load.size * k * (0.002 + 2e-4 * min(load.dim, 32)))


def space_seconds(k: int, load: Load) -> float:
    """Seconds to learn a space of k anchors and to encode the collection in it."""
    m = learned_from(k, load.n_points)
    learn = 0.005 + m * k * (8e-8 + 1.2e-9 * load.dim)
    encode = load.n_points * (k * (4e-9 + 3e-10 * load.dim) + MICRO * (0.3 + 0.02 * min(load.dim, 16)))
    return learn + encode


# ------------------------------------------------------------------------------------------------ of a strategy


class Prices(ABC):
    """What may be tried for one request, and what that costs in seconds of one core."""

    numbers: tuple[int, ...]
    """Numbers of anchors that are considered."""
    spaces: tuple[int, ...] = (1, 2, 4)
    """Numbers of spaces."""
    looks: tuple[bool, ...] = (False, True)
    """Without and with bounds as features."""
    n_pairs: int
    exact_pair: float
    """Of one exact solve, on the CPU."""
    exact: float
    """Of all pairs, solved exactly, where they would be."""

    def first_of(self, numbers: tuple[int, ...]) -> int | None:
        """The number of anchors that is tried first; None: whichever is predicted to be good enough."""
        return None

    @abstractmethod
    def on_cpu(self, k: int, n_spaces: int, bounds: bool) -> float:
        """Of estimates of all pairs, on the CPU."""

    def estimates(self, k: int, n_spaces: int, bounds: bool) -> float:
        """Of estimates of all pairs, where they would be made."""
        return self.on_cpu(k, n_spaces, bounds)

    @abstractmethod
    def trial(self, k: int, missing: int, n_exact: int) -> float:
        """Of a trial with k anchors: of spaces that are missing, and of exact pairs that are yet to be drawn."""


@dataclass(frozen=True)
class Place:
    """What GPUs would do of a call, beside ``jobs`` cores: a second of theirs costs what these could do meanwhile."""

    jobs: int = 1
    exact: float | None = None
    """Seconds in which they would solve all pairs exactly; None: the CPU would."""
    estimates_from: float = np.inf
    """They would estimate, where the cores would take at least this many seconds."""


ON_CPU = Place()


class AnchorPrices(Prices):
    """Of the Euclidean W_1 on anchors. ``level``: which bounds are wanted in addition to the values, or None."""

    def __init__(self, load: Load, *, level: str | None = None, place: Place = ON_CPU) -> None:
        self._load, self._level, self._place = load, level, place
        self.n_pairs, self.exact_pair = load.n_pairs, load.exact_pair
        self.exact = load.exact if place.exact is None else place.jobs * place.exact + load.distinct
        most = max(NUMBERS[0], min(NUMBERS[-1], load.n_points // 4))
        self.numbers = tuple(k for k in NUMBERS if k <= most)
        if level is not None:
            self.looks = (True,)

    def _parts(self, k: int, n_spaces: int, bounds: bool) -> tuple[float, float]:
        """Of features and of bounds, on the CPU."""
        all_pairs = n_spaces * self.n_pairs
        bounded = all_pairs * bounds_pair(k, self._level or "points", self._load) if bounds else 0.0
        return all_pairs * anchor_pair(k, self._load), bounded

    def on_cpu(self, k: int, n_spaces: int, bounds: bool) -> float:
        return sum(self._parts(k, n_spaces, bounds))

    def estimates(self, k: int, n_spaces: int, bounds: bool) -> float:
        features, bounded = self._parts(k, n_spaces, bounds)
        place = self._place
        if (features + bounded) / place.jobs < place.estimates_from:
            return features + bounded
        return place.jobs * (features / GPU_ESTIMATE_FACTOR + GPU_CALL_SECONDS + bounded / GPU_BOUNDS_FACTOR)

    def trial(self, k: int, missing: int, n_exact: int) -> float:
        seconds = TRIAL_SECONDS + missing * space_seconds(k, self._load)
        if n_exact:
            looked_at = min(self.n_pairs, CANDIDATES) * anchor_pair(k, self._load)
            seconds += looked_at + n_exact * self.exact_pair
        return seconds


class CoarsePrices(Prices):
    """Of other distances through few places: smaller problems of the same kind, and learning the places.

    ``size`` is the mean number of points of a distribution, ``n_points`` that of distinct ones.
    """

    spaces = (1,)
    looks = (True,)

    def __init__(self, n_pairs: int, exact_pair: float, size: float, n_points: int, place: Place = ON_CPU) -> None:
        self.n_pairs, self.exact_pair, self.exact = n_pairs, exact_pair, n_pairs * exact_pair
        if place.exact is not None:
            self.exact = place.jobs * place.exact
        self._size, self._n_points = size, n_points
        self.numbers = tuple(k for k in PLACES if 2 * k <= size)

    def first_of(self, numbers: tuple[int, ...]) -> int | None:
        return FIRST_PLACES if FIRST_PLACES in numbers else max(numbers, default=None)

    def on_cpu(self, k: int, n_spaces: int, bounds: bool) -> float:
        share = min(1.0, k / self._size)
        return self.n_pairs * (1e-5 + self.exact_pair * share**2) + self._n_points * k * 1e-8 + 0.05

    def trial(self, k: int, missing: int, n_exact: int) -> float:
        if n_exact:
            return n_exact * self.exact_pair
        return (0.1 + min(1.0, CANDIDATES / max(self.n_pairs, 1))) * self.estimates(k, 1, True)


def prices_of(request: Request, attempts: AnchorAttempts | CoarseAttempts, *, on_gpu: bool = True) -> Prices:
    """What may be tried for a request; ``on_gpu``: GPUs are considered."""
    jobs = request.resources.jobs
    if isinstance(attempts, CoarseAttempts):
        h = attempts.histograms
        sizes, exact_pair = np.diff(h.offsets), attempts.exact_solver().expected_seconds(1000) / 1000
        ground = attempts.ground if on_gpu else None
        exact = None if ground is None else _exact_on_gpu(request, sizes, ground)
        return CoarsePrices(len(request.pairs), exact_pair, float(sizes.mean()), len(h.points), Place(jobs, exact))
    load, place = count_load(request.D, request.E, request.pairs), Place(jobs)
    if on_gpu:
        exact = _exact_on_gpu(request, request.both.sizes, prepare_metric(request.both.points[:1], "euclidean"))
        fit = not attempts.is_soft and request.max_error is None
        worth = fit and devices.choose(request.device, cpu_seconds=load.exact / jobs).gpus
        place = Place(jobs, exact, devices.worth_from(request.device) if worth else np.inf)
    return AnchorPrices(load, level=request.level, place=place)


def _exact_on_gpu(request: Request, sizes: Indices, ground: Ground) -> float | None:
    """Seconds in which GPUs would solve the pairs exactly; None if the CPU would. ``sizes`` are those of all."""
    distance, D = request.distance, request.D
    if not distance.has_kernel or (distance.is_sorted(D.dim) and not request.wants_gpu):
        return None
    ends = sizes[: len(D)], sizes[request.column_start :]
    choice, split = place_of_points(*ends, len(request.pairs), ground, request.device, request.resources.jobs)
    return split.gpu if choice.gpus else None


# ------------------------------------------------------------------------------------------------ where they are made


def place_of(request: Request, price: float, features: PairFeatures) -> devices.Choice:
    """Where estimates are made."""
    seconds = price / request.resources.jobs
    unfit = features.only_on_cpu
    if request.max_error is not None and not request.wants_gpu:
        unfit = "max_error is met on the CPU, or by exact solves on a GPU"
    return devices.choose(request.device, cpu_seconds=seconds, unfit=unfit)


def scratch(request: Request) -> int:
    """Bytes for distances of a tile on a GPU that do not fit into its shared memory."""
    return request.resources.budget // (2 * gpu_engine.IN_FLIGHT)


def estimates_work(
    request: Request,
    features: Features,
    calibration: Calibration,
    exact: Callable[[], Solver],
    seconds: float,
    info: Info,
    begun: FeaturesCuda | None = None,
) -> Work:
    """Estimates of all pairs of a request, on the device that suits them; ``exact`` makes a solver for `max_error`."""
    estimates = Estimates(features, calibration, give_bounds=request.level is not None)
    solver: Solver = estimates
    if request.max_error is not None:
        solver = Guaranteed(estimates, exact(), request.max_error)
    info = {**info, "estimate": "calibrated"}
    work = Work(request.pairs, Ready(solver), notes=Notes(info, started=request.started))
    if isinstance(features, PairFeatures):
        place = place_of(request, seconds, features)
        on_gpu = functools.partial(
            EstimatesCuda, estimates, memory=scratch(request), n_jobs=request.resources.jobs, measuring=begun
        )
        work = replace(work, gpu=on_gpu, choice=place)
        if isinstance(solver, Guaranteed) and place.gpus:
            work = finished_on_host(work, on_gpu, solver, request, lambda found, rows, columns: found)
    elif isinstance(features, Coarse) and request.wants_gpu:
        work = on_places(work, solver, request, features, estimates.of)
    return work
