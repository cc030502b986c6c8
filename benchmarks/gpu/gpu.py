"""On a GPU: exact and entropic distances between all pairs.

Whole calls, from NumPy arrays to NumPy results: the median of repeats after a warm-up, which loads the kernels. Exact
values are compared with the CPU solver's on all pairs; entropic ones with the same iterations in float64. Beside the
entropic call run the paper's algorithm and plain matrix products, both in PyTorch on the same GPU.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import asot
from benchmarks.common import DisagreementError, Options, Report, Table, below, largest_difference, ratio, require
from benchmarks.made import Histograms, cube_histograms, trial_histograms

NEEDS = {"gpu"}

EXACT = {  # (k, N): target in ms for the whole call
    "ZINC test size": (23, 5000, 15.0),
    "NCI1 size": (30, 4110, 16.0),
    "k = 60": (60, 1500, 17.0),
    "MNIST size": (150, 500, None),
}
OVER_CPU = {23: 100.0, 30: 100.0, 60: None, 150: 1.0}
ENTROPIC = {  # (k, N, iterations, precision): target in ms for the whole call
    "NCI1 size": (30, 4110, 50, "float32", 40.0),
    "ZINC test size": (23, 5000, 50, "float32", 55.0),
    "MNIST size": (150, 500, 50, "float32", 25.0),
    "10,000 histograms": (128, 10000, 100, "float32", 10_000.0),
    "10,000 histograms, one TF32 product": (128, 10000, 100, "tf32", 4_000.0),
}
REG = 0.1
OVER_PAPER, OVER_PRODUCTS = 50.0, 4.0
EXACT_TOLERANCE = 1e-12
ENTROPIC_TOLERANCE = {"float32": 1e-5, "tf32": 5e-3, "float64": 1e-9}
RATES = {
    23: ("float32",),
    30: ("float32", "tf32", "float64"),
    64: ("float32",),
    128: ("float32", "tf32"),
    150: ("float32",),
}
PROFILED = 30
"""Functions that `print_profile` lists, and kernels of `print_kernels`."""

SIZES = {23: 5000, 30: 4110, 64: 2000, 128: 2000, 150: 500}


def run(options: Options) -> Report:
    """Measure everything and make the report."""
    tables = [_exact(options.quick), _entropic(options.quick), _rates(options.quick)]
    return Report("gpu", "On a GPU", f"One {gpu_name()}; whole calls, NumPy arrays in and out.", tables, NOTES)


def gpu_name() -> str:
    import cupy

    return str(cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())


NOTES = (
    "Whole call: `emd_many(A, cost=C, device='cuda')` and `sinkhorn_many(A, cost=C, reg=0.1, max_iter=50, tol=None, "
    "device='cuda')`, validation, transfers and the result on the host included. Kernel: the time of the device alone.",
    "CPU threads: the same call with `device='cpu'` and every core of the machine.",
    "Paper's algorithm: batches of 50,000 pairs, scalings by batched products, plans as matrices. Plain products: two "
    "float32 matrix products per iteration for blocks of two million pairs.",
    "Error, exact: largest difference to the CPU solver over all pairs, in units of max C. Error, entropic: largest "
    "relative difference to float64 with the same iterations, on 20,000 random pairs.",
)


def median_seconds(function: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The median time of a call after one that does not count, and its last answer."""
    answer = function()
    seconds = []
    for _ in range(repeats):
        answer = None  # a result's memory is used again once the result is gone
        started = time.perf_counter()
        answer = function()
        seconds.append(time.perf_counter() - started)
    return float(np.median(seconds)), answer


def print_profile(label: str, function: Callable[[], Any], repeats: int) -> None:
    """Print where the calling thread spends the time of some calls: for what a GPU waits, and where it waits for it."""
    profile = cProfile.Profile()
    with profile:
        for _ in range(repeats):
            function()
    print(f"{label}, {repeats} calls:", flush=True)
    pstats.Stats(profile).sort_stats("tottime").print_stats(PROFILED)


def print_kernels(function: Callable[[], Any]) -> None:
    """Print what runs on the GPU in one call, whoever launched it, where PyTorch is installed."""
    try:
        from torch import profiler
    except ImportError:
        return
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]) as profile:
        function()
    print(profile.key_averages().table(sort_by="self_device_time_total", row_limit=PROFILED), flush=True)


