"""How much of a distance is noise: how far apart two samples of the same distribution are.

A bag of cells is a sample of a patient, not the patient. Two samples of one patient have a positive W_1, which is
larger the fewer cells they have and the more dimensions there are. Split halves show it: split every distribution in
two at random, and the distance between its halves is pure noise, at half the size. Halves of halves show how noise
falls with size, about as size^-α, and therefore what to expect at full size, for every pair of sizes. Samples that are
too small for halves of halves take α, and if need be the noise itself, from the others.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float
from asot.data.distributions import Distributions, as_distributions
from asot.distances import pairwise_exact
from asot.run.executors import ProgressLike
from asot.validation import as_positive_int, as_seed

LEAST, MOST = 0.05, 1.0
"""Range of exponents for the decay of noise: 1/2 in one dimension, 1/d in many."""

FEWEST = 4
"""Points of a distribution that has halves of halves."""

LARGEST = 1024
"""Halves have at most this many points. Larger distributions are represented by samples of this size."""


@dataclass(frozen=True, eq=False)
class NoiseFloor:
    """How far apart samples of the same distribution are.

    Attributes
    ----------
    halves : (N,) float64
        Mean W_1 between two random halves of each distribution.
    half_sizes : (N,) int64
        Points of a half.
    exponent : float
        α: noise falls with size as size^-α, measured on the whole collection.
    values : (N,) float64
        Expected W_1 between two samples of a distribution, each of its own size.
    extrapolated : (N,) bool
        Where a distribution has fewer than four points, so that its noise is inferred from that of the others.
    ids : (N,) or None
        Names of the distributions.
    """

    halves: Float
    half_sizes: NDArray[np.int64]
    exponent: float
    sizes: NDArray[np.int64] = field(repr=False)
    ids: NDArray[Any] | None = field(default=None, repr=False)

    @property
    def extrapolated(self) -> NDArray[np.bool_]:
        return np.asarray(self.sizes < FEWEST)

    @property
    def values(self) -> Float:
        return self.at(self.sizes, self.sizes)

    def at(self, n: Any, m: Any) -> Float:
        """(N,): how far apart samples of n and m points of each distribution are on average; of n (N, 1), (N, M)."""
        both = 0.5 * (1.0 / np.asarray(n, dtype=np.float64) + 1.0 / np.asarray(m, dtype=np.float64))
        return np.asarray((self.halves * (self.half_sizes * both.T) ** self.exponent).T, dtype=np.float64)

    def matrix(self) -> Float:
        """(N, N): the part of every distance that is noise, if the two were samples of one distribution.

        It is the mean of the two estimates at the sizes of the pair; 0 on the diagonal.
        """
        own = self.at(self.sizes[:, None], self.sizes)
        floor = 0.5 * (own + own.T)
        np.fill_diagonal(floor, 0.0)
        return floor

    def __repr__(self) -> str:
        own = self.values
        return (
            f"NoiseFloor: samples of one distribution are {own.min():.3g} to {own.max():.3g} apart at their own size "
            f"(mean {own.mean():.3g}); noise falls as size^-{self.exponent:.2f}"
            + (f"; {int(self.extrapolated.sum()):,} extrapolated" if self.extrapolated.any() else "")
        )


def noise_floor(
    D: Distributions,
    *,
    n_splits: int = 4,
    n_jobs: int | None = None,
    progress: ProgressLike = None,
    random_state: Any = None,
) -> NoiseFloor:
    """How far apart two samples of the same distribution are, for every distribution and every pair of sizes.

    Parameters
    ----------
    D : Distributions (N)
        Masses stay with their points. The noise of distributions with fewer than four points is extrapolated from the
        others, with a warning.
    n_splits : int
        Random splits of each distribution; their distances are averaged.
    n_jobs, progress
        As in `pairwise`.
    random_state : int, RandomState or None
        Seed of the splits; None is a fixed one.

    Examples
    --------
    >>> import numpy as np, asot
    >>> rng = np.random.default_rng(0)
    >>> D = asot.Distributions.from_list([rng.normal(size=(n, 5)) for n in (40, 80, 160)])
    >>> floor = asot.noise_floor(D)
    >>> bool(floor.values[0] > floor.values[1] > floor.values[2])
    True
    >>> distances = asot.pairwise_exact(D).matrix()  # all three are the same distribution: all of it is noise
    >>> bool(np.all(np.abs(floor.matrix() - distances)[np.triu_indices(3, 1)] < 0.2 * distances.max()))
    True
    """
    D = as_distributions(D)
    n_splits = as_positive_int(n_splits, "n_splits")
    enough = D.sizes >= FEWEST
    if not enough.any():
        raise ValueError(
            f"no distribution has {FEWEST} points, which halves of halves need (the largest has {D.sizes.max()}), so "
            "there is nothing to measure noise on"
        )
    rng = np.random.default_rng(as_seed(random_state))
    half_sizes = np.minimum(D.sizes // 2, LARGEST)
    halves = np.zeros(len(D))
    split = half_sizes > 0
    halves[split] = _mean_apart(D[split], half_sizes[split], n_splits, rng, n_jobs, progress)
    quarter_sizes = half_sizes[enough] // 2
    quarters = _mean_apart(D[enough], quarter_sizes, n_splits, rng, n_jobs, progress)
    exponent = _exponent(halves[enough], quarters, half_sizes[enough] / quarter_sizes)
    if not enough.all():
        few = np.flatnonzero(~enough)
        count = "1 distribution has" if len(few) == 1 else f"{len(few):,} distributions have"
        warnings.warn(
            f"{count} fewer than {FEWEST} points, such as {D.label(int(few[0]))} with {D.sizes[few[0]]}; noise there "
            "is extrapolated from the others",
            stacklevel=2,
        )
        halves[~split] = np.median(halves[enough] * half_sizes[enough] ** exponent)  # at size 1
    half_sizes = np.maximum(half_sizes, 1)
    return NoiseFloor(halves, half_sizes, exponent, D.sizes.copy(), D.given_ids)


def _mean_apart(
    D: Distributions, sizes: NDArray[np.int64], n_splits: int, rng: np.random.Generator, n_jobs: int | None,
    progress: ProgressLike,
) -> Float:  # fmt: skip
    """Mean W_1 (N,) between disjoint random samples of each distribution, two of ``sizes`` points."""
    points, masses = [], []
    for i, size in enumerate(sizes):
        x, a = D[i]
        for _ in range(n_splits):
            chosen = _with_mass(a, int(size), rng)
            for side in (chosen[:size], chosen[size:]):
                points.append(np.asarray(x[side], dtype=np.float64))
                masses.append(a[side])
    samples = Distributions.from_list(points, masses)
    pairs = np.arange(len(samples)).reshape(-1, 2)
    values = pairwise_exact(samples, pairs=pairs, n_jobs=n_jobs, progress=progress).values
    return np.asarray(values.reshape(len(D), n_splits).mean(axis=1), dtype=np.float64)


def _with_mass(a: Float, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """2 · size different points in random order, so that each half has some mass."""
    order = rng.permutation(len(a))[: 2 * size]
    heavy = int(np.argmax(a))
    for half in (slice(0, size), slice(size, 2 * size)):
        if not a[order[half]].any():
            order[half.start] = heavy
    return order


def _exponent(halves: Float, quarters: Float, ratio: Float) -> float:
    """The α in size^-α that relates quarters to halves, over the whole collection."""
    apart = (halves > 0) & (quarters > 0)
    if not apart.any():
        return 0.5
    steps = np.log(quarters[apart] / halves[apart])
    return float(np.clip(steps.sum() / np.log(ratio[apart]).sum(), LEAST, MOST))
