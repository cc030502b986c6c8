"""Clouds of up to five points: eight pairs at a time, and the same distances as everywhere else."""

from __future__ import annotations

import numpy as np
import pytest

import asot
from asot.data.distinct import sparse_histograms
from asot.exact.auto import are_small_clouds, points_solver
from asot.exact.points import ExactPoints
from asot.exact.small_clouds import SmallClouds
from asot.ground.metrics import prepare_metric
from asot.results.sinks import distances_of
from asot.run.pairs import make_pairs
from tests.oracles import pot_values

STOP = np.zeros(1, np.int64)


def _prepared(clouds, masses=None, metric="euclidean"):
    histograms = sparse_histograms(asot.Distributions.from_list(clouds, masses))
    return histograms, prepare_metric(histograms.points, metric)


def _assert_as_usual(histograms, ground):
    assert are_small_clouds(histograms, ground)
    n = len(histograms.offsets) - 1
    rows, columns = np.triu_indices(n, 1)
    expected = ExactPoints(histograms, ground).solve(rows, columns, STOP).values
    small = SmallClouds(histograms, ground)
    found = small.solve(rows, columns, STOP)
    np.testing.assert_allclose(found.values, expected, rtol=3e-15, atol=1e-15 * expected.max())
    np.testing.assert_array_equal(distances_of(make_pairs(n, None), small).values, found.values)


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev", "minkowski"])
@pytest.mark.parametrize("dim", [2, 3, 20])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_they_are_solved_as_if_they_were_large(size, dim, metric):
    rng = np.random.default_rng(size)
    _assert_as_usual(*_prepared([rng.normal(size=(size, dim)) for _ in range(21)], None, metric))


def test_two_points_may_have_any_masses():
    rng = np.random.default_rng(0)
    masses = [rng.dirichlet(np.ones(2)) for _ in range(29)] + [np.array([1e-9, 1.0])]
    _assert_as_usual(*_prepared([rng.normal(size=(2, 3)) for _ in range(30)], masses))


@pytest.mark.parametrize("scale", [1e-230, 1e-150, 1e200])
def test_squares_of_tiny_and_huge_clouds_stay_in_range(scale):
    rng = np.random.default_rng(1)
    _assert_as_usual(*_prepared([scale * rng.normal(size=(2, 3)) for _ in range(12)]))
    far = [scale * rng.normal(size=(1, 2)) for _ in range(10)] + [np.array([[1e3 * max(scale, 1.0), 0.0]])]
    _assert_as_usual(*_prepared(far))


def test_shared_points_and_equal_clouds_are_no_exception():
    rng = np.random.default_rng(2)
    clouds = [rng.choice(9, 3, replace=False)[:, None] * np.ones((3, 2)) for _ in range(20)]
    _assert_as_usual(*_prepared([*clouds, clouds[0]]))


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev"])
@pytest.mark.parametrize(("size", "weighted"), [(2, True), (2, False), (5, False)])
def test_equal_clouds_of_a_large_collection_are_at_no_distance(size, weighted, metric):
    rng = np.random.default_rng(6)
    clouds = list(rng.normal(size=(70, size, 3)))
    masses = [rng.dirichlet(np.ones(size)) if weighted else np.full(size, 1 / size) for _ in range(70)]
    clouds[7], masses[7] = clouds[3], masses[3]
    clouds[9], masses[9] = clouds[3][::-1], masses[3][::-1]
    result = asot.pairwise_exact(asot.Distributions.from_list(clouds, masses), metric=metric)
    assert result.info["solver"] == "every matching"
    assert result.matrix()[[3, 3, 7], [7, 9, 9]].tolist() == [0.0, 0.0, 0.0]
    assert np.isfinite(result.values).all()


def test_large_collections_of_them_agree_with_pot():
    rng = np.random.default_rng(3)
    D = asot.Distributions.from_list([rng.normal(size=(4, 3)) for _ in range(70)])
    r = asot.pairwise_exact(D)
    assert r.info["solver"] == "every matching"
    cost = np.linalg.norm(D.points[:, None] - D.points, axis=-1)
    A = np.repeat(np.eye(70), 4, axis=1) / 4.0
    pairs = r.pairs[::97]
    np.testing.assert_allclose(r.values[::97], pot_values(A, A, cost, pairs), rtol=1e-12)
    between = asot.pairwise_exact(D, D).matrix()
    np.testing.assert_allclose(between, r.matrix(), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("size", [50, 300])
def test_one_point_against_many_is_their_mean_distance(size):
    rng = np.random.default_rng(size)
    one = asot.Distributions.from_list([rng.normal(size=(1, 3)) for _ in range(4)])
    many = asot.Distributions.from_list([rng.normal(size=(size, 3)) for _ in range(5)])
    means = np.linalg.norm(one.points[:, None] - many.points, axis=-1).reshape(4, 5, size).mean(axis=2)
    np.testing.assert_allclose(asot.pairwise_exact(one, many).matrix(), means, rtol=1e-14)
    np.testing.assert_allclose(asot.pairwise_exact(many, one).matrix(), means.T, rtol=1e-14)


def test_other_collections_are_left_to_the_simplex():
    rng = np.random.default_rng(4)
    sizes = {"six points": [6] * 80, "different sizes": [2, 3] * 40}
    for clouds in ([rng.normal(size=(n, 2)) for n in each] for each in sizes.values()):
        assert isinstance(points_solver(*_prepared(clouds), 0, 10**6), ExactPoints)
    weighted = _prepared([rng.normal(size=(3, 2)) for _ in range(9)], [rng.dirichlet(np.ones(3)) for _ in range(9)])
    assert not are_small_clouds(*weighted)
