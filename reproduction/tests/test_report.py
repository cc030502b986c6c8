"""The report: every number is from a cell or from the paper, and what is missing is said, not made up."""

from __future__ import annotations

import re

import pytest
from asot_paper.names import CALIBRATED, DESCRIBED, OURS, PAPER_METHODS, PUBLISHED, SETS
from asot_paper.published import read_published
from asot_paper.report import compare, facts, write_report
from asot_paper.report.data import ReportData
from asot_paper.report.document import make_document
from asot_paper.tables import Summary

from reproduction.tests.made_results import Maker, make_cells, write_cells


def written(tmp_path, cells):
    """The Markdown and the page of a results file with these cells."""
    results = write_cells(tmp_path / "results.json", cells)
    write_report(results, tmp_path / "paper.md", tmp_path / "paper.html")
    return (tmp_path / "paper.md").read_text(), (tmp_path / "paper.html").read_text()


def data_of(cells):
    return ReportData(cells)


def markdown_of(cells):
    """The Markdown alone, without drawing its pictures."""
    return make_document(data_of(cells), "paper")[0]


def section(markdown, name):
    """The text of a section, from its address to the next."""
    return markdown.split(f'<a id="{name}"></a>')[1].split("<a id=")[0]


def tables(text):
    """Tables of a Markdown text: lists of rows, the header first."""
    found = re.findall(r"(?:^\|.*\|$\n?)+", text, flags=re.M)
    split = [[[f.strip() for f in re.split(r"(?<!\\)\|", line)[1:-1]] for line in one.splitlines()] for one in found]
    return [[rows[0], *rows[2:]] for rows in split]


def row(table, name):
    return next(fields[1:] for fields in table if fields[0] == name)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    return written(tmp_path_factory.mktemp("report"), make_cells())


# ------------------------------------------------------------------------------------------------- the 72 errors


@pytest.mark.parametrize(
    ("ours", "paper", "expected"),
    [
        (Summary(0.1000, 0, 0, 1), 0.1005, True),  # 0.0005
        (Summary(0.0100, 0, 0, 1), 0.0106, False),
        (Summary(0.9805, 0, 0, 1), 1.0, True),  # 2 percent
        (Summary(0.9795, 0, 0, 1), 1.0, False),
        (Summary(0.08, 0.03, 0.0101, 9), 0.1, True),  # two standard errors
        (Summary(0.08, 0.03, 0.0099, 9), 0.1, False),
        (Summary(0.08, 0.03, 0.0200, 2), 0.1, False),  # of two runs
    ],
)
def test_errors_agree_by_the_largest_of_three_margins(ours, paper, expected):
    assert compare.agrees(ours, paper) is expected


def test_all_72_cells_stand_beside_the_papers(full):
    found = tables(section(full[0], "errors"))[: len(SETS)]
    assert all(table[0] == ["method", "ours", "paper", "agrees"] for table in found)
    shown = {(name, fields[0]): fields[2] for name, table in zip(SETS, found, strict=True) for fields in table[1:]}
    assert len(shown) == 72
    for (name, method), paper in shown.items():
        assert float(paper) == read_published()["rmse", name, method]


def test_the_count_on_top_is_that_of_the_tables(full):
    found = tables(section(full[0], "errors"))[: len(SETS)]
    agreeing = sum(fields[3] == "yes" for table in found for fields in table[1:])
    assert f"**{agreeing} of 72 errors agree.**" in full[0].split("<a id=")[0]
    assert f"**{agreeing} of 72 agree.**" in section(full[0], "errors")


def cells_like_the_paper(**changed):
    """One run for every error of the paper, with the paper's number, but for those that are changed."""
    make = Maker()
    cells = []
    for name in SETS:
        for method in PAPER_METHODS:
            rmse = read_published().get(("rmse", name, method), 0.0)
            rmse = changed.get(f"{name} {method}", rmse)
            settings = {"row_zero": method != "BDS-eOT"}
            cells.append(make.run(PUBLISHED, name, method, rmse=rmse, settings=settings))
    return cells


def test_a_paper_that_comes_back_whole_is_said_to():
    found = facts.agreement(data_of(cells_like_the_paper()))
    assert found.agreeing == 72
    assert not found.misses


