"""Large assignments on a GPU, run by the emulator, against SciPy and duality."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from asot.exact.cuda import large_assignment
from asot.exact.cuda.own_costs import DeviceMatrices, DevicePlans
from tests.simt import host, numpy_as_cupy

pytestmark = host.needs_compiler


@pytest.fixture(params=[(host.FORWARD, 64), (host.REVERSE, 64), (1, 256)], ids=["forward", "reverse", "random"])
def gpu(request, monkeypatch):
    order, threads = request.param
    numpy_as_cupy.install(monkeypatch, order)
    large_assignment._function.cache_clear()
    monkeypatch.setattr(large_assignment, "THREADS", threads)


def answers(count, n):
    at, places = np.arange(count) * n, np.arange(count) * 2 * n
    room = 2 * count * n
    arrays = np.zeros(count), np.zeros(room, np.int64), np.zeros(room, np.int64), np.zeros(room)
    return DevicePlans(places, *arrays, at, at, np.zeros(count * n), np.zeros(count * n))


def solve(costs):
    """Plans of costs (B, n, n), and how many are wrong."""
    count, n, _ = costs.shape
    plans = answers(count, n)
    matrices = DeviceMatrices(costs.reshape(-1), np.arange(count) * n * n, n)
    wrong = np.zeros(1, np.int32)
    large_assignment.solve(count, n, matrices, plans, wrong)
    return plans, int(wrong[0])


def assert_optimal(costs, plans):
    n = costs.shape[1]
    for t, cost in enumerate(costs):
        arcs = slice(2 * t * n, 2 * t * n + n)
        source, sink = plans.source[arcs], plans.sink[arcs]
        assert sorted(source) == sorted(sink) == list(range(n))
        np.testing.assert_array_equal(plans.mass[arcs], 1 / n)
        np.testing.assert_array_equal(plans.mass[arcs.stop : arcs.stop + n], 0)
        scale = np.abs(cost).max()
        value, best = cost[source, sink].mean(), cost[linear_sum_assignment(cost)].mean()
        np.testing.assert_allclose(value, best, rtol=0, atol=1e-15 * scale)
        np.testing.assert_allclose(plans.values[t], best, rtol=0, atol=1e-15 * scale)
        f, g = plans.f[t * n :][:n], plans.g[t * n :][:n]
        assert (f[:, None] + g <= cost + 1e-15 * scale).all()
        np.testing.assert_allclose(f.mean() + g.mean(), best, rtol=0, atol=1e-15 * scale)


KINDS = {
    "uniform": lambda rng, n: rng.random((2, n, n)),
    "negative": lambda rng, n: rng.normal(size=(2, n, n)) - 3.0,
    "grid": lambda rng, n: np.abs(rng.integers(0, 5, (2, n, 1)) - rng.integers(0, 5, (2, 1, n))).astype(float),
    "equal": lambda rng, n: np.full((2, n, n), 0.3),
    "zero": lambda rng, n: np.zeros((2, n, n)),
    "line": lambda rng, n: np.abs(rng.normal(size=(2, n, 1)) - rng.normal(size=(2, 1, n))) ** 2,
    "tiny": lambda rng, n: rng.random((2, n, n)) * 1e-300,
    "huge": lambda rng, n: rng.random((2, n, n)) * 4e307,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 40])
def test_assignments_and_potentials_are_optimal(gpu, kind, n):
    costs = KINDS[kind](np.random.default_rng(n), n)
    plans, wrong = solve(costs)
    assert wrong == 0
    assert_optimal(costs, plans)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308])
def test_a_problem_with_a_cost_that_is_none_is_left_out_and_the_others_are_solved(gpu, bad):
    costs = np.random.default_rng(0).random((3, 40, 40))
    costs[1, 7, 5] = bad
    plans, wrong = solve(costs)
    assert wrong == 1
    assert (plans.mass[80:160] == 0).all()
    assert plans.values[1] == 0
    plans, _ = solve(costs[[0, 2]])
    assert_optimal(costs[[0, 2]], plans)


def test_costs_beside_one_that_means_never_are_left_to_the_cpu(gpu):
    rng = np.random.default_rng(0)
    costs = np.stack([np.where(rng.random((40, 40)) < 0.1, 1e15, rng.random((40, 40))), rng.random((40, 40))])
    assert solve(costs)[1] == 1
    assert solve(np.where(costs == 1e15, 1e20, costs))[1] == 1
    costs[0] = np.where(costs[0] == 1e15, 1e3, costs[0])
    plans, wrong = solve(costs)
    assert wrong == 0
    assert_optimal(costs, plans)


def test_a_long_search_asks_more_than_once(gpu, monkeypatch):
    monkeypatch.setattr(large_assignment, "ROUNDS", 6)
    costs = KINDS["line"](np.random.default_rng(5), 60)
    assert_optimal(costs, solve(costs)[0])


def test_few_large_problems_are_taken():
    assert large_assignment.takes(1, 4096)
    assert not large_assignment.takes(1, 100)
    assert not large_assignment.takes(64, 1024)
    assert not large_assignment.takes(1, 10**5)
