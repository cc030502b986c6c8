"""Carrying out what was chosen: exact solves of every pair, or estimates, with their errors, where it suits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from asot._typing import Float
from asot.bounds.guarantee import Guaranteed
from asot.estimate.calibration import EXACT_ERROR, Calibration
from asot.estimate.cuda import EstimatesCuda, FeaturesCuda, why_not_on_gpus
from asot.estimate.pair_features import Features, PairFeatures
from asot.estimate.solver import Estimates
from asot.exact.auto import exact_work
from asot.request.request import Request
from asot.results.distances import Distances, Neighbors
from asot.results.sinks import default_sink
from asot.run import devices, gpu_engine
from asot.run.engine import Ready, Work, solve_work
from asot.run.protocols import Notes, Solver, Status


def place_of(request: Request, price: float, features: PairFeatures) -> devices.Choice:
    """Where estimates are made."""
    seconds = price / request.resources.jobs
    unfit = why_not_on_gpus(features) if request.max_error is None else "max_error is met on the CPU"
    return devices.choose(request.device, needs=("cupy",), cpu_seconds=seconds, unfit=unfit)


def scratch(request: Request) -> int:
    """Bytes for distances of a tile on a GPU that do not fit into its shared memory."""
    return request.resources.budget // (2 * gpu_engine.IN_FLIGHT)


def solve_all(request: Request, info: dict[str, Any]) -> Any:
    """Every pair exactly, with its error, and with bounds where they are wanted."""
    info = {**info, "estimate": "exact"}
    if request.max_error is not None:
        info["max_error"] = str(request.max_error)
    work = exact_work(request, Notes(info, started=request.started))
    result: Any = solve_work(work, default_sink(request.sink), request.resources)
    if isinstance(result, Neighbors):
        return replace(result, **certain(result.distances, request))
    if not isinstance(result, Distances):
        return result
    if request.max_error is not None:
        result.info["n_exact"] = len(result)
    status = np.full(len(result), Status.EXACT, dtype=np.int8)
    return replace(result, status=status, **certain(result.values, request))


def certain(values: Float, request: Request) -> dict[str, Any]:
    """Error and bounds of exact values."""
    certain = {"error": EXACT_ERROR * values}
    if request.level is not None:
        certain.update(lower=values.copy(), upper=values.copy())
    return certain


def estimates_work(
    request: Request,
    features: Features,
    calibration: Calibration,
    exact: Callable[[], Solver],
    seconds: float,
    info: dict[str, Any],
    begun: FeaturesCuda | None = None,
) -> Work:
    """Estimates of all pairs of a request, on the device that suits them; ``exact`` makes a solver for `max_error`."""
    with_bounds = request.level is not None
    solver: Solver = Estimates(features, calibration, give_bounds=with_bounds)
    if request.max_error is not None:
        solver = Guaranteed(solver, exact(), request.max_error)
    info = {**info, "estimate": "calibrated"}
    work = Work(request.pairs, Ready(solver), notes=Notes(info, started=request.started))
    if isinstance(features, PairFeatures):
        place = place_of(request, seconds, features)
        on_gpu = functools.partial(
            EstimatesCuda, features, calibration, give_bounds=with_bounds, memory=scratch(request),
            n_jobs=request.resources.jobs, measuring=begun,
        )  # fmt: skip
        work = replace(work, gpu=on_gpu, choice=place)
    return work
