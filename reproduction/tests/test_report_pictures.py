"""Charts: every point has its place, ticks are round, and what cannot be drawn does no harm."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree

import pytest
from asot_paper.pictures import (
    HEIGHT,
    PALETTE,
    WIDTH,
    Panel,
    Series,
    Sheet,
    Style,
    describe,
    make_axis,
    panel_svg,
    standalone,
    swatch_svg,
)
from hypothesis import example, given
from hypothesis import strategies as st

numbers = st.floats(-1e12, 1e12, allow_subnormal=False)
positive = st.floats(1e-9, 1e12)


def panel(*series, **how):
    return Panel("title", "across", "up", series, **how)


def line(x, y, **how):
    return Series("method", x, y, Style(1), **how)


def places(svg):
    """Coordinates of all absolute moves and lines in the drawing's coloured groups."""
    drawn = "".join(re.findall(r'<g class="s\d">.*?</g>', svg))
    return [(float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", drawn)]


@given(st.lists(numbers, min_size=1, max_size=8))
@example([999999999834.0])  # a round number lies just beyond the end of its axis
def test_every_number_lies_on_its_axis(values):
    axis = make_axis(values, 10.0, 110.0, None)
    assert all(10.0 - 1e-6 <= axis(value) <= 110.0 + 1e-6 for value in values)
    assert all(axis.low <= tick <= axis.high for tick in axis.ticks())


@given(st.lists(positive, min_size=1, max_size=8))
def test_logarithmic_axes_have_few_round_ticks_in_order(values):
    axis = make_axis(values, 0.0, 100.0, True)
    ticks = axis.ticks()
    assert ticks == sorted(ticks)
    assert 1 <= len(ticks) <= 7
    assert all(-1e-6 <= axis(value) <= 100.0 + 1e-6 for value in values)


def test_an_axis_is_logarithmic_where_numbers_span_much():
    assert make_axis([1.0, 100.0], 0, 1, None).logarithmic
    assert not make_axis([1.0, 3.0], 0, 1, None).logarithmic
    assert not make_axis([0.0, 100.0], 0, 1, None).logarithmic


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=20))
def test_points_are_drawn_within_the_panel(points):
    x, y = zip(*points, strict=True)
    found = places(panel_svg(panel(line(x, y))))
    assert len(found) >= len(points)
    assert all(0 <= across <= WIDTH and 0 <= down <= HEIGHT for across, down in found)


def test_bars_go_from_low_to_high():
    svg = panel_svg(panel(line([1.0, 2.0], [5.0, 6.0], low=[4.0, 5.0], high=[7.0, 8.0], line=False)))
    (low, high), *_ = re.findall(r"M[\d.]+ ([\d.]+)V([\d.]+)", svg)
    assert float(high) < float(low)  # up is less, on a screen


def test_what_is_not_finite_is_left_out():
    drawn = places(panel_svg(panel(line([1.0, 2.0, 3.0], [1.0, math.nan, math.inf]))))
    assert len(drawn) == 1
    assert "no data" in panel_svg(panel(line([1.0], [math.nan])))
    assert "no data" in panel_svg(panel())


def test_a_line_of_one_point_is_still_seen():
    assert len(places(panel_svg(panel(line([1.0], [2.0], marked=False))))) == 1


def test_zero_is_left_out_of_logarithmic_axes():
    svg = panel_svg(panel(line([1.0, 10.0, 100.0], [0.0, 1.0, 50.0]), y_log=True))
    assert len(set(places(svg))) == 2
    ElementTree.fromstring(svg)


def test_named_rows_are_counted_from_the_top():
    dots = Series("method", [1.0, 2.0], [0.0, 1.0], Style(1), line=False)
    (_, first), (_, second) = places(panel_svg(panel(dots, rows=("A", "B"))))
    assert first < second


def test_a_file_has_all_panels_on_white_with_its_own_colours():
    sheet = Sheet([panel(line([1.0, 2.0], [1.0, 2.0])) for _ in range(4)])
    root = ElementTree.fromstring(standalone(sheet))
    assert sheet.columns == 2
    assert float(root.get("width")) == 2 * WIDTH
    assert len(root.findall("{*}g/[@transform]")) == 4 + 1  # and the legend's entry
    assert all(colour in standalone(sheet) for colour in PALETTE.values())


def test_labels_are_escaped_everywhere():
    nasty = '<b>"&'
    sheet = Sheet([Panel(nasty, nasty, nasty, [Series(nasty, [1.0], [1.0], Style(2))]), panel(line([1.0], [1.0]))])
    for text in (standalone(sheet), panel_svg(sheet.panels[0]), swatch_svg(sheet.panels[0].series[0])):
        assert "<b>" not in text
        ElementTree.fromstring(text)


def test_a_legend_names_each_series_once_and_is_left_out_where_titles_name_them():
    twice = Sheet([panel(line([1.0], [1.0])), panel(line([1.0], [1.0]))])
    assert [series.label for series in twice.legend()] == ["method"]
    named = Sheet([Panel("MUTAG: method", "x", "y", [line([1.0], [1.0])])])
    assert named.legend() == []


def test_charts_are_told_in_words():
    words = describe(panel(line([5.0, 200.0], [0.31, 0.01])))
    assert words == "title: up against across. method: from 0.31 at 5 to 0.01 at 200."
    assert describe(panel(Series("m", [3.0], [0.0], Style(1), line=False), rows=("A",))).endswith("A, m: 3.")
    assert describe(panel(line([], []))).endswith("method: no points.")


@pytest.mark.parametrize("marker", ["circle", "ring", "square", "diamond", "triangle", "cross", "dot"])
def test_every_marker_can_be_drawn(marker):
    drawn = panel_svg(panel(Series("m", [1.0, 2.0], [1.0, 2.0], Style(3, marker, dashed=True))))
    assert ElementTree.fromstring(drawn).find("{*}g[@class='s3']") is not None
