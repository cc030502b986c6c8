"""The nearest spaces of each, without searching the plans of all pairs.

A pair is searched only if its lower bound is at most the k-th value of one of its rows: else k others are nearer. Pairs
come in the order of their bounds, in rounds. No bound is above its value, so when a round begins, the k-th value of a
row is above the bounds of that round only if it will stay so: but for what a round itself finds, no pair is searched
that the last limits would have left out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from asot._typing import Float, Indices, Info
from asot.results.sinks import TopK
from asot.run.engine import Ready, Resources, Work, solve_work
from asot.run.pairs import AllPairs, PairSet, at_places, tiles
from asot.run.protocols import SinkBase, Tile

ROUNDS = 12
"""Limits are looked at so often."""

BLOCK = 2**22
"""Pairs whose bounds are compared with limits at a time."""


def nearest(work: Work, lower: Float, sink: TopK, resources: Resources) -> Any:
    """What the sink makes of the pairs that had to be searched; lower (P,) bounds of all pairs of the work."""
    pairs = work.pairs
    sink.open(pairs, {})
    notes = replace(work.notes, started=time.perf_counter() if work.notes.started is None else work.notes.started)
    once = replace(work, cpu=Ready(work.cpu()), gpu=None if work.gpu is None else Ready(work.gpu()), notes=notes)
    search = _Search(once, lower, sink, resources)
    first = _least(lower, pairs, sink.n_neighbors)
    search(first)
    left = np.concatenate([search.needed(np.arange(*own)) for own in tiles(len(pairs), BLOCK)])
    left = np.setdiff1d(left, first, assume_unique=True)
    left = left[np.argsort(lower[left], kind="stable")]
    for own in np.array_split(left, ROUNDS):
        search(search.needed(own))
    return search(left[:0], close=True)


@dataclass
class _Search:
    """Searches pairs, whose values go to the sink, and knows which ones are still needed."""

    work: Work
    lower: Float
    sink: TopK
    resources: Resources
    n_solved: int = 0

    def __call__(self, places: Indices, *, close: bool = False) -> Any:
        """Search the pairs at these places."""
        self.n_solved += len(places)
        counts = {"n_pairs": len(self.work.pairs), "n_solved": self.n_solved} if close else None
        work = replace(self.work, pairs=at_places(self.work.pairs, np.sort(places)))
        return solve_work(work, _Into(self.sink, counts), self.resources) if len(places) or close else None

    def needed(self, places: Indices) -> Indices:
        """Those places whose bounds do not rule them out."""
        pairs, limits, lower = at_places(self.work.pairs, places), self.sink.limits(), self.lower[places]
        rows, columns = pairs.indices(0, len(places))
        limit = np.maximum(limits[rows], limits[columns]) if pairs.symmetric else limits[rows]
        return places[lower <= limit]


def _least(lower: Float, pairs: PairSet, k: int) -> Indices:
    """Places of the k pairs of each row whose bounds are the least, ascending: no limit can rule them out."""
    if not isinstance(pairs, AllPairs):
        table = lower.reshape(pairs.n_rows, pairs.n_columns)
        starts = pairs.n_columns * np.arange(pairs.n_rows)[:, None]
        return np.unique(starts + np.argpartition(table, k - 1, axis=1)[:, :k])
    every = np.arange(pairs.n_rows)
    before = pairs.row_start(every) - every - 1  # the place of (i, j) is before[i] + j
    found = []
    for i in every:
        own = np.concatenate([before[:i] + i, before[i] + every[i + 1 :]])
        found.append(own[np.argpartition(lower[own], k - 1)[:k]])
    return np.unique(found)


class _Into(SinkBase[Any]):
    """A sink that was opened for all pairs, of which only some are solved; it is closed where ``counts`` are given."""

    def __init__(self, sink: TopK, counts: Info | None = None) -> None:
        self._sink, self._counts = sink, counts

    def open(self, pairs: PairSet, info: Info) -> None: ...

    def accept(self, tile: Tile) -> None:
        self._sink.accept(tile)

    def close(self, info: Info) -> Any:
        return None if self._counts is None else self._sink.close({**info, **self._counts})
