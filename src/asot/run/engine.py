"""Work × solver × sink: what a run solves, with what it may use, and the loop behind every call of the package.

`Work` can be sent to workers: the pairs, and how the solver for a device is made from what all pairs share. The calls
of asot end in `solve_work`, which hands it to a store, to a cluster, to GPUs, or to threads of this process. Pairs are
cut into tiles, an executor solves them, and the calling thread hands the answers to the sink in pair order. Parallel
across pairs, never inside one. Results do not depend on the executor, on the number of its workers or on the tile size,
since each pair is solved by itself and sinks see pairs in order.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from asot._typing import Info
from asot.run import gpu_engine
from asot.run.devices import UNASKED, Choice
from asot.run.executors import SHORT_SECONDS, Progress, ProgressLike, Stop, local_executor
from asot.run.gpu_transfer import pinned_empty
from asot.run.pairs import AllPairs, CrossPairs, PairSet, tiles
from asot.run.protocols import (
    TILE_SECONDS,
    DeviceSolver,
    Notes,
    SinkBase,
    Solution,
    Solver,
    Status,
    Tile,
    Tiled,
    empty_solution,
    joined,
)
from asot.validation import as_bytes, as_n_jobs

if TYPE_CHECKING:
    from asot.run.cluster import Cluster

Kept = TypeVar("Kept")

DEFAULT_MEMORY = 2**30
"""Scratch memory of a call, for all threads together, unless ``memory`` says otherwise."""

SHORTEST_TILE = 0.001
"""Seconds that a tile should take at least: about what it costs to start a thread."""

TASK_SECONDS = 10.0
"""Seconds that a task on a cluster should take, if there is enough to do."""

MOST_PAIRS_OF_A_TASK = 2**22
"""Their answers are sent back: tens of megabytes."""

NOTHING = Notes()

_FIRST_COUNTED = min(int(Status.MAX_ITER), int(Status.EXACT))


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
        return as_bytes(self.memory, DEFAULT_MEMORY)


USUAL = Resources()


@dataclass(frozen=True)
class Work:
    """``cpu`` and ``gpu`` make solvers; partials of their classes, so that they can be pickled."""

    pairs: PairSet
    cpu: Callable[[], Solver]
    gpu: Callable[[], DeviceSolver] | None = None
    choice: Choice = UNASKED
    notes: Notes = NOTHING
    """What the call knows about the run."""
    stays: bool = False
    """Answers that are too large to send, such as plans: solved in this process."""

    @property
    def reason(self) -> Info:
        """For ``info``: why it is not on a GPU, where somebody asked."""
        return {"device_reason": self.choice.reason} if self.choice.reason and not self.choice.gpus else {}


Made = TypeVar("Made", Solver, DeviceSolver)


@dataclass(frozen=True)
class Ready(Generic[Made]):
    """A maker for a solver that already exists."""

    solver: Made

    def __call__(self) -> Made:
        return self.solver


def solve_work(work: Work, sink: SinkBase[Kept], resources: Resources) -> Kept:
    """Solve every pair of the work and return what the sink makes of it."""
    cluster = active_cluster()
    if sink.takes_work:
        return sink.take(work, resources, cluster)
    if cluster is not None and len(work.pairs) > 1 and not (work.choice.gpus or work.stays):
        return _on_cluster(work, cluster, sink, resources)
    if work.choice.gpus and work.gpu is not None:
        return _on_gpus(work, work.gpu(), sink, resources)
    return run(work.pairs, work.cpu(), sink, resources, work.notes, work.reason)


def run(
    pairs: PairSet,
    solver: Solver,
    sink: SinkBase[Kept],
    resources: Resources = USUAL,
    notes: Notes = NOTHING,
    more: Info | None = None,
) -> Kept:
    """Solve every pair in threads of this process. ``more`` is said about the run in ``info``."""
    jobs = resources.jobs
    run: Run[Kept] = Run(pairs, sink, solver, notes, {**(more or {}), "n_jobs": jobs})
    with run.shown(resources.progress):
        for tile in solved_tiles(pairs, solver, jobs, resources.budget, room=sink.room):
            run.accept(tile)
    return run.result()


def _on_gpus(work: Work, solver: DeviceSolver, sink: SinkBase[Kept], resources: Resources) -> Kept:
    """The same on the chosen GPUs. If they have too little memory, the CPU takes over where they stop."""
    choice, pairs = work.choice, work.pairs
    sink.allocate_with(pinned_empty)
    said: Info = {"device": choice.name, "device_reason": choice.reason}
    run: Run[Kept] = Run(pairs, sink, solver, work.notes, said)
    with run.shown(resources.progress, choice.name):
        gpus = gpu_engine.OnGpus(pairs, solver, choice, resources.budget, sink, run.count)
        gpus.solve()
        if gpus.done < len(pairs):
            gpus.refuse_if_required()
            run.info["device"] = "cpu" if gpus.done == 0 else f"{choice.name}, then cpu"
            run.info["device_reason"] = f"the GPU ran out of memory after {gpus.done} of {len(pairs)} pairs"
            run.info["n_jobs"] = resources.jobs
            for tile in solved_tiles(pairs, work.cpu(), resources.jobs, resources.budget, gpus.done):
                run.accept(tile)
        elif gpus.all_numbers:
            sink.tell_all_are_numbers()
        if gpus.mended:
            run.info["n_solved_on_cpu"] = gpus.mended
            run.info["device_reason"] += f"; it left {gpus.mended} pairs to the CPU"
    return run.result()


def _on_cluster(work: Work, cluster: Cluster, sink: SinkBase[Kept], resources: Resources) -> Kept:
    solver, memory = work.cpu(), resources.budget // cluster.jobs
    said = {**work.reason, "n_jobs": cluster.jobs, "executor": cluster.name}
    run: Run[Kept] = Run(work.pairs, sink, solver, work.notes, said)
    rate = solver.pairs_per_tile(memory) / TILE_SECONDS
    fair = -(-len(work.pairs) // (8 * cluster.jobs))
    size = int(np.clip(rate * TASK_SECONDS, 1, min(MOST_PAIRS_OF_A_TASK, fair)))
    task = SolveRange(replace(work, notes=NOTHING), memory)
    starts = list(tiles(len(work.pairs), size))
    with run.shown(resources.progress, cluster.name):
        for (start, _), solution in zip(starts, cluster.map(task, starts), strict=True):
            run.accept(Tile(start, solution, work.pairs))
    return run.result()


class Run(Generic[Kept]):
    """What a run has in common on every kind of device: the open sink, the progress, and the record for ``info``.

    ``more`` is what this kind of run adds to the record.
    """

    def __init__(self, pairs: PairSet, sink: SinkBase[Kept], solver: Tiled, notes: Notes, more: Info) -> None:
        self._begun = time.perf_counter()
        self._started = self._begun if notes.started is None else notes.started
        self._stage = solver.stage if notes.stage is None else notes.stage
        self._counts_exact = solver.counts_exact
        self.pairs, self.sink = pairs, sink
        self.info: Info = {**solver.info, **notes.info, **more, "n_pairs": len(pairs)}
        sink.open(pairs, self.info)
        self._unfinished = self._exact = 0

    def shown(self, progress: ProgressLike, where: str | None = None) -> Progress:
        """A bar that is named after what is solved, and where that is not obvious."""
        stage = self._stage if where is None else f"{self._stage} ({where})"
        self._progress = Progress(progress, len(self.pairs), stage)
        return self._progress

    def accept(self, tile: Tile) -> None:
        """Hand a tile to the sink and count it."""
        if not tile.is_placed:
            self.sink.accept(tile)
        status, unfinished, exact = tile.solution.status, 0, 0
        if len(status) and status.max() >= _FIRST_COUNTED:
            exact = int(np.count_nonzero(status == np.int8(Status.EXACT)))
            unfinished = int(np.count_nonzero(status == np.int8(Status.MAX_ITER)))
        self.count(len(status), unfinished, exact)

    def count(self, n_pairs: int, n_unfinished: int, n_exact: int) -> None:
        """Count pairs that the sink has already."""
        self._unfinished += n_unfinished
        self._exact += n_exact
        self._progress.advance(n_pairs)

    def result(self) -> Kept:
        now = time.perf_counter()
        seconds = {"seconds": now - self._started, "seconds_on_pairs": now - self._begun}
        record = {"n_not_converged": self._unfinished, **seconds}
        if self._counts_exact:
            record["n_exact"] = self._exact
        return self.sink.close({**self.info, **record})


@dataclass(frozen=True)
class SolveTile:
    """What is done with a tile: a range of the order of ``pairs``, which is all that describes it."""

    pairs: PairSet
    solver: Solver
    room: Callable[..., Solution | None] | None = None

    def __call__(self, own: tuple[int, int], stop: Stop) -> Tile:
        if self.solver.takes_runs and isinstance(self.pairs, (AllPairs, CrossPairs)):
            given = None if self.room is None else self.room(*own, ())
            room = empty_solution(own[1] - own[0]) if given is None else given
            self.solver.solve_runs(*self.pairs.runs(*own), room, stop)
            return Tile(own[0], room, self.pairs, is_placed=given is not None)
        rows, columns = self.pairs.indices(*own)
        return Tile(own[0], self.solver.solve(rows, columns, stop), self.pairs, (rows, columns))


def solved_tiles(
    pairs: PairSet,
    solver: Solver,
    jobs: int,
    memory: int,
    first: int = 0,
    room: Callable[..., Solution | None] | None = None,
) -> Iterator[Tile]:
    """Yield the tiles from pair ``first`` on, in order, while ``jobs`` threads solve a few of them ahead.

    ``room`` is that of the sink, if it has one: where solvers with ``solve_runs`` leave their answers.
    """
    per_tile, left = solver.pairs_per_tile(memory // jobs), len(pairs) - first
    seconds = solver.expected_seconds(left)  # infinite if it cannot tell: then there are always threads
    executor = local_executor(jobs, short=seconds * (1.0 if jobs == 1 else 20.0) < SHORT_SECONDS)
    if executor.jobs > 1:  # enough tiles to keep every thread busy, unless they would be over before it has started
        least = int(left * SHORTEST_TILE / max(seconds, 1e-9))
        per_tile = max(1, min(per_tile, max(-(-left // (4 * jobs)), least)))
    yield from executor.map(SolveTile(pairs, solver, room), tiles(len(pairs), per_tile, first))


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
        return joblib._backend.__dict__.get("config", usual) is usual
    except AttributeError:  # a version that keeps this elsewhere
        return False
