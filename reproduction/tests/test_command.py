"""`asot paper`: what it prints, what it keeps, and what it says about wrong calls."""

import json
import subprocess
import sys

import pytest
from asot_paper import problems, runner
from asot_paper.names import METHODS, SETS, pick
from asot_paper.store import open_results, read_cells
from click.testing import CliRunner

from asot.cli import cli

FEW = ("--sets", "MUTAG", "--methods", "OT-EMD,ASOT-k")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tiny_sets, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def paper(*arguments):
    return CliRunner().invoke(cli, ["paper", *map(str, arguments)], prog_name="asot")


def succeed(*arguments):
    done = paper(*arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def fail(*arguments, code=1):
    done = paper(*arguments)
    assert done.exit_code == code, done.output
    return done.stderr


def test_every_command_has_help():
    for command in ("table1", "table2", "fig3", "fig4", "trials", "all", "report", "merge"):
        assert command in succeed("--help")
        assert f"Usage: asot paper {command}" in succeed(command, "--help")


def test_table1_prints_both_conditions_and_keeps_its_cells(tmp_path):
    said = succeed("table1", *FEW)
    published, described = said.split("as described")
    assert "as published" in published
    assert "ASOT-k" in described
    assert len(read_cells("results.json")) == 2 * (1 + 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.json", "results.json.reference"]


def test_table2_reads_the_cells_of_table1(monkeypatch):
    succeed("table1", *FEW, "--condition", "described")
    monkeypatch.setitem(runner.RUN, "run", None)
    assert "training + distances" in succeed("table2", *FEW, "--condition", "described")


def test_options_choose_cells():
    succeed("table1", *FEW, "--condition", "published", "--folds", 1, "--seeds", 2, "--no-row-zero-rule", "--jobs", 1)
    records = read_cells("results.json")
    assert {(r["method"], r["fold"], r["seed"]) for r in records} == {
        ("OT-EMD", 0, 0),
        ("ASOT-k", 0, 0),
        ("ASOT-k", 0, 1),
    }
    assert all(r["settings"]["row_zero"] is False for r in records)
    assert all(r["machine"]["threads"] == 1 for r in records)


def test_the_papers_numbers_stand_beside_ours():
    said = succeed("table1", *FEW, "--condition", "published")
    assert "paper" in said
    assert "0.1169" in said


def test_a_dry_run_lists_cells_and_runs_none():
    said = succeed("table1", *FEW, "--dry-run")
    assert "0 of 2 finished" in said
    assert said.splitlines()[-1].startswith("6 cells, 0 finished, 6 to go")
    with pytest.raises(FileNotFoundError):
        read_cells("results.json")
    succeed("table1", "--sets", "MUTAG", "--methods", "OT-EMD")
    said = succeed("table1", *FEW, "--dry-run")
    assert "1 of 1 finished" in said
    assert "6 cells, 2 finished" in said


def test_a_dry_run_of_everything_names_every_kind():
    said = succeed("all", "--dry-run", "--quick")
    for word in ("run ", "curve", "ablation", "scatter", "scaling", *SETS, *METHODS, "POT loop"):
        assert word in said


def test_failures_are_summed_up_and_end_with_an_error(monkeypatch):
    def missing(name, *rest):
        raise FileNotFoundError(f"there is no {name}.zip; put it in the folder tu")

    monkeypatch.setattr(problems, "load_graphs", missing)
    said = fail("table1", *FEW)
    assert "failed: MUTAG OT-EMD (as published, fold 0, seed 0) and 5 more: there is no MUTAG.zip" in said
    assert said.splitlines()[-1] == "asot: error: 6 of 6 cells failed; they are run again next time"
    assert "0 of 2 finished, 2 failed" in succeed("table1", *FEW, "--dry-run")


def test_an_interrupt_is_one_line(monkeypatch):
    def interrupt(workshop, cell):
        raise KeyboardInterrupt

    monkeypatch.setitem(runner.RUN, "run", interrupt)
    assert fail("table1", *FEW, code=130).endswith("asot: stopped\n")


def test_fig4_runs_and_points_to_the_report():
    said = succeed("fig4", "--sets", "MUTAG", "--methods", "ASOT-k", "--condition", "described")
    assert said == "results.json: 4 cells; see asot paper report\n"


def test_fig3_takes_its_own_methods_only():
    assert "choose from ASOT-ML, ASOT-DL, learned (ours)" in fail("fig3", "--methods", "SW")
    assert "6 cells" in succeed("fig3", "--sets", "BZR", "--dry-run")


def test_cells_are_planned_once(monkeypatch):
    from asot_paper import tables

    planned = []
    original = tables.plan
    monkeypatch.setattr(tables, "plan", lambda *a, **k: planned.append(a) or original(*a, **k))
    succeed("table1", *FEW)
    assert len(planned) == 1


def test_all_runs_everything_and_writes_the_report(tmp_path, monkeypatch):
    pytest.importorskip("asot_paper.report")
    written = []
    monkeypatch.setattr("asot_paper.report.write_report", lambda *a, **k: written.append((a, k)))
    said = succeed("all", *FEW, "--condition", "published", "--results", "out.json")
    assert written == [(("out.json", "out.md", "out.html"), {})]
    assert "report: out.md, out.html" in said
    kinds = {record["kind"] for record in read_cells("out.json")}
    assert kinds == {"run", "ablation"}


def test_the_report_is_written_from_a_results_file(monkeypatch):
    pytest.importorskip("asot_paper.report")
    written = []
    monkeypatch.setattr("asot_paper.report.write_report", lambda *a, **k: written.append((a, k)))
    succeed("report", "--results", "out.json", "--markdown", "a.md")
    assert written == [(("out.json", "a.md", "out.html"), {})]


def test_results_of_other_machines_are_merged(tmp_path):
    succeed("table1", *FEW, "--condition", "published", "--results", "a.json")
    succeed("table1", *FEW, "--condition", "described", "--results", "b.json")
    assert succeed("merge", "a.json", "b.json") == "results.json: 6 cells added, 6 in all\n"
    assert succeed("merge", "b.json") == "results.json: 0 cells added, 6 in all\n"
    assert read_cells("results.json") == read_cells("a.json") + read_cells("b.json")
    assert "cannot read none.json" in fail("merge", "none.json", "--results", "a.json")


# ---------------------------------------------------------------------------------------------------------- wrong calls


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("table1", "--sets", "MUTAGEN"), "unknown set 'MUTAGEN'; choose from MUTAG, PTC_MR"),
        (("table1", "--methods", "SW,EMD"), "unknown method 'EMD'; choose from OT-EMD, SW"),
        (("table1", "--sets", ","), "no set is named; choose from MUTAG"),
        (("fig4", "--sets", "BZR"), "unknown set 'BZR'; choose from MUTAG, MNIST"),
        (("table1", "--sets", "MUTAG", "--zinc-runs", "2"), "--zinc-runs are for ZINC"),
        (("table1", "--condition", "described", "--epochs", "3"), "--epochs are for --condition published or both"),
        (("table1", "--jobs", "0"), "n_jobs must be"),
        (("table1", "--device", "gpu"), "unknown device 'gpu'"),
        (("table1", "--results", "none/r.json"), "the folder"),
        (("report", "--results", "none.json"), "cannot read none.json"),
        (("trials", "--condition", "described"), "trials are made as published"),
    ],
)
def test_wrong_values_are_one_line(arguments, message):
    said = fail(*arguments)
    assert said.startswith("asot: error: ")
    assert message in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("table1", "--folds", "11"),
        ("table1", "--seeds", "0"),
        ("table1", "--condition", "mixed"),
        ("table3",),
        ("fig3", "--folds", "2"),  # it has nothing to do there
        ("fig4", "--seeds", "2"),
    ],
)
def test_wrong_calls_end_with_2(arguments):
    assert "see --help" in fail(*arguments, code=2)


