"""Error bars: every theorem behind them is attacked with generated problems, and every refusal is read."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import asot
from asot import AnchorSpace, Distributions, FixedAnchors, KMeansAnchors
from asot.bounds.error_bars import centroid_bound, radius_bounds
from tests.strategies import ragged_lists

LEVELS = ("radius", "cells", "points")


def assert_holds(r, exact):
    """lower ≤ exact ≤ upper with a relative slack of 1e-9 and no absolute one."""
    assert np.all(r.lower <= exact * (1 + 1e-9)), np.max(r.lower - exact)
    assert np.all(exact <= r.upper * (1 + 1e-9)), np.max(exact - r.upper)
    assert np.all((r.lower >= 0) & (r.lower <= r.upper))


def bounded(D, E=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # anchors far away are part of the attack
        return asot.pairwise(D, E, **options, estimate="anchor")


@st.composite
def lattice_lists(draw):
    """Points with small whole coordinates: ties, repeated points and equal distributions are common."""
    dim = draw(st.integers(1, 3))
    point = st.lists(st.integers(0, 3), min_size=dim, max_size=dim)
    clouds = draw(st.lists(st.lists(point, min_size=1, max_size=6), min_size=2, max_size=5))
    weights = [draw(st.lists(st.integers(0, 3), min_size=len(c), max_size=len(c)).filter(any)) for c in clouds]
    return [np.array(c, dtype=float) for c in clouds], weights


@st.composite
def any_anchors(draw, D):
    """Anchors among the points, beside them, or far away; repeated ones as well."""
    chosen = draw(st.lists(st.integers(0, 10**6), min_size=1, max_size=5))
    stretch = draw(st.sampled_from([1.0, 1.25, -3.0, 1e3, 1e-9]))
    return AnchorSpace(D.points[np.array(chosen) % len(D.points)] * stretch)


# ------------------------------------------------------------------------------------------- the bounds hold


@pytest.mark.parametrize("level", LEVELS)
@given(st.data())
def test_bounds_hold_for_any_points_and_any_anchors(level, data):
    D = Distributions.from_list(*data.draw(st.one_of(ragged_lists(), lattice_lists())))
    space = data.draw(any_anchors(D))
    assert_holds(bounded(D, space=space, bounds=level), asot.pairwise_exact(D).values)


@pytest.mark.parametrize("level", LEVELS)
@given(st.integers(0, 10**6))
def test_bounds_hold_in_many_dimensions_where_coordinates_are_left_out(level, seed):
    rng = np.random.default_rng(seed)
    d, rank = int(rng.integers(17, 60)), int(rng.integers(1, 20))
    basis = rng.normal(size=(rank, d)) * 10.0 ** rng.uniform(-3, 0, size=(rank, 1))
    clouds = [rng.normal(size=(n, rank)) @ basis + 1e-3 * rng.normal(size=(n, d)) for n in rng.integers(1, 12, size=5)]
    D = Distributions.from_list(clouds)
    space = KMeansAnchors(int(rng.integers(2, 9)), random_state=0).fit(D).space_
    assert_holds(bounded(D, space=space, bounds=level), asot.pairwise_exact(D).values)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("scale", [1e-300, 1e-20, 1.0, 1e20, 1e300])
def test_bounds_hold_at_any_scale(level, scale):
    rng = np.random.default_rng(1)
    D = Distributions.from_list([scale * (rng.normal(size=(n, 3)) + rng.normal(size=3)) for n in (4, 9, 15, 3)])
    assert_holds(
        asot.pairwise(D, space=KMeansAnchors(5, random_state=0), bounds=level, estimate="anchor"),
        asot.pairwise_exact(D).values,
    )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_bounds_hold_for_points_whose_distance_has_no_square(level, d):
    D = Distributions.from_list([np.zeros((1, d)), np.full((1, d), 1.37e-178), np.ones((1, d))])
    r = bounded(D, space=AnchorSpace(np.array([[0.0] * d, [1.0] * d])), bounds=level)
    assert_holds(r, np.sqrt(d) * np.array([1.37e-178, 1.0, 1.0]))


def test_what_scaling_makes_equal_is_not_taken_for_equal():
    """1e-170 is no number once 1e200 is brought to 1."""
    D = Distributions.from_list([[[0.0, 0.0]], [[1e-170, 0.0]], [[1e200, 0.0]]])
    r = bounded(D, space=AnchorSpace(np.array([[0.0, 0.0], [1e200, 0.0]])), bounds="points")
    assert r.lower[0] <= 1e-170 <= r.upper[0]


@pytest.mark.parametrize("level", LEVELS)
def test_bounds_hold_for_distributions_that_hardly_differ_far_from_the_origin(level):
    rng = np.random.default_rng(2)
    base = rng.normal(size=(20, 3))
    D = Distributions.from_list([1e6 + base + 1e-7 * rng.normal(size=base.shape) for _ in range(5)])
    assert_holds(asot.pairwise(D, random_state=0, bounds=level, estimate="anchor"), asot.pairwise_exact(D).values)


@pytest.mark.parametrize("level", LEVELS)
def test_bounds_hold_with_an_outlier_that_sets_the_scale(level):
    rng = np.random.default_rng(3)
    clouds = [rng.normal(size=(12, 4)) for _ in range(6)]
    clouds.append(np.vstack([clouds[0], [[1e9, 0, 0, 0]]]))
    D = Distributions.from_list(clouds)
    assert_holds(asot.pairwise(D, random_state=0, bounds=level, estimate="anchor"), asot.pairwise_exact(D).values)


@pytest.mark.parametrize("level", LEVELS)
def test_bounds_hold_between_two_collections_and_for_listed_pairs(level):
    rng = np.random.default_rng(4)
    D, E = (Distributions.from_list([rng.normal(c, 1, size=(n, 2)) for c, n in enumerate(rng.integers(3, 30, m))])
            for m in (6, 4))  # fmt: skip
    space = KMeansAnchors(7, random_state=0).fit(D).space_
    r = asot.pairwise(D, E, space=space, bounds=level, estimate="anchor")
    assert_holds(r, asot.pairwise_exact(D, E).values)
    listed = asot.pairwise(D, E, space=space, bounds=level, pairs=[[5, 1], [2, 2]], estimate="anchor")
    np.testing.assert_array_equal(listed.lower, r.lower.reshape(6, 4)[[5, 2], [1, 2]])
    np.testing.assert_array_equal(listed.upper, r.upper.reshape(6, 4)[[5, 2], [1, 2]])


@pytest.mark.parametrize("level", LEVELS)
def test_float32_points_are_bounded_like_their_float64_values(level):
    rng = np.random.default_rng(5)
    D = Distributions.from_list([rng.normal(size=(n, 3)).astype(np.float32) for n in (5, 9, 30)])
    assert_holds(asot.pairwise(D, random_state=0, bounds=level, estimate="anchor"), asot.pairwise_exact(D).values)


def test_equal_distributions_are_known_to_be_at_distance_zero():
    D = Distributions.from_list([[[0.3, 1.0], [2.0, 5.0]]] * 3 + [[[1.0, 1.0]]])
    r = asot.pairwise(D, space=KMeansAnchors(2, random_state=0), bounds=True, estimate="anchor")
    same = [0, 1, 3]
    np.testing.assert_array_equal(r.lower[same], 0.0)
    np.testing.assert_array_equal(r.upper[same], 0.0)
    np.testing.assert_array_equal(r.values[same], 0.0)


def test_points_that_are_anchors_have_bounds_that_meet():
    rng = np.random.default_rng(6)
    D = Distributions.from_list([rng.integers(0, 4, size=(8, 2)).astype(float) for _ in range(6)])
    r = asot.pairwise(D, space=FixedAnchors(), bounds=True, estimate="anchor")
    np.testing.assert_allclose(r.upper, r.lower, rtol=1e-10)


def test_bounds_are_tight_when_anchors_are_as_many_as_points():
    rng = np.random.default_rng(7)
    D = Distributions.from_list([rng.normal(i % 3, 1.0, size=(20, 2)) for i in range(15)])
    exact = asot.pairwise_exact(D).values
    r = asot.pairwise(D, random_state=0, bounds=True, estimate="anchor")
    assert np.mean(r.lower / exact) > 0.9
    assert np.mean(r.upper / exact) < 1.2
    cells = asot.pairwise(D, random_state=0, bounds="cells", estimate="anchor")
    radius = asot.pairwise(D, random_state=0, bounds="radius", estimate="anchor")
    assert np.mean(r.upper - r.lower) < np.mean(cells.upper - cells.lower) < np.mean(radius.upper - radius.lower)


def test_large_distributions_are_bounded_by_their_cells():
    rng = np.random.default_rng(8)
    D = Distributions.from_list([rng.normal(i, 1.0, size=(60, 2)) for i in range(4)])
    few, many = (
        asot.pairwise(D, space=KMeansAnchors(k, random_state=0), bounds=True, estimate="anchor") for k in (10, 20)
    )
    assert few.info["bounds"] == "cells"
    assert many.info["bounds"] == "points"
    assert_holds(few, asot.pairwise_exact(D).values)


# ------------------------------------------------------------------------------------------- one theorem at a time


@given(st.data())
def test_the_radius_is_the_distance_of_a_distribution_to_its_histogram(data):
    D = Distributions.from_list(*data.draw(lattice_lists()))
    space = data.draw(any_anchors(D))
    on_anchors = Distributions.from_weights(space.histograms(D), space.anchors)
    expected = asot.pairwise_exact(D, on_anchors).matrix().diagonal()
    np.testing.assert_allclose(space.radii(D), expected, rtol=1e-9, atol=1e-12)


@given(st.data())
def test_radius_bounds_hold(data):
    D = Distributions.from_list(*data.draw(lattice_lists()))
    space = data.draw(any_anchors(D))
    exact = asot.pairwise_exact(D)
    radii = space.radii(D)
    rows, columns = exact.pairs.T
    lower, upper = radius_bounds(asot.pairwise(D, space=space, estimate="anchor").values, radii[rows], radii[columns])
    slack = 1e-9 * (1 + upper)
    assert np.all((lower <= exact.values + slack) & (exact.values <= upper + slack))


@given(lattice_lists())
def test_the_means_of_two_distributions_are_no_farther_apart_than_they_are(lists):
    D = Distributions.from_list(*lists)
    centers = np.array([masses @ points for points, masses in D])
    rows, columns = np.triu_indices(len(D), 1)
    assert np.all(centroid_bound(centers[rows], centers[columns]) <= asot.pairwise_exact(D).values + 1e-12)


@given(st.integers(0, 10**6))
def test_mcshane_extensions_are_lipschitz_and_bound_from_below(seed):
    """docs/method.md §6: f̃(z) = min_u f_u + d(z, w_u) for any f, and max_u f_u - d(z, w_u) as well."""
    rng = np.random.default_rng(seed)
    anchors, f = rng.normal(size=(4, 2)), rng.normal(size=4)
    D = Distributions.from_list([rng.normal(size=(n, 2)) for n in (3, 6)])
    (x, a), (y, b) = D
    exact = asot.pairwise_exact(D).values[0]
    for extended in (
        lambda z: (f + cdist(z, anchors)).min(axis=1),
        lambda z: (f - cdist(z, anchors)).max(axis=1),
    ):
        assert np.all(np.abs(np.subtract.outer(extended(x), extended(y))) <= cdist(x, y) + 1e-12)
        assert a @ extended(x) - b @ extended(y) <= exact + 1e-12


@given(st.integers(0, 10**6))
def test_two_cells_are_on_average_no_farther_apart_than_means_and_spreads_say(seed):
    """docs/method.md §6: E‖x - y‖ ≤ (‖m_x - m_y‖² + var_x + var_y)^½."""
    rng = np.random.default_rng(seed)
    x, y = (rng.normal(rng.normal(), rng.random(), size=(n, 3)) for n in rng.integers(1, 6, 2))
    spread = sum(((z - z.mean(axis=0)) ** 2).sum(axis=1).mean() for z in (x, y))
    assert cdist(x, y).mean() <= np.sqrt(((x.mean(axis=0) - y.mean(axis=0)) ** 2).sum() + spread) + 1e-12


# ------------------------------------------------------------------------------------------- entropic


@pytest.mark.parametrize("reg", [1e-6, 1e-3, 0.1, 3.0, "auto"])
def test_entropic_distances_are_bounded_by_what_their_scalings_prove(reg):
    rng = np.random.default_rng(9)
    D = Distributions.from_list([rng.normal(i % 3, 1.0, size=(15, 2)) for i in range(6)])
    r = asot.pairwise(D, space=KMeansAnchors(8, random_state=0), reg=reg, bounds=True, estimate="anchor")
    assert_holds(r, asot.pairwise_exact(D).values)
    plain = asot.pairwise(D, space=KMeansAnchors(8, random_state=0), reg=reg, estimate="anchor")
    np.testing.assert_array_equal(r.values, plain.values)


# ------------------------------------------------------------------------------------------- refusals and warnings


def test_a_given_cost_has_no_proven_bound(two_clouds):
    D, space = two_clouds
    given_cost = AnchorSpace(space.anchors, space.cost)
    reason = (
        " needs nearest anchors and Euclidean anchor costs: for a given cost no bound is proven, because it does not"
    )
    for options in ({"bounds": True}, {"bounds": True, "reg": 0.1}):
        with pytest.raises(ValueError, match=re.escape("bounds=True" + reason)):
            asot.pairwise(D, space=given_cost, **options, estimate="anchor")
    with pytest.raises(ValueError, match=re.escape("max_error" + reason)):
        asot.pairwise(D, space=given_cost, max_error=0.1, estimate="anchor")
    with pytest.raises(ValueError, match=re.escape("estimate='calibrated'" + reason)):
        asot.pairwise(D + D, space=given_cost, estimate="calibrated")


def test_bounds_need_a_sink_that_keeps_them(two_clouds):
    D, space = two_clouds
    with pytest.raises(ValueError, match=r"sinks\.Dense only keeps values"):
        asot.pairwise(D, space=space, bounds=True, sink=asot.sinks.Dense(), estimate="anchor")


def test_a_space_of_another_collection_is_reported_with_numbers(two_clouds):
    D, space = two_clouds
    far = Distributions(D.points + 1e4, D.offsets)
    with pytest.warns(UserWarning, match=r"2 of 2 distributions are farther from their anchors \(up to 1.41e\+04"):
        r = asot.pairwise(far, space=space, bounds=True, estimate="anchor")
    assert_holds(r, asot.pairwise_exact(far).values)


@pytest.mark.parametrize("options", [{}, {"bounds": True}, {"space": KMeansAnchors(3)}])
def test_anchors_of_the_call_itself_are_not_said_to_be_of_another_collection(options):
    """Few points in many dimensions are far from any anchors; a warning is an error here."""
    D = Distributions.from_list(list(np.random.default_rng(0).normal(size=(30, 3, 20))))
    r = asot.pairwise(D, estimate="calibrated", **options)
    assert (r.values > 0).all()


@pytest.fixture
def two_clouds():
    rng = np.random.default_rng(10)
    D = Distributions.from_list([rng.normal(size=(8, 2)), rng.normal(1, 1, size=(9, 2))])
    return D, KMeansAnchors(4, random_state=0).fit(D).space_
