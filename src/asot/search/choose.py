"""Which lower bounds a search uses: what ``prune=`` and ``space=`` allow, and which of those pay off.

Projections are cheap and strong in low dimensions, relaxed bounds are expensive and strong in high dimensions, and in
some collections no bound rules out anything. Sizes alone do not tell which case it is. So a few rows are searched with
each candidate, to count the share of pairs it leaves to solve. The work of a bound and of a solve is counted, too
(`Look.prices`), and the plan with the least work wins. If that is brute force, little is wasted: pairs that were solved
stay solved.

No clock is involved, so the same call always takes the same path. The answer does not depend on the plan at all.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from asot._typing import Float, Indices, Info
from asot.anchors.space import AnchorSpace
from asot.data.distinct import SparseHistograms
from asot.data.distributions import Distributions
from asot.exact.auto import simplex_of_points
from asot.exact.unmatched import Unmatched
from asot.ground.costs import GroundCost
from asot.ground.metrics import Ground
from asot.request import Distance
from asot.run.protocols import Solver
from asot.search.cascade import Cascade, no_pool
from asot.search.dual_pool import dual_pool, pool_on_anchors
from asot.search.projections import SORTED, TAIL, WIDTH, Projections, project
from asot.search.relaxed import Chain, Relaxed, block_bytes, relax
from asot.search.sweep import Best, Edges, Look, Search, Shape
from asot.validation import as_choice, as_seed

HIGHEST_ORDER = 8
"""Powers of distances above this one are left to the solver: float32 has no room for them."""

_GROUPS = 4  # of neighboring rows, spread over the collection
_MOST_ROWS = 32  # in all groups together
_COUNTED = 48  # pairs that tell what a solve costs
_SHORT = 0.02  # seconds; brute force that takes no longer is not worth a plan
_TABLES = 0.02  # the part of brute force's work that tables for another plan may always take
_TELLING = 0.5  # the share of pairs that tables may leave: those that leave more do not know the nearest either
_GAIN = 0.8  # the part of brute force's work that a plan has to beat

CHOICES = ("auto", "projections", "potentials", "relaxed", "all")


class Problem(NamedTuple):
    """The queries, and the collection that is searched, made ready."""

    pooled: Distributions
    histograms: SparseHistograms
    cost: GroundCost
    distance: Distance
    unmatched: Unmatched | None
    shape: Shape
    solver: Callable[[], Solver]
    """Makes the exact solver of the CPU, which takes longer than the rest."""
    jobs: int
    memory: int


class Pruning(NamedTuple):
    """What a call says about how to look, which does not change what is found."""

    prune: Any = "auto"
    space: Any = None
    random_state: Any = None


class Offer:
    """The bounds that a call may use, by its ``prune=`` and ``space=``. Each is made when it is first asked for.

    Projections and potentials bound W_1, and so W_p, which is larger; but not where mass may stay unmatched.
    """

    def __init__(self, problem: Problem, pruning: Pruning) -> None:
        prune, space, random_state = pruning
        ground, plain = problem.cost.ground, problem.cost.is_plain and problem.unmatched is None
        as_choice(prune, "prune", CHOICES)
        norm = plain and ground.is_norm
        if (prune in ("projections", "potentials") or space is not None) and not plain:
            raise ValueError(
                f"{'a space' if space is not None else f'prune={prune!r}'} needs a metric with its own kernel and "
                "total mass 1; use prune='relaxed' (or 'auto')"
            )
        if prune == "projections" and not norm:
            raise ValueError(
                f"prune='projections' are only proven for metrics that are norms, and {ground.name!r} is not; "
                "use prune='relaxed' (or 'auto')"
            )
        self._problem, self._prune, self._random_state = problem, prune, random_state
        self._memory = problem.memory // 2
        self._anchors = None if space is None else _read_space(space, problem.pooled, ground, random_state)
        with_potentials = prune in ("potentials", "all") or not norm or space is not None
        used = {"projections": norm and prune != "potentials", "potentials": plain and with_potentials}
        self.tables = [name for name, is_used in used.items() if is_used]
        self.made: Info = {"bounds": [], "tables": self.tables, "n_rotations": 0, "n_potentials": 0, "n_exact": 0}
        """A record, for the report."""
        if self._anchors is not None:
            self.made["n_anchors"] = self._anchors.n_anchors
        axes = 4 * SORTED + min(max(0, ground.points.shape[1] - SORTED), TAIL) if used["projections"] else 0
        work = 5e-8 * axes * len(problem.histograms.index) + (0.1 if used["potentials"] else 0.0)
        self.cascade_work = np.inf if not plain else 0.0 if space is not None else work
        """Seconds that the tables of `cascade` take, roughly; 0 if the user asked for them."""

    @functools.cached_property
    def relaxed(self) -> Relaxed | None:
        """Relaxed bounds, unless a block of their costs does not fit into memory."""
        problem, p = self._problem, self._problem.distance.p
        wanted = self._prune in ("auto", "relaxed", "all") and p <= HIGHEST_ORDER
        if not wanted or block_bytes(problem.histograms) * problem.jobs > self._memory:
            return None
        return relax(problem.histograms, problem.cost, problem.shape, p, problem.unmatched)

    @functools.cached_property
    def cascade(self) -> Cascade:
        """Projections and potentials, with tables for every distribution."""
        pooled, histograms, ground = self._problem.pooled, self._problem.histograms, self._problem.cost.ground
        how = as_seed(self._random_state), self._problem.jobs, self._memory
        projections, pool = _no_projections(len(pooled)), no_pool(len(pooled))
        if "projections" in self.tables:
            projections = project(histograms, ground, *how[1:])
        if "potentials" in self.tables and self._anchors is not None:
            pool = pool_on_anchors(pooled, histograms, ground, self._anchors, *how)
        elif "potentials" in self.tables:
            source = simplex_of_points(histograms, ground)
            pool, self.made["n_exact"] = dual_pool(histograms, ground, source, ground.points, *how)
        self.made["n_rotations"] = len(projections.mixed) * (WIDTH // max(1, projections.n_mixed))
        self.made["n_potentials"] = pool.values.shape[1]
        return Cascade(ground, projections, pool, self._problem.shape)

    def named(self) -> Look | None:
        """The bounds that ``prune=`` names; None: what a rehearsal finds to be the cheapest."""
        if self._prune == "auto":
            return None
        if self._prune == "relaxed" and self.relaxed is None:
            raise ValueError(
                f"prune='relaxed' needs {block_bytes(self._problem.histograms):,} bytes for each job and p ≤ "
                f"{HIGHEST_ORDER}; raise memory= or use another one"
            )
        tables = [] if self._prune == "relaxed" else self.tables
        self.made["bounds"] = tables if self.relaxed is None else [*tables, "relaxed"]
        if self.relaxed is None:
            return self.cascade
        return Chain(self.cascade, self.relaxed) if tables else self.relaxed


def _no_projections(n: int) -> Projections:
    nothing = np.empty((n, 0, WIDTH), dtype=np.float32)
    return Projections(nothing, nothing, nothing[None][:0], 0, nothing[:, :, 0], 0.0, 0.0)


def _read_space(space: Any, pooled: Distributions, ground: Ground, random_state: Any) -> AnchorSpace:
    """The space of a call, with a warning where its anchors are far from the points."""
    from asot.anchors.resolve import fitted_space

    if ground.name != "euclidean":
        raise ValueError(
            f"space= works with metric='euclidean': anchors are assigned in it, and {ground.name!r} has no proven "
            "bound through them; leave out the space"
        )
    anchors = fitted_space(space, pooled, random_state).proven
    radius = float(anchors.radii(pooled, device="cpu").mean())
    spread = float(anchors.cost.mean()) if anchors.is_euclidean else 0.0
    if radius > spread > 0:
        warnings.warn(
            f"points are {radius:.3g} away from their anchors on average, {radius / spread:.1f} times the mean "
            f"distance between anchors ({spread:.3g}): this space does not suit this collection, and its bounds "
            "will rule out few pairs; fit it on this collection",
            stacklevel=4,
        )
    return anchors


# ------------------------------------------------------------------------------------------------ which of them pay off


class _Plan(NamedTuple):
    """One candidate and what the rehearsal found of it."""

    names: list[str]
    look: Look
    left: float  # share of the pairs that must be solved
    price: float  # seconds of bounds, per pair
    work: float  # seconds in all


@dataclass(frozen=True)
class Rehearsed:
    """The cheapest plan for a search, or None for brute force, and what was counted, in seconds."""

    look: Look | None
    solve: float  # of one pair
    work: float  # of all that is left to do


def choose_look(search: Search, offer: Offer, sink: Best | Edges) -> Look | None:
    """The cheapest plan for a search, or None for brute force. Records what was found in ``search.made``."""
    named = offer.named()
    if named is None:
        return rehearse(search, offer, sink).look
    search.n_exact += offer.made["n_exact"]  # for the pool of potentials
    return named


def rehearse(search: Search, offer: Offer, sink: Best | Edges) -> Rehearsed:
    """Try what an offer has without ``prune=``. Records what was found in ``search.made``."""
    shape = search.shape
    solve = _price_of_a_solve(search)
    record: Info = {"solve_microseconds": 1e6 * solve, "plans": []}
    search.made["rehearsal"] = record
    brute = solve * shape.n_pairs
    if brute < _SHORT:
        record["chosen"] = "brute force: there are few pairs"
        return Rehearsed(None, solve, brute)
    tried = functools.partial(_tried, search, _groups(shape.n_rows), sink, solve)
    relaxed, tables = offer.relaxed, offer.tables
    plans = [] if relaxed is None else [tried(["relaxed"], relaxed)]
    best_so_far = min([brute, *(plan.work for plan in plans)])
    # If the tables are in vain, brute force still loses.
    affordable = offer.cascade_work < max(_TABLES * brute, 0.25 * (brute - best_so_far))
    if affordable and offer.cascade_work < 0.2 * best_so_far:
        plans.append(tried(tables, offer.cascade))
        search.n_exact += offer.made["n_exact"]
        if relaxed is not None and plans[-1].left < _TELLING:
            plans.append(tried([*tables, "relaxed"], Chain(offer.cascade, relaxed)))
    record["plans"] = [
        {
            "bounds": plan.names,
            "microseconds": 1e6 * plan.price,
            "share_left": plan.left,
            "share_of_brute_force": plan.work / brute,
        }
        for plan in plans
    ]
    best = min(plans, key=lambda plan: plan.work, default=None)
    if best is None or best.work > _GAIN * brute:
        record["chosen"] = "brute force: no bound pays off"
        return Rehearsed(None, solve, brute)
    record["chosen"] = " and ".join(best.names)
    search.made["bounds"] = best.names
    return Rehearsed(best.look, solve, best.work)


def _tried(
    search: Search, groups: list[tuple[int, int]], sink: Best | Edges, solve: float, names: list[str], look: Look
) -> _Plan:
    """A plan on groups of rows, with the limits that its own nearest pairs give, or tighter ones."""
    shape = search.shape
    if isinstance(sink, Best):
        search.solve_promising(look, sink, groups)  # so that rows have limits as they will have in the search
    left, doubted = _shares(search, look.from_one_end(), groups, *sink.limits())
    first, second = look.prices(doubted)
    firsts = shape.n_rows * shape.n_columns / shape.n_pairs if isinstance(sink, Best) else 0.0
    price = first * firsts + second
    return _Plan(names, look, left, price, (price + left * solve) * shape.n_pairs)


def _groups(n_rows: int) -> list[tuple[int, int]]:
    """Some groups of neighboring rows, spread evenly."""
    rows = int(np.clip(n_rows // 48, 1, _MOST_ROWS))
    groups = min(_GROUPS, rows)
    each = rows // groups
    starts = np.linspace(0, n_rows - each, groups).astype(int)
    return [(int(start), int(start) + each) for start in starts]


def _price_of_a_solve(search: Search) -> float:
    shape = search.shape
    rng = np.random.default_rng(0)
    rows = rng.integers(0, shape.n_rows, size=_COUNTED)
    columns = rng.integers(0, shape.n_columns, size=_COUNTED)
    if shape.within:
        columns = np.where(columns == rows, (columns + 1) % shape.n_columns, columns)
    return search.solver.seconds_of(rows, columns + shape.column_start)


def _shares(
    search: Search, look: Look, groups: list[tuple[int, int]], limits: Float, settled: Indices
) -> tuple[float, float]:
    """Which share of the pairs a look leaves to solve, and which share its cheap bound leaves to the expensive one."""
    found = [look.pairs_within(*rows, limits, settled, search.jobs) for rows in groups]
    left = sum(len(part.rows) for part in found)
    if search.shape.within:
        left -= sum(int(np.count_nonzero(part.rows == part.columns)) for part in found)
    pairs = sum(high - low for low, high in groups) * search.shape.n_columns
    shares = left / pairs, sum(part.doubted for part in found) / pairs
    if search.shape.within:  # a pair has two ends, and each may keep it
        return shares[0] * (2.0 - shares[0]), shares[1] * (2.0 - shares[1])
    return shares
