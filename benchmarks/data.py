"""What is solved: generated histograms, graphs as bags of node features, and images as bags of pixels.

The histograms are those of the trials behind METHOD §8, drawn in the same order from the same seeds. The graphs are
TU collections (Morris et al. 2020) and ZINC's molecules. The images are MNIST's test set.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from asot_paper.datasets import load_tu, load_zinc
from asot_paper.datasets.mnist import read_mnist
from asot_paper.datasets.smiles import ELEMENTS
from asot_paper.datasets.zinc import read_zinc
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2
from scipy.spatial.distance import cdist

import asot
from asot.datasets import graph_features

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


# ---------------------------------------------------------------------------------------------------------- graphs


def tu_collection(folder: Path, name: str, rounds: int = 4) -> asot.Distributions:
    """A TU collection: every graph is the bag of its nodes' features.

    Features are the one-hot node label and what it becomes in each of four rounds x ← x + Σ_neighbors x,
    concatenated: 5 × labels dimensions, float64.
    """
    return load_tu(name, rounds=rounds, folder=folder, download=False).distributions


def tu_labels(folder: Path, name: str) -> NDArray[np.int64]:
    """The class of every graph of a TU collection (N,)."""
    labels = load_tu(name, rounds=0, folder=folder, download=False).labels
    assert labels is not None
    return labels


def zinc_collection(folder: Path, rounds: int = 4) -> asot.Distributions:
    """All 249,456 molecules of ZINC-250k as bags of node features, made as those of `tu_collection`, in float32."""
    molecules, _ = read_zinc("all", atoms="elements", folder=folder, download=False)
    elements = np.eye(len(ELEMENTS), dtype=np.float32)[molecules.atoms]
    return asot.Distributions(graph_features(elements, molecules.bonds, rounds=rounds), molecules.offsets)


def zinc_test_collection(folder: Path, n: int) -> asot.Distributions:
    """The first n molecules of ZINC's test split, with the same features, in float64."""
    return load_zinc("test", atoms="elements", folder=folder, download=False).distributions[:n]


# ---------------------------------------------------------------------------------------------------------- images


def mnist_collection(folder: Path, n: int) -> asot.Distributions:
    """The first n images of MNIST's test set: every image is the bag of its pixels (row, column), ink as mass."""
    images, _, _ = read_mnist("test", folder=folder, download=False)
    weights = images[:n].reshape(-1, 28 * 28).astype(np.float64)
    return asot.Distributions.from_weights(weights, np.argwhere(np.ones((28, 28))).astype(np.float64))
