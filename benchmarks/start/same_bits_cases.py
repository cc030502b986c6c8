"""What `same_bits` solves: every solver on made-up problems. Run as a module with a folder, it writes answers there, by
the version of asot that ``PYTHONPATH`` names."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import asot
from benchmarks.start.before_after_cases import ONE, clouds, histograms, words

N = 201
"""Distributions of a case: 20,100 pairs."""

Arrays = list[Any]

METRICS = ("euclidean", "cityblock", "chebyshev", "minkowski", "canberra", "hamming", "jaccard", "rogerstanimoto",
           "sokalsneath", "jensenshannon", "seuclidean", "angular", "sqeuclidean", "cosine", "braycurtis")  # fmt: skip


def shared_cost(rng: Any) -> Arrays:
    A, C = histograms(rng, 30, N)
    return [_found(asot.emd_many(A, cost=C, **ONE))]


def any_shared_cost(rng: Any) -> Arrays:
    return [_found(asot.emd_many(rng.dirichlet(np.ones(12), N), cost=_symmetric(rng, 12), **ONE))]


def plans(rng: Any) -> Arrays:
    A, C = histograms(rng, 10, N)
    r = asot.emd_many(A, cost=C, plans=True, **ONE)
    return [r.values, r.plans.source, r.plans.sink, r.plans.mass, r.plans.f, r.plans.g]


def sparse_rows(rng: Any) -> Arrays:
    x = rng.normal(size=(600, 3))
    return [_found(asot.emd_many(words(rng, 600, N, 6), cost=np.linalg.norm(x[:, None] - x, axis=-1), **ONE))]


def graph(rng: Any) -> Arrays:
    grid = np.stack(np.meshgrid(np.arange(16.0), np.arange(16.0)), axis=-1).reshape(-1, 2)
    images = rng.random((N, 256)) * (rng.random((N, 256)) < 0.1)
    return [_found(asot.emd_many(images, cost=np.abs(grid[:, None] - grid).sum(axis=-1), **ONE))]


def single_problems(rng: Any) -> Arrays:
    found = [asot.emd(rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(7)), rng.random((6, 7))) for _ in range(20_000)]
    parts = [(value, plan.toarray().ravel(), *potentials) for value, plan, potentials in found]
    return [np.array([part[i] for part in parts]) for i in range(4)]


def few_pairs(rng: Any) -> Arrays:
    return [_found(asot.pairwise_exact(clouds(rng, 4, 8, 3), n_jobs=1)) for _ in range(3_500)]


def large(rng: Any) -> Arrays:
    return [_found(asot.pairwise_exact(clouds(rng, 4, 700, 3, weighted=True), **ONE))]


def entropic(rng: Any, reg: float, **given: Any) -> Arrays:
    A, C = histograms(rng, 12, N)
    r = asot.sinkhorn_many(A, cost=C, reg=reg * C.max(), **given, **ONE)
    return [r.values, r.marginal_error]


def neighbors(rng: Any) -> Arrays:
    r = asot.kneighbors(clouds(rng, 4_000, 6, 3), 5, **ONE)
    return [r.distances, r.indices]


def points(rng: Any, weighted: bool = True, equal: bool = False, dim: int = 3, size: int = 9, **given: Any) -> Arrays:
    return [_found(asot.pairwise_exact(clouds(rng, N, size, dim, equal=equal, weighted=weighted), **given, **ONE))]


def whole(rng: Any, metric: str) -> Arrays:
    sizes = rng.integers(3, 12, N)
    arrays = [rng.integers(0, 2, (size, 5)) + (metric == "jensenshannon") * rng.random((size, 5)) for size in sizes]
    last = [rng.random(len(x)) if metric in ("seuclidean", "jensenshannon") else np.ones(len(x)) for x in arrays]
    arrays = [np.c_[x, more].astype(float) for x, more in zip(arrays, last, strict=True)]  # no point is 0
    return [_found(asot.pairwise_exact(asot.Distributions.from_list(arrays), metric=metric, **ONE))]


def diagrams(rng: Any) -> Arrays:
    given = asot.Distributions.from_list([np.sort(rng.random((n, 2)), axis=1) for n in rng.integers(3, 12, N)])
    return [_found(asot.pairwise_exact(given, unmatched="diagonal", **ONE))]


def _found(r: Any) -> Any:
    return r.values


def _symmetric(rng: Any, k: int) -> Any:
    cost = rng.random((k, k))
    cost = cost + cost.T
    np.fill_diagonal(cost, 0.0)
    return cost


CASES: dict[str, Callable[[Any], Arrays]] = {
    "shared cost, a metric": shared_cost,
    "shared cost, no metric": any_shared_cost,
    "plans and potentials": plans,
    "sparse rows": sparse_rows,
    "graph of a cost": graph,
    "single problems, with plans and potentials": single_problems,
    "a few pairs at a time": few_pairs,
    "700 points, weighted": large,
    "points, equal masses": lambda rng: points(rng, weighted=False, equal=True),
    "points in 70 dimensions, by a table": lambda rng: points(rng, dim=70),
    "p = 2": lambda rng: points(rng, p=2),
    "p = 3": lambda rng: points(rng, p=3),
    "unmatched mass": lambda rng: points(rng, unmatched=9.0),
    "diagrams": diagrams,
    "a share of the mass": lambda rng: points(rng, share=0.5),
    "a line": lambda rng: points(rng, dim=1),
    "a line, equal masses": lambda rng: points(rng, weighted=False, equal=True, dim=1),
    "neighbors, certain": neighbors,
    "entropic, 50 sweeps": lambda rng: entropic(rng, 0.05, max_iter=50, tol=None),
    "entropic, to 1e-9": lambda rng: entropic(rng, 0.05, tol=1e-9),
    "entropic, small ε": lambda rng: entropic(rng, 0.002, tol=1e-9),
    **{f"metric {name}": lambda rng, name=name: whole(rng, name) for name in METRICS},
    "angles without ties": lambda rng: points(rng, weighted=False, metric="angular"),
}


def main() -> None:
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])
    for number, (name, solve) in enumerate(CASES.items()):
        try:
            np.savez(folder / str(number), *solve(np.random.default_rng(number)))
        except Exception:
            traceback.print_exc()
            sys.exit(f"{name} failed")


if __name__ == "__main__":
    main()
