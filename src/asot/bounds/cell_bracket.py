"""Bounds on W_1 from what a distribution has in each cell, for distributions much larger than the anchor space.

*Upper* (docs/method.md §6): spread every flow of the anchor plan evenly over the points of its two cells. By Jensen's
inequality the mean distance between the points of two cells is at most √(‖m_x - m_y‖² + var_x + var_y), so the price
needs only each cell's mean and spread. *Lower* (McShane): the anchor potentials, known at the sinks v of the anchor
plan, extend to all points as f̃(z) = min_v f_v + d(z, w_v), or from the sources u as max_u f_u - d(z, w_u). Both are
1-Lipschitz, so W_1 ≥ Σ a_i f̃(x_i) - Σ b_j f̃(y_j); the side with fewer anchors is taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asot._typing import Float, Indices
from asot.anchors.space import AnchorSpace
from asot.bounds.point_bracket import BoundedPairs
from asot.bounds.short_vectors import Coordinates
from asot.data.distributions import Distributions
from asot.exact.shared_cost import AnchorPlans, Trees
from asot.native import Doubles, Int, Ints, Record, entry


class BracketCells(
    Record, k=Int, width=Int, offsets=Ints, masses=Doubles, points=Doubles, cell_mass=Doubles, mean=Doubles,
    variance=Doubles, rest=Doubles, place=Ints, anchors=Doubles,
):  # fmt: skip
    """Points, cells and k anchors of a collection in common coordinates (``native/bounds/cell_bracket.cpp``)."""


def cell_table(space: AnchorSpace, D: Distributions, short: Coordinates, nearest: Indices) -> BracketCells:
    """From coordinates of the points of D, followed by the anchors."""
    n, k = len(D.points), space.n_anchors
    cells = space.cells(D, short.points[:n], nearest)
    rest = space.cells(D, short.rest[:n, None], nearest).mean[:, 0]
    place = np.full((len(D), k), -1, dtype=np.int64)
    owner = np.repeat(np.arange(len(D)), np.diff(cells.offsets))
    place[owner, cells.anchor] = np.arange(len(owner))
    points, anchors = (np.ascontiguousarray(part) for part in (short.points[:n], short.points[n:]))
    return BracketCells(
        k=k, width=anchors.shape[1], offsets=D.offsets, masses=D.masses, points=points, cell_mass=cells.mass,
        mean=cells.mean, variance=cells.variance, rest=rest, place=place, anchors=anchors,
    )  # fmt: skip


_bracket = entry("cell_bracket", BracketCells, AnchorPlans, BoundedPairs)


def cell_bracket(
    table: BracketCells, trees: Trees, rows: Indices, columns: Indices, exponent: int, stop: Any
) -> tuple[Float, Float]:
    """Lower and upper bounds (P,) on W_1 of the pairs of a tile, up to rounding."""
    lower, upper = np.zeros(len(rows)), np.zeros(len(rows))
    plans = trees._replace(potential=np.ldexp(trees.potential, -exponent)).at_unit(0)
    _bracket(table, plans, BoundedPairs(n=len(rows), rows=rows, columns=columns, lower=lower, upper=upper, stop=stop))
    return np.ldexp(lower, exponent), np.ldexp(upper, exponent)
