"""Costs between long points on a GPU, run by the emulator, against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from asot.exact.cuda import cloud_costs
from asot.exact.cuda.own_costs import DeviceClouds, DeviceSide
from asot.ground.metrics import CHEBYSHEV, CITYBLOCK, EUCLIDEAN
from tests.simt import host, numpy_as_cupy

pytestmark = host.needs_compiler


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    numpy_as_cupy.install(monkeypatch)


@pytest.mark.parametrize(
    ("code", "name", "power"),
    [(EUCLIDEAN, "euclidean", 1.0), (EUCLIDEAN, "euclidean", 2.0), (CITYBLOCK, "cityblock", 1.5),
     (CHEBYSHEV, "chebyshev", 2.0)],
)  # fmt: skip
@pytest.mark.parametrize("real", ["float", "double"])
@pytest.mark.parametrize("dim", [1, 16, 37])
def test_costs_are_distances_to_a_power(code, name, power, real, dim):
    rng = np.random.default_rng(dim)
    dtype = {"float": np.float32, "double": np.float64}[real]
    x, y = (rng.normal(size=(n, dim)).astype(dtype) for n in (80, 90))
    rows = np.array([[0, 1], [1, 40], [41, 0], [30, 33], [7, 32]], dtype=np.int64)  # pairs may share their points
    columns = np.array([[3, 65], [0, 33], [5, 4], [20, 32], [80, 10]], dtype=np.int64)
    sides = [DeviceSide(*each.T.copy(), None, int(each[:, 1].max())) for each in (rows, columns)]
    shrink = np.array([1.0, 0.5, 1.0, 2.0, 1.0])
    out = np.full((5, 40, 65), np.nan)
    cloud_costs.price(5, *sides, DeviceClouds(x, y, dim, code, power, shrink), real, out)
    for t, ((i, n), (j, m)) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        given = (part.astype(np.float64) * shrink[t] for part in (x[i : i + n], y[j : j + m]))
        np.testing.assert_allclose(out[t, :n, :m], cdist(*given, name) ** power, rtol=1e-13)
        assert np.isnan(out[t, n:]).all()
        assert np.isnan(out[t, :, m:]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("value", "refused"),
    [(1.0, 0), (np.nan, 1), (-np.inf, 1), (2.0**20, 1), (-(2.0**20), 1), (2.0**20 - 1, 0), (2.0**-21, 0), (2.0**-22, 1),
     (0.0, 0)],
)  # fmt: skip
@pytest.mark.parametrize("at", [(0, 3, 20), (1, 65, 36)])
def test_sizes_that_are_not_ordinary_are_noticed(dtype, value, refused, at):
    points = [np.zeros((n, 37), dtype) for n in (4, 66)]
    points[at[0]][at[1:]] = value
    sides = [DeviceSide(np.zeros(1, np.int64), np.full(1, len(part)), None, len(part)) for part in points]
    said, out = np.zeros(1, np.int32), np.full((1, 4, 66), np.nan)
    clouds = DeviceClouds(*points, 37, EUCLIDEAN, 1.0, None)
    real = "float" if dtype == np.float32 else "double"
    cloud_costs.price(1, *sides, clouds, real, out, cloud_costs.Watch((2.0**-21, 2.0**20), said))
    assert said[0] == refused


def test_without_a_factor_and_without_problems():
    x = np.arange(6.0).reshape(2, 3)
    one = DeviceSide(np.zeros(1, np.int64), np.full(1, 2), None, 2)
    out = np.full((1, 2, 2), np.nan)
    cloud_costs.price(1, one, one, DeviceClouds(x, x, 3, EUCLIDEAN, 2.0, None), "double", out)
    assert out[0].tolist() == [[0.0, 27.0], [27.0, 0.0]]
    none = DeviceSide(np.zeros(0, np.int64), np.zeros(0, np.int64), None, 0)
    cloud_costs.price(0, none, none, DeviceClouds(x, x, 3, EUCLIDEAN, 2.0, None), "double", np.empty(0))
