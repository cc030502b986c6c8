"""Files: what goes out comes back, and no file, however wrong, does more than raise one clear error."""

import io
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import asot
from asot.anchors.files import load_space, save_space
from asot.anchors.space import AnchorSpace
from asot.data import npz as archive
from asot.data.files import load_collection, save_collection
from asot.data.npz import atomic_write, check_writable, load_arrays, read_arrays, save_arrays
from asot.results.files import save_distances
from asot.saved import load_distances

HEADER = {"format": "asot", "kind": "anchor-space", "version": 1}


def line_distances(n=4, m=None, pairs=None):
    cost = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    other = None if m is None else np.eye(4)[:m]
    return asot.emd_many(np.eye(4)[:n], other, cost=cost, pairs=pairs)


def write_header(path, header, **arrays):
    np.savez(path, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays)


def npy_bytes(header, data=b"", version=(1, 0)):
    """An .npy file whose header says whatever the test likes."""
    text = repr(header).encode() if isinstance(header, dict) else header
    width = "<H" if version == (1, 0) else "<I"
    return b"\x93NUMPY" + bytes(version) + struct.pack(width, len(text)) + text + data


def write_zip(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as target:
        for name, data in members.items():
            target.writestr(name, data)
    return path


def load_or_message(path):
    try:
        return load_collection(path), ""
    except ValueError as error:
        return None, str(error)


@pytest.fixture
def collection_file(tmp_path):
    path = tmp_path / "c.npz"
    np.savez(path, points=np.arange(10.0).reshape(5, 2), offsets=[0, 3, 5], masses=np.ones(5), ids=["a", "b"])
    return path


# ------------------------------------------------------------------------------------------------------ atomic writing


def test_a_complete_file_replaces_the_old_one_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(b"old")
    with atomic_write(path) as stream:
        stream.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["x.bin"]


@pytest.mark.parametrize("failure", [RuntimeError("boom"), KeyboardInterrupt()])
def test_a_failure_in_the_middle_keeps_the_old_file(tmp_path, failure):
    path = tmp_path / "x.bin"
    path.write_bytes(b"old")

    def write_half():
        with atomic_write(path) as stream:
            stream.write(b"half of the n")
            raise failure

    with pytest.raises(type(failure)):
        write_half()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x.bin"]


@pytest.mark.parametrize("name", ["d.npy", "d.npz", "d.csv"])
def test_a_disk_that_fills_up_keeps_the_old_distances(tmp_path, monkeypatch, name):
    path = tmp_path / name
    path.write_bytes(b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive.os, "fsync", full)
    with pytest.raises(OSError, match=rf"cannot write .*{name}: No space left on device"):
        save_distances(line_distances(), path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == [name]


def test_a_replaced_file_keeps_its_permissions(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with atomic_write(path) as stream:
        stream.write(b"new")
    assert path.stat().st_mode & 0o777 == 0o640


def test_writing_through_a_link_keeps_the_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    with atomic_write(link) as stream:
        stream.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_paths_that_cannot_be_written_are_refused_before_any_work(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cannot write .*x\.npz: the folder .*missing does not exist"):
        check_writable(tmp_path / "missing" / "x.npz")
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        check_writable(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="is not a folder"):
        check_writable(tmp_path / "file" / "x.npz")
    with pytest.raises(OSError, match="not a regular file"):
        check_writable("/dev/null")
    check_writable(tmp_path / "fine.npz")
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_without_permission_is_named(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(archive.os, "open", refuse)
    with pytest.raises(PermissionError, match=r"cannot write .*x\.npz: no permission to write in"):
        check_writable(tmp_path / "x.npz")


# ------------------------------------------------------------------------------------------------------- reading arrays


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_plain_arrays_of_every_layout_come_back(tmp_path, save):
    arrays = {
        "floats": np.arange(6.0).reshape(2, 3),
        "columns_first": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "big_endian": np.arange(4, dtype=">i4"),
        "half": np.ones(3, np.float16),
        "yes": np.array([True, False]),
        "text": np.array(["ä", "longer"]),
        "bytes": np.array([b"x", b"yz"]),
        "empty": np.empty((0, 3)),
        "scalar": np.array(7.0),
        "large": np.zeros(300_000),
    }
    save(tmp_path / "x.npz", **arrays)
    found = read_arrays(tmp_path / "x.npz", required=list(arrays))
    for name, values in arrays.items():
        assert found[name].dtype == values.dtype
        np.testing.assert_array_equal(found[name], values)


def test_a_missing_array_is_named_and_an_optional_one_is_not_needed(collection_file):
    assert set(read_arrays(collection_file, ["points"], ["nothing"])) == {"points"}
    with pytest.raises(ValueError, match=r"c\.npz has no array 'cost'; it holds 'ids', 'masses', 'offsets', 'points'"):
        read_arrays(collection_file, ["cost"])


def test_a_file_truncated_anywhere_is_refused(tmp_path, collection_file):
    whole = collection_file.read_bytes()
    short = tmp_path / "short.npz"
    for length in range(0, len(whole) - 1, 37):
        short.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"short\.npz"):
            load_collection(short)


def test_a_file_altered_anywhere_is_refused_or_reads_the_same(tmp_path, collection_file):
    whole = collection_file.read_bytes()
    expected = load_collection(collection_file)
    altered = tmp_path / "altered.npz"
    for place in range(0, len(whole), 11):
        altered.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        found, message = load_or_message(altered)
        if found is None:
            assert "altered.npz" in message
        else:  # a byte that nothing reads, such as a date, or the name of an optional array
            np.testing.assert_array_equal(found.points, expected.points)


def test_pickled_objects_are_never_loaded(tmp_path):
    class Bomb:
        def __reduce__(self):
            return sys.exit, (99,)

    stream = io.BytesIO()
    np.save(stream, np.array([1, "x", None], dtype=object), allow_pickle=True)
    write_zip(tmp_path / "o.npz", {"points.npy": stream.getvalue(), "offsets.npy": stream.getvalue()})
    with pytest.raises(ValueError, match=r"o\.npz: the array 'points' holds object data; only numbers and text"):
        load_collection(tmp_path / "o.npz")
    write_zip(tmp_path / "p.npz", {"points.npy": b"\x80" + pickle.dumps([1]), "offsets.npy": b""})
    with pytest.raises(ValueError, match=r"p\.npz: the array 'points' is not an array"):
        load_collection(tmp_path / "p.npz")


@pytest.mark.parametrize("descr", ["|O", "|V8", [("x", "<f8")], "<M8[s]", "<c16"])
def test_types_that_are_not_plain_are_refused(tmp_path, descr):
    data = npy_bytes({"descr": descr, "fortran_order": False, "shape": (1,)}, b"\0" * 16)
    with pytest.raises(ValueError, match="only numbers and text are read"):
        read_arrays(write_zip(tmp_path / "x.npz", {"x.npy": data}), ["x"])


@pytest.mark.parametrize("shape", [(2**40,), (10**6, 10**6, 10**6), (2**62, 4), (0,), (-1,), (2,), (2**70, 0)])
def test_a_shape_that_lies_is_refused_before_memory_is_asked_for(tmp_path, monkeypatch, shape):
    data = npy_bytes({"descr": "<f8", "fortran_order": False, "shape": shape}, b"\0" * 8)
    path = write_zip(tmp_path / "x.npz", {"x.npy": data})
    monkeypatch.setattr(archive.np, "empty", lambda *arguments: pytest.fail("asked for memory"))
    with pytest.raises(ValueError, match=r"x\.npz: the array 'x' claims the shape .* truncated or damaged"):
        read_arrays(path, ["x"])


@pytest.mark.parametrize("shape", [(0, 2**70), (0,) * 100])
def test_an_empty_array_of_an_impossible_shape_is_refused(tmp_path, shape):
    data = npy_bytes({"descr": "<f8", "fortran_order": False, "shape": shape})
    with pytest.raises(ValueError, match=r"x\.npz: the array 'x' claims the shape"):
        read_arrays(write_zip(tmp_path / "x.npz", {"x.npy": data}), ["x"])


@pytest.mark.parametrize("header", [b"{" * 5000, b"__import__('os')", b"[1, 2]", b"\xff\xfe", b"{'descr': '<f8'}"])
def test_headers_that_are_nonsense_are_refused(tmp_path, header):
    path = write_zip(tmp_path / "x.npz", {"x.npy": npy_bytes(header)})
    with pytest.raises(ValueError, match=r"x\.npz: the array 'x' is not an array"):
        read_arrays(path, ["x"])


def test_a_header_that_claims_gigabytes_reads_only_a_little(tmp_path):
    data = b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + b" " * 10_000_000
    path = write_zip(tmp_path / "x.npz", {"x.npy": data}, zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match="is not an array"):
        read_arrays(path, ["x"])


def test_sizes_that_the_bytes_cannot_expand_to_are_refused(tmp_path):
    size = 2**31
    text = npy_bytes({"descr": "|u1", "fortran_order": False, "shape": (size,)})
    path = write_zip(tmp_path / "x.npz", {"x.npy": text + b"\0" * 1000}, zipfile.ZIP_DEFLATED)
    raw = bytearray(path.read_bytes())
    place = raw.index(b"PK\x01\x02") + 24  # the uncompressed size, in the table of contents
    raw[place : place + 4] = struct.pack("<I", size + len(text))
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=r"x\.npz declares more bytes for the array 'x' than it holds"):
        read_arrays(path, ["x"])


def test_more_than_the_machine_has_is_refused(collection_file, monkeypatch):
    monkeypatch.setattr("asot.data.expansion.physical_memory", lambda: 100)
    with pytest.raises(ValueError, match=r"c\.npz needs .* GB and this machine has"):
        load_collection(collection_file)


def test_text_that_is_not_unicode_is_refused(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.array([0x110000], np.uint32).view("<U1"))
    with pytest.raises(ValueError, match="text that is not Unicode"):
        read_arrays(tmp_path / "x.npz", ["x"])


def test_an_array_that_is_there_twice_or_oddly_packed_is_refused(tmp_path):
    data = npy_bytes({"descr": "<f8", "fortran_order": False, "shape": (1,)}, b"\0" * 8)
    with pytest.raises(ValueError, match="'x' twice"):
        read_arrays(write_zip(tmp_path / "x.npz", {"x.npy": data, "x": data}), ["x"])
    with pytest.raises(ValueError, match="in a way that NumPy does not write"):
        read_arrays(write_zip(tmp_path / "y.npz", {"x.npy": data}, zipfile.ZIP_LZMA), ["x"])


def test_files_that_are_not_what_their_name_says_are_refused(tmp_path):
    (tmp_path / "text.npz").write_text("id,x\na,1\n")
    with pytest.raises(ValueError, match=r"text\.npz is not an \.npz file, whatever its name says"):
        load_collection(tmp_path / "text.npz")
    with open(tmp_path / "single.npz", "wb") as stream:
        np.save(stream, np.ones(3))
    with pytest.raises(ValueError, match=r"single\.npz is not an \.npz file.*single \.npy array"):
        load_collection(tmp_path / "single.npz")
    np.savez(tmp_path / "zip.npz", points=np.ones((2, 2)), offsets=[0, 2])
    for name in ("zip.csv", "zip.parquet"):
        (tmp_path / name).write_bytes((tmp_path / "zip.npz").read_bytes())
        with pytest.raises(ValueError, match=rf"{name} is not a .* file, whatever its name says"):
            load_collection(tmp_path / name)


def test_files_that_are_not_there_are_named(tmp_path):
    for name in ("x.npz", "x.csv", "x.parquet"):
        with pytest.raises(FileNotFoundError, match=rf"cannot read .*{name}: there is no such file"):
            load_collection(tmp_path / name)
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(ValueError, match=r"the folder .*folder\.npz holds no files"):
        load_collection(tmp_path / "folder.npz")


def test_an_unknown_suffix_lists_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match=r"x\.txt: its name must end in \.npz, \.csv, .* or it must be a folder"):
        load_collection(tmp_path / "x.txt")
    with pytest.raises(ValueError, match=r"x\.txt: its name must end in \.npy, \.npz or \.csv"):
        save_distances(line_distances(), tmp_path / "x.txt")


# ------------------------------------------------------------------------------------------------------ headers, spaces


def test_headers_keep_numpy_scalars_as_plain_numbers(tmp_path):
    info = {"a": np.float32(0.5), "b": np.int64(3), "c": np.arange(2), "d": asot.Status.OPTIMAL, "e": {1: None}}
    save_arrays(tmp_path / "x.npz", {"kind": "distances", "info": info, "other": (1, {2}, object)}, {})
    header, _ = load_arrays(tmp_path / "x.npz", "distances")
    assert header["info"] == {"a": 0.5, "b": 3, "c": [0, 1], "d": 0, "e": {"1": None}}
    assert header["other"][:2] == [1, [2]]
    assert (header["format"], header["version"]) == ("asot", 1)


def test_objects_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="'x' holds object, not plain numbers or text"):
        save_arrays(tmp_path / "x.npz", {"kind": "distances"}, {"x": np.array([None])})
    assert not (tmp_path / "x.npz").exists()


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({**HEADER, "version": 2}, "format version 2, newer than the 1 read here; upgrade asot"),
        ({**HEADER, "version": "1"}, "without a version"),
        ({**HEADER, "kind": "recipes"}, "holds 'recipes', which is unknown to this version of asot"),
        ({**HEADER, "kind": ["x"]}, "unknown to this version"),
        ({**HEADER, "kind": "distances"}, "holds distances, not an anchor space"),
        ({"format": "other"}, "not one that asot writes"),
        ([1, 2], "not one that asot writes"),
    ],
)
def test_headers_that_are_not_understood_are_refused(tmp_path, header, message):
    path = tmp_path / "x.npz"
    write_header(path, header, anchors=np.zeros((2, 1)), cost=np.zeros((2, 2)))
    with pytest.raises(ValueError, match=message) as caught:
        load_arrays(path, "anchor-space", ["anchors", "cost"])
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("raw", [b"{", b"\xff", b"[" * 100_000, b""])
def test_a_header_that_is_not_json_is_refused(tmp_path, raw):
    np.savez(tmp_path / "x.npz", header=np.frombuffer(raw, np.uint8))
    with pytest.raises(ValueError, match=r"x\.npz has a header that is not JSON"):
        load_arrays(tmp_path / "x.npz", "distances")


