"""Proven error bars: lower ≤ W_1 ≤ upper for every pair (docs/method.md §6).

Every bound here needs nearest-anchor codes and anchors that are compared by the points' own Euclidean metric. For other
spaces no bound is proven, and none is given: `check_proven` says why. Bounds are combined (the largest lower and the
smallest upper one also hold) and rounded outward.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Identity, Indices
from asot.anchors.space import AnchorSpace, Assigned, radii_of
from asot.bounds.cell_bracket import cell_bracket, cell_table
from asot.bounds.point_bracket import bracket, order_along, point_table
from asot.bounds.short_vectors import Coordinates, short_coordinates
from asot.data.distinct import SparseHistograms, numbered_histograms, sparse_histograms
from asot.data.distributions import Distributions
from asot.exact.auto import simplex_of_points
from asot.exact.shared_cost import Trees, cost_bits_for, index_bits_for
from asot.ground.metrics import prepare_metric
from asot.run.executors import in_ranges, in_stretches
from asot.validation import as_n_jobs

MOST_POINTS_PER_ANCHOR = 4
"""Distributions of more than this many points per anchor are bounded by their cells, not by their points."""

MOST_PAIRS = 2**14
"""Most pairs in a tile: enough to make the overhead of a tile negligible; their plans take a few megabytes."""

BLURRED = 1e-5
"""Rounding above this share of an upper bound blurs it."""

LIFTED = "lifted, with exchanges, 2"
"""How plans between anchors become plans between points, which upper bounds depend on."""

LEAST = 2.0**-1070
"""A few steps between numbers near 0, where a share of a number is too small to represent."""


def radius_bounds(values: Float, row_radii: Float, column_radii: Float) -> tuple[Float, Float]:
    """|W_AS - W_1| ≤ r_x + r_y, where r is the mean distance of a distribution's points to their anchors. All (P,)."""
    slack = row_radii + column_radii
    return values - slack, values + slack


def centroid_bound(row_means: Float, column_means: Float) -> Float:
    """W_1 ≥ ‖mean_x - mean_y‖: no plan moves the mean by more than it moves the mass. Means (P, d), bound (P,)."""
    gap = row_means - column_means
    return np.sqrt(np.einsum("pc,pc->p", gap, gap))


def means(points: Float, masses: Float, offsets: NDArray[np.int64]) -> Float:
    """Mean (N, w) of every distribution, from points (n, w) and masses (n,)."""
    return np.asarray(np.add.reduceat(points * masses[:, None], offsets[:-1], axis=0), dtype=np.float64)


def check_proven(space: AnchorSpace, asked_by: str) -> None:
    """Refuse bounds where none is proven."""
    if space.why_no_bounds is not None:
        raise ValueError(f"{asked_by} needs nearest anchors and Euclidean anchor costs: {space.why_no_bounds}")


def warn_far_from_anchors(space: AnchorSpace, radii: Float) -> None:
    """Warn if a space was made for other points: then bounds are wide and anchor distances mean little."""
    spacing = float(space.cost.max())
    far = int(np.count_nonzero(radii > spacing))
    if far > 0 and space.n_anchors > 1:
        warnings.warn(
            f"{far:,} of {len(radii):,} distributions are farther from their anchors (up to {radii.max():.3g} on "
            f"average) than the anchors are from each other (at most {spacing:.3g}): error bars are at least as wide. "
            "Was the space learned on another collection, or at another scale?",
            stacklevel=3,
        )


