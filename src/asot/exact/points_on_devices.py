"""Where the original problems are solved: on the CPU, or on GPUs if there are any and the job is large enough."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from asot.data.distinct import SparseHistograms
from asot.exact.cuda.points import ExactPointsCuda
from asot.exact.cuda.points_plan import MOST_POINTS
from asot.exact.distance_table import distance_table, table_pays
from asot.exact.points import ExactPoints
from asot.exact.small_clouds import SmallClouds, are_small_clouds
from asot.ground.metrics import ON_GPUS, Ground
from asot.results.sinks import Kept, default_sink
from asot.run import devices, engine, gpu_engine
from asot.run.pairs import PairSet
from asot.run.progress import ProgressLike
from asot.run.protocols import Sink
from asot.run.work import Work, solve_work
from asot.validation import as_bytes, as_n_jobs

THREADS_SECONDS = 0.01
"""What it costs to share a job among threads."""

GPU_SECONDS, GPU_SECONDS_PER_POINT = 0.003, 1.2e-6
"""A call with a few pairs on a GPU takes this long, and this for each pair of points of two distributions: a GPU is
fast because it solves many pairs at a time, and slow with one of them."""


def solve_points(
    pairs: PairSet,
    histograms: SparseHistograms,
    ground: Ground,
    column_start: int,
    device: str,
    sink: Sink[Kept] | None = None,
    *,
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
    info: dict[str, Any] | None = None,
) -> Kept:
    """Solve every pair of distributions exactly, and return what the sink makes of it.

    Columns of ``pairs`` are counted from distribution ``column_start`` on.
    """
    limits: dict[str, Any] = {"n_jobs": n_jobs, "memory": memory, "progress": progress}
    on_cpu = functools.partial(ExactPoints, histograms, ground, column_start)
    one_thread = len(pairs) * ExactPoints.seconds_per_pair(histograms, ground)
    size = len(histograms.index) / (len(histograms.offsets) - 1)
    choice = devices.choose(
        device, needs=("cupy",), unfit=_unfit(histograms, ground, device),
        cpu_seconds=min(one_thread, one_thread / as_n_jobs(n_jobs) + THREADS_SECONDS),
        gpu_seconds=GPU_SECONDS + GPU_SECONDS_PER_POINT * size**2,
    )  # fmt: skip
    if not choice.gpus:
        more = {**(info or {}), "device_reason": choice.reason}
        many = functools.partial(with_table, histograms, ground, column_start, len(pairs))
        return solve_work(Work(pairs, many, None, choice, more), default_sink(sink), **limits)
    budget = as_bytes(memory, engine.DEFAULT_MEMORY)
    on_gpu = functools.partial(
        ExactPointsCuda, histograms, ground, column_start, n_pairs=len(pairs),
        memory=budget // (2 * gpu_engine.IN_FLIGHT),
        table_bytes=None if memory is None else budget // 2, n_jobs=as_n_jobs(n_jobs),
    )  # fmt: skip
    return solve_work(Work(pairs, on_cpu, on_gpu, choice, info or {}), default_sink(sink), **limits)


def _unfit(histograms: SparseHistograms, ground: Ground, device: str) -> str | None:
    """Why no GPU can take these problems, or should unless it was asked for: the CPU would have to solve most."""
    if ground.code not in ON_GPUS:
        return f"the metric {ground.name!r} has no GPU kernel"
    typical = float(np.median(np.diff(histograms.offsets)))
    if devices.parse(device)[0] == "cuda" or typical <= MOST_POINTS:
        return None
    return f"most distributions have more than {MOST_POINTS} points, and a GPU leaves these to the CPU"


MANY_PAIRS = 2048
"""From here on, small clouds have a solver of their own. Fewer pairs are over sooner than it is prepared, and have the
same bits as `few_pairs`."""


def with_table(
    histograms: SparseHistograms, ground: Ground, column_start: int, n_pairs: int
) -> ExactPoints | SmallClouds:
    """The CPU solver, with all distances between distinct points in a table if that pays off."""
    if n_pairs >= MANY_PAIRS and are_small_clouds(histograms, ground):
        return SmallClouds(histograms, ground, column_start)
    mean = len(histograms.index) / (len(histograms.offsets) - 1)
    table = distance_table(ground) if table_pays(ground, n_pairs * mean**2) else None
    return ExactPoints(histograms, ground, column_start, table)
