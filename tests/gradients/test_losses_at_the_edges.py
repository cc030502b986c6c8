"""`asot.gradients.emd`, `wasserstein`, `assign` where losses usually break: dtypes, scales, nothing at all, and what
torch does to functions."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import asot

torch = pytest.importorskip("torch")
gradients = asot.gradients


def clouds(*sizes, seed=0, d=3, B=2):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(B, n, d, generator=generator, dtype=torch.float64) for n in sizes]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_values_are_rounded_once_to_the_dtype_given(dtype):
    x, y = (part.to(dtype).requires_grad_() for part in clouds(20, 30))
    a, b = (torch.rand(2, n, generator=torch.Generator().manual_seed(n)).to(dtype).softmax(1) for n in (20, 30))
    value = gradients.wasserstein(x, y)
    assert torch.equal(value, gradients.wasserstein(x.double(), y.double()).to(dtype))
    weighted = gradients.wasserstein(x, y, a=a, b=b)  # totals differ by the rounding of the dtype
    cost = torch.cdist(x.double(), y.double()).to(dtype)
    assert torch.equal(gradients.emd(cost), gradients.emd(cost.double()).to(dtype))
    (value.sum() + weighted.sum() + gradients.emd(cost, a, b).sum()).backward()
    assert x.grad.dtype == dtype
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("scale", [1e-250, 1e-170, 1e-60, 1e60, 1e170, 1e250])
@pytest.mark.parametrize(("p", "metric"), [(1, "euclidean"), (2, "euclidean"), (5.5, "chebyshev"), (1, "cityblock")])
def test_points_of_any_scale(scale, p, metric):
    x, y = clouds(6, 7)
    big = (x * scale).requires_grad_()
    value = gradients.wasserstein(big, y * scale, p=p, metric=metric)
    torch.testing.assert_close(value / scale, gradients.wasserstein(x, y, p=p, metric=metric), rtol=1e-13, atol=0)
    (gradient,) = torch.autograd.grad(value.sum(), big)
    (plain,) = torch.autograd.grad(gradients.wasserstein(x.requires_grad_(), y, p=p, metric=metric).sum(), x)
    torch.testing.assert_close(gradient, plain, rtol=1e-12, atol=1e-14)
    assert torch.equal(gradients.assign(x * scale, x * scale), torch.arange(6).expand(2, 6))


@pytest.mark.parametrize(
    ("size", "gap", "p", "metric"),
    [(2.0**996, 2.0**-27, 7, "euclidean"), (2.0**996, 2.0**-27, 7, "chebyshev"), (2.0**930, 2.0**-27, 2, "cityblock"),
     (2.0**465, 2.0**-27, 3, "sqeuclidean"), (1.0, 2.0**-23, 50, "euclidean"), (1.0, 2.0**-10, 400, "cityblock"),
     (2.0**996, 2.0**-10, 150, "euclidean"),
     (1.0, 2.0**-600, 2, "euclidean"), (2.0**-400, 2.0**-600, 2, "euclidean"), (2.0**1000, 2.0**-1000, 1, "euclidean")],
)  # fmt: skip
def test_distances_that_are_small_beside_coordinates(size, gap, p, metric):
    """All points lie ``size`` away from the origin, and small integers times ``step`` from each other."""
    step = size * gap
    steps = [part.mul(4).round() for part in clouds(6, 7)]
    for part in steps:
        part[:, :, 0] = 0
    places = [part * step for part in steps]
    for part in places:
        part[:, :, 0] = size
        if gap > 1e-12:
            part[:, :, 1] += size
    values, slopes = [], []
    for x, y in (places, steps):
        values.append(gradients.wasserstein(x.requires_grad_(), y, p=p, metric=metric))
        slopes.append(torch.autograd.grad(values[-1].sum(), x)[0])
    square = step if metric == "sqeuclidean" else 1.0
    torch.testing.assert_close(values[0] / step / square, values[1], rtol=1e-12, atol=0)
    torch.testing.assert_close(slopes[0] / square, slopes[1], rtol=1e-10, atol=1e-14)


def test_small_distances_to_a_large_power_are_those_of_pairwise_exact():
    points = torch.tensor([[1.0], [1 + 1e-7], [1 + 5e-7]], dtype=torch.float64)
    value = gradients.wasserstein(points, points + 1e-7, p=50)
    D = asot.Distributions.from_list([points.numpy(), points.numpy() + 1e-7])
    assert float(value) == pytest.approx(asot.pairwise_exact(D, p=50).values[0], rel=1e-12)


def test_pairs_of_many_distances_in_one_call():
    x, y = clouds(6, 7)
    scale = torch.tensor([1.0, 2.0**-30], dtype=torch.float64)[:, None, None]
    all_pairs = gradients.wasserstein(x * scale, y * scale, p=40, pairs="all")
    for value, (i, j) in zip(all_pairs, [(0, 0), (0, 1), (1, 0), (1, 1)], strict=True):
        assert torch.equal(value, gradients.wasserstein(x[i] * scale[i], y[j] * scale[j], p=40))
    assert all_pairs[3] > 0


def test_problems_of_two_scales_in_one_batch():
    x, y = clouds(6, 7)
    scale = torch.tensor([1e-200, 1e200], dtype=torch.float64)[:, None, None]
    values = gradients.wasserstein(x * scale, y * scale, p=2) / scale[:, 0, 0]
    torch.testing.assert_close(values, gradients.wasserstein(x, y, p=2), rtol=1e-13, atol=0)


@pytest.mark.parametrize("p", [1, 2])
def test_without_mass_value_and_gradients_are_zero(p):
    x, y = (part.requires_grad_() for part in clouds(3, 4))
    a = torch.tensor([[0.0, 0, 0], [1, 1, 1]], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([[0.0, 0, 0, 0], [3, 0, 0, 0]], dtype=torch.float64, requires_grad=True)
    cost = torch.cdist(x, y).detach().requires_grad_()
    for value, tensors in (
        (gradients.wasserstein(x, y, a=a, b=b, p=p), (x, y, a, b)),
        (gradients.emd(cost, a, b), (cost, a, b)),
    ):
        assert value[0] == 0
        for gradient in torch.autograd.grad(value.sum(), tensors):
            assert not gradient[0].any()
            assert gradient.isfinite().all()


def test_nothing_is_an_answer_to_nothing():
    assert gradients.emd(torch.zeros(0, 3, 3)).shape == (0,)
    assert gradients.wasserstein(torch.zeros(0, 3, 2), torch.zeros(0, 4, 2)).shape == (0,)
    assert gradients.assign(torch.zeros(0, 3, 2), torch.zeros(0, 3, 2)).shape == (0, 3)
    assert gradients.wasserstein(torch.rand(2, 3, 2), torch.zeros(0, 3, 2), pairs="all").shape == (0,)
    assert gradients.emd(torch.rand(2, 3, 3), n=torch.tensor([0, 3]), m=torch.tensor([0, 3]))[0] == 0
    none = torch.tensor([0, 0, 3])
    ragged = gradients.wasserstein(
        torch.rand(3, 2), torch.rand(3, 2), x_offsets=none, y_offsets=none, a=torch.ones(3), b=torch.ones(3)
    )
    assert ragged[0] == 0


@pytest.mark.parametrize(
    ("p", "metric", "scale"), [(1, "euclidean", 1.0), (2, "cityblock", 1.0), (2, "euclidean", 1e90)]
)
def test_plans_and_potentials_of_clouds_add_up_to_the_value(p, metric, scale):
    (x, y), offsets = (part * scale for part in clouds(5, 6, B=1)), torch.tensor([0, 2, 5])
    a, b = torch.tensor([1.0, 1, 2, 0, 0]).double(), torch.tensor([2.0, 1, 1, 0, 0, 0]).double()
    bounds = {"x_offsets": offsets, "y_offsets": torch.tensor([0, 1, 6])}
    values, plan = gradients.wasserstein(x[0], y[0], **bounds, a=a, b=b, p=p, metric=metric, plans=True)
    assert torch.equal(values, gradients.wasserstein(x[0], y[0], **bounds, a=a, b=b, p=p, metric=metric))
    norm = 1 if metric == "cityblock" else 2
    cost = torch.cdist(x[0], y[0], p=norm) ** p
    shipped = torch.zeros(2, dtype=torch.float64).index_add(0, plan.pair, plan.mass * cost[plan.source, plan.sink])
    torch.testing.assert_close(shipped, values**p, rtol=1e-12, atol=0)
    proven = torch.zeros(2, dtype=torch.float64).index_add(0, plan.row_pair, plan.f * a[plan.row])
    proven = proven.index_add(0, plan.column_pair, plan.g * b[plan.column])
    torch.testing.assert_close(proven, values**p, rtol=1e-9, atol=0)
    for k in range(2):
        first, second = plan.row_pair == k, plan.column_pair == k
        slack = cost[plan.row[first]][:, plan.column[second]] - plan.f[first][:, None] - plan.g[second]
        assert slack.min() >= -1e-13 * cost.max()


def test_strides_do_not_matter():
    cost = torch.rand(4, 5, 3, dtype=torch.float64).requires_grad_()
    turned = gradients.emd(cost.transpose(1, 2))
    assert torch.equal(turned, gradients.emd(cost.transpose(1, 2).contiguous()))
    turned.sum().backward()
    assert torch.allclose(cost.grad.sum((1, 2)), torch.ones(4, dtype=torch.float64))
    x, y = torch.rand(3, 4, 5).permute(1, 2, 0), torch.rand(4, 5, 3)
    assert torch.equal(gradients.wasserstein(x, y), gradients.wasserstein(x.contiguous(), y))


def test_functions_of_torch_go_through_clouds():
    (x, y), (other, _) = clouds(5, 6, B=4), clouds(5, 6, B=4, seed=1)
    a = torch.rand(4, 5, dtype=torch.float64).softmax(1)

    def loss(x, y, a):
        return gradients.wasserstein(x, y, a=a, p=2).sum()

    x.requires_grad_()
    (plain,) = torch.autograd.grad(loss(x, y, a), x)
    x = x.detach()
    assert torch.equal(torch.func.grad(loss)(x, y, a), plain)
    assert torch.allclose(torch.func.vmap(torch.func.grad(loss))(x, y, a), plain, atol=1e-15)
    each = torch.func.vmap(lambda x: gradients.wasserstein(x, y, pairs="all"))(torch.stack([x, other]))
    assert torch.equal(each[1], gradients.wasserstein(other, y, pairs="all"))
    paired = torch.func.vmap(gradients.assign)(torch.stack([x, other]), torch.stack([other, x]))
    assert torch.equal(paired[1], gradients.assign(other, x))
    jacobian = torch.func.jacrev(lambda x: gradients.wasserstein(x, y))(x)
    assert jacobian.shape == (4, 4, 5, 3)
    assert not jacobian[0, 1].any()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # what torch's own compiler does
def test_torch_compiles_clouds_as_one_graph():
    x, y = clouds(5, 6)
    x.requires_grad_()

    def loss(x):
        return gradients.wasserstein(2 * x, y, p=2).sum()

    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)(x)
    (gradient,) = torch.autograd.grad(compiled, x)
    (plain,) = torch.autograd.grad(loss(x), x)
    assert torch.allclose(gradient, plain, rtol=1e-14, atol=0)
    assert gradients.wasserstein(x.to("meta"), y.to("meta")).shape == (2,)
    assert gradients.emd(torch.rand(3, 4, 5, device="meta")).shape == (3,)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torch_compiles_costs_as_one_graph_and_maps_their_gradients():
    cost = torch.rand(3, 4, 5, dtype=torch.float64, requires_grad=True)

    def loss(cost):
        return gradients.emd(2 * cost).sum()

    (plain,) = torch.autograd.grad(loss(cost), cost)
    (compiled,) = torch.autograd.grad(torch.compile(loss, backend="aot_eager", fullgraph=True)(cost), cost)
    assert torch.equal(compiled, plain)
    assert torch.equal(torch.func.vmap(torch.func.grad(loss))(torch.stack([cost, cost]))[1], plain)
    jacobian = torch.func.jacrev(lambda cost: gradients.emd(2 * cost))(cost)
    assert torch.equal(jacobian.sum(0), plain)
    assert not jacobian[0, 1].any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, y: gradients.wasserstein(x, y, a=torch.ones(5, 2)), r"a must have shape \(2, 5\)"),
        (lambda x, y: gradients.wasserstein(x, y.to("meta")), "x is on cpu, but y is on meta"),
        (lambda x, y: gradients.wasserstein(x, y, p="2"), "p must be a finite number"),
        (lambda x, y: gradients.wasserstein(x, y, a=torch.full((2, 5), torch.nan)), "problem 0: a holds the mass nan"),
        (lambda x, y: gradients.wasserstein(x, y, a=torch.full((2, 5), torch.inf)), "problem 0: a holds the mass inf"),
        (
            lambda x, y: gradients.wasserstein(x, y, a=torch.full((2, 5), 1e308, dtype=torch.float64)),
            "problem 0: the total of a overflows",
        ),
        (lambda x, y: gradients.wasserstein(x, y, a=torch.zeros(2, 5)), "problem 0: the masses of its rows have"),
        (
            lambda x, y: gradients.emd(torch.rand(2, 3, 3), b=torch.rand(2, 3, device="meta")),
            "cost is on cpu, but b is on",
        ),
        (
            lambda x, y: gradients.emd(torch.rand(2, 3, 3), torch.tensor([[1.0, 1, 1], [1, 1, 2]]), torch.ones(2, 3)),
            "problem 1: the masses of its rows have the total 4",
        ),
        (lambda x, y: gradients.emd(torch.rand(2, 3, 3), m=torch.tensor([3, -1])), "problem 1: m is -1"),
        (lambda x, y: gradients.emd(torch.rand(2, 3, 3), n=torch.tensor([3, 0])), "problem 1 has 0 rows and 3 columns"),
        (lambda x, y: gradients.emd(torch.rand(2, 0, 3)), "problem 0 has 0 rows and 3 columns"),
        (lambda x, y: gradients.emd(torch.rand(2, 2, 2), n="2"), "n must be an integer tensor .*; found str"),
        (lambda x, y: gradients.emd(torch.rand(2, 2, 2), n=torch.ones(2) * 1j), "found complex64"),
        (lambda x, y: gradients.emd(torch.rand(2, 2).to_sparse()), "cost must be a dense tensor, not sparse_coo"),
        (lambda x, y: gradients.emd(torch.rand(2, 2).to(torch.float8_e5m2)), "of 16 to 64 bits, not float8_e5m2"),
        (
            lambda x, y: gradients.emd(torch.rand(4, 5), torch.ones(1, 4)),
            r"a must be a tensor \(4,\); found .* \(1, 4\)",
        ),
        (lambda x, y: gradients.wasserstein(x, y, p=None), "p must be a finite number"),
        (
            lambda x, y: gradients.wasserstein(x[0], y[0], x_offsets="05", y_offsets=[0, 6]),
            "x_offsets must be a vector of integers .*; found str",
        ),
        (
            lambda x, y: gradients.wasserstein(x[0], y[0], x_offsets=[0, 4, 3, 5], y_offsets=[0, 1, 2, 6]),
            "problem 1: x_offsets must ascend; found 3 after 4",
        ),
        (lambda x, y: gradients.wasserstein(x.long(), y), "x must be floating point, not int64"),
        (lambda x, y: gradients.assign(x[:, :0], y[:, :0]), "problem 0: its cloud in x has no points"),
        (lambda x, y: gradients.emd(torch.rand(2, 2, 2), n=torch.tensor([True, True])), "found bool"),
        (lambda x, y: gradients.emd(torch.rand(2, 2, 2), n=torch.ones(2, dtype=int, device="meta")), "n is on meta"),
    ],
)
def test_bad_input_is_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call(*clouds(5, 6))


def test_who_calls_with_no_cost_is_told_so():
    with pytest.raises(TypeError, match="cost must be a torch tensor, not NoneType"):
        gradients.emd(None)


@pytest.mark.parametrize("B", [0, 1, 3])
def test_masses_of_one_problem_are_those_of_all(B):
    """The last batch of an epoch may hold a single problem."""
    cost = torch.rand(B, 4, 5, dtype=torch.float64)
    a = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64, requires_grad=True)
    values = gradients.emd(cost, a)
    values.sum().backward()
    assert torch.equal(values, gradients.emd(cost, a.expand(B, 4)))
    assert a.grad.shape == (4,)


def test_what_is_wrong_with_a_cloud_is_said_by_the_pair_that_it_is_in():
    x, y = clouds(5, 6)
    x[1, 3, 0] = torch.nan
    with pytest.raises(ValueError, match="problem 2: point 3 of its cloud in x is not finite"):
        gradients.wasserstein(x, y, pairs=[[0, 0], [0, 1], [1, 0]])
    with pytest.raises(ValueError, match="point 3 of cloud 1 in x is not finite"):
        gradients.wasserstein(x, y, pairs=[[0, 0]])


def test_only_clouds_that_are_in_a_pair_need_points():
    x, y = torch.rand(5, 2), torch.rand(4, 2)
    given = {"x_offsets": [0, 2, 2, 5], "y_offsets": [0, 4]}
    values = gradients.wasserstein(x, y, pairs=[[2, 0], [0, 0]], **given)
    assert torch.equal(values[1], gradients.wasserstein(x[:2], y))
    with pytest.raises(ValueError, match="problem 1: its cloud in x has no points"):
        gradients.wasserstein(x, y, pairs="all", **given)


def test_a_map_over_nothing_gives_nothing():
    assert torch.vmap(gradients.emd)(torch.rand(0, 3, 4, 5)).shape == (0, 3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_defaults_of_torch_change_nothing(dtype):
    """Who trains on a GPU may have made it the default device; tensors say where they are themselves."""
    x, y = clouds(5, 6)
    ragged = {"x_offsets": [0, 2, 5], "y_offsets": [0, 4, 6]}

    def answers():
        return [
            gradients.emd(torch.cdist(x, y), n=[5, 3], plans=True)[1].mass,
            gradients.wasserstein(x, y, p=2),
            gradients.wasserstein(x, y, pairs="all"),
            gradients.wasserstein(x[0], y[0], pairs=[[0, 1]], **ragged),
            gradients.assign(x, y[:, :5]),
            torch.vmap(gradients.wasserstein)(x[None], y[None]),
        ]

    expected = answers()
    usual = torch.get_default_dtype()
    try:
        torch.set_default_dtype(dtype)
        with torch.device("meta"):
            found = answers()
    finally:
        torch.set_default_dtype(usual)
    for one, two in zip(found, expected, strict=True):
        assert torch.equal(one, two)


def test_arrays_of_sizes_may_change_after_the_loss():
    a = torch.tensor([[0.5, 0.5, 0.0], [0.3, 0.3, 0.4]], requires_grad=True)
    sizes = np.array([2, 3])
    values = gradients.emd(torch.rand(2, 3, 4), a, n=sizes)
    (expected,) = torch.autograd.grad(values.sum(), a, retain_graph=True)
    sizes[:] = 1
    assert torch.equal(torch.autograd.grad(values.sum(), a)[0], expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_that_are_negated_only_when_they_are_read(dtype):
    cost = torch.rand(2, 3, 4, dtype=dtype)
    assert torch.equal(gradients.emd(torch._neg_view(cost)), gradients.emd(-cost))
    x, y = torch.rand(2, 2, 3, 4, dtype=dtype)
    assert torch.equal(gradients.wasserstein(torch._neg_view(x), y), gradients.wasserstein(-x, y))


def test_first_losses_do_not_wait_for_torchs_compiler():
    """An operation of torch imports it when it is first called, which takes a second."""
    code = (
        "import sys, torch, asot; x = torch.rand(2, 5, 3, requires_grad=True); y = torch.rand(2, 5, 3); "
        "asot.gradients.wasserstein(x, y).sum().backward(); asot.gradients.assign(x, y); "
        "asot.gradients.emd(torch.cdist(x, y)).sum().backward(); print('torch._dynamo' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
