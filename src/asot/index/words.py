"""Points that members share, kept once: words of a text, atoms in their surroundings, bins of a histogram.

Bounds compare a query with words, and every word is compared once, when it is needed, however many members have it. A
word is the float32 vector of a point; points whose vectors are equal are one word. Vectors are found again by a hash,
and compared, so that no two are ever taken for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices
from asot.index.columns import Column
from asot.native import Double, Doubles, Floats, Int, Ints, Record, ShortInts, entry
from asot.run.executors import Stop
from asot.search.kernels import ProjectedQuery

if TYPE_CHECKING:
    from asot.index.members import Snapshot

NONE = -1
"""The word of a point that has no numbers."""

_ROOM = 2**25  # bytes of costs that are kept; those of further words are computed again


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
        if self._known is None:
            seen = _hashes(self.column.view()).tolist()
            self._known = dict(zip(reversed(seen), range(len(seen) - 1, -1, -1), strict=True))
        known = self._known
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

    def _append(self, rows: NDArray[np.float32]) -> Indices:
        before = self.column.n
        self.column.append(rows)
        return np.arange(before, self.column.n)


def _hashes(rows: NDArray[np.float32]) -> NDArray[np.uint64]:
    """One number (n,) for every vector (n, d)."""
    odd = np.random.default_rng(0).integers(2**63, size=rows.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    bits = np.ascontiguousarray(rows).view(np.uint32)
    sums = np.zeros(len(rows), dtype=np.uint64)
    for c in range(rows.shape[1]):
        sums += bits[:, c] * odd[c]
        sums ^= sums >> np.uint64(29)
    return sums


class WordMembers(Record, n_words=Int, d=Int, vocabulary=Floats, words=ShortInts, masses=Doubles, ends=Ints):
    """Members as words (``native/search/words.cpp``)."""


class WordCosts(Record, room=Int, used=Ints, rows=Floats, places=ShortInts, nearest=Floats):
    """Costs of words that are known so far."""


class WordBounds(Record, n=Int, rows=Ints, reduces=Int, limit=Double, bounds=Doubles):
    """Members whose bounds may grow."""


_bounds = entry("word_bounds", WordMembers, ProjectedQuery, WordCosts, WordBounds, Ints)


@dataclass(frozen=True)
class WordLook:
    """One query, and the costs of words that it has met."""

    members: WordMembers
    query: ProjectedQuery
    costs: WordCosts
    unit: float
    """Of lengths in vectors."""

    def grow(self, slots: Indices, bounds: Float, limit: float, reduces: bool, stop: Stop) -> None:
        """Raise bounds (n,) of slots (n,) to relaxed transport, and to reduced where that is not above the limit."""
        scaled = bounds / self.unit
        wanted = WordBounds(n=len(slots), rows=slots, reduces=reduces, limit=limit / self.unit, bounds=scaled)
        _bounds(self.members, self.query, self.costs, wanted, stop)
        np.multiply(scaled, self.unit, out=bounds)


def look_at_words(snapshot: Snapshot, query: ProjectedQuery, unit: float) -> WordLook:
    """Begin a query."""
    vocabulary, stride = snapshot.tables["vocabulary"], int(query.stride)
    room = max(1, min(len(vocabulary), _ROOM // (4 * stride)))
    members = WordMembers(
        n_words=len(vocabulary), d=vocabulary.shape[1], vocabulary=vocabulary, words=snapshot.tables["words"],
        masses=snapshot.masses, ends=snapshot.ends,
    )  # fmt: skip
    costs = WordCosts(
        room=room, used=np.zeros(1, dtype=np.int64), rows=np.empty((room, stride), dtype=np.float32),
        places=np.full(len(vocabulary), -1, dtype=np.int32), nearest=np.empty(len(vocabulary), dtype=np.float32),
    )  # fmt: skip
    return WordLook(members, query, costs, unit)
