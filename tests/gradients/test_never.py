"""Costs that mean "never" under one cost for all pairs: values and gradients keep the digits of the others."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from asot import gradients
from tests.oracles import highs_values

torch = pytest.importorskip("torch")

from asot.gradients import shared_cost  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread_of_torch")


@pytest.mark.parametrize("never", [1e9, 1e15, 1e300])
@pytest.mark.parametrize("k", [20, 90])
def test_values_and_gradients_are_those_of_the_costs_in_use(k, never):
    rng = np.random.default_rng(k)
    given, mask = rng.random((k, k + 2)), rng.random((k, k + 2)) < 0.1
    A, B = rng.dirichlet(np.full(k, 4.0), 3), rng.dirichlet(np.full(k + 2, 4.0), 2)
    cost = torch.tensor(np.where(mask, never, given), requires_grad=True)
    first = torch.tensor(A, requires_grad=True)
    values = gradients.emd_many(first, torch.tensor(B), cost=cost)
    values.sum().backward()
    expected = highs_values(A, B, np.where(mask, 10.0, given), np.array(list(itertools.product(range(3), range(2)))))
    np.testing.assert_allclose(values.detach().numpy(), expected, rtol=0, atol=1e-12)
    assert not cost.grad.numpy()[mask].any()
    assert float((cost.grad * cost.detach()).sum()) == pytest.approx(expected.sum(), abs=1e-12)
    assert float(first.grad.abs().max()) < 20.0


def test_tensors_on_a_gpu_go_to_the_cpu_where_digits_would_be_lost(monkeypatch):
    monkeypatch.setattr(shared_cost.devices, "gpu_count", lambda: 1)
    rng = np.random.default_rng(0)
    cost, mask = rng.random((8, 8)), rng.random((8, 8)) < 0.2

    def on_gpu(array):
        device = SimpleNamespace(type="cuda", index=0)
        return SimpleNamespace(device=device, shape=array.shape, detach=lambda: torch.tensor(array))

    assert shared_cost._exact_device(on_gpu(cost)) == "cuda:0"
    assert shared_cost._exact_device(on_gpu(np.where(mask, 1e3, cost))) == "cuda:0"
    assert shared_cost._exact_device(on_gpu(np.where(mask, 1e15, cost))) == "cpu"


def test_masses_of_counts_ship_nothing_that_means_never():
    rng = np.random.default_rng(0)
    counts = np.concatenate([rng.multinomial(100, np.full(5, 0.2)) for _ in range(12)]).reshape(2, 30)
    own = np.kron(np.eye(6), np.ones((5, 5))) > 0
    given = rng.random((1, 30, 30))
    costs = [torch.tensor(np.where(own, given, never), requires_grad=True) for never in (300.0, 1e15)]
    a, b = torch.tensor(counts / 600.0)[:, None]
    near, far = (gradients.emd(cost, a, b) for cost in costs)
    far.backward()
    np.testing.assert_allclose(far.detach(), near.detach(), rtol=1e-12)
    np.testing.assert_allclose(costs[1].grad.sum(2), a, rtol=0, atol=1e-16)
    assert not costs[1].grad[:, ~torch.tensor(own)].any()