def test_a_file_without_a_header_is_no_space(collection_file):
    with pytest.raises(ValueError, match=r"c\.npz does not hold an anchor space written by asot"):
        load_arrays(collection_file, "anchor-space")


def test_a_space_comes_back_bit_for_bit(tmp_path):
    rng = np.random.default_rng(0)
    space = asot.AnchorSpace(rng.normal(size=(5, 3)))
    save_space(space, tmp_path / "s.npz")
    found = load_space(tmp_path / "s.npz")
    np.testing.assert_array_equal(found.anchors, space.anchors)
    np.testing.assert_array_equal(found.cost, space.cost)


def test_a_space_that_makes_no_sense_names_the_file(tmp_path):
    arrays = {"anchors": np.zeros((2, 1)), "cost": np.full((2, 2), np.nan)}
    save_arrays(tmp_path / "s.npz", {"kind": "anchor-space"}, arrays)
    with pytest.raises(ValueError, match=r"s\.npz: "):
        load_space(tmp_path / "s.npz")


# --------------------------------------------------------------------------------------------------------- collections


def test_an_npz_collection_reads_points_offsets_masses_and_ids(collection_file):
    found = load_collection(collection_file)
    assert found == asot.Distributions(np.arange(10.0).reshape(5, 2), [0, 3, 5], np.ones(5), ids=["a", "b"])


