"""Distances through an anchor space: what they are made of, and bounds that hold."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import asot
from asot import AnchorSpace, Distributions, FixedAnchors, KMeansAnchors, Status


def clouds(rng, n=8, d=2, spread=1.0, sizes=(5, 40)):
    """Distributions around centers of their own."""
    counts = rng.integers(*sizes, n)
    return Distributions.from_list(
        [spread * rng.normal(size=(c, d)) + 4 * rng.normal(size=d) for c in counts], [rng.random(c) for c in counts]
    )


@pytest.fixture(scope="module")
def D():
    return clouds(np.random.default_rng(0))


@pytest.fixture(scope="module")
def E():
    return clouds(np.random.default_rng(1), n=5)


@pytest.fixture(scope="module")
def space(D):
    return KMeansAnchors(12, random_state=3).fit(D).space_


# ------------------------------------------------------------------------------------------- which space


def test_values_are_exact_distances_on_the_anchors(D, space):
    result = asot.pairwise(D, space=space, estimate="anchor")
    expected = asot.emd_many(space.histograms(D), cost=space.cost)
    np.testing.assert_array_equal(result.values, expected.values)
    np.testing.assert_array_equal(result.status, Status.ON_ANCHORS)
    assert result.lower is None
    assert result.upper is None


def test_a_second_collection_gives_a_rectangle(D, E, space):
    result = asot.pairwise(D, E, space=space, estimate="anchor")
    expected = asot.emd_many(space.histograms(D), space.histograms(E), cost=space.cost)
    np.testing.assert_array_equal(result.matrix(), expected.matrix())
    assert result.matrix().shape == (8, 5)


def test_without_a_space_anchors_are_learned_from_the_collection(D):
    learned = KMeansAnchors(random_state=5).fit(D).space_
    np.testing.assert_array_equal(
        asot.pairwise(D, random_state=5, estimate="anchor").values,
        asot.pairwise(D, space=learned, estimate="anchor").values,
    )


def test_without_a_space_anchors_are_learned_from_both_collections(D, E):
    learned = KMeansAnchors(random_state=5).fit(D + E).space_
    result = asot.pairwise(D, E, random_state=5, estimate="anchor")
    np.testing.assert_array_equal(result.values, asot.pairwise(D, E, space=learned, estimate="anchor").values)


def test_a_learner_that_is_not_fitted_is_fitted_as_a_copy(D):
    learner = KMeansAnchors(7, random_state=1)
    result = asot.pairwise(D, space=learner, estimate="anchor")
    assert not hasattr(learner, "space_")
    np.testing.assert_array_equal(result.values, asot.pairwise(D, space=learner.fit(D), estimate="anchor").values)


def test_a_fitted_learner_is_used_as_it_is(D, E):
    learner = KMeansAnchors(7, random_state=1).fit(D)
    before = learner.space_
    np.testing.assert_array_equal(
        asot.pairwise(E, space=learner, estimate="anchor").values,
        asot.pairwise(E, space=before, estimate="anchor").values,
    )
    assert learner.space_ is before


def test_a_given_cost_is_used(D):
    cost = 1.0 - np.eye(3)
    result = asot.pairwise(D, space=AnchorSpace([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]], cost), estimate="anchor")
    histograms = AnchorSpace([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]]).histograms(D)
    i, j = np.triu_indices(len(D), 1)
    np.testing.assert_allclose(result.values, np.abs(histograms[i] - histograms[j]).sum(axis=1) / 2, atol=1e-14)
    assert result.info["metric"] == "given cost"


def test_lists_of_clouds_are_read(D, space):
    flat = Distributions(D.points, D.offsets)
    result = asot.pairwise([points for points, _ in D], space=space, estimate="anchor")
    np.testing.assert_allclose(result.values, asot.pairwise(flat, space=space, estimate="anchor").values, rtol=1e-13)


def test_a_single_distribution_has_no_pairs(D):
    result = asot.pairwise(D[:1], bounds=True, random_state=0, estimate="anchor")
    assert len(result) == len(result.lower) == len(result.upper) == 0


# ------------------------------------------------------------------------------------------- options and record


@pytest.mark.parametrize("reg", [0.05, 2, "auto"])
def test_reg_solves_the_entropic_problem_on_the_anchors(D, E, space, reg):
    result = asot.pairwise(D, E, space=space, reg=reg, estimate="anchor")
    expected = asot.sinkhorn_many(space.histograms(D), space.histograms(E), cost=space.cost, reg=reg)
    np.testing.assert_array_equal(result.values, expected.values)
    np.testing.assert_array_equal(result.status, Status.CONVERGED)
    assert result.info["reg"] == expected.info["reg"]


def test_listed_pairs_are_entries_of_the_matrix(D, E, space):
    pairs = np.array([[3, 1], [0, 4], [7, 0]])
    listed = asot.pairwise(D, E, space=space, pairs=pairs, bounds=True, estimate="anchor")
    every = asot.pairwise(D, E, space=space, bounds=True, estimate="anchor")
    where = pairs @ [len(E), 1]
    for name in ("values", "lower", "upper"):
        np.testing.assert_array_equal(getattr(listed, name), getattr(every, name)[where])


def test_sinks_take_the_values(D, space):
    nearest = asot.pairwise(D, space=space, sink=asot.sinks.TopK(2), estimate="anchor")
    matrix = asot.pairwise(D, space=space, estimate="anchor").matrix()
    np.fill_diagonal(matrix, np.inf)
    np.testing.assert_array_equal(nearest.indices, matrix.argsort(axis=1, kind="stable")[:, :2])
    assert nearest.info["n_anchors"] == 12


def test_the_result_says_what_the_numbers_are(D, space):
    info = asot.pairwise(D, space=space, estimate="anchor").info
    expected = {"metric": "euclidean", "p": 1, "n_anchors": 12, "estimate": "anchor", "reg": None, "n_pairs": 28}
    assert {key: info[key] for key in expected} == expected


@pytest.mark.parametrize("options", [{"n_jobs": 3}, {"memory": "4K"}])
def test_threads_and_memory_change_no_bit(D, space, options):
    first, second = (asot.pairwise(D, space=space, bounds=True, **more, estimate="anchor") for more in ({}, options))
    for name in ("values", "lower", "upper"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


# ------------------------------------------------------------------------------------------- bounds (more: test_bounds)


def assert_bounded(r, exact):
    assert np.all(r.lower <= exact * (1 + 1e-9))
    assert np.all(exact <= r.upper * (1 + 1e-9))
    assert np.all((r.lower >= 0) & (r.lower <= r.values) & (r.values <= r.upper))


def test_radius_bounds_are_the_value_and_both_radii(D, E, space):
    r = asot.pairwise(D, E, space=space, bounds="radius", estimate="anchor")
    plain = asot.pairwise(D, E, space=space, estimate="anchor")
    slack = (space.radii(D)[:, None] + space.radii(E)).ravel()
    np.testing.assert_allclose(r.upper - plain.values, slack, rtol=1e-9)
    assert np.all(r.lower >= plain.values - slack - 1e-10)


def test_radius_bounds_are_reached():
    """Both points are off their anchors, away from each other (upper) or toward each other (lower)."""
    space = AnchorSpace([[0.0], [10.0]])
    apart = asot.pairwise([[[-1.0]], [[12.0]]], space=space, bounds="radius", estimate="anchor")
    np.testing.assert_allclose(apart.upper, [13.0], rtol=1e-10)
    together = asot.pairwise([[[1.0]], [[8.0]]], space=space, bounds="radius", estimate="anchor")
    np.testing.assert_allclose(together.lower, [7.0], rtol=1e-10)


def test_more_anchors_make_tighter_bounds(D):
    widths = [
        np.mean(r.upper - r.lower)
        for r in (
            asot.pairwise(D, space=KMeansAnchors(k, random_state=0), bounds=True, estimate="anchor")
            for k in (3, 12, 50)
        )
    ]
    assert widths[0] > widths[1] > widths[2]


def test_with_bounds_a_value_outside_them_is_moved_to_the_nearer_end(D, space):
    plain, bounded = (asot.pairwise(D, space=space, bounds=b, estimate="anchor") for b in (False, True))
    np.testing.assert_array_equal(bounded.values, np.clip(plain.values, bounded.lower, bounded.upper))
    assert np.any(plain.values < bounded.lower)


def test_soft_codes_have_no_lower_bound_but_nearest_anchors_do():
    """docs/method.md §1: x and y have the code (½, ½) and the anchors are twice as far apart as they are.

    Then Ĉ = C, so the paper's bound |W_AS - W_1| ≤ ‖Ĉ - C‖ promises W_AS = W_1, but equal histograms are at distance
    0. Only W_AS ≤ min ⟨T, Ĉ⟩ is true of soft codes.
    """
    anchors, x, y = np.array([[0.0, -1.0], [0.0, 1.0]]), [[-0.5, 0.0]], [[0.5, 0.0]]
    shared, code = cdist(anchors, anchors), np.array([[0.5, 0.5]])
    true = asot.pairwise_exact([x, y]).values[0]
    assert true == 1.0
    assert (code @ shared @ code.T)[0, 0] == true  # Ĉ = C
    assert asot.emd_many(code, code, cost=shared).values[0] == 0.0
    r = asot.pairwise([x, y], space=AnchorSpace(anchors), bounds=True, estimate="anchor")
    assert_bounded(r, np.array([true]))


@given(st.integers(0, 10**6))
def test_soft_codes_never_exceed_the_problem_of_their_averaged_costs(seed):
    """docs/method.md §1: W_AS ≤ min over T of ⟨T, Ĉ⟩ with Ĉ = Z_x C_s Z_yᵀ; one-hot codes reach it."""
    rng = np.random.default_rng(seed)
    n, m, k = rng.integers(1, 6, 3)
    points = rng.normal(size=(k, 2))
    shared = cdist(points, points)
    a, b = rng.dirichlet(np.ones(n), 1), rng.dirichlet(np.ones(m), 1)
    for one_hot in (False, True):
        X, Y = (np.eye(k)[rng.integers(k, size=s)] if one_hot else rng.dirichlet(np.ones(k), s) for s in (n, m))
        anchor = asot.emd_many(a @ X, b @ Y, cost=shared).values[0]
        averaged = asot.emd_many(a, b, cost=X @ shared @ Y.T).values[0]
        assert anchor <= averaged + 1e-12
        if one_hot:
            np.testing.assert_allclose(anchor, averaged, atol=1e-12)


# ------------------------------------------------------------------------------------------- points that are anchors


def test_points_that_are_anchors_lose_nothing(D, E):
    for result, exact in (
        (asot.pairwise(D, space=FixedAnchors(), estimate="anchor"), asot.pairwise_exact(D)),
        (asot.pairwise(D, E, space=FixedAnchors(), estimate="anchor"), asot.pairwise_exact(D, E)),
    ):
        np.testing.assert_allclose(result.values, exact.values, rtol=1e-10)


# ------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"estimate": "best"}, ValueError, "estimate must be one of 'auto', 'anchor', 'calibrated'; found 'best'"),
        ({"bounds": "tight"}, ValueError, "bounds must be one of 'radius', 'cells', 'points'; found 'tight'"),
        ({"space": FixedAnchors(), "n_anchors": 3}, ValueError, "pass either space or n_anchors"),
        ({"n_anchors": 0}, ValueError, "n_anchors must be a whole number ≥ 1; found 0"),
        ({"space": AnchorSpace(np.eye(3))}, ValueError, "the collection is in 2 dimensions, but the anchors are in 3"),
        ({"space": FixedAnchors(np.eye(3))}, ValueError, "the collection is in 2 dimensions, but the anchors are in 3"),
        ({"space": "kmeans"}, TypeError, "space must be an AnchorSpace or an anchor learner such as KMeansAnchors()"),
        ({"reg": -1}, ValueError, "reg must be a number > 0 or 'auto'; found -1"),
        ({"pairs": [[0, 8]]}, ValueError, "pair 0 is (0, 8), but its second index must be between 0 and 7"),
        ({"device": "tpu"}, ValueError, "unknown device 'tpu'"),
    ],
)
def test_options_that_cannot_be_met(D, options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        asot.pairwise(D, **{"random_state": 0, "estimate": "anchor", **options})


def test_bounds_need_euclidean_anchors_and_all_values(D, space):
    with pytest.raises(ValueError, match="for a given cost no bound is proven"):
        asot.pairwise(D, space=AnchorSpace(space.anchors, space.cost), bounds=True, estimate="anchor")
    with pytest.raises(ValueError, match="only keeps values, so bounds would be lost"):
        asot.pairwise(D, space=space, bounds=True, sink=asot.sinks.Dense(), estimate="anchor")


def test_collections_of_two_spaces_are_refused(D):
    with pytest.raises(ValueError, match="in 2 and 3 dimensions; they must share one space"):
        asot.pairwise(D, [np.eye(3)], estimate="anchor")
