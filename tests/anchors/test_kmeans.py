"""k-means anchors: what they are, what they do not depend on, and how they learn from batches."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import asot
from asot import Distributions, KMeansAnchors
from asot.anchors import kmeans

CENTERS = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])


def around_the_centers(rng, n=30, spread=0.1, sizes=(5, 40)):
    """Distributions whose points lie close to four centers."""
    counts = rng.integers(*sizes, n)
    points = [CENTERS[rng.integers(4, size=c)] + spread * rng.normal(size=(c, 2)) for c in counts]
    return Distributions.from_list(points)


@pytest.fixture(scope="module")
def D():
    return around_the_centers(np.random.default_rng(0))


def in_order(anchors):
    """Anchors sorted by coordinates, coarsely enough for their noise."""
    return anchors[np.lexsort(np.round(anchors).T)]


def learned(D, n_anchors=4, **options):
    return KMeansAnchors(n_anchors, random_state=0, **options).fit(D)


# ------------------------------------------------------------------------------------------- what they are


@pytest.mark.parametrize("batch_size", [None, "auto", 50])
def test_clusters_are_found(D, batch_size):
    anchors = learned(D, batch_size=batch_size, n_init=5).space_.anchors
    np.testing.assert_allclose(in_order(anchors), in_order(CENTERS), atol=0.1)


def test_one_anchor_is_the_mean_of_means():
    """Every distribution counts the same, however many points it has and whatever its total was."""
    D = Distributions.from_list([[[0.0]] * 99 + [[1.0]], [[10.0], [20.0]]], [np.full(100, 5.0), [3.0, 1.0]])
    np.testing.assert_allclose(learned(D, 1).space_.anchors, [[(0.01 + 12.5) / 2]])


def test_anchors_are_the_means_of_their_points(D):
    learner = learned(D, 9)
    index, distance = learner.space_.assign(D.points)
    means = [np.average(D.points[index == u], axis=0, weights=D.masses[index == u]) for u in range(9)]
    np.testing.assert_allclose(learner.space_.anchors, means, atol=3e-2)
    np.testing.assert_allclose(learner.inertia_, D.masses @ distance**2 / len(D))


def test_repeating_all_points_of_a_distribution_changes_nothing(D):
    (first, _), rest = D[0], [points for points, _ in D[1:]]
    expected = learned(Distributions.from_list([first, *rest])).space_.anchors
    for repeated in (np.repeat(first, 2, axis=0), np.tile(first, (4, 1))):
        np.testing.assert_array_equal(learned(Distributions.from_list([repeated, *rest])).space_.anchors, expected)


def test_the_scale_of_the_masses_changes_nothing(D):
    heavy = Distributions(D.points, D.offsets, D.masses * np.repeat(2.0 ** np.arange(len(D)), D.sizes))
    np.testing.assert_array_equal(learned(heavy).space_.anchors, learned(D).space_.anchors)


def test_the_default_number_is_the_mean_size(D):
    assert learned(D, None).space_.n_anchors == round(float(D.sizes.mean()))


def test_more_starts_are_no_worse(D):
    assert learned(D, 12, n_init=8).inertia_ <= learned(D, 12, n_init=1).inertia_


def test_float32_points_give_float64_anchors(D):
    small = Distributions(D.points.astype(np.float32), D.offsets)
    learner = learned(small)
    assert learner.space_.anchors.dtype == np.float64
    np.testing.assert_allclose(in_order(learner.space_.anchors), in_order(learned(D).space_.anchors), atol=1e-4)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e200, 1e300])
def test_clusters_are_found_at_any_scale(D, scale):
    scaled = Distributions(scale * D.points, D.offsets)
    for learner in (learned(scaled), KMeansAnchors(4, n_init=5, random_state=0).partial_fit(scaled)):
        np.testing.assert_allclose(in_order(learner.space_.anchors / scale), in_order(CENTERS), atol=0.1)


# ------------------------------------------------------------------------------------------- fewer points than anchors


def test_more_anchors_than_points_are_said_and_exact():
    D = Distributions.from_list([[[0.0], [1.0]], [[1.0], [5.0]], [[0.0], [0.0]]])
    with pytest.warns(UserWarning, match="7 anchors were requested, but the collection has only 3 distinct points"):
        learner = KMeansAnchors(7).fit(D)
    np.testing.assert_array_equal(learner.space_.anchors, [[0.0], [1.0], [5.0]])
    assert learner.inertia_ == 0.0
    values = asot.pairwise(D, space=learner, estimate="anchor").values
    np.testing.assert_allclose(values, asot.pairwise_exact(D).values, rtol=1e-14)


def test_exactly_as_many_anchors_as_points_are_no_reason_to_warn():
    D = Distributions.from_list([[[0.0], [1.0]], [[1.0], [5.0]]])
    np.testing.assert_array_equal(KMeansAnchors(3).fit(D).space_.anchors, [[0.0], [1.0], [5.0]])


def test_points_without_mass_attract_no_anchor():
    points = np.arange(10.0)[:, None]
    D = Distributions.from_list([points, points], [np.r_[1.0, 1.0, 1.0, np.zeros(7)]] * 2)
    np.testing.assert_allclose(np.sort(learned(D, 2).space_.anchors.ravel()), [0.5, 2.0], atol=0.51)
    with pytest.warns(UserWarning, match="5 anchors were requested, but the collection has only 3 distinct points"):
        learner = learned(D, 5)
    np.testing.assert_array_equal(learner.space_.anchors, points[:3])


# ------------------------------------------------------------------------------------------- the same on every run


@pytest.mark.parametrize("batch_size", [None, 64])
def test_a_seed_gives_the_same_anchors(D, batch_size):
    first, second = (learned(D, 15, batch_size=batch_size).space_.anchors for _ in range(2))
    np.testing.assert_array_equal(first, second)
    other = KMeansAnchors(15, batch_size=batch_size, random_state=1).fit(D).space_.anchors
    assert not np.array_equal(first, other)


def test_a_random_state_object_is_drawn_from(D):
    state = np.random.RandomState(0)
    first = KMeansAnchors(15, random_state=state).fit(D).space_.anchors
    second = KMeansAnchors(15, random_state=state).fit(D).space_.anchors
    assert not np.array_equal(first, second)


FIT = """
import numpy as np, asot
rng = np.random.default_rng(0)
D = asot.Distributions(rng.normal(size=(6000, 3)), np.arange(0, 6001, 50))
print(asot.KMeansAnchors(20, random_state=0, batch_size=None).fit(D).space_.anchors.tobytes().hex())
"""


def test_the_number_of_threads_changes_no_bit():
    source = str(Path(asot.__file__).parents[1])
    path = {"PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}
    runs = [
        subprocess.run(
            [sys.executable, "-c", FIT],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, **path, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads},
        )
        for threads in ("1", "4")
    ]
    assert runs[0].stdout == runs[1].stdout
    assert len(runs[0].stdout) > 20 * 3 * 16


# ------------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize("telling", [10, 10**6])
def test_a_large_pool_is_learned_from_a_sample(D, monkeypatch, telling):
    full = learned(D, 15)
    monkeypatch.setattr(kmeans, "LARGE_POOL", 100)
    monkeypatch.setattr(kmeans, "TELLING_POINTS", telling)
    monkeypatch.setattr(kmeans, "SAMPLED_POINTS", 40)
    monkeypatch.setattr(kmeans, "POINTS_PER_ANCHOR", 10)
    by_default = learned(D, 15)
    if telling == 10:
        np.testing.assert_array_equal(by_default.space_.anchors, learned(D, 15, max_points=150).space_.anchors)
    assert by_default.inertia_ == pytest.approx(full.inertia_, rel=0.5)
    assert not np.array_equal(by_default.space_.anchors, full.space_.anchors)
    np.testing.assert_array_equal(learned(D, 15, batch_size=None).space_.anchors, full.space_.anchors)


def test_a_large_pool_of_few_distinct_points_keeps_all_of_them(monkeypatch):
    monkeypatch.setattr(kmeans, "LARGE_POOL", 100)
    monkeypatch.setattr(kmeans, "SAMPLED_POINTS", 20)
    monkeypatch.setattr(kmeans, "POINTS_PER_ANCHOR", 1)
    monkeypatch.setattr(kmeans, "TELLING_POINTS", 60)
    rare = np.repeat(np.arange(6.0), [400, 300, 100, 5, 1, 1])[:, None]
    E = asot.Distributions.from_list([rare, rare[::2]])
    assert sorted(learned(E, 6).space_.anchors[:, 0]) == [0, 1, 2, 3, 4, 5]


def test_anchors_from_a_sample_lose_as_little_as_stated(monkeypatch):
    rng = np.random.default_rng(0)
    E = asot.Distributions.from_list([rng.normal(rng.integers(0, 12, (4000, 1)), 0.2, (4000, 3)) for _ in range(3)])
    full = learned(E, 12, n_init=3)
    monkeypatch.setattr(kmeans, "LARGE_POOL", 10_000)
    monkeypatch.setattr(kmeans, "SAMPLED_POINTS", 3000)
    monkeypatch.setattr(kmeans, "POINTS_PER_ANCHOR", 250)
    sampled = learned(E, 12, n_init=3)
    _, distance = sampled.space_.assign(E.points)
    assert 1.0 <= (distance**2).mean() / full.inertia_ < 1.0 + 4 * 12 / 3000


def test_batches_of_distributions_are_learned_one_by_one():
    rng = np.random.default_rng(1)
    learner = KMeansAnchors(4, n_init=5, random_state=0)
    for _ in range(10):
        assert learner.partial_fit(around_the_centers(rng)) is learner
    np.testing.assert_allclose(in_order(learner.space_.anchors), in_order(CENTERS), atol=0.05)
    assert learner.n_features_in_ == 2
    np.testing.assert_allclose(learner.transform(around_the_centers(rng)).sum(axis=1), 1.0)


def test_later_batches_move_the_anchors(D):
    learner = KMeansAnchors(4, random_state=0).partial_fit(D)
    before = learner.space_.anchors
    learner.partial_fit(Distributions(D.points + 1.0, D.offsets))
    assert np.abs(learner.space_.anchors - before).max() > 0.1


def test_fitting_forgets_the_batches(D):
    learner = KMeansAnchors(4, random_state=0).partial_fit(around_the_centers(np.random.default_rng(2)))
    np.testing.assert_array_equal(learner.fit(D).space_.anchors, learned(D).space_.anchors)
    fresh = KMeansAnchors(4, random_state=0).partial_fit(D)
    np.testing.assert_array_equal(learner.partial_fit(D).space_.anchors, fresh.space_.anchors)


def test_a_first_batch_with_too_few_points_is_refused():
    with pytest.raises(ValueError, match="the first batch has 2 distinct points for 3 anchors; start with a larger"):
        KMeansAnchors(3).partial_fit([[[0.0], [1.0]], [[1.0]]])


def test_batches_of_another_dimension_are_refused(D):
    learner = KMeansAnchors(4, random_state=0).partial_fit(D)
    with pytest.raises(ValueError, match="X has 3 features, but KMeansAnchors is expecting 2 features"):
        learner.partial_fit([np.eye(3)])


# ------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_anchors": 0}, "n_anchors must be a whole number ≥ 1; found 0"),
        ({"n_anchors": 2.5}, "n_anchors must be a whole number ≥ 1; found 2.5"),
        ({"n_anchors": 4, "batch_size": 0}, "batch_size must be a whole number ≥ 1; found 0"),
        ({"n_anchors": 4, "batch_size": "many"}, "batch_size must be a whole number ≥ 1; found 'many'"),
        ({"n_anchors": 4, "n_init": 0}, "n_init must be a whole number ≥ 1; found 0"),
    ],
)
def test_options_that_are_none(D, options, message):
    with pytest.raises(ValueError, match=message):
        KMeansAnchors(**options).fit(D)
