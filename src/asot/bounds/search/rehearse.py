"""Which bounds pay off: a rehearsal on a few rows, before the whole search runs.

Projections are cheap and strong in low dimensions, relaxed bounds are expensive and strong in high dimensions, and in
some collections no bound rules out anything. Sizes alone do not tell which case it is. So a few rows are searched with
each candidate: the cost per pair and the share of pairs left to solve are measured, and the plan with the least work
wins. If that is brute force, only the rehearsal is wasted, a percent of the work.

The answer does not depend on the plan. The number of solves does, and in a close race the clock decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.bounds.search.cascade import Cascade, Look
from asot.bounds.search.choose import Offer
from asot.bounds.search.relaxed import Chain, Relaxed
from asot.bounds.search.sweep import Best, Edges, Search

_GROUPS = 4  # of neighboring rows, spread over the collection
_MOST_ROWS = 32  # in all groups together
_SOLVES = 48  # to measure what a solve costs
_SHORT = 0.02  # seconds; brute force that takes no longer is not worth a plan
_TABLES = 0.03  # the part of brute force that tables for the cascade may take before they are looked at
_GAIN = 0.9  # the part of brute force's work that a plan has to beat


@dataclass
class _Plan:
    """One candidate and what the rehearsal measured of it."""

    names: list[str]
    look: Look
    first: float = 0.0  # seconds to find the columns that look nearest, per pair
    second: float = 0.0  # seconds to look at a pair with a limit
    left: float = 1.0  # share of the pairs that must be solved


def choose_look(search: Search, offer: Offer, sink: Best | Edges) -> Look | None:
    """The cheapest plan for a search, or None for brute force. Records what was measured in ``search.made``."""
    look = offer.fixed if offer.fixed is not None else _rehearsed(search, offer, sink)
    search.n_exact += offer.made["n_exact"]  # for the pool of potentials
    return look


def _rehearsed(search: Search, offer: Offer, sink: Best | Edges) -> Look | None:
    shape = search.shape
    solve = _price_of_a_solve(search)
    record: dict[str, Any] = {"solve_microseconds": 1e6 * solve}
    search.made["rehearsal"] = record
    brute = solve * shape.n_pairs
    if brute < _SHORT:
        record["chosen"] = "brute force: there are few pairs"
        return None
    plans = _plans(offer, brute)
    groups = _groups(shape.n_rows)
    if isinstance(sink, Best):
        for plan in plans:
            _find_promising(search, plan, groups, sink)
    limits, settled = sink.limits()
    for plan in plans:
        _look(search, plan, groups, limits, settled)
        ends = 2.0 if shape.within else 1.0  # of a pair, and each may keep it
        plan.left = min(1.0, ends * plan.left)
    firsts = shape.n_rows * shape.n_columns if isinstance(sink, Best) else 0
    works = [plan.first * firsts + (plan.second + plan.left * solve) * shape.n_pairs for plan in plans]
    record["plans"] = [
        {
            "bounds": plan.names,
            "microseconds": 1e6 * (plan.first * firsts / shape.n_pairs + plan.second),
            "share_left": plan.left,
            "share_of_brute_force": work / brute,
        }
        for plan, work in zip(plans, works, strict=True)
    ]
    if not works or min(works) > _GAIN * brute:
        record["chosen"] = "brute force: no bound pays off"
        return None
    best = plans[int(np.argmin(works))]
    record["chosen"] = " and ".join(best.names)
    search.made["bounds"] = best.names
    return best.look


def _plans(offer: Offer, brute: float) -> list[_Plan]:
    plans = []
    if offer.relaxed is not None:
        plans.append(_Plan(["relaxed"], offer.relaxed))
    if offer.cascade_work < _TABLES * brute:
        cascade = offer.cascade()
        plans.append(_Plan(offer.made["tables"], cascade))
        if offer.relaxed is not None:
            plans.append(_Plan([*offer.made["tables"], "relaxed"], Chain(cascade, offer.relaxed)))
    return plans


def _groups(n_rows: int) -> list[tuple[int, int]]:
    """Some groups of neighboring rows, spread evenly."""
    rows = int(np.clip(n_rows // 24, 1, _MOST_ROWS))
    groups = min(_GROUPS, rows)
    each = rows // groups
    starts = np.linspace(0, n_rows - each, groups).astype(int)
    return [(int(start), int(start) + each) for start in starts]


def _timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of the second run: the first one may compile."""
    function()
    started = time.process_time()
    answer = function()
    return time.process_time() - started, answer


def _price_of_a_solve(search: Search) -> float:
    shape = search.shape
    rng = np.random.default_rng(0)
    rows = rng.integers(0, shape.n_rows, size=_SOLVES)
    columns = rng.integers(0, shape.n_columns, size=_SOLVES)
    if shape.within:
        columns = np.where(columns == rows, (columns + 1) % shape.n_columns, columns)
        rows, columns = np.minimum(rows, columns), np.maximum(rows, columns)
    stop = np.zeros(1, dtype=np.int64)
    seconds, _ = _timed(lambda: search.solver.solve(rows, columns, stop))
    return max(seconds / _SOLVES, 1e-8)


def _find_promising(search: Search, plan: _Plan, groups: list[tuple[int, int]], best: Best) -> None:
    """What finding the columns that look nearest costs; those are solved, so that the rows have limits."""
    K = best.distances.shape[1]
    seconds = 0.0
    for low, high in groups:
        taken, (columns, _) = _timed(lambda rows=(low, high): plan.look.nearest_by_bound(K, 1, rows))  # type: ignore[misc]
        seconds += taken
        rows = np.broadcast_to(np.arange(low, high)[:, None], (high - low, K))
        search.solve_new(rows.ravel(), columns.ravel(), best)
    plan.first = seconds / (sum(high - low for low, high in groups) * search.shape.n_columns)


def _look(
    search: Search,
    plan: _Plan,
    groups: list[tuple[int, int]],
    limits: NDArray[np.float64],
    settled: NDArray[np.int64],
) -> None:
    """What a look at every pair of the rows costs, and what it leaves to solve."""
    look = from_one_end(plan.look)
    seconds, left = 0.0, 0
    for low, high in groups:
        taken, (rows, columns) = _timed(
            lambda low=low, high=high: look.pairs_within(low, high, limits, settled, 1)  # type: ignore[misc]
        )
        seconds += taken
        left += len(rows) - (int(np.count_nonzero(rows == columns)) if search.shape.within else 0)
    pairs = sum(high - low for low, high in groups) * search.shape.n_columns
    plan.second, plan.left = seconds / pairs, left / pairs


def from_one_end(look: Look) -> Look:
    """The same bounds for rows against all columns: for a search of some rows, which knows no limits of the others."""
    if isinstance(look, Chain):
        return Chain(replace(look.cascade, within=False), replace(look.relaxed, within=False))
    assert isinstance(look, (Cascade, Relaxed))
    return replace(look, within=False)
