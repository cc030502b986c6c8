"""Equal sizes and masses are assignments: against SciPy's solver, with prices that prove the answer."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

import asot
from asot.exact import points
from asot.native import Tile


def solved(cost, equal=True):
    """The value of an assignment under a cost (n, n), its steps, and the heights of the sinks (n,)."""
    n = len(cost)
    offsets, table = np.array([0, n, 2 * n]), np.zeros((2 * n, 2 * n))
    table[:n, n:] = cost
    masses = np.full(2 * n, 2**60 // n)
    masses[[0, -1]] += 2**60 % n
    collection = points.PackedPoints(
        offsets=offsets, index=np.arange(2 * n), masses=masses,
        used_offsets=np.zeros(3, np.int64), packed_offsets=np.zeros(3, np.int64), dim=1,
    )  # fmt: skip
    sizes = points.PointsSizes(most_sources=n, most_sinks=n, equal=equal)
    values, steps, stop = np.empty(1), np.empty(1, np.int32), np.zeros(1, np.int64)
    rows, columns = np.array([0]), np.array([1])
    tile = Tile(n=1, rows=rows, columns=columns, values=values, steps=steps, stop=stop)
    metric = points.PointsCost(n=2 * n, table=table)
    points._solve_tile(collection, metric, sizes, tile)
    starts, names, heights = np.zeros(2, np.int64), np.empty(n, np.int64), np.empty(n)
    points._solve_potentials(
        collection, metric, sizes, tile, points.SinksOut(starts=starts, points=names, heights=heights)
    )
    assert names.tolist() == list(range(n, 2 * n))
    return values[0] * 2.0**-60, steps[0], heights


def costs(rng):
    for n in (1, 2, 3, 5, 8, 9, 20, 41, 64):
        yield rng.random((n, n))
        yield cdist(rng.normal(size=(n, 2)), rng.normal(size=(n, 2)))
        yield cdist(rng.normal(size=(n, 30)), rng.normal(size=(n, 30)))
        yield rng.integers(0, 3, (n, n)).astype(float)  # nearly everything ties
        yield np.outer(np.arange(n) + 1.0, np.arange(n) + 1.0)  # a classic of many steps
        yield 10.0 ** rng.integers(-9, 1, (n, n))
    yield np.zeros((7, 7))
    yield np.ones((7, 7))
    yield cdist(rng.normal(size=(150, 30)), rng.normal(size=(150, 30)))
    yield cdist(rng.normal(size=(300, 30)), rng.normal(size=(300, 30)))


@pytest.mark.parametrize("seed", range(3))
def test_an_assignment_is_scipys_and_its_prices_prove_it(seed):
    for cost in costs(np.random.default_rng(seed)):
        n, largest = len(cost), cost.max() or 1.0
        value, steps, heights = solved(cost)
        assert steps >= n or n == 1
        assert value == pytest.approx(cost[linear_sum_assignment(cost)].mean(), rel=1e-12, abs=1e-14 * largest)
        prices = (cost + heights).min(axis=1)  # no arc costs less than the prices of its ends
        assert prices.mean() - heights.mean() == pytest.approx(value, rel=1e-9, abs=1e-9 * largest)


def test_many_long_chains_are_left_to_the_simplex():
    rng = np.random.default_rng(0)
    long, short = (cdist(rng.random((400, dim)), rng.random((400, dim)) + 0.3) for dim in (1, 30))
    assert solved(long)[1] == solved(long, equal=False)[1]
    assert solved(short)[1] != solved(short, equal=False)[1]


@pytest.mark.parametrize(("n", "dim"), [(1, 2), (4, 2), (30, 2), (30, 20), (120, 2), (120, 20), (600, 40)])
@pytest.mark.parametrize("kind", ["normal", "shared points", "lattice"])
def test_distances_of_equal_samples_are_those_of_scipy(n, dim, kind):
    rng = np.random.default_rng(n + dim)
    x, y = rng.normal(size=(n, dim)), rng.normal(size=(n, dim)) + 0.2
    if kind == "shared points":
        y[: n // 3] = x[: n // 3]
    if kind == "lattice":
        x, y = np.round(3 * x), np.round(3 * y)
    cost = cdist(x, y)
    found = asot.pairwise_exact([x, y])
    assert found.values[0] == pytest.approx(cost[linear_sum_assignment(cost)].mean(), rel=1e-11, abs=1e-14)
    assert found.status[0] == asot.Status.OPTIMAL
    assert np.array_equal(found.values, asot.pairwise_exact([x, y], n_jobs=1).values)


def test_nearly_equal_masses_are_not_taken_for_equal():
    rng = np.random.default_rng(4)
    x, y, masses = rng.normal(size=(12, 3)), rng.normal(size=(12, 3)), np.full(12, 1 / 12)
    masses[0] += 1e-9
    D = asot.Distributions.from_list([x, y], [masses, np.full(12, 1 / 12)])
    plan = asot.emd(D[0][1], D[1][1], cdist(x, y))
    found = asot.pairwise_exact(D)
    assert found.values[0] == pytest.approx(plan.value, rel=1e-13)
    assert found.info["solver"] == "network simplex"
    for few_or_not in ({}, {"n_jobs": 1}):
        assert "assignment" in asot.pairwise_exact([x, y], **few_or_not).info["solver"]
