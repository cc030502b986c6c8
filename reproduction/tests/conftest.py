"""Tiny made-up sets under the names of the real ones, so that `asot paper` runs whole in seconds."""

import numpy as np
import pytest
from asot_paper import problems, scale
from asot_paper.methods import Hardware
from asot_paper.names import PUBLISHED, SETS
from asot_paper.problems import Problems
from asot_paper.reference import References
from asot_paper.workshop import Workshop

import asot

TINY = scale.Scale(
    quick=True,
    sets=SETS,
    folds=2,
    published_epochs=3,
    zinc_epochs=2,
    described_epochs=2,
    n_pairs=40,
    digits=9,
    zinc_graphs=12,
    curve_points=3,
    ablation_sizes=(2, 4),
    ablation_runs=2,
    scaling_set="MUTAG",
    scaling_sizes=(6, 24),
    scaling_sample=10,
)


def tiny_graphs(condition, n=24, seed=0):
    """Bags of 3 to 7 labeled nodes, and two classes of equal size."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 8, size=n)
    labels = rng.integers(4, size=sizes.sum())
    points = np.eye(4)[labels]
    if condition != PUBLISHED:
        points = np.hstack([points, 5.0 * rng.normal(size=(len(points), 4))])
    else:
        points = np.tile(points, 5)
    return asot.Distributions(points, np.concatenate([[0], np.cumsum(sizes)])), np.arange(n) % 2


@pytest.fixture
def tiny_sets(monkeypatch):
    """Loaders that make their data up; the list of what was loaded."""
    loaded = []

    def load_graphs(name, condition, folder, download):
        loaded.append((name, condition))
        return tiny_graphs(condition, seed=SETS.index(name))

    def load_molecules(split, condition, folder, download, graphs=None):
        loaded.append(("ZINC", split, condition))
        D, _ = tiny_graphs(condition, 30, seed=50)
        return D if graphs is None else D[: len(graphs)]

    def load_digits(folder, download):
        loaded.append(("MNIST",))
        rng = np.random.default_rng(9)
        return asot.Distributions.from_list([rng.random((int(rng.integers(5, 9)), 3)) for _ in range(40)])

    monkeypatch.setattr(problems, "load_graphs", load_graphs)
    monkeypatch.setattr(problems, "load_molecules", load_molecules)
    monkeypatch.setattr(problems, "load_digits", load_digits)
    monkeypatch.setattr(scale, "QUICK", TINY)
    monkeypatch.setattr(scale, "FULL", TINY)
    return loaded


@pytest.fixture
def workshop(tiny_sets, tmp_path):
    """A workshop on the made-up sets, on one thread."""
    hardware = Hardware("cpu", 1)
    return Workshop(TINY, hardware, Problems(TINY), References(tmp_path / "reference", 1))
