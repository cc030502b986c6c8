"""Every operation on eight numbers against NumPy on the same eight."""

import numpy as np
import pytest
from numba import njit

from asot.jit import lanes

PAIRWISE = {
    "plus": np.add,
    "minus": np.subtract,
    "both": np.bitwise_and,
    "either": np.bitwise_or,
    "differ": np.bitwise_xor,
    "lesser": np.minimum,
    "larger": np.maximum,
}


def numbers(seed, low=-(2**62), high=2**62):
    return np.random.default_rng(seed).integers(low, high, lanes.LANES)


@pytest.mark.parametrize("name", PAIRWISE)
def test_an_operation_on_two_values_is_that_of_numpy(name):
    operation = getattr(lanes, name)

    @njit
    def apply(a, b, out):
        lanes.store(out, 3, operation(lanes.load(a, 0), lanes.load(b, 0)))

    a, b, out = numbers(0), numbers(1), np.full(14, 7, np.int64)
    apply(a, b, out)
    np.testing.assert_array_equal(out[3:11], PAIRWISE[name](a, b))
    assert (out[:3] == 7).all()
    assert (out[11:] == 7).all()


@njit
def _ask(a, b, bits, lane, number, out):
    lanes.store(out, 0, lanes.spread(number))
    lanes.store(out, 8, lanes.count_up())
    lanes.store(out, 16, lanes.plus_where(bits, lanes.load(a, 0), lanes.load(b, 0)))
    lanes.store(out, 24, lanes.put(lanes.load(a, 0), lane, number))
    return lanes.least(lanes.load(a, 0)), lanes.where_equal(lanes.load(a, 0), lanes.load(b, 0)), lanes.lowest_bit(bits)


@pytest.mark.parametrize("seed", range(20))
def test_the_other_operations_say_what_numpy_says(seed):
    a, b = numbers(seed, -3, 3), numbers(seed + 100, -3, 3)
    bits, lane, number = seed + 1, seed % 8, 2**40 + seed
    out = np.empty(32, np.int64)
    least, equal, lowest = _ask(a, b, bits, lane, number, out)
    chosen = (bits >> np.arange(8)) & 1
    expected = a.copy()
    expected[lane] = number
    np.testing.assert_array_equal(out, np.concatenate([np.full(8, number), np.arange(8), a + chosen * b, expected]))
    assert least == a.min()
    assert equal == ((a == b) << np.arange(8)).sum()
    assert lowest == (bits & -bits).bit_length() - 1
