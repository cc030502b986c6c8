"""What queries solved, then and now: drift costs speed, and this is where it shows."""

from __future__ import annotations

import threading
from collections import deque

import numpy as np

from asot._typing import Info

KEPT = 256
"""Queries that "lately" means, and as many after an index was opened or rebuilt."""

_FEWEST = 32  # queries on each side before anything is said
_SLOWER = 2.0


class Served:
    """Shares of the members that queries solved."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: list[float] = []
        self._last: deque[tuple[int, float]] = deque(maxlen=KEPT)
        self.n_queries = 0

    def note(self, solves: list[int], members: int) -> None:
        with self._lock:
            for count in solves:
                share = count / max(1, members)
                if len(self._first) < KEPT:
                    self._first.append(share)
                self._last.append((count, share))
            self.n_queries += len(solves)

    def report(self) -> Info:
        """For ``info``."""
        with self._lock:
            first, last = list(self._first), list(self._last)
        solves = float(np.mean([count for count, _ in last])) if last else None
        pays = False
        if self.n_queries >= KEPT + _FEWEST:
            now = float(np.mean([share for _, share in last]))
            pays = now > _SLOWER * float(np.mean(first))
        return {"n_queries": self.n_queries, "solves_per_query": solves, "rebuild_pays": pays}
