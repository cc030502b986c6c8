"""Points that members share, kept once: words of a text, atoms in their surroundings, bins of a histogram.

Bounds compare a query with words, and every word is compared once, however many members have it. A word is the float32
vector of a point; points whose vectors are equal are one word. Vectors are found again by a hash, and compared, so that
no two are ever taken for one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asot.index.columns import Column

NONE = -1
"""The word of a point that has no numbers."""


class Vocabulary:
    """Numbers words in a column (V, d) that grows."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self._known: dict[int, int] | None = None

    def forget(self) -> None:
        """The column has become shorter: look at it again when words are next added."""
        self._known = None

    def numbered(self, rows: NDArray[np.float32]) -> NDArray[np.int32]:
        """The words (n,) of vectors (n, d); new ones are appended. A vector that is NaN has none."""
        known = self._read()
        words = np.full(len(rows), NONE, dtype=np.int32)
        held = np.flatnonzero(~np.isnan(rows[:, 0]))
        rows = np.ascontiguousarray(rows[held]) + np.float32(0.0)  # -0 is 0
        hashes, first, which = np.unique(_hashes(rows), return_index=True, return_inverse=True)
        numbers = np.array([known.get(value, NONE) for value in hashes.tolist()], dtype=np.int64)
        fresh = np.flatnonzero(numbers == NONE)
        numbers[fresh] = self._append(rows[first[fresh]])
        known.update(zip(hashes[fresh].tolist(), numbers[fresh].tolist(), strict=True))
        found = numbers[which]
        other = np.flatnonzero((self.column.view()[found] != rows).any(axis=1))  # of the same hash
        found[other] = self._append(rows[other])
        words[held] = found
        return words

    def _append(self, rows: NDArray[np.float32]) -> NDArray[np.int64]:
        before = self.column.n
        self.column.append(rows)
        return np.arange(before, self.column.n)

    def _read(self) -> dict[int, int]:
        if self._known is None:
            hashes = _hashes(self.column.view()).tolist()
            self._known = dict(zip(reversed(hashes), range(len(hashes) - 1, -1, -1), strict=True))
        return self._known


def _hashes(rows: NDArray[np.float32]) -> NDArray[np.uint64]:
    """One number (n,) for every vector (n, d)."""
    odd = np.random.default_rng(0).integers(2**63, size=rows.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    bits = np.ascontiguousarray(rows).view(np.uint32)
    sums = np.zeros(len(rows), dtype=np.uint64)
    for c in range(rows.shape[1]):
        sums += bits[:, c] * odd[c]
        sums ^= sums >> np.uint64(29)
    return sums
