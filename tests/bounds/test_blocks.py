"""Blocks of distances and their c-transforms, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from asot.bounds.blocks import BARRED, block_stride, column_transform, dot, fill_block, row_transform
from asot.jit.compiled import compiled


@compiled
def _block(x, y, f, g, n, m, width):
    stride = block_stride(m)
    distance = np.empty((n + 3) * stride, np.float32)
    fill_block(x, 0, y, 0, distance, n, width, stride)
    rows = np.empty(n, np.float32)
    columns = np.empty(stride, np.float32)
    row_transform(distance, g, rows, n, stride)
    column_transform(distance, f, columns, n, m, stride)
    return distance[: n * stride], rows, columns, dot(g, 0, columns, 1)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 16), (4, 17), (9, 5), (30, 40)])
@pytest.mark.parametrize("width", [4, 16])
def test_distances_and_transforms_are_those_of_numpy(n, m, width):
    rng = np.random.default_rng(n * m)
    x, y = rng.normal(size=(n, width)), rng.normal(size=(m, width))
    stride = (m + 15) // 16 * 16
    padded_x, padded_y = np.zeros((n + 3, width), np.float32), np.zeros((width, stride), np.float32)
    padded_x[:n], padded_y[:, :m] = x, y.T
    f, g = rng.normal(size=n).astype(np.float32), np.full(stride, BARRED)
    g[:m] = rng.normal(size=m)
    distance, rows, columns, _ = _block(padded_x.ravel(), padded_y.ravel(), f, g, n, m, width)
    expected = cdist(x, y)
    np.testing.assert_allclose(distance.reshape(n, stride)[:, :m], expected, atol=1e-5)
    np.testing.assert_allclose(rows, (expected - g[:m]).min(axis=1), atol=1e-5)
    np.testing.assert_allclose(columns[:m], (expected - f[:, None]).min(axis=0), atol=1e-5)
    assert np.all(columns[m:] == BARRED)


@compiled
def _dot(x, begin, y, n):
    return dot(x, begin, y, n)


def test_products_end_at_the_padding():
    x = np.zeros(48, np.float32)
    x[16:33] = 1.0
    y = np.full(32, BARRED)
    y[:17] = np.arange(17)
    assert _dot(x, 16, y, 17) == 136.0
