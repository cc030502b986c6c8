"""Equal points are found once, exactly, and in the order in which they appear."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asot import Distributions
from asot.data import distinct
from asot.data.distinct import (
    MASS_UNIT,
    SharedPoints,
    common_mass,
    distinct_rows,
    in_own_order,
    joined_histograms,
    left_to_ship,
    sparse_histograms,
)
from asot.run import executors
from tests.strategies import ragged_lists


def rows_by_dictionary(points):
    """The plain twin: distinct rows in order of appearance, and the place of every row among them."""
    places = {}
    index = [places.setdefault(tuple(row + 0.0), len(places)) for row in points]
    return np.array(list(places)), np.array(index)


def assert_distinct(points):
    rows, index = distinct_rows(points)
    expected_rows, expected_index = rows_by_dictionary(points)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_array_equal(index, expected_index)
    np.testing.assert_array_equal(rows[index], points)
    assert rows.dtype == points.dtype


@pytest.fixture(params=["hashes", "all hashes collide"])
def way(request, monkeypatch):
    if request.param == "all hashes collide":
        monkeypatch.setattr(distinct, "_factors", lambda n: np.zeros(n, dtype=np.int64))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (50, 1), (200, 2), (300, 7), (1, 9)])
def test_distinct_rows_come_in_order_of_appearance(shape, dtype):
    assert_distinct(np.random.default_rng(shape).integers(-1, 3, shape).astype(dtype))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_minus_zero_is_zero(dtype):
    points = np.array([[-0.0, 1.0], [0.0, 1.0], [0.0, -0.0], [-0.0, 0.0], [-0.0, 1.0]], dtype=dtype)
    rows, index = distinct_rows(points)
    assert len(rows) == 2
    np.testing.assert_array_equal(index, [0, 0, 1, 1, 0])


def test_the_smallest_difference_counts():
    x = np.array([[1.0, 2.0]])
    points = np.concatenate([x, np.nextafter(x, 3.0), np.nextafter(x, 0.0), x, [[5e-324, 0.0]], [[0.0, 0.0]]])
    assert_distinct(points)
    assert len(distinct_rows(points)[0]) == 5


@pytest.mark.usefixtures("way")
@given(st.lists(st.tuples(*[st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-300, 1e300])] * 2), min_size=1, max_size=30))
def test_any_rows_are_reported_apart(rows):
    assert_distinct(np.array(rows))


@given(ragged_lists())
def test_sparse_histograms_hold_the_collection(lists):
    D = Distributions.from_list(*lists)
    sparse = sparse_histograms(D)
    assert len(np.unique(sparse.points, axis=0)) == len(sparse.points)
    for i, (points, masses) in enumerate(D):
        own = slice(sparse.offsets[i], sparse.offsets[i + 1])
        assert np.all(np.diff(sparse.index[own]) > 0)
        assert np.all(sparse.masses[own] > 0)
        found = {
            tuple(row): mass for row, mass in zip(sparse.points[sparse.index[own]], sparse.masses[own], strict=True)
        }
        for row in np.unique(points + 0.0, axis=0):
            expected = masses[(points == row).all(axis=1)].sum()
            np.testing.assert_allclose(found.get(tuple(row), 0.0), expected, rtol=1e-12)


@given(ragged_lists(), st.randoms(use_true_random=False))
def test_two_collections_over_the_points_of_both(lists, random):
    arrays, masses = lists
    order = random.sample(range(len(arrays)), len(arrays))
    some = [order[: len(order) // 2 + 1], order[len(order) // 3 :]]
    first, second = (Distributions.from_list([arrays[i] for i in w], masses and [masses[i] for i in w]) for w in some)
    both = joined_histograms(sparse_histograms(first), sparse_histograms(second))
    expected = sparse_histograms(first + second)
    assert len(np.unique(both.points, axis=0)) == len(both.points) == len(expected.points)
    np.testing.assert_array_equal(both.offsets, expected.offsets)
    for i in range(len(first) + len(second)):
        own = slice(both.offsets[i], both.offsets[i + 1])
        assert np.all(np.diff(both.index[own]) > 0)
        points, same = both.points[both.index[own]], expected.points[expected.index[own]]
        assert sorted(zip(points.tolist(), both.masses[own], strict=True)) == sorted(
            zip(same.tolist(), expected.masses[own], strict=True)
        )


def test_pooled_masses_are_totals_over_the_collection():
    D = Distributions.from_list([[[0.0], [1.0], [0.0]], [[1.0]]])
    sparse = sparse_histograms(D)
    np.testing.assert_array_equal(sparse.points, [[0.0], [1.0]])
    np.testing.assert_allclose(sparse.pooled_masses(), [2 / 3, 4 / 3])


def test_a_point_without_mass_in_any_distribution_is_no_point_of_the_collection():
    D = Distributions.from_list([[[0.0], [1.0]], [[2.0], [1.0]]], [[1.0, 0.0], [1.0, 0.0]])
    np.testing.assert_array_equal(sparse_histograms(D).points, [[0.0], [2.0]])


# ------------------------------------------------------------------------------- in threads


def test_threads_find_the_same(monkeypatch):
    monkeypatch.setattr(executors, "PIECE", 16)
    rng = np.random.default_rng(0)
    D = Distributions.from_list(
        [(rng.integers(0, 3, size=(n, 3)) * 1.0, rng.integers(0, 3, size=n) + 1e-9) for n in rng.integers(1, 90, 60)]
    )
    one, many = sparse_histograms(D), sparse_histograms(D, executors.in_ranges(3))
    for name in ("points", "offsets", "index", "masses"):
        assert np.array_equal(getattr(one, name), getattr(many, name))
    assert len(one.index) < len(D.masses)


@pytest.mark.usefixtures("way")
def test_threads_see_hashes_that_collide(monkeypatch):
    monkeypatch.setattr(executors, "PIECE", 16)
    points = np.random.default_rng(0).integers(0, 4, size=(300, 2)) * 1.0
    rows, index = distinct_rows(points, executors.in_ranges(3))
    expected_rows, expected_index = rows_by_dictionary(points)
    assert np.array_equal(rows, expected_rows)
    assert np.array_equal(index, expected_index)


# ------------------------------------------------------------------------------- what is left of a pair


def left_of_one(histograms, i, j):
    """The plain twin: dictionaries of what either has."""
    a, b = (
        dict(zip(histograms.index[own], histograms.masses[own], strict=True))
        for own in (slice(*histograms.offsets[t : t + 2]) for t in (i, j))
    )
    used = (histograms.points[[*a, *b]] != 0).any(axis=0).sum()
    dim = histograms.points.shape[1]
    return sum(a[t] > b.get(t, 0) for t in a), sum(b[t] > a.get(t, 0) for t in b), used if dim > 16 else dim


@pytest.mark.parametrize("dim", [2, 20])
def test_what_is_left_to_ship(dim):
    rng = np.random.default_rng(dim)
    D = Distributions.from_list([rng.integers(0, 2, size=(n, dim)) * (rng.random(dim) < 0.4) for n in (5, 1, 9, 6, 6)])
    histograms = sparse_histograms(D)
    rows, columns = np.array([3, 0, 0, 2, 1, 4]), np.array([1, 4, 0, 3, 1, 2])
    found = left_to_ship(histograms, rows, columns)
    assert found.tolist() == [list(left_of_one(histograms, i, j)) for i, j in zip(rows, columns, strict=True)]


@pytest.mark.parametrize("seed", range(20))
def test_in_its_own_order_a_distribution_is_the_same_beside_any_others(seed):
    rng = np.random.default_rng(seed)
    first, last, *others = [rng.integers(-1, 2, size=(rng.integers(1, 9), 2)).astype(float) for _ in range(8)]
    masses = rng.dirichlet(np.ones(len(last)))
    masses[0] = 0.0 if len(last) > 1 else 1.0
    plain = sparse_histograms(Distributions.from_list([last], masses=[masses]))
    seen = []
    for beside in ([], others, others[::-1]):
        clouds = [first, *beside, last]
        given = [np.full(len(one), 1.0 / len(one)) for one in clouds[:-1]]
        histograms = in_own_order(Distributions.from_list(clouds, masses=[*given, masses]))
        start, end = histograms.offsets[-2:]
        assert (np.diff(histograms.index[start:end]) > 0).all()
        assert len(histograms.points) == histograms.index.max() + 1
        seen.append((histograms.points[histograms.index[start:end]], histograms.masses[start:end]))
        for expected, found in zip(seen[0], seen[-1], strict=True):
            np.testing.assert_array_equal(found, expected)
    order = np.lexsort(seen[0][0].T)
    np.testing.assert_array_equal(seen[0][0][order], plain.points[np.lexsort(plain.points.T)])
    np.testing.assert_allclose(np.sort(seen[0][1]), np.sort(plain.masses), rtol=1e-15)


@pytest.mark.parametrize("seed", range(3))
def test_common_mass_is_the_sum_of_what_both_have_at_a_point(seed):
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(20, 3))
    bags = [places[rng.choice(20, size)] for size in rng.integers(1, 15, 12)]
    D = Distributions.from_list([*bags, rng.normal(size=(4, 3))])  # with points of its own
    histograms = sparse_histograms(D)
    dense = np.zeros((len(D), len(histograms.points)))
    dense[np.repeat(np.arange(len(D)), np.diff(histograms.offsets)), histograms.index] = histograms.masses
    weight = np.linalg.norm(histograms.points, axis=1)
    shared = SharedPoints.of(D)
    is_shared = (dense > 0).sum(axis=0) > 1
    assert np.array_equal(np.sort(D.points[shared.at], axis=0), np.sort(histograms.points[is_shared], axis=0))
    rows, columns = np.triu_indices(len(D), 1)
    both, stop = np.minimum(dense[rows], dense[columns]), np.zeros(1, np.int64)
    weights = np.linalg.norm(D.points[shared.at], axis=1)
    found = common_mass(shared.weighed(1.0), rows, columns, stop)
    assert np.allclose(MASS_UNIT * found, both.sum(axis=1), rtol=0, atol=1e-11)
    last = len(D) - 1
    backward = common_mass(SharedPoints.of(D[::-1]).weighed(1.0), last - rows, last - columns, stop)
    assert np.array_equal(backward, found)  # whatever the order of points
    found = common_mass(shared.weighed(weights), rows, columns, stop)
    assert np.allclose(MASS_UNIT * found, both @ weight, rtol=0, atol=1e-11)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_means_are_those_of_every_point_by_its_mass(n_jobs):
    rng = np.random.default_rng(0)
    D = Distributions.from_list([rng.integers(0, 4, size=(n, 2)) for n in rng.integers(1, 60, 900)])
    histograms, values = sparse_histograms(D), rng.normal(size=(16, 6))[:, ::2]
    found = histograms.means(values[: len(histograms.points)], functools.partial(executors.in_stretches, n_jobs=n_jobs))
    table = np.zeros((len(D), len(histograms.points)))
    table[np.repeat(np.arange(len(D)), np.diff(histograms.offsets)), histograms.index] = histograms.masses
    assert np.allclose(found, table @ values[: len(histograms.points)], atol=1e-14)
