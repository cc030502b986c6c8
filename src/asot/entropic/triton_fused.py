"""Entropic transport between many histograms under one shared cost, on a GPU: all iterations in one kernel.

Histograms go in, values come out (see `asot.entropic.triton_kernel` for how). This module surrounds the kernel: it has
the shared data in the form the kernel needs, the tilings that suit each size, and the costs for which float32 or
float64 can hold all numbers that may occur. Pairs for which plain iterations would take too long, and pairs whose
numbers left the range anyway, come back with the status OPEN and are finished by a log-domain solver.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float
from asot.entropic import halves
from asot.entropic.options import PATIENCE, SinkhornOptions
from asot.run.pairs import AllPairs, CrossPairs, PairSet

if TYPE_CHECKING:
    import torch


MOST_ANCHORS = 2**14

LARGEST_EXPONENT = {"float32": 86.0, "tf32": 86.0, "float64": 410.0}
"""Numbers between exp(-x) and exp(x) are held with all their digits. Float64 has room left for small masses."""

NOISE = {"float32": 1e-6, "tf32": 1e-3, "float64": 1e-14}
"""Marginal errors below these are rounding: they have no rate."""

TILE_SECONDS = 0.1
BYTES_PER_PAIR = 37
"""Value, status, iterations and error; two indices where pairs are listed."""

MOST_PAIRS = 2**24

BLOCK, RESTS = 128, (0, 32, 64)
"""Columns that the streamed kernel makes at a time, and how many the last of its blocks may have instead: 150 anchors
are padded to 128 + 32, and no further."""

SUMMED_AT_ONCE = 32
"""Anchors that the streamed kernel brings in together."""

PART_BYTES = {"tf32": 4, "tf32x3": 8, "float64": 8, "halves": 4}
"""Of a matrix entry, in all its parts."""


@dataclass(frozen=True)
class Tiling:
    """How a kernel cuts its work."""

    pairs: int
    """Pairs of a program: 16 for each warp. Hopper's matrix products need warps in groups of four."""
    warps: int
    mode: str
    """Arithmetic: "tf32", "tf32x3", "float64" or "halves"."""
    stages: int = 1
    """Streamed kernel: blocks under way at the same time."""


RESIDENT = {
    ("float32", 32): Tiling(64, 4, "tf32x3"),
    ("float32", 64): Tiling(64, 4, "tf32x3"),
    ("float32", 128): Tiling(128, 8, "tf32x3"),
    ("tf32", 32): Tiling(64, 4, "tf32"),
    ("tf32", 64): Tiling(64, 4, "tf32"),
    ("tf32", 128): Tiling(128, 8, "tf32"),
    ("float64", 32): Tiling(64, 4, "float64"),
    ("float64", 64): Tiling(16, 4, "float64"),
    ("float64", 128): Tiling(32, 8, "float64"),
}
"""The fastest measured tiling of the resident kernel, by precision and padded size (up to and including)."""

PiecesTable = dict[tuple[str, int], tuple[tuple[int, int], Tiling]]

PIECES: PiecesTable = {
    ("float32", 48): ((32, 16), Tiling(64, 4, "tf32x3")),
    ("float32", 96): ((64, 32), Tiling(64, 4, "tf32x3")),
    ("float32", 160): ((128, 32), Tiling(128, 8, "tf32x3")),
}
"""By precision and number of anchors (up to and including): the two pieces of `asot.entropic.triton_pieces`, where they
are faster than the next power of two, and the fastest measured tiling."""

HALVES: PiecesTable = {
    ("float32", 160): ((128, 32), Tiling(64, 4, "halves")),
}
"""As `PIECES`, by `asot.entropic.triton_halves`, where max C/ε is small enough for it."""

STREAMED = {
    "float32": Tiling(128, 8, "tf32x3", stages=3),
    "tf32": Tiling(256, 8, "tf32", stages=3),
    "float64": Tiling(64, 8, "float64", stages=2),
}
"""The fastest measured tiling of the streamed kernel, for larger sizes and where shared memory is too small."""


FEW, FEW_STREAMED = 192, Tiling(64, 4, "tf32x3", stages=3)
"""Up to this many anchors, a tiling that is a little faster in float32."""


