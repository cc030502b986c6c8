"""What a run solves, with what it may use, and where it goes: into a store, to a cluster, to GPUs, or to threads of
this process.

`Work` can be sent to workers: the pairs, and how the solver for a device is made from what all pairs share. The calls
of asot end in `solve_work`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from asot.run import engine, gpu_engine
from asot.run.devices import Choice
from asot.run.executors import Stop
from asot.run.pairs import PairSet, tiles
from asot.run.progress import ProgressLike
from asot.run.protocols import (
    TILE_SECONDS,
    DeviceSolver,
    Notes,
    Sink,
    SinkBase,
    Solution,
    Solver,
    Tile,
    as_sink,
    joined,
)
from asot.validation import as_bytes, as_n_jobs

if TYPE_CHECKING:
    from asot.run.cluster import Cluster

Kept = TypeVar("Kept")

TASK_SECONDS = 10.0
"""Seconds that a task on a cluster should take, if there is enough to do."""

MOST_PAIRS_OF_A_TASK = 2**22
"""Their answers are sent back: tens of megabytes."""


@dataclass(frozen=True)
class Resources:
    """What the loops of a call may use, as the user gave it."""

    n_jobs: int | None = None
    memory: int | str | None = None
    progress: ProgressLike = None

    @property
    def jobs(self) -> int:
        """Threads."""
        return as_n_jobs(self.n_jobs)

    @property
    def budget(self) -> int:
        """Bytes of scratch memory."""
        return as_bytes(self.memory, engine.DEFAULT_MEMORY)


@dataclass(frozen=True)
class Work:
    """``cpu`` and ``gpu`` make solvers; partials of their classes, so that they can be pickled."""

    pairs: PairSet
    cpu: Callable[[], Solver]
    gpu: Callable[[], DeviceSolver] | None = None
    choice: Choice = field(default_factory=lambda: Choice((), "asked for", required=False))
    notes: Notes = engine.NOTHING
    """What the call knows about the run."""
    stays: bool = False
    """Answers that are too large to send, such as plans: solved in this process."""


@dataclass(frozen=True)
class Ready:
    """A maker for a solver that already exists."""

    solver: Solver

    def __call__(self) -> Solver:
        return self.solver


@dataclass(frozen=True)
class SolveRange:
    """Solve a range of the pairs, tile by tile, in any process; ``memory`` is for scratch."""

    work: Work
    memory: int

    @functools.cached_property
    def solver(self) -> Solver:
        """Made once in every process."""
        return self.work.cpu()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "solver"}

    def __call__(self, own: tuple[int, int], stop: Stop) -> Solution:
        return self.solved(self.work.pairs, own, stop)

    def solved(self, pairs: PairSet, own: tuple[int, int], stop: Stop) -> Solution:
        parts = []
        for tile in tiles(own[1], max(1, self.solver.pairs_per_tile(self.memory)), own[0]):
            parts.append(self.solver.solve(*pairs.indices(*tile), stop))
            if stop[0] != 0:
                break
        return joined(parts)


def solve_work(
    work: Work,
    sink: Sink[Kept],
    resources: Resources,
) -> Kept:
    """Solve every pair of the work and return what the sink makes of it."""
    cluster, own = active_cluster(), as_sink(sink)
    kept: Any
    if own.takes_work:
        return own.take(work, resources, cluster)
    if cluster is not None and len(work.pairs) > 1 and not (work.choice.gpus or work.stays):
        kept = _on_cluster(work, cluster, own, resources.budget, resources.progress)
        return kept
    limits: dict[str, Any] = vars(resources)
    if work.choice.gpus and work.gpu is not None:
        return gpu_engine.run(work.pairs, work.gpu(), work.cpu, work.choice, own, notes=work.notes, **limits)
    return engine.run(work.pairs, work.cpu(), own, notes=work.notes, **limits)


def active_cluster() -> Cluster | None:
    """The executor that the caller has named by ``joblib.parallel_config``; None for threads of this process."""
    if "joblib" not in sys.modules:
        return None
    from joblib.parallel import get_active_backend

    backend, n_jobs = get_active_backend(prefer="threads")
    if type(backend).__name__ in ("ThreadingBackend", "SequentialBackend"):
        return None
    from asot.run.cluster import Cluster

    return Cluster(backend, n_jobs)


def joblib_is_idle() -> bool:
    """Whether no ``joblib.parallel_config`` is in force. Asking joblib takes as long as a small pair."""
    joblib: Any = sys.modules.get("joblib.parallel")
    if joblib is None:
        return True
    try:
        usual = joblib.default_parallel_config
        return getattr(joblib._backend, "config", usual) is usual
    except AttributeError:  # a version that keeps this elsewhere
        return False


def _on_cluster(work: Work, cluster: Cluster, sink: SinkBase[Any], memory: int, progress: ProgressLike) -> Any:
    solver = work.cpu()
    run = engine.Run(work.pairs, sink, solver, work.notes, {"n_jobs": cluster.jobs, "executor": cluster.name})
    per_tile = solver.pairs_per_tile(memory // cluster.jobs)
    rate = per_tile / TILE_SECONDS
    fair = -(-len(work.pairs) // (8 * cluster.jobs))
    size = int(np.clip(rate * TASK_SECONDS, 1, min(MOST_PAIRS_OF_A_TASK, fair)))
    task = SolveRange(replace(work, notes=engine.NOTHING), memory // cluster.jobs)
    starts = list(tiles(len(work.pairs), size))
    with run.shown(progress, cluster.name):
        for (start, _), solution in zip(starts, cluster.map(task, starts), strict=True):
            run.accept(Tile(start, solution, work.pairs))
    return run.result()
