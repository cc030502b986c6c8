"""Cells from an ``.h5ad`` file that nobody vouches for.

HDF5 has many ways to say more than a file holds: links to one data set under many names or in other files, data sets
that are made of other files, references, chunks that were never written, a text that is pointed at a million times. So
only the names of the cells, one column of ``obs`` and one representation are read; everything about them must lie in
this file, and is counted as often as it will be read, before anndata sees it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from asot.data.expansion import FACTOR, FLOOR, check_expansion
from asot.data.npz import PathLike
from asot.data.reading import listed

COLUMNS = ("", "array", "string-array", "categorical", "nullable-integer", "nullable-boolean", "nullable-string-array")
MATRICES = ("", "array", "csr_matrix", "csc_matrix", "dataframe")
"""How anndata may have written a column, and a representation."""

MOST_PARTS, DEEPEST = 100_000, 8


def keys(group: Any) -> list[str]:
    """The names in a group of cells, without its index."""
    if group is None or not hasattr(group, "keys"):
        return []
    index, there = _text(group.attrs.get("_index", "_index")), list(group)
    told = [name for name in map(_text, np.atleast_1d(group.attrs.get("column-order", []))) if name in there]
    return [key for key in dict.fromkeys([*told, *there]) if key not in (index, "__categories")]


def member(group: Any, name: str, path: PathLike) -> Any:
    """What has this name in a group, in this file; None if there is nothing."""
    import h5py

    if not hasattr(group, "keys") or "/" in name or name in (".", "..") or name not in list(group):
        return None
    try:
        link = group.get(name, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            raise _refused(path, name, f"is a link to another file, {link.filename!r}")
        node = group[name]
        if h5py.h5o.get_info(node.id).fileno != h5py.h5o.get_info(group.id).fileno:  # by a link to such a link
            raise _refused(path, name, "is a link to another file")
        return node
    except (KeyError, RuntimeError, OSError) as error:
        raise ValueError(f"{path}: {name!r} leads nowhere; the file is damaged") from error


def read_obs(file: Any, groupby: str, path: PathLike) -> Any:
    """A data frame of one column, ``groupby``, with the names of the cells as its index."""
    import pandas

    obs = member(file, "obs", path)
    try:
        if not hasattr(obs, "keys"):  # a table, as anndata wrote it before 2020
            frame = pandas.DataFrame(read(obs, path, ("", "array", "rec-array")))
            _check_column(groupby, list(frame.columns), path)
            return frame
        _check_column(groupby, keys(obs), path)
        index = _text(obs.attrs.get("_index", "_index"))
        names, column = member(obs, index, path), member(obs, groupby, path)
        if names is None:
            raise ValueError(f"{path}: obs has no names of cells ({index!r}); the file is damaged")
        return pandas.DataFrame({groupby: _column(column, path)}, index=pandas.Index(read(names, path, COLUMNS)))
    except (TypeError, ValueError) as error:
        told = str(error)
        raise ValueError(told if str(path) in told else f"{path}: obs is not a table of cells: {error}") from error


def _check_column(name: str, known: list[str], path: PathLike) -> None:
    if name not in known:
        raise ValueError(f"{path}: obs has no column {name!r}; it has {listed(known)}")


def _column(node: Any, path: PathLike) -> Any:
    """A column; one with categories elsewhere, as before anndata 0.8, is put together here."""
    import h5py
    import pandas

    reference = node.attrs.get("categories")
    if hasattr(node, "keys") or reference is None:
        return read(node, path, COLUMNS)
    if not isinstance(reference, h5py.Reference):
        raise ValueError(f"{path}: the categories of {node.name!r} are not in the file; it is damaged")
    try:
        target = node.file[reference]
    except (KeyError, ValueError, RuntimeError, OSError) as error:
        raise ValueError(f"{path}: the categories of {node.name!r} lead nowhere; the file is damaged") from error
    return pandas.Categorical.from_codes(read(node, path, COLUMNS), read(target, path, COLUMNS))


def matrix(node: Any, n_cells: int, name: str, path: PathLike) -> Any:
    """A dense matrix stays in the file and is read in blocks; everything else is read now."""
    if not hasattr(node, "keys"):
        _check_rows(getattr(node, "shape", None), n_cells, name, path)
        check_parts(node, path)
        return node
    held = read(node, path, MATRICES)
    _check_rows(held.shape, n_cells, name, path)
    check_expansion(8 * math.prod(held.shape), path)  # it will be made dense
    if hasattr(held, "check_format"):
        try:
            held.check_format(full_check=True)  # SciPy writes to wherever the indices say
        except ValueError as error:
            raise ValueError(f"{path}: {name!r} is not a sparse matrix: {error}") from error
    return held


def _check_rows(shape: Any, n_cells: int, name: str, path: PathLike) -> None:
    if shape is None or len(shape) != 2 or shape[0] != n_cells:
        raise ValueError(f"{path}: {name!r} has the shape {shape}, not a row for each of the {n_cells:,} cells")


def read(node: Any, path: PathLike, encodings: tuple[str, ...]) -> Any:
    """What anndata makes of a part of the file, if it is of a known kind and not larger than the file accounts for."""
    from anndata.io import read_elem

    kind = _text(node.attrs.get("encoding-type", ""))
    if kind not in encodings:
        raise ValueError(f"{path}: {node.name!r} is written as {kind!r}, which is not read here")
    check_parts(node, path)
    try:
        return read_elem(node)
    except Exception as error:  # whatever a damaged file makes of anndata
        raise ValueError(f"{path}: anndata cannot read {node.name!r}: {error}") from error


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def check_parts(node: Any, path: PathLike) -> None:
    """Refuse a data set or a group that leaves the file, or takes more memory than the file accounts for."""
    total = 0
    for count, part in enumerate(_data_sets(node, path, 0)):
        if count >= MOST_PARTS:
            raise _refused(path, node.name, f"has more than {MOST_PARTS:,} parts")
        total += _bytes(part, path)
        check_expansion(2 * total, path)
    for part in _data_sets(node, path, 0):
        if part.dtype.kind == "O":
            total += _bytes_of_texts(part, path, total)


def _data_sets(node: Any, path: PathLike, depth: int) -> Iterator[Any]:
    """Every data set below a node, as often as it has a name there."""
    if not hasattr(node, "keys"):
        yield node
        return
    if depth > DEEPEST:
        raise _refused(path, node.name, "contains itself, or is very deep")
    names = {_text(name) for name in np.atleast_1d(node.attrs.get("column-order", []))}
    names |= {_text(node.attrs["_index"])} if "_index" in node.attrs else set()
    outside = sorted(names - set(node))
    if outside:
        raise _refused(path, node.name, f"names {outside[0]!r}, which it does not contain")
    for name in node:
        yield from _data_sets(member(node, name, path), path, depth + 1)


def _bytes(part: Any, path: PathLike) -> int:
    """Memory for a data set, or for its largest chunk, which is read whole."""
    import h5py

    if not isinstance(part, h5py.Dataset):
        raise _refused(path, part.name, "is not a data set")
    if part.is_virtual:
        raise _refused(path, part.name, "is made of other data sets (virtual)")
    if part.external:
        raise _refused(path, part.name, f"keeps its numbers in another file, {part.external[0][0]!r}")
    is_text = h5py.check_string_dtype(part.dtype) is not None
    if part.dtype.hasobject and not is_text:
        raise _refused(path, part.name, "holds references or lists")
    each = 64 if part.dtype.kind == "O" else 4 * part.dtype.itemsize if is_text else max(8, part.dtype.itemsize)
    chunk = math.prod(part.chunks) * part.dtype.itemsize if part.chunks else 0
    return max(each * int(part.size or 0), chunk)


def _bytes_of_texts(part: Any, path: PathLike, before: int) -> int:
    """Memory for texts of any length, which are read a few at a time: each could be as long as the file."""
    if part.shape is None or part.ndim != 1:
        return 0
    total, step = 0, max(FACTOR, FLOOR // max(1, part.file.id.get_filesize()))
    for start in range(0, len(part), step):
        try:
            texts = part[start : start + step]
        except Exception as error:  # a damaged heap
            raise ValueError(f"{path}: the texts of {part.name!r} cannot be read; the file is damaged") from error
        total += sum(len(text) for text in texts if isinstance(text, (bytes, str)))
        check_expansion(2 * (before + 2 * total), path)
    return 2 * total


def _refused(path: PathLike, name: Any, why: str) -> ValueError:
    return ValueError(f"{path}: {name!r} {why}; such files are not read: write the cells again with anndata")
