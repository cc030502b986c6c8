"""One-dimensional transport along directions that every pair draws for itself: the door to the compiled loop.

The loop, and how directions are drawn, is ``native/baselines/fresh_directions.cpp`` of asot.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asot.native import Doubles, Int, Ints, Tile, entry
from asot_paper.baselines.merged import MergedCollection, MergedPoints

_solve = entry("sliced_fresh", MergedCollection, Tile, Int, Int, Int)
_directions = entry("directions_of_pair", Ints, Int, Int, Int, Doubles)

_LANES = 8  # directions that are drawn together


def directions_of_pair(seed: int, a: int, b: int, used: int, dim: int, count: int) -> NDArray[np.float64]:
    """The first ``count`` directions (used, count) of the pair (a, b) with that many used coordinates."""
    blocks = -(-count // _LANES)
    drawn = np.empty((blocks, used, _LANES))
    _directions(np.array([seed, a, b], dtype=np.int64), used, dim, blocks, drawn)
    return drawn.transpose(1, 0, 2).reshape(used, -1)[:, :count]


def solve_fresh(points: MergedPoints, tile: Tile, n_projections: int, seed: int, most: int) -> None:
    """Sum over fresh directions of W_1 of every pair, in units of ``points.unit``. ``most``: points of two together."""
    _solve(points.record, tile, n_projections, seed, most)
