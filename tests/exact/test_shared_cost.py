"""The prepared solver: what it promises to the engine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy.spatial.distance import cdist

from asot.exact.shared_cost import ExactSharedCost
from tests.strategies import METRICS, metric_problems, problem

RUN = np.zeros(1, np.int64)


@pytest.mark.parametrize("k", [2, 3, 30, 64, 130])
@pytest.mark.parametrize("metric", METRICS)
def test_canceling_changes_nothing_under_a_metric(metric, k):
    p = problem(metric, k)
    rows, columns = np.ascontiguousarray(p.pairs.T)
    canceled, whole = (
        ExactSharedCost(p.histograms, None, p.cost, cancel=cancel).solve(rows, columns, RUN) for cancel in (True, False)
    )
    np.testing.assert_allclose(canceled.values, whole.values, rtol=0, atol=1e-12 * p.cost.max())


def test_the_cut_into_tiles_changes_no_bit():
    p = problem("plane", 30)
    rows, columns = np.ascontiguousarray(p.pairs.T)
    solver = ExactSharedCost(p.histograms, None, p.cost, cancel=True)
    together = solver.solve(rows, columns, RUN).values
    one_by_one = [solver.solve(rows[t : t + 1], columns[t : t + 1], RUN).values[0] for t in range(len(rows))]
    np.testing.assert_array_equal(one_by_one, together)


def test_tiles_shrink_with_memory_and_with_the_number_of_anchors():
    def tile(k, memory):
        points = np.random.default_rng(0).random((k, 2))
        return ExactSharedCost(np.eye(k), None, cdist(points, points), cancel=True).pairs_per_tile(memory)

    assert tile(30, 2**30) > tile(30, 2**10) >= 1
    assert tile(30, 2**30) > tile(300, 2**30) >= 1
    assert tile(30, 0) == 1


# ------------------------------------------------------------------------------------------- trees


@given(metric_problems(n_histograms=4))
def test_trees_are_plans_and_potentials_of_the_same_value(generated):
    cost, histograms = generated
    H = histograms / histograms.sum(axis=1, keepdims=True)
    solver = ExactSharedCost(H, None, cost, cancel=True)
    rows, columns = np.triu_indices(len(H), 1)
    stop = np.zeros(1, dtype=np.int64)
    trees, plain = solver.solve_trees(rows, columns, stop), solver.solve(rows, columns, stop)
    np.testing.assert_array_equal(trees.values, plain.values)
    for t, (i, j) in enumerate(zip(rows, columns, strict=True)):
        own = slice(trees.start[t], trees.start[t + 1])
        flow = np.zeros_like(cost)
        np.add.at(flow, (trees.source[own], trees.sink[own]), trees.mass[own] * 2.0**-60)
        common = np.minimum(H[i], H[j])
        np.testing.assert_allclose(flow.sum(axis=1), H[i] - common, atol=1e-12)
        np.testing.assert_allclose(flow.sum(axis=0), H[j] - common, atol=1e-12)
        assert (flow * cost).sum() == pytest.approx(trees.values[t], abs=1e-12)
        f = trees.potential[t]
        assert np.all(f[:, None] - f <= cost + 1e-12)
        assert f @ (H[i] - H[j]) == pytest.approx(trees.values[t], abs=1e-11)


def test_trees_need_a_metric_cost():
    solver = ExactSharedCost(np.eye(2), None, 1.0 - np.eye(2), cancel=False)
    with pytest.raises(ValueError, match="trees only exist for metric costs"):
        solver.solve_trees(np.array([0]), np.array([1]), np.zeros(1, dtype=np.int64))
