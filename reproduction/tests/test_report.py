"""The report says what the results say, in both formats, and admits what is missing."""

from __future__ import annotations

import html
import json
import re
import statistics
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from asot_paper.names import CALIBRATED, DESCRIBED, METHODS, OURS, PUBLISHED, SETS
from asot_paper.published import read_published
from asot_paper.report import make_document, write_report
from asot_paper.report_data import ReportData
from asot_paper.report_document import quote, with_error
from asot_paper.report_figures import anchor_errors
from asot_paper.report_html import inline
from asot_paper.tables import summarise

from reproduction.tests.made_results import Maker, make_cells, write_cells
from reproduction.tests.page_reader import Page

SECTIONS = (
    "as-published", "as-described", "times", "fig3", "fig4", "scatter", "scaling", "found", "how", "gaps",
)  # fmt: skip


def written(folder, cells, published=None):
    """The Markdown and the page of some cells."""
    results = write_cells(folder / "results.json", cells)
    write_report(results, folder / "paper.md", folder / "paper.html", published)
    return (folder / "paper.md").read_text(), Page((folder / "paper.html").read_text())


@pytest.fixture(scope="module")
def cells():
    return make_cells()


@pytest.fixture(scope="module")
def whole(cells, tmp_path_factory):
    return written(tmp_path_factory.mktemp("whole"), cells)


def numbers_of(cells, field, condition, name, method, row_zero=True):
    return [
        cell[field]
        for cell in cells
        if (cell["kind"], cell["condition"], cell["set"], cell["method"]) == ("run", condition, name, method)
        and cell["settings"].get("row_zero", row_zero) == row_zero
    ]


def data_of(cells, published=None):
    return ReportData(cells, read_published() if published is None else published)


# ----------------------------------------------------------------------------------------------------- what is in it


def test_every_section_is_there_in_order(whole):
    markdown, page = whole
    ids = [attributes["id"] for attributes in page.all("section") if "id" in attributes]
    assert ids == list(SECTIONS)
    assert [f'<a id="{name}"></a>' in markdown for name in SECTIONS] == [True] * len(SECTIONS)
    assert {attributes["href"] for attributes in page.all("a")} >= {f"#{name}" for name in SECTIONS}


def test_all_sets_and_methods_stand_in_the_table_as_described(whole):
    _, page = whole
    header, *rows = page.tables["described-relative"]
    assert header == ["method", *SETS]
    assert [row[0] for row in rows] == list(METHODS)


def test_numbers_of_the_tables_are_means_and_standard_errors_over_the_runs(whole, cells):
    _, page = whole
    for method in ("ASOT-k", OURS):
        shown = page.row("described-rmse", method)[SETS.index("BZR")]
        numbers = numbers_of(cells, "rmse", DESCRIBED, "BZR", method)
        mean, error = re.fullmatch(r"([\d.]+) ± ([\d.]+)", shown).groups()
        assert float(mean) == pytest.approx(np.mean(numbers), rel=0.005)
        assert float(error) == pytest.approx(np.std(numbers, ddof=1) / np.sqrt(len(numbers)), rel=0.5)
    eot = page.row("described-relative", "eOT")[0]
    assert float(eot) == pytest.approx(100 * numbers_of(cells, "relative", DESCRIBED, "MUTAG", "eOT")[0], abs=0.05)


def test_both_formats_show_the_same_tables(whole):
    markdown, page = whole
    in_text = [block.splitlines()[2:] for block in markdown.split("\n\n") if block.startswith("| ")]
    in_page = [[row for row in rows if row[0] not in ("method", "ours", "with")] for rows in page.tables.values()]
    assert len(in_text) == len(in_page)
    for lines, rows in zip(in_text, in_page, strict=True):
        heads = 1 if len(rows) > len(lines) else 0  # tables whose rows are not methods
        for line, row in zip(lines, rows[heads:], strict=True):
            fields = [html.unescape(field.strip("* ")) for field in line.strip("|").split(" | ")]
            assert [f for f in fields if f != "not at hand"] == [f for f in row if f != "not at hand"]


def test_runs_without_the_row_zero_rule_are_never_mixed_with_those_that_have_it(whole, cells):
    _, page = whole
    ruled, unruled = (summarise(numbers_of(cells, "rmse", PUBLISHED, "MUTAG", "SW", rule)) for rule in (True, False))
    assert page.row("published-1", "SW")[0] == with_error(ruled, decimals=4)
    assert page.row("row-zero-1", "SW")[:2] == [with_error(ruled, decimals=4), with_error(unruled, decimals=4)]


