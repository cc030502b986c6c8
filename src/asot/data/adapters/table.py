"""Tables as collections: pandas, polars, Arrow and anything else that narwhals reads, by column name.

Columns are copied into the points one at a time, so that besides the result only one column is in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.flatten import Flat
from asot.data.reading import by_group, factorized, listed
from asot.lazy import needed
from asot.validation import FloatArray


def flatten_table(table: Any, by: str, points: str | Sequence[str], masses: str | None) -> Flat:
    """Points, offsets, masses and ids of a table with one row per point, or one row per distribution."""
    frame = _as_frame(table)
    names = [points] if isinstance(points, str) else list(points)
    if not names:
        raise ValueError("points is empty: it must name the columns of the coordinates")
    for name in (by, *names, *([] if masses is None else [masses])):
        if name not in frame.columns:
            raise ValueError(f"there is no column {name!r}; the columns are {listed(frame.columns)}")
    if len(frame) == 0:
        raise ValueError("the table is empty: it has no rows")
    if any(str(frame[name].dtype).startswith(("List", "Array")) for name in names):
        return _flatten_nested(frame, by, names, masses)
    for name in (*names, *([] if masses is None else [masses])):
        _check_numbers(frame[name], name)
    unique, group = _labels(frame[by], by)
    offsets, order = by_group(group, len(unique))
    flat = _gathered([frame[name] for name in names], order)
    given = None if masses is None else _gathered([frame[masses]], order)[:, 0]
    return flat, offsets, given, unique


def _as_frame(table: Any) -> Any:
    narwhals = needed("narwhals", "from_table reads tables with narwhals: pip install asot[tables]")
    try:
        frame = narwhals.from_native(table)
    except TypeError as error:
        raise ValueError(
            f"table must be a pandas, polars or Arrow table; found {type(table).__name__}. For an AnnData use "
            "from_anndata, for an array from_groups"
        ) from error
    if isinstance(frame, narwhals.LazyFrame):
        raise ValueError("the table is lazy; collect it first: table.collect()")
    return frame


def _labels(column: Any, name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    missing = column.is_null().to_numpy()
    if missing.any():
        raise ValueError(f"column {name!r} is missing in row {int(np.argmax(missing))}; every point needs one")
    native = column.to_native()
    if str(column.dtype) == "String" and hasattr(native, "factorize"):  # pandas, which keeps strings out of Python
        codes, distinct = native.factorize()
        unique, rank = factorized(np.asarray(distinct, dtype=object), len(distinct))
        return unique, rank[codes]
    return factorized(native if hasattr(native, "cat") and hasattr(native, "iloc") else column.to_numpy(), len(column))


def _check_numbers(column: Any, name: str) -> None:
    if not (column.dtype.is_numeric() or str(column.dtype) == "Boolean"):
        hint = "; for lists of arrays use from_list" if str(column.dtype) == "Object" else ""
        raise ValueError(f"column {name!r} holds {column.dtype}, not numbers{hint}")
    if column.null_count():
        row = int(np.argmax(column.is_null().to_numpy()))
        raise ValueError(f"column {name!r} is missing in row {row}; drop or impute it")


def _gathered(columns: list[Any], order: NDArray[np.int64] | None) -> FloatArray:
    """The columns side by side (n, d), rows in the given order."""
    is_short = all(str(column.dtype) in ("Float32", "Float16") for column in columns)
    flat = np.empty((len(columns[0]), len(columns)), dtype=np.float32 if is_short else np.float64)
    for c, part in enumerate(column.to_numpy() for column in columns):
        flat[:, c] = part if order is None else part[order]
    return flat


def _flatten_nested(frame: Any, by: str, names: list[str], masses: str | None) -> Flat:
    """One row per distribution: the lists in a column are its points, or one coordinate of them."""
    every = [*names, *([] if masses is None else [masses])]
    read = [_lists(frame[name], name) for name in every]
    offsets, coordinates = read[0][0], [part for _, part in read[: len(names)]]
    for name, (others, _) in zip(every, read, strict=True):
        if not np.array_equal(offsets, others):
            sizes, of_others = np.diff(offsets), np.diff(others)
            row = int(np.argmax(sizes != of_others))
            raise ValueError(
                f"row {row} has {sizes[row]} entries in column {names[0]!r} and {of_others[row]} in {name!r}; both "
                "must have the same number"
            )
    if any(part.ndim > 1 for part in coordinates) and len(names) > 1:
        raise ValueError(f"column {names[0]!r} holds whole points; pass no other column")
    points = coordinates[0] if coordinates[0].ndim == 2 else np.column_stack(coordinates)
    points = np.array(points, dtype=np.float32 if points.dtype == np.float32 else np.float64)
    return points, offsets, None if masses is None else read[-1][1], frame[by].to_numpy()


def _lists(column: Any, name: str) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Offsets (N + 1,) and values, (n,) or (n, d), of a column of lists."""
    array: Any = column.to_arrow()
    array = array.combine_chunks() if hasattr(array, "combine_chunks") else array
    if not hasattr(array, "flatten"):
        raise ValueError(f"column {name!r} holds {column.dtype}, not lists as the first column of points does")
    if array.null_count:
        raise ValueError(f"column {name!r} is missing in row {int(np.argmax(array.is_null().to_numpy(False)))}")
    sizes = np.asarray(array.value_lengths().to_numpy(zero_copy_only=False), dtype=np.int64)
    values = array.flatten()
    width = None
    if hasattr(values, "flatten") and hasattr(values.type, "value_type"):
        lengths = np.asarray(values.value_lengths().to_numpy(zero_copy_only=False))
        if len(lengths) == 0 or (lengths != lengths[0]).any():
            raise ValueError(f"column {name!r} holds points of different dimensions")
        width, values = int(lengths[0]), values.flatten()
    if values.null_count:
        raise ValueError(f"column {name!r} holds a missing number; drop or impute it")
    numbers = values.to_numpy(zero_copy_only=False)
    if numbers.dtype.kind not in "fiub":
        raise ValueError(f"column {name!r} holds lists of {values.type}, not of numbers")
    return np.concatenate([[0], np.cumsum(sizes)]), numbers if width is None else numbers.reshape(-1, width)
