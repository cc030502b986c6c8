"""What each method costs, estimated by counting operations.

Prices are seconds on one reference core, computed from numbers that can be counted before anything is solved: points
left after common mass is canceled, coordinates in use, anchors, pairs. The constants were measured once (``python -m
benchmarks strategy`` measures them again and shows both). A choice based on these prices is the same on every run and
on every machine of a kind; one based on measured time would not be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asot.bounds.error_bars import MOST_POINTS_PER_ANCHOR
from asot.data.distinct import left_to_ship, sparse_histograms
from asot.data.distributions import Distributions
from asot.run.pairs import PairSet, at_places

MICRO = 1e-6

GPU_FACTOR, GPU_SIZE, GPU_DECAY = 690.0, 23.0, 1.15
"""How many cores one GPU replaces on the original problems: 690 where distributions have 23 points, and less where they
have more, since fewer of their problems fit on the chip: 510 at 30 points, 80 at 150."""

GPU_ESTIMATE_FACTOR, GPU_BOUNDS_FACTOR = 650.0, 100.0
"""The same, for anchor problems with the cheap features of their pairs, and for bounds by points."""

GPU_CALL_SECONDS = 0.02
"""What a call on a GPU costs beside that: copies, launches, and the answers' way back."""

SAMPLED_PAIRS = 48
"""Pairs whose points are counted."""

LEARNED_FROM = 8192
"""Anchors are learned from at least this many points, if the collection has them."""

POINTS_PER_ANCHOR = 64


@dataclass(frozen=True)
class Load:
    """What is to be solved, counted on a sample of pairs."""

    n_pairs: int
    n_points: int
    dim: int
    size: float  # mean number of points of a distribution
    exact_pair: float  # seconds of one exact solve
    points_pair: float  # seconds of bounds that look at every pair of points

    @property
    def exact(self) -> float:
        """Seconds for all pairs, solved exactly."""
        return self.n_pairs * self.exact_pair + self._distinct

    @property
    def exact_on_gpu(self) -> float:
        """The same on one GPU; the host still looks for distinct points."""
        factor = max(1.0, GPU_FACTOR * min(1.0, (GPU_SIZE / max(self.size, 1.0)) ** GPU_DECAY))
        return self.n_pairs * self.exact_pair / factor + self._distinct + GPU_CALL_SECONDS

    @property
    def _distinct(self) -> float:
        """Seconds to find the distinct points."""
        return self.n_points * MICRO * (0.3 + 0.02 * self.dim)


def count_load(D: Distributions, E: Distributions | None, pairs: PairSet) -> Load:
    """Look at some pairs, spread evenly over their order."""
    both = D if E is None else D + E
    n_points, size = len(both.points), float(both.sizes.mean())
    if len(pairs) == 0:
        return Load(0, n_points, both.dim, size, 0.0, 0.0)
    places = np.unique(np.linspace(0, len(pairs) - 1, min(SAMPLED_PAIRS, len(pairs))).astype(np.int64))
    rows, columns = at_places(pairs, places).indices(0, len(places))
    columns = columns + (0 if E is None else len(D))
    named, index = np.unique(np.stack([rows, columns]), return_inverse=True)
    histograms = sparse_histograms(both[named])
    first, second = index.reshape(2, -1)
    p, q, width = left_to_ship(histograms, first, second).T.astype(float)
    exact = 2.5 + p * q * (0.0135 * (1 + (p + q) / 700) + 1e-4 * width) + 5e-4 * (p + q) * width
    if both.dim == 1:  # on a line, distances are found by sorting
        exact = 0.5 + 0.02 * (p + q)
    bounds = 1.2 + 0.045 * (p + q) + p * q * (9e-4 + 1e-4 * width)
    return Load(len(pairs), n_points, both.dim, size, MICRO * float(exact.mean()), MICRO * float(bounds.mean()))


def anchor_pair(k: int, load: Load) -> float:
    """Seconds for one pair with its cheap features in one space of k anchors."""
    nodes, width = (k**-2 + max(load.size, 1) ** -2) ** -0.5, min(load.dim, 16)  # fewer than k, and than points
    return MICRO * (0.3 + 0.025 * k + 0.08 * nodes + nodes**2 * (0.002 + 2e-5 * (4 + width)))


def bounds_pair(k: int, level: str, load: Load) -> float:
    """Seconds for the bounds of one pair; "auto" means what it means in `asot.bounds.error_bars.make_bounds`."""
    if level == "points" or (level == "auto" and load.size <= MOST_POINTS_PER_ANCHOR * k):
        return load.points_pair + MICRO * 0.02 * k
    return MICRO * (0.2 if level == "radius" else load.size * k * (0.002 + 2e-4 * min(load.dim, 32)))


def space_seconds(k: int, load: Load) -> float:
    """Seconds to learn a space of k anchors and to encode the collection in it."""
    m = learned_from(k, load.n_points)
    learn = 0.005 + m * k * (8e-8 + 1.2e-9 * load.dim)
    encode = load.n_points * (k * (4e-9 + 3e-10 * load.dim) + MICRO * (0.3 + 0.02 * min(load.dim, 16)))
    return learn + encode


def learned_from(k: int, n_points: int) -> int:
    """Points that k anchors are learned from."""
    return min(n_points, max(LEARNED_FROM, POINTS_PER_ANCHOR * k))
