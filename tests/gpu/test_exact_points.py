"""The original problems on a GPU, against the CPU's solver: every size, metric and sink; the same bits every time."""

from __future__ import annotations

import numpy as np
import pytest

import asot

SIZES = (
    (1, 5),
    (5, 32),
    (20, 64),
    (60, 100),
    (100, 128),
    (120, 190),
    (180, 256),
    (250, 380),
    (390, 512),
    (900, 1024),
    (1500, 2048),
)


def collection(n, fewest, most, grid=0, dim=3, seed=0):
    """Distributions of different sizes; on a grid they share points, and distances and masses tie."""
    rng = np.random.default_rng([seed, fewest, grid])
    sizes = rng.integers(fewest, most + 1, n)
    arrays = [rng.integers(0, grid, (m, dim)).astype(float) if grid else rng.normal(size=(m, dim)) for m in sizes]
    masses = [np.ones(m) if grid else rng.dirichlet(np.full(m, 0.5)) + 1e-13 for m in sizes]
    return asot.Distributions.from_list(arrays, masses=masses)


def assert_same(D, E=None, **options):
    gpu, cpu = (asot.pairwise_exact(D, E, device=device, n_jobs=-1, **options) for device in ("cuda:0", "cpu"))
    assert gpu.info["device"] == "cuda:0"
    assert (gpu.status == asot.Status.OPTIMAL).all()
    assert np.abs(gpu.values - cpu.values).max() <= 1e-12 * cpu.values.max()
    return gpu


@pytest.mark.parametrize("grid", [0, 12])
@pytest.mark.parametrize(("fewest", "most"), SIZES)
def test_every_size(fewest, most, grid):
    assert_same(collection(60 if most <= 128 else 12 if most <= 512 else 4, fewest, most, grid))


@pytest.mark.parametrize("kind", ["line", "few", "equal masses", "huge", "tiny", "outlier"])
def test_trouble(kind):
    rng = np.random.default_rng(0)
    D = collection(80, 1, 40, grid=0 if kind in ("huge", "tiny", "outlier") else 6)
    points, masses = D.points.copy(), D.masses
    if kind == "line":
        points[:, 1:] = 0.0
    if kind == "few":
        points = np.minimum(points, 1.0)
    if kind == "equal masses":
        points += 0.1 * rng.normal(size=points.shape)
    points *= {"huge": 1e290, "tiny": 1e-290}.get(kind, 1.0)
    if kind == "outlier":
        points[-1] = 1e12
    D = asot.Distributions(points, D.offsets, masses)
    gpu, cpu = (asot.pairwise_exact(D, device=device, n_jobs=-1).values for device in ("cuda", "cpu"))
    np.testing.assert_allclose(gpu, cpu, rtol=1e-11, atol=0)


@pytest.mark.parametrize("memory", [None, 10**7])
@pytest.mark.parametrize(
    "metric",
    ["euclidean", "cityblock", "chebyshev", "minkowski", "canberra", "hamming", "seuclidean", "mahalanobis", "jaccard",
     "rogerstanimoto", "sokalsneath", "jensenshannon"],
)  # fmt: skip
def test_every_metric_with_and_without_a_table(metric, memory):
    truth = metric in ("jaccard", "rogerstanimoto", "sokalsneath")
    D = collection(100, 5, 30, grid=2 if truth else 0, dim=8)
    D = asot.Distributions(np.abs(D.points), D.offsets, D.masses)
    assert_same(D, metric=metric, memory=memory)


def test_two_collections_and_lists():
    D, E = collection(40, 5, 40), collection(30, 5, 70, seed=1)
    rng = np.random.default_rng(0)
    whole = assert_same(D, E).matrix()
    pairs = np.stack([rng.integers(0, 40, 300), rng.integers(0, 30, 300)], axis=1)
    assert np.array_equal(asot.pairwise_exact(D, E, pairs=pairs, device="cuda").values, whole[tuple(pairs.T)])


