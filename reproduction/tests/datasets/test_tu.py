"""TU archives: what they say is read, what they cannot mean is told."""

import numpy as np
import pytest
from asot_paper.datasets import catalogue, load_tu, load_tu_graphs
from asot_paper.datasets.tu import graphs_digest, read_tu
from asot_paper.datasets.tu_text import read_floats, read_integers

from asot import Distributions
from asot.datasets import graph_features
from reproduction.tests.datasets.made import TABLES, known, tu_zip, write
from reproduction.tests.datasets.serving import serving

START = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]], float)  # labels 5, 7, 9
EDGES = [[0, 1], [1, 2], [3, 4]]


@pytest.fixture
def load(tmp_path):
    """Load a made archive from a folder of its own."""

    def load(rounds=4, name="TINY", archive=None, eps=0.0, attributes=False, **changes):
        write(tmp_path, f"tu/{name}.zip", tu_zip(name, **changes) if archive is None else archive)
        return load_tu(name, rounds=rounds, eps=eps, attributes=attributes, folder=tmp_path, download=False)

    return load


@pytest.mark.parametrize("folder", ["TINY//", "TINY/", "", "../"])
def test_labels_that_begin_anywhere_lonely_nodes_and_double_slashes(load, folder):
    graphs, labels, about = load(folder=folder, eps=0.25)
    assert graphs.sizes.tolist() == [3, 2, 1]
    np.testing.assert_array_equal(graphs.points, graph_features(START, EDGES, eps=0.25))
    assert labels.tolist() == [1, -1, 1]
    assert labels.dtype == np.int64
    assert about["name"] == "TINY"
    assert about["features"] == "one-hot node labels, and 4 rounds of x ← 1.25 x + Σ_neighbors x: 15 dimensions"
    assert about["source"].endswith("TINY.zip")
    assert about["home"] == "https://www.chrsmrrs.com/graphkerneldatasets/TINY.zip"
    assert about["verified"] == "no checksum is known"


def test_no_rounds_leave_the_labels(load):
    graphs, _, about = load(rounds=0)
    np.testing.assert_array_equal(graphs.points, START)
    assert about["features"] == "one-hot node labels, 3 dimensions"


def test_raw_graphs_and_their_weisfeiler_lehman_labels(tmp_path):
    write(tmp_path, "tu/TINY.zip", tu_zip("TINY"))
    graphs = load_tu_graphs("TINY", folder=tmp_path, download=False)
    assert graphs.n_graphs == 3
    assert {tuple(sorted(edge)) for edge in graphs.edges.tolist()} == {tuple(edge) for edge in EDGES}
    D = Distributions.from_graphs(graphs, features="wl", rounds=2)
    assert D.sizes.tolist() == [3, 2, 1]
    labels = START.argmax(axis=1).tolist()
    around = {v: [w for edge in EDGES for w in edge if v in edge and w != v] for v in range(6)}
    for own in D.points.T:  # only which nodes are alike means anything
        assert [[a == b for a in own] for b in own] == [[a == b for a in labels] for b in labels]
        labels = [(labels[v], sorted(labels[w] for w in around[v])) for v in range(6)]
    np.testing.assert_array_equal(Distributions.from_graphs(graphs, rounds=0).points, START)


def test_attributes_take_the_place_of_labels(load):
    graphs, _, about = load(rounds=0, attributes=True)
    np.testing.assert_array_equal(graphs.points[:, 0], np.arange(6) + 0.5)
    assert about["features"] == "node attributes, 2 dimensions"
    with pytest.raises(ValueError, match=r"no member TINY_node_attributes\.txt"):
        load(attributes=True, node_attributes=None)


def test_without_labels_all_nodes_start_alike(load):
    graphs, _, about = load(rounds=1, node_labels=None)
    np.testing.assert_array_equal(graphs.points, [[1, 2], [1, 3], [1, 2], [1, 2], [1, 2], [1, 1]])
    assert "there are no node labels" in about["features"]
    with pytest.raises(ValueError, match=r"no node labels, so with rounds=0 all nodes are alike; use rounds=1"):
        load(rounds=0, node_labels=None)


