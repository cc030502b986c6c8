"""Arrays in files: written completely or not at all, and read safely.

asot writes a zip of plain arrays (``.npz``) with a JSON header that gives the kind and the version of the format.
Reading executes nothing: names, types and sizes are checked before memory is allocated, so a malicious, truncated or
misnamed file ends in a one-sentence error that names it. Writing goes to a temporary file in the same folder, which
gets the final name only when it is complete.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Header
from asot.data.expansion import check_expansion
from asot.data.reading import ends_in_nul, text_array
from asot.data.temporary import create_owned, remove_orphans

PathLike = str | os.PathLike[str]
Arrays = dict[str, NDArray[Any]]

VERSION = 1
"""Version of the files this module writes; it reads this one and older ones."""

PLAIN_KINDS = "fiubUS"
"""NumPy's letters for floats, integers, booleans and strings: nothing that needs pickle."""

_KINDS = {
    "anchor-space": "an anchor space",
    "learned-space": "a learned anchor space",
    "distances": "distances",
    "distributions": "a collection",
    "index": "the settings of an index",
    "model": "what distances were made with",
    "index-frame": "the frame of an index",
}
_LARGEST_NPY_HEADER = 2**16
_LARGEST_JSON_HEADER = 2**24
_BEST_DEFLATE_RATIO = 1032  # no deflate stream expands further
_CHUNK = 2**20


@contextlib.contextmanager
def atomic_write(path: PathLike) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears under its name only if the block ends without an error.

    Until then, and after any failure, an existing file is untouched.

    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "answer.txt"
    >>> with atomic_write(target) as stream:
    ...     _ = stream.write(b"42")
    >>> target.read_text()
    '42'
    """
    target = Path(os.path.realpath(path))  # a link stays a link: what it points to is replaced
    temporary, descriptor = _create_beside(target, path)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            os.chmod(temporary, target.stat().st_mode & 0o7777)
        os.replace(temporary, target)
    except OSError as error:
        raise type(error)(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def suffix_of(path: PathLike, allowed: Sequence[str], what: str) -> str:
    """The ending of a name, in small letters; any other than these is refused: ``what`` cannot be done.

    >>> suffix_of("d.NPY", (".npy", ".npz"), "write distances to")
    '.npy'
    """
    suffix = Path(path).suffix.lower()
    if suffix not in allowed:
        known = " or ".join(filter(None, (", ".join(allowed[:-1]), allowed[-1])))
        raise ValueError(f"cannot {what} {path}: its name must end in {known}")
    return suffix


def check_writable(path: PathLike) -> None:
    """Raise the error that writing ``path`` would end in, before any long work begins."""
    temporary, descriptor = _create_beside(Path(os.path.realpath(path)), path)
    os.close(descriptor)
    temporary.unlink()


def _create_beside(target: Path, shown: PathLike) -> tuple[Path, int]:
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {shown}: it is a folder")
    if target.exists() and not target.is_file():
        raise OSError(f"cannot write {shown}: it is not a regular file")
    try:
        remove_orphans(target.parent)
        return create_owned(target.parent)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"cannot write {shown}: the folder {target.parent} does not exist") from error
    except NotADirectoryError as error:
        raise NotADirectoryError(f"cannot write {shown}: {target.parent} is not a folder") from error
    except OSError as error:
        reason = "no permission to write in" if error.errno in (errno.EACCES, errno.EPERM) else f"{error.strerror}:"
        raise type(error)(f"cannot write {shown}: {reason} {target.parent}") from error


def read_arrays(path: PathLike, required: Sequence[str] = (), optional: Sequence[str] = ()) -> Arrays:
    """Read named arrays from an untrusted ``.npz`` file: a missing required one is an error, others are ignored.

    Only plain arrays are read (numbers, booleans, strings), never pickled objects. The declared size of each array is
    compared with the bytes that are there, and the memory for reading with the size of the file
    (`asot.data.expansion`).
    """
    with _open_zip(path) as archive:
        members = _members(archive, path)
        missing = [name for name in required if name not in members]
        if missing:
            found = ", ".join(sorted(map(repr, members))) or "nothing"
            raise ValueError(f"{path} has no array {missing[0]!r}; it holds {found}")
        wanted = {name: members[name] for name in (*required, *optional) if name in members}
        _check_declared_sizes(wanted, path)
        arrays: Arrays = {}
        for name, member in wanted.items():
            arrays[name] = _read_member(archive, name, member, path)
            check_expansion(sum(map(_needed, arrays.values())), path)
        return arrays


def list_arrays(path: PathLike) -> list[str]:
    """The names of the arrays in an ``.npz`` file."""
    with _open_zip(path) as archive:
        return sorted(_members(archive, path))


def read_array(path: PathLike) -> NDArray[Any]:
    """Read an ``.npy`` file with the same care."""
    size = os.path.getsize(path) if os.path.exists(path) else 0
    with reading(path) as stream:
        try:
            return _read_npy(stream, size, os.fspath(path))
        except EOFError as error:
            raise ValueError(f"{path} is truncated") from error


def save_arrays(path: PathLike, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays and a JSON header (with at least a ``kind``) to an ``.npz`` file.

    >>> import tempfile, pathlib, numpy as np
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "space.npz"
    >>> save_arrays(target, {"kind": "anchor-space", "note": "mine"}, {"anchors": np.zeros((3, 2))})
    >>> header, arrays = load_arrays(target, "anchor-space", required=["anchors"])
    >>> header["note"], arrays["anchors"].shape
    ('mine', (3, 2))
    """
    for name, values in arrays.items():
        if values.dtype.kind not in PLAIN_KINDS:
            raise ValueError(f"cannot write {path}: the array {name!r} holds {values.dtype}, not plain numbers or text")
    text = json.dumps(_plain({"format": "asot", "version": VERSION, **header}), ensure_ascii=False)
    encoded = np.frombuffer(text.encode(), dtype=np.uint8)
    with atomic_write(path) as stream:
        np.savez(stream, header=encoded, **arrays)  # type: ignore[arg-type]


