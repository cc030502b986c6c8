"""Where a loop runs, and how far it is: an executor takes a function and small descriptions of work, and returns the
answers in order.

Every loop in the package that can take a while goes through one: tiles of pairs, rows of a bound, columns of a
projection. The calling thread only waits, so that it can always react to Ctrl-C. It then raises ``stop``, which the
compiled loops check, and the workers stop. `Threads` shares memory with its caller; `asot.run.cluster` has the executor
for other processes and machines.

A loop shows its progress, with rate and time left, where somebody watches or asks for it. A log file holds what a
screen would show for a moment only. So without a terminal a bar that was asked for is drawn every 30 seconds, and the
command line writes plain lines at that pace.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import itertools
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as FutureTimeout
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

Stop = NDArray[np.int64]
"""(1,) int64: 0 while work should continue. When it is not 0, compiled loops return early, with any result."""

SHORT_SECONDS = 0.05
"""If one thread should finish within this time, no other is started."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Executor(Protocol):
    """A place to run. ``jobs`` is how many items it works on at a time."""

    @property
    def jobs(self) -> int: ...

    def map(self, function: Callable[[Item, Stop], Answer], items: Iterable[Item]) -> Iterator[Answer]:
        """Yield ``function(item, stop)`` in the order of the items, while later ones are computed ahead.

        Closing the iterator early, as an exception in the calling loop does, raises ``stop`` and waits for the workers.
        """
        ...


class Threads:
    """Threads of this process, for functions that release the GIL. Even one job leaves the calling thread free."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def map(self, function: Callable[[Item, Stop], Answer], items: Iterable[Item]) -> Iterator[Answer]:
        stop = np.zeros(1, dtype=np.int64)
        waiting: deque[Future[Answer]] = deque()
        kept = _kept.get()
        pool = _Pool(self.jobs) if kept is None else kept
        ahead = 2 * self.jobs if self.jobs >= pool.jobs else self.jobs - 1  # never more at a time than were asked for
        try:
            for item in items:
                waiting.append(pool.submit(function, item, stop))
                if len(waiting) > ahead:
                    yield pool.wait(waiting.popleft())
            while waiting:
                yield pool.wait(waiting.popleft())
        finally:
            stop[0] = 1
            for future in waiting:
                future.cancel()
            wait(waiting)
            if kept is None:
                pool.shutdown()


class _Pool(ThreadPoolExecutor):
    def __init__(self, jobs: int) -> None:
        super().__init__(jobs, thread_name_prefix="asot")
        self.jobs = jobs
        self.is_given_up = False
        """Whether the block that keeps it has failed: then loops of what is done meanwhile end, too."""

    def wait(self, future: Future[Answer]) -> Answer:
        answer = _wait(future)
        if self.is_given_up:
            raise CancelledError
        return answer


_kept: ContextVar[_Pool | None] = ContextVar("kept", default=None)


@contextlib.contextmanager
def kept_threads(jobs: int) -> Iterator[None]:
    """Let all loops inside the block share their threads, at most this many.

    A call that prepares much has a dozen short loops, and to start threads for each takes longer than some of them.
    """
    kept = _kept.get()
    if kept is not None and kept.jobs >= jobs:
        yield
        return
    pool = _Pool(jobs)
    token = _kept.set(pool)
    try:
        yield
    except BaseException:
        pool.is_given_up = True
        raise
    finally:
        _kept.reset(token)
        pool.shutdown()


def meanwhile(function: Callable[[], Answer], *, with_loops: bool = False) -> Callable[[], Answer]:
    """Begin a function in one of the threads that are kept, if there are several; what is returned gives its answer.

    ``with_loops``: its loops run in the other threads. There may be one such function at a time, or none would be left.
    """
    kept = _kept.get()
    if kept is None or kept.jobs == 1:
        return function
    future = kept.submit(contextvars.copy_context().run, function) if with_loops else kept.submit(function)
    return lambda: _wait(future)


class CallingThread:
    """No threads at all, for work that is over before anyone could press a key.

    Starting a worker takes longer than solving many pairs, and far longer on a busy machine.
    """

    jobs = 1

    def map(self, function: Callable[[Item, Stop], Answer], items: Iterable[Item]) -> Iterator[Answer]:
        stop = np.zeros(1, dtype=np.int64)
        return (function(item, stop) for item in items)


def local_executor(jobs: int, *, short: bool = False) -> Executor:
    """Where loops of this process run: in threads, or right here if they are ``short``."""
    return CallingThread() if short else Threads(jobs)


def alone(work: Callable[[Stop], Answer], seconds: float) -> Answer:
    """The answer of one piece of work that may take so many seconds, and that Ctrl-C stops."""
    (answer,) = local_executor(1, short=seconds < SHORT_SECONDS).map(lambda _, stop: work(stop), [None])
    return answer


def in_threads(function: Callable[[Item, Stop], object], items: Iterable[Item], n_jobs: int) -> None:
    """Run a function that leaves its answers in shared arrays on every item."""
    for _ in local_executor(n_jobs).map(function, items):
        pass


def in_pieces(work: Callable[[Item], object], pieces: Sequence[Item], n_jobs: int) -> None:
    """Run a function on every piece, over in no time: in threads if there are several of both, else right here."""
    n_jobs = min(n_jobs, len(pieces))
    for _ in local_executor(n_jobs, short=n_jobs <= 1).map(lambda piece, _: work(piece), pieces):
        pass


PIECE = 2**12
"""Rows that a thread should have at least: fewer are done before it has started."""


def in_ranges(n_jobs: int) -> Callable[[int, Callable[[int, int], object]], None]:
    """A loop that calls a function with ranges of 0..n, in threads where that is worth it."""

    def loop(n: int, work: Callable[[int, int], object]) -> None:
        size = max(PIECE, -(-n // (2 * n_jobs)))
        if n_jobs == 1 or n <= size:
            work(0, n)
        else:
            in_pieces(lambda low: work(low, min(low + size, n)), range(0, n, size), n_jobs)

    return loop


POINTS_PER_PIECE, MOST_POINTS_PER_PIECE = 2**12, 2**16
"""Points that are done between two looks at Ctrl-C: fewer by one thread, more by several, each of which has to be told
what to do."""

POINTS_PER_THREAD = 2**14
"""Fewer are done before a thread has started."""


def in_stretches(offsets: NDArray[np.int64], work: Callable[[int, int], object], n_jobs: int) -> None:
    """Call ``work`` with ranges of distributions that have some thousands of points, in threads if there are many."""
    n = int(offsets[-1])
    n_jobs = max(1, min(n_jobs, n // POINTS_PER_THREAD))
    size = POINTS_PER_PIECE if n_jobs == 1 else min(-(-n // n_jobs), MOST_POINTS_PER_PIECE)
    cuts = np.searchsorted(offsets, np.arange(0, n, size))
    ends = np.unique([0, *cuts, len(offsets) - 1]).tolist()
    in_pieces(lambda own: work(*own), list(itertools.pairwise(ends)), n_jobs)


def _wait(future: Future[Answer]) -> Answer:
    """The answer, waiting in short steps because on some systems only those can be interrupted."""
    while True:
        try:
            return future.result(timeout=0.2)
        except FutureTimeout:
            if future.done():  # it just finished, or raised its own TimeoutError
                return future.result()


# Matrix products by one thread: the package runs tiles side by side, never threads inside a product.


_matrix_products = functools.cache(ThreadpoolController)
"""The thread pools behind NumPy's products; finding them takes longer than many calls."""


