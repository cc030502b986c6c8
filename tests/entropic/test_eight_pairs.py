"""Updates of eight pairs in SIMD lanes are those of a loop in NumPy, for every size and number of pairs."""

from __future__ import annotations

import numpy as np
import pytest

from asot.entropic.eight_pairs import advance, packed


@pytest.mark.parametrize(("k", "l"), [(1, 1), (2, 7), (6, 6), (13, 30), (60, 5)])
@pytest.mark.parametrize("pairs", [1, 8, 11, 35])
@pytest.mark.parametrize("count", [0, 1, 7])
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-13), (np.float32, 1e-5)])
def test_updates_are_those_of_numpy(k, l, pairs, count, dtype, rtol):
    rng = np.random.default_rng([k, l, pairs])
    K, a, b = np.exp(-3 * rng.random((k, l))), rng.dirichlet(np.ones(k), pairs), rng.dirichlet(np.ones(l), pairs)
    a[0, 1:] = b[-1, 1:] = 0.0  # anchors without mass
    V = start = rng.random((pairs, l)) + 0.1
    for _ in range(count):
        V = b / ((a / (V @ K.T)) @ K)
    K, a, b, start = (x.astype(dtype) for x in (K, a, b, start))
    found = advance(packed(K), packed(K.T), a, b, start, count, np.zeros(1, np.int64))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, V, rtol=rtol)


def test_a_raised_stop_ends_them():
    one, stop = np.ones((1, 1)), np.ones(1, np.int64)
    found = advance(packed(one), packed(one), 2.0 * one, one, one, 40, stop)
    assert found == one  # every step would halve it
