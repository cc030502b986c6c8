"""What a run solves, as something that can be sent to workers: the pairs, and how the solver for a device is made from
what all pairs share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from asot.run.devices import Choice
from asot.run.executors import Stop
from asot.run.pairs import PairSet, tiles
from asot.run.solver import DeviceSolver, Solution, Solver, joined


@dataclass(frozen=True)
class Work:
    """``cpu`` and ``gpu`` make solvers; partials of their classes, so that they can be pickled."""

    pairs: PairSet
    cpu: Callable[[], Solver]
    gpu: Callable[[], DeviceSolver] | None = None
    choice: Choice = field(default_factory=lambda: Choice((), "asked for", required=False))
    info: dict[str, Any] = field(default_factory=dict)
    """What the call knows about the run."""
    stays: bool = False
    """Answers that are too large to send, such as plans: solved in this process."""


@dataclass(frozen=True)
class Ready:
    """A maker for a solver that already exists."""

    solver: Solver

    def __call__(self) -> Solver:
        return self.solver


@dataclass(frozen=True)
class SolveRange:
    """Solve a range of the pairs, tile by tile, in any process; ``memory`` is for scratch."""

    work: Work
    memory: int

    @functools.cached_property
    def solver(self) -> Solver:
        """Made once in every process."""
        return self.work.cpu()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "solver"}

    def __call__(self, own: tuple[int, int], stop: Stop) -> Solution:
        return self.solved(self.work.pairs, own, stop)

    def solved(self, pairs: PairSet, own: tuple[int, int], stop: Stop) -> Solution:
        parts = []
        for tile in tiles(own[1], max(1, self.solver.pairs_per_tile(self.memory)), own[0]):
            parts.append(self.solver.solve(*pairs.indices(*tile), stop))
            if stop[0] != 0:
                break
        return joined(parts)