def test_the_best_error_is_marked_and_the_exact_method_is_out_of_competition(cells, tmp_path):
    write_report(write_cells(tmp_path / "results.json", cells), html_path=tmp_path / "paper.html")
    text = (tmp_path / "paper.html").read_text()
    table = text[text.index('id="table-described-relative"') : text.index('id="table-described-rmse"')]
    best = [row for row in table.split("<tr>") if "<strong>" in row]
    assert len(best) == 1
    assert f"{CALIBRATED}</th>" in best[0]
    assert best[0].count("<strong>") == len(SETS)


def test_times_are_training_plus_distances(whole, cells):
    _, page = whole
    shown = page.row("times-described-1", "ASOT-k")[SETS.index("ZINC")]
    training = statistics.mean(numbers_of(cells, "train_seconds", DESCRIBED, "ZINC", "ASOT-k"))
    distances = statistics.mean(numbers_of(cells, "seconds", DESCRIBED, "ZINC", "ASOT-k"))
    assert [float(part) for part in shown.split(" + ")] == pytest.approx([training, distances], rel=0.05)
    assert "+" not in page.row("times-described-1", "OT-EMD")[0]


def test_every_figure_has_its_panels_in_the_page_and_a_file_beside_the_markdown(cells, tmp_path):
    markdown, page = written(tmp_path, cells)
    panels = [attributes for attributes in page.all("svg") if attributes.get("role") == "img"]
    assert len(panels) == 1 + 6 + 4 + 4 + 9 + 1  # overview, figure 3, twice figure 4, scatter, scaling
    assert all(panel["aria-label"] for panel in panels)
    files = re.findall(r"^!\[.+\]\(([^)]+\.svg)\)$", markdown, flags=re.MULTILINE)
    assert len(files) == 8
    for name in files:
        root = ElementTree.parse(tmp_path / name).getroot()
        assert root.tag.endswith("svg")
        assert 'fill="#ffffff"' in (tmp_path / name).read_text()


def test_the_page_needs_no_other_file_and_no_script(whole):
    _, page = whole
    assert not page.all("script")
    assert not page.all("img")
    assert [attributes["href"] for attributes in page.all("link")] == ["data:,"]
    assert all(attributes["href"].startswith("#") for attributes in page.all("a"))
    assert all("src" not in attributes and "onclick" not in attributes for _, attributes in page.tags)


def test_headers_of_tables_say_what_they_head(whole):
    _, page = whole
    assert all(attributes.get("scope") in ("col", "row", "colgroup") for attributes in page.all("th"))


def test_every_cell_can_be_traced_to_its_making(whole):
    _, page = whole
    for words in ("Made Processor 9000, 2 of 2 cores", "numpy 2.1.0", "2025-01-01", "asot paper all"):
        assert words in page.words


def test_commands_are_those_that_make_these_cells(whole, tmp_path):
    _, page = whole
    assert "asot paper all --results" in page.words
    assert "--condition published --no-row-zero-rule --results" in page.words
    _, page = written(tmp_path, [Maker(quick=True).run(DESCRIBED, "MUTAG", "SW")])
    assert "asot paper all --quick" in page.words
    assert "--no-row-zero-rule" not in page.words


# ------------------------------------------------------------------------------------------------- the paper's numbers


def test_what_is_not_known_of_the_paper_is_not_at_hand(whole):
    _, page = whole
    assert page.row("published-1", "ASOT-ML")[1] == "0.0264"
    assert page.row("published-1", "SW")[1] == "not at hand"
    assert page.words.count("does not guess") == 1


def test_the_papers_numbers_stand_only_in_columns_named_paper(cells, tmp_path):
    table = tmp_path / "more.csv"
    table.write_text("table,set,method,value,spread,source\nrmse,BZR,SW,0.7654321,0.0123456,typed in\n")
    markdown, page = written(tmp_path, cells, table)
    places = [
        (name, column)
        for name, rows in page.tables.items()
        for row in rows
        for column, field in enumerate(row)
        if "0.765432" in field
    ]
    assert {name for name, _ in places} == {"published-1", "differences"}
    assert all(page.tables["differences"][0][column] == "paper" for name, column in places if name == "differences")
    columns = markdown[: markdown.index("0.765432")].rsplit("| method ", 1)[1].splitlines()[0]
    assert "BZR paper" in columns
    assert page.words.count("0.765432") == len(places)


# ------------------------------------------------------------------------------------------- what is missing or strange


