"""`asot.Index` as a folder: what is final stays, what was cut off never was, and damage is refused."""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

import asot
from tests.index.histories import PlainList, check_neighbors, cloud, step
from tests.index.test_index import clouds


@pytest.fixture
def path(tmp_path):
    return tmp_path / "index"


def saved(path, count=300, **words):
    index = asot.Index(**words)
    index.add(clouds(count), ids=[f"m{i}" for i in range(count)])
    index.save(path)
    return path


@pytest.mark.parametrize("seed", range(2))
def test_a_random_history_with_reopenings_ends_where_a_plain_list_does(path, seed):
    rng = np.random.default_rng(seed)
    plain = PlainList()
    asot.Index(random_state=seed).save(path)
    index = asot.Index.open(path, mode="r+")
    for turn in range(50):
        step(rng, index, plain)
        if turn % 5 == 0:
            plain.check(index, [cloud(rng) for _ in range(2)], 4)
        if turn % 16 == 15:
            rng.choice([index.compact, index.rebuild])()
        if turn % 7 == 6:
            index.close()
            plain.check(asot.Index.open(path), [cloud(rng)], 3)
            index = asot.Index.open(path, mode="r+")
    index.close()


@pytest.mark.parametrize(
    "words",
    [
        {"p": 2.5, "metric": "cityblock"},
        {"metric": "mahalanobis", "metric_params": {"VI": [[2.0, 0.5], [0.5, 1.0]]}},
        {"metric": "minkowski", "metric_params": {"p": 1.7}},
        {"metric": "great_circle", "metric_params": {"radius": 6371.0}},
        {"unmatched": "diagonal"},
        {"unmatched": 50.0},
    ],
    ids=str,
)
def test_an_index_comes_back_with_its_distance(path, words):
    members = [np.tanh(one) for one in clouds(280)]
    index = asot.Index(**words)
    index.add(members)
    index.save(path)
    again = asot.Index.open(path)
    np.testing.assert_array_equal(again.query(members[:3], 4).indices, index.query(members[:3], 4).indices)
    check_neighbors(again.query(members[:3], 4), asot.pairwise_exact(members[:3], members, **words).matrix(), 4)


def test_a_reader_keeps_what_it_saw_while_a_writer_goes_on(path):
    saved(path)
    reader, writer = asot.Index.open(path), asot.Index.open(path, mode="r+")
    before = reader.query(clouds(2, 1), 4)
    for i in range(5):
        writer.add(clouds(40, 50 + i))
        writer.remove(writer.ids[:30])
        (writer.compact, writer.rebuild)[i % 2]()
    after = reader.query(clouds(2, 1), 4)
    np.testing.assert_array_equal(before.distances, after.distances)
    assert before.neighbor_ids.tolist() == after.neighbor_ids.tolist()
    assert len(asot.Index.open(path)) == len(writer) == 300 + 5 * 10
    writer.close()


def test_one_process_at_a_time_writes(path):
    saved(path, 3)
    with asot.Index.open(path, mode="r+") as writer:
        with pytest.raises(BlockingIOError, match="is being written by another process"):
            asot.Index.open(path, mode="r+")
        writer.add(clouds(1))
    with asot.Index.open(path, mode="r+") as writer:
        assert len(writer) == 4
    with pytest.raises(ValueError, match="is closed"):
        writer.add(clouds(1))
    with pytest.raises(ValueError, match="opened to be read"):
        asot.Index.open(path).remove("m0")


