"""Equal sizes and masses are assignments: against SciPy's solver, with prices that prove the answer."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

import asot
from asot.exact.assignment import UNFIT, assign, is_assignment
from asot.exact.distance_block import make_scratch, place_distances, value_of_flows
from asot.exact.integers import cost_bits_for, index_bits_for
from asot.exact.workspace import first_sink, make_workspace, stride_of
from asot.jit.compiled import compiled


@compiled
def solved(cost, index_bits, cost_scale, pi):
    """The value of an assignment, its steps, and the potentials of sources and sinks (2n,)."""
    n = len(cost)
    ws, scratch, stride = make_workspace(n, n, 2 * n), make_scratch(n, n, 1), stride_of(n)
    for t in range(n * stride):
        scratch.distance[t] = 0.0
    for i in range(n):
        ws.supply[i] = ws.demand[i] = (np.int64(1) << 60) // n
        for j in range(n):
            scratch.distance[i * stride + j] = cost[i, j]
    ws.supply[0] += (np.int64(1) << 60) % n
    ws.demand[n - 1] += (np.int64(1) << 60) % n
    place_distances(ws, scratch, n, n, index_bits, cost_scale)
    if not is_assignment(ws, n, n):
        return -1.0, 0
    steps = assign(ws, n, index_bits, np.zeros(1, np.int64))
    if steps == UNFIT:
        return 0.0, steps
    for i in range(n):
        pi[i] = ws.pi[i] / (cost_scale * 2.0**index_bits)
        pi[n + i] = ws.pi[first_sink(n) + i] / (cost_scale * 2.0**index_bits)
    return value_of_flows(ws, scratch, n, n) * 2.0**-60, steps


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
        n = len(cost)
        bits, largest = index_bits_for(n, n), cost.max() or 1.0
        pi = np.empty(2 * n)
        value, steps = solved(cost, bits, 2.0 ** cost_bits_for(bits), pi)
        assert steps >= n
        assert value == pytest.approx(cost[linear_sum_assignment(cost)].mean(), rel=1e-12, abs=1e-14 * largest)
        u, v = pi[:n] * largest, -pi[n:] * largest  # the largest cost has the full scale
        assert (cost - u[:, None] - v).min() >= -1e-9 * largest
        assert (u.sum() + v.sum()) / n == pytest.approx(value, rel=1e-9, abs=1e-9 * largest)


def test_many_long_chains_are_left_to_the_simplex():
    rng = np.random.default_rng(0)
    cost = cdist(rng.random((400, 1)), rng.random((400, 1)) + 0.3)
    assert (
        solved(cost, index_bits_for(400, 400), 2.0 ** cost_bits_for(index_bits_for(400, 400)), np.empty(800))[1]
        == UNFIT
    )


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
