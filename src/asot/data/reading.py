"""Reads and checks the parts of a collection: points, offsets, masses, ids and labels, which it owns from then on.

A collection never changes. So what is read here is a copy, unless the memory behind it can never be written to, such as
a memory-mapped read-only file. Columns with a pandas index are first put in the order of the points' index, because a
label belongs to its row and not to its position.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.validation import FloatArray, as_positive_int, to_array, to_float_array

_PADDING = 4
"""NumPy gives every string in an array the space of the longest. Beyond this many times their own length, and a
megabyte, strings are kept as Python objects."""


def read_points(points: Any, name: str = "points") -> FloatArray:
    """Points (n, d), float32 or float64, that nobody else can change."""
    array = own_floats(points, name)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"{name} must be (n, d) with d ≥ 1; found shape {array.shape}")
    return array


def read_masses(masses: Any, n_points: int) -> NDArray[np.float64]:
    """Masses (n,) as given; normalizing makes the copy."""
    array = np.asarray(to_float_array(masses, "masses"), dtype=np.float64)
    if array.shape != (n_points,):
        raise ValueError(f"masses must hold one mass for each of the {n_points} points; found shape {array.shape}")
    return array


def read_offsets(offsets: Any, n_points: int, ids: Any = None) -> NDArray[np.int64]:
    """Offsets (N + 1,): from 0 to the number of points, strictly increasing."""
    array = to_array(offsets, "offsets")
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"offsets must be integers (N + 1,); found {array.dtype} of shape {array.shape}")
    array = array.astype(np.int64)  # a copy
    if len(array) < 2:
        raise ValueError("the collection is empty: offsets must hold at least two numbers, 0 and the number of points")
    if array[0] != 0 or array[-1] != n_points:
        raise ValueError(
            f"offsets must start at 0 and end at the number of points, {n_points}; found {array[0]} and {array[-1]}"
        )
    steps = array[1:] - array[:-1]
    least = steps.min()
    if least < 0:
        i = int(np.argmax(steps < 0))
        raise ValueError(f"offsets must increase, but offsets[{i + 1}] = {array[i + 1]} follows {array[i]}")
    if least == 0:
        raise ValueError(
            f"{label_of(int(np.argmin(steps)), ids)} is empty; drop it, a distribution needs at least one point"
        )
    return array


def read_ids(ids: Any, n: int) -> NDArray[Any] | None:
    """Names (N,), a copy: numbers and strings as NumPy keeps them, everything else as objects."""
    if ids is None:
        return None
    if isinstance(ids, str) or not hasattr(ids, "__len__"):
        raise ValueError(f"ids must name each of the {n} distributions; found {ids!r}")
    if isinstance(ids, (list, tuple)) and ids and all(type(entry) is str for entry in ids):
        array = given = text_array(ids)
    else:
        array = given = np.array(to_array(ids, "ids"))
        if array.ndim != 1 or (array.dtype.kind == "U" and isinstance(ids, (list, tuple))):
            given = np.empty(len(ids), dtype=object)
            given[:] = list(ids)
        if array.ndim != 1:  # ids that are tuples stay whole
            array = given
    if len(array) != n:
        raise ValueError(f"ids must name each of the {n} distributions; found {len(array)}")
    missing = is_missing(given)  # where numbers stand beside text, NumPy makes a text of NaN, too
    if missing.any():
        i = int(np.argmax(missing))
        raise ValueError(f"id {i} is missing ({array[i]}); every distribution needs one, or leave out ids")
    return array


def label_of(i: int, ids: Any, what: str = "distribution") -> str:
    """How messages call distribution i, or the document or whatever it was made of."""
    if ids is None or i >= len(ids):
        return f"{what} {i}"
    name = getattr(ids, "iloc", ids)[i]  # a pandas column by position, not by index
    return f"{what} {i} ({str(name)!r})"


def place_of(row: int, offsets: NDArray[np.int64]) -> tuple[int, int]:
    """Which distribution (or graph, or event) owns a row, and which of its rows it is."""
    i = int(np.searchsorted(offsets, row, side="right")) - 1
    return i, row - int(offsets[i])


def owner_of(row: int, offsets: NDArray[np.int64], ids: Any, what: str = "distribution") -> tuple[str, int]:
    """The same, with how messages call it."""
    i, place = place_of(row, offsets)
    return label_of(i, ids, what), place


def listed(names: Sequence[Any], most: int = 12) -> str:
    """The first of some names, as errors show them."""
    return ", ".join(map(repr, names[:most])) + (", …" if len(names) > most else "") or "nothing"


def ends_in_nul(text: Any) -> bool:
    """Whether NumPy's strings would drop the end of it."""
    return isinstance(text, str) and text.endswith("\0")


