"""Common mass is canceled only where the pair proves that it may be."""

from __future__ import annotations

import numpy as np
import pytest

import asot
from asot.exact.cancel_and_check import CancelAndCheck, looks_like_metric
from asot.exact.shared_cost import ExactSharedCost
from tests.oracles import highs_values

STOP = np.zeros(1, np.int64)


def _metric(rng, k, d=3):
    points = rng.normal(size=(k, d))
    return np.linalg.norm(points[:, None] - points, axis=-1)


@pytest.mark.parametrize("k", [5, 70, 300])
def test_a_metric_is_solved_as_if_it_had_been_proven(k):
    rng = np.random.default_rng(k)
    cost = _metric(rng, k)
    A = rng.dirichlet(np.ones(k), 4) * (rng.random((4, k)) < 0.7)
    A /= A.sum(axis=1, keepdims=True)
    rows, columns = np.array([0, 0, 1, 2, 3]), np.array([1, 0, 2, 3, 1])
    checked = CancelAndCheck(A, None, cost).solve(rows, columns, STOP)
    proven = ExactSharedCost(A, None, cost, cancel=True).solve(rows, columns, STOP)
    np.testing.assert_allclose(checked.values, proven.values, rtol=0, atol=1e-13 * cost.max())


@pytest.mark.parametrize("seed", range(20))
def test_a_cost_with_one_broken_triangle_is_still_solved_right(seed):
    rng = np.random.default_rng(seed)
    k = 12
    cost = _metric(rng, k)
    u, v = rng.choice(k, 2, replace=False)
    cost[u, v] = cost[v, u] = cost[u, v] * rng.choice([0.05, 8.0])
    A = rng.dirichlet(np.full(k, 0.6), 6)
    pairs = np.array([(i, j) for i in range(6) for j in range(6)])
    values = CancelAndCheck(A, None, cost).solve(*np.ascontiguousarray(pairs.T), STOP).values
    np.testing.assert_allclose(values, highs_values(A, A, cost, pairs), atol=1e-9 * cost.max())


def test_canceling_would_have_been_wrong():
    """Moving a third of the mass two steps costs 4 by itself, but 2 as two steps of all mass."""
    cost = np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 1.0], [4.0, 1.0, 0.0]])
    A = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    values = CancelAndCheck(A, None, cost).solve(np.array([0]), np.array([1]), STOP).values
    assert values[0] == pytest.approx(1.0)
    assert ExactSharedCost(A, None, cost, cancel=True).solve(np.array([0]), np.array([1]), STOP).values[0] > 1.5


def test_squares_do_not_look_like_a_metric_and_distances_do():
    cost = _metric(np.random.default_rng(1), 100)
    assert looks_like_metric(cost)
    assert not looks_like_metric(cost**2)
    assert not looks_like_metric(cost[:, :50])
    assert not looks_like_metric(cost + 1.0)
    lopsided = cost * np.where(np.arange(100)[:, None] < np.arange(100), 1.0, 1.5)
    assert not looks_like_metric(lopsided)


@pytest.mark.parametrize("scale", [1e-300, 1e-3, 1e290])
def test_few_pairs_of_emd_many_take_this_way_at_any_scale(scale):
    rng = np.random.default_rng(7)
    cost = _metric(rng, 100)
    A = rng.dirichlet(np.ones(100), 3)
    few = asot.emd_many(A, cost=scale * cost)
    assert "pair" in few.info["common_mass_canceled"]
    np.testing.assert_allclose(
        few.values / scale, asot.emd_many(A, A, cost=cost).matrix()[np.triu_indices(3, 1)], rtol=1e-12
    )
    squares = asot.emd_many(A, cost=cost**2)
    assert squares.info["common_mass_canceled"] is False
    np.testing.assert_allclose(squares.values, highs_values(A, A, cost**2, [(0, 1), (0, 2), (1, 2)]), rtol=1e-9)
