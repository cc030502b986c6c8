"""`max_error`: the user says which error they can live with, and every pair stays below it.

Most pairs have bounds that are close enough. The others are solved exactly on the original points. How many anchors
make the whole cheapest is a question of strategy (`asot.choose.strategy`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from asot._typing import Identity, Indices, Info
from asot.request import Accuracy
from asot.run.executors import Stop
from asot.run.protocols import Solution, Solver, Status, identity_of

MOST_EXACT_TILES = 32
"""A tile all of whose pairs need an exact solve takes at most this many times as long as another."""


class Guaranteed(Solver):
    """A solver with bounds that also solves, on the original points, those of its pairs that are bounded too loosely.

    The other values are moved to where their error is proven.
    """

    counts_exact = True

    def __init__(self, bounded: Solver, exact: Solver, accepted: Accuracy) -> None:
        """``exact`` solves the original problems."""
        self._bounded, self._accepted, self._exact = bounded, accepted, exact
        self.stage = bounded.stage
        self.info: Info = {**bounded.info, "max_error": str(accepted)}

    def identity(self) -> Identity:
        accepted = str(self._accepted)
        return identity_of("guaranteed, 2", bounded=self._bounded, accepted=accepted, exact=self._exact)

    def pairs_per_tile(self, memory: int) -> int:
        return min(self._bounded.pairs_per_tile(memory), MOST_EXACT_TILES * self._exact.pairs_per_tile(memory))

    def solve(self, rows: Indices, columns: Indices, stop: Stop) -> Solution:
        found = self._bounded.solve(rows, columns, stop)
        return self.held(found, rows, columns, lambda rows, columns: self._exact.solve(rows, columns, stop))

    def held(
        self, found: Solution, rows: Indices, columns: Indices, exact: Callable[[Indices, Indices], Any]
    ) -> Solution:
        """What was found of some pairs, within the error that is accepted. ``exact`` solves pairs (rows, columns): it
        returns something with their ``values`` and ``n_iter``."""
        lower, upper = found.lower, found.upper
        assert lower is not None
        assert upper is not None
        known = found.status == np.int8(Status.EXACT)  # from a sample, say: no bound moves these
        lower[known] = upper[known] = found.values[known]
        allowed = self._accepted.half_widths(lower)
        values = np.clip(found.values, upper - allowed, lower + allowed)
        error = None if found.error is None else np.minimum(found.error, allowed)
        found = replace(found, values=values, error=error)
        wide = np.flatnonzero(self._accepted.too_wide(lower, upper))
        if len(wide):
            solved = exact(rows[wide], columns[wide])
            values[wide] = lower[wide] = upper[wide] = solved.values
            found.status[wide], found.n_iter[wide] = Status.EXACT, solved.n_iter
            if error is not None:
                error[wide] = 0.0
        return found
