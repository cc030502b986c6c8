"""Points that are numbers, and masses that sum to 1 in every distribution, whatever order or scale they came in.

Totals are sums of leading digits without rounding, after powers of two were taken out: they depend neither on the order
of points nor on the unit of masses, and they neither overflow nor underflow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices
from asot.data.reading import label_of, owner_of, read_masses
from asot.validation import FloatArray, first_false

_BLOCK = 2**18
"""Points whose masses are scaled at a time."""


def check_finite(points: FloatArray, offsets: Indices, ids: Any) -> None:
    """Refuse points (n, d) that are not finite, by the name of their distribution."""
    if not (math.isfinite(points.min()) and math.isfinite(points.max())):  # both are NaN if any point is
        row, column = first_false(np.isfinite(points))
        name, place = owner_of(row, offsets, ids)
        raise ValueError(
            f"{name} has the coordinate {points[row, column]} at point {place}, column {column}; "
            "points must be finite: drop or impute it"
        )


def normalized(masses: Any, offsets: Indices, ids: Any, is_own: bool = False) -> tuple[Float, Float]:
    """Masses scaled to total 1 in every distribution, and the totals they had."""
    starts = offsets[:-1]
    sizes = offsets[1:] - starts
    if masses is None:
        return np.repeat(1.0 / sizes, sizes), np.ones(len(sizes))
    given = read_masses(masses, int(offsets[-1]))
    if not (math.isfinite(given.min()) and math.isfinite(given.max())):
        (row,) = first_false(np.isfinite(given))
        name, place = owner_of(row, offsets, ids)
        raise ValueError(f"{name} has the mass {given[row]} at point {place}; masses must be finite")
    if given.min() < 0:
        (row,) = first_false(given >= 0)
        name, place = owner_of(row, offsets, ids)
        raise ValueError(f"{name} has a negative mass ({given[row]:g} at point {place}); masses must be ≥ 0")
    peaks = np.maximum.reduceat(given, starts)
    if not peaks.all():
        raise ValueError(f"{label_of(int(np.argmin(peaks)), ids)} has zero total mass; drop it or give it mass")
    scaled = given if is_own and given.flags.writeable else given.copy()
    exponents = np.frexp(peaks)[1]
    totals = _divided(scaled, exponents, offsets)
    if isinstance(scaled.base, np.ndarray):  # else a view could be unfrozen through its base
        scaled.base.flags.writeable = scaled.flags.writeable = False
    with np.errstate(over="ignore"):  # a total beyond float64 becomes inf
        return scaled, np.ldexp(totals, exponents)


def _divided(masses: Float, exponents: NDArray[np.int32], offsets: Indices) -> Float:
    """Divide the masses of every distribution by their total, and return the totals in units of 2^exponents.

    In blocks, so that no second column is in memory.
    """
    sizes, totals = np.diff(offsets), np.empty(len(offsets) - 1)
    step = max(1, int(_BLOCK // sizes.mean()))
    for first in range(0, len(sizes), step):
        some = slice(first, first + step)
        begin, end = int(offsets[first]), int(offsets[min(first + step, len(sizes))])
        own = np.ldexp(masses[begin:end], -np.repeat(exponents[some], sizes[some]))
        totals[some] = _sums(own, offsets[:-1][some] - begin, int(sizes[some].max()))
        np.divide(own, np.repeat(totals[some], sizes[some]), out=masses[begin:end])
    return totals


def _sums(masses: Float, starts: Indices, most: int) -> Float:
    """Sums of masses of at most 1. Rounding what is left below the leading digits does not matter."""
    unit = 2.0 ** (52 - most.bit_length())
    leading = np.rint(masses * unit) / unit
    return np.asarray(np.add.reduceat(leading, starts) + np.add.reduceat(masses - leading, starts))
