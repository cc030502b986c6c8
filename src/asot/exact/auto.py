"""Solves the original problems exactly, with the solver that suits them: sorting on a line, the simplex elsewhere."""

from __future__ import annotations

import functools
from typing import Any

from asot.data.distinct import sparse_histograms
from asot.data.distributions import Distributions
from asot.exact.nested_labels import NestedLabels, nested_codes
from asot.exact.one_dimension import OneDimension
from asot.exact.points_on_devices import solve_points
from asot.exact.solvers import cpu_solver, is_plain, on_cpu
from asot.ground.metrics import NORMS, prepare_metric
from asot.request.distance import Distance
from asot.results.sinks import Kept, default_sink
from asot.run import devices, engine
from asot.run.executors import in_ranges, kept_threads
from asot.run.pairs import PairSet
from asot.run.progress import ProgressLike
from asot.run.protocols import Sink
from asot.run.work import Work, solve_work
from asot.validation import as_bytes, as_n_jobs


def solve_exactly(
    pairs: PairSet,
    pooled: Distributions,
    column_start: int,
    device: str,
    sink: Sink[Kept] | None = None,
    *,
    info: dict[str, Any],
    metric: str = "euclidean",
    metric_params: dict[str, Any] | None = None,
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
) -> Kept:
    """What the sink makes of the distances; columns of ``pairs`` count from distribution ``column_start`` on."""
    limits: dict[str, Any] = {"n_jobs": n_jobs, "memory": memory, "progress": progress}
    if pooled.dim == 1 and metric in NORMS and devices.parse(device)[0] != "cuda":
        prepare_metric(pooled.points[:1], metric, metric_params)  # refuses what means nothing
        line = functools.partial(
            OneDimension, pooled.points, pooled.offsets, pooled.masses, column_start=column_start, metric=metric
        )
        reason = "asked for" if device == "cpu" else "sorting takes no GPU"
        return solve_work(Work(pairs, line, info={**info, "device_reason": reason}), default_sink(sink), **limits)
    jobs = as_n_jobs(n_jobs)
    with kept_threads(jobs):
        histograms = sparse_histograms(pooled, in_ranges(jobs))
    codes = nested_codes(histograms.points) if metric == "hamming" and devices.parse(device)[0] != "cuda" else None
    if codes is not None:
        prepare_metric(histograms.points, metric, metric_params)  # refuses what means nothing
        tree = functools.partial(NestedLabels, histograms, codes, column_start)
        reason = "asked for" if device == "cpu" else "a sum takes no GPU"
        return solve_work(Work(pairs, tree, info={**info, "device_reason": reason}), default_sink(sink), **limits)
    ground = prepare_metric(histograms.points, metric, metric_params)
    return solve_points(pairs, histograms, ground, column_start, device, sink, info=info, **limits)


def solve_wanted(
    pairs: PairSet,
    pooled: Distributions,
    column_start: int,
    wanted: Distance,
    device: str,
    sink: Sink[Kept] | None = None,
    *,
    info: dict[str, Any],
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
) -> Kept:
    """Like `solve_exactly`, for every order, ground cost and price of unmatched mass."""
    p, metric, parameters, unmatched = wanted.p, wanted.metric, wanted.metric_params, wanted.unmatched
    limits: dict[str, Any] = {"n_jobs": n_jobs, "memory": memory, "progress": progress}
    if is_plain(pooled, p, metric, unmatched, device):
        return solve_exactly(
            pairs, pooled, column_start, device, sink, metric=str(metric), metric_params=parameters,
            info={"p": 1, **info}, **limits,
        )  # fmt: skip
    budget = as_bytes(memory, engine.DEFAULT_MEMORY)
    make = functools.partial(cpu_solver, pooled, p, metric, parameters, unmatched, column_start, budget)
    info = {**info, **on_cpu(p, pooled.dim, metric, unmatched, device)}
    return solve_work(Work(pairs, make, info=info), default_sink(sink), **limits)
