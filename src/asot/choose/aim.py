"""Distances with the requested accuracy: a strategy is chosen, or taken from an earlier call, and carried out."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from asot._typing import Float, Info
from asot.anchors.space import AnchorSpace
from asot.bounds.error_bars import check_proven, warn_far_from_anchors
from asot.bounds.guarantee import Guaranteed
from asot.choose.attempts import AnchorAttempts, Attempt, CoarseAttempts, attempts_for
from asot.choose.strategy import Choice, Planner, Strategy
from asot.estimate.calibration import EXACT_ERROR, EXACT_PAIRS
from asot.estimate.cuda import EstimatesCuda, FeaturesCuda, why_not_on_gpus
from asot.estimate.pair_features import Features, PairFeatures
from asot.estimate.solver import Estimates
from asot.exact.auto import exact_work
from asot.request.accuracy import Accuracy
from asot.request.request import Request
from asot.results.distances import Distances, Neighbors
from asot.results.sinks import default_sink
from asot.run import devices, gpu_engine
from asot.run.executors import kept_threads, one_thread_per_product
from asot.run.protocols import Notes, Solver, Status, as_sink
from asot.run.work import Ready, Work, solve_work


@dataclass(frozen=True)
class Goal:
    """What values should be like, and what the user has decided about it."""

    aim: Accuracy | None
    """The error to meet on the average; None accepts any."""
    seed: int
    space: AnchorSpace | None = None
    n_anchors: int | None = None
    strategy: Strategy | None = None
    """A strategy that was chosen before, or that was named."""
    asked_by: str = "error"


def solve_to_aim(request: Request, goal: Goal) -> Any:
    """What the sink makes of distances that meet the aim; ``info["strategy"]`` says how."""
    if goal.space is not None:
        wanted_by = goal.asked_by if request.level is None else "bounds=True"
        check_proven(goal.space, wanted_by if request.max_error is None else "max_error")
    with one_thread_per_product(), kept_threads(request.resources.jobs):
        began = time.perf_counter()
        attempts = attempts_for(request, goal.space)
        _refuse_estimates(request, goal, attempts.why_exact)
        choice = (
            _take(request, goal.strategy, attempts) if goal.strategy is not None else _choose(request, goal, attempts)
        )
        record = {**choice.record(), **_measured(choice.trial)}
        trial = choice.trial
        planning = time.perf_counter() - began - (0.0 if trial is None else trial.seconds)
        info = {"metric": "euclidean", "p": 1} if request.distance.is_plain else request.distance.info
        info = {**info, "strategy": record}
        if trial is None:
            result = _solve_all(request, info)
        else:
            result = _estimated(request, choice, trial, attempts, goal.space, info)
    return _timed(result, record, planning)


def calibrated(request: Request, space: AnchorSpace, seed: int) -> Any:
    """Distances in one space, corrected by a fit to 64 exact pairs, whatever error remains."""
    with_bounds = request.level is not None or not request.distance.is_plain
    way = Strategy(
        "calibrated", space.n_anchors, bounds=with_bounds, n_exact=EXACT_PAIRS, seed=seed, given_space=True
    )  # fmt: skip
    goal = Goal(None, seed, space, strategy=way, asked_by="estimate='calibrated'")
    return solve_to_aim(request, goal)


def _refuse_estimates(request: Request, goal: Goal, why_exact: str | None) -> None:
    """Where somebody insists on estimates of a distance that has none, or not on this device."""
    insists = goal.strategy is not None and goal.strategy.kind != "exact"
    if request.distance.is_plain:
        return
    if why_exact is not None and (goal.space is not None or insists):
        raise ValueError(f"{why_exact}; leave out estimate, space and strategy, or use pairwise_exact")
    if insists and devices.parse(request.device)[0] == "cuda":
        raise ValueError(
            f"device={str(request.device)!r} has no estimates for p > 1, other metrics or unmatched mass; "
            "use device='auto' or 'cpu'"
        )


# ------------------------------------------------------------------------------------------------ choosing


def _choose(request: Request, goal: Goal, attempts: AnchorAttempts | CoarseAttempts) -> Choice[Attempt]:
    prices = attempts.prices()
    why = attempts.why_exact or _nothing_to_estimate(request, prices.exact)
    if why is not None:
        return Choice(Strategy("exact"), f"exact solves: {why}", goal.aim, prices.exact)
    space = goal.space
    planner = Planner(
        prices,
        goal.aim,
        attempts,
        seed=goal.seed,
        n_anchors=goal.n_anchors if space is None else space.proven.n_anchors,
        given_space=space is not None,
    )
    choice = planner.choose()
    if choice.aim is not None and choice.trial is not None:  # its sample was not a fair one
        choice.trial.calibration.allow_for_choice(choice.aim.allowed(choice.trial.mean))
    return choice


def _nothing_to_estimate(request: Request, exact: float) -> str | None:
    distance = request.distance
    if not distance.is_plain and devices.parse(request.device)[0] == "cuda":
        return f"device={request.device!r} was asked for, and estimates are made on the CPU"
    if len(request.D) + (0 if request.E is None else len(request.E)) < 3 or len(request.pairs) <= EXACT_PAIRS:
        return "so few pairs leave nothing to estimate"
    on_gpus = not distance.is_plain and distance.has_kernel and not distance.is_sorted(request.D.dim)
    if on_gpus and devices.choose(request.device, needs=("cupy",), cpu_seconds=exact).gpus:
        return "a GPU solves them sooner than the CPU estimates them"
    return None


def _take(request: Request, strategy: Strategy, attempts: AnchorAttempts | CoarseAttempts) -> Choice[Attempt]:
    """Carry out a strategy that was chosen before."""
    if strategy.kind == "exact":
        return Choice(strategy, "exact solves, as asked for", None, attempts.prices(on_gpu=False).exact)
    if request.level is not None:
        strategy = replace(strategy, bounds=True)

    @functools.cache
    def price() -> float:
        return Planner(attempts.prices(on_gpu=False), None, attempts, seed=strategy.seed).price(strategy)

    trial = attempts(strategy, functools.partial(_begin, request, price))
    return Choice(trial.strategy, f"{strategy}, as asked for", None, price(), trial=trial)


def _begin(request: Request, price: Callable[[], float], features: Features) -> FeaturesCuda | None:
    """Let GPUs measure pairs while the host solves exact ones and fits, and looks for their price if it can wait."""
    if not isinstance(features, PairFeatures):
        return None
    place = _place(request, np.inf if devices.parse(request.device)[0] == "cuda" else price(), features)
    if not place.gpus or as_sink(default_sink(request.sink)).takes_work:  # a store has tiles of its own
        return None
    measuring = FeaturesCuda(features, memory=_scratch(request), early=True)
    return measuring if gpu_engine.begin(request.pairs, measuring, place, request.resources.memory) else None


def _place(request: Request, price: float, features: PairFeatures) -> devices.Choice:
    """Where estimates are made."""
    seconds = price / request.resources.jobs
    unfit = why_not_on_gpus(features) if request.max_error is None else "max_error is met on the CPU"
    return devices.choose(request.device, needs=("cupy",), cpu_seconds=seconds, unfit=unfit)


def _scratch(request: Request) -> int:
    """Bytes for distances of a tile on a GPU that do not fit into its shared memory."""
    return request.resources.budget // (2 * gpu_engine.IN_FLIGHT)


def _measured(trial: Attempt | None) -> dict[str, Any]:
    """Error and interval of what was chosen, relative to the mean distance and in its units."""
    if trial is None:
        return {"relative_error": 0.0, "error": 0.0, "error_interval": [0.0, 0.0]}
    off = trial.calibration.report.held_out
    return {"relative_error": off.relative, "error": off.rmse, "error_interval": list(off.interval)}


# ------------------------------------------------------------------------------------------------ carrying out


def _timed(result: Any, record: dict[str, Any], planning: float) -> Any:
    """A result whose ``info["strategy"]`` also says what the choice and all the rest took."""
    if isinstance(result, (Distances, Neighbors)):
        took = {"planning_seconds": planning, "seconds": result.info["seconds"]}
        result.info["strategy"] = {**record, **took}
    return result


def _solve_all(request: Request, info: Info) -> Any:
    """Every pair exactly, with its error, and with bounds where they are wanted."""
    info = {**info, "estimate": "exact"}
    if request.max_error is not None:
        info["max_error"] = str(request.max_error)
    work = exact_work(request, Notes(info, started=request.started))
    result: Any = solve_work(work, default_sink(request.sink), request.resources)
    if isinstance(result, Neighbors):
        return replace(result, **_certain(result.distances, request))
    if not isinstance(result, Distances):
        return result
    if request.max_error is not None:
        result.info["n_exact"] = len(result)
    status = np.full(len(result), Status.EXACT, dtype=np.int8)
    return replace(result, status=status, **_certain(result.values, request))


def _certain(values: Float, request: Request) -> dict[str, Any]:
    """Error and bounds of exact values."""
    certain = {"error": EXACT_ERROR * values}
    if request.level is not None:
        certain.update(lower=values.copy(), upper=values.copy())
    return certain


def _estimated(
    request: Request,
    chosen: Choice[Attempt],
    trial: Attempt,
    attempts: AnchorAttempts | CoarseAttempts,
    space: AnchorSpace | None,
    info: Info,
) -> Any:
    features, with_bounds = trial.features, request.level is not None
    if space is not None and request.distance.is_plain:
        warn_far_from_anchors(space.proven, features.radii)
    solver: Solver = Estimates(features, trial.calibration, give_bounds=with_bounds)
    if request.max_error is not None:
        solver = Guaranteed(solver, attempts.exact_solver(), request.max_error)
    info = {**info, "n_anchors": trial.n_anchors, "estimate": "calibrated"}
    work = Work(request.pairs, Ready(solver), notes=Notes(info, started=request.started))
    if isinstance(features, PairFeatures):
        place = _place(request, chosen.predicted_seconds, features)
        if not place.gpus:
            info["device_reason"] = place.reason
        on_gpu = functools.partial(
            EstimatesCuda, features, trial.calibration, give_bounds=with_bounds, memory=_scratch(request),
            n_jobs=request.resources.jobs, measuring=trial.begun,
        )  # fmt: skip
        work = replace(work, gpu=on_gpu, choice=place)
    return solve_work(work, request.bounded_sink, request.resources)
