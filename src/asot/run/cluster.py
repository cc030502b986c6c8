"""Other processes and machines, through joblib: loky, Dask, Ray, or whatever ``joblib.parallel_config`` names.

What all items share is pickled once, into a file that the workers can read; a task is the file's name, its hash and the
number of an item. A worker reads the file once and keeps it. The hash is checked before anything is unpickled, so that
only what this caller wrote is ever loaded. If a loky worker dies, its tasks are handed out again; Dask does this by
itself (``distributed.scheduler.allowed-failures``).
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from asot.run.executors import Answer, Item, Stop

MOST_DEATHS = 5
"""How many times in a row workers may die without finishing an item."""


class Cluster:
    """Workers of a joblib backend."""

    def __init__(self, backend: Any, n_jobs: int | None) -> None:
        self._backend = backend
        self.name = type(backend).__name__.removesuffix("Backend").removesuffix("Distributed").lower()
        self._n_jobs = -1 if n_jobs is None else n_jobs
        self.jobs = max(1, int(backend.effective_n_jobs(self._n_jobs)))
        self.folder: str | os.PathLike[str] | None = None
        """Where the shared file goes; workers on other machines must be able to read it."""

    def map(self, function: Callable[[Item, Stop], Answer], items: Iterable[Item]) -> Iterator[Answer]:
        waiting = list(items)
        if not waiting:
            return
        contents = _pickled(function)
        digest = hashlib.sha256(contents).hexdigest()
        file = self._write(contents)
        deaths = 0
        try:
            while waiting:
                try:
                    for answer in self._answers([(str(file), digest, _version(), item) for item in waiting]):
                        waiting.pop(0)
                        deaths = 0
                        yield answer
                except BaseException as error:  # asyncio's CancelledError is not an Exception
                    # whoever gives out the tasks is gone: Dask then cancels what it was asked for
                    if type(error).__name__ in ("CancelledError", "FutureCancelledError", "CommClosedError"):
                        raise ConnectionError(
                            f"the connection to the scheduler ({self.name}) is lost with {len(waiting)} tasks to go; "
                            "start it again and make the same call: what is in a store stays there"
                        ) from error
                    deaths += 1
                    is_death = type(error).__name__ in ("TerminatedWorkerError", "BrokenProcessPool")
                    if not is_death or deaths > MOST_DEATHS:
                        raise
        finally:
            file.unlink(missing_ok=True)

    def _answers(self, tasks: list[_Task]) -> Iterator[Any]:
        from joblib import Parallel, delayed

        common: dict[str, Any] = {"n_jobs": self._n_jobs, "batch_size": "auto" if len(tasks) > 256 else 1}
        if self._backend.supports_return_generator:
            answers = Parallel(return_as="generator", pre_dispatch="3*n_jobs", **common)(
                delayed(run_task)(task) for task in tasks
            )
            try:
                yield from answers
            finally:
                answers.close()
        else:
            with Parallel(**common) as parallel:  # one pool for all: Ray takes seconds to start one
                for start in range(0, len(tasks), 4 * self.jobs):
                    yield from parallel(delayed(run_task)(task) for task in tasks[start : start + 4 * self.jobs])

    def _write(self, contents: bytes) -> Path:
        folder = self.folder or os.environ.get("JOBLIB_TEMP_FOLDER") or tempfile.gettempdir()
        handle, name = tempfile.mkstemp(prefix=".asot-", suffix=".job", dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(contents)
        return Path(name)


def _pickled(function: Any) -> bytes:
    try:
        return pickle.dumps(function, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"this call cannot be sent to other processes ({error}); a function, such as metric=, must be defined at "
            "the top of a module that the workers can import, or use threads: n_jobs= without a cluster"
        ) from error


_Task = tuple[str, str, str, Any]
"""(file, hash, version of asot, item): everything that is sent to a worker."""


def run_task(task: _Task) -> Any:
    """What a worker does."""
    file, digest, version, item = task
    if version != _version():
        raise RuntimeError(
            f"a worker has asot {_version()}, but the call was made with {version}; install the same version everywhere"
        )
    with threadpool_limits(1, user_api="blas"):
        return _load(file, digest)(item, np.zeros(1, dtype=np.int64))


@functools.lru_cache(maxsize=4)
def _load(file: str, digest: str) -> Callable[[Any, Stop], Any]:
    try:
        contents = Path(file).read_bytes()
    except OSError as error:
        raise RuntimeError(
            f"a worker cannot read {file} ({error.strerror}); set JOBLIB_TEMP_FOLDER to a folder that caller and "
            "workers share"
        ) from error
    if hashlib.sha256(contents).hexdigest() != digest:
        raise RuntimeError(f"{file} is not what the caller wrote, so it was not used")
    return pickle.loads(contents)


def _version() -> str:
    from asot import __version__

    return __version__
