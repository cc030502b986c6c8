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
from asot.native import Double, Doubles, Int, entry
from asot.run.executors import in_pieces
from asot.run.pairs import tiles
from asot.validation import FloatArray

NEGLIGIBLE = 1e-3
"""Share of the variance that may be left to ρ in a bound; it loosens the bounds by about this much of their square."""

WIDTHS = (16, 24, 32)
"""Coordinates of bounds; estimates take the first of these."""

LARGEST_ROTATION = 1024
"""Dimensions up to which principal directions are computed (an eigenproblem of this size takes 0.2 s)."""

LOOKED_AT = 8192
"""Points from which the directions of an estimate are taken."""

PIECE = 2**13
"""Points that are summed at a time."""

ROWS = 2**12
"""Points that are rotated or moved at a time, each by itself."""

MOVED = 2**19
"""Numbers that are moved at a time: fewer are done before a thread has been told."""

SAFE = 500
"""Powers of two up to this size can be multiplied, and the products squared, without leaving the range."""

LARGEST_FACTOR = 1000
"""Powers of two below this size are numbers, and so are their inverses."""

ROUNDING = 2e-13
"""How far, as a share of the extent, sums of distances may be off. Bounds are widened by this much."""


_column_ends = entry("column_ends", Doubles, Int, Int, Doubles, Doubles)
_move_to_mean = entry("move_to_mean", Doubles, Int, Int, Doubles, Double, Doubles)


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


def short_coordinates(points: FloatArray, weights: Float, n_jobs: int = 1) -> Coordinates:
    """Points (n, d) in the fewest of `WIDTHS` coordinates that leave out next to nothing; in all d where none does.

    ``weights`` (n,) say how much each point matters for the directions.
    """
    x, exponent, _ = _centered(points, weights, n_jobs)
    if x.shape[1] > WIDTHS[0] and x.shape[1] <= LARGEST_ROTATION:
        spectrum, directions = _principal(x, weights, n_jobs)
        for width in WIDTHS:
            if width < x.shape[1] and spectrum[width - 1 :].sum() <= NEGLIGIBLE * spectrum.sum():
                return _rotated(x, directions[:, : width - 1], exponent, n_jobs)
    return _padded(x, None, exponent, n_jobs)


class Directions(NamedTuple):
    """Orthogonal directions in which points are spread most."""

    columns: Float  # (d, w)
    exponent: int  # that of the points they were taken from


