"""Running cells: what is finished is kept, what fails is told, and nothing is run twice."""

import numpy as np
import pytest
from asot_paper import methods, problems, runner, tables
from asot_paper.methods import Hardware
from asot_paper.names import CALIBRATED, CONDITIONS, DESCRIBED, OURS, PUBLISHED
from asot_paper.runner import run_cells
from asot_paper.store import open_results, read_cells

import asot
from reproduction.tests.conftest import TINY
from tests.oracles import sinkhorn_sweeps

CPU = Hardware("cpu", 1)


def cells_of(*names, conditions=(DESCRIBED,), sets=("MUTAG",), **more):
    return tables.plan(conditions, sets, names, TINY, CPU, **more)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "r.json"


def run(cells, path, workshop):
    with open_results(path) as results:
        return run_cells(cells, results, workshop)


@pytest.fixture
def counted(monkeypatch):
    """The cells that were really run."""
    ran = []
    original = runner.RUN["run"]

    def count(workshop, cell):
        ran.append(cell)
        return original(workshop, cell)

    monkeypatch.setitem(runner.RUN, "run", count)
    return ran


def test_finished_cells_are_not_run_again(path, workshop, counted):
    cells = cells_of("OT-EMD", "ASOT-k")
    assert (len(cells), run(cells, path, workshop).ran) == (3, 3)
    before = path.read_bytes()
    outcome = run(cells, path, workshop)
    assert (outcome.kept, outcome.ran, outcome.failed) == (3, 0, ())
    assert path.read_bytes() == before
    assert run(cells_of("OT-EMD", "ASOT-k", CALIBRATED), path, workshop).ran == 2
    assert len(counted) == 5


