"""The main job on data that everybody has: anchors, all pairs, and a check against the exact distances.

The digits of scikit-learn are bags of 16 to 42 pixels. The demo learns anchors on them, solves every pair, solves a
random sample of pairs again on the original pixels, and reports both speed and error as measured on this machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.distributions import Distributions
from asot.datasets import load_digits
from asot.run.progress import ProgressLike
from asot.run.result import Distances
from asot.validation import as_n_jobs, as_positive_int


@dataclass(frozen=True, eq=False)
class Demo:
    """What the demo found.

    Attributes
    ----------
    digits : Distributions of N images, labels : (N,) int64, images : (N, 8, 8) float64
    distances : Distances of all pairs
    n_anchors, n_jobs : int
    fit_seconds, pair_seconds : float
        Learning the anchors; turning digits into histograms and solving all pairs.
    n_checked : int
        Random pairs that were solved again on the original pixels.
    error : float
        Mean absolute error over the checked pairs, as a share of their mean exact distance.
    """

    digits: Distributions
    labels: NDArray[np.int64]
    images: NDArray[np.float64]
    distances: Distances
    n_anchors: int
    n_jobs: int
    fit_seconds: float
    pair_seconds: float
    n_checked: int
    error: float

    @property
    def pairs_per_second(self) -> float:
        return len(self.distances) / self.pair_seconds

    def table(self) -> str:
        """The numbers, for people."""
        sizes = self.digits.sizes
        threads = f"{self.n_jobs} thread{'s' * (self.n_jobs != 1)}"
        rows = {
            "digits": f"{len(self.digits):,} images of {sizes.min()} to {sizes.max()} pixels",
            "anchors": f"{self.n_anchors}, learned in {self.fit_seconds:.2f} s",
            "pairs": f"{len(self.distances):,}",
            "seconds": f"{self.pair_seconds:.2f} with {threads}",
            "pairs per second": f"{self.pairs_per_second:,.0f}",
            "error": f"{self.error:.1%} of the mean distance, against exact W1 on {self.n_checked:,} random pairs",
        }
        return "\n".join(f"{name:<18}{value}" for name, value in rows.items())


def run_demo(
    n: int | None = None,
    n_anchors: int | None = None,
    *,
    n_jobs: int | None = -1,
    random_state: int = 0,
    n_checked: int = 1000,
    progress: ProgressLike = None,
) -> Demo:
    """Distances between all pairs of n digits (default: all of them), timed and checked.

    >>> demo = run_demo(30, n_anchors=10, n_jobs=1, progress=False)
    >>> len(demo.distances)
    435
    """
    import asot

    digits, labels, images = load_digits(n)
    if len(digits) < 3:
        raise ValueError(f"the demo needs at least 3 digits; found n={n}")
    estimator = asot.KMeansAnchors(n_anchors, random_state=random_state)
    space, fit_seconds = _timed(lambda: estimator.fit(digits).space_)
    checked = _random_pairs(len(digits), as_positive_int(n_checked, "n_checked"), random_state)

    def solve(chosen: Distributions, show: ProgressLike) -> Distances:
        return asot.pairwise(chosen, space=space, n_jobs=n_jobs, progress=show)

    solve(digits[:3], False)  # compiles the kernels when they never ran on this machine
    distances, pair_seconds = _timed(lambda: solve(digits, progress))
    exact = asot.pairwise_exact(digits, pairs=checked, n_jobs=n_jobs, progress=progress).values
    found = distances.values[_condensed_position(checked, len(digits))]
    return Demo(
        digits=digits,
        labels=labels,
        images=images,
        distances=distances,
        n_anchors=len(space.anchors),
        n_jobs=as_n_jobs(n_jobs),
        fit_seconds=fit_seconds,
        pair_seconds=pair_seconds,
        n_checked=len(checked),
        error=float(np.abs(found - exact).mean() / exact.mean()),
    )


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


def _random_pairs(n: int, count: int, seed: int) -> NDArray[np.int64]:
    """Random pairs i < j (P, 2), none twice, at most ``count`` of them."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, n, size=(4 * count, 2))
    drawn = np.sort(drawn[drawn[:, 0] != drawn[:, 1]], axis=1)
    return rng.permutation(np.unique(drawn, axis=0))[:count]


def _condensed_position(pairs: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Where the pairs i < j (P, 2) stand among all pairs."""
    i, j = pairs.T
    return np.asarray(i * (2 * n - i - 1) // 2 + j - i - 1)
