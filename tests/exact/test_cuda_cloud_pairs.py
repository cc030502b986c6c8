"""Values and gradients of pairs of clouds on a GPU, run by the emulator, against plain NumPy and finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from asot.exact.cuda import cloud_pairs
from asot.exact.cuda.cloud_pairs import DeviceClouds, DevicePlans, Form
from tests.simt import host, numpy_as_cupy

pytestmark = host.needs_compiler

ROWS, COLUMNS = np.array([3, 1, 19]), np.array([2, 33, 5])
ARCS_AT = np.cumsum(ROWS + COLUMNS) - ROWS - COLUMNS
PAIR = np.arange(3).repeat(ROWS + COLUMNS)


@pytest.fixture(autouse=True, params=[host.FORWARD, host.REVERSE])
def gpu(monkeypatch, request):
    numpy_as_cupy.install(monkeypatch, request.param)


def problem(dim, dtype, power, order):
    """Points of two sides, and arcs; some ship nothing, and one joins equal points."""
    rng = np.random.default_rng(dim)
    x, y = (rng.normal(size=(sizes.sum(), dim)).astype(dtype) for sizes in (ROWS, COLUMNS))
    source, sink = (rng.integers(0, sizes[PAIR]) for sizes in (ROWS, COLUMNS))
    mass = rng.random(len(PAIR)) * (rng.random(len(PAIR)) < 0.6)
    mass[0], source[0], sink[0] = 0.5, 0, 0
    x[0] = y[0]
    prices, totals = np.full(len(PAIR), np.nan), np.full(3, np.nan)
    plans = DevicePlans(3, ARCS_AT, source, sink, mass, prices, totals)
    return x, y, plans, Form(dim, "float" if dtype == np.float32 else "double", power, order)


def clouds(points, sizes):
    return DeviceClouds(points, np.cumsum(sizes) - sizes, sizes, int(sizes.max()))


def values(x, y, plans, form):
    gap = x[(np.cumsum(ROWS) - ROWS)[PAIR] + plans.source].astype(float)
    gap = gap - y[(np.cumsum(COLUMNS) - COLUMNS)[PAIR] + plans.sink]
    prices = np.where(plans.mass > 0, np.linalg.norm(gap, axis=1) ** form.power, 0.0)
    totals = np.bincount(PAIR, plans.mass * prices)
    return prices, totals, totals ** (1 / form.order)


def on_gpu(x, y, plans, form):
    found = np.full(3, np.nan, dtype=x.dtype)
    cloud_pairs.price(clouds(x, ROWS), clouds(y, COLUMNS), plans, form, found, np.zeros(1, np.int32))
    return found


@pytest.mark.parametrize(("power", "order"), [(1.0, 1.0), (2.0, 2.0), (1.5, 1.5), (2.0, 1.0), (6.0, 3.0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [1, 33, 300])
def test_values_are_roots_of_what_arcs_cost(dim, dtype, power, order):
    x, y, plans, form = problem(dim, dtype, power, order)
    found = on_gpu(x, y, plans, form)
    assert found.dtype == dtype
    prices, totals, expected = values(x, y, plans, form)
    np.testing.assert_allclose(plans.prices, prices, rtol=1e-13)
    np.testing.assert_allclose(plans.totals, totals, rtol=1e-13)
    np.testing.assert_allclose(found, expected, rtol=1e-13 if dtype == np.float64 else 1e-7)


def test_a_pair_without_mass_has_no_value_and_no_gradient():
    x, y, plans, form = problem(2, np.float64, 2.0, 2.0)
    plans.mass[PAIR == 1] = 0.0
    assert on_gpu(x, y, plans, form)[1] == 0.0
    gradient = np.full_like(y, np.nan)
    far = plans._replace(source=plans.sink, sink=plans.source)
    cloud_pairs.differentiate(clouds(y, COLUMNS), clouds(x, ROWS), far, form, np.ones(3), 1, gradient)
    assert (gradient[2:35] == 0.0).all()
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize(("power", "order"), [(1.0, 1.0), (2.0, 2.0), (1.5, 1.5), (2.0, 1.0), (6.0, 3.0)])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("step", [0, 1])
def test_gradients_are_finite_differences(power, order, side, step):
    x, y, plans, form = problem(33, np.float64, power, order)
    if power == 1.0:
        plans.mass[0] = 0.0  # |x| has no derivative at 0
    on_gpu(x, y, plans, form)
    both, sizes = [x, y], [ROWS, COLUMNS]
    weights = np.array([0.5, -2.0, 0.0])[: 3 if step else 1]
    each = weights if step else np.full(3, 0.5)
    gradient = np.full_like(both[side], np.nan)
    near = plans if side == 0 else plans._replace(source=plans.sink, sink=plans.source)
    own, other = (clouds(both[s], sizes[s]) for s in (side, 1 - side))
    cloud_pairs.differentiate(own, other, near, form, weights, step, gradient)
    rng = np.random.default_rng(1)
    for _ in range(20):
        at, size = (int(rng.integers(len(both[side]))), int(rng.integers(33))), 1e-6
        moved = [[part.copy() for part in both] for _ in range(2)]
        moved[0][side][at] += size
        moved[1][side][at] -= size
        up, down = (float(each @ values(*points, plans, form)[2]) for points in moved)
        assert gradient[at] == pytest.approx((up - down) / (2 * size), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(
    ("gap", "power", "refused"),
    [(1.0, 2.0, False), (0.0, 2.0, False), (1e-200, 1.0, True), (1e-100, 1.0, False), (1e-30, 8.0, False),
     (1e-31, 8.0, True), (1e155, 2.0, True), (1e150, 2.0, False)],
)  # fmt: skip
def test_prices_that_have_lost_digits_are_noticed(gap, power, refused):
    x, y, plans, form = problem(2, np.float64, power, power)
    for part in (x, y):
        part[:, 0], part[:, 1] = 1.0, 0.0
    y[: COLUMNS[0], 1] = gap
    y[COLUMNS[0] :, 1] = min(gap, 1.0)
    found, said = np.full(3, np.nan), np.zeros(1, np.int32)
    cloud_pairs.price(clouds(x, ROWS), clouds(y, COLUMNS), plans, form, found, said)
    assert bool(said[0]) == refused


@pytest.mark.parametrize(
    ("value", "refused"),
    [(1.0, False), (np.nan, True), (np.inf, True), (-np.inf, True), (2.0**20, True), (-(2.0**20), True),
     (2.0**20 - 1, False), (2.0**-21, False), (2.0**-22, True), (0.0, False)],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("side", [0, 1])
def test_what_is_not_finite_or_of_another_size_is_noticed(value, refused, dtype, side):
    points = [np.zeros((sizes.sum(), 3), dtype) for sizes in (ROWS, COLUMNS)]
    for part in points:
        part[-1] = 1.0
    points[side][1, 2] = value  # of the first pair, which has nothing else
    said = np.zeros(1, np.int32)
    both = (clouds(part, sizes) for part, sizes in zip(points, (ROWS, COLUMNS), strict=True))
    form = Form(3, "float" if dtype == np.float32 else "double", 1.0, 1.0)
    cloud_pairs.look(*both, 3, form, (2.0**-21, 2.0**20), said)
    assert bool(said[0]) == refused
