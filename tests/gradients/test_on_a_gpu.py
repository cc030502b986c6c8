"""What losses do with tensors on a GPU, without one: the solver's kernel runs in the emulator, and torch's tensors stay
on the CPU. Launches are counted, since a small batch takes as long as it takes the host to launch its steps."""

from __future__ import annotations

import contextlib
import ctypes
from collections import Counter

import numpy as np
import pytest

from asot import gradients
from asot.exact.cuda import large_assignment, own_costs
from asot.exact.cuda.points_plan import BlockClass
from tests.simt import host, numpy_as_cupy

torch = pytest.importorskip("torch")

from torch.multiprocessing.reductions import StorageWeakRef  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from asot.gradients import cloud_plans, eager, gpu_solver, on_gpu, operations  # noqa: E402

pytestmark = host.needs_compiler


class Address(np.ndarray):
    """The memory of a tensor, which lives no longer because of that."""

    @classmethod
    def of(cls, tensor):
        if tensor is None:
            return None
        assert tensor.is_contiguous()
        assert not tensor.is_neg()
        if tensor.numel() == 0:
            return tensor.detach().numpy()
        memory = (ctypes.c_char * tensor.nbytes).from_address(tensor.data_ptr())
        kind = tensor.detach()[:0].numpy().dtype
        address = np.frombuffer(memory, dtype=kind).view(cls)
        address.owner = StorageWeakRef(tensor.untyped_storage())
        return address

    def is_free(self):
        """Whether memory belongs to nobody, or to somebody else."""
        return self.owner.expired()


@pytest.fixture
def gpu(monkeypatch):
    """Sends all problems to the emulated GPU, and counts what it is asked for."""
    numpy_as_cupy.install(monkeypatch)
    for kept in (own_costs._kernels, own_costs._all_problems, own_costs._most_points):
        kept.cache_clear()
    monkeypatch.setattr(own_costs, "CLASSES", (BlockClass(64, 64, 32, "own_costs"),))
    monkeypatch.setattr(on_gpu, "has_gpu", lambda home: True)
    monkeypatch.setattr(on_gpu, "address", Address.of)
    monkeypatch.setattr(on_gpu, "stream_of", lambda home: contextlib.nullcontext())
    original = host.launch

    def launch(lib, name, given, *more):
        freed = [t for t, each in enumerate(given) if isinstance(each, Address) and each.is_free()]
        assert not freed, f"{name} gets memory that is free, {freed}"
        original(lib, name, given, *more)

    monkeypatch.setattr(host, "launch", launch)
    asked: Counter[str] = Counter()

    def counted(where, name, label):
        original = getattr(where, name)

        def call(*arguments, **options):
            asked[label(arguments)] += 1
            return original(*arguments, **options)

        monkeypatch.setattr(where, name, call)

    import cupy

    counted(cupy, "zeros", lambda _: "fill")
    counted(numpy_as_cupy.RawKernel, "__call__", lambda given: given[0]._name)
    counted(numpy_as_cupy.DeviceArray, "get", lambda _: "wait")
    counted(on_gpu, "wait", lambda _: "wait")
    return asked


class Launches(TorchDispatchMode):
    """Counts operations of torch that write memory, and those that wait for a device."""

    def __init__(self):
        super().__init__()
        self.launched, self.waited = Counter(), 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        inside = {"asot::emd": operations._solve, "asot::clouds": cloud_plans._solve}.get(func._schema.name)
        if inside is not None:
            with self:
                return inside(*args, **kwargs)
        out = func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::")
        given = {t.untyped_storage()._cdata for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        made = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor) and t.numel()]
        is_new = any(t.untyped_storage()._cdata not in given for t in made)
        if name in ("_local_scalar_dense", "nonzero"):
            self.waited += 1
        elif (made and name.endswith("_")) or (is_new and "empty" not in name):
            self.launched[name] += 1
        return out


def problems(B=5, n=25, m=25, dtype=torch.float32):
    rng = torch.Generator().manual_seed(0)
    cost = torch.rand(B, n, m, generator=rng, dtype=dtype)
    a, b = (torch.rand(B, k, generator=rng, dtype=dtype) for k in (n, m))
    return cost, a / a.sum(1, keepdim=True), b / b.sum(1, keepdim=True)


