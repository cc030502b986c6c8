"""The exponential function over rows of numbers, eight or four at a time.

A compiled loop that calls the library's ``exp`` gets one number per call. Here it is written as a polynomial,
which compilers turn into vector instructions: ten times as fast, and right to two units in the last place.

exp(x) = 2^n · exp(r) with n the integer nearest to x / log 2, so that |r| ≤ (log 2) / 2.
"""

from __future__ import annotations

import numpy as np

from asot.jit.compiled import at, fused

LOWEST = -707.0
"""Below this, exp(x) counts as exp(LOWEST), about 1e-307: the last number with all its digits."""

_PER_LOG2 = 1.0 / np.log(2.0)
_LOG2_HIGH = 6.93147180369123816490e-01  # log 2 in two parts: n times the first one is exact
_LOG2_LOW = 1.90821492927058770002e-10
_ROUNDER = 1.5 * 2.0**52  # adding it leaves the nearest integer in the lowest bits


@fused
def exponentials(x, x_bits, powers, power_bits, begin, n):  # type: ignore[no-untyped-def]
    """x[begin:begin + n] ← exp of itself, for finite x ≤ 0.

    ``x_bits`` is the memory of x as int64; ``powers`` and ``power_bits`` are n numbers of scratch, seen in both ways.
    """
    for t in range(n):
        z = max(x[at(begin, t)], LOWEST)
        shifted = z * _PER_LOG2 + _ROUNDER
        powers[at(t, 0)] = shifted
        whole = shifted - _ROUNDER
        r = (z - whole * _LOG2_HIGH) - whole * _LOG2_LOW
        p = 1.0 / 6227020800.0
        p = p * r + 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        x[at(begin, t)] = p * r + 1.0
    for t in range(n):
        x_bits[at(begin, t)] += power_bits[at(t, 0)] << 52  # n into the exponent