class Bounds:
    """Bounds on the pairs of one or two collections in a space: radii and centroids, O(1) per pair.

    Subclasses add what an anchor plan proves. All are safe to call from several threads. D holds both collections, the
    second one from ``column_start`` on (0 for pairs within one). ``assigned``: the anchors of all points, if they are
    known already; ``distinct``: returns the distinct points of D, if they are known.
    """

    level = "radius"

    def __init__(
        self,
        space: AnchorSpace,
        D: Distributions,
        column_start: int,
        n_jobs: int = 1,
        assigned: Assigned | None = None,
        distinct: Callable[[], DistinctPoints] | None = None,
    ) -> None:
        known = space.nearest_of(D, device="cpu") if assigned is None else assigned
        self.radii = radii_of(D, known)
        self._column_start, self._n_jobs = column_start, n_jobs
        bits = cost_bits_for(index_bits_for(space.n_anchors, space.n_anchors))
        self.open = float(np.ldexp(space.cost.max(), 1 - bits))  # how far above the optimum an anchor plan may cost
        self._D, self._distinct = D, distinct
        self._small: SmallPairs | None = None
        self._prepare(space, D, known.nearest)

    def identity(self) -> Identity:
        """All that bounds depend on, beside the plans on the anchors."""
        own = {"points": self._D.points, "offsets": self._D.offsets, "masses": self._D.masses}
        return {"level": self.level, "collection": own, "radii": self.radii, "column_start": self._column_start}

    def _prepare(self, space: AnchorSpace, D: Distributions, nearest: Indices) -> None:
        self._short: Coordinates = short_coordinates(D.points, D.masses, n_jobs=self._n_jobs)
        self._means = means(self._short.points, D.masses, D.offsets)

    def of_trees(
        self, trees: Trees, rows: Indices, columns: Indices, stop: Any, loose: float = 0.0
    ) -> tuple[Float, Float]:
        """Bounds (P,) of a tile of exactly solved anchor problems, whose values may be off by ``loose``."""
        own = self.of_values(trees.values - self.open - loose, trees.values + loose, rows, columns)
        more = self._bracket(trees, rows, columns + self._column_start, stop)
        return own if more is None else self._refined(own, more, rows, columns, stop)

    def _bracket(self, trees: Trees, rows: Indices, columns: Indices, stop: Any) -> tuple[Float, Float] | None:
        """What the plans on the anchors prove besides, up to rounding; columns count from the first collection."""
        return None

    def of_values(self, low: Float, high: Float, rows: Indices, columns: Indices) -> tuple[Float, Float]:
        """Bounds (P,) where the distance on the anchors is known to be between ``low`` and ``high``."""
        columns = columns + self._column_start
        lower, _ = radius_bounds(low, self.radii[rows], self.radii[columns])
        _, upper = radius_bounds(high, self.radii[rows], self.radii[columns])
        by_means = np.ldexp(centroid_bound(self._means[rows], self._means[columns]), self._short.exponent)
        slack = self._short.slack
        return np.maximum(np.maximum(lower, by_means) - slack, 0.0), upper + slack

    def _refined(
        self, own: tuple[Float, Float], more: tuple[Float, Float], rows: Indices, columns: Indices, stop: Any
    ) -> tuple[Float, Float]:
        """Both intervals combined, rounded outward; pairs that lose precision this way are computed separately."""
        slack = self._short.slack
        lower, upper = combine(own, (more[0] - slack, more[1] + slack))
        blurred = np.flatnonzero((slack + self.open > BLURRED * upper) & (upper > lower))
        if len(blurred):
            if self._small is None:  # two threads that get here at once make the same thing
                self._small = SmallPairs(self._D)
            sharp = self._small.bracket(rows[blurred], columns[blurred] + self._column_start, stop)
            lower[blurred], upper[blurred] = combine((lower[blurred], upper[blurred]), sharp)
        return lower, upper


class DistinctPoints(NamedTuple):
    """What bounds by points know of a collection in any space."""

    histograms: SparseHistograms
    number: Indices  # (n,) which of the distinct points each point of the collection is, -1 without mass
    short: Coordinates
    along: Indices  # (V,) their order by the first coordinate
    means: Float  # (N, w)

    @classmethod
    def of(cls, D: Distributions, n_jobs: int) -> DistinctPoints:
        histograms, number = numbered_histograms(D, in_ranges(n_jobs))
        short = short_coordinates(histograms.points, histograms.pooled_masses(), n_jobs=n_jobs)
        means = histograms.means(short.points, functools.partial(in_stretches, n_jobs=n_jobs))
        return cls(histograms, number, short, order_along(short), means)


