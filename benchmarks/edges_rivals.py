"""The rivals of `edges`, each called as its own users would, without needless checks."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from benchmarks.peers import pot

Float = NDArray[np.float64]

_MODULES = {"lapjv": "lapjv", "lapx": "lap", "ortools": "ortools"}


def needs(name: str) -> bool:
    """Whether a rival is installed: ``pip install lapjv lapx ortools``."""
    return importlib.util.find_spec(_MODULES[name]) is not None


def core_values(a: Float, b: Float, cost: Float) -> float:
    """POT's compiled network simplex."""
    return float(_emd_c()(a, b, cost, 10_000_000, 1)[1])


@functools.cache
def _emd_c() -> Callable[..., Any]:
    pot()
    from ot.lp.emd_wrap import emd_c

    return emd_c


def emd2(x: Float, y: Float, a: Float | None = None, b: Float | None = None) -> Callable[[], Float]:
    ot = pot()
    a = np.full(len(x), 1 / len(x)) if a is None else a
    b = np.full(len(y), 1 / len(y)) if b is None else b
    return lambda: np.array([ot.emd2(a, b, ot.dist(x, y, metric="euclidean"), numItermax=10_000_000)])


def core(x: Float, y: Float) -> Callable[[], Float]:
    a, b = np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y))
    return lambda: np.array([core_values(a, b, cdist(x, y))])


def _assignment(name: str) -> Callable[[Float], Any]:
    """A function that gives the column of every row."""
    if name == "SciPy":
        return lambda cost: linear_sum_assignment(cost)[1]
    if name == "lapjv":
        import lapjv

        return lambda cost: lapjv.lapjv(cost)[0]
    import lap as lapx

    return lambda cost: lapx.lapjv(cost)[1]


def lap(name: str, x: Float, y: Float) -> Callable[[], Float]:
    """An assignment solver for equal sizes."""
    solve = _assignment(name)

    def distance() -> Float:
        cost = cdist(x, y)
        return np.array([cost[np.arange(len(x)), solve(cost)].mean()])

    return distance


def canceled(a: Float, b: Float, cost: Float) -> float:
    """POT's core after common mass is taken out."""
    surplus = a - b
    sources, sinks = np.flatnonzero(surplus > 0), np.flatnonzero(surplus < 0)
    supply, demand = surplus[sources], -surplus[sinks]
    demand *= supply.sum() / demand.sum()
    total = supply.sum()
    return total * core_values(supply / total, demand / total, np.ascontiguousarray(cost[np.ix_(sources, sinks)]))


def grid_flow(a: Float, b: Float, side: int, unit: int = 1_000_000_000) -> float:
    """W_1 for the city-block metric by OR-tools, as a flow between neighbors on the grid."""
    from ortools.graph.python import min_cost_flow

    number = np.arange(side * side).reshape(side, side)
    pairs = np.concatenate(
        [
            np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], 1),
            np.stack([number[:-1].ravel(), number[1:].ravel()], 1),
        ]
    )
    tails, heads = np.concatenate([pairs[:, 0], pairs[:, 1]]), np.concatenate([pairs[:, 1], pairs[:, 0]])
    supply = np.rint((a - b) * unit).astype(np.int64)
    supply[np.argmax(np.abs(supply))] -= supply.sum()
    solver = min_cost_flow.SimpleMinCostFlow()
    many = np.full(len(tails), unit, dtype=np.int64)
    solver.add_arcs_with_capacity_and_unit_cost(tails, heads, many, np.ones(len(tails), dtype=np.int64))
    solver.set_nodes_supplies(number.ravel(), supply)
    if solver.solve() != solver.OPTIMAL:
        raise RuntimeError("OR-tools found no optimal flow")
    return solver.optimal_cost() / unit
