"""Charts as SVG text: lines, points, error bars, linear and logarithmic axes, and nothing else.

The report needs few kinds of charts, in one page without external files and in light and dark. So they are written here
as SVG: colours are the classes ``s1`` … ``s8``, ``ink``, ``quiet`` and ``rule``, which the page's style sheet sets. A
`Sheet` is a group of panels with one legend. In the page each panel is an image of its own, so that panels stand below
each other on a phone; `standalone` puts them side by side on a white background, for files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

Numbers = Sequence[float]

WIDTH, HEIGHT = 360, 290  # of a panel, in units of the picture
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 56, 50
_ROW = 40  # height of a row that has a name
_TEXT = 14.5  # size of letters
_LETTER = 8.6  # mean width of a letter of that size in a wide font
_LEAST = 1e-100  # what is not above it has no place on a logarithmic axis
_LOG_FROM = 15.0  # largest value over smallest, from which an axis is logarithmic

PALETTE = {
    "ink": "#1f2328", "quiet": "#59636e", "rule": "#d9dde1",
    "s1": "#1f6fb2", "s2": "#a1640b", "s3": "#7756b3", "s4": "#c23b22",
    "s5": "#0a7d68", "s6": "#6a7079", "s7": "#b0457e", "s8": "#2a8fa5",
}  # fmt: skip
"""Colours on white, for files of their own."""


class Style(NamedTuple):
    """How a series looks: the number of its colour (1 to 8), its marker, and whether its line is dashed."""

    colour: int
    marker: str = "circle"  # circle, square, diamond, triangle, ring, cross or dot
    dashed: bool = False


@dataclass(frozen=True)
class Series:
    """Points (x, y) of equal number, optionally with bars from ``low`` to ``high``. What is not finite is left out."""

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
    from_zero: bool = False
    x_log: bool | None = None  # None: where the numbers span much
    y_log: bool | None = None

    @property
    def height(self) -> int:
        return _TOP + _BOTTOM + _ROW * len(self.rows) - 12 if self.rows else HEIGHT


@dataclass(frozen=True)
class Sheet:
    """Panels that share a legend."""

    panels: Sequence[Panel]

    @property
    def columns(self) -> int:
        """How many panels stand beside each other where there is room: three, or two if that leaves no gap."""
        return 2 if len(self.panels) in (2, 4) else min(3, len(self.panels))

    def legend(self) -> list[Series]:
        """A series for each label, in the order of their first use; none where the panels' titles name them."""
        found: dict[str, Series] = {}
        if all(len(panel.series) == 1 and panel.title.endswith(panel.series[0].label) for panel in self.panels):
            return []
        for panel in self.panels:
            for series in panel.series:
                found.setdefault(series.label, series)
        return list(found.values())


def panel_svg(panel: Panel) -> str:
    """The ``<svg>`` of one panel, for a page that sets the colours."""
    size = f'viewBox="0 0 {WIDTH} {panel.height}" width="{WIDTH}" height="{panel.height}"'
    return f'<svg {size} role="img" aria-label="{escape(describe(panel))}">{_draw(panel)}</svg>'


def swatch_svg(series: Series) -> str:
    """A small sample of a series' line and marker, for a legend."""
    return f'<svg class="swatch" viewBox="0 0 28 16" width="28" height="16" aria-hidden="true">{_sample(series)}</svg>'


def standalone(sheet: Sheet) -> str:
    """An SVG file of its own: all panels on white, at most three beside each other, under one legend."""
    columns = sheet.columns
    legend, legend_height = _legend_lines(sheet.legend(), columns * WIDTH)
    parts, top = [legend], legend_height
    for start in range(0, len(sheet.panels), columns):
        in_row = sheet.panels[start : start + columns]
        height = max(panel.height for panel in in_row)
        for column, panel in enumerate(in_row):
            parts.append(f'<g transform="translate({column * WIDTH} {top})">{_draw(panel)}</g>')
        top += height
    colours = "".join(f".{name}{{color:{colour}}}" for name, colour in PALETTE.items())
    label = escape(" ".join(describe(panel) for panel in sheet.panels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {columns * WIDTH} {top}" width="{columns * WIDTH}" '
        f'height="{top}" role="img" aria-label="{label}" font-family="system-ui, sans-serif"><style>{colours}</style>'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(parts)}</svg>\n'
    )


