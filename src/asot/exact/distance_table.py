"""All distances between the distinct points of a collection, if that is cheaper than computing them pair by pair.

Words of documents and features in hundreds of dimensions occur in many pairs, and points that are laid out once are
read faster than points that are laid out for every pair. The distances have the bits that a pair would compute for
itself (``native/exact/long_points.hpp``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from asot._typing import Float
from asot.ground.costs import PLAIN
from asot.ground.metrics import EUCLIDEAN, Ground
from asot.native import Doubles, Int, Record, entry
from asot.run.executors import in_pieces

LONG = 64
"""From this many coordinates on, distances are products (``LONG_POINTS`` in ``native/exact/long_points.hpp``)."""

LARGEST = 4000
"""Points up to which there is a table: 128 MB."""


class LongPoints(Record, n=Int, d=Int, points=Doubles, transform=Int, begin=Int, end=Int, table=Doubles):
    """Points and where their costs go (``native/exact/distance_table.cpp``)."""


_fill = entry("long_distances", LongPoints)
_mirror = entry("mirror_distances", LongPoints)

AT_A_TIME = 256
"""Points whose part of a table a thread makes."""


def distance_table(ground: Ground, transform: int = PLAIN, n_jobs: int = 1) -> Float:
    """(V, V) distances of points under a Euclidean metric, in its units, or what ``transform`` takes of them."""
    n, d = ground.points.shape
    table = np.empty((n, n))

    def part(step: Callable[[LongPoints], object]) -> Callable[[int], object]:
        told = {"n": n, "d": d, "points": ground.points, "transform": transform, "table": table}
        return lambda begin: step(LongPoints(**told, begin=begin, end=min(begin + AT_A_TIME, n)))

    begins = range(0, n, AT_A_TIME)
    in_pieces(part(_fill), begins, n_jobs)
    in_pieces(part(_mirror), begins[::-1], n_jobs)  # the longest rows first
    return table


def are_long(ground: Ground) -> bool:
    """Whether distances are products."""
    return ground.code == EUCLIDEAN and ground.points.shape[1] >= LONG
