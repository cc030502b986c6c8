"""Sorted distances as vectors: the clouds whose Wasserstein distance is the third lower bound, and the other two
bounds.

The quantile function of a row of distances is averaged over equal bins of mass. By Jensen's inequality the L^p distance
of such averages is at most that of the functions, so bounds from them hold for every number of bins; where all spaces
have n equal masses, n bins lose nothing (docs/method.md §18).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asot._typing import Float, Indices
from asot.data.flatten import Flat
from asot.data.spaces.reading import Spaces, as_gromov_order, read_spaces
from asot.validation import as_positive_int, refuse_what_cannot_fit

MOST_BINS = 128
"""Bins for spaces of different sizes or masses, unless told otherwise."""


def default_bins(spaces: Spaces) -> int:
    n = int(spaces.sizes.max())
    same = spaces.mass is None and bool((spaces.sizes == n).all())
    return n if same else min(n, MOST_BINS)


def binned(values: Float, masses: Float, bins: int) -> Float:
    """Averages (R, bins) of the quantile functions of rows (R, n) over equal bins; masses (n,) or (R, n) of total 1."""
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    weights = np.broadcast_to(masses, values.shape)
    if bins == values.shape[1] and np.ptp(weights) <= 1e-15:
        return ordered
    ends = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
    ends[:, -1] = 1.0
    zeros, edges = np.zeros((len(values), 1)), np.linspace(0.0, 1.0, bins + 1)
    knots = np.concatenate([zeros, ends], axis=1)
    areas = np.concatenate([zeros, np.cumsum(ordered * np.diff(knots, axis=1), axis=1)], axis=1)
    found = [np.interp(edges, own, area) for own, area in zip(knots, areas, strict=True)]
    return np.diff(np.stack(found), axis=1) * bins


def row_quantiles(spaces: Spaces, bins: int) -> Float:
    """(points, bins): sorted distances of every point to its own space, averaged over bins of mass."""
    return np.concatenate([binned(matrix, own, bins) for matrix, own in spaces])


def flatten_spaces(X: Any, p: Any, masses: Any, bins: Any) -> Flat:
    """What `Distributions.from_spaces` holds: clouds whose W_p under the L^p distance is the third lower bound."""
    order, spaces = as_gromov_order(p), read_spaces(X, masses)
    width = default_bins(spaces) if bins is None else as_positive_int(bins, "bins")
    refuse_what_cannot_fit(16 * int(spaces.start[-1]) * width, f"{width:,} bins of every point", "use fewer bins=")
    scale = np.ldexp(0.5 * width ** (-1.0 / order), spaces.exponent)
    return row_quantiles(spaces, width) * scale, spaces.start, spaces.mass, spaces.ids


def space_quantiles(spaces: Spaces, bins: int) -> Float:
    """(N, bins): all distances of a space; the L^p distance of two rows is twice the second lower bound, or less."""
    every = ((matrix.reshape(1, -1), np.outer(own, own).reshape(1, -1)) for matrix, own in spaces)
    return np.concatenate([binned(distances, masses, bins) for distances, masses in every])


def eccentricities(spaces: Spaces, p: float, bins: int) -> Float:
    """(N, bins): quantiles of (Σ d^p μ)^(1/p) over the points; the same for the first lower bound."""
    return np.concatenate([binned(((matrix**p) @ own)[None] ** (1.0 / p), own, bins) for matrix, own in spaces])


def rounding(spaces: Spaces, bins: int) -> tuple[float, float]:
    """How far bins of rows (and of eccentricities), and of whole spaces, may be from what they stand for: sums of so
    many numbers, of which differences are taken."""
    n = int(spaces.sizes.max())
    unit = 4.0 * bins * float(spaces.distance.max()) * 2.0**-53
    return unit * (n + 8), unit * (n * n + 8)


def lifted(vectors: Float, rows: Indices, columns: Indices, p: float) -> Float:
    """Mean of |u - v|^p over the bins, for listed pairs of vectors (N, bins)."""
    return np.asarray((np.abs(vectors[rows] - vectors[columns]) ** p).mean(axis=1))