def kernel_seconds(solver: Any, n: int, repeats: int) -> float:
    """The median time of the device for all pairs of one set, without preparation and transfers."""
    import cupy

    from asot.run.pairs import AllPairs

    pairs = AllPairs(n)
    per_tile = min(len(pairs), solver.pairs_per_tile(2**33))
    on_device = solver.on(0)
    cupy.cuda.Device().synchronize()
    seconds = []
    with cupy.cuda.Stream() as stream:
        for _ in range(repeats + 1):
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record(stream)
            for start in range(0, len(pairs), per_tile):
                on_device.solve(pairs, start, min(start + per_tile, len(pairs)))
            end.record(stream)
            end.synchronize()
            seconds.append(cupy.cuda.get_elapsed_time(begin, end) / 1e3)
    return float(np.median(seconds[1:]))


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.1f} ms"


# ---------------------------------------------------------------------------------------------------------- exact


def _exact(quick: bool) -> Table:
    from asot.exact.cuda.solver import ExactCuda

    rows = []
    for name, (k, n, target) in EXACT.items():
        h = trial_histograms(k, n // 10 if quick else n)
        gpu_seconds, gpu = median_seconds(lambda h=h: asot.emd_many(h.masses, cost=h.cost, device="cuda"), 9)
        cpu_seconds, cpu = median_seconds(lambda h=h: asot.emd_many(h.masses, cost=h.cost, device="cpu", n_jobs=-1), 2)
        error = largest_difference(gpu.values, cpu.values, h.cost.max())
        require(name, error, EXACT_TOLERANCE)
        if (gpu.status != asot.Status.OPTIMAL).any():
            raise DisagreementError(f"{name}: a pair is not proven optimal")
        kernel = kernel_seconds(ExactCuda(h.masses, None, h.cost, cancel=True), len(h.masses), 5)
        whole = _ms(gpu_seconds) if target is None else below(1e3 * gpu_seconds, target, "ms")
        over_cpu = ratio(cpu_seconds / gpu_seconds, OVER_CPU[k])
        rate = f"{h.n_pairs / kernel / 1e6:,.0f} M/s"
        size = f"{name}: k = {k}, N = {len(h.masses):,}"
        times = whole, _ms(kernel), rate, _ms(cpu_seconds), over_cpu
        rows.append([size, f"{h.n_pairs:,}", *times, f"{error:.1e}"])
    columns = ["all pairs of", "pairs", "whole call", "kernel", "pairs", "CPU threads", "CPU / whole call", "error"]
    return Table("**Exact** (`emd_many`).", columns, rows)


# ---------------------------------------------------------------------------------------------------------- entropic


def _entropic(quick: bool) -> Table:
    rows = []
    for name, (k, n, iterations, precision, target) in ENTROPIC.items():
        h = cube_histograms(k, n // 10 if quick else n)
        large = k == 128

        def ours(h: Histograms = h, iterations: int = iterations, precision: str = precision) -> asot.Distances:
            how = {"reg": REG, "max_iter": iterations, "tol": None, "precision": precision, "device": "cuda"}
            return asot.sinkhorn_many(h.masses, cost=h.cost, **how)

        seconds, answer = median_seconds(ours, 2 if large else 9)
        chosen = np.sort(np.random.default_rng(0).choice(h.n_pairs, min(20_000, h.n_pairs), replace=False))
        pairs = np.stack(_condensed_pairs(len(h.masses), chosen), axis=1)
        reference = asot.sinkhorn_many(
            h.masses, cost=h.cost, reg=REG, pairs=pairs, max_iter=iterations, tol=None, device="cpu", n_jobs=-1
        ).values
        error = float((np.abs(answer.values[chosen] - reference) / reference).max())
        require(name, error, ENTROPIC_TOLERANCE[precision])
        flops = 4.0 * k * k * iterations * h.n_pairs
        cells = [f"{name}: k = {k}, {iterations} iterations", f"{h.n_pairs:,}", below(1e3 * seconds, target, "ms")]
        cells += [f"{flops / seconds / 1e12:.1f} TFLOP/s", f"{error:.1e}"]
        cells += ["–", "–"] if large else _torch_peers(h, iterations, seconds)
        rows.append(cells)
    columns = ["all pairs of", "pairs", "whole call", "useful rate", "error", "paper's algorithm", "plain products"]
    return Table("**Entropic** (`sinkhorn_many`, ε = 0.1, cost of order 1).", columns, rows)


def _condensed_pairs(n: int, positions: Any) -> tuple[Any, Any]:
    from asot.run.pairs import AllPairs

    starts = AllPairs(n).row_start(np.arange(n))
    rows = np.searchsorted(starts, positions, side="right") - 1
    return rows, positions - starts[rows] + rows + 1


def _torch_peers(h: Histograms, iterations: int, ours: float) -> list[str]:
    """Times of the paper's algorithm and of plain products, and how much faster the call is."""
    import torch

    A = torch.tensor(h.masses, dtype=torch.float32, device="cuda")
    C = torch.tensor(h.cost, dtype=torch.float32, device="cuda")
    i, j = torch.triu_indices(len(A), len(A), 1, device="cuda")

    def timed(function: Callable[..., Any]) -> float:
        def call() -> None:
            function(A, i, j, C, iterations)
            torch.cuda.synchronize()

        return median_seconds(call, 3)[0]

    paper, products = timed(papers_algorithm), timed(plain_products)
    return [
        f"{_ms(paper)}, {ratio(paper / ours, OVER_PAPER)}",
        f"{_ms(products)}, {ratio(products / ours, OVER_PRODUCTS)}",
    ]


def papers_algorithm(A: Any, i: Any, j: Any, C: Any, iterations: int, block: int = 50_000) -> Any:
    """Batched Sinkhorn as the paper describes it: column vectors, and the plan of every pair as a matrix."""
    import torch

    K = torch.exp(-C / REG)
    values = []
    for start in range(0, len(i), block):
        a, b = A[i[start : start + block], :, None], A[j[start : start + block], :, None]  # (P, k, 1)
        v = b
        for _ in range(iterations):
            u = a / (K @ v)
            v = b / (K.T @ u)
        plan = torch.diag_embed(u[..., 0]) @ K @ torch.diag_embed(v[..., 0])  # (P, k, k)
        values.append((plan * C).sum(dim=(1, 2)))
    return torch.cat(values)


def plain_products(A: Any, i: Any, j: Any, C: Any, iterations: int, block: int = 2_000_000) -> Any:
    """Two matrix products per iteration for a block of pairs, and no plans."""
    import torch

    K = torch.exp(-C / REG)
    values = []
    for start in range(0, len(i), block):
        a, b = A[i[start : start + block]], A[j[start : start + block]]  # (P, k)
        v = torch.ones_like(b)
        for _ in range(iterations):
            u = a / (v @ K.T)
            v = b / (u @ K)
        values.append((u * (v @ (K * C).T)).sum(dim=1))
    return torch.cat(values)


# ---------------------------------------------------------------------------------------------------------- ceilings


def _rates(quick: bool) -> Table:
    """What the fused kernel reaches beside what this chip can do."""
    ceilings = {name: _ceiling(name, 2048 if quick else 8192) for name in ("TF32", "float64")}
    limits = {"float32": ceilings["TF32"] / 3, "tf32": ceilings["TF32"], "float64": ceilings["float64"]}
    rows = []
    for k, precisions in RATES.items():
        h = cube_histograms(k, SIZES[k] // 10 if quick else SIZES[k])
        for precision in precisions:
            seconds = kernel_seconds(_fused(h, precision), len(h.masses), 3)
            useful = 4.0 * k * k * 50 * h.n_pairs / seconds / 1e12
            share = f"{useful / limits[precision]:.0%}"
            rows.append([f"k = {k}, N = {len(h.masses):,}", precision, _ms(seconds), f"{useful:.0f} TFLOP/s", share])
    measured = ", ".join(f"{name} {rate:.0f} TFLOP/s" for name, rate in ceilings.items())
    caption = (
        f"**Rates of the fused kernel**, 50 iterations. A large matrix product on this chip reaches {measured}; "
        "three-pass TF32 has a third of it. k = 150 takes parts in half precision, whose products may be twice as "
        "fast, and is compared with the same. Useful: without the padding of k."
    )
    return Table(caption, ["all pairs of", "precision", "kernel", "useful", "of the ceiling"], rows)


def _ceiling(name: str, size: int) -> float:
    """TFLOP/s of a large matrix product."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = name == "TF32"
    x = torch.randn(size, size, device="cuda", dtype=torch.float64 if name == "float64" else torch.float32)

    def product() -> None:
        x @ x
        torch.cuda.synchronize()

    seconds, _ = median_seconds(product, 5)
    torch.backends.cuda.matmul.allow_tf32 = False
    return 2.0 * size**3 / seconds / 1e12


def _fused(h: Histograms, precision: str) -> Any:
    from asot.entropic.cuda import SinkhornCuda
    from asot.entropic.options import SinkhornOptions

    return SinkhornCuda(h.masses, None, h.cost, SinkhornOptions(REG, max_iter=50, tol=None), precision=precision)