def step(cost, a, b, leaves):
    """Values, plans and gradients in some of the tensors."""
    own = [t.detach().clone().requires_grad_(name in leaves) for t, name in zip((cost, a, b), "cab", strict=True)]
    values, plan = gradients.emd(*own, plans=True)
    (values * torch.arange(1, len(values) + 1)).sum().backward()
    return [values.detach(), plan.dense(), plan.f, plan.g, *(t.grad for t in own if t.grad is not None)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("leaves", ["c", "ab", "cab"])
def test_values_plans_and_gradients_are_those_of_the_cpu(gpu, monkeypatch, dtype, leaves):
    given = problems(3, 12, 17, dtype)
    found = step(*given, leaves)
    assert gpu["own_costs"] == 1
    monkeypatch.setattr(on_gpu, "has_gpu", lambda home: False)
    for one, two in zip(found, step(*given, leaves), strict=True):
        assert one.dtype == two.dtype
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-6)


def test_padded_and_uniform_problems(gpu, monkeypatch):
    cost = problems(4, 9, 11, torch.float64)[0]
    n, m = torch.tensor([9, 1, 0, 4]), torch.tensor([2, 11, 0, 4])
    found = gradients.emd(cost, n=n, m=m, plans=True)
    monkeypatch.setattr(on_gpu, "has_gpu", lambda home: False)
    expected = gradients.emd(cost, n=n, m=m, plans=True)
    torch.testing.assert_close(found[0], expected[0])
    torch.testing.assert_close(found[1].dense(), expected[1].dense())


def test_ragged_clouds(gpu, monkeypatch):
    rng = torch.Generator().manual_seed(1)
    x, y = (torch.randn(k, 3, generator=rng, dtype=torch.float64) for k in (20, 31))
    ends = {"x_offsets": torch.tensor([0, 4, 20]), "y_offsets": torch.tensor([0, 30, 31])}
    found = gradients.wasserstein(x, y, pairs="all", plans=True, **ends)
    monkeypatch.setattr(on_gpu, "has_gpu", lambda home: False)
    expected = gradients.wasserstein(x, y, pairs="all", plans=True, **ends)
    torch.testing.assert_close(found[0], expected[0])
    torch.testing.assert_close(found[1].mass.sum(), expected[1].mass.sum())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("power", [1, 2])
def test_costs_of_long_points_are_computed_first(gpu, monkeypatch, dtype, power):
    rng = torch.Generator().manual_seed(1)
    x, y = (torch.randn(k, 40, generator=rng, dtype=torch.float64).to(dtype) for k in (20, 31))
    masses = torch.rand(20, generator=rng, dtype=torch.float64)
    masses[:4] /= masses[:4].sum()
    masses[4:] /= masses[4:].sum()
    slack = 1e-2 if dtype == torch.bfloat16 else 1e-6

    def step():
        own = x.clone().requires_grad_()
        values, plan = gradients.wasserstein(
            own, y, x_offsets=torch.tensor([0, 4, 20]), y_offsets=torch.tensor([0, 30, 31]), a=masses.to(dtype),
            b=torch.cat([torch.full((30,), 1 / 30), torch.ones(1)]).to(dtype), p=power, plans=True,
        )  # fmt: skip
        values.sum().backward()
        for t in (0, 1):  # potentials below all costs, which prove the value
            row, column = plan.row_pair == t, plan.column_pair == t
            f, g = plan.f[row], plan.g[column]
            costs = torch.cdist(x[plan.row[row]].double(), y[plan.column[column]].double()) ** power
            assert (f[:, None] + g <= costs + 1e-9).all()
            total = (f * masses[plan.row[row]]).sum() + g.mean()
            torch.testing.assert_close(total, values[t].double() ** power, rtol=slack, atol=0.0)
        return values.detach(), plan.mass.sum(), own.grad

    found = step()
    assert gpu["price_clouds"] == gpu["own_costs"] == 1
    monkeypatch.setattr(on_gpu, "has_gpu", lambda home: False)
    for one, two in zip(found, step(), strict=True):
        assert one.dtype == two.dtype
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-6)


