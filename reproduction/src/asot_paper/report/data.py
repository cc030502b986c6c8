"""From the cells of a results file to what the report shows: which runs count, and their means.

Only runs that belong together are averaged: the same condition, set, method, rule and settings, and never quick ones
with full ones. Errors do not depend on where they were computed, so cells of all machines count, one for each fold and
seed. Times do: they are averaged only over cells of one `Place`, and cells that ran beside other work have none.
Nothing here is text; what cannot be computed because cells are missing is None or left out.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from asot_paper.methods import ALL_MOLECULES
from asot_paper.names import METHODS, SETS, has_row_zero_rule
from asot_paper.tables import Summary, summarize
from asot_paper.trials import TRIALS

Record = dict[str, Any]

EXACT = "OT-EMD"
LOOP = "POT loop"

FOUND = ("dimension", "timing", "reg", "k_asked", "n_train", "notes", "sample_pairs", "sample_seconds")
"""Settings that are found while running: they may differ between folds of one method."""

RULE = ("errors", "row_zero")
"""Settings of the error alone. Times do not depend on them."""


class Place(NamedTuple):
    """Where times were measured: a device of a machine, identified by everything recorded about it."""

    device: str
    machine: str


class Runs(NamedTuple):
    """Finished runs of one method on one set that may be averaged."""

    cells: list[Record]
    quick: bool
    row_zero: bool | None

    def summary(self, field: str) -> Summary | None:
        """Mean and standard error of a field over the runs; None where no run has it."""
        numbers = [cell[field] for cell in self.cells if isinstance(cell.get(field), (int, float))]
        return summarize(numbers) if numbers else None

    def mean(self, field: str) -> float | None:
        found = self.summary(field)
        return None if found is None else found.mean

    def total_seconds(self) -> float | None:
        """Mean seconds of training and distances together, for runs of one place."""
        distances = self.mean("seconds")
        return None if distances is None else (self.mean("train_seconds") or 0.0) + distances


class ReportData:
    """Everything the report needs from a results file."""

    def __init__(self, cells: Sequence[Record]) -> None:
        self.cells = list(cells)
        for cell in self.cells:
            _check(cell)
        self.finished = [cell for cell in self.cells if "error" not in cell]
        self._runs: dict[tuple[str, str, str], list[Record]] = {}
        for cell in self.finished:
            if cell["kind"] == "run":
                self._runs.setdefault((cell["condition"], cell["set"], cell["method"]), []).append(cell)

    # ------------------------------------------------------------------------------------------------ what there is

    @property
    def failed(self) -> list[Record]:
        """Cells that ended in an error."""
        return [cell for cell in self.cells if "error" in cell]

    @property
    def all_quick(self) -> bool:
        return bool(self.finished) and all(cell.get("quick") for cell in self.finished)

    def sets(self, condition: str) -> list[str]:
        """Sets with a finished run, in the paper's order."""
        return ordered((where[1] for where in self._runs if where[0] == condition), SETS)

    def methods(self, condition: str) -> list[str]:
        """Methods with a finished run, in the paper's order, ours last."""
        return ordered((where[2] for where in self._runs if where[0] == condition), METHODS)

    def mark(self, runs: Runs) -> str:
        """A mark for numbers of quick runs, if others are not quick."""
        return "†" if runs.quick and not self.all_quick else ""

    # --------------------------------------------------------------------------------------------------------- runs

    def runs(
        self, condition: str, name: str, method: str, *, row_zero: bool | None = None, place: Place | None = None
    ) -> Runs | None:
        """Runs to show: full ones, or quick ones where there are no others.

        ``row_zero`` chooses those with or without the row-0 rule; by default, what the paper's column for the method
        has. With ``place``, only runs that were timed there count, with the rule or without. Otherwise all runs count,
        one for each fold and seed.
        """
        cells = self._runs.get((condition, name, method), [])
        if place is not None:
            timed = [cell for cell in _full_before_quick(cells) if is_timed(cell) and place_of(cell) == place]
            return _as_runs(_of_one_recipe(timed, ignored=RULE))
        rule = row_zero if row_zero is not None else has_row_zero_rule(method) and self._rule_is_on(condition)
        chosen = _full_before_quick([cell for cell in cells if row_zero_of(cell) in (None, rule)])
        return _as_runs(_of_one_recipe(_on_all_before_some(chosen)))

    def runs_of(self, condition: str, name: str, method: str) -> list[Record]:
        """Full runs with the row-0 rule or without a rule, whatever else they have: one for each fold and seed."""
        found: dict[str, list[Record]] = {}
        for cell in self._runs.get((condition, name, method), []):
            if row_zero_of(cell) is not False and not cell.get("quick"):
                found.setdefault(str(cell["settings"].get("learned_on")), []).append(cell)
        return [cell for cells in found.values() for cell in _latest(cells)]

    def _rule_is_on(self, condition: str) -> bool:
        """Whether the condition's tables follow the row-0 rule: they do, unless every cell was run without it."""
        rules = {row_zero_of(cell) for where, cells in self._runs.items() if where[0] == condition for cell in cells}
        return False not in rules or True in rules

    def best(self, condition: str, name: str, field: str) -> float | None:
        """The smallest mean error of a set, over all methods but the exact one; of full runs, if there are any."""
        runs = [self.runs(condition, name, method) for method in self.methods(condition) if method != EXACT]
        known = [(one.quick, mean) for one in runs if one is not None and (mean := one.mean(field)) is not None]
        return min(known, default=(False, None))[1]

    @property
    def n_other_settings(self) -> int:
        """How many finished runs are not shown because most runs of the same method have other settings."""
        left_out = 0
        for cells in self._runs.values():
            for rule in {row_zero_of(cell) for cell in cells}:
                alike = _full_before_quick([cell for cell in cells if row_zero_of(cell) == rule])
                left_out += len(alike) - len(alike := _on_all_before_some(alike))
                left_out += len(alike) - len(_of_one_recipe(alike))
        return left_out

    def trials(self, name: str, method: str) -> list[tuple[str, Summary]]:
        """What was tried where the paper's error does not come back: what was changed, in words, and the error then."""
        found = []
        for trial in TRIALS:
            cells = [cell for cell in self.of_trials(name, method) if cell["settings"].get("trial") == trial.name]
            runs = _as_runs(_of_one_recipe(_full_before_quick(cells)))
            summary = None if runs is None else runs.summary("rmse")
            if summary is not None:
                found.append((trial.words, summary))
        return found

    def of_trials(self, name: str, method: str) -> list[Record]:
        """Cells of all trials of a method on a set."""
        chosen = (name, method)
        return [cell for cell in self.finished if cell["kind"] == "trial" and (cell["set"], cell["method"]) == chosen]

    # ------------------------------------------------------------------------------------------------------ figures

    def of_kind(self, kind: str) -> list[Record]:
        """Cells of a figure of errors: one for each method, fold, seed and size, wherever it was computed."""
        return [cell for cells in self._figure_cells(kind).values() for cell in _latest(cells)]

    def timed_of_kind(self, kind: str) -> dict[Place, list[Record]]:
        """Cells of a figure of times, by where they were measured."""
        found: dict[Place, dict[Any, list[Record]]] = {}
        for where, cells in self._figure_cells(kind).items():
            for cell in filter(is_timed, cells):
                found.setdefault(place_of(cell), {}).setdefault(where, []).append(cell)
        return {place: [c for cells in groups.values() for c in _latest(cells)] for place, groups in found.items()}

    def _figure_cells(self, kind: str) -> dict[tuple[str, str, str], list[Record]]:
        """Cells by condition, set and method: full before quick ones, with the row-0 rule before without."""
        by_panel: dict[tuple[str, str], list[Record]] = {}
        for cell in self.finished:
            if cell["kind"] == kind:
                by_panel.setdefault((cell["condition"], cell["set"]), []).append(cell)
        found: dict[tuple[str, str, str], list[Record]] = {}
        for (condition, name), cells in by_panel.items():
            full = _full_before_quick(cells)
            ruled = [cell for cell in full if row_zero_of(cell) is not False]
            for cell in ruled or full:
                found.setdefault((condition, name, cell["method"]), []).append(cell)
        return {where: _of_one_recipe(cells) for where, cells in found.items()}

    # ------------------------------------------------------------------------------------------------------- places

    @functools.cached_property
    def places(self) -> list[Place]:
        """Everywhere that times were measured: CPUs first, then those with the most cells."""
        count = Counter(place_of(cell) for cell in self.finished if is_timed(cell))
        return sorted(count, key=lambda place: (place.device != "cpu", place.device, -count[place], place.machine))

    def place_name(self, place: Place) -> str:
        """A short name: empty for the only CPU, the device, and a letter where several machines have such a device."""
        alike = [other for other in self.places if other.device == place.device]
        letter = "" if len(alike) == 1 else f" {chr(ord('A') + alike.index(place))}"
        return "" if not letter and place.device == "cpu" else f"{place.device}{letter}"

    @property
    def n_untimed(self) -> int:
        """How many finished cells ran beside other work, so that their times do not count."""
        return sum(not is_timed(cell) for cell in self.finished)


