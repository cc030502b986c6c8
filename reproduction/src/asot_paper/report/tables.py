"""The report's plain tables and lines about runs, machines and versions, as Markdown."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from asot_paper.names import CALIBRATED, DESCRIBED, OURS, PUBLISHED
from asot_paper.report.data import EXACT, Place, Record, ReportData, Runs, ordered, row_zero_of
from asot_paper.report.words import counted, listed, number, quote, with_error

NOT_RUN, NOT_TIMED = "not run", "not timed"
SAME = 1e-3  # means that differ by less than this share are equally good

KIND_NAMES = {
    "run": "the tables",
    "trial": "trials",
    "curve": "figure 3",
    "ablation": "figure 4",
    "scatter": "scatter plots",
    "scaling": "time against N",
}


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]], n_words: int = 1) -> str:
    """A table of Markdown whose first ``n_words`` columns are words and whose others are numbers.

    >>> print(markdown_table(["set", "k"], [["MUTAG", "18"]]))
    | set | k |
    | --- | --: |
    | MUTAG | 18 |
    """
    align = ["---"] * n_words + ["--:"] * (len(columns) - n_words)
    return "\n".join(f"| {' | '.join(line)} |" for line in (columns, align, *rows))


# -------------------------------------------------------------------------------------------------------------- errors


def own_methods(data: ReportData) -> str:
    """Errors of this library's two methods, as published."""
    sets = data.sets(PUBLISHED)
    rows = [
        [method, *(_error(data, data.runs(PUBLISHED, name, method), "rmse", decimals=4) for name in sets)]
        for method in (CALIBRATED, OURS)
    ]
    return markdown_table(["method", *map(quote, sets)], rows)


def described_errors(data: ReportData) -> str:
    """Errors as described: in percent of the mean distance, in its units, and the sets themselves."""
    names = data.sets(DESCRIBED)
    parts = []
    for field, caption, factor, decimals in (
        ("relative", "Error in percent of the mean distance.", 100.0, 1),
        ("rmse", "The same errors in units of the distance (RMSE).", 1.0, None),
    ):
        rows = []
        for method in data.methods(DESCRIBED):
            best = [None if method == EXACT else data.best(DESCRIBED, name, field) for name in names]
            runs = [data.runs(DESCRIBED, name, method) for name in names]
            cells = [
                _error(data, one, field, decimals=decimals, factor=factor, best=least)
                for one, least in zip(runs, best, strict=True)
            ]
            rows.append([quote(method), *cells])
        parts.append(f"{markdown_table(['method', *map(quote, names)], rows)}\n\n*{caption}*")
    return "\n\n".join([*parts, _sets(data, names)])


def _sets(data: ReportData, names: Sequence[str]) -> str:
    rows = []
    for name in names:
        runs = [one for method in data.methods(DESCRIBED) if (one := data.runs(DESCRIBED, name, method)) is not None]
        row = [quote(name)]
        for field in ("n_distributions", "n_pairs", "k", "mean_distance"):
            means = [mean for one in runs if (mean := one.mean(field)) is not None]
            row.append("–" if not means else number(max(means)) if field == "mean_distance" else f"{max(means):,.0f}")
        rows.append(row)
    columns = ("set", "distributions", "pairs", "anchors k", "mean exact distance")
    return f"{markdown_table(columns, rows)}\n\n*The sets. k is the mean size of a distribution.*"


def _error(
    data: ReportData,
    runs: Runs | None,
    field: str,
    *,
    decimals: int | None = None,
    factor: float = 1.0,
    best: float | None = None,
) -> str:
    """Mean ± standard error, in bold if it is the smallest of its set; or a note that it was not run."""
    summary = None if runs is None else runs.summary(field)
    if runs is None or summary is None:
        return NOT_RUN
    small = 0 < factor * summary.mean < 1 and decimals == 1
    text, mark = with_error(summary, decimals=2 if small else decimals, factor=factor), data.mark(runs)
    return f"**{text}**" if best is not None and not mark and summary.mean <= best * (1 + SAME) else text + mark


def run_counts(data: ReportData, condition: str) -> str:
    """How many runs the means of a condition are taken over: "1 to 10"."""
    runs = [data.runs(condition, name, method) for name in data.sets(condition) for method in data.methods(condition)]
    counts = [len(one.cells) for one in runs if one is not None]
    return f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else f"{max(counts)}"


def runs_words(data: ReportData, condition: str, name: str) -> str:
    """How often random methods were run on a set, for the head of its table."""
    runs = [data.runs(condition, name, method) for method in ("ASOT-k", "ASOT-ML", "ASOT-DL")]
    counts = {len(one.cells) for one in runs if one is not None}
    return f" ({listed([str(count) for count in sorted(counts)])} runs)" if counts else ""


# --------------------------------------------------------------------------------------------------------------- times


def seconds_words(parts: tuple[float, float], significant: int = 2) -> str:
    """Training + distances, or distances alone.

    >>> seconds_words((378.0, 1509.0), 4), seconds_words((0.0, 5.31))
    ('378 + 1,509', '5.3')
    """
    return " + ".join(_plain(part, significant) for part in parts if part) or "0"