def test_costs_that_take_too_much_memory_are_computed_as_they_are_needed(gpu, monkeypatch):
    monkeypatch.setattr(gpu_solver, "MOST_BYTES", 8 * 2 * 5 * 6 - 1)
    rng = torch.Generator().manual_seed(1)
    x, y = (torch.randn(2, k, 40, generator=rng) for k in (5, 6))
    found = gradients.wasserstein(x, y)
    assert gpu["own_costs"] == 1
    assert gpu["price_clouds"] == 0
    monkeypatch.setattr(gpu_solver, "MOST_BYTES", 8 * 2 * 5 * 6)
    torch.testing.assert_close(gradients.wasserstein(x, y), found)
    assert gpu["price_clouds"] == 1


def test_problems_for_which_a_gpu_has_too_little_shared_memory_are_solved_on_the_cpu(gpu, monkeypatch):
    classes = [BlockClass(size, size, 32, "own_costs") for size in (64, 2048)]
    monkeypatch.setattr(own_costs, "CLASSES", tuple(classes))
    assert classes[0].least_bytes <= numpy_as_cupy.SHARED_BYTES < classes[1].least_bytes
    cost = problems(2, 3, 65, torch.float64)[0]
    values = gradients.emd(cost)
    assert not gpu["own_costs"]
    gradients.emd(cost[:, :, :64])
    assert gpu["own_costs"] == 1
    monkeypatch.setattr(on_gpu, "has_gpu", lambda home: False)
    torch.testing.assert_close(values, gradients.emd(cost))


def test_problems_of_one_class_ask_for_kernels_once(gpu):
    for size in (30, 31, 17):
        gradients.emd(problems(2, size, 5, torch.float64)[0])
    assert own_costs._kernels.cache_info().misses == 1


@pytest.fixture
def large(gpu, monkeypatch):
    """Assignments of ten points and more count as large."""
    large_assignment._function.cache_clear()
    monkeypatch.setattr(large_assignment, "THREADS", 64)
    monkeypatch.setattr(large_assignment, "LEAST_POINTS", 10)
    return gpu


def gradient_of(loss, leaf):
    own = leaf.clone().requires_grad_()
    loss(own).square().sum().backward()
    return own.grad


@pytest.mark.parametrize("p", [1, 2])
def test_large_assignments_are_the_work_of_a_whole_gpu(large, monkeypatch, p):
    rng = torch.Generator().manual_seed(1)
    x, y = (torch.randn(2, 40, 5, generator=rng, dtype=torch.float64) for _ in range(2))
    cost = torch.rand(2, 35, 35, generator=rng, dtype=torch.float64)
    losses = (
        (lambda own: gradients.wasserstein(own, y, p=p), x),
        (lambda own: gradients.emd(own), cost),
    )
    found = [gradients.assign(x, y, p=p), *(gradient_of(*each) for each in losses)]
    (values, plan), clouds = gradients.emd(cost, plans=True), gradients.wasserstein(x, y, p=p, plans=True)[1]
    assert (plan.f[:, :, None] + plan.g[:, None] <= cost + 1e-14).all()
    torch.testing.assert_close(plan.f.mean(1) + plan.g.mean(1), values)
    assert large["write_answers"] == 5
    assert large["own_costs"] == 0
    monkeypatch.setattr(on_gpu, "has_gpu", lambda home: False)
    for one, two in zip(found, [gradients.assign(x, y, p=p), *(gradient_of(*each) for each in losses)], strict=True):
        torch.testing.assert_close(one, two)
    torch.testing.assert_close(clouds.mass.sum(), torch.tensor(2.0, dtype=torch.float64))


