"""The nearest spaces of each, without searching the plans of all pairs.

A pair is searched only if its lower bound is at most the k-th value of one of its rows: k others are at least as near.
The values that set this limit come first, from the pairs with the least bounds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices, Info
from asot.results.sinks import Condensed, TopK
from asot.run.engine import Resources, Work, solve_work
from asot.run.pairs import ListedPairs, PairSet
from asot.run.protocols import SinkBase, Tile


def nearest(work: Work, lower: Float, sink: TopK, resources: Resources) -> Any:
    """What the sink makes of the pairs that had to be searched; lower (P,) bounds of all pairs of the work."""
    pairs = work.pairs
    sink.open(pairs, {})
    rows, columns = pairs.indices(0, len(pairs))
    first = _least(rows, columns, lower, pairs, sink.n_neighbors)
    solve_work(replace(work, pairs=_listed(pairs, rows[first], columns[first])), _Into(sink), resources)
    limit = sink.limits()
    needed = lower <= limit[rows]
    if pairs.symmetric:
        needed |= lower <= limit[columns]
    needed[first] = False
    rest = _listed(pairs, rows[needed], columns[needed])
    counts = {"n_pairs": len(pairs), "n_solved": len(first) + len(rest)}
    return solve_work(replace(work, pairs=rest), _Into(sink, counts), resources)


def _listed(pairs: PairSet, rows: Indices, columns: Indices) -> ListedPairs:
    return ListedPairs(np.stack([rows, columns], axis=1), pairs.n_rows, pairs.n_columns, pairs.symmetric)


def _least(rows: Indices, columns: Indices, lower: Float, pairs: PairSet, k: int) -> NDArray[np.int64]:
    """Places of the k pairs of each row whose bounds are the least, ascending."""
    ends = np.concatenate([rows, columns]) if pairs.symmetric else rows
    both = np.concatenate([lower, lower]) if pairs.symmetric else lower
    order = np.lexsort((both, ends))
    starts = np.searchsorted(ends[order], np.arange(pairs.n_rows))
    return np.unique(order[starts[:, None] + np.arange(k)] % len(lower))


class _Into(SinkBase[Any]):
    """A sink that was opened for all pairs, of which only some are solved; it is closed where ``counts`` are given."""

    def __init__(self, sink: TopK, counts: Info | None = None) -> None:
        self._sink, self._counts = sink, counts

    def open(self, pairs: PairSet, info: Info) -> None: ...

    def accept(self, tile: Tile) -> None:
        self._sink.accept(tile)

    def close(self, info: Info) -> Any:
        return None if self._counts is None else self._sink.close({**info, **self._counts})


def all_lower(work: Work, resources: Resources) -> Float:
    """The lower bounds (P,) that a solver tells beside its values."""
    seen = solve_work(work, Condensed(extras=("lower",)), resources)
    assert seen.lower is not None
    return seen.lower
