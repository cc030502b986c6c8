"""No answer for a pair depends on other distributions of the call: every solver, metric, order and shared cost.

Pairs are solved alone, beside the rest of their collection, and beside something far away. The attack draws such
collections at random (``tests/attack/others.py``); here none is left out.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import asot
from asot.exact.any_cost import ExactAnyCost
from asot.exact.auto import exact_work
from asot.exact.nested_labels import NestedLabels
from asot.exact.one_dimension import OneDimension
from asot.exact.one_or_two import ExactOneOrTwo
from asot.exact.points import ExactPoints
from asot.exact.small_clouds import SmallClouds
from asot.ground.metrics import KERNELS
from asot.request import Distance, Request
from asot.run.protocols import Notes
from tests.attack import others, problems, solvers
from tests.attack.report import Report

ORDERS = (1.0, 2.0, 6.5)
METRICS = sorted(set(solvers.METRICS))


def test_no_metric_is_left_out():
    assert set(KERNELS) - set(METRICS) == {"manhattan"}  # another name for cityblock


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("metric", METRICS)
def test_no_metric_and_order_sees_other_distributions(metric, p):
    rng = np.random.default_rng(int(10 * p))
    report = Report()
    report.begin("others", 0, 0)
    for kind in range(3):
        D, given = solvers.drawn(rng, metric, 4, 7)
        asked = {"metric": metric, "metric_params": given, "p": p}
        O = others.outliers(rng, metric, D.dim)
        others.compare(report, D, O, **asked, price=kind == 1, share=0.6 if kind == 2 else None)
    assert not report.findings, "\n".join(report.lines())


# ------------------------------------------------------------------------------------------------ solvers

RNG = np.random.default_rng(0)


def clouds(size, dim, n=70):
    """With masses of their own, where sizes differ."""
    if isinstance(size, int):
        return asot.Distributions.from_list([RNG.normal(size=(size, dim)) for _ in range(n)])
    sizes = RNG.integers(*size, n)
    return asot.Distributions.from_list(
        [RNG.normal(size=(m, dim)) for m in sizes], [RNG.dirichlet(np.ones(m)) for m in sizes]
    )


def on_few_positions(n=40):
    x = [RNG.integers(0, 6, size=(m, 1)).astype(float) for m in RNG.integers(3, 9, n)]
    return asot.Distributions.from_list(x, [RNG.dirichlet(np.ones(len(y))) for y in x])


def labels(n=70):
    return asot.Distributions.from_list([RNG.integers(0, 2, size=(4, 1)) * [1, 1] + [0, 2] for _ in range(n)])


def of_long_points(n=80, dim=200):
    points = RNG.normal(size=(60, dim))
    return asot.Distributions.from_weights(RNG.dirichlet(np.ones(60), size=n), points)


SOLVERS = {  # a collection, the distance, and the solver that takes all of it
    "quantiles": (clouds(9, 1), Distance(), OneDimension),
    "long quantiles": (clouds(40, 1, 10), Distance(3.0), OneDimension),
    "levels": (on_few_positions(), Distance(), OneDimension),
    "merged": (clouds((3, 30), 1), Distance(), OneDimension),
    "merged, another order": (clouds((3, 30), 1), Distance(6.5, "cityblock"), OneDimension),
    "nested labels": (labels(), Distance(1.0, "hamming"), NestedLabels),
    "small clouds": (clouds(4, 3), Distance(), SmallClouds),
    "matchings": (clouds(9, 3), Distance(), ExactPoints),
    "many points": (clouds(90, 3, 8), Distance(), ExactPoints),
    "any masses": (clouds((3, 30), 3), Distance(), ExactPoints),
    "a table": (of_long_points(), Distance(), ExactPoints),
    "another order": (clouds((3, 9), 3, 30), Distance(2.0), ExactAnyCost),
    "another order, a table": (of_long_points(), Distance(2.0), ExactAnyCost),
    "equal masses, another order": (clouds(9, 3, 30), Distance(2.0), ExactAnyCost),
    "a cost that is no metric": (clouds((3, 9), 3, 30), Distance(1.0, "sqeuclidean"), ExactAnyCost),
}  # fmt: skip


@pytest.mark.parametrize(("D", "distance", "solver"), SOLVERS.values(), ids=SOLVERS)
def test_no_solver_sees_other_distributions(D, distance, solver):
    assert type(exact_work(Request(D, None, distance), Notes()).cpu()) is solver
    report = Report()
    report.begin("others", 0, 0)
    O = others.outliers(np.random.default_rng(1), str(distance.metric), D.dim)
    others.compare(report, D, O, metric=distance.metric, p=distance.p)
    assert not report.findings, "\n".join(report.lines())


@pytest.mark.parametrize("few", [1, 2])
@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev"])
def test_one_or_two_points_against_many_see_no_others(few, metric):
    D, E = clouds(few, 3, 6), clouds((7, 20), 3, 6)
    distance = Distance(1.0, metric)
    assert type(exact_work(Request(D, E, distance), Notes()).cpu()) is ExactOneOrTwo
    far = asot.Distributions.from_list([RNG.normal(size=(few, 3)) + 1e12])
    together = asot.pairwise_exact(D, E, metric=metric).matrix()
    beside = asot.pairwise_exact(D + far, E + far, metric=metric).matrix()[:6, :6]
    for i, j in np.ndindex(6, 6):
        alone = asot.pairwise_exact(D[[i]], E[[j]], metric=metric).values[0]
        largest = cdist(D[i][0], E[j][0], metric).max()
        np.testing.assert_allclose([together[i, j], beside[i, j]], alone, rtol=0, atol=others.FORGIVEN * largest)


# ------------------------------------------------------------------------------------------------ histograms

PLACES = np.random.default_rng(2).normal(size=(24, 2))
GRID = np.stack(np.divmod(np.arange(24), 5), axis=1)
COSTS = {
    "a metric": cdist(PLACES, PLACES),
    "a line": cdist(PLACES[:, :1], PLACES[:, :1]),
    "a graph": cdist(GRID, GRID, "cityblock"),
    "no metric": cdist(PLACES, PLACES, "sqeuclidean"),
}


@pytest.mark.parametrize("count", [3, 80])
@pytest.mark.parametrize("plans", [False, True])
@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
def test_no_histogram_sees_the_others(cost, plans, count):
    rng = np.random.default_rng(count)
    k = len(cost)
    A = rng.dirichlet(np.ones(k), count) * (rng.random((count, k)) < 0.7)
    A[:, 0] += 0.01
    longer = np.full((k + 1, k + 1), 1e12)
    longer[:k, :k], longer[k, k] = cost, 0.0
    B = np.zeros((count + 1, k + 1))
    B[:-1, :k], B[-1] = A, rng.random(k + 1)
    pairs = problems.all_pairs(3)
    alone = [asot.emd_many(A[[i, j]], cost=cost, plans=plans).values[0] for i, j in pairs.tolist()]
    together = asot.emd_many(A, cost=cost, plans=plans).matrix()[tuple(pairs.T)]
    beside = asot.emd_many(B, cost=longer, plans=plans).matrix()[tuple(pairs.T)]
    listed = asot.emd_many(B, cost=longer, pairs=pairs, plans=plans).values
    for found in (together, beside, listed):
        np.testing.assert_allclose(found, alone, rtol=0, atol=others.FORGIVEN * cost.max())
