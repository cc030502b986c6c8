"""Which bounds pay off: a rehearsal on a few rows, before the whole search runs.

Projections are cheap and strong in low dimensions, relaxed bounds are expensive and strong in high dimensions, and in
some collections no bound rules out anything. Sizes alone do not tell which case it is. So a few rows are searched with
each candidate, to count the share of pairs it leaves to solve. The work of a bound and of a solve is counted, too
(`Look.prices`), and the plan with the least work wins. If that is brute force, little is wasted: pairs that were solved
stay solved.

No clock is involved, so the same call always takes the same path. The answer does not depend on the plan at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asot._typing import Info
from asot.data.distinct import SparseHistograms
from asot.search.choose import Offer
from asot.search.relaxed import Chain
from asot.search.sweep import Best, Edges, Look, Search

_GROUPS = 4  # of neighboring rows, spread over the collection
_MOST_ROWS = 32  # in all groups together
_COUNTED = 48  # pairs that tell what a solve costs
_SHORT = 0.02  # seconds; brute force that takes no longer is not worth a plan
_TABLES = 0.02  # the part of brute force's work that tables for another plan may always take
_TELLING = 0.5  # the share of pairs that tables may leave: those that leave more do not know the nearest either
_GAIN = 0.8  # the part of brute force's work that a plan has to beat


@dataclass
class _Plan:
    """One candidate and what the rehearsal found of it."""

    names: list[str]
    look: Look
    left: float = 1.0  # share of the pairs that must be solved
    price: float = 0.0  # seconds of bounds, per pair
    work: float = np.inf  # seconds in all


@dataclass(frozen=True)
class Rehearsed:
    """The cheapest plan for a search, or None for brute force, and what was counted, in seconds."""

    look: Look | None
    solve: float  # of one pair
    work: float  # of all that is left to do


def choose_look(search: Search, histograms: SparseHistograms, offer: Offer, sink: Best | Edges) -> Look | None:
    """The cheapest plan for a search, or None for brute force. Records what was found in ``search.made``."""
    if offer.fixed is None:
        return rehearse(search, histograms, offer, sink).look
    search.n_exact += offer.made["n_exact"]  # for the pool of potentials
    return offer.fixed


def rehearse(search: Search, histograms: SparseHistograms, offer: Offer, sink: Best | Edges) -> Rehearsed:
    """Try what an offer has without ``prune=``. Records what was found in ``search.made``."""
    found = _rehearsed(search, histograms, offer, sink)
    search.n_exact += offer.made["n_exact"]
    return found


def _rehearsed(search: Search, histograms: SparseHistograms, offer: Offer, sink: Best | Edges) -> Rehearsed:
    shape = search.shape
    solve = _price_of_a_solve(search)
    record: Info = {"solve_microseconds": 1e6 * solve, "plans": []}
    search.made["rehearsal"] = record
    brute = solve * shape.n_pairs
    if brute < _SHORT:
        record["chosen"] = "brute force: there are few pairs"
        return Rehearsed(None, solve, brute)
    groups = _groups(shape.n_rows)
    plans: list[_Plan] = []
    for name, look in offer.free.items():
        plans.append(_Plan([name], look))
        _try(search, plans, groups, sink, solve)
    if _tables_may_pay(offer.cascade_work, brute, min([brute, *(plan.work for plan in plans)])):
        cascade, tables = offer.cascade(), offer.made["tables"]
        plans.append(_Plan(tables, cascade))
        _try(search, plans, groups, sink, solve)
        if offer.relaxed is not None and plans[-1].left < _TELLING:
            plans.append(_Plan([*tables, "relaxed"], Chain(cascade, offer.relaxed)))
            _try(search, plans, groups, sink, solve)
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


def _try(search: Search, plans: list[_Plan], groups: list[tuple[int, int]], sink: Best | Edges, solve: float) -> None:
    """Try the last plan, with the limits that its own nearest pairs give, or tighter ones."""
    shape, plan = search.shape, plans[-1]
    if isinstance(sink, Best):
        _find_promising(search, plan, groups, sink)
    plan.left, doubted = _shares(search, plan, groups, *sink.limits())
    first, second = plan.look.prices(doubted)
    firsts = shape.n_rows * shape.n_columns / shape.n_pairs if isinstance(sink, Best) else 0.0
    plan.price = first * firsts + second
    plan.work = (plan.price + plan.left * solve) * shape.n_pairs


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


def _find_promising(search: Search, plan: _Plan, groups: list[tuple[int, int]], best: Best) -> None:
    """Solve the pairs that look nearest, so that the rows have limits as they will have in the search."""
    K = best.distances.shape[1]
    count = min(search.shape.n_columns - search.shape.within, 2 * K + 8)
    for low, high in groups:
        columns, bounds = plan.look.nearest_by_bound(count, search.jobs, (low, high))
        search.solve_nearest(np.arange(low, high), columns, bounds, best)


def _shares(
    search: Search,
    plan: _Plan,
    groups: list[tuple[int, int]],
    limits: NDArray[np.float64],
    settled: NDArray[np.int64],
) -> tuple[float, float]:
    """Which share of the pairs a plan leaves to solve, and which share its cheap bound leaves to the expensive one."""
    look = plan.look.from_one_end()
    left = doubted = 0
    for low, high in groups:
        found = look.pairs_within(low, high, limits, settled, search.jobs)
        left += len(found.rows) - (int(np.count_nonzero(found.rows == found.columns)) if search.shape.within else 0)
        doubted += found.doubted
    pairs = sum(high - low for low, high in groups) * search.shape.n_columns
    shares = left / pairs, doubted / pairs
    if search.shape.within:  # a pair has two ends, and each may keep it
        return shares[0] * (2.0 - shares[0]), shares[1] * (2.0 - shares[1])
    return shares
