"""A small cache of recent results, keyed by the content of their collections.

scikit-learn's searches clone estimators and split collections again for every candidate, so no object survives from one
candidate to the next, but the numbers stay the same. A key is a digest of points, offsets, masses and totals. The cache
is limited in number and in bytes, and the oldest entries go first.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import Any

import numpy as np

from asot.data.distributions import Distributions

MOST_BYTES = 2**28
"""Total size of the cached results: 256 MB."""

_lock = threading.Lock()
_known: OrderedDict[bytes, tuple[Any, int]] = OrderedDict()


def key_of(*parts: Any) -> bytes | None:
    """A digest of collections, arrays and plain values; None if there is something else, such as a function.

    What a function does is not seen from outside, and another one may later have its address.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, Distributions):
            arrays = (*(part.vocabulary or (part.points,)), part.offsets, part.masses, part.totals)
        elif isinstance(part, np.ndarray):
            arrays = (part,)
        elif isinstance(part, (dict, list, tuple)):
            entries = part if not isinstance(part, dict) else [entry for item in sorted(part.items()) for entry in item]
            inner = key_of(len(entries), *entries)
            if inner is None:
                return None
            digest.update(inner)
            continue
        elif part is None or isinstance(part, (str, int, float, np.generic)):
            digest.update(f"{type(part).__name__}:{part!r};".encode())
            continue
        else:
            return None
        for array in arrays:
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


def recalled(key: bytes | None) -> Any:
    """What was remembered under a key, or None."""
    with _lock:
        if key is None or key not in _known:
            return None
        _known.move_to_end(key)
        return _known[key][0]


def remember(key: bytes | None, value: Any, n_bytes: int) -> None:
    """Keep a value, if it has a key; if there are too many, the oldest are forgotten."""
    if key is None or n_bytes > MOST_BYTES:
        return
    with _lock:
        _known[key] = (value, n_bytes)
        _known.move_to_end(key)
        while sum(size for _, size in _known.values()) > MOST_BYTES:
            _known.popitem(last=False)


def forget() -> None:
    """Forget everything."""
    with _lock:
        _known.clear()
