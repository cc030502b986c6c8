"""Numbers of which squares are taken: these would leave the range of float64 long before the numbers do."""

from __future__ import annotations

import numpy as np

from asot._typing import Float

_SAFE = 400
"""Exponents up to which sums of fourth powers are numbers, with all digits."""


def in_range(values: Float) -> tuple[Float, int]:
    """Values times 2^-e, and e: 0 where their squares can be taken as they are."""
    exponent = int(np.frexp(np.abs(values).max(initial=0.0))[1])
    if abs(exponent) <= _SAFE:
        return values, 0
    return np.ldexp(values, -exponent), exponent
