"""Reading archives from strangers: no name is trusted, and no size before it is counted.

Nothing is ever unpacked to disk, so a member's path cannot lead anywhere. Members are found by the last part of their
name, because archives differ in the folders before it (some have ``MUTAG//MUTAG_A.txt``). Sizes are bounded twice: as
they are declared, and as the bytes come.
"""

from __future__ import annotations

import contextlib
import gzip
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from asot.data.npz import reading

LARGEST_MEMBER = 2**30
"""Bytes that a file may have when it is unpacked."""

_CHUNK = 2**20
_XZ_MEMORY = 2**28  # an .xz file may ask for gigabytes of window; ours need a few megabytes
_DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError)


class ZipMembers:
    """The files of a zip archive, by the last part of their name."""

    def __init__(self, archive: zipfile.ZipFile, path: Path) -> None:
        self._archive, self.path = archive, path
        self._members: dict[str, list[zipfile.ZipInfo]] = {}
        for member in archive.infolist():
            if not member.is_dir():
                name = member.filename.replace("\\", "/").rpartition("/")[2]
                self._members.setdefault(name, []).append(member)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    @property
    def names(self) -> list[str]:
        return sorted(self._members)

    def read(self, name: str, largest: int = LARGEST_MEMBER) -> bytes:
        """The unpacked bytes of a member."""
        found = self._members.get(name, [])
        what = f"{self.path}: the member {name}"
        if not found:
            raise ValueError(f"{self.path} has no member {name}; it holds {_listed(self.names)}")
        if len(found) > 1:
            raise ValueError(f"{what} is there {len(found)} times, and which one is meant cannot be known")
        (member,) = found
        if member.flag_bits & 0x1:
            raise ValueError(f"{what} is encrypted; unpack it and pack it again without a password")
        _check_size(member.file_size, largest, what)
        try:
            with self._archive.open(member) as stream:
                return _read_all(stream, min(largest, member.file_size), what)
        except NotImplementedError as error:
            raise ValueError(f"{what} is packed in a way that Python cannot read ({error})") from error
        except _DAMAGED as error:
            raise ValueError(f"{what} cannot be read; the archive is truncated or damaged ({error})") from error


@contextlib.contextmanager
def open_zip(path: Path) -> Iterator[ZipMembers]:
    """The members of the zip file at ``path``."""
    with reading(path) as stream:
        try:
            archive = zipfile.ZipFile(stream)
        except (*_DAMAGED, ValueError, NotImplementedError) as error:
            raise ValueError(f"{path} is not a zip archive, or it is truncated or damaged ({error})") from error
        with archive:
            yield ZipMembers(archive, path)


def unpack(path: Path, largest: int = LARGEST_MEMBER) -> bytes:
    """The bytes of a file, unpacked if its name ends in ``.gz`` or ``.xz``."""
    with reading(path) as stream:
        try:
            if path.suffix == ".xz":
                return _read_xz(stream, largest, str(path))
            if path.suffix == ".gz":
                with gzip.GzipFile(fileobj=stream) as unpacked:
                    return _read_all(unpacked, largest, str(path))
        except _DAMAGED as error:
            raise ValueError(f"{path} cannot be unpacked; it is truncated or damaged ({error})") from error
        return _read_all(stream, largest, str(path))


def _read_all(stream: IO[bytes] | gzip.GzipFile, largest: int, what: str) -> bytes:
    pieces, size = [], 0
    while piece := stream.read(_CHUNK):
        size += len(piece)
        _check_size(size, largest, what)
        pieces.append(piece)
    return b"".join(pieces)


def _read_xz(stream: IO[bytes], largest: int, what: str) -> bytes:
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
    pieces, size = [], 0
    while not unpacker.eof:
        packed = stream.read(_CHUNK) if unpacker.needs_input else b""
        if unpacker.needs_input and not packed:
            raise EOFError("the stream has no end")
        piece = unpacker.decompress(packed, _CHUNK)
        size += len(piece)
        _check_size(size, largest, what)
        pieces.append(piece)
    return b"".join(pieces)


def _check_size(size: int, largest: int, what: str) -> None:
    if size > largest:
        raise ValueError(f"{what} unpacks to more than {largest:,} bytes; it is not what it should be")


def _listed(names: list[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) or "nothing") + more
