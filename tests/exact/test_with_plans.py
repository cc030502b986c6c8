"""Plans and potentials of many pairs: marginals, feasibility and duality, on the CPU and through the GPU's kernels."""

from __future__ import annotations

import numpy as np
import pytest

import asot
from tests.simt import host, numpy_as_cupy
from tests.strategies import METRICS, problem


def check(r, A, B, cost):
    """Every plan has its marginals, its cost is the value, and the potentials prove it optimal."""
    scale = cost.max() or 1.0
    assert len(r.plans) == len(r.values)
    for t, (i, j) in enumerate(r.pairs):
        value, plan, (f, g) = r.plans[t]
        assert value == r.values[t]
        assert np.abs(plan.sum(axis=1) - A[i]).max() <= 1e-12
        assert np.abs(plan.sum(axis=0) - B[j]).max() <= 1e-12
        assert plan.data.min() > 0
        assert plan.multiply(cost).sum() == pytest.approx(value, rel=1e-12, abs=1e-12 * scale)
        assert (f[:, None] + g <= cost + 1e-12 * scale).all()
        assert f @ A[i] + g @ B[j] == pytest.approx(value, rel=1e-11, abs=1e-11 * scale)


@pytest.fixture(params=["cpu", "cuda"])
def device(request, monkeypatch):
    if request.param == "cuda":
        if host.COMPILER is None:
            pytest.skip("g++ is not installed, and kernels are compiled with it")
        numpy_as_cupy.install(monkeypatch)
    return request.param


def drawn(k, n, seed=0):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(k, 2))
    histograms = rng.dirichlet(np.full(k, 0.5), n)
    histograms[0] = np.eye(k)[0]
    histograms[1] = histograms[2]
    cost = np.linalg.norm(points[:, None] - points, axis=2)
    return histograms, (cost + cost.T) / 2


@pytest.mark.parametrize("k", [3, 12, 40])
def test_metric_costs(device, k):
    A, cost = drawn(k, 6)
    r = asot.emd_many(A, cost=cost, device=device, plans=True)
    check(r, A, A, cost)
    assert np.abs(r.values - asot.emd_many(A, cost=cost, device="cpu").values).max() <= 1e-13 * cost.max()


def test_rectangular_costs(device):
    rng = np.random.default_rng(1)
    A, B, cost = rng.dirichlet(np.ones(4), 3), rng.dirichlet(np.ones(7), 5), rng.random((4, 7))
    check(asot.emd_many(A, B, cost=cost, device=device, plans=True), A, B, cost)


def test_listed_pairs(device):
    A, cost = drawn(5, 6)
    r = asot.emd_many(A, cost=cost, pairs=[(0, 3), (2, 2), (1, 4)], device=device, plans=True)
    check(r, A, A, cost)
    assert r.values[1] == 0.0


@pytest.mark.parametrize("metric", METRICS)
def test_hard_problems_on_the_cpu(metric):
    p = problem(metric, 8)
    check(asot.emd_many(p.histograms, cost=p.cost, plans=True), p.histograms, p.histograms, p.cost)


def test_threads_and_tiles_change_nothing():
    A, cost = drawn(9, 30)
    whole = asot.emd_many(A, cost=cost, plans=True).plans
    tiled = asot.emd_many(A, cost=cost, plans=True, n_jobs=2, memory=20_000).plans
    assert all(np.array_equal(getattr(whole, name), getattr(tiled, name)) for name in ("source", "mass", "start", "f"))


def test_no_pairs():
    assert len(asot.emd_many(np.eye(1), cost=[[0.0]], plans=True).plans) == 0


def test_an_index_beyond_the_pairs():
    plans = asot.emd_many(np.eye(3), cost=1.0 - np.eye(3), plans=True).plans
    assert plans[-1].value == 1.0
    with pytest.raises(IndexError):
        plans[3]


def test_plans_want_the_default_sink():
    with pytest.raises(ValueError, match="plans=True only works with the default sink"):
        asot.emd_many(np.eye(3), cost=1.0 - np.eye(3), plans=True, sink=asot.sinks.Dense())
