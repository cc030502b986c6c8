"""Text from files of strangers: nothing reaches the terminal raw, and no cell of a table is a formula."""

from __future__ import annotations

import csv
import json

import joblib
import numpy as np
import pytest
from click.testing import CliRunner

import asot
from asot.cli import cli
from asot.data.tabular import guarded, unguarded
from asot.printable import printable
from asot.sinks import Store

RNG = np.random.default_rng(0)
WILD = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "'=x", "''@y", "plain", "-5", "'-5", "'quoted'"]
D = asot.Distributions.from_list([RNG.normal(size=(4, 2)) for _ in WILD], ids=WILD)
TITLE = "\x1b]0;mine\x07\u202e"


def run(*arguments):
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], prog_name="asot")


def cells_of(path):
    with open(path, newline="") as file:
        return [cell for row in csv.reader(file) for cell in row]


def assert_no_formulas(path):
    for cell in cells_of(path):
        if cell[:1] in tuple("=+-@\t\r"):
            float(cell)


def test_control_characters_of_a_manifest_are_escaped(tmp_path):
    pytest.importorskip("zarr")
    path = tmp_path / "s.zarr"
    asot.pairwise_exact(D, sink=Store(path))
    file = path / "zarr.json"
    content = json.loads(file.read_text())
    content["attributes"]["asot"]["settings"] |= {"metric": TITLE, TITLE: "a\nb"}
    file.write_text(json.dumps(content))
    said = run("store", path).output
    assert "\\x1b]0;mine\\x07\\u202e" in said
    assert printable(said, keep="\n") == said
    assert "a\\nb" in said
    with pytest.raises(ValueError, match="another call") as told:
        asot.pairwise_exact(D, sink=Store(path))
    assert printable(str(told.value)) == str(told.value)


@pytest.mark.parametrize("command", ["info", "exact"])
def test_control_characters_in_other_files_are_escaped(tmp_path, command):
    (tmp_path / "c.csv").write_text(f"id,{TITLE}\np,1,2\n")
    more = ["-o", tmp_path / "o.npz"] if command == "exact" else []
    done = run(command, tmp_path / "c.csv", *more)
    assert done.exit_code == 1
    assert printable(done.output, keep="\n") == done.output


def test_control_characters_of_names_are_escaped(tmp_path):
    named = asot.Distributions.from_list([points for points, _ in D], ids=[*WILD[1:], TITLE])
    asot.pairwise_exact(named).save(tmp_path / "d.npz")
    done = run("outliers", tmp_path / "d.npz")
    assert done.exit_code == 0, done.output
    assert "\\x1b]0;mine" in done.output
    assert printable(done.output, keep="\n") == done.output


def test_collections_and_distances_as_tables_have_no_formulas(tmp_path):
    D.save(tmp_path / "c.csv")
    assert_no_formulas(tmp_path / "c.csv")
    assert sorted(asot.load_collection(tmp_path / "c.csv").ids.tolist()) == sorted(WILD)
    r = asot.pairwise_exact(D)
    r.save(tmp_path / "d.csv")
    assert_no_formulas(tmp_path / "d.csv")
    assert asot.load_distances(tmp_path / "d.csv").ids.tolist() == WILD
    for command, more in (("neighbors", ["--n-neighbors", 2]), ("cluster", ["--n-clusters", 2])):
        done = run(command, tmp_path / "c.csv", *more, "-o", tmp_path / "out.csv")
        assert done.exit_code == 0, done.output
        assert_no_formulas(tmp_path / "out.csv")
    done = run("groups", tmp_path / "d.csv", tmp_path / "out.csv", "--n-permutations", 9)
    assert done.exit_code == 0, done.output
    done = run("noise", tmp_path / "c.csv", "-o", tmp_path / "noise.csv")
    assert done.exit_code == 0, done.output
    assert_no_formulas(tmp_path / "noise.csv")
    done = run("outliers", tmp_path / "d.csv", "-o", tmp_path / "odd.csv")
    assert done.exit_code == 0, done.output
    assert_no_formulas(tmp_path / "odd.csv")
    done = run("view", tmp_path / "d.csv", "--labels", tmp_path / "out.csv", "-o", tmp_path / "page.html")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("text", [*WILD, "", "'", "=", "\t=", "1e5", "-inf", "é=", "'''+"])
def test_what_is_guarded_comes_back(text):
    assert unguarded(guarded(text)) == text


def test_numbers_and_plain_texts_stay_as_they_are(tmp_path):
    for value in (-5, -2.5, "-5", "+3e2", "p01", "a=b"):
        assert guarded(value) == value
    (tmp_path / "c.csv").write_text("id,x\n'-5,1\n'quoted',2\n")
    assert asot.load_collection(tmp_path / "c.csv").ids.tolist() == ["'-5", "'quoted'"]


def test_a_function_that_cannot_be_sent_is_a_sentence(tmp_path):
    with (
        joblib.parallel_config("loky", n_jobs=2),
        pytest.raises(ValueError, match=r"cannot be sent to other processes .*; a function, such as metric="),
    ):
        asot.pairwise_exact(D, metric=lambda x, y: np.abs(x - y).sum())
