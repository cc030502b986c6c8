"""A few coordinates in place of many, with every distance bracketed (docs/method.md §6).

Bounds and corrections look at many distances between points, and points often have far more coordinates than their
spread needs: node features of molecules have 185, of which 15 hold 99.9 percent. Rotate to the principal directions,
keep the first ones, and put the *length* ρ of the rest into one more coordinate. This map never lengthens a distance,
since |ρ_x - ρ_y| ≤ ‖rest_x - rest_y‖ ≤ ρ_x + ρ_y; so with d the distance of the short vectors

    d ≤ ‖x - y‖ ≤ √(d² + 4 ρ_x ρ_y).

Where points have few coordinates, or principal directions do not help, all of them are kept and ρ = 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.validation import FloatArray

Float = NDArray[np.float64]

NEGLIGIBLE = 1e-3
"""Share of the variance that may be left to ρ in a bound; it loosens the bounds by about this much of their square."""

LARGEST_ROTATION = 1024
"""Dimensions up to which principal directions are computed (an eigenproblem of this size takes 0.2 s)."""

LOOKED_AT = 8192
"""Points from which the directions of an estimate are taken."""

ROUNDING = 2e-13
"""How far, as a share of the extent, sums of distances may be off. Bounds are widened by this much."""


class Coordinates(NamedTuple):
    """Short vectors of a set of points. Multiply distances by 2^exponent to get the points' own units."""

    points: Float  # (n, w), w a multiple of 4 padded with zeros; the last used one is ρ unless ρ = 0
    rest: Float  # (n,) ρ, the length of what was left out
    exponent: int
    extent: float  # no two points are farther apart than this, in units of 2^exponent

    @property
    def slack(self) -> float:
        """Outward rounding of a bound, in the points' own units."""
        return float(np.ldexp(ROUNDING * self.extent, self.exponent))


def short_coordinates(points: FloatArray, weights: Float, widths: tuple[int, ...] = (16, 24, 32)) -> Coordinates:
    """Points (n, d) in the fewest of the ``widths`` that leave out next to nothing; in all d where none does.

    ``weights`` (n,) say how much each point matters for the directions.
    """
    x, exponent = _centered(points, weights)
    if x.shape[1] > widths[0] and x.shape[1] <= LARGEST_ROTATION:
        spectrum, directions = _principal(x, weights)
        for width in widths:
            if width < x.shape[1] and spectrum[width - 1 :].sum() <= NEGLIGIBLE * spectrum.sum():
                return _rotated(x, directions[:, : width - 1], exponent)
    return _padded(x, np.zeros(len(x)), exponent)


def leading_coordinates(points: FloatArray, weights: Float, width: int = 16) -> Coordinates:
    """Points (n, d) in at most ``width`` coordinates, no matter how much that leaves out: enough for an estimate."""
    nothing = np.zeros(len(points))
    d = points.shape[1]
    if d > width:
        few = slice(None, None, -(-len(points) // (LOOKED_AT if d <= LARGEST_ROTATION else LARGEST_ROTATION)))
        sample, _ = _centered(points[few], weights[few])
        if d <= LARGEST_ROTATION:
            directions = _principal(sample, weights[few])[1]
        else:  # more coordinates than points looked at: the directions are combinations of these
            directions = np.linalg.svd(sample, full_matrices=False)[2].T
        exponent = _exponent(points)
        if abs(exponent) < 500:  # without a copy of the points
            short = np.asarray(points, dtype=np.float64) @ (2.0**-exponent * directions[:, :width])
        else:
            short = scaled(points, -exponent) @ directions[:, :width]
        kept, more = _centered(short, weights)
        return _padded(kept, nothing, exponent + more)
    x, exponent = _centered(points, weights)
    return _padded(x, nothing, exponent)


def scaled(points: FloatArray, exponent: int) -> Float:
    """Numbers times 2^exponent: in one product where that is a number, which is faster than `ldexp`."""
    if abs(exponent) < 1000:
        return np.multiply(points, 2.0**exponent, dtype=np.float64)
    return np.ldexp(np.asarray(points, dtype=np.float64), exponent)


def _centered(points: FloatArray, weights: Float) -> tuple[Float, int]:
    """Points at the scale of 1 around their mean, and the power of two they were divided by."""
    exponent = _exponent(points)
    x = scaled(points, -exponent)
    x -= weights @ x / weights.sum()
    more = _exponent(x)
    return scaled(x, -more), exponent + more


def _exponent(x: FloatArray) -> int:
    """The smallest power of two above all sizes."""
    return int(np.frexp(max(x.max(), -x.min()))[1])


def _principal(x: Float, weights: Float) -> tuple[Float, Float]:
    """Variances (d,), descending, and directions (d, d), one per column."""
    variances, directions = np.linalg.eigh((x * weights[:, None]).T @ x)
    return np.maximum(variances[::-1], 0.0), directions[:, ::-1]


def _rotated(x: Float, directions: Float, exponent: int) -> Coordinates:
    kept = x @ directions  # (n, w - 1)
    rest = np.linalg.norm(x - kept @ directions.T, axis=1)
    return _padded(np.column_stack([kept, rest]), rest, exponent)


def _padded(x: Float, rest: Float, exponent: int) -> Coordinates:
    padded = np.zeros((len(x), (x.shape[1] + 3) & ~3))
    padded[:, : x.shape[1]] = x
    extent = 2.0 * float(np.sqrt((x**2).sum(axis=1) + rest**2).max()) if len(x) else 0.0
    return Coordinates(padded, rest, exponent, extent)
