"""k-means in torch, here on its CPU device: as good as scikit-learn's, the same on every run, bounded in memory."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

import asot
from asot import Distributions, KMeansAnchors
from asot.anchors import kmeans as kmeans_module
from asot.anchors import kmeans_torch as kmeans_on_device
from asot.anchors import nearest_torch as on_device
from asot.anchors.kmeans_torch import kmeans
from asot.run import devices

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("one_thread_of_torch")


CENTERS = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])


def pool(name):
    """(points (n, d), weights (n,), k) of a test problem."""
    rng = np.random.default_rng(1)
    equal = np.ones(2000)
    if name == "blobs":
        return 5 * rng.normal(size=(12, 4))[rng.integers(12, size=2000)] + rng.normal(size=(2000, 4)), equal, 12
    if name == "uniform":
        return rng.random((2000, 2)), equal, 20
    if name == "duplicates":
        return rng.integers(0, 9, size=(2000, 2)).astype(float), equal, 16
    if name == "heavy weights":
        return rng.normal(size=(2000, 3)), np.exp(3 * rng.normal(size=2000)), 12
    if name == "float32":
        return (100 + rng.normal(size=(2000, 6))).astype(np.float32), equal, 9
    scale = float(name)
    return scale * (3 + rng.normal(size=(2000, 3))), equal, 9


def solve(points, weights, k, **options):
    return kmeans(points, weights, k, device="cpu", **options)


def inertia_of(points, weights, centers):
    _, distance = asot.AnchorSpace(centers).assign(points)
    return weights @ distance**2


# ------------------------------------------------------------------------------------------- quality


@pytest.mark.parametrize("name", ["blobs", "uniform", "duplicates", "heavy weights", "float32", "1e-6", "1", "1e6"])
def test_inertia_is_within_a_percent_of_scikit_learns(name):
    points, weights, k = pool(name)
    ours = [solve(points, weights, k, random_state=seed) for seed in range(12)]
    with threadpool_limits(1):
        theirs = [KMeans(k, n_init=1, random_state=s).fit(points, sample_weight=weights).inertia_ for s in range(12)]
    assert np.mean([run.inertia for run in ours]) <= 1.01 * np.mean(theirs)
    np.testing.assert_allclose(ours[0].inertia, inertia_of(points, weights, ours[0].centers), rtol=1e-9)
    assert ours[0].centers.dtype == np.float64
    assert 1 <= ours[0].n_iter <= 300


def test_centers_are_the_weighted_means_of_their_points(monkeypatch):
    monkeypatch.setattr(kmeans_on_device, "TOLERANCE", 0.0)
    points, weights, k = pool("heavy weights")
    centers = solve(points, weights, k, random_state=0).centers
    index, _ = asot.AnchorSpace(centers).assign(points)
    means = [np.average(points[index == u], axis=0, weights=weights[index == u]) for u in range(k)]
    np.testing.assert_allclose(centers, means, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_clusters_are_found_at_any_scale(scale):
    rng = np.random.default_rng(3)
    points = scale * (np.repeat(CENTERS, 50, axis=0) + 0.1 * rng.normal(size=(200, 2)))
    found = solve(points, np.ones(200), 4, random_state=0)
    np.testing.assert_allclose(np.sort(found.centers.sum(axis=1)) / scale, [0, 10, 10, 20], atol=0.1)
    assert not np.isnan(found.inertia)


def test_points_without_weight_attract_no_center():
    points = np.r_[np.zeros(5), np.ones(5), np.full(5, 1e6)][:, None]
    weights = np.r_[np.ones(10), np.zeros(5)]
    for seed in range(5):
        found = solve(points, weights, 2, random_state=seed)
        np.testing.assert_array_equal(np.sort(found.centers.ravel()), [0.0, 1.0])
        assert found.inertia == 0.0
        assert solve(points, weights, 3, random_state=seed).centers.max() <= 1.0


@pytest.mark.parametrize(
    ("weights", "place", "which", "rest"),
    [([0.0, 0.0, 2.0, 0.0], 0.0, 2, 0.0), ([0.0, 0.0, 2.0, 0.0], 2.0, 2, 2.0), ([1.0, 0.0, 3.0], 1.0, 2, 0.0)],
)
def test_what_weighs_nothing_is_never_drawn(weights, place, which, rest):
    assert kmeans_on_device._locate(np.array(weights), place) == (which, rest)


def test_copies_of_a_center_are_not_drawn_by_their_rounding():
    rng = np.random.default_rng(5)
    sites = np.concatenate([[-np.ones(5)], np.ones((3, 5)) + 1e-6 * rng.normal(size=(3, 5))]) * rng.random(5)
    points = np.repeat(sites, [50_000, 50_000, 1, 1], axis=0)
    crowd = kmeans_on_device._Pool(points, np.ones(len(points)), 4, 0, "cpu")
    for seed in range(3):
        chosen = (kmeans_on_device._plus_plus(crowd, 4, np.random.RandomState(seed)) + crowd.mean).numpy()
        assert len(np.unique(chosen.round(12), axis=0)) == 4


def test_as_many_centers_as_distinct_points_find_them_all():
    points = np.repeat(np.random.default_rng(4).integers(0, 1000, size=(30, 2)), 7, axis=0).astype(float)
    distinct = np.unique(points, axis=0)
    found = solve(points, np.ones(len(points)), len(distinct), random_state=0)
    np.testing.assert_array_equal(np.unique(found.centers.round(9), axis=0), distinct)
    assert found.inertia < 1e-18


@pytest.mark.parametrize("value", [0.0, 3.7, 1e9])
def test_more_centers_than_points_coincide(value):
    found = solve(np.full((10, 2), value), np.ones(10), 3, random_state=0)
    np.testing.assert_allclose(found.centers, value, rtol=1e-15)
    assert found.inertia == 0.0


def test_a_center_without_points_moves_to_where_they_cost_most():
    points = np.array([[0.0], [1.0], [2.0], [50.0], [90.0]])
    space = kmeans_on_device._Pool(points, np.array([1.0, 1.0, 1.0, 9.0, 1.0]), 3, 0, "cpu")
    start = torch.tensor([[1.0], [1000.0], [2000.0]], dtype=torch.float64) - space.mean
    centers, inertia, _ = kmeans_on_device._lloyd(space, start, 300)
    np.testing.assert_allclose(np.sort((centers + space.mean).numpy().ravel()), [1.0, 50.0, 90.0])
    assert inertia == pytest.approx(2.0)


def test_iterations_have_a_limit():
    points, weights, k = pool("uniform")
    assert solve(points, weights, k, random_state=0, max_iter=2).n_iter == 2


# ------------------------------------------------------------------------------------------- the same on every run


def test_a_seed_gives_the_same_centers():
    points, weights, k = pool("uniform")
    first, second, other = (solve(points, weights, k, random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.centers, second.centers)
    assert first[1:] == second[1:]
    assert not np.array_equal(first.centers, other.centers)


def test_a_random_state_object_is_drawn_from():
    points, weights, k = pool("uniform")
    state = np.random.RandomState(0)
    first, second = (solve(points, weights, k, random_state=state) for _ in range(2))
    assert not np.array_equal(first.centers, second.centers)


# ------------------------------------------------------------------------------------------- memory


def test_the_size_of_chunks_changes_only_the_rounding(monkeypatch):
    points, weights, k = pool("blobs")
    expected = solve(points, weights, k, random_state=0)
    for scratch in (2**18, 2**16):
        monkeypatch.setattr(on_device, "SCRATCH", scratch)
        found = solve(points, weights, k, random_state=0)
        np.testing.assert_allclose(found.centers, expected.centers, rtol=1e-9, atol=1e-12)
        assert found.inertia == pytest.approx(expected.inertia, rel=1e-12)


def test_a_device_that_runs_out_of_memory_gets_smaller_chunks(monkeypatch):
    points, weights, k = pool("blobs")
    expected = solve(points, weights, k, random_state=0)
    largest = []
    original = kmeans_on_device.scaled

    def scaled(x, exponent):
        if len(x) > 600:
            raise torch.OutOfMemoryError("CUDA out of memory")
        largest.append(len(x))
        return original(x, exponent)

    monkeypatch.setattr(kmeans_on_device, "scaled", scaled)
    found = solve(points, weights, k, random_state=0)
    np.testing.assert_allclose(found.centers, expected.centers, rtol=1e-9, atol=1e-12)
    assert max(largest) == 500

    monkeypatch.setattr(on_device, "FEWEST_ROWS", 1000)
    with pytest.raises(MemoryError, match="device 'cpu' has too little free memory, even for small chunks"):
        solve(points, weights, k, random_state=0)


@pytest.mark.parametrize("name", ["blobs", "heavy weights"])
def test_a_very_large_pool_starts_from_a_sample(monkeypatch, name):
    points, weights, k = pool(name)
    whole = [solve(points, weights, k, random_state=seed).inertia for seed in range(30)]
    monkeypatch.setattr(kmeans_on_device, "START_POINTS", 800)
    sizes = []
    plus_plus = kmeans_on_device._plus_plus
    monkeypatch.setattr(kmeans_on_device, "_plus_plus", lambda p, *more: (sizes.append(p.n), plus_plus(p, *more))[1])
    sampled = [solve(points, weights, k, random_state=seed).inertia for seed in range(30)]
    assert max(sizes) <= 800  # less where heavy points are drawn more than once
    assert np.mean(sampled) <= 1.03 * np.mean(whole)  # the mean of 30 starts is known to two percent
    monkeypatch.setattr(kmeans_on_device, "TOLERANCE", 0.0)
    centers = solve(points, weights, k, random_state=0).centers
    index, _ = asot.AnchorSpace(centers).assign(points)  # all points had their say, not only the sample
    np.testing.assert_allclose(centers[0], np.average(points[index == 0], axis=0, weights=weights[index == 0]))


# ------------------------------------------------------------------------------------------- the estimator


@pytest.fixture(scope="module")
def D():
    rng = np.random.default_rng(0)
    counts = rng.integers(5, 40, 30)
    return Distributions.from_list([CENTERS[rng.integers(4, size=c)] + 0.1 * rng.normal(size=(c, 2)) for c in counts])


@pytest.fixture
def torch_on_cpu(monkeypatch):
    """Take torch's CPU device for a GPU that pays for any work."""
    monkeypatch.setattr(devices, "torch_device", lambda device, worth_it: None if device == "cpu" else "cpu")


