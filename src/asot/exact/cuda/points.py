"""The original problems, exactly, on an NVIDIA GPU: W_1 between the distributions themselves (docs/method.md §8).

The same integers and the same simplex as on the CPU (`asot.exact.points`), a pair per warp or per block. Distances
between the distinct points come from a table if it fits into the GPU's memory, and from coordinates if not. A first
kernel counts what is left of every pair after common mass is canceled, and puts the pair on the list of its size class;
the kernel of each class then takes the pairs of its list. Classes run side by side, the largest first: where one runs
out of pairs, another fills the gap. A tile costs a launch per class, and nothing is copied but the answers. Pairs that
no class has room for are left open, and the CPU solves them when the tile has arrived.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Info
from asot.data.distinct import SparseHistograms
from asot.exact.cuda.points_plan import (
    BLOCKS,
    CLASSES,
    CLASSES_FROM_COORDINATES,
    LONG,
    LONG_CLASSES,
    MOST_POINTS,
    BlockClass,
    SizeClass,
    classes_for,
)
from asot.exact.points import quantize_sparse
from asot.gpu import cupy
from asot.gpu.cuda import Variant, load, load_all
from asot.ground.metrics import ON_GPUS, Ground
from asot.results.distances import Distances
from asot.results.sinks import distances_of
from asot.run import gpu_engine
from asot.run.gpu_transfer import pair_arguments
from asot.run.pairs import ListedPairs, PairSet
from asot.run.protocols import DeviceSolution, DeviceSolver, OnDevice, empty_on_device

TILE_SECONDS = 0.05
BYTES_PER_PAIR = 64  # answers, indices of listed pairs, and a place on the list of every class
MOST_PAIRS, LEAST_PAIRS = 2**24, 2**12
MANY_TILES, FIRST_TILE_SECONDS = 64, 0.005
"""Where limits exclude most pairs: how many tiles there should be, and the least time one takes if they do not."""


TABLE_SHARE = 3
"""A table of distances may take a third of the GPU's free memory, unless the caller limits memory."""

WORKING_SHARE = 4
"""Costs of pairs that are being solved may take a quarter."""

PROFILE_SHARES = 8
"""Shares of the mass along a sorted axis (`Limits.profiles`)."""

DEPTH = 8
"""Coordinates that kernels take at a time; points are filled up with zeros."""

TILE_SIDE, TILE_DEPTH = 32, 16
"""Of ``fill_table``: distances of a tile, and coordinates at a time."""


def variants(shared_memory: int) -> Iterator[Variant]:
    """Kernels that are compiled ahead (`asot.gpu.cuda.Variant`): distances from a table, or Euclidean ones."""
    for bounded in (0, 1):
        for metric in sorted(ON_GPUS):
            yield "points_prepare", {"METRIC": metric, "BOUNDED": bounded}
        for table, classes in ((0, CLASSES_FROM_COORDINATES), (0, BLOCKS[1:2]), (1, CLASSES)):
            source = {"METRIC": 0, "BOUNDED": bounded, "TABLE": table}
            for own in classes_for(MOST_POINTS, shared_memory, classes):
                yield own.kernel, own.launch(shared_memory, 0, 1, source).defines


class Limits(NamedTuple):
    """Distances above which pairs need not be solved: their values are then infinite."""

    now: Callable[[], tuple[NDArray[np.float64], NDArray[np.float64]]]
    """Those of the rows (n_rows,) and of the columns (n_columns,) so far; the larger one counts."""
    profiles: NDArray[np.float32]
    """(n_sorted * PROFILE_SHARES + n_means, N): what ``classify_pairs`` bounds the distances of a norm with."""
    n_sorted: int
    relative: float
    absolute: float

    def arguments(self) -> tuple[Any, ...]:
        """Of ``classify_pairs``, on the current GPU."""
        n_features, n = self.profiles.shape
        shape = np.int32(self.n_sorted), np.int32(n_features - PROFILE_SHARES * self.n_sorted), np.int64(n)
        slack = np.float64(self.relative), np.float64(self.absolute)
        return cupy.asarray(np.ascontiguousarray(self.profiles)), *shape, *slack


NO_LIMITS = Limits(lambda: (np.empty(0), np.empty(0)), np.empty((0, 0), np.float32), 0, 0.0, 0.0)


class Kernels(NamedTuple):
    """Which kernels there are on each GPU, and what they may take."""

    memory: int | None = None
    """Bytes that those of a tile may work in; None: a part of the GPU's free memory."""
    table_bytes: int | None = None
    """Bound on a table of distances; None: a part of the GPU's free memory."""
    most_points: int = MOST_POINTS
    """Pairs with more points left on a side may be left to the CPU, which is faster with them."""
    classes: tuple[SizeClass | BlockClass, ...] | None = None
    """Kernels by size; None: those that are fastest with these points."""


