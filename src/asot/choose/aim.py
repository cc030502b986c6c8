"""Distances with the requested accuracy: a strategy is chosen, or taken from an earlier call, and carried out."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.anchors.space import AnchorSpace
from asot.bounds.error_bars import check_proven, warn_far_from_anchors
from asot.bounds.guarantee import Guaranteed
from asot.choose.attempts import Attempt, Attempts
from asot.choose.prices import Load, count_load
from asot.choose.strategy import NUMBERS, Choice, Planner, Strategy
from asot.estimate.calibration import EXACT_ERROR, EXACT_PAIRS
from asot.estimate.cuda import EstimatesCuda, FeaturesCuda, why_not_on_gpus
from asot.estimate.pair_features import PairFeatures
from asot.estimate.solver import Estimates
from asot.exact.auto import solve_wanted
from asot.request.accuracy import Aim
from asot.request.request import Request
from asot.results.distances import Distances, Neighbors
from asot.run import devices, engine, gpu_engine
from asot.run.executors import kept_threads, one_thread_per_product
from asot.run.protocols import Solver, Status
from asot.run.work import Ready, Work, solve_work
from asot.store.sink import Store
from asot.validation import as_bytes, as_n_jobs

Float = NDArray[np.float64]


def solve_to_aim(
    call: Request,
    aim: Aim | None,
    seed: int,
    *,
    space: AnchorSpace | None = None,
    n_anchors: int | None = None,
    strategy: Strategy | None = None,
    asked_by: str = "error",
) -> Any:
    """What the sink makes of distances that meet the aim; ``info["strategy"]`` says how."""
    if space is not None:
        check_proven(space, asked_by if call.level is None else "bounds=True" if call.accepted is None else "max_error")
    with one_thread_per_product(), kept_threads(as_n_jobs(call.running.n_jobs)):
        began = time.perf_counter()
        choice = _take(call, strategy, space) if strategy is not None else _choose(call, aim, seed, space, n_anchors)
        record = {**choice.record(), **measured(choice)}
        planning = time.perf_counter() - began - (0.0 if choice.trial is None else choice.trial.seconds)
        info = {"metric": "euclidean", "p": 1, "strategy": record, "started": call.started}
        if choice.strategy.kind == "exact":
            result = solve_all(call, info)
        else:
            result = _estimated(call, choice, space, info)
    return timed(result, record, planning)


def calibrated(call: Request, space: AnchorSpace, seed: int) -> Any:
    """Distances in one space, corrected by a fit to 64 exact pairs, whatever error remains."""
    with_bounds = call.level is not None
    way = Strategy(
        "calibrated", space.n_anchors, bounds=with_bounds, n_exact=EXACT_PAIRS, seed=seed, given_space=True
    )  # fmt: skip
    return solve_to_aim(call, None, seed, space=space, strategy=way, asked_by="estimate='calibrated'")


# ------------------------------------------------------------------------------------------------ choosing


def _choose(call: Request, aim: Aim | None, seed: int, space: AnchorSpace | None, n_anchors: int | None) -> Choice:
    load = count_load(call.D, call.E, call.pairs)
    soft = space is not None and space.proven is not space
    kind, _ = devices.parse(call.device)
    if kind == "cuda" and (soft or call.accepted is not None):
        why = f"exact solves: device={call.device!r} was asked for, and such estimates are made on the CPU"
        return Choice(Strategy("exact"), why, aim, load.exact_on_gpu)
    distributions = len(call.D) + (0 if call.E is None else len(call.E))
    if distributions < 3 or load.n_pairs <= EXACT_PAIRS:
        return Choice(Strategy("exact"), "exact solves: so few pairs leave nothing to estimate", aim, load.exact)
    on_gpu = _gpu_would_solve(call, load)
    planner = Planner(
        load,
        aim,
        Attempts(call.D, call.E, call.running, space=space, level=call.level, accepted=call.accepted),
        seed=seed,
        level=call.level,
        n_anchors=n_anchors if space is None else space.proven.n_anchors,
        given_space=space is not None,
        on_gpu=on_gpu,
        gpu_estimates=on_gpu and not soft and call.accepted is None,
        most_anchors=int(max(NUMBERS[0], min(NUMBERS[-1], load.n_points // 4))),
    )
    return allow_for_choice(planner.choose())


def allow_for_choice(choice: Choice) -> Choice:
    """The same choice, whose reported error no longer takes for granted that its sample was a fair one."""
    if choice.aim is not None and choice.trial is not None:
        choice.trial.calibration.allow_for_choice(choice.aim.allowed(choice.trial.mean))
    return choice


def _gpu_would_solve(call: Request, load: Load) -> bool:
    return bool(devices.choose(call.device, needs=("cupy",), cpu_seconds=load.exact).gpus)


def _take(call: Request, strategy: Strategy, space: AnchorSpace | None) -> Choice:
    """Carry out a strategy that was chosen before."""
    if strategy.kind == "exact":
        load = count_load(call.D, call.E, call.pairs)
        return Choice(strategy, "exact solves, as asked for", None, load.exact)
    if call.level is not None:
        strategy = replace(strategy, bounds=True)
    attempts = Attempts(call.D, call.E, call.running, space=space, level=call.level, accepted=call.accepted)

    @functools.cache
    def price() -> float:
        load = count_load(call.D, call.E, call.pairs)
        return Planner(load, None, attempts, seed=strategy.seed, level=call.level).price(strategy)

    trial = attempts(strategy, functools.partial(_begin, call, price))
    return Choice(trial.strategy, f"{strategy}, as asked for", None, price(), trial=trial)


def _begin(call: Request, price: Callable[[], float], features: PairFeatures) -> FeaturesCuda | None:
    """Let GPUs measure pairs while the host solves exact ones and fits, and looks for their price if it can wait."""
    place = _place(call, np.inf if devices.parse(call.device)[0] == "cuda" else price(), features)
    if not place.gpus or isinstance(call.sink, Store):  # a store has tiles of its own
        return None
    measuring = FeaturesCuda(features, memory=_scratch(call), early=True)
    return measuring if gpu_engine.begin(call.pairs, measuring, place, call.running.memory) else None


def _place(call: Request, price: float, features: PairFeatures) -> devices.Choice:
    """Where estimates are made."""
    seconds = price / as_n_jobs(call.running.n_jobs)
    unfit = why_not_on_gpus(features) if call.accepted is None else "max_error is met on the CPU"
    return devices.choose(call.device, needs=("cupy",), cpu_seconds=seconds, unfit=unfit)


def _scratch(call: Request) -> int:
    """Bytes for distances of a tile on a GPU that do not fit into its shared memory."""
    return as_bytes(call.running.memory, engine.DEFAULT_MEMORY) // (2 * gpu_engine.IN_FLIGHT)


def measured(choice: Choice) -> dict[str, Any]:
    """Error and interval of what was chosen, relative to the mean distance and in its units."""
    if choice.trial is None:
        return {"relative_error": 0.0, "error": 0.0, "error_interval": [0.0, 0.0]}
    report = choice.trial.calibration.report
    return {
        "relative_error": report["held_out_relative"],
        "error": report["held_out_rmse"],
        "error_interval": list(report["held_out_rmse_interval"]),
    }


# ------------------------------------------------------------------------------------------------ carrying out


def timed(result: Any, record: dict[str, Any], planning: float) -> Any:
    """A result whose ``info["strategy"]`` also says what the choice and all the rest took."""
    if isinstance(result, (Distances, Neighbors)):
        took = {"planning_seconds": planning, "seconds": result.info["seconds"]}
        result.info["strategy"] = {**record, **took}
    return result


def solve_all(call: Request, info: dict[str, Any]) -> Any:
    """Every pair exactly, with its error, and with bounds where they are wanted."""
    info = {**info, "estimate": "exact"}
    if call.accepted is not None:
        info["max_error"] = str(call.accepted)
    result: Any = solve_wanted(
        call.pairs, call.both, call.column_start, call.wanted, call.device, call.sink, info=info, **call.options
    )
    if isinstance(result, Neighbors):
        return replace(result, **_certain(result.distances, call))
    if not isinstance(result, Distances):
        return result
    if call.accepted is not None:
        result.info["n_exact"] = len(result)
    status = np.full(len(result), Status.EXACT, dtype=np.int8)
    return replace(result, status=status, **_certain(result.values, call))


def _certain(values: Float, call: Request) -> dict[str, Any]:
    """Error and bounds of exact values."""
    certain = {"error": EXACT_ERROR * values}
    if call.level is not None:
        certain.update(lower=values.copy(), upper=values.copy())
    return certain


def _estimated(call: Request, chosen: Choice, space: AnchorSpace | None, info: dict[str, Any]) -> Any:
    trial: Attempt = chosen.trial
    features = trial.features
    assert isinstance(features, PairFeatures)
    if space is not None:
        warn_far_from_anchors(space.proven, features.radii)
    with_bounds = call.level is not None
    solver: Solver = Estimates(features, trial.calibration, give_bounds=with_bounds)
    if call.accepted is not None:
        solver = Guaranteed(solver, call.D, call.E, call.accepted)
    place = _place(call, chosen.predicted_seconds, features)
    info = {**info, "n_anchors": trial.n_anchors, "estimate": "calibrated"}
    if not place.gpus:
        info["device_reason"] = place.reason
    on_gpu = functools.partial(
        EstimatesCuda, features, trial.calibration, give_bounds=with_bounds, memory=_scratch(call),
        n_jobs=as_n_jobs(call.running.n_jobs), measuring=trial.begun,
    )  # fmt: skip
    return solve_work(Work(call.pairs, Ready(solver), on_gpu, place, info), call.bounded_sink, **call.options)