def test_anchors_are_learned_on_the_device(D, torch_on_cpu):
    learner = KMeansAnchors(4, n_init=3, random_state=0, device="cuda").fit(D)
    order = np.lexsort(learner.space_.anchors.round().T)
    np.testing.assert_allclose(learner.space_.anchors[order], CENTERS, atol=0.1)
    _, distance = learner.space_.assign(D.points)
    assert learner.inertia_ == pytest.approx(D.masses @ distance**2 / len(D))
    assert learner.n_features_in_ == 2
    np.testing.assert_array_equal(learner.transform(D), learner.space_.histograms(D))


@pytest.mark.parametrize("batch_size", [None, "auto"])
def test_a_large_pool_needs_no_mini_batches_there(D, torch_on_cpu, monkeypatch, batch_size):
    expected = KMeansAnchors(9, random_state=0, device="cuda").fit(D)
    monkeypatch.setattr(kmeans_module, "LARGE_POOL", 10)
    found = KMeansAnchors(9, random_state=0, device="cuda", batch_size=batch_size).fit(D)
    np.testing.assert_array_equal(found.space_.anchors, expected.space_.anchors)


def test_inertia_is_as_good_as_on_the_cpu(D, torch_on_cpu):
    learners = {"cuda": [], "cpu": []}
    for device, inertias in learners.items():
        for seed in range(4):
            inertias.append(KMeansAnchors(9, random_state=seed, n_init=3, device=device).fit(D).inertia_)
    assert np.mean(learners["cuda"]) <= 1.01 * np.mean(learners["cpu"])