def test_masses_and_ids_may_be_missing(tmp_path):
    np.savez(tmp_path / "c.npz", points=np.ones((3, 1), np.float32), offsets=[0, 1, 3])
    found = load_collection(tmp_path / "c.npz")
    assert found.points.dtype == np.float32
    np.testing.assert_array_equal(found.masses, [1, 0.5, 0.5])


def test_a_saved_collection_comes_back(tmp_path):
    D = asot.Distributions(np.arange(4.0)[:, None], [0, 1, 4], [3.0, 1.0, 2.0, 1.0], ids=["007", "é"])
    save_collection(D, tmp_path / "c.npz")
    assert load_collection(tmp_path / "c.npz") == D


def test_what_is_wrong_inside_a_collection_is_said_with_the_file(tmp_path):
    np.savez(tmp_path / "c.npz", points=np.ones((3, 1)), offsets=[0, 2])
    with pytest.raises(ValueError, match=r"c\.npz: offsets must start at 0 and end at the number of points, 3"):
        load_collection(tmp_path / "c.npz")
    save_space(AnchorSpace(np.zeros((2, 1))), tmp_path / "s.npz")
    with pytest.raises(ValueError, match=r"s\.npz holds an anchor space, not a collection"):
        load_collection(tmp_path / "s.npz")


