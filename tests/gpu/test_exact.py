"""Exact distances of a GPU are those of the CPU, for every size and every kind of trouble."""

from __future__ import annotations

import numpy as np
import pytest

import asot
from tests.gpu.problems import cost_of, histograms, problems

SIZES = (1, 2, 3, 5, 12, 23, 30, 32, 33, 47, 60, 64, 65, 100, 150, 200, 256, 400, 512)


def check_agreement(gpu, cpu, cost):
    assert gpu.info["device"] == "cuda:0"
    assert (gpu.status == asot.Status.OPTIMAL).all()
    scale = cost.max() or 1.0
    assert np.abs(gpu.values / scale - cpu.values / scale).max() <= 1e-12


def both(A, B=None, **options):
    return (asot.emd_many(A, B, device=device, n_jobs=-1, **options) for device in ("cuda:0", "cpu"))


@pytest.mark.parametrize("k", SIZES)
def test_all_pairs(k):
    for _, A, cost in problems(k, 60 if k <= 64 else 20 if k <= 256 else 40):
        check_agreement(*both(A, cost=cost), cost)


@pytest.mark.parametrize("k", [4, 30, 60, 100])
def test_two_sets_and_lists(k):
    rng = np.random.default_rng(k)
    A, B, cost = histograms(k, 40, rng), histograms(k, 33, rng), cost_of("clustered", k, rng)
    check_agreement(*both(A, B, cost=cost), cost)
    check_agreement(*both(A, cost=cost, pairs=rng.integers(0, 40, size=(500, 2))), cost)
    check_agreement(*both(A, B, cost=cost, pairs=rng.integers(0, 33, size=(500, 2))), cost)


@pytest.mark.parametrize(("k", "l"), [(1, 5), (7, 7), (16, 16), (20, 40), (60, 70), (200, 250)])
def test_costs_that_are_not_metrics(k, l):
    rng = np.random.default_rng(k)
    for cost in (rng.random((k, l)), rng.integers(0, 4, size=(k, l)).astype(float), rng.random((k, l)) ** 3):
        check_agreement(*both(histograms(k, 20, rng), histograms(l, 25, rng), cost=cost), cost)


def test_squared_distances_within_one_set():
    rng = np.random.default_rng(0)
    A, cost = histograms(23, 50, rng), cost_of("clustered", 23, rng) ** 2
    check_agreement(*both(A, cost=cost), cost)


@pytest.mark.parametrize("k", [23, 60, 100])
def test_the_result_does_not_depend_on_tiles_or_on_the_run(k):
    rng = np.random.default_rng(k)
    A, cost = histograms(k, 300, rng), cost_of("clustered", k, rng)
    first = asot.emd_many(A, cost=cost, device="cuda")
    for memory in (None, 10**6):
        again = asot.emd_many(A, cost=cost, device="cuda", memory=memory)
        assert np.array_equal(first.values, again.values)
        assert np.array_equal(first.n_iter, again.n_iter)


def test_equal_histograms_are_at_distance_zero():
    A = np.repeat(histograms(23, 5, np.random.default_rng(0)), 2, axis=0)
    matrix = asot.emd_many(A, cost=cost_of("clustered", 23, np.random.default_rng(1)), device="cuda").matrix()
    assert (matrix[::2, 1::2].diagonal() == 0.0).all()


@pytest.mark.parametrize("k", [5, 30, 60, 100])
def test_plans_and_potentials(k):
    rng = np.random.default_rng(k)
    A, cost = histograms(k, 12, rng), cost_of("clustered", k, rng)
    check_plans(asot.emd_many(A, cost=cost, device="cuda", plans=True), A, A, cost)
    B, rectangular = histograms(k + 2, 9, rng), rng.random((k, k + 2))
    check_plans(asot.emd_many(A, B, cost=rectangular, device="cuda", plans=True), A, B, rectangular)


def check_plans(r, A, B, cost):
    for t, (i, j) in enumerate(r.pairs):
        value, plan, (f, g) = r.plans[t]
        assert value == pytest.approx(r.values[t], rel=1e-12, abs=1e-14)
        assert np.abs(plan.sum(axis=1) - A[i]).max() <= 1e-12
        assert np.abs(plan.sum(axis=0) - B[j]).max() <= 1e-12
        assert (f[:, None] + g <= cost + 1e-12 * cost.max()).all()
        assert f @ A[i] + g @ B[j] == pytest.approx(value, rel=1e-10, abs=1e-12 * cost.max())
        assert plan.multiply(cost).sum() == pytest.approx(value, rel=1e-10, abs=1e-12 * cost.max())
