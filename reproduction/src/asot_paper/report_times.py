"""Table 2: seconds of training and distances, each where it was measured.

A row is a method at a place, one device of one machine. Cells that ran beside other work have no times here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from asot_paper.names import DESCRIBED, PUBLISHED
from asot_paper.report_about import machine_words
from asot_paper.report_comparisons import Comparison, with_paper
from asot_paper.report_data import Place, ReportData, Runs
from asot_paper.report_document import Block, Entry, Section, Table, Text, counted, listed, number, quote, times
from asot_paper.report_sections import NOT_AT_HAND, gap, in_parts, paired_table, paper_number, quoted

NOT_TIMED = "not timed"

Row = tuple[str, Place]


def run_times(data: ReportData) -> Section | None:
    """Table 2: seconds of training and of distances, in both conditions."""
    blocks = [block for condition in (DESCRIBED, PUBLISHED) for block in _tables(data, condition)]
    if not blocks and not data.n_untimed:
        return None
    if not blocks:
        return Section("times", "Table 2, times", [Text(_untimed_words(data).strip())])
    intro = (
        "Seconds for all pairs of a set: training + distances (encoding included); methods without training have one "
        "number, and methods that share a space show the same training. A mean over runs; the smallest total of each "
        f"set{_each_place(data)} is in bold. The paper's times are of other machines and are for orientation only."
    )
    start: list[Block] = [Text(intro), Text(_places_words(data) + _untimed_words(data))]
    compared = [one for one in with_paper(data, "seconds") if not one.quick]
    end: list[Block] = [_differences(data, compared)] if compared else []
    return Section("times", "Table 2, times", [*start, *blocks, *end])


def _each_place(data: ReportData) -> str:
    return ", on each machine and device," if len(data.places) > 1 else ""


def _places_words(data: ReportData) -> str:
    """Which machine each row's times are of."""
    parts = []
    for place in data.places:
        name = data.place_name(place)
        machine = quote(machine_words(json.loads(place.machine)))
        parts.append(f"{quote(name)}: {machine}" if name else machine)
    return f"Machine ([how it was made](#how)): {'; '.join(parts)}."


def _untimed_words(data: ReportData) -> str:
    if not data.n_untimed:
        return ""
    return f" {counted(data.n_untimed, 'cell')} ran beside other work: errors count, times are not shown."


def _tables(data: ReportData, condition: str) -> list[Block]:
    rows = [
        (method, place)
        for method in data.methods(condition)
        for place in data.places
        if any(_runs(data, condition, name, (method, place)) for name in data.sets(condition))
    ]
    names = [name for name in data.sets(condition) if any(_runs(data, condition, name, row) for row in rows)]
    parts = in_parts(names) if condition == PUBLISHED else [names] if names else []
    return [_table(data, condition, part, some, rows) for part, some in enumerate(parts, 1)]


def _table(data: ReportData, condition: str, part: int, names: Sequence[str], rows: Sequence[Row]) -> Table:
    beside_paper = condition == PUBLISHED
    fastest = {(name, place): _fastest(data, condition, name, rows, place) for name in names for _, place in rows}
    lines = []
    for method, place in rows:
        where = data.place_name(place)
        line = [Entry(quote(f"{method} ({where})" if where else method))]
        for name in names:
            runs = _runs(data, condition, name, (method, place))
            empty = gap() if data.runs(condition, name, method) is None else Entry(NOT_TIMED, quiet=True)
            line.append(empty if runs is None else _entry(data, runs, fastest[name, place]))
            if beside_paper:
                paper = data.paper("seconds", name, method)
                line.append(Entry(NOT_AT_HAND, quiet=True) if paper is None else Entry(paper_number(paper)))
        lines.append(line)
    caption = f"Seconds, {condition}: {listed(quoted(names))}."
    columns = ("ours", "paper") if beside_paper else ("",)
    return paired_table(f"times-{condition.split()[-1]}-{part}", caption, names, columns, lines)


def _runs(data: ReportData, condition: str, name: str, row: Row) -> Runs | None:
    return data.runs(condition, name, row[0], place=row[1])


def _fastest(data: ReportData, condition: str, name: str, rows: Sequence[Row], place: Place) -> float | None:
    """The smallest total of a set at a place; of full runs, where there are any."""
    runs = [_runs(data, condition, name, row) for row in rows if row[1] == place]
    totals = [(one.quick, total) for one in runs if one is not None and (total := one.total_seconds()) is not None]
    return min(totals, default=(False, None))[1]


def _entry(data: ReportData, runs: Runs, fastest: float | None) -> Entry:
    total = runs.total_seconds()
    if total is None:
        return gap()
    training, distances = runs.mean("train_seconds"), runs.mean("seconds") or 0.0
    words = f"{number(training, 2)} + {number(distances, 2)}" if training else number(distances, 2)
    mark = data.mark(runs)
    return Entry(words + mark, best=fastest is not None and not mark and total <= fastest)


def _differences(data: ReportData, compared: Sequence[Comparison]) -> Table:
    rows = [
        [
            Entry(f"{quote(one.set)}, {quote(one.method)} ({_where(data, one)})"),
            Entry(number(one.ours.mean)),
            Entry(paper_number(one.paper)),
            Entry(_faster(one.ours.mean, one.paper.value)),
            Entry(quote(one.paper.source)),
        ]
        for one in compared
    ]
    columns = ("set, method (ours on)", "ours", "paper", "ours against paper", "where the paper's number is from")
    caption = "Where both are at hand: seconds for distances, as published."
    return Table("time-differences", caption, columns, rows, n_words=1)


def _where(data: ReportData, one: Comparison) -> str:
    return "cpu" if one.place is None else quote(data.place_name(one.place) or one.place.device)


def _faster(ours: float, paper: float) -> str:
    if not ours or not paper:
        return "–"
    return f"{times(paper / ours)} times less" if ours <= paper else f"{times(ours / paper)} times more"
