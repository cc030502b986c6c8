"""`asot index`: what a folder holds after every command."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from click.testing import CliRunner

import asot
from asot.cli import cli
from asot.index.recall import PAYS_FROM, certain
from tests.index.test_index import clouds


def run(*arguments):
    return CliRunner().invoke(cli, ["index", *map(str, arguments)])


@pytest.fixture
def files(tmp_path):
    asot.Distributions.from_list(clouds(8), ids=[f"m{i}" for i in range(8)]).save(tmp_path / "members.npz")
    return tmp_path / "index", tmp_path / "members.npz"


def test_members_are_added_removed_and_found(files):
    folder, members = files
    assert "8 added, 8 members" in run("add", folder, members, "--metric", "cityblock").output
    assert "1 removed, 7 members" in run("remove", folder, "m3").output
    assert 'metric: "cityblock"' in run("info", folder).output
    lines = run("query", folder, members, "--n-neighbors", 1).output.splitlines()
    assert lines[1] == "m0,1,m0,0.0"
    assert len(lines) == 9
    assert "8 added, 8 members" in run("add", folder, members, "--replace").output


def test_what_cannot_be_is_one_line(files):
    folder, members = files
    run("add", folder, members)
    assert "m0 is in the index already, and nothing was added; --replace" in run("add", folder, members).output
    assert "has metric='euclidean', not 'cityblock'" in run("add", folder, members, "--metric", "cityblock").output
    assert "'x' is not in the index" in run("remove", folder, "x").output
    for word in ("info", "query", "remove"):
        given = {"info": [], "query": [members], "remove": ["m0"]}[word]
        found = run(word, folder.parent / "nothing", *given).output
        assert "there is no index at" in found
        assert "asot index add" in found
    assert "it has no manifest.json" in run("info", folder.parent).output


def test_a_query_that_ends_early_says_what_is_certain(files):
    folder, members = files
    run("add", folder, members)
    lines = run("query", folder, members, "--n-neighbors", 2, "--max-solves", 3).output.splitlines()
    assert lines[0] == "id,rank,neighbor,distance,lower"
    assert all(float(line.split(",")[4]) <= float(line.split(",")[3]) for line in lines[1:])
    target = folder.parent / "found.npz"
    run("query", folder, members, "--n-neighbors", 2, "--max-solves", 3, "-o", target)
    assert np.load(target)["lower"].shape == (8, 2)


@pytest.mark.parametrize("count", [3, PAYS_FROM])
def test_few_queries_rehearse_no_stated_recall(files, monkeypatch, count):
    folder, members = files
    rehearsed = []

    def rehearse(ask, slots, n_neighbors, recall, seed):
        rehearsed.append(recall)
        return certain(recall)

    monkeypatch.setattr("asot.index.index.rehearse", rehearse)
    run("add", folder, members)
    queries = members.parent / "queries.npz"
    asot.Distributions.from_list(clouds(count, seed=1)).save(queries)
    found = run("query", folder, queries, "--n-neighbors", 1, "--recall", 0.98)
    assert found.exit_code == 0
    assert rehearsed == ([] if count == 3 else [0.98])


def test_a_table_of_neighbors_keeps_ids_apart(tmp_path):
    names = ["a,b", 'q"x', "c\nd"]
    asot.Distributions.from_list(clouds(3), ids=names).save(tmp_path / "odd.npz")
    run("add", tmp_path / "index", tmp_path / "odd.npz")
    found = run("query", tmp_path / "index", tmp_path / "odd.npz", "--n-neighbors", 1).output
    rows = list(csv.reader(io.StringIO(found)))
    assert [row[2] for row in rows[1:]] == names


def test_an_id_that_is_named_twice_is_removed_once(files):
    folder, members = files
    run("add", folder, members)
    assert "1 removed, 7 members" in run("remove", folder, "m3", "m3").output


def test_neighbors_are_not_written_among_the_files_of_an_index(files):
    folder, members = files
    run("add", folder, members)
    for name in ("settings.npz", "g000001/points.csv"):
        found = run("query", folder, members, "-o", folder / name)
        assert "would be among the files of the index" in found.output
    assert "members: 8" in run("info", folder).output


def test_a_recall_that_is_no_number_is_refused(files):
    folder, members = files
    run("add", folder, members)
    assert "recall must be a number between 0 and 1" in run("query", folder, members, "--recall", "nan").output


def test_an_index_that_cannot_have_its_first_members_is_not_made(files):
    folder, members = files
    assert "points must be 0 or 1" in run("add", folder, members, "--metric", "jaccard").output
    assert not folder.exists()
    assert "8 added, 8 members" in run("add", folder, members).output
