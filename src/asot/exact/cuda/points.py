"""The original problems, exactly, on an NVIDIA GPU: W_1 between the distributions themselves (docs/method.md §8).

The same integers and the same simplex as on the CPU (`asot.exact.points`), a pair per warp. Distances between the
distinct points lie in a table where that fits into the GPU's memory, and are made from coordinates where it does not. A
first kernel counts what is left of every pair after common mass is cancelled, and puts the pair on the list of its size
class; the kernel of each class then takes the pairs of its list. A tile costs a launch per class, and nothing is copied
but the answers. Pairs that no class has room for are left open, and the CPU solves them when the tile has arrived.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.distinct import SparseHistograms
from asot.exact.cuda.points_plan import CLASSES, MOST_POINTS, SizeClass, classes_for
from asot.exact.points import ExactPoints, quantise_sparse
from asot.jit.cuda import load, load_all, pair_arguments
from asot.jit.metrics import Ground
from asot.run import engine
from asot.run.pairs import ListedPairs, PairSet
from asot.run.result import Distances
from asot.run.solver import DeviceSolution

TILE_SECONDS = 0.05
BYTES_PER_PAIR = 64  # answers, indices of listed pairs, and a place on the list of every class
MOST_PAIRS, LEAST_PAIRS = 2**22, 2**12

TABLE_SHARE = 3
"""One part in so many of the GPU's free memory may go to a table of distances, unless the caller bounds memory."""

TILE_SIDE, TILE_DEPTH = 32, 16
"""Of ``fill_table``: distances of a tile, and coordinates at a time."""


