"""Clouds that are paired i-th with i-th, in one step of an emulated GPU, against the CPU."""

from __future__ import annotations

import pytest

from asot import gradients

torch = pytest.importorskip("torch")

from asot.gradients import eager, on_gpu, paired_clouds  # noqa: E402
from tests.gradients import test_on_a_gpu as emulated  # noqa: E402
from tests.simt import host  # noqa: E402

pytestmark = host.needs_compiler
gpu = emulated.gpu

OFFSETS = {"x_offsets": torch.tensor([0, 4, 20, 21]), "y_offsets": torch.tensor([0, 15, 20, 31])}


def points(dim, dtype=torch.float64):
    rng = torch.Generator().manual_seed(dim)
    return [torch.randn(k, dim, generator=rng, dtype=torch.float64).to(dtype) for k in (21, 31)]


def masses(offsets, dtype=torch.float64):
    rng = torch.Generator().manual_seed(0)
    weights = [torch.rand(int(n), generator=rng, dtype=torch.float64) for n in offsets.diff()]
    return torch.cat([each / each.sum() for each in weights]).to(dtype)


def step(x, y, leaves="xy", **options):
    """Values, and gradients of a weighted sum."""
    own = [t.detach().clone().requires_grad_(name in leaves) for t, name in zip((x, y), "xy", strict=True)]
    values = gradients.wasserstein(*own, **{**OFFSETS, **options})
    (values * torch.arange(1, len(values) + 1)).sum().backward()
    return [values.detach(), *(t.grad for t in own if t.grad is not None)]


def assert_same_on_the_cpu(monkeypatch, found, *given, **options):
    monkeypatch.setattr(on_gpu, "has_gpu", lambda home: False)
    expected = step(*given, **options)
    assert len(found) == len(expected)
    for one, two in zip(found, expected, strict=True):
        assert one.dtype == two.dtype
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-6 * max(float(two.abs().max()), 1e-300))


@pytest.mark.parametrize("leaves", ["x", "y", "xy"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("metric", "p"), [("euclidean", 1), ("euclidean", 2), ("sqeuclidean", 1), ("sqeuclidean", 1.5)]
)
@pytest.mark.parametrize(("dim", "dtype"), [(3, torch.float32), (40, torch.float32), (40, torch.float64)])
def test_values_and_gradients_are_those_of_the_cpu(gpu, monkeypatch, dim, dtype, metric, p, weighted, leaves):
    options = {"metric": metric, "p": p, "leaves": leaves}
    if weighted:
        options |= {"a": masses(OFFSETS["x_offsets"], dtype), "b": masses(OFFSETS["y_offsets"], dtype)}
    found = step(*points(dim, dtype), **options)
    assert gpu["price_pairs"] == gpu["wait"] == 1
    assert gpu["differentiate_pairs"] == len(leaves)
    assert_same_on_the_cpu(monkeypatch, found, *points(dim, dtype), **options)


def test_batches_and_single_pairs(gpu, monkeypatch):
    x, y = (part[:20].view(4, 5, 3) for part in points(3))
    none = {"x_offsets": None, "y_offsets": None}
    found = step(x, y, **none)
    one = gradients.wasserstein(x[1], y[1])
    assert gpu["price_pairs"] == 2
    torch.testing.assert_close(one, found[0][1])
    assert_same_on_the_cpu(monkeypatch, found, x, y, **none)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-30, 1e30, 1e160, 1e300])
@pytest.mark.parametrize("dim", [3, 40])
def test_coordinates_of_any_size(gpu, monkeypatch, scale, dim):
    x, y = points(dim)
    x[4:20] *= scale
    y[15:20] *= scale
    found = step(x, y)
    again = not 2.0**-150 < scale < 2.0**150
    assert gpu["wait"] == 1 + again
    assert_same_on_the_cpu(monkeypatch, found, x, y)


@pytest.mark.parametrize(("gap", "p"), [(1e-7, 1), (1e-7, 2), (1e-200, 1), (1e-200, 2), (1e-8, 50), (0.0, 2)])
@pytest.mark.parametrize("dim", [3, 40])
def test_distances_that_are_small_beside_coordinates(gpu, monkeypatch, gap, p, dim):
    x, y = points(dim)
    for part, those in ((x, slice(4, 20)), (y, slice(15, 20))):
        part[those] *= gap
        part[those, 0] = 1.0
    found = step(x, y, p=p)
    assert gpu["wait"] == 1 + (gap > 0 and gap ** max(p, 2) < 1e-300)
    assert (found[0][1] > 0) == (gap > 0)
    assert_same_on_the_cpu(monkeypatch, found, x, y, p=p)


