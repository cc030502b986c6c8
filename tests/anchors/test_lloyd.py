"""k-means in pieces: the centers of scikit-learn, for any number of threads, with progress, and it can be stopped."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from asot.anchors import lloyd
from asot.anchors.lloyd import kmeans


def weighted_points(n, dim, dtype=float, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, dim)).astype(dtype), rng.random(n) + 0.01


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "dim", "k"), [(60, 2, 5), (700, 3, 12), (900, 40, 30)])
@pytest.mark.parametrize("n_init", [1, 3])
def test_centers_are_those_of_scikit_learn(n, dim, k, n_init, dtype):
    points, weights = weighted_points(n, dim, dtype)
    with threadpool_limits(1):
        expected = KMeans(k, n_init=n_init, random_state=7).fit(points, sample_weight=weights).cluster_centers_
    found = kmeans(points, weights, k, n_init=n_init, random_state=7)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 if dtype == np.float64 else 1e-5)


def test_points_on_a_grid_have_many_ties_and_the_same_centers():
    grid = np.stack(np.meshgrid(np.arange(12.0), np.arange(12.0)), axis=-1).reshape(-1, 2)
    weights = np.random.default_rng(0).random(len(grid))
    with threadpool_limits(1):
        expected = KMeans(9, n_init=1, random_state=3).fit(grid, sample_weight=weights).cluster_centers_
    np.testing.assert_allclose(kmeans(grid, weights, 9, random_state=3), expected, atol=1e-10)


def test_centers_that_lose_all_points_move_to_far_ones():
    """Two starts on one spot: the second center is empty at once."""
    points = np.concatenate([np.zeros((5, 1)), np.ones((5, 1)), [[9.0]]])
    labels = np.repeat([0, 1], [5, 6]).astype(np.int32)
    sums, held = lloyd._sums(points, np.ones(11), labels, 3)
    problem = lloyd._Problem(points, np.ones(11), points[:, 0] ** 2, 3, 0.0, 1, lloyd.Progress(False, 0, ""))
    lloyd._relocate_empty(problem, np.array([[0.0], [1.0], [4.0]]), labels, sums, held)
    np.testing.assert_array_equal(lloyd._averaged(sums, held), [[0.0], [1.0], [9.0]])


@pytest.mark.parametrize("n_jobs", [2, 5])
def test_centers_do_not_depend_on_threads(monkeypatch, n_jobs):
    monkeypatch.setattr(lloyd, "_NUMBERS", 1)  # pieces as small as they can be
    points, weights = weighted_points(3000, 4)
    one, more = (kmeans(points, weights, 20, random_state=0, n_jobs=jobs) for jobs in (1, n_jobs))
    np.testing.assert_array_equal(one, more)


def test_progress_begins_with_the_first_center_and_ends_with_the_last_round():
    points, weights = weighted_points(500, 3)
    seen = []
    kmeans(points, weights, 8, random_state=0, progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (1, 8 + lloyd.MOST_ROUNDS)
    assert seen[-1] == (8 + lloyd.MOST_ROUNDS, 8 + lloyd.MOST_ROUNDS)
    assert len(seen) > 9


@pytest.mark.parametrize("at", [3, 10])  # among the first centers, among the rounds
def test_it_stops_where_it_is_told_to(at):
    points, weights = weighted_points(500, 3)
    calls = []

    def stop(done, total):
        calls.append(done)
        if done == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kmeans(points, weights, 8, random_state=0, n_jobs=2, progress=stop)
    assert calls[-1] == at


@pytest.mark.parametrize(("n", "work"), [(100_000, 2000 * 30), (1_000_000, 64 * 3), (1000, 5000 * 500)])
def test_no_piece_of_work_is_long(n, work):
    """Between two looks at Ctrl-C there is at most one piece."""
    points = np.broadcast_to(0.0, (n, 1))
    problem = lloyd._Problem(points, points[:, 0], points[:, 0], 1, 0.0, 1, lloyd.Progress(False, 0, ""))
    pieces = problem.pieces(work)
    assert (pieces[0][0], pieces[-1][1]) == (0, n)
    assert max(high - low for low, high in pieces) * work <= max(lloyd._NUMBERS, 256 * work)
