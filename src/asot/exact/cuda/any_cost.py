"""W_p for every p and every ground cost, with or without unmatched mass, on an NVIDIA GPU: as `asot.exact.any_cost`.

A pair is the work of a block (``any_cost.cu``). Pairs that no kernel has room for, and those that the CPU would refuse
because a price is too low for them, are left to the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from asot._typing import Info
from asot.exact.any_cost import ExactAnyCost
from asot.exact.cuda.points import BYTES_PER_PAIR, DEPTH, LEAST_PAIRS, MOST_PAIRS, TILE_SECONDS, working_bytes
from asot.exact.cuda.points_plan import BLOCKS, BlockClass, classes_for
from asot.exact.unmatched import CONSTANT_SLACK
from asot.gpu import cupy
from asot.gpu.cuda import Variant, load, load_all
from asot.results.distances import Distances
from asot.results.sinks import distances_of
from asot.run.gpu_transfer import pair_arguments
from asot.run.pairs import ListedPairs, PairSet
from asot.run.protocols import DeviceSolution, DeviceSolver, OnDevice, empty_on_device

CLASSES = tuple(BlockClass(own.most_rows, own.most_columns, own.threads, "any_cost") for own in BLOCKS)


def variants(shared_memory: int) -> Iterator[Variant]:
    """Kernels that are compiled ahead (`asot.gpu.cuda.Variant`): distances from a table, or Euclidean ones."""
    for table in (0, 1):
        source = {"TABLE": table, "METRIC": 0, "BOUNDED": 0}
        for own in CLASSES:
            if own.least_bytes <= shared_memory:
                yield own.kernel, own.launch(shared_memory, 0, 1, source).defines


class ExactAnyCostCuda(DeviceSolver):
    """Prepared on the host by ``solver``, which also takes what is left open.

    Parameters
    ----------
    solver
        The same problems for the CPU.
    memory : int, optional
        Bytes that the kernels may work in, on each GPU; None: a part of its free memory.
    n_jobs : int
        Threads for pairs that are left to the CPU.
    """

    stage = "exact distances"

    def __init__(self, solver: ExactAnyCost, *, memory: int | None = None, n_jobs: int = 1) -> None:
        self.solver, self.memory, self.n_jobs = solver, memory, n_jobs
        self.info: Info = {**solver.info, "device": "cuda"}

    def pairs_per_tile(self, memory: int) -> int:
        n = self.solver.mean_size
        seconds = 2e-9 + 8e-11 * n**2 + 2e-13 * n**3
        most = max(1, min(MOST_PAIRS, memory // 2 // BYTES_PER_PAIR))
        return int(np.clip(TILE_SECONDS / seconds, min(LEAST_PAIRS, most), most))

    def on(self, device: int) -> OnDevice:
        return _AnyCostOnDevice(self, device)


class _AnyCostOnDevice(OnDevice):
    """What all pairs share, on one GPU."""

    def __init__(self, host: ExactAnyCostCuda, device: int) -> None:
        solver = host.solver
        attributes = cupy.cuda.Device(device).attributes
        self._host, self._n_blocks = host, int(attributes["MultiProcessorCount"])
        histograms, cost, unmatched = solver.histograms, solver.cost, solver.unmatched
        self._extra = int(unmatched is not None)
        self._offsets = cupy.asarray(histograms.offsets.astype(np.int64))
        self._collection = self._offsets, cupy.asarray(histograms.index.astype(np.int32)), cupy.asarray(solver.masses)
        ground, table = cost.ground, cost.table
        if not cost.has_table:
            d = ground.points.shape[1]
            table = np.pad(ground.points, ((0, 0), (0, -d % DEPTH)))
        self._ground = (
            cupy.asarray(table), np.int32(len(ground.points)), np.int32(table.shape[1]), np.float64(ground.order),
        )  # fmt: skip
        farthest = np.inf
        if unmatched is not None and unmatched.constant is not None:
            farthest = 2.0 * unmatched.constant * CONSTANT_SLACK / cost.scale
        none = np.empty(0)
        self._cost = (
            np.int32(cost.transform), np.float64(solver.p),
            cupy.asarray(none if unmatched is None else unmatched.over(cost.scale)),
            cupy.asarray(none.astype(np.int64) if solver.exponents is None else solver.exponents),
            np.float64(0.0 if unmatched is None else unmatched.share), np.int32(solver.cancels), np.float64(farthest),
            np.float64(cost.scale),
        )  # fmt: skip
        self._column_start = np.int32(solver.column_start)
        shared = int(attributes["MaxSharedMemoryPerBlockOptin"])
        largest = int(np.diff(histograms.offsets).max()) + self._extra
        classes = classes_for(largest, shared, CLASSES)
        self._most = cupy.asarray(np.array([own.most_rows for own in classes], dtype=np.int32))
        source = {"TABLE": int(cost.has_table), "METRIC": 0 if cost.has_table else ground.code, "BOUNDED": 0}
        memory = working_bytes(host.memory)
        self._launches = [own.launch(shared, memory, self._n_blocks, source) for own in classes]
        load_all([("any_cost", launch.defines) for launch in self._launches])
        self.leaves_open = largest > int(self._most[-1]) or bool(np.isfinite(farthest))

    def solve_open(self, pairs: ListedPairs) -> Distances:
        return distances_of(pairs, self._host.solver, n_jobs=self._host.n_jobs, progress=False)

    def solve(self, pairs: PairSet, start: int, stop: int) -> DeviceSolution:
        count, n = stop - start, len(self._launches)
        solution = empty_on_device(count)
        answers = solution.values, solution.status, solution.n_iter
        lists, n_listed = cupy.empty((n, count), dtype=np.int32), cupy.zeros(n, dtype=np.int32)
        taken = cupy.zeros(n, dtype=np.int32)
        far = cupy.empty(max(launch.far_words for launch in self._launches), dtype=np.uint32)
        which = (*pair_arguments(pairs, start, stop), np.int64(start))
        self._function("classify_sizes", self._launches[0])(
            (8 * self._n_blocks,), (256,),
            (self._offsets, *which, np.int32(count), self._column_start, np.int32(self._extra), self._most, np.int32(n),
             lists, n_listed, *answers),
        )  # fmt: skip
        for c, launch in enumerate(self._launches):
            function = self._function("any_cost", launch)
            function.max_dynamic_shared_size_bytes = launch.shared_bytes
            arguments = (
                *self._collection, *self._ground, *which, self._column_start, lists[c], n_listed[c : c + 1],
                taken[c : c + 1], far, *self._cost, *answers,
            )  # fmt: skip
            function((launch.blocks,), (launch.threads,), arguments, shared_mem=launch.shared_bytes)
        return solution

    def _function(self, name: str, launch: Any) -> Any:
        return load("any_cost", launch.defines).get_function(name)
