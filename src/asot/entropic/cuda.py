"""Entropic transport on a GPU: the fused kernel where its range is proven safe, the log domain everywhere else.

The fused kernel (`asot.entropic.triton_fused`) takes all pairs of a tile; those that it leaves open, because they
converge too slowly or leave the range of its floats, are solved in the log domain right behind it on the same stream.
When max C/ε is too large for the kernel, all pairs take the log domain.

There the algorithm is that of `asot.entropic.log_newton`, in float64, with one warp per pair. The open pairs are listed
first and warps take them one after another, so that a tile without any only costs a check of its statuses.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from asot._typing import Float
from asot.entropic.options import SinkhornOptions, Stopping
from asot.entropic.triton_fused import SinkhornTriton, kernel_is_safe, launch
from asot.gpu import cupy
from asot.gpu.cuda import Variant, load
from asot.results.distances import Distances
from asot.run.gpu_transfer import launch_over_pairs, pair_arguments
from asot.run.pairs import PairSet
from asot.run.protocols import OPEN, DeviceSolution, DeviceSolver, OnDevice

TILE_SECONDS = 0.1
BYTES_PER_PAIR = 41
"""Value, status, iterations, error and a place in the list of open pairs; two indices where pairs are listed."""

MOST_PAIRS = 2**24

MOST_WARPS = 16
"""Warps of a multiprocessor: the most that have the registers they need."""

ENOUGH_WARPS = 6
"""Plans move to shared memory if this many warps of a multiprocessor find room there."""

BLOCK_BYTES = 1024
"""Shared memory that CUDA itself takes of every block."""

SCRATCH_BYTES = 2**28
"""Most memory for the plans of all warps of a tile, where these do not lie in shared memory."""


def variants(shared_memory: int) -> Iterator[Variant]:
    """Kernels that are compiled ahead (`asot.gpu.cuda.Variant`)."""
    for fixed, (near, far), share in itertools.product((0, 1), ((0, 0), (1, 0), (1, 1)), (2, 1)):
        yield "sinkhorn_log", _defines(fixed, near, far, MOST_WARPS // share)


def _defines(fixed: int, near: int, far: int, warps: int) -> dict[str, int]:
    return {"FIXED": fixed, "NEAR_SHARED": near, "FAR_SHARED": far, "WARPS": warps}


class LogSinkhornCuda(DeviceSolver):
    """Prepared once from histograms and their cost; copies itself to GPUs. Parameters as in `SinkhornSharedCost`."""

    stage = "entropic distances"

    fused: SinkhornTriton | None = None
    """Takes all pairs first."""

    terms: tuple[Distances, ...] = ()
    """The self terms of rows and columns: answers lose the mean of the two (`asot.entropic.cpu.Debiased`)."""

    def __init__(self, A: Float, B: Float | None, cost: Float, options: SinkhornOptions) -> None:
        from scipy.special import logsumexp

        self.A, self.B, self.options = A, B, options
        self.M = np.ascontiguousarray((cost / options.reg).T)  # (l, k)
        self.log_sums = logsumexp(-self.M, axis=0)  # (k,)
        self.rule = Stopping(np, options.tol or 0.0, float(self.M.max()), float(np.finfo(np.float64).eps))
        self.most_rows = _in_eights(A)
        self.most_columns = self.most_rows if B is None else _in_eights(B)
        self.info = options.info("Sinkhorn, log domain", "cuda", "float64")

    def pairs_per_tile(self, memory: int) -> int:
        p, q = self.most_rows, self.most_columns
        if self.options.tol is None:
            seconds = 1e-11 * p * q * self.options.max_iter
        else:
            seconds = 2e-9 * p * q + 2e-11 * p**3
        return int(np.clip(min(TILE_SECONDS / seconds, memory / BYTES_PER_PAIR), 1, MOST_PAIRS))

    def on(self, device: int) -> SinkhornOnDevice:
        return SinkhornOnDevice(self, device)


class SinkhornCuda(LogSinkhornCuda):
    """The same with the fused kernel before it, where that is safe, in some precision, and with self ``terms``."""

    def __init__(
        self, A: Float, B: Float | None, cost: Float, options: SinkhornOptions, *terms: Distances, precision: str
    ) -> None:
        super().__init__(A, B, cost, options)
        self.terms = terms
        if kernel_is_safe(cost, options.reg, precision):
            self.fused = SinkhornTriton(A, B, cost, options, precision=precision)
            self.info = self.fused.info

    def pairs_per_tile(self, memory: int) -> int:
        return super().pairs_per_tile(memory) if self.fused is None else self.fused.pairs_per_tile(memory)


def _in_eights(histograms: Float) -> int:
    """The largest number of anchors with mass, rounded up as the kernel pads them."""
    return -(-int(np.count_nonzero(histograms, axis=1).max(initial=1)) // 8) * 8


class Geometry(NamedTuple):
    """How the kernel is compiled and launched. Sizes count float64 numbers of one warp."""

    near_shared: bool
    far_shared: bool
    warps: int
    """Warps of a multiprocessor."""
    near_size: int
    """Vectors, and eight columns of a plan."""
    shared_size: int
    scratch_size: int


def geometry(most_rows: int, most_columns: int, shared_memory: int, *, fixed: bool) -> Geometry:
    """Where a warp keeps its numbers, given the bytes of shared memory that a block may have."""
    p, q = most_rows, most_columns
    near = 16 * p + 4 * q + (p + q) // 2
    far = 0 if fixed else p * q + p * (p + 8) // 2  # the plan, and half a matrix (p, p)

    def warps_with(size: int) -> int:
        return min(MOST_WARPS, (shared_memory + BLOCK_BYTES) // (8 * size + BLOCK_BYTES))

    far_shared = warps_with(near + far) >= ENOUGH_WARPS
    near_shared = far_shared or warps_with(near) >= ENOUGH_WARPS
    shared = near_shared * near + far_shared * far
    return Geometry(near_shared, far_shared, warps_with(shared), near, shared, near + far - shared)


class SinkhornOnDevice(OnDevice):
    """What all pairs share, on one GPU, with the kernels that solve them."""

    def __init__(self, host: LogSinkhornCuda, device: int) -> None:
        attributes = cupy.cuda.Device(device).attributes
        self._fused = None if host.fused is None else host.fused.on(device)
        self._terms = [cupy.asarray(array) for own in host.terms for array in (own.values, own.status)]
        options, rule, shared = host.options, host.rule, attributes["MaxSharedMemoryPerBlockOptin"]
        fixed = options.tol is None
        self._plan = plan = geometry(host.most_rows, host.most_columns, shared, fixed=fixed)
        self._n_warps = plan.warps * attributes["MultiProcessorCount"]
        if plan.scratch_size:
            self._n_warps = max(1, min(self._n_warps, SCRATCH_BYTES // (8 * plan.scratch_size)))
        warps = MOST_WARPS if plan.warps > MOST_WARPS // 2 else MOST_WARPS // 2  # two variants to compile
        self._defines = _defines(int(fixed), int(plan.near_shared), int(plan.far_shared), warps)
        A = cupy.asarray(host.A)
        B = A if host.B is None else cupy.asarray(host.B)
        self._problem = (
            A, B, cupy.asarray(host.M), np.int32(host.M.shape[1]), np.int32(host.M.shape[0]),
            cupy.asarray(host.log_sums), np.float64(options.reg), np.int32(options.max_iter),
            np.float64(rule.tol), np.float64(rule.largest), np.float64(rule.rounding),
            np.int32(options.regularized), np.int32(options.start_at_target), np.int32(host.most_rows),
            np.int32(host.most_columns), np.int64(self._plan.near_size), np.int64(self._plan.scratch_size),
        )  # fmt: skip

    def solve(self, pairs: PairSet, start: int, stop: int) -> DeviceSolution:
        count = stop - start
        if self._fused is None:
            is_open = cupy.asarray(np.full(count, OPEN, dtype=np.int8))  # cupy.full would compile a kernel
            solution = DeviceSolution(cupy.empty(count), is_open, cupy.zeros(count, dtype=np.int32), cupy.empty(count))
        else:
            import torch

            stream = cupy.cuda.get_current_stream().ptr
            with torch.cuda.stream(torch.cuda.ExternalStream(stream)):  # type: ignore[no-untyped-call]
                answers = launch(self._fused, pairs, start, stop)
            solution = DeviceSolution(*map(cupy.from_dlpack, answers))
        self.finish(pairs, start, stop, solution)
        if self._terms:
            launch_over_pairs(
                "subtract_self_terms", count, *pair_arguments(pairs, start, stop), np.int64(start), np.int64(count),
                solution.values, solution.status, *self._terms,
            )  # fmt: skip
        return solution

    def finish(self, pairs: PairSet, start: int, stop: int, solution: DeviceSolution) -> None:
        """Enqueue the pairs start..stop-1 whose status is `OPEN`; their answers and iterations are put in place.

        The iterations that a pair already has count against ``max_iter``. Other pairs are left as they are.
        """
        count = stop - start
        n_warps = min(self._n_warps, count)
        open_pairs = cupy.empty(count, dtype=np.int32)
        n_open, n_taken = cupy.zeros(1, dtype=np.int32), cupy.zeros(1, dtype=np.int32)
        scratch = cupy.empty(n_warps * self._plan.scratch_size)
        module = load("sinkhorn_log", self._defines)
        blocks = max(1, min(1024, count // 256))
        module.get_function("list_open")((blocks,), (256,), (np.int64(count), solution.status, open_pairs, n_open))
        solve = module.get_function("solve_open")
        solve.max_dynamic_shared_size_bytes = 8 * self._plan.shared_size
        arguments = (
            *pair_arguments(pairs, start, stop), np.int64(start), open_pairs, n_open, n_taken, *self._problem, scratch,
            solution.values, solution.status, solution.n_iter, solution.marginal_error,
        )  # fmt: skip
        solve((n_warps,), (32,), arguments, shared_mem=8 * self._plan.shared_size)