def load_arrays(
    path: PathLike, kind: str, required: Sequence[str] = (), optional: Sequence[str] = ()
) -> tuple[Header, Arrays]:
    """Read back what `save_arrays` wrote as this ``kind``: the header, and the arrays by name."""
    header = read_header(path)
    if header is None:
        raise ValueError(f"{path} does not hold {_KINDS[kind]} written by asot: it has no header")
    check_kind(header, kind, path)
    return header, read_arrays(path, required, optional)


def read_header(path: PathLike) -> Header | None:
    """The JSON header of a file that asot wrote, or None for an ``.npz`` file from elsewhere."""
    with _open_zip(path) as archive:
        members = _members(archive, path)
        if "header" not in members:
            return None
        if members["header"].file_size > _LARGEST_JSON_HEADER:
            raise ValueError(f"{path} has a header of {members['header'].file_size:,} bytes; it is not from asot")
        _check_declared_sizes({"header": members["header"]}, path)
        raw = _read_member(archive, "header", members["header"], path)
    try:
        header = json.loads(raw.tobytes().decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} has a header that is not JSON; it is damaged or not from asot") from error
    if not isinstance(header, dict) or header.get("format") != "asot":
        raise ValueError(f"{path} has a header, but not one that asot writes")
    version = header.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(f"{path} has a header without a version; it is damaged")
    if version > VERSION:
        raise ValueError(f"{path} has format version {version}, newer than the {VERSION} read here; upgrade asot")
    return header


def check_kind(header: Header, kind: str, path: PathLike) -> None:
    found = header.get("kind")
    if not isinstance(found, str) or found not in _KINDS:
        raise ValueError(f"{path} holds {found!r}, which is unknown to this version of asot")
    if found != kind:
        raise ValueError(f"{path} holds {_KINDS[found]}, not {_KINDS[kind]}")


@contextlib.contextmanager
def _open_zip(path: PathLike) -> Iterator[zipfile.ZipFile]:
    with reading(path) as stream:
        start = stream.read(6)
        stream.seek(0)
        try:
            archive = zipfile.ZipFile(stream)
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
            if start[:2] == b"PK":
                raise ValueError(f"{path} is truncated or damaged: its table of contents cannot be read") from error
            hint = "; it is a single .npy array" if start == b"\x93NUMPY" else ""
            raise ValueError(f"{path} is not an .npz file, whatever its name says{hint}") from error
        with archive:
            yield archive


@contextlib.contextmanager
def reading(path: PathLike) -> Iterator[IO[bytes]]:
    """The file, open for reading, with readable errors."""
    try:
        stream = open(path, "rb")  # noqa: SIM115 (only opening may be renamed, not what happens while it is open)
    except OSError as error:
        known = {FileNotFoundError: "there is no such file", IsADirectoryError: "it is a folder"}
        raise type(error)(f"cannot read {path}: {known.get(type(error), error.strerror)}") from error
    with stream:
        yield stream


def _members(archive: zipfile.ZipFile, path: PathLike) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        name = member.filename.removesuffix(".npy")
        if name in members:
            raise ValueError(f"{path} holds the array {name!r} twice; it is damaged")
        members[name] = member
    return members


