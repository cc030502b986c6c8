"""`asot.emd` of a few anchors is solved directly, and its plan and potentials prove the value."""

from __future__ import annotations

import numpy as np
import ot
import pytest

import asot
from asot.exact.one_problem import solve_small
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