def one_thread_per_product() -> Any:
    """A context in which threads work on different tiles, not inside a matrix product."""
    return _matrix_products().limit(limits=1, user_api="blas")


# ------------------------------------------------------------------------------------------------ how far it is


ProgressLike = bool | Callable[[int, int], object] | None

SECONDS = 30.0
"""Between two lines of progress where nobody watches."""


class Progress:
    """Counts finished pairs, or other units, toward ``total`` and shows them.

    ``show`` is True (a bar; without a terminal or notebook, drawn every 30 seconds), False (nothing), None (a bar on a
    terminal or in a notebook, once a second has passed) or a function that is called with (done, total).
    """

    def __init__(self, show: ProgressLike, total: int, label: str, unit: str = "pair") -> None:
        if not (show is None or isinstance(show, bool) or callable(show)):
            raise ValueError(f"progress must be True, False, None or a function of (done, total); found {show!r}")
        self._callback = show if callable(show) else None
        self._done = 0
        self._total = total
        self._label, self._unit = label, unit
        self._bar: Any = None
        watched = somebody_watches()
        if show is not False:
            _running.append(weakref.ref(self))
        if show is True or (show is None and watched):
            from tqdm.auto import tqdm

            self._bar = tqdm(
                total=total, desc=label, unit=unit, unit_scale=True, delay=0.0 if show else 1.0, leave=bool(show),
                mininterval=0.1 if watched else SECONDS,
            )  # fmt: skip

    def advance(self, count: int, note: str | None = None) -> None:
        """Count more of them; the note is shown after the bar."""
        self._done += count
        if self._bar is not None:
            if note is not None:
                self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(count)
        if self._callback is not None:
            self._callback(self._done, self._total)

    def sentence(self) -> str:
        """How far it is, in words."""
        share = f" ({100 * self._done / self._total:.0f} %)" if self._total else ""
        return f"{self._label}: {self._done:,} of {self._total:,} {self._unit}s{share}"

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        _running[:] = [ref for ref in _running if ref() not in (self, None)]
        if self._bar is not None:
            self._bar.close()


_running: list[weakref.ref[Progress]] = []
"""What is being counted now, the innermost last."""


_silent = False


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """While this is open, bars are only shown where they are asked for."""
    global _silent
    before, _silent = _silent, True
    try:
        yield
    finally:
        _silent = before


@contextlib.contextmanager
def lines_without_terminal(seconds: float | None = None) -> Iterator[None]:
    """While this is open, and if nobody watches, a line on stderr every 30 seconds says how far the work is."""
    if somebody_watches():
        yield
        return
    ended = threading.Event()
    pause = SECONDS if seconds is None else seconds
    reporter = threading.Thread(target=_report, args=(ended, pause), name="asot-progress", daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()


def _report(ended: threading.Event, pause: float) -> None:
    begun = time.monotonic()
    while not ended.wait(pause):
        gone = f"{time.monotonic() - begun:.0f} s"
        alive = [shown for ref in list(_running) if (shown := ref()) is not None]
        what = f"{alive[-1].sentence()}, {gone}" if alive else f"still working, {gone}"
        sys.stderr.write(f"asot: {what}\n")
        sys.stderr.flush()


def somebody_watches() -> bool:
    """Whether there is a terminal or a notebook that shows a bar."""
    return not _silent and ((sys.stderr is not None and sys.stderr.isatty()) or "ipykernel" in sys.modules)
