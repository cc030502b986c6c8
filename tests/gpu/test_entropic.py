"""Entropic distances of a GPU are those of the CPU to the accuracy of their arithmetic, for every ε."""

from __future__ import annotations

import numpy as np
import pytest

import asot
from asot.run.protocols import Status
from tests.gpu.problems import cost_of, histograms

ACCURACY = {"float32": 1e-5, "tf32": 1e-2, "float64": 1e-9}
"""Of values; small ones have a thousandth of it, of the largest cost, beside (in TF32: a tenth)."""


def both(A, B=None, *, precision="auto", **options):
    gpu = asot.sinkhorn_many(A, B, device="cuda:0", precision=precision, **options)
    cpu = asot.sinkhorn_many(A, B, device="cpu", n_jobs=-1, **options)
    assert gpu.info["device"] == "cuda:0"
    return gpu, cpu


def check_agreement(gpu, cpu, cost, relative):
    assert np.isfinite(gpu.values).all()
    error = np.abs(gpu.values - cpu.values)
    small = (0.1 if relative > 1e-3 else 1e-3) * relative * cost.max() + 1e-12 * cost.max()
    assert (error <= relative * np.abs(cpu.values) + small).all()


@pytest.mark.parametrize("precision", ["float32", "tf32", "float64"])
@pytest.mark.parametrize("k", [1, 2, 5, 16, 17, 23, 30, 40, 64, 90, 100, 128, 150, 256])
def test_fifty_iterations(k, precision):
    rng = np.random.default_rng(k)
    A, cost = histograms(k, 60, rng), cost_of("clustered", k, rng)
    for init in ("ones", "target"):
        how = {"cost": cost, "reg": 0.1 * (cost.max() or 1.0), "max_iter": 50, "tol": None, "init": init}
        gpu, cpu = both(A, precision=precision, **how)
        check_agreement(gpu, cpu, cost, ACCURACY[precision])
        assert (gpu.status == Status.FIXED_ITERATIONS).all()
        assert (gpu.n_iter == 50).all()
        assert gpu.info["precision"] == precision


@pytest.mark.parametrize("ratio", [1e-2, 1.0, 30.0, 1e2, 1e3, 1e4])
@pytest.mark.parametrize("k", [5, 23, 60])
def test_every_epsilon_to_convergence(k, ratio):
    rng = np.random.default_rng(k)
    A, cost = histograms(k, 16, rng), cost_of("clustered", k, rng)
    gpu, cpu = both(A, cost=cost, reg=cost.max() / ratio, tol=1e-9)
    check_agreement(gpu, cpu, cost, 1e-8)
    assert (gpu.status[cpu.status == Status.CONVERGED] == Status.CONVERGED).all()
    assert gpu.info["precision"] == "float64"


@pytest.mark.parametrize("ratio", [1e-2, 1.0, 30.0, 1e2, 1e3, 1e4])
def test_every_epsilon_with_fixed_iterations(ratio):
    rng = np.random.default_rng(0)
    A, cost = histograms(23, 40, rng), cost_of("clustered", 23, rng)
    check_agreement(*both(A, cost=cost, reg=cost.max() / ratio, max_iter=50, tol=None), cost, 1e-5)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_badly_scaled_costs(scale):
    rng = np.random.default_rng(0)
    A, cost = histograms(23, 20, rng), scale * cost_of("clustered", 23, rng)
    check_agreement(*both(A, cost=cost, reg=0.05 * cost.max(), tol=1e-4), cost, 2e-4)


def test_convergence_in_float32():
    rng = np.random.default_rng(0)
    A, cost = histograms(30, 100, rng), cost_of("clustered", 30, rng)
    gpu, cpu = both(A, cost=cost, reg=0.1 * cost.max(), tol=1e-4)
    check_agreement(gpu, cpu, cost, 2e-4)
    assert gpu.info["precision"] == "float32"
    assert (gpu.status == Status.CONVERGED).all()


def test_pairs_that_hit_the_limit_say_so():
    rng = np.random.default_rng(0)
    A, cost = histograms(23, 30, rng), cost_of("clustered", 23, rng)
    how = {"cost": cost, "reg": 0.01 * cost.max()}
    converged = asot.sinkhorn_many(A, **how).values
    for few in both(
        A, max_iter=3, **how
    ):  # solvers get there by different ways, so they need not stop at the same pairs
        stopped = few.status == Status.MAX_ITER
        assert 0 < few.info["n_not_converged"] == stopped.sum() < len(stopped)
        assert (few.status[~stopped] == Status.CONVERGED).all()
        np.testing.assert_allclose(few.values[~stopped], converged[~stopped], atol=1e-8 * cost.max())
        assert np.abs(few.values - converged)[stopped].max() > 1e-3 * cost.max()


def test_two_sets_lists_and_rectangular_costs():
    rng = np.random.default_rng(0)
    A, B, cost = histograms(20, 30, rng), histograms(37, 25, rng), rng.random((20, 37))
    how = {"cost": cost, "reg": 0.1, "max_iter": 50, "tol": None}
    check_agreement(*both(A, B, **how), cost, 1e-5)
    check_agreement(*both(A, B, pairs=rng.integers(0, 25, size=(300, 2)), **how), cost, 1e-5)


@pytest.mark.parametrize("value", ["regularized", "divergence"])
def test_other_values(value):
    rng = np.random.default_rng(0)
    A, cost = histograms(23, 30, rng), cost_of("clustered", 23, rng)
    check_agreement(*both(A, cost=cost, reg=0.05 * cost.max(), value=value), cost, 1e-8)


def test_an_accuracy_that_float32_does_not_have():
    with pytest.raises(ValueError, match="cannot be met in float32; use precision='float64'"):
        asot.sinkhorn_many(np.eye(3), cost=1.0 - np.eye(3), reg=0.1, tol=1e-9, precision="float32", device="cuda")