def test_columns_of_labels_each_get_their_one_hot_columns(load):
    graphs, _, _ = load(rounds=0, node_labels="1, 0\n2, 0\n1, 5\n1, 0\n2, 0\n1, 5\n")
    np.testing.assert_array_equal(graphs.points[:3], [[1, 0, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1]])


def test_a_collection_may_have_no_classes_and_no_edges(load):
    graphs, labels, _ = load(rounds=1, graph_labels=None, A="")
    assert labels is None
    np.testing.assert_array_equal(graphs.points, np.hstack([START, START]))


def test_nodes_of_a_graph_need_not_be_listed_together(load):
    graphs, _, _ = load(rounds=0, graph_indicator="2\n2\n2\n1\n1\n3\n", A="1, 2\n")
    assert graphs.sizes.tolist() == [2, 3, 1]
    np.testing.assert_array_equal(graphs.points, START[[3, 4, 0, 1, 2, 5]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"A": "1, 2\n2, x\n"}, r"TINY_A\.txt, line 2: 'x' is not a number"),
        ({"A": "1, 2\n\n2\n"}, r"TINY_A\.txt, line 3 has 1 numbers, the lines before have 2"),
        ({"A": "1, 2\n\n2, 1.5\n"}, r"TINY_A\.txt, line 3 is '2 1.5'; expected whole numbers"),
        ({"A": "1\n2\n"}, r"TINY_A\.txt must have 2 numbers on every line; found 1"),
        ({"A": "1, 2\n6, 7\n"}, r"TINY_A\.txt: edge 2 is \(6, 7\), but nodes are numbered 1 to 6"),
        ({"A": "1, 2\n0, 1\n"}, r"TINY_A\.txt: edge 2 is \(0, 1\)"),
        ({"A": "3, 4\n"}, r"TINY_A\.txt: edge 1 joins node 3 of graph 1 with node 4 of graph 2"),
        ({"A": None}, r"has no member TINY_A\.txt; it holds README\.txt"),
        ({"A": "1, 2\n1, nan\n"}, r"TINY_A\.txt, line 2 is '1 nan'; numbers must be finite"),
        ({"A": "1, 1e300\n"}, r"TINY_A\.txt, line 1 .*expected whole numbers"),
        ({"A": "1, é\n"}, r"TINY_A\.txt is not a table of numbers: byte 3 is not ASCII"),
        ({"graph_indicator": ""}, r"TINY_graph_indicator\.txt is empty"),
        ({"graph_indicator": "0\n1\n1\n1\n1\n1\n", "A": ""}, r"names the graph 0; graphs are numbered from 1"),
        ({"graph_indicator": "1\n1\n1\n3\n3\n4\n"}, r"gives no node to graph 2"),
        ({"graph_indicator": "1\n1\n1\n2\n2\n99999999999\n"}, r"names the graph 99,999,999,999, but has only 6 lines"),
        ({"node_labels": "5\n7\n"}, r"TINY_node_labels\.txt has 2 lines, but there are 6 nodes; .* truncated"),
        ({"graph_labels": "1\n"}, r"TINY_graph_labels\.txt has 1 lines, but there are 3 graphs"),
        ({"graph_labels": "1, 0\n0, 1\n1, 1\n"}, r"TINY_graph_labels\.txt must have 1 number on every line; found 2"),
    ],
)
def test_what_an_archive_cannot_mean_is_reported_with_table_and_line(load, changes, message):
    with pytest.raises(ValueError, match=message):
        load(**changes)


@pytest.mark.parametrize("archive", [b"", b"<html>", tu_zip()[:-30], tu_zip()[:300]], ids=range(4))
def test_a_broken_archive_is_reported(load, archive):
    with pytest.raises(ValueError, match=r"TINY\.zip is not a zip archive"):
        load(archive=archive)


