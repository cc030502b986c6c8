"""Which runs of a results file a number of the report is made of, and where its times were measured."""

from __future__ import annotations

from asot_paper.names import DESCRIBED, PUBLISHED
from asot_paper.report import facts

from reproduction.tests.made_results import Maker
from reproduction.tests.test_report import data_of, markdown_of, row, section, tables


def test_times_of_different_places_are_different_rows():
    make = Maker()
    cells = [make.run(DESCRIBED, "MUTAG", "SW", seconds=seconds, train_seconds=0.0) for seconds in (1.0, 2.0, 4.0)]
    cells[1]["device"] = "cuda"
    cells[2]["machine"] = {**cells[2]["machine"], "threads": 16, "cores": 16}
    cells.append(make.run(DESCRIBED, "MUTAG", "SW", fold=1, seconds=1.0, train_seconds=0.0))  # the most cells: cpu A
    markdown = markdown_of(cells)
    assert "| SW (cpu A) | **1.0** |" in markdown
    assert "| SW (cpu B) | **4.0** |" in markdown
    assert "| SW (cuda:0) | **2.0** |" in markdown
    assert "cpu B: Made Processor 9000, 16 of 16 cores" in markdown


def test_both_names_of_the_first_gpu_are_one_place():
    make = Maker()
    cells = [make.run(DESCRIBED, "MUTAG", method, device=name) for method, name in (("eOT", "cuda"), ("SW", "cuda:0"))]
    (table,) = tables(section(markdown_of(cells), "times-described"))
    assert [fields[0] for fields in table[1:]] == ["SW (cuda:0)", "eOT (cuda:0)"]


def test_errors_count_once_for_each_fold_wherever_they_were_computed():
    make = Maker()
    cells = [make.run(DESCRIBED, "MUTAG", "ASOT-k", fold=fold, rmse=1.0 + fold) for fold in (0, 1)]
    cells += [make.run(DESCRIBED, "MUTAG", "ASOT-k", fold=fold, rmse=9.0, device="cuda") for fold in (1, 2)]
    runs = data_of(cells).runs(DESCRIBED, "MUTAG", "ASOT-k")
    assert [cell["rmse"] for cell in runs.cells] == [1.0, 2.0, 9.0]


def test_cells_that_ran_beside_other_work_have_errors_but_no_times():
    make = Maker()
    cells = [make.run(DESCRIBED, "MUTAG", method, timed=False) for method in ("OT-EMD", "SW", "ASOT-k")]
    cells += [{**make.scaling(method, 100), "timed": False} for method in ("OT-EMD", "POT loop")]
    cells += [{**make.ablation(DESCRIBED, "MUTAG", "ASOT-k", k, 0), "timed": False} for k in (5, 10)]
    markdown = markdown_of(cells)
    assert row(tables(section(markdown, "as-described"))[1], "SW") != ["not run"]
    assert 'id="times-described"' not in markdown
    assert "paper-scaling.svg" not in markdown
    assert "paper-fig4-error.svg" in markdown
    assert "paper-fig4-time.svg" not in markdown
    assert "Exact distances in seconds" not in markdown
    markdown = markdown_of([*cells, make.run(DESCRIBED, "MUTAG", "eOT")])
    assert "7 cells ran beside other work" in markdown
    (table,) = tables(section(markdown, "times-described"))
    assert [fields[0] for fields in table] == ["method", "eOT"]


def test_of_cells_that_were_run_again_the_last_counts():
    make = Maker()
    old, new = make.run(DESCRIBED, "MUTAG", "ASOT-k", rmse=1.0), make.run(DESCRIBED, "MUTAG", "ASOT-k", rmse=2.0)
    old["date"], new["date"] = "2025-01-01", "2025-02-01"
    runs = data_of([new, old]).runs(DESCRIBED, "MUTAG", "ASOT-k")
    assert [cell["rmse"] for cell in runs.cells] == [2.0]


def test_runs_with_different_settings_are_never_averaged():
    make = Maker()
    cells = [make.run(DESCRIBED, "MUTAG", "ASOT-ML", fold=fold, settings={"epochs": 40}) for fold in range(3)]
    cells += [make.run(DESCRIBED, "MUTAG", "ASOT-ML", fold=fold, settings={"epochs": 5}) for fold in range(2)]
    found = data_of(cells)
    assert {cell["settings"]["epochs"] for cell in found.runs(DESCRIBED, "MUTAG", "ASOT-ML").cells} == {40}
    assert found.n_other_settings == 2
    assert "Not shown: 2 runs with other settings" in markdown_of(cells)


def test_settings_that_are_found_in_a_run_do_not_part_its_folds():
    make = Maker()
    cells = [make.run(DESCRIBED, "MNIST", "eOT", fold=fold, settings={"reg": 0.1 + fold}) for fold in range(3)]
    assert len(data_of(cells).runs(DESCRIBED, "MNIST", "eOT").cells) == 3


def test_what_was_run_but_not_timed_is_not_said_to_be_missing():
    make = Maker()
    cells = [make.run(DESCRIBED, name, "SW") for name in ("MUTAG", "BZR")]
    cells += [make.run(DESCRIBED, "MUTAG", "eOT"), make.run(DESCRIBED, "BZR", "eOT", timed=False)]
    (table,) = tables(section(markdown_of(cells), "times-described"))
    assert row(table, "eOT")[1] == "not timed"


def test_what_was_run_without_the_rule_only_is_missing_where_the_rule_is_on():
    make = Maker()
    cells = [make.run(PUBLISHED, "MUTAG", "SW"), make.run(PUBLISHED, "BZR", "SW", settings={"row_zero": False})]
    assert "BZR SW" in facts.missing(data_of(cells), PUBLISHED)
    assert "MUTAG SW" not in facts.missing(data_of(cells), PUBLISHED)