USUAL_KERNELS = Kernels()


class ExactPointsCuda(DeviceSolver):
    """Prepared once from sparse histograms and a ground metric; copies itself to GPUs.

    Parameters
    ----------
    histograms, ground
        The collection over its distinct points, and their metric.
    column_start : int
        Added to column indices: the second collection of a rectangle follows the first one.
    n_pairs : int
        How many pairs there will be, which decides whether a table of distances pays off.
    n_jobs : int
        Threads for pairs that are left to the CPU.
    limits : Limits, optional
    kernels : Kernels
    """

    stage = "exact distances"

    def __init__(
        self,
        histograms: SparseHistograms,
        ground: Ground,
        column_start: int = 0,
        *,
        n_pairs: int,
        n_jobs: int = 1,
        limits: Limits | None = None,
        kernels: Kernels = USUAL_KERNELS,
    ) -> None:
        self.histograms, self.ground, self.column_start = histograms, ground, column_start
        self.masses: NDArray[np.int64] = quantize_sparse(histograms.offsets, histograms.masses)
        self.limits, self.kernels = limits, kernels
        self._n_jobs, self._n_pairs = n_jobs, n_pairs
        self._devices: dict[int, ExactPointsOnDevice] = {}
        sizes = np.diff(histograms.offsets)
        self._mean_size = float(sizes.mean())
        self.largest = int(sizes.max())
        self.wants_table = len(ground.points) ** 2 <= n_pairs * self._mean_size**2
        self.info: Info = {
            "solver": "network simplex",
            "common_mass_canceled": True,
            "device": "cuda",
            "precision": "float64",
            "reg": None,
            "metric": ground.name,
            "distinct_points": len(ground.points),
        }

    def pairs_per_tile(self, memory: int) -> int:
        n = self._mean_size
        seconds = 1e-9 + 4e-11 * n**2 + 2e-13 * n**3
        most = max(1, min(MOST_PAIRS, memory // 2 // BYTES_PER_PAIR))
        best = TILE_SECONDS / seconds
        if self.limits is not None:  # few pairs are solved, but the sooner tiles come back, the sooner limits are small
            best = np.clip(self._n_pairs / MANY_TILES, FIRST_TILE_SECONDS / seconds, most)
        return int(np.clip(best, min(LEAST_PAIRS, most), most))

    def on(self, device: int) -> ExactPointsOnDevice:
        if device not in self._devices:
            self._devices[device] = ExactPointsOnDevice(self, device)
        return self._devices[device]

    def from_column(self, column_start: int) -> None:
        """Count columns from another distribution on; what is on GPUs stays there."""
        self.column_start = column_start

    def n_solved(self) -> int:
        """How many pairs the GPUs have solved: those that are neither equal, nor above limits, nor too large."""
        return sum(int(each.n_solved.get()[0]) for each in self._devices.values())

    def solve_on_cpu(self, pairs: ListedPairs) -> Distances:
        """Pairs with too many points left for any kernel."""
        from asot.exact.auto import simplex_of_points

        solver = simplex_of_points(self.histograms, self.ground, self.column_start)
        solved: Distances = distances_of(pairs, solver, n_jobs=self._n_jobs, progress=False)
        return solved


class ExactPointsOnDevice(OnDevice):
    """What all pairs share, on one GPU, with the kernels that solve them."""

    def __init__(self, host: ExactPointsCuda, device: int) -> None:
        attributes = cupy.cuda.Device(device).attributes
        self._n_blocks = int(attributes["MultiProcessorCount"])
        shared = int(attributes["MaxSharedMemoryPerBlockOptin"])
        self._metric = {"METRIC": host.ground.code, "BOUNDED": int(host.limits is not None)}
        sparse = host.histograms.offsets.astype(np.int64), host.histograms.index.astype(np.int32), host.masses
        self._collection = [cupy.asarray(array) for array in sparse]
        n, d = host.ground.points.shape
        depth = -(-d // DEPTH) * DEPTH
        self._numbers = np.int32(n), np.int32(depth), np.float64(host.ground.order)
        self._exponent = np.int32(host.ground.exponent)
        self._distances = cupy.asarray(np.pad(host.ground.points, ((0, 0), (0, depth - d))))
        allowed = host.kernels
        has_table = host.wants_table and 8 * n * n <= (
            free_bytes() // TABLE_SHARE if allowed.table_bytes is None else allowed.table_bytes
        )
        from_coordinates = LONG_CLASSES if depth >= LONG else CLASSES_FROM_COORDINATES
        classes = allowed.classes or (CLASSES if has_table else from_coordinates)
        self._classes = classes_for(min(host.largest, allowed.most_points), shared, classes)
        most = [own.most_rows for own in self._classes], [own.most_columns for own in self._classes]
        self._most = [cupy.asarray(np.array(bound, dtype=np.int32)) for bound in most]
        if has_table:
            self._distances = self._make_table(self._distances)
        source = {**self._metric, "TABLE": int(has_table)} | ({"METRIC": 0} if has_table else {})
        self._limits = host.limits or NO_LIMITS
        self._profiles = *self._limits.arguments(), np.float64(host.ground.order), self._exponent
        self.n_solved = cupy.zeros(1, dtype=np.uint64)
        memory = working_bytes(allowed.memory)
        self._kernels = [(own.kernel, own.launch(shared, memory, self._n_blocks, source)) for own in self._classes]
        needed = [launch.far_words for _, launch in self._kernels]
        self._side_by_side = 4 * sum(needed) <= memory
        self._far_words = sum(needed) if self._side_by_side else max(needed)
        self._far_from = np.cumsum([0, *needed[:-1]]) if self._side_by_side else np.zeros(len(needed), np.int64)
        self._device_id = cupy.cuda.Device(device).id
        load_all([(name, launch.defines) for name, launch in self._kernels])
        self.leaves_open = host.largest > min(MOST_POINTS, int(most[0][-1]))
        self._host: ExactPointsCuda = weakref.proxy(host)  # in a circle, memory of the GPU would wait for a collection

    def solve_open(self, pairs: ListedPairs) -> Distances:
        return self._host.solve_on_cpu(pairs)

    def solve(self, pairs: PairSet, start: int, stop: int) -> DeviceSolution:
        count, n = stop - start, len(self._classes)
        solution = empty_on_device(count)
        lists, n_listed = cupy.empty((n, count), dtype=np.int32), cupy.zeros(n, dtype=np.int32)
        taken, column_start = cupy.zeros(n, dtype=np.int32), np.int32(self._host.column_start)
        which = (*pair_arguments(pairs, start, stop), np.int64(start))
        answers = solution.values, solution.status, solution.n_iter
        far = cupy.empty(self._far_words, dtype=np.uint32)
        limits = [cupy.asarray(each) for each in self._limits.now()]
        self._prepare("classify_pairs")(
            (8 * self._n_blocks,), (256,),
            (*self._collection, *which, np.int32(count), column_start, *self._most, np.int32(n), lists,
             n_listed,
             *self._profiles, *limits, *answers),
        )  # fmt: skip
        main = cupy.cuda.get_current_stream()
        listed = main.record()
        for c in reversed(range(n)):
            name, launch = self._kernels[c]
            blocks, threads, shared_bytes, _, defines = launch
            function = load(name, defines).get_function(name)
            function.max_dynamic_shared_size_bytes = shared_bytes
            arguments = (
                *self._collection, self._distances, *self._numbers, self._exponent, *which, column_start,
                lists[c], n_listed[c : c + 1], taken[c : c + 1], far[self._far_from[c] :],
                *limits, *answers, self.n_solved,
            )  # fmt: skip
            if not self._side_by_side or c == n - 1:
                function((blocks,), (threads,), arguments, shared_mem=shared_bytes)
                continue
            beside = _beside(self._device_id, c)
            beside.wait_event(listed)
            with beside:
                function((blocks,), (threads,), arguments, shared_mem=shared_bytes)
                main.wait_event(beside.record())
        return solution

    def _prepare(self, kernel: str) -> Any:
        return load("points_prepare", self._metric).get_function(kernel)

    def _make_table(self, points: Any) -> Any:
        n = len(points)
        table = cupy.empty((n, n))
        blocks = min((-(-n // TILE_SIDE)) ** 2, 16 * self._n_blocks)
        bytes_ = 8 * 2 * (TILE_SIDE + 1) * TILE_DEPTH
        self._prepare("fill_table")((blocks,), (256,), (points, *self._numbers, table), shared_mem=bytes_)
        return table


@functools.cache
def _beside(device: int, number: int) -> Any:
    """A stream for the kernel of a class."""
    return cupy.cuda.Stream(non_blocking=True)


def working_bytes(limit: int | None) -> int:
    """Bytes of the current GPU that the kernels of a tile may work in: ``limit``, if there is one."""
    return free_bytes() // (WORKING_SHARE * gpu_engine.IN_FLIGHT) if limit is None else limit


def free_bytes() -> int:
    """Of the current GPU's memory."""
    return int(cupy.cuda.Device().mem_info[0]) + int(cupy.get_default_memory_pool().free_bytes())
