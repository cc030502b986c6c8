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
from asot.data.reading import stretches
from asot.native import Doubles, Int, Ints, Record, ShortInts, entry
from asot.run.executors import Stop, in_threads

POINTS_PER_PIECE = 2**12
"""Points that a thread takes at a time."""

PIECES_PER_THREAD = 2
"""Fewer are done before a thread has started."""


class PointsAtAnchors(Record):
    """Points of distributions, with the anchors that they are near (``native/anchors/cell_means.cpp``)."""

    _fields_ = [  # noqa: RUF012
        ("offsets", Ints), ("nearest", Ints), ("masses", Doubles), ("k", Int), ("width", Int), ("x", Doubles),
    ]  # fmt: skip


class CellsOut(Record):
    """Where cells go (``native/anchors/cell_means.cpp``)."""

    _fields_ = [  # noqa: RUF012
        ("offsets", Ints), ("anchor", ShortInts), ("mass", Doubles), ("mean", Doubles), ("variance", Doubles),
    ]  # fmt: skip


_count_cells = entry("count_cells", PointsAtAnchors, CellsOut, Int, Int)
_fill_cells = entry("fill_cells", PointsAtAnchors, CellsOut, Int, Int)


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
    points = PointsAtAnchors(
        offsets=D.offsets, nearest=nearest, masses=D.masses, k=n_anchors, width=x.shape[1], x=np.ascontiguousarray(x)
    )  # fmt: skip
    counted = CellsOut(offsets=counts)
    in_stretches(D.offsets, lambda low, high: _count_cells(points, counted, low, high), n_jobs)
    offsets = np.cumsum(counts)
    n_cells = int(offsets[-1])
    anchor = np.empty(n_cells, dtype=np.int32)
    mass, variance, mean = np.empty(n_cells), np.empty(n_cells), np.empty((n_cells, x.shape[1]))
    cells = Cells(offsets, anchor, mass, mean, variance)
    out = CellsOut(**cells._asdict())
    in_stretches(D.offsets, lambda low, high: _fill_cells(points, out, low, high), n_jobs)
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
