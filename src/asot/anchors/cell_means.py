"""What every distribution has near each anchor: how much mass, where its mean is, and how far it is spread.

Two passes over the points of each distribution, in compiled code: the first counts its cells, the second adds up what
is in them. Distributions do not know of each other, so threads take stretches of them, and answers do not depend on
how many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.data.distributions import Distributions
from asot.data.stretches import stretches
from asot.jit.compiled import compiled
from asot.run.executors import Stop, in_threads

POINTS_PER_PIECE = 2**12
"""Points that a thread takes at a time."""

PIECES_PER_THREAD = 2
"""Fewer are done before a thread has started."""


class Cells(NamedTuple):
    """Summaries of every distribution near each anchor: the cells of distribution i are ``offsets[i]:offsets[i +
    1]``."""

    offsets: NDArray[np.int64]  # (N + 1,)
    anchor: NDArray[np.int32]  # (cells,) ascending within a distribution
    mass: NDArray[np.float64]  # (cells,)
    mean: NDArray[np.float64]  # (cells, w) mean of the distribution's own points there
    variance: NDArray[np.float64]  # (cells,) mean squared distance of these points from their mean


def cell_means(
    D: Distributions, nearest: NDArray[np.int64], x: NDArray[np.float64], n_anchors: int, n_jobs: int
) -> Cells:
    """Cells of a collection whose n points have the ``nearest`` anchors (n,) and the coordinates x (n, w)."""
    counts = np.zeros(len(D) + 1, dtype=np.int64)
    shared = D.offsets, nearest, D.masses, n_anchors
    in_stretches(D.offsets, lambda low, high: _count(low, high, *shared, counts), n_jobs)
    offsets = np.cumsum(counts)
    n_cells = int(offsets[-1])
    anchor = np.empty(n_cells, dtype=np.int32)
    mass, variance, mean = np.empty(n_cells), np.empty(n_cells), np.empty((n_cells, x.shape[1]))
    cells = Cells(offsets, anchor, mass, mean, variance)
    in_stretches(D.offsets, lambda low, high: _fill(low, high, *shared, x, *cells), n_jobs)
    return cells


def in_stretches(offsets: NDArray[np.int64], work: Callable[[int, int], object], n_jobs: int) -> None:
    """Call ``work`` with ranges of distributions that have some thousands of points, in threads if there are many."""
    pieces = list(stretches(offsets, POINTS_PER_PIECE))
    n_jobs = min(n_jobs, len(pieces) // PIECES_PER_THREAD)
    if n_jobs <= 1:
        for low, high in pieces:
            work(low, high)
        return

    def piece(own: tuple[int, int], _: Stop) -> None:
        work(*own)

    in_threads(piece, pieces, n_jobs)


@compiled
def _count(low, high, offsets, nearest, masses, k, counts):  # type: ignore[no-untyped-def]
    """counts[i + 1]: how many anchors distribution i has mass at."""
    seen = np.full(k, -1, np.int64)
    for i in range(low, high):
        n = 0
        for t in range(offsets[i], offsets[i + 1]):
            if masses[t] > 0.0 and seen[nearest[t]] != i:
                seen[nearest[t]] = i
                n += 1
        counts[i + 1] = n


@compiled
def _fill(  # type: ignore[no-untyped-def]
    low, high, offsets, nearest, masses, k, x, cell_offsets, anchor, mass, mean, variance
):
    width = x.shape[1]
    place = np.full(k, -1, np.int64)
    for i in range(low, high):
        begin, end, at = offsets[i], offsets[i + 1], cell_offsets[i]
        for t in range(begin, end):
            if masses[t] > 0.0:
                place[nearest[t]] = 0
        for u in range(k):
            if place[u] == 0:
                place[u] = at
                anchor[at] = u
                mass[at] = 0.0
                variance[at] = 0.0
                mean[at] = 0.0
                at += 1
        for t in range(begin, end):
            if masses[t] > 0.0:
                mass[place[nearest[t]]] += masses[t]
        for t in range(begin, end):
            if masses[t] > 0.0:
                own = place[nearest[t]]
                share = masses[t] / mass[own]
                for c in range(width):
                    mean[own, c] += share * x[t, c]
        for t in range(begin, end):
            if masses[t] > 0.0:
                own = place[nearest[t]]
                square = 0.0
                for c in range(width):
                    square += (x[t, c] - mean[own, c]) ** 2
                variance[own] += masses[t] / mass[own] * square
        for c in range(cell_offsets[i], at):
            place[anchor[c]] = -1