def test_missing_and_failed_cells_are_listed(tmp_path):
    make = Maker()
    failed = make.cell("run", DESCRIBED, "BZR", "eOT", error="not enough <memory>", fold=3)
    _, page = written(tmp_path, [make.run(DESCRIBED, "MUTAG", "SW"), make.run(DESCRIBED, "BZR", "SW"), failed])
    assert page.row("failed", "BZR, eOT, as described (fold 3, seed 0)") == ["not enough <memory>"]
    assert "Without a finished run, as described: PTC_MR, ENZYMES" in page.words
    assert page.tables["described-relative"][0] == ["method", "MUTAG", "BZR"]
    assert "fig3" not in [attributes.get("id") for attributes in page.all("section")]


def test_a_cell_that_was_not_run_says_so(tmp_path):
    make = Maker()
    cells = [make.run(DESCRIBED, name, method) for name, method in (("MUTAG", "SW"), ("MUTAG", "eOT"), ("BZR", "SW"))]
    _, page = written(tmp_path, cells)
    assert page.row("described-relative", "eOT")[1] == "not run"


def test_a_file_without_finished_cells_is_refused(tmp_path):
    empty = write_cells(tmp_path / "empty.json", [])
    with pytest.raises(ValueError, match=r"empty\.json has no finished cell to report; run `asot paper all` first"):
        write_report(empty, tmp_path / "paper.md")
    failed = write_cells(tmp_path / "failed.json", [Maker().cell("run", DESCRIBED, "BZR", "SW", error="no data")])
    with pytest.raises(ValueError, match=r"1 failed; the first: no data"):
        write_report(failed, tmp_path / "paper.md")
    assert not list(tmp_path.glob("paper*"))


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("curve", {"epochs": None}, "curve cell of MUTAG, ASOT-ML, as described has no list 'epochs'"),
        ("curve", {"errors": [1.0]}, "no list 'errors' of the length of 'epochs'"),
        ("scatter", {"lower": [1.0]}, "no list 'lower' of the length of 'exact'"),
        ("scaling", {"seconds": "long"}, "no number 'seconds'"),
        ("ablation", {"k": None}, "no number 'k'"),
    ],
)
def test_cells_that_cannot_be_drawn_are_named(kind, change, message):
    make = Maker()
    cell = {
        "curve": make.curve(DESCRIBED, "MUTAG", "ASOT-ML", 0),
        "scatter": make.scatter("MUTAG", "ASOT-k", 3),
        "scaling": make.scaling("OT-EMD", 100),
        "ablation": make.ablation(DESCRIBED, "MUTAG", "ASOT-k", 5, 0),
    }[kind]
    with pytest.raises(ValueError, match=message):
        data_of([{**cell, **change}])


def test_nothing_to_write_is_refused(tmp_path):
    with pytest.raises(ValueError, match="nothing to write"):
        write_report(tmp_path / "results.json")


def test_unknown_sets_and_methods_are_shown_and_unknown_conditions_are_named(tmp_path):
    make = Maker()
    cells = [make.run(DESCRIBED, "MUTAG", "SW"), make.run(DESCRIBED, "MUTAG", "SW"), make.run(DESCRIBED, "BZR", "SW")]
    cells[1] |= {"set": "MY_SET", "method": "my method"}
    cells[2] |= {"condition": "as imagined"}
    _, page = written(tmp_path, cells)
    assert page.tables["described-relative"][0] == ["method", "MUTAG", "MY_SET"]
    assert page.row("described-relative", "my method")[0] == "not run"
    assert "Not shown: 1 cell with the condition “as imagined”" in page.words


def test_quick_numbers_are_marked_beside_full_ones_and_announced_when_there_are_no_others(tmp_path):
    quick, full = Maker(quick=True), Maker()
    mixed = [full.run(DESCRIBED, "MUTAG", "SW"), quick.run(DESCRIBED, "MUTAG", "SW"), quick.run(DESCRIBED, "BZR", "SW")]
    _, page = written(tmp_path, mixed)
    first, second = page.row("described-relative", "SW")
    assert not first.endswith("†")
    assert second.endswith("†")
    _, page = written(tmp_path, [quick.run(DESCRIBED, "BZR", "SW")])
    assert "All numbers on this page are from a quick run" in page.words
    assert not page.row("described-relative", "SW")[0].endswith("†")


def test_bounds_are_said_to_be_missing_only_where_they_are(tmp_path):
    make = Maker()
    _, page = written(tmp_path, [make.scatter("MUTAG", method, 5) for method in ("ASOT-k", OURS)])
    assert "No bounds were computed for learned (ours)." in page.words
    _, page = written(tmp_path, [make.scatter("MUTAG", "ASOT-k", 5)])
    assert "No bounds" not in page.words


