"""Calibrated estimates on a GPU, and whether "auto" ever loses to the CPU.

Whole calls from a collection and its anchor space to NumPy results, the fit on 64 exact pairs included: the median of
repeats after a warm-up, which loads the kernels. Values are compared with those of the CPU on all pairs. What the
calling thread does, and kernels, are printed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import asot
from benchmarks.common import DisagreementError, Options, Report, Table, below, ratio
from benchmarks.data import mnist_collection, tu_collection, zinc_test_collection
from benchmarks.gpu.gpu import gpu_name, median_seconds, print_kernels, print_profile

NEEDS = {"gpu", "graphs", "images", "molecules"}

Collection = Callable[[Path], asot.Distributions]

COLLECTIONS: dict[str, tuple[Collection, int, tuple[float | None, float | None]]] = {
    # anchors, and targets in ms for the whole call without and with bounds as features
    "ZINC, test split": (lambda folder: zinc_test_collection(folder, 5000), 23, (60.0, 300.0)),
    "NCI1": (lambda folder: tu_collection(folder, "NCI1"), 30, (None, None)),
    "MNIST, 500 digits": (lambda folder: mnist_collection(folder, 500), 64, (None, None)),
}
MOST_ERROR = {("ZINC, test split", True): 1.5}
"""Targets in percent, by whether bounds are features."""

QUICK = 300
"""Distributions of a quick run."""

AGREEMENT, WRONG = 1e-6, 0.1
"""How far values may be from the CPU's, relatively; and what no value may be."""

SIZES = (30, 60, 120, 250, 500, 1000)
"""Distributions of the calls that are made with "auto", "cpu" and "cuda"."""

FEW = 250
"""Of them, so that a call takes so little time that two are too few."""


def run(options: Options) -> Report:
    """Measure everything and make the report."""
    assert options.data is not None
    rows, crossings = [], []
    for name, (load, k, targets) in COLLECTIONS.items():
        D = load(options.data)
        D = D[:QUICK] if options.quick else D
        space = asot.KMeansAnchors(k, random_state=0).fit(D).space_
        for bounds, target in zip((False, True), targets, strict=True):
            rows.append(_estimates(name, D, space, bounds, target))
        crossings += _auto(name, D)
    tables = [
        Table("**Calibrated**, all pairs (`pairwise(D, space=space, estimate='calibrated')`).", COLUMNS, rows),
        Table("**Where work goes** (`pairwise_exact`, N distributions).", AUTO_COLUMNS, crossings),
    ]
    return Report("gpu_estimates", "Estimates on a GPU", f"One {gpu_name()}; whole calls.", tables, NOTES)


COLUMNS = ["collection", "pairs", "features", "whole call", "after the fit", "CPU threads", "CPU / whole call", "error",
           "agreement"]  # fmt: skip
AUTO_COLUMNS = ["collection", "N", "auto", "cpu", "cuda", "auto took", "auto / best"]
NOTES = (
    "Whole call: from the collection and its anchors to values and errors on the host: nearest anchors, local means, "
    "64 exact pairs and their fit, transfers. After the fit: the part of it that is left then. The GPU begins to "
    "measure pairs while the host still solves exact ones and fits.",
    "CPU threads: the same call with `device='cpu'` and every core of the machine, once. Error: root mean square on "
    "held-out pairs, relative to the mean distance. Agreement: the largest relative difference to the CPU's values "
    "over all pairs, which should be at most 1e-6.",
    "What bounds it: on the GPU, features take longer than the anchor problems they come from, and bounds several "
    "times as long as both. Before it can begin, the host makes many short passes: coordinates of the points, nearest "
    "anchors, local means, and with bounds also distinct points and their coordinates. Errors: a fit to thousands of "
    "pairs instead of 64 is hardly better; more anchors are.",
    f"Where work goes: the median of nine calls with `n_jobs=-1`, of two where N is above {FEW}, the GPU awake.",
)


def _estimates(name: str, D: asot.Distributions, space: Any, bounds: bool, target: float | None) -> list[str]:
    how: dict[str, Any] = {"random_state": 0, "n_jobs": -1}
    way = {"kind": "calibrated", "n_anchors": space.n_anchors, "bounds": bounds, "n_exact": 64, "given_space": True}

    def call(device: str) -> Any:  # in a space that has not seen the collection: it would remember nearest anchors
        return asot.pairwise(D, space=asot.AnchorSpace(space.anchors), strategy=way, device=device, **how)

    seconds, gpu = median_seconds(lambda: call("cuda"), 7)
    print_profile(f"{name}, {'with bounds' if bounds else 'cheap'}", lambda: call("cuda"), 5)
    print_kernels(lambda: call("cuda"))
    started = time.perf_counter()
    cpu = call("cpu")
    cpu_seconds = time.perf_counter() - started
    apart = np.abs(gpu.values - cpu.values) / np.maximum(cpu.values, 1e-9 * cpu.values.max())
    outliers = float(np.mean(apart > AGREEMENT))
    if apart.max() > WRONG:
        raise DisagreementError(f"{name}: a value differs by {apart.max():.2g} of itself from the CPU's")
    off = 100 * gpu.info["calibration"]["held_out_relative"]
    most = MOST_ERROR.get((name, bounds))
    whole = f"{1e3 * seconds:,.0f} ms" if target is None else below(1e3 * seconds, target, "ms")
    return [
        f"{name}, k = {space.n_anchors}",
        f"{len(gpu.values):,}",
        "with bounds" if bounds else "cheap",
        whole,
        f"{1e3 * gpu.info['seconds_on_pairs']:,.0f} ms",
        f"{cpu_seconds:.2f} s",
        ratio(cpu_seconds / seconds, None),
        f"{off:.2f} %" if most is None else below(off, most, "%"),
        f"{apart.max():.1e} (met)" if outliers == 0 else f"{outliers:.1e} of the pairs above, up to {apart.max():.1e}",
    ]


def _auto(name: str, D: asot.Distributions) -> list[list[str]]:
    rows = []
    for n in (size for size in SIZES if size <= len(D)):
        took, answers = {}, {}
        for device in ("cuda", "cpu", "auto"):
            call = lambda device=device: asot.pairwise_exact(D[:n], device=device, n_jobs=-1)  # noqa: B023, E731
            took[device], answers[device] = median_seconds(call, 2 if n > FEW else 9)
        best = min(took["cuda"], took["cpu"])
        times = [f"{1e3 * took[device]:,.1f} ms" for device in ("auto", "cpu", "cuda")]
        rows.append([name, f"{n:,}", *times, answers["auto"].info["device"], f"{took['auto'] / best:.2f}"])
    return rows
