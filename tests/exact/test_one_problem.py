"""`asot.emd` of a few anchors is solved directly, and its plan and potentials prove the value."""

from __future__ import annotations

import numpy as np
import ot
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

import asot
from asot.exact.one_problem import solve_matching, solve_small
from asot.exact.shared_cost import solve_one


def _problem(seed, k, l):
    rng = np.random.default_rng(seed)
    a, b = rng.dirichlet(np.ones(k)) * (rng.random(k) < 0.8), rng.dirichlet(np.ones(l))
    a[0] += 0.1
    return 3.0 * a, b, rng.random((k, l)) * 10.0 ** rng.integers(-20, 20)


@pytest.mark.parametrize(("k", "l"), [(1, 1), (1, 7), (5, 5), (30, 30), (64, 20), (64, 64)])
@pytest.mark.parametrize("seed", range(4))
def test_value_plan_and_potentials_agree_with_each_other_and_with_other_solvers(seed, k, l):
    a, b, cost = _problem(seed, k, l)
    assert solve_small(a, b, cost) is not None
    value, plan, (f, g) = asot.emd(a, b, cost)
    a, b, most = a / a.sum(), b / b.sum(), cost.max()
    assert value == pytest.approx(ot.emd2(a, b, cost / most) * most, rel=1e-12)
    assert value == pytest.approx(solve_one(a, b, cost).value, rel=1e-13)
    assert value == pytest.approx((plan.toarray() * cost).sum(), rel=1e-13)
    np.testing.assert_allclose(plan.sum(axis=1), a, atol=1e-15)
    np.testing.assert_allclose(plan.sum(axis=0), b, atol=1e-15)
    assert plan.has_canonical_format
    assert (f[:, None] + g <= cost + 1e-15 * most).all()
    assert f @ a + g @ b == pytest.approx(value, abs=1e-13 * most)


def test_what_is_returned_is_not_written_over_by_the_next_call():
    first = _problem(0, 6, 6)
    found = asot.emd(*first)
    kept = found.plan.toarray().copy(), found.potentials[0].copy(), found.potentials[1].copy()
    asot.emd(*_problem(1, 6, 6))
    np.testing.assert_array_equal(found.plan.toarray(), kept[0])
    np.testing.assert_array_equal(found.potentials[0], kept[1])
    np.testing.assert_array_equal(found.potentials[1], kept[2])


@pytest.mark.parametrize("spoil", ["nan mass", "negative mass", "no mass", "nan cost", "negative cost", "wrong shape"])
def test_what_is_not_ordinary_goes_the_general_way_and_is_refused_there(spoil):
    a, b, cost = _problem(2, 4, 4)
    if spoil == "wrong shape":
        b = b[:3]
    elif "mass" in spoil:
        a[:] = 0.0 if spoil == "no mass" else a
        a[1] = {"nan mass": np.nan, "negative mass": -1.0, "no mass": 0.0}[spoil]
    else:
        cost[1, 2] = np.nan if spoil == "nan cost" else -1.0
    assert solve_small(a, b, cost) is None
    with pytest.raises(ValueError, match=r"mass|cost|anchors"):
        asot.emd(a, b, cost)


def _costs(kind, n):
    rng = np.random.default_rng(n)
    if kind in ("2-D", "64-D"):
        return cdist(*rng.normal(size=(2, n, int(kind[:-2]))))
    if kind == "integers":
        return rng.integers(0, 20, (n, n)).astype(float)
    return 1e-9 * rng.random((n, n)) if kind == "small" else np.where(rng.random((n, n)) < 0.1, 0.0, 1e6)


@pytest.mark.parametrize("n", [65, 130, 300])
@pytest.mark.parametrize("kind", ["2-D", "64-D", "integers", "small", "mostly alike"])
def test_equal_masses_are_matched_as_cheaply_as_by_scipy_and_potentials_prove_it(kind, n):
    cost, u = _costs(kind, n), np.full(n, 1.0 / n)
    assert solve_matching(u, u, cost) is not None
    value, plan, (f, g) = asot.emd(np.full(n, 7.0), np.ones(n), cost)
    row, column = linear_sum_assignment(cost)
    most = cost.max()
    assert value == pytest.approx(cost[row, column].mean(), abs=1e-14 * most)
    assert value == pytest.approx((plan.toarray() * cost).sum(), abs=1e-14 * most)
    np.testing.assert_allclose(plan.sum(axis=1), u, atol=1e-15)
    np.testing.assert_allclose(plan.sum(axis=0), u, atol=1e-15)
    assert plan.has_canonical_format
    assert (f[:, None] + g <= cost + 1e-15 * most).all()
    assert f @ u + g @ u == pytest.approx(value, abs=1e-13 * most)
    source, sink = plan.nonzero()
    np.testing.assert_allclose((f[:, None] + g - cost)[source, sink], 0.0, atol=1e-12 * most)


def test_no_matching_is_tried_for_other_masses_or_shapes():
    rng = np.random.default_rng(0)
    u, cost = np.full(80, 1.0 / 80), rng.random((80, 80))
    uneven = u.copy()
    uneven[:2] = 0.5 / 80, 1.5 / 80
    assert solve_matching(uneven, u, cost) is None
    assert solve_matching(u, uneven, cost) is None
    assert solve_matching(u, np.full(40, 1.0 / 40), cost[:, :40]) is None
    assert solve_matching(u, u, np.zeros((80, 80))) is None
    assert asot.emd(uneven, u, cost).value == pytest.approx(ot.emd2(uneven, u, cost), rel=1e-12)


@pytest.mark.parametrize("n", [2, 5, 20, 33, 64, 65])
def test_equal_masses_are_matched_without_crumbs_of_rounding(n):
    """1/5 is no whole number of units of 2^-60: what its rounding left once travelled as a sixth arc."""
    cost = np.random.default_rng(n).random((n, n))
    value, plan, (f, g) = asot.emd(np.full(n, 1 / n), np.full(n, 3.0), cost)
    assert plan.nnz == n
    np.testing.assert_allclose(plan.data, 1 / n, rtol=1e-15)
    np.testing.assert_allclose(value, cost[linear_sum_assignment(cost)].mean(), rtol=1e-13)
    assert (f[:, None] + g <= cost + 1e-13).all()
    np.testing.assert_allclose(f.mean() + g.mean(), value, rtol=1e-12)
