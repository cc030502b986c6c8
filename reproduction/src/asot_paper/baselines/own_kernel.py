"""Sinkhorn's iteration for one pair with its own cost is ``native/entropic/own_kernel.hpp``; these are its numbers.

Other solvers that follow the same rules, such as stacks of pairs on a GPU, take them from here (a test compares them
with those in C++).
"""

from __future__ import annotations

LANES = 8
"""Rows of a block are padded to a multiple of this."""

ROWS = 4
"""And the number of its rows to a multiple of this."""

SMALLEST, LARGEST = 1e-100, 1e100
"""Sums outside of this are not used."""

KERNEL_RANGE = 690.0
"""Largest max C/ε for which K is formed without potentials: none of its entries is below 1e-300."""


def padded(n: int, step: int) -> int:
    """n, rounded up to a multiple of ``step``, which is a power of two."""
    return (n + step - 1) & ~(step - 1)
