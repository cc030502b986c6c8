"""Why an error of ours differs from the paper's when no single setting explains it: what was tried, and what we saw.

The words are here, the numbers are from the trials. A cell without words is "not known".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from asot_paper.methods import ALL_MOLECULES
from asot_paper.names import PUBLISHED
from asot_paper.report.data import ReportData
from asot_paper.report.words import number
from asot_paper.tables import Summary, summarize
from asot_paper.trials import TRIALS

_DIGITS = (
    "the public program has no code for digits, so this library's networks stand in, trained on all 500 digits; the "
    "paper's trained for less than a second. With the program's own network, learned from 14 digits: {tried}"
)
WHY = {
    ("PTC_MR", "eASOT-DL"): "the random starts{starts}",
    ("NCI1", "ASOT-ML"): (
        "the size of a batch. The text has 500, the program all by default. Batches of 500 give less than the paper's "
        "error, one batch of everything gives more: {tried}{starts}"
    ),
    ("NCI1", "eASOT-DL"): (
        "not settled. It shares the anchors of ASOT-DL, whose error comes back with one batch of everything. eASOT-DL "
        "with one batch: {tried}"
    ),
    **{("ZINC", method): "not settled{runs}" for method in ("ASOT-ML", "eASOT-ML", "eASOT-DL")},
    **{("MNIST", method): _DIGITS for method in ("ASOT-ML", "ASOT-DL", "eASOT-ML", "eASOT-DL")},
}
"""What stands behind a miss, by set and method. ``{tried}`` becomes the error of the last trial with another setting,
``{starts}`` and ``{runs}`` become sentences on other random starts and on the runs of the table."""


class Starts(NamedTuple):
    """Means of ten runs, one for each seed: the lowest, the highest, and how many there are."""

    low: float
    high: float
    n: int


def why(data: ReportData, name: str, method: str, paper: float) -> str:
    """What stands behind a miss, in words."""
    words = WHY.get((name, method))
    if words is None:
        return "not known"
    runs = _runs(data, name, method, paper) if "{runs}" in words else ""
    return words.format(tried=_tried(data, name, method), starts=_starts(data, name, method, paper), runs=runs)


def _tried(data: ReportData, name: str, method: str) -> str:
    changed = {trial.words for trial in TRIALS if trial.seeds == (0,)}
    found = [summary for words, summary in data.trials(name, method) if words in changed]
    return _error(found[-1]) if found else "not run"


def _error(found: Summary) -> str:
    spread = f" ± {number(found.standard_error, 2)}" if found.n > 1 else ""
    return f"{found.mean:.4f}{spread} ({found.n} run{'s' if found.n > 1 else ''})"


def _runs(data: ReportData, name: str, method: str, paper: float) -> str:
    """A sentence on the runs of the table and, if there are few, on those that learned from part of the training
    split."""
    whole: list[float] = []
    part: list[float] = []
    for cell in data.runs_of(PUBLISHED, name, method):
        (whole if cell["settings"].get("learned_on") == ALL_MOLECULES else part).append(float(cell["rmse"]))
    words = f". Runs that learned from all molecules: {len(whole)}"
    if whole:
        words += f", between {min(whole):.4f} and {max(whole):.4f}"
    if part:
        words += (
            f". {len(part)} runs on random parts of 10,000 lie between {min(part):.4f} and {max(part):.4f}, so samples "
            "and random starts matter that much"
        )
    return f"{words}; the paper's {paper:.4f} is {_side(paper, [*whole, *part])}"


def _starts(data: ReportData, name: str, method: str, paper: float) -> str:
    found = starts(data, name, method)
    if found is None:
        return ""
    return (
        f". With {found.n} other sets of folds and random starts, the mean of ten runs lies between {found.low:.4f} "
        f"and {found.high:.4f}; the paper's {paper:.4f} is {_side(paper, found[:2])}"
    )


def _side(paper: float, errors: Sequence[float]) -> str:
    return "inside" if min(errors) <= paper <= max(errors) else "outside"


def starts(data: ReportData, name: str, method: str) -> Starts | None:
    """The means of the trials with other seeds; None where there are none. Only whole sets of runs count."""
    names = {trial.name: trial.runs for trial in TRIALS if trial.seeds != (0,)}
    by_seed: dict[int, dict[int, float]] = {}
    runs = 0
    for cell in data.of_trials(name, method):
        if (trial := str(cell["settings"].get("trial"))) in names:
            by_seed.setdefault(int(cell["seed"]), {})[int(cell["fold"])] = float(cell["rmse"])
            runs = names[trial]
    means = [summarize(folds.values()).mean for folds in by_seed.values() if len(folds) == runs]
    return Starts(min(means), max(means), len(means)) if means else None
