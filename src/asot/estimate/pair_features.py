"""What is known about a pair once its anchor problems are solved: the numbers behind a calibrated estimate.

Eight of them cost less than the anchor plan itself (docs/method.md §7): the distance on the anchors; the two radii; the
price of the plan between local means, separately for mass that stays in its cell and mass that moves; the dual of the
transport between local means; the distance between the means of the distributions; and the price of the plan if the
points of a cell are spread around their mean. Proven bounds are the best features of all (§13), but look at the points.
With several spaces, their numbers are averaged, and the tightest bounds are used.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Identity, Indices, Info
from asot.anchors.space import AnchorSpace, Assigned, cell_offsets, cells_to_fill, radii_of
from asot.bounds.error_bars import MOST_PAIRS, Bounds, combine
from asot.bounds.short_vectors import Coordinates, Directions, leading_coordinates
from asot.data.distinct import MASS_UNIT, SharedPoints, common_mass
from asot.data.distributions import Distributions
from asot.estimate.local_means import means_to_lay_out, reprice
from asot.exact.cuda.solver import MAX_NODES, ExactCuda
from asot.exact.shared_cost import ExactSharedCost, Trees, describe
from asot.run.executors import in_stretches
from asot.run.protocols import Solution, Solver, Status
from asot.validation import as_n_jobs

CHEAP = ("anchor", "radii", "stays", "moves", "dual", "means", "spread")
OF_SHARED = ("common", "left")
PRIOR = {"stays": 0.5, "moves": 0.5, "dual": 0.5}
"""What to do without evidence: the middle between the price of the plan on local means and their dual."""

PRIOR_OF_BOUNDS = {"lower": 0.5, "upper": 0.5}

TOWARD = {"spread": 0.3, "anchor": 0.1, "means": 0.1, "learned": 0.3}
ALONG = {"stays": 0.2, "radii": 0.1, "common": 0.2, "left": 0.2}
APART, FACTOR, TO_MEANS = 0.3, 0.1, 0.4
"""How far fits of collections depart from the prior: toward other features, along some, along what is between two sides
(prices and dual; bounds), by a factor; with bounds also toward the prior without them. Fits in 24 families and 13 real
collections, each with 20 to 128 anchors, mostly depart by less. Fits to ten pairs that know this are 25 percent better
than least squares, those to 64 pairs 5 percent."""

TIE_BREAK = 2.0**-28
"""How far masses are moved apart, as a share of each: far above rounding, and far too little to show in a distance."""

COST_TIE_BREAK = 2.0**-34
"""The same for costs, whose integers have fewer bits below the largest."""

SMALLEST_SHARE = 2.0**-46
"""Before that, masses are rounded to multiples of this, so that the order of a sum does not matter."""

SMALLEST_MASS = 2.0**-53
"""Afterwards, to multiples of this, which the integers of all solvers hold exactly."""

MOST = 1e100
"""Features are at most this, in units of the collection's size."""

FARTHEST = 2.0**15
"""Points that are farther from their anchors, in these units, count as being so far away."""


@dataclass(frozen=True)
class Measured(Solution):
    """Anchor distances of a tile with everything else that was measured."""

    features: Float = field(kw_only=True)  # (P, F), at the scale of 1


def untie(histograms: Float) -> Float:
    """Histograms (N, k) of the same total in which no two sums of masses are equal by chance.

    Where they are, the potentials of a pair are not unique, and which ones a solver finds would depend on its pivots:
    features would differ from one device to another. What is equal in two histograms stays equal, or becomes so where
    it was not because of rounding.
    """
    noise = 1.0 + TIE_BREAK * np.random.default_rng(0).uniform(-1.0, 1.0, histograms.shape[1])
    rounded = np.rint(histograms / SMALLEST_SHARE) * SMALLEST_SHARE
    untied = np.rint(rounded * noise / SMALLEST_MASS).astype(np.int64)
    largest = rounded.argmax(axis=1)[:, None]
    left = round(1.0 / SMALLEST_MASS) - untied.sum(axis=1, keepdims=True)
    np.put_along_axis(untied, largest, np.take_along_axis(untied, largest, axis=1) + left, axis=1)
    return np.asarray(untied * SMALLEST_MASS)