def describe(panel: Panel) -> str:
    """What the panel shows, in words, for those who do not see it."""
    parts = [f"{panel.title}: {panel.y_label} against {panel.x_label}."]
    for series in panel.series:
        points = _finite(series)
        if panel.rows:
            parts += [f"{panel.rows[round(y)]}, {series.label}: {_plain(x)}." for x, y, _, _ in points]
        elif not points:
            parts.append(f"{series.label}: no points.")
        elif series.line:
            (x0, y0, _, _), (x1, y1, _, _) = points[0], points[-1]
            parts.append(f"{series.label}: from {_plain(y0)} at {_plain(x0)} to {_plain(y1)} at {_plain(x1)}.")
        else:
            parts.append(f"{series.label}: {len(points)} points.")
    return " ".join(parts)


def _plain(number: float) -> str:
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:,.0f}"


# --------------------------------------------------------------------------------------------------------------- axes


@dataclass(frozen=True)
class Axis:
    """A map from numbers to places, with ticks that are round numbers."""

    low: float
    high: float
    logarithmic: bool
    start: float
    end: float

    def __call__(self, value: float) -> float:
        low, high = (math.log(self.low), math.log(self.high)) if self.logarithmic else (self.low, self.high)
        share = ((math.log(value) if self.logarithmic else value) - low) / (high - low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        return _log_ticks(self.low, self.high) if self.logarithmic else _linear_ticks(self.low, self.high)


def make_axis(values: Numbers, start: float, end: float, logarithmic: bool | None, from_zero: bool = False) -> Axis:
    """The axis from ``start`` to ``end`` on which all finite ``values`` have a place.

    >>> make_axis([3.0, 9.0], 0.0, 100.0, logarithmic=False).ticks()
    [4.0, 6.0, 8.0]
    >>> make_axis([1.0, 1000.0], 0.0, 100.0, logarithmic=None).ticks()
    [1.0, 10.0, 100.0, 1000.0]
    """
    if logarithmic is None:
        logarithmic = bool(values) and min(values) > _LEAST and max(values) > _LOG_FROM * min(values)
    if logarithmic:
        values = [value for value in values if value > _LEAST] or [1.0, 10.0]
        reach = max(math.log(max(values) / min(values)) * 0.06, 0.02)
        return Axis(min(values) / math.exp(reach), max(values) * math.exp(reach), True, start, end)
    smallest, largest = (min(values), max(values)) if values else (0.0, 1.0)
    if from_zero:
        smallest = min(0.0, smallest)
    reach = 0.06 * (largest - smallest) or 0.5 * abs(largest) or 1.0
    return Axis(smallest - (0.0 if smallest == 0.0 else reach), largest + reach, False, start, end)


def _linear_ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * min((1, 2, 2.5, 5, 10), key=lambda factor: abs(factor * power - rough))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    rounded = [float(f"{count * step:.12g}") for count in range(first, last + 1)]
    return [tick for tick in rounded if low <= tick <= high]


def _log_ticks(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for factors in ((1,), (1, 3), (1, 2, 5)):
        found = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
        found = [tick for tick in found if low <= tick <= high]
        if len(found) >= 3:
            break
    else:
        return _linear_ticks(low, high)
    return found[:: math.ceil(len(found) / 6)]


def tick_text(value: float) -> str:
    """A tick's number, short: 0.01, 2,000, 10⁵.

    >>> [tick_text(value) for value in (0.0, 0.25, 2000.0, 1e5, 3e-5)]
    ['0', '0.25', '2,000', '10⁵', '3·10⁻⁵']
    """
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:,.10g}"
    power = math.floor(math.log10(abs(value)) + 1e-9)
    mantissa = float(f"{value / 10.0**power:.6g}")
    ten = "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return ten if mantissa == 1 else f"{mantissa:g}·{ten}"


# ------------------------------------------------------------------------------------------------------------ drawing


def _draw(panel: Panel) -> str:
    left = max(_LEFT, 16 + _LETTER * max((len(name) for name in panel.rows), default=0))
    bottom = panel.height - _BOTTOM
    points = [point for series in panel.series for point in _finite(series)]
    tall = [value for _, y, low, high in points for value in (y, low, high)]
    wide = [x for x, _, _, _ in points]
    if panel.diagonal:
        wide = tall = wide + tall
    x_axis = make_axis(wide, left, WIDTH - _RIGHT, panel.x_log, panel.from_zero and bool(panel.rows))
    if panel.rows:
        y_axis = Axis(-0.5, len(panel.rows) - 0.5, False, _TOP - 12, bottom)
    else:
        y_axis = make_axis(tall, bottom, _TOP, panel.y_log, panel.from_zero)
    frame = _frame(panel, x_axis, y_axis, left, bottom)
    drawn = "".join(_draw_series(series, x_axis, y_axis) for series in panel.series)
    return frame + (drawn if points else _text(WIDTH / 2, (_TOP + bottom) / 2, "no data", "quiet", "middle"))


def _frame(panel: Panel, x_axis: Axis, y_axis: Axis, left: float, bottom: float) -> str:
    parts = [_text(4, 18, panel.title, "ink", weight=600)]
    if panel.rows:
        parts += [_grid(left, WIDTH - _RIGHT, y_axis(row), y_axis(row)) for row in range(len(panel.rows))]
        parts += [_text(4, y_axis(row) + 5, name, "ink") for row, name in enumerate(panel.rows)]
        parts += [_grid(x_axis(tick), x_axis(tick), _TOP - 12, bottom) for tick in x_axis.ticks()]
    else:
        parts.append(_text(4, 40, panel.y_label, "quiet"))
        for tick in y_axis.ticks():
            parts.append(_grid(left, WIDTH - _RIGHT, y_axis(tick), y_axis(tick)))
            parts.append(_text(left - 7, y_axis(tick) + 5, tick_text(tick), "quiet", "end"))
        parts += [_grid(x_axis(tick), x_axis(tick), bottom, bottom + 5) for tick in x_axis.ticks()]
    if panel.diagonal:
        low, high = max(x_axis.low, y_axis.low), min(x_axis.high, y_axis.high)
        parts.append(_path(f"M{x_axis(low):.1f} {y_axis(low):.1f}L{x_axis(high):.1f} {y_axis(high):.1f}", "quiet", 1.2))
    parts += [
        _text(x_axis(tick), bottom + 20, tick_text(tick), "quiet", "middle") for tick in _apart(x_axis.ticks(), x_axis)
    ]
    middle = min((left + WIDTH - _RIGHT) / 2, WIDTH - 4 - _LETTER * len(panel.x_label) / 2)
    parts.append(_text(middle, panel.height - 8, panel.x_label, "quiet", "middle"))
    return "".join(parts)


def _apart(ticks: Iterable[float], axis: Callable[[float], float]) -> list[float]:
    """The ticks whose texts do not touch the text before them."""
    kept: list[float] = []
    free = -math.inf
    for tick in ticks:
        half = _LETTER * len(tick_text(tick)) / 2
        if axis(tick) - half >= free:
            kept.append(tick)
            free = axis(tick) + half + 6
    return kept


def _draw_series(series: Series, x_axis: Axis, y_axis: Axis) -> str:
    points = [
        (x_axis(x), y_axis(y), y_axis(low), y_axis(high)) for x, y, low, high in _drawable(series, x_axis, y_axis)
    ]
    if not points:
        return ""
    parts = []
    if series.low is not None:
        bars = "".join(f"M{x:.1f} {low:.1f}V{high:.1f}" for x, _, low, high in points)
        parts.append(f'<path d="{bars}" fill="none" stroke="currentColor" stroke-width="1.2" opacity="0.4"/>')
    if series.line and len(points) > 1:
        dash = ' stroke-dasharray="6 4"' if series.style.dashed else ""
        course = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y, _, _ in points)
        parts.append(
            f'<path d="{course}" fill="none" stroke="currentColor" stroke-width="2" stroke-linejoin="round"{dash}/>'
        )
    if series.marked or len(points) == 1:
        parts.append(_markers([(x, y) for x, y, _, _ in points], series.style.marker))
    return f'<g class="s{series.style.colour}"><title>{escape(series.label)}</title>{"".join(parts)}</g>'


