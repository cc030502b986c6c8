"""`--store`, `--part`, `asot store`, `asot gather`: parts in any order make the whole, and files hold what it holds."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

import asot
from asot.cli import cli

pytest.importorskip("zarr")


@pytest.fixture
def here(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    asot.Distributions.from_list([rng.normal(size=(5, 2)) for _ in range(80)]).save(tmp_path / "in.npz")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments, code=0):
    done = CliRunner().invoke(cli, [*map(str, arguments)], prog_name="asot")
    assert done.exit_code == code, done.output
    return done.output


def test_parts_in_any_order_then_files(here):
    assert "of 3 blocks done" in run("exact", "in.npz", "--store", "run.zarr", "--part", "2/2")
    assert "not complete" in run("gather", "run.zarr", "-o", "all.npy", code=1)
    assert "complete" in run("exact", "in.npz", "--store", "run.zarr", "--part", "1/2")
    assert "Stored: 3,160 pairs" in run("store", "run.zarr")
    run("gather", "run.zarr", "-o", "all.npy")
    run("gather", "run.zarr", "-o", "all.npz")
    run("gather", "run.zarr", "-o", "near.npz", "--n-neighbors", 3)
    run("exact", "in.npz", "-o", "plain.npz")
    expected = asot.load_distances("plain.npz")
    np.testing.assert_array_equal(np.load("all.npy"), expected.values)
    np.testing.assert_array_equal(asot.load_distances("all.npz").values, expected.values)
    assert np.load("near.npz")["indices"].shape == (80, 3)
    run("gather", "run.zarr", "-o", "ALL.NPY")
    np.testing.assert_array_equal(np.load("ALL.NPY"), expected.values)


def test_neighbors_in_parts(here):
    run("neighbors", "in.npz", "--n-neighbors", 3, "--store", "near.zarr", "--part", "2/2")
    assert "complete" in run("neighbors", "in.npz", "--n-neighbors", 3, "--store", "near.zarr")
    assert "distances, indices; complete" in run("store", "near.zarr")
    run("gather", "near.zarr", "-o", "near.npz")
    run("neighbors", "in.npz", "--n-neighbors", 3, "-o", "plain.npz")
    for name in ("indices", "distances", "ids_rows", "ids_columns"):
        np.testing.assert_array_equal(np.load("near.npz")[name], np.load("plain.npz")[name])
    run("gather", "near.zarr", "-o", "near.csv")
    run("neighbors", "in.npz", "--n-neighbors", 3, "-o", "plain.csv")
    assert (here / "near.csv").read_text() == (here / "plain.csv").read_text()
    refused = run("gather", "near.zarr", "-o", "near.npy", code=1)
    assert "cannot write neighbors to near.npy: its name must end in .csv, .npz or .parquet" in refused


def test_edges_as_parquet(here):
    table = pytest.importorskip("pyarrow.parquet")
    run("exact", "in.npz", "--store", "run.zarr")
    run("gather", "run.zarr", "-o", "edges.parquet")
    edges = table.read_table("edges.parquet").to_pydict()
    assert list(edges) == ["row", "column", "values"]
    assert edges["values"] == asot.open_store("run.zarr").values().tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("exact", "in.npz"), "give --output, or --store"),
        (("exact", "in.npz", "-o", "a.npz", "--store", "s"), "--store keeps the distances"),
        (("exact", "in.npz", "--store", "s", "--part", "4/3"), "'4/3' is not a part such as 3/20"),
        (("neighbors", "in.npz"), "give --output, or --store"),
        (("neighbors", "in.npz", "-o", "a.npz", "--part", "1/3"), "give --output, or --store"),
    ],
)
def test_calls_that_mean_nothing(here, arguments, message):
    before = sorted(here.iterdir())
    assert message in run(*arguments, code=2)
    assert sorted(here.iterdir()) == before
