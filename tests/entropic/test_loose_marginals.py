"""Entropic transport whose marginals may be missed at a price (reg_m): NumPy and torch, kernel and log domain."""

from __future__ import annotations

import numpy as np
import ot
import pytest
from scipy.spatial.distance import cdist

import asot
from asot import Status
from asot.entropic import cpu
from asot.entropic.options import SinkhornOptions
from tests.oracles import unbalanced_values

RATIOS = (0.1, 10.0, 100.0, 400.0)
"""max C/ε; the kernel ends at 200."""

every_ratio = pytest.mark.parametrize("ratio", RATIOS)
every_price = pytest.mark.parametrize("price", [0.05, 1.0, 20.0])
"""reg_m / max C."""


@pytest.fixture(scope="module")
def problem():
    """Six histograms of totals from 0.01 to 50, with empty anchors, and distances of nine points."""
    rng = np.random.default_rng(2)
    points = rng.normal(size=(9, 2))
    A = rng.dirichlet(np.ones(9), 6)
    A[0, :5] = A[1, 3] = A[4, 6:] = 0.0
    return A * np.array([1.0, 1.0, 0.01, 50.0, 3.0, 0.5])[:, None], cdist(points, points)


def solved(A, cost, value="transport", **how):
    return asot.sinkhorn_many(A, cost=cost, value=value, max_iter=5000, device="cpu", **how)


@every_ratio
@every_price
def test_values_are_those_of_a_proven_plan(problem, ratio, price):
    A, cost = problem
    reg, reg_m = cost.max() / ratio, price * cost.max()
    if reg_m > 500 * reg:
        pytest.skip("plain sweeps of the reference would take too long")
    i, j = np.triu_indices(len(A), 1)
    transport, objective, gap = unbalanced_values(A[i], A[j], cost, reg, reg_m)
    assert np.abs(gap).max() < 1e-11 * np.abs(objective).max()
    for value, expected in (("transport", transport), ("regularized", objective)):
        found = solved(A, cost, value, reg=reg, reg_m=reg_m)
        np.testing.assert_array_equal(found.status, Status.CONVERGED)
        np.testing.assert_allclose(found.values, expected, rtol=1e-8, atol=1e-11 * np.abs(objective).max())


@every_ratio
def test_both_domains_and_torch_agree(problem, ratio, monkeypatch):
    torch = pytest.importorskip("torch")
    from asot.entropic import torch_solver

    A, cost = problem
    i, j = np.triu_indices(len(A), 1)
    tensors = [torch.tensor(array) for array in (A, cost, i, j)]
    for value in ("transport", "regularized"):
        options = SinkhornOptions(cost.max() / ratio, 5000, 1e-9, value, reg_m=0.7 * cost.max())
        found = [cpu.SinkhornSharedCost(A, None, cost, options).solve(i, j, np.zeros(1, np.int64))]
        found.append(torch_solver.SinkhornTorch(tensors[0], None, tensors[1], options).solve(*tensors[2:]))
        with monkeypatch.context() as patch:
            patch.setattr(cpu, "KERNEL_RANGE", -1.0)
            patch.setattr(torch_solver, "KERNEL_RANGE", dict.fromkeys(torch_solver.KERNEL_RANGE, -1.0))
            found.append(cpu.SinkhornSharedCost(A, None, cost, options).solve(i, j, np.zeros(1, np.int64)))
            found.append(torch_solver.SinkhornTorch(tensors[0], None, tensors[1], options).solve(*tensors[2:]))
        for other in found[1:]:
            scale = np.abs(found[0].values).max()
            np.testing.assert_allclose(np.asarray(other.values), found[0].values, rtol=1e-8, atol=1e-11 * scale)
            np.testing.assert_array_equal(np.asarray(other.status), Status.CONVERGED)