def _finite(series: Series) -> list[tuple[float, float, float, float]]:
    low, high = series.low or series.y, series.high or series.y
    points = zip(series.x, series.y, low, high, strict=True)
    return [point for point in points if all(map(math.isfinite, point))]


def _drawable(series: Series, x_axis: Axis, y_axis: Axis) -> list[tuple[float, float, float, float]]:
    """Finite points; on a logarithmic axis, those above zero, with bars that end at the axis's end."""
    least_x, least_y = (_LEAST if axis.logarithmic else -math.inf for axis in (x_axis, y_axis))
    lowest = y_axis.low if y_axis.logarithmic else -math.inf
    return [
        (x, y, max(low, lowest), max(high, lowest))
        for x, y, low, high in _finite(series)
        if x > least_x and y > least_y
    ]


_SHAPES = {
    "circle": "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
    "ring": "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
    "square": "m-3.6-3.6h7.2v7.2h-7.2z",
    "diamond": "m0-5l5 5l-5 5l-5-5z",
    "triangle": "m0-4.8l4.6 8h-9.2z",
    "cross": "m-4-4l8 8m0-8l-8 8",
    "dot": "h0",
}


def _markers(places: list[tuple[float, float]], marker: str) -> str:
    course = "".join(f"M{x:.1f} {y:.1f}{_SHAPES[marker]}" for x, y in places)
    if marker == "dot":
        return f'<path d="{course}" stroke="currentColor" stroke-width="4" stroke-linecap="round" opacity="0.75"/>'
    if marker in ("ring", "cross"):
        return f'<path d="{course}" fill="none" stroke="currentColor" stroke-width="2"/>'
    return f'<path d="{course}" fill="currentColor"/>'


