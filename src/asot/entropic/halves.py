"""Numbers as two float16, and for which costs a Sinkhorn iteration may hold its numbers so.

A float16 has 11 bits, and numbers of 2⁻¹⁴ to 2¹⁶ have all of them. A matrix is multiplied by `MATRIX_SCALE`, and a row
of scalings by a power of two of its own, so that the largest entry is just below 2¹⁶. The trailing part of a number is
stored `LOW_SCALE` times as large. Then entries down to 2⁻²⁹ of the largest have 22 bits, and smaller ones are off by
2⁻⁵¹ of the largest.

Let x be a row of scalings with the largest entry X, and R = max C/ε. Every entry of x K is at least X exp(-R), and what
is lost of small scalings changes it by 2⁻⁵¹ k X, or relatively by 2⁻⁵¹ k exp(R) at most. This is 5e-6 for 160 anchors
and R = 18, if all anchors but one are lost, lie together, and lie R away from the one. Scalings are as small as that
where masses are, so what is really lost is far less. Entries of K are at least exp(-18) = 2⁻²⁶, and have 22 bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float

LARGEST_EXPONENT = 18.0
"""Of max C/ε."""

MATRIX_SCALE, LOW_SCALE = 2.0**15, 2.0**11


def split(table: Float) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
    """The leading and the trailing part of a matrix with entries of at most 1."""
    scaled = MATRIX_SCALE * table
    high = scaled.astype(np.float16)
    return high, (LOW_SCALE * (scaled - high)).astype(np.float16)
