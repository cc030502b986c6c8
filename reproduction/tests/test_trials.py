"""Trials: one setting is changed, and only that one."""

import pytest
from asot_paper import trials
from asot_paper.methods import Hardware
from asot_paper.names import METHODS, PUBLISHED, SETS
from asot_paper.runner import run_cells
from asot_paper.scale import FULL
from asot_paper.store import open_results

CPU = Hardware("cpu", 1)


def plan(sets=SETS, methods=METHODS, scale=FULL):
    return trials.plan(sets, methods, scale, CPU)


def test_every_trial_is_planned_for_its_sets_methods_and_runs():
    cells = plan()
    assert len(cells) == sum(len(one.sets) * len(one.methods) * one.runs * len(one.seeds) for one in trials.TRIALS)
    assert len({cell.key for cell in cells}) == len(cells)
    assert {cell.kind for cell in cells} == {"trial"}
    assert {cell.condition for cell in cells} == {PUBLISHED}


def test_only_what_is_asked_for_is_planned():
    cells = plan(sets=("MNIST",), methods=("ASOT-k",))
    assert {(cell.set, cell.method) for cell in cells} == {("MNIST", "ASOT-k")}


@pytest.mark.parametrize("name", [trial.name for trial in trials.TRIALS])
def test_a_trial_runs_and_has_an_error(workshop, tmp_path, monkeypatch, name):
    pytest.importorskip("torch")
    small = [cell for cell in plan(scale=workshop.scale) if cell.settings["trial"] == name and cell.fold == 0]
    for cell in small:
        cell.settings.update({key: 3 for key in ("epochs", "k") if key in cell.settings})
    with open_results(tmp_path / "r.json") as results:
        outcome = run_cells(small[:2], results, workshop)
    assert not outcome.failed
    assert all(record["rmse"] >= 0 for record in results.records)
    assert {record["settings"]["trial"] for record in results.records} == {name}


def test_a_batch_of_everything_is_another_training(workshop):
    pytest.importorskip("torch")
    D = workshop.problems.problem(PUBLISHED, "MUTAG", 0, 0).train
    from asot_paper.methods import learn

    how = {"seed": 0, "epochs": 5, "hardware": CPU}
    whole, parts = (learn("ASOT-DL as published", D, 3, per_batch=n, **how).space for n in (10**9, 4))
    assert abs(whole.cost - parts.cost).max() > 1e-6
