"""How kernels know their pairs, and how the answers of a tile get from a GPU to a sink: all of them, only the near
ones, or only counts.

A `Fetch` is made when the tile's work has been enqueued, and enqueues what must happen to the answers on the device.
Later the engine delivers it, which only waits for that tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices
from asot.gpu import cupy
from asot.gpu.cuda import Variant, load
from asot.run.pairs import AllPairs, CrossPairs, ListedPairs, PairSet, at_places
from asot.run.protocols import EXTRAS, OPEN, DeviceSolution, OnDevice, SinkBase, Solution, Status, Tile

PINNED_LIMIT = 2**30
"""Bytes of a result up to which it may live in page-locked memory, which a GPU writes at full speed by itself."""


def variants(shared_memory: int) -> Iterator[Variant]:
    """Kernels that are compiled ahead (`asot.gpu.cuda.Variant`)."""
    yield "reduce", {}


def fetch_for(sink: SinkBase[Any], data: OnDevice, pairs: PairSet, start: int, stop: int, stream: Any) -> Fetch:
    """How the answers of a tile get from the solver's ``data`` on a GPU to this sink."""
    own = pairs, start, stop, stream, data
    if not data.is_finished:
        return FetchAll(*own, None)
    wants_all = data.leaves_open and data.gives_bounds
    limits = None if wants_all else sink.limits()
    if limits is not None:
        return FetchNear(*own, limits)
    if sink.edges is not None and not wants_all:
        return FetchCounts(*own, sink.edges)
    return FetchAll(*own, sink.room)


@dataclass(eq=False)
class Fetch:
    """The tile start..stop-1 of a pair set, on its way through a stream."""

    pairs: PairSet
    start: int
    stop: int
    stream: Any
    data: OnDevice
    n_mended: int = field(default=0, init=False)
    """Pairs that the CPU had to solve."""
    n_exact: int = field(default=0, init=False)
    """Pairs that were solved exactly among estimates, where somebody counts them."""
    all_numbers: bool = field(default=False, init=False)
    """Whether the GPU has checked that no value is NaN, so that this need not be checked again."""

    def enqueue(self, solution: DeviceSolution) -> None:
        """Enqueue what should happen to the answers on the device, once they are there."""
        self._solution = solution
        self._totals = cupy.zeros(2, dtype=cupy.uint64)
        unfinished = np.int32(Status.MAX_ITER)
        answers = np.int64(self.size), solution.status, unfinished, solution.values
        self.launch("count_status", *answers, self._totals)
        self._counts_soon = self.soon(self._totals)

    def wait(self) -> None:
        self.stream.synchronize()

    def deliver(self, sink: Any) -> int:
        """Wait for the tile, hand it to the sink, and return how many of its pairs did not converge."""
        self.wait()
        unfinished, not_numbers = (int(count) for count in self._counts_soon)
        self.all_numbers = not_numbers == 0
        return unfinished

    @property
    def size(self) -> int:
        return self.stop - self.start

    def launch(self, kernel: str, *arguments: Any) -> None:
        launch_over_pairs(kernel, self.size, *arguments)

    def soon(self, array: Any) -> NDArray[Any]:
        """A copy on the host that is ready when the stream is. Asking later would stall the other tiles."""
        copy = pinned_empty(array.size, array.dtype)
        array.get(out=copy, stream=self.stream, blocking=False)
        return copy

    def host(self, array: Any) -> NDArray[Any]:
        return array.get(stream=self.stream)


@dataclass(eq=False)
class FetchAll(Fetch):
    """Every answer, in pair order: straight into the sink's own memory if it has room for them."""

    room: Callable[[int, int, tuple[str, ...]], Solution | None] | None

    def enqueue(self, solution: DeviceSolution) -> None:
        super().enqueue(solution)
        told = tuple(name for name in EXTRAS if getattr(solution, name) is not None)
        self._room = None if self.room is None else self.room(self.start, self.stop, told)
        self._sent = self._room is not None and is_pinned(self._room.values)
        if self._sent:  # a copy into other memory would wait for the tile right here
            self._copy(self._room, wait=False)

    def _copy(self, target: Any, *, wait: bool) -> None:
        for name in ("values", "status", "n_iter", *EXTRAS):
            if (answers := getattr(self._solution, name)) is not None:
                answers.get(out=getattr(target, name), stream=self.stream, blocking=wait)

    def deliver(self, sink: Any) -> int:
        unfinished = super().deliver(sink)
        if self._room is None:
            answers = {name: getattr(self._solution, name) for name in ("values", "status", "n_iter", *EXTRAS)}
            told = {name: self.host(array) for name, array in answers.items() if array is not None}
            plans = self._solution.plans and [self.host(array) for array in self._solution.plans]
            sink.accept(Tile(self.start, self._mended(Solution(**told, plans=plans)), self.pairs))
        else:
            if not self._sent:
                self._copy(self._room, wait=True)
            self._mended(self._room)
        return unfinished

    def _mended(self, solution: Solution) -> Solution:
        """The same answers, after the CPU has solved the pairs that the GPU could not, and finished all if it must."""
        is_whole = self.data.is_finished and not self.data.leaves_open
        left = np.empty(0, np.int64) if is_whole else np.flatnonzero(solution.status == OPEN)
        if len(left):
            solved = self.data.solve_open(at_places(self.pairs, left + self.start))
            for name in ("values", "status", "n_iter", *EXTRAS):
                if (own := getattr(solution, name)) is not None:
                    own[left] = getattr(solved, name)
            self.n_mended = len(left)
        if self.data.is_finished:
            return solution
        finished = self.data.finish_on_host(solution, *self.pairs.indices(self.start, self.stop))
        self.n_exact = int(np.count_nonzero(finished.status == np.int8(Status.EXACT)))
        return finished


