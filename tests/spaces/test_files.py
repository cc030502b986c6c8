"""Neurons and CAJAL's csv, from generated files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import asot

Y_SHAPE = """# a stem of length 4 that forks into two arms of length 3
1 1 0 0 0 1 -1
2 3 4 0 0 1 1
3 3 4 3 0 1 2
4 3 4 -3 0 1 2
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_points_stand_evenly_along_a_neuron(tmp_path: Path) -> None:
    path = written(tmp_path, "y.swc", Y_SHAPE)
    points = np.array([[0.5 + t, 0.0] for t in range(4)] + [[4.0, s * (0.5 + t)] for s in (1, -1) for t in range(3)])
    found = asot.load_spaces(path, n_points=10)["y"]
    np.testing.assert_allclose(found, np.linalg.norm(points[:, None] - points[None], axis=-1), atol=1e-12)


def test_paths_follow_the_tree(tmp_path: Path) -> None:
    found = asot.load_spaces([written(tmp_path, "y.swc", Y_SHAPE)], n_points=10, distances="path")["y"]
    fork = np.array([3.5, 2.5, 1.5, 0.5, 0.5, 1.5, 2.5, 0.5, 1.5, 2.5])
    branch = np.repeat([0, 1, 2], [4, 3, 3])
    expected = np.where(branch[:, None] == branch, np.abs(fork[:, None] - fork), fork[:, None] + fork)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_long_segment_between_near_points_is_measured_within_it(tmp_path: Path) -> None:
    path = written(tmp_path, "one.swc", "1 1 0 0 0 1 -1\n2 3 10 0 0 1 1\n")
    for distances in ("euclidean", "path"):
        found = asot.load_spaces(path, n_points=5, distances=distances)["one"]
        np.testing.assert_allclose(found, 2.0 * np.abs(np.subtract.outer(np.arange(5), np.arange(5))), atol=1e-12)


def test_a_folder_is_named_after_its_files(tmp_path: Path) -> None:
    written(tmp_path, "b.swc", Y_SHAPE)
    written(tmp_path, "a.swc", Y_SHAPE.replace(" 3 0 1 2", " 9 0 1 2"))
    r = asot.gromov(asot.load_spaces(tmp_path, n_points=12, distances="path"))
    assert r.ids.tolist() == ["a", "b"]
    assert r.values[0] > 0.1


@pytest.mark.parametrize("header", ["cell_id,d_0_1,d_0_2,d_1_2\n", ""])
def test_cajal_csv_is_read_with_and_without_a_header(tmp_path: Path, header: str) -> None:
    path = written(tmp_path, "icdm.csv", header + "one,1.0,2.0,1.5\ntwo,2.0,2.0,2.0\n")
    found = asot.load_spaces(path)
    assert list(found) == ["one", "two"]
    np.testing.assert_array_equal(found["one"], [[0, 1, 2], [1, 0, 1.5], [2, 1.5, 0]])


BAD = [
    ("x.csv", "one,1.0,2.0\n", "'one' has 2 distances; n points have"),
    ("x.csv", "one,1.0\ntwo,1.0,what,1.0\n", "line 2: an entry of 'two' is not a number"),
    ("x.csv", "one,1.0\none,2.0\n", "line 2: there is already a cell 'one'"),
    ("x.csv", "cell_id,d\n", "has no cells"),
    ("x.swc", "1 1 0 0\n", "is no SWC file"),
    ("x.swc", "# nothing\n", "has no nodes"),
    ("x.swc", "1 1 0 0 0 1 -1\n", "the neuron has no branch of positive length"),
    ("x.swc", "1 1 0 0 0 1 -1\n2 1 1 0 0 1 7\n", "the parent 7 is not among the nodes"),
    ("x.swc", "1 1 0 0 0 1 -1\n1 1 1 0 0 1 1\n", "two nodes have the same id"),
    ("x.swc", "1 1 0 0 0 1 -1\n2 3 1 0 0 1 4\n3 3 1 1 0 1 2\n4 3 1 2 0 1 3\n", "line 2 of the nodes lead in a circle"),
    ("x.txt", "", "load_spaces reads .swc files and CAJAL's .csv"),
]


@pytest.mark.parametrize(("name", "text", "message"), BAD)
def test_bad_files_are_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        asot.load_spaces(written(tmp_path, name, text))


def test_several_trees_have_no_paths_between_them(tmp_path: Path) -> None:
    path = written(tmp_path, "two.swc", Y_SHAPE + "5 1 9 9 9 1 -1\n6 3 9 9 0 1 5\n")
    assert asot.load_spaces(path)["two"].shape == (50, 50)
    with pytest.raises(ValueError, match="the file has several trees"):
        asot.load_spaces(path, distances="path")


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no \.swc files"):
        asot.load_spaces(tmp_path)


@pytest.mark.parametrize("distances", ["euclidean", "path"])
@pytest.mark.parametrize("scale", [2.0**-996, 2.0**990])
def test_the_unit_of_a_neuron_does_not_matter(tmp_path: Path, scale: float, distances: str) -> None:
    rows = [line.split() for line in Y_SHAPE.splitlines()[1:]]
    scaled = "".join(" ".join([*row[:2], *(repr(scale * float(x)) for x in row[2:5]), *row[5:]]) + "\n" for row in rows)
    plain = asot.load_spaces(written(tmp_path, "a.swc", Y_SHAPE), n_points=9, distances=distances)["a"]
    found = asot.load_spaces(written(tmp_path, "b.swc", scaled), n_points=9, distances=distances)["b"]
    np.testing.assert_allclose(found / scale, plain, rtol=1e-14, atol=1e-14)


def test_more_points_than_memory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MemoryError, match="use a smaller n_points="):
        asot.load_spaces(written(tmp_path, "a.swc", Y_SHAPE), n_points=10**8)
