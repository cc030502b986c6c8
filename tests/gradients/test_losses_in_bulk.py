"""Gradients of many random problems: finite differences without ties, and rules that any optimum obeys at ties."""

from __future__ import annotations

import numpy as np
import pytest

import asot

torch = pytest.importorskip("torch")
gradients = asot.gradients

STEP = 1e-6


def random_clouds(B, n, m, d, seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(B, k, d, generator=generator, dtype=torch.float64) for k in (n, m)]


def test_gradients_in_costs_and_masses_of_a_thousand_problems_are_finite_differences():
    """A value is linear in costs, and in masses, until the plan or the potentials change; few do within a step."""
    rng = np.random.default_rng(0)
    cost = torch.tensor(rng.random((1000, 6, 7)), requires_grad=True)
    a, b = (torch.tensor(rng.dirichlet(np.full(k, 5.0), 1000), requires_grad=True) for k in (6, 7))
    along = [torch.tensor(rng.normal(size=x.shape)) for x in (cost, a, b)]
    along = [along[0], *(0.01 * (way - way.mean(1, keepdim=True)) for way in along[1:])]
    gradients.emd(cost, a, b).sum().backward()
    for moves in ((1, 0, 0), (0, 1, 1)):
        values, plans = zip(
            *(
                gradients.emd(
                    *(x.detach() + s * k * STEP * way for x, k, way in zip((cost, a, b), moves, along, strict=True)),
                    plans=True,
                )
                for s in (1, -1)
            ),
            strict=True,
        )
        same = torch.stack([x.dense() > 0 for x in plans])
        stays = (same[0] == same[1]).flatten(1).all(1)
        assert stays.sum() >= 990
        moved = sum(k * (x.grad * way).flatten(1).sum(1) for x, k, way in zip((cost, a, b), moves, along, strict=True))
        assert ((values[0] - values[1]) / (2 * STEP) - moved)[stays].abs().max() < 1e-8


@pytest.mark.parametrize(("p", "metric"), [(1, "euclidean"), (2, "euclidean"), (1, "sqeuclidean"), (2, "cityblock")])
def test_gradients_in_points_of_a_thousand_problems_are_finite_differences(p, metric):
    x, y = (part.requires_grad_() for part in random_clouds(1000, 6, 7, 3, 1))
    along = random_clouds(1000, 6, 7, 3, 2)
    gradients.wasserstein(x, y, p=p, metric=metric).sum().backward()
    moved = sum((part.grad * way).sum((1, 2)) for part, way in zip((x, y), along, strict=True))
    ends = [[(part.detach() + s * STEP * way).requires_grad_() for part, way in zip((x, y), along, strict=True)]
            for s in (1, -1)]  # fmt: skip
    values = [gradients.wasserstein(*end, p=p, metric=metric) for end in ends]
    slopes = [torch.autograd.grad(value.sum(), end)[0] for value, end in zip(values, ends, strict=True)]
    stays = (slopes[0] - slopes[1]).abs().amax(
        (1, 2)
    ) < 1e-3  # else the plan, or a sign of cityblock, changes in between
    assert stays.sum() >= 990
    difference = (values[0] - values[1]).detach() / (2 * STEP)
    assert (difference - moved)[stays].abs().max() < 1e-8


@pytest.mark.parametrize("weighted", [False, True])
def test_rules_of_euler_and_of_translations_hold_for_ten_thousand_problems_with_ties(weighted):
    generator = torch.Generator().manual_seed(3)
    x, y = (torch.randint(0, 3, (10_000, n, 2), generator=generator).double().requires_grad_() for n in (4, 5))
    masses = {}
    if weighted:
        for name, n in (("a", 4), ("b", 5)):
            mass = torch.randint(0, 4, (10_000, n), generator=generator).double() + (torch.arange(n) == 0)
            masses[name] = mass / mass.sum(1, keepdim=True)
    values = gradients.wasserstein(x, y, **masses)
    values.sum().backward()
    euler = (x * x.grad).sum((1, 2)) + (y * y.grad).sum((1, 2))
    assert (euler - values).detach().abs().max() < 1e-12
    assert (x.grad.sum(1) + y.grad.sum(1)).abs().max() < 1e-12


def test_a_plan_depends_on_its_problem_alone():
    """With ties, too, and beside a problem that is larger by far."""
    generator = torch.Generator().manual_seed(4)
    small = torch.randint(0, 3, (30, 5, 5), generator=generator).double()
    beside = torch.zeros(31, 40, 40, dtype=torch.float64)
    beside[:30, :5, :5] = small
    beside[30] = torch.rand(40, 40, generator=generator, dtype=torch.float64)
    sizes = torch.tensor([5] * 30 + [40])
    _, alone = gradients.emd(small, plans=True)
    _, together = gradients.emd(beside, n=sizes, m=sizes, plans=True)
    assert torch.equal(alone.dense(), together.dense()[:30, :5, :5])
