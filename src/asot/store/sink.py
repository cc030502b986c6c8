"""`Store`: a sink on disk. The same call again continues where the last one stopped.

A run into a store is cut into blocks (`asot.store.grid`). Workers solve a block, write its chunk and send back its
size, nothing else, and each holds only one block in memory. The folder shows which blocks are done, so callers may be
killed, start again, or work at the same time. Results are identical, bit for bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from asot._typing import Header, Info
from asot.results.sinks import Condensed, NearestOfRows, TopK
from asot.run.cluster import Cluster
from asot.run.engine import NOTHING, Resources, SolveRange, Work, solve_work
from asot.run.executors import Executor, Progress, ProgressLike, Stop, alone, local_executor
from asot.run.pairs import ListedPairs, PairSet
from asot.run.protocols import EXTRAS, TILE_SECONDS, SinkBase, Solution, Solver, Status, Tile, all_ended
from asot.store.files import StoreFiles, begin, new_manifest
from asot.store.grid import BlockPairs, side_of_blocks
from asot.store.identity import fingerprint
from asot.store.metadata import FILLS
from asot.store.stored import Stored

BLOCK_SECONDS = 10.0
"""A block should take about this long on one core: what a killed worker loses."""

LARGEST_SIDE = 1024
"""Rows and columns of a block of values, 8 MB as float64."""

LARGEST_SIDE_OF_NEIGHBORS = 8192
"""Rows and columns of a block that keeps only the nearest."""

VOLATILE = {"device", "device_reason", "n_jobs", "started", "seconds", "seconds_on_pairs", "n_pairs"}
"""What may differ between two runs of the same call."""


class Store(SinkBase[Stored]):
    """Values on disk, in a Zarr group: `asot.open_store` reads it, and the same call again resumes.

    Parameters
    ----------
    path : str or PathLike
        A folder for this store alone. Finished blocks are not solved again. A store that belongs to a different call is
        refused.
    keep : TopK, optional
        Keep the nearest of every row instead of every value.
    fields : sequence of str, optional
        What is stored: "values", "lower", "upper", "error", "status". Default: values, and bounds and errors if the
        call computes them.
    dtype : {"float64", "float32"}
    part : (int, int), optional
        ``(3, 20)``: the third of twenty parts. Parts may run in any order, at once, or twice.

    Examples
    --------
    >>> import tempfile, numpy as np, asot
    >>> A = np.random.default_rng(0).dirichlet(np.ones(5), size=100)
    >>> cost = 1.0 - np.eye(5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stored = asot.emd_many(A, cost=cost, sink=asot.sinks.Store(folder + "/run.zarr"))
    ...     stored.is_complete, bool(stored[3, 7] == asot.emd_many(A, cost=cost, pairs=[(3, 7)]).values[0])
    (True, True)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        keep: TopK | None = None,
        *,
        fields: Sequence[str] | None = None,
        dtype: str = "float64",
        part: tuple[int, int] | None = None,
    ) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"the path of a store must be text or a path; found {path!r}")
        if keep is not None and not isinstance(keep, TopK):
            raise ValueError(f"a store keeps every value, or the nearest with keep=TopK(n); found keep={keep!r}")
        if dtype not in ("float64", "float32"):
            raise ValueError(f"dtype must be 'float64' or 'float32'; found {dtype!r}")
        known = ("values", "lower", "upper", "error", "status")
        if fields is not None and (keep is not None or "values" not in fields or not set(fields) <= set(known)):
            raise ValueError(f"fields are 'values' and any of {known[1:]}, without keep; found {fields!r}")
        if part is not None and not (len(part) == 2 and 1 <= part[0] <= part[1]):
            raise ValueError(f"part must be (number, count) with 1 ≤ number ≤ count; found {part!r}")
        self.path, self.keep, self.fields, self.dtype, self.part = path, keep, fields, dtype, part

    @property
    def folder(self) -> Path:
        """The folder that contains the store, which every worker must be able to reach."""
        return Path(self.path).absolute().parent

    def writes_to(self, folder: Path) -> bool:
        return Path(self.path).absolute() == folder

    takes_work = True

    def take(self, work: Work, resources: Resources, cluster: Cluster | None) -> Stored:
        """Solve the blocks that are not done."""
        if cluster is not None:
            cluster.folder = self.folder
        files = begin(Path(self.path).absolute(), self._manifest(work), work.pairs)
        executor: Executor = local_executor(1 if work.choice.gpus else resources.jobs) if cluster is None else cluster
        solve = SolveBlock(work, resources.budget // max(1, executor.jobs), files)
        self.fill(files, solve, executor, resources.progress, work.notes.stage or solve.solver.stage)
        return Stored(files)

    def fill(
        self,
        files: StoreFiles,
        solve: Callable[[int, Stop], int],
        executor: Executor,
        progress: ProgressLike,
        stage: str,
    ) -> None:
        """Solve the blocks of this part that are not done. ``solve`` returns the size of the block."""
        grid, mine = files.grid, np.arange(len(files.grid))  # numbers of blocks
        if self.part is not None:
            mine = mine[mine * self.part[1] // len(grid) == self.part[0] - 1]
        missing = np.setdiff1d(mine, _sound(files, np.intersect1d(mine, np.fromiter(files.done(), np.int64))))
        left = sum(map(grid.size, missing.tolist()))
        total = grid.total if self.part is None else sum(map(grid.size, mine.tolist()))
        with Progress(progress, total, f"{stage} (stored)", unit="row" if grid.strips else "pair") as shown:
            shown.advance(total - left)
            turn = os.getpid() * 2654435761 % max(1, len(missing))  # so that two callers do not do the same work
            for size in executor.map(solve, np.roll(missing, -turn).tolist()):
                shown.advance(size)

    def _manifest(self, work: Work) -> Header:
        solver = work.cpu()
        seconds = TILE_SECONDS / max(1, solver.pairs_per_tile(2**40))
        sides = BLOCK_SECONDS, LARGEST_SIDE if self.keep is None else LARGEST_SIDE_OF_NEIGHBORS
        settings = fingerprint({**solver.info, **work.notes.info})
        listed = work.pairs.pairs if isinstance(work.pairs, ListedPairs) else None
        return new_manifest(
            work.pairs,
            side=side_of_blocks(work.pairs, seconds, *sides),
            n_neighbors=None if self.keep is None else self.keep.n_neighbors,
            fields=self._types(work.pairs, solver),
            settings={key: value for key, value in settings.items() if key.split(".")[0] not in VOLATILE},
            inputs=fingerprint({"inputs": solver.identity(), "listed": listed}),
        )

    def _types(self, pairs: PairSet, solver: Solver) -> dict[str, str]:
        """Names and types of what is stored; one pair is solved to find out."""
        if self.keep is not None:
            candidates = pairs.n_columns - pairs.symmetric
            if isinstance(pairs, ListedPairs) or self.keep.n_neighbors > candidates:
                raise ValueError(f"there are no {self.keep.n_neighbors} neighbors for each row among these pairs")
            return {"distances": self.dtype, "indices": "int64"}
        if len(pairs) == 0:
            raise ValueError("there are no pairs to store")
        first = alone(lambda stop: solver.solve(*pairs.indices(0, 1), stop), solver.expected_seconds(1))
        there = [name for name in ("values", "lower", "upper", "error") if getattr(first, name) is not None]
        chosen = there if self.fields is None else list(self.fields)
        lost = [name for name in chosen if name not in (*there, "status")]
        if lost:
            raise ValueError(f"this call computes no {lost[0]!r} to store; ask for it, for example with bounds=True")
        return {name: "int8" if name == "status" else self.dtype for name in chosen}

    def open(self, pairs: PairSet, info: Info) -> NoReturn:
        """A store does not take tiles: it is handed whole runs (`run`), which it cuts into blocks."""
        raise TypeError("a store takes whole runs; pass it as sink= to one of asot's calls")

    def accept(self, tile: Tile) -> None:
        self.open(tile.pairs, {})

    def close(self, info: Info) -> Stored:
        self.open(ListedPairs(np.empty((0, 2), np.int64), 0, 0, False), info)


def _sound(files: StoreFiles, done: NDArray[np.int64]) -> NDArray[np.int64]:
    """Finished blocks whose checksums are right; the others are removed, to be solved anew.

    All of them are read, which takes a small part of the time in which they were solved.
    """
    damaged = local_executor(2).map(lambda number, _: files.is_damaged(number), done.tolist())
    wrong = done[np.fromiter(damaged, np.bool_, len(done))]
    for number in wrong.tolist():
        files.discard(number)
    return np.setdiff1d(done, wrong)


@dataclass(frozen=True)
class SolveBlock(SolveRange):
    """Solve a block and write its chunk, unless someone else has done so in the meantime."""

    files: StoreFiles

    def __call__(self, number: int, stop: Stop) -> int:  # type: ignore[override]
        """The number of its pairs."""
        pairs = self.files.grid.block(number)
        if not self.files.is_done(number):
            solution = self._solution(pairs, stop)
            if stop[0] != 0:  # then its content is meaningless
                return 0
            self.files.write(number, self._chunks(pairs, solution))
        return len(pairs)

    def _solution(self, pairs: PairSet, stop: Stop) -> Solution:
        if len(pairs) == 0:
            none: dict[str, Any] = dict.fromkeys(EXTRAS, np.empty(0))
            return all_ended(Status.OPTIMAL, np.empty(0), **none)
        if not self.work.choice.gpus or self.work.gpu is None:
            return self.solved(pairs, (0, len(pairs)), stop)
        listed = ListedPairs(np.stack(pairs.indices(0, len(pairs)), axis=1), pairs.n_rows, pairs.n_columns, False)
        work, resources = replace(self.work, pairs=listed, notes=NOTHING), Resources(None, self.memory, False)
        r = solve_work(work, Condensed(), resources)
        return Solution(r.values, r.status, r.n_iter, r.marginal_error, r.lower, r.upper, r.error)

    def _chunks(self, pairs: PairSet, solution: Solution) -> dict[str, NDArray[Any]]:
        if self.files.n_neighbors is not None:
            assert isinstance(pairs, BlockPairs)
            return _nearest_of_block(pairs, solution, self.files.grid.side, self.files.n_neighbors)
        found = {name: getattr(solution, name) for name in self.files.fields}
        if not isinstance(pairs, BlockPairs):
            return found
        return {name: pairs.square(values, FILLS.get(name, np.nan)) for name, values in found.items()}


def _nearest_of_block(pairs: BlockPairs, solution: Solution, side: int, k: int) -> dict[str, NDArray[Any]]:
    """The nearest within a block of each of its rows (the first ``side``) and, within one set, of its columns."""
    nearest = NearestOfRows(2 * side, k)
    rows, columns = pairs.indices(0, len(pairs))
    nearest.keep(rows - pairs.first_row, columns, solution.values)
    if pairs.symmetric:
        nearest.keep(columns - pairs.first_column + side, rows, solution.values)
    return {"distances": nearest.distances[None], "indices": nearest.indices[None]}