def text_array(texts: Sequence[str]) -> NDArray[Any]:
    """Strings as an array, of objects if one long string would blow up the others, or a NUL at an end were lost."""
    lengths = [len(text) for text in texts]
    padded, needed = max(lengths, default=0) * len(lengths), sum(lengths)
    if padded <= _PADDING * needed + 2**18 and not any(map(ends_in_nul, texts)):  # four bytes per character
        return np.array(texts, dtype=np.str_)
    return np.array(texts, dtype=object)


def own_floats(values: Any, name: str) -> FloatArray:
    """Numbers as float32 or float64 in memory that nobody else can write to; copied only if necessary."""
    seen = to_array(values, name)
    array = to_float_array(seen, name, keep_float32=True)
    is_new = isinstance(values, (list, tuple)) or not np.may_share_memory(array, seen)
    return array if is_new or _is_constant(array) else array.copy()


def _is_constant(array: NDArray[Any]) -> bool:
    """Whether the memory behind an array is read-only at its root; NumPy's flag alone can be reset."""
    root: Any = array
    while isinstance(root, np.ndarray):
        root = root.base
    if root is None:
        return False
    try:
        return memoryview(root).readonly
    except TypeError:
        return False


def in_order_of(values: Any, reference: Any, name: str, of: str = "points") -> Any:
    """Labeled values in the order of the rows of a labeled reference; anything without an index goes by position."""
    if not all(hasattr(each, "reindex") and hasattr(each, "index") for each in (values, reference)):
        return values  # such as an index, which is nothing but names
    mine, theirs = values.index, reference.index
    if mine is theirs or mine.equals(theirs):
        return values
    if len(mine) == len(theirs) and mine.is_unique and theirs.is_unique and bool(mine.isin(theirs).all()):
        return values.reindex(theirs)
    raise ValueError(
        f"the index of {name} is not that of {of}, so they cannot be put together row by row; "
        f"align them first, or pass {name}.to_numpy() to go by position"
    )


def in_order_of_cost(values: Any, cost: Any, name: str, *, rows: bool) -> Any:
    """Masses (k,) or histograms (N, k) with named anchors, in the order of the rows or columns of a named cost.

    Names that pandas made up, which are numbers from 0, go by position.
    """
    if not (hasattr(values, "reindex") and hasattr(cost, "reindex") and hasattr(cost, "columns")):
        return values
    entries, side = values.T if hasattr(values, "columns") else values, cost if rows else cost.T
    if any(type(one.index).__name__ == "RangeIndex" for one in (entries, side)):
        return values
    found = in_order_of(entries, side, f"the anchors of {name}", f"the {'rows' if rows else 'columns'} of cost")
    return found.T if hasattr(values, "columns") else found


def factorized(labels: Any, n: int, name: str = "labels", of: str = "point") -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The labels that occur, in order, and the index of each of n points' label; messages use ``name`` and ``of``."""
    if hasattr(labels, "cat") and hasattr(labels.cat, "codes"):  # pandas, categorical
        return _of_categories(labels, n, name, of)
    names = to_array(labels, name)
    if names.dtype.kind == "U" and isinstance(labels, (list, tuple)) and any(map(ends_in_nul, labels)):
        names = np.array(labels, dtype=object)
    _check_count(names.shape, n, name, of)
    missing = is_missing(names)
    if missing.any():
        where = f"{_entry(name)} {int(np.argmax(missing))}"
        raise ValueError(f"{where} is missing ({names[missing][0]}); every {of} needs one")
    try:
        if names.dtype.kind in "OUT":  # strings: looked up in a table, and only the distinct ones are sorted
            return _of_texts(names)
        unique, group = np.unique(names, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"{name} cannot be ordered: {error}; make them all text or all numbers") from error
    return unique, group


