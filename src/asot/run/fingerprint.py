"""The inputs of a run as names and hashes, so that a store can tell whether it is the same call again.

Arrays are hashed, small values are kept as they are, and records and objects are traversed. Nothing here depends on the
machine, on the process or on the order of a dictionary.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np


def fingerprint(value: Any) -> dict[str, Any]:
    """Names of all parts of a value, with a hash or the value itself.

    >>> sorted(fingerprint({"reg": 0.5, "cost": np.eye(2)}))
    ['cost', 'reg']
    """
    return dict(_parts("", value))


def array_hash(array: Any) -> str:
    """SHA-256 of type, shape and contents."""
    contiguous = np.ascontiguousarray(array)
    digest = hashlib.sha256(f"{contiguous.dtype.str}{contiguous.shape}".encode())
    digest.update(contiguous.reshape(-1).view(np.uint8).data if contiguous.dtype != object else repr(array).encode())
    return digest.hexdigest()


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if value is None or isinstance(value, (bool, int, float, str)):
        yield name, value
    elif isinstance(value, np.generic):
        yield name, value.item()
    elif isinstance(value, np.ndarray):
        yield name, array_hash(value)
    else:
        for key, part in _members(value):
            yield from _parts(f"{name}.{key}".strip("."), part)


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, functools.partial):
        bound = inspect.signature(value.func).bind_partial(*value.args, **value.keywords)
        yield "solver", getattr(value.func, "__qualname__", repr(value.func))
        yield from bound.arguments.items()
    elif isinstance(value, Mapping):
        yield from ((str(key), value[key]) for key in sorted(value, key=str))
    elif hasattr(value, "_asdict"):
        yield from value._asdict().items()
    elif isinstance(value, (tuple, list)):
        yield from ((str(i), part) for i, part in enumerate(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    elif hasattr(value, "__dict__") and not callable(value):
        yield "kind", type(value).__qualname__
        yield from ((key.strip("_"), part) for key, part in sorted(vars(value).items()))
    else:
        yield "", getattr(value, "__qualname__", type(value).__qualname__)


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