def leading_directions(points: FloatArray, weights: Float) -> Directions | None:
    """The directions of `leading_coordinates`, taken from some of the points; None where all coordinates are kept."""
    d = points.shape[1]
    if d <= WIDTHS[0]:
        return None
    few = slice(None, None, -(-len(points) // (LOOKED_AT if d <= LARGEST_ROTATION else LARGEST_ROTATION)))
    sample, exponent, _ = _centered(points[few], weights[few])
    if d <= LARGEST_ROTATION:
        directions = _principal(sample, weights[few])[1]
    else:  # more coordinates than points looked at: the directions are combinations of these
        directions = np.linalg.svd(sample, full_matrices=False)[2].T
    return Directions(np.ascontiguousarray(directions[:, : WIDTHS[0]]), exponent)


def leading_coordinates(
    points: FloatArray, weights: Float, directions: Directions | None = None, n_jobs: int = 1
) -> Coordinates:
    """Points (n, d) in at most 16 coordinates, no matter how much that leaves out: enough for an estimate.

    ``directions`` are those of `leading_directions`, if they are already known.
    """
    directions = leading_directions(points, weights) if directions is None else directions
    if directions is None:
        x, exponent, square = _centered(points, weights, n_jobs)
    else:
        x, exponent, square = _projected(points, weights, directions, n_jobs)
    return Coordinates(_wide(x), np.zeros(len(x)), exponent, 2.0 * float(np.sqrt(square)))


def _projected(points: FloatArray, weights: Float, directions: Directions, n_jobs: int) -> tuple[Float, int, float]:
    """points (n, d) @ directions around their mean, as of `_centered`, without a copy of all points.

    The power of two is that of the points which directions are from, unless others are larger by hundreds of them.
    """
    columns, guess = directions
    short = np.empty((len(points), columns.shape[1]))
    if abs(guess) < SAFE:
        fitting = scaled(columns, -guess)

        def project(own: slice) -> None:
            for part in (slice(*rows) for rows in tiles(own.stop, ROWS, own.start)):
                np.matmul(points[part], fitting, out=short[part])

        found = _sums(short, weights, n_jobs, project)
        if np.isfinite(found.total).all() and 2.0**-SAFE < max(found.high.max(), -found.low.min()) < 2.0**SAFE:
            more, square = _move(short, found, weights, n_jobs)
            return short, guess + more, square
    exponent = _exponent(points, n_jobs)

    def project_scaled(own: slice) -> None:
        np.matmul(scaled(points[own], -exponent), columns, out=short[own])

    more, square = _move(short, _sums(short, weights, n_jobs, project_scaled), weights, n_jobs)
    return short, exponent + more, square


def scaled(points: FloatArray, exponent: int, out: Float | None = None) -> Float:
    """Numbers times 2^exponent: in one product where that is a number, which is faster than `ldexp`."""
    if abs(exponent) < LARGEST_FACTOR:
        return np.multiply(points, 2.0**exponent, out=out, dtype=np.float64)
    return np.ldexp(np.asarray(points, dtype=np.float64), exponent, out=out)


def _centered(points: FloatArray, weights: Float, n_jobs: int = 1) -> tuple[Float, int, float]:
    """Points at the scale of 1 around their mean, the power of two they were divided by, and the largest square of a
    length."""
    exponent = _exponent(points, n_jobs)
    x = np.empty(points.shape)

    def copy(own: slice) -> None:
        scaled(points[own], -exponent, x[own])

    more, square = _move(x, _sums(x, weights, n_jobs, copy), weights, n_jobs)
    return x, exponent + more, square


class _Sums(NamedTuple):
    """What is known of rows (n, d) that were looked at once."""

    total: Float  # (d,) weighted
    low: Float  # (d,)
    high: Float  # (d,)


def _sums(x: Float, weights: Float, n_jobs: int, fill: Callable[[slice], object]) -> _Sums:
    """Sums over rows of x (n, d), which ``fill`` writes: threads look at what they have just written.

    Where numbers leave their range, sums are no numbers, without a warning.
    """
    parts: dict[int, Float] = {}
    ends: list[Float] = []

    def add(own: slice) -> None:
        low_high = np.empty((2, x.shape[1]))
        with np.errstate(over="ignore", invalid="ignore"):  # that of the calling thread is not that of others
            fill(own)
            parts[own.start] = weights[own] @ x[own]
        _column_ends(x[own], *x[own].shape, *low_high)
        ends.append(low_high)

    _by_pieces(len(x), add, n_jobs)
    lows, highs = np.stack(ends, axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        return _Sums(_total(parts), lows.min(axis=0), highs.max(axis=0))


def _move(x: Float, sums: _Sums, weights: Float, n_jobs: int) -> tuple[int, float]:
    """Move rows to their mean and to the scale of 1, in place: the power of two they are divided by, and the largest
    square of a length."""
    mean = sums.total / weights.sum()
    size = np.maximum(np.abs(sums.low - mean), np.abs(sums.high - mean)).max()
    more = int(np.frexp(size)[1])
    squares: list[Float] = []

    def move(own: slice, by: Float, exponent: int) -> None:
        square = np.empty(1)
        _move_to_mean(x[own], *x[own].shape, by, 2.0**-exponent, square)
        squares.append(square)

    rows = max(1, MOVED // x.shape[1])
    half = more if abs(more) < LARGEST_FACTOR else more // 2
    _by_pieces(len(x), lambda own: move(own, mean, half), n_jobs, rows)
    if half != more:
        squares.clear()
        _by_pieces(len(x), lambda own: move(own, np.zeros_like(mean), more - half), n_jobs, rows)
    return more, float(np.max(squares))


def _exponent(x: FloatArray, n_jobs: int = 1) -> int:
    """The smallest power of two above all sizes."""
    sizes: list[float] = []
    _by_pieces(len(x), lambda own: sizes.extend((float(x[own].max()), -float(x[own].min()))), n_jobs, ROWS)
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
    in_pieces(work, [slice(*own) for own in tiles(n, rows or PIECE)], n_jobs)


def _padded(x: Float, rest: Float | None, exponent: int, n_jobs: int) -> Coordinates:
    squares: list[float] = [0.0]

    def measure(own: slice) -> None:
        lengths = np.einsum("nc,nc->n", x[own], x[own])
        squares.append(float((lengths if rest is None else lengths + rest[own] ** 2).max()))

    _by_pieces(len(x), measure, n_jobs, ROWS)
    left = np.zeros(len(x)) if rest is None else rest
    return Coordinates(_wide(x), left, exponent, 2.0 * float(np.sqrt(max(squares))))


def _wide(x: Float) -> Float:
    """Rows whose width is a multiple of 4."""
    if x.shape[1] % 4 == 0:
        return x
    padded = np.zeros((len(x), (x.shape[1] + 3) & ~3))
    padded[:, : x.shape[1]] = x
    return padded