def _plain(value: float, significant: int) -> str:
    text = number(value, significant)
    return text.rstrip("0").rstrip(".") if significant > 3 and "." in text else text


def described_times(data: ReportData) -> str:
    """Seconds as described: a row for each method at each place where it was timed."""
    names = data.sets(DESCRIBED)
    rows = [
        (method, place, [data.runs(DESCRIBED, name, method, place=place) for name in names])
        for method in data.methods(DESCRIBED)
        for place in data.places
    ]
    rows = [row for row in rows if any(row[2])]
    if not rows:
        return ""
    fastest = {
        (place, column): min(
            (t for _, other, runs in rows if other == place and (t := _total(runs[column]))), default=0
        )
        for _, place, _ in rows
        for column in range(len(names))
    }
    lines = [
        [_row_name(data, method, place), *(_time(data, one, fastest[place, n]) for n, one in enumerate(runs))]
        for method, place, runs in rows
    ]
    return markdown_table(["method", *map(quote, names)], lines)


def _row_name(data: ReportData, method: str, place: Place) -> str:
    where = data.place_name(place)
    return quote(f"{method} ({where})" if where else method)


def _total(runs: Runs | None) -> float | None:
    return None if runs is None else runs.total_seconds()


def _time(data: ReportData, runs: Runs | None, fastest: float) -> str:
    total = _total(runs)
    if runs is None or total is None:
        return NOT_TIMED
    text = seconds_words((runs.mean("train_seconds") or 0.0, runs.mean("seconds") or 0.0)) + data.mark(runs)
    return f"**{text}**" if total <= fastest else text


def places_words(data: ReportData) -> str:
    """Which machine each row's times are from."""
    named = [(data.place_name(place), machine_words(json.loads(place.machine))) for place in data.places]
    text = (
        f"Machine: {'; '.join(f'{name}: {machine}' if name else machine for name, machine in named)}." if named else ""
    )
    if not data.n_untimed:
        return text
    return f"{text} {counted(data.n_untimed, 'cell')} ran beside other work: their errors count, their times do not."


# ----------------------------------------------------------------------------------------------------- how it was made


def made(data: ReportData) -> str:
    """Where the numbers are from, in one line."""
    known = (cell["versions"].get("asot") for cell in data.finished)
    versions = dict.fromkeys(str(version) for version in known if version is not None)
    return quote(f"{counted(len(data.finished), 'result')} of asot {', '.join(versions)}, {_dates(data.finished)}")


def commands(data: ReportData) -> list[str]:
    """What to type to get these cells and this report."""
    quick = " --quick" if data.all_quick else ""
    lines = ["pip install '.[torch,chem]' ./reproduction", f"asot paper all{quick} --results results.json"]
    if any(row_zero_of(cell) is False and cell["method"] != "BDS-eOT" for cell in data.finished):
        lines.append(f"asot paper table1{quick} --condition published --no-row-zero-rule --results results.json")
    return [*lines, "asot paper report --results results.json --markdown paper.md --html paper.html"]


def amount(data: ReportData) -> str:
    """How many cells there are, and of what."""
    cells = data.finished
    kinds = ordered((cell["kind"] for cell in cells), tuple(KIND_NAMES))
    parts = [f"{sum(c['kind'] == kind for c in cells):,} for {quote(KIND_NAMES.get(kind, kind))}" for kind in kinds]
    return f"There are {counted(len(cells), 'finished cell')}: {listed(parts)}, made {_dates(cells)}."


def _dates(cells: Sequence[Record]) -> str:
    days = sorted({str(cell["date"])[:10] for cell in cells if cell.get("date")})
    return "" if not days else quote(days[0]) if len(days) == 1 else f"{quote(days[0])} to {quote(days[-1])}"


def sources(data: ReportData) -> str:
    """Distinct machines and versions, with how many cells each made."""
    kinds: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
        ("machine", machine_words),
        ("versions", lambda versions: ", ".join(f"{name} {text}" for name, text in versions.items() if text)),
    )
    parts = []
    for field, text in kinds:
        groups: dict[str, int] = {}
        for cell in data.finished:
            name = text(cell[field]) or "unknown"
            groups[name] = groups.get(name, 0) + 1
        parts.append(markdown_table([field, "cells"], [[quote(name), f"{count:,}"] for name, count in groups.items()]))
    return "\n\n".join(parts)


def machine_words(machine: dict[str, Any]) -> str:
    """A machine in words: processor, threads, GPU, and whatever else is known.

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


def cell_words(cell: Record) -> str:
    """A cell in words."""
    what = "" if cell["kind"] == "run" else f", {KIND_NAMES.get(cell['kind'], cell['kind'])}"
    size = f", size {cell['size']}" if cell.get("size") is not None else ""
    return (
        f"{cell['set']}, {cell['method']}, {cell['condition']}{what} (fold {cell['fold']}, seed {cell['seed']}{size})"
    )