@pytest.mark.parametrize("dim", [3, 40])
@pytest.mark.parametrize("scale", [1.0, 1e295, 1e-250])
def test_large_powers_of_long_distances(gpu, monkeypatch, dim, scale):
    x, y = (scale * part for part in points(dim))
    found = step(x, y, p=150)
    assert all(part.isfinite().all() for part in found)
    assert_same_on_the_cpu(monkeypatch, found, x, y, p=150)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
@pytest.mark.parametrize("dim", [3, 40])
@pytest.mark.parametrize("side", [0, 1])
def test_what_is_not_finite_is_said_by_its_place(gpu, wrong, dim, side):
    given = points(dim)
    given[side][19, 2] = wrong
    place, name = ((1, 15), (1, 4))[side], "xy"[side]
    with pytest.raises(ValueError, match=f"problem {place[0]}: point {place[1]} of its cloud in {name} is not finite"):
        gradients.wasserstein(*given, **OFFSETS)
    assert gradients.wasserstein(*points(dim), **OFFSETS).isfinite().all()  # nothing of it is left


def test_masses_that_do_not_balance_are_refused_by_name(gpu):
    a = masses(OFFSETS["x_offsets"])
    a[5] += 0.1
    with pytest.raises(ValueError, match="problem 1: "):
        gradients.wasserstein(*points(3), a=a, **OFFSETS)


@pytest.mark.parametrize(
    "other",
    [{"pairs": "all"}, {"metric": "cityblock"}, {"a": "learned"}, {"x": "strided"}, {"x": "bfloat16"}, {"most": 20},
     {"empty": True}],
    ids=lambda other: next(iter(other.items())).__repr__(),
)  # fmt: skip
def test_what_is_for_other_steps_goes_there(gpu, monkeypatch, other):
    (x, y), options = points(3), {key: other[key] for key in ("pairs", "metric") if key in other}
    if "a" in other:
        options["a"] = masses(OFFSETS["x_offsets"]).requires_grad_()
    if other.get("x") == "strided":
        x = x.repeat_interleave(2, 0)[::2]
    if other.get("x") == "bfloat16":
        x = x.bfloat16()
    if "most" in other:
        monkeypatch.setattr(paired_clouds, "MOST_ARCS", other["most"])
    if "empty" in other:
        options |= {"x_offsets": torch.tensor([0, 4, 4, 21]), "y_offsets": torch.tensor([0, 15, 15, 31])}
        options |= {"a": torch.ones(21), "b": torch.ones(31) * torch.tensor([4 / 15, 17 / 16]).repeat_interleave(
            torch.tensor([15, 16]))}  # fmt: skip
    if other.get("x") == "strided":
        values = gradients.wasserstein(x, y, **OFFSETS)
        assert gpu["price_pairs"] == 0
        assert torch.equal(values, gradients.wasserstein(x.contiguous(), y, **OFFSETS))
        return
    found = step(x, y, **options)
    assert gpu["price_pairs"] == 0
    assert_same_on_the_cpu(monkeypatch, found, x, y, **options)


def test_transforms_see_operations(gpu):
    x, y = (part[:20].view(4, 5, 3) for part in points(3))
    expected = gradients.wasserstein(x, y)
    gpu.clear()
    torch.testing.assert_close(torch.func.vmap(gradients.wasserstein)(x, y), expected)
    slope = torch.func.grad(lambda own: gradients.wasserstein(own, y).sum())(x)
    assert gpu["price_pairs"] == 0
    torch.testing.assert_close(
        slope, step(x, y, "x", x_offsets=None, y_offsets=None)[1] / torch.arange(1, 5)[:, None, None]
    )


def test_second_derivatives_are_refused(gpu):
    x, y = points(3)
    values = gradients.wasserstein(x.requires_grad_(), y, **OFFSETS)
    (slope,) = torch.autograd.grad(values.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        slope.sum().backward()


def test_a_step_launches_nothing_of_torch_and_waits_once(gpu, monkeypatch):
    monkeypatch.setattr(eager, "is_watched", lambda: False)  # the mode that counts is no reason for another path
    x, y = points(40, torch.float32)
    x.requires_grad_()
    gradients.wasserstein(x, y, **OFFSETS)  # constants are made
    gpu.clear()
    with emulated.Launches() as counted:
        values = gradients.wasserstein(x, y, **OFFSETS)
    assert not counted.launched
    assert counted.waited == 0
    assert gpu == {"price_clouds": 1, "own_costs": 1, "price_pairs": 1, "wait": 1}
    seed = torch.ones_like(values)
    with emulated.Launches() as counted:
        torch.autograd.grad(values, x, seed)
    assert not counted.launched
    assert counted.waited == 0
    assert gpu["differentiate_pairs"] == gpu["wait"] == 1
