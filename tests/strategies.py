"""Generated problems: families of costs and histograms that solvers find hard, and Hypothesis strategies.

The families are made once, from fixed seeds; a `Problem` is all pairs of its histograms under its cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

SIZES = (1, 2, 3, 8, 17, 30, 63, 64, 65, 130)
METRICS = ("plane", "grid", "line", "equidistant", "coincident", "star")
ROWS_PER_KIND = 3


@dataclass(frozen=True)
class Problem:
    histograms: np.ndarray  # (N, k)
    cost: np.ndarray  # (k, k)
    pairs: np.ndarray  # (P, 2), all i < j


@cache
def problem(metric: str, k: int) -> Problem:
    """All pairs of histograms of every kind under one metric cost on k anchors."""
    rng = np.random.default_rng([k, METRICS.index(metric)])
    histograms = histograms_of_every_kind(k, rng)
    return Problem(histograms, metric_cost(metric, k, rng), np.argwhere(np.triu(np.ones((len(histograms),) * 2), 1)))


def metric_cost(metric: str, k: int, rng: np.random.Generator) -> np.ndarray:
    if metric == "equidistant":
        return 1.0 - np.eye(k)
    if metric == "star":
        arms = rng.random(k)
        return (arms[:, None] + arms) * (1.0 - np.eye(k))
    if metric == "grid":
        side = int(np.ceil(np.sqrt(k)))
        points = np.argwhere(np.ones((side, side)))[:k].astype(float)
    elif metric == "line":
        points = 0.1 * np.arange(k)[:, None]
    elif metric == "coincident":
        points = rng.normal(size=(max(1, k // 3), 2))[rng.integers(max(1, k // 3), size=k)]
    else:
        points = rng.normal(size=(k, 2))
    return cdist(points, points, "cityblock" if metric == "grid" else "euclidean")


def histograms_of_every_kind(k: int, rng: np.random.Generator) -> np.ndarray:
    """Rows (N, k) of nine kinds, each several times."""
    rows = []
    for _ in range(ROWS_PER_KIND):
        dense = rng.dirichlet(np.ones(k))
        equal = np.zeros(k)
        equal[rng.permutation(k)[: (k + 1) // 2]] = 1.0
        tied = rng.integers(0, 4, size=k).astype(float)
        tied[rng.integers(k)] += 1.0
        tiny = np.full(k, 1e-13)
        tiny[rng.integers(k)] = 1.0
        sparse = np.where(rng.random(k) < 0.2, rng.random(k), 0.0)
        sparse[rng.integers(k)] += 0.1
        rows += [
            dense,
            dense.copy(),
            dense * (1.0 + 1e-15 * rng.integers(-4, 5, size=k)),
            equal,
            tied,
            tiny,
            sparse,
            np.eye(k)[rng.integers(k)],
            np.ones(k),
        ]
    histograms = np.array(rows)
    return histograms / histograms.sum(axis=1, keepdims=True)


def extent(points: np.ndarray) -> float:
    """Largest distance between any two points, or 1 where there is none: what exact values are exact relative to."""
    return float(cdist(points, points).max()) or 1.0


# ---------------------------------------------------------------------------------------------------- Hypothesis


@st.composite
def masses(draw, k: int) -> np.ndarray:
    """Whole-number masses (k,), many of them equal or zero, not all zero."""
    weights = draw(st.lists(st.integers(0, 4), min_size=k, max_size=k).filter(any))
    return np.array(weights, dtype=float)


@st.composite
def metrics(draw, min_anchors: int = 1, max_anchors: int = 9) -> np.ndarray:
    """Distances (k, k) of points with small whole coordinates: ties and coincident points are common."""
    coordinate = st.integers(0, 4)
    points = draw(st.lists(st.tuples(coordinate, coordinate), min_size=min_anchors, max_size=max_anchors))
    return cdist(points, points)


@st.composite
def metric_problems(draw, n_histograms: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """(cost (k, k), histograms (n, k)) with a metric cost."""
    cost = draw(metrics())
    return cost, np.array([draw(masses(len(cost))) for _ in range(n_histograms)])


@st.composite
def rectangular_problems(draw) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(cost (k, l), a (k,), b (l,)) with any cost ≥ 0."""
    k, l = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    entries = draw(st.lists(st.integers(0, 9), min_size=k * l, max_size=k * l))
    return np.array(entries, dtype=float).reshape(k, l), draw(masses(k)), draw(masses(l))


@st.composite
def ragged_lists(draw, max_distributions: int = 6) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(points of each distribution, masses of each distribution), ready for `Distributions.from_list`."""
    dim = draw(st.integers(1, 3))
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=max_distributions))
    coordinate = st.floats(-1e6, 1e6, allow_subnormal=False)
    points = [
        np.array(draw(st.lists(coordinate, min_size=n * dim, max_size=n * dim)), dtype=float).reshape(n, dim)
        for n in sizes
    ]
    return points, [draw(masses(n)) for n in sizes]
