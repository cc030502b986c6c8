"""The numbers that the report's sentences are made of, each computed from the results.

The template has the words. A fact whose cells are missing is None or empty, and its sentence is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from asot_paper.names import CALIBRATED, DESCRIBED, OURS, PAPER_METHODS, PUBLISHED, SETS, TU_SETS
from asot_paper.published import paper_seconds, read_published
from asot_paper.report import compare
from asot_paper.report.data import EXACT, ReportData
from asot_paper.report.reasons import why
from asot_paper.scale import ZINC_TRAINING

TRAINED = ("ASOT-ML", "ASOT-DL")
GRAPH_SETS = (*TU_SETS, "ZINC")


class Agreement(NamedTuple):
    """The 72 errors of the paper, counted."""

    cells: list[compare.Comparison]
    tried: list[Tried]
    reasons: list[tuple[compare.Comparison, str]]
    """The reason for each remaining miss, in words."""

    @property
    def compared(self) -> list[compare.Comparison]:
        return [one for one in self.cells if one.ours is not None]

    @property
    def agreeing(self) -> int:
        return sum(one.agrees for one in self.cells)

    @property
    def misses(self) -> list[compare.Comparison]:
        """Cells that were run and do not agree."""
        return [one for one in self.compared if not one.agrees]

    @property
    def slips(self) -> list[compare.Comparison]:
        return [one for one in self.misses if one.slip]

    @property
    def explained(self) -> list[compare.Comparison]:
        """Misses that agree after one setting is changed."""
        found = {(one.set, one.method) for one in self.tried if one.agrees}
        return [one for one in self.misses if not one.slip and (one.set, one.method) in found]

    @property
    def open(self) -> list[compare.Comparison]:
        """Misses that remain."""
        known = {(one.set, one.method) for one in (*self.slips, *self.explained)}
        return [one for one in self.misses if (one.set, one.method) not in known]

    @property
    def open_but_better(self) -> int:
        """How many of the remaining misses have a smaller error here."""
        return sum(one.ours is not None and one.ours.mean < one.paper for one in self.open)


class Tried(NamedTuple):
    """A miss, computed again with one setting changed."""

    set: str
    method: str
    paper: float
    ours: Any
    words: str
    then: Any
    agrees: bool


class Claim(NamedTuple):
    """A claim of the paper, and the sets on which it holds: in the paper's own numbers, and in ours in both conditions.

    Each count is (sets where it holds, sets where it could be checked).
    """

    words: str
    paper: tuple[int, int]
    published: tuple[int, int]
    described: tuple[int, int]

    @property
    def verdict(self) -> str:
        ours = (self.published, self.described)
        if all(held == checked for held, checked in ours):
            return "holds"
        return "holds in part" if any(held for held, _ in ours) else "does not hold"


ERROR_CLAIMS = (
    ("Distances on anchors are closer to the exact ones than entropic transport is", ("ASOT-k", *TRAINED), "eOT"),
    ("Trained anchors are closer than anchors from k-means", TRAINED, "ASOT-k"),
)
TIME_CLAIMS = (
    ("Exact transport on anchors takes less time than exact transport", "ASOT-k", EXACT),
    ("Entropic transport on anchors takes less time than entropic transport in batches", "eASOT-k", "BDS-eOT"),
)
"""Claims: the words, which methods are better, and than which. Of several methods, the best on each set counts. Times
include training."""


def agreement(data: ReportData) -> Agreement:
    """Every error of the paper beside ours, and what was tried where they differ."""
    cells = compare.with_paper(data)
    found = Agreement(cells, [one for cell in cells if not cell.agrees for one in _tried(data, cell)], [])
    return found._replace(reasons=[(one, why(data, one.set, one.method, one.paper)) for one in found.open])


def _tried(data: ReportData, cell: compare.Comparison) -> list[Tried]:
    found = []
    for words, summary in data.trials(cell.set, cell.method):
        found.append(
            Tried(cell.set, cell.method, cell.paper, cell.ours, words, summary, compare.agrees(summary, cell.paper))
        )
    return found


def claims(data: ReportData) -> list[Claim]:
    """The paper's claims, as far as there are cells for them."""
    found = []
    for words, better, worse in ERROR_CLAIMS:
        paper = {(name, method): error for (table, name, method), error in read_published().items() if table == "rmse"}
        ours = (_held(_errors(data, condition), better, worse) for condition in (PUBLISHED, DESCRIBED))
        found.append(Claim(words, _held(paper, better, worse), *ours))
    for words, fast, slow in TIME_CLAIMS:
        paper = {(name, method): sum(paper_seconds(name, method) or ()) for name in SETS for method in (fast, slow)}
        ours = (_held(_seconds(data, condition), (fast,), slow) for condition in (PUBLISHED, DESCRIBED))
        found.append(Claim(words, _held(paper, (fast,), slow), *ours))
    return [claim for claim in found if claim.published[1] or claim.described[1]]