def csv_file(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "c.csv"
    path.write_bytes(text.encode(encoding))
    return path


def test_a_csv_groups_lines_that_are_not_neighbors_and_keeps_ids_as_text(tmp_path):
    found = load_collection(csv_file(tmp_path, "id,x,mass,y\n010,0,1,2\n7,1,2,3\n\n010,5,3,6\n"))
    assert list(found.ids) == ["010", "7"]
    np.testing.assert_array_equal(found[0][0], [[0, 2], [5, 6]])
    np.testing.assert_array_equal(found[0][1], [0.25, 0.75])
    np.testing.assert_array_equal(found.totals, [4, 2])


@pytest.mark.parametrize(
    "text", ["\ufeffid,x\na,1\nb,2\n", "sample,x\r\na,1\r\nb,2\r\n", 'x,id\n1,"a"\n2,b', "id, x\n a ,1 \nb, 2\n"]
)
def test_csv_dialects_read_the_same(tmp_path, text):
    found = load_collection(csv_file(tmp_path, text))
    assert found == asot.Distributions([[1.0], [2.0]], [0, 1, 2], ids=["a", "b"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"c\.csv is empty: its first line must name the columns"),
        ("id,x\n", r"c\.csv is empty: there is no line below the column names"),
        ("1,2\n3,4\n", r"c\.csv, line 1: found numbers; the first line must name the columns"),
        ("id;x\na;1\n", r"c\.csv, line 1: found a single column, 'id;x'; cells must be separated by commas"),
        ("id,mass\na,1\n", r"c\.csv has no coordinates: its columns are id, mass"),
        ("mass,x\n1,1\n", r"c\.csv has no column of ids: its first column, 'mass', holds masses"),
        ("id,x,id\na,1,b\n", r"c\.csv has 2 columns called 'id'"),
        ("id,x\na,1\nb,two\n", r"c\.csv, line 3: 'two' in column 'x' is not a number"),
        ("id,x\na,\n", r"c\.csv, line 2: the cell in column 'x' is empty"),
        ("id,x\n,1\n", r"c\.csv, line 2: the cell in column 'id' is empty"),
        ("id,x\na,nan\n", r"c\.csv, line 2: 'nan' in column 'x' is not finite"),
        ("id,x\na,1,2\n", r"c\.csv, line 2: found 3 cells for the 2 columns id, x"),
        ("id,x,mass\na,1\n", r"c\.csv, line 2: found 2 cells for the 3 columns"),
        ("id,x,mass\na,1,-1\n", r"c\.csv: distribution 0 \('a'\) has a negative mass"),
        ("id,x,mass\na,1,0\n", r"c\.csv: distribution 0 \('a'\) has zero total mass"),
        ("id,x\n" + "a" * 200_000 + ",1\n", r"c\.csv, line 2: not CSV"),
    ],
)
def test_problems_of_a_csv_are_reported_with_the_line(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        load_collection(csv_file(tmp_path, text))


def test_a_csv_in_another_encoding_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"c\.csv is not a text file in UTF-8"):
        load_collection(csv_file(tmp_path, "id,x\né,1\n", encoding="latin-1"))


