"""Losses with gradients on a GPU: the same values, plans and gradients as on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import asot

torch = pytest.importorskip("torch")
gradients = asot.gradients


def both(loss, *tensors):
    """Values and gradients of a loss on the CPU and on the GPU."""
    found = []
    for device in ("cpu", "cuda"):
        own = [t.detach().to(device).requires_grad_(t.is_floating_point()) for t in tensors]
        values = loss(*own)
        assert values.device.type == device
        (values * torch.arange(1, values.numel() + 1, device=device).view_as(values)).sum().backward()
        found.append([values, *(t.grad for t in own if t.grad is not None)])
    return [[t.detach().cpu() for t in side] for side in found]


def assert_same(cpu, gpu, tolerance=1e-11):
    for one, two in zip(cpu, gpu, strict=True):
        assert (one - two).abs().max() <= tolerance * max(1.0, float(one.abs().max()))


@pytest.mark.parametrize(
    ("B", "n", "m"), [(1, 1, 1), (40, 25, 25), (30, 20, 33), (6, 200, 150), (2, 700, 900), (3, 800, 800)]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_own_costs(B, n, m, weighted):
    rng = torch.Generator().manual_seed(0)
    cost = torch.rand(B, n, m, generator=rng, dtype=torch.float64) - 0.2
    masses = [torch.rand(B, k, generator=rng, dtype=torch.float64) + 0.01 for k in (n, m)] if weighted else []
    assert_same(*both(gradients.emd, cost, *(each / each.sum(1, True) for each in masses)))


def test_padded_problems():
    rng = torch.Generator().manual_seed(1)
    cost = torch.rand(20, 30, 40, generator=rng, dtype=torch.float64)
    n, m = torch.randint(1, 31, (20,), generator=rng), torch.randint(1, 41, (20,), generator=rng)
    for t in range(20):
        cost[t, n[t] :], cost[t, :, m[t] :] = float("nan"), float("nan")
    cpu, gpu = both(lambda c: gradients.emd(c, n=n.to(c.device), m=m.to(c.device)), cost)
    assert_same(cpu, gpu)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("metric", ["euclidean", "cityblock"])
def test_ragged_clouds(p, metric):
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 120, (2, 15))
    offsets = [torch.from_numpy(np.concatenate([[0], np.cumsum(s)])) for s in sizes]
    x, y = (torch.from_numpy(rng.normal(size=(s.sum(), 4))) for s in sizes)
    cpu, gpu = both(
        lambda u, v: gradients.wasserstein(u, v, x_offsets=offsets[0], y_offsets=offsets[1], p=p, metric=metric), x, y
    )
    assert_same(cpu, gpu, 1e-9)


@pytest.mark.parametrize("p", [1, 1.5, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dim", [3, 32, 100])
@pytest.mark.parametrize("scale", [1.0, 1e-35])
def test_clouds_of_many_sizes(p, dtype, dim, scale):
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 150, (2, 40))
    offsets = [torch.from_numpy(np.concatenate([[0], np.cumsum(s)])) for s in sizes]
    x, y = (torch.from_numpy(rng.normal(size=(s.sum(), dim)) * scale).to(dtype) for s in sizes)
    cpu, gpu = both(
        lambda u, v: gradients.wasserstein(u, v, x_offsets=offsets[0], y_offsets=offsets[1], p=p) / scale, x, y
    )
    assert_same(cpu, gpu, 1e-5 if dtype == torch.float32 else 1e-9)


def test_a_cloud_that_is_not_finite_is_found_and_leaves_nothing_behind():
    x, y = torch.rand(5, 30, 40), torch.rand(5, 20, 40)
    bad = x.clone()
    bad[3, 7, 39] = float("nan")
    for _ in range(3):
        with pytest.raises(ValueError, match="problem 3: point 7 of its cloud in x is not finite"):
            gradients.wasserstein(bad.cuda(), y.cuda())
        assert_same([gradients.wasserstein(x, y)], [gradients.wasserstein(x.cuda(), y.cuda()).cpu()], 1e-6)


def test_tensors_that_lie_apart_in_memory():
    cost, a = torch.rand(4, 6, 8, dtype=torch.float64), torch.rand(4, 6, dtype=torch.float64) + 0.1
    a /= a.sum(1, True)
    expected = gradients.emd(cost[:, :, ::2], a)
    spread = a.repeat_interleave(2, 1).cuda()[:, ::2]
    assert_same([expected], [gradients.emd(cost.cuda()[:, :, ::2], spread).cpu()])


def test_gradients_of_float32_costs():
    rng = torch.Generator().manual_seed(0)
    cost = torch.rand(50, 25, 30, generator=rng)
    masses = [torch.rand(50, k, generator=rng) + 0.01 for k in (25, 30)]
    assert_same(*both(gradients.emd, cost, *(each / each.sum(1, True) for each in masses)), 1e-5)
    large = torch.rand(2, 150, 200, generator=rng)
    assert_same(*both(gradients.emd, large), 1e-6)


@pytest.mark.parametrize("n", [64, 1000, 3000, 4096])
def test_assignments(n):
    rng = torch.Generator().manual_seed(n)
    x, y = (torch.randn(n, 3, generator=rng, dtype=torch.float64) for _ in range(2))
    cpu, gpu = (gradients.assign(x.to(d), y.to(d)) for d in ("cpu", "cuda"))
    assert gpu.device.type == "cuda"
    assert torch.equal(cpu, gpu.cpu())


def test_what_is_wrong_is_said_in_the_words_of_the_cpu():
    cost = torch.rand(3, 4, 5, dtype=torch.float64)
    cost[1, 2, 3] = float("inf")
    said = []
    for device in ("cpu", "cuda"):
        with pytest.raises(ValueError, match="problem 1") as refused:
            gradients.emd(cost.to(device))
        said.append(str(refused.value))
    assert said[0] == said[1]


def test_float32_and_other_streams():
    cost = torch.rand(50, 30, 30)
    expected = gradients.emd(cost)
    with torch.cuda.stream(torch.cuda.Stream()):
        found = gradients.emd(cost.cuda())
    assert found.dtype == torch.float32
    assert (found.cpu() - expected).abs().max() <= 1e-6


@pytest.mark.parametrize("never", [1e5, 1e9, 1e18])
@pytest.mark.parametrize(("B", "n"), [(20, 30), (2, 600)])
def test_costs_that_mean_never(never, B, n):
    rng = torch.Generator().manual_seed(3)
    cost = torch.rand(B, n, n, generator=rng, dtype=torch.float64)
    cost[torch.rand(B, n, n, generator=rng) < 0.15] = never
    assert_same(*both(gradients.emd, cost))
