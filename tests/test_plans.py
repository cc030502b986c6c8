"""Plans on the original points: marginals, cost, and the optimum on request."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import cdist

import asot
from asot import AnchorSpace, Distributions, FixedAnchors, KMeansAnchors
from tests.bounds.test_error_bars import any_anchors, lattice_lists


def assert_is_plan(T, D, i, j):
    (x, a), (y, b) = D[i], D[j]
    assert sparse.issparse(T)
    assert T.shape == (len(x), len(y))
    assert T.data.min() >= 0
    np.testing.assert_allclose(T.sum(axis=1), a, rtol=0, atol=1e-12)
    np.testing.assert_allclose(T.sum(axis=0), b, rtol=0, atol=1e-12)
    assert T.cost == pytest.approx((T.toarray() * cdist(x, y)).sum(), abs=1e-12 * (1 + T.cost))


@given(st.data())
def test_lifted_plans_have_the_right_marginals_and_cost_at_least_the_distance(data):
    D = Distributions.from_list(*data.draw(lattice_lists()))
    space = data.draw(any_anchors(D))
    T = asot.plan(D, 0, 1, space=space)
    assert_is_plan(T, D, 0, 1)
    assert T.cost >= asot.pairwise_exact(D, pairs=[[0, 1]]).values[0] * (1 - 1e-12)


@given(st.data())
def test_exact_plans_cost_the_distance(data):
    D = Distributions.from_list(*data.draw(lattice_lists()))
    T = asot.plan(D, 0, 1, exact=True)
    assert_is_plan(T, D, 0, 1)
    assert T.is_exact
    assert T.cost == pytest.approx(asot.pairwise_exact(D, pairs=[[0, 1]]).values[0], abs=1e-12)


def test_a_lifted_plan_costs_no_more_than_the_upper_bound():
    rng = np.random.default_rng(0)
    D = Distributions.from_list([rng.normal(i, 1, size=(20 + i, 3)) for i in range(4)])
    space = KMeansAnchors(9, random_state=0).fit(D).space_
    upper = asot.pairwise(D, space=space, bounds=True, estimate="anchor")
    for (i, j), bound in zip(upper.pairs, upper.upper, strict=True):
        assert asot.plan(D, i, j, space=space).cost >= bound * (1 - 1e-4) or bound < 1e-12
        assert asot.plan(D, i, j, exact=True).cost <= bound


def test_a_lifted_plan_moves_as_much_between_cells_as_the_anchor_plan():
    rng = np.random.default_rng(1)
    D = Distributions.from_list([rng.normal(i, 1, size=(30, 2)) for i in range(2)])
    space = KMeansAnchors(6, random_state=0).fit(D).space_
    T = asot.plan(D, 0, 1, space=space)
    codes = [space.encode(points) for points, _ in D]
    on_anchors = codes[0].T @ T.toarray() @ codes[1]
    assert (on_anchors * space.cost).sum() == pytest.approx(
        asot.pairwise(D, space=space, estimate="anchor").values[0], abs=1e-12
    )


def test_mass_that_two_distributions_share_stays_where_it_is():
    D = Distributions.from_list([[[0.0], [1.0], [2.0]], [[1.0], [2.0], [3.0]]])
    T = asot.plan(D, 0, 1, space=KMeansAnchors(2, random_state=0)).toarray()
    assert T[1, 0] == pytest.approx(1 / 3)
    assert T[2, 1] == pytest.approx(1 / 3)
    assert T[0, 2] == pytest.approx(1 / 3)


def test_a_distribution_stays_where_it_is():
    D = Distributions.from_list([[[0.0, 1.0], [2.0, 1.0]], [[5.0, 5.0]]])
    T = asot.plan(D, 0, 0, random_state=0)
    np.testing.assert_array_equal(T.toarray(), np.eye(2) / 2)
    assert T.cost == 0.0


def test_points_that_are_anchors_give_the_optimal_plan():
    rng = np.random.default_rng(2)
    D = Distributions.from_list([rng.integers(0, 4, size=(9, 2)).astype(float) for _ in range(2)])
    assert asot.plan(D, 0, 1, space=FixedAnchors()).cost == pytest.approx(asot.plan(D, 0, 1, exact=True).cost, rel=1e-9)


def test_a_given_cost_still_gives_a_plan():
    rng = np.random.default_rng(3)
    D = Distributions.from_list([rng.normal(size=(9, 2)) for _ in range(2)])
    no_metric = np.array([[0.0, 9.0, 1.0], [9.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    for cost in (1.0 - np.eye(3), no_metric):
        assert_is_plan(asot.plan(D, 0, 1, space=AnchorSpace(rng.normal(size=(3, 2)), cost)), D, 0, 1)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_costs_stay_within_range_at_any_scale(scale):
    D = Distributions.from_list([[[0.0, 0.0]], [[3.0 * scale, 4.0 * scale]]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for exact in (False, True):
            assert asot.plan(D, 0, 1, exact=exact, random_state=0).cost == pytest.approx(5 * scale, rel=1e-12)


def test_indices_are_read_like_those_of_a_list():
    D = Distributions.from_list([[[0.0]], [[1.0]], [[5.0]]])
    assert asot.plan(D, 0, -1, exact=True).cost == 5.0
    with pytest.raises(IndexError, match="j is 3, but the collection has 3 distributions"):
        asot.plan(D, 0, 3)
    with pytest.raises(KeyError, match="no distribution is called 'a'; the ids begin with '0'"):
        asot.plan(D, "a", 0)