def test_what_is_no_large_assignment_is_solved_by_blocks(large):
    cost, a, b = problems(2, 12, 12)
    gradients.emd(cost, a, b)
    gradients.emd(cost, n=torch.tensor([12, 5]), m=torch.tensor([12, 5]))
    gradients.emd(cost[:, :11])
    gradients.wasserstein(torch.rand(20, 2), torch.rand(20, 2), x_offsets=[0, 8, 20], y_offsets=[0, 8, 20])
    assert large["own_costs"] == 4
    assert large["write_answers"] == 0


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 1e308])
def test_what_large_assignments_refuse_is_the_cpus(large, wrong):
    cost = problems(2, 12, 12, torch.float64)[0]
    cost[1, 3, 4] = wrong
    if wrong == 1e308:
        torch.testing.assert_close(gradients.emd(cost)[0], gradients.emd(cost[:1])[0])
        return
    with pytest.raises(ValueError, match="problem 1: "):
        gradients.emd(cost)


@pytest.mark.parametrize("wrong", ["cost", "mass", "balance"])
def test_what_is_wrong_is_said_by_the_cpu_with_the_index(gpu, wrong):
    cost, a, b = problems()
    if wrong == "cost":
        cost[3, 1, 2] = float("nan")
    if wrong == "mass":
        a[3, 1] = -1
    if wrong == "balance":
        b[3] *= 2
    with pytest.raises(ValueError, match="problem 3: "):
        gradients.emd(cost, a, b)


@pytest.mark.parametrize(("leaves", "forward", "backward"), [("", 0, 0), ("c", 0, 0), ("cab", 4, 6)])
def test_a_step_has_few_launches_and_waits_once(gpu, monkeypatch, leaves, forward, backward):
    """Float32 is read and written as it is; potentials are filled with zeros, and rounded."""
    monkeypatch.setattr(eager, "is_watched", lambda: False)  # the mode that counts is no reason for another path
    own = [t.requires_grad_(name in leaves) for t, name in zip(problems(), "cab", strict=True)]
    gradients.emd(*own)  # constants are made
    gpu.clear()
    with Launches() as counted:
        values = gradients.emd(*own)
    assert counted.launched.total() <= forward, counted.launched
    assert gpu == {"own_costs": 1, "wait": 1}
    assert counted.waited == 0
    if leaves:
        gpu.clear()
        seed = torch.ones_like(values)
        with Launches() as counted:
            torch.autograd.grad(values, [t for t in own if t.requires_grad], seed)
        assert counted.launched.total() <= backward, counted.launched
        assert gpu == ({"write_plans": 1} if "c" in leaves else {})
        assert counted.waited == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("leaves", ["c", "ab", "cab"])
def test_what_transforms_see_has_the_same_bits(gpu, monkeypatch, dtype, leaves):
    given = problems(3, 12, 17, dtype)
    found = step(*given, leaves)
    monkeypatch.setattr(eager, "is_watched", lambda: True)
    gpu.clear()
    for one, two in zip(found, step(*given, leaves), strict=True):
        assert torch.equal(one, two)
    assert gpu["write_plans"] == 0


LOSSES = {
    "emd": lambda x, y: gradients.emd((x[:, :, None] - y[:, None]).square().sum(-1)),
    "paired": gradients.wasserstein,
    "listed": lambda x, y: gradients.wasserstein(x, y, pairs=[[0, 1], [1, 1], [2, 0]]),
    "root": lambda x, y: gradients.wasserstein(x, y, p=2),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_of_many_weights_at_a_time(gpu, loss):
    rng = torch.Generator().manual_seed(1)
    x, y = (torch.rand(3, k, 2, generator=rng).requires_grad_() for k in (4, 5))
    values, weights = LOSSES[loss](x, y), torch.rand(6, 3, generator=rng)
    batched = torch.autograd.grad(values, (x, y), weights, is_grads_batched=True, retain_graph=True)
    mapped = torch.func.vmap(lambda each: torch.autograd.grad(values, (x, y), each, retain_graph=True))(weights)
    for k, own in enumerate(weights):
        expected = torch.autograd.grad(values, (x, y), own, retain_graph=True)
        for found in (batched, mapped):
            torch.testing.assert_close([part[k] for part in found], list(expected))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["apart", "alike", "negated"])
