"""Charts as SVG, drawn by matplotlib: panels with lines, points and bars, and one legend for all panels of a sheet.

A page shows panels one by one, so that they fit a phone. A Markdown text shows the whole sheet. The same numbers give
the same bytes: no dates, no random names.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

COLORS = ("#1f6fb2", "#a1640b", "#7756b3", "#c23b22", "#0a7d68", "#6a7079", "#b0457e", "#23819a")
WIDTH, HEIGHT, ROW = 3.9, 3.1, 0.32
"""Of a panel, and of a named row, in inches."""

LOG_FROM = 30.0
"""An axis is logarithmic where the largest number is this many times the smallest, unless the panel says otherwise."""

MANY = 100
"""A series of at least this many points is drawn as pixels."""

_LEAST = 1e-12
_SETTINGS: dict[Any, Any] = {
    "font.family": "sans-serif", "font.size": 10, "axes.titlesize": 10.5, "axes.titleweight": "bold",
    "axes.titlelocation": "left", "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "axes.edgecolor": "#9aa0a6", "grid.color": "#e2e4e6", "text.color": "#1f211f", "axes.labelcolor": "#4b4f4b",
    "xtick.color": "#4b4f4b", "ytick.color": "#4b4f4b", "svg.fonttype": "none", "svg.hashsalt": "asot-paper",
}  # fmt: skip

Numbers = Sequence[float]


class Style(NamedTuple):
    """How a series looks: the number of its color (1 to 8), matplotlib's marker, hollow or filled, dashed or not."""

    color: int
    marker: str = "o"
    hollow: bool = False
    dashed: bool = False


@dataclass(frozen=True)
class Series:
    """Points (x, y), optionally with bars from ``low`` to ``high``. Points that are not finite are left out."""

    label: str
    x: Numbers
    y: Numbers
    style: Style
    low: Numbers | None = None
    high: Numbers | None = None
    line: bool = True
    marked: bool = True


@dataclass(frozen=True)
class Panel:
    """One chart. With ``rows``, y is the number of a named row, counted from the top."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    rows: Sequence[str] = ()
    diagonal: bool = False
    x_log: bool | None = None  # None: if the numbers span a wide range
    y_log: bool | None = None

    @property
    def height(self) -> float:
        return 1.1 + ROW * len(self.rows) if self.rows else HEIGHT


@dataclass(frozen=True)
class Sheet:
    """Panels that share a legend."""

    panels: Sequence[Panel]

    def legend(self) -> list[Series]:
        """A series for each label, in the order of first use; none if the panels' titles name them."""
        if all(len(panel.series) == 1 and panel.title.endswith(panel.series[0].label) for panel in self.panels):
            return []
        found: dict[str, Series] = {}
        for panel in self.panels:
            for series in panel.series:
                found.setdefault(series.label, series)
        return list(found.values())


def describe(panel: Panel) -> str:
    """What the panel shows, in words, for readers who cannot see it."""
    parts = [f"{panel.title}: {panel.y_label} against {panel.x_label}."]
    for series in panel.series:
        points = _finite(series)
        if panel.rows:
            parts += [f"{panel.rows[round(y)]}, {series.label}: {x:.3g}." for x, y, _, _ in points]
        elif points and series.line:
            (x0, y0, *_), (x1, y1, *_) = points[0], points[-1]
            parts.append(f"{series.label}: from {y0:.3g} at {x0:.3g} to {y1:.3g} at {x1:.3g}.")
        else:
            parts.append(f"{series.label}: {len(points)} points.")
    return " ".join(parts)


# ------------------------------------------------------------------------------------------------------------- drawing


def panel_svg(panel: Panel) -> str:
    """One panel as an SVG of its own."""
    with matplotlib.rc_context(_SETTINGS):
        canvas = Canvas(figsize=(WIDTH, panel.height), layout="constrained")
        _draw(canvas.add_subplot(), panel)
        return _svg(canvas)


def legend_svg(sheet: Sheet, columns: int = 2) -> str:
    """The legend of a sheet; empty if none is needed."""
    entries = sheet.legend()
    if not entries:
        return ""
    with matplotlib.rc_context(_SETTINGS):
        canvas = Canvas(figsize=(WIDTH * columns / 2, 0.1 + 0.24 * math.ceil(len(entries) / columns)))
        _legend(canvas, entries, columns)
        return _svg(canvas)