def _sample(series: Series) -> str:
    style = series.style
    dash = ' stroke-dasharray="6 4"' if style.dashed else ""
    line = f'<path d="M2 8H26" stroke="currentColor" stroke-width="2"{dash}/>' if series.line else ""
    return f'<g class="s{style.colour}">{line}{_markers([(14, 8)], style.marker) if series.marked else ""}</g>'


def _legend_lines(entries: list[Series], width: float) -> tuple[str, float]:
    parts: list[str] = []
    x, y = 8.0, 8.0
    if not entries:
        return "", y
    for series in entries:
        needed = 36 + _LETTER * len(series.label) + 14
        if x > 8.0 and x + needed > width:
            x, y = 8.0, y + 24
        sample = _sample(series) + _text(34, 13, series.label, "ink")
        parts.append(f'<g transform="translate({x:.1f} {y:.1f})">{sample}</g>')
        x += needed
    return "".join(parts), y + 30


def _text(x: float, y: float, words: str, colour: str, anchor: str = "start", weight: int = 400) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{_TEXT}" font-weight="{weight}"'
    return f'<text class="{colour}" fill="currentColor" {place}>{escape(words)}</text>'


def _grid(x0: float, x1: float, y0: float, y1: float) -> str:
    return _path(f"M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}", "rule", 1)


def _path(course: str, colour: str, width: float) -> str:
    return f'<path class="{colour}" d="{course}" fill="none" stroke="currentColor" stroke-width="{width}"/>'
