"""A small cache of recent results, keyed by the content of their collections; and distances that are solved once.

scikit-learn's searches clone estimators and split collections again for every candidate, so no object survives from one
candidate to the next, but the numbers stay the same. A key is a digest of points, offsets, masses and totals. The cache
is limited in bytes, and the oldest entries go first.

Folds of one collection are made of the same distributions, so nearly every pair of a fold was solved in another. Each
distribution is known by a digest, the distances of one kind are kept in one growing matrix of the cache, and only pairs
that are not in it are solved.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from asot._typing import Float, Indices
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


Solve = Callable[[Distributions, Distributions | None, Indices | None], Float]
"""Solves listed pairs of two collections (P,), or all of them; the second may be None, for pairs within the first."""


class KnownPairs:
    """Distances by the digests of their distributions; NaN where they are not known."""

    def __init__(self) -> None:
        self._place: dict[bytes, int] = {}
        self.matrix = np.full((0, 0), np.nan)
        self._lock = threading.Lock()

    def places(self, digests: list[bytes]) -> Indices:
        """Where distributions are in the matrix, which grows for new ones."""
        with self._lock:
            found = np.array([self._place.setdefault(one, len(self._place)) for one in digests], dtype=np.int64)
            new = len(self._place) - len(self.matrix)
            if new:
                self.matrix = np.pad(self.matrix, (0, new), constant_values=np.nan)
                np.fill_diagonal(self.matrix, 0.0)
            return found

    def at(self, rows: Indices, columns: Indices) -> Float:
        with self._lock:
            return np.asarray(self.matrix[np.ix_(rows, columns)], dtype=np.float64)

    def learn(self, rows: Indices, columns: Indices, values: Float) -> None:
        with self._lock:
            self.matrix[rows, columns] = values
            self.matrix[columns, rows] = values


def known_distances(key: bytes | None, D: Distributions, E: Distributions | None, solve: Solve) -> Float:
    """Distances (N, N) within D or (N, M) from D to E, of which only those are solved that were not before.

    Without a key, all are solved, and nothing is kept.
    """
    from scipy.spatial.distance import squareform

    n = len(D) + (0 if E is None else len(E))
    if key is None or 8 * n * n > MOST_BYTES // 2:  # too many to remember
        values = solve(D, E, None)
        return values.reshape(len(D), len(E)) if E is not None else np.asarray(squareform(values, checks=False))
    memory: KnownPairs | None = recalled(key)
    if memory is None or memory.matrix.nbytes > MOST_BYTES // 2:
        memory = KnownPairs()
    rows = memory.places(digests_of(D))
    columns = rows if E is None else memory.places(digests_of(E))
    found = memory.at(rows, columns)
    missing = np.isnan(found)
    if E is None:
        missing &= np.triu(np.ones_like(missing), 1)
        is_all = int(missing.sum()) == len(D) * (len(D) - 1) // 2
    else:
        is_all = bool(missing.all())
    if missing.any():
        i, j = np.nonzero(missing)
        memory.learn(rows[i], columns[j], solve(D, E, None if is_all else np.stack([i, j], axis=1)))
        found = memory.at(rows, columns)
    remember(key, memory, memory.matrix.nbytes)
    return found


def digests_of(D: Distributions) -> list[bytes]:
    """A digest of every distribution: its points, masses and total."""
    found = []
    shared = f"{D[0][0].dtype.str}{D.dim}".encode()  # once: naming a type takes longer than hashing some points
    for i, (points, masses) in enumerate(D):
        digest = hashlib.blake2b(shared, digest_size=16)
        digest.update(len(masses).to_bytes(8, "little"))
        for array in (points, masses, D.totals[i : i + 1]):
            digest.update(np.ascontiguousarray(array).data)
        found.append(digest.digest())
    return found
