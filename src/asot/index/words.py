"""Bounds of one query against members that share words: what a word costs is computed once per query, when needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asot._typing import Float, Indices
from asot.index.members import Snapshot
from asot.native import Double, Doubles, Floats, Int, Ints, Record, ShortInts, entry
from asot.run.executors import Stop
from asot.search.kernels import ProjectedQuery

_ROOM = 2**25  # bytes of costs that are kept; those of further words are computed again


class WordMembers(Record):
    """Members as words (``native/search/words.cpp``)."""

    _fields_ = [  # noqa: RUF012
        ("n_words", Int), ("d", Int), ("vocabulary", Floats), ("words", ShortInts), ("masses", Doubles),
        ("ends", Ints),
    ]  # fmt: skip


class WordCosts(Record):
    """Costs of words that are known so far."""

    _fields_ = [  # noqa: RUF012
        ("room", Int), ("used", Ints), ("rows", Floats), ("places", ShortInts), ("nearest", Floats),
    ]  # fmt: skip


class WordBounds(Record):
    """Members whose bounds may grow."""

    _fields_ = [  # noqa: RUF012
        ("n", Int), ("rows", Ints), ("reduces", Int), ("limit", Double), ("bounds", Doubles),
    ]  # fmt: skip


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
        """Raise bounds (n,) of slots (n,) to relaxed transport, and to reduced transport where that is not above the
        limit."""
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