def test_saving_makes_a_folder_and_never_changes_one(path, tmp_path):
    saved(path, 3)
    with pytest.raises(FileExistsError, match="exists"):
        asot.Index().save(path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        asot.Index().save(tmp_path / "no" / "where")
    with pytest.raises(ValueError, match="a file cannot hold a function"):
        asot.Index(metric=lambda x, y: float(np.abs(x - y).sum())).save(tmp_path / "other")
    with pytest.raises(FileNotFoundError, match="there is no index at"):
        asot.Index.open(tmp_path / "other")
    with pytest.raises(ValueError, match="mode must be"):
        asot.Index.open(path, mode="w")
    assert [entry.name for entry in tmp_path.iterdir()] == ["index"]


def generation(path):
    return path / json.loads((path / "manifest.json").read_text())["generation"]


@pytest.mark.parametrize("cut", [1, 50, 103])
def test_a_record_that_was_cut_off_never_happened(path, cut):
    saved(path)
    with asot.Index.open(path, mode="r+") as index:
        index.add(clouds(10, 9), ids=[f"n{i}" for i in range(10)])
    journal = generation(path) / "journal.bin"
    journal.write_bytes(journal.read_bytes()[:-cut])
    assert len(asot.Index.open(path)) == 300
    with asot.Index.open(path, mode="r+") as index:
        assert len(index) == 300
        index.add(clouds(5, 8), ids=[f"n{i}" for i in range(5)])
        everyone = clouds(300) + clouds(5, 8)
        check_neighbors(index.query(clouds(3, 1), 4), asot.pairwise_exact(clouds(3, 1), everyone).matrix(), 4)


def test_a_last_record_that_is_damaged_is_left_out_with_a_warning(path):
    saved(path)
    with asot.Index.open(path, mode="r+") as index:
        index.add(clouds(10, 9), ids=[f"n{i}" for i in range(10)])
    journal = generation(path) / "journal.bin"
    journal.write_bytes(journal.read_bytes()[:-50] + bytes(50))
    with pytest.warns(RuntimeWarning, match=r"journal\.bin is damaged: .* left out; opened for writing"):
        assert len(asot.Index.open(path)) == 300
    with pytest.warns(RuntimeWarning, match="left out and now removed"), asot.Index.open(path, mode="r+") as index:
        assert len(index) == 300
    assert len(asot.Index.open(path)) == 300


def cut_short(name):
    def damage(path):
        file = generation(path) / name
        file.write_bytes(file.read_bytes()[:-1])

    return damage


def changed(name, position, value):
    def damage(path):
        file = path / name if (path / name).exists() else generation(path) / name
        raw = bytearray(file.read_bytes())
        raw[position : position + len(value)] = value
        file.write_bytes(raw)

    return damage


def manifest(**parts):
    def damage(path):
        file = path / "manifest.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | parts))

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        *(cut_short(f"{name}.bin") for name in ("points", "masses", "ends", "totals", "narrow", "names", "name_ends")),
        *(cut_short(f"{name}.bin") for name in ("coarse", "fine", "mixed", "pool", "removed")),
        changed("ends.bin", 8, struct.pack("<q", 2**40)),
        changed("ends.bin", 8, struct.pack("<q", -1)),
        changed("name_ends.bin", 0, struct.pack("<q", 2**62)),
        changed("names.bin", 0, b"\xff\xff\xff"),
        changed("removed.bin", 0, struct.pack("<q", 2**33)),
        changed("removed.bin", 0, struct.pack("<q", -5)),
        changed("journal.bin", 0, b"nonsense"),
        changed("journal.bin", 20, b"\xff"),
        changed("frame.npz", 200, b"\xff" * 64),
        changed("settings.npz", 0, b"\xff" * 64),
        changed("manifest.json", 0, b"\x80\x04"),
        manifest(version=3),
        manifest(version="1"),
        manifest(generation="../../etc"),
        manifest(generation="g000009"),
        manifest(format="other"),
        lambda path: (path / "manifest.json").unlink(),
        lambda path: (path / "settings.npz").unlink(),
        lambda path: (generation(path) / "frame.npz").unlink(),
        lambda path: shutil.rmtree(generation(path)),
    ],
)
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_damaged_folder_is_refused(path, damage, mode):
    saved(path)
    with asot.Index.open(path, mode="r+") as index:
        index.remove(["m3", "m4"])
    damage(path)
    with pytest.raises((ValueError, OSError)):
        asot.Index.open(path, mode=mode)


def reframed(change):
    """Write another header and other arrays for the frame, with the checksums of a whole file."""

    def damage(path):
        file = generation(path) / "frame.npz"
        with np.load(file) as archive:
            arrays = dict(archive)
        header = json.loads(arrays.pop("header").tobytes())
        change(header, arrays)
        np.savez(file, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)

    return damage


