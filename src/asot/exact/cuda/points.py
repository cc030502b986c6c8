"""The original problems, exactly, on an NVIDIA GPU: W_1 between the distributions themselves (docs/method.md §8).

The same integers and the same simplex as on the CPU (`asot.exact.points`), a pair per warp. Distances between
the distinct points lie in a table where that fits into the GPU's memory, and are made from coordinates where it does
not. A first kernel counts what is left of every pair after common mass is cancelled, and puts the pair on the list of
its size class; the kernel of each class then takes the pairs of its list. A tile costs a launch per class, and nothing
is copied but the answers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.distinct import SparseHistograms
from asot.jit.metrics import Ground
from asot.run.pairs import PairSet
from asot.run.solver import DeviceSolution
from asot.jit.cuda import load, pair_arguments
from asot.exact.cuda.points_plan import CLASSES, SizeClass
from asot.exact.points import quantise_sparse

TILE_SECONDS = 0.05
BYTES_PER_PAIR = 64
MOST_PAIRS, LEAST_PAIRS = 2**22, 2**12
FAR_SHARE = 4
"""Part of the memory of a tile (its inverse) in which the kernels work."""

TABLE_SHARE = 3
"""Part of the GPU's free memory (its inverse) that a table of distances may take."""


class ExactPointsCuda:
    """Prepared once from sparse histograms and a ground metric; copies itself to GPUs.

    ``column_start`` is added to column indices: the second collection of a rectangle follows the first one.
    ``table_bytes`` bounds a table of distances (None: by the GPU's free memory).
    """

    def __init__(
        self,
        histograms: SparseHistograms,
        ground: Ground,
        column_start: int = 0,
        *,
        n_pairs: int,
        table_bytes: int | None = None,
        classes: tuple[SizeClass, ...] = CLASSES,
    ) -> None:
        self.offsets = np.asarray(histograms.offsets, dtype=np.int64)
        self.index = histograms.index.astype(np.int32)
        self.masses: NDArray[np.int64] = quantise_sparse(histograms.offsets, histograms.masses)
        self.ground = ground
        self.column_start = column_start
        self.table_bytes = table_bytes
        sizes = np.diff(self.offsets)
        self._mean_size = float(sizes.mean())
        self.largest = int(sizes.max())
        self.classes = classes
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
        self.far_bytes = memory // FAR_SHARE
        most = max(1, min(MOST_PAIRS, memory // 2 // BYTES_PER_PAIR))
        return int(np.clip(TILE_SECONDS / seconds, min(LEAST_PAIRS, most), most))

    def on(self, device: int) -> ExactPointsOnDevice:
        return ExactPointsOnDevice(self, device)


class ExactPointsOnDevice:
    """What all pairs share, on one GPU, with the kernels that solve them."""

    def __init__(self, host: ExactPointsCuda, device: int) -> None:
        import cupy

        attributes = cupy.cuda.Device(device).attributes
        self._n_blocks = int(attributes["MultiProcessorCount"])
        self._shared = int(attributes["MaxSharedMemoryPerBlockOptin"])
        self._classes = [own for own in host.classes if own.fits(self._shared)]
        self._far_bytes = host.far_bytes
        self._metric = {"METRIC": host.ground.code}
        self._collection = [cupy.asarray(array) for array in (host.offsets, host.index, host.masses)]
        self._bounds = [
            cupy.asarray(np.array(most, dtype=np.int32))
            for most in ([c.most_rows for c in self._classes], [c.most_columns for c in self._classes])
        ]
        self._column_start = np.int32(host.column_start)
        n, d = host.ground.points.shape
        self._order = np.float64(host.ground.order)
        self._numbers = np.int32(n), np.int32(d), self._order, np.int32(host.ground.exponent)
        self._distances = cupy.asarray(host.ground.points)
        self._has_table = host.wants_table and 8 * n * n <= self._room_for_table(host.table_bytes)
        if self._has_table:
            self._distances = self._make_table(self._distances, n, d)

    @staticmethod
    def _room_for_table(limit: int | None) -> int:
        import cupy

        return int(cupy.cuda.Device().mem_info[0]) // TABLE_SHARE if limit is None else limit

    def _make_table(self, points: Any, n: int, d: int) -> Any:
        import cupy

        table = cupy.empty((n, n))
        fill = load("points_prepare", self._metric | {"N_CLASSES": len(self._classes)}).get_function("fill_table")
        tiles = (-(-n // 32)) ** 2
        fill(
            (min(tiles, 16 * self._n_blocks),), (256,), (points, np.int32(n), np.int32(d), self._order, table),
            shared_mem=2 * 8 * 33 * 16,
        )  # fmt: skip
        return table

    def solve(self, pairs: PairSet, start: int, stop: int) -> DeviceSolution:
        import cupy

        count = stop - start
        solution = DeviceSolution(
            cupy.empty(count), cupy.empty(count, dtype=np.int8), cupy.empty(count, dtype=np.int32)
        )
        n = len(self._classes)
        lists, n_listed = cupy.empty((n, count), dtype=np.int32), cupy.zeros(n, dtype=np.int32)
        taken = cupy.zeros(n, dtype=np.int32)
        which = (*pair_arguments(pairs, start, stop), np.int64(start))
        answers = solution.values, solution.status, solution.n_iter
        prepare = load("points_prepare", self._metric | {"N_CLASSES": n}).get_function("classify_pairs")
        prepare(
            (8 * self._n_blocks,), (256,),
            (*self._collection, *which, np.int32(count), self._column_start, *self._bounds, lists, n_listed, *answers),
        )  # fmt: skip
        for c, own in enumerate(self._classes):
            threads, shared_bytes, defines = own.launch(self._shared, self._far_bytes, self._n_blocks)
            far = cupy.empty(max(1, own.far_words * self._n_blocks * threads // 32), dtype=np.uint32)
            defines = defines | self._metric | {"TABLE": int(self._has_table)}
            function = load(own.kernel, defines).get_function(own.kernel)
            function.max_dynamic_shared_size_bytes = shared_bytes
            arguments = (
                *self._collection, self._distances, *self._numbers, *which, self._column_start, lists[c],
                n_listed[c : c + 1], taken[c : c + 1], far, *answers,
            )  # fmt: skip
            function((self._n_blocks,), (threads,), arguments, shared_mem=shared_bytes)
        return solution