# ------------------------------------------------------------------------------------------------------------- helpers


def ordered(names: Iterable[str], known: Sequence[str]) -> list[str]:
    """Distinct names: the known ones in their order, then the others by alphabet."""
    found = set(names)
    return [name for name in known if name in found] + sorted(found.difference(known))


def row_zero_of(cell: Record) -> bool | None:
    """Whether the row-0 rule was on; None where there is no such rule."""
    return cell["settings"].get("row_zero")


def is_timed(cell: Record) -> bool:
    """Whether a cell's times count: not if it says that it ran beside other work."""
    return cell.get("timed") is not False


def place_of(cell: Record) -> Place:
    """Where a cell's times were measured. PyTorch's "cuda" is the first GPU, which others call "cuda:0"."""
    device = str(cell.get("device", "cpu"))
    return Place("cuda:0" if device == "cuda" else device, json.dumps(cell["machine"], sort_keys=True))


def _full_before_quick(cells: Sequence[Record]) -> list[Record]:
    return [cell for cell in cells if not cell.get("quick")] or list(cells)


def _on_all_before_some(cells: Sequence[Record]) -> list[Record]:
    """Runs that learned from all of a training split, as in the paper; others if there are none."""
    return [cell for cell in cells if cell["settings"].get("learned_on") == ALL_MOLECULES] or list(cells)