def write_parquet(path, **columns):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), path)
    return path


def test_a_parquet_table_keeps_the_type_of_its_ids_and_of_float32(tmp_path):
    x = np.array([1, 2, 3], np.float32)
    found = load_collection(write_parquet(tmp_path / "c.parquet", x=x, id=[20, 3, 20], mass=[1.0, 1.0, 3.0]))
    assert found.points.dtype == np.float32
    np.testing.assert_array_equal(found.ids, [3, 20])
    np.testing.assert_array_equal(found[1][0], [[1], [3]])
    np.testing.assert_array_equal(found[1][1], [0.25, 0.75])
    text = load_collection(write_parquet(tmp_path / "t.parquet", id=["b", "a"], x=[1, 2]))
    assert list(text.ids) == ["a", "b"]


def test_a_parquet_table_from_pandas_may_carry_its_index(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": pandas.Categorical(["a", "b"]), "x": [1.0, 2.0]}, index=[5, 7])
    frame.to_parquet(tmp_path / "c.parquet")
    found = load_collection(tmp_path / "c.parquet")
    assert found.dim == 1
    assert list(found.ids) == ["a", "b"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": ["a", "b"], "x": [1.0, None]}, "column 'x' is empty in row 2"),
        ({"id": [None, "b"], "x": [1.0, 2.0]}, "column 'id' is empty in row 1"),
        ({"id": ["a", "b"], "x": ["1", "2"]}, "column 'x' holds string, not numbers"),
        ({"id": [[1], [2]], "x": [1.0, 2.0]}, "column 'id' cannot serve as ids"),
        ({"id": ["a"]}, "has no coordinates"),
        ({"id": ["a", "b"], "x": [1.0, np.nan]}, "has the coordinate nan"),
        ({}, "has no columns"),
    ],
)
def test_problems_of_a_parquet_table_are_reported_with_the_column(tmp_path, columns, message):
    path = write_parquet(tmp_path / "c.parquet", **columns)
    with pytest.raises(ValueError, match=message) as caught:
        load_collection(path)
    assert str(path) in str(caught.value)


def test_a_parquet_table_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"c\.parquet needs pyarrow: pip install asot\[tables\]"):
        load_collection(tmp_path / "c.parquet")


# ----------------------------------------------------------------------------------------------------------- distances


@pytest.mark.parametrize("arguments", [{}, {"m": 2}, {"pairs": [[3, 1], [0, 0]]}, {"m": 2, "pairs": [[3, 1]]}])
def test_distances_come_back_from_npz(tmp_path, arguments):
    result = line_distances(**arguments)
    save_distances(result, tmp_path / "d.npz")
    found = load_distances(tmp_path / "d.npz")
    for name in ("values", "status", "n_iter", "pairs"):
        np.testing.assert_array_equal(getattr(found, name), getattr(result, name))
        assert getattr(found, name).dtype == getattr(result, name).dtype
    assert type(found.pair_set) is type(result.pair_set)
    assert found.info == result.info
    assert found.lower is None


def test_bounds_and_ids_are_kept(tmp_path):
    r = line_distances(2)
    bounded = asot.Distances(
        r.values, r.status, r.n_iter, r.pair_set, np.array([0.1]), np.array([0.5]), np.array([2.0]), info=r.info
    )
    ids = np.array([("tuple", 1), None], dtype=object)
    save_distances(bounded, tmp_path / "d.npz", ids)
    found = load_distances(tmp_path / "d.npz")
    assert (found.marginal_error[0], found.lower[0], found.upper[0]) == (0.1, 0.5, 2.0)
    assert list(read_arrays(tmp_path / "d.npz", ["ids_rows"])["ids_rows"]) == ["('tuple', 1)", "None"]
    save_distances(bounded, tmp_path / "d.csv", np.array(["a", "b,c"]))
    assert (tmp_path / "d.csv").read_text() == 'id_i,id_j,distance,lower,upper\na,"b,c",1.0,0.5,2.0\n'


def test_expected_errors_are_kept(tmp_path):
    rng = np.random.default_rng(0)
    r = asot.pairwise([rng.normal(size=(9, 2)) for _ in range(4)], estimate="calibrated", bounds=True, random_state=0)
    save_distances(r, tmp_path / "d.npz")
    found = load_distances(tmp_path / "d.npz")
    np.testing.assert_array_equal(found.error, r.error)
    assert found.info["calibration"]["n_exact"] == 6
    save_distances(r, tmp_path / "d.csv")
    assert (tmp_path / "d.csv").read_text().startswith("id_i,id_j,distance,lower,upper,error\n0,1,")


