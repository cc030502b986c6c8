"""Prices of arcs and their gradients on a GPU, run by the emulator, against plain NumPy and finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from asot.exact.cuda import cloud_arcs
from asot.exact.cuda.cloud_arcs import DeviceArcs, DeviceEnds, DevicePoints
from tests.simt import host, numpy_as_cupy

pytestmark = host.needs_compiler

REAL = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    numpy_as_cupy.install(monkeypatch)


def on_device(points):
    return DevicePoints(points, *points.shape, REAL[points.dtype])


def problem(dim, dtype, power, seed=0):
    """Points of two sides, and arcs of three pairs; one joins equal points, one ships nothing."""
    rng = np.random.default_rng(seed)
    x, y = (rng.normal(size=(n, dim)).astype(dtype) for n in (9, 7))
    count = 21
    source, sink, pair = (rng.integers(0, most, count) for most in (8, 7, 3))  # no arc has the last source
    mass = rng.random(count)
    x[source[0]] = y[sink[0]]
    mass[1] = 0.0
    return x, y, DeviceArcs(count, source, sink, pair, mass, *[np.array([1.0, 0.25, 2.0])] * 2, power)


def prices(x, y, arcs):
    shrink = arcs.shrink[arcs.pair][:, None]
    gap = x[arcs.source].astype(np.float64) * shrink - y[arcs.sink].astype(np.float64) * shrink
    return np.where(arcs.mass > 0, (gap**2).sum(axis=1) ** (arcs.power / 2), 0.0)


def on_gpu(x, y, arcs):
    out = np.full(arcs.size, np.nan)
    cloud_arcs.price(on_device(x), on_device(y), arcs, out)
    return out


def gradient(own, other, arcs, ends, weights):
    near, far = ends
    order = np.argsort(near, kind="stable")
    last = np.searchsorted(near[order], np.arange(len(own)), side="right")
    out = np.full_like(own, np.nan)
    of_points = DeviceEnds(order, last, far)
    cost = prices(own, other, arcs) if near is arcs.source else prices(other, own, arcs)
    cloud_arcs.differentiate(on_device(own), on_device(other), arcs, of_points, cost, weights, out)
    return out


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [1, 3, 33, 300])
def test_prices_are_distances_to_a_power(dim, dtype, power):
    x, y, arcs = problem(dim, dtype, power)
    np.testing.assert_allclose(on_gpu(x, y, arcs), prices(x, y, arcs), rtol=1e-13)


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("dim", [1, 3, 300])
@pytest.mark.parametrize("side", [0, 1])
def test_gradients_are_finite_differences(side, dim, power):
    x, y, arcs = problem(dim, np.float64, power)
    rng = np.random.default_rng(1)
    weights = rng.normal(size=arcs.size) * (arcs.mass > 0)
    weights[0] = 0.0 if power == 1.0 else weights[0]  # |x| has no derivative at 0
    both, ends = [x, y], (arcs.source, arcs.sink)
    found = gradient(both[side], both[1 - side], arcs, (ends[side], ends[1 - side]), weights)
    step = 1e-6
    rounding = 1e-15 * float(np.abs(weights) @ prices(x, y, arcs)) / step
    for _ in range(20):
        at = int(rng.integers(len(both[side]))), int(rng.integers(dim))
        moved = [[one.copy() for one in both] for _ in range(2)]
        moved[0][side][at] += step
        moved[1][side][at] -= step
        up, down = (float(weights @ prices(*each, arcs)) for each in moved)
        assert found[at] == pytest.approx((up - down) / (2 * step), rel=1e-6, abs=1e-7 + rounding)
    if side == 0:
        assert (found[8] == 0).all()


def test_equal_points_and_arcs_without_mass_have_no_gradient():
    x, y, arcs = problem(3, np.float64, 1.0)
    weights = np.zeros(arcs.size)
    weights[0] = 1.0
    assert (gradient(x, y, arcs, (arcs.source, arcs.sink), weights) == 0).all()
    assert on_gpu(x, y, arcs)[1] == 0.0


def test_float32_gradients_are_rounded_once():
    x, y, arcs = problem(40, np.float32, 1.0)
    weights = np.random.default_rng(2).normal(size=arcs.size)
    found = gradient(x, y, arcs, (arcs.source, arcs.sink), weights)
    wide = gradient(*(one.astype(np.float64) for one in (x, y)), arcs, (arcs.source, arcs.sink), weights)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, wide.astype(np.float32))
