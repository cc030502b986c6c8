"""Problems with known difficulties, made with NumPy alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.spatial.distance import cdist

COSTS = ("clustered", "grid", "line", "equidistant", "coincident", "zero", "huge", "tiny")


def cost_of(kind: str, k: int, rng: np.random.Generator) -> np.ndarray:
    """A metric cost (k, k) of a kind that has its own trouble: ties, zeros, extreme scales."""
    points = rng.normal(size=(k, 3)) + 4.0 * rng.integers(0, 3, size=(k, 1))
    if kind == "coincident":
        points[k // 2 :] = points[: k - k // 2]
    if kind == "grid":
        points = np.argwhere(np.ones((int(np.ceil(np.sqrt(k))),) * 2))[:k].astype(float)
    if kind == "line":
        points = np.arange(k, dtype=float)[:, None]
    if kind == "equidistant":
        return 1.0 - np.eye(k)
    cost = cdist(points, points, "cityblock" if kind == "grid" else "euclidean")
    cost = (cost + cost.T) / 2
    np.fill_diagonal(cost, 0.0)
    return cost * {"zero": 0.0, "huge": 1e290, "tiny": 1e-290}.get(kind, 1.0)


def histograms(k: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """(n, k): dense, sparse, one-hot, equal and nearly equal rows, and tiny masses."""
    kinds = [
        rng.dirichlet(np.ones(k), n),
        rng.multinomial(k, np.ones(k) / k, n) / k,
        np.eye(k)[rng.integers(k, size=n)],
        np.full((n, k), 1.0 / k),
        np.maximum(rng.dirichlet(np.full(k, 0.05), n), 1e-13),
    ]
    mixed = np.stack(kinds)[np.arange(n) % len(kinds), np.arange(n)]
    return mixed / mixed.sum(axis=1, keepdims=True)


def problems(k: int, n: int, seed: int = 0) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """(name, histograms, cost) of every kind."""
    rng = np.random.default_rng(seed)
    for kind in COSTS:
        yield kind, histograms(k, n, rng), cost_of(kind, k, rng)
