"""What exact solves of points cost on a GPU, beside their price on the CPU (`asot.exact.price`): by this,
``device="auto"`` decides, and pairs that a GPU is slow with are left to the CPU.

A GPU is fast with many small pairs and slow with large ones, and a collection may have both. So pairs are counted by
the sizes of their two distributions, and the best split is looked for: pairs up to some size on the GPU, larger ones on
the CPU. Nothing here needs a GPU.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.exact.price import LAY_OUT, MICRO, pair_seconds

RATES = (
    (16, 5.2e7), (24, 2.5e7), (32, 1.18e7), (64, 1.53e6), (100, 4.3e5), (150, 6.2e4), (250, 3.6e3), (400, 200.0)
)  # fmt: skip
"""Pairs per second of an H200, by the points of both distributions: `python -m benchmarks gpu_sizes` prints them."""

CALL_SECONDS, CALL_SECONDS_PER_POINT = 0.003, 1.2e-6
"""A call with a few pairs takes this long, and this for each pair of points of its largest distributions: however few
they are, one of them is solved by one part of the chip."""

THREADS_SECONDS = 0.01
"""What it costs to share a job among threads of the CPU."""

MOST_BINS = 16
"""Sizes of a collection that are told apart."""


class Split(NamedTuple):
    """How long a call takes, by the clock."""

    cpu: float
    """Seconds of all pairs on the CPU."""
    gpu: float
    """Seconds with a GPU that is awake and solves pairs of at most ``most_points``; the CPU solves the others."""
    most_points: int


def best_split(
    rows: NDArray[np.int64], columns: NDArray[np.int64], n_pairs: float, dim: int, jobs: int, most: int
) -> Split:
    """The best use of a GPU for ``n_pairs`` between distributions of so many points.

    Parameters
    ----------
    rows : (N,), columns : (M,)
        Points of the distributions on both sides; the same array for pairs within one collection.
    n_pairs, dim, jobs
        How many of the pairs there are, coordinates, threads of the CPU.
    most
        Points on either side that the GPU's kernels have room for.
    """
    if n_pairs == 0:
        return Split(0.0, np.inf, most)
    first, second = _bins(rows), _bins(columns)
    p, q = first.mean[:, None], second.mean
    weight = first.count[:, None] * second.count * (n_pairs / (len(rows) * len(columns)))  # pairs of each two sizes
    one_thread = weight * (pair_seconds(p, q, dim) + MICRO * LAY_OUT)
    on_gpu = weight / gpu_rate(np.sqrt(p * q))
    larger = np.maximum(first.largest[:, None], second.largest)
    all_on_cpu = _threads(float(one_thread.sum()), jobs)
    best = Split(all_on_cpu, np.inf, 0)
    for bound in np.unique(larger[larger <= most]):
        taken = larger <= bound
        call = CALL_SECONDS + CALL_SECONDS_PER_POINT * float(bound) ** 2
        rest = float(one_thread[~taken].sum())
        seconds = call + float(on_gpu[taken].sum()) + (_threads(rest, jobs) if rest else 0.0)
        if seconds < best.gpu:
            best = Split(all_on_cpu, seconds, int(bound))
    return best


def gpu_rate(size: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pairs per second of pairs of so many points on both sides: between the measured sizes, and on in the same way."""
    known, rate = np.log(np.array(RATES)).T
    x = np.log(np.maximum(size, RATES[0][0]))
    beyond = np.maximum(x - known[-1], 0.0) * (rate[-1] - rate[-2]) / (known[-1] - known[-2])
    return np.exp(np.interp(x, known, rate) + beyond)


def shared_cost_seconds(nodes: int, *, cancel: bool) -> float:
    """Seconds of a pair of histograms under a shared cost (`asot.exact.cuda.solver`), of many; ``cancel``: a metric."""
    if nodes <= 32:
        seconds = 1.5e-12 * nodes**2
    else:
        seconds = (5e-14 if nodes <= 64 else 3e-14) * nodes**3
    return seconds if cancel else 4 * seconds  # all masses are shipped


def _threads(one_thread: float, jobs: int) -> float:
    return min(one_thread, one_thread / jobs + THREADS_SECONDS)


class _Bins(NamedTuple):
    """Distributions of about the same size."""

    count: NDArray[np.float64]
    mean: NDArray[np.float64]
    largest: NDArray[np.int64]


def _bins(sizes: NDArray[np.int64]) -> _Bins:
    found, count = np.unique(sizes, return_counts=True)
    own = np.arange(len(found))
    if len(found) > MOST_BINS:
        edges = np.geomspace(found[0], found[-1], MOST_BINS + 1)[1:-1]
        own = np.unique(np.searchsorted(edges, found, side="right"), return_inverse=True)[1]
    total = np.bincount(own, count)
    last = np.flatnonzero(np.diff(own, append=own[-1] + 1))
    return _Bins(total, np.bincount(own, count * found) / total, found[last])
