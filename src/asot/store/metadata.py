"""What the JSON files of a store may say. A folder from a stranger is just data: its manifest must make sense, and its
arrays must be described exactly as this package describes them. So zarr is never handed a type, a codec or a size of
chunks that somebody else chose, nothing in a store is executed, and memory is only taken for files that are there.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from asot._typing import Header
from asot.data.expansion import check_expansion
from asot.store.identity import DECLARED

FORMAT = 1
CHECKSUM_BYTES = 4
FILLS = {"status": -1, "indices": np.iinfo(np.int64).max, "pairs": 0}
TYPES = {"status": {"int8"}, "indices": {"int64"}}
FLOATS = {"float64", "float32"}
LARGEST_JSON = 2**24

MOST_ROWS = {"squares": 2**12, "nearest": 2**13, "list": 2**20}
"""Rows of a chunk, at most: by what a store keeps."""

SMALLEST_CHUNK = 2**14
"""Bytes of a chunk of the listed pairs, at least, where there are several."""


def read_manifest(path: str | os.PathLike[str]) -> Header:
    """The manifest of a store, checked."""
    try:
        group = _read_json(Path(path) / "zarr.json")
        manifest = group["attributes"]["asot"]
        known = manifest["format"] == FORMAT
    except OSError as error:
        raise FileNotFoundError(f"{path} is not a store: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is not an asot store: its zarr.json has no manifest") from error
    if not known:
        raise ValueError(f"{path} is a store in another format of asot, or damaged; this version reads {FORMAT}")
    if group.get("zarr_format") != 3 or group.get("node_type") != "group":
        raise ValueError(f"{path} is not an asot store: its zarr.json does not describe a group of Zarr 3")
    wrong = _what_is_wrong(manifest)
    if wrong is not None:
        raise ValueError(
            f"{path} is a store in another format of asot, or damaged: {wrong!r} in its manifest makes no sense"
        )
    return dict(manifest)


def _read_json(file: Path) -> Header:
    if file.exists() and not file.is_file():
        raise ValueError(f"{file} is not a file")
    with open(file, encoding="utf-8") as text:
        content = json.loads(text.read(LARGEST_JSON))
    if not isinstance(content, dict):
        raise ValueError(f"{file} is not a JSON object")
    return content


def _what_is_wrong(manifest: Mapping[str, Any]) -> str | None:
    """The name of an entry that makes no sense."""
    pairs = manifest.get("pairs")
    if not _is_pairs(pairs):
        return "pairs"
    assert pairs is not None
    k, plan = manifest.get("n_neighbors"), manifest.get("plan", "squares")
    if k is not None and (not _is_count(k) or pairs["kind"] == "list" or k > pairs["n_columns"]):
        return "n_neighbors"
    if plan not in (("squares",) if k is None else ("squares", "strips")):
        return "plan"
    side: Any = manifest.get("side")
    most = MOST_ROWS["nearest" if k is not None else "list" if pairs["kind"] == "list" else "squares"]
    if not _is_count(side) or side > most:
        return "side"
    if not _are_fields(manifest.get("fields"), k):
        return "fields"
    if not isinstance(manifest.get("asot"), str):
        return "asot"
    if not (manifest.get("identity", 1) in (1, DECLARED) and _is_count(manifest.get("identity", 1))):
        return "identity"
    plain = (str, int, float, type(None))  # as fingerprints have them
    for name in ("settings", "inputs"):
        record = manifest.get(name)
        if not isinstance(record, dict) or not all(isinstance(entry, plain) for entry in record.values()):
            return name
    return None


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 < value < 2**31


def _is_pairs(pairs: Any) -> bool:
    if not isinstance(pairs, dict) or pairs.get("kind") not in ("all", "cross", "list"):
        return False
    n, m, symmetric = pairs.get("n_rows"), pairs.get("n_columns"), pairs.get("symmetric")
    if not (_is_count(n) and _is_count(m) and isinstance(symmetric, bool)):
        return False
    return pairs["kind"] == "list" or (symmetric == (pairs["kind"] == "all") and (n == m or not symmetric))


def _are_fields(fields: Any, n_neighbors: int | None) -> bool:
    if not isinstance(fields, dict):
        return False
    needed = {"values"} if n_neighbors is None else {"distances", "indices"}
    more = {"lower", "upper", "error", "status"} if n_neighbors is None else set()
    typed = all(isinstance(dtype, str) and dtype in TYPES.get(name, FLOATS) for name, dtype in fields.items())
    return needed <= set(fields) <= needed | more and typed


def check_array(folder: Path, name: str, shape: Sequence[int], chunks: Sequence[int], dtype: str) -> None:
    """Refuse an array that is described in any other way than ours are."""
    file = folder / name / "zarr.json"
    _compare(file, _read_description(file), _array_metadata(name, shape, chunks, dtype))


def check_pairs(folder: Path) -> None:
    """Refuse the listed pairs of a store, unless they can be read with little more memory than their files."""
    own = folder / "pairs"
    file = own / "zarr.json"
    told = _read_description(file)
    shape = told.get("shape")
    if not isinstance(shape, list) or len(shape) != 2 or not all(map(_is_count, shape)) or shape[1] != 2:
        raise _damaged(file, "shape")
    grid = told.get("chunk_grid")
    inner = grid.get("configuration") if isinstance(grid, dict) else None
    chunks: Any = inner.get("chunk_shape") if isinstance(inner, dict) else None
    fits = isinstance(chunks, list) and len(chunks) == 2 and all(map(_is_count, chunks)) and chunks[1] <= 2
    if not fits or chunks[0] > shape[0]:
        raise _damaged(file, "chunk_grid")
    codecs = told.get("codecs")
    is_packed = isinstance(codecs, list) and codecs[1:] == [_ZSTD]  # as the first stores had them
    _compare(file, told, _array_metadata("pairs", shape, chunks, "int64", _ZSTD if is_packed else _CHECKSUM))
    down, across = -(-shape[0] // chunks[0]), -(-2 // chunks[1])
    n_bytes, held = 16 * shape[0], 8 * math.prod(chunks)
    if down * across > 2 + n_bytes // SMALLEST_CHUNK:
        raise _damaged(file, "chunk_grid")
    there = [part for i in range(down) for j in range(across) if (part := own.joinpath("c", str(i), str(j))).exists()]
    if not all(part.is_file() for part in there):
        raise ValueError(f"{own} holds things that are not files; the store is damaged")
    check_expansion(n_bytes, own, sum(part.stat().st_size for part in there))
    for part in there:
        size = _zstd_size(part) if is_packed else part.stat().st_size - CHECKSUM_BYTES
        if size != held:
            raise ValueError(f"{part} does not hold {held:,} bytes; it is damaged")


_CHECKSUM: Header = {"name": "crc32c"}
_ZSTD: Header = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}


def _array_metadata(
    name: str, shape: Sequence[int], chunks: Sequence[int], dtype: str, packing: Header = _CHECKSUM
) -> Header:
    """How zarr describes an array of ours; what it leaves empty is left out."""
    order = {} if dtype == "int8" else {"configuration": {"endian": "little"}}
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": FILLS.get(name, "NaN"),
        "codecs": [{"name": "bytes", **order}, packing],
    }


def _compare(file: Path, found: Header, expected: Header) -> None:
    """Refuse a description that says anything else; as text, in which 1, 1.0 and true differ."""
    if json.dumps(found, sort_keys=True) == json.dumps(expected, sort_keys=True):
        return
    for key in (*expected, *found):
        if json.dumps(found.get(key), sort_keys=True) != json.dumps(expected.get(key), sort_keys=True):
            raise _damaged(file, key)


def _read_description(file: Path) -> Header:
    """The JSON of an array without what is empty: versions of zarr differ in whether they write it down."""
    try:
        return dict(_without_empty(_read_json(file)))
    except OSError as error:
        raise ValueError(f"the store is damaged: {file} cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the store is damaged: {file} is not JSON") from error


def _without_empty(told: Any) -> Any:
    if isinstance(told, dict):
        return {key: _without_empty(value) for key, value in told.items() if value not in ({}, [], None)}
    return [_without_empty(value) for value in told] if isinstance(told, list) else told


def _zstd_size(file: Path) -> int:
    """Bytes that a Zstandard frame says it expands to; -1 if it does not say, which our writer always did."""
    with open(file, "rb") as stream:
        head = stream.read(18)
    if len(head) < 6 or head[:4] != b"\x28\xb5\x2f\xfd":
        return -1
    flags = head[4]
    single = flags >> 5 & 1
    start = 5 + (not single) + (0, 1, 2, 4)[flags & 3]  # behind the size of the window and the dictionary
    width = (1 if single else 0, 2, 4, 8)[flags >> 6]
    if width == 0 or len(head) < start + width:
        return -1
    return int.from_bytes(head[start : start + width], "little") + (256 if width == 2 else 0)


def _damaged(file: Path, what: str) -> ValueError:
    return ValueError(f"the store is damaged, or not from asot: {what!r} in {file} is not what asot writes")