def _as_runs(cells: Sequence[Record]) -> Runs | None:
    chosen = _latest(cells)
    return Runs(chosen, bool(chosen[0].get("quick")), row_zero_of(chosen[0])) if chosen else None


def _of_one_recipe(cells: Sequence[Record], ignored: Sequence[str] = ()) -> list[Record]:
    """Cells with the same settings: those that most folds, seeds and sizes have, and of these the latest."""
    recipes: dict[str, list[Record]] = {}
    for cell in cells:
        settings = {name: value for name, value in cell["settings"].items() if name not in (*FOUND, *ignored)}
        recipes.setdefault(json.dumps(settings, sort_keys=True), []).append(cell)
    return max(recipes.values(), key=lambda some: (len(_latest(some)), max(map(_date, some))), default=[])


def _date(cell: Record) -> str:
    return str(cell.get("date", ""))


def _latest(cells: Sequence[Record]) -> list[Record]:
    """One cell for each fold, seed and size: from the CPU if possible, then the latest."""
    chosen: dict[tuple[int, int, int], Record] = {}
    for cell in sorted(cells, key=lambda cell: (cell.get("device", "cpu") == "cpu", _date(cell))):
        chosen[cell["fold"], cell["seed"], int(cell.get("size") or 0)] = cell
    return [chosen[which] for which in sorted(chosen)]


_LISTS = {"curve": ("epochs", "errors", "relative_errors"), "scatter": ("exact", "estimate")}
_NUMBERS = {"ablation": ("k",), "scaling": ("n_distributions", "seconds")}


def _check(cell: Record) -> None:
    """Refuse a finished cell that cannot be drawn, naming it."""
    if "error" in cell:
        return
    where = f"the {cell['kind']} cell of {cell['set']}, {cell['method']}, {cell['condition']}"
    lists = [(name, cell.get(name)) for name in _LISTS.get(cell["kind"], ())]
    lists += [(name, cell[name]) for name in ("lower", "upper") if cell["kind"] == "scatter" and cell.get(name)]
    for name, values in lists:
        if not isinstance(values, list) or len(values) != len(lists[0][1] or ()):
            raise ValueError(f"{where} has no list {name!r} of the length of {lists[0][0]!r}; the file is damaged")
    for name in _NUMBERS.get(cell["kind"], ()):
        if not isinstance(cell.get(name), (int, float)):
            raise ValueError(f"{where} has no number {name!r}; the file is damaged")