@pytest.mark.parametrize(
    "change",
    [
        *(lambda header, _, n=n: header.update(exponent=n) for n in (5000, -5000, 2**80, 1024, -1075, 1.5)),
        *(lambda header, _, n=n: header.update(extent=n) for n in (float("nan"), float("inf"), -1.0, "1")),
        *(lambda _, arrays, n=n: arrays.update({n: arrays[n].astype("U5")}) for n in ("center", "rotation", "masses")),
        lambda _, arrays: arrays.update(center=arrays["center"] * np.nan),
    ],
)
def test_a_frame_that_cannot_be_is_refused(path, change):
    saved(path)
    reframed(change)(path)
    with pytest.raises(ValueError, match=r"damaged|must hold numbers"):
        asot.Index.open(path)


@pytest.mark.parametrize("words", [{"metric": "cosine"}, {"unmatched": 1e6}])
def test_a_frame_of_another_distance_is_refused(path, tmp_path, words):
    saved(path)
    saved(tmp_path / "other", **words)
    (path / "settings.npz").write_bytes((tmp_path / "other" / "settings.npz").read_bytes())
    with pytest.raises(ValueError, match="the folder is damaged"):
        asot.Index.open(path)


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_links_are_read_but_never_written_to(path, tmp_path, mode):
    """A folder from elsewhere must not reach files outside it."""
    saved(path)
    mine = tmp_path / "mine.txt"
    mine.write_text("precious")
    (generation(path) / "removed.bin").unlink()
    (generation(path) / "removed.bin").symlink_to(mine)
    if mode == "r":
        assert len(asot.Index.open(path)) == 300
    else:
        with pytest.raises(ValueError, match=r"removed\.bin is a link"):
            asot.Index.open(path, mode="r+")
    assert mine.read_text() == "precious"