@pytest.mark.parametrize("reg", [0.2, 2.0])
@pytest.mark.parametrize("reg_m", [0.1, 3.0])
def test_pot_agrees(problem, reg, reg_m):
    A, cost = problem[0] + 1e-3, problem[1]
    found = solved(A, cost, reg=reg, reg_m=reg_m)
    for t, (i, j) in enumerate(found.pairs):
        T = ot.unbalanced.sinkhorn_unbalanced(A[i], A[j], cost, reg, reg_m, numItermax=20_000, stopThr=1e-14)
        np.testing.assert_allclose(found.values[t], (T * cost).sum(), rtol=1e-7)


def test_a_high_price_is_the_balanced_problem(problem):
    A, cost = problem[0] / problem[0].sum(axis=1, keepdims=True), problem[1]
    balanced = asot.sinkhorn_many(A, cost=cost, reg=0.3).values
    np.testing.assert_allclose(solved(A, cost, reg=0.3, reg_m=1e7).values, balanced, rtol=1e-5)


@every_ratio
def test_divergences_are_zero_between_equal_histograms_and_positive_else(problem, ratio):
    A, cost = problem
    A = np.concatenate([A, A[:1]])
    result = asot.sinkhorn_many(A, A, cost=cost, reg=cost.max() / ratio, reg_m=cost.max(), value="divergence")
    matrix, slack = result.matrix(), 1e-7 * cost.max() * A.sum(axis=1).max()
    np.testing.assert_allclose(np.diagonal(matrix), 0.0, atol=slack)
    np.testing.assert_allclose(matrix[0, 6], 0.0, atol=slack)
    assert matrix.min() > -slack
    assert matrix[0, 3] > 0.1


def test_the_divergence_is_the_papers(problem):
    A, cost = problem
    how = {"reg": 0.4, "reg_m": 1.5}
    i, j = np.triu_indices(len(A), 1)
    whole, own = (unbalanced_values(A[x], A[y], cost, 0.4, 1.5)[1] for x, y in ((i, j), (np.arange(6),) * 2))
    mass = A.sum(axis=1)
    expected = whole - (own[i] + own[j]) / 2 + 0.2 * (mass[i] - mass[j]) ** 2
    np.testing.assert_allclose(solved(A, cost, "divergence", **how).values, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("value", ["regularized", "divergence"])
@pytest.mark.parametrize("reg", [0.5, 0.02])
def test_gradients_are_those_of_finite_differences(value, reg):
    torch = pytest.importorskip("torch")
    from asot import gradients

    rng = np.random.default_rng(1)
    A = torch.tensor(rng.random((3, 5)) * np.array([1.0, 2.0, 0.3])[:, None], requires_grad=True)
    points = torch.tensor(rng.normal(size=(5, 2)), requires_grad=True)

    def total(A, points):
        cost = (points[:, None] - points).square().sum(2)
        return gradients.sinkhorn_many(A, cost=cost, reg=reg, reg_m=0.8, value=value, tol=1e-12).sum()

    assert torch.autograd.gradcheck(total, (A, points), eps=1e-6, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"reg_m": 0.0}, "reg_m must be None"),
        ({"reg_m": "big"}, "reg_m must be None"),
        ({"reg_m": np.inf}, "reg_m must be None"),
        ({"reg_m": 1.0, "tol": None}, "reg_m needs a tolerance"),
    ],
)
def test_options_that_are_none(problem, how, message):
    with pytest.raises(ValueError, match=message):
        asot.sinkhorn_many(problem[0], cost=problem[1], reg=0.1, **how)


def test_gradients_of_transport_costs_are_refused(problem):
    torch = pytest.importorskip("torch")
    from asot import gradients

    A, cost = (torch.tensor(array) for array in problem)
    for how in ({"value": "transport"}, {"gradient": "iterations"}):
        with pytest.raises(ValueError, match="with reg_m, gradients are those of the objective"):
            gradients.sinkhorn_many(A, cost=cost, reg=0.1, reg_m=1.0, **how)