def untie_costs(cost: Float) -> Float:
    """Costs (k, k) between anchors in which no two sums are equal by chance: those of a grid often are.

    Where they are, a pair has several optimal plans, and features would depend on which of them a solver finds.
    """
    noise = np.triu(np.random.default_rng(1).uniform(-1.0, 1.0, cost.shape), 1)
    return np.asarray(cost * (1.0 + COST_TIE_BREAK * (noise + noise.T)))


def split(histograms: Float, column_start: int | None) -> tuple[Float, Float | None]:
    """Those of the rows, and of the columns, where they are another collection."""
    return (histograms, None) if column_start is None else (histograms[:column_start], histograms[column_start:])


class Features(Solver):
    """What a fit needs to know about pairs: a solver that answers with features, and what these prove."""

    names: tuple[str, ...]  # "lower" and "upper" among them where bounds are known
    prior: Float  # (F,) what to do without evidence
    directions: Float  # (F, G) in which, and how far, fits depart from it
    plain: Float  # (F,) picks the value that is returned without a fit
    radii: Float  # (N,) how much each distribution may lose
    exponent: int  # features are in units of 2^exponent
    column_start: int

    @property
    @abstractmethod
    def level(self) -> str | None:
        """Which bounds it has."""

    @abstractmethod
    def solve(self, rows: Indices, columns: Indices, stop: NDArray[np.int64]) -> Measured: ...

    @abstractmethod
    def limits(self, features: Float) -> tuple[Float, Float]:
        """What is proven about the distances: lowest, highest (P,)."""

    @abstractmethod
    def width(self, features: Float) -> Float:
        """How much is left open about a distance (P,)."""

    @abstractmethod
    def squares(self, features: Float) -> Float:
        """(P, U) squares that an error may grow with."""


class OnAnchors:
    """What the anchor problems of all pairs share; nearest anchors are enough to know it.

    ``for_gpu``: GPUs are going to ask for their solver.
    """

    def __init__(
        self,
        space: AnchorSpace,
        both: Distributions,
        column_start: int | None,
        assigned: Assigned,
        *,
        for_gpu: bool = False,
    ) -> None:
        self.nearest, self.distance = assigned
        self.cell_offsets = cell_offsets(both, self.nearest, space.n_anchors, n_jobs=1)
        self.radii = radii_of(both, assigned)
        self.histograms = space.histograms_of(both, self.nearest)
        self.cost, self.untied = untie_costs(space.cost), split(untie(self.histograms), column_start)
        if for_gpu and space.n_anchors <= MAX_NODES:
            _ = self.on_gpu  # made by the thread that has made the rest

    @functools.cached_property
    def anchor(self) -> ExactSharedCost:
        """The solver of the CPU, which GPUs need not wait for."""
        return ExactSharedCost(*self.untied, self.cost, cancel=True)

    @functools.cached_property
    def on_gpu(self) -> ExactCuda:
        """The solver of GPUs."""
        return ExactCuda(*self.untied, self.cost, cancel=True)


class View:
    """One space's look at all pairs of one or two collections, given one after the other.

    ``column_start`` is where the second one begins, or None for pairs within one. ``on_anchors`` may be known.
    """

    def __init__(
        self,
        space: AnchorSpace,
        both: Distributions,
        short: Coordinates,
        column_start: int | None,
        bounds: Bounds | None = None,
        n_jobs: int | None = None,
        on_anchors: OnAnchors | None = None,
    ) -> None:
        own = on_anchors
        if own is None:
            own = OnAnchors(space, both, column_start, space.nearest_of(both, device="cpu", n_jobs=n_jobs))
        self.radii, self.distance, self._histograms = own.radii, own.distance, own.histograms
        self.cost, self.untied, self._on_anchors = own.cost, own.untied, own
        self.loose = (2.0 * TIE_BREAK + COST_TIE_BREAK) * float(space.cost.max())
        """How far the distance without ties may be from that on the histograms."""
        self.bounds = bounds
        self.cells, fill = cells_to_fill(both, own.nearest, short.points, space.n_anchors, own.cell_offsets)
        self.means, lay_out = means_to_lay_out(self.cells, space.n_anchors)

        def fill_both(low: int, high: int) -> None:
            fill(low, high)
            lay_out(low, high)

        in_stretches(both.offsets, fill_both, as_n_jobs(n_jobs))

    @property
    def anchor(self) -> ExactSharedCost:
        """Solves the anchor problems on the CPU."""
        return self._on_anchors.anchor

    @property
    def anchor_on_gpu(self) -> ExactCuda:
        """The same on GPUs."""
        return self._on_anchors.on_gpu

    def identity(self) -> Identity:
        """All that its features depend on."""
        return {
            "anchor": self.anchor.identity(),
            "histograms": self._histograms,
            "radii": self.radii,
            "cells": self.cells._asdict(),
            "bounds": None if self.bounds is None else self.bounds.identity(),
        }

    def solve_trees(self, rows: Indices, columns: Indices, later: Indices, stop: Any) -> Trees:
        """Plans and potentials without ties, and values without what breaks them; ``later`` is as in `fill`."""
        trees = self.anchor.solve_trees(rows, columns, stop)
        surplus = self._histograms[rows] - self._histograms[later]
        return trees._replace(values=np.maximum(np.einsum("pk,pk->p", trees.potential, surplus), 0.0))

    def fill(self, out: Float, trees: Trees, rows: Indices, columns: Indices, exponent: int, stop: Any) -> None:
        """The cheap features (P, 7) of a tile; ``columns`` count from the beginning of the first collection."""
        out[:, 0] = _at_unit(trees.values, exponent)
        out[:, 1] = _at_unit(self.radii[rows] + self.radii[columns], exponent)
        reprice(self.means, trees, rows, columns, exponent, out[:, 2:7], stop)


