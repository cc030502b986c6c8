"""Sorted distances as vectors: the clouds whose Wasserstein distance is the third lower bound, and the other two
bounds.

The quantile function of a row of distances is averaged over equal bins of mass. By Jensen's inequality the L^p distance
of such averages is at most that of the functions, so bounds from them hold for every number of bins; where all spaces
have n equal masses, n bins lose nothing (docs/method.md §18).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float
from asot.data.spaces.reading import Spaces

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
    integral = np.concatenate(
        [np.zeros((len(values), 1)), np.cumsum(ordered * np.diff(ends, axis=1, prepend=0.0), axis=1)], 1
    )
    knots = np.concatenate([np.zeros((len(values), 1)), ends], axis=1)
    edges = np.linspace(0.0, 1.0, bins + 1)
    return (
        np.diff(np.stack([np.interp(edges, k, area) for k, area in zip(knots, integral, strict=True)]), axis=1) * bins
    )


def row_quantiles(spaces: Spaces, bins: int) -> Float:
    """(points, bins): sorted distances of every point to its own space, averaged over bins of mass."""
    return np.concatenate([binned(spaces.matrix(i), spaces.masses(i), bins) for i in range(len(spaces))])


def space_quantiles(spaces: Spaces, bins: int) -> Float:
    """(N, bins): all distances of a space; the L^p distance of two rows is twice the second lower bound, or less."""
    rows = []
    for i in range(len(spaces)):
        own = spaces.masses(i)
        rows.append(binned(spaces.matrix(i).reshape(1, -1), np.outer(own, own).reshape(1, -1), bins)[0])
    return np.stack(rows)


def eccentricities(spaces: Spaces, p: float, bins: int) -> Float:
    """(N, bins): quantiles of (Σ d^p μ)^(1/p) over the points; the same for the first lower bound."""
    rows = []
    for i in range(len(spaces)):
        own = spaces.masses(i)
        rows.append(binned(((spaces.matrix(i) ** p) @ own)[None] ** (1.0 / p), own, bins)[0])
    return np.stack(rows)


def rounding(spaces: Spaces, bins: int) -> tuple[float, float]:
    """How far bins of rows (and of eccentricities), and of whole spaces, may be from what they stand for: sums of so
    many numbers, of which differences are taken."""
    n = int(spaces.sizes.max())
    unit = 4.0 * bins * float(spaces.distance.max()) * 2.0**-53
    return unit * (n + 8), unit * (n * n + 8)


def lifted(vectors: Float, rows: NDArray[np.int64], columns: NDArray[np.int64], p: float) -> Float:
    """Mean of |u - v|^p over the bins, for listed pairs of vectors (N, bins)."""
    return np.asarray((np.abs(vectors[rows] - vectors[columns]) ** p).mean(axis=1))