def test_weights_that_lie_in_memory_in_other_ways(gpu, loss, kind):
    rng = torch.Generator().manual_seed(1)
    x, y = torch.rand(3, 4, 2, generator=rng, requires_grad=True), torch.rand(3, 5, 2, generator=rng)
    values, plain = LOSSES[loss](x, y), torch.rand(3, generator=rng)
    plain = torch.full((3,), 0.25) if kind == "alike" else plain
    given = {
        "apart": torch.stack([plain] * 2, 1)[:, 0],
        "alike": plain[:1].expand(3),
        "negated": torch._neg_view(-plain),
    }
    (expected,) = torch.autograd.grad(values, x, plain, retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(values, x, given[kind])[0], expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("dim", [2, 40])
@pytest.mark.parametrize("size", [5, 20])
def test_kernels_get_memory_that_is_not_free(large, dtype, dim, size):
    """Of tensors that are only made for them, too: see `Address`."""
    rng = torch.Generator().manual_seed(1)
    x, y = (torch.randn(2, size, dim, generator=rng).to(dtype).requires_grad_() for _ in range(2))
    for options in ({}, {"a": torch.full((2, size), 1 / size)}):
        values, plan = gradients.wasserstein(x, y, plans=True, **options)
        values.sum().backward()
        torch.testing.assert_close(plan.mass.sum(), torch.tensor(2.0, dtype=torch.float64))
        gradients.wasserstein(x, y, **options).sum().backward()
        gradients.emd(torch.cdist(x.float(), y.float()).to(dtype), plans=True, **options)[0].sum().backward()


def test_plans_that_are_changed_are_no_longer_those_of_the_gradient(gpu):
    x, y = torch.rand(2, 3, 4, 2).requires_grad_().unbind()
    for loss in (gradients.wasserstein, lambda *pair, **more: gradients.emd(torch.cdist(*pair), **more)):
        values, plan = loss(x, y, plans=True)
        plan.source.zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            values.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_costs_and_masses_that_lie_apart_in_memory(gpu, dtype):
    def apart(tensor):
        return tensor.repeat_interleave(2, -1)[..., ::2]

    cost, a, b = problems(3, 4, 1, dtype)
    expected = gradients.emd(cost, a, b)
    assert torch.equal(gradients.emd(apart(cost), apart(a), torch.ones(1, dtype=dtype)), expected)
    assert torch.equal(gradients.emd(torch._neg_view(-cost), torch._neg_view(-a), b), expected)
    sizes = torch.tensor([2, 4, 3])
    expected = gradients.emd(cost, n=sizes)
    assert torch.equal(gradients.emd(cost, n=apart(sizes), m=torch.ones(1, dtype=torch.int64).expand(3)), expected)
    x, y = torch.rand(2, 3, 4, 2, dtype=dtype)
    expected = gradients.wasserstein(x, y, a=a, plans=True, b=a)[0]
    assert torch.equal(gradients.wasserstein(x, y, a=apart(a), b=apart(a), plans=True)[0], expected)


def test_large_plans_have_gradients_without_the_kernel(gpu, monkeypatch):
    given = problems(2, 6, 7)
    expected = step(*given, "c")
    monkeypatch.setattr(operations, "MOST_CELLS", 41)
    gpu.clear()
    for one, two in zip(step(*given, "c"), expected, strict=True):
        assert torch.equal(one, two)
    assert gpu["write_plans"] == 0


def test_potentials_are_found_only_for_those_who_use_them(gpu, monkeypatch):
    """They read every cost twice."""
    asked = []
    original = own_costs.solve
    monkeypatch.setattr(own_costs, "solve", lambda *all_, **more: asked.append(all_[4].f_at) or original(*all_, **more))
    cost, a, b = problems()
    gradients.emd(cost, a, b)
    gradients.emd(cost.requires_grad_(), a, b)
    assert asked == [None, None]
    x, y = torch.rand(5, 25, 2), torch.rand(5, 25, 2)
    gradients.wasserstein(x, y.requires_grad_(), a=a, b=b)
    assert asked == [None, None, None]
    gradients.emd(cost, a.requires_grad_(), b)
    gradients.emd(cost, plans=True)
    gradients.wasserstein(x, y, a=a, b=b)
    gradients.wasserstein(x, y, plans=True)
    assert all(at is not None for at in asked[3:])
