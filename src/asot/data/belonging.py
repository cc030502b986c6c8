"""What belongs to the distributions of a collection, one entry each, put in their order.

Groups, labels, batches and masks often come from a table in another order than that of the collection. What has names,
a pandas index or the keys of a dictionary, is looked up by the ids of the distributions; where a name is missing it is
refused, because by position it would belong to somebody else, without a word. Lists and arrays have no names and go by
position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.validation import to_array


def has_names(values: Any) -> bool:
    """Whether the entries have names: those of a mapping, or of a pandas Series or DataFrame."""
    return isinstance(values, Mapping) or (hasattr(values, "reindex") and hasattr(values, "index"))


def is_pandas_index(values: Any) -> bool:
    """Whether it is the index of something in pandas: nothing but names."""
    return hasattr(values, "reindex") and not hasattr(values, "index")


def in_order_of_ids(values: Any, name: str, ids: NDArray[Any] | Sequence[Any]) -> Any:
    """Named values in the order of the ids (N,), each found by its name; anything without names as it is.

    Names that no distribution has are left out. Where the ids are strings and the names numbers, or the other way
    round, they are compared as text.
    """
    if not has_names(values):
        return values
    names = list(values) if isinstance(values, Mapping) else values.index.tolist()
    places = _places(names, name, list(np.asarray(ids).tolist()))
    if isinstance(values, Mapping):
        given = list(values.values())
        return [given[place] for place in places]
    return values.iloc[places]


def per_distribution(values: Any, name: str, ids: NDArray[Any] | Sequence[Any]) -> Any:
    """One entry for each of the N distributions, in the order of their ids; a pandas column stays one."""
    found = in_order_of_ids(values, name, ids)
    if isinstance(found, str) or not hasattr(found, "__len__"):
        raise ValueError(f"{name} must have one entry for each of the {len(ids):,} distributions; found {found!r}")
    shape = to_array(found, name).shape
    if shape != (len(ids),):
        raise ValueError(f"{name} must have one entry for each of the {len(ids):,} distributions; found shape {shape}")
    return found


def as_selection(key: Any, ids: NDArray[Any]) -> Any:
    """A key that selects distributions; a named mask, such as a comparison of a column, in the order of the ids."""
    if not has_names(key):
        return key
    is_mask = getattr(np.asarray(list(key.values()) if isinstance(key, Mapping) else key), "dtype", None) == np.bool_
    return np.asarray(in_order_of_ids(key, "the mask", ids), dtype=np.bool_) if is_mask else np.asarray(key)


def ids_of(distances: Any, n: int) -> NDArray[Any]:
    """The ids of a result, or of a square data frame; 0..N-1 where there are none."""
    if hasattr(distances, "reindex") and hasattr(distances, "columns"):
        rows, columns = distances.index.tolist(), distances.columns.tolist()
        if rows != columns:
            raise ValueError("the rows and columns of the distances have different names; they must be the same ids")
        return np.asarray(distances.index)
    ids = getattr(distances, "ids", None)
    return np.arange(n) if ids is None else np.asarray(ids)


def check_same_ids(first: NDArray[Any], second: NDArray[Any], words: str) -> None:
    """Refuse two orders of names that disagree, where both are names and not numbers from 0 on."""
    if _counts(first) or _counts(second):
        return
    differ = [t for t, (a, b) in enumerate(zip(first.tolist(), second.tolist(), strict=False)) if str(a) != str(b)]
    if differ:
        t = differ[0]
        raise ValueError(f"{words}: distribution {t} is {str(first[t])!r} here and {str(second[t])!r} there")


def _counts(ids: NDArray[Any]) -> bool:
    return ids.dtype.kind in "iu" and np.array_equal(ids, np.arange(len(ids)))


def _places(names: list[Any], what: str, ids: list[Any]) -> list[int]:
    """Where each id is among the names."""
    if names == ids:  # the usual case, and the only one where ids may repeat
        return list(range(len(ids)))
    place = {one: t for t, one in enumerate(names)}
    if any(one not in place for one in ids):
        names, ids = [str(one) for one in names], [str(one) for one in ids]
        place = {one: t for t, one in enumerate(names)}
    missing = [one for one in ids if one not in place]
    if missing:
        begin = ", ".join(repr(one) for one in names[:3])
        raise ValueError(
            f"{what} has no entry for distribution {missing[0]!r} ({len(missing):,} of {len(ids):,} are missing); its "
            f"names begin with {begin}: index it by the ids of the distributions, or pass an array to go by position"
        )
    repeated = [one for one, count in Counter(names).items() if count > 1 and one in set(ids)]
    if repeated:
        raise ValueError(f"{what} has several entries for distribution {repeated[0]!r}; it needs one for each")
    if len(set(ids)) < len(ids):
        raise ValueError(f"ids repeat, so {what} cannot be looked up by name; pass an array to go by position")
    return [place[one] for one in ids]