def by_group(group: NDArray[np.int64], n_groups: int) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Where groups begin (N + 1,), and the order (n,) that puts their members together; None if they are."""
    offsets = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=n_groups))])
    if not np.any(group[1:] < group[:-1]):
        return offsets, None
    short = group.astype(np.uint16) if n_groups <= 2**16 else group  # is sorted faster
    return offsets, np.argsort(short, kind="stable")


def _entry(name: str) -> str:
    """What one of them is called: a label, or an entry of the argument."""
    return "label" if name == "labels" else f"{name}: entry"


def _check_count(shape: tuple[int, ...], n: int, name: str, of: str) -> None:
    if shape != (n,):
        raise ValueError(f"{name} must hold one label for each of the {n:,} {of}s; found shape {shape}")


def _of_categories(labels: Any, n: int, name: str, of: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    codes = np.asarray(labels.cat.codes, dtype=np.int64)
    _check_count(codes.shape, n, name, of)
    if (codes < 0).any():
        raise ValueError(f"{_entry(name)} {int(np.argmax(codes < 0))} is missing; every {of} needs one")
    used = np.flatnonzero(np.bincount(codes, minlength=len(labels.cat.categories)))  # levels may be unused
    names = np.asarray(labels.cat.categories)[used]
    try:
        order = np.arange(len(used)) if labels.cat.ordered else np.argsort(names, kind="stable")
    except TypeError as error:
        raise ValueError(f"labels cannot be ordered: {error}; make them all text or all numbers") from error
    rank = np.empty(len(labels.cat.categories), dtype=np.int64)
    rank[used[order]] = np.arange(len(used))
    names = names[order]
    is_text = names.dtype.kind == "O" and all(type(name) is str for name in names)
    return (text_array(names.tolist()) if is_text else names), rank[codes]


def _of_texts(names: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    listed = names.tolist()
    ordered = sorted(dict.fromkeys(listed))
    place = {name: i for i, name in enumerate(ordered)}
    group = np.fromiter(map(place.__getitem__, listed), np.int64, len(listed))
    if set(map(type, ordered)) == {str}:
        return text_array(ordered), group
    unique = np.empty(len(ordered), dtype=object)
    unique[:] = ordered
    return unique, group


def is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where there is no value: NaN, NaT, None or pandas' NA."""
    if values.dtype.kind in "fc":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind != "O":
        return np.zeros(values.shape, dtype=np.bool_)
    if set(map(type, values.ravel().tolist())) == {str}:
        return np.zeros(values.shape, dtype=np.bool_)
    return np.fromiter((_is_nothing(v) for v in values.ravel()), np.bool_, values.size).reshape(values.shape)


def _is_nothing(value: Any) -> bool:
    if type(value) is str:
        return False
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # NA is neither equal to itself nor different; arrays are no labels, but something
        return value is getattr(sys.modules.get("pandas"), "NA", None)


def stretches(offsets: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Ranges of distributions with at most ``most`` points, unless one alone has more.

    >>> list(stretches(np.array([0, 2, 4, 9, 10]), 4))
    [(0, 2), (2, 3), (3, 4)]
    """
    low, n = 0, len(offsets) - 1
    while low < n:
        high = int(np.searchsorted(offsets, offsets[low] + most, side="right")) - 1
        yield low, max(low + 1, high)
        low = max(low + 1, high)


def read_blocks(make: Any, points: Any, offsets: Any, masses: Any, ids: Any, most: Any) -> Iterator[tuple[slice, Any]]:
    """Arguments of the collections of the stretches; ``points`` and ``masses`` are only ever asked for slices."""
    size = as_positive_int(most, "max_points")
    checked = read_offsets(offsets, int(points.shape[0]), ids)
    if masses is not None and tuple(masses.shape) != (int(checked[-1]),):
        raise ValueError(f"masses must hold one mass for each of the {checked[-1]} points; found {masses.shape}")
    names = np.arange(len(checked) - 1) if ids is None else np.asarray(ids)
    for low, high in stretches(checked, size):
        own = slice(int(checked[low]), int(checked[high]))
        weights = None if masses is None else masses[own]
        yield slice(low, high), make(points[own], checked[low : high + 1] - own.start, weights, names[low:high])