def kernel_is_safe(cost: Float, reg: float, precision: str) -> bool:
    """Whether all numbers of the iteration stay inside the floating-point range, for histograms of any kind.

    Write u_i = a_i exp(f_i), v_j = b_j exp(h_j) and R = max C/ε. A sweep is f_i = -log Σ_j b_j exp(h_j - C_ij/ε) and
    h_j = -log Σ_i a_i exp(f_i - C_ij/ε). Such a soft minimum has two properties: all entries of its result are within R
    of each other, and when its argument moves by at most δ, so does the result. Let f* be an optimal f. After the first
    update f is between -log l and R - log l (from v = 1) or between 0 and R (from v = b). f* has a free constant and
    spans at most R, so it can be put into the same interval: then |f - f*| ≤ R. No later sweep increases this distance,
    so f stays between -R - log l and 2R, and h between -2R and 2R + log l. All scalings without their mass, and all
    sums that are divided by, are therefore within exp(±(2R + log l)). For 256 anchors that allows C/ε up to 40 in
    float32 and 202 in float64.

    The scalings themselves contain the mass, so the scaling of a mass below 1e-30 may vanish in float32: that mass is
    then left out of the plan, which changes a value by less than 1e-30 of the largest cost.
    """
    most = (LARGEST_EXPONENT[precision] - math.log(max(cost.shape))) / 2
    return max(cost.shape) <= MOST_ANCHORS and float(cost.max()) <= reg * most


class Chip(NamedTuple):
    """What the choice of a kernel depends on."""

    shared_memory: int  # bytes that a block may have
    multiprocessors: int
    generation: int  # the first digit of the compute capability


class SharedData(NamedTuple):
    """What all pairs share, as tensors on one device, and how they are launched."""

    A: torch.Tensor  # (N, K) masses, padded
    B: torch.Tensor  # (M, L)
    matrices: tuple[torch.Tensor, ...]  # K, Kᵀ and (K ∘ C/ε)ᵀ, each as leading and trailing part
    numbers: torch.Tensor  # (5,) float64: ε, tolerance, max C/ε, rounding, noise
    listed: torch.Tensor  # in place of a list, where pairs are not listed
    limits: tuple[int, ...]  # columns before padding, max_iter, patience
    at_target: int
    constants: dict[str, Any]  # of the compilation
    tiling: Tiling
    n_programs: int  # of the streamed kernel; 0 for the resident one


