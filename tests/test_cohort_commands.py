"""`asot groups`, `noise`, `outliers`, `drivers`, `cluster` of distances, `-q` and "did you mean"."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import asot
from tests.test_cli import asot_command, fail, succeed


@pytest.fixture
def cohort(tmp_path):
    """Cells of 12 patients of two types, of which one is shifted in every second patient; their groups and batches."""
    rng = np.random.default_rng(0)
    rows = []
    for patient in range(12):
        for kind in ("B cell", "T cell"):
            x = rng.normal(size=(25, 2)) + (2.0 if kind == "T cell" and patient % 2 else 0.0)
            rows.append(pd.DataFrame(x, columns=["x", "y"]).assign(id=f"p{patient:02d}", kind=kind))
    table = pd.concat(rows).sample(frac=1, random_state=0)[["id", "x", "y", "kind"]]
    table.to_csv(tmp_path / "cells.csv", index=False)
    table.drop(columns="kind").to_csv(tmp_path / "c.csv", index=False)
    about = pd.DataFrame(
        {
            "id": [f"p{i:02d}" for i in range(12)],
            "group": ["well", "ill"] * 6,
            "batch": [1] * 6 + [2] * 6,
            "age": rng.normal(50, 5, 12),
        }
    )
    about.sample(frac=1, random_state=1).to_csv(tmp_path / "about.csv", index=False)
    succeed("exact", tmp_path / "c.csv", "-o", tmp_path / "r.npz")
    return tmp_path


def test_groups_are_compared_as_the_library_does(cohort):
    said = succeed("groups", cohort / "r.npz", cohort / "about.csv", "-o", cohort / "g.csv")
    r = asot.load_distances(cohort / "r.npz")
    expected = asot.group_differences(r, np.array(["well", "ill"] * 6), random_state=0)
    assert repr(expected) in said
    assert f"effect (ω²) {expected.effect:.3f}" in said
    assert pd.read_csv(cohort / "g.csv").loc[0, "p_value"] == expected.p_value
    more = succeed(
        "groups",
        cohort / "r.npz",
        cohort / "about.csv",
        "--groups",
        "group",
        "--strata",
        "batch",
        "--covariates",
        "age",
    )
    assert "p = " in more
    assert "has no column 'site'; it has 'group', 'batch', 'age'" in fail(
        "groups", cohort / "r.npz", cohort / "about.csv", "--strata", "site"
    )
    (cohort / "few.csv").write_text("id,group\np00,a\n")
    assert "no entry for distribution 'p01'" in fail("groups", cohort / "r.npz", cohort / "few.csv")
    assert "must end in .csv" in fail("groups", cohort / "r.npz", cohort / "about.csv", "-o", cohort / "g.txt")


def test_noise_and_outliers_are_tables(cohort):
    D = asot.load_collection(cohort / "c.csv")
    succeed("noise", cohort / "c.csv", "-o", cohort / "noise.csv")
    table = pd.read_csv(cohort / "noise.csv", index_col="id")
    np.testing.assert_allclose(table["noise"], asot.noise_floor(D, random_state=0).values)
    said = succeed("outliers", cohort / "r.npz", "--collection", cohort / "c.csv", "-o", cohort / "odd.csv")
    assert said.startswith("Outliers: ")
    expected = asot.outliers(asot.load_distances(cohort / "r.npz"), asot.noise_floor(D))
    np.testing.assert_allclose(pd.read_csv(cohort / "odd.csv", index_col="id")["score"], expected.to_frame()["score"])
    assert "as shares of what sample sizes explain" in said or "above the noise floor" in said


def test_the_driving_kind_is_named(cohort):
    about = pd.read_csv(cohort / "about.csv")[["id", "group"]]
    about.to_csv(cohort / "groups.csv", index=False)
    said = succeed("drivers", cohort / "cells.csv", cohort / "groups.csv", "--labels", "kind", "-o", cohort / "d.csv")
    assert "groups differ in T cell" in said
    table = pd.read_csv(cohort / "d.csv", index_col="kind")
    assert table.loc["T cell", "q_value"] < 0.02 < table.loc["B cell", "q_value"]
    assert "has no column 'type'" in fail("drivers", cohort / "cells.csv", cohort / "groups.csv", "--labels", "type")
    assert "must be a .csv, .parquet or .h5ad file" in fail(
        "drivers", cohort / "r.npz", cohort / "groups.csv", "--labels", "kind"
    )


def test_ids_that_look_like_numbers_stay_text(cohort):
    for name in ("cells", "c", "about"):
        table = pd.read_csv(cohort / f"{name}.csv")
        table["id"] = table["id"].str.replace("p", "0")
        table[["id", *table.columns.drop("id")]].to_csv(cohort / f"{name}.csv", index=False)
    succeed("exact", cohort / "c.csv", "-o", cohort / "r.npz")
    labels = ("--labels", "kind", "-o", cohort / "d.csv")
    assert "T cell" in succeed("drivers", cohort / "cells.csv", cohort / "about.csv", *labels)
    succeed("view", cohort / "r.npz", "--collection", cohort / "cells.csv", "--kinds", "kind", "-o", cohort / "r.html")


def test_kinds_of_cells_come_from_an_h5ad_file(cohort):
    anndata = pytest.importorskip("anndata")
    table = pd.read_csv(cohort / "cells.csv").astype({"id": object, "kind": object})
    table.index = pd.Index([str(i) for i in range(len(table))], dtype=object)
    adata = anndata.AnnData(obs=table[["id", "kind"]], obsm={"X_pca": table[["x", "y"]].to_numpy()})
    adata.var_names = pd.Index([], dtype=object)
    adata.write_h5ad(cohort / "cells.h5ad")
    about = pd.read_csv(cohort / "about.csv")[["id", "group"]]
    about.to_csv(cohort / "groups.csv", index=False)
    same = ("drivers", cohort / "cells.csv", cohort / "groups.csv", "--labels", "kind")
    cells = ("drivers", cohort / "cells.h5ad", cohort / "groups.csv", "--labels", "kind", "--groupby", "id")
    assert succeed(*cells) == succeed(*same)


@pytest.mark.parametrize("suffix", ["npz", "csv", "npy"])
def test_cluster_takes_distances(cohort, suffix):
    r = asot.load_distances(cohort / "r.npz")
    r.save(cohort / f"d.{suffix}")
    succeed("cluster", cohort / f"d.{suffix}", "--n-clusters", 2, "-o", cohort / "k.csv")
    labels = pd.read_csv(cohort / "k.csv")["cluster"].to_numpy()
    assert len(np.unique(labels[::2])) == len(np.unique(labels[1::2])) == 1
    assert labels[0] != labels[1]
    arguments = ("cluster", cohort / f"d.{suffix}", "-o", cohort / "k.csv", "--n-clusters", 2)
    assert "which have medoids and no anchors" in fail(*arguments, "--n-anchors", 4)
    assert "12 distributions cannot be in 13 clusters" in fail(*arguments[:-1], 13)


def test_what_is_nearly_a_command_or_a_name_is_suggested(cohort):
    said = fail("pairwis", cohort / "c.csv", code=2)
    assert "there is no command 'pairwis'; did you mean 'pairwise'?" in said
    assert "No such command 'xyzzy'" in fail("xyzzy", code=2)
    assert "did you mean 'p03'?" in fail("plan", cohort / "c.csv", "p003", "p01", "-o", cohort / "p.csv")


def test_quiet_leaves_out_warnings_and_keeps_results(cohort):
    loud = asot_command("noise", cohort / "c.csv")
    assert loud.exit_code == 0
    few = "id,x\n" + "a,0\n" * 3 + "".join(f"b,{i}\n" for i in range(9))
    (cohort / "few.csv").write_text(few)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        said = asot_command("noise", cohort / "few.csv")
        quiet = asot_command("-q", "noise", cohort / "few.csv")
    assert "asot: warning: 1 distribution has fewer than 4 points" in said.stderr
    assert quiet.stderr == ""
    assert quiet.stdout == said.stdout
