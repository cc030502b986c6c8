"""Exact transport for many problems, each with a cost of its own: what losses and Gromov–Wasserstein steps stand on.

Nothing is shared between problems and no cost is assumed to be a metric, so no common mass is canceled. A problem comes
as a matrix of costs, or as two clouds whose costs the kernel computes; either way it becomes the integers of the
simplex, and equal masses are solved as an assignment (docs/method.md §16).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices, Info
from asot.exact.price import PricedSolver
from asot.native import Double, Doubles, Int, Ints, Record, ShortInts, Tile, entry
from asot.run.protocols import IN_FLOAT64, Solution, Status, all_ended


class BatchProblems(
    Record, rows_at=Ints, rows=Ints, row_mass=Doubles, columns_at=Ints, columns=Ints, column_mass=Doubles, cost=Doubles,
    cost_at=Ints, cost_stride=Ints, x=Doubles, y=Doubles, dim=Int, metric=Int, order=Double, power=Double,
    shrink=Doubles, most_rows=Int, most_columns=Int,
):  # fmt: skip
    """The problems of a batch (``native/exact/batch.cpp``): row and column masses, and costs or coordinates."""


class BatchPlans(
    Record, arcs_at=Ints, n_arcs=Ints, source=ShortInts, sink=ShortInts, mass=Doubles, f_at=Ints, f=Doubles, g_at=Ints,
    g=Doubles,
):  # fmt: skip
    """Where the plans and potentials of a batch go (``native/exact/batch.cpp``)."""


solve_batch_tile = entry("batch_tile", BatchProblems, BatchPlans, Tile)
_NOT_FINITE = 3


@dataclass(frozen=True)
class Side:
    """Rows or columns of all problems of a batch: problem b has ``sizes[b]`` of them, from ``starts[b]`` on."""

    starts: Indices  # (B,)
    sizes: Indices  # (B,)
    masses: Float | None  # flat, or None: uniform of total 1
    padded: int | None = None
    """Rows that each problem has with its padding, where all have as many: plans then take equal room, too."""

    @property
    def room(self) -> Indices:
        return self.sizes if self.padded is None else np.full(len(self.sizes), self.padded, dtype=np.int64)

    @property
    def most(self) -> int:
        return max(1, int(self.sizes.max(initial=0)))


@dataclass(frozen=True)
class Costs:
    """A matrix for each problem: entry (i, j) of problem b is ``flat[starts[b] + i · strides[b] + j]``."""

    flat: Float
    starts: Indices  # (B,)
    strides: Indices  # (B,)


@dataclass(frozen=True)
class Clouds:
    """Costs that the kernel computes: d(x_i, y_j)^power of points that the sides' starts refer to."""

    x: Float  # (n, d)
    y: Float  # (m, d)
    metric: int  # a code of the ground metrics
    order: float
    power: float
    shrink: Float | None = None
    """(B,) what the coordinates of a problem are multiplied with, where squares or powers would leave their range"""


