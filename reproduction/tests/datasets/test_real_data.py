"""The real files, where they are: counts, classes and labels as their distributors state them."""

import os
from pathlib import Path

import numpy as np
import pytest
from asot_paper.datasets import load_mnist, load_tu, load_zinc
from asot_paper.datasets.tu import read_tu

FOLDER = os.environ.get("ASOT_DATA")
pytestmark = pytest.mark.skipif(not FOLDER, reason="the environment variable ASOT_DATA names no data folder")


def load(loader, *arguments, **options):
    try:
        return loader(*arguments, folder=FOLDER, download=False, **options)
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("name", "n", "nodes", "smallest", "largest", "edges", "isolated", "labels", "classes"),
    [
        ("MUTAG", 188, 3_371, 10, 28, 7_442, 0, 7, {1: 125, -1: 63}),
        ("PTC_MR", 344, 4_915, 2, 64, 10_108, 0, 18, {1: 152, -1: 192}),
        ("ENZYMES", 600, 19_580, 2, 126, 74_564, 106, 3, dict.fromkeys(range(1, 7), 100)),
        ("BZR", 405, 14_479, 13, 57, 31_070, 0, 10, {1: 86, -1: 319}),
        ("COX2", 467, 19_252, 32, 56, 40_578, 0, 8, {1: 102, -1: 365}),
        ("NCI1", 4_110, 122_747, 3, 111, 265_506, 428, 37, {1: 2057, 0: 2053}),
    ],
)
def test_a_tu_set_is_as_its_distributors_say(name, n, nodes, smallest, largest, edges, isolated, labels, classes):
    graphs, found, about = load(load_tu, name, rounds=1)
    assert (len(graphs), len(graphs.points)) == (n, nodes)
    assert (graphs.sizes.min(), graphs.sizes.max()) == (smallest, largest)
    assert graphs.dim == 2 * labels
    start, after = graphs.points[:, :labels], graphs.points[:, labels:]
    assert np.all(start.sum(axis=1) == 1)
    assert np.all(start.sum(axis=0) > 0)
    degrees = (after - start).sum(axis=1)
    assert (degrees.sum(), (degrees == 0).sum()) == (edges, isolated)
    assert dict(zip(*map(np.ndarray.tolist, np.unique(found, return_counts=True)), strict=True)) == classes
    assert about["verified"] in ("sha256", "content")


@pytest.mark.parametrize(("name", "columns"), [("ENZYMES", 18), ("BZR", 3), ("COX2", 3)])
def test_node_attributes_are_there(name, columns):
    graphs, _, about = load(load_tu, name, rounds=0, attributes=True)
    assert graphs.dim == columns
    assert len(read_tu(Path(about["source"]), name).graph) == len(graphs.points)


@pytest.mark.parametrize(
    ("split", "n", "points", "smallest", "largest"),
    [("test", 10_000, 1_511_219, 44, 311), ("train", 60_000, 8_994_156, 34, 351)],
)
def test_mnist_has_its_images(split, n, points, smallest, largest):
    digits, labels, about = load(load_mnist, split)
    assert (len(digits), len(digits.points)) == (n, points)
    assert (digits.sizes.min(), digits.sizes.max()) == (smallest, largest)
    assert digits.points.min() >= 0
    assert digits.points.max() == 255 / 256
    assert set(labels) == set(range(10))
    assert about["verified"] == "sha256"


def test_zinc_has_its_molecules():
    molecules, _, about = load(load_zinc, "test", atoms="elements", rounds=1)
    assert (len(molecules), len(molecules.points)) == (5_000, 115_506)
    assert np.all(molecules.points[:, :9].sum(axis=0) > 0)
    assert about["atoms"] == "elements"
    chosen = load(load_zinc, "train", atoms="elements", graphs=[0, 220_010]).distributions
    assert len(chosen) == 2


def test_zinc_with_rdkit_has_types_that_refine_the_elements():
    pytest.importorskip("rdkit")
    from asot_paper.datasets.smiles import ATOM_TYPES

    types, _, about = load(load_zinc, "test", atoms="types", rounds=0)
    elements = load(load_zinc, "test", atoms="elements", rounds=0).distributions
    assert about["verified"] == "sha256"
    symbols = ["C", "N", "O", "F", "P", "S", "Cl", "Br", "I"]
    merged = np.array([[name.split()[0] == symbol for symbol in symbols] for name in ATOM_TYPES], float)
    np.testing.assert_array_equal(types.points @ merged, elements.points)
