"""Tiles × solver × sink: the loop that every call of the package runs.

Pairs are cut into tiles; worker threads solve tiles with compiled code that releases the GIL; the calling thread takes
the answers in pair order and hands them to the sink. Parallel across pairs, never inside one. Results do not depend on
the number of threads or on the tile size, since each pair is solved by itself and sinks see pairs in order.

Even one job runs in a worker, so that the calling thread is always free to hear Ctrl-C: it then raises ``stop``, which
the compiled loops look at, and waits for the workers to leave.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.run.pairs import PairSet, tiles
from asot.run.progress import Progress, ProgressLike
from asot.run.result import Status
from asot.run.sinks import Condensed, Sink, Tile
from asot.run.solver import Solver
from asot.validation import as_bytes, as_n_jobs

DEFAULT_MEMORY = 2**30
"""Scratch memory of a call, all threads together, unless ``memory`` says otherwise."""


def run(
    pairs: PairSet,
    solver: Solver,
    sink: Sink | None = None,
    *,
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
    info: dict[str, Any] | None = None,
) -> Any:
    """Solve every pair and return what the sink makes of it (`Distances` for the default sink)."""
    sink = Condensed() if sink is None else sink
    jobs = as_n_jobs(n_jobs)
    budget = as_bytes(memory, DEFAULT_MEMORY)
    sink.open(pairs)
    started = time.perf_counter()
    shown = Progress(progress, len(pairs), "pairs")
    unfinished = 0
    try:
        for tile in solved_tiles(pairs, solver, jobs, budget):
            sink.accept(tile)
            unfinished += count_unfinished(tile)
            shown.advance(len(tile.solution.values))
    finally:
        shown.close()
    seconds = time.perf_counter() - started
    record = {"n_pairs": len(pairs), "n_not_converged": unfinished, "n_jobs": jobs, "seconds": seconds}
    return sink.close({**solver.info, **(info or {}), **record})


def count_unfinished(tile: Tile) -> int:
    return int(np.count_nonzero(tile.solution.status == Status.MAX_ITER))


def solved_tiles(pairs: PairSet, solver: Solver, jobs: int, memory: int, first: int = 0) -> Iterator[Tile]:
    """Yield the tiles from pair ``first`` on, in order, while ``jobs`` threads solve a few of them ahead."""
    per_tile = solver.pairs_per_tile(memory // jobs)
    per_tile = max(1, min(per_tile, -(-(len(pairs) - first) // (4 * jobs))))  # enough tiles to keep every thread busy
    stop = np.zeros(1, dtype=np.int64)

    def solve(start: int, end: int) -> Tile:
        rows, columns = pairs.indices(start, end)
        return Tile(start, solver.solve(rows, columns, stop), lambda: (rows, columns))

    waiting: deque[Future[Tile]] = deque()
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="asot")
    try:
        for start, end in tiles(len(pairs), per_tile, first):
            waiting.append(pool.submit(solve, start, end))
            if len(waiting) > 2 * jobs:
                yield _wait(waiting.popleft())
        while waiting:
            yield _wait(waiting.popleft())
    finally:
        _leave(pool, stop)


def _wait(future: Future[Tile]) -> Tile:
    """The tile, waiting in short steps because on some systems only those can be interrupted."""
    while True:
        try:
            return future.result(timeout=0.2)
        except FutureTimeout:
            if future.done():  # finished just now, or raised a TimeoutError of its own
                return future.result()


def _leave(pool: ThreadPoolExecutor, stop: NDArray[np.int64]) -> None:
    stop[0] = 1
    pool.shutdown(wait=True, cancel_futures=True)