class FetchPicked(Fetch):
    """Pairs of a tile that the GPU picks out: those within limits, and those that it could not solve."""

    def pick(self, solution: DeviceSolution, limits: Any) -> None:
        """Enqueue the search for them."""
        size = self.size
        self._rows, self._columns = cupy.empty(size, cupy.int32), cupy.empty(size, cupy.int32)
        self._values, self._count = cupy.empty(size, cupy.float64), cupy.zeros(1, cupy.uint64)
        self._has_error = solution.error is not None
        error: Any = solution.error if self._has_error else cupy.empty(0, cupy.float64)
        self._error = cupy.empty(len(error), cupy.float64)
        self.launch(
            "keep_near", *pair_arguments(self.pairs, self.start, self.stop), np.int64(self.start), np.int64(size),
            solution.values, solution.status, limits, np.int32(self.pairs.symmetric),
            self._rows, self._columns, self._values, error, self._error, self._count,
        )  # fmt: skip
        self._count_soon = self.soon(self._count)

    def picked(self) -> tuple[Indices, Indices, Float, Float | None]:
        """Rows, columns, values and errors, after the CPU has solved those that were open."""
        n, pairs = int(self._count_soon[0]), self.pairs
        rows, columns = self.host(self._rows[:n]).astype(np.int64), self.host(self._columns[:n]).astype(np.int64)
        values = self.host(self._values[:n])
        error = self.host(self._error[:n]) if self._has_error else None
        left = np.flatnonzero(np.isnan(values))
        if self.data.leaves_open and len(left):
            listed = np.stack([rows[left], columns[left]], axis=1)
            solved = self.data.solve_open(ListedPairs(listed, pairs.n_rows, pairs.n_columns, pairs.symmetric))
            values[left] = solved.values
            if error is not None:
                error[left] = solved.error
            self.n_mended = len(left)
        return rows, columns, values, error


@dataclass(eq=False)
class FetchNear(FetchPicked):
    """Pairs within the limits (n_rows,) that the sink had at the launch."""

    limits: Float

    def __post_init__(self) -> None:
        self._limits = cupy.asarray(self.limits)  # now, because after the solver this copy would wait for it

    def enqueue(self, solution: DeviceSolution) -> None:
        super().enqueue(solution)
        self.pick(solution, self._limits)

    def deliver(self, sink: Any) -> int:
        unfinished = super().deliver(sink)
        rows, columns, values, error = self.picked()
        near = Solution(values, np.empty(0, np.int8), np.empty(0, np.int32), error=error)
        sink.accept(Tile(self.start, near, self.pairs, (rows, columns)))
        return unfinished


@dataclass(eq=False)
class FetchCounts(FetchPicked):
    """How many values lie between edges (B + 1,)."""

    edges: Float

    def __post_init__(self) -> None:
        self._edges_there = cupy.asarray(self.edges)

    def enqueue(self, solution: DeviceSolution) -> None:
        super().enqueue(solution)
        n_edges = len(self.edges)
        self._counts = cupy.zeros(n_edges - 1, dtype=cupy.uint64)
        answers = np.int64(self.size), solution.values, solution.status
        self.launch("count_bins", *answers, self._edges_there, np.int32(n_edges), self._counts)
        self._counted = self.soon(self._counts)
        if self.data.leaves_open:
            self.pick(solution, cupy.empty(0))

    def deliver(self, sink: Any) -> int:
        unfinished = super().deliver(sink)
        counts = self._counted
        if self.data.leaves_open:
            counts = counts + np.histogram(self.picked()[2], self.edges)[0].astype(counts.dtype)
        sink.add(counts)
        return unfinished


def pinned_empty(size: int, dtype: Any) -> NDArray[Any]:
    """An array in page-locked memory (CuPy keeps it for reuse when the array is gone); a plain one if it is large."""
    n_bytes = size * np.dtype(dtype).itemsize
    if not 0 < n_bytes <= PINNED_LIMIT:
        return np.empty(size, dtype)
    try:
        memory = cupy.cuda.alloc_pinned_memory(n_bytes)
    except (cupy.cuda.runtime.CUDARuntimeError, MemoryError):
        return np.empty(size, dtype)
    return np.frombuffer(memory, dtype, size)


def is_pinned(array: NDArray[Any]) -> bool:
    """Whether an array came from `pinned_empty` in page-locked memory."""
    base: Any = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return isinstance(base, cupy.cuda.PinnedMemoryPointer)


def pair_arguments(pairs: PairSet, start: int, stop: int) -> tuple[Any, ...]:
    """The arguments (kind, n_rows, n_columns, listed) by which kernels know the pairs start..stop-1 of a set."""
    kind = 0 if isinstance(pairs, AllPairs) else 1 if isinstance(pairs, CrossPairs) else 2
    if kind == 2:
        listed = cupy.asarray(np.stack(pairs.indices(start, stop), axis=1))  # (P, 2)
    else:
        listed = cupy.empty((0, 2), dtype=np.int64)
    return np.int32(kind), np.int64(pairs.n_rows), np.int64(pairs.n_columns), listed


def launch_over_pairs(kernel: str, size: int, *arguments: Any) -> None:
    """Enqueue a kernel of ``reduce.cu``, whose threads stride over ``size`` pairs."""
    threads, most_blocks = 256, 1024
    blocks = max(1, min(most_blocks, -(-size // threads)))
    load("reduce", {}).get_function(kernel)((blocks,), (threads,), arguments)
