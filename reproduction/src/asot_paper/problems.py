"""What a cell is run on: the distributions whose distances are wanted, and those that anchors are learned from.

Graph sets are learned on nine of ten stratified folds and evaluated on the whole set. Digits come as random subsets of
MNIST's test images, learned and evaluated on the subset. ZINC is evaluated on its 5,000 test molecules; anchors are
learned on its training split: all of it for the authors' models, a random sample for others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.distributions import Distributions
from asot_paper.conditions import zinc_atoms
from asot_paper.names import PUBLISHED, TU_SETS
from asot_paper.scale import ZINC_TRAINING, Scale

N_FOLDS = 10
ROUNDS = 4
MNIST_SPLIT = "test"


@dataclass(frozen=True, eq=False)
class Problem:
    """The data of a cell.

    Distances are wanted within ``D``; anchors are learned from ``train``.
    """

    D: Distributions
    train: Distributions

    @property
    def k(self) -> int:
        """Number of anchors: the mean size of the distributions, rounded."""
        return max(2, round(float(self.D.sizes.mean())))

    @property
    def n_pairs(self) -> int:
        return len(self.D) * (len(self.D) - 1) // 2


@dataclass
class Problems:
    """Loads sets when they are first needed and keeps the last few; a set that cannot be loaded is tried only once.

    Parameters
    ----------
    scale : Scale
    folder : str, optional
        Where the data are; see `asot.datasets`.
    download : bool
        Whether what is missing may be fetched.
    """

    scale: Scale
    folder: str | None = None
    download: bool = True
    _loaded: dict[tuple[str, ...], Any] = field(default_factory=dict)
    _refused: dict[tuple[str, ...], Exception] = field(default_factory=dict)

    def problem(
        self, condition: str, name: str, fold: int, seed: int, *, whole: bool = False, authors: bool = False
    ) -> Problem:
        """The data of one fold. ``whole=True`` learns on everything that is evaluated; ``authors`` says whose model."""
        if name == "MNIST":
            subset = _digits(self._once(("MNIST",), lambda: load_digits(self.folder, self.download)), fold, self.scale)
            return Problem(subset, subset)
        features = "published" if condition == PUBLISHED else "described"
        if name == "ZINC":
            D = self._once(("ZINC", features), lambda: load_molecules("test", condition, self.folder, self.download))
            return Problem(D, D if whole else self._molecules(condition, self.scale.molecules(authors), fold, seed))
        D, labels = self._once((name, features), lambda: load_graphs(name, condition, self.folder, self.download))
        return Problem(D, D if whole else D[training_fold(labels, fold, seed)])

    def _molecules(self, condition: str, count: int, fold: int, seed: int) -> Distributions:
        """This many of ZINC's training split: the same for every fold and seed if that is all of it."""
        if count >= ZINC_TRAINING:
            load = lambda: load_molecules("train", condition, self.folder, self.download)  # noqa: E731
            return self._once(("ZINC training", condition), load)
        key = ("ZINC sample", condition, str(count), str(fold), str(seed))
        return self._once(key, lambda: load_zinc_sample(condition, count, fold, seed, self.folder, self.download))

    def _once(self, key: tuple[str, ...], load: Callable[[], Any]) -> Any:
        if key in self._refused:
            raise self._refused[key]
        if key in self._loaded:
            self._loaded[key] = self._loaded.pop(key)  # the last to go
        else:
            while len(self._loaded) >= 3:  # the largest sets take a few hundred MB each
                del self._loaded[next(iter(self._loaded))]
            try:
                self._loaded[key] = load()
            except Exception as error:
                self._refused[key] = error
                raise
        return self._loaded[key]


def training_fold(labels: NDArray[np.int64], fold: int, seed: int) -> NDArray[np.int64]:
    """Indices of the graphs that fold ``fold`` of ten learns from; the folds of a seed split the set by class."""
    from sklearn.model_selection import StratifiedKFold

    splits = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed).split(np.zeros(len(labels)), labels)
    return np.asarray(list(splits)[fold][0], dtype=np.int64)


def fingerprint(D: Distributions) -> str:
    """A key that is the same for equal collections only; cached reference distances are filed under it."""
    digest = hashlib.sha256()
    for array in (D.points, D.offsets, D.masses):
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:24]


# ------------------------------------------------------------------------------------------------------------- loading


def load_graphs(
    name: str, condition: str, folder: str | None, download: bool
) -> tuple[Distributions, NDArray[np.int64]]:
    """A TU set with the features of a condition, and the class of every graph."""
    from asot_paper.as_published import ONE_HOT_COLUMNS, five_copies
    from asot_paper.datasets import load_tu

    if name not in TU_SETS:
        raise ValueError(f"{name!r} is not one of the graph sets {', '.join(TU_SETS)}")
    published = condition == PUBLISHED
    data = load_tu(name, rounds=0 if published else ROUNDS, folder=folder, download=download)
    assert data.labels is not None
    D = five_copies(data.distributions, ONE_HOT_COLUMNS.get(name)) if published else data.distributions
    return D, data.labels


def load_molecules(
    split: str, condition: str, folder: str | None, download: bool, graphs: NDArray[np.int64] | None = None
) -> Distributions:
    """Molecules of a split of ZINC, all or those of the given numbers, with the features of a condition."""
    from asot_paper.as_published import five_copies
    from asot_paper.datasets import load_zinc

    published = condition == PUBLISHED
    how: dict[str, Any] = {"rounds": 0 if published else ROUNDS, "atoms": zinc_atoms(), "graphs": graphs}
    data = load_zinc(split, folder=folder, download=download, **how)
    return five_copies(data.distributions) if published else data.distributions


def load_zinc_sample(
    condition: str, count: int, fold: int, seed: int, folder: str | None, download: bool
) -> Distributions:
    """Molecules of the training split, drawn without replacement."""
    rng = np.random.default_rng([seed, fold])
    chosen = np.sort(rng.choice(ZINC_TRAINING, min(count, ZINC_TRAINING), replace=False))
    return load_molecules("train", condition, folder, download, chosen)


def load_digits(folder: str | None, download: bool) -> Distributions:
    """The images that subsets are drawn from."""
    from asot_paper.datasets import load_mnist

    return load_mnist(MNIST_SPLIT, folder=folder, download=download).distributions


def _digits(images: Distributions, fold: int, scale: Scale) -> Distributions:
    rng = np.random.default_rng(fold)
    return images[np.sort(rng.choice(len(images), min(scale.digits, len(images)), replace=False))]
