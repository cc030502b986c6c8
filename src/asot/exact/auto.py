"""Which exact solver of points takes what: the one place that decides it, and the only one that makes them.

===============================================================================  =====================================
Of points in any dimension                                                       Solver
===============================================================================  =====================================
a line, a norm, all mass matched                                                 `OneDimension`: sorting
W_1, Hamming distance of labels that nest, all mass matched                      `NestedLabels`: a sum
W_1, a norm, one or two points against many                                      `ExactOneOrTwo`: a sum, a split
W_1, a metric with a kernel, all mass matched:
… up to five points each, from 2,048 pairs on                                    `SmallClouds`: every matching
… Euclidean, long points, distances that are used several times                  `ExactPoints` with a table
… anything else                                                                  `ExactPoints`: the simplex
… the same on a GPU, most distributions up to 2,048 points                       `ExactPointsCuda`; large ones as above
any other order, cost or price of unmatched mass                                 `ExactAnyCost`: the simplex
… the same on a GPU, most distributions up to 2,048 points                       `ExactAnyCostCuda`; large ones as above
===============================================================================  =====================================

A few small pairs of an ordinary call take the fast lane (`asot.exact.few_pairs`): the same kernels, with nothing around
them. What each solver costs is in `asot.exact.price`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Indices
from asot.data.distinct import SparseHistograms, distinct_rows, sparse_histograms
from asot.data.distributions import Distributions
from asot.exact import small_clouds
from asot.exact.any_cost import ExactAnyCost
from asot.exact.cuda.any_cost import ExactAnyCostCuda
from asot.exact.cuda.points import ExactPointsCuda, Kernels, Limits
from asot.exact.cuda.points_plan import MOST_POINTS
from asot.exact.distance_table import LARGEST, LONG, distance_table
from asot.exact.nested_labels import NestedLabels, nested_codes
from asot.exact.one_dimension import OneDimension
from asot.exact.one_or_two import ExactOneOrTwo, few_are_columns
from asot.exact.points import ExactPoints
from asot.exact.price import Split, any_cost_seconds, best_split, call_seconds, saved_by_table, threads_seconds
from asot.exact.small_clouds import SmallClouds
from asot.exact.unmatched import Unmatched, read_unmatched
from asot.ground.costs import ARC, GroundCost, prepare_cost
from asot.ground.metrics import EUCLIDEAN, ON_GPUS, Ground, prepare_metric
from asot.request import Distance, Request
from asot.run import devices, gpu_engine
from asot.run.engine import Resources, Work
from asot.run.executors import in_ranges, kept_threads
from asot.run.pairs import ListedPairs, PairSet
from asot.run.protocols import DeviceSolver, Notes, Solver

MANY_PAIRS = 2048
"""From here on, small clouds have a solver of their own. Fewer pairs are over sooner than it is prepared, and have the
same bits as `few_pairs`."""

A_SUM = "a sum takes no GPU"

FAR_APART = 1e-138
"""Share of the largest coordinate below which squares of differences may vanish, if all points have one unit."""

TOO_FAR_APART = "some coordinates are more than 1e138 times as large as others, so that pairs need units of their own"


# ------------------------------------------------------------------------------------------------ on the CPU


def exact_solver(
    pooled: Distributions,
    distance: Distance,
    column_start: int,
    memory: int,
    *,
    histograms: SparseHistograms | None = None,
    n_pairs: int = 0,
    n_jobs: int = 1,
) -> Solver:
    """The solver of a collection. ``histograms``: the collection over its distinct points, if already known.

    ``n_pairs`` decides whether distances come from a table, which so many threads make.
    """
    if distance.is_sorted(pooled.dim):
        return line_solver(pooled, distance, column_start)
    histograms = sparse_histograms(pooled) if histograms is None else histograms
    codes = _codes(histograms, distance)
    if codes is not None:
        return NestedLabels(histograms, codes, column_start)
    if distance.has_kernel:
        ground = prepare_metric(histograms.points, str(distance.metric), distance.metric_params)
        return points_solver(histograms, ground, column_start, n_pairs, n_jobs)
    return _any_cost_solver(pooled, distance, column_start, memory, histograms, n_pairs, n_jobs)


def _any_cost_solver(
    pooled: Distributions,
    distance: Distance,
    column_start: int,
    memory: int,
    histograms: SparseHistograms,
    n_pairs: int = 0,
    n_jobs: int = 1,
) -> ExactAnyCost:
    cost = prepare_cost(histograms.points, distance.metric, distance.metric_params, memory)
    prices = None if distance.unmatched is None else read_prices(distance.unmatched, pooled, cost)
    fits = not cost.has_table and cost.transform != ARC and table_pays(cost.ground, histograms, n_pairs)
    table = distance_table(cost.ground, cost.transform, n_jobs) if fits else None
    return ExactAnyCost(histograms, cost, distance.p, prices, column_start, table)


def table_pays(ground: Ground, histograms: SparseHistograms, n_pairs: int) -> bool:
    """Whether so many pairs are worth a table of all distances between long points (`asot.exact.distance_table`)."""
    n, d = ground.points.shape
    if n > LARGEST or ground.code != EUCLIDEAN or d < LONG:
        return False
    mean = len(histograms.index) / (len(histograms.offsets) - 1)
    return saved_by_table(n, d, n_pairs, mean) > 0


def points_solver(
    histograms: SparseHistograms,
    ground: Ground,
    column_start: int,
    n_pairs: int,
    n_jobs: int = 1,
    named: Indices | None = None,
) -> Solver:
    """The solver of W_1 under a metric with a kernel. ``named``: the distributions of all pairs, if they are few."""
    if n_pairs >= MANY_PAIRS and are_small_clouds(histograms, ground):
        return SmallClouds(histograms, ground, column_start)
    table = distance_table(ground, n_jobs=n_jobs) if table_pays(ground, histograms, n_pairs) else None
    return ExactPoints(histograms, ground, column_start, table, named)


def are_small_clouds(histograms: SparseHistograms, ground: Ground) -> bool:
    """Whether `SmallClouds` solves the pairs of a collection."""
    n = len(histograms.offsets) - 1
    size = len(histograms.index) // n
    if size > small_clouds.MOST_POINTS or ground.code not in small_clouds.CODES or ground.points.shape[1] >= LONG:
        return False
    if abs(ground.exponent) > 800 or not np.array_equal(histograms.offsets, size * np.arange(n + 1)):
        return False
    return size == 2 or bool(histograms.masses.min() == histograms.masses.max())


def simplex_of_points(histograms: SparseHistograms, ground: Ground, column_start: int = 0) -> ExactPoints:
    """The simplex, where its potentials are wanted, or where answers must not depend on the number of pairs."""
    return ExactPoints(histograms, ground, column_start)


def euclidean_solver(D: Distributions, column_start: int = 0) -> Solver:
    """The solver of the Euclidean W_1 of a collection, for few of its pairs, whichever they are."""
    histograms = sparse_histograms(D)
    return points_solver(histograms, prepare_metric(histograms.points, "euclidean"), column_start, n_pairs=0)


def read_prices(unmatched: Any, pooled: Distributions, cost: GroundCost) -> Unmatched:
    """``unmatched=`` of a call, for the distinct points of a collection."""
    index: NDArray[np.int64] = np.full(len(pooled.masses), -1)
    held = pooled.masses > 0
    index[held] = distinct_rows(pooled.points[held])[1]
    return read_unmatched(unmatched, pooled, index, cost)


def line_solver(pooled: Distributions, distance: Distance, column_start: int) -> OneDimension:
    """The solver of a collection on a line."""
    if distance.metric_params is not None:
        prepare_metric(pooled.points[:1], str(distance.metric), distance.metric_params)  # refuses what means nothing
    return OneDimension(
        pooled.points,
        pooled.offsets,
        pooled.masses,
        p=distance.p,
        column_start=column_start,
        metric=str(distance.metric),
    )


def _codes(histograms: SparseHistograms, distance: Distance) -> list[Indices] | None:
    """Labels of every column, if they nest and the distance is a sum over them."""
    if not distance.has_kernel or distance.metric != "hamming":
        return None
    codes = nested_codes(histograms.points)
    if codes is not None:
        prepare_metric(histograms.points, "hamming", distance.metric_params)  # refuses what means nothing
    return codes


# ------------------------------------------------------------------------------------------------ where it suits


def exact_work(request: Request, notes: Notes) -> Work:
    """The pairs of a request with the solver that suits them, on the device that suits them."""
    distance, device, pooled = request.distance, request.device, request.both
    start, wants_gpu = request.column_start, request.wants_gpu
    if not distance.has_kernel or (distance.is_sorted(pooled.dim) and not wants_gpu):
        return _other_work(request, notes)
    notes = replace(notes, info={"p": 1, **notes.info})
    lopsided = None if wants_gpu else _one_or_two(request)
    if lopsided is not None:
        return Work(request.pairs, lopsided, None, devices.on_cpu(device, A_SUM), notes)
    jobs = request.resources.jobs
    with kept_threads(jobs):
        histograms = sparse_histograms(pooled, in_ranges(jobs))
    codes = None if wants_gpu else _codes(histograms, distance)
    if codes is not None:
        tree = functools.partial(NestedLabels, histograms, codes, start)
        return Work(request.pairs, tree, None, devices.on_cpu(device, A_SUM), notes)
    ground = prepare_metric(histograms.points, str(distance.metric), distance.metric_params)
    return points_work(request.pairs, histograms, ground, start, device, request.resources, notes)


def _other_work(request: Request, notes: Notes) -> Work:
    """Other orders, costs and unmatched mass; and sorting, which takes no GPU unless it is named."""
    distance, resources, pooled = request.distance, request.resources, request.both
    make = functools.partial(
        exact_solver,
        pooled,
        distance,
        request.column_start,
        resources.budget,
        n_pairs=len(request.pairs),
        n_jobs=resources.jobs,
    )
    notes = replace(notes, info={**notes.info, **distance.info})
    if distance.is_sorted(pooled.dim) and not request.wants_gpu:
        return Work(request.pairs, make, None, on_cpu(distance, pooled.dim, request.device), notes)
    size = len(pooled.masses) / len(pooled)
    one_thread = len(request.pairs) * any_cost_seconds(2.0 * size, pooled.dim)
    choice = devices.choose(
        request.device,
        cpu_seconds=threads_seconds(one_thread, resources.jobs),
        gpu_seconds=call_seconds(size),
    )
    choice = of_one_scale(choice, pooled.points, request.device)
    on_gpu = functools.partial(_any_cost_of, request) if choice.gpus else None
    return Work(request.pairs, make, on_gpu, choice, notes)


def _any_cost_of(request: Request) -> DeviceSolver:
    both, own = request.both, request.resources
    solver = _any_cost_solver(both, request.distance, request.column_start, own.budget, sparse_histograms(both))
    return any_cost_on_gpu(solver, own)


def any_cost_on_gpu(solver: ExactAnyCost, resources: Resources) -> DeviceSolver:
    """The same solver for GPUs."""
    return ExactAnyCostCuda(solver, memory=_working_memory(resources), n_jobs=resources.jobs)


def _working_memory(resources: Resources) -> int | None:
    """What the kernels of a tile on a GPU may work in, if the caller limits it."""
    return None if resources.memory is None else resources.budget // (2 * gpu_engine.IN_FLIGHT)


def _one_or_two(request: Request) -> Callable[[], ExactOneOrTwo] | None:
    """What makes the solver of one or two points against many, if that is what a request with a kernel asks for."""
    D, E, distance = request.D, request.E, request.distance
    if E is None or distance.p != 1 or distance.unmatched is not None or distance.metric_params is not None:
        return None
    turned = few_are_columns(D, E, distance.metric)
    return None if turned is None else functools.partial(ExactOneOrTwo, D, E, str(distance.metric), turned)


def lopsided_solver(D: Distributions, E: Distributions, metric: str, few_are_columns: bool) -> ExactOneOrTwo:
    """The solver of one or two points against many."""
    return ExactOneOrTwo(D, E, metric, few_are_columns)


def points_work(
    pairs: PairSet,
    histograms: SparseHistograms,
    ground: Ground,
    column_start: int,
    device: str,
    resources: Resources,
    notes: Notes,
) -> Work:
    """W_1 under a metric with a kernel, on the CPU, or on GPUs if there are any and the job is large enough.

    Columns of ``pairs`` are counted from distribution ``column_start`` on.
    """
    named = _named(pairs, column_start, len(histograms.offsets) - 1)
    many = functools.partial(points_solver, histograms, ground, column_start, len(pairs), resources.jobs, named)
    if device == "cpu":  # prices take as long as a few pairs
        return Work(pairs, many, None, devices.on_cpu(device, "asked for"), notes)
    sizes = np.diff(histograms.offsets)
    ends = sizes[: pairs.n_rows], sizes[column_start : column_start + pairs.n_columns]
    choice, split = place_of_points(*ends, len(pairs), ground, device, resources.jobs)
    if not choice.gpus:
        return Work(pairs, many, None, choice, notes)
    on_gpu = functools.partial(
        gpu_solver,
        histograms,
        ground,
        column_start,
        resources,
        len(pairs),
        most_points=MOST_POINTS if choice.required else split.most_points,
    )
    simplex = functools.partial(ExactPoints, histograms, ground, column_start)
    return Work(pairs, simplex, on_gpu, choice, notes)


def _named(pairs: PairSet, column_start: int, n: int) -> Indices | None:
    """The distributions that listed pairs name, if they are fewer than half of all n."""
    if not isinstance(pairs, ListedPairs) or 4 * len(pairs) > n:
        return None
    rows, columns = pairs.indices(0, len(pairs))
    return np.concatenate([rows, columns + column_start])


def gpu_solver(
    histograms: SparseHistograms,
    ground: Ground,
    column_start: int,
    resources: Resources,
    n_pairs: int,
    *,
    limits: Limits | None = None,
    most_points: int = MOST_POINTS,
) -> ExactPointsCuda:
    """The solver of W_1 for GPUs; a search has ``limits`` above which it needs no distance.

    Pairs of more than ``most_points`` are left to the CPU.
    """
    table_bytes = None if resources.memory is None else resources.budget // 2
    kernels = Kernels(_working_memory(resources), table_bytes, most_points)
    return ExactPointsCuda(
        histograms, ground, column_start, n_pairs=n_pairs, n_jobs=resources.jobs, limits=limits, kernels=kernels
    )


def place_of_points(
    rows: Indices, columns: Indices, n_pairs: int, ground: Ground, device: str, jobs: int
) -> tuple[devices.Choice, Split]:
    """Where pairs of W_1 under a metric with a kernel are solved, and how long that takes.

    ``rows`` (N,) and ``columns`` (M,) are points of the distributions on both sides.
    """
    split = best_split(rows, columns, n_pairs, ground.points.shape[1], jobs, MOST_POINTS)
    unfit = None
    if ground.code not in ON_GPUS:
        unfit = f"the metric {ground.name!r} has no GPU kernel"
    elif devices.parse(device)[0] != "cuda" and float(np.median(np.concatenate([rows, columns]))) > MOST_POINTS:
        unfit = f"most distributions have more than {MOST_POINTS} points, and a GPU leaves these to the CPU"
    gpu_seconds = 0.0 if unfit else split.gpu  # the reason that is told is the true one
    choice = devices.choose(device, unfit=unfit, cpu_seconds=split.cpu, gpu_seconds=gpu_seconds)
    return of_one_scale(choice, ground.points, device), split


def of_one_scale(choice: devices.Choice, points: NDArray[Any], device: str) -> devices.Choice:
    """The CPU instead, where some coordinates are next to nothing beside others: GPUs measure all pairs in one unit, in
    which near points would be at distance 0."""
    if not choice.gpus or not are_far_apart(points):
        return choice
    return devices.choose(device, unfit=TOO_FAR_APART, cpu_seconds=np.inf)


def are_far_apart(points: NDArray[Any]) -> bool:
    """Whether some coordinates other than 0 are that small beside the largest one."""

    def sizes() -> Iterator[NDArray[Any]]:
        return (np.abs(points[start : start + 4096]) for start in range(0, len(points), 4096))

    least = max((float(block.max(initial=0.0)) for block in sizes()), default=0.0) * FAR_APART
    return any(bool(((block > 0) & (block < least)).any()) for block in sizes())


def on_cpu(distance: Distance, dim: int, device: str) -> devices.Choice:
    """The CPU, and why."""
    return devices.on_cpu(device, "sorting takes no GPU" if distance.is_sorted(dim) else "too little work for a GPU")