def test_npy_holds_the_matrix(tmp_path):
    for result in (line_distances(), line_distances(m=3)):
        save_distances(result, tmp_path / "d.npy")
        np.testing.assert_array_equal(np.load(tmp_path / "d.npy"), result.matrix())
        np.testing.assert_array_equal(archive.read_array(tmp_path / "d.npy"), result.matrix())
    with pytest.raises(ValueError, match="a list of 1 pairs does not fill a matrix"):
        save_distances(line_distances(pairs=[[0, 1]]), tmp_path / "d.npy")


def test_a_damaged_npy_is_refused(tmp_path):
    save_distances(line_distances(), tmp_path / "d.npy")
    (tmp_path / "d.npy").write_bytes((tmp_path / "d.npy").read_bytes()[:-8])
    with pytest.raises(ValueError, match=r"d\.npy claims the shape \(4, 4\) .* truncated or damaged"):
        archive.read_array(tmp_path / "d.npy")


def test_csv_has_one_line_per_pair_with_the_ids_as_listed(tmp_path):
    save_distances(line_distances(pairs=[[3, 1], [0, 0]]), tmp_path / "d.csv", np.array(["a", "b", "c", "d"]))
    assert (tmp_path / "d.csv").read_text() == "id_i,id_j,distance\nd,b,2.0\na,a,0.0\n"
    save_distances(line_distances(2, m=2), tmp_path / "d.csv", np.array(["a", "b"]), np.array([10, 20]))
    assert (tmp_path / "d.csv").read_text() == "id_i,id_j,distance\na,10,0.0\na,20,1.0\nb,10,1.0\nb,20,0.0\n"


def test_csv_keeps_every_digit(tmp_path):
    rng = np.random.default_rng(0)
    r = asot.emd_many(rng.random((9, 4)), cost=np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0))))
    save_distances(r, tmp_path / "d.csv")
    rows = np.loadtxt(tmp_path / "d.csv", delimiter=",", skiprows=1)
    np.testing.assert_array_equal(rows[:, :2], r.pairs)
    np.testing.assert_array_equal(rows[:, 2], r.values)


def distances_file(path, header=None, **arrays):
    good = {"values": np.ones(3), "status": np.zeros(3, np.int8), "n_iter": np.zeros(3, np.int32), **arrays}
    pairs = {"which": "all", "n_rows": 3, "n_columns": 3, "symmetric": True}
    write_header(path, {"format": "asot", "version": 1, "kind": "distances", "pairs": pairs, **(header or {})}, **good)


@pytest.mark.parametrize(
    ("header", "arrays", "message"),
    [
        ({}, {"values": np.ones(2)}, "'values' must hold one number for each of the 3 pairs"),
        ({}, {"values": np.array(["a", "b", "c"])}, "'values' must hold one number"),
        ({}, {"lower": np.ones((3, 1))}, "'lower' must hold one number"),
        ({}, {"status": np.full(3, 77, np.int8)}, "not a status"),
        ({"pairs": None}, {}, "does not say which pairs"),
        ({"pairs": {"which": "all", "n_rows": -3, "n_columns": 3}}, {}, "-3 for a number of distributions"),
        ({"pairs": {"which": "some", "n_rows": 3, "n_columns": 3}}, {}, "cannot be understood"),
        ({"pairs": {"which": "listed", "n_rows": 3, "n_columns": 3}}, {}, "cannot be understood"),
        (
            {"pairs": {"which": "listed", "n_rows": 3, "n_columns": 3}},
            {"pairs": np.array([[0, 1], [0, 9], [0, 2]])},
            r"pair 1 is \(0, 9\)",
        ),
    ],
)
def test_distances_that_contradict_themselves_are_refused(tmp_path, header, arrays, message):
    distances_file(tmp_path / "d.npz", header, **arrays)
    with pytest.raises(ValueError, match=message) as caught:
        load_distances(tmp_path / "d.npz")
    assert "d.npz" in str(caught.value)


@pytest.mark.parametrize("cost", [None, [[0.0, 7.0], [7.0, 0.0]]])
def test_a_space_comes_back_as_it_was_and_knows_whether_its_cost_is_euclidean(tmp_path, cost):
    space = AnchorSpace([[0.0, 1.0], [3.0, 5.0]], cost)
    space.save(tmp_path / "s.npz")
    loaded = AnchorSpace.load(tmp_path / "s.npz")
    assert np.array_equal(loaded.anchors, space.anchors)
    assert np.array_equal(loaded.cost, space.cost)
    assert loaded.is_euclidean == (cost is None)


# ------------------------------------------------------------------------------------------------- nothing is lost


@pytest.mark.parametrize("scale", [1.0, 1e-300, 3e307])
def test_a_saved_collection_is_the_same_bit_for_bit(tmp_path, scale):
    rng = np.random.default_rng(0)
    masses = rng.random(60) * scale
    D = asot.Distributions(rng.normal(size=(60, 3)), [0, 7, 30, 60], masses, ids=["b", "a", "ß"])
    D.save(tmp_path / "c.npz")
    found = asot.load_collection(tmp_path / "c.npz")
    assert found == D
    assert asot.pairwise_exact(found).values.tolist() == asot.pairwise_exact(D).values.tolist()