class ExactPointsCuda:
    """Prepared once from sparse histograms and a ground metric; copies itself to GPUs.

    Parameters
    ----------
    histograms, ground
        The collection over its distinct points, and their metric.
    column_start : int
        Added to column indices: the second collection of a rectangle follows the first one.
    n_pairs : int
        How many pairs there will be: a table of distances must be worth it.
    memory : int
        Bytes that the kernels may work in, on each GPU.
    table_bytes : int, optional
        Bound on a table of distances; None: a part of the GPU's free memory.
    n_jobs : int
        Threads for pairs that are left to the CPU.
    """

    def __init__(
        self,
        histograms: SparseHistograms,
        ground: Ground,
        column_start: int = 0,
        *,
        n_pairs: int,
        memory: int = engine.DEFAULT_MEMORY,
        table_bytes: int | None = None,
        n_jobs: int = 1,
        classes: tuple[SizeClass, ...] = CLASSES,
    ) -> None:
        self.histograms, self.ground, self.column_start = histograms, ground, column_start
        self.masses: NDArray[np.int64] = quantise_sparse(histograms.offsets, histograms.masses)
        self.memory, self.table_bytes = memory, table_bytes
        self.classes = classes
        self._n_jobs = n_jobs
        sizes = np.diff(histograms.offsets)
        self._mean_size = float(sizes.mean())
        self.largest = int(sizes.max())
        self.wants_table = len(ground.points) ** 2 <= n_pairs * self._mean_size**2
        self.info: dict[str, Any] = {
            "solver": "network simplex",
            "common_mass_cancelled": True,
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
        return int(np.clip(TILE_SECONDS / seconds, min(LEAST_PAIRS, most), most))

    def on(self, device: int) -> ExactPointsOnDevice:
        return ExactPointsOnDevice(self, device)

    def solve_on_cpu(self, pairs: ListedPairs) -> Distances:
        """Pairs with too many points left for any kernel."""
        solver = ExactPoints(self.histograms, self.ground, self.column_start)
        solved: Distances = engine.run(pairs, solver, n_jobs=self._n_jobs, progress=False)
        return solved


class ExactPointsOnDevice:
    """What all pairs share, on one GPU, with the kernels that solve them."""

    def __init__(self, host: ExactPointsCuda, device: int) -> None:
        import cupy

        attributes = cupy.cuda.Device(device).attributes
        self._n_blocks = int(attributes["MultiProcessorCount"])
        shared = int(attributes["MaxSharedMemoryPerBlockOptin"])
        self._classes = classes_for(host.largest, shared, host.classes)
        self._metric = {"METRIC": host.ground.code}
        sparse = host.histograms.offsets.astype(np.int64), host.histograms.index.astype(np.int32), host.masses
        self._collection = [cupy.asarray(array) for array in sparse]
        most = [own.most_rows for own in self._classes], [own.most_columns for own in self._classes]
        self._bounds = [cupy.asarray(np.array(bound, dtype=np.int32)) for bound in most]
        self._column_start = np.int32(host.column_start)
        n, d = host.ground.points.shape
        self._numbers = np.int32(n), np.int32(d), np.float64(host.ground.order)
        self._exponent = np.int32(host.ground.exponent)
        self._distances = cupy.asarray(host.ground.points)
        has_table = host.wants_table and 8 * n * n <= _room_for_table(host.table_bytes)
        if has_table:
            self._distances = self._make_table(self._distances)
        source = {"TABLE": 1, "METRIC": 0} if has_table else {"TABLE": 0, **self._metric}
        self._kernels = [(own.kernel, own.launch(shared, host.memory, self._n_blocks, source)) for own in self._classes]
        load_all([(name, launch.defines) for name, launch in self._kernels])
        if host.largest > min(MOST_POINTS, int(most[0][-1])):
            self.solve_open = host.solve_on_cpu  # `asot.run.gpu_transfer` looks for it

    def solve(self, pairs: PairSet, start: int, stop: int) -> DeviceSolution:
        import cupy

        count, n = stop - start, len(self._classes)
        solution = DeviceSolution(
            cupy.empty(count), cupy.empty(count, dtype=np.int8), cupy.empty(count, dtype=np.int32)
        )
        lists, n_listed = cupy.empty((n, count), dtype=np.int32), cupy.zeros(n, dtype=np.int32)
        taken = cupy.zeros(n, dtype=np.int32)
        which = (*pair_arguments(pairs, start, stop), np.int64(start))
        answers = solution.values, solution.status, solution.n_iter
        self._prepare("classify_pairs")(
            (8 * self._n_blocks,), (256,),
            (*self._collection, *which, np.int32(count), self._column_start, *self._bounds, lists, n_listed, *answers),
        )  # fmt: skip
        for c, (name, launch) in enumerate(self._kernels):
            blocks, threads, shared_bytes, far_words, defines = launch
            function = load(name, defines).get_function(name)
            function.max_dynamic_shared_size_bytes = shared_bytes
            arguments = (
                *self._collection, self._distances, *self._numbers, self._exponent, *which, self._column_start,
                lists[c], n_listed[c : c + 1], taken[c : c + 1], cupy.empty(far_words, dtype=np.uint32), *answers,
            )  # fmt: skip
            function((blocks,), (threads,), arguments, shared_mem=shared_bytes)
        return solution

    def _prepare(self, kernel: str) -> Any:
        return load("points_prepare", self._metric | {"N_CLASSES": len(self._classes)}).get_function(kernel)

    def _make_table(self, points: Any) -> Any:
        import cupy

        n = len(points)
        table = cupy.empty((n, n))
        blocks = min((-(-n // TILE_SIDE)) ** 2, 16 * self._n_blocks)
        bytes_ = 8 * 2 * (TILE_SIDE + 1) * TILE_DEPTH
        self._prepare("fill_table")((blocks,), (256,), (points, *self._numbers, table), shared_mem=bytes_)
        return table


def _room_for_table(limit: int | None) -> int:
    """Bytes that a table of distances may take on the current GPU."""
    import cupy

    if limit is not None:
        return limit
    free = int(cupy.cuda.Device().mem_info[0]) + int(cupy.get_default_memory_pool().free_bytes())
    return free // TABLE_SHARE
