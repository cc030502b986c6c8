"""The inputs of a run as names and hashes, so that a store can tell whether it is the same call again.

Arrays are hashed, small values are kept as they are, and records and objects are traversed. Nothing here depends on the
machine, on the process or on the order of a dictionary. The name of a user's function says nothing about what it
computes, so it is known by its values, or refused.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np


def fingerprint(value: Any, computed: str | None = None) -> dict[str, Any]:
    """Names of all parts of a value, with a hash or the value itself.

    ``computed`` is a hash of what the user's function computes, if there is one among the parts.

    >>> sorted(fingerprint({"reg": 0.5, "cost": np.eye(2)}))
    ['cost', 'reg']
    """
    return dict(_parts("", value, computed))


def cost_hash(cost: Any) -> str | None:
    """A hash of all that a cost computes if it is a table (see `asot.jit.costs.GroundCost`); None if it has a
    kernel."""
    return f"{array_hash(cost.table)} × {cost.scale!r}" if cost is not None and cost.has_table else None


def array_hash(array: Any) -> str:
    """SHA-256 of type, shape and contents."""
    contiguous = np.ascontiguousarray(array)
    digest = hashlib.sha256(f"{contiguous.dtype.str}{contiguous.shape}".encode())
    if contiguous.dtype == object:
        digest.update("\0".join(map(repr, contiguous.ravel().tolist())).encode())
    else:
        digest.update(contiguous.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _parts(name: str, value: Any, computed: str | None) -> Iterator[tuple[str, Any]]:
    if value is None or isinstance(value, (bool, int, float, str)):
        yield name, value
    elif isinstance(value, np.generic):
        yield name, value.item()
    elif isinstance(value, np.ndarray):
        yield name, array_hash(value)
    else:
        members = _members(value)
        if members is None:
            yield name, _known(name, value, computed)
        else:
            for key, part in members:
                yield from _parts(f"{name}.{key}".strip("."), part, computed)


def _members(value: Any) -> list[tuple[str, Any]] | None:
    """The parts of a value, or None if it has none."""
    if isinstance(value, functools.partial) and _is_own(value.func):
        bound = inspect.signature(value.func).bind_partial(*value.args, **value.keywords)
        return [("solver", value.func.__qualname__), *bound.arguments.items()]
    if isinstance(value, Mapping):
        return [(str(key), value[key]) for key in sorted(value, key=str)]
    if hasattr(value, "_asdict"):
        return list(value._asdict().items())
    if isinstance(value, (tuple, list)):
        return [(str(i), part) for i, part in enumerate(value)]
    if callable(value) and not _is_own(type(value)):
        return None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    if hasattr(value, "__dict__") and not callable(value):
        own = [(key.strip("_"), part) for key, part in sorted(vars(value).items())]
        return [("kind", type(value).__qualname__), *own]
    return None


def _known(name: str, value: Any, computed: str | None) -> str:
    """What stands for a value without parts."""
    if _is_own(value):
        return str(value.__qualname__)
    if callable(value) and computed is not None:
        return computed
    if isinstance(value, (bytes, complex, np.dtype)):
        return repr(value)
    if isinstance(value, (set, frozenset)):
        return repr(sorted(map(repr, value)))
    raise ValueError(
        f"a store must be able to tell whether a call is the same again, and cannot for {name.split('.')[-1]!r}, which "
        f"is of type {type(value).__qualname__}; pass numbers, text or arrays, or leave out the store"
    )


def _is_own(value: Any) -> bool:
    """Whether it is a function or a class of this package, which its version and a name describe."""
    return str(getattr(value, "__module__", "")).split(".")[0] == "asot" and hasattr(value, "__qualname__")


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """What differs between two fingerprints, in words."""
    found = []
    for key in sorted({*there, *here}):
        if key not in there:
            found.append(f"{key} is new")
        elif key not in here:
            found.append(f"{key} is gone")
        elif there[key] != here[key]:
            short = all(len(str(side)) < 40 for side in (there[key], here[key]))
            found.append(f"{key} was {there[key]!r} and is now {here[key]!r}" if short else f"{key} has changed")
    return found
