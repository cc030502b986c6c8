"""How much of a distance is noise: how far apart two samples of the same distribution are; and what sizes do to it.

A bag of cells is a sample of a patient, not the patient. Two samples of one patient have a positive W_1, which is
larger the fewer cells they have and the more dimensions there are. Split halves show it: split every distribution in
two at random, and the distance between its halves is pure noise, at half the size. Halves of halves show how noise
falls with size, about as size^-α, and therefore what to expect at full size, for every pair of sizes. Samples that are
too small for halves of halves take α, and if need be the noise itself, from the others.

If sizes differ, so does the noise, and small distributions look far from everything else: where one group has smaller
samples than another, a permutation test finds that, and it looks like a difference of the distributions. So compare all
distributions at one size, by drawing that many points from each: the noise is then similar for all (`size_matched`).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot._typing import Float
from asot.data.distributions import Distributions, as_distributions, check_mass
from asot.distances import pairwise, pairwise_exact
from asot.results.distances import Distances
from asot.run.executors import ProgressLike
from asot.validation import as_pairs, as_positive_int, as_seed

LEAST, MOST = 0.05, 1.0
"""Range of exponents for the decay of noise: 1/2 in one dimension, 1/d in many."""

FEWEST = 4
"""Points of a distribution that has halves of halves."""

LARGEST = 1024
"""Halves have at most this many points. Larger distributions are represented by samples of this size."""

RATIO = 1.2
"""Groups whose typical sizes differ by less than this do not matter."""

DEVIATIONS = 2.5
"""Differences within so many standard errors may be chance."""


FOR_DRAWS = "error", "p", "metric", "metric_params", "device", "n_jobs", "memory", "progress"
"""Arguments of `pairwise` that hold for each draw. Bounds would be those of one draw, and draws have equal masses."""


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
    check_mass(D)
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


def size_matched(
    D: Distributions,
    *,
    size: int | None = None,
    min_size: int | None = None,
    n_draws: int = 4,
    pairs: ArrayLike | None = None,
    random_state: Any = None,
    **how: Any,
) -> Distances:
    """Distances within a collection with every distribution at the same size, averaged over random draws.

    Parameters
    ----------
    D : Distributions (N)
    size : int, optional
        Points drawn from each distribution, by mass, without repetition. Default: the size of the smallest one, with a
        warning if a few small ones decide for all, because most of the data is then not used.
    min_size : int, optional
        Leave out distributions with fewer points that have mass; a warning names them, and so does
        ``info["left_out"]``. The result has the ids of those that are kept.
    n_draws : int
        Number of draws to average over.
    pairs : array-like of int (P, 2), optional
        Which pairs. Default: all i < j.
    random_state : int, RandomState or None
        Seed of the draws; None is a fixed one.
    **how
        For each draw, as in `pairwise`: ``error``, ``p``, ``metric``, ``metric_params``, ``device``, ``n_jobs``,
        ``memory``, ``progress``.

    Returns
    -------
    Distances
        ``error`` is the standard error of the mean over the draws, and ``info["size"]`` the common size. Within the
        distributions that are kept, so that N may be less than ``len(D)`` with `min_size`.

    Examples
    --------
    >>> import numpy as np, asot
    >>> rng = np.random.default_rng(0)
    >>> D = asot.Distributions.from_list([rng.normal(size=(n, 5)) for n in (30, 30, 300, 300)])
    >>> plain, matched = asot.pairwise(D), asot.size_matched(D, size=30)
    >>> bool(plain.values[0] > 1.5 * plain.values[-1])  # small ones look far apart, though all are the same
    True
    >>> bool(np.ptp(matched.values) < 0.3 * matched.values.mean())
    True
    """
    D = as_distributions(D)
    check_mass(D)
    for word in how:
        if word not in FOR_DRAWS:
            raise TypeError(f"size_matched takes no {word}=; what it passes on to pairwise is {', '.join(FOR_DRAWS)}")
    n_draws = as_positive_int(n_draws, "n_draws")
    held = np.add.reduceat(D.masses > 0, D.offsets[:-1])
    kept = np.arange(len(D)) if min_size is None else _large_enough(D, held, as_positive_int(min_size, "min_size"))
    names, ids = np.delete(D.ids, kept).tolist(), D.ids[kept]
    if names:
        pairs = None if pairs is None else _renumbered(as_pairs(pairs, len(D), len(D)), D, kept)
        D, held = D[kept], held[kept]
    if size is None:
        size = _smallest(D, held)
    elif as_positive_int(size, "size") > held.min():
        i = int(np.argmin(held))
        raise ValueError(
            f"size is {size}, but distribution {i} (id {D.ids[i]!s}) has only {held[i]} points with mass; "
            f"ask for fewer, or leave it out: min_size={size}"
        )
    rng = np.random.default_rng(as_seed(random_state))
    results = [pairwise(_drawn(D, size, rng), pairs=pairs, **how) for _ in range(n_draws)]
    values = np.stack([r.values for r in results])
    spread = values.std(axis=0, ddof=1) / np.sqrt(n_draws) if n_draws > 1 else np.zeros(values.shape[1])
    info = {**results[0].info, "size": size, "n_draws": n_draws, **({"left_out": names} if names else {})}
    found: dict[str, Any] = {"values": values.mean(axis=0), "error": spread, "lower": None, "upper": None}
    found["model"] = None  # of one draw, which other distributions would be compared with
    return replace(results[0], **found, info=info, names=(ids, ids), checked=False)


def _large_enough(D: Distributions, held: NDArray[np.int64], least: int) -> NDArray[np.int64]:
    """Which distributions have at least so many points with mass; a warning names the others."""
    kept, small = np.flatnonzero(held >= least), np.flatnonzero(held < least)
    if len(kept) < 2:
        raise ValueError(
            f"min_size is {least}, but only {len(kept)} of {len(D):,} distributions are so large; ask for less"
        )
    if len(small):
        shown = ", ".join(f"{D.ids[i]!s} ({held[i]})" for i in small[:6]) + (", …" if len(small) > 6 else "")
        words = f"left out {len(small):,} of {len(D):,} distributions with fewer than {least} points: {shown}"
        warnings.warn(words, stacklevel=3)
    return kept


def _smallest(D: Distributions, held: NDArray[np.int64]) -> int:
    """The size that all distributions have; a warning where it wastes most of the data."""
    size, usual = int(held.min()), int(np.quantile(held, 0.25))
    if 2 * size < usual:
        i = int(np.argmin(held))
        count = int((2 * held < usual).sum())
        warnings.warn(
            f"all distributions are drawn down to {size} points, the size of {D.label(i)}, where three in four have "
            f"{usual:,} or more; min_size={(usual + 1) // 2} would leave out the {count:,} smallest, and size={size} "
            "says that this is meant",
            stacklevel=3,
        )
    return size


def _renumbered(pairs: NDArray[np.int64], D: Distributions, kept: NDArray[np.int64]) -> NDArray[np.int64]:
    """Pairs of D as pairs of those that are kept."""
    place = np.full(len(D), -1)
    place[kept] = np.arange(len(kept))
    found = place[pairs]
    if found.min() < 0:
        t = int(np.argmin(found.min(axis=1)))
        i = int(pairs[t][np.argmin(found[t])])
        raise ValueError(f"pair {t} has {D.label(i)}, which min_size leaves out; leave it out of pairs, too")
    return np.asarray(found, dtype=np.int64)


def _drawn(D: Distributions, size: int, rng: np.random.Generator) -> Distributions:
    """``size`` points from every distribution, drawn by mass, with equal masses."""
    drawn = [x[rng.choice(len(a), size, replace=False, p=a / a.sum())] for x, a in D]
    return Distributions.from_list([np.asarray(points, dtype=np.float64) for points in drawn])


def warn_of_sizes(sizes: NDArray[np.int64] | None, names: NDArray[Any], label: NDArray[np.int64]) -> None:
    """Warn if samples of one group (label (N,) into names) are smaller than those of another; None: nothing known."""
    if sizes is None:
        return
    logs = np.log(sizes)
    groups = [logs[label == group] for group in range(len(names))]
    means = np.array([own.mean() for own in groups])
    low, high = int(means.argmin()), int(means.argmax())
    rest = sum(((own - own.mean()) ** 2).sum() for own in groups) / max(len(logs) - len(groups), 1)
    chance = np.sqrt(rest * (1 / len(groups[low]) + 1 / len(groups[high])))
    apart = means[high] - means[low]
    if apart < np.log(RATIO) or apart <= DEVIATIONS * chance:
        return
    warnings.warn(
        f"distributions of group {str(names[low])!r} have {np.exp(means[low]):.3g} points where those of "
        f"{str(names[high])!r} have {np.exp(means[high]):.3g}; small samples are far from everything, so the groups "
        "differ in any case: compare them at one size, with asot.size_matched(D)",
        stacklevel=3,
    )
