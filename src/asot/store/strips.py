"""Neighbors into a store: strips of rows, each searched by itself, so that a search that takes weeks can be resumed and
shared.

The arrays of such a store are the answer itself: indices and distances (N, K), one chunk per strip.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asot._typing import Header, Identity, Info
from asot.run.engine import active_cluster
from asot.run.executors import Executor, ProgressLike, Stop, local_executor
from asot.run.pairs import PairSet
from asot.store.files import StoreFiles, begin, new_manifest
from asot.store.grid import side_of_strips
from asot.store.identity import fingerprint
from asot.store.sink import BLOCK_SECONDS, Store
from asot.store.stored import Stored

RowSearch = Callable[[tuple[int, int], Stop], Any]
"""Finds the neighbors of the rows low..high-1: `indices` and `distances` (high - low, K)."""


@dataclass(frozen=True)
class Question:
    """Whose neighbors are looked for."""

    pairs: PairSet
    n_neighbors: int
    settings: Info
    """What the answer depends on, besides the inputs."""
    inputs: Identity
    """The data that it depends on."""
    search: Callable[[int], RowSearch]
    """Makes the search, for a number of threads; what it makes can be pickled."""
    seconds_per_row: float
    computed: str | None = None
    """A hash of what a function computes that is among the settings (`asot.store.identity`)."""


@dataclass(frozen=True)
class SolveStrip:
    """Search a strip and write its chunk, unless someone else has done so in the meantime."""

    search: RowSearch
    files: StoreFiles

    def __call__(self, number: int, stop: Stop) -> int:
        """The number of its rows."""
        low = number * self.files.grid.side
        high = low + self.files.grid.size(number)
        if not self.files.is_done(number):
            found = self.search((low, high), stop)
            self.files.write(number, {"indices": found.indices, "distances": found.distances})
        return high - low


def search_into(store: Store, question: Question, n_jobs: int, progress: ProgressLike) -> Stored:
    """Search the strips that are not done: by the threads of one strip after the other, or by workers of a cluster."""
    files = begin(Path(store.path).absolute(), _manifest(store, question), question.pairs)
    cluster = active_cluster()
    executor: Executor = local_executor(1, short=True) if cluster is None else cluster
    if cluster is not None:
        cluster.folder = store.folder
    jobs = n_jobs if cluster is None else 1
    solve = SolveStrip(question.search(jobs), files)
    store.fill(files, solve, executor, progress, "nearest neighbors")
    return Stored(files)


def _manifest(store: Store, question: Question) -> Header:
    kept = None if store.keep is None else store.keep.n_neighbors
    if store.fields is not None or kept not in (None, question.n_neighbors):
        raise ValueError(
            f"a stored search keeps the distances and indices of {question.n_neighbors} neighbors; give the store no "
            "fields, and no other number in keep=TopK(...)"
        )
    return new_manifest(
        question.pairs,
        plan="strips",
        side=side_of_strips(question.pairs.n_rows, question.seconds_per_row, BLOCK_SECONDS),
        n_neighbors=question.n_neighbors,
        fields={"distances": store.dtype, "indices": "int64"},
        settings=fingerprint(question.settings, question.computed),
        inputs=fingerprint({"inputs": question.inputs}, question.computed),
    )
