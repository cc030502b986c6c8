"""What follows from the results: our numbers beside the paper's, and method against method.

Times are compared only within one place, that is, one device of one machine with one number of threads. The paper's
times are from another machine; they are shown beside ours with a ratio, and both machines are named.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from asot_paper.names import DESCRIBED, PAPER_METHODS, PUBLISHED, SETS
from asot_paper.published import SLIPS, paper_seconds, read_published
from asot_paper.report.data import EXACT, LOOP, Place, Record, ReportData
from asot_paper.tables import Summary

ABSOLUTE, SHARE, ERRORS, FEWEST = 0.0005, 0.02, 2.0, 3
"""Two errors agree within 0.0005, 2 percent, or two standard errors of ours, whichever is largest. The standard error
of fewer than three runs says too little to count."""


class Comparison(NamedTuple):
    """An error of ours beside the paper's; ``ours`` is None where it was not run."""

    set: str
    method: str
    paper: float
    ours: Summary | None

    @property
    def agrees(self) -> bool:
        return self.ours is not None and agrees(self.ours, self.paper)

    @property
    def slip(self) -> str | None:
        """The set whose number the paper printed here by mistake."""
        return SLIPS.get((self.set, self.method))


class Seconds(NamedTuple):
    """Seconds of ours beside the paper's: training, distances."""

    set: str
    method: str
    ours: tuple[float, float] | None
    paper: tuple[float, float]

    @property
    def ratio(self) -> float | None:
        """How many times as long the paper's took for training and distances together."""
        return None if self.ours is None or not sum(self.ours) else sum(self.paper) / sum(self.ours)


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


def agrees(ours: Summary, paper: float) -> bool:
    """Whether an error of ours and one of the paper's agree.

    >>> agrees(Summary(0.0238, 0.009, 0.0028, 10), 0.0264)
    True
    >>> agrees(Summary(0.7365, 0.0, 0.0, 1), 0.3253)
    False
    """
    spread = ours.standard_error if ours.n >= FEWEST else 0.0
    return abs(ours.mean - paper) <= max(ABSOLUTE, SHARE * paper, ERRORS * spread)


def with_paper(data: ReportData) -> list[Comparison]:
    """All 72 errors of the paper's Table 1 beside ours, set by set. Quick runs are not held against the paper."""
    found = []
    for name in SETS:
        for method in PAPER_METHODS[1:]:
            runs = data.runs(PUBLISHED, name, method)
            ours = None if runs is None or runs.quick else runs.summary("rmse")
            found.append(Comparison(name, method, read_published()["rmse", name, method], ours))
    return found


def seconds_with_paper(data: ReportData) -> list[Seconds]:
    """Every time of the paper's Table 2 beside ours, as published, on the CPU with the most timed cells."""
    places = [place for place in data.places if place.device == "cpu"][:1]
    found = []
    for name in SETS:
        for method in PAPER_METHODS:
            paper = paper_seconds(name, method)
            runs = data.runs(PUBLISHED, name, method, place=places[0]) if places else None
            both = None
            if runs is not None and not runs.quick and (distances := runs.mean("seconds")) is not None:
                both = (runs.mean("train_seconds") or 0.0, distances)
            if paper is not None:
                found.append(Seconds(name, method, both, paper))
    return found


def machine_of(place: Place) -> dict[str, object]:
    """What is known about the machine of a place."""
    return dict(json.loads(place.machine))


# ----------------------------------------------------------------------------------------------------- method by method


def error_ratios(
    data: ReportData, over: str, under: str, *, condition: str = DESCRIBED, trained: bool = False
) -> dict[str, float]:
    """By set: the error of method ``over`` divided by that of ``under``.

    With ``trained=True``, quick runs do not count: they do not show what training can do.
    """
    found: dict[str, float] = {}
    for name in data.sets(condition):
        first, second = (data.runs(condition, name, method) for method in (over, under))
        if first is None or second is None or first.quick != second.quick or (trained and first.quick):
            continue
        above, below = first.mean("relative"), second.mean("relative")
        if above is not None and below:
            found[name] = above / below
    return found


def timed(data: ReportData, condition: str, *methods: str) -> Timed | None:
    """Total times of methods on the set with the most pairs, all on one CPU."""
    found = []
    for place in data.places:
        for name in data.sets(condition) if place.device == "cpu" else []:
            runs = [data.runs(condition, name, method, place=place) for method in methods]
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


def open_shares(data: ReportData, condition: str) -> dict[str, list[float]]:
    """By method with iterations: on each set, the share of pairs whose iterations had not converged."""
    found: dict[str, list[float]] = {}
    for method in data.methods(condition):
        for name in data.sets(condition):
            runs = data.runs(condition, name, method)
            cells = [] if runs is None else [cell for cell in runs.cells if cell["settings"].get("max_iter")]
            n_pairs = sum(cell.get("n_pairs") or 0 for cell in cells)
            if n_pairs:
                found.setdefault(method, []).append(sum(cell.get("not_converged") or 0 for cell in cells) / n_pairs)
    return found
