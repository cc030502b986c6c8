"""What follows from the results: ours against the paper's, method against method, with a rule and without it.

Times are compared only within one place, that is, one device of one machine with one number of threads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from asot_paper import methods as registry
from asot_paper.names import DESCRIBED, METHODS, PUBLISHED, SETS
from asot_paper.published import Published
from asot_paper.report_data import EXACT, LOOP, Place, Record, ReportData, Runs
from asot_paper.scale import FULL
from asot_paper.tables import Summary

AGREEMENT = 0.0005
"""Errors that differ by no more than this agree; so do those within two standard errors."""

LEAST_RUNS = 5
"""With fewer runs, the standard error of a number that chance has a part in says too little."""


class Comparison(NamedTuple):
    """A number of ours beside the paper's.

    ``agrees`` is None where there are too few runs to tell. ``faithful`` says whether ours was run as the public code
    runs. ``place`` is where a time of ours was measured.
    """

    set: str
    method: str
    ours: Summary
    paper: Published
    agrees: bool | None
    faithful: bool
    quick: bool
    place: Place | None


class Effect(NamedTuple):
    """An error with the row-0 rule and without it."""

    set: str
    method: str
    ruled: Summary
    unruled: Summary


class Timed(NamedTuple):
    """Seconds of several methods for all pairs of one set, at one place."""

    set: str
    n_pairs: int
    seconds: list[float]
    threads: int | None


class LoopRatio(NamedTuple):
    """How many times as long as ours a loop over POT takes, and what that was measured on."""

    set: str
    n: int
    ratio: float
    sampled: bool
    threads: int | None


def with_paper(data: ReportData, table: str) -> list[Comparison]:
    """Every cell of the paper that we have a number for, as published: ``"rmse"`` or ``"seconds"``."""
    found = []
    for (which, name, method), paper in data.published.items():
        places: list[Place | None] = [None] if table == "rmse" else [*data.places]
        for place in places if which == table else []:
            runs = data.runs(PUBLISHED, name, method, place=place)
            ours = None if runs is None else runs.summary(table)
            if runs is not None and ours is not None:
                agrees = _agrees(ours, paper, _has_chance(name, method))
                found.append(Comparison(name, method, ours, paper, agrees, _is_faithful(runs), runs.quick, place))
    order = {name: rank for rank, name in enumerate((*SETS, *METHODS))}
    return sorted(found, key=lambda one: (order.get(one.set, 99), order.get(one.method, 99)))


def _agrees(ours: Summary, paper: Published, chance: bool) -> bool | None:
    """By `AGREEMENT`, or by two standard errors; of a number that chance has a part in, only after some runs."""
    gap = abs(ours.mean - paper.value)
    if gap <= AGREEMENT:
        return True
    if chance and ours.n < LEAST_RUNS:
        return None
    return gap <= 2.0 * ours.standard_error


def _has_chance(name: str, method: str) -> bool:
    """Whether another run gives another number: by its seed or its fold, or since other digits are drawn."""
    return name == "MNIST" or (method in registry.METHODS and registry.METHODS[method].repeats)


def _is_faithful(runs: Runs) -> bool:
    """Whether runs are what the public code computes: its rule, its models, all their epochs."""
    if runs.quick or runs.row_zero is False:
        return False
    for cell in runs.cells:
        learner, epochs = str(cell["settings"].get("learner", "")), cell["settings"].get("epochs")
        if "objective" in learner or epochs not in (None, FULL.epochs(True, cell["set"])):
            return False
    return True


def error_ratios(data: ReportData, over: str, under: str, *, trained: bool = False) -> dict[str, float]:
    """By set, as described: the error of method ``over`` divided by that of ``under``.

    With ``trained=True`` quick runs do not count: they say nothing about what training can do.
    """
    found: dict[str, float] = {}
    for name in data.sets(DESCRIBED):
        first, second = (data.runs(DESCRIBED, name, method) for method in (over, under))
        if first is None or second is None or first.quick != second.quick or (trained and first.quick):
            continue
        above, below = first.mean("relative"), second.mean("relative")
        if above is not None and below:
            found[name] = above / below
    return found


def timed(data: ReportData, *methods: str) -> Timed | None:
    """Total times of methods on the set with the most pairs, as described, all on one CPU."""
    found = []
    for place in data.places:
        for name in data.sets(DESCRIBED) if place.device == "cpu" else []:
            runs = [data.runs(DESCRIBED, name, method, place=place) for method in methods]
            known = [one for one in runs if one is not None]
            seconds = [total for one in known if (total := one.total_seconds()) is not None]
            if len(seconds) == len(methods) and len({one.quick for one in known}) == 1:
                threads = json.loads(place.machine).get("threads")
                found.append(Timed(name, int(known[0].mean("n_pairs") or 0), seconds, threads))
    return max(found, key=lambda one: one.n_pairs, default=None)


def loop_ratio(data: ReportData) -> LoopRatio | None:
    """A loop over POT's exact solver against ours, for the most distributions that one machine timed both on."""
    found = []
    for place, cells in data.timed_of_kind("scaling").items():
        at: dict[tuple[str, str, int], dict[str, Record]] = {}
        for cell in cells if place.device == "cpu" else []:
            at.setdefault((cell["condition"], cell["set"], int(cell["n_distributions"])), {})[cell["method"]] = cell
        for (_, name, n), both in at.items():
            if EXACT in both and LOOP in both and both[EXACT]["seconds"]:
                ratio = both[LOOP]["seconds"] / both[EXACT]["seconds"]
                sampled = bool(both[LOOP]["settings"].get("extrapolated"))
                found.append(LoopRatio(name, n, ratio, sampled, both[EXACT]["machine"].get("threads")))
    return max(found, key=lambda one: one.n, default=None)


def same_anchors(data: ReportData, methods: Sequence[str]) -> bool:
    """Whether, on every set as described, methods that were run had the same number of anchors."""
    for name in data.sets(DESCRIBED):
        runs = [data.runs(DESCRIBED, name, method) for method in methods]
        if len({cell.get("k") for one in runs if one is not None for cell in one.cells}) > 1:
            return False
    return True


def row_zero_effects(data: ReportData) -> list[Effect]:
    """Errors with and without the row-0 rule, where both were run."""
    found = []
    for name in data.sets(PUBLISHED):
        for method in data.methods(PUBLISHED):
            both = [data.runs(PUBLISHED, name, method, row_zero=rule) for rule in (True, False)]
            ruled, unruled = (None if runs is None else runs.summary("rmse") for runs in both)
            if ruled is not None and unruled is not None and all(one.row_zero is not None for one in both if one):
                found.append(Effect(name, method, ruled, unruled))
    return found


def open_shares(data: ReportData, condition: str) -> dict[tuple[str, str], float]:
    """By set and method, of methods with iterations: the share of pairs whose iterations had not converged."""
    found: dict[tuple[str, str], float] = {}
    for name in data.sets(condition):
        for method in data.methods(condition):
            runs = data.runs(condition, name, method)
            cells = [] if runs is None else [cell for cell in runs.cells if cell["settings"].get("max_iter")]
            n_pairs = sum(cell.get("n_pairs") or 0 for cell in cells)
            if n_pairs:
                found[name, method] = sum(cell.get("not_converged") or 0 for cell in cells) / n_pairs
    return found
