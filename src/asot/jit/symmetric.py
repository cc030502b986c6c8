"""Whether a large matrix equals its transpose, read once, in squares that fit into the cache."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asot.jit.compiled import compiled

COMPILED_FROM = 1024
"""Below this many rows NumPy compares at least as fast, and there is nothing to compile."""

ROWS_AT_A_TIME = 1024
"""Ctrl-C is heard in between."""

_SIDE = 8  # eight rows of a square lie in one way of the cache each, also if rows are 2^n numbers long


def is_symmetric(matrix: NDArray[np.float64]) -> bool:
    """Whether a square matrix without NaN equals its transpose, bit for bit."""
    n = len(matrix)
    if n < COMPILED_FROM or not matrix.flags.c_contiguous:
        return bool(np.array_equal(matrix, matrix.T))
    return all(_rows_are_symmetric(matrix, low, min(low + ROWS_AT_A_TIME, n)) for low in range(0, n, ROWS_AT_A_TIME))


@compiled
def _rows_are_symmetric(matrix, low, high):  # type: ignore[no-untyped-def]
    for r in range(low, high, _SIDE):
        for c in range(0, r + 1, _SIDE):
            different = 0
            for i in range(r, min(r + _SIDE, high)):
                for j in range(c, min(c + _SIDE, high)):
                    different |= matrix[i, j] != matrix[j, i]
            if different != 0:
                return False
    return True
