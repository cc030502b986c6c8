"""Distances that are solved once, however a collection is cut: one matrix behind all folds of a cross-validation.

Folds of one collection are made of the same distributions, so nearly every pair of a fold was solved in another. Each
distribution is known by a digest of its points and masses, the distances of one kind are kept in one growing matrix,
and only pairs that are not in it are solved. It lives in the cache of recent results (`asot.learn.recent`), whose
limit is its limit.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float
from asot.data.distributions import Distributions
from asot.learn.recent import MOST_BYTES, recalled, remember

Solve = Callable[[Distributions, Distributions | None, NDArray[np.int64] | None], Float]
"""Solves listed pairs of two collections (P,), or all of them; the second may be None, for pairs within the first."""


class KnownPairs:
    """Distances by the digests of their distributions; NaN where they are not known."""

    def __init__(self) -> None:
        self._place: dict[bytes, int] = {}
        self._matrix = np.full((0, 0), np.nan)
        self._lock = threading.Lock()

    @property
    def n_bytes(self) -> int:
        return int(self._matrix.nbytes)

    def places(self, digests: list[bytes]) -> NDArray[np.int64]:
        """Where distributions are in the matrix, which grows for new ones."""
        with self._lock:
            found = np.array([self._place.setdefault(one, len(self._place)) for one in digests], dtype=np.int64)
            held, wanted = len(self._matrix), len(self._place)
            if wanted > held:
                grown = np.full((wanted, wanted), np.nan)
                grown[:held, :held] = self._matrix
                np.fill_diagonal(grown, 0.0)
                self._matrix = grown
            return found

    def at(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Float:
        with self._lock:
            return np.asarray(self._matrix[np.ix_(rows, columns)], dtype=np.float64)

    def learn(self, rows: NDArray[np.int64], columns: NDArray[np.int64], values: Float) -> None:
        with self._lock:
            self._matrix[rows, columns] = values
            self._matrix[columns, rows] = values


def known_distances(key: bytes | None, D: Distributions, E: Distributions | None, solve: Solve) -> Float:
    """Distances (N, N) within D or (N, M) from D to E, of which only those are solved that were not before.

    Without a key, all are solved, and nothing is kept.
    """
    n = len(D) + (0 if E is None else len(E))
    if key is None or 8 * n * n > MOST_BYTES // 2:  # too many to remember
        return _all_of(D, E, solve)
    memory: KnownPairs | None = recalled(key)
    if memory is None or memory.n_bytes > MOST_BYTES // 2:
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
    remember(key, memory, memory.n_bytes)
    return found


def _all_of(D: Distributions, E: Distributions | None, solve: Solve) -> Float:
    from scipy.spatial.distance import squareform

    values = solve(D, E, None)
    if E is not None:
        return values.reshape(len(D), len(E))
    return np.asarray(squareform(values, checks=False) if len(D) > 1 else np.zeros((1, 1)), dtype=np.float64)


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