def test_who_trained_is_told_with_the_sets_where_it_differs(tmp_path):
    make = Maker()
    cells = [
        make.run(PUBLISHED, name, "ASOT-ML", settings={"learner": learner})
        for name, learner in (("MUTAG", "the authors'"), ("BZR", "the authors'"), ("MNIST", "ours"))
    ]
    _, page = written(tmp_path, cells)
    assert "Who trained: ASOT-ML: the authors' (MUTAG, BZR), ours (MNIST)." in page.words


def test_a_report_never_replaces_its_results(tmp_path):
    results = write_cells(tmp_path / "results.md", [Maker().run(DESCRIBED, "MUTAG", "SW")])
    before = results.read_bytes()
    with pytest.raises(ValueError, match="is the results file"):
        write_report(results, tmp_path / "results.md")
    assert results.read_bytes() == before


def test_errors_that_are_rounding_do_not_stretch_a_figure():
    make = Maker()
    cells = [make.ablation(PUBLISHED, "MUTAG", "ASOT-k", k, 0) for k in (5, 20)]
    cells[1]["rmse"] = 1e-16
    (panel,) = anchor_errors(data_of(cells)).panels
    assert min(panel.series[0].y) == 1e-4


# ------------------------------------------------------------------------------------------------------------- escaping

NASTY = '<script>alert("1")</script> | *a* `b` [c](javascript:d) & \\ _e_'


def test_nothing_from_data_becomes_markup(tmp_path):
    make = Maker()
    cells = [make.run(DESCRIBED, "MUTAG", method) for method in ("ASOT-k", CALIBRATED)]
    cells += [make.curve(DESCRIBED, "MUTAG", "ASOT-ML", 0), make.scatter("MUTAG", "ASOT-k", 5)]
    cells += [make.cell("run", DESCRIBED, "MUTAG", "SW", error=NASTY)]
    for cell in cells:
        cell |= {"set": NASTY, "machine": {"cpu": NASTY}, "date": NASTY, "versions": {NASTY: NASTY, "asot": NASTY}}
        cell["settings"] = {NASTY: NASTY, "learner": NASTY, "pairs": NASTY}
    markdown, page = written(tmp_path, cells)
    assert not page.all("script")
    assert not any(attributes.get("href", "#")[0] != "#" for attributes in page.all("a"))
    assert NASTY in page.tables["described-relative"][0]
    assert "<script" not in markdown
    assert "](javascript" not in markdown.replace("\\]", "")
    widths = {
        line.replace("\\|", "").count("|") for line in markdown.splitlines() if line.startswith(("| method", "| ASOT"))
    }
    assert widths == {3}
    for picture in tmp_path.glob("*.svg"):
        assert "script" not in [element.tag for element in ElementTree.parse(picture).iter()]


@pytest.mark.parametrize("text", [NASTY, "a_b _c_", "**", "`", "\\", "5 < 6 > 4", "‘’ é ±"])
def test_quoted_text_comes_back_as_it_was(text):
    page = Page(f"<p>{inline(quote(text))}</p>")
    assert page.words == text
    assert [tag for tag, _ in page.tags] == ["p"]


# -------------------------------------------------------------------------------------------------------------- writing


def test_the_same_results_give_the_same_report(cells, tmp_path):
    results = write_cells(tmp_path / "results.json", cells)
    write_report(results, tmp_path / "one.md", tmp_path / "one.html")
    write_report(results, tmp_path / "one.md", tmp_path / "two.html")
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_a_report_that_cannot_be_made_leaves_the_old_one(cells, tmp_path):
    results = write_cells(tmp_path / "results.json", cells)
    write_report(results, html_path=tmp_path / "paper.html")
    before = (tmp_path / "paper.html").read_bytes()
    results.write_text(json.dumps({"format": "asot-paper", "version": 1, "cells": [{"kind": "run"}]}))
    with pytest.raises(ValueError, match="damaged"):
        write_report(results, html_path=tmp_path / "paper.html")
    assert (tmp_path / "paper.html").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["paper.html", "results.json"]


def test_sections_without_cells_leave_no_hole_in_the_numbering(tmp_path):
    document = make_document(write_cells(tmp_path / "results.json", [Maker().run(PUBLISHED, "MUTAG", "SW")]))
    numbers = [section.title.split(".")[0] for section in document.sections]
    assert numbers == [str(place) for place in range(1, len(numbers) + 1)]
