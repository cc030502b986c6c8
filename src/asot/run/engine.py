"""Tiles × solver × sink: the loop behind every call of the package.

Pairs are cut into tiles, an executor solves them, and the calling thread hands the answers to the sink in pair order.
Parallel across pairs, never inside one. Results do not depend on the executor, on the number of its workers or on the
tile size, since each pair is solved by itself and sinks see pairs in order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from asot._typing import Info
from asot.run.executors import Stop, local_executor
from asot.run.pairs import AllPairs, CrossPairs, PairSet, tiles
from asot.run.progress import Progress, ProgressLike
from asot.run.protocols import (
    DeviceSolver,
    Notes,
    Sink,
    SinkBase,
    Solution,
    Solver,
    Status,
    Tile,
    as_sink,
    empty_solution,
)
from asot.validation import as_bytes, as_n_jobs

DEFAULT_MEMORY = 2**30
"""Scratch memory of a call, for all threads together, unless ``memory`` says otherwise."""

Kept = TypeVar("Kept")

NOTHING = Notes()

_FIRST_COUNTED = min(int(Status.MAX_ITER), int(Status.EXACT))


SHORT_SECONDS = 0.05
"""If one thread should finish within this time, no other is started."""


SHORTEST_TILE = 0.001
"""Seconds that a tile should take at least: about what it costs to start a thread."""


def run(
    pairs: PairSet,
    solver: Solver,
    sink: Sink[Kept],
    *,
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
    notes: Notes = NOTHING,
) -> Kept:
    """Solve every pair and return what the sink makes of it."""
    jobs = as_n_jobs(n_jobs)
    run = Run(pairs, as_sink(sink), solver, notes, {"n_jobs": jobs})
    room = run.sink.room if run.sink.has_room else None
    with run.shown(progress):
        for tile in solved_tiles(pairs, solver, jobs, as_bytes(memory, DEFAULT_MEMORY), room=room):
            run.accept(tile)
    kept: Kept = run.result()
    return kept


class Run:
    """What a run has in common on every kind of device: the open sink, the progress, and the record for ``info``.

    ``more`` is what this kind of run adds to the record.
    """

    def __init__(
        self, pairs: PairSet, sink: SinkBase[Any], solver: Solver | DeviceSolver, notes: Notes, more: Info
    ) -> None:
        self._begun = time.perf_counter()
        self._started = self._begun if notes.started is None else notes.started
        self._stage = solver.stage if notes.stage is None else notes.stage
        self._counts_exact = isinstance(solver, Solver) and solver.counts_exact
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
        status, unfinished = tile.solution.status, 0
        if len(status) and status.max() >= _FIRST_COUNTED:
            self._exact += int(np.count_nonzero(status == np.int8(Status.EXACT)))
            unfinished = int(np.count_nonzero(status == np.int8(Status.MAX_ITER)))
        self.count(len(status), unfinished)

    def count(self, n_pairs: int, n_unfinished: int) -> None:
        """Count pairs that the sink has already."""
        self._unfinished += n_unfinished
        self._progress.advance(n_pairs)

    def result(self) -> Any:
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
    per_tile = solver.pairs_per_tile(memory // jobs)
    executor = local_executor(jobs, short=_is_short(solver, len(pairs) - first, jobs))
    if executor.jobs > 1:  # enough tiles to keep every thread busy, unless they would be over before it has started
        left = len(pairs) - first
        even = max(-(-left // (4 * jobs)), _least_pairs(solver, left))
        per_tile = max(1, min(per_tile, even))
    yield from executor.map(SolveTile(pairs, solver, room), tiles(len(pairs), per_tile, first))


def _least_pairs(solver: Solver, n_pairs: int) -> int:
    """How many pairs take a thread long enough that it is worth its start."""
    return int(n_pairs * SHORTEST_TILE / max(solver.expected_seconds(n_pairs), 1e-9))


def _is_short(solver: Solver, n_pairs: int, jobs: int) -> bool:
    """Whether threads would cost more than they save. Solvers that cannot estimate their time always get threads."""
    return solver.expected_seconds(n_pairs) * (1.0 if jobs == 1 else 20.0) < SHORT_SECONDS