def test_misses_are_slips_explained_or_open():
    changes = {"ENZYMES SW": 0.7365, "NCI1 ASOT-DL": 0.09, "MNIST ASOT-k": 0.0140}
    make = Maker(1)
    trial = [
        make.run(PUBLISHED, "NCI1", "ASOT-DL", kind="trial", fold=f, rmse=0.0453, settings={"trial": "whole-batch"})
        for f in range(2)
    ]
    found = facts.agreement(data_of([*cells_like_the_paper(**changes), *trial]))
    assert found.agreeing == 69
    assert [(one.set, one.method) for one in found.slips] == [("ENZYMES", "SW")]
    assert [(one.set, one.method) for one in found.explained] == [("NCI1", "ASOT-DL")]
    assert [(one.set, one.method) for one in found.open] == [("MNIST", "ASOT-k")]
    assert found.open_but_better == 1
    markdown = markdown_of([*cells_like_the_paper(**changes), *trial])
    (tried,) = tables(section(markdown, "misses"))
    assert tried[1][:4] == ["NCI1", "ASOT-DL", "0.0453", "0.0900"]
    assert tried[1][-2:] == ["2", "yes"]
    assert "- **ASOT-k on MNIST** (paper 0.0157, ours 0.0140): not known." in markdown
    assert "One more is a printing slip" in markdown


def zinc(n, rmse, learned_on, n_train, **more):
    """Runs of ASOT-ML on ZINC."""
    settings = {"row_zero": True, "learned_on": learned_on, "n_train": n_train}
    return [Maker(f).run(PUBLISHED, "ZINC", "ASOT-ML", fold=f, rmse=rmse, settings=settings, **more) for f in range(n)]


def test_runs_on_all_molecules_come_before_runs_on_some():
    some = zinc(5, 0.5, "10000 molecules of the training split, drawn by seed and fold", 10_000)
    every = zinc(2, 0.3, "all molecules of the training split", 220_011, timed=False)
    (found,) = [one for one in compare.with_paper(data_of([*some, *every])) if one.ours]
    assert (found.ours.mean, found.ours.n) == (0.3, 2)
    assert data_of([*some, *every]).n_other_settings == 5
    (found,) = [one for one in compare.with_paper(data_of(some)) if one.ours]
    assert (found.ours.mean, found.ours.n) == (0.5, 5)


def test_times_say_how_many_molecules_were_learned_from():
    some = zinc(1, 0.5, "10000 molecules of the training split, drawn by seed and fold", 10_000)
    every = zinc(1, 0.3, "all molecules of the training split", 220_011)
    every[0]["date"] = "2027-01-01T00:00:00+00:00"
    sentence = "On ZINC our training is timed on 10,000 molecules, the paper's on 220,011."
    assert sentence in section(markdown_of(some), "times")
    assert sentence not in section(markdown_of([*some, *every]), "times")


def trial_of(method, name, trial, errors, seed=0):
    """Cells of a trial, one for each error."""
    make = Maker(seed + 2)
    how = {"kind": "trial", "settings": {"trial": trial}, "seed": seed}
    return [make.run(PUBLISHED, name, method, fold=f, rmse=error, **how) for f, error in enumerate(errors)]


@pytest.mark.parametrize(("low", "inside"), [(0.27, "inside"), (0.30, "outside")])
def test_other_starts_say_whether_the_papers_number_is_among_them(low, inside):
    cells = cells_like_the_paper(**{"PTC_MR eASOT-DL": 0.25})
    for seed, mean in ((1, low), (2, 0.34), (3, 0.34)):
        cells += trial_of("eASOT-DL", "PTC_MR", "other-starts", [mean - 0.01, mean + 0.01] * 5, seed)
    cells += trial_of("eASOT-DL", "PTC_MR", "other-starts", [0.24], seed=4)  # not a whole set of ten
    ((one, words),) = facts.agreement(data_of(cells)).reasons
    assert (one.set, one.method) == ("PTC_MR", "eASOT-DL")
    assert f"With 3 other sets of folds and random starts, the mean of ten runs lies between {low:.4f} and" in words
    assert f"0.3400; the paper's 0.2897 is {inside}" in words


