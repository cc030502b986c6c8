"""Lists, labeled points and weights over a vocabulary, as the flat arrays of a collection.

Each function returns what `Distributions` is made of: new points, offsets, masses and ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.reading import (
    by_group,
    factorized,
    in_order_of,
    is_missing,
    label_of,
    listed,
    own_floats,
    read_masses,
    read_points,
)
from asot.validation import FloatArray, to_float_array

Flat = tuple[FloatArray, Any, Any, Any]


def flatten_list(arrays: Sequence[Any], masses: Any, ids: Any) -> Flat:
    """From point arrays (n_i, d) with mass arrays (n_i,), or from (points, masses) tuples."""
    if hasattr(arrays, "reindex"):  # a pandas column of arrays
        masses, ids = in_order_of(masses, arrays, "masses", "arrays"), in_order_of(ids, arrays, "ids", "arrays")
        ids = _names_of_rows(arrays) if ids is None else ids
    if isinstance(arrays, Mapping):
        raise TypeError("from_list takes a list of arrays; of a dictionary: from_list(list(d.values()), ids=list(d))")
    entries = list(arrays)
    if not entries:
        raise ValueError("the collection is empty: from_list needs at least one distribution")
    if masses is None and (plain := _joined(entries)) is not None:
        return *plain, None, ids
    if masses is None and all(_is_point_masses(entry) for entry in entries):
        entries, masses = [points for points, _ in entries], [given for _, given in entries]
    entries = with_equal_columns(entries)
    blocks = [to_float_array(a, f"distribution {i}", keep_float32=True) for i, a in enumerate(entries)]
    names = [label_of(i, ids) for i in range(len(blocks))]
    for i, block in enumerate(blocks):
        if block.ndim != 2:
            hint = "; use x[:, None] for points on a line" if block.ndim == 1 else ""
            raise ValueError(f"{names[i]} must be points (n, d); found shape {block.shape}{hint}")
        if len(block) == 0:
            raise ValueError(f"{names[i]} is empty; drop it, a distribution needs at least one point")
        if block.shape[1] != blocks[0].shape[1]:
            raise ValueError(
                f"{names[i]} has points in {block.shape[1]} dimensions, but {names[0]} in {blocks[0].shape[1]}; "
                "all distributions must share one space"
            )
    offsets = np.cumsum([0, *(len(block) for block in blocks)])
    flat_masses = None if masses is None else _flat_masses(list(masses), entries, blocks, names)
    return np.concatenate(blocks), offsets, flat_masses, ids


def _names_of_rows(column: Any) -> Any:
    """The index of a pandas column as ids; None where pandas made it up, or where names are missing."""
    index = getattr(column, "index", None)
    if index is None or hasattr(column, "columns"):
        return None
    names = index.to_numpy()
    if np.array_equal(names, np.arange(len(names))) or is_missing(names).any():
        return None
    return names.tolist() if all(type(name) is str for name in names) else names


def _joined(entries: list[Any]) -> tuple[FloatArray, NDArray[np.int64]] | None:
    """Points and offsets of plain arrays (n_i, d) of floats, n_i > 0, without a look at each; None if they are not."""
    if set(map(type, entries)) != {np.ndarray} or set(map(attrgetter("dtype.char"), entries)) not in ({"d"}, {"f"}):
        return None
    try:
        points = np.concatenate(entries)
    except ValueError:  # different dimensions: whose, is found out elsewhere
        return None
    offsets = np.zeros(len(entries) + 1, np.int64)
    sizes = np.fromiter(map(len, entries), np.int64, len(entries))
    np.cumsum(sizes, out=offsets[1:])
    return (points, offsets) if points.ndim == 2 and sizes.all() else None


def with_equal_columns(entries: list[Any]) -> list[Any]:
    """Data frames with the columns of the first one in its order; everything else, and other names, as they are."""
    columns = _names_of_columns(entries[0])
    if columns is None or len(set(columns)) < len(columns):
        return entries
    others = [_names_of_columns(entry) for entry in entries]
    return [
        entry if own in (None, columns) or len(own) != len(columns) or set(own) != set(columns) else entry[columns]
        for entry, own in zip(entries, others, strict=True)
    ]


def _names_of_columns(entry: Any) -> list[Any] | None:
    """Of a data frame of pandas or polars."""
    return list(entry.columns) if hasattr(entry, "columns") and hasattr(entry, "dtypes") else None


def _is_point_masses(entry: Any) -> bool:
    """Whether an entry of a list is (points, masses), and not points that were written as a tuple."""
    return isinstance(entry, tuple) and len(entry) == 2 and np.ndim(entry[0]) == 2 and np.ndim(entry[1]) == 1


def _flat_masses(masses: list[Any], entries: list[Any], blocks: list[FloatArray], names: list[str]) -> FloatArray:
    if len(masses) != len(blocks):
        raise ValueError(f"masses has {len(masses)} entries for {len(blocks)} distributions")
    parts = []
    for name, given, entry, block in zip(names, masses, entries, blocks, strict=True):
        part = to_float_array(in_order_of(given, entry, f"the masses of {name}", "its points"), f"the masses of {name}")
        if part.shape != (len(block),):
            raise ValueError(f"{name} has {len(block)} points but masses of shape {part.shape}")
        parts.append(part)
    return np.concatenate(parts)


def flatten_groups(points: Any, labels: Any, masses: Any) -> Flat:
    """From points (n, d) and one label per point; with a data frame, labels and masses may name its columns."""
    if isinstance(labels, str):
        points, labels, masses = _columns_of(points, labels, masses)
    labels, masses = in_order_of(labels, points, "labels"), in_order_of(masses, points, "masses")
    masses = in_order_of(masses, labels, "masses", "labels")
    flat = to_float_array(points, "points", keep_float32=True)
    if flat.ndim != 2 or flat.shape[1] == 0:
        raise ValueError(f"points must be (n, d) with d ≥ 1; found shape {flat.shape}")
    return group_points(flat, *factorized(labels, len(flat)), masses)


def group_points(flat: FloatArray, unique: NDArray[Any], group: NDArray[np.int64], masses: Any) -> Flat:
    """From points (n, d), the ids, and the index of every point's id among them."""
    masses = None if masses is None else read_masses(masses, len(flat))
    offsets, order = by_group(group, len(unique))
    if order is None:
        return own_floats(flat, "points"), offsets, masses, unique
    return flat[order], offsets, None if masses is None else masses[order], unique


