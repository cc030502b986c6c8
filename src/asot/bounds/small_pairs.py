"""Bounds for pairs that are tiny compared with the extent of their collection.

Next to a point at 1e12, distributions of width 1e-3 keep three digits in shared coordinates, and none in the anchor
plan, whose costs are rounded relative to the largest one. Rounding then exceeds the width of any bound. The exact
solver measures every pair by itself, from differences of the original coordinates, so these few pairs are solved on
their points, and the interval is the rounding of its integer costs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asot._typing import Float, Indices
from asot.data.distinct import sparse_histograms
from asot.data.distributions import Distributions
from asot.exact.auto import simplex_of_points
from asot.exact.shared_cost import cost_bits_for, index_bits_for
from asot.ground.metrics import prepare_metric

BLURRED = 1e-5
"""Rounding above this share of an upper bound blurs it."""

LEAST = 2.0**-1070
"""A few steps between numbers near 0, where a share of a number is too small to represent."""


class SmallPairs:
    """Prepared from both collections of a call, one after the other; then brackets the pairs it is given."""

    def __init__(self, D: Distributions) -> None:
        histograms = sparse_histograms(D)
        self._solver = simplex_of_points(histograms, prepare_metric(histograms.points, "euclidean"))
        largest = int(np.diff(histograms.offsets).max())
        self._open = 2.0 ** (2 - cost_bits_for(index_bits_for(largest, largest))) + 1e-13
        first = histograms.points[histograms.index[histograms.offsets[:-1]]]  # (N, d) one point of each
        self._exponent = int(np.frexp(np.abs(histograms.points).max())[1])
        self._first = np.ldexp(np.asarray(first, dtype=np.float64), -self._exponent)
        owner = np.repeat(np.arange(len(first)), np.diff(histograms.offsets))
        points = np.ldexp(np.asarray(histograms.points, dtype=np.float64), -self._exponent)
        apart = _lengths(points[histograms.index] - self._first[owner])
        self._reach = np.maximum.reduceat(apart, histograms.offsets[:-1])  # (N,) from the first point to the farthest
        lost = np.any(np.ldexp(points, self._exponent) != histograms.points)  # digits of numbers near 0
        self._lost = D.dim * np.ldexp(1.0, self._exponent - 1073) if lost else 0.0

    def bracket(self, rows: Indices, columns: Indices, stop: Any) -> tuple[Float, Float]:
        """Bounds (P,) on W_1: the exact value, widened by the possible rounding error."""
        values = self._solver.solve(rows, columns, stop).values
        widest = _lengths(self._first[rows] - self._first[columns]) + self._reach[rows] + self._reach[columns]
        slack = np.where(values > 0, self._open * np.ldexp(widest, self._exponent) + LEAST, 0.0) + self._lost
        return np.maximum(values - slack, 0.0), values + slack


def _lengths(x: Float) -> Float:
    """Norms of rows (n, d) that may be far smaller than 1, so that their squares would vanish."""
    size = np.abs(x).max(axis=1)
    unit = np.where(size > 0, size, 1.0)
    return np.asarray(size * np.sqrt(((x / unit[:, None]) ** 2).sum(axis=1)), dtype=np.float64)
