"""The page in a real browser, on a phone and on a desk, by day and by night."""

from __future__ import annotations

import pytest
from asot_paper.report import write_report

from reproduction.tests.made_results import make_cells, write_cells
from tests.browser import MISSING, find_browser, look

pytestmark = pytest.mark.skipif(find_browser() is None, reason=MISSING)

PHONE, DESK = 390, 1280
N_PICTURES = 25 + 5  # overview, figure 3 (6), figure 4 (8), scatter plots (9), scaling; five legends


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    write_report(write_cells(folder / "results.json", make_cells()), html_path=folder / "paper.html")
    return folder


@pytest.fixture(scope="module")
def by_day(folder):
    return look(folder, "paper.html", (PHONE, DESK))


@pytest.fixture(scope="module")
def by_night(folder):
    return look(folder, "paper.html", (PHONE, DESK), dark=True)


@pytest.mark.parametrize("place", [0, 1], ids=["phone", "desk"])
def test_every_figure_is_there_and_has_a_size(by_day, place):
    pictures = by_day.measures[place]["pictures"]
    assert len(pictures) == N_PICTURES
    assert min(width for width, _ in pictures) > 200


@pytest.mark.parametrize("place", [0, 1], ids=["phone", "desk"])
def test_the_page_never_scrolls_sideways(by_day, place):
    found = by_day.measures[place]
    assert found["page"] == found["width"] == (PHONE, DESK)[place]
    assert found["outside"] == []


def test_wide_tables_scroll_in_their_own_frame_on_a_phone(by_day):
    assert by_day.measures[0]["scrolling"] >= 5


def test_no_letter_is_small(by_day):
    for found in by_day.measures:
        assert found["letters"] >= 14.0, found["smallest"]


def test_words_stand_out_by_day_and_by_night(by_day, by_night):
    assert [found["dark"] for found in by_day.measures + by_night.measures] == [False, False, True, True]
    for found in by_day.measures + by_night.measures:
        assert found["contrast"] >= 4.5, found["faintest"]


def test_the_console_is_silent(by_day, by_night):
    assert by_day.console == by_night.console == []
    assert by_day.measures[0]["text"] > 5000


def test_these_tests_can_fail(tmp_path):
    (tmp_path / "broken.html").write_text(
        '<!doctype html><link rel="icon" href="data:,"><p style="font-size:9px;color:#ccc">faint</p>'
        '<img style="width:0;height:0"><div style="width:2000px">wide</div>'
        '<script>throw new Error("boom")</script>'
    )
    found = look(tmp_path, "broken.html", (PHONE,))
    assert any("boom" in line for line in found.console)
    (measures,) = found.measures
    assert measures["page"] >= 2000
    assert measures["outside"] == ["DIV."]
    assert measures["letters"] == 9
    assert measures["contrast"] < 2
    assert measures["pictures"] == [[0, 0]]