def test_the_result_does_not_depend_on_tiles_or_on_the_run():
    D = collection(300, 5, 60)
    first = asot.pairwise_exact(D, device="cuda")
    for memory in (None, 10**8, 10**9):
        again = asot.pairwise_exact(D, device="cuda", memory=memory)
        assert np.array_equal(first.values, again.values)
        assert np.array_equal(first.n_iter, again.n_iter)


def test_sinks():
    D = collection(200, 5, 40)
    cpu = asot.pairwise_exact(D, device="cpu", n_jobs=-1, sink=asot.sinks.TopK(5))
    gpu = asot.pairwise_exact(D, device="cuda", sink=asot.sinks.TopK(5))
    assert np.array_equal(gpu.indices, cpu.indices)
    assert np.abs(gpu.distances - cpu.distances).max() <= 1e-12 * cpu.distances.max()


def test_larger_pairs_are_solved_on_the_cpu():
    D = collection(4, 2000, 2100, dim=2)
    r = assert_same(D)
    assert 0 < r.info["n_solved_on_cpu"] <= 6


@pytest.mark.parametrize("metric", ["euclidean", "canberra"])
@pytest.mark.parametrize(("n", "most"), [(1500, 25), (300, 120)])
def test_neighbors_are_those_of_the_cpu(metric, n, most):
    D, E = collection(n, 5, most), collection(50, 5, most, seed=1)
    for sides in ((D, None), (E, D)):
        gpu, cpu = (asot.kneighbors(*sides, 10, metric=metric, device=d, n_jobs=-1) for d in ("cuda", "cpu"))
        assert np.array_equal(gpu.indices, cpu.indices)
        assert np.abs(gpu.distances - cpu.distances).max() <= 1e-12 * cpu.distances.max()
        assert gpu.n_exact <= gpu.info["n_pairs"]
        radius = 1.0001 * float(np.quantile(cpu.distances, 0.3))
        gpu, cpu = (asot.radius_neighbors(*sides, radius, metric=metric, device=d, n_jobs=-1) for d in ("cuda", "cpu"))
        assert np.array_equal(gpu.indptr, cpu.indptr)
        assert np.array_equal(gpu.indices, cpu.indices)


@pytest.mark.parametrize("metric", ["euclidean", "canberra"])
def test_an_index_answers_as_on_the_cpu(metric):
    D, Q = collection(1500, 5, 25), collection(50, 5, 25, seed=1)
    index = asot.Index(metric=metric)
    index.add(D)
    for _ in range(2):  # the second batch finds the members read
        gpu, cpu = (index.query(Q, 10, device=device, n_jobs=-1) for device in ("cuda", "cpu"))
        assert np.array_equal(gpu.indices, cpu.indices)
        assert np.abs(gpu.distances - cpu.distances).max() <= 1e-12 * cpu.distances.max()
        index.remove(index.ids[:100].tolist())


OTHER = {
    "p=2": {"p": 2},
    "p=9": {"p": 9, "metric": "cityblock"},
    "cosine": {"metric": "cosine"},
    "angular": {"metric": "angular", "p": 2},
    "a table": {"metric": "braycurtis"},
    "share": {"share": 0.7},
    "price": {"unmatched": 30.0},
    "price, p=2": {"unmatched": 30.0, "p": 2},
}


@pytest.mark.parametrize("name", OTHER)
@pytest.mark.parametrize(("n", "most"), [(40, 30), (12, 150), (4, 700)])
def test_other_distances(name, n, most):
    assert_same(collection(n, most // 3, most), **OTHER[name])


def test_diagrams():
    rng = np.random.default_rng(0)
    births = [rng.random((m, 1)) for m in rng.integers(5, 200, 20)]
    D = asot.Distributions.from_diagrams([np.hstack([b, b + 0.3 * rng.random(b.shape)]) for b in births])
    for options in ({"metric": "chebyshev"}, {"p": 2}):
        assert_same(D, unmatched="diagonal", **options)
