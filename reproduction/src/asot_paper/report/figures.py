"""The report's charts, from cells: which numbers go on which axis, and which method has which color.

A method looks the same in every chart. Ours are filled shapes in strong colors, so that they stand out even without
color. Errors as published are in units of the distance, as in the paper's figures. Errors as described are in percent
of the mean distance, so that sets can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from asot_paper.names import CALIBRATED, DESCRIBED, METHODS, OURS, PUBLISHED, SETS
from asot_paper.report.charts import Panel, Series, Sheet, Style
from asot_paper.report.data import LOOP, Record, ReportData, ordered, place_of

STYLES = {
    "OT-EMD": Style(6, "s"),
    "SW": Style(7, "^"),
    "eOT": Style(7, "o", hollow=True),
    "BDS-eOT": Style(7, "x"),
    "ASOT-k": Style(1, "o", hollow=True),
    "ASOT-ML": Style(2, "s"),
    "ASOT-DL": Style(3, "^"),
    "eASOT-k": Style(7, "x"),
    "eASOT-ML": Style(2, "x", dashed=True),
    "eASOT-DL": Style(3, "x", dashed=True),
    CALIBRATED: Style(5, "o"),
    OURS: Style(4, "D"),
    LOOP: Style(2, "^", dashed=True),
}

_PLACE_MARKERS = ("o", "D", "^", "s")
OVERVIEW_METHODS = ("ASOT-k", "ASOT-ML", "ASOT-DL", CALIBRATED, OURS)
_PERCENT = "error, % of the mean distance"
_RMSE = "RMSE"
LEAST_RMSE, LEAST_PERCENT = 1e-4, 1e-2
"""Smaller errors, which may be mere rounding, are drawn as these."""


def style_of(method: str) -> Style:
    """How a method is drawn; an unknown one is gray."""
    return STYLES.get(method, Style(6, "x"))


def overview(data: ReportData) -> Sheet | None:
    """Error of the anchor methods on each set, as described: the first picture of the page."""
    names = [name for name in data.sets(DESCRIBED) if data.best(DESCRIBED, name, "relative") is not None]
    series = []
    for method in OVERVIEW_METHODS:
        places = [
            (100.0 * error, float(row))
            for row, name in enumerate(names)
            if (runs := data.runs(DESCRIBED, name, method)) is not None and (error := runs.mean("relative")) is not None
        ]
        if places:
            label = f"{method} (ours)" if method == CALIBRATED else method
            series.append(Series(label, *_columns(places), style_of(method), line=False))
    if not series:
        return None
    return Sheet([Panel("Error of the distances: left is better", _PERCENT, "set", series, names)])


def training_curves(data: ReportData) -> Sheet | None:
    """Figure 3: error against epoch, one panel for each condition and set."""
    panels = []
    for (condition, name), cells in _by_panel(data.of_kind("curve")):
        relative = condition != PUBLISHED
        series = [
            Series(method, *_columns(course), style_of(method), low, high, marked=False)
            for method in _methods(cells)
            for course, low, high in _courses([c for c in cells if c["method"] == method], relative)
        ]
        panels.append(Panel(f"{name}, {condition}", "epoch", _PERCENT if relative else _RMSE, series, x_log=False))
    return Sheet(panels) if panels else None


def _courses(cells: Sequence[Record], relative: bool) -> list[tuple[Any, Any, Any]]:
    """The mean curve of all seeds with the lowest and the highest, or each by itself if their epochs differ."""
    field = "relative_errors" if relative else "errors"
    curves = [([float(e) for e in c["epochs"]], [_shown(e, relative) for e in c[field]]) for c in cells]
    if len(curves) > 1 and all(epochs == curves[0][0] for epochs, _ in curves):
        at_each = list(zip(*(errors for _, errors in curves), strict=True))
        mean = [sum(errors) / len(errors) for errors in at_each]
        low, high = [min(errors) for errors in at_each], [max(errors) for errors in at_each]
        return [(list(zip(curves[0][0], mean, strict=True)), low, high)]
    return [(list(zip(epochs, errors, strict=True)), None, None) for epochs, errors in curves]


def anchor_errors(data: ReportData) -> Sheet | None:
    """Figure 4, first half: error against the number of anchors."""
    panels = []
    for (condition, name), cells in _by_panel(data.of_kind("ablation")):
        relative = condition != PUBLISHED
        series = []
        for method in _methods(cells):
            found = [(_asked(cell), _error(cell, relative)) for cell in cells if cell["method"] == method]
            x, y, low, high = _mean_and_range([(k, error) for k, error in found if error is not None])
            series.append(Series(method, x, y, style_of(method), low, high))
        label = _PERCENT if relative else _RMSE
        panels.append(Panel(f"{name}, {condition}", "number of anchors k", label, series))
    return Sheet(panels) if panels else None


def anchor_times(data: ReportData) -> Sheet | None:
    """Figure 4, second half: seconds against the number of anchors."""
    return _times(data, "ablation", _asked, "number of anchors k", None)


def scaling(data: ReportData) -> Sheet | None:
    """Seconds against the number of distributions, both logarithmic."""
    return _times(data, "scaling", lambda cell: float(cell["n_distributions"]), "number of distributions N", True)


def _times(
    data: ReportData, kind: str, across: Callable[[Record], float], label: str, logarithmic: bool | None
) -> Sheet | None:
    """Panels of seconds, with a line for each method at each place where it was timed."""
    timed = data.timed_of_kind(kind)
    panels = []
    for (condition, name), cells in _by_panel([cell for some in timed.values() for cell in some]):
        series = []
        for method in _methods(cells):
            for rank, place in enumerate(place for place in data.places if place in timed):
                mine = [cell for cell in cells if cell["method"] == method and place_of(cell) == place]
                if mine:
                    series.append(_time_series(method, data.place_name(place), rank, mine, across))
        panels.append(Panel(f"{name}, {condition}", label, "seconds", series, x_log=logarithmic, y_log=logarithmic))
    return Sheet(panels) if panels else None


def _time_series(
    method: str, place: str, rank: int, cells: Sequence[Record], across: Callable[[Record], float]
) -> Series:
    found = [(across(cell), (cell.get("train_seconds") or 0.0) + (cell.get("seconds") or 0.0)) for cell in cells]
    style = style_of(method)._replace(dashed=is_extrapolated(cells))
    if rank:
        style = style._replace(marker=_PLACE_MARKERS[rank % len(_PLACE_MARKERS)])
    x, y, low, high = _mean_and_range(found)
    return Series(f"{method} ({place})" if place else method, x, y, style, low, high)


def _asked(cell: Record) -> float:
    return float(cell.get("size") or cell["settings"].get("k_asked") or cell["k"])


def _error(cell: Record, relative: bool) -> float | None:
    value = cell.get("relative" if relative else "rmse")
    return None if value is None else _shown(value, relative)


def _shown(error: float, relative: bool) -> float:
    """An error as it is drawn: in percent if it is relative, and not below the smallest that is shown."""
    return max(LEAST_PERCENT, 100.0 * error) if relative else max(LEAST_RMSE, error)


def scatters(data: ReportData) -> list[tuple[str, str, Sheet]]:
    """Exact against estimated distances with bounds: for each condition and set, one panel for each method."""
    found = []
    for (condition, name), cells in _by_panel(data.of_kind("scatter")):
        panels = []
        for method in _methods(cells):
            cell = next(cell for cell in cells if cell["method"] == method)
            low, high = (cell["lower"], cell["upper"]) if has_bounds(cell) else (None, None)
            style = style_of(method)._replace(marker=".")
            cloud = Series(method, cell["exact"], cell["estimate"], style, low, high, line=False)
            panels.append(
                Panel(
                    f"{name}: {method}", "exact distance", "estimate", [cloud], diagonal=True, x_log=False, y_log=False
                )
            )
        found.append((condition, name, Sheet(panels)))
    return found


def has_bounds(cell: Record) -> bool:
    """Whether a cell of a scatter plot has a lower and an upper bound for its pairs."""
    return bool(cell.get("lower")) and bool(cell.get("upper"))


def is_extrapolated(cells: Iterable[Record]) -> bool:
    """Whether the times were measured on a sample of the pairs and scaled up."""
    return any(cell["settings"].get("extrapolated") for cell in cells)


# ------------------------------------------------------------------------------------------------------------- helpers


def _by_panel(cells: Sequence[Record]) -> list[tuple[tuple[str, str], list[Record]]]:
    """Cells by condition and set: as described first, since that is what a user would see."""
    conditions = ordered((cell["condition"] for cell in cells), (DESCRIBED, PUBLISHED))
    names = ordered((cell["set"] for cell in cells), SETS)
    places = [(condition, name) for condition in conditions for name in names]
    groups = [(place, [cell for cell in cells if (cell["condition"], cell["set"]) == place]) for place in places]
    return [(place, group) for place, group in groups if group]


def _methods(cells: Sequence[Record]) -> list[str]:
    return ordered((cell["method"] for cell in cells), (*METHODS, LOOP))


def _columns(places: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in places], [y for _, y in places]


def _mean_and_range(
    places: Sequence[tuple[float, float]],
) -> tuple[list[float], list[float], list[float] | None, list[float] | None]:
    """At each x: the mean of y, and its lowest and highest value where some x has several."""
    at: dict[float, list[float]] = {}
    for x, y in places:
        at.setdefault(x, []).append(y)
    xs = sorted(at)
    mean = [sum(at[x]) / len(at[x]) for x in xs]
    if all(len(values) == 1 for values in at.values()):
        return xs, mean, None, None
    return xs, mean, [min(at[x]) for x in xs], [max(at[x]) for x in xs]
