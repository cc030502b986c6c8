"""Archives from strangers: names lead nowhere, sizes are bounded, damage is told."""

import gzip
import lzma
import zipfile
from zlib import crc32

import pytest
from asot_paper.datasets.archives import open_zip, unpack


def zipped(folder, *members, **options):
    path = folder / "some.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content, **options)
    return path


@pytest.mark.parametrize(
    "name",
    ["a.txt", "folder/a.txt", "folder//a.txt", "../../a.txt", "/etc/a.txt", "C:\\windows\\a.txt", "..\\..\\a.txt"],
)
def test_members_are_found_by_base_name_and_nothing_is_written(tmp_path, name):
    path = zipped(tmp_path, (name, b"content"))
    with open_zip(path) as members:
        assert "a.txt" in members
        assert members.names == ["a.txt"]
        assert members.read("a.txt") == b"content"
    assert list(tmp_path.rglob("*")) == [path]


def test_a_missing_member_is_reported_with_those_that_are_there(tmp_path):
    path = zipped(tmp_path, *((f"folder/{i}.txt", b"") for i in range(10)), ("empty/", b""))
    with open_zip(path) as members, pytest.raises(ValueError, match=r"no member b.txt; it holds 0.txt, .* and 2 more"):
        members.read("b.txt")


def test_a_member_that_is_there_twice_is_not_guessed(tmp_path):
    path = zipped(tmp_path, ("one/a.txt", b"1"), ("two/a.txt", b"2"))
    with open_zip(path) as members, pytest.raises(ValueError, match=r"a\.txt is there 2 times"):
        members.read("a.txt")


def test_what_unpacks_to_too_much_is_refused_before_it_is_unpacked(tmp_path):
    path = zipped(tmp_path, ("a.txt", bytes(10_000_000)))
    assert path.stat().st_size < 20_000
    with open_zip(path) as members, pytest.raises(ValueError, match="more than 1,000,000 bytes"):
        members.read("a.txt", largest=1_000_000)


def test_a_member_that_lies_about_its_size_is_refused(tmp_path):
    path = zipped(tmp_path, ("a.txt", bytes(range(256)) * 1000))
    content = bytearray(path.read_bytes())
    directory = content.index(b"PK\x01\x02")
    content[directory + 24 : directory + 28] = (10).to_bytes(4, "little")  # the unpacked size in the table of contents
    path.write_bytes(content)
    with open_zip(path) as members, pytest.raises(ValueError, match="truncated or damaged"):
        members.read("a.txt")


def test_encrypted_members_are_reported(tmp_path):
    path = zipped(tmp_path, ("a.txt", b"content"))
    content = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + place] |= 1
    path.write_bytes(content)
    with open_zip(path) as members, pytest.raises(ValueError, match=r"a\.txt is encrypted"):
        members.read("a.txt")


def test_unknown_ways_of_packing_are_reported(tmp_path):
    path = zipped(tmp_path, ("a.txt", b"content"))
    content = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        content[content.index(mark) + place] = 97
    path.write_bytes(content)
    with open_zip(path) as members, pytest.raises(ValueError, match="packed in a way that Python cannot read"):
        members.read("a.txt")


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b"PK\x03\x04 and then nothing"])
def test_what_is_not_a_zip_archive_is_reported(tmp_path, content):
    path = tmp_path / "some.zip"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"some\.zip is not a zip archive"), open_zip(path):
        pass


def test_every_truncation_and_every_flipped_byte_of_a_zip_ends_in_the_content_or_a_clear_error(tmp_path):
    whole = zipped(tmp_path, ("folder/a.txt", b"content of the file" * 3)).read_bytes()
    damaged = [whole[:end] for end in range(len(whole))]
    damaged += [whole[:i] + bytes([whole[i] ^ 0xFF]) + whole[i + 1 :] for i in range(len(whole))]
    path = tmp_path / "damaged.zip"
    told = 0
    for content in damaged:
        path.write_bytes(content)
        try:
            with open_zip(path) as members:
                assert members.read("a.txt") == b"content of the file" * 3
        except ValueError:
            told += 1
    assert told > len(whole)


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress), (".txt", bytes)])
def test_packed_files_are_unpacked_within_bounds(tmp_path, suffix, pack):
    path = tmp_path / f"some{suffix}"
    path.write_bytes(pack(bytes(3_000_000)))
    assert unpack(path) == bytes(3_000_000)
    assert unpack(path, 3_000_000) == bytes(3_000_000)
    with pytest.raises(ValueError, match="unpacks to more than 2,999,999 bytes"):
        unpack(path, 2_999_999)


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_damaged_packed_files_are_reported(tmp_path, suffix, pack):
    path = tmp_path / f"some{suffix}"
    whole = pack(bytes(range(256)) * 100)
    for content in (whole[:-4], whole[: len(whole) // 2], b"", b"plain text", b"\x00" * 100):
        path.write_bytes(content)
        if suffix == ".gz" and not content:
            assert unpack(path) == b""  # to gzip, no data are no members
            continue
        with pytest.raises(ValueError, match="truncated or damaged"):
            unpack(path)


def test_an_xz_file_that_asks_for_gigabytes_of_memory_is_refused(tmp_path):
    path = tmp_path / "some.xz"
    small = lzma.compress(b"x", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 2**24}])
    path.write_bytes(small)
    assert unpack(path) == b"x"
    header = bytearray(small)
    assert header[12:16].hex() == "02002101"  # the block: its size, one filter, LZMA2, one byte of properties
    header[16] = 40  # the largest window, 4 GB
    size = (header[12] + 1) * 4
    header[12 + size - 4 : 12 + size] = crc32(header[12 : 12 + size - 4]).to_bytes(4, "little")
    path.write_bytes(header)
    with pytest.raises(ValueError, match=r"(?i)memory"):
        unpack(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"some\.gz"):
        unpack(tmp_path / "some.gz")
