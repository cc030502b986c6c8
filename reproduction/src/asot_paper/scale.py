"""How large a run is. The full scale is the paper's; the quick one shows in minutes that everything works."""

from __future__ import annotations

from dataclasses import dataclass

from asot_paper.names import LARGE_SETS, SETS

MAX_ITER = 50
"""Sinkhorn iterations of the tables."""

ZINC_TRAINING = 220_011
"""Molecules of ZINC's training split."""

ABLATION_ITERATIONS = {"MUTAG": 200, "MNIST": 500}
"""Sinkhorn iterations of the ablation over k, by set."""


@dataclass(frozen=True)
class Scale:
    """Every number that makes a run longer or shorter."""

    quick: bool = False
    sets: tuple[str, ...] = SETS
    folds: int = 10
    published_epochs: int = 500
    zinc_epochs: int = 50
    described_epochs: int = 40
    n_pairs: int = 5000
    digits: int = 500
    zinc_graphs: int = 10_000
    published_zinc_graphs: int = ZINC_TRAINING
    zinc_runs: int = 1
    curve_points: int = 50
    ablation_sizes: tuple[int, ...] = (5, 10, 20, 50, 100, 150, 200)
    ablation_runs: int = 5
    scaling_set: str = "NCI1"
    scaling_sizes: tuple[int, ...] = (125, 250, 500, 1000, 2000, 4110)
    scaling_sample: int = 2000

    def epochs(self, authors: bool, name: str) -> int:
        """Passes over the training data of a learned space."""
        if not authors:
            return self.described_epochs
        return min(self.published_epochs, self.zinc_epochs) if name == "ZINC" else self.published_epochs

    def molecules(self, authors: bool) -> int:
        """Molecules of ZINC that a space is learned from: all for the authors' models, as in the paper."""
        return self.published_zinc_graphs if authors else self.zinc_graphs


FULL = Scale()
QUICK = Scale(
    quick=True,
    sets=tuple(name for name in SETS if name not in LARGE_SETS),
    folds=1,
    published_epochs=100,
    described_epochs=10,
    n_pairs=2000,
    digits=60,
    curve_points=20,
    ablation_sizes=(5, 20, 50),
    ablation_runs=2,
    scaling_set="MUTAG",
    scaling_sizes=(25, 50, 100, 188),
    scaling_sample=500,
)