def sheet_svg(sheet: Sheet) -> str:
    """All panels, at most three in a row, under one legend."""
    count, entries = len(sheet.panels), sheet.legend()
    columns = 2 if count in (2, 4) else min(3, count)
    rows = math.ceil(count / columns)
    across = max(1, min(len(entries), 2 * columns))
    top = 0.1 + 0.24 * math.ceil(len(entries) / across) if entries else 0.0
    tall = rows * max(panel.height for panel in sheet.panels)
    with matplotlib.rc_context(_SETTINGS):
        canvas = Canvas(figsize=(columns * WIDTH, tall + top), layout="constrained")
        canvas.get_layout_engine().set(rect=(0, 0, 1, tall / (tall + top)))  # type: ignore[union-attr, call-arg]
        for place, panel in enumerate(sheet.panels, 1):
            _draw(canvas.add_subplot(rows, columns, place), panel)
        if entries:
            _legend(canvas, entries, across)
        return _svg(canvas)


def _svg(canvas: Canvas) -> str:
    stream = io.StringIO()
    canvas.savefig(stream, format="svg", metadata={"Date": None, "Creator": None}, facecolor="white", dpi=144)
    text = stream.getvalue()
    return text[text.index("<svg") :]


def _draw(axes: Axes, panel: Panel) -> None:
    points = [point for series in panel.series for point in _finite(series)]
    wide = [x for x, *_ in points]
    tall = [value for _, *values in points for value in values]
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x_label)
    _scale(axes.xaxis, wide, panel.x_log)
    if panel.rows:
        axes.set_yticks(range(len(panel.rows)), panel.rows)
        axes.set_ylim(len(panel.rows) - 0.5, -0.5)
    else:
        axes.set_ylabel(panel.y_label)
        _scale(axes.yaxis, tall, panel.y_log)
    if panel.diagonal and points:
        axes.axline((min(wide), min(wide)), slope=1.0, color="#6a7079", linewidth=1)
    for series in panel.series:
        _draw_series(axes, series)
    if not points:
        axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center")


def _scale(axis: Any, values: Numbers, logarithmic: bool | None) -> None:
    """A logarithmic axis if asked for, or if the numbers span a wide range; ticks are short, plain numbers."""
    if logarithmic is None:
        logarithmic = bool(values) and min(values) > _LEAST and max(values) > LOG_FROM * min(values)
    if logarithmic:
        axis._set_axes_scale("log")
        narrow = bool(values) and max(values) < 300 * max(min(values), _LEAST)
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if narrow else (1.0,), numticks=6))
        axis.set_minor_formatter(NullFormatter())
    else:
        axis.set_major_locator(MaxNLocator(5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}" if abs(value) < 1e5 else f"{value:.0e}"))


def _draw_series(axes: Axes, series: Series) -> None:
    points = _finite(series)
    if not points:
        return
    x, y, low, high = (list(column) for column in zip(*points, strict=True))
    color, fill = COLORS[series.style.color - 1], "none" if series.style.hollow else None
    if series.low is not None:
        ends = [value for bar in zip(low, high, strict=True) for value in (*bar, math.nan)]
        axes.plot([value for value in x for _ in range(3)], ends, color=color, alpha=0.4, linewidth=1.2)
    marker = series.style.marker if series.marked or len(points) == 1 else ""
    line = ("--" if series.style.dashed else "-") if series.line else ""
    size = 2.5 if series.style.marker == "." else 5.5
    many = len(points) > MANY  # one small picture in place of hundreds of shapes
    look: dict[str, Any] = {"color": color, "markerfacecolor": fill or color, "markersize": size, "rasterized": many}
    axes.plot(x, y, linestyle=line, marker=marker, **look)


def _legend(canvas: Canvas, entries: Sequence[Series], columns: int) -> None:
    handles = [
        Line2D(
            [], [], label=series.label, color=(color := COLORS[series.style.color - 1]),
            linestyle=("--" if series.style.dashed else "-") if series.line else "",
            marker=series.style.marker if series.marked else "",
            markerfacecolor="none" if series.style.hollow else color, markersize=5.5,
        )
        for series in entries
    ]  # fmt: skip
    canvas.legend(handles=handles, loc="upper left", ncols=columns, frameon=False, borderaxespad=0.1)


def _finite(series: Series) -> list[tuple[float, float, float, float]]:
    low, high = series.low or series.y, series.high or series.y
    points = zip(series.x, series.y, low, high, strict=True)
    return [point for point in points if all(map(math.isfinite, point))]