def test_masses_whose_total_overflows_come_back(tmp_path):
    D = asot.Distributions(np.arange(4.0)[:, None], [0, 4], masses=np.full(4, 1e308))
    D.save(tmp_path / "c.npz")
    assert load_collection(tmp_path / "c.npz") == D
    D.save(tmp_path / "c.csv")
    assert load_collection(tmp_path / "c.csv").masses.tolist() == D.masses.tolist()


def test_a_vocabulary_is_saved_once(tmp_path):
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_weights(rng.integers(0, 3, size=(50, 20)), rng.normal(size=(20, 100)))
    D.save(tmp_path / "c.npz")
    assert os.path.getsize(tmp_path / "c.npz") < 50_000
    found = load_collection(tmp_path / "c.npz")
    assert found.vocabulary is not None
    assert found == D


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tables_are_what_their_name_says(tmp_path, suffix, dtype):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(9, 2)).astype(dtype)
    D = asot.Distributions(points, [0, 4, 9], masses=rng.integers(1, 9, 9), ids=["a", 'b, or "c"'])
    path = tmp_path / f"c{suffix}"
    save_collection(D, path)
    found = load_collection(path)
    np.testing.assert_array_equal(found.points, D.points)
    np.testing.assert_allclose(found.masses, D.masses, rtol=1e-15)
    assert found.ids.tolist() == D.ids.tolist()
    assert path.read_bytes()[:4] == (b"PAR1" if suffix == ".parquet" else b"id,x")
    asot.Distributions(points, [0, 4, 9]).save(path)
    assert b"mass" not in path.read_bytes()
    with pytest.raises(ValueError, match="several distributions have the same id"):
        save_collection(D + D, path)


def test_a_collection_is_not_written_under_a_name_of_another_format(tmp_path):
    with pytest.raises(ValueError, match=r"cannot write a collection to .*d.txt: its name must end in \.npz, \.csv or"):
        asot.Distributions([[0.0]], [0, 1]).save(tmp_path / "d.txt")
    assert list(tmp_path.iterdir()) == []


def test_totals_that_contradict_the_masses_are_refused(tmp_path):
    arrays = {"points": np.zeros((2, 1)), "offsets": np.array([0, 2]), "masses": np.full(2, 0.5), "totals": np.ones(1)}
    for change in ({"totals": np.ones(2)}, {"totals": -np.ones(1)}, {"masses": np.ones(2)}, {"totals": np.array([1])}):
        save_arrays(tmp_path / "c.npz", {"kind": "distributions"}, {**arrays, **change})
        with pytest.raises(ValueError, match=r"c\.npz: the (array 'totals' must hold|masses of a distribution do not)"):
            load_collection(tmp_path / "c.npz")


def test_plans_are_kept(tmp_path):
    cost = np.abs(np.subtract.outer(range(4), range(4)))
    r = asot.emd_many(np.eye(4)[:3], np.full((2, 4), 0.25), cost=cost, plans=True)
    r.save(tmp_path / "d.npz")
    found = asot.load_distances(tmp_path / "d.npz")
    assert len(found.plans) == 6
    for t in range(6):
        mine, theirs = r.plans[t], found.plans[t]
        assert mine.value == theirs.value
        np.testing.assert_array_equal(mine.plan.toarray(), theirs.plan.toarray())
        np.testing.assert_array_equal(mine.potentials, theirs.potentials)


@pytest.mark.parametrize("name", ["source", "start", "f", "mass"])
def test_plans_that_make_no_sense_are_refused(tmp_path, name):
    r = asot.emd_many(np.eye(3), cost=1.0 - np.eye(3), plans=True)
    r.save(tmp_path / "d.npz")
    with np.load(tmp_path / "d.npz") as stored:
        arrays = dict(stored)
    for damaged in (arrays[f"plans_{name}"][:-1], arrays[f"plans_{name}"] + 7, None):
        changed = {**arrays, f"plans_{name}": damaged}
        if damaged is None:
            del changed[f"plans_{name}"]
        if name in ("f", "mass") and damaged is not None and len(damaged) == len(arrays[f"plans_{name}"]):
            continue  # other numbers, but numbers
        np.savez(tmp_path / "e.npz", **changed)
        with pytest.raises(ValueError, match=r"e\.npz: .*plans .*; the file is damaged"):
            load_distances(tmp_path / "e.npz")


PAIR_SETS = [(), (2,), (4, 3), (1, 4), (3, 1), (4, None, [[2, 0], [1, 3], [1, 1]]), (3, 4, [[2, 3], [0, 1]])]


