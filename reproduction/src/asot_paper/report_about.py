"""The last section of the report: settings, seeds, machines, versions, dates and commands, and what is missing.

All of it is read from the cells, so that every number can be traced to what made it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from asot_paper.names import CONDITIONS, METHODS, SETS
from asot_paper.report_data import Record, ReportData, ordered, row_zero_of
from asot_paper.report_document import Block, Bullets, Code, Entry, Section, Table, Text, counted, listed, number, quote

KIND_NAMES = {
    "run": "tables",
    "curve": "figure 3",
    "ablation": "figure 4",
    "scatter": "scatter plots",
    "scaling": "time against N",
}
SETTING_NAMES = {
    "reg": "ε",
    "reg_rule": "ε, rule",
    "max_iter": "Sinkhorn iterations",
    "init": "start of the iterations",
    "row_zero": "row-0 rule",
    "k_asked": "anchors asked for",
    "n_train": "distributions to learn from",
    "n_pairs": "exact pairs to learn from",
    "pairs": "pairs of the error",
}
QUICK_WORDS = (
    "From a quick run, with few folds, few epochs and few digits. It shows that everything works, not how well."
)
_SHOWN_VALUES = 6  # of one setting; more numbers than that are shown as a range
_SHOWN_FAILURES = 50


def how_it_was_made(data: ReportData) -> Section:
    """Everything that produced the numbers, and which are not there."""
    blocks: list[Block] = [
        Text(
            "Every number of ours on this page was computed by `asot paper` and is stored in the results file with its "
            "settings, seed, versions, machine and date. These commands compute such numbers; finished cells are not "
            f"computed again.{_merged_words(data)}"
        ),
        Code(commands(data)),
        Text(_amount(data.finished)),
    ]
    blocks += [table for condition in CONDITIONS if (table := _settings_table(data, condition)) is not None]
    blocks += [_sources(data.finished, "machine", "Machines", machine_words)]
    blocks += [_sources(data.finished, "versions", "Versions", _versions_words)]
    return Section("how", "How it was made", blocks)


def _merged_words(data: ReportData) -> str:
    machines = {json.dumps(cell["machine"], sort_keys=True) for cell in data.finished}
    if len(machines) < 2:
        return ""
    return " Cells are of several machines or numbers of threads, listed below; `asot paper merge` puts them together."


def commands(data: ReportData) -> list[str]:
    """What to type to get these cells and this report."""
    quick = " --quick" if data.all_quick else ""
    lines = ["pip install 'asot[torch,bench,chem]'", f"asot paper all{quick} --results results.json"]
    if any(row_zero_of(cell) is False for cell in data.finished):
        lines.append(f"asot paper table1{quick} --condition published --no-row-zero-rule --results results.json")
    return [*lines, "asot paper report --results results.json --markdown paper.md --html paper.html"]


def gaps(data: ReportData) -> Section:
    """Cells that failed or were never run."""
    blocks: list[Block] = []
    if data.failed:
        rows = [[Entry(_cell_words(cell)), Entry(quote(cell["error"]))] for cell in data.failed[:_SHOWN_FAILURES]]
        more = len(data.failed) - len(rows)
        caption = f"{counted(len(data.failed), 'cell')} failed and will be tried again by the next run."
        caption += f" The first {len(rows)} are shown, {more} more are in the results file." if more else ""
        blocks.append(Table("failed", caption, ("cell", "what went wrong"), rows, n_words=1))
    else:
        blocks.append(Text("No cell failed."))
    items = [words for condition in CONDITIONS if (words := _missing_words(data, condition))]
    blocks.append(Bullets(items) if items else Text("Every method was run on every set, in both conditions."))
    for condition, count in data.unknown_conditions.items():
        blocks.append(
            Text(
                f"Not shown: {counted(count, 'cell')} with the condition “{quote(condition)}”, which this report has "
                "no table for."
            )
        )
    if data.n_other_settings:
        blocks.append(
            Text(
                f"Not shown: {counted(data.n_other_settings, 'run')} with other settings than those that most runs of "
                "the same method on the same set have."
            )
        )
    if data.some_quick and not data.all_quick:
        blocks.append(Text(f"† {QUICK_WORDS}"))
    return Section("gaps", "What failed or is missing", blocks)


# ------------------------------------------------------------------------------------------------------------ settings


def _settings_table(data: ReportData, condition: str) -> Table | None:
    cells = [cell for cell in data.finished if cell["condition"] == condition]
    names = dict.fromkeys(name for cell in cells for name in cell["settings"] if name != "notes")
    rows = []
    for name in names:
        having = [cell for cell in cells if cell["settings"].get(name) is not None]
        title = quote(SETTING_NAMES.get(name, name.replace("_", " ")))
        for words, some in _by_value(having, name):
            rows += [[Entry(title), Entry(quote(words)), Entry(where)] for where in _places(some, cells)]
    if not rows:
        return None
    caption = f"Settings, {condition}."
    return Table(f"settings-{condition.split()[-1]}", caption, ("setting", "value", "where"), rows, n_words=2)


def _by_value(cells: Sequence[Record], name: str) -> list[tuple[str, list[Record]]]:
    """Cells by the value of a setting; one range for all of them where there are many numbers."""
    values = [cell["settings"][name] for cell in cells]
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if len(numbers) == len(values) and len(set(numbers)) > _SHOWN_VALUES:
        low, high = (f"{one:,}" if isinstance(one, int) else number(one) for one in (min(numbers), max(numbers)))
        return [(f"{low} to {high}", list(cells))]
    groups: dict[str, list[Record]] = {}
    for cell, value in zip(cells, values, strict=True):
        groups.setdefault(_value_words(value), []).append(cell)
    return list(groups.items())


def _value_words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(one) for one in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _places(some: Sequence[Record], cells: Sequence[Record]) -> list[str]:
    """Where a setting has a value: in one line, or in some for methods that have it on different sets."""
    where, exact = _where(some, cells)
    if exact:
        return [where]
    groups: dict[str, list[Record]] = {}
    for cell in some:
        groups.setdefault(cell["method"], []).append(cell)
    alike: dict[tuple[tuple[str, str], ...], list[Record]] = {}
    for mine in groups.values():
        alike.setdefault(tuple(sorted({(cell["kind"], cell["set"]) for cell in mine})), []).extend(mine)
    return [_where(mine, cells)[0] for mine in alike.values()]


def _where(some: Sequence[Record], cells: Sequence[Record]) -> tuple[str, bool]:
    """The kinds, sets and methods of some cells, as far as they are not all; and whether that describes no others."""
    parts, rest = [], list(cells)
    for field, order in (("kind", tuple(KIND_NAMES)), ("set", SETS), ("method", METHODS)):
        found = ordered((cell[field] for cell in some), order)
        others = ordered({cell[field] for cell in rest}.difference(found), order)
        rest = [cell for cell in rest if cell[field] in found]
        if others:
            names = [[quote(KIND_NAMES.get(name, name)) for name in some_names] for some_names in (found, others)]
            parts.append(", ".join(names[0]) if len(found) <= len(others) + 2 else f"all but {listed(names[1])}")
    return "; ".join(parts) or "everywhere", len(rest) == len(some)


def _amount(cells: Sequence[Record]) -> str:
    kinds = ordered((cell["kind"] for cell in cells), tuple(KIND_NAMES))
    parts = [f"{sum(c['kind'] == kind for c in cells):,} for {quote(KIND_NAMES.get(kind, kind))}" for kind in kinds]
    folds, seeds = ({cell[name] for cell in cells} for name in ("fold", "seed"))
    return (
        f"There are {counted(len(cells), 'finished cell')}: {listed(parts)}. Folds and subsets are numbered "
        f"{_range_words(folds)}, seeds {_range_words(seeds)}. They were made {_dates(cells)}."
    )


def _range_words(numbers: set[int]) -> str:
    return f"{min(numbers)}" if len(numbers) == 1 else f"{min(numbers)} to {max(numbers)}"


def _dates(cells: Sequence[Record]) -> str:
    days = sorted({str(cell["date"])[:10] for cell in cells if cell.get("date")})
    if not days:
        return "on a day that was not written down"
    return f"on {quote(days[0])}" if len(days) == 1 else f"from {quote(days[0])} to {quote(days[-1])}"


def _sources(cells: Sequence[Record], field: str, title: str, words: Callable[[dict[str, Any]], str]) -> Table:
    """Distinct machines or versions, with how many cells each made and when."""
    groups: dict[str, list[Record]] = {}
    for cell in cells:
        groups.setdefault(json.dumps(cell[field], sort_keys=True), []).append(cell)
    rows = [
        [Entry(quote(words(some[0][field]))), Entry(f"{len(some):,}"), Entry(_dates(some))] for some in groups.values()
    ]
    return Table(field, f"{title}.", (field, "cells", "made"), rows, n_words=2)


def machine_words(machine: dict[str, Any]) -> str:
    """A machine in words: processor, threads, GPU; whatever else is known of it follows.

    >>> machine_words({"cpu": "Xeon", "cores": 4, "threads": 2, "gpu": None, "system": "Linux"})
    'Xeon, 2 of 4 cores, Linux'
    """
    rest = {name: value for name, value in machine.items() if value not in (None, "")}
    parts = [str(rest.pop("cpu"))] if "cpu" in rest else []
    if {"threads", "cores"} <= rest.keys():
        parts.append(f"{rest.pop('threads')} of {counted(int(rest.pop('cores')), 'core')}")
    parts += [str(rest.pop(name)) for name in ("gpu", "system") if name in rest]
    parts += [f"{name} {value}" for name, value in rest.items()]
    return ", ".join(parts) or "unknown"


def _versions_words(versions: dict[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version) or "unknown"


# ---------------------------------------------------------------------------------------------------------------- gaps


def _cell_words(cell: Record) -> str:
    what = "" if cell["kind"] == "run" else f", {KIND_NAMES.get(cell['kind'], cell['kind'])}"
    size = f", size {cell['size']}" if cell.get("size") is not None else ""
    place = f"fold {cell['fold']}, seed {cell['seed']}{size}"
    return quote(f"{cell['set']}, {cell['method']}, {cell['condition']}{what} ({place})")


def _missing_words(data: ReportData, condition: str) -> str:
    """Sets and methods without a finished run; methods that are missing everywhere are named once."""
    missing = data.missing(condition)
    if not missing:
        return ""
    whole = [name for name, methods in missing.items() if len(methods) == len(METHODS)]
    parts = [f"{listed([quote(name) for name in whole])} (all methods)"] if whole else []
    parts += [
        f"{quote(name)} ({', '.join(quote(method) for method in methods)})"
        for name, methods in missing.items()
        if name not in whole
    ]
    return f"Without a finished run, {condition}: {'; '.join(parts)}."
