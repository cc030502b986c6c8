"""Figures 3 and 4, the scatter plots and the times against N: their cells and what they hold."""

import numpy as np
import pytest
from asot_paper import baselines, fig3, fig4, scaling, scatter
from asot_paper.methods import Hardware
from asot_paper.names import CALIBRATED, CONDITIONS, DESCRIBED, OURS, PUBLISHED
from asot_paper.runner import run_cells
from asot_paper.scale import FULL
from asot_paper.store import open_results, read_cells

import asot
from reproduction.tests.conftest import TINY

CPU = Hardware("cpu", 1)


def run(cells, path, workshop):
    with open_results(path) as results:
        assert run_cells(cells, results, workshop).failed == ()
    return read_cells(path)


# ------------------------------------------------------------------------------------------------------------- figure 3


def test_curves_tell_the_error_on_the_way(tmp_path, workshop):
    pytest.importorskip("torch")
    cells = fig3.plan(CONDITIONS, ["MUTAG"], fig3.METHODS, TINY, CPU)
    assert len(cells) == 6
    for record in run(cells, tmp_path / "r.json", workshop):
        assert len(record["epochs"]) == len(record["errors"]) == len(record["seconds_at"]) >= 1
        assert record["epochs"] == sorted(set(record["epochs"]))
        assert record["seconds_at"] == sorted(record["seconds_at"])
        shares = np.array(record["errors"]) / record["mean_distance"]
        np.testing.assert_allclose(record["relative_errors"], shares)
        ours = record["condition"] == DESCRIBED or record["method"] == OURS
        assert record["settings"]["pairs"].startswith("held-out" if ours else "all pairs")
        assert record["epochs"][0] == (0 if ours else 1)


def test_the_last_point_of_a_published_curve_is_the_error_of_the_table(tmp_path, workshop):
    pytest.importorskip("torch")
    from asot_paper import tables

    how = ([PUBLISHED], ["MUTAG"], ["ASOT-DL"], TINY, CPU)
    records = run([*fig3.plan(*how), *tables.plan(*how)], tmp_path / "r.json", workshop)
    (curve,) = (r for r in records if r["kind"] == "curve")
    (row,) = (r for r in records if r["kind"] == "run" and r["fold"] == 0)
    assert curve["epochs"][-1] == TINY.published_epochs
    assert curve["errors"][-1] == pytest.approx(row["rmse"], rel=1e-12)


# ------------------------------------------------------------------------------------------------------------- figure 4


def test_the_ablation_varies_k_over_five_runs():
    cells = fig4.plan(CONDITIONS, fig4.SETS, fig4.METHODS, FULL, CPU)
    assert len(cells) == len({cell.key for cell in cells}) == 2 * 2 * 3 * 7 * 5
    assert {cell.size for cell in cells} == {5, 10, 20, 50, 100, 150, 200}
    iterations = {cell.set: cell.settings["max_iter"] for cell in cells if cell.method == "eASOT-k"}
    assert iterations == {"MUTAG": 200, "MNIST": 500}


def test_more_anchors_are_better_and_learned_on_everything(tmp_path, workshop):
    records = run(fig4.plan([DESCRIBED], fig4.SETS, fig4.METHODS, TINY, CPU), tmp_path / "r.json", workshop)
    assert len(records) == 2 * 3 * 2 * 2
    mean = {
        k: np.mean([r["rmse"] for r in records if r["size"] == k and r["method"] == "ASOT-k" and r["set"] == "MUTAG"])
        for k in (2, 4)
    }
    assert mean[4] < mean[2]
    assert all(r["k"] == r["size"] == r["settings"]["k_asked"] for r in records)
    assert {r["settings"]["n_train"] for r in records if r["set"] == "MUTAG"} == {24}


# -------------------------------------------------------------------------------------------------------------- scatter


def test_scatter_plots_have_error_bars_that_hold(tmp_path, workshop):
    methods = ["ASOT-k", CALIBRATED]
    for record in run(scatter.plan(["MUTAG", "MNIST"], methods, TINY, CPU), tmp_path / "r.json", workshop):
        exact, lower, upper = (np.array(record[name]) for name in ("exact", "lower", "upper"))
        assert len(exact) == len(record["estimate"]) == record["n_pairs"] <= scatter.PAIRS
        assert ((lower <= exact + 1e-9) & (exact <= upper + 1e-9)).all()
        error = np.sqrt(np.mean((np.array(record["estimate"]) - exact) ** 2))
        assert record["rmse"] == pytest.approx(error)


def test_learned_codes_have_the_bars_of_the_anchors_they_began_with(tmp_path, workshop):
    pytest.importorskip("torch")
    (record,) = run(scatter.plan(["MUTAG"], [OURS], TINY, CPU), tmp_path / "r.json", workshop)
    exact, lower, upper = (np.array(record[name]) for name in ("exact", "lower", "upper"))
    assert len(record["estimate"]) == len(lower) == 276
    assert ((lower <= exact + 1e-9) & (exact <= upper + 1e-9)).all()


# -------------------------------------------------------------------------------------------------------------- scaling


def test_times_are_measured_for_growing_parts_of_a_set(tmp_path, workshop, monkeypatch):
    looped = []

    def pot_emd(D, *, pairs, progress):
        looped.append(len(pairs))
        return asot.pairwise_exact(D, pairs=pairs, progress=progress)

    monkeypatch.setattr(baselines, "pot_emd", pot_emd, raising=False)
    records = run(scaling.plan(["MUTAG"], TINY, CPU), tmp_path / "r.json", workshop)
    assert {(r["method"], r["n_distributions"]) for r in records} == {(m, n) for m in scaling.METHODS for n in (6, 24)}
    assert all(r["seconds"] > 0 for r in records)
    assert looped == [8, 10, 8, 10]
    (extrapolated,) = (r for r in records if r["method"] == scaling.POT_LOOP and r["n_distributions"] == 24)
    assert extrapolated["settings"]["extrapolated"] is True
    share = extrapolated["settings"]["sample_pairs"] / extrapolated["n_pairs"]
    assert extrapolated["settings"]["sample_seconds"] == pytest.approx(extrapolated["seconds"] * share)


def test_without_its_set_there_is_no_scaling():
    assert scaling.plan(["BZR"], FULL, CPU) == []