class PairFeatures(Features):
    """A solver whose answers are anchor distances with features, and with bounds where its views have them.

    ``learned`` solves the same pairs in a space with soft codes; its distances are then one more feature. ``shared``
    are the points that distributions have in common: mass that both have at the same point stays there, which anchors
    do not see. Features then tell how much it is, and radii are those of what is left.
    """

    def __init__(
        self,
        views: list[View],
        short: Coordinates,
        column_start: int,
        *,
        with_bounds: bool,
        learned: ExactSharedCost | None = None,
        shared: SharedPoints | None = None,
    ) -> None:
        self.views, self.learned, self.shared = views, learned, shared
        self.exponent = short.exponent
        self.column_start = column_start
        self.with_bounds = with_bounds
        cheap = CHEAP + (OF_SHARED if shared is not None else ())
        names = cheap + (("lower", "upper") if with_bounds else ()) + (("learned",) if learned is not None else ())
        self.names: tuple[str, ...] = names
        self.n_cheap = len(cheap)
        if shared is not None:
            apart = np.mean([view.distance[shared.at] for view in views], axis=0)
            self.common = shared.weighed(np.minimum(_at_unit(apart, self.exponent), FARTHEST)), shared.weighed(1.0)
            self.length = float(_at_unit(np.mean([view.cost.mean() for view in views]), self.exponent))
        self.prior, self.directions = _expected(names)
        self._plain = 0 if learned is None else len(names) - 1
        self.plain = np.eye(len(names))[self._plain]
        self.radii: Float = np.mean([view.radii for view in views], axis=0)
        self.info: Info = describe(cancel=True)

    @property
    def level(self) -> str | None:
        bounds = self.views[0].bounds
        return None if bounds is None else bounds.level

    @property
    def only_on_cpu(self) -> str | None:
        """Why estimates with these features are made on the CPU, if so."""
        if self.learned is not None:
            return "estimates in a space with soft codes are made on the CPU"
        for bounds in (view.bounds for view in self.views if view.bounds is not None):
            if bounds.level != "points":
                return f"bounds by {bounds.level} are made on the CPU"
        if max(len(view.cost) for view in self.views) > MAX_NODES:
            return f"estimates with more than {MAX_NODES} anchors are made on the CPU"
        return None

    def expected_seconds(self, n_pairs: int) -> float:
        """For one thread: a pair's features cost several times as much as its plan, and so do bounds."""
        plans = sum(view.anchor.expected_seconds(n_pairs) for view in self.views)
        return plans * (4.0 if self.views[0].bounds is None else 10.0)

    def identity(self) -> Identity:
        shared = {} if self.shared is None else {"shared": self.shared._asdict(), "length": self.length}
        return {
            **shared,
            "solver": "features on anchors, 1",
            "views": [view.identity() for view in self.views],
            "names": list(self.names),
            "exponent": self.exponent,
            "column_start": self.column_start,
            "learned": None if self.learned is None else self.learned.identity(),
        }

    def pairs_per_tile(self, memory: int) -> int:
        anchor = self.views[0].anchor
        fitting = memory // (anchor.bytes_per_tree() + 256)
        return int(np.clip(min(anchor.pairs_per_tile(memory) // len(self.views), fitting), 1, MOST_PAIRS))

    def solve(self, rows: Indices, columns: Indices, stop: NDArray[np.int64]) -> Measured:
        features = np.zeros((len(self.names), len(rows))).T  # column by column in memory, as they are used
        part = np.empty((len(CHEAP), len(rows))).T
        later = columns + self.column_start
        bounds: tuple[Float, Float] | None = None
        pivots = np.zeros(len(rows), dtype=np.int32)
        for view in self.views:
            trees = view.solve_trees(rows, columns, later, stop)
            pivots += trees.pivots
            view.fill(part, trees, rows, later, self.exponent, stop)
            features[:, : len(CHEAP)] += part
            if view.bounds is not None:
                own = view.bounds.of_trees(trees, rows, columns, stop, view.loose)
                bounds = own if bounds is None else combine(bounds, own)
        features[:, : len(CHEAP)] /= len(self.views)
        if self.shared is not None:
            common, mass = (MASS_UNIT * common_mass(own, rows, later, stop) for own in self.common)
            features[:, 1] = np.maximum(features[:, 1] - 2.0 * common, 0.0)
            features[:, len(CHEAP)], features[:, len(CHEAP) + 1] = common, self.length * (1.0 - mass)
        if self.with_bounds:
            assert bounds is not None
            for c, side in enumerate(bounds):
                features[:, self.n_cheap + c] = _at_unit(side, self.exponent)
        if self.learned is not None:
            features[:, -1] = _at_unit(self.learned.solve(rows, columns, stop).values, self.exponent)
        values = np.ldexp(features[:, self._plain], self.exponent)
        status = np.full(len(rows), Status.ON_ANCHORS, dtype=np.int8)
        lower, upper = (None, None) if bounds is None else bounds
        return Measured(values, status, pivots, lower=lower, upper=upper, features=features)

    def limits(self, features: Float) -> tuple[Float, Float]:
        """What is proven about the distances, at the scale of 1 and as far as features tell: lowest, highest (P,)."""
        value, radii, means = features[:, 0], features[:, 1], features[:, 5]
        lowest, highest = np.maximum(np.maximum(value - radii, means), 0.0), value + radii
        if self.with_bounds:
            c = self.n_cheap
            lowest, highest = np.maximum(lowest, features[:, c]), np.minimum(highest, features[:, c + 1])
        return np.minimum(lowest, highest), highest

    def width(self, features: Float) -> Float:
        """How uncertain a distance is (P,): between the cost of the spread plan and what is proven."""
        lowest, highest = self.limits(features)
        return np.maximum(np.minimum(highest, features[:, 6]) - lowest, 0.0)

    def squares(self, features: Float) -> Float:
        """(P, 4) squares that an error may grow with: one, the radii, the gap between price and dual, the width."""
        gap = features[:, 2] + features[:, 3] - features[:, 4]
        unit = np.ones(len(features))
        return np.stack([unit, features[:, 1] ** 2, gap**2, self.width(features) ** 2]).T


def _expected(names: tuple[str, ...]) -> tuple[Float, Float]:
    """The prior (F,) and the directions (F, G) of a fit with these features."""
    one = dict(zip(names, np.eye(len(names)), strict=True))
    means, of_bounds = (np.array([share.get(name, 0.0) for name in names]) for share in (PRIOR, PRIOR_OF_BOUNDS))
    sides = [one["stays"] + one["moves"] - one["dual"]]
    prior, toward = means, []
    if "upper" in one:
        prior, toward = of_bounds, [TO_MEANS * (means - of_bounds)]
        sides.append(one["upper"] - one["lower"])
    toward += [share * (one[name] - prior) for name, share in TOWARD.items() if name in one]
    along = [share * one[name] for name, share in ALONG.items() if name in one]
    return prior, np.stack([*toward, *along, *(APART * side for side in sides), FACTOR * prior], axis=1)


def _at_unit(values: Float, exponent: int) -> Float:
    """At the scale of 1, so that a space of a very different scale cannot make squares overflow."""
    with np.errstate(over="ignore"):
        return np.minimum(np.ldexp(values, -exponent), MOST)


def coordinates_of(both: Distributions, n_jobs: int | None = None, directions: Directions | None = None) -> Coordinates:
    """The coordinates in which local means are compared, for all spaces of a call."""
    return leading_coordinates(both.points, both.masses, directions, as_n_jobs(n_jobs))
