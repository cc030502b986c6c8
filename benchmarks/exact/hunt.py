"""A generator over shapes of work: which of them does asot solve slower than POT's core, or than by another way of its
own? Prints the ten worst ratios."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from ot.lp.emd_wrap import emd_c
from scipy.spatial.distance import cdist

import asot
from benchmarks.common import Options, Report, Table, largest_difference, race, require
from benchmarks.exact.edges import Float, upper
from benchmarks.exact.edges_more import MOST_STEPS, on_support, sparse_rows

NEEDS = {"pot"}

SECONDS, QUICK_SECONDS = 600.0, 20.0
"""How long to look."""

TOLERANCE = 1e-6
"""Over the largest distance of a shape; float32 points are looked at in float64 by the core."""


def run(options: Options) -> Report:
    """Race random shapes until the time is over, and report the worst."""
    rng, found = np.random.default_rng(time.time_ns() % 2**32), []
    ends = time.monotonic() + (QUICK_SECONDS if options.quick else SECONDS)
    while time.monotonic() < ends:
        label, contestants = (_points if rng.random() < 0.6 else _histograms)(rng)
        ours = contestants["asot"]
        ours()  # whatever is done once per process

        def deviations(answers: dict[str, Any]) -> dict[str, float]:
            scale = max(float(np.max(answers["asot"])), 1e-300)
            return {name: largest_difference(answers[name], answers["asot"], scale) for name in answers}

        seconds = race(contestants, deviations, repeats=2, tolerance=TOLERANCE, clock=time.process_time).seconds
        found += [
            (each / max(seconds["asot"], 1e-9), name, label, each) for name, each in seconds.items() if name != "asot"
        ]
    require("shapes", 0.0 if found else np.inf, 1.0)
    rows = [[label, name, f"{1e3 * each:.2f} ms", f"{share:.2f}"] for share, name, label, each in sorted(found)[:10]]
    table = Table("The ten worst", ["shape", "rival", "rival's time", "rival / asot"], rows)
    return Report("hunt", "The worst shapes of work", INTRODUCTION, [table], (f"{len(found):,} races.",))


INTRODUCTION = "Random sizes, dimensions, sparsity, types and options; processor time, one thread, best of two."


def _points(rng: Any) -> tuple[str, dict[str, Callable[[], Float]]]:
    n, count, dim = int(rng.choice([1, 2, 3, 5, 8, 20, 60, 150])), int(rng.choice([2, 3, 10, 40])), int(
        rng.choice([1, 2, 3, 10, 100, 768]))  # fmt: skip
    dtype, p = rng.choice(["float64", "float32"]), int(rng.choice([1, 1, 2]))
    metric = str(rng.choice(["euclidean", "cityblock", "chebyshev"]))
    mixed = rng.random() < 0.3
    clouds = [rng.normal(size=(1 + int(rng.integers(2 * n)) if mixed else n, dim)).astype(dtype) for _ in range(count)]
    D = asot.Distributions.from_list(clouds)
    given: dict[str, Any] = {"metric": metric, "p": p, "n_jobs": 1, "device": "cpu"}

    def core() -> Float:
        wide, masses = [x.astype(float) for x in clouds], [np.full(len(x), 1.0 / len(x)) for x in clouds]
        values = [
            emd_c(masses[i], masses[j], cdist(wide[i], wide[j], metric) ** p, MOST_STEPS, 1)[1] for i, j in upper(count)
        ]
        return np.array(values) ** (1.0 / p)

    def listed() -> Float:
        return asot.pairwise_exact(D, pairs=list(upper(count)), **given).values

    label = (
        f"N = {count}, {'up to ' if mixed else ''}{2 * n if mixed else n} points, d = {dim}, {dtype}, {metric}, p = {p}"
    )
    return label, {"asot": lambda: asot.pairwise_exact(D, **given).values, "core": core, "own, pairs listed": listed}


def _histograms(rng: Any) -> tuple[str, dict[str, Callable[[], Float]]]:
    k, count, power = int(rng.choice([5, 30, 150, 600, 1500])), int(rng.choice([2, 4, 12, 40])), int(rng.choice([1, 2]))
    words = min(k, int(rng.choice([2, 10, 50, 150])))
    points = rng.normal(size=(k, 2))
    cost, A = cdist(points, points) ** power, sparse_rows(rng, count, k, words)
    ways = {
        "asot": lambda: asot.emd_many(A, cost=cost, n_jobs=1, device="cpu").values,
        "support + core": lambda: on_support(A, cost),
    }
    if power == 1:
        D = asot.Distributions.from_weights(A, points)
        ways["own pairwise_exact"] = lambda: asot.pairwise_exact(D, n_jobs=1, device="cpu").values
    return f"emd_many, k = {k:,}, {words} words, N = {count}, cost^{power}", ways