def test_a_fitted_learner_says_where_it_learned(D, monkeypatch):
    assert KMeansAnchors(4, random_state=0).fit(D).device_ == "cpu"
    assert KMeansAnchors(4, random_state=0).partial_fit(D).device_ == "cpu"
    monkeypatch.setattr(devices, "torch_device", lambda device, worth_it: "cpu:0")
    assert KMeansAnchors(4, random_state=0).fit(D).device_ == "cpu:0"


def test_auto_goes_to_the_cpu_when_the_device_has_no_memory(D, torch_on_cpu, monkeypatch):
    def scaled(x, exponent):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(kmeans_on_device, "scaled", scaled)
    found, expected = (KMeansAnchors(4, random_state=0, device=device).fit(D) for device in ("auto", "cpu"))
    np.testing.assert_array_equal(found.space_.anchors, expected.space_.anchors)
    assert found.device_ == "cpu"
    with pytest.raises(MemoryError, match="stop other programs on it, or use device='cpu'"):
        KMeansAnchors(4, device="cuda").fit(D)


def test_auto_leaves_small_pools_to_the_cpu(D, monkeypatch):
    asked = []
    monkeypatch.setattr(devices, "torch_device", lambda device, worth_it: asked.append((device, worth_it)))
    KMeansAnchors(4, random_state=0).fit(D)
    monkeypatch.setattr(kmeans_module, "WORTH_A_DEVICE", len(D.points) * 4 * 2)
    KMeansAnchors(4, random_state=0).fit(D)
    KMeansAnchors(4, random_state=0, batch_size=64).fit(D)
    assert [question for question in asked if question[0] == "auto"] == [
        ("auto", worth) for worth in (False, True, False)
    ]