class ExactBatch(PricedSolver):
    """Solves problem t of the batch as the pair (t, t). With ``plans`` their arcs are kept, with ``potentials`` these
    as well."""

    def __init__(self, rows: Side, columns: Side, costs: Costs | Clouds, *, plans: bool, potentials: bool) -> None:
        self._rows, self._columns, self._costs = rows, columns, costs
        given: dict[str, Any] = {
            "rows_at": rows.starts, "rows": rows.sizes, "row_mass": rows.masses,
            "columns_at": columns.starts, "columns": columns.sizes, "column_mass": columns.masses,
            "most_rows": rows.most, "most_columns": columns.most,
        }  # fmt: skip
        if isinstance(costs, Costs):
            given |= {"cost": costs.flat, "cost_at": costs.starts, "cost_stride": costs.strides}
        else:
            given |= {"x": costs.x, "y": costs.y, "dim": costs.x.shape[1], "metric": costs.metric}
            given |= {"order": costs.order, "power": costs.power, "shrink": costs.shrink}
        self._problems = BatchProblems(**given)
        self.kept = _room(rows.room, columns.room, plans=plans, potentials=potentials)
        self._plans = BatchPlans(**self.kept)
        self.info: Info = {
            "solver": "assignment or network simplex",
            "common_mass_canceled": False,
            **IN_FLOAT64,
        }

    def shape(self, problem: int) -> tuple[int, int]:
        return int(self._rows.sizes[problem]), int(self._columns.sizes[problem])

    def arcs_of(self, problem: int) -> tuple[NDArray[np.int32], NDArray[np.int32], Float]:
        """Sources, sinks and masses of the plan of a problem that was solved."""
        start, count, source, sink, mass = self._kept("arcs_at", "n_arcs", "source", "sink", "mass")
        own = slice(int(start[problem]), int(start[problem] + count[problem]))
        return source[own], sink[own], mass[own]

    def potentials_of(self, problem: int) -> tuple[Float, Float]:
        """f (n,) and g (m,) of a problem that was solved."""
        f, g, f_at, g_at = self._kept("f", "g", "f_at", "g_at")
        (n, m), i, j = self.shape(problem), int(f_at[problem]), int(g_at[problem])
        return f[i : i + n], g[j : j + m]

    def _kept(self, *names: str) -> list[NDArray[Any]]:
        if names[0] not in self.kept:
            raise ValueError("plans and potentials were not kept: call emd_batch(..., plans=True)")
        return [self.kept[name] for name in names]

    @functools.cached_property
    def _seconds(self) -> float:  # type: ignore[override]
        n, m = (float(side.sizes.sum()) / max(1, len(side.sizes)) for side in (self._rows, self._columns))
        return 1e-6 + 3e-9 * n * m + 1.5e-11 * n * m * (n + m)

    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
        values, steps = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.int32)
        tile = Tile(n=len(rows), rows=rows, columns=columns, values=values, steps=steps, stop=stop)
        if solve_batch_tile(self._problems, self._plans, tile) == _NOT_FINITE:
            raise ValueError(_not_finite(self._rows, self._columns, self._costs))
        return all_ended(Status.OPTIMAL, values, steps)


def _not_finite(rows: Side, columns: Side, costs: Costs | Clouds) -> str:
    """What is wrong with the first cost that is not a number. Padding may hold anything."""
    if isinstance(costs, Clouds):
        return "the costs of these points leave the range of float64; scale the points"
    for t in range(len(rows.sizes)):
        n, m, stride = int(rows.sizes[t]), int(columns.sizes[t]), int(costs.strides[t])
        part = costs.flat[costs.starts[t] : costs.starts[t] + n * stride].reshape(n, stride)[:, :m]
        if not np.isfinite(part).all():
            break
    i, j = np.argwhere(~np.isfinite(part))[0]
    return (
        f"problem {t}: the cost of row {i} and column {j} is {part[i, j]}; costs must be finite. A pair that must not "
        "be matched needs a cost larger than any sum of the others"
    )


def starts_of(sizes: Indices) -> Indices:
    """Where each of some stretches begins, one after the other."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])[:-1]


def ranges(starts: Indices, sizes: Indices) -> tuple[Indices, Indices]:
    """Which stretch, and which place, each entry of some stretches has: (total,) and (total,)."""
    which = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    within = np.arange(len(which), dtype=np.int64) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return which, starts[which] + within


def _room(rows: Indices, columns: Indices, *, plans: bool, potentials: bool) -> dict[str, NDArray[Any]]:
    """Where plans and potentials go, one problem after the other: a basic solution has at most rows + columns - 1
    arcs."""
    n, m, room = int(rows.sum()), int(columns.sum()), dict[str, NDArray[Any]]()
    if plans:
        room |= {"arcs_at": starts_of(rows + columns), "n_arcs": np.zeros(len(rows), dtype=np.int64)}
        room |= {"source": np.zeros(n + m, dtype=np.int32), "sink": np.zeros(n + m, dtype=np.int32)}
        room["mass"] = np.zeros(n + m)
    if potentials:
        room |= {"f_at": starts_of(rows), "f": np.zeros(n), "g_at": starts_of(columns), "g": np.zeros(m)}
    return room
