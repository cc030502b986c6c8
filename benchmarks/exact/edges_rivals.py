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

from benchmarks.peers.peers import pot

Float = NDArray[np.float64]

_MODULES = {"lapjv": "lapjv", "lapx": "lap", "ortools": "ortools", "faiss": "faiss"}


def needs(name: str) -> bool:
    """Whether a rival is installed: ``pip install lapjv lapx ortools faiss-cpu``."""
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


def assignment(name: str) -> Callable[[Float], Any]:
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
    solve = assignment(name)

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


def sliced_candidates(D: Any, count: int, directions: int = 64, quantiles: int = 16) -> NDArray[np.int64]:
    """The ``count`` others (N, count) with the nearest quantiles along random directions, by faiss."""
    import faiss

    faiss.omp_set_num_threads(1)
    axes = np.random.default_rng(0).normal(size=(D.dim, directions))
    projected = D.points @ (axes / np.linalg.norm(axes, axis=0))
    levels = (np.arange(quantiles) + 0.5) / quantiles
    vectors = np.empty((len(D), quantiles, directions), np.float32)
    for i in range(len(D)):
        own = slice(D.offsets[i], D.offsets[i + 1])
        order = np.argsort(projected[own], axis=0)
        reached = np.cumsum(D.masses[own][order], axis=0)
        place = np.minimum((reached[None] < levels[:, None, None]).sum(axis=1), len(order) - 1)  # (quantiles, L)
        vectors[i] = np.take_along_axis(projected[own], np.take_along_axis(order, place, axis=0), axis=0)
    flat = vectors.reshape(len(D), -1)
    index = faiss.IndexFlatL2(flat.shape[1])
    index.add(flat)
    found = index.search(flat, count + 1)[1]
    others = np.argsort(found == np.arange(len(D))[:, None], axis=1, kind="stable")[:, :count]  # itself goes last
    return np.asarray(np.take_along_axis(found, others, axis=1))


def faiss_kmeans(points: NDArray[np.float32], k: int, points_per_center: int) -> NDArray[np.float32]:
    """Centers (k, d); at most so many points for each of them are used."""
    import faiss

    faiss.omp_set_num_threads(1)
    model = faiss.Kmeans(points.shape[1], k, niter=25, seed=1, max_points_per_centroid=points_per_center)
    model.train(points)
    return np.asarray(model.centroids)