def test_an_interrupt_loses_only_the_running_cell(path, workshop, monkeypatch):
    cells = cells_of("OT-EMD", "ASOT-k")
    original = runner.RUN["run"]
    calls = []

    def interrupted(workshop, cell):
        calls.append(cell)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(workshop, cell)

    monkeypatch.setitem(runner.RUN, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(cells, path, workshop)
    assert [record["key"] for record in read_cells(path)] == [cell.key for cell in cells[:2]]
    assert run(cells, path, workshop).ran == 1


def test_a_failing_method_does_not_stop_the_others(path, workshop, monkeypatch, capsys):
    def refuse(*_, **__):
        raise ImportError("PyTorch is not installed; pip install 'asot[torch]'")

    monkeypatch.setitem(methods._LEARNERS, "MetricAnchors, objective distance", refuse)
    cells = cells_of("OT-EMD", OURS, "ASOT-k")
    outcome = run(cells, path, workshop)
    assert {cell.method for cell, _ in outcome.failed} == {OURS}
    assert {message for _, message in outcome.failed} == {"PyTorch is not installed; pip install 'asot[torch]'"}
    records = read_cells(path)
    assert len(records) == len(cells)
    assert sum("error" in record for record in records) == 2
    told = capsys.readouterr().err
    assert told.count("PyTorch is not installed") == 1
    assert told.count("failed for the same reason") == 1
    assert run(cells, path, workshop).ran == 2


def test_a_set_that_is_missing_fails_its_cells_only(path, workshop, monkeypatch):
    there = problems.load_graphs

    def missing(name, *rest):
        if name == "BZR":
            raise FileNotFoundError("there is no BZR.zip; put it in the folder tu")
        return there(name, *rest)

    monkeypatch.setattr(problems, "load_graphs", missing)
    outcome = run(cells_of("OT-EMD", "ASOT-k", sets=("BZR", "MUTAG")), path, workshop)
    assert {cell.set for cell, _ in outcome.failed} == {"BZR"}
    assert {message for _, message in outcome.failed} == {"there is no BZR.zip; put it in the folder tu"}
    assert {record["set"] for record in read_cells(path) if "error" not in record} == {"MUTAG"}


# ------------------------------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize("condition", CONDITIONS)
def test_cells_hold_what_the_library_computes(path, workshop, condition):
    names = ("OT-EMD", "SW", "eOT", "ASOT-k", "eASOT-k", CALIBRATED)
    assert run(cells_of(*names, conditions=[condition]), path, workshop).failed == ()
    problem = workshop.problems.problem(condition, "MUTAG", 0, 0)
    found = {(r["method"], r["fold"]): r for r in read_cells(path)}
    exact = asot.pairwise_exact(problem.D).values
    assert found["OT-EMD", 0]["rmse"] == 0.0
    assert found["ASOT-k", 1]["mean_distance"] == pytest.approx(exact.mean())
    for record in found.values():
        assert record["relative"] == pytest.approx(record["rmse"] / exact.mean())
        assert (record["n_distributions"], record["n_pairs"]) == (24, 276)
        assert min(record["seconds"], record["train_seconds"]) >= 0.0
    assert found["SW", 0]["rmse"] > 0.0
    assert found["eOT", 0]["settings"]["reg"] == pytest.approx(found["eASOT-k", 0]["settings"]["reg"])
    assert found["ASOT-k", 0]["settings"]["n_train"] == len(problem.train)


def test_as_described_the_anchor_error_is_that_of_pairwise(path, workshop):
    run(cells_of("ASOT-k", CALIBRATED), path, workshop)
    problem = workshop.problems.problem(DESCRIBED, "MUTAG", 1, 0)
    space = asot.KMeansAnchors(problem.k, random_state=1).fit(problem.train).space_
    exact = asot.pairwise_exact(problem.D).values
    errors = {r["method"]: r["rmse"] for r in read_cells(path) if r["fold"] == 1}
    for method, estimate in (("ASOT-k", "anchor"), (CALIBRATED, "calibrated")):
        values = asot.pairwise(problem.D, space=space, estimate=estimate).values
        assert errors[method] == pytest.approx(np.sqrt(np.mean((values - exact) ** 2)), rel=1e-12)


def test_as_published_the_row_zero_rule_matters_for_sinkhorn(path, workshop):
    for rule in (True, False):
        run(cells_of("eASOT-k", CALIBRATED, conditions=[PUBLISHED], row_zero=rule), path, workshop)
    records = [r for r in read_cells(path) if r["fold"] == 0]
    errors = {(r["method"], r["settings"]["row_zero"]): r["rmse"] for r in records}
    assert errors["eASOT-k", True] > 2 * errors["eASOT-k", False]
    # Four labels and more anchors than that: the distinct points are the anchors, and nothing is lost.
    assert errors[CALIBRATED, True] == pytest.approx(0.0, abs=1e-9)
    record = next(r for r in records if r["method"] == CALIBRATED)
    assert record["k"] == 4
    assert record["settings"]["k_asked"] == 5
    assert "only 4 distinct points" in record["settings"]["notes"][0]


@pytest.mark.parametrize("method", ["eOT", "BDS-eOT"])
def test_as_published_entropic_errors_are_those_of_fifty_textbook_iterations(path, workshop, method):
    """The whole matrix by textbook iterations on label histograms, with its diagonal, against the exact one: for eOT
    without row and column 0, and for BDS-eOT with them, as the paper's columns have it."""
    if method == "BDS-eOT":
        pytest.importorskip("torch")
    assert run(cells_of(method, conditions=[PUBLISHED]), path, workshop).failed == ()
    D = workshop.problems.problem(PUBLISHED, "MUTAG", 0, 0).D
    labels = np.eye(4)[D.points[:, :4].argmax(axis=1)]
    histograms = np.add.reduceat(labels * D.masses[:, None], D.offsets[:-1])
    i, j = np.triu_indices(len(D))
    cost = np.sqrt(10.0) * (1.0 - np.eye(4))
    found = np.zeros((len(D), len(D)))
    found[i, j] = sinkhorn_sweeps(histograms[i], histograms[j], cost, 0.1, 50, start_at_target=True)
    found[j, i] = found[i, j]
    exact = np.sqrt(10.0) * 0.5 * np.abs(histograms[:, None] - histograms).sum(axis=2)
    if method == "eOT":
        exact[0] = exact[:, 0] = 0.0
    expected = np.sqrt(np.mean((found - exact) ** 2))
    assert read_cells(path)[0]["rmse"] == pytest.approx(expected, rel=1e-4)


def test_methods_of_one_space_share_what_was_learned(path, workshop, monkeypatch):
    learned = []
    original = methods._LEARNERS["k-means"]

    def count(D, *rest, **more):
        learned.append(len(D))
        return original(D, *rest, **more)

    monkeypatch.setitem(methods._LEARNERS, "k-means", count)
    run(cells_of("ASOT-k", "eASOT-k", CALIBRATED), path, workshop)
    assert len(learned) == 3  # a rehearsal, and one for each fold
    times = {(r["fold"], r["method"]): r["train_seconds"] for r in read_cells(path)}
    assert times[0, "ASOT-k"] == times[0, "eASOT-k"] == times[0, CALIBRATED]


def test_learned_methods_run_in_both_conditions(path, workshop):
    pytest.importorskip("torch")
    names = ("ASOT-ML", "ASOT-DL", "eASOT-ML", OURS)
    assert run(cells_of(*names, conditions=CONDITIONS), path, workshop).failed == ()
    learners = {(r["condition"], r["method"]): r["settings"]["learner"] for r in read_cells(path)}
    assert learners[PUBLISHED, "eASOT-ML"] == "ASOT-ML as published"
    assert learners[DESCRIBED, "ASOT-DL"] == "DictionaryAnchors, objective paper"
    assert learners[PUBLISHED, OURS] == learners[DESCRIBED, OURS]
    assert all(np.isfinite(r["rmse"]) for r in read_cells(path))


def test_digits_and_molecules_run_too(path, workshop):
    outcome = run(
        cells_of("OT-EMD", "BDS-eOT", "ASOT-k", sets=("ZINC", "MNIST"), conditions=CONDITIONS), path, workshop
    )
    pytest.importorskip("torch")
    assert outcome.failed == ()
    folds = {(r["set"], r["method"], r["fold"]) for r in read_cells(path)}
    assert ("MNIST", "OT-EMD", 1) in folds
    assert ("ZINC", "ASOT-k", 1) not in folds


# ------------------------------------------------------------------------------------------------------------- progress


def test_without_a_terminal_there_is_a_line_per_cell(path, workshop, capsys):
    run(cells_of("OT-EMD", "ASOT-k"), path, workshop)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("1/3 MUTAG OT-EMD (as described, fold 0, seed 0): error 0, ")


def test_on_a_terminal_a_bar_names_the_cell(path, workshop, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    run(cells_of("OT-EMD"), path, workshop)
    shown = capsys.readouterr().err
    assert "1/1" in shown
    assert "now MUTAG OT-EMD" in shown
