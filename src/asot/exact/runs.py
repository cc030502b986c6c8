"""Solvers whose pairs take nanoseconds: they are told runs of pairs, one row against neighboring columns, not lists.

A list of pairs, and copies of answers, would take longer than the answers. What such a solver adds is its kernel.
"""

from __future__ import annotations

from abc import abstractmethod

from asot._typing import Indices
from asot.exact.price import PricedSolver
from asot.native import Doubles, Int, Ints, Record
from asot.run.protocols import Solution, Status, empty_solution


class Runs(Record, n=Int, rows=Ints, columns=Ints, ends=Ints, values=Doubles, room=Int, stop=Ints):
    """Pairs that are asked for (``native/exact/line_runs.hpp``)."""


class RunsSolver(PricedSolver):
    """A solver that a kernel of runs makes."""

    stage = "exact distances"
    takes_runs = True

    _most_pairs = 2**18
    _column_start = 0
    """Added to columns: the second collection of a rectangle follows the first one."""

    @abstractmethod
    def solve_kernel(self, runs: Runs) -> None:
        """Fill the values of all pairs of the runs."""

    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
        room = empty_solution(len(rows))
        self.solve_runs(rows, columns, columns + 1, room, stop)
        return room

    def solve_runs(self, rows: Indices, columns: Indices, ends: Indices, room: Solution, stop: Indices) -> None:
        if self._column_start:
            columns, ends = columns + self._column_start, ends + self._column_start
        n, values = len(rows), room.values
        self.solve_kernel(Runs(n=n, rows=rows, columns=columns, ends=ends, values=values, room=len(values), stop=stop))
        room.status.fill(Status.OPTIMAL)
        room.n_iter.fill(0)
