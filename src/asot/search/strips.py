"""A search for the neighbors of some rows, by itself: the piece of a search that a store keeps and a worker does.

A search of a whole collection looks at each pair once, for both of its ends. Strips know nothing of each other, so that
they can be done anywhere, in any order, and again. Each looks at its rows against all columns, so all strips of one
collection together look at every pair twice. The neighbors are the same, to the last bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from asot._typing import Float, Indices, Info
from asot.run.executors import Stop
from asot.search.sweep import Best, Look, Search


@dataclass(frozen=True)
class StripSearch:
    """Neighbors of ranges of rows. ``look`` has the bounds of the collection; None: brute force."""

    search: Search
    look: Look | None
    n_neighbors: int

    def nearest(self, low: int, high: int) -> tuple[Indices, Float]:
        """The nearest of the rows low..high-1: indices and distances (high - low, K), ascending, ties by index."""
        own = replace(self.search, rows=(low, high), n_exact=0, _parts=[])  # strips may be searched at the same time
        best = Best(own.shape.n_rows, self.n_neighbors, symmetric=False, rows=own.rows)
        look = None if self.look is None else self.look.from_one_end()
        if look is not None:
            own.solve_promising(look, best)
        own.sweep(look, best)
        self.search.n_exact += own.n_exact
        return best.indices, best.distances


class Strip(NamedTuple):
    """The answer for a range of rows, from whatever process."""

    indices: Indices  # (rows, K)
    distances: Float  # (rows, K)
    n_exact: int  # pairs that were solved for it, those of its preparation included where it is the first of a process
    info: Info


@dataclass(frozen=True)
class SearchStrip:
    """Search a range of rows, in any process: the task of a cluster, and of a store."""

    prepare: Callable[[], StripSearch]

    @functools.cached_property
    def search(self) -> StripSearch:
        """Made once in every process."""
        return self.prepare()

    def __getstate__(self) -> dict[str, Any]:
        return {"prepare": self.prepare}

    def __call__(self, own: tuple[int, int], stop: Stop) -> Strip:
        search = self.search.search
        found = self.search.nearest(*own)
        counted, search.n_exact = search.n_exact, 0
        return Strip(*found, counted, search.info(0.0))
