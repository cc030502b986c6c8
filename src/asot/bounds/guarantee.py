"""`max_error`: the user says what error they can live with, and every pair is brought below it.

Most pairs have bounds that are close enough. The others are solved exactly on the original points. How many anchors
make the whole cheapest depends on the data: more of them mean dearer plans but tighter bounds and fewer exact solves.
`choose_anchors` measures on a sample of pairs how many would be left, and compares the work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.anchors.space import AnchorSpace
from asot.bounds.error_bars import clip, make_bounds
from asot.data.distinct import distinct_rows, sparse_histograms
from asot.data.distributions import Distributions
from asot.exact.points import ExactPoints
from asot.exact.shared_cost import ExactSharedCost
from asot.jit.metrics import prepare_metric
from asot.run.executors import Stop
from asot.run.pairs import AllPairs, at_places
from asot.run.result import Status
from asot.run.solver import Solution, Solver

Float = NDArray[np.float64]
Indices = NDArray[np.int64]

SAMPLE = 500
"""Pairs on which the bounds of each number of anchors are measured."""

PART = 200
"""Distributions on which numbers of anchors are tried."""

SHARES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Numbers of anchors that are tried, as multiples of the mean size of a distribution."""


MOST_EXACT_TILES = 32
"""A tile all of whose pairs need an exact solve takes at most this many times as long as another."""


@dataclass(frozen=True)
class MaxError:
    """The largest error that is accepted: an absolute one, or a share of the distance itself."""

    amount: float
    relative: bool

    def allowed(self, lower: Float) -> Float:
        """The half-width (P,) that is accepted for distances of at least ``lower``."""
        return self.amount * lower if self.relative else np.full(len(lower), self.amount)

    def too_wide(self, lower: Float, upper: Float) -> NDArray[np.bool_]:
        """Pairs whose half-width exceeds what is accepted. A share is taken of the lower end, so that it holds."""
        return 0.5 * (upper - lower) > self.allowed(lower)

    def __str__(self) -> str:
        return f"{100 * self.amount:g}%" if self.relative else f"{self.amount:g}"


def as_max_error(value: Any) -> MaxError:
    """A number in the units of the distance, or a share of it as in ``"2%"``."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*%\s*", value) if isinstance(value, str) else None
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    amount = float(match[1]) / 100 if match else float(value) if number else np.nan
    if not 0 < amount < np.inf:
        raise ValueError(
            "max_error must be a number > 0 in the units of the distance, or a share of it such as '2%'; "
            f"found {value!r}"
        )
    return MaxError(amount, relative=match is not None)


class Guaranteed:
    """A solver with bounds that also solves, on the original points, those of its pairs that are bounded too loosely.

    The other values are moved to where their error is certain.
    """

    def __init__(self, bounded: Solver, D: Distributions, E: Distributions | None, accepted: MaxError) -> None:
        self._bounded, self._accepted = bounded, accepted
        histograms = sparse_histograms(D if E is None else D + E)
        ground = prepare_metric(histograms.points, "euclidean")
        self._exact = ExactPoints(histograms, ground, column_start=0 if E is None else len(D))
        self.info: dict[str, Any] = {**bounded.info, "max_error": str(accepted)}

    def pairs_per_tile(self, memory: int) -> int:
        return min(self._bounded.pairs_per_tile(memory), MOST_EXACT_TILES * self._exact.pairs_per_tile(memory))

    def solve(self, rows: Indices, columns: Indices, stop: Stop) -> Solution:
        found = self._bounded.solve(rows, columns, stop)
        lower, upper = found.lower, found.upper
        assert lower is not None
        assert upper is not None
        allowed = self._accepted.allowed(lower)
        values = clip(found.values, upper - allowed, lower + allowed)
        error = None if found.error is None else np.minimum(found.error, allowed)
        found = replace(found, values=values, error=error)
        wide = np.flatnonzero(self._accepted.too_wide(lower, upper))
        if len(wide):
            exact = self._exact.solve(rows[wide], columns[wide], stop)
            values[wide] = lower[wide] = upper[wide] = exact.values
            found.status[wide], found.n_iter[wide] = Status.EXACT, exact.n_iter
            if error is not None:
                error[wide] = 0.0
        return found


def choose_anchors(D: Distributions, accepted: MaxError, random_state: Any) -> tuple[int, dict[str, Any]]:
    """The number of anchors that makes the whole cheapest for a collection, and what was found out on the way.

    Anchors of several numbers are learned on a part of the collection, and the share of its pairs that would need an
    exact solve is measured. The work is counted, not timed, so that the choice is the same on every run.
    """
    from asot.anchors.kmeans import KMeansAnchors

    part = D[:: -(-len(D) // PART)]
    size = float(part.sizes.mean())
    most = len(distinct_rows(part.points)[0])
    tried = []
    for k in sorted({int(np.clip(round(share * size), min(2, most), most)) for share in SHARES}):
        share = _share_too_wide(KMeansAnchors(k, random_state=random_state).fit(part).space_, part, accepted)
        tried.append({"n_anchors": k, "exact_share": share, "work_per_pair": _work(k, size, share)})
    best = min(tried, key=lambda entry: (entry["work_per_pair"], entry["n_anchors"]))
    reason = (
        f"with {best['n_anchors']} anchors about {100 * best['exact_share']:.0f} percent of the pairs need an exact "
        f"solve; in all this takes about {best['work_per_pair']:.2g} times the work of `pairwise_exact`"
    )
    return int(best["n_anchors"]), {"n_anchors_tried": tried, "n_anchors_reason": reason}


def _share_too_wide(space: AnchorSpace, D: Distributions, accepted: MaxError) -> float:
    """Share of the pairs of a collection, looked at evenly, whose bounds in a space are too far apart."""
    everything = AllPairs(len(D))
    if len(everything) == 0:
        return 0.0
    places = np.unique(np.linspace(0, len(everything) - 1, min(SAMPLE, len(everything))).astype(np.int64))
    rows, columns = at_places(everything, places).indices(0, len(places))
    stop = np.zeros(1, dtype=np.int64)
    trees = ExactSharedCost(space.histograms(D), None, space.cost, cancel=True).solve_trees(rows, columns, stop)
    lower, upper = make_bounds(space, D, None).of_trees(trees, rows, columns, stop)
    return float(accepted.too_wide(lower, upper).mean())


def _work(k: int, size: float, share: float) -> float:
    """Work of a pair relative to its exact solve: the anchor plan, its bounds, and the exact solves that remain.

    The simplex on n nodes takes about n² + n³/200 steps (measured from 10 to 300); bounds look at every distance once.
    """

    def simplex(n: float) -> float:
        return n**2 + n**3 / 200 + 400

    exact = simplex(2 * size)
    return (simplex(k) + size**2 + size * k) / exact + share