def test_runs_on_all_and_on_some_molecules_say_how_far_they_lie_apart():
    everything = [cell for cell in cells_like_the_paper() if (cell["set"], cell["method"]) != ("ZINC", "ASOT-ML")]
    cells = [*everything, *zinc(1, 0.2, "all molecules of the training split", 220_011)]
    words = facts.agreement(data_of(cells)).reasons[0][1]
    assert words.endswith("learned from all molecules: 1, between 0.2000 and 0.2000; the paper's 0.0297 is outside")
    some = zinc(3, 0.3, "10000 molecules of the training split, drawn by seed and fold", 10_000)
    some[0]["rmse"] = 0.01
    words = facts.agreement(data_of([*cells, *some])).reasons[0][1]
    assert "3 runs on random parts of 10,000 lie between 0.0100 and 0.3000" in words
    assert words.endswith("the paper's 0.0297 is inside")


def test_a_reason_has_the_error_that_was_seen_in_the_trial():
    cells = cells_like_the_paper(**{"NCI1 eASOT-DL": 0.2})
    assert facts.agreement(data_of(cells)).reasons[0][1].endswith("one batch: not run")
    assert "(2 runs)" not in facts.agreement(data_of(cells)).reasons[0][1]
    cells += trial_of("eASOT-DL", "NCI1", "whole-batch-all", [0.3, 0.4])
    assert "one batch: 0.3500 ± 0.050 (2 runs)" in facts.agreement(data_of(cells)).reasons[0][1]


def test_bds_eot_is_compared_without_the_row_zero_rule_and_the_rest_with_it():
    make = Maker()
    cells = [
        make.run(PUBLISHED, "PTC_MR", method, rmse=rmse, settings={"row_zero": rule})
        for method in ("eOT", "BDS-eOT")
        for rule, rmse in ((True, 0.249), (False, 0.0676))
    ]
    found = {one.method: one for one in compare.with_paper(data_of(cells)) if one.set == "PTC_MR" and one.ours}
    assert found["eOT"].ours.mean == 0.249
    assert found["BDS-eOT"].ours.mean == 0.0676
    assert found["eOT"].agrees
    assert found["BDS-eOT"].agrees


def test_quick_runs_are_not_held_against_the_paper():
    markdown = markdown_of(make_cells(quick=True, folds=1))
    assert "All numbers on this page are from a quick run" in markdown
    assert "**Not compared yet.**" in markdown


# ---------------------------------------------------------------------------------------------------------- times


def test_times_stand_beside_the_papers_with_their_ratio(full):
    found = tables(section(full[0], "times"))
    assert len(found) == len(SETS)
    assert all(table[0] == ["method", "ours", "paper", "ratio"] for table in found)
    assert row(found[SETS.index("ZINC")], "OT-EMD")[1] == "2,708"
    assert row(found[SETS.index("ZINC")], "ASOT-ML")[1] == "378 + 1,509"


def test_both_machines_are_named(full):
    words = section(full[0], "times")
    assert "i7-12700KF" in words
    assert "RTX 3090 Ti" in words
    assert "Made Processor 9000, 2 of 2 cores" in words


def test_a_ratio_is_the_papers_time_over_ours():
    make = Maker()
    cells = [make.run(PUBLISHED, "ZINC", "ASOT-ML", seconds=8.0, train_seconds=2.0)]
    (found,) = [one for one in compare.seconds_with_paper(data_of(cells)) if one.ours]
    assert found.ratio == pytest.approx((378 + 1509) / 10)


def test_times_of_bds_eot_count_with_the_rule_and_without():
    make = Maker()
    ruled = make.run(PUBLISHED, "MUTAG", "BDS-eOT", seconds=3.0, settings={"row_zero": True})
    other = {**make.run(PUBLISHED, "MUTAG", "BDS-eOT", settings={"row_zero": False}), "timed": False}
    (found,) = [one for one in compare.seconds_with_paper(data_of([ruled, other])) if one.ours]
    assert found.ours[1] == 3.0


# ---------------------------------------------------------------------------------------------------------- claims


