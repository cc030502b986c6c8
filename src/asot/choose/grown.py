"""A solver that knows the answers for some of its pairs: those that an earlier result has."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from asot._typing import Identity
from asot.run.pairs import PairSet
from asot.run.protocols import Solution, Solver, Status

Indices = NDArray[np.int64]


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
        return {
            "solver": "grown, 1",
            "old": self._old.identity(),
            "n_old": self._n_rows,
            "new": self._solver.identity(),
        }

    def pairs_per_tile(self, memory: int) -> int:
        return self._solver.pairs_per_tile(memory)

    def solve(self, rows: Indices, columns: Indices, stop: NDArray[np.int64]) -> Solution:
        known = np.maximum(rows, columns) < self._n_rows if self._symmetric else rows < self._n_rows
        fresh = ~known
        if fresh.all():
            return self._solver.solve(rows, columns, stop)
        parts: dict[str, Any] = {
            "values": np.empty(len(rows)),
            "status": np.full(len(rows), Status.UNKNOWN, np.int8),
            "n_iter": np.zeros(len(rows), np.int32),
        }
        parts |= {name: np.empty(len(rows)) for name in self._fields if name not in parts}
        for name in self._fields:
            parts[name][known] = self._old.at(rows[known], columns[known], name)
        if fresh.any():
            solved = self._solver.solve(rows[fresh], columns[fresh], stop)
            for name, part in parts.items():
                part[fresh] = getattr(solved, name)
        return Solution(**parts)
