"""A screen on two cores: 100 perturbations of 200 cells against 200 of a control, 1,000 permutations each.

Every permutation is an exact Wasserstein distance between two halves of 400 cells, so that this is 100,100 of them.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import asot
from benchmarks.common import Options, Report, Table, below

NEEDS: set[str] = set()

BUDGET = 240.0
"""Seconds of processor time: two minutes on two cores."""


def screen(d: int, n: int, cells: int = 200) -> Any:
    """A control and n perturbations of normal cells, every tenth of which moves."""
    rng = np.random.default_rng(d)
    shift = np.where(np.arange(n + 1) % 10 == 5, 1.0, 0.0)
    points = [rng.normal(size=(cells, d)) + x * np.eye(d)[0] for x in shift]
    return asot.Distributions.from_list(points, ids=["control", *(f"g{i:03}" for i in range(1, n + 1))])


def run(options: Options) -> Report:
    """Time the whole call in each dimension."""
    n, permutations = (3, 20) if options.quick else (100, 1000)
    rows = []
    for d in (2, 10, 50):
        D = screen(d, n)
        wall, worked = time.perf_counter(), time.process_time()
        with threadpool_limits(2):
            test = asot.perturbation_test(D, "control", n_permutations=permutations, n_jobs=2, random_state=0)
        wall, worked = time.perf_counter() - wall, time.process_time() - worked
        moved = np.array([int(str(one)[1:]) % 10 == 5 if one != "control" else False for one in test.ids])
        found = test.q_value <= 0.05
        counts = [f"{int((found & moved).sum())} of {int(moved.sum())}", str(int((found & ~moved).sum()))]
        each = f"{1e6 * worked / (n * (permutations + 1)):.0f} µs"
        rows.append([str(d), f"{wall:.0f} s", below(worked, BUDGET, "s"), each, *counts])
    columns = ["dimensions", "elapsed", "processor time", "per distance", "found (q ≤ 0.05)", "found without a shift"]
    notes = [
        f"{n:,} perturbations, {permutations:,} permutations, two threads. Elapsed time is that of a machine that "
        "others use as well; processor time is what two cores would share.",
    ]
    return Report("perturbations", "A screen on two cores", __doc__ or "", [Table("", columns, rows)], notes)
