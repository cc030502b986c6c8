"""Sixteen numbers at a time, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from asot.jit import float_lanes
from asot.jit.compiled import compiled

rng = np.random.default_rng(0)
A, B, C = (rng.normal(size=20).astype(np.float32) for _ in range(3))


@compiled
def _apply(a, b, c, out):
    x, y, z = float_lanes.load(a, 2), float_lanes.load(b, 2), float_lanes.load(c, 2)
    float_lanes.store(out, 0, float_lanes.minus(x, y))
    float_lanes.store(out, 16, float_lanes.lesser(x, y))
    float_lanes.store(out, 32, float_lanes.plus_square(x, y))
    float_lanes.store(out, 48, float_lanes.plus_product(x, y, z))
    float_lanes.store(out, 64, float_lanes.root(float_lanes.plus_square(float_lanes.spread(np.float32(1.0)), x)))
    float_lanes.store(out, 80, float_lanes.plus_gap(x, y, z))
    return float_lanes.least(x), float_lanes.total(x)


def test_every_operation_is_that_of_numpy():
    out = np.empty(96, np.float32)
    least, total = _apply(A, B, C, out)
    a, b, c = A[2:18].astype(float), B[2:18].astype(float), C[2:18].astype(float)
    expected = [a - b, np.minimum(a, b), a + b**2, a + b * c, np.sqrt(1 + a**2), a + np.abs(b - c)]
    np.testing.assert_allclose(out.reshape(6, 16), expected, rtol=1e-6, atol=1e-6)
    assert least == A[2:18].min()
    assert total == pytest.approx(a.sum(), abs=1e-5)
