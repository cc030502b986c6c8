"""Every solver and every other kernel on made-up problems: what runs under each instruction set, and under sanitizers.

``python -m tests.native.every_solver`` prints a digest of each solver's answers. With ``--fuzz SECONDS`` it runs them
on problems of random sizes, down to one point and no pairs, until the time is over.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
import warnings

import numpy as np

import asot
from asot.exact.cancel_and_check import CancelAndCheck
from asot.exact.cost_check import is_metric
from asot.exact.cuda.tables import lanes_plan, node_cost, node_masses
from asot.exact.graph_metric import FEWEST, ExactOnGraph, graph_of
from asot.exact.points import pack_points, used_coordinates
from asot.exact.shared_cost import ExactSharedCost, solve_one
from asot.exact.with_plans import ExactWithPlans
from asot.results.sinks import NearestOfRows
from tests.exact.problems import index_bits_of, solve_problem
from tests.native.other_rooms import KERNELS

GO = np.zeros(1, np.int64)  # a stop that is not raised


class Sizes:
    """Random sizes; the smallest ones often."""

    def __init__(self, rng, factor=1.0):
        self.rng, self.factor = rng, factor

    def __call__(self, most, least=1):
        most = max(least, int(most * self.factor))
        return int(self.rng.choice([least, self.rng.integers(least, most + 1), most], p=[0.1, 0.8, 0.1]))

    def pairs(self, n, m, most=40):
        """Rows and columns, sometimes none."""
        count = int(self.rng.integers(most + 1))
        return self.rng.integers(n, size=count), self.rng.integers(m, size=count)


def metric(rng, k):
    x = rng.normal(size=(k, 3))
    return np.linalg.norm(x[:, None] - x, axis=-1)


def histograms(rng, n, k):
    A = rng.dirichlet(np.full(k, 0.5), n) * (rng.random((n, k)) < 0.8)
    A[:, 0] += A.sum(axis=1) == 0
    return A / A.sum(axis=1, keepdims=True)


def collection(rng, sizes, d, most=12, *, equal=False, whole=False, away=0.0):
    """Distributions of points, some of them the same and some coordinates 0."""
    n = sizes(8, 2)
    counts = np.full(n, sizes(most)) if equal else np.array([sizes(most) for _ in range(n)])
    shape = int(counts.sum()), d
    points = rng.integers(0, 2, shape).astype(float) if whole else rng.normal(size=shape) * (rng.random(shape) < 0.7)
    points[:, 0] += away
    masses = None if equal else rng.random(shape[0]) + 0.01
    return asot.Distributions(points, np.concatenate([[0], np.cumsum(counts)]), masses)


def shared_cost(rng, sizes):
    k, n = sizes(90, 2), sizes(6)
    cost, A = metric(rng, k), histograms(rng, n, k)
    pairs = sizes.pairs(n, n)
    solver = ExactSharedCost(A, None, cost, cancel=True)
    return [*_answer(solver.solve(*pairs, GO)), *_in_use(solver.solve_trees(*pairs, GO))]


def _answer(solution):
    return solution.values, solution.status, solution.n_iter


def _in_use(trees):
    arcs = int(trees.start[-1])
    return trees.values, trees.start, trees.source[:arcs], trees.sink[:arcs], trees.mass[:arcs], trees.potential


def with_plans(rng, sizes):
    k, l, n = sizes(50), sizes(50), sizes(6)
    cost, A, B = rng.random((k, l)) + 1e-3, histograms(rng, n, k), histograms(rng, n, l)
    found = ExactWithPlans(A, B, cost, cancel=False).solve(*sizes.pairs(n, n), GO)
    one = solve_one(A[0], B[0], cost)
    return [found.values, found.n_iter, *found.plans, one.value, one.plan.toarray(), *one.potentials]


def cancel_and_check(rng, sizes):
    k, n = sizes(90, 2), sizes(6)
    cost, A = metric(rng, k), histograms(rng, n, k)
    cost[0, -1] = cost[-1, 0] = rng.choice([1.0, 5.0]) * cost[0, -1]
    return _answer(CancelAndCheck(A, None, cost).solve(*sizes.pairs(n, n, 20), GO))


def large(rng, sizes):
    k = 1000 + sizes(200)
    A = rng.dirichlet(np.ones(k), 2)
    return _answer(CancelAndCheck(A, None, metric(rng, k)).solve(np.array([0]), np.array([1]), GO))


def graph(rng, sizes):
    width = 16 + sizes(8)
    grid = np.stack(np.meshgrid(np.arange(16.0), np.arange(float(width))), axis=-1).reshape(-1, 2)
    cost = np.abs(grid[:, None] - grid).sum(axis=-1)
    found, n = graph_of(cost), sizes(4)
    assert found is not None
    assert graph_of(metric(rng, FEWEST)) is None
    solver = ExactOnGraph(histograms(rng, n, len(grid)), None, found)
    return [*found, *_answer(solver.solve(*sizes.pairs(n, n, 10), GO))]


def metric_check(rng, sizes):
    cost = metric(rng, sizes(100))
    broken = cost.copy()
    broken[0, -1] = broken[-1, 0] = 1.0 + 2.0 * broken[0, -1]
    return [is_metric(cost), is_metric(broken)]


def masses_for_gpus(rng, sizes):
    k, n = sizes(30), sizes(9)
    cost = metric(rng, k) + 1e-3
    return [node_masses(histograms(rng, n, k), lanes_plan(node_cost(cost, cancel=False)), first) for first in (0, k)]


def packing(rng, sizes):
    """Down to no distributions and no coordinates."""
    n, d = sizes(6, 0), sizes(5, 0)
    offsets = np.concatenate([[0], np.cumsum([sizes(4) for _ in range(n)])]).astype(np.int64)
    points, index = rng.integers(0, 2, (9, d)).astype(float), rng.integers(9, size=int(offsets[-1]))
    used, used_offsets = used_coordinates(points, offsets, index)
    return [used, used_offsets, *pack_points(points, offsets, index, used_offsets, used)]


def problem(rng, sizes):
    """One problem in whole numbers, by the solver of large ones, too."""
    p, q = sizes(150), sizes(150)
    bits = index_bits_of(p, q)
    cost = rng.integers(0, 1 << 20, (p, q)) << bits
    supply, demand = np.full(p, q), np.full(q, p)
    return [part for large in (False, True) for part in solve_problem(cost, supply, demand, bits, large=large)[:5]]


def nearest(rng, sizes):
    D = collection(rng, sizes, 3)
    NearestOfRows(sizes(3), sizes(3), 2).keep(*(np.zeros(0, np.int64),) * 2, np.zeros(0), np.zeros((0, 2)))
    found = asot.pairwise_exact(D, sink=asot.sinks.TopK(sizes(len(D) - 1)), device="cpu", n_jobs=1)
    return [found.indices, found.distances]


def _points(rng, sizes, d, *, equal=False, whole=False, away=0.0, **options):
    """One collection and two, all pairs and some."""
    D, E = (collection(rng, sizes, d, equal=equal, whole=whole, away=away) for _ in range(2))
    some = np.stack(sizes.pairs(len(D), len(E)), axis=1)
    options.update(device="cpu", n_jobs=1)
    calls = [(D,), (D, E)] if len(some) == 0 else [(D,), (D, E), (D, E, some)]
    return [
        asot.pairwise_exact(*call[:2], pairs=call[2] if len(call) > 2 else None, **options).values for call in calls
    ]


def one_or_two(rng, sizes):
    """One or two points against many, ties among them."""
    few = [rng.integers(0, 4, (sizes(2), 3)).astype(float) for _ in range(sizes(6))]
    many = [rng.normal(size=(6 + sizes(40), 3)).round(sizes(3) - 1) for _ in range(sizes(6))]
    sides = [asot.Distributions.from_list(x, [rng.random(len(each)) + 0.01 for each in x]) for x in (few, many)]
    return [
        asot.pairwise_exact(*sides, metric=metric, n_jobs=1, device="cpu").values
        for metric in ("euclidean", "cityblock", "chebyshev")
    ]


def own_costs(rng, sizes):
    """Problems with costs of their own: a few small ones with masses, and a large assignment with ties."""
    shapes = [(sizes(9), sizes(9)) for _ in range(sizes(6))]
    costs = [rng.normal(size=shape).round(sizes(3)) for shape in shapes]
    masses = [[rng.dirichlet(np.ones(shape[side])) for shape in shapes] for side in (0, 1)]
    n = 256 + sizes(90)
    many = rng.random((n, n)).round(sizes(4)) if rng.random() < 0.5 else metric(rng, n)[rng.permutation(n)]
    found = []
    for r in (asot.emd_batch(costs, *masses, plans=True, n_jobs=1), asot.emd_batch([many], plans=True, n_jobs=1)):
        found += [r.values, *(part for t in range(len(r)) for part in (*r.solver.arcs_of(t), *r.potentials(t)))]
    return found


def _points_of(d, **options):
    return lambda rng, sizes: _points(rng, sizes, sizes(d, min(d, 2)), **options)


SOLVERS = {
    "shared cost": shared_cost,
    "plans": with_plans,
    "cancel and check": cancel_and_check,
    "large": large,
    "graph": graph,
    "metric check": metric_check,
    "masses for GPUs": masses_for_gpus,
    "packing": packing,
    "problem": problem,
    "nearest": nearest,
    "assignment": _points_of(3, equal=True),
    "own costs": own_costs,
    "nested labels": lambda rng, sizes: _points(rng, sizes, 1, whole=True, metric="hamming"),
    "line": _points_of(1),
    "one or two": one_or_two,
    "line, p = 2": _points_of(1, p=2),
    "squares": _points_of(4, p=2),
    "squared": _points_of(4, metric="sqeuclidean"),
    "unmatched": _points_of(3, unmatched=9.0),
    "diagonal": lambda rng, sizes: _points(rng, sizes, 2, unmatched="diagonal"),
    "share": _points_of(3, share=0.5),
    "table": _points_of(3, metric="braycurtis", whole=True),
    **{name: _points_of(6, metric=name) for name in ("euclidean", "cityblock", "chebyshev", "minkowski", "canberra")},
    "angular": _points_of(4, metric="angular", away=9.0),
    "seuclidean": lambda rng, sizes: _points(rng, sizes, 3, metric="seuclidean", metric_params={"V": [1.0, 2.0, 3.0]}),
    **{name: _points_of(5, metric=name, whole=True) for name in ("hamming", "jaccard", "rogerstanimoto")},
    **KERNELS,
}


def answers(name, seed, factor=1.0):
    rng = np.random.default_rng([seed, len(name), *map(ord, name)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # iterations that end early, far anchors
        return [np.asarray(part) for part in SOLVERS[name](rng, Sizes(rng, factor)) if part is not None]


def digest(name, seeds):
    total = hashlib.sha256()
    for seed in seeds:
        for part in answers(name, seed):
            total.update(repr((part.dtype.str, part.shape)).encode() + part.tobytes())
    return total.hexdigest()


def main():
    from asot.native import instruction_set

    if sys.argv[1:2] == ["--fuzz"]:
        end, seed = time.monotonic() + float(sys.argv[2]), 0
        while seed == 0 or time.monotonic() < end:
            for name in SOLVERS:
                answers(name, 1000 + seed, factor=0.3 if seed % 2 else 1.0)
            seed += 1
        sys.stdout.write(f"{instruction_set()}: every solver on {seed} problems of random sizes\n")
    else:
        found = {name: digest(name, range(3)) for name in SOLVERS}
        sys.stdout.write(json.dumps([instruction_set(), found]) + "\n")


if __name__ == "__main__":
    main()
