"""Distances that do not depend on how many points a distribution has.

W_1 between samples is too large because of noise, which falls with their sizes (`asot.noise_floor`). If sizes differ,
so does the noise, and small distributions look far from everything else. So compare all distributions at one size, by
drawing that many points from each: the noise is then similar for all. Repeated draws are averaged.
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
    left_out, ids = np.setdiff1d(np.arange(len(D)), kept), D.ids[kept]
    if len(left_out):
        pairs = None if pairs is None else _renumbered(as_pairs(pairs, len(D), len(D)), D, kept)
        names = [D.ids[i].item() if isinstance(D.ids[i], np.generic) else D.ids[i] for i in left_out]
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
    draws = (_drawn(D, size, rng) for _ in range(n_draws))
    results = [
        pairwise(C, error=error, pairs=pairs, device=device, n_jobs=n_jobs, memory=memory, progress=progress)
        for C in draws
    ]
    values = np.stack([r.values for r in results])
    spread = values.std(axis=0, ddof=1) / np.sqrt(n_draws) if n_draws > 1 else np.zeros(values.shape[1])
    info = {**results[0].info, "size": size, "n_draws": n_draws}
    if len(left_out):
        info["left_out"] = names
    return replace(
        results[0], values=values.mean(axis=0), error=spread, lower=None, upper=None, info=info, names=(ids, ids),
        checked=False,
    )  # fmt: skip


def _large_enough(D: Distributions, held: NDArray[np.int64], least: int) -> NDArray[np.int64]:
    """Which distributions have at least so many points with mass; a warning names the others."""
    kept, small = np.flatnonzero(held >= least), np.flatnonzero(held < least)
    if len(kept) < 2:
        raise ValueError(
            f"min_size is {least}, but only {len(kept)} of {len(D):,} distributions are so large; ask for less"
        )
    if len(small):
        shown = ", ".join(f"{D.ids[i]!s} ({held[i]})" for i in small[:6]) + (", …" if len(small) > 6 else "")
        warnings.warn(
            f"left out {len(small):,} of {len(D):,} distributions with fewer than {least} points: {shown}",
            UserWarning,
            stacklevel=3,
        )
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
            UserWarning,
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
    points = []
    for i in range(len(D)):
        x, a = D[i]
        points.append(np.asarray(x[rng.choice(len(a), size, replace=False, p=a / a.sum())], dtype=np.float64))
    return Distributions.from_list(points)