def _held(numbers: Mapping[tuple[str, str], float], better: Sequence[str], worse: str) -> tuple[int, int]:
    """On how many sets the smallest number of some methods is below that of another one, and how many sets have
    both."""
    sets = [name for name in SETS if all((name, method) in numbers for method in (*better, worse))]
    held = [name for name in sets if min(numbers[name, method] for method in better) < numbers[name, worse]]
    return len(held), len(sets)


def _errors(data: ReportData, condition: str) -> dict[tuple[str, str], float]:
    """Mean errors by set and method, without quick runs, which do not show what training can do."""
    found = {}
    for name in data.sets(condition):
        for method in data.methods(condition):
            runs = data.runs(condition, name, method)
            if runs is not None and not runs.quick and (mean := runs.mean("rmse")) is not None:
                found[name, method] = mean
    return found


def _seconds(data: ReportData, condition: str) -> dict[tuple[str, str], float]:
    """Mean seconds by set and method, training included, on the CPU with the most timed cells."""
    found = {}
    for place in [place for place in data.places if place.device == "cpu"][:1]:
        for name in data.sets(condition):
            for method in data.methods(condition):
                runs = data.runs(condition, name, method, place=place)
                if runs is not None and (total := runs.total_seconds()) is not None:
                    found[name, method] = total
    return found


def described_ranking(data: ReportData) -> list[tuple[str, int, int]]:
    """As described: on how many sets of graphs each trained space of the paper has a larger error than k-means."""
    found = []
    for method in TRAINED:
        ratios = compare.error_ratios(data, method, "ASOT-k", trained=True)
        graphs = [ratio > 1.0 for name, ratio in ratios.items() if name in GRAPH_SETS]
        if graphs:
            found.append((method, sum(graphs), len(graphs)))
    return found


def gains(data: ReportData) -> dict[str, Any]:
    """What this library adds: how many times less error the correction has, and our training."""
    calibrated = compare.error_ratios(data, "ASOT-k", CALIBRATED)
    first, second = (compare.error_ratios(data, method, OURS, trained=True) for method in TRAINED)
    trained = [min(first[name], second[name]) for name in first if name in second]
    found: dict[str, Any] = {"n_sets": len(calibrated), "calibrated": None, "trained": None}
    if calibrated:
        found["calibrated"] = median(calibrated.values())
        found["before"], found["after"] = (_range(data, list(calibrated), name) for name in ("ASOT-k", CALIBRATED))
    if trained:
        found["trained"] = median(trained)
    return found


def _range(data: ReportData, sets: Sequence[str], method: str) -> tuple[float, float]:
    runs = [data.runs(DESCRIBED, name, method) for name in sets]
    errors = [error for one in runs if one is not None and (error := one.mean("relative")) is not None]
    return min(errors), max(errors)


def speed(data: ReportData, times: Sequence[compare.Seconds]) -> dict[str, Any]:
    """Ratios of the paper's times and ours, and the exact distances of the largest set."""
    ratios = [one.ratio for one in times if one.ratio is not None]
    exact = max(
        (one for one in times if one.method == EXACT and one.ours is not None),
        key=lambda one: sum(one.paper),
        default=None,
    )
    return {
        "n": len(ratios),
        "median": median(ratios) if ratios else None,
        "slower": sum(ratio < 1 for ratio in ratios),
        "exact": exact,
        "described": compare.timed(data, DESCRIBED, EXACT),
        "loop": compare.loop_ratio(data),
    }


def sampled_times(data: ReportData) -> int | None:
    """How many molecules of ZINC the timed models of the paper learned from, if not all of them."""
    for place in [place for place in data.places if place.device == "cpu"][:1]:
        runs = data.runs(PUBLISHED, "ZINC", "ASOT-ML", place=place)
        if runs is not None and (count := int(runs.cells[0]["settings"].get("n_train", 0))) < ZINC_TRAINING:
            return count or None
    return None


def open_ranges(data: ReportData) -> list[tuple[str, float, float, int]]:
    """As published: by entropic method, the smallest and largest share of pairs not converged, and on how many sets."""
    found = []
    for method, shares in compare.open_shares(data, PUBLISHED).items():
        some = [share for share in shares if share]
        if some:
            found.append((method, min(some), max(some), len(some)))
    return found


def missing(data: ReportData, condition: str) -> list[str]:
    """Sets and methods of the paper without a finished run."""
    return [
        f"{name} {method}"
        for name in data.sets(condition)
        for method in PAPER_METHODS
        if data.runs(condition, name, method) is None
    ]


def row_zero(data: ReportData) -> list[tuple[str, Any, Any]]:
    """By set: the error of eOT with the row-0 rule and that of BDS-eOT without it, which compute the same distances."""
    found = []
    for name in data.sets(PUBLISHED):
        both = [
            data.runs(PUBLISHED, name, "eOT", row_zero=True),
            data.runs(PUBLISHED, name, "BDS-eOT", row_zero=False),
        ]
        ruled, unruled = (None if runs is None else runs.summary("rmse") for runs in both)
        if ruled is not None and unruled is not None:
            found.append((name, ruled, unruled))
    return found
