"""BDS-eOT: entropic transport between the original distributions, many pairs of different sizes in one sparse problem.

This is what a GPU needs: one pair at a time leaves it idle, and padding all pairs to one size wastes it. The pairs of a
tile become the blocks on the diagonal of a sparse matrix, and one iteration of all of them is two products with it
(`asot_paper.baselines.stacked`). The numbers are those of `asot.baselines.entropic`, up to rounding.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot.baselines.arguments import read, run
from asot.data.distributions import Distributions
from asot.results.distances import Distances
from asot.run import engine
from asot.run.devices import torch_device, torch_threads
from asot.run.executors import ProgressLike
from asot.run.protocols import Solution, Solver, Status
from asot.validation import as_bytes, as_choice, as_n_jobs, as_positive_int
from asot_paper.baselines.checks import as_reg_of_points, refuse_large_pairs
from asot_paper.baselines.merged import MergedPoints, merged_points

if TYPE_CHECKING:
    import torch

    from asot_paper.baselines.stacked_sinkhorn import Problem

BYTES_PER_ENTRY = 80
"""Memory of an entry of the sparse matrix, with its copies, its indices and what is in use while it is made."""

MOST_ENTRIES = {"cpu": 2**18, "cuda": 2**27}
"""Of a stack: what a cache holds, and what fills a GPU. Entries are numbered in 32 bits."""

Float = NDArray[np.float64]
Indices = NDArray[np.int64]


def block_diagonal(
    D: Distributions,
    E: Distributions | None = None,
    *,
    reg: float,
    pairs: ArrayLike | None = None,
    max_iter: int = 50,
    init: str = "ones",
    precision: str = "auto",
    device: str = "auto",
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
) -> Distances:
    """Entropic transport of many pairs at once (BDS-eOT), through PyTorch: on a GPU, or on the CPU.

    Exactly `max_iter` of the iterations of `entropic`, for a stack of pairs whose kernels are the diagonal blocks of
    one sparse matrix. Pairs whose kernel float32 cannot hold are solved in float64, or else in logarithms.

    Parameters
    ----------
    D, E, pairs, n_jobs, progress : as in `ot_emd`
    reg, max_iter, init : as in `entropic`
    precision : {"auto", "float32", "float64"}
        "auto" takes float32 on a GPU (relative error about 1e-6) and float64 on the CPU.
    device : {"auto", "cpu", "cuda", "cuda:N"}
        "auto" takes a GPU if PyTorch finds one.
    memory : int or str, optional
        Budget for stacks of pairs on the device. Default: 1 GiB, or a quarter of what is free on a GPU.

    Returns
    -------
    Distances, with a ``marginal_error`` for each pair; the status is FIXED_ITERATIONS.

    Examples
    --------
    >>> r = block_diagonal([[[0.0], [1.0]], [[1.0], [3.0]], [[2.0]]], reg=0.01, device="cpu")
    >>> r.values.round(6)
    array([1.5, 1.5, 1. ])
    """
    check_torch()
    asked = read(D, E, pairs)
    where = torch_device(device, worth_it=True) or "cpu"
    jobs, budget = as_n_jobs(n_jobs) if where == "cpu" else 1, as_bytes(memory, _default_memory(where))
    points = merged_points(asked.both)
    if where == "cpu":
        refuse_large_pairs(asked, points.sizes, BYTES_PER_ENTRY * jobs)
    solver = BlockDiagonal(
        points,
        reg=as_reg_of_points(reg, points.largest),
        max_iter=as_positive_int(max_iter, "max_iter"),
        start_at_target=as_choice(init, "init", ("ones", "target")) == "target",
        precision=as_choice(precision, "precision", ("auto", "float32", "float64")),
        device=where,
        memory=budget // jobs,
        n_pairs=len(asked.pairs),
        column_start=asked.column_start,
    )
    with torch_threads(1):  # threads work on different tiles, not inside a product
        return run(asked, solver, "BDS-eOT", n_jobs=jobs, memory=budget, progress=progress)


def check_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise ImportError("block_diagonal needs PyTorch; pip install 'asot[torch]'") from error


def _default_memory(device: str) -> int:
    if device == "cpu":
        return engine.DEFAULT_MEMORY
    import torch

    return int(torch.cuda.mem_get_info(torch.device(device))[0] // 4)


class BlockDiagonal(Solver):
    """Prepared once from merged points, on a device of torch; then solves tiles of pairs, cut into stacks.

    ``memory`` bounds the bytes of a stack; ``n_pairs`` is how many pairs there will be in all; ``column_start`` is
    added to column indices.
    """

    def __init__(
        self,
        points: MergedPoints,
        *,
        reg: float,
        max_iter: int,
        start_at_target: bool,
        precision: str,
        device: str,
        memory: int,
        n_pairs: int,
        column_start: int = 0,
    ) -> None:
        import torch

        from asot_paper.baselines.stacked import has_sparse_products
        from asot_paper.baselines.stacked_costs import make_costs

        kind = torch.device(device).type
        if precision == "auto":
            precision = "float64" if kind == "cpu" else "float32"
        self._dtype: torch.dtype = getattr(torch, precision)
        for dtype in (self._dtype, torch.float64):
            has_sparse_products(kind, dtype)  # asked here, before there are threads
        self._reg, self._max_iter, self._device = reg, max_iter, device
        self._column_start = column_start
        self._sizes = points.sizes
        self._offsets, self._masses, counts = (
            torch.from_numpy(x).to(device) for x in (points.offsets, points.masses, points.counts)
        )
        self._start = self._masses if start_at_target else counts
        entries_per_pair = float(self._sizes.mean()) ** 2
        self._costs = make_costs(points, device, memory // 2, n_pairs * entries_per_pair)
        self._entries = int(np.clip(memory // 2 / BYTES_PER_ENTRY, 1, MOST_ENTRIES[kind]))
        self._per_tile = max(1, int(self._entries / entries_per_pair))
        self.info: dict[str, Any] = {
            "solver": "Sinkhorn, a block-diagonal kernel",
            "device": str(self._offsets.device),
            "precision": precision,
            "reg": reg,
            "max_iter": max_iter,
            "tol": None,
            "init": "target" if start_at_target else "ones",
        }

    def pairs_per_tile(self, memory: int) -> int:
        return self._per_tile  # from the share of the memory that was given at the start

    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
        columns = columns + self._column_start
        size = len(rows)
        values, error = np.zeros(size), np.zeros(size)
        ends = np.cumsum(self._sizes[rows] * self._sizes[columns])
        start = 0
        while start < size and stop[0] == 0:
            before = ends[start - 1] if start else 0
            end = max(start + 1, int(np.searchsorted(ends, before + self._entries, side="right")))
            with self._memory_errors():
                values[start:end], error[start:end] = self._solve_stack(
                    rows[start:end], columns[start:end], self._dtype, stop
                )
            start = end
        status = np.full(size, Status.FIXED_ITERATIONS, dtype=np.int8)
        return Solution(values, status, np.full(size, self._max_iter, dtype=np.int32), error)

    @contextlib.contextmanager
    def _memory_errors(self) -> Iterator[None]:
        import torch

        try:
            yield
        except torch.cuda.OutOfMemoryError as error:
            raise MemoryError(
                f"{self._device} ran out of memory with stacks of {self._entries:,} entries; give a smaller budget, "
                "such as memory='1G'"
            ) from error

    def _solve_stack(
        self, rows: Indices, columns: Indices, dtype: torch.dtype | None, stop: Indices
    ) -> tuple[Float, Float]:
        """Values and marginal errors in the kernel of a type, or in logarithms (``None``).

        Pairs whose kernel the type cannot form, or whose sums leave its range, are solved in the next finer arithmetic.
        """
        import torch

        from asot_paper.baselines.stacked_sinkhorn import in_kernel, in_logarithms, out_of_reach

        problem = self._problem(rows, columns)
        if dtype is None:
            return in_logarithms(problem, stop)
        finer = torch.float64 if dtype == torch.float32 else None
        far = out_of_reach(problem, dtype)
        if far.all():
            del problem  # the finer one is as large
            return self._solve_stack(rows, columns, finer, stop)
        if far.any():
            del problem
            values, error = np.empty(len(rows)), np.empty(len(rows))
            for part, arithmetic in ((far, finer), (~far, dtype)):
                values[part], error[part] = self._solve_stack(rows[part], columns[part], arithmetic, stop)
            return values, error
        values, error, lost = in_kernel(problem, dtype, stop)
        if lost.any() and stop[0] == 0:
            del problem
            values[lost], error[lost] = self._solve_stack(rows[lost], columns[lost], finer, stop)
        return values, error

    def _problem(self, rows: Indices, columns: Indices) -> Problem:
        import torch

        from asot_paper.baselines.stacked import Stack
        from asot_paper.baselines.stacked_sinkhorn import Problem

        n, m, i, j = (
            torch.from_numpy(x).to(self._device) for x in (self._sizes[rows], self._sizes[columns], rows, columns)
        )
        stack = Stack(n, m)
        row, column = stack.of_rows(self._offsets[i]), stack.of_columns(self._offsets[j])
        return Problem(
            stack, self._costs(stack, row, column, rows, columns), self._masses[row], self._masses[column],
            self._start[column], self._reg, self._max_iter,
        )  # fmt: skip
