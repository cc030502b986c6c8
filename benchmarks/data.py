"""What is solved: generated histograms, graphs as bags of node features, and images as bags of pixels.

The histograms are those of the trials behind METHOD §8, drawn in the same order from the same seeds. The graphs are
TU collections (Morris et al. 2020), read from the zip files as they are distributed. The images are MNIST's test set.
"""

from __future__ import annotations

import gzip
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.cluster.vq import kmeans2
from scipy.spatial.distance import cdist

import asot

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

    Anchors are k-means centres of a mixture of eight Gaussian clusters in 5 to 35 dimensions, so that their distances
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
    """k-means centres (k, d) of clustered points, and one plus the number of points of each."""
    d = int(rng.integers(5, 36))
    centres = rng.normal(size=(N_CLUSTERS, d)) * 1.5
    weights = rng.dirichlet(np.full(N_CLUSTERS, 2.0))
    members = centres[rng.choice(N_CLUSTERS, N_POINTS, p=weights)]
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


def tu_collection(folder: Path, name: str, rounds: int = 4, shelf: str = "tu") -> asot.Distributions:
    """A TU collection: every graph is the bag of its nodes' features.

    Features are the one-hot node label and what it becomes in each of four rounds x ← x + Σ_neighbours x,
    concatenated: 5 × labels dimensions, float64. ``shelf`` is the folder of the zip file.
    """
    with zipfile.ZipFile(folder / shelf / f"{name}.zip") as archive:
        graph = _integers(archive, f"{name}_graph_indicator.txt")
        labels = _integers(archive, f"{name}_node_labels.txt")
        edges = _integers(archive, f"{name}_A.txt").reshape(-1, 2) - 1
    return asot.Distributions.from_groups(_aggregated(labels, edges, rounds, np.float64), graph)


def zinc_collection(folder: Path, rounds: int = 4) -> asot.Distributions:
    """All 249,456 molecules of ZINC-250k as bags of node features, made as those of `tu_collection`, in float32."""
    with np.load(folder / "zinc" / "zinc_graphs.npz") as file:
        node_ptr, edge_ptr = file["node_ptr"].astype(np.int64), file["edge_ptr"].astype(np.int64)
        local = file["edges"].astype(np.int64)  # (bonds, 2) within a graph, each bond once
        elements = file["atomic_number"]
    bonds = local + np.repeat(node_ptr[:-1], np.diff(edge_ptr))[:, None]
    both_ways = np.concatenate([bonds, bonds[:, ::-1]])
    return asot.Distributions(_aggregated(elements, both_ways, rounds, np.float32), node_ptr)


def _aggregated(labels: NDArray[Any], edges: NDArray[np.int64], rounds: int, dtype: Any) -> NDArray[Any]:
    """(nodes, (rounds + 1) · labels): one-hot labels, and what x ← x + Σ_neighbours x makes of them."""
    _, column = np.unique(labels, return_inverse=True)  # labels may be any integers
    x = np.eye(column.max() + 1, dtype=dtype)[column]  # (nodes, labels)
    adjacency = sparse.csr_array((np.ones(len(edges), dtype), edges.T), shape=(len(x), len(x)))
    features = [x]
    for _ in range(rounds):
        x = x + adjacency @ x
        features.append(x)
    return np.hstack(features)


def tu_labels(folder: Path, name: str) -> NDArray[np.int64]:
    """The class of every graph of a TU collection (N,)."""
    with zipfile.ZipFile(folder / "tu" / f"{name}.zip") as archive:
        return _integers(archive, f"{name}_graph_labels.txt")


def _integers(archive: zipfile.ZipFile, base_name: str) -> NDArray[np.int64]:
    """All integers of the member with this base name; the folder part of member names varies."""
    for member in archive.namelist():
        if PurePosixPath(member).name == base_name:
            text = archive.read(member).decode("ascii").replace(",", " ")
            return np.array(text.split(), dtype=np.int64)
    raise FileNotFoundError(f"{archive.filename} has no member {base_name}")


def zinc_test_collection(folder: Path, n: int) -> asot.Distributions:
    """The first n molecules of ZINC's test split, with the same features."""
    return tu_collection(folder, "ZINC_test_from_smiles", shelf="zinc")[:n]


# ---------------------------------------------------------------------------------------------------------- images


def mnist_collection(folder: Path, n: int) -> asot.Distributions:
    """The first n images of MNIST's test set: every image is the bag of its pixels (row, column), ink as mass."""
    raw = gzip.decompress((folder / "mnist" / "t10k-images-idx3-ubyte.gz").read_bytes())
    images = np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 28 * 28)[:n].astype(np.float64)
    return asot.Distributions.from_weights(images, np.argwhere(np.ones((28, 28))).astype(np.float64))
