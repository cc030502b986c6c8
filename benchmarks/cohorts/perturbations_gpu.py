"""A large screen on a GPU: perturbations of 200 cells against 200 of a control, 1,000 permutations each, exactly.

Screens grow to 10,000 perturbations, which are ten million distances between two halves of 400 cells.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import asot
from benchmarks.cohorts.perturbations import screen
from benchmarks.common import Options, Report, Table, below, require
from benchmarks.gpu.gpu import gpu_name

NEEDS = {"gpu"}

SIZES, QUICK = (100, 1000, 10_000), (4,)
WHOLE, PERMUTATIONS = 10_000, 1000
LIMIT = 180.0
"""Seconds for all of them."""

LONGEST = 1.4 * LIMIT
"""A screen that would take longer than this, by the rate of the one before, is left out."""

CHECKED, TOLERANCE = 3, 1e-12
"""Perturbations that are tested again on the CPU, and by how much distances may differ, of the largest one."""


def run(options: Options) -> Report:
    """Time screens of all sizes in each dimension."""
    sizes, permutations = (QUICK, 20) if options.quick else (SIZES, PERMUTATIONS)
    rows = []
    for dim in (10,) if options.quick else (10, 2, 50):
        D = screen(dim, sizes[-1])
        _call(D[: sizes[0] // 4 + 1], permutations, "cuda")  # loads the kernels
        seconds, done = 0.0, 0
        for n in sizes:
            if (done and seconds / done * n > LONGEST) or (n == WHOLE and dim != 10):
                break
            seconds, test = _call(D[: n + 1], permutations, "cuda")
            done = n
            whole = below(seconds / n * WHOLE, LIMIT, "s")
            per_second = f"{n * (permutations + 1) / seconds:,.0f}"
            rows.append([str(dim), f"{n:,}", f"{seconds:.1f} s", whole, per_second, _difference(D, test, permutations)])
            print(" | ".join(rows[-1]), flush=True)
    columns = ["dimensions", "perturbations", "time", f"for {WHOLE:,}", "distances / s", "difference to the CPU"]
    notes = (
        f"For {WHOLE:,}: the time itself, or that of the smaller screen times the ratio.",
        f"Difference: of distances and of means over permutations, for {CHECKED} perturbations, over the largest.",
    )
    text = f"One {gpu_name()}; whole calls with {permutations:,} permutations."
    return Report("perturbations_gpu", "A large screen on a GPU", text, [Table("", columns, rows)], notes)


def _call(D: Any, permutations: int, device: str) -> tuple[float, Any]:
    started = time.perf_counter()
    test = asot.perturbation_test(
        D, "control", n_permutations=permutations, n_jobs=-1, random_state=0, device=device, progress=False
    )
    return time.perf_counter() - started, test


def _difference(D: Any, test: Any, permutations: int) -> str:
    few = _call(D[: CHECKED + 1], permutations, "cpu")[1]
    own = slice(0, CHECKED + 1)
    apart = max(
        np.abs(few.distance - test.distance[own]).max() / test.distance.max(),
        np.abs(few.null_mean - test.null_mean[own]).max() / test.null_mean.max(),
    )
    require("perturbations", float(apart), TOLERANCE)
    return f"{apart:.0e}"
