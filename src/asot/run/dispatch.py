"""Where a run goes: into a store, to a cluster, to GPUs, or to threads of this process. The calls of asot end here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from asot.run import engine, gpu_engine
from asot.run.cluster import Cluster, active_cluster
from asot.run.pairs import tiles
from asot.run.progress import ProgressLike
from asot.run.sinks import Condensed, Kept, Sink, Tile
from asot.run.solver import TILE_SECONDS
from asot.run.store import Store
from asot.run.work import SolveRange, Work
from asot.validation import as_bytes, as_n_jobs

TASK_SECONDS = 10.0
"""Seconds that a task on a cluster should take, if there is enough to do."""

MOST_PAIRS_OF_A_TASK = 2**22
"""Their answers are sent back: tens of megabytes."""


def solve(
    work: Work,
    sink: Sink[Kept] | None = None,
    *,
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
) -> Kept:
    """Solve every pair of the work and return what the sink makes of it (`Distances` for the default sink)."""
    cluster = active_cluster()
    kept: Any
    if isinstance(sink, Store):
        jobs, budget = as_n_jobs(n_jobs), as_bytes(memory, engine.DEFAULT_MEMORY)
        if cluster is not None:
            cluster.folder = sink.folder
        kept = sink.run(work, n_jobs=jobs, memory=budget, progress=progress, executor=cluster)
        return kept
    if cluster is not None and len(work.pairs) > 1 and not (work.choice.gpus or work.stays):
        kept = _on_cluster(work, cluster, sink, as_bytes(memory, engine.DEFAULT_MEMORY), progress)
        return kept
    limits: dict[str, Any] = {"n_jobs": n_jobs, "memory": memory, "progress": progress}
    if work.choice.gpus and work.gpu is not None:
        return gpu_engine.run(work.pairs, work.gpu(), work.cpu, work.choice, sink, info=work.info, **limits)
    return engine.run(work.pairs, work.cpu(), sink, info=work.info, **limits)


def _on_cluster(work: Work, cluster: Cluster, sink: Any, memory: int, progress: ProgressLike) -> Any:
    solver = work.cpu()
    info = {**solver.info, **work.info, "n_jobs": cluster.jobs, "executor": cluster.name}
    run = engine.Run(work.pairs, Condensed() if sink is None else sink, info)
    per_tile = solver.pairs_per_tile(memory // cluster.jobs)
    rate = per_tile / TILE_SECONDS
    fair = -(-len(work.pairs) // (8 * cluster.jobs))
    size = int(np.clip(rate * TASK_SECONDS, 1, min(MOST_PAIRS_OF_A_TASK, fair)))
    task = SolveRange(replace(work, info={}), memory // cluster.jobs)
    starts = list(tiles(len(work.pairs), size))
    with run.shown(progress, cluster.name):
        for (start, _), solution in zip(starts, cluster.map(task, starts), strict=True):
            run.accept(Tile(start, solution, work.pairs))
    return run.result()
