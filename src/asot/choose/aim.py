"""Distances with the requested accuracy: a strategy is chosen, or taken from an earlier call, and carried out."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from asot._typing import Info
from asot.anchors.resolve import fitted_space, is_fitted
from asot.anchors.space import AnchorSpace
from asot.bounds.error_bars import check_proven, warn_far_from_anchors
from asot.choose.model import Model, solve_all
from asot.choose.on_anchors import solve_on_anchors
from asot.choose.prices import estimates_work, place_of, prices_of, scratch
from asot.choose.strategy import Choice, Planner
from asot.estimate.attempts import AnchorAttempts, Attempt, CoarseAttempts, attempts_for
from asot.estimate.cuda import FeaturesCuda
from asot.estimate.exact_sample import EXACT_PAIRS
from asot.estimate.known_spaces import KnownSpaces
from asot.estimate.pair_features import Features, PairFeatures
from asot.request import DEFAULT_AIM, Goal, Request, Strategy
from asot.results.distances import Distances, with_model
from asot.results.neighbors import Neighbors
from asot.results.sinks import default_sink
from asot.run import devices, gpu_engine
from asot.run.engine import solve_work
from asot.run.executors import kept_threads, one_thread_per_product


def solve_as_asked(request: Request, goal: Goal) -> Any:
    """What the sink makes of the distances of `asot.pairwise`."""
    aimed, space = goal.estimate == "auto" and goal.reg is None, None
    given = goal.space is not None and is_fitted(goal.space)
    if goal.space is not None or not aimed:
        space = _space(request, goal)
    if aimed and (space is None or space.why_no_bounds is None or not request.distance.is_plain):
        return solve_to_aim(request, replace(goal, space=space), given=given)
    assert space is not None
    if goal.estimate == "calibrated":
        return solve_to_aim(request, _calibrated(request, goal, space), given=given)
    return solve_on_anchors(request, space, goal.reg, given=given)


def solve_as_before(request: Request, goal: Goal, model: Any) -> Any:
    """What the sink makes of distances as the call that left ``model`` made them, which has decided all the rest."""
    if not isinstance(model, Model):
        raise ValueError(
            f"model must be r.model of a result of pairwise or pairwise_exact; found {type(model).__name__}"
        )
    decided = {
        "space": goal.space is not None,
        "n_anchors": goal.n_anchors is not None,
        "reg": goal.reg is not None,
        "strategy": goal.strategy is not None,
        "max_error": request.max_error is not None,
        "estimate": goal.estimate != "auto",
        "error": goal.aim != DEFAULT_AIM,
    }
    twice = [name for name, is_given in decided.items() if is_given]
    if twice:
        raise ValueError(f"model= already says how values are computed; leave out {', '.join(twice)}")
    return model.solve(request)


def _space(request: Request, goal: Goal) -> AnchorSpace:
    """The anchors of a call, fitted to its collection if they are not yet."""
    nearest, learner = devices.of_points(request.device), goal.space
    if learner is None:
        from asot.anchors.kmeans import KMeansAnchors

        own = request.resources
        learner = KMeansAnchors(goal.n_anchors, device=nearest, n_jobs=own.n_jobs, progress=own.progress)
    space = fitted_space(learner, request.both, goal.seed, nearest)
    if space.dim != request.D.dim:
        raise ValueError(f"the collection is in {request.D.dim} dimensions, but the anchors are in {space.dim}")
    return space


def solve_to_aim(request: Request, goal: Goal, *, given: bool) -> Any:
    """What the sink makes of distances that meet the aim; ``info["strategy"]`` says how. ``given``: the space was not
    made for this call."""
    if goal.space is not None:
        asked_by = "estimate='calibrated'" if goal.estimate == "calibrated" else "error"
        wanted_by = asked_by if request.level is None else "bounds=True"
        check_proven(goal.space, wanted_by if request.max_error is None else "max_error")
    with one_thread_per_product(), kept_threads(request.resources.jobs):
        began = time.perf_counter()
        attempts, way = attempts_for(request, goal.space), goal.strategy
        insists_on_estimates = goal.space is not None or (way is not None and way.kind != "exact")
        if insists_on_estimates and attempts.why_exact is not None and not request.distance.is_plain:
            raise ValueError(f"{attempts.why_exact}; leave out estimate, space and strategy, or use pairwise_exact")
        choice = _choose(request, goal, attempts) if way is None else _take(request, way, attempts)
        record = {**choice.record(), **_measured(choice.trial)}
        trial = choice.trial
        planning = time.perf_counter() - began - (0.0 if trial is None else trial.seconds)
        info = {"metric": "euclidean", "p": 1} if request.distance.is_plain else request.distance.info
        info = {**info, "strategy": record}
        model = _model(request, trial, goal.space, record)
        if trial is None:
            result = solve_all(request, info)
        else:
            if given and goal.space is not None and request.distance.is_plain:
                warn_far_from_anchors(goal.space.proven, trial.features.radii)
            info["n_anchors"] = trial.spaces[0].n_anchors
            work = estimates_work(
                request, trial.features, trial.calibration, attempts.exact_solver, choice.cpu_seconds, info, trial.begun
            )  # fmt: skip
            result = solve_work(work, request.bounded_sink, request.resources)
    result = with_model(result, model)
    if isinstance(result, (Distances, Neighbors)):
        took = {"planning_seconds": planning, "seconds": result.info["seconds"]}
        result.info["strategy"] = {**record, **took}
    return result


def _model(request: Request, trial: Attempt | None, space: AnchorSpace | None, record: Info) -> Model:
    """What a result is extended with."""
    known = None
    if trial is not None:
        spaces = trial.spaces if space is None else (space,)
        known = KnownSpaces(
            spaces, space is None, trial.strategy.bounds, trial.features.level, trial.axes, trial.calibration.keep()
        )  # fmt: skip
    return Model(request.D, request.E, request.distance, request.level, request.max_error, known, record)


def _calibrated(request: Request, goal: Goal, space: AnchorSpace) -> Goal:
    """To correct distances in one space by a fit to 64 exact pairs, whatever error remains."""
    with_bounds = request.level is not None or not request.distance.is_plain
    way = Strategy(
        "calibrated", space.n_anchors, bounds=with_bounds, n_exact=EXACT_PAIRS, seed=goal.seed, given_space=True
    )  # fmt: skip
    return replace(goal, aim=None, space=space, strategy=way)


# ------------------------------------------------------------------------------------------------ choosing


def _choose(request: Request, goal: Goal, attempts: AnchorAttempts | CoarseAttempts) -> Choice:
    prices = prices_of(request, attempts)
    why = attempts.why_exact or _nothing_to_estimate(request)
    if why is not None:
        return Choice(Strategy("exact"), f"exact solves: {why}", goal.aim, prices.exact)
    space = goal.space
    n_anchors = goal.n_anchors if space is None else space.proven.n_anchors
    planner = Planner(prices, goal.aim, attempts, seed=goal.seed, n_anchors=n_anchors, given_space=space is not None)
    choice = planner.choose()
    if choice.aim is not None and choice.trial is not None:  # its sample was not a fair one
        choice.trial.calibration.allow_for_choice(choice.aim.allowed(choice.trial.mean))
    return choice


def _nothing_to_estimate(request: Request) -> str | None:
    distance = request.distance
    if not distance.is_plain and request.wants_gpu:
        return f"device={request.device!r} was asked for, where they take no longer than estimates"
    if len(request.D) + (0 if request.E is None else len(request.E)) < 3 or len(request.pairs) <= EXACT_PAIRS:
        return "so few pairs leave nothing to estimate"
    return None


def _take(request: Request, strategy: Strategy, attempts: AnchorAttempts | CoarseAttempts) -> Choice:
    """Carry out a strategy that was chosen before."""
    if strategy.kind == "exact":
        return Choice(strategy, "exact solves, as asked for", None, prices_of(request, attempts, on_gpu=False).exact)
    if request.level is not None:
        strategy = replace(strategy, bounds=True)

    @functools.cache
    def price() -> float:
        return Planner(prices_of(request, attempts, on_gpu=False), None, attempts, seed=strategy.seed).price(strategy)

    trial = attempts(strategy, functools.partial(_begin, request, price))
    return Choice(trial.strategy, f"{strategy}, as asked for", None, price(), price(), trial=trial)


def _begin(request: Request, price: Callable[[], float], features: Features) -> FeaturesCuda | None:
    """Let GPUs measure pairs while the host solves exact ones and fits, and looks for their price if it can wait."""
    if not isinstance(features, PairFeatures):
        return None
    place = place_of(request, np.inf if request.wants_gpu else price(), features)
    if not place.gpus or default_sink(request.sink).takes_work:  # a store has tiles of its own
        return None
    measuring = FeaturesCuda(features, memory=scratch(request), early=True)
    rest = gpu_engine.begin(request.pairs, measuring, place, request.resources.budget)
    if rest is None:
        return None
    measuring.rest = lambda: (rest(), price())  # both while threads are busy
    return measuring


def _measured(trial: Attempt | None) -> Info:
    """Error and interval of what was chosen, relative to the mean distance and in its units."""
    if trial is None:
        return {"relative_error": 0.0, "error": 0.0, "error_interval": [0.0, 0.0]}
    off = trial.calibration.report.held_out
    return {"relative_error": off.relative, "error": off.rmse, "error_interval": list(off.interval)}
