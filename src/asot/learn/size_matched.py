"""Distances that do not depend on how many points a distribution has.

W_1 between samples is too large because of noise, which falls with their sizes (`asot.noise_floor`). If sizes differ,
so does the noise, and small distributions look far from everything else: where one group has smaller samples than
another, a permutation test finds that, and it looks like a difference of the distributions. So compare all
distributions at one size, by drawing that many points from each: the noise is then similar for all. Repeated draws are
averaged.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot.data.distributions import Distributions, as_distributions
from asot.distances import pairwise
from asot.results.distances import Distances
from asot.run.executors import ProgressLike
from asot.validation import as_pairs, as_positive_int, as_seed

RATIO = 1.2
"""Groups whose typical sizes differ by less than this do not matter."""

DEVIATIONS = 2.5
"""Differences within so many standard errors may be chance."""


def size_matched(
    D: Distributions,
    *,
    size: int | None = None,
    min_size: int | None = None,
    n_draws: int = 4,
    error: float | str | None = "2%",
    pairs: ArrayLike | None = None,
    device: str = "auto",
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
    random_state: Any = None,
) -> Distances:
    """W_1 within a collection with every distribution at the same size, averaged over random draws.

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
    error, pairs, device, n_jobs, memory, progress
        As in `pairwise`, for each draw.
    random_state : int, RandomState or None
        Seed of the draws; None is a fixed one.

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
    how: dict[str, Any] = {"error": error, "pairs": pairs, "device": device, "n_jobs": n_jobs, "memory": memory}
    results = [pairwise(_drawn(D, size, rng), progress=progress, **how) for _ in range(n_draws)]
    values = np.stack([r.values for r in results])
    spread = values.std(axis=0, ddof=1) / np.sqrt(n_draws) if n_draws > 1 else np.zeros(values.shape[1])
    info = {**results[0].info, "size": size, "n_draws": n_draws, **({"left_out": names} if names else {})}
    found = {"values": values.mean(axis=0), "error": spread, "lower": None, "upper": None}
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
