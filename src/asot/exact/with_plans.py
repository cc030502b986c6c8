"""Plans and potentials of many pairs: `emd_many` with ``plans=True``.

A plan has fewer than k + l entries, so the plans of all pairs are one flat list of (pair, source, sink, mass). Both
solvers end with the optimal tree of a pair; here it is read out and kept.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from asot._typing import Indices, Info
from asot.exact.cuda.solver import DeviceTrees, ExactCuda, ExactOnDevice
from asot.exact.shared_cost import ExactSharedCost
from asot.results.distances import Distances
from asot.results.plans import Plans
from asot.results.sinks import Condensed
from asot.run.pairs import PairSet
from asot.run.protocols import DeviceSolution, Solution, Tile, TilePlans
from asot.validation import refuse_what_cannot_fit


class KeepPlans(Condensed):
    """Every value with its plan and potentials: the sink of ``plans=True``."""

    def __init__(self, shape: tuple[int, int]) -> None:
        super().__init__()
        self._shape = shape

    def open(self, pairs: PairSet, info: Info) -> None:
        k, l = self._shape
        advice = "ask for fewer pairs with pairs=..."
        refuse_what_cannot_fit(len(pairs) * 32 * (k + l), "the plans of all pairs", advice)
        super().open(pairs, info)
        self._f, self._g = np.empty((len(pairs), k)), np.empty((len(pairs), l))
        self._parts: list[TilePlans] = []

    def accept(self, tile: Tile) -> None:
        super().accept(tile)
        plans: TilePlans = tile.solution.plans
        own = slice(tile.start, tile.start + len(tile.solution.values))
        self._f[own], self._g[own] = plans.f, plans.g
        self._parts.append(plans._replace(pair=plans.pair + tile.start, f=plans.f[:0], g=plans.g[:0]))

    def close(self, info: Info) -> Distances:
        none = np.empty(0, np.int64)
        nothing = none, none, none, np.empty(0)
        pair, source, sink, mass = (
            np.concatenate(parts) for parts in zip(nothing, *(part[:4] for part in self._parts), strict=True)
        )
        start = np.searchsorted(pair, np.arange(len(self._values) + 1))
        plans = Plans(source, sink, mass, start, self._f, self._g, self._values)
        return replace(super().close(info), plans=plans)


# ---------------------------------------------------------------------------------------------------------- solvers


class ExactWithPlans(ExactSharedCost):
    """The CPU solver that also reads out the trees. All masses are shipped, so it is slower than its parent."""

    def pairs_per_tile(self, memory: int) -> int:
        return max(1, min(super().pairs_per_tile(memory), memory // (64 * (self._cost.k + self._cost.l))))

    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
        return self.solve_plans(rows, columns, stop)


class ExactCudaWithPlans(ExactCuda):
    """The GPU solver that also returns the trees."""

    def pairs_per_tile(self, memory: int) -> int:
        return max(1, min(super().pairs_per_tile(memory), memory // (40 * self.plan.n_nodes)))

    def on(self, device: int) -> ExactOnDevice:
        return _OnDeviceWithPlans(self, device)


class _OnDeviceWithPlans(ExactOnDevice):
    is_finished = False

    def __init__(self, host: ExactCuda, device: int) -> None:
        super().__init__(host, device)
        self._host = host

    def solve(self, pairs: PairSet, start: int, stop: int) -> DeviceSolution:
        solution, trees = self.solve_with_trees(pairs, start, stop)
        return replace(solution, plans=trees)

    def finish_on_host(self, found: Solution, rows: Indices, columns: Indices) -> Solution:
        return replace(found, plans=self._host.plans_and_potentials(rows, columns, DeviceTrees(*found.plans)))
