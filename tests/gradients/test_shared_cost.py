"""Gradients: against finite differences of the torch functions and of the CPU solvers, and against each other."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import asot
from asot import gradients

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("one_thread_of_torch")

VALUES = ("transport", "regularized", "divergence")
every_value = pytest.mark.parametrize("value", VALUES)
every_reg = pytest.mark.parametrize("reg", [1.0, 0.03, 1e-3])
"""ε; costs are about 3, so these are the kernel, the kernel with slow pairs, and the log domain."""


def normal(*shape, seed=0, dtype=torch.float64, grad=True):
    rng = np.random.default_rng([seed, *shape])
    return torch.tensor(rng.normal(size=shape), dtype=dtype, requires_grad=grad)


def distances(points, other=None):
    return torch.cdist(points, points if other is None else other, compute_mode="donot_use_mm_for_euclid_dist")


def sparse_histograms(n, k, seed=0, **like):
    """Rows with many empty anchors, one of them with a single one that is not."""
    rng = np.random.default_rng(seed)
    rows = np.where(rng.random((n, k)) < 0.5, rng.random((n, k)), 0.0)
    rows[:, 0] = 0.1
    rows[0] = np.eye(k)[1]
    return torch.tensor(rows, requires_grad=True, **({"dtype": torch.float64} | like))


def slopes(function, array, step=1e-6):
    """Central differences of a function of a NumPy array."""
    gradient = np.zeros_like(array)
    for index in np.ndindex(array.shape):
        change = np.zeros_like(array)
        change[index] = step
        gradient[index] = (function(array + change) - function(array - change)) / (2 * step)
    return gradient


# --------------------------------------------------------------------------------------------------------- gradcheck


@every_reg
@every_value
def test_gradients_in_histograms_and_points(value, reg):
    def values(logits, points):
        return gradients.sinkhorn_many(
            torch.softmax(logits, 1), cost=distances(points), reg=reg, value=value, tol=1e-12
        )

    assert torch.autograd.gradcheck(values, (normal(2, 4), normal(4, 2)), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("reg", [0.3, 0.01])
@pytest.mark.parametrize("value", ["transport", "regularized"])
def test_gradients_in_two_sets_and_their_cost(value, reg):
    def values(A, B, cost):
        return gradients.sinkhorn_many(A, B, cost=cost, reg=reg, value=value, tol=1e-12)

    inputs = normal(2, 3).exp(), normal(1, 4).exp(), 0.5 + normal(3, 4) ** 2
    inputs = [tensor.detach().requires_grad_() for tensor in inputs]
    assert torch.autograd.gradcheck(values, inputs, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("reg", [1.0, 0.02])
@every_value
def test_gradients_through_few_iterations(value, reg):
    def values(logits, points):
        how = {"reg": reg, "value": value, "max_iter": 4, "tol": None, "gradient": "iterations"}
        return gradients.sinkhorn_many(torch.softmax(logits, 1), cost=distances(points), **how)

    assert torch.autograd.gradcheck(values, (normal(2, 4), normal(4, 2)), atol=2e-5, rtol=1e-4)


def test_exact_gradients():
    def within(logits, points):
        return gradients.emd_many(torch.softmax(logits, 1), cost=distances(points))

    def between(A, B, cost):
        return gradients.emd_many(A, B, cost=cost)

    assert torch.autograd.gradcheck(within, (normal(4, 6), normal(6, 2)))
    inputs = [x.detach().requires_grad_() for x in (normal(2, 3).exp(), normal(3, 5).exp(), 0.5 + normal(3, 5) ** 2)]
    assert torch.autograd.gradcheck(between, inputs)


# --------------------------------------------------------------------------------------------- against the CPU solvers


@every_reg
@every_value
def test_values_and_gradients_are_those_of_sinkhorn_many(value, reg):
    rng = np.random.default_rng(1)
    A, points = rng.dirichlet(np.ones(5), 4), rng.normal(size=(5, 2))
    weights = rng.normal(size=6)

    def total(A, points):
        r = asot.sinkhorn_many(A, cost=cdist(points, points), reg=reg, value=value, tol=1e-12, device="cpu")
        return float(weights @ r.values)

    a, p = (torch.tensor(array, requires_grad=True) for array in (A, points))
    out = gradients.sinkhorn_many(a, cost=distances(p), reg=reg, value=value, tol=1e-12)
    (out @ torch.tensor(weights)).backward()
    assert float(out.detach() @ torch.tensor(weights)) == pytest.approx(total(A, points), rel=1e-9)
    np.testing.assert_allclose(a.grad, slopes(lambda A: total(A, points), A), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(p.grad, slopes(lambda points: total(A, points), points), rtol=1e-4, atol=1e-5)


def test_without_a_value_both_return_the_same():
    rng = np.random.default_rng(1)
    A, points = rng.dirichlet(np.ones(5), 4), rng.normal(size=(5, 2))
    plain = asot.sinkhorn_many(A, cost=cdist(points, points), reg=0.3, tol=1e-12, device="cpu").values
    found = gradients.sinkhorn_many(torch.tensor(A), cost=distances(torch.tensor(points)), reg=0.3, tol=1e-12)
    np.testing.assert_allclose(found, plain, rtol=1e-9)


def test_values_and_gradients_are_those_of_emd_many():
    rng = np.random.default_rng(1)
    A, points, weights = rng.dirichlet(np.ones(5), 4), rng.normal(size=(5, 2)), rng.normal(size=6)

    def total(A, points):
        return float(weights @ asot.emd_many(A, cost=cdist(points, points), device="cpu").values)

    a, p = (torch.tensor(array, requires_grad=True) for array in (A, points))
    (gradients.emd_many(a, cost=distances(p), n_jobs=2) @ torch.tensor(weights)).backward()
    np.testing.assert_allclose(a.grad, slopes(lambda A: total(A, points), A), atol=1e-6)
    np.testing.assert_allclose(p.grad, slopes(lambda points: total(A, points), points), atol=1e-6)


# ----------------------------------------------------------------------------------------------------- the two roads


def gradients_of(histograms, cost, **how):
    leaves = [tensor.detach().clone().requires_grad_() for tensor in (histograms, cost)]
    out = gradients.sinkhorn_many(leaves[0], cost=leaves[1], **how)
    (out * torch.linspace(1.0, 2.0, len(out), dtype=out.dtype)).sum().backward()
    return out.detach(), *(leaf.grad for leaf in leaves)


@pytest.mark.parametrize(
    ("value", "reg"),
    [("transport", 3.0), ("transport", 0.1), ("regularized", 0.1), ("regularized", 0.03), ("divergence", 1.0)],
)
def test_both_gradients_agree_at_convergence(value, reg):
    histograms, cost = torch.softmax(normal(4, 6), 1), distances(normal(6, 2))
    how = {"reg": reg, "value": value, "tol": 1e-11, "max_iter": 3000}
    solved = gradients_of(histograms, cost, **how)
    recorded = gradients_of(histograms, cost, **how, gradient="iterations")
    for found, expected in zip(solved, recorded, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("value", "reg"), [("transport", 1.0), ("transport", 0.03), ("divergence", 1.0)])
def test_gradients_at_empty_anchors_are_one_sided_derivatives(value, reg):
    cost, empty = distances(normal(6, 2)).detach(), sparse_histograms(3, 6)
    _, in_histograms, _ = gradients_of(empty, cost, reg=reg, value=value, tol=1e-12)
    weights = np.linspace(1.0, 2.0, 3)

    def total(rows):
        return weights @ asot.sinkhorn_many(rows, cost=cost, reg=reg, value=value, tol=1e-12, device="cpu").values

    rows, step = empty.detach().numpy(), 1e-7
    assert (rows == 0).sum() > 5
    for i, u in np.argwhere(rows == 0):
        more = rows.copy()
        more[i, u] = step
        assert in_histograms[i, u].item() == pytest.approx((total(more) - total(rows)) / step, rel=2e-3, abs=2e-3)


@pytest.mark.parametrize("gradient", ["envelope", "iterations"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("reg", [1.0, 0.05, 1e-3])
@every_value
def test_gradients_at_empty_anchors_are_finite(value, reg, dtype, gradient):
    how = {"max_iter": 30, "tol": None} if gradient == "iterations" else {}
    found = gradients_of(
        sparse_histograms(3, 6, dtype=dtype), distances(normal(6, 2, dtype=dtype)),
        reg=reg, value=value, gradient=gradient, **how,
    )  # fmt: skip
    assert all(tensor.dtype == dtype and torch.isfinite(tensor).all() for tensor in found)
    assert found[1].abs().max() > 0
    assert found[2].abs().max() > 0


@pytest.mark.parametrize("reg", [1.0, 0.1, 1e-3])
@every_value
def test_float32_gradients(value, reg):
    histograms, cost = torch.softmax(normal(4, 6), 1), distances(normal(6, 2))
    precise = gradients_of(histograms, cost, reg=reg, value=value)
    rough = gradients_of(histograms.float(), cost.float(), reg=reg, value=value)
    for found, expected in zip(rough, precise, strict=True):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.double(), expected, rtol=5e-3, atol=5e-4)


@every_value
@pytest.mark.parametrize("gradient", ["envelope", "iterations"])
def test_autocast_changes_nothing(value, gradient):
    histograms = torch.softmax(normal(4, 6, dtype=torch.float32), 1).detach()
    cost = distances(normal(6, 2, dtype=torch.float32, grad=False))
    found = []
    for enabled in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            inputs = histograms.clone().requires_grad_(), cost.clone().requires_grad_()
            how = {"reg": 1.0, "value": value, "gradient": gradient, "max_iter": 50, "tol": 1e-4}
            out = gradients.sinkhorn_many(inputs[0], cost=inputs[1], **how)
        found.append((out, *torch.autograd.grad(out.sum(), inputs)))
    assert all(map(torch.equal, *found))


def test_float32_exact_gradients():
    histograms = torch.softmax(normal(3, 5, dtype=torch.float32), 1).detach().requires_grad_()
    out = gradients.emd_many(histograms, cost=distances(normal(5, 2, dtype=torch.float32)))
    out.sum().backward()
    assert out.dtype == histograms.grad.dtype == torch.float32
    assert histograms.grad.abs().max() > 0


def test_gradients_do_not_depend_on_tiles(monkeypatch):
    from asot.entropic import torch_solver as sinkhorn_torch

    histograms, cost = torch.softmax(normal(6, 5), 1), distances(normal(5, 2))
    problems = [{"reg": reg, "value": value} for reg in (1.0, 0.01) for value in VALUES]
    whole = [gradients_of(histograms, cost, **problem) for problem in problems]
    plain = sinkhorn_torch.SinkhornTorch.__init__
    monkeypatch.setattr(sinkhorn_torch.SinkhornTorch, "__init__", lambda *a, **how: plain(*a, **how, scratch=3000))
    for problem, expected in zip(problems, whole, strict=True):
        for found, tensor in zip(gradients_of(histograms, cost, **problem), expected, strict=True):
            torch.testing.assert_close(found, tensor, rtol=1e-7, atol=1e-9)


# -------------------------------------------------------------------------------------------------- pairs and shapes


@pytest.mark.parametrize("function", ["sinkhorn", "emd"])
def test_pairs_are_those_of_the_rest_of_the_package(function):
    A, B, cost = torch.softmax(normal(4, 5), 1), torch.softmax(normal(3, 5, seed=1), 1), distances(normal(5, 2))
    A, B, cost = A.detach(), B.detach(), cost.detach()
    listed = torch.tensor([[3, 0], [1, 1], [0, 2]])
    for second, pairs in ((None, None), (B, None), (None, listed), (B, listed[:, [0, 1]].clamp(max=2))):
        if function == "emd":
            found = gradients.emd_many(A, second, cost=cost, pairs=pairs)
            expected = asot.emd_many(A, second, cost=cost, pairs=pairs).values
        else:
            found = gradients.sinkhorn_many(A, second, cost=cost, pairs=pairs, reg=0.1, value="divergence")
            expected = asot.sinkhorn_many(A, second, cost=cost, pairs=pairs, reg=0.1, value="divergence").values
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("function", [gradients.emd_many, lambda *a, **k: gradients.sinkhorn_many(*a, **k, reg=0.1)])
def test_no_pairs(function):
    one, cost = torch.ones(1, 3, requires_grad=True), 1.0 - torch.eye(3)
    out = function(one, cost=cost)
    assert out.shape == (0,)
    out.sum().backward()
    assert (one.grad == 0).all()


@pytest.mark.parametrize("function", [gradients.emd_many, lambda *a, **k: gradients.sinkhorn_many(*a, **k, reg=0.1)])
def test_totals_of_rows_do_not_matter(function):
    cost = distances(normal(5, 2)).detach()
    rows = normal(3, 5).exp().detach()
    plain, scaled = rows.clone().requires_grad_(), (1e3 * rows).requires_grad_()
    values = [function(tensor, cost=cost) for tensor in (plain, scaled)]
    for out in values:
        out.sum().backward()
    torch.testing.assert_close(values[0], values[1])
    torch.testing.assert_close(plain.grad, 1e3 * scaled.grad)
    assert (plain.grad * rows).sum(1).abs().max() < 1e-10


def test_gradients_in_a_cost_within_one_set_keep_it_a_cost():
    cost = distances(normal(5, 2)).detach().requires_grad_()
    gradients.sinkhorn_many(torch.softmax(normal(4, 5), 1), cost=cost, reg=0.1).sum().backward()
    assert torch.equal(cost.grad, cost.grad.T)
    assert (cost.grad.diagonal() == 0).all()


def test_rounding_of_cdist_is_no_asymmetry():
    points = normal(40, 3, dtype=torch.float32)
    cost = torch.cdist(points, points, compute_mode="use_mm_for_euclid_dist")
    assert cost.diagonal().abs().max() > 0
    out = gradients.emd_many(torch.softmax(normal(2, 40, dtype=torch.float32), 1), cost=cost)
    out.sum().backward()
    assert torch.isfinite(points.grad).all()


def test_reg_from_the_cost():
    histograms, cost = torch.softmax(normal(3, 5), 1).detach(), distances(normal(5, 2)).detach()
    expected = asot.sinkhorn_many(histograms, cost=cost, reg="auto").values  # the same call has the same meaning
    np.testing.assert_allclose(gradients.sinkhorn_many(histograms, cost=cost, reg="auto"), expected, rtol=1e-8)


def test_descent_finds_a_histogram():
    cost = distances(normal(6, 2)).detach()
    target = torch.softmax(normal(1, 6), 1).detach()
    logits = torch.zeros(1, 6, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.2)
    for _ in range(60):
        optimizer.zero_grad()
        loss = gradients.sinkhorn_many(torch.softmax(logits, 1), target, cost=cost, reg=1.0, value="divergence").sum()
        loss.backward()
        optimizer.step()
    assert (torch.softmax(logits, 1) - target).abs().max() < 2e-2


# ------------------------------------------------------------------------------------------------------------- errors

HALVES, COST = torch.full((2, 2), 0.5), 1.0 - torch.eye(2)


@pytest.mark.parametrize(
    ("A", "B", "cost", "message"),
    [
        (
            torch.tensor([[0.5, 0.5], [0.5, -0.5]]),
            None,
            COST,
            r"histogram 1 of A has a negative mass \(-0.5 at anchor 1",
        ),
        (HALVES, torch.zeros(1, 2), COST, "histogram 0 of B has zero total mass"),
        (torch.tensor([[0.5, float("nan")]]), None, COST, "histogram 0 of A is nan at anchor 1"),
        (HALVES, torch.ones(1, 3), COST, "B has histograms on 3 anchors, but the cost has 2"),
        (HALVES[0], None, COST, "A must be"),
        (HALVES, None, torch.ones(2, 3), "need a square one"),
        (HALVES, None, torch.tensor([[0.0, 1.0], [2.0, 0.0]]), "cost is not symmetric"),
        (HALVES, None, torch.ones(2, 2), "need a zero diagonal"),
        (HALVES, HALVES, -COST, "costs must be ≥ 0"),
        (HALVES, None, COST.double(), "A is torch.float32, but cost is torch.float64"),
        (HALVES.half(), None, COST.half(), "A must be float32 or float64, not float16"),
        (HALVES, None, COST.to("meta"), "A is on cpu, but cost is on meta"),
    ],
)
def test_bad_input(A, B, cost, message):
    with pytest.raises(ValueError, match=message):
        gradients.emd_many(A, B, cost=cost)
    with pytest.raises(ValueError, match=message):
        gradients.sinkhorn_many(A, B, cost=cost, reg=1.0)


def test_bad_settings():
    with pytest.raises(TypeError, match="A must be a torch tensor, not ndarray"):
        gradients.sinkhorn_many(np.eye(2), cost=COST, reg=1.0)
    for how, message in (
        ({"value": "dual"}, "value must be one of"),
        ({"gradient": "implicit"}, "gradient must be one of"),
        ({"reg": -1.0}, "reg must be a number > 0"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"tol": 2.0}, "tol must be"),
        ({"pairs": [[0, 2]]}, "second index must be between 0 and 1"),
    ):
        with pytest.raises(ValueError, match=message):
            gradients.sinkhorn_many(HALVES, cost=COST, **({"reg": 1.0} | how))


@pytest.mark.parametrize("gradient", ["envelope", "iterations"])
def test_pairs_that_do_not_converge_are_counted(gradient):
    histograms, cost = torch.softmax(normal(4, 6), 1), distances(normal(6, 2))
    with pytest.warns(RuntimeWarning, match="6 of 6 pairs stopped at max_iter=2"):
        out = gradients.sinkhorn_many(histograms, cost=cost, reg=0.01, max_iter=2, gradient=gradient)
    assert torch.isfinite(out).all()


def test_without_torch_the_module_loads_and_says_what_to_install():
    program = """
import sys
sys.modules["torch"] = None
from asot import gradients
try:
    gradients.emd_many(None, cost=None)
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "asot.gradients needs PyTorch; pip install 'asot[torch]'"
