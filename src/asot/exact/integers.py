"""Float data to the integers of the simplex, losing nothing that a float64 answer could show.

Masses become int64 that sum to exactly 2^60; a unit is 1e-18 of the total, below float64's own rounding. Costs become
int64 with as many bits as the longest path of a tree allows: 52 at ten anchors, 40 at two thousand. They only steer the
simplex; values are summed from the unrounded costs. So a basis that is optimal for the integers is optimal for the
floats up to 2^-40 of the largest cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asot.exact.workspace import LANES, MASS_BITS

OFFSET_WEIGHT = 0.85
"""Share of a node's mean cost that the greedy start subtracts; measured best between 0.7 and 1."""


def quantize_masses(histograms: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rows (N, k) of total 1 to int64 rows that sum to exactly 2^60; the largest entry absorbs the rounding."""
    total = 1 << MASS_BITS
    masses = np.ascontiguousarray(np.rint(histograms * float(total)), dtype=np.int64)
    masses[np.arange(len(masses)), masses.argmax(axis=1)] += total - masses.sum(axis=1)
    return masses


def index_bits_for(n_sources: int, n_sinks: int) -> int:
    """Bits that hold a row or a (padded) column index of a cost block."""
    return max(4, int(max(n_sources, n_sinks) + LANES - 1).bit_length())


def cost_bits_for(index_bits: int) -> int:
    """Bits left for a cost: a potential is a sum along a path, and the column index sits below it."""
    return 62 - 2 * index_bits


@dataclass(frozen=True)
class QuantizedCost:
    """A shared cost, prepared once for all pairs.

    ``unit`` holds the costs divided by 2^exponent, so that they are at most 1 and sums of them cannot overflow.
    """

    integer: NDArray[np.int64]  # (k, l) costs, shifted left by index_bits
    unit: NDArray[np.float64]  # (k, l)
    row_offset: NDArray[np.int64]  # (k,) for the greedy start
    column_offset: NDArray[np.int64]  # (l,)
    index_bits: int
    exponent: int


def quantize_cost(cost: NDArray[np.float64]) -> QuantizedCost:
    """Prepare a finite cost (k, l) ≥ 0."""
    index_bits = index_bits_for(*cost.shape)
    exponent = int(np.frexp(cost.max())[1])
    unit = np.ldexp(np.ascontiguousarray(cost), -exponent)
    scale = 2.0 ** cost_bits_for(index_bits)

    def packed(values: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.rint(values * scale).astype(np.int64) << index_bits

    return QuantizedCost(
        integer=packed(unit),
        unit=unit,
        row_offset=packed(OFFSET_WEIGHT * unit.mean(axis=1)),
        column_offset=packed(OFFSET_WEIGHT * unit.mean(axis=0)),
        index_bits=index_bits,
        exponent=exponent,
    )