@pytest.mark.parametrize("arguments", PAIR_SETS)
def test_a_table_of_distances_is_read_back(tmp_path, arguments):
    r = line_distances(*arguments)
    rows = np.array(list("abcd"))[: r.pair_set.n_rows]
    columns = rows if r.pair_set.symmetric else np.array(list("wxyz"))[: r.pair_set.n_columns]
    save_distances(r, tmp_path / "d.csv", rows, columns)
    found = load_distances(tmp_path / "d.csv")
    assert found.values.tolist() == r.values.tolist()
    assert found.to_frame("long")[["id_i", "id_j"]].to_numpy().tolist() == [
        [rows[i], columns[j]] for i, j in r.pairs.tolist()
    ]
    if len(arguments) < 3:
        np.testing.assert_array_equal(found.matrix(), r.matrix())
        assert found.ids.tolist() == rows.tolist()
    assert (found.status == asot.Status.UNKNOWN).all()


def test_a_matrix_is_read_back(tmp_path):
    for r in (line_distances(), line_distances(4, 3), line_distances(4, 4)):
        r.save(tmp_path / "d.npy")
        np.testing.assert_array_equal(load_distances(tmp_path / "d.npy").matrix(), r.matrix())


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
@pytest.mark.parametrize("ids", [["a"], ["a", "b", "c"], np.array(["a"])])
def test_ids_of_a_wrong_length_are_refused(tmp_path, suffix, ids):
    with pytest.raises(ValueError, match=r"the ids of the rows must name each of the 4; found [13]"):
        save_distances(line_distances(), tmp_path / f"d{suffix}", ids)
    with pytest.raises(ValueError, match=r"the ids of the columns must name each of the 2; found [13]"):
        save_distances(line_distances(4, 2), tmp_path / f"d{suffix}", None, ids)


def test_ids_may_be_a_list_and_come_back(tmp_path):
    save_distances(line_distances(), tmp_path / "d.npz", ["a", "b", "c", "d"])
    assert load_distances(tmp_path / "d.npz").ids.tolist() == ["a", "b", "c", "d"]
    save_distances(line_distances(4, 2), tmp_path / "d.npz", list(range(4)), ["x", "y"])
    assert load_distances(tmp_path / "d.npz").ids_columns.tolist() == ["x", "y"]


def test_distances_that_are_not_numbers_are_refused(tmp_path):
    r = line_distances()
    r.save(tmp_path / "d.npz")
    with np.load(tmp_path / "d.npz") as stored:
        arrays = dict(stored)
    for name, value, message in (("values", np.nan, "not a number"), ("n_iter", -1, "not a count of iterations")):
        changed = arrays[name].copy()
        changed[3] = value
        np.savez(tmp_path / "e.npz", **{**arrays, name: changed})
        with pytest.raises(ValueError, match=message):
            load_distances(tmp_path / "e.npz")
    np.savez(tmp_path / "e.npz", **{**arrays, "n_iter": np.full(6, 2**40)})
    with pytest.raises(ValueError, match="not a count of iterations"):
        load_distances(tmp_path / "e.npz")


def test_results_and_paths_in_the_old_order_are_reported(tmp_path):
    with pytest.raises(TypeError, match=r"save_distances\(result, path\) writes Distances; found PosixPath"):
        save_distances(tmp_path / "d.npz", line_distances())


# ------------------------------------------------------------------------------------------------ what the killed leave


def write_and_die(folder):
    """A process that is killed in the middle of writing; its temporary file stays."""
    code = f"""
import os, signal
from asot.data.npz import atomic_write
with atomic_write({str(folder / "x.bin")!r}) as stream:
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], check=False)


@pytest.mark.skipif(sys.platform == "win32", reason="kills by a signal")
def test_what_killed_processes_leave_is_removed_and_what_living_ones_write_is_not(tmp_path, monkeypatch):
    from asot.data import temporary

    write_and_die(tmp_path)
    (orphan,) = tmp_path.iterdir()
    monkeypatch.setattr(temporary, "_looked_at", set())
    with atomic_write(tmp_path / "mine.bin") as stream:
        assert not orphan.exists()
        (own,) = tmp_path.iterdir()
        code = f"from asot.data.npz import atomic_write\nwith atomic_write({str(tmp_path / 'o')!r}) as s: s.write(b'o')"
        subprocess.run([sys.executable, "-c", code], check=True)
        assert own.exists()
        stream.write(b"whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.bin", "o"]
    assert (tmp_path / "mine.bin").read_bytes() == b"whole"


def test_files_of_others_are_left_alone(tmp_path, monkeypatch):
    from asot.data import temporary

    for name in (".asot-notes.txt", "asot-1.tmp", ".asot-dir.tmp"):
        (tmp_path / name).mkdir() if "dir" in name else (tmp_path / name).write_text("mine")
    monkeypatch.setattr(temporary, "_looked_at", set())
    with atomic_write(tmp_path / "x.bin") as stream:
        stream.write(b"x")
    assert len(list(tmp_path.iterdir())) == 4


def test_totals_without_masses_are_damage(tmp_path):
    from asot.data.npz import save_arrays

    arrays = {"points": np.zeros((2, 1)), "offsets": np.array([0, 1, 2]), "totals": np.ones(2)}
    save_arrays(tmp_path / "c.npz", {"kind": "distributions"}, arrays)
    with pytest.raises(ValueError, match=r"c\.npz: the array 'masses' is missing"):
        asot.load_collection(tmp_path / "c.npz")
