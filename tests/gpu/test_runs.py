"""Whole calls on a GPU: sinks, memory, several devices, collections, gradients."""

from __future__ import annotations

import numpy as np
import pytest

import asot
from asot.exact.cuda.solver import ExactCuda
from asot.exact.shared_cost import ExactSharedCost
from asot.results.sinks import Callback, Condensed, Counts, Dense, Radius, TopK
from asot.run.devices import Choice
from asot.run.engine import Ready, Resources, Work, solve_work
from asot.run.pairs import AllPairs
from tests.gpu.problems import cost_of, histograms

K, N = 23, 700
RNG = np.random.default_rng(0)
A, COST = histograms(K, N, RNG), cost_of("clustered", K, RNG)


def on(device, sink, **options):
    return asot.emd_many(A, cost=COST, device=device, n_jobs=-1, sink=sink, **options)


@pytest.fixture(scope="module")
def values():
    return asot.emd_many(A, cost=COST, device="cuda").values


@pytest.mark.parametrize("memory", [None, 3 * 10**5])
def test_nearest_neighbors_are_brute_force(values, memory):
    found = on("cuda", TopK(7), memory=memory)
    matrix = np.zeros((N, N))
    matrix[np.triu_indices(N, 1)] = values
    matrix += matrix.T
    np.fill_diagonal(matrix, np.inf)
    assert np.array_equal(found.indices, np.argsort(matrix, axis=1, kind="stable")[:, :7])
    assert np.array_equal(found.distances, np.sort(matrix, axis=1)[:, :7])


def test_neighbors_of_another_set(values):
    found = asot.emd_many(A[:50], A, cost=COST, device="cuda", sink=TopK(3))
    assert (found.distances[:, 0] == 0.0).all()
    expected = asot.emd_many(A[:50], A, cost=COST, device="cpu", n_jobs=-1, sink=TopK(3))
    assert np.abs(found.distances - expected.distances).max() <= 1e-12 * COST.max()


def test_radius_dense_counts_and_callback(values):
    radius = float(np.quantile(values, 0.05))
    graph = on("cuda", Radius(radius))
    assert graph.nnz == 2 * np.count_nonzero(values <= radius)
    dense = on("cuda", Dense())
    assert np.array_equal(dense[np.triu_indices(N, 1)], values)
    assert np.array_equal(dense, dense.T)
    edges = np.linspace(0.0, values.max(), 20)
    assert np.array_equal(on("cuda", Counts(edges)), np.histogram(values, edges)[0])
    seen = []
    on("cuda", Callback(lambda i, j, w: seen.append(w.copy())))
    assert np.array_equal(np.concatenate(seen), values)
    assert np.array_equal(on("cuda", Condensed()).values, values)


def test_tiles_on_several_devices_are_the_same():
    def run(gpus, memory):
        solver = ExactCuda(A, None, COST, cancel=True)
        choice = Choice(gpus, "a test", required=True)
        return solve_work(Work(AllPairs(N), on_cpu, Ready(solver), choice), Condensed(), Resources(memory=memory))

    assert np.array_equal(run((0,), None).values, run((0, 0, 0), 10**6).values)


def on_cpu():
    return ExactSharedCost(A, None, COST, cancel=True)


def test_too_little_memory_is_a_smaller_tile_or_the_cpu(values):
    import cupy

    pool = cupy.get_default_memory_pool()
    for limit in (3 * 10**6, 10**4):
        pool.free_all_blocks()
        pool.set_limit(size=pool.used_bytes() + limit)
        try:
            solver = ExactCuda(A, None, COST, cancel=True)
            choice = Choice((0,), "a test", required=False)
            r = solve_work(Work(AllPairs(N), on_cpu, Ready(solver), choice), Condensed(), Resources())
        finally:
            pool.set_limit(size=0)
        assert np.abs(r.values - values).max() <= 1e-12 * COST.max()
    assert r.info["device"] == "cpu"


def test_auto_takes_the_gpu_for_much_work_and_the_cpu_for_little():
    large = np.repeat(A, 4, axis=0)
    assert asot.emd_many(large, cost=COST).info["device"].startswith("cuda:0")
    assert asot.emd_many(A[:5], cost=COST).info["device"] == "cpu"


def test_a_device_that_does_not_exist():
    with pytest.raises(ValueError, match="cuda:99 does not exist"):
        on("cuda:99", None)


def test_a_collection_from_points_to_distances():
    rng = np.random.default_rng(1)
    D = asot.Distributions.from_list(
        [rng.normal(rng.normal(size=3), 1.0, size=(n, 3)) for n in rng.integers(5, 40, 60)]
    )
    space = asot.KMeansAnchors(20, random_state=0, device="cuda").fit(D).space_
    on_gpu = asot.pairwise(D, space=space, device="cuda", estimate="anchor")
    on_cpu = asot.pairwise(D, space=space, device="cpu", estimate="anchor")
    assert np.abs(on_gpu.values - on_cpu.values).max() <= 1e-11 * space.cost.max()


@pytest.mark.parametrize("n", [2_000, 600_000])
def test_anchors_learned_on_a_gpu_are_as_good(n):
    rng = np.random.default_rng(0)
    points = (rng.normal(size=(n, 6)) + 3.0 * rng.integers(0, 4, size=(n, 1))).astype(np.float32)
    D = asot.Distributions(points, np.arange(0, n + 1, 20))
    gpu, cpu = (asot.KMeansAnchors(16, random_state=0, n_init=3, device=d, batch_size=None) for d in ("cuda", "cpu"))
    assert gpu.fit(D).inertia_ <= 1.01 * cpu.fit(D).inertia_
    assert gpu.device_.startswith("cuda")
    H = gpu.space_.histograms(D, device="cuda")
    assert np.abs(H - gpu.space_.histograms(D, device="cpu")).max() <= 1e-6 + 0.06 * (n > 10**5)


def test_cuda_tensors_are_read(values):
    import cupy
    import torch

    for make in (lambda x: torch.tensor(x, device="cuda"), cupy.asarray):
        r = asot.emd_many(make(A), cost=make(COST), device="cuda")
        assert np.array_equal(r.values, values)


def test_gradients_on_a_gpu():
    import torch

    from asot import gradients

    a, c = (
        torch.tensor(A[:20], device="cuda", requires_grad=True),
        torch.tensor(COST, device="cuda", requires_grad=True),
    )
    out = gradients.sinkhorn_many(a, cost=c, reg=0.05 * COST.max(), value="regularized")
    out.sum().backward()
    assert torch.isfinite(a.grad).all()
    assert torch.isfinite(c.grad).all()
    cpu_a, cpu_c = torch.tensor(A[:20], requires_grad=True), torch.tensor(COST, requires_grad=True)
    gradients.sinkhorn_many(cpu_a, cost=cpu_c, reg=0.05 * COST.max(), value="regularized").sum().backward()
    assert torch.allclose(a.grad.cpu(), cpu_a.grad, rtol=1e-6, atol=1e-9)
    assert torch.allclose(c.grad.cpu(), cpu_c.grad, rtol=1e-6, atol=1e-9)


def test_gradients_of_tensors_on_different_devices():
    import torch

    from asot import gradients

    with pytest.raises(ValueError, match=r"cuda.*cpu|cpu.*cuda"):
        gradients.sinkhorn_many(torch.tensor(A[:3], device="cuda"), cost=torch.tensor(COST), reg=1.0)