def test_a_full_disk_is_said_with_the_file_and_leaves_nothing_behind(path, monkeypatch):
    saved(path)
    with asot.Index.open(path, mode="r+") as index:
        with monkeypatch.context() as full:
            full.setattr("asot.index.columns.os.write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
            for change, file in (
                (lambda: index.add(clouds(3)), "means"),
                (lambda: index.remove("m1"), "removed"),
                (index.compact, "points"),
                (index.rebuild, "points"),
            ):
                with pytest.raises(OSError, match=rf"^cannot write .*g00000[12].{file}\.bin: No space left$"):
                    change()
                assert [entry.name for entry in path.glob("g*")] == ["g000001"]
            with pytest.raises(OSError, match=rf"^cannot write {re.escape(str(path))}-2: No space left$"):
                index.save(f"{path}-2")
        index.remove("m1")
        assert len(index) == 299


@pytest.mark.parametrize("on_disk", [True, False])
@pytest.mark.parametrize("where", ["asot.index.growing.make_snapshot", "asot.index.folder.Folder._remove_others"])
def test_a_change_that_is_interrupted_happened_or_did_not(path, monkeypatch, on_disk, where):
    saved(path)
    index = asot.Index.open(path, mode="r+")
    if not on_disk:
        index = asot.Index()
        index.add(clouds(300), ids=[f"m{i}" for i in range(300)])
    for turn, change in enumerate(
        (
            lambda: index.add(clouds(5, 7), ids=["m1", *"abcd"], replace=True),
            lambda: index.remove(["m2", "m3"]),
            index.compact,
        )
    ):
        expected = index.ids.tolist()
        with monkeypatch.context() as pressed:
            pressed.setattr(where, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            try:
                change()
            except KeyboardInterrupt:
                pass
            else:
                expected = index.ids.tolist()
        index.add(clouds(2, 20 + turn), ids=[f"x{turn}", f"y{turn}"])
        found = index.ids.tolist()
        assert found[-2:] == [f"x{turn}", f"y{turn}"]
        if on_disk:
            assert found == asot.Index.open(path).ids.tolist()
        else:
            assert found[:-2] == expected
        everyone = [index[name][0] for name in found]
        assert everyone[-1].tobytes() == clouds(2, 20 + turn)[1].tobytes()
        check_neighbors(index.query(clouds(2, 1), 4), asot.pairwise_exact(clouds(2, 1), everyone).matrix(), 4)


def test_a_fork_of_a_writer_does_not_write(path, monkeypatch):
    saved(path)
    with asot.Index.open(path, mode="r+") as index:
        process = os.getpid()
        with monkeypatch.context() as forked:
            forked.setattr("asot.index.growing.os.getpid", lambda: process + 1)
            with pytest.raises(ValueError, match="opened by the process that this one is a fork of"):
                index.remove("m1")
            assert len(index.query(clouds(1), 3).indices) == 1
        index.remove("m1")


def test_new_files_are_on_disk_with_their_names(path, monkeypatch):
    asot.Index().save(path)
    settled = []
    monkeypatch.setattr("asot.index.folder._settle_folder", settled.append)
    with asot.Index.open(path, mode="r+") as index:
        for count, expected in ((3, 1), (3, 1), (300, 2), (3, 2)):
            index.add(clouds(count))
            assert len(settled) == expected


def test_points_that_are_no_numbers_are_refused_when_they_are_needed(path):
    saved(path)
    file = generation(path) / "points.bin"
    raw = np.fromfile(file)
    raw[:] = np.nan
    raw.tofile(file)
    with pytest.raises(ValueError, match="the folder of this index is damaged"):
        asot.Index.open(path).query(clouds(2, 1), 3)


def test_a_change_that_fails_leaves_no_trace(path, monkeypatch):
    saved(path)
    with asot.Index.open(path, mode="r+") as index:
        journal = index._folder.generation._journal
        monkeypatch.setattr(type(journal), "write", lambda *_: (_ for _ in ()).throw(OSError("the disk is full")))
        for change in (lambda: index.add(clouds(3), ids=["x", "y", "z"]), lambda: index.remove("m1")):
            with pytest.raises(OSError, match="the disk is full"):
                change()
        monkeypatch.undo()
        assert len(index) == 300
        assert "x" not in index
        index.add(clouds(2, 6), ids=["x", "y"])
        check = clouds(300) + clouds(2, 6)
        check_neighbors(index.query(clouds(2, 1), 4), asot.pairwise_exact(clouds(2, 1), check).matrix(), 4)
    assert len(asot.Index.open(path)) == 302


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux lists the files that are open")
def test_files_are_closed_when_nobody_needs_them(path):
    """Without waiting for a collection of cycles: files that were removed would keep their room on the disk."""

    def open_files():
        links = (os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd"))
        return sorted({os.path.relpath(link, path).split(os.sep)[0] for link in links if link.startswith(str(path))})

    gc.collect()
    gc.disable()
    try:
        saved(path)
        assert open_files() == []
        with asot.Index.open(path, mode="r+") as index:
            index.remove("m1")
            index.compact()
            assert open_files() == ["g000002", "lock"]
        assert open_files() == []
    finally:
        gc.enable()


def test_a_place_that_cannot_be_written_to_is_named(path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied", "somewhere else")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(PermissionError, match=rf"^cannot write {re.escape(str(path))}: Permission denied$"):
        asot.Index().save(path)


def test_points_whose_memory_was_given_back_are_read_again(path, monkeypatch):
    monkeypatch.setattr("asot.index.columns._LARGE", 1)
    saved(path)
    index = asot.Index.open(path)
    for _ in range(2):
        check_neighbors(index.query(clouds(3, 1), 4), asot.pairwise_exact(clouds(3, 1), clouds(300)).matrix(), 4)


def test_names_are_looked_up_when_somebody_says_one(path):
    index = asot.Index.open(saved(path), mode="r+")
    queries = clouds(2, 1)
    assert index.query(queries, 1).neighbor_ids.shape == (2, 1)
    assert index._by_name is None
    index.add(clouds(1, 2), ids=["new"])
    index.remove("m7")
    assert "new" in index
    assert "m7" not in index
    assert set(index.query(queries, 2, among=["new", "m8"]).neighbor_ids[0].tolist()) == {"new", "m8"}
    index.compact()
    assert index._by_name is None
    assert "new" in index
