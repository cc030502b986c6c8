"""Plans and potentials of many pairs: `emd_many` with ``plans=True``.

A plan has fewer than k + l entries, so the plans of all pairs are one flat list of (pair, source, sink, mass). Both
solvers end with the optimal tree of a pair; here it is read out and kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.exact.cuda.solver import DeviceTrees, ExactCuda, ExactOnDevice
from asot.exact.shared_cost import ExactSharedCost, solve_with_tree
from asot.exact.workspace import MASS_BITS
from asot.jit.compiled import compiled
from asot.run.pairs import PairSet
from asot.run.plans import Plans
from asot.run.result import Distances, Status
from asot.run.sinks import Condensed, Tile
from asot.run.solver import DeviceSolution, Solution, TilePlans
from asot.validation import refuse_what_cannot_fit


class KeepPlans(Condensed):
    """Every value with its plan and potentials: the sink of ``plans=True``."""

    def __init__(self, shape: tuple[int, int]) -> None:
        super().__init__()
        self._shape = shape

    def open(self, pairs: PairSet, info: dict[str, Any]) -> None:
        k, l = self._shape
        advice = "ask for fewer pairs with pairs=..."
        refuse_what_cannot_fit(len(pairs) * 32 * (k + l), "the plans of all pairs", advice)
        super().open(pairs, info)
        self._f, self._g = np.empty((len(pairs), k)), np.empty((len(pairs), l))
        self._parts: list[TilePlans] = []

    def accept(self, tile: Tile) -> None:
        plans = tile.solution.plans
        assert plans is not None
        own = slice(tile.start, tile.start + len(tile.solution.values))
        self._values[own], self._status[own], self._n_iter[own] = (
            tile.solution.values, tile.solution.status, tile.solution.n_iter,
        )  # fmt: skip
        self._f[own], self._g[own] = plans.f, plans.g
        self._parts.append(plans._replace(pair=plans.pair + tile.start, f=plans.f[:0], g=plans.g[:0]))

    def close(self, info: dict[str, Any]) -> Distances:
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
        return max(1, min(super().pairs_per_tile(memory), memory // (64 * sum(self._cost.unit.shape))))

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        c, n = self._cost, len(rows)
        k, l = c.unit.shape
        arcs = k + l - 1
        values, pivots = np.zeros(n), np.zeros(n, dtype=np.int32)
        ends, mass = np.zeros((2, n, arcs), dtype=np.int64), np.zeros((n, arcs), dtype=np.int64)
        f, g = np.zeros((n, k)), np.zeros((n, l))
        _solve_tile_with_plans(
            self._A, self._B, rows, columns, c.integer, c.unit, c.row_offset, c.column_offset, c.index_bits,
            values, pivots, ends, mass, f, g, stop,
        )  # fmt: skip
        entry = np.nonzero(mass)
        masses = np.ldexp(mass[entry].astype(np.float64), -MASS_BITS)
        f, g = np.ldexp(f, c.exponent), np.ldexp(g, c.exponent)
        plans = TilePlans(entry[0], ends[0][entry], ends[1][entry], masses, f, g)
        status = np.full(n, Status.OPTIMAL, dtype=np.int8)
        return Solution(np.ldexp(values, c.exponent - MASS_BITS), status, pivots, plans=plans)


@compiled
def _solve_tile_with_plans(  # type: ignore[no-untyped-def]
    A, B, rows, columns, integer, unit, row_offset, column_offset, index_bits, values, pivots, ends, mass, f, g, stop
):
    for t in range(len(rows)):
        if stop[0] != 0:
            return
        sources, sinks, flow, _, level = solve_with_tree(
            A[rows[t]], B[columns[t]], integer, unit, row_offset, column_offset, index_bits
        )
        for arc in range(len(flow)):
            ends[0, t, arc] = sources[arc]
            ends[1, t, arc] = sinks[arc]
            mass[t, arc] = flow[arc]
            values[t] += flow[arc] * unit[sources[arc], sinks[arc]]
        # Potentials are known where there is mass; the c-transform carries them everywhere and keeps them feasible.
        f[t] = np.inf
        g[t] = np.inf
        for j in range(len(level)):
            if not np.isnan(level[j]):
                for i in range(len(f[t])):
                    f[t, i] = min(f[t, i], unit[i, j] - level[j])
        for i in range(len(f[t])):
            for j in range(len(level)):
                g[t, j] = min(g[t, j], unit[i, j] - f[t, i])


class ExactCudaWithPlans(ExactCuda):
    """The GPU solver that also returns the trees."""

    def pairs_per_tile(self, memory: int) -> int:
        return max(1, min(super().pairs_per_tile(memory), memory // (40 * self.plan.n_nodes)))

    def on(self, device: int) -> ExactOnDevice:
        return _OnDeviceWithPlans(self, device)


class _OnDeviceWithPlans(ExactOnDevice):
    def __init__(self, host: ExactCuda, device: int) -> None:
        super().__init__(host, device)
        self._host = host

    def solve(self, pairs: PairSet, start: int, stop: int) -> DeviceSolution:
        solution, trees = self.solve_with_trees(pairs, start, stop)
        return replace(solution, trees=trees)

    def read_trees(self, pairs: PairSet, start: int, stop: int, trees: tuple[NDArray[Any], ...]) -> TilePlans:
        """Plans and potentials of a tile from its trees, once they are on the host."""
        rows, columns = pairs.indices(start, stop)
        return self._host.plans_and_potentials(rows, columns, DeviceTrees(*trees))
