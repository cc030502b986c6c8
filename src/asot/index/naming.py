"""Ids of members: which are allowed, which are new, and who gets which number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Indices
from asot.data.belonging import has_names, in_order_of_ids
from asot.data.distributions import Distributions, UnknownId
from asot.index.members import Name, Names, Snapshot

_LARGEST = 2**63


def as_name(given: Any) -> Name:
    """An id as it is kept: text, or a whole number of at most 64 bits."""
    if isinstance(given, str):
        try:
            str(given).encode()
        except UnicodeEncodeError:
            raise ValueError(f"the id {given!r} is not valid text, and no file could hold it") from None
        return str(given)
    is_whole = isinstance(given, (int, np.integer)) and not isinstance(given, (bool, np.bool_))
    if is_whole and -_LARGEST <= int(given) < _LARGEST:
        return int(given)
    raise ValueError(f"an id must be text or a whole number of at most 64 bits; found {given!r}")


def as_names(given: Any) -> list[Name]:
    """One id or several."""
    if isinstance(given, np.ndarray) and given.ndim == 0:
        given = given.item()
    if isinstance(given, (str, bytes, int, np.integer)):
        return [as_name(given)]
    if not isinstance(given, Iterable):
        raise TypeError(f"expected an id or a list of ids; found {type(given).__name__}")
    values = given.tolist() if isinstance(given, np.ndarray) else list(given)
    return [as_name(name) for name in values]


def new_names(D: Distributions, ids: Any, next_name: int, places: dict[Name, int]) -> list[Name]:
    """The ids of new members: as given, as the collection has them, or the next numbers that are free."""
    given = D.given_ids if ids is None else ids
    if given is not None:
        is_list = hasattr(given, "__len__") and getattr(given, "ndim", 1) > 0
        is_list = is_list and not isinstance(given, (str, bytes, set, frozenset))  # the order of a set is anybody's
        if not is_list or len(given) != len(D):
            found = len(given) if is_list else repr(given)
            raise ValueError(f"ids must name each of the {len(D)} distributions, in their order; found {found}")
        names = as_names(given)
        if len(set(names)) < len(names):
            twice = next(name for name, count in Counter(names).items() if count > 1)
            raise ValueError(f"the id {twice!r} is given to two distributions; ids must differ")
        return names
    names, number = [], next_name
    while len(names) < len(D):
        if number not in places:
            names.append(number)
        number += 1
    return names


def known_slots(names: list[Name], places: dict[Name, int]) -> Indices:
    """The slots of members."""
    unknown = [name for name in names if name not in places]
    if unknown:
        more = f", and {len(unknown) - 1} more are not" if len(unknown) > 1 else ""
        raise UnknownId(f"{unknown[0]!r} is not in the index{more}")
    return np.array([places[name] for name in names], dtype=np.int64)


def allowed_slots(among: Any, snapshot: Snapshot, places: dict[Name, int]) -> NDArray[np.bool_]:
    """Slots (S,) that may be found: all members, those that a mask (members,) names, or those with some ids.

    A mask with names, such as a comparison of a column, goes by ids.
    """
    allowed = np.zeros(len(snapshot.alive), dtype=np.bool_)
    values = _mask(among)
    if values is not None:
        if has_names(among):
            values = np.asarray(in_order_of_ids(among, "among=", Names(snapshot).tolist()), dtype=np.bool_)
        if values.shape != (snapshot.count,):
            raise ValueError(
                f"among= is a mask of shape {values.shape}; it must say of each of the {snapshot.count} members "
                "whether it may be found"
            )
        allowed[snapshot.slots[values]] = True
        return allowed
    slots = known_slots(as_names(among), places)
    allowed[slots[slots < len(allowed)]] = True
    return allowed & snapshot.alive


def _mask(among: Any) -> NDArray[np.bool_] | None:
    """Truth values, if that is what it holds."""
    if isinstance(among, Mapping):
        among = list(among.values())
    if not isinstance(among, (list, tuple)) and not hasattr(among, "__array__"):
        return None
    values = np.asarray(among)
    if values.dtype == np.object_ and values.size and all(isinstance(one, (bool, np.bool_)) for one in values.ravel()):
        values = values.astype(np.bool_)
    return values if values.dtype == np.bool_ and values.size else None