class PointBounds(Bounds):
    """Also lifted plans and c-transformed potentials on the original points: tight, O(n²) per pair."""

    level = "points"

    def _prepare(self, space: AnchorSpace, D: Distributions, nearest: Indices) -> None:
        own = DistinctPoints.of(D, self._n_jobs) if self._distinct is None else self._distinct()
        self._distinct = None
        used = own.number >= 0
        cell = np.empty(len(own.histograms.points), dtype=np.int64)
        cell[own.number[used]] = nearest[used]  # equal points have the same anchor
        self._short, self._means = own.short, own.means
        self._table, _ = point_table(own.histograms, cell, self._short, space.n_anchors, self._n_jobs, own.along)

    def tables(self) -> tuple[dict[str, NDArray[Any]], Float, Coordinates]:
        """What a GPU needs: the points, the means (N, w) of all distributions, and the coordinates of both."""
        return self._table.arrays(), self._means, self._short

    def identity(self) -> Identity:
        return {**super().identity(), "plan": LIFTED}

    def _bracket(self, trees: Trees, rows: Indices, columns: Indices, stop: Any) -> tuple[Float, Float]:
        return bracket(self._table, trees, rows, columns, self._short.exponent, stop)


class CellBounds(Bounds):
    """Also the McShane extension and the mean-and-spread price: O(n·k) per pair, for distributions larger than k."""

    level = "cells"

    def _prepare(self, space: AnchorSpace, D: Distributions, nearest: Indices) -> None:
        n, k = len(D.points), space.n_anchors
        both = np.concatenate([D.points, space.anchors])
        short = short_coordinates(both, np.concatenate([D.masses, np.zeros(k)]), n_jobs=self._n_jobs)
        self._short = short
        self._means = means(short.points[:n], D.masses, D.offsets)
        self._table = cell_table(space, D, short, nearest)

    def _bracket(self, trees: Trees, rows: Indices, columns: Indices, stop: Any) -> tuple[Float, Float]:
        return cell_bracket(self._table, trees, rows, columns, self._short.exponent, stop)


class SmallPairs:
    """Bounds for pairs that are tiny compared with the extent of their collection, prepared from both collections.

    Next to a point at 1e12, distributions of width 1e-3 keep three digits in shared coordinates, and none in the anchor
    plan, whose costs are rounded relative to the largest one. The exact solver measures every pair by itself, from
    differences of the original coordinates; so these few pairs are solved on their points, and the interval is the
    rounding of its integer costs.
    """

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


def combine(first: tuple[Float, Float], second: tuple[Float, Float]) -> tuple[Float, Float]:
    """The tighter of two intervals at each end; both hold, so their intersection does."""
    lower, upper = np.maximum(first[0], second[0]), np.minimum(first[1], second[1])
    return np.minimum(lower, upper), upper


BOUNDS_BY_LEVEL: dict[str, type[Bounds]] = {kind.level: kind for kind in (Bounds, CellBounds, PointBounds)}
"""What ``bounds=`` may name."""


def make_bounds(
    space: AnchorSpace,
    both: Distributions,
    column_start: int = 0,
    level: str = "auto",
    n_jobs: int | None = None,
    assigned: Assigned | None = None,
    distinct: Callable[[], DistinctPoints] | None = None,
) -> Bounds:
    """The `Bounds` of a level; "auto" chooses by the size of the distributions."""
    kind = BOUNDS_BY_LEVEL[level_for(level, both, space.n_anchors)]
    return kind(space, both, column_start, as_n_jobs(n_jobs), assigned, distinct)


def level_for(level: str, both: Distributions, n_anchors: int) -> str:
    """The level of bounds that is used where ``level`` is asked for."""
    if level != "auto":
        return level
    return "points" if both.sizes.mean() <= MOST_POINTS_PER_ANCHOR * n_anchors else "cells"
