"""Small problems for the kernels of exact solvers and of losses, compared with the CPU: ``python -m
tests.gpu.small_problems``, for tools that watch every access to memory and take long (packaging/check_gpu)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import asot
from asot import gradients

RNG = np.random.default_rng(0)


def main(device: str) -> None:
    """Solve all of them on a device."""
    for D, options in collections():
        on_device, expected = (asot.pairwise_exact(D, device=each, **options) for each in (device, "cpu"))
        same(on_device.values, expected.values, 1e-12)
    D = clouds((12, 20, 31, 9, 25, 17, 14, 22), 2)
    found, expected = (asot.kneighbors(D, n_neighbors=3, device=each) for each in (device, "cpu"))
    same(found.distances, expected.distances, 1e-12)
    x = RNG.normal(size=(20, 3))
    cost, masses = np.linalg.norm(x[:, None] - x[None], axis=-1), RNG.dirichlet(np.ones(20), 12)
    on_device, expected = (asot.emd_many(masses, cost=cost, device=each) for each in (device, "cpu"))
    same(on_device.values, expected.values, 1e-12)
    for loss, tensors in losses():
        for one, two in zip(*(value_and_gradients(loss, tensors, each) for each in (device, "cpu")), strict=True):
            same(one, two, 1e-4)
    for n, dim in ((64, 3), (700, 8)):
        x, y = (torch.tensor(RNG.normal(size=(n, dim))) for _ in range(2))
        assert torch.equal(gradients.assign(x.to(device), y.to(device)).cpu(), gradients.assign(x, y))


def clouds(sizes: tuple[int, ...], dim: int, equal: bool = False) -> asot.Distributions:
    n = sum(sizes)
    return asot.Distributions(
        RNG.normal(size=(n, dim)), np.cumsum([0, *sizes]), None if equal else RNG.random(n) + 0.01
    )


def collections() -> list[tuple[asot.Distributions, dict[str, Any]]]:
    """With options of `pairwise_exact`: a pair of lanes, of a warp, and of a block; long points; other distances."""
    return [
        (clouds((5, 20, 33, 64, 40), 2), {}),
        (clouds((70, 90, 140, 130), 3), {}),
        (clouds((40, 70, 170, 210), 40, equal=True), {}),
        (clouds((300, 280), 2, equal=True), {}),
        (clouds((30, 45, 70, 66), 2), {"p": 2}),
        (clouds((40, 50, 35), 40), {"p": 2}),
    ]


def losses() -> list[tuple[Callable[..., Any], list[Any]]]:
    """With the tensors that they are differentiated in."""
    costs = torch.tensor(RNG.random((6, 25, 25)), dtype=torch.float32)
    a, b = (torch.tensor(RNG.dirichlet(np.ones(25), 6), dtype=torch.float32) for _ in range(2))
    words = [torch.tensor(RNG.normal(size=(70, 768)), dtype=torch.float32) for _ in range(2)]
    offsets = torch.tensor([0, 10, 35, 70])
    shapes = [torch.tensor(RNG.normal(size=(2, 200, 3)), dtype=torch.float32) for _ in range(2)]

    def texts(x: Any, y: Any) -> Any:
        return gradients.wasserstein(x, y, x_offsets=offsets.to(x.device), y_offsets=offsets.to(x.device))

    return [
        (lambda cost: gradients.emd(cost, a.to(cost.device), b.to(cost.device)), [costs]),
        (lambda cost, own: gradients.emd(cost, own, b.to(cost)), [costs.double(), a.double()]),
        (gradients.emd, [torch.tensor(RNG.random((2, 150, 170)))]),
        (texts, words),
        (gradients.wasserstein, shapes),
    ]


def value_and_gradients(loss: Callable[..., Any], tensors: list[Any], device: str) -> list[np.ndarray]:
    own = [tensor.to(device).detach().requires_grad_() for tensor in tensors]
    values = loss(*own)
    values.sum().backward()
    return [part.detach().cpu().numpy() for part in (values, *(tensor.grad for tensor in own))]


def same(found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * max(1.0, float(np.abs(expected).max())))


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["cuda"]))
