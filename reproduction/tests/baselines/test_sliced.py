"""Sliced Wasserstein: W_1 on lines, averaged over directions that are shared or a pair's own."""

from __future__ import annotations

import numpy as np
import ot
import pytest
from asot_paper.baselines import pot_sliced, sliced
from asot_paper.baselines.fresh_directions import FreshDirections
from asot_paper.baselines.fresh_kernel import directions_of_pair
from asot_paper.baselines.merged import merged_points
from hypothesis import given, settings
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats

import asot
from asot.baselines.sliced_wasserstein import SharedDirections, random_directions
from reproduction.tests.baselines.problems import clouds, lattice, with_diagonal
from tests.strategies import extent, ragged_lists


def mean_over(directions, x, a, y, b):
    """scipy's W_1 of the projections, averaged."""
    columns = range(directions.shape[1])
    along = [stats.wasserstein_distance(x @ directions[:, c], y @ directions[:, c], a, b) for c in columns]
    return np.mean(along)


def seed_of(random_state):
    return int(np.random.RandomState(random_state).randint(2**31))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("count", [1, 3, 8, 21])
def test_shared_directions_against_scipy(weighted, count):
    D = clouds(weighted=weighted)
    pairs = with_diagonal(len(D))
    r = sliced(D, pairs=pairs, n_projections=count, random_state=5)
    directions = random_directions(D.dim, count, np.random.RandomState(5))
    expected = [mean_over(directions, *D[i], *D[j]) for i, j in pairs]
    assert_allclose(r.values, expected, rtol=1e-12, atol=1e-14)
    assert_allclose(np.linalg.norm(directions, axis=0), 1.0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("count", [1, 3, 8, 21])
def test_fresh_directions_against_scipy(weighted, count):
    D = clouds(weighted=weighted)
    pairs = with_diagonal(len(D))
    r = sliced(D, pairs=pairs, n_projections=count, shared=False, random_state=5)
    for value, (i, j) in zip(r.values, pairs, strict=True):
        directions = directions_of_pair(seed_of(5), i, j, D.dim, D.dim, count)
        assert_allclose(np.linalg.norm(directions, axis=0), 1.0)
        assert_allclose(value, mean_over(directions, *D[i], *D[j]), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("shared", [True, False])
def test_it_agrees_with_pot_on_the_same_directions(shared):
    D = clouds(dim=4, weighted=True)
    r = sliced(D, shared=shared, random_state=2)
    for value, (i, j) in zip(r.values, r.pairs, strict=True):
        (x, a), (y, b) = D[i], D[j]
        own = None if shared else directions_of_pair(seed_of(2), i, j, 4, 4, 4)
        expected = ot.sliced_wasserstein_distance(x, y, a, b, n_projections=4, p=1, seed=2, projections=own)
        assert_allclose(value, expected, rtol=1e-12)
    if shared:
        assert_allclose(r.values, pot_sliced(D, shared=True, random_state=2).values, rtol=1e-12)


@settings(max_examples=30)
@given(ragged_lists(max_distributions=4))
def test_generated_collections(lists):
    D = asot.Distributions.from_list(*lists)
    pairs = with_diagonal(len(D))
    directions = random_directions(D.dim, 3, np.random.RandomState(0))
    size = np.abs(D.points).max() or 1.0
    r = sliced(D, pairs=pairs, n_projections=3, random_state=0)
    assert_allclose(r.values, [mean_over(directions, *D[i], *D[j]) for i, j in pairs], rtol=1e-9, atol=1e-14 * size)
    exact = asot.pairwise_exact(D, pairs=pairs).values
    for shared in (True, False):
        r = sliced(D, pairs=pairs, n_projections=3, shared=shared, random_state=1)
        assert (r.values <= exact + 1e-12 * size).all()  # a projection makes no distance longer


@pytest.mark.parametrize("shared", [True, False])
def test_on_a_line_it_is_exact(shared):
    D = clouds(dim=1, weighted=True)
    assert_allclose(sliced(D, shared=shared, random_state=0).values, asot.pairwise_exact(D).values, rtol=1e-12)


@pytest.mark.parametrize("shared", [True, False])
def test_equal_distributions_have_distance_zero(shared):
    for D in (clouds(), clouds(weighted=True), lattice()):
        twice = D + D
        own = [(i, i) for i in range(len(D))] + [(i, i + len(D)) for i in range(len(D))]
        assert_allclose(sliced(twice, pairs=own, shared=shared, random_state=0).values, 0.0, atol=1e-15)
    shuffled = asot.Distributions.from_list(
        [[[0.0, 1.0], [2.0, 3.0], [2.0, 3.0]], [[2.0, 3.0], [0.0, 1.0], [2.0, 3.0]]]
    )
    assert_array_equal(sliced(shuffled, shared=shared, random_state=0).values, [0.0])


def test_shared_directions_make_a_metric():
    D = clouds(sizes=(5, 9, 9, 14, 2, 7))
    M = sliced(D, random_state=0).matrix()
    assert_array_equal(sliced(D, D, random_state=0).matrix(), M)  # symmetric, and 0 on the diagonal
    assert (M[:, None, :] <= M[:, :, None] + M[None, :, :] + 1e-14).all()


@pytest.mark.parametrize("shared", [True, False])
def test_splitting_and_repeating_points_changes_nothing(shared):
    x, y = np.array([[0.0, 1.0], [3.0, 1.0]]), np.array([[1.0, 1.0], [5.0, 2.0], [0.5, 0.0]])
    whole = asot.Distributions.from_list([x, y], [[1.0, 3.0], [1.0, 1.0, 2.0]])
    split = asot.Distributions.from_list(
        [np.vstack([x, x]), np.vstack([y, y[2], y[0]])], [[0.5, 1.0, 0.5, 2.0], [1.0, 1.0, 1.0, 1.0, 0.0]]
    )
    first, second = (sliced(D, n_projections=6, shared=shared, random_state=0).values for D in (whole, split))
    assert_allclose(first, second, rtol=1e-14)


@pytest.mark.parametrize("shared", [True, False])
def test_values_scale_with_the_points(shared):
    D = clouds(weighted=True)
    values = sliced(D, shared=shared, random_state=0).values
    for scale in (0.25, 7e150, 1e-160):
        larger = asot.Distributions(scale * D.points, D.offsets, D.masses)
        assert_allclose(sliced(larger, shared=shared, random_state=0).values, scale * values, rtol=1e-12)


def test_shared_directions_go_to_the_end_of_the_range_of_floats():
    assert_allclose(sliced([[[0.0]], [[1.7e308]]], random_state=0).values / 1.7e308, [1.0])


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_answers_do_not_depend_on_threads_tiles_or_other_pairs(shared, weighted):
    D = clouds(sizes=tuple(range(1, 40)), weighted=weighted)
    how = {"shared": shared, "random_state": 3, "n_projections": 5}
    alone = sliced(D, **how)
    assert_array_equal(alone.values, sliced(D, n_jobs=3, memory=2000, **how).values)
    some = alone.pairs[::7]
    assert_array_equal(alone.values[::7], sliced(D, pairs=some[:, ::-1], **how).values)


@pytest.mark.parametrize("shared", [True, False])
def test_two_collections_are_solved_as_rectangles(shared):
    D, E = clouds(), clouds(sizes=(4, 40), seed=1, weighted=True)
    r = sliced(D, E, shared=shared, random_state=0)
    assert r.matrix().shape == (5, 2)
    joined = sliced(D + E, shared=shared, random_state=0).matrix()
    assert_allclose(r.matrix(), joined[:5, 5:], rtol=1e-13)
    assert_array_equal(sliced(D, E, pairs=[(3, 1)], shared=shared, random_state=0).values, r.matrix()[3, 1])


def test_pairs_have_directions_of_their_own():
    one = asot.Distributions.from_list([[[1.0, 0.0, 0.0]], [[0.0, 0.0, 0.0]], [[1.0, 0.0, 0.0]]])
    r = sliced(one, n_projections=1, shared=False, random_state=0)
    assert len(set(r.values)) == 3  # of two equal pairs and a third, whose distance is 0 along every direction
    assert not np.array_equal(r.values, sliced(one, n_projections=1, shared=False, random_state=1).values)


@pytest.mark.parametrize("dim", [1, 2, 3, 10])
def test_coordinates_that_are_zero_count_for_the_length_of_a_direction(dim):
    """A coordinate of a uniform direction: its square is Beta(1/2, (d - 1)/2)."""
    entries = directions_of_pair(11, 0, 1, 1, dim, 4000)[0]
    if dim == 1:
        assert_allclose(np.abs(entries), 1.0)
    else:
        assert stats.kstest(entries**2, stats.beta(0.5, (dim - 1) / 2).cdf).pvalue > 0.01
    assert abs(np.mean(entries > 0) - 0.5) < 0.04
    points = np.zeros((2, dim))
    points[0, 0] = 1.0
    r = sliced(asot.Distributions(points, [0, 1, 2]), n_projections=4000, shared=False, random_state=0)
    mean = special.gamma(dim / 2) / (np.sqrt(np.pi) * special.gamma((dim + 1) / 2))
    assert_allclose(r.values, [mean], rtol=0.06)


def test_two_used_coordinates_of_many_are_isotropic():
    first, second = directions_of_pair(7, 3, 4, 2, 9, 6000)
    assert stats.kstest(first**2 + second**2, stats.beta(1.0, 3.5).cdf).pvalue > 0.01
    assert stats.kstest(np.arctan2(first, second), stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 0.01


def test_points_at_the_origin_alone_have_distance_zero():
    D = asot.Distributions.from_list([[[0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    for shared in (True, False):
        assert_array_equal(sliced(D, shared=shared, random_state=0).values, [0.0])


def test_long_lists_are_sorted_too():
    D = clouds(sizes=(700, 3000), weighted=True)
    for shared in (True, False):
        r = sliced(D, n_projections=2, shared=shared, random_state=0)
        own = directions_of_pair(seed_of(0), 0, 1, 3, 3, 2)
        directions = random_directions(3, 2, np.random.RandomState(0)) if shared else own
        assert_allclose(r.values, [mean_over(directions, *D[0], *D[1])], rtol=1e-11)


def test_calls_that_are_stopped_return():
    D, stop = clouds(), np.ones(1, dtype=np.int64)
    directions = random_directions(3, 2, np.random.RandomState(0))
    for solver in (
        SharedDirections(D, directions),
        SharedDirections(clouds(weighted=True), directions),
        FreshDirections(merged_points(D), 2, seed=0),
    ):
        assert len(solver.solve(np.array([0, 1]), np.array([2, 3]), stop).values) == 2


def test_more_directions_come_closer_to_the_mean_over_all_of_them():
    x, y = asot.Distributions.from_list([[[0.0, 0.0]], [[3.0, 4.0]]])
    D = asot.Distributions.from_list([x[0], y[0]])
    assert_allclose(sliced(D, n_projections=20_000, random_state=0).values, [5 * 2 / np.pi], rtol=0.02)
    assert extent(D.points) == 5.0
