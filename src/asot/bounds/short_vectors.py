"""A few coordinates in place of many, with every distance bracketed (docs/method.md §6).

Bounds and corrections look at many distances between points, and points often have far more coordinates than their
spread needs: node features of molecules have 185, of which 15 hold 99.9 percent. Rotate to the principal directions,
keep the first ones, and put the *length* ρ of the rest into one more coordinate. This map never lengthens a distance,
since |ρ_x - ρ_y| ≤ ‖rest_x - rest_y‖ ≤ ρ_x + ρ_y; so with d the distance of the short vectors

    d ≤ ‖x - y‖ ≤ √(d² + 4 ρ_x ρ_y).

Where points have few coordinates, or principal directions do not help, all of them are kept and ρ = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from asot._typing import Float
from asot.native import Doubles, Int, entry
from asot.run.executors import in_threads
from asot.run.pairs import tiles
from asot.validation import FloatArray

NEGLIGIBLE = 1e-3
"""Share of the variance that may be left to ρ in a bound; it loosens the bounds by about this much of their square."""

LARGEST_ROTATION = 1024
"""Dimensions up to which principal directions are computed (an eigenproblem of this size takes 0.2 s)."""

LOOKED_AT = 8192
"""Points from which the directions of an estimate are taken."""

PIECE = 2**13
"""Points that are summed at a time."""

ROWS = 2**12
"""Points that are rotated or moved at a time, each by itself."""

SAFE = 500
"""Powers of two up to this size can be multiplied, and the products squared, without leaving the range."""

ROUNDING = 2e-13
"""How far, as a share of the extent, sums of distances may be off. Bounds are widened by this much."""


_move_to_mean = entry("move_to_mean", Doubles, Int, Int, Doubles, Doubles)


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


def short_coordinates(
    points: FloatArray, weights: Float, widths: tuple[int, ...] = (16, 24, 32), n_jobs: int = 1
) -> Coordinates:
    """Points (n, d) in the fewest of the ``widths`` that leave out next to nothing; in all d where none does.

    ``weights`` (n,) say how much each point matters for the directions.
    """
    x, exponent = _centered(points, weights, n_jobs)
    if x.shape[1] > widths[0] and x.shape[1] <= LARGEST_ROTATION:
        spectrum, directions = _principal(x, weights, n_jobs)
        for width in widths:
            if width < x.shape[1] and spectrum[width - 1 :].sum() <= NEGLIGIBLE * spectrum.sum():
                return _rotated(x, directions[:, : width - 1], exponent, n_jobs)
    return _padded(x, None, exponent, n_jobs)


class Directions(NamedTuple):
    """Orthogonal directions in which points are spread most."""

    columns: Float  # (d, w)
    exponent: int  # that of the points they were taken from


def leading_directions(points: FloatArray, weights: Float, width: int = 16) -> Directions | None:
    """The directions of `leading_coordinates`, taken from some of the points; None where all coordinates are kept."""
    d = points.shape[1]
    if d <= width:
        return None
    few = slice(None, None, -(-len(points) // (LOOKED_AT if d <= LARGEST_ROTATION else LARGEST_ROTATION)))
    sample, exponent = _centered(points[few], weights[few])
    if d <= LARGEST_ROTATION:
        directions = _principal(sample, weights[few])[1]
    else:  # more coordinates than points looked at: the directions are combinations of these
        directions = np.linalg.svd(sample, full_matrices=False)[2].T
    return Directions(np.ascontiguousarray(directions[:, :width]), exponent)


def leading_coordinates(
    points: FloatArray, weights: Float, directions: Directions | None = None, n_jobs: int = 1
) -> Coordinates:
    """Points (n, d) in at most 16 coordinates, no matter how much that leaves out: enough for an estimate.

    ``directions`` are those of `leading_directions`, if they are already known.
    """
    directions = leading_directions(points, weights) if directions is None else directions
    if directions is None:
        x, exponent = _centered(points, weights, n_jobs)
    else:
        x, exponent = _projected(points, directions.columns, directions.exponent, n_jobs)
        exponent += _center(x, weights, n_jobs)
    return _padded(x, None, exponent, n_jobs)


def _projected(points: FloatArray, directions: Float, guess: int, n_jobs: int) -> tuple[Float, int]:
    """points (n, d) @ directions, without a copy of all points, divided by the power of two that is returned.

    The ``guess`` is that of some points; it does unless others are larger by hundreds of powers of two.
    """
    short = np.empty((len(points), directions.shape[1]))
    if abs(guess) < SAFE:
        fitting, sizes = scaled(directions, -guess), []

        def project(own: slice) -> None:
            np.matmul(points[own], fitting, out=short[own])
            sizes.append(_size(short[own]))

        with np.errstate(over="ignore", invalid="ignore"):
            _by_pieces(len(points), project, n_jobs, ROWS)
        if 2.0**-SAFE < max(sizes) < 2.0**SAFE:  # not NaN, either
            return short, guess
    exponent = _exponent(points, n_jobs)

    def project_scaled(own: slice) -> None:
        np.matmul(scaled(points[own], -exponent), directions, out=short[own])

    _by_pieces(len(points), project_scaled, n_jobs, ROWS)
    return short, exponent


def _write(values: Float, out: Float) -> None:
    out[...] = values


def scaled(points: FloatArray, exponent: int) -> Float:
    """Numbers times 2^exponent: in one product where that is a number, which is faster than `ldexp`."""
    if abs(exponent) < 1000:
        return np.multiply(points, 2.0**exponent, dtype=np.float64)
    return np.ldexp(np.asarray(points, dtype=np.float64), exponent)


def _centered(points: FloatArray, weights: Float, n_jobs: int = 1) -> tuple[Float, int]:
    """Points at the scale of 1 around their mean, and the power of two they were divided by."""
    exponent = _exponent(points, n_jobs)
    x = np.empty(points.shape)
    _by_pieces(len(points), lambda own: _write(scaled(points[own], -exponent), x[own]), n_jobs, ROWS)
    return x, exponent + _center(x, weights, n_jobs)


def _center(x: Float, weights: Float, n_jobs: int = 1) -> int:
    """Move points to their mean and to the scale of 1, in place; the power of two they are divided by."""
    sums: dict[int, Float] = {}
    sizes: list[float] = []

    def add(own: slice) -> None:
        sums[own.start] = weights[own] @ x[own]

    _by_pieces(len(x), add, n_jobs)
    mean = _total(sums) / weights.sum()
    _by_pieces(len(x), lambda own: sizes.append(_move(x[own], mean)), n_jobs, ROWS)
    more = int(np.frexp(max(sizes))[1])
    if more != 0:
        _by_pieces(len(x), lambda own: _scale(x[own], -more), n_jobs, ROWS)
    return more


def _move(x: Float, mean: Float) -> float:
    """Subtract the mean from every row, in place; the largest size of what is left."""
    largest = np.empty(1)
    _move_to_mean(x, *x.shape, mean, largest)
    return float(largest[0])


def _scale(x: Float, exponent: int) -> None:
    if abs(exponent) < 1000:
        x *= 2.0**exponent
    else:
        np.ldexp(x, exponent, out=x)


def _size(x: FloatArray) -> float:
    return float(max(x.max(), -x.min()))


def _exponent(x: FloatArray, n_jobs: int = 1) -> int:
    """The smallest power of two above all sizes."""
    sizes: list[float] = []
    _by_pieces(len(x), lambda own: sizes.append(_size(x[own])), n_jobs, ROWS)
    return int(np.frexp(max(sizes))[1])


def _total(parts: dict[int, Float]) -> Float:
    """The sum of what pieces have found, in their order."""
    return np.asarray(np.sum([parts[start] for start in sorted(parts)], axis=0), dtype=np.float64)


def _principal(x: Float, weights: Float, n_jobs: int = 1) -> tuple[Float, Float]:
    """Variances (d,), descending, and directions (d, d), one per column."""
    parts: dict[int, Float] = {}

    def products(own: slice) -> None:
        parts[own.start] = (x[own] * weights[own, None]).T @ x[own]

    _by_pieces(len(x), products, n_jobs)
    variances, directions = np.linalg.eigh(_total(parts))
    return np.maximum(variances[::-1], 0.0), directions[:, ::-1]


def _rotated(x: Float, directions: Float, exponent: int, n_jobs: int) -> Coordinates:
    short, width = np.empty((len(x), directions.shape[1] + 1)), directions.shape[1]
    directions = np.ascontiguousarray(directions)

    def rotate(own: slice) -> None:
        kept = x[own] @ directions  # (piece, w - 1)
        rest = kept @ directions.T
        np.subtract(x[own], rest, out=rest)
        short[own, :width] = kept
        short[own, width] = np.sqrt(np.einsum("nc,nc->n", rest, rest))

    _by_pieces(len(x), rotate, n_jobs, ROWS)
    return _padded(short, short[:, width].copy(), exponent, n_jobs)


def _by_pieces(n: int, work: Callable[[slice], object], n_jobs: int, rows: int = 0) -> None:
    """Do some rows at a time, always the same ones, so that sums and products do not depend on threads."""
    pieces = [slice(*own) for own in tiles(n, rows or PIECE)]
    n_jobs = min(n_jobs, len(pieces))
    if n_jobs <= 1:
        for own in pieces:
            work(own)
    else:
        in_threads(lambda own, _: work(own), pieces, n_jobs)


def _padded(x: Float, rest: Float | None, exponent: int, n_jobs: int) -> Coordinates:
    padded = x
    if x.shape[1] % 4:
        padded = np.zeros((len(x), (x.shape[1] + 3) & ~3))
        padded[:, : x.shape[1]] = x
    squares: list[float] = [0.0]

    def measure(own: slice) -> None:
        lengths = np.einsum("nc,nc->n", x[own], x[own])
        squares.append(float((lengths if rest is None else lengths + rest[own] ** 2).max()))

    _by_pieces(len(x), measure, n_jobs, ROWS)
    return Coordinates(padded, np.zeros(len(x)) if rest is None else rest, exponent, 2.0 * float(np.sqrt(max(squares))))
