"""What a run depends on, as names and hashes, so that a store can tell whether it is the same call again.

Solvers declare what their answers depend on (`asot.run.protocols.Solver.identity`): plain values and arrays under names
that stay when code is renamed. Arrays are hashed here, small values are kept as they are. Nothing depends on the
machine, on the process or on the order of a dictionary. The name of a user's function says nothing about what it
computes, so it is known by its values, or refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

DECLARED = 2
"""Version of what manifests say about identity. Stores without one named the private attributes of solvers."""

WORDING = frozenset({"solver", "strategy.why", "calibration.note", "convention", "why"})
"""Settings that are texts for people: they may be worded anew."""

ARGUMENTS = frozenset({"p", "metric", "unmatched", "share", "reg", "estimate", "n_neighbors", "max_error"})
"""Settings that people know by the names of arguments."""


def fingerprint(value: Any, computed: str | None = None) -> dict[str, Any]:
    """Names of all parts of a value, with a hash or the value itself.

    ``computed`` is a hash of what the user's function computes, if there is one among the parts.

    >>> sorted(fingerprint({"reg": 0.5, "cost": np.eye(2)}))
    ['cost', 'reg']
    """
    return dict(_parts("", value, computed))


def cost_hash(cost: Any) -> str | None:
    """A hash of all that a `asot.ground.costs.GroundCost` computes if it is a table; None if it has a kernel."""
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
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from _parts(f"{name}.{key}".strip("."), value[key], computed)
    elif isinstance(value, (tuple, list)):
        for i, part in enumerate(value):
            yield from _parts(f"{name}.{i}".strip("."), part, computed)
    else:
        yield name, _known(name, value, computed)


def _known(name: str, value: Any, computed: str | None) -> str:
    """What stands for a value without parts."""
    if callable(value) and computed is not None:
        return computed
    if isinstance(value, (bytes, complex, np.dtype)):
        return repr(value)
    if isinstance(value, (set, frozenset)):
        return repr(sorted(map(repr, value)))
    if hasattr(value, "__array__"):
        return array_hash(np.asarray(value))
    raise ValueError(
        f"a store must be able to tell whether a call is the same again, and cannot for {name.split('.')[-1]!r}, which "
        f"is of type {type(value).__qualname__}; pass numbers, text or arrays, or leave out the store"
    )


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """What differs between two fingerprints, in words; arguments of the call before what follows from them."""
    found = []
    for key in sorted({*there, *here}, key=lambda key: (key not in ARGUMENTS, key)):
        if key not in there:
            found.append(f"{key} is new")
        elif key not in here:
            found.append(f"{key} is gone")
        elif there[key] != here[key]:
            short = all(len(str(side)) < 40 for side in (there[key], here[key]))
            found.append(f"{key} was {there[key]!r} and is now {here[key]!r}" if short else f"{key} has changed")
    return found
