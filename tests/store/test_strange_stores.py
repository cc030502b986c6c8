"""Stores that somebody else wrote, or that were damaged: nothing is executed, little memory is taken, the same call
mends what it finds, and every error is a sentence."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest

import asot
from asot.sinks import Store, TopK
from asot.store import stored as stored_module
from asot.store.metadata import _zstd_size

zarr = pytest.importorskip("zarr")

RNG = np.random.default_rng(0)
COST = 1.0 - np.eye(6)
A = RNG.dirichlet(np.ones(6), 150)
NAMED = asot.Distributions.from_list([RNG.normal(size=(4, 2)) for _ in range(8)], ids=[f"P{i}" for i in range(8)])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.zarr"


def fill(path, **options):
    return asot.emd_many(A, cost=COST, sink=Store(path, **options))


def edit(file, change):
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def flip(chunk, at=5):
    content = bytearray(chunk.read_bytes())
    content[at] ^= 255
    chunk.write_bytes(content)


class Boom:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return open, (self.target, "w")


# ------------------------------------------------------------------------------------------- what arrays may be


def test_metadata_of_another_format_is_never_opened(path, tmp_path):
    fill(path)
    array = path / "values"
    (array / "zarr.json").unlink()
    filters = [{"id": "vlen-utf8"}, {"id": "pickle"}]
    told = {"zarr_format": 2, "shape": [4, 4], "chunks": [64, 64], "dtype": "|O", "compressor": None}
    (array / ".zarray").write_text(json.dumps(told | {"fill_value": None, "order": "C", "filters": filters}))
    (array / "0.0").write_bytes(pickle.dumps(Boom(str(tmp_path / "pwned"))))
    for call in (lambda: asot.open_store(path)[0, 1], lambda: asot.open_store(path).zarr()["values"][:]):
        with pytest.raises(ValueError, match=r"the store is damaged: .*values/zarr.json cannot be read"):
            call()
    with pytest.raises(ValueError, match="the store is damaged"):
        fill(path)
    assert not (tmp_path / "pwned").exists()


CHANGES = {
    "chunks": lambda m: m["chunk_grid"]["configuration"].update(chunk_shape=[40_000, 40_000]),
    "shape": lambda m: m.update(shape=[10**9, 10**9]),
    "type": lambda m: m.update(data_type="float32"),
    "type with an object": lambda m: m.update(data_type={"name": "null_terminated_bytes", "configuration": {}}),
    "codec": lambda m: m["codecs"].insert(1, {"name": "gzip", "configuration": {"level": 5}}),
    "codec of another library": lambda m: m["codecs"].append({"name": "numcodecs.bz2", "configuration": {}}),
    "no checksum": lambda m: m["codecs"].pop(),
    "big endian": lambda m: m["codecs"][0].update(configuration={"endian": "big"}),
    "shards": lambda m: m.update(codecs=[{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 2]}}]),
    "codecs": lambda m: m.update(codecs="crc32c"),
    "fill": lambda m: m.update(fill_value=0.0),
    "keys": lambda m: m["chunk_key_encoding"]["configuration"].update(separator="."),
    "transformers": lambda m: m.update(storage_transformers=[{"name": "anything"}]),
    "unknown": lambda m: m.update(must_understand="this"),
    "format": lambda m: m.update(zarr_format=2),
    "node": lambda m: m.update(node_type="group"),
    "nothing": lambda m: m.clear(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_array_that_asot_does_not_write_is_refused(path, change):
    fill(path)
    edit(path / "values" / "zarr.json", change)
    with pytest.raises(ValueError, match=r"the store is damaged, or not from asot: '\w+' in .*values/zarr.json"):
        asot.open_store(path)
    with pytest.raises(ValueError, match="the store is damaged"):
        fill(path)


@pytest.mark.parametrize(
    "content", ["[" * 100_000, "[]", "7", "{", ""], ids=["deep", "list", "number", "open", "empty"]
)
def test_what_is_not_a_description_is_refused(path, content):
    fill(path)
    (path / "values" / "zarr.json").write_text(content)
    with pytest.raises(ValueError, match=r"values/zarr\.json is not JSON"):
        asot.open_store(path)
    (path / "zarr.json").write_text(content)
    with pytest.raises(ValueError, match="is not an asot store"):
        asot.open_store(path)


@pytest.mark.parametrize("size", [100, 10**9])
def test_a_chunk_of_another_size_is_named_and_not_read(path, size):
    stored = fill(path)
    os.truncate(path / "values" / "c" / "0" / "1", size)
    with pytest.raises(ValueError, match=rf"values/c/0/1 is damaged \(it has {size:,} bytes, not 32,772\)"):
        stored[0, 100]
    assert stored[0, 1] > 0
    assert fill(path).is_complete


LISTED = [(0, 1), (3, 2), (100, 7)]
WRONG_LISTS = {
    "long": lambda m: m.update(shape=[2**30, 2]),
    "wide": lambda m: m.update(shape=[3, 2**20]),
    "flat": lambda m: m.update(shape=[6]),
    "small chunks": lambda m: m["chunk_grid"]["configuration"].update(chunk_shape=[1, 1]),
    "large chunks": lambda m: m["chunk_grid"]["configuration"].update(chunk_shape=[2**30, 2]),
    "no chunks": lambda m: m["chunk_grid"].update(configuration=[1]),
    "type": lambda m: m.update(data_type="string"),
    "codec": lambda m: m["codecs"].append({"name": "blosc", "configuration": {}}),
}


@pytest.mark.parametrize("change", WRONG_LISTS.values(), ids=WRONG_LISTS)
def test_a_list_of_pairs_that_asot_does_not_write_is_refused(path, change):
    asot.emd_many(A, cost=COST, pairs=LISTED, sink=Store(path))
    edit(path / "pairs" / "zarr.json", change)
    with pytest.raises(ValueError, match=r"the store is damaged|takes about 17.2 GB of memory"):
        asot.open_store(path)


def test_pairs_outside_the_table_are_refused(path):
    asot.emd_many(A, cost=COST, pairs=LISTED, sink=Store(path))
    zarr.open_array(str(path / "pairs"), mode="r+")[:] = [[0, 1], [3, 2], [150, 7]]
    with pytest.raises(ValueError, match="some lie outside the table"):
        asot.open_store(path)
    flip(path / "pairs" / "c" / "0" / "0")
    with pytest.raises(ValueError, match=r"the pairs in .* are damaged"):
        asot.open_store(path)


@pytest.mark.skipif(os.name == "nt", reason="needs devices that are files")
@pytest.mark.parametrize("name", ["zarr.json", "values/zarr.json", "values/c/0", "pairs/zarr.json", "pairs/c/0/0"])
def test_a_device_in_place_of_a_file_is_not_read(path, name):
    asot.emd_many(A, cost=COST, pairs=LISTED, sink=Store(path))
    (path / name).unlink()
    (path / name).symlink_to("/dev/zero")
    with pytest.raises(ValueError, match=r"damaged|not an asot store"):
        asot.open_store(path).values()


@pytest.mark.parametrize("n", [1, 100, 300, 70_000, 10**6])
def test_the_size_of_a_frame_is_read_from_its_head(tmp_path, n):
    numcodecs = pytest.importorskip("numcodecs")
    (tmp_path / "frame").write_bytes(numcodecs.Zstd().encode(bytes(n)))
    assert _zstd_size(tmp_path / "frame") == n
    (tmp_path / "frame").write_bytes(bytes(n))
    assert _zstd_size(tmp_path / "frame") == -1


def test_a_long_list_of_pairs_has_long_blocks(tmp_path):
    from asot.run.pairs import ListedPairs
    from asot.store.files import begin, open_files, pairs_record

    pairs = ListedPairs(np.ones((10**6, 2), dtype=np.int64), 3, 3, True)
    manifest = {"format": 1, "asot": "0", "pairs": pairs_record(pairs), "side": 2**17}
    manifest |= {"n_neighbors": None, "fields": {"values": "float32"}, "settings": {}, "inputs": {}}
    begin(tmp_path / "l.zarr", manifest, pairs)
    assert len(open_files(tmp_path / "l.zarr").grid) == 8


# ------------------------------------------------------------------------------------------- damaged manifests

MANIFESTS = {
    "no fields": lambda m: m.update(fields={}),
    "fields in a list": lambda m: m.update(fields=["values"]),
    "a type in a list": lambda m: m.update(fields={"values": ["float64"]}),
    "another type": lambda m: m.update(fields={"values": "int64"}),
    "settings in a list": lambda m: m.update(settings=[1]),
    "deep settings": lambda m: m.update(settings={"a": {"b": 1}}),
    "no settings": lambda m: m.pop("settings"),
    "inputs": lambda m: m.update(inputs="all"),
    "no neighbors": lambda m: m.update(n_neighbors=0),
    "neighbors of values": lambda m: m.update(n_neighbors=3),
    "neighbors": lambda m: m.update(n_neighbors=[3]),
    "side": lambda m: m.update(side="64"),
    "a large side": lambda m: m.update(side=40_000),
    "a true side": lambda m: m.update(side=True),
    "plan": lambda m: m.update(plan=["strips"]),
    "pairs": lambda m: m.update(pairs=[1, 2]),
    "kind": lambda m: m["pairs"].update(kind={}),
    "not square": lambda m: m["pairs"].update(n_columns=151),
    "symmetric": lambda m: m["pairs"].update(symmetric="yes"),
    "version": lambda m: m.update(asot=None),
    "missing version": lambda m: m.pop("asot"),
}


@pytest.mark.parametrize("change", MANIFESTS.values(), ids=MANIFESTS)
def test_a_damaged_manifest_is_a_sentence(path, change):
    fill(path)
    edit(path / "zarr.json", lambda content: change(content["attributes"]["asot"]))
    with pytest.raises(ValueError, match=r"or damaged: '\w+' in its manifest makes no sense"):
        asot.open_store(path)
    with pytest.raises(ValueError, match=r"or damaged: '\w+' in its manifest makes no sense"):
        fill(path)


# ------------------------------------------------------------------------------------------- mended


@pytest.mark.parametrize(
    "options", [{}, {"keep": TopK(3)}, {"fields": ["values", "status"]}], ids=["all", "nearest", "fields"]
)
def test_the_same_call_mends_a_flipped_byte(path, options):
    fill(path, **options)
    chunks = sorted(file for file in path.rglob("*") if file.name.isdecimal() and file.is_file())
    before = [file.read_bytes() for file in chunks]
    for file in chunks[:: max(1, len(chunks) // 2)]:
        flip(file, at=-20)
    assert fill(path, **options).is_complete
    assert [file.read_bytes() for file in chunks] == before


def test_the_same_search_mends_a_flipped_byte(path):
    expected = asot.kneighbors(NAMED, 2)
    asot.kneighbors(NAMED, 2, sink=Store(path))
    flip(path / "indices" / "c" / "0" / "0")
    with pytest.raises(ValueError, match="indices/c/0/0 is damaged"):
        asot.open_store(path).top_k()
    found = asot.kneighbors(NAMED, 2, sink=Store(path)).top_k()
    np.testing.assert_array_equal(found.indices, expected.indices)


def test_a_part_only_looks_at_its_own_blocks(path):
    fill(path)
    last = path / "values" / "c" / "2" / "2"
    flip(last)
    damaged = last.read_bytes()
    fill(path, part=(1, 3))
    assert last.read_bytes() == damaged
    fill(path, part=(3, 3))
    assert last.read_bytes() != damaged


# ------------------------------------------------------------------------------------------- names


def test_stored_neighbors_keep_the_names(path, tmp_path):
    asot.kneighbors(NAMED, 3, sink=Store(path))
    stored, expected = asot.open_store(path), asot.kneighbors(NAMED, 3)
    assert stored.ids.tolist() == NAMED.ids.tolist()
    assert stored.top_k().neighbor_ids.tolist() == expected.neighbor_ids.tolist()
    between = asot.kneighbors(NAMED[:3], NAMED[3:], 2, sink=Store(tmp_path / "two.zarr"))
    assert between.names[0].tolist() == NAMED.ids[:3].tolist()
    assert between.top_k().neighbor_ids.tolist() == asot.kneighbors(NAMED[:3], NAMED[3:], 2).neighbor_ids.tolist()


CALLS = {
    "distances": lambda D, sink: asot.pairwise_exact(D, sink=sink),
    "neighbors": lambda D, sink: asot.kneighbors(D, 3, sink=sink),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_names_that_are_there_are_not_written_again(path, call, monkeypatch):
    call(NAMED, Store(path))

    def refuse(*arguments):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(stored_module, "save_arrays", refuse)
    assert call(NAMED, Store(path)).ids.tolist() == NAMED.ids.tolist()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_the_same_call_reads_a_complete_store_that_cannot_be_written(path):
    asot.pairwise_exact(NAMED, sink=Store(path))
    for folder, _, _ in os.walk(path):
        os.chmod(folder, 0o500)
    try:
        assert asot.pairwise_exact(NAMED, sink=Store(path)).is_complete
    finally:
        for folder, _, _ in os.walk(path):
            os.chmod(folder, 0o700)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_returns_its_own_names(path, call):
    call(NAMED, Store(path))
    plain = asot.Distributions.from_list([NAMED[i][0] for i in range(8)])
    assert call(plain, Store(path)).ids.tolist() == list(range(8))
    others = asot.Distributions.from_list([NAMED[i][0] for i in range(8)], ids=list("abcdefgh"))
    assert call(others, Store(path)).ids.tolist() == list("abcdefgh")
    field = "values" if (path / "values").exists() else "distances"
    flip(path / field / "names.npz", at=-60)
    assert call(others, Store(path)).ids.tolist() == list("abcdefgh")


# ------------------------------------------------------------------------------------------- one file of all values


def test_a_link_with_a_temporary_name_is_not_followed(path, tmp_path):
    stored = fill(path)
    victim = tmp_path / "victim.txt"
    victim.write_text("dear")
    (tmp_path / ".all.npy.tmp").symlink_to(victim)
    stored.condensed(tmp_path / "all.npy")
    assert victim.read_text() == "dear"
    assert not (tmp_path / "all.npy").is_symlink()
    np.testing.assert_array_equal(np.load(tmp_path / "all.npy"), stored.values())


def test_one_file_has_every_field_of_every_kind_of_pairs(tmp_path):
    for name, options in {"two": {"B": A[:70]}, "list": {"pairs": LISTED}, "all": {}}.items():
        sink = Store(tmp_path / f"{name}.zarr", fields=["values", "status"], dtype="float32")
        stored = asot.emd_many(A, cost=COST, sink=sink, **options)
        for field in ("values", "status"):
            mapped = stored.condensed(tmp_path / "all.npy", field)
            np.testing.assert_array_equal(mapped, stored.values(field))
            assert mapped.dtype == (np.float32 if field == "values" else np.int8)
        with pytest.raises(ValueError, match="the store has no 'lower'"):
            stored.condensed(tmp_path / "none.npy", "lower")
        assert not (tmp_path / "none.npy").exists()


SMALL_DISK = """
import sys, asot
try:
    asot.open_store(sys.argv[1]).condensed(sys.argv[2] + "/all.npy")
except OSError as error:
    print("told:", error)
"""


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs a disk of its own")
def test_a_full_disk_is_an_error_and_not_the_end_of_the_process(path, tmp_path):
    fill(path)
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=60k none "$1" && shift && exec "$@"', "sh", disk]
    if subprocess.run([*mount, "true"], capture_output=True).returncode != 0:
        pytest.skip("this system lets nobody mount a disk")
    done = subprocess.run([*mount, sys.executable, "-c", SMALL_DISK, path, disk], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "told: cannot write" in done.stdout


@pytest.mark.skipif(os.name == "nt", reason="needs a limit on the size of files")
def test_a_file_that_cannot_be_written_whole_leaves_nothing(path, tmp_path):
    fill(path)
    target = tmp_path / "limited"
    target.mkdir()
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (50000, 50000))\n"
    done = subprocess.run([sys.executable, "-c", limit + SMALL_DISK, path, target], capture_output=True, text=True)
    assert "told: cannot write" in done.stdout, done.stderr
    assert list(target.iterdir()) == []