def _columns_of(frame: Any, labels: str, masses: Any) -> tuple[Any, Any, Any]:
    """Points, labels and masses of a data frame, by column name."""
    columns = list(getattr(frame, "columns", []))
    if not columns or not hasattr(frame, "drop"):
        raise ValueError(f"labels is the string {labels!r}, but points is not a data frame with columns; pass an array")
    chosen = [name for name in (labels, masses) if isinstance(name, str)]
    for name in chosen:
        if name not in columns:
            raise ValueError(f"there is no column {name!r}; the columns are {listed(columns)}")
    rest = [name for name in columns if name not in chosen]
    for name in rest:
        kind = str(frame[name].dtype)
        if kind.lower() in ("object", "str", "string", "category", "categorical") or "date" in kind.lower():
            raise ValueError(
                f"the column {name!r} holds {kind}, not numbers; choose the coordinates: "
                f"Distributions.from_table(table, by={labels!r}, points=[...])"
            )
    return frame[rest], frame[labels], frame[masses] if isinstance(masses, str) else masses


def flatten_weights(
    weights: Any, support: Any, ids: Any
) -> tuple[FloatArray, NDArray[Any], NDArray[Any], NDArray[Any], Any]:
    """The vocabulary (V, d), the index of every point in it (n,), offsets, masses and ids."""
    from scipy import sparse

    if hasattr(weights, "columns") and hasattr(weights, "reindex"):  # a data frame: columns are words, rows are names
        if hasattr(support, "reindex"):
            weights = in_order_of(weights.T, support, "the columns of weights", "support").T
        if ids is None and type(weights.index).__name__ != "RangeIndex":
            ids = weights.index.to_numpy()
        else:
            ids = in_order_of(ids, weights, "ids", "weights")
    vocabulary = read_points(support)
    if not sparse.issparse(weights):
        weights = to_float_array(weights, "weights")
        if weights.ndim != 2:
            raise ValueError(f"weights must be (N, V); found shape {weights.shape}")
    table = sparse.csr_array(weights, dtype=np.float64, copy=True)  # tidied in place below
    if table.shape[1] != len(vocabulary):
        raise ValueError(f"weights are over {table.shape[1]} points, but the support has {len(vocabulary)}")
    table.sum_duplicates()
    table.eliminate_zeros()
    if np.any(np.diff(table.indptr) == 0):
        i = int(np.argmin(np.diff(table.indptr)))
        raise ValueError(f"{label_of(i, ids)} has zero total mass; drop row {i} of the weights")
    return vocabulary, table.indices, table.indptr, table.data, ids