def _check_declared_sizes(members: Mapping[str, zipfile.ZipInfo], path: PathLike) -> None:
    """Refuse sizes that the bytes in the file cannot expand to, and totals that cannot fit."""
    on_disk = os.path.getsize(path)
    for name, member in members.items():
        stored = member.compress_type == zipfile.ZIP_STORED
        if not stored and member.compress_type != zipfile.ZIP_DEFLATED:
            raise ValueError(f"{path} packs the array {name!r} in a way that NumPy does not write")
        largest = member.compress_size if stored else _BEST_DEFLATE_RATIO * (member.compress_size + 1)
        if member.compress_size > on_disk or member.file_size > largest:
            raise ValueError(f"{path} declares more bytes for the array {name!r} than it holds; it is damaged")
    check_expansion(sum(member.file_size for member in members.values()), path)


def _read_member(archive: zipfile.ZipFile, name: str, member: zipfile.ZipInfo, path: PathLike) -> NDArray[Any]:
    try:
        with archive.open(member) as stream:
            return _read_npy(stream, member.file_size, f"{path}: the array {name!r}")
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
        raise ValueError(f"{path}: the array {name!r} cannot be read; the file is truncated or damaged") from error


def _read_npy(stream: IO[bytes], size: int, what: str) -> NDArray[Any]:
    """One array from a stream of ``size`` bytes in NumPy's format; ``what`` begins the messages."""
    head = stream.read(min(size, _LARGEST_NPY_HEADER))
    shape, fortran, dtype, begin = _read_npy_header(head, what)
    if dtype.hasobject or dtype.kind not in PLAIN_KINDS or dtype.itemsize == 0:
        raise ValueError(f"{what} holds {dtype} data; only numbers and text are read, never pickled objects")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size - begin:
        raise ValueError(
            f"{what} claims the shape {shape} of {dtype}, but {size - begin:,} bytes are there; "
            "the file is truncated or damaged"
        )
    flat = _fill(np.empty(math.prod(shape), dtype), head[begin:], stream)
    if dtype.kind == "U" and not _is_text(flat):
        raise ValueError(f"{what} holds text that is not Unicode; the file is damaged")
    try:
        return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{what} claims the shape {shape}, which cannot be; the file is damaged") from error


def _read_npy_header(head: bytes, what: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, whether columns come first, type, and where the data begins."""
    stream = io.BytesIO(head)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        shape, fortran, dtype = readers[np.lib.format.read_magic(stream)](stream)
    except Exception as error:  # the header is untrusted: NumPy's parser may fail in any way
        raise ValueError(f"{what} is not an array; the file is damaged or not what its name says") from error
    return shape, fortran, dtype, stream.tell()


def _fill(flat: NDArray[Any], first: bytes, stream: IO[bytes]) -> NDArray[Any]:
    """Copy the bytes in pieces, so that memory is only used for bytes that are really there."""
    target = memoryview(flat.view(np.uint8).data) if len(flat) else memoryview(bytearray())
    done = len(first)
    target[:done] = first
    while done < len(target):
        piece = stream.read(min(_CHUNK, len(target) - done))
        if not piece:
            raise EOFError
        target[done : done + len(piece)] = piece
        done += len(piece)
    return flat


def _needed(array: NDArray[Any]) -> int:
    """Bytes of memory by the time it is part of a result: float64, copied once and checked; masses are also scaled."""
    if array.dtype.kind in "US":
        return 3 * array.nbytes
    return array.nbytes + (48 if array.ndim < 2 else 24) * array.size


def _is_text(flat: NDArray[Any]) -> bool:
    codes = flat.view(np.dtype(np.uint32).newbyteorder(flat.dtype.byteorder))
    return not np.any((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes <= 0xDFFF)))


def plain_ids(ids: NDArray[Any]) -> NDArray[Any]:
    """Ids that a file can hold: numbers and strings as they are, everything else as strings."""
    if ids.dtype.kind in PLAIN_KINDS:
        return ids
    texts = text_array([str(entry) for entry in ids])
    if texts.dtype.kind not in PLAIN_KINDS:
        cut = next(filter(ends_in_nul, texts.tolist()), None)
        if cut is not None:
            raise ValueError(f"the id {cut!r} ends in a NUL, which an array in a file cannot keep; leave it off")
        longest = max(texts, key=len)
        raise ValueError(f"the id {longest[:20]!r}… has {len(longest):,} letters, too many for a file; shorten it")
    return texts


def _plain(value: Any) -> Any:
    """What JSON can hold of a value: NumPy's become numbers and lists, and unknown objects become strings."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(entry) for entry in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if value is None or type(value) in (str, bool, int, float):
        return value
    if isinstance(value, int):  # an enumeration
        return int(value)
    return str(value)


@contextlib.contextmanager
def naming(path: PathLike) -> Iterator[None]:
    """Put the name of the file in front of messages about its content."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
