"""The main task on data that everybody has: all pairs within a stated error, and a check against the exact distances.

The digits of scikit-learn are bags of 16 to 42 pixels. The demo asks for every distance within 2 percent, solves a
random sample of pairs exactly on the original pixels, and reports both speed and error as measured on this machine.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.distributions import Distributions
from asot.datasets import load_digits
from asot.results.distances import Distances
from asot.run.executors import ProgressLike
from asot.validation import as_n_jobs, as_positive_int


@dataclass(frozen=True, eq=False)
class Demo:
    """What the demo found.

    Attributes
    ----------
    digits : Distributions of N images, labels : (N,) int64, images : (N, 8, 8) float64
    distances : Distances of all pairs
    aim : str
        The error that was asked for.
    n_jobs : int
    seconds : float
        The whole call: choosing how, learning anchors, solving all pairs.
    n_checked : int
        Random pairs that were solved again on the original pixels.
    error : float
        Root mean squared error over the checked pairs, as a share of their mean exact distance.
    """

    digits: Distributions
    labels: NDArray[np.int64]
    images: NDArray[np.float64]
    distances: Distances
    aim: str
    n_jobs: int
    seconds: float
    n_checked: int
    error: float

    @property
    def how(self) -> str:
        """The method that was used."""
        return str(self.distances.info["strategy"]["why"]).partition(":")[0]

    @property
    def reported(self) -> float:
        """The error that the call itself measured, as a share of the mean distance."""
        return float(self.distances.info["strategy"]["relative_error"])

    def table(self) -> str:
        """The numbers, for people."""
        sizes = self.digits.sizes
        threads = f"{self.n_jobs} thread{'s' * (self.n_jobs != 1)}"
        rows = {
            "digits": f"{len(self.digits):,} images of {sizes.min()} to {sizes.max()} pixels",
            "error asked for": f"{self.aim} of the mean distance",
            "error": f"{self.error:.1%} of the mean distance, against exact W1 on {self.n_checked:,} random pairs",
            "error reported": f"{self.reported:.1%}",
            "how": self.how,
            "pairs": f"{len(self.distances):,}",
            "seconds": f"{self.seconds:.2f} with {threads}",
            "pairs per second": f"{len(self.distances) / self.seconds:,.0f}",
        }
        return "\n".join(f"{name:<18}{value}" for name, value in rows.items())


def run_demo(
    n: int | None = None,
    *,
    error: str = "2%",
    n_anchors: int | None = None,
    n_jobs: int | None = -1,
    random_state: int = 0,
    n_checked: int = 1000,
    progress: ProgressLike = None,
) -> Demo:
    """Distances between all pairs of n digits (default: all of them), timed and checked.

    >>> demo = run_demo(30, n_jobs=1, progress=False)
    >>> len(demo.distances)
    435
    """
    import asot

    digits, labels, about = load_digits(n)
    assert labels is not None
    if len(digits) < 3:
        raise ValueError(f"the demo needs at least 3 digits; found n={n}")
    checked = _random_pairs(len(digits), as_positive_int(n_checked, "n_checked"), random_state)

    def solve(chosen: Distributions, show: ProgressLike, k: int | None) -> Distances:
        how: dict[str, Any] = {"error": error, "n_jobs": n_jobs, "random_state": random_state}
        return asot.pairwise(chosen, n_anchors=k, progress=show, **how)

    for few in (3, 24):  # compiles the kernels when they never ran on this machine
        solve(digits[:few], False, 8)
    started = time.perf_counter()
    distances = solve(digits, progress, n_anchors)
    seconds = time.perf_counter() - started
    exact = asot.pairwise_exact(digits, pairs=checked, n_jobs=n_jobs, progress=progress).values
    found = distances.at(*checked.T)
    return Demo(
        digits=digits,
        labels=labels,
        images=about["images"],
        distances=distances,
        aim=str(error),
        n_jobs=as_n_jobs(n_jobs),
        seconds=seconds,
        n_checked=len(checked),
        error=float(np.sqrt(np.mean((found - exact) ** 2)) / exact.mean()),
    )


def _random_pairs(n: int, count: int, seed: int) -> NDArray[np.int64]:
    """Random pairs i < j (P, 2), none twice, at most ``count`` of them."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, n, size=(4 * count, 2))
    drawn = np.sort(drawn[drawn[:, 0] != drawn[:, 1]], axis=1)
    return rng.permutation(np.unique(drawn, axis=0))[:count]
