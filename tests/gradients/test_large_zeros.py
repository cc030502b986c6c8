"""Gradients of some megabytes lie on large pages, and are what they were."""

from __future__ import annotations

import pytest

from asot import gradients

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from asot.gradients.operations import LARGE_PAGE, zeros_like_rows  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread_of_torch")


def costs(n_problems, dtype=torch.float64):
    return torch.rand((n_problems, 40, 40), dtype=dtype, generator=torch.Generator().manual_seed(0))


def gradient(cost, **masses):
    leaf = cost.clone().requires_grad_()
    weights = torch.arange(1, 1 + len(cost), dtype=cost.dtype)
    (gradients.emd(leaf, **masses) @ weights).backward()
    return leaf.grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_gradients_are_sums_of_small_ones(dtype):
    cost = costs(400, dtype)
    whole = gradient(cost)
    assert whole.nbytes >= LARGE_PAGE
    for t in (0, 1, 250, 399):
        torch.testing.assert_close(whole[t], (t + 1) * gradient(cost[t : t + 1])[0], rtol=1e-6, atol=0)
    assert torch.equal(whole, gradient(cost))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1600, 1601])
def test_large_zeros_begin_with_a_page(dtype, width):
    for _ in range(3):
        zeros = zeros_like_rows(torch.ones((400, 3), dtype=dtype), width)
        assert (zeros.shape, zeros.dtype) == ((400, width), dtype)
        assert zeros.data_ptr() % LARGE_PAGE == 0
        assert zeros.is_contiguous()
        assert not zeros.any()
        zeros.fill_(7)


def test_small_ones_are_torchs():
    assert zeros_like_rows(torch.ones((4, 3)), 10).untyped_storage().nbytes() == 4 * 10 * 4


def test_what_torch_traces_is_left_to_torch():
    with FakeTensorMode() as mode:
        assert zeros_like_rows(mode.from_tensor(torch.ones((400, 3), dtype=torch.float64)), 1600).shape == (400, 1600)


def test_transforms_of_large_batches_are_as_ever():
    cost = costs(400)
    expected = gradient(cost)
    weights = torch.arange(1, 401, dtype=torch.float64)
    found = torch.func.grad(lambda c: gradients.emd(c) @ weights)(cost)
    torch.testing.assert_close(found, expected)
    each = torch.func.vmap(torch.func.grad(lambda c: gradients.emd(c) @ weights))(torch.stack([cost, 2 * cost]))
    torch.testing.assert_close(each[1], expected)
    leaf = cost.clone().requires_grad_()
    values = gradients.emd(leaf)
    (rows,) = torch.autograd.grad(values, leaf, torch.stack([weights, weights]), is_grads_batched=True)
    torch.testing.assert_close(rows[1], expected)


def test_large_gradients_refuse_to_be_differentiated_again():
    leaf = costs(400).requires_grad_()
    (first,) = torch.autograd.grad(gradients.emd(leaf).square().sum(), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        first.sum().backward()
