"""`asot.gradients.emd`, `wasserstein`, `assign`: gradients against finite differences and the rules that they obey."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

import asot

torch = pytest.importorskip("torch")
gradients = asot.gradients


def clouds(seed, B=4, n=5, m=7, d=3):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(B, size, d, generator=generator, dtype=torch.float64, requires_grad=True) for size in (n, m))


def masses(seed, B, n):
    generator = torch.Generator().manual_seed(seed)
    a = torch.rand(B, n, generator=generator, dtype=torch.float64)
    return a / a.sum(1, keepdim=True)


def test_values_of_costs_are_those_of_emd_batch():
    cost, a, b = torch.rand(6, 4, 5, dtype=torch.float64), masses(0, 6, 4), masses(1, 6, 5)
    values, plan = gradients.emd(cost, a, b, plans=True)
    r = asot.emd_batch(cost.numpy(), a.numpy(), b.numpy(), plans=True)
    assert (values.numpy() == r.values).all()
    assert (plan.dense()[2].numpy() == r.plan(2).toarray()).all()
    np.testing.assert_allclose(((plan.f * a).sum(1) + (plan.g * b).sum(1)).numpy(), r.values, atol=1e-12)


def test_gradients_in_costs_and_masses_are_finite_differences():
    cost = torch.rand(5, 4, 6, dtype=torch.float64, requires_grad=True)
    raw = [torch.rand(5, k, dtype=torch.float64, requires_grad=True) for k in (4, 6)]

    def value(cost, *raw):
        return gradients.emd(cost, *(x.exp() / x.exp().sum(1, keepdim=True) for x in raw))

    assert torch.autograd.gradcheck(value, (cost, *raw), eps=1e-7, atol=1e-7)


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "cityblock", "chebyshev"])
@pytest.mark.parametrize("p", [1, 2, 3.5])
def test_gradients_in_points_are_finite_differences(metric, p):
    x, y = clouds(3)
    assert torch.autograd.gradcheck(
        lambda x, y: gradients.wasserstein(x, y, p=p, metric=metric), (x, y), eps=1e-7, atol=1e-6
    )


@pytest.mark.parametrize("p", [1, 2])
def test_gradients_in_the_masses_of_clouds_are_finite_differences(p):
    (x, y), raw = clouds(5), [torch.rand(4, k, dtype=torch.float64, requires_grad=True) for k in (5, 7)]

    def value(*raw):
        a, b = (part.exp() / part.exp().sum(1, keepdim=True) for part in raw)
        return gradients.wasserstein(x, y, a=a, b=b, p=p)

    assert torch.autograd.gradcheck(value, raw, eps=1e-7, atol=1e-6)


@pytest.mark.parametrize("p", [1, 2])
def test_ragged_clouds_are_the_distances_of_a_collection(p):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(n, 2)) for n in (3, 6, 1, 8)]
    D = asot.Distributions.from_list(parts)
    x = torch.as_tensor(np.concatenate(parts))
    offsets = torch.tensor([0, 3, 9, 10, 18])
    values = gradients.wasserstein(x, x, x_offsets=offsets, y_offsets=offsets, pairs="all", p=p)
    np.testing.assert_allclose(values.view(4, 4).numpy(), asot.pairwise_exact(D, p=p).matrix(), atol=1e-9)
    some = gradients.wasserstein(x, x, x_offsets=offsets, y_offsets=offsets, pairs=[(0, 3), (2, 1)], p=p)
    np.testing.assert_allclose(some.numpy(), asot.pairwise_exact(D, p=p, pairs=[(0, 3), (2, 1)]).values, rtol=1e-12)


def test_rules_of_euler_and_of_translations_hold_with_ties():
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randint(0, 3, (200, n, 2), generator=generator).double().requires_grad_() for n in (6, 6))
    values = gradients.wasserstein(x, y)
    values.sum().backward()
    euler = (x * x.grad).sum((1, 2)) + (y * y.grad).sum((1, 2))
    np.testing.assert_allclose(euler.detach().numpy(), values.detach().numpy(), atol=1e-12)
    np.testing.assert_allclose(x.grad.sum(1).numpy(), -y.grad.sum(1).numpy(), atol=1e-12)


def test_clouds_on_top_of_each_other_have_gradient_zero():
    x = torch.randn(2, 5, 3, requires_grad=True)
    for p in (1, 2, 3):
        value = gradients.wasserstein(x, x.detach().flip(1), p=p)
        (gradient,) = torch.autograd.grad(value.sum(), x)
        assert value.tolist() == [0.0, 0.0]
        assert not gradient.any()


@pytest.mark.parametrize("n", [1, 7, 64, 200])
@pytest.mark.parametrize("p", [1, 2])
def test_assign_is_the_optimal_permutation(n, p):
    generator = torch.Generator().manual_seed(n)
    x, y = (torch.randn(2, n, 3, generator=generator) for _ in range(2))
    found = gradients.assign(x, y, p=p)
    for t in range(2):
        cost = cdist(x[t].double(), y[t].double()) ** p
        assert sorted(found[t].tolist()) == list(range(n))
        best = cost[linear_sum_assignment(cost)].sum()
        assert cost[np.arange(n), found[t].numpy()].sum() == pytest.approx(best, rel=1e-12)
    assert (gradients.assign(x[0], y[0], p=p) == found[0]).all()


def test_float32_values_are_right_to_float32():
    x, y = (part.detach() for part in clouds(1))
    single = gradients.wasserstein(x.float(), y.float())
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single.numpy(), gradients.wasserstein(x, y).numpy(), rtol=1e-6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (gradients.wasserstein(x.float(), y.float()) == single).all()


def test_second_derivatives_are_refused_in_one_sentence():
    x, y = clouds(2)
    for value, tensor in ((gradients.wasserstein(x, y), x), (gradients.emd(cost := torch.cdist(x, y)), cost)):
        (gradient,) = torch.autograd.grad(value.sum(), tensor, create_graph=True)
        with pytest.raises(RuntimeError, match="no second derivatives"):
            gradient.sum().backward(retain_graph=True)


def test_torch_compiles_and_maps_the_loss_of_costs():
    cost = torch.rand(3, 4, 5, dtype=torch.float64)
    whole = torch.stack([gradients.emd(cost), gradients.emd(2 * cost)])
    assert torch.equal(torch.func.vmap(gradients.emd)(torch.stack([cost, 2 * cost])), whole)
    plan = torch.func.grad(lambda c: gradients.emd(c).sum())(cost)
    np.testing.assert_allclose(plan.sum((1, 2)).numpy(), 1.0, rtol=1e-12)
    torch.library.opcheck(torch.ops.asot.emd.default, (cost, None, None, None, None, True))


def test_padding_has_no_gradient():
    cost = torch.rand(2, 4, 5, dtype=torch.float64, requires_grad=True)
    a = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.25] * 4], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([[0.2, 0.3, 0.5, 0.0, 0.0], [0.2] * 5], dtype=torch.float64)
    gradients.emd(cost, a, b, n=torch.tensor([2, 4]), m=torch.tensor([3, 5])).sum().backward()
    assert not cost.grad[0, 2:].any()
    assert not cost.grad[0, :, 3:].any()
    assert not a.grad[0, 2:].any()
    assert a.grad.sum(1).abs().max() < 1e-12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gradients.emd(torch.ones(2, 2, 2, dtype=torch.int64)), "cost must be floating point, not int64"),
        (lambda: gradients.emd(np.ones((2, 2, 2))), "must be a torch tensor"),
        (lambda: gradients.emd(torch.full((2, 2, 2), torch.nan)), "problem 0: the cost of row 0 and column 0 is nan"),
        (lambda: gradients.emd(torch.ones(2, 2, 2), n=torch.tensor([1, 3])), "problem 1: n is 3"),
        (lambda: gradients.emd(torch.ones(1, 2, 2), torch.tensor([[1.0, -1.0]])), "problem 0: a holds the mass -1"),
        (lambda: gradients.wasserstein(torch.ones(2, 3, 2), torch.ones(3, 3, 2)), "x holds 2 clouds, y 3"),
        (lambda: gradients.wasserstein(torch.ones(2, 3, 2), torch.ones(2, 3, 4)), "x has 2 coordinates, y has 4"),
        (
            lambda: gradients.wasserstein(
                torch.ones(3, 2), torch.ones(3, 2), x_offsets=torch.tensor([0, 4, 3]), y_offsets=torch.tensor([0, 1, 3])
            ),
            "problem 1: x_offsets must ascend",
        ),
        (
            lambda: gradients.wasserstein(
                torch.ones(3, 2), torch.ones(3, 2), x_offsets=torch.tensor([0, 0, 3]), y_offsets=torch.tensor([0, 1, 3])
            ),
            "problem 0: its cloud in x has no points",
        ),
        (lambda: gradients.wasserstein(torch.ones(1, 3, 2) / 0, torch.ones(1, 3, 2)), "problem 0: point 0"),
        (lambda: gradients.wasserstein(torch.ones(1, 3, 2), torch.ones(1, 3, 2), p=0.5), "p must be a finite number"),
        (lambda: gradients.assign(torch.ones(3, 2), torch.ones(4, 2)), "of one shape"),
    ],
)
def test_bad_input_is_one_sentence(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
