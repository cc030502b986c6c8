"""The log-domain solver for GPUs, in the emulator: against the CPU's solver and the long-double reference."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from asot import Status
from asot.entropic import cpu as sinkhorn_cpu
from asot.entropic.cpu import SinkhornSharedCost
from asot.entropic.cuda import LogSinkhornCuda, geometry
from asot.entropic.options import SinkhornOptions
from asot.gpu import cuda as module
from asot.run.pairs import AllPairs, CrossPairs, ListedPairs
from asot.run.protocols import OPEN, DeviceSolution
from tests.oracles import entropic_values, sinkhorn_sweeps
from tests.simt import host, numpy_as_cupy
from tests.strategies import METRICS, histograms_of_every_kind, metric_cost

pytestmark = host.needs_compiler

SHARED_BYTES = {"all shared": 100 * 1024, "vectors shared": 40 * 1024, "all scratch": 4 * 1024}
"""Shared memory of a GPU with which problems on 20 anchors keep their numbers where the key says."""

ANSWERS = ("values", "status", "n_iter", "marginal_error")


@pytest.fixture(autouse=True)
def _emulated(monkeypatch):
    numpy_as_cupy.install(monkeypatch)
    monkeypatch.setattr(sinkhorn_cpu, "KERNEL_RANGE", -1.0)  # the CPU too solves all pairs in the log domain


def settings(cost, ratio, tol=1e-9, max_iter=1000, regularized=False, start_at_target=False):
    """Parameters for ε = max C / ratio."""
    value, init = "regularized" if regularized else "transport", "target" if start_at_target else "ones"
    return SinkhornOptions((cost.max() or 1.0) / ratio, max_iter, tol, value, init)


def on_gpu(A, B, cost, pairs, how, start=0, stop=None):
    solver = LogSinkhornCuda(A, B, cost, how)
    return solver.on(numpy_as_cupy.DEVICE).solve(pairs, start, len(pairs) if stop is None else stop)


def on_cpu(A, B, cost, pairs, how):
    rows, columns = pairs.indices(0, len(pairs))
    return SinkhornSharedCost(A, B, cost, how).solve(rows, columns, np.zeros(1, dtype=np.int64))


def assert_same(found, expected, cost):
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-9, atol=1e-12 * np.max(cost))
    np.testing.assert_array_equal(found.status, expected.status)
    assert np.abs(found.n_iter - expected.n_iter).max(initial=0) <= 3  # a step more where rounding decides
    np.testing.assert_allclose(found.marginal_error, expected.marginal_error, rtol=1e-9, atol=1e-11)


def listed_pairs(rng, n, count):
    return ListedPairs(rng.integers(0, n, (count, 2)), n, n, symmetric=True)


def plane(rng, k, l=None):
    points = rng.normal(size=(k, 2))
    return cdist(points, points if l is None else rng.normal(size=(l, 2)))


# ------------------------------------------------------------------------------------------- the CPU's solver


@pytest.mark.parametrize("ratio", [1e-2, 1.0, 30.0, 300.0, 1e3, 1e4])
@pytest.mark.parametrize("metric", METRICS)
def test_pairs_of_every_kind_are_solved_as_on_the_cpu(metric, ratio):
    """Zero masses, one-anchor, equal, nearly equal and tiny histograms are among them."""
    for k, count in ((1, 4), (2, 10), (8, 10), (17, 6)):
        rng = np.random.default_rng([k, METRICS.index(metric), 1])
        histograms, cost = histograms_of_every_kind(k, rng), metric_cost(metric, k, rng)
        pairs = listed_pairs(rng, len(histograms), count)
        how = settings(cost, ratio)
        assert_same(on_gpu(histograms, None, cost, pairs, how), on_cpu(histograms, None, cost, pairs, how), cost)


@pytest.mark.parametrize(("k", "l"), [(3, 50), (50, 3), (33, 9), (64, 65)])
def test_rectangular_costs(k, l):
    rng = np.random.default_rng([k, l])
    A, B = rng.dirichlet(np.ones(k), 2), rng.dirichlet(np.full(l, 0.2), 2)
    cost, pairs = rng.random((k, l)), CrossPairs(2, 2)
    for ratio in (10.0, 500.0):
        how = settings(cost, ratio)
        assert_same(on_gpu(A, B, cost, pairs, how), on_cpu(A, B, cost, pairs, how), cost)


def test_regularized_values():
    rng = np.random.default_rng(0)
    A, B, cost, pairs = rng.dirichlet(np.ones(9), 3), rng.dirichlet(np.ones(7), 2), rng.random((9, 7)), CrossPairs(3, 2)
    for ratio in (0.5, 300.0):
        for tol, max_iter in ((1e-9, 1000), (None, 7)):
            how = settings(cost, ratio, tol, max_iter, regularized=True)
            assert_same(on_gpu(A, B, cost, pairs, how), on_cpu(A, B, cost, pairs, how), cost)


def test_too_few_iterations_are_said():
    rng = np.random.default_rng(0)
    histograms, cost, pairs = rng.dirichlet(np.ones(20), 4), plane(rng, 20), AllPairs(4)
    for max_iter in (1, 2, 5, 9):
        how = settings(cost, 1e3, max_iter=max_iter)
        found = on_gpu(histograms, None, cost, pairs, how)
        assert_same(found, on_cpu(histograms, None, cost, pairs, how), cost)
        np.testing.assert_array_equal(found.status, Status.MAX_ITER)
        np.testing.assert_array_equal(found.n_iter, max_iter)


# ------------------------------------------------------------------------------------------- references


@pytest.mark.parametrize("ratio", [1.0, 100.0, 1e4])
def test_values_agree_with_a_long_double_reference(ratio):
    rng = np.random.default_rng(3)
    histograms, cost = histograms_of_every_kind(20, rng), plane(rng, 20)
    pairs = listed_pairs(rng, len(histograms), 12)
    how = settings(cost, ratio)
    rows, columns = pairs.indices(0, len(pairs))
    transport, _, error = entropic_values(histograms[rows], histograms[columns], cost, how.reg)
    settled = error < 5e-13
    assert settled.mean() > 0.8
    found = on_gpu(histograms, None, cost, pairs, how)
    np.testing.assert_allclose(found.values[settled], transport[settled], rtol=1e-8, atol=1e-12 * cost.max())
    np.testing.assert_array_equal(found.status[settled], Status.CONVERGED)


@pytest.mark.parametrize("start_at_target", [False, True])
@pytest.mark.parametrize("ratio", [0.1, 20.0, 2e3])
def test_fixed_iterations_are_the_textbooks(ratio, start_at_target):
    rng = np.random.default_rng(4)
    A, B = rng.dirichlet(np.ones(19), 3), rng.dirichlet(np.ones(11), 3)
    A[0, :9] = B[1, 3:] = 0.0  # columns without mass count in the first update from V = 1, and only there
    A, B = (H / H.sum(axis=1, keepdims=True) for H in (A, B))
    cost, pairs = rng.random((19, 11)), CrossPairs(3, 3)
    rows, columns = pairs.indices(0, 9)
    for count in (1, 2, 20):
        how = settings(cost, ratio, None, count, start_at_target=start_at_target)
        found = on_gpu(A, B, cost, pairs, how)
        expected = sinkhorn_sweeps(A[rows], B[columns], cost, how.reg, count, start_at_target)
        np.testing.assert_allclose(found.values, expected, rtol=1e-9, atol=1e-12 * cost.max())
        assert_same(found, on_cpu(A, B, cost, pairs, how), cost)


# ------------------------------------------------------------------------------------------- the machine


@pytest.mark.parametrize("order", host.ORDERS[1:])
@pytest.mark.parametrize("where", SHARED_BYTES)
def test_neither_the_order_of_threads_nor_the_place_of_numbers_changes_a_bit(monkeypatch, where, order):
    rng = np.random.default_rng(5)
    histograms, cost, pairs = rng.dirichlet(np.full(20, 0.5), 3), plane(rng, 20), AllPairs(3)
    for how in (settings(cost, 400.0), settings(cost, 50.0, None, 5)):
        expected = on_gpu(histograms, None, cost, pairs, how)
        with monkeypatch.context() as patch:
            shared = dict(numpy_as_cupy.Device.attributes, MaxSharedMemoryPerBlockOptin=SHARED_BYTES[where])
            patch.setattr(numpy_as_cupy.Device, "attributes", shared)
            numpy_as_cupy.install(patch, order_seed=order)
            found = on_gpu(histograms, None, cost, pairs, how)
        for name in ANSWERS:
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_numbers_lie_where_there_is_room():
    for bytes_, places in zip(SHARED_BYTES.values(), ((True, True), (True, False), (False, False)), strict=True):
        plan = geometry(24, 24, bytes_, fixed=False)
        assert (plan.near_shared, plan.far_shared) == places
        assert plan.warps * 8 * plan.shared_size <= bytes_
    assert geometry(64, 64, 227 * 1024, fixed=True).far_shared
    assert geometry(512, 512, 227 * 1024, fixed=False).scratch_size == 512 * 512 + 256 * 520 + 20 * 512 + 512


def test_tiles_are_parts_of_the_whole():
    rng = np.random.default_rng(6)
    A, cost = rng.dirichlet(np.ones(6), 7), plane(rng, 6)
    how = settings(cost, 30.0)
    for pairs in (AllPairs(7), CrossPairs(7, 7), listed_pairs(rng, 7, 20)):
        whole = on_gpu(A, A, cost, pairs, how).values
        parts = [on_gpu(A, A, cost, pairs, how, start, stop).values for start, stop in ((0, 8), (8, 9), (9, 20))]
        np.testing.assert_array_equal(np.concatenate(parts), whole[:20])


def test_finishing_leaves_other_pairs_alone():
    rng = np.random.default_rng(7)
    histograms, cost, pairs = rng.dirichlet(np.ones(6), 30), plane(rng, 6), AllPairs(30)
    how = settings(cost, 30.0, max_iter=100)
    start, stop = 10, 400  # many more pairs than threads of a block
    whole = on_gpu(histograms, None, cost, pairs, how)
    is_open = rng.random(stop - start) < 0.1
    before = DeviceSolution(
        rng.random(stop - start),
        np.where(is_open, OPEN, rng.integers(0, 4, stop - start)).astype(np.int8),
        rng.integers(0, 90, stop - start).astype(np.int32),
        rng.random(stop - start),
    )
    after = DeviceSolution(*(getattr(before, name).copy() for name in ANSWERS))
    LogSinkhornCuda(histograms, None, cost, how).on(numpy_as_cupy.DEVICE).finish(pairs, start, stop, after)
    for name in ANSWERS:
        new, old, solved = (getattr(solution, name) for solution in (after, before, whole))
        expected = solved[start:stop] + (old if name == "n_iter" else 0)
        np.testing.assert_array_equal(new, np.where(is_open, expected, old).astype(new.dtype))


def test_finishing_counts_the_iterations_a_pair_has_had():
    rng = np.random.default_rng(8)
    histograms, cost, pairs = rng.dirichlet(np.ones(20), 2), plane(rng, 20), AllPairs(2)
    on_device = LogSinkhornCuda(histograms, None, cost, settings(cost, 1e3, max_iter=30)).on(numpy_as_cupy.DEVICE)
    for had, left in ((0, 30), (27, 3), (30, 0)):
        solution = DeviceSolution(np.zeros(1), np.int8([OPEN]), np.int32([had]), np.zeros(1))
        on_device.finish(pairs, 0, 1, solution)
        assert had <= solution.n_iter[0] <= had + left
        assert solution.status[0] == (Status.CONVERGED if left == 30 else Status.MAX_ITER)
        assert np.isfinite(solution.values[0])


def test_tiles_fit_in_memory_and_in_time():
    rng = np.random.default_rng(9)
    small = LogSinkhornCuda(rng.dirichlet(np.ones(8), 3), None, plane(rng, 8), settings(plane(rng, 8), 10.0))
    large = LogSinkhornCuda(rng.dirichlet(np.ones(300), 3), None, plane(rng, 300), settings(plane(rng, 8), 10.0))
    assert small.pairs_per_tile(10**6) * 41 <= 10**6
    assert 1 <= large.pairs_per_tile(10**9) < small.pairs_per_tile(10**9)
    assert small.pairs_per_tile(0) == 1
    assert small.info["solver"] == "Sinkhorn, log domain"


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_nvcc_compiles_it(tmp_path, architecture):
    text = tmp_path / "sinkhorn_log.cu"
    text.write_text(module.source("sinkhorn_log"), encoding="utf-8")
    defines = ["-DFIXED=0", "-DNEAR_SHARED=1", "-DFAR_SHARED=0", "-DWARPS=16"]
    command = ["nvcc", "-std=c++17", f"-arch={architecture}", *defines, "-ptx", "-o", str(tmp_path / "out"), str(text)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