def test_quick_tells_which_sets_it_leaves_out(monkeypatch):
    from dataclasses import replace

    from asot_paper import scale

    monkeypatch.setattr(scale, "QUICK", replace(scale.QUICK, sets=("MUTAG", "MNIST")))
    assert "--quick leaves NCI1 out; drop them" in fail("table1", "--quick", "--sets", "NCI1,MUTAG", "--dry-run")


def test_a_damaged_results_file_is_refused_and_kept(tmp_path):
    (tmp_path / "results.json").write_text('{"format": "asot-paper", "version": 1, "cells": [')
    assert "truncated" in fail("table1", *FEW)
    assert "truncated" in fail("table1", *FEW, "--dry-run")
    assert (tmp_path / "results.json").read_text().endswith("[")


def test_a_foreign_file_is_never_overwritten(tmp_path):
    (tmp_path / "package.json").write_text(json.dumps({"name": "mine"}))
    assert "give another name with --results" in fail("table1", *FEW, "--results", "package.json")
    assert json.loads((tmp_path / "package.json").read_text()) == {"name": "mine"}


def test_a_second_run_on_the_same_file_is_refused():
    with open_results("results.json"):
        assert "another run is writing to results.json" in fail("table1", *FEW)


def test_names_are_found_whatever_their_case_and_order():
    assert pick("asot-ML, ot-emd", METHODS, "method") == ("OT-EMD", "ASOT-ML")
    assert pick(None, SETS, "set") == SETS


# ------------------------------------------------------------------------------------------------- a package of its own


def test_asot_does_not_load_the_package_before_it_is_asked_for():
    code = (
        "import sys, asot\n"
        "from click.testing import CliRunner\n"
        "from asot.cli import cli\n"
        "assert 'paper' in CliRunner().invoke(cli, ['--help']).output\n"
        "assert not [name for name in sys.modules if name.startswith('asot_paper')]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_without_the_package_the_command_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [])
    assert "pip install ./reproduction" in fail("table1")
