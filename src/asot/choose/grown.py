"""A solver that knows the answers for some of its pairs: those that an earlier result has."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from asot._typing import Identity, Indices
from asot.run.pairs import PairSet
from asot.run.protocols import EXTRAS, Solution, Solver, Status, all_ended, identity_of


class Known(Protocol):
    """A result that can be asked for some of its pairs: `Distances`, or what a store holds."""

    @property
    def pair_set(self) -> PairSet: ...

    def identity(self) -> Identity: ...

    def at(self, rows: Indices, columns: Indices, field: str = "values") -> NDArray[Any]: ...


class Grown(Solver):
    """Pairs of a collection whose first distributions are those of ``old``; all others are solved by ``solver``.

    Of two collections, the first one has grown.
    """

    def __init__(self, old: Known, fields: tuple[str, ...], solver: Solver) -> None:
        self._old, self._fields, self._solver = old, fields, solver
        self._n_rows, self._symmetric = old.pair_set.n_rows, old.pair_set.symmetric
        self.info, self.stage, self.counts_exact = solver.info, solver.stage, solver.counts_exact

    def identity(self) -> Identity:
        return identity_of("grown, 1", old=self._old, n_old=self._n_rows, new=self._solver)

    def pairs_per_tile(self, memory: int) -> int:
        return self._solver.pairs_per_tile(memory)

    def solve(self, rows: Indices, columns: Indices, stop: NDArray[np.int64]) -> Solution:
        known = np.maximum(rows, columns) < self._n_rows if self._symmetric else rows < self._n_rows
        fresh = ~known
        if fresh.all():
            return self._solver.solve(rows, columns, stop)
        extras = {name: np.empty(len(rows)) for name in EXTRAS if name in self._fields}
        found = all_ended(Status.UNKNOWN, np.empty(len(rows)), None, **extras)
        for name in self._fields:
            getattr(found, name)[known] = self._old.at(rows[known], columns[known], name)
        if fresh.any():
            solved = self._solver.solve(rows[fresh], columns[fresh], stop)
            for name in ("values", "status", "n_iter", *extras):
                getattr(found, name)[fresh] = getattr(solved, name)
        return found
