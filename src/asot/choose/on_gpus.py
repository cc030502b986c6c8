"""Answers that GPUs begin and the host finishes: those that keep a `max_error`, and estimates of other distances.

GPUs bound pairs, or solve what is left of them on few places. The CPU's own features, fit and guarantee then make the
answers, in less than a microsecond for each pair; what must be exact goes back to the GPUs. They are asked for by name:
where asot chooses, it solves exactly on GPUs, which takes no longer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from asot._typing import Indices
from asot.bounds.guarantee import Guaranteed
from asot.estimate.coarse import Coarse
from asot.estimate.pair_features import Measured
from asot.exact.auto import exact_work
from asot.request import Request
from asot.results.sinks import Condensed
from asot.run.engine import Work, solve_work
from asot.run.pairs import ListedPairs, PairSet
from asot.run.protocols import DeviceSolution, DeviceSolver, Notes, OnDevice, Solution, Solver

Finish = Callable[[Solution, Indices, Indices], Solution]
"""What makes answers of what a GPU has found of some pairs (rows, columns)."""


def on_places(
    work: Work,
    solver: Solver,
    request: Request,
    coarse: Coarse,
    answers: Callable[[Measured, Indices, Indices], Solution],
) -> Work:
    """``work`` on GPUs, too: they solve the collection on its places, and ``answers`` are made of what that says."""
    n, places = len(request.D), coarse.collection
    E = None if request.E is None else places[n:]
    own = exact_work(replace(_plain(request), D=places[:n], E=E, distance=coarse.distance), Notes())
    assert own.gpu is not None

    def made(found: Solution, rows: Indices, columns: Indices) -> Solution:
        return answers(coarse.measured(found, rows, columns), rows, columns)

    return finished_on_host(replace(work, choice=own.choice), own.gpu, solver, request, made)


def finished_on_host(
    work: Work, gpu: Callable[[], DeviceSolver], solver: Solver, request: Request, finish: Finish
) -> Work:
    """``work`` on GPUs, too, whose answers ``finish`` makes into those of ``solver``, but for its guarantee."""
    if isinstance(solver, Guaranteed):
        exact = functools.partial(_solved, exact_work(_plain(request), Notes()), request)

        def held(found: Solution, rows: Indices, columns: Indices) -> Solution:
            return solver.held(finish(found, rows, columns), rows, columns, exact)

        return replace(work, gpu=lambda: FinishedOnHost(gpu(), solver, held))
    return replace(work, gpu=lambda: FinishedOnHost(gpu(), solver, finish))


def _solved(work: Work, request: Request, rows: Indices, columns: Indices) -> Any:
    """Some pairs, exactly."""
    listed = ListedPairs(np.stack([rows, columns], axis=1), work.pairs.n_rows, work.pairs.n_columns, symmetric=False)
    return solve_work(replace(work, pairs=listed), Condensed(), replace(request.resources, progress=False))


def _plain(request: Request) -> Request:
    """The same pairs without estimates."""
    return replace(request, sink=None, level=None, max_error=None)


class FinishedOnHost(DeviceSolver):
    """A solver for GPUs whose answers the host makes into those of ``like``, the solver for the CPU, by ``finish``."""

    def __init__(self, inner: DeviceSolver, like: Solver, finish: Finish) -> None:
        self._inner, self._finish = inner, finish
        self.info, self.stage, self.counts_exact = {**like.info, "device": "cuda"}, like.stage, like.counts_exact
        self.begun = inner.begun

    def pairs_per_tile(self, memory: int) -> int:
        return self._inner.pairs_per_tile(memory)

    def on(self, device: int) -> OnDevice:
        return _FinishedOnHost(self._inner.on(device), self._finish)


class _FinishedOnHost(OnDevice):
    is_finished = False

    def __init__(self, inner: OnDevice, finish: Finish) -> None:
        self._inner, self._finish = inner, finish

    def solve(self, pairs: PairSet, start: int, stop: int) -> DeviceSolution:
        return self._inner.solve(pairs, start, stop)

    def solve_open(self, pairs: ListedPairs) -> Any:
        return self._inner.solve_open(pairs)

    def finish_on_host(self, found: Solution, rows: Indices, columns: Indices) -> Solution:
        return self._finish(found, rows, columns)
