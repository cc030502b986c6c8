"""Exact distances by size and dimension, on a GPU and on all threads of its machine, and which of them "auto" takes.

Gaussian clouds of one size, with equal and with random masses; whole warm calls of `pairwise_exact`. A collection
begins with a few distributions and is doubled until a call takes a tenth of a second, so that a rate is that of many
pairs. The rates are those by which `device="auto"` decides (`asot.exact.price`).
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import squareform

import asot
from benchmarks.common import Options, Report, Table, largest_difference, require
from benchmarks.gpu.gpu import gpu_name

NEEDS = {"gpu"}

SIZES = (8, 16, 32, 64, 100, 150, 250, 400, 700, 1000, 1448, 2048)
QUICK_SIZES = (8, 64)
DIMENSIONS = (2, 7, 100)
FEWEST, MOST = 12, 1536
"""Distributions of a collection."""

LONG_ENOUGH = 0.1
"""Seconds of a call that is not doubled any more."""

TOLERANCE = 1e-12
"""Of the largest cost."""

GPU = "cuda"


class Timed(NamedTuple):
    """The last call of a collection that was doubled."""

    n: int
    seconds: float
    result: Any

    @property
    def rate(self) -> float:
        """Pairs per second."""
        return self.n * (self.n - 1) / 2 / self.seconds


def run(options: Options) -> Report:
    """Measure all sizes and make the report."""
    tables = []
    for dim in DIMENSIONS:
        rows = []
        for size in QUICK_SIZES if options.quick else SIZES:
            for weighted in (False, True):
                rows.append(_row(size, dim, weighted))
                print(f"{dim}-D | {' | '.join(rows[-1])}", flush=True)
        tables.append(Table(f"**{dim} dimensions.**", COLUMNS, rows))
    return Report("gpu_sizes", "Sizes on a GPU", f"One {gpu_name()}; whole warm calls.", tables, NOTES)


COLUMNS = ["points", "masses", "GPU, pairs/s", "CPU threads, pairs/s", "GPU / CPU", "auto took", "auto / best", "error"]
NOTES = (
    "`pairwise_exact(D, device=...)` with 'cuda', 'cpu' (`n_jobs=-1`) and 'auto', each on a collection that is doubled "
    "until a call takes 0.1 s, and after a call that does not count.",
    "auto / best: seconds of a pair of the call with 'auto', on as many distributions as the GPU had, in units of the "
    "better of the other two. Below 1.2 is the aim.",
    "Error: largest difference between the GPU's values and the CPU's, in units of the largest cost, on the "
    "distributions that both had.",
)


def _row(size: int, dim: int, weighted: bool) -> list[str]:
    points, masses = _clouds(size, dim, weighted)
    on_gpu = _doubled(points, masses, GPU)
    on_cpu = _doubled(points, masses, "cpu")
    auto = _called(points[: on_gpu.n], masses[: on_gpu.n], "auto")
    both = min(on_gpu.n, on_cpu.n)
    first, second = (squareform(each.result.values)[:both, :both] for each in (on_gpu, on_cpu))
    error = largest_difference(first, second, _largest_cost(points[:both]))
    require(f"{size} points, {dim}-D", error, TOLERANCE)
    return [
        f"{size:,}",
        "random" if weighted else "equal",
        f"{on_gpu.rate:,.0f}",
        f"{on_cpu.rate:,.0f}",
        f"{on_gpu.rate / on_cpu.rate:.2f}",
        auto.result.info["device"],
        f"{max(on_gpu.rate, on_cpu.rate) / auto.rate:.2f}",
        f"{error:.1e}",
    ]


def _clouds(size: int, dim: int, weighted: bool) -> tuple[Any, Any]:
    """Points (N, size, dim) and masses (N, size), as many as the largest collection may have within 60 MB."""
    rng = np.random.default_rng(size * dim + weighted)
    n = min(MOST, max(FEWEST, 60_000_000 // (8 * size * dim)))
    masses = rng.random((n, size)) + 0.01 if weighted else np.ones((n, size))
    return rng.normal(size=(n, size, dim)), masses


def _largest_cost(points: Any) -> float:
    """A lower bound on it, from a few points: at least half of the largest."""
    some = points.reshape(-1, points.shape[-1])
    return float(np.linalg.norm(some - some[0], axis=1).max())


def _doubled(points: Any, masses: Any, device: str) -> Timed:
    n = min(FEWEST, len(points))
    _called(points[:n], masses[:n], device)
    timed = _called(points[:n], masses[:n], device)
    while timed.seconds < LONG_ENOUGH and n < len(points):
        n = min(2 * n, len(points))
        timed = _called(points[:n], masses[:n], device)
    return min(timed, _called(points[:n], masses[:n], device), key=lambda each: each.seconds)


def _called(points: Any, masses: Any, device: str) -> Timed:
    D = asot.Distributions.from_list(list(points), masses=list(masses))
    started = time.perf_counter()
    result = asot.pairwise_exact(D, device=device, n_jobs=-1)
    return Timed(len(D), time.perf_counter() - started, result)
