"""A cost is called a metric exactly when it is one, because only then may common mass be canceled."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asot.exact.cost_check import is_metric
from asot.exact.shared_cost import ExactSharedCost
from tests.oracles import pot_values
from tests.strategies import METRICS, SIZES, metric_cost, metrics


def every_triangle_holds(cost):
    """The NumPy twin of the compiled check, without slack."""
    return bool((cost[:, :, None] + cost[None, :, :] >= cost[:, None, :]).all())


@st.composite
def single_violations(draw):
    """A metric in which one triangle is then broken: (cost, i, via, j, excess)."""
    k = draw(st.integers(3, 12))
    i, via, j = draw(st.permutations(range(k)))[:3]
    excess = draw(st.floats(1e-6, 1.0))
    cost = 2.0 * (1.0 - np.eye(k))
    cost[i, via] = cost[via, i] = cost[via, j] = cost[j, via] = 1.0
    assert every_triangle_holds(cost)
    cost[i, j] = cost[j, i] = 2.0 + excess
    return cost, i, via, j, excess


@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize("metric", METRICS)
def test_metrics_are_recognized(metric, k):
    assert is_metric(metric_cost(metric, k, np.random.default_rng(k)))


@given(metrics())
def test_distances_of_points_are_a_metric(cost):
    assert is_metric(cost)


@given(single_violations())
def test_one_broken_triangle_is_detected(problem):
    cost, *_ = problem
    assert not is_metric(cost)


@given(single_violations())
def test_canceling_would_be_wrong_where_a_triangle_is_broken(problem):
    cost, i, via, j, excess = problem
    A = np.zeros((2, len(cost)))
    A[0, [i, via]] = 0.5
    A[1, [via, j]] = 0.5
    canceled, whole = (
        ExactSharedCost(A, None, cost, cancel=cancel).solve(np.array([0]), np.array([1]), np.zeros(1, np.int64)).values
        for cancel in (True, False)
    )
    np.testing.assert_allclose(whole, pot_values(A, A, cost, [(0, 1)]), rtol=1e-12)
    np.testing.assert_allclose(canceled - whole, excess / 2, rtol=1e-6)


@given(st.integers(0, 10_000), st.integers(3, 8))
def test_the_check_agrees_with_its_numpy_twin(seed, k):
    rng = np.random.default_rng(seed)
    cost = np.triu(0.7 + rng.random((k, k)), 1)
    cost += cost.T
    assert is_metric(cost) == every_triangle_holds(cost)


def test_rounding_is_no_violation():
    x = 0.1 * np.arange(100)
    cost = np.abs(x[:, None] - x)
    assert not every_triangle_holds(cost)
    assert is_metric(cost)


@pytest.mark.parametrize(
    "cost",
    [
        np.ones((2, 3)),
        np.array([[0.0, 1.0], [2.0, 0.0]]),
        np.array([[0.0, 1.0], [1.0, 0.5]]),
    ],
    ids=["rectangular", "asymmetric", "diagonal"],
)
def test_other_costs_are_no_metric(cost):
    assert not is_metric(cost)


@pytest.mark.parametrize("scale", [1e-300, 1e300, 1e308])
def test_the_scale_of_the_cost_does_not_matter(scale):
    assert is_metric(scale * (1.0 - np.eye(5)))
    broken = 0.25 * np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]])
    assert not is_metric(scale * broken)