@pytest.mark.parametrize("name", ["../MUTAG", "a/b", "", ".hidden", "a b", None, 3, "a\n"])
def test_names_that_could_lead_elsewhere_are_refused(name, tmp_path):
    with pytest.raises(ValueError, match="name must be the name of a TU set"):
        load_tu(name, folder=tmp_path)


def test_a_known_name_in_small_letters_is_put_right(tmp_path):
    with pytest.raises(ValueError, match="did you mean 'MUTAG'"):
        load_tu("mutag", folder=tmp_path)


def test_without_the_archive_the_error_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"tu/MUTAG\.zip is not there.*20f52db8"):
        load_tu("MUTAG", folder=tmp_path, download=False)


# ------------------------------------------------------------------------------------------- known and unknown archives


def test_a_known_archive_must_have_the_known_bytes_or_the_known_graphs(tmp_path, monkeypatch):
    path = write(tmp_path, "tu/TINY.zip", tu_zip())
    monkeypatch.setitem(catalogue.TU_GRAPHS, "TINY", graphs_digest(read_tu(path, "TINY")))
    file = known("tu/TINY.zip", tu_zip(), "http://127.0.0.1:9/TINY.zip")
    monkeypatch.setattr(catalogue, "tu_archive", lambda name: file)
    assert load_tu("TINY", folder=tmp_path, download=False).about["verified"] == "sha256"
    path.write_bytes(tu_zip(folder="elsewhere/", A=TABLES["A"].replace("\n", "\r\n").replace(", ", ",")))
    assert load_tu("TINY", folder=tmp_path, download=False).about["verified"] == "content"
    with_attributes = load_tu("TINY", attributes=True, folder=tmp_path, download=False)
    assert with_attributes.about["verified"] == "content, without the attributes"
    for content in (tu_zip(node_labels="5\n7\n5\n7\n7\n7\n"), tu_zip()[:300], b"<html>"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"is not the known TINY\.zip.* Delete it, and it is downloaded again"):
            load_tu("TINY", folder=tmp_path, download=False)


def test_any_other_set_is_downloaded_from_its_home(tmp_path, monkeypatch, capsys):
    with serving(files={"TINY.zip": tu_zip(), "PAGE.zip": b"<html>", "OTHER.zip": tu_zip()}) as site:
        monkeypatch.setattr(catalogue, "_TU_HOME", site.url)
        monkeypatch.setenv("ASOT_DATA", str(tmp_path))
        graphs, _, about = load_tu("TINY")
        assert len(graphs) == 3
        assert about["home"] == f"{site.url}/TINY.zip"
        assert f"downloading {site.url}/TINY.zip to {tmp_path / 'tu' / 'TINY.zip'}" in capsys.readouterr().err
        with pytest.raises(ConnectionError, match="is not a zip archive"):
            load_tu("PAGE")
        with pytest.raises(ConnectionError, match=r"no member OTHER_graph_indicator\.txt"):
            load_tu("OTHER")
        with pytest.raises(ConnectionError, match=r"404 Client Error.*The names of TU sets are at"):
            load_tu("NOWHERE")
    assert [path.name for path in (tmp_path / "tu").iterdir() if path.suffix != ".lock"] == ["TINY.zip"]


# -------------------------------------------------------------------------------------------------- tables of numbers


def test_numbers_are_read_however_they_are_separated():
    for text in (b"1, 2\n3, 4\n", b"1,2\r\n3,4", b"\n 1 2 \n\n3\t4\n\n", b"1.0, 2e0\n3, 4.\n"):
        np.testing.assert_array_equal(read_integers(text, "table"), [[1, 2], [3, 4]])
    assert read_integers(b" \n", "table", columns=2).shape == (0, 2)
    assert read_floats(b"", "table").shape == (0, 1)


def test_a_hash_is_no_comment():
    with pytest.raises(ValueError, match="table, line 2: '#3' is not a number"):
        read_floats(b"1\n#3\n", "table")
