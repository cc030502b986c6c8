"""Whole calls with ``device="cuda"`` where there is no GPU: a stand-in for CuPy, whose kernels run in the emulator."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import asot
from asot.entropic import cuda as sinkhorn_cuda
from asot.estimate.calibration import Calibration
from asot.exact.cuda.points_plan import MOST_POINTS
from asot.run import devices, gpu_engine
from tests.simt import host, numpy_as_cupy

pytestmark = host.needs_compiler

RNG = np.random.default_rng(0)
A, B = RNG.dirichlet(np.full(9, 0.4), 14), RNG.dirichlet(np.full(9, 0.4), 5)
COST = cdist(np.arange(9.0)[:, None], np.arange(9.0)[:, None])


@pytest.fixture(autouse=True)
def gpus(monkeypatch):
    numpy_as_cupy.install(monkeypatch, gpus=2)
    monkeypatch.setattr(devices, "_torch_obstacle", lambda: None)
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(sinkhorn_cuda, "kernel_is_safe", lambda *problem: False)  # all pairs in the log domain


@pytest.mark.parametrize("second", [None, B])
def test_exact(second):
    gpu, cpu = (asot.emd_many(A, second, cost=COST, device=device) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(gpu.values, cpu.values, rtol=0, atol=1e-13 * COST.max())
    assert gpu.info["device"] == "cuda:0 + cuda:1"
    assert cpu.info["device"] == "cpu"


@pytest.mark.parametrize("value", ["transport", "regularized", "divergence"])
def test_entropic(value):
    how = {"cost": COST, "reg": 0.2, "value": value}
    gpu, cpu = (asot.sinkhorn_many(A, **how, device=device) for device in ("cuda:1", "cpu"))
    np.testing.assert_allclose(gpu.values, cpu.values, rtol=1e-8, atol=1e-9)
    assert np.array_equal(gpu.status, cpu.status)
    assert gpu.info["device"] == "cuda:1"
    assert gpu.info["value"] == value


def test_a_collection():
    D = asot.Distributions.from_list([RNG.normal(size=(n, 2)) for n in (4, 7, 5, 6)])
    space = asot.KMeansAnchors(5, random_state=0).fit(D).space_
    A = space.histograms(D)
    near = asot.emd_many(A, cost=space.cost, device="cuda", sink=asot.sinks.TopK(2))
    expected = asot.pairwise(D, space=space, device="cpu", sink=asot.sinks.TopK(2), estimate="anchor")
    assert np.array_equal(near.indices, expected.indices)
    assert near.info["device"] == "cuda:0 + cuda:1"


CLOUDS = asot.Distributions.from_list([RNG.normal(size=(n, 2)) for n in (4, 7, 5, 6, 8, 5)])


@pytest.mark.parametrize(
    "call",
    [
        lambda: asot.pairwise_exact(CLOUDS, device="cuda"),
        lambda: asot.pairwise_exact(CLOUDS, p=2, device="cuda"),
        lambda: asot.kneighbors(CLOUDS, 2, device="cuda"),
        lambda: asot.pairwise(
            CLOUDS, space=asot.KMeansAnchors(4, random_state=0), estimate="calibrated", device="cuda"
        ),
        lambda: asot.emd_many(A, cost=COST, device="cuda"),
    ],
)
def test_a_call_leaves_nothing_in_the_memory_of_a_gpu(monkeypatch, call):
    """Also before Python collects circles: they may hold most of the memory, and the next call would go without."""
    taken, take = [], numpy_as_cupy.MemoryPool.take
    monkeypatch.setattr(
        numpy_as_cupy.MemoryPool, "take", lambda array: taken.append(weakref.ref(found := take(array))) or found
    )
    call()  # what is kept for later calls is small, and kept once
    taken.clear()
    gc.collect()
    gc.disable()
    try:
        call()
        kept = [array for each in taken if (array := each()) is not None]
    finally:
        gc.enable()
    assert not kept


def test_bounds_are_a_matter_of_the_cpu():
    D = asot.Distributions.from_list([RNG.normal(size=(n, 2)) for n in (4, 7, 5)])
    with pytest.raises(ValueError, match="need their plans, which device='cuda' does not keep"):
        asot.pairwise(D, bounds=True, device="cuda", estimate="anchor")


@pytest.mark.parametrize("bounds", [False, True])
@pytest.mark.parametrize("sink", [None, 3])
def test_calibrated_values_are_those_of_the_cpu(bounds, sink):
    rng = np.random.default_rng(1)
    D = asot.Distributions.from_list(
        [rng.normal(rng.normal(size=2), 1.0, size=(n, 2)) for n in rng.integers(4, 12, 14)]
    )
    space = asot.KMeansAnchors(5, random_state=0).fit(D).space_
    how = {"space": space, "estimate": "calibrated", "bounds": bounds, "random_state": 0}
    gpu, cpu = (
        asot.pairwise(D, **how, **({} if sink is None else {"sink": asot.sinks.TopK(sink)}), device=device)
        for device in ("cuda", "cpu")
    )
    assert gpu.info["device"] == "cuda:0 + cuda:1"
    assert gpu.info["calibration"] == cpu.info["calibration"]
    for name in ("values", "lower", "upper", "error") if sink is None else ("distances", "lower", "upper", "error"):
        mine, theirs = getattr(gpu, name), getattr(cpu, name)
        assert (mine is None) == (theirs is None)
        if mine is not None:
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6 * float(np.max(cpu.error)) + 1e-6)


@pytest.mark.parametrize("estimate", ["anchor", "calibrated"])
def test_a_small_pool_of_points_needs_no_torch_on_a_gpu(monkeypatch, estimate):
    monkeypatch.setattr(devices, "_torch_obstacle", lambda: pytest.fail("PyTorch was asked for"))
    rng = np.random.default_rng(2)
    D = asot.Distributions.from_list([rng.normal(size=(n, 2)) for n in rng.integers(4, 12, 14)])
    how = {"estimate": estimate, "n_anchors": 5, "random_state": 0}
    gpu, cpu = (asot.pairwise(D, **how, device=device) for device in ("cuda", "cpu"))
    assert gpu.info["device"] == "cuda:0 + cuda:1"
    np.testing.assert_allclose(gpu.values, cpu.values, rtol=1e-5)


def test_gpus_measure_while_the_host_fits(monkeypatch):
    order = []
    begin, fit = gpu_engine.begin, Calibration.__init__
    monkeypatch.setattr(gpu_engine, "begin", lambda *given: order.append("begin") or begin(*given))
    monkeypatch.setattr(Calibration, "__init__", lambda self, *given: order.append("fit") or fit(self, *given))
    D = asot.Distributions.from_list([RNG.normal(size=(n, 2)) for n in (4, 7, 5, 6, 8, 5)])
    space = asot.KMeansAnchors(3, random_state=0).fit(D).space_
    for device, expected in (("cuda", ["begin", "fit"]), ("cpu", ["fit"])):
        order.clear()
        asot.pairwise(D, space=space, estimate="calibrated", device=device)
        assert order == expected


@pytest.mark.parametrize("bounds", [False, True])
def test_estimates_in_a_store_are_those_of_the_cpu(bounds, tmp_path):
    pytest.importorskip("zarr")
    rng = np.random.default_rng(1)
    D = asot.Distributions.from_list([rng.normal(size=(n, 2)) for n in rng.integers(4, 9, 12)])
    space = asot.KMeansAnchors(4, random_state=0).fit(D).space_
    how = {"space": space, "estimate": "calibrated", "bounds": bounds, "random_state": 0}
    stored = asot.pairwise(D, **how, device="cuda", sink=asot.sinks.Store(tmp_path / "run.zarr"))
    cpu = asot.pairwise(D, **how, device="cpu")
    assert stored.is_complete
    rows, columns = np.triu_indices(len(D), 1)
    np.testing.assert_allclose([stored[i, j] for i, j in zip(rows, columns, strict=True)], cpu.values, rtol=1e-6)
    again = asot.pairwise(D, **how, device="cuda", sink=asot.sinks.Store(tmp_path / "run.zarr"))
    assert again.is_complete


def test_an_aim_is_met_on_a_gpu():
    rng = np.random.default_rng(1)
    D = asot.Distributions.from_list(
        [rng.normal(rng.normal(size=2), 1.0, size=(n, 2)) for n in rng.integers(4, 12, 14)]
    )
    r = asot.pairwise(D, device="cuda")
    assert r.info["device"] == "cuda:0 + cuda:1"
    assert np.abs(r.values - asot.pairwise_exact(D, device="cpu").values).max() <= 0.1 * r.values.mean()


def test_auto_leaves_large_distributions_to_the_cpu(monkeypatch):
    monkeypatch.setattr(devices, "_start_seconds", lambda: -1.0)
    D = asot.Distributions.from_list([RNG.normal(size=(MOST_POINTS + 1, 2)) for _ in range(2)])
    r = asot.pairwise_exact(D)
    assert r.info["device"] == "cpu"
    assert f"more than {MOST_POINTS} points" in r.info["device_reason"]


def test_what_is_not_a_number_is_seen_on_the_device(monkeypatch):
    from asot.exact.cuda import solver

    class Broken(solver.ExactOnDevice):
        def solve(self, pairs, start, stop):
            solution = super().solve(pairs, start, stop)
            solution.values[0] = np.nan
            return solution

    monkeypatch.setattr(solver, "ExactOnDevice", Broken)
    with pytest.raises(ArithmeticError, match=r"the distance of the pair \(0, 1\) is not a number"):
        asot.emd_many(A, cost=COST, device="cuda:0")


def test_a_precision_that_the_cpu_does_not_have():
    with pytest.raises(ValueError, match="precision='tf32' is for GPUs; the CPU computes in 'float64' or 'float32'"):
        asot.sinkhorn_many(A, cost=COST, reg=0.2, tol=None, precision="tf32", device="cpu")


def test_an_accuracy_that_a_precision_does_not_have():
    with pytest.raises(ValueError, match="tol=1e-09 cannot be met in float32; use precision='float64'"):
        asot.sinkhorn_many(A, cost=COST, reg=0.2, precision="float32", device="cuda")