def test_more_anchors_than_points_are_said_and_exact(torch_on_cpu):
    points = np.repeat(np.arange(30.0), 100)[:, None]
    few = Distributions.from_list([points, points], [np.r_[np.ones(2900), np.zeros(100)]] * 2)
    with pytest.warns(UserWarning, match="40 anchors were requested, but the collection has only 29 distinct points"):
        learner = KMeansAnchors(40, device="cuda").fit(few)
    np.testing.assert_array_equal(learner.space_.anchors.ravel(), np.arange(29.0))
    assert (learner.inertia_, learner.device_) == (0.0, "cpu")
    assert KMeansAnchors(28, device="cuda", random_state=0).fit(few).space_.n_anchors == 28


def test_mini_batches_on_a_device_are_refused(D, torch_on_cpu):
    with pytest.raises(
        ValueError, match="batch_size=64 asks for mini-batches, which are learned on the CPU, not on dev"
    ):
        KMeansAnchors(4, batch_size=64, device="cuda").fit(D)
    with pytest.raises(ValueError, match="partial_fit learns on the CPU, not on device='cuda'; use device='auto' or"):
        KMeansAnchors(4, device="cuda").partial_fit(D)


def test_devices_that_cannot_be_used_are_refused(D):
    with pytest.raises(ValueError, match="unknown device 'gpu'; use 'auto', 'cpu', 'cuda' or 'cuda:N'"):
        KMeansAnchors(4, device="gpu").fit(D)
    with pytest.raises(ValueError, match=r"device='cuda:99' cannot be used: .*device='cpu'"):
        KMeansAnchors(4, device="cuda:99").fit(D)
    with pytest.raises(ValueError, match="n_init must be a whole number ≥ 1; found 0"):
        KMeansAnchors(4, n_init=0, device="cpu").fit(D)


def test_options_are_checked_on_a_device_as_well(D, torch_on_cpu):
    with pytest.raises(ValueError, match="n_init must be a whole number ≥ 1; found 0"):
        KMeansAnchors(4, n_init=0, device="cuda").fit(D)


def test_small_work_needs_no_torch(D, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # an import of it fails
    assert KMeansAnchors(4, random_state=0).fit_transform(D).shape == (30, 4)
