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


@dataclass
class Offer:
    """The bounds that a call may use. ``cascade()`` makes tables for every distribution, once; the others are cheap."""

    cascade: Callable[[], Cascade]
    cascade_work: float
    """Seconds that ``cascade()`` takes, roughly; 0 if the user asked for it."""
    fixed: Look | None
    """The bounds that ``prune=`` named; None: what a rehearsal finds to be the cheapest."""
    made: Info
    """A record, for the report."""
    cheap: dict[str, Callable[[], Look | None]]
    """What takes little time to make, by the word that ``prune=`` has for it: each is tried in the rehearsal by itself,
    unless a block of its costs does not fit into memory (None)."""


def offer_bounds(problem: Problem, pruning: Pruning) -> Offer:
    """Read ``prune=`` and ``space=``, and say what they allow.

    Projections and potentials bound W_1, and so W_p, which is larger; but not where mass may stay unmatched.
    """
    pooled, histograms, cost, distance, unmatched, shape, _, n_jobs, memory = problem
    prune, space, random_state = pruning
    memory, p = memory // 2, distance.p
    ground, plain = cost.ground, cost.is_plain and unmatched is None
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
    anchors = None if space is None else _read_space(space, pooled, ground, random_state)
    wanted = prune in ("auto", "relaxed", "all") and p <= HIGHEST_ORDER

    @functools.cache
    def relaxed() -> Relaxed | None:
        fits = wanted and block_bytes(histograms) * n_jobs <= memory
        return relax(histograms, cost, shape, p, unmatched) if fits else None

    use_projections = norm and prune != "potentials"
    use_potentials = plain and (prune in ("potentials", "all") or not norm or anchors is not None)
    names = [name for name, used in (("projections", use_projections), ("potentials", use_potentials)) if used]
    made: Info = {"bounds": [], "tables": names, "n_rotations": 0, "n_potentials": 0, "n_exact": 0}
    if anchors is not None:
        made["n_anchors"] = anchors.n_anchors

    @functools.cache
    def cascade() -> Cascade:
        n, seed = len(pooled), as_seed(random_state)
        projections = project(histograms, ground, n_jobs, memory) if use_projections else _no_projections(n)
        pool, made["n_exact"] = no_pool(n), 0
        if use_potentials and anchors is not None:
            pool = pool_on_anchors(pooled, histograms, ground, anchors, seed, n_jobs, memory)
        elif use_potentials:
            source = simplex_of_points(histograms, ground)
            pool, made["n_exact"] = dual_pool(histograms, ground, source, ground.points, seed, n_jobs, memory)
        made["n_rotations"] = len(projections.mixed) * (WIDTH // max(1, projections.n_mixed))
        made["n_potentials"] = pool.values.shape[1]
        return Cascade(ground, projections, pool, shape)

    fixed: Look | None
    cheap: dict[str, Callable[[], Look | None]] = {"relaxed": relaxed}
    fixed, made["bounds"] = cheap[prune]() if prune in cheap else None, [prune]
    if fixed is None:
        last = relaxed() if prune == "all" else None
        fixed, made["bounds"] = _named(prune, last, cascade, names, histograms)
    axes = 4 * SORTED + min(max(0, ground.points.shape[1] - SORTED), TAIL) if use_projections else 0
    work = 0.0 if space is not None else 5e-8 * axes * len(histograms.index) + (0.1 if use_potentials else 0.0)
    work = work if plain else np.inf
    return Offer(cascade, work, fixed, made, cheap)


def _named(
    prune: str, relaxed: Relaxed | None, cascade: Callable[[], Cascade], tables: list[str], histograms: SparseHistograms
) -> tuple[Look | None, list[str]]:
    """What a word for ``prune=`` asks for, and the names of the bounds in it."""
    if prune == "auto":
        return None, []
    if prune == "relaxed":
        raise ValueError(
            f"prune='relaxed' needs {block_bytes(histograms):,} bytes for each job and p ≤ {HIGHEST_ORDER}; raise "
            "memory= or use another one"
        )
    if prune == "all" and relaxed is not None and not tables:
        return relaxed, ["relaxed"]
    if prune == "all" and relaxed is not None:
        return Chain(cascade(), relaxed), [*tables, "relaxed"]
    return cascade(), tables


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
    if offer.fixed is None:
        return rehearse(search, offer, sink).look
    search.n_exact += offer.made["n_exact"]  # for the pool of potentials
    return offer.fixed


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
    looks = {name: make() for name, make in offer.cheap.items()}
    plans = [tried([name], look) for name, look in looks.items() if look is not None]
    if _tables_may_pay(offer.cascade_work, brute, min([brute, *(plan.work for plan in plans)])):
        cascade, tables = offer.cascade(), offer.made["tables"]
        search.n_exact += offer.made["n_exact"]
        plans.append(tried(tables, cascade))
        relaxed = looks["relaxed"]
        if isinstance(relaxed, Relaxed) and plans[-1].left < _TELLING:
            plans.append(tried([*tables, "relaxed"], Chain(cascade, relaxed)))
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


def _tables_may_pay(tables: float, brute: float, best: float) -> bool:
    """Whether tables that take so many seconds are worth a try, beside brute force and the best plan so far."""
    affordable = tables < max(_TABLES * brute, 0.25 * (brute - best))  # if they are in vain, brute force still loses
    return affordable and tables < 0.2 * best


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