def test_claims_are_counted_set_by_set():
    found = facts.claims(data_of(make_cells()))
    assert [claim.paper for claim in found] == [(8, 8), (7, 8), (8, 8), (8, 8)]
    assert found[0].published == (8, 8)
    assert found[0].described == (0, 8)  # anchors have 14 percent error as described, entropic transport 9
    assert found[0].verdict == "holds in part"
    assert found[3].verdict == "holds"


def test_what_is_better_is_computed(full):
    first = full[0].split("**Contents**")[0]
    ratios = compare.error_ratios(data_of(make_cells()), "ASOT-k", CALIBRATED)
    assert len(ratios) == len(SETS)
    assert f"**{sorted(ratios.values())[3]:.1f} times less error.**"[:5] in first
    assert "2,708 s in the paper" in first


def test_a_first_screen_without_cells_says_what_to_run():
    markdown = markdown_of([Maker().run(DESCRIBED, "MUTAG", "SW", timed=False)])
    first = markdown.split("**Contents**")[0]
    assert "**Not compared yet.**" in first
    assert first.count("`asot paper all` computes them") == 2


# --------------------------------------------------------------------------------------------------- as described


def test_the_smallest_error_of_each_set_is_bold(full):
    relative, rmse, sets = tables(section(full[0], "as-described"))
    assert row(relative, "OT-EMD") == ["0"] * len(SETS)
    for column in range(1, len(SETS) + 1):
        bold = [fields[0] for fields in rmse[1:] if fields[column].startswith("**")]
        assert bold == [CALIBRATED]
    assert row(sets, "NCI1")[:2] == ["4,110", "8,443,995"]


def test_methods_that_were_not_run_are_named():
    cells = [cell for cell in make_cells() if (cell["set"], cell["method"]) != ("BZR", "SW")]
    markdown = markdown_of(cells)
    assert "Without a finished run, as published: BZR SW." in markdown
    assert row(tables(section(markdown, "as-described"))[0], "SW")[SETS.index("BZR")] == "not run"


def test_failures_are_reported(tmp_path):
    failed = {**Maker().cell("run", DESCRIBED, "MUTAG", OURS), "error": "no | torch <b>"}
    markdown, page = written(tmp_path, [Maker().run(DESCRIBED, "MUTAG", "SW"), failed])
    assert "no \\| torch \\<b\\>" in markdown
    assert "no | torch &lt;b&gt;" in page
    assert "No cell failed" not in markdown


# ------------------------------------------------------------------------------------------------------ the files


def test_the_page_needs_no_other_file_and_has_every_picture(full):
    page = full[1]
    assert not re.findall(r'(?:src|href)="(?!#|data:)', page)
    assert page.count("<figure>") == 1 + 1 + 2 + 3 + 1  # overview, figure 3, figure 4 (2), scatter (3), scaling
    assert "<script" not in page


def test_pictures_lie_beside_the_text_and_are_the_same_again(tmp_path):
    cells = [Maker().curve(DESCRIBED, "MUTAG", "ASOT-ML", 0), Maker().scatter("BZR", "ASOT-k")]
    first = written(tmp_path, cells)
    names = re.findall(r"\]\((paper-[\w-]+\.svg)\)", first[0])
    assert names == ["paper-fig3.svg", "paper-scatter-1.svg"]
    pictures = [(tmp_path / name).read_bytes() for name in names]
    assert all(picture.startswith(b"<svg") for picture in pictures)
    assert written(tmp_path, cells) == first
    assert [(tmp_path / name).read_bytes() for name in names] == pictures


def test_every_link_within_the_page_has_a_place(full):
    assert set(re.findall(r"\]\(#([\w-]+)\)", full[0])) <= set(re.findall(r'<a id="([\w-]+)">', full[0]))


def test_a_file_without_results_is_refused(tmp_path):
    results = write_cells(tmp_path / "r.json", [])
    with pytest.raises(ValueError, match="no finished cell"):
        write_report(results, tmp_path / "r.md")
    with pytest.raises(ValueError, match="nothing to write"):
        write_report(results)
    with pytest.raises(ValueError, match="is the results file"):
        write_report(results, results)


def test_every_method_of_the_paper_and_ours_has_a_look():
    from asot_paper.report.figures import STYLES

    assert {*PAPER_METHODS, CALIBRATED, OURS} <= set(STYLES)
