"""Numbers that Python shares with the kernels of the exact solvers (``native/exact/workspace.hpp``)."""

from __future__ import annotations

MASS_BITS = 60
"""Every quantized histogram sums to exactly ``2**MASS_BITS``."""

LANES = 8
"""Numbers that kernels take at a time; rows are padded to whole lanes."""


def padded(q: int) -> int:
    """Row length of a cost block with q columns, padded to whole lanes."""
    return (q + LANES - 1) & ~(LANES - 1)
