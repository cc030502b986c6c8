"""What was written before still opens: ``written_before.zip`` holds files of version 0.1.0, as of November 2026."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

import asot
from asot.sinks import Store


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("before")
    with zipfile.ZipFile(Path(__file__).with_name("written_before.zip")) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def D(folder):
    return asot.load_collection(folder / "collection.npz")


@pytest.fixture(scope="module")
def exact(D):
    return asot.pairwise_exact(D)


def test_collections(folder, D):
    assert D.ids.tolist() == [f"p{i:02d}" for i in range(12)]
    assert D.sizes.tolist() == [3 + i % 4 for i in range(12)]
    assert asot.load_collection(folder / "collection.csv") == D
    pytest.importorskip("pyarrow")
    assert asot.load_collection(folder / "collection.parquet") == D


def test_anchor_spaces(folder, D):
    space = asot.AnchorSpace.load(folder / "space.npz")
    assert space.anchors.shape == (4, 2)
    assert space.histograms(D).shape == (12, 4)


def test_distances(folder, exact):
    for name in ("distances.npz", "distances.csv", "distances.npy"):
        np.testing.assert_allclose(asot.load_distances(folder / name).matrix(), exact.matrix(), rtol=1e-12)
    bounded = asot.load_distances(folder / "bounds.npz")
    assert ((bounded.lower <= exact.values + 1e-9) & (exact.values <= bounded.upper + 1e-9)).all()


def test_stores(folder, D, exact):
    pytest.importorskip("zarr")
    every = asot.open_store(folder / "all.zarr")
    assert every.is_complete
    assert every.ids.tolist() == D.ids.tolist()
    np.testing.assert_allclose(np.asarray(every), exact.matrix(), rtol=1e-12)
    two = asot.open_store(folder / "two.zarr")
    np.testing.assert_allclose(np.asarray(two), exact.matrix()[:5, 5:], rtol=1e-6)
    assert two.fields == ("values", "status")
    listed = asot.open_store(folder / "listed.zarr")
    np.testing.assert_allclose(listed.values(), exact.matrix()[[0, 3, 11], [1, 2, 4]], rtol=1e-12)
    nearest = asot.kneighbors(D, 3)
    for name in ("nearest.zarr", "neighbors.zarr"):
        found = asot.open_store(folder / name).top_k()
        np.testing.assert_array_equal(found.indices, nearest.indices)
        np.testing.assert_allclose(found.distances, nearest.distances, rtol=1e-12)


CALLS = {
    "all": lambda D, sink: asot.pairwise_exact(D, sink=sink),
    "listed": lambda D, sink: asot.pairwise_exact(D, pairs=[(0, 1), (3, 2), (11, 4)], sink=sink),
    "nearest": lambda D, sink: asot.kneighbors(D, 3, sink=sink),
    "neighbors": lambda D, sink: asot.kneighbors(D, 3, sink=sink),
    "two": lambda D, sink: asot.pairwise_exact(D[:5], D[5:], sink=sink),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_store_is_continued_and_none_is_touched(folder, D, name):
    pytest.importorskip("zarr")
    path = folder / f"{name}.zarr"
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    with pytest.raises(
        ValueError, match=r"begun by asot 0\.1\.0, .* asot\.open_store reads what it holds: use another path"
    ):
        CALLS[name](D, Store(path))
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


def test_a_frame_that_claims_much_is_refused(folder, tmp_path):
    pytest.importorskip("zarr")
    import shutil

    shutil.copytree(folder / "listed.zarr", tmp_path / "l.zarr")
    chunk = tmp_path / "l.zarr" / "pairs" / "c" / "0" / "0"
    content = bytearray(chunk.read_bytes())
    chunk.write_bytes(content[:4] + bytes([0xE0]) + (2**40).to_bytes(8, "little") + content[6:])
    with pytest.raises(ValueError, match="does not hold 48 bytes"):
        asot.open_store(tmp_path / "l.zarr")
