"""The torch solver: against the CPU solver, iteration by iteration and at convergence, in both dtypes and domains."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from asot.entropic.cpu import SinkhornSharedCost
from asot.entropic.options import SinkhornOptions
from asot.run.protocols import Status
from tests.oracles import entropic_values, sinkhorn_sweeps
from tests.strategies import METRICS, histograms_of_every_kind, metric_cost

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("one_thread_of_torch")

from asot.entropic.torch_solver import KERNEL_RANGE, SinkhornTorch, solve_laplacians  # noqa: E402

RANGES = (1e-2, 1.0, 30.0, 100.0, 300.0, 1e3, 1e4)
"""max C/ε; the kernel ends at 40 in float32 and at 200 in float64."""

every_range = pytest.mark.parametrize("largest", RANGES)
both_values = pytest.mark.parametrize("regularized", [False, True])


def drawn(k=13, l=None, pairs=40, seed=0, metric="plane"):
    """Histograms of every kind, a cost with largest entry 1, and pairs of rows."""
    rng = np.random.default_rng(seed)
    A = histograms_of_every_kind(k, rng)
    B = A if l is None else histograms_of_every_kind(l, rng)
    cost = metric_cost(metric, k, rng) if l is None else cdist(rng.normal(size=(k, 2)), rng.normal(size=(l, 2)))
    rows, columns = rng.integers(0, len(A), size=(2, pairs))
    return A, B, cost / cost.max(), rows, columns


def settings(reg, max_iter=1000, tol=1e-9, regularized=False, start_at_target=False):
    value, init = "regularized" if regularized else "transport", "target" if start_at_target else "ones"
    return {"options": SinkhornOptions(reg, max_iter, tol, value, init)}


def solved(A, B, cost, rows, columns, dtype=torch.float64, **how):
    tensors = (torch.tensor(array, dtype=dtype) for array in (A, B, cost))
    return SinkhornTorch(*tensors, **how).solve(torch.tensor(rows), torch.tensor(columns))


def reference(A, B, cost, rows, columns, **how):
    return SinkhornSharedCost(A, B, cost, **how).solve(rows, columns, np.zeros(1, dtype=np.int64))


def plans(solution, a, b, cost, reg):
    """T_ij = a_i b_j exp(c_i + d_j - C_ij/ε), with 0 where there is no mass."""
    exponents = solution.c.numpy()[:, :, None] + solution.d.numpy()[:, None, :] - cost / reg
    with np.errstate(divide="ignore"):
        return np.exp(exponents + np.log(a)[:, :, None] + np.log(b)[:, None, :])


def assert_close(found, expected, reg, regularized, rtol):
    """⟨T, C⟩ and ε H(T) may cancel: their accuracy is of their own sizes."""
    slack = rtol * (reg if regularized else 0.0) + 1e-12
    np.testing.assert_allclose(found.values.numpy(), expected.values, rtol=rtol, atol=slack)


# ----------------------------------------------------------------------------------------------- equal iterations


@both_values
@pytest.mark.parametrize("start_at_target", [False, True])
@every_range
def test_equal_iterations_give_equal_values(largest, start_at_target, regularized):
    problem = drawn()
    for count in (1, 7):
        how = settings(1.0 / largest, count, None, regularized, start_at_target)
        found, expected = solved(*problem, **how), reference(*problem, **how)
        assert_close(found, expected, 1.0 / largest, regularized, rtol=1e-12)
        np.testing.assert_allclose(found.marginal_error.numpy(), expected.marginal_error, atol=1e-12)
        assert (found.status == int(Status.FIXED_ITERATIONS)).all()
        assert (found.n_iter == count).all()


@pytest.mark.parametrize("largest", [10.0, 1e3])
def test_iterations_are_the_textbooks(largest):
    A, B, cost, rows, columns = drawn(9, 6)
    found = solved(A, B, cost, rows, columns, **settings(1.0 / largest, 5, None))
    expected = sinkhorn_sweeps(A[rows], B[columns], cost, 1.0 / largest, 5)
    np.testing.assert_allclose(found.values.numpy(), expected, rtol=1e-11, atol=1e-13)


# -------------------------------------------------------------------------------------------------------- convergence


@both_values
@every_range
def test_converged_values_agree_with_the_cpu(largest, regularized):
    problem = drawn()
    how = settings(1.0 / largest, regularized=regularized)
    found, expected = solved(*problem, **how), reference(*problem, **how)
    assert (found.status == int(Status.CONVERGED)).all()
    assert_close(found, expected, 1.0 / largest, regularized, rtol=1e-8)
    assert found.marginal_error.max() < 1e-9
    if largest <= 10.0:
        np.testing.assert_array_equal(found.n_iter.numpy(), expected.n_iter)


@pytest.mark.parametrize("metric", METRICS)
def test_hard_problems_agree_with_a_long_double_reference(metric):
    A, B, cost, rows, columns = drawn(8, metric=metric, pairs=30)
    for reg in (1e-3, 1e-2, 0.3):
        found = solved(A, B, cost, rows, columns, **settings(reg))
        expected, _, error = entropic_values(A[rows], B[columns], cost, reg)
        settled = error < 5e-13
        assert settled.mean() > 0.8
        np.testing.assert_allclose(found.values.numpy()[settled], expected[settled], rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("largest", [10.0, 1e3])
def test_potentials_make_the_plan(largest, dtype):
    A, B, cost, rows, columns = drawn(9, 6)
    reg = 1.0 / largest
    found = solved(A, B, cost, rows, columns, dtype, **settings(reg))
    cost = torch.tensor(cost, dtype=dtype).double().numpy()
    a, b = (torch.tensor(H, dtype=dtype).double().numpy() for H in (A[rows], B[columns]))
    T = plans(found, a, b, cost, reg)
    slack = 1e-9 if dtype is torch.float64 else 2e-5
    assert np.abs(T.sum(axis=2) - a).sum(axis=1).max() < slack
    assert np.abs(T.sum(axis=1) - b).sum(axis=1).max() < slack
    np.testing.assert_allclose((T * cost).sum((1, 2)), found.values.numpy(), rtol=slack, atol=slack)
    # Potentials go on where there is no mass: c_i = -log Σ_j b_j exp(d_j - C_ij/ε).
    exponents = found.d.double().numpy()[:, None, :] - cost / reg
    top = np.where(b[:, None, :] > 0, exponents, -np.inf).max(axis=2, keepdims=True)
    lifted = np.where(b[:, None, :] > 0, exponents - top, 0.0)
    c = -(top[:, :, 0] + np.log((b[:, None, :] * np.exp(lifted)).sum(axis=2)))
    empty = a == 0
    np.testing.assert_allclose(found.c.double().numpy()[empty], c[empty], atol=1e4 * slack)


@every_range
def test_float32_is_as_good_as_its_digits(largest):
    problem = drawn()
    for tol, max_iter in ((None, 7), (1e-9, 1000)):
        how = settings(1.0 / largest, max_iter, tol)
        found, expected = solved(*problem, torch.float32, **how), reference(*problem, **how)
        assert found.values.dtype == torch.float32
        np.testing.assert_allclose(found.values.double().numpy(), expected.values, rtol=1e-4, atol=1e-5)
        assert (found.status == int(Status.FIXED_ITERATIONS if tol is None else Status.CONVERGED)).all()


# ------------------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize("largest", [30.0, 1e4])
def test_tiles_change_nothing(largest):
    A, B, cost, rows, columns = drawn()
    how = settings(1.0 / largest, regularized=True)
    tensors = [torch.tensor(array) for array in (A, B, cost)]
    indices = torch.tensor(rows), torch.tensor(columns)
    whole = SinkhornTorch(*tensors, **how).solve(*indices)
    cut = SinkhornTorch(*tensors, **how, scratch=60_000).solve(*indices)
    torch.testing.assert_close(cut.values, whole.values, rtol=1e-9, atol=1e-12)
    assert (cut.status == whole.status).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("largest", [30.0, 1e3, 1e4])
def test_what_does_not_converge_says_so_and_is_finite(largest, dtype):
    problem = drawn()
    found = solved(*problem, dtype, **settings(1.0 / largest, max_iter=3))
    unfinished = found.status == int(Status.MAX_ITER)
    assert unfinished.any()
    assert (found.n_iter <= 3).all()
    assert (found.marginal_error[unfinished] > 1e-13).all()
    assert (found.marginal_error[~unfinished] < 1e-4).all()
    for array in (found.values, found.marginal_error, found.c, found.d):
        assert torch.isfinite(array).all()


def test_pairs_that_leave_the_range_of_a_kernel_are_solved_again():
    largest = 0.99 * KERNEL_RANGE[torch.float64]
    cost = np.array([[0.0, 1.0], [1.0, 0.0]])
    A = np.array([[1.0, 1e-200], [1e-200, 1.0], [0.5, 0.5], [1.0, 0.0]])
    rows, columns = np.argwhere(np.ones((4, 4))).T
    how = settings(1.0 / largest)
    found, expected = solved(A, A, cost, rows, columns, **how), reference(A, A, cost, rows, columns, **how)
    np.testing.assert_allclose(found.values.numpy(), expected.values, rtol=1e-8, atol=1e-12)


def test_no_pairs():
    A, B, cost, _, _ = drawn(3)
    nothing = np.empty(0, dtype=np.int64)
    assert solved(A, B, cost, nothing, nothing, **settings(0.1)).values.shape == (0,)


def test_one_anchor():
    one, pair = np.ones((1, 1)), np.zeros(1, dtype=np.int64)
    found = solved(one, one, 0.0 * one, pair, pair, **settings(0.5, regularized=True))
    assert found.values.item() == pytest.approx(-0.5)  # T = 1: -ε H(T) = ε (log 1 - 1)


@pytest.mark.parametrize("k", [1, 5, 16, 17, 40])
def test_laplacian_systems(k):
    rng = np.random.default_rng(k)
    W = rng.random((3, k, k))
    W = W + W.transpose(0, 2, 1)
    ground, residual = rng.random((2, 3, k))
    L = -W * (1 - np.eye(k))
    L += np.eye(k) * (ground - L.sum(axis=2))[:, :, None]
    expected = np.linalg.solve(L, residual[:, :, None])[:, :, 0]
    found = solve_laplacians(*(torch.tensor(array) for array in (W, ground, residual)))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10)
