"""What `before_after` times: calls that another version of asot has, too, named by the table of `benchmarks` that they
stand for. Run as a program, it reads names from its input, and answers each with seconds of the processor and numbers.

It imports nothing of `benchmarks`, so that the version of asot is that of ``PYTHONPATH``.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import asot

Call = Callable[[], Any]

LEAST_SECONDS = 0.02
"""What is timed at once: as many calls as this takes."""

ONE: dict[str, Any] = {"n_jobs": 1, "device": "cpu"}


def histograms(rng: Any, k: int, n: int) -> tuple[Any, Any]:
    """Rows (n, k) of total 1, and a Euclidean cost (k, k)."""
    x = rng.normal(size=(k, 8))
    return rng.dirichlet(np.full(k, 0.3), n), np.linalg.norm(x[:, None] - x, axis=-1)


def words(rng: Any, k: int, n: int, each: int) -> Any:
    """Rows (n, k) with so many anchors each."""
    A = np.zeros((n, k))
    for row in A:
        row[rng.choice(k, each, replace=False)] = rng.random(each)
    return A / A.sum(axis=1, keepdims=True)


def clouds(rng: Any, n: int, points: int, dim: int, *, equal: bool = False, weighted: bool = False) -> Any:
    """n distributions of about so many points."""
    sizes = np.full(n, points) if equal else rng.integers(max(2, points // 2), points * 3 // 2 + 1, n)
    masses = [rng.random(size) + 0.01 for size in sizes] if weighted else None
    return asot.Distributions.from_list([rng.normal(size=(size, dim)) for size in sizes], masses=masses)


def shared(rng: Any) -> dict[str, Call]:
    cases: dict[str, Call] = {}
    for k, n in ((18, 250), (30, 200), (60, 120), (150, 50)):
        A, C = histograms(rng, k, n)
        cases[f"exact_shared: k = {k}"] = lambda A=A, C=C: asot.emd_many(A, cost=C, **ONE).values
    A, C = histograms(rng, 30, 80)
    cases["exact_shared: with plans, k = 30"] = lambda: asot.emd_many(A, cost=C, plans=True, **ONE).values
    B, E = histograms(rng, 600, 4)
    cases["edges_shared: 6 pairs, k = 600"] = lambda: asot.emd_many(B, cost=E, **ONE).values
    grid = np.stack(np.meshgrid(np.arange(28.0), np.arange(28.0)), axis=-1).reshape(-1, 2)
    images = rng.random((4, 784)) * (rng.random((4, 784)) < 0.3)
    for name, cost in (
        ("Euclidean", np.linalg.norm(grid[:, None] - grid, axis=-1)),
        ("city block", np.abs(grid[:, None] - grid).sum(axis=-1)),
    ):
        label = f"edges_shared: 6 pairs of images, 28², {name}"
        cases[label] = lambda cost=cost: asot.emd_many(images, cost=cost, **ONE).values
    x = rng.normal(size=(1000, 3))
    far, rows = np.linalg.norm(x[:, None] - x, axis=-1), words(rng, 1000, 60, 5)
    cases["edges_more: rows of 5 words, k = 1,000"] = lambda: asot.emd_many(rows, cost=far, **ONE).values
    two, C5 = words(rng, 5, 2, 5), histograms(rng, 5, 2)[1]
    cases["edges_more: one pair by emd_many, k = 5"] = lambda: asot.emd_many(two, cost=C5, **ONE).values
    a, b, own = rng.dirichlet(np.ones(30)), rng.dirichlet(np.ones(30)), rng.random((30, 30))
    cases["edges_more: one pair by emd, k = 30"] = lambda: asot.emd(a, b, own).value
    H, F = histograms(rng, 64, 200)
    cases["memory: TopK, k = 64"] = lambda: asot.emd_many(H, cost=F, sink=asot.sinks.TopK(10), **ONE).distances
    return cases


def entropic(rng: Any) -> dict[str, Call]:
    A, C = histograms(rng, 30, 120)
    B, E = histograms(rng, 300, 4)

    def sinkhorn(A: Any, cost: Any, reg: float, **given: Any) -> Call:
        return lambda: asot.sinkhorn_many(A, cost=cost, reg=reg * cost.max(), **given, **ONE).values

    return {
        "entropic: k = 30, 50 sweeps": sinkhorn(A, C, 0.05, max_iter=50, tol=None),
        "entropic: k = 30, to 1e-9": sinkhorn(A[:60], C, 0.1, max_iter=5000, tol=1e-9),
        "entropic: k = 300, small ε": sinkhorn(B, E, 0.005, max_iter=5000, tol=1e-9),
    }


def points(rng: Any) -> dict[str, Call]:
    cases: dict[str, Call] = {}

    def exact(D: Any, **given: Any) -> Call:
        return lambda: asot.pairwise_exact(D, **given, **ONE).values

    shapes: dict[str, tuple[Any, ...]] = {
        "20 points, 2-D": (100, 20, 2), "50 points, 3-D": (50, 50, 3), "30 points, 64-D": (60, 30, 64),
        "150 points, 10-D": (15, 150, 10), "600 points, 5-D": (3, 600, 5),
    }  # fmt: skip
    for label, shape in shapes.items():
        cases["exact_points: " + label] = exact(clouds(rng, *shape))
    cases["exact_points: 50 points, 3-D, weighted"] = exact(clouds(rng, 50, 50, 3, weighted=True))
    cases["exact_points: 20 points, 2-D, equal sizes"] = exact(clouds(rng, 100, 20, 2, equal=True))
    cases["exact_points: 150 points, 30-D, equal sizes"] = exact(clouds(rng, 15, 150, 30, equal=True))
    for n in (5, 20, 50):
        cases[f"edges: one pair of {n} points"] = exact(clouds(rng, 2, n, 3, equal=True))
    cases["edges: one pair of 1,000 points, weighted"] = exact(clouds(rng, 2, 1000, 3, weighted=True))
    cases["edges: 25 points, 300-D"] = exact(clouds(rng, 40, 25, 300))
    for equal in (False, True):
        for weighted in (False, True):
            label = f"edges: lines of 50 {'equal sizes' if equal else 'points'}{', weighted' if weighted else ''}"
            cases[label] = exact(clouds(rng, 250, 50, 1, equal=equal, weighted=weighted))
    for size in (1, 2, 5):
        cases[f"edges_more: {size} points each"] = exact(clouds(rng, 200, size, 3, equal=True))
    cases["edges: three pairs, canberra"] = exact(clouds(rng, 3, 5, 3), metric="canberra")
    D = clouds(rng, 60, 20, 3)
    for metric in ("canberra", "cityblock", "chebyshev", "minkowski", "angular"):
        cases[f"every_distance: 20 points, {metric}"] = exact(D, metric=metric)
    for p in (2, 3):
        cases[f"every_distance: 20 points, p = {p}"] = exact(D, p=p)
    cases["every_distance: 20 points, unmatched"] = exact(D, unmatched=10.0)
    diagrams = [np.sort(rng.random((n, 2)), axis=1) for n in rng.integers(10, 40, 40)]
    cases["every_distance: diagrams"] = exact(asot.Distributions.from_list(diagrams), unmatched="diagonal")
    labels = [rng.integers(0, 6, (30, 1)).astype(float) for _ in range(300)]
    cases["every_distance: nested labels"] = exact(asot.Distributions.from_list(labels), metric="hamming")
    return cases


def searches(rng: Any) -> dict[str, Call]:
    K, wide = clouds(rng, 300, 20, 5), clouds(rng, 100, 20, 100)
    return {
        "neighbors: 300 of 20 points, 5-D": lambda: asot.kneighbors(K, 5, **ONE).distances,
        "documents: 100 of 20 points, 100-D": lambda: asot.kneighbors(wide, 5, **ONE).distances,
    }


def estimates(rng: Any) -> dict[str, Call]:
    P = clouds(rng, 60, 50, 3)
    given = {"n_anchors": 30, "random_state": 0, **ONE}
    learner = asot.KMeansAnchors(30, random_state=0, n_jobs=1)
    return {
        "errorbars: anchors with bounds": lambda: asot.pairwise(P, estimate="anchor", bounds=True, **given).values,
        "errorbars: max_error": lambda: asot.pairwise(P, max_error="5%", **given).values,
        "strategy: calibrated": lambda: asot.pairwise(P, estimate="calibrated", **given).values,
        "anchors: k-means of 3,000 points": lambda: learner.fit(P).transform(P),
        "baselines: sliced": lambda: asot.baselines.sliced(P, n_projections=100, random_state=0, n_jobs=1).values,
    }


def data(rng: Any) -> dict[str, Call]:
    arrays = [rng.normal(size=(5, 3)) for _ in range(20_000)]
    A, C = histograms(rng, 18, 200)

    def stored() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            return asot.emd_many(A, cost=C, sink=asot.sinks.Store(Path(folder) / "store"), **ONE).values()

    return {
        "adapters: from_list of 20,000 arrays": lambda: asot.Distributions.from_list(arrays).points,
        "store: 19,900 pairs, k = 18": stored,
    }


def cases() -> dict[str, Call]:
    """All calls by name; data are the same in every version."""
    made: dict[str, Call] = {}
    for seed, part in enumerate((shared, entropic, points, searches, estimates, data)):
        made |= part(np.random.default_rng(seed))
    return made


def timed(call: Call) -> tuple[float, list[float]]:
    """Seconds of the processor for one call, and the answer in two numbers."""
    started = time.process_time()
    answer = np.asarray(call(), dtype=float)
    once = time.process_time() - started
    repeats = 1 + int(LEAST_SECONDS / max(once, 1e-6)) if once < LEAST_SECONDS else 1
    started = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - started) / repeats, [float(answer.sum()), float(np.abs(answer).max())]


def main() -> None:
    warnings.simplefilter("ignore")
    known = cases()
    print(json.dumps(list(known)), flush=True)
    for line in sys.stdin:
        try:
            print(json.dumps(timed(known[line.strip()])), flush=True)
        except Exception as error:
            print(json.dumps(f"{type(error).__name__}: {error}"), flush=True)


if __name__ == "__main__":
    main()
