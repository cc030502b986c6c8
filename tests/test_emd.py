"""One pair: value, plan and potentials prove each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy.spatial.distance import cdist

import asot
from tests.strategies import histograms_of_every_kind, metric_problems, rectangular_problems


def assert_certified(a, b, cost, transport):
    """The plan is feasible, the potentials are feasible, and both have the same value: both are optimal."""
    value, plan, (f, g) = transport
    a, b, top = a / a.sum(), b / b.sum(), np.max(cost)
    dense = plan.toarray()
    assert dense.min() >= 0
    np.testing.assert_allclose(dense.sum(axis=1), a, rtol=0, atol=1e-14)
    np.testing.assert_allclose(dense.sum(axis=0), b, rtol=0, atol=1e-14)
    assert (f[:, None] + g - cost).max() <= 1e-14 * top
    np.testing.assert_allclose(value, (dense * cost).sum(), rtol=0, atol=1e-13 * top)
    np.testing.assert_allclose(value, f @ a + g @ b, rtol=0, atol=1e-11 * top)


@given(rectangular_problems())
def test_plan_and_potentials_prove_each_other_for_any_cost(problem):
    cost, a, b = problem
    assert_certified(a, b, cost, asot.emd(a, b, cost))


@pytest.mark.parametrize(("k", "l"), [(1, 1), (1, 5), (5, 1), (2, 2), (64, 63), (65, 64), (150, 20)])
def test_plan_and_potentials_prove_each_other_on_histograms_of_every_kind(k, l):
    rng = np.random.default_rng([k, l])
    cost = rng.random((k, l))
    for a, b in zip(histograms_of_every_kind(k, rng), histograms_of_every_kind(l, rng), strict=True):
        assert_certified(a, b, cost, asot.emd(a, b, cost))


@pytest.mark.parametrize("factor", [1e-300, 1e300])
def test_extreme_costs_are_certified(factor):
    rng = np.random.default_rng(0)
    a, b, cost = rng.random(20), rng.random(20), rng.random((20, 20)) * factor
    assert_certified(a, b, cost, asot.emd(a, b, cost))


@given(metric_problems())
def test_emd_and_emd_many_agree(problem):
    cost, (a, b) = problem
    value = asot.emd_many([a, b], cost=cost).values[0]
    np.testing.assert_allclose(asot.emd(a, b, cost).value, value, rtol=0, atol=1e-13 * cost.max())


def test_the_plan_is_a_tree():
    rng = np.random.default_rng(1)
    plan = asot.emd(rng.random(30), rng.random(40), rng.random((30, 40))).plan
    assert plan.shape == (30, 40)
    assert plan.nnz <= 30 + 40 - 1


def test_where_nothing_moves_the_plan_is_the_diagonal():
    points = np.random.default_rng(2).normal(size=(6, 2))
    a = np.array([1.0, 2.0, 0.0, 3.0, 1.0, 1.0])
    value, plan, _ = asot.emd(a, a, cdist(points, points))
    assert value == 0.0
    np.testing.assert_allclose(plan.toarray(), np.diag(a / a.sum()), rtol=0, atol=1e-15)


def test_potentials_cover_anchors_without_mass():
    cost = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    f, g = asot.emd([1, 0, 0, 0], [0, 0, 0, 1], cost).potentials
    assert np.isfinite(f).all()
    assert np.isfinite(g).all()
    assert (f[:, None] + g <= cost).all()


def test_a_transport_unpacks_and_names_its_parts():
    transport = asot.emd([1, 1], [1, 3], [[0, 1], [1, 0]])
    value, plan, potentials = transport
    assert value == transport.value == 0.25
    assert plan is transport.plan
    assert potentials is transport.potentials


def test_tensors_are_read_unless_they_want_gradients():
    torch = pytest.importorskip("torch")
    a = torch.tensor([0.5, 0.5], dtype=torch.float64)
    assert asot.emd(a, [1.0, 0.0], [[0.0, 1.0], [1.0, 0.0]]).value == 0.5
    with pytest.raises(ValueError, match=r"a requires gradients.*asot\.gradients"):
        asot.emd(a.requires_grad_(), [1.0, 0.0], [[0.0, 1.0], [1.0, 0.0]])
