"""Spaces to measure with: neurons of mice, generated ones, and many small ones of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import squareform

Rng = np.random.Generator


def mouse_neurons(data: Path) -> list[Any]:
    """Euclidean distances (50, 50) within 100 neurons: CAJAL's example data."""
    stored = np.load(data / "more" / "neurons_euclidean.npz")
    return [squareform(row.astype(np.float64)) for row in stored["distances"]]


def neurons(n: int, count: int, seed: int = 0) -> list[Any]:
    """Euclidean distances (n, n) of points on random trees in space, each stretched in its own way."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        steps = rng.normal(size=(n, 3)) * rng.uniform(0.5, 2.0, 3)
        points = np.zeros((n, 3))
        for t in range(1, n):
            points[t] = points[rng.integers(max(0, t - 4), t)] + steps[t]
        found.append(_within(points))
    return found


def small_spaces(rng: Rng, count: int, most: int) -> list[Any]:
    """Up to ``most`` points: clouds, graphs, points that coincide, equal distances, grids, all scales, no metric."""
    return [_small(rng, int(rng.integers(1, most + 1))) for _ in range(count)]


def _small(rng: Rng, n: int) -> Any:
    kind = int(rng.integers(9))
    if kind == 0:
        return _within(rng.normal(size=(n, 3)))
    if kind == 1:
        return _graph(rng, n)
    if kind == 2:
        return np.zeros((n, n))
    if kind == 3:
        return 1.0 - np.eye(n)
    if kind == 4:
        return _within(np.arange(n, dtype=np.float64)[:, None])
    if kind == 5:
        return _within(rng.integers(0, 3, size=(n, 2)).astype(np.float64))
    if kind == 6:
        return _within(rng.normal(size=(n, 1))) * 10.0 ** int(rng.integers(-12, 12))
    if kind == 7:
        half = rng.random((n, n))
        return half + half.T
    return _within(np.repeat(rng.normal(size=((n + 1) // 2, 2)), 2, axis=0)[:n])


def _within(points: Any) -> Any:
    return np.linalg.norm(points[:, None] - points[None], axis=-1)


def _graph(rng: Rng, n: int) -> Any:
    """Shortest paths of a tree with some more edges."""
    edges = np.zeros((n, n))
    for i in range(1, n):
        edges[i, rng.integers(i)] = 1.0
    more = rng.integers(n, size=(int(rng.integers(n + 1)), 2))
    edges[more[:, 0], more[:, 1]] = 1.0
    np.fill_diagonal(edges, 0.0)
    return np.asarray(shortest_path(edges, directed=False, unweighted=True))


def small_masses(rng: Rng, spaces: list[Any]) -> list[Any]:
    """Some uniform, some of many sizes, some 0."""
    found = []
    for space in spaces:
        n = len(space)
        own = rng.random(n) ** int(rng.integers(1, 6)) * (rng.random(n) < 0.8)
        own[0] += 1e-3
        found.append(own if rng.random() < 0.7 else np.ones(n))
    return found
