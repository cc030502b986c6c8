"""Real data: graphs as bags of node features, and images as bags of pixels.

The graphs are TU collections (Morris et al. 2020) and ZINC's molecules. The images are MNIST's test set. Persistence
diagrams are those of six shapes (Adams et al. 2017, simulated).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from asot_paper.datasets import load_tu, load_zinc
from asot_paper.datasets.mnist import read_mnist
from asot_paper.datasets.smiles import ELEMENTS
from asot_paper.datasets.zinc import read_zinc
from numpy.typing import NDArray

import asot
from asot.datasets import graph_features

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


# ---------------------------------------------------------------------------------------------------------- diagrams


def shape_diagrams(folder: Path, n: int) -> asot.Distributions:
    """n persistence diagrams of loops in noisy samples of six shapes, of all kinds: 80 to 243 points (birth, death)."""
    with np.load(folder / "more" / "pd_sixshapes.npz", allow_pickle=False) as file:
        points, ends, loops = file["birth_death"], file["diagram_ptr"], np.flatnonzero(file["dim"] == 1)
    chosen = loops[np.linspace(0, len(loops), n, endpoint=False).astype(int)]
    return asot.Distributions.from_list([points[ends[i] : ends[i + 1]] for i in chosen])
