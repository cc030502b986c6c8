"""Problems with costs of their own on a GPU, run by the emulator, against the CPU's batched solver and SciPy."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

import asot
from asot.exact.cuda import own_costs
from asot.exact.cuda.own_costs import DeviceClouds, DeviceMatrices, DevicePlans, DeviceSide
from asot.exact.cuda.points_plan import BlockClass
from asot.ground.metrics import CITYBLOCK, EUCLIDEAN
from tests.simt import host, numpy_as_cupy

pytestmark = host.needs_compiler
NEAR, FAR = BlockClass(64, 64, 32, "own_costs"), BlockClass(64, 64, 64, "own_costs", far_flow=True)


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(own_costs, "CLASSES", (NEAR,))  # each one is compiled for the emulator
    return functools.partial(numpy_as_cupy.install, monkeypatch)


def flat(parts):
    """Arrays one after the other, and where each begins."""
    sizes = [part.size for part in parts]
    return np.concatenate([part.ravel() for part in parts]), np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(
        np.int64
    )


def side(sizes, masses=None):
    sizes = np.asarray(sizes, dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    return DeviceSide(starts, sizes, None if masses is None else np.concatenate(masses), int(sizes.max()))


def answers(rows, columns):
    room = int(rows.sizes.sum() + columns.sizes.sum())
    values, mass = np.full(len(rows.sizes), np.nan), np.full(room, np.nan)
    source, sink = (np.full(room, -1, np.int64) for _ in range(2))
    f, g = np.zeros(int(rows.sizes.sum())), np.zeros(int(columns.sizes.sum()))
    return DevicePlans(rows.starts + columns.starts, values, source, sink, mass, rows.starts, columns.starts, f, g)


def solve_matrices(costs, a=None, b=None):
    """Values and plans of a list of matrices; all but rows of a common width are laid out anew."""
    width = max(cost.shape[1] for cost in costs)
    padded = [np.pad(cost, ((0, 0), (0, width - cost.shape[1])), constant_values=np.nan) for cost in costs]
    rows, columns = side([len(cost) for cost in costs], a), side([cost.shape[1] for cost in costs], b)
    plans = answers(rows, columns)
    wrong = own_costs.solve(len(costs), rows, columns, DeviceMatrices(*flat(padded), width), plans, 1e-6)
    return plans, rows, columns, int(wrong[0])


def assert_optimal(costs, plans, rows, columns, a, b):
    """Marginals and duality: no solver is needed for that."""
    for t, cost in enumerate(costs):
        begin, n, m = int(plans.arcs_at[t]), *cost.shape
        plan = np.zeros((n, m))
        arcs = slice(begin, begin + n + m)
        np.add.at(plan, (plans.source[arcs], plans.sink[arcs]), plans.mass[arcs])
        np.testing.assert_allclose(plan.sum(axis=1), a[t], atol=1e-15)
        np.testing.assert_allclose(plan.sum(axis=0), b[t], atol=1e-15)
        f, g = plans.f[rows.starts[t] :][:n], plans.g[columns.starts[t] :][:m]
        assert (f[:, None] + g <= cost + 1e-12 * np.abs(cost).max()).all()
        np.testing.assert_allclose(a[t] @ f + b[t] @ g, plans.values[t], rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose((plan * cost).sum(), plans.values[t], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("own", [NEAR, FAR], ids=["near", "far"])
@pytest.mark.parametrize("kind", ["random", "negative", "ties", "tiny", "huge"])
def test_plans_and_potentials_are_optimal(gpu, monkeypatch, own, kind):
    gpu()
    monkeypatch.setattr(own_costs, "CLASSES", (own,))
    rng = np.random.default_rng(0)
    shapes = [(1, 1), (1, 7), (9, 2), (20, 30), (40, 33), (17, 17)]
    costs = [rng.random(shape) for shape in shapes]
    if kind == "ties":
        costs = [np.round(3 * cost) for cost in costs]
    costs = [
        cost * {"tiny": 1e-300, "huge": 1e300}.get(kind, 1.0) - (0.7 if kind == "negative" else 0.0) for cost in costs
    ]
    a, b = ([rng.dirichlet(np.full(shape[axis], 0.4)) for shape in shapes] for axis in (0, 1))
    a[3][:4] = 0.0  # rows without mass
    a[3] /= a[3].sum()
    plans, rows, columns, wrong = solve_matrices(costs, a, b)
    assert wrong == 0
    scale = {"tiny": 1e300, "huge": 1e-300}.get(kind, 1.0)
    for array in (plans.values, plans.f, plans.g):
        array *= scale
    assert_optimal([cost * scale for cost in costs], plans, rows, columns, a, b)
    expected = [asot.emd_batch([cost * scale], [x], [y]).values[0] for cost, x, y in zip(costs, a, b, strict=True)]
    np.testing.assert_allclose(plans.values, expected, rtol=1e-11, atol=1e-14)


def test_uniform_masses_of_equal_sizes_are_assignments(gpu):
    gpu()
    rng = np.random.default_rng(1)
    costs = [rng.random((n, n)) for n in (1, 5, 40, 64)]
    plans, *_ = solve_matrices(costs)
    for t, cost in enumerate(costs):
        arcs = slice(int(plans.arcs_at[t]), int(plans.arcs_at[t]) + 2 * len(cost))
        used = plans.mass[arcs] > 0
        assert used.sum() == len(cost)
        matched = linear_sum_assignment(cost)
        assert plans.values[t] == pytest.approx(cost[matched].mean(), rel=1e-13)
        order = np.argsort(plans.source[arcs][used])
        assert np.array_equal(plans.sink[arcs][used][order], matched[1])


@pytest.mark.parametrize(("metric", "code"), [("euclidean", EUCLIDEAN), ("cityblock", CITYBLOCK)])
@pytest.mark.parametrize("power", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("dim", [5, 70])
def test_clouds(gpu, metric, code, power, dim):
    gpu()
    rng = np.random.default_rng(2)
    sizes = [(3, 8), (20, 11), (30, 30)]
    x, y = ([rng.normal(size=(pair[i], dim)) for pair in sizes] for i in (0, 1))
    rows, columns = side([n for n, _ in sizes]), side([m for _, m in sizes])
    plans = answers(rows, columns)
    costs = DeviceClouds(np.concatenate(x), np.concatenate(y), dim, code, power, np.array([1.0, 0.5, 2.0]))
    assert own_costs.solve(len(sizes), rows, columns, costs, plans, 1e-6)[0] == 0
    shrink = (1.0, 0.5, 2.0)
    matrices = [cdist(p * s, q * s, metric) ** power for p, q, s in zip(x, y, shrink, strict=True)]
    uniform = [[np.full(n, 1.0 / n) for n in side_.sizes] for side_ in (rows, columns)]
    assert_optimal(matrices, plans, rows, columns, *uniform)


@pytest.mark.parametrize("octaves", [0, -30, 30])
def test_costs_of_clouds_may_be_extreme(gpu, octaves):
    gpu()
    rng = np.random.default_rng(2)
    x, y = rng.random((2, 9, 3))
    rows, columns = side([9]), side([9])
    plans = answers(rows, columns)
    clouds = DeviceClouds(np.ldexp(x, octaves), np.ldexp(y, octaves), 3, EUCLIDEAN, 20.0, None)
    assert own_costs.solve(1, rows, columns, clouds, plans, 1e-6)[0] == 0
    for array in (plans.values, plans.f, plans.g):
        array[:] = np.ldexp(array, -20 * octaves)
    uniform = [np.full(9, 1 / 9)]
    assert_optimal([cdist(x, y) ** 20], plans, rows, columns, uniform, uniform)


@pytest.mark.parametrize("what", ["cost", "mass", "negative", "totals"])
def test_what_is_wrong_is_noticed_and_left_alone(gpu, what):
    gpu()
    rng = np.random.default_rng(3)
    costs = [rng.random((4, 6)) for _ in range(3)]
    a, b = [np.full(4, 0.25) for _ in range(3)], [np.full(6, 1 / 6) for _ in range(3)]
    if what == "cost":
        costs[1][2, 3] = np.inf
    elif what == "totals":
        a[1] = a[1] * 1.01
    else:
        a[1][0] = -0.1 if what == "negative" else np.nan
    plans, _, _, wrong = solve_matrices(costs, a, b)
    assert wrong == 1
    assert plans.values[1] == 0.0
    assert all((part[10:20] == 0).all() for part in (plans.source, plans.sink, plans.mass))
    assert (plans.values[[0, 2]] > 0).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_float32_is_read_and_written_as_it_is(gpu, weighted):
    """Padded problems, too: a problem has room for as many arcs as the largest."""
    gpu()
    rng = np.random.default_rng(5)
    costs = rng.random((4, 6, 9)).astype(np.float32)
    n, m = np.array([6, 4, 0, 1]), np.array([3, 9, 0, 1])
    rows, columns = (DeviceSide(np.arange(4) * most, sizes, None, most) for sizes, most in ((n, 6), (m, 9)))
    if weighted:
        a, b = (rng.random((4, k)).astype(np.float32) for k in (6, 9))
        a[np.arange(6) >= n[:, None]], b[np.arange(9) >= m[:, None]] = 0.0, 0.0
        b *= np.divide(a.sum(1), b.sum(1), where=m > 0, out=np.zeros(4, np.float32))[:, None]
        rows, columns = rows._replace(masses=a.ravel()), columns._replace(masses=b.ravel())

    def solved(real):
        values, source, sink = np.full(4, np.nan, real), *(np.full(60, -1, np.int64) for _ in range(2))
        plans = DevicePlans(np.arange(4) * 15, values, source, sink, np.full(60, np.nan, real), room=15)
        sides = [s._replace(masses=None if s.masses is None else s.masses.astype(real)) for s in (rows, columns)]
        given = DeviceMatrices(costs.ravel().astype(real), np.arange(4) * 54, 9)
        assert own_costs.solve(4, *sides, given, plans._replace(narrow=real == np.float32), 1e-6)[0] == 0
        return plans

    narrow, wide = solved(np.float32), solved(np.float64)
    for one, two in ((narrow.values, wide.values), (narrow.mass, wide.mass)):
        np.testing.assert_array_equal(one, two.astype(np.float32))
    for one, two in ((narrow.source, wide.source), (narrow.sink, wide.sink)):
        np.testing.assert_array_equal(one, two)
    assert (wide.mass.reshape(4, 15)[[0, 1, 3]] > 0).any(axis=1).all()
    assert (wide.values[[0, 1, 3]] > 0).all()
    assert wide.values[2] == 0.0


@pytest.mark.parametrize("never", [1e6, 1e12, 1e300])
def test_costs_that_mean_never_are_left_to_the_cpu_where_digits_are_missing(gpu, never):
    gpu()
    costs = [np.random.default_rng(seed).random((7, 7)) for seed in range(3)]
    costs[1][0, :4] = never
    assert solve_matrices(costs)[3] == (never > 1e8)


@pytest.mark.parametrize("shape", [(7, 7), (6, 9), (9, 6)])
def test_masses_that_are_all_the_same_are_shipped_as_uniform_ones_are(gpu, shape):
    gpu()
    costs = [np.random.default_rng(0).random(shape)] * 2
    expected, *_ = solve_matrices(costs)
    given = [[np.full(k, 5 / k), np.zeros(k)] for k in shape]
    plans, _, _, wrong = solve_matrices(costs, *given)
    assert wrong == 0
    np.testing.assert_allclose(plans.values, [5 * expected.values[0], 0], rtol=1e-14)
    np.testing.assert_allclose(plans.mass[: sum(shape)], 5 * expected.mass[: sum(shape)], rtol=1e-14)
    for one, two in ((plans.source, expected.source), (plans.sink, expected.sink)):
        np.testing.assert_array_equal(one[: sum(shape)], two[: sum(shape)])


def test_what_rounding_makes_of_0_is_no_reason_to_leave_a_problem_to_the_cpu(gpu):
    gpu()
    x = np.random.default_rng(0).normal(size=(9, 3))
    assert solve_matrices([cdist(x, x) + 1e-12])[3] == 0


def test_points_far_from_all_others_are_left_to_the_cpu_where_digits_are_missing(gpu):
    gpu()
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 2, 6, 2))  # in the second problem, three points of either cloud are far away
    x[1, :3] += 1e9
    y[1, :3] += 1e9
    rows, columns = side([6, 6]), side([6, 6])
    clouds = DeviceClouds(x.reshape(-1, 2), y.reshape(-1, 2), 2, EUCLIDEAN, 2.0, None)
    assert own_costs.solve(2, rows, columns, clouds, answers(rows, columns), 1e-6)[0] == 1


def test_nothing_to_ship(gpu):
    gpu()
    plans, _, _, wrong = solve_matrices(
        [np.ones((2, 3)), np.ones((3, 2))], [np.zeros(2), np.ones(3)], [np.zeros(3), np.full(2, 1.5)]
    )
    assert wrong == 0
    np.testing.assert_allclose(plans.values, [0.0, 3.0])


def test_the_order_of_threads_does_not_matter(gpu, monkeypatch):
    monkeypatch.setattr(own_costs, "CLASSES", (FAR,))
    rng = np.random.default_rng(4)
    costs, found = [np.round(rng.random((30, 25)), 1) for _ in range(3)], []
    for order in host.ORDERS:
        gpu(order_seed=order)
        found.append(solve_matrices(costs)[0])
    for other in found[1:]:
        assert all(np.array_equal(one, two) for one, two in zip(found[0], other, strict=True))


def test_more_than_there_is_room_for_is_refused(gpu):
    gpu()
    with pytest.raises(ValueError, match="up to 64 rows and columns here; found 70"):
        solve_matrices([np.ones((3, 70))])
