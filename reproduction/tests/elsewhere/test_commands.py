"""Numbers of others, run again: every command in a quick form, and the parts whose answers are known."""

import itertools
import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from asot_paper.elsewhere import digits_graph, kernel_svm, shapes, wmd, wwl
from scipy.spatial.distance import squareform


@pytest.fixture(autouse=True)
def _few_settings(monkeypatch):
    """Few γ, C and h to choose from, so that a test takes seconds."""
    monkeypatch.setattr(kernel_svm, "GAMMAS", np.array([0.1, 1.0, 10.0]))
    monkeypatch.setattr(kernel_svm, "PENALTIES", np.array([1.0, 100.0]))
    monkeypatch.setattr(wwl, "ROUNDS", range(2))


def run(monkeypatch, tmp_path, module, *options):
    """A command, and the table that it wrote."""
    output = tmp_path / "table.md"
    monkeypatch.setattr(sys, "argv", ["elsewhere", *options, "-o", str(output)])
    module.main()
    return output.read_text()


def rows(table):
    return [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")][2:]


@pytest.mark.parametrize("name", ["digits_graph", "shapes", "wmd", "wwl"])
def test_every_table_is_a_command(name):
    found = subprocess.run(
        [sys.executable, "-m", f"asot_paper.elsewhere.{name}", "--help"], capture_output=True, text=True, check=True
    )
    assert "--random-state" in found.stdout


# -------------------------------------------------------------------------------------------------------------- kernel


def two_groups(n=40):
    """Distances of points in two far groups, and their groups."""
    x = np.concatenate([np.linspace(0, 1, n // 2), np.linspace(9, 10, n // 2)])
    return np.abs(x[:, None] - x), np.repeat([0, 1], n // 2)


def test_far_groups_are_told_apart():
    matrix, y = two_groups()
    assert kernel_svm.accuracies([matrix], y, [0, 1]) == [1.0, 1.0]


def test_the_better_matrix_is_chosen_within_the_training_part():
    matrix, y = two_groups()
    noise = squareform(np.random.default_rng(0).random(len(y) * (len(y) - 1) // 2))
    assert kernel_svm.accuracies([noise, matrix], y, [0]) == [1.0]
    assert kernel_svm.accuracies([noise], y, [0])[0] < 0.8


# -------------------------------------------------------------------------------------------------------------- shapes


@pytest.mark.parametrize("name", list(shapes.SHAPES))
def test_a_shape_has_its_size(name):
    cloud = shapes.SHAPES[name](np.random.default_rng(0), 400)
    assert cloud.shape == (400, 3)
    places = {"3 clusters": 3, "3 clusters of 3": 9}.get(name, 400)
    assert len(np.unique(cloud, axis=0)) == places


def test_round_shapes_are_round():
    rng = np.random.default_rng(0)
    for name in ("circle", "sphere"):
        np.testing.assert_allclose(np.linalg.norm(shapes.SHAPES[name](rng, 50), axis=1), 0.5)
    torus = shapes.SHAPES["torus"](rng, 50)
    np.testing.assert_allclose(np.hypot(np.hypot(torus[:, 0], torus[:, 1]) - 0.5, torus[:, 2]), 0.25)


def test_a_circle_has_one_long_loop():
    pytest.importorskip("gudhi")
    angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    circle = np.stack([np.cos(angle), np.sin(angle), np.zeros(60)], axis=1)
    components, loops = shapes.diagrams(circle + 1e-6 * np.random.default_rng(0).normal(size=circle.shape))
    assert len(components) == 59
    lives = np.sort(loops[:, 1] - loops[:, 0])
    assert lives[-1] > 0.9
    assert (lives[:-1] < 0.1).all()


def test_shapes_in_a_quick_form(monkeypatch, tmp_path):
    pytest.importorskip("gudhi")
    small = ["--per-class", "10", "--points", "40", "--repetitions", "1", "--pairs", "5"]
    table = run(monkeypatch, tmp_path, shapes, *small)
    found = rows(table)
    assert [row[0].strip() for row in found] == ["H0, noise 0.05", "H1, noise 0.05", "H0, noise 0.1", "H1, noise 0.1"]
    assert all(float(row[6]) < 1e-9 for row in found)  # GUDHI's distances are ours
    assert all(float(row[2].split()[0]) > 30 for row in found)  # better than a guess
    assert "--per-class 10 --points 40 --repetitions 1 --pairs 5`, seed 0" in table


# ------------------------------------------------------------------------------------------------------------- digits


def test_wrong_neighbors_are_counted_and_ties_are_not(monkeypatch):
    monkeypatch.setattr(digits_graph, "K", 2)
    distances = np.array([[np.inf, 1.0, 2.0, 2.0], [1.0, np.inf, 3.0, 4.0]])
    assert digits_graph.wrong(np.array([[1, 3], [0, 2]]), distances) == 0
    assert digits_graph.wrong(np.array([[1, 3], [0, 3]]), distances) == 1


def test_the_digits_graph_in_a_quick_form(monkeypatch, tmp_path):
    monkeypatch.setattr(digits_graph, "rivals", lambda images: {})
    table = run(monkeypatch, tmp_path, digits_graph, "--digits", "60")
    found = {row[0].strip(): row[2].strip() for row in rows(table)}
    assert found["`asot.kneighbors` here, certain"] == "0"
    assert found["ANNchor (its page)"] == "8"
    assert "Not installed here: annchor, pynndescent" in table


# ---------------------------------------------------------------------------------------------------------- documents


def made_tweets(folder):
    """Two classes whose words are far apart."""
    rng = np.random.default_rng(0)
    vectors = np.concatenate([[1.0, 0.0] + 0.1 * rng.normal(size=(5, 2)), [0.0, 1.0] + 0.1 * rng.normal(size=(5, 2))])
    label = np.arange(80) % 2
    words = np.concatenate([5 * one + rng.choice(5, 3, replace=False) for one in label])
    (folder / "more").mkdir()
    np.savez(
        folder / "more" / "wmd_twitter.npz", vectors=vectors.astype(np.float32), label=label, word_index=words,
        count=np.ones(240, dtype=np.int64), doc_ptr=np.arange(0, 241, 3),
    )  # fmt: skip


def test_tweets_in_a_quick_form(monkeypatch, tmp_path):
    made_tweets(tmp_path)
    table = run(monkeypatch, tmp_path, wmd, "--data", str(tmp_path), "--documents", "70", "--repetitions", "2")
    ours = next(row for row in rows(table) if row[0].strip().startswith("asot"))
    assert ours[1].strip() == "0.0 ± 0.0"
    assert "70 tweets of three classes" in table


def test_distances_of_tweets_are_gensims(tmp_path):
    pytest.importorskip("gensim")
    made_tweets(tmp_path)
    with np.load(tmp_path / "more" / "wmd_twitter.npz") as file:
        data = dict(file)
    found = wmd.seconds_of_gensim(data, wmd.tweets(data)[0])
    assert found is not None
    assert found[2] < 1e-6


# -------------------------------------------------------------------------------------------------------------- graphs


def test_labels_are_refined_by_neighbors():
    edges = np.array([[0, 1], [1, 0], [1, 2], [2, 1]])  # a path of three equal nodes
    labels = wwl.refined_labels(np.zeros(3, dtype=np.int64), edges, rounds=2)
    assert labels.shape == (3, 3)
    assert len(set(labels[:, 0])) == 1
    assert labels[0, 1] == labels[2, 1] != labels[1, 1]


def test_attributes_are_averaged_with_neighbors():
    edges = np.array([[0, 1], [1, 0]])
    blocks = wwl.averaged_attributes(np.array([[1.0], [3.0], [5.0]]), edges, rounds=1)
    standard = (np.array([1.0, 3.0, 5.0]) - 3.0) / np.std([1.0, 3.0, 5.0])
    np.testing.assert_allclose(blocks[:, 0], standard)
    np.testing.assert_allclose(blocks[:2, 1], standard[:2].mean())
    np.testing.assert_allclose(blocks[2, 1], standard[2] / 2)  # no neighbors


def made_graphs(folder):
    """MUTAG in name: paths of one label, and paths of another."""
    sizes = 3 + np.arange(40) % 3
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    edges = [(v, v + 1) for a, b in itertools.pairwise(offsets) for v in range(a + 1, b)]
    both = edges + [(b, a) for a, b in edges]
    members = {
        "A": [f"{a}, {b}" for a, b in both],
        "graph_indicator": np.repeat(np.arange(1, 41), sizes),
        "node_labels": np.repeat(np.arange(40) % 2, sizes),
        "graph_labels": np.arange(40) % 2,
    }
    (folder / "tu").mkdir()
    with zipfile.ZipFile(folder / "tu" / "MUTAG.zip", "w") as archive:
        for name, lines in members.items():
            archive.writestr(f"MUTAG/MUTAG_{name}.txt", "\n".join(map(str, lines)) + "\n")


def test_graphs_in_a_quick_form(monkeypatch, tmp_path):
    made_graphs(tmp_path)
    table = run(monkeypatch, tmp_path, wwl, "--data", str(tmp_path), "--sets", "MUTAG", "--repetitions", "1")
    [found] = rows(table)
    assert found[3].strip() == "100.00"
    assert "repetitions of ours: 1" in table


def test_kept_accuracies_are_not_computed_again(monkeypatch, tmp_path):
    made_graphs(tmp_path)
    kept = tmp_path / "kept.json"
    options = ["--data", str(tmp_path), "--sets", "MUTAG", "--kept", str(kept), "--repetitions"]
    run(monkeypatch, tmp_path, wwl, *options, "1")
    assert json.loads(kept.read_text()) == {"MUTAG, labels, seed 0": 1.0}
    kept.write_text(json.dumps({"MUTAG, labels, seed 0": 0.5}))
    assert rows(run(monkeypatch, tmp_path, wwl, *options, "2"))[0][3].strip() == "75.00 ± 25.00"
    assert json.loads(kept.read_text()) == {"MUTAG, labels, seed 0": 0.5, "MUTAG, labels, seed 1": 1.0}


def test_distances_of_graphs_are_those_of_the_package(tmp_path):
    pytest.importorskip("wwl")
    made_graphs(tmp_path)
    found = wwl.seconds_of_wwl(wwl.read_tu(tmp_path / "tu" / "MUTAG.zip", "MUTAG"), "labels", 2)
    assert found is not None
    assert found[2] < 1e-9
