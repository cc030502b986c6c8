"""W_p of every order through few points: for p > 1, other norms and unmatched mass (docs/method.md §15).

The points of a distribution that are nearest to the same anchor are moved to one place: to their own mean, or to the
anchor. What is left is a smaller problem of the same kind, which is solved exactly. W_p is a metric, with unmatched
mass too (as long as prices change no faster than the ground distance), so the true distance is within r_x + r_y, where
r^p = Σ a d(point, place)^p is what moving the points of a distribution costs.

More is known in special cases. For p = 2 and Euclidean distances, a plan between means is lifted at a price of W̃² +
r_x² + r_y². Without unmatched mass, W_p is at least the distance between the two means, and for p ≥ 2 at least that of
two normal distributions with the same means and covariances (Gelbrich). With a constant price R, the excess of one side
must stay unmatched: W_p^p ≥ R^p |difference of totals|.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asot._typing import Float, Identity, Indices, Info
from asot.bounds.error_bars import MOST_PAIRS
from asot.data.distinct import SparseHistograms
from asot.data.distributions import trusted
from asot.estimate.pair_features import Features, Measured
from asot.exact.auto import exact_solver
from asot.exact.shared_cost import cost_bits_for, index_bits_for
from asot.exact.unmatched import totals_beside
from asot.ground.metrics import CHEBYSHEV, CITYBLOCK, EUCLIDEAN, MINKOWSKI, Ground, norm
from asot.request import Distance
from asot.run.protocols import Solution, Solver, Status, identity_of

NORM_NAMES = {EUCLIDEAN: "euclidean", CITYBLOCK: "cityblock", CHEBYSHEV: "chebyshev", MINKOWSKI: "minkowski"}
"""Kernels of norms: means of points make sense in them."""

NAMES = ("coarse", "radii", "joint", "below", "lower", "upper")

PRIOR = np.array([0.5, 0.0, 0.5, 0.0, 0.0, 0.0])
DIRECTIONS = np.array([
    [-0.5, 0.0, -0.1, -0.1, 0.0, 0.1],  # coarse
    [0.0, 0.2, 0.0, 0.0, 0.0, 0.0],     # radii
    [0.5, 0.0, -0.1, -0.1, 0.0, 0.1],   # joint
    [0.0, 0.0, 0.2, 0.0, 0.0, 0.0],     # below
    [0.0, 0.0, 0.0, 0.2, -0.2, 0.0],    # lower
    [0.0, 0.0, 0.0, 0.0, 0.2, 0.0],     # upper
])  # fmt: skip
"""What to do without evidence, and in which directions, and how far, fits of collections depart from it: toward the
upper end of what is known, by the radii, toward either lower bound, by what they leave open, and by a factor."""

SHAPE_AXES = 4
"""Leading axes in which covariances are compared."""

MOST_AXES = 512
"""Leading axes are computed in up to this many dimensions."""

ROUNDING = 1e-13
"""Rounding of sums over points of size 1, with room to spare."""


@dataclass(frozen=True)
class Cells:
    """Which points move to one place, and where: cell (V,) of the distinct points, ``places`` (k, d) or None for means.

    Places are in the units of the ground metric.
    """

    cell: Indices
    n_cells: int
    places: Float | None = None


class Coarse(Features):
    """A solver for coarse distances, with features and bounds of every pair (`asot.estimate.pair_features.Features`).

    ``histograms`` hold both collections, the second one from ``column_start`` on (0 for pairs within one), ``totals``
    (N,) their masses before they were scaled; ``ground`` is a norm, prepared for the distinct points. A table may take
    ``memory`` bytes. ``axes`` (d, w): along which covariances are compared; else those in which points spread most.
    """

    names: tuple[str, ...] = NAMES
    level: str | None = "radius"

    def __init__(
        self,
        histograms: SparseHistograms,
        totals: Float,
        ground: Ground,
        distance: Distance,
        cells: Cells,
        column_start: int,
        memory: int,
        axes: Float | None = None,
    ) -> None:
        self._p, self.exponent, self.column_start = distance.p, ground.exponent, column_start
        self._norm = ground.code, ground.order
        matched = distance.unmatched is None
        self._totals = np.ones(len(totals)) if matched else totals_beside(distance.unmatched, totals)
        self._price = None if distance.constant is None else float(np.ldexp(distance.constant, -ground.exponent))
        self._matched = distance.unmatched is None
        self._quadratic = distance.p == 2 and ground.code == EUCLIDEAN and cells.places is None
        self._coarsen(histograms, ground, cells)
        unmatched = distance.unmatched if self._price is None else self._price
        options = {"p": ground.order} if ground.code == MINKOWSKI else None
        self.distance = Distance(distance.p, NORM_NAMES[ground.code], options, unmatched)
        self._solver = exact_solver(self.collection, self.distance, column_start, memory)
        self._shapes = _shapes(histograms, ground, axes) if self._matched else None
        self.axes = None if self._shapes is None else self._shapes.axes
        self._roots: Float | None = None
        if self._shapes is not None and ground.code == EUCLIDEAN and distance.p >= 2:
            self._roots = self._shapes.roots
        self._open, self._reach = self._left_open()
        self.prior, self.directions, self.plain = PRIOR, DIRECTIONS, np.eye(len(NAMES))[0]
        self.radii: Float = np.ldexp(self._radii, self.exponent)
        self.info: Info = {**self._solver.info, "metric": ground.name, "unmatched": distance.unmatched}

    def _coarsen(self, histograms: SparseHistograms, ground: Ground, cells: Cells) -> None:
        """Set ``collection``, every distribution on the places of its cells, and the radii, in units of 2^exponent; the
        coarse distances are the ``distance`` of that collection."""
        n = len(histograms.offsets) - 1
        owner = np.repeat(np.arange(n), np.diff(histograms.offsets))
        keys, place = np.unique(owner * cells.n_cells + cells.cell[histograms.index], return_inverse=True)
        mass = np.bincount(place, weights=histograms.masses).astype(np.float64, copy=False)
        points = ground.points[histograms.index]
        if cells.places is None:
            share = histograms.masses / mass[place]
            where: Float = np.stack([np.bincount(place, weights=share * column) for column in points.T], axis=1)
        else:
            where = cells.places[keys % cells.n_cells]
        offsets = np.searchsorted(keys, np.arange(n + 1) * cells.n_cells)
        self.collection = trusted(where, offsets, mass, self._totals)
        moved = norm(points - where[place], *self._norm)
        most = np.maximum.reduceat(moved, histograms.offsets[:-1])
        part = (moved / np.where(most > 0, most, 1.0)[owner]) ** self._p
        mean = np.add.reduceat(histograms.masses * part, histograms.offsets[:-1])
        self._radii = most * (self._totals * mean) ** (1.0 / self._p)

    def _left_open(self) -> tuple[float, float]:
        """The simplex's rounding error in a sum of costs d^p, and the unit of d in it."""
        points = self.collection.points
        reach = float(norm((points.max(axis=0) - points.min(axis=0))[None], *self._norm)[0])
        if not self._matched:
            reach = max(reach, 2.0 * self._price if self._price is not None else float(np.abs(points).max()) * 2.0)
        most = int(self.collection.sizes.max()) + 1
        bits = cost_bits_for(index_bits_for(most, most))
        return 4.0 * float(self._totals.max()) * 2.0 ** (1 - bits), reach or 1.0

    def identity(self) -> Identity:
        return identity_of(
            "coarse, 1", coarse=self._solver, radii=self.radii, totals=self._totals, price=self._price,
            quadratic=self._quadratic, exponent=self.exponent, column_start=self.column_start, roots=self._roots,
            means=None if self._shapes is None else self._shapes.means,
        )  # fmt: skip

    def pairs_per_tile(self, memory: int) -> int:
        return int(np.clip(min(self._solver.pairs_per_tile(memory), memory // 1024), 1, MOST_PAIRS))

    def expected_seconds(self, n_pairs: int) -> float:
        """Roughly how long one thread takes for this many pairs."""
        return self._solver.expected_seconds(n_pairs) + n_pairs * (1e-6 if self._roots is None else 8e-6)

    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Measured:
        return self.measured(self._solver.solve(rows, columns, stop), rows, columns)

    def measured(self, solved: Solution, rows: Indices, columns: Indices) -> Measured:
        """Features and bounds of pairs (P,) whose coarse distances are known."""
        later = columns + self.column_start
        features = np.empty((len(NAMES), len(rows))).T  # column by column in memory, as they are used
        features[:, 0] = solved.values
        features[:, 1] = self._radii[rows] + self._radii[later]
        features[:, 2] = self._power_sum(solved.values, self._radii[rows], self._radii[later])
        features[:, 3] = self._below(rows, later)
        features[:, 4], features[:, 5] = self._bounds(features, rows, later)
        values, lower, upper = (np.ldexp(features[:, c], self.exponent) for c in (0, 4, 5))
        status = np.full(len(rows), Status.ON_ANCHORS, dtype=np.int8)
        return Measured(values, status, solved.n_iter, lower=lower, upper=upper, features=features)

    def _power_sum(self, *parts: Float) -> Float:
        """(Σ x^p)^(1/p) of the parts, each (P,)."""
        most = np.maximum.reduce(parts)
        unit = np.where(most > 0, most, 1.0)
        total = np.zeros(len(most))
        for part in parts:
            total += (part / unit) ** self._p
        return np.asarray(unit * total ** (1.0 / self._p) * (most > 0))

    def _below(self, rows: Indices, later: Indices) -> Float:
        """What means, covariances or totals prove (P,)."""
        if self._shapes is None:
            if self._price is None:
                return np.zeros(len(rows))
            excess = np.abs(self._totals[rows] - self._totals[later])
            return np.asarray(self._price * excess ** (1.0 / self._p))
        apart = norm(self._shapes.means[rows] - self._shapes.means[later], *self._norm)
        if self._roots is None:
            return apart
        overlap = np.linalg.svd(self._roots[rows] @ self._roots[later], compute_uv=False).sum(axis=1)
        spread = self._shapes.traces[rows] + self._shapes.traces[later]
        return np.sqrt(apart**2 + np.maximum(spread - 2.0 * overlap - ROUNDING, 0.0))

    def _bounds(self, features: Float, rows: Indices, later: Indices) -> tuple[Float, Float]:
        value, radii, joint, below = features[:, :4].T
        slack = ROUNDING * self._reach * (1.0 + (self._totals[rows] + self._totals[later])) ** (1.0 / self._p)
        part = (value / self._reach) ** self._p
        least = self._reach * np.maximum(part - self._open, 0.0) ** (1.0 / self._p)
        lower = np.maximum(np.maximum(least - radii, below) - slack, 0.0)
        upper = (np.minimum(joint, value + radii) if self._quadratic else value + radii) * (1.0 + 1e-12) + slack
        return np.minimum(lower, upper), upper

    # ------------------------------------------------------------------------------------------------ for a fit

    def limits(self, features: Float) -> tuple[Float, Float]:
        return features[:, 4], features[:, 5]

    def width(self, features: Float) -> Float:
        return features[:, 5] - features[:, 4]

    def squares(self, features: Float) -> Float:
        """(P, 4) squares that an error may grow with: one, the radii, what spread adds, the width."""
        unit = np.ones(len(features))
        added = features[:, 2] - features[:, 0]
        return np.stack([unit, features[:, 1] ** 2, added**2, self.width(features) ** 2]).T


class CoarseValues(Solver):
    """The coarse distances as they are, with bounds if asked for."""

    def __init__(self, coarse: Coarse, *, give_bounds: bool) -> None:
        self._coarse, self._give_bounds = coarse, give_bounds
        self.info: Info = coarse.info | ({"bounds": coarse.level} if give_bounds else {})

    def identity(self) -> Identity:
        return {**self._coarse.identity(), "solver": "coarse values, 1", "bounds": self._give_bounds}

    def pairs_per_tile(self, memory: int) -> int:
        return self._coarse.pairs_per_tile(memory)

    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
        return self.of(self._coarse.solve(rows, columns, stop), rows, columns)

    def of(self, found: Measured, rows: Indices, columns: Indices) -> Solution:
        """What is known about some pairs, as far as it was asked for."""
        if not self._give_bounds:
            return Solution(found.values, found.status, found.n_iter)
        assert found.lower is not None
        assert found.upper is not None
        values = np.clip(found.values, found.lower, found.upper)
        return Solution(values, found.status, found.n_iter, lower=found.lower, upper=found.upper)


@dataclass(frozen=True)
class _Shapes:
    means: Float  # (N, d)
    roots: Float | None  # (N, w, w) square roots of covariances along leading axes
    traces: Float  # (N,) their traces
    axes: Float | None = None  # (d, w)


def _shapes(histograms: SparseHistograms, ground: Ground, axes: Float | None) -> _Shapes:
    """Means and covariances of all distributions, in units of the ground metric."""
    offsets, masses = histograms.offsets, histograms.masses[:, None]
    points = ground.points[histograms.index]
    means = np.add.reduceat(points * masses, offsets[:-1], axis=0)
    if points.shape[1] > MOST_AXES:
        return _Shapes(means, None, np.zeros(len(means)))
    centered = points - np.repeat(means, np.diff(offsets), axis=0)
    if points.shape[1] > SHAPE_AXES:
        if axes is None:
            axes = np.linalg.eigh((centered * masses).T @ centered)[1][:, -SHAPE_AXES:]
        centered = centered @ axes
    width = centered.shape[1]
    covariance = np.empty((len(means), width, width))
    for c in range(width):
        for e in range(width):
            products = centered[:, c] * centered[:, e] * histograms.masses
            covariance[:, c, e] = np.add.reduceat(products, offsets[:-1])
    size, turns = np.linalg.eigh(covariance)
    size = np.maximum(size, 0.0)
    roots = (turns * np.sqrt(size)[:, None, :]) @ turns.transpose(0, 2, 1)
    return _Shapes(means, roots, size.sum(axis=1), axes)
