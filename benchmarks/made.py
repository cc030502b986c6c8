"""Generated problems: histograms on anchors, and pairs drawn from a collection.

The histograms are those of the trials behind METHOD §8, drawn in the same order from the same seeds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2
from scipy.spatial.distance import cdist

Float = NDArray[np.float64]

N_CLUSTERS, N_POINTS, N_CLASSES = 8, 6000, 6


@dataclass(frozen=True)
class Histograms:
    """N histograms on k anchors in d dimensions."""

    masses: Float  # (N, k), rows of total 1
    cost: Float  # (k, k)
    anchors: Float  # (k, d)

    @property
    def n_pairs(self) -> int:
        return len(self.masses) * (len(self.masses) - 1) // 2


def trial_histograms(k: int, n: int, seed: int = 0) -> Histograms:
    """Histograms of about k draws each, from one of six distributions over k anchors.

    Anchors are k-means centers of a mixture of eight Gaussian clusters in 5 to 35 dimensions, so that their distances
    are as uneven as those of real data; classes prefer different anchors.
    """
    rng = np.random.default_rng(seed + 1000 * k)
    anchors, counts = _clustered_anchors(k, rng, seed)
    probabilities = _class_probabilities(counts / counts.sum(), rng)
    draws = []
    for _ in range(n):
        size = max(2, k + int(rng.integers(-k // 4, k // 4 + 1)))
        draws.append(rng.multinomial(size, probabilities[rng.integers(N_CLASSES)]))
    masses = np.stack(draws).astype(np.float64)
    cost = cdist(anchors, anchors)
    return Histograms(masses / masses.sum(axis=1, keepdims=True), (cost + cost.T) / 2, anchors)


def _clustered_anchors(k: int, rng: np.random.Generator, seed: int) -> tuple[Float, Float]:
    """k-means centers (k, d) of clustered points, and one plus the number of points of each."""
    d = int(rng.integers(5, 36))
    centers = rng.normal(size=(N_CLUSTERS, d)) * 1.5
    weights = rng.dirichlet(np.full(N_CLUSTERS, 2.0))
    members = centers[rng.choice(N_CLUSTERS, N_POINTS, p=weights)]
    points = members + rng.normal(size=(N_POINTS, d)) * rng.uniform(0.4, 1.2, (N_POINTS, 1))
    anchors, labels = kmeans2(points, k, iter=15, minit="++", seed=seed)
    return anchors, np.bincount(labels, minlength=k) + 1.0


def _class_probabilities(shares: Float, rng: np.random.Generator) -> Float:
    """(N_CLASSES, k): each class has its own taste, a fifth of the mass is common taste."""
    own = np.stack([rng.dirichlet(shares * len(shares) * 0.7) for _ in range(N_CLASSES)])
    mixed = 0.8 * own + 0.2 * shares
    return mixed / mixed.sum(axis=1, keepdims=True)


def cube_histograms(k: int, n: int, seed: int = 0) -> Histograms:
    """Histograms of k draws each on k anchors that lie evenly in the unit cube of five dimensions: costs of order 1."""
    rng = np.random.default_rng(seed)
    anchors = rng.random((k, 5))
    draws = rng.integers(k, size=(n, k)) + k * np.arange(n)[:, None]
    masses = np.bincount(draws.ravel(), minlength=n * k).reshape(n, k) / k
    return Histograms(masses, cdist(anchors, anchors), anchors)


def random_pairs(n: int, count: int, seed: int = 0) -> NDArray[np.int64]:
    """``count`` distinct pairs i < j of n (all of them where there are fewer), in random order."""
    first, second = np.triu_indices(n, 1)
    chosen = np.random.default_rng(seed).permutation(len(first))[:count]
    return np.stack([first[chosen], second[chosen]], axis=1)
