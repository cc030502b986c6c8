"""Descents of many pairs of spaces at a time on an NVIDIA GPU: what `asot.spaces.solver` does pair by pair.

For p = 2 and without features. A tile's descents, two of each pair, go step by step together: one call of the exact
solver for costs of their own finds where each of them goes, kernels (``descents.cu``) find how far, and those that have
arrived leave. The host waits once in a step, to learn which. Energies so small that squares cancel, and spaces that no
bound tells apart, are left to the CPU, which looks again. Where steps tie, a descent may end elsewhere than on the CPU;
what it finds is the price of a plan all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices, Info
from asot.exact.cuda import own_costs
from asot.exact.cuda.own_costs import DeviceMatrices, DevicePlans, DeviceSide
from asot.gpu.cuda import Variant, load
from asot.results.distances import Distances
from asot.results.sinks import distances_of
from asot.run.pairs import ListedPairs, PairSet
from asot.run.protocols import OPEN, DeviceSolution, DeviceSolver, OnDevice, Status
from asot.spaces.bounds import rounded_down
from asot.spaces.solver import MAX_STEPS, TOLERANCE, Gromov

MOST_POINTS = 1024
"""Of a space: beyond, a few descents would fill the memory."""

NUMBERS = 2**25
"""Entries of plans in a tile, unless memory is limited: a quarter of a gigabyte, four times over."""

MOST_PAIRS = 2**13

THREADS = 256

START_SECONDS, SECONDS_OF_50 = 0.1, 5e-6
"""Of a call, and of a pair of spaces of 50 points, on an H200."""

SMALL = 1e-3
"""Energies below this share of the sizes of both spaces are sums of squares that cancel."""

TIED = 1e-9
"""Third bounds below this share may be 0 but for rounding: points look alike, and an isometry is looked for."""

BALANCE = 1e-6
"""By how much total masses of a pair may differ."""


def variants(shared_memory: int) -> Iterator[Variant]:
    """Kernels that are compiled ahead (`asot.gpu.cuda.Variant`)."""
    yield "descents", {}


class GromovCuda(DeviceSolver):
    """The pairs of ``solver``, which also takes what is left open, with ``n_jobs`` threads.

    ``memory``: bytes that a tile may take, or None.
    """

    def __init__(self, solver: Gromov, *, memory: int | None = None, n_jobs: int = 1) -> None:
        self.solver, self.memory, self.n_jobs = solver, memory, n_jobs
        self.info: Info = {**solver.info, "device": "cuda"}
        self._there: dict[int, OnDevice] = {}

    def expected_seconds(self, n_pairs: int) -> float:
        """Of a GPU that has been used before."""
        n = float(np.mean(self.solver.spaces.sizes))
        return START_SECONDS + n_pairs * SECONDS_OF_50 * (n / 50.0) ** 2.2

    def pairs_per_tile(self, memory: int) -> int:
        numbers = int(self.solver.spaces.sizes.max()) ** 2
        most = NUMBERS if self.memory is None else self.memory // (8 * 4)
        return int(np.clip(most // (2 * numbers), 1, MOST_PAIRS))

    def on(self, device: int) -> OnDevice:
        if device not in self._there:  # the nearest spaces are found in many runs
            self._there[device] = _GromovOnDevice(self)
        return self._there[device]


class _GromovOnDevice(OnDevice):
    """All spaces, on one GPU."""

    leaves_open = True

    def __init__(self, host: GromovCuda) -> None:
        import cupy

        self._host, self._bounds, spaces = host, host.solver.bounds, host.solver.spaces
        self._start, self._sizes, self._most = spaces.start, spaces.sizes, int(spaces.sizes.max())
        self.gives_bounds = host.solver.has_bounds
        masses = np.concatenate([spaces.masses(i) for i in range(len(spaces))])
        means, squares = np.empty((2, len(masses)))
        for i in range(len(spaces)):
            own, d = slice(int(spaces.start[i]), int(spaces.start[i + 1])), spaces.matrix(i)
            means[own], squares[own] = d @ masses[own], (d * d) @ masses[own]
        self._size = np.add.reduceat(masses * squares, spaces.start[:-1])
        self._flat_masses = None if spaces.mass is None else cupy.asarray(masses)
        self._spaces = tuple(
            map(cupy.asarray, (spaces.start, spaces.matrix_at, spaces.distance, masses, squares, means))
        )
        self._quantiles, self._sizes_there = cupy.asarray(self._bounds.quantiles), cupy.asarray(self._size)

    def solve_open(self, pairs: ListedPairs) -> Distances:
        return distances_of(pairs, self._host.solver, n_jobs=self._host.n_jobs, progress=False)

    def solve(self, pairs: PairSet, start: int, stop: int) -> DeviceSolution:
        """Answers of the pairs; unlike other solvers, it waits for them."""
        import cupy

        rows, columns = pairs.indices(start, stop)
        found = self._descend(rows, columns + self._host.solver.column_start)
        best, gap = found.energy.min(axis=0), np.abs(found.energy[0] - found.energy[1])
        sizes = self._size[rows] + self._size[columns + self._host.solver.column_start]
        values, status = self._bounds.distance(best), np.full(len(rows), Status.BEST_FOUND, dtype=np.int8)
        status[(best < SMALL * sizes) | (found.third < TIED * sizes) | found.refused] = OPEN
        error, steps = self._bounds.distance(best + gap) - values, found.steps.sum(axis=0, dtype=np.int32)
        there = cupy.asarray(values)
        lower = upper = None
        if self.gives_bounds:
            proven = rounded_down(np.sqrt(found.third), self._host.solver.spaces) ** 2
            lower = cupy.asarray(np.minimum(self._bounds.of(rows, columns, proven).max(axis=1), values))
            upper = there
        return DeviceSolution(
            there, cupy.asarray(status), cupy.asarray(steps), lower=lower, upper=upper, error=cupy.asarray(error)
        )

    def _descend(self, rows: Indices, columns: Indices) -> _Found:
        """Both descents of every pair."""
        import cupy

        count, most = len(rows), self._most
        plan, form = (cupy.zeros(2 * count * most**2) for _ in range(2))
        reached = cupy.zeros(2 * count), cupy.zeros(2 * count, dtype=np.int32)
        both = _Descents(np.tile(rows, 2), np.tile(columns, 2), plan, form, *reached)
        ends = tuple(map(cupy.asarray, (both.rows, both.columns)))
        step_form, mixed = (cupy.empty(2 * count * most**2) for _ in range(2))

        def launch(name: str, blocks: int, *arguments: Any) -> None:
            load("descents", {}).get_function(name)((blocks,), (THREADS,), (*self._spaces, *ends, *arguments))

        width = np.int32(most)
        launch("row_gaps", count, self._quantiles, np.int32(self._bounds.bins), width, both.form)
        first = np.arange(count)
        arcs = self._transport(both, first)
        there = cupy.asarray(first)
        launch("form_of_arcs", count, there, width, *arcs.of_plan, mixed, both.form)
        launch("begin_with_arcs", count, width, *arcs.of_plan, both.form, both.plan, both.energy)
        launch("begin_with_product", count, np.int64(count), width, both.plan, both.form, both.energy)
        third, refused = np.asarray(arcs.values.get()) / self._bounds.bins, bool(arcs.n_wrong.get()[0])
        at_work = np.arange(2 * count)
        for _ in range(MAX_STEPS):
            if len(at_work) == 0 or refused:
                break
            arcs = self._transport(both, at_work)
            there, goes_on = cupy.asarray(at_work), cupy.zeros(len(at_work), dtype=np.int32)
            launch("form_of_arcs", len(at_work), there, width, *arcs.of_plan, mixed, step_form)
            launch(
                "walk", len(at_work), there, width, *arcs.of_plan, step_form, self._sizes_there, np.float64(TOLERANCE),
                both.plan, both.form, both.energy, both.steps, goes_on,
            )  # fmt: skip
            refused = bool(arcs.n_wrong.get()[0])
            at_work = at_work[goes_on.get() != 0]
        launch("price_plans", 2 * count, width, both.plan, both.form, both.energy)
        energy, steps = (np.maximum(each.get().reshape(2, count), 0) for each in (both.energy, both.steps))
        return _Found(energy, steps, np.maximum(third, 0.0), np.full(count, refused))

    def _transport(self, descents: _Descents, which: Indices) -> _Arcs:
        """Best plans of the descents at work for costs that are their forms."""
        import cupy

        most, count = self._most, len(which)
        rows, columns = (
            DeviceSide(cupy.asarray(self._start[own]), cupy.asarray(self._sizes[own]), self._flat_masses, most)
            for own in (descents.rows[which], descents.columns[which])
        )
        room = 2 * most * count
        source, sink = (cupy.zeros(room, dtype=np.int64) for _ in range(2))
        plans = DevicePlans(
            cupy.asarray(2 * most * np.arange(count)), cupy.zeros(count), source, sink, cupy.zeros(room)
        )
        costs = DeviceMatrices(descents.form, cupy.asarray(which * most**2), most)
        n_wrong = own_costs.solve(count, rows, columns, costs, plans, BALANCE)
        return _Arcs(plans.values, (plans.source, plans.sink, plans.mass), n_wrong)


class _Descents(NamedTuple):
    """D descents of a tile: first those from the third lower bound, then those from the product."""

    rows: Indices  # (D,) spaces
    columns: Indices  # (D,)
    plan: Any  # (D, most, most), flat, on the GPU as all below
    form: Any  # (D, most, most): half of the energy's gradient
    energy: Any  # (D,)
    steps: Any  # (D,) int32


class _Arcs(NamedTuple):
    """Plans between the spaces of descents, on the GPU."""

    values: Any
    of_plan: tuple[Any, Any, Any]  # source, sink, mass, each of 2 · most per descent
    n_wrong: Any  # (1,) problems that were refused


class _Found(NamedTuple):
    """What descents of P pairs have found."""

    energy: Float  # (2, P)
    steps: NDArray[np.int32]  # (2, P)
    third: Float  # (P,) the third lower bound, not yet rounded down
    refused: NDArray[np.bool_]  # (P,)
