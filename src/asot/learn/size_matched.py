"""Distances that do not depend on how many points a distribution has.

W_1 between samples is too large because of noise, which falls with their sizes (`asot.noise_floor`). If sizes differ,
so does the noise, and small distributions look far from everything else. So compare all distributions at one size, by
drawing that many points from each: the noise is then similar for all. Repeated draws are averaged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot.data.distributions import Distributions, as_distributions
from asot.distances import pairwise
from asot.run.progress import ProgressLike
from asot.run.result import Distances
from asot.validation import as_positive_int, as_seed

Float = NDArray[np.float64]


def size_matched(
    D: Distributions,
    *,
    size: int | None = None,
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
        Points drawn from each distribution, by mass, without repetition. Default: the size of the smallest one.
    n_draws : int
        Number of draws to average over.
    error, pairs, device, n_jobs, memory, progress
        As in `pairwise`, for each draw.
    random_state : int, RandomState or None
        Seed of the draws; None is a fixed one.

    Returns
    -------
    Distances
        ``error`` is the standard error of the mean over the draws, and ``info["size"]`` the common size.

    Examples
    --------
    >>> import numpy as np, asot
    >>> rng = np.random.default_rng(0)
    >>> D = asot.Distributions.from_list([rng.normal(size=(n, 5)) for n in (30, 30, 300, 300)])
    >>> plain, matched = asot.pairwise(D), asot.size_matched(D)
    >>> bool(plain.values[0] > 1.5 * plain.values[-1])  # small ones look far apart, though all are the same
    True
    >>> bool(np.ptp(matched.values) < 0.3 * matched.values.mean())
    True
    """
    D = as_distributions(D)
    n_draws = as_positive_int(n_draws, "n_draws")
    size = int(D.sizes.min()) if size is None else as_positive_int(size, "size")
    held = np.add.reduceat(D.masses > 0, D.offsets[:-1])
    if size > held.min():
        i = int(np.argmin(held))
        raise ValueError(
            f"size is {size}, but distribution {i} (id {D.ids[i]!s}) has only {held[i]} points with mass; "
            "ask for fewer, or leave it out"
        )
    rng = np.random.default_rng(as_seed(random_state))
    draws = (_drawn(D, size, rng) for _ in range(n_draws))
    results = [
        pairwise(C, error=error, pairs=pairs, device=device, n_jobs=n_jobs, memory=memory, progress=progress)
        for C in draws
    ]
    values, spread = _mean_of(results)
    info = {**results[0].info, "size": size, "n_draws": n_draws}
    return replace(
        results[0], values=values, error=spread, lower=None, upper=None, info=info, names=(D.ids, D.ids), checked=False
    )


def _drawn(D: Distributions, size: int, rng: np.random.Generator) -> Distributions:
    """``size`` points from every distribution, drawn by mass, with equal masses."""
    points = []
    for i in range(len(D)):
        x, a = D[i]
        points.append(np.asarray(x[rng.choice(len(a), size, replace=False, p=a / a.sum())], dtype=np.float64))
    return Distributions.from_list(points)


def _mean_of(results: list[Distances]) -> tuple[Float, Float]:
    """Mean over draws (P,), and its standard error."""
    values = np.stack([r.values for r in results])
    spread = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.zeros(values.shape[1])
    return values.mean(axis=0), np.asarray(spread, dtype=np.float64)