class SinkhornTriton:
    """Prepared once from histograms and their cost; parameters as in `SinkhornSharedCost`.

    precision : {"float32", "tf32", "float64"}
        float32 is three products of TF32 parts, good for 1e-6. tf32 is a single one, good for 1e-3.
    tiling : Tiling, optional
        In place of that of the tables.
    """

    def __init__(
        self,
        A: Float,
        B: Float | None,
        cost: Float,
        options: SinkhornOptions,
        *,
        precision: str,
        tiling: Tiling | None = None,
    ) -> None:
        self._A, self._B, self._M, self._options = A, B, cost / options.reg, options
        self._precision, self._tiling = precision, tiling
        self._symmetric = cost.shape[0] == cost.shape[1] and np.array_equal(cost, cost.T)
        largest = float(self._M.max())
        rounding = 1e-15 * (1.0 + largest) if precision == "float64" else 0.0
        self._numbers = np.array([options.reg, options.tol or 0.0, max(largest, 1e-300), rounding, NOISE[precision]])
        self.info = options.info("Sinkhorn, fused kernel", "cuda", precision)

    def pairs_per_tile(self, memory: int) -> int:
        k, l = self._M.shape
        most = self._options.max_iter
        iterations = most if self._options.tol is None else min(most, 100)
        seconds = 1e-13 * k * l * iterations
        return int(np.clip(min(TILE_SECONDS / seconds, memory / BYTES_PER_PAIR), 1, MOST_PAIRS))

    def on(self, device: int) -> SharedData:
        import torch

        found: Any = torch.cuda.get_device_properties(device)
        chip = Chip(found.shared_memory_per_block_optin, found.multi_processor_count, found.major)
        return self.place(f"cuda:{device}", chip)

    def _tables(self) -> tuple[PiecesTable, ...]:
        """Where two pieces of the matrix are looked up."""
        if not self._symmetric:
            return ()
        if self._tiling is not None:
            return (HALVES if self._tiling.mode == "halves" else PIECES,)
        return (HALVES, PIECES) if float(self._M.max()) <= halves.LARGEST_EXPONENT else (PIECES,)

    def place(self, device: str, chip: Chip) -> SharedData:
        """The shared data on a device."""
        import torch

        k, l = self._M.shape
        judged = self._options.tol is not None
        constants: dict[str, Any] = {"JUDGED": judged, "REGULARIZED": self._options.regularized}
        limits: tuple[int, ...] = (l, self._options.max_iter, PATIENCE)
        tiling = resident_tiling(self._precision, k, l, chip)
        if tiling is not None and self._tiling is not None:
            tiling = self._tiling
        K, L = max(16, _power_of_two(k)), max(16, _power_of_two(l))
        pieces = pieces_of(self._precision, k, chip, self._tables())
        if pieces is not None:
            (wide, rest), tiling = pieces[0], self._tiling or pieces[1]
            n_programs, K, L = 0, wide + rest, wide + rest
            constants |= {"WIDE": wide, "REST": rest}
        elif tiling is not None and resident_bytes(tiling, K, L, self._symmetric, judged) <= chip.shared_memory:
            n_programs = 0
            constants |= {"SYMMETRIC": self._symmetric}
        else:
            tiling = self._tiling or streamed_tiling(self._precision, max(k, l), chip)
            n_programs = chip.multiprocessors * max(1, 8 // tiling.warps)
            rests = rest_of(k), rest_of(l)
            K, L = (-(-(n - rest) // BLOCK) * BLOCK + rest for n, rest in zip((k, l), rests, strict=True))
            limits += tuple(-(-n // SUMMED_AT_ONCE) * SUMMED_AT_ONCE for n in (k, l))
            constants |= {"BLOCK": BLOCK, "REST_K": rests[0], "REST_L": rests[1], "BLOCK_FROM": SUMMED_AT_ONCE}
        kernel = np.exp(-self._M)
        parts: list[torch.Tensor] = []
        for matrix, shape, padding in (
            (kernel, (K, L), 1.0),
            (kernel.T, (L, K), 1.0),
            ((kernel * self._M).T, (L, K), 0.0),
        ):
            table = np.full(shape, padding)
            table[: matrix.shape[0], : matrix.shape[1]] = matrix
            if n_programs > 0:
                table = table.T
            elif tiling.mode != "halves":
                table = table[summation_order(len(table))]
            parts += split(table, tiling.mode, device)
        dtype = torch.float64 if tiling.mode == "float64" else torch.float32

        def histograms(masses: Float, width: int) -> torch.Tensor:
            table = torch.zeros((len(masses), width), dtype=dtype, device=device)
            table[:, : masses.shape[1]] = torch.as_tensor(masses).to(device)
            return table

        A = histograms(self._A, K)
        return SharedData(
            A=A,
            B=A if self._B is None else histograms(self._B, L),
            matrices=tuple(parts),
            numbers=torch.as_tensor(self._numbers).to(device),
            listed=torch.zeros(2, dtype=torch.int64, device=device),
            limits=limits,
            at_target=int(self._options.start_at_target),
            constants=constants | {"K": K, "PAIRS": tiling.pairs, "MODE": tiling.mode} | ({} if pieces else {"L": L}),
            tiling=tiling,
            n_programs=n_programs,
        )


def launch(data: SharedData, pairs: PairSet, start: int, stop: int) -> tuple[torch.Tensor, ...]:
    """Enqueue the pairs start..stop-1 on torch's current stream: values, status, iterations and errors, each (P,)."""
    import torch

    device, count, tiling = data.A.device, stop - start, data.tiling
    listed, kind = data.listed, 0 if isinstance(pairs, AllPairs) else 1
    if not isinstance(pairs, (AllPairs, CrossPairs)):
        listed, kind = torch.as_tensor(np.stack(pairs.indices(start, stop), axis=1)).to(device), 2
    outputs = tuple(
        torch.empty(count, dtype=dtype, device=device)
        for dtype in (torch.float64, torch.int8, torch.int32, torch.float64)
    )
    arguments = (
        data.A, data.B, *data.matrices, data.numbers, listed, *outputs,
        start, count, pairs.n_rows, pairs.n_columns, *data.limits[:3], kind, data.at_target,
    )  # fmt: skip
    how = data.constants | {"FAST": device.type == "cuda", "num_warps": tiling.warps, "num_stages": tiling.stages}
    n_blocks = -(-count // tiling.pairs)
    kernel = kernel_of(data)
    if data.n_programs == 0:
        kernel[(n_blocks,)](*arguments, 0, **how)
    else:
        n_programs = min(n_blocks, data.n_programs)
        scratch = (
            torch.empty((n_programs * tiling.pairs, side.shape[1]), dtype=side.dtype, device=device)
            for side in (data.A, data.B)
        )
        kernel[(n_programs,)](*arguments, *data.limits[3:], *scratch, **how)
    return outputs


def kernel_of(data: SharedData) -> Any:
    """The kernel that takes this data."""
    from asot.entropic.triton_halves import halves_kernel
    from asot.entropic.triton_kernel import resident_kernel, streamed_kernel
    from asot.entropic.triton_pieces import pieces_kernel

    if data.n_programs > 0:
        return streamed_kernel
    if "WIDE" not in data.constants:
        return resident_kernel
    return halves_kernel if data.tiling.mode == "halves" else pieces_kernel


def resident_tiling(precision: str, k: int, l: int, chip: Chip) -> Tiling | None:
    """From the table; None where there are too many anchors. Before Hopper, products take more registers."""
    most = 128 if precision == "float64" or chip.generation >= 9 else 64
    for (name, size), tiling in RESIDENT.items():
        if name == precision and max(k, l) <= min(size, most):
            return tiling
    return None


def pieces_of(
    precision: str, k: int, chip: Chip, tables: tuple[PiecesTable, ...]
) -> tuple[tuple[int, int], Tiling] | None:
    """From the first of the tables that has them; None where one power of two will do, or the chip has no room."""
    for table in tables:
        for (name, size), (pieces, tiling) in table.items():
            fits = chip.generation >= 9 and PART_BYTES[tiling.mode] * size**2 <= chip.shared_memory
            if name == precision and pieces[0] < k <= size and fits:
                return pieces, tiling
    return None


def streamed_tiling(precision: str, n_anchors: int, chip: Chip) -> Tiling:
    """From the table, with fewer stages where shared memory is smaller than where it was measured."""
    tiling = FEW_STREAMED if precision == "float32" and n_anchors <= FEW else STREAMED[precision]
    item = 8 if tiling.mode == "float64" else 4
    stage = SUMMED_AT_ONCE * (item * tiling.pairs + PART_BYTES[tiling.mode] * BLOCK)
    return replace(tiling, stages=max(1, min(tiling.stages, chip.shared_memory // stage)))


def rest_of(n: int) -> int:
    """Columns of the last block, if it is not a whole one; else 0."""
    return next((rest for rest in RESTS if n % BLOCK <= rest), 0)


def resident_bytes(tiling: Tiling, K: int, L: int, symmetric: bool, judged: bool) -> int:
    """Shared memory of the resident kernel: the matrix, one part of the costs, and what warps exchange."""
    matrix = PART_BYTES[tiling.mode] * K * L * (1 if symmetric else 2)
    if tiling.mode == "float64":
        return matrix + 8 * tiling.pairs * max(K, L) + (8 * K * L if judged else 0)
    return matrix + 4 * K * L


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


def split(table: Float, mode: str, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The leading and the trailing part of a matrix; for a single product, and in float64, the trailing is not read."""
    import torch

    if mode == "float64":
        high = low = torch.as_tensor(table)
    elif mode == "halves":
        high, low = (torch.as_tensor(part) for part in halves.split(table))
    else:
        high = torch.as_tensor(_to_tf32(table))
        low = torch.as_tensor(_to_tf32(table - high.double().numpy()))
    return high.contiguous().to(device), low.contiguous().to(device)


def summation_order(n: int) -> NDArray[np.int64]:
    """In every group of 8: the anchors that a thread holds after a product, as it needs them for the next."""
    return np.arange(n).reshape(-1, 4, 2).transpose(0, 2, 1).ravel()


def _to_tf32(values: Float) -> NDArray[np.float32]:
    """Float32 numbers with 11 significant bits."""
    bits = values.astype(np.float32).view(np.int32)
    return ((bits + 2**12) & ~(2**13 - 1)).astype(np.int32).view(np.float32)
