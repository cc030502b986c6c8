"""Bounds on W_1 from what a distribution has in each cell, for distributions much larger than the anchor space.

*Upper* (docs/method.md §6): spread every flow of the anchor plan evenly over the points of its two cells. By Jensen's
inequality the mean distance between the points of two cells is at most √(‖m_x - m_y‖² + var_x + var_y), so the price
needs only each cell's mean and spread. *Lower* (McShane): the anchor potentials, known at the sinks v of the anchor
plan, extend to all points as f̃(z) = min_v f_v + d(z, w_v), or from the sources u as max_u f_u - d(z, w_u). Both are
1-Lipschitz, so W_1 ≥ Σ a_i f̃(x_i) - Σ b_j f̃(y_j); the side with fewer anchors is taken.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.anchors.space import AnchorSpace
from asot.bounds.point_bracket import BoundedPairs
from asot.bounds.short_vectors import Coordinates
from asot.data.distributions import Distributions
from asot.exact.shared_cost import AnchorPlans, Trees
from asot.native import Doubles, Int, Ints, Record, entry


class CellTable(NamedTuple):
    """Points, cells and anchors of a collection in common coordinates."""

    offsets: NDArray[np.int64]  # (N + 1,) of the points
    masses: NDArray[np.float64]  # (n,)
    points: NDArray[np.float64]  # (n, w)
    cell_mass: NDArray[np.float64]  # (cells,)
    mean: NDArray[np.float64]  # (cells, w)
    variance: NDArray[np.float64]  # (cells,)
    rest: NDArray[np.float64]  # (cells,) mean of what the coordinates leave out
    place: NDArray[np.int64]  # (N, k) the cell of an anchor in a distribution, or -1
    anchors: NDArray[np.float64]  # (k, w)


def cell_table(space: AnchorSpace, D: Distributions, short: Coordinates, nearest: NDArray[np.int64]) -> CellTable:
    """From coordinates of the points of D, followed by the anchors."""
    n, k = len(D.points), space.n_anchors
    cells = space.cells(D, short.points[:n], nearest)
    rest = space.cells(D, short.rest[:n, None], nearest).mean[:, 0]
    place = np.full((len(D), k), -1, dtype=np.int64)
    owner = np.repeat(np.arange(len(D)), np.diff(cells.offsets))
    place[owner, cells.anchor] = np.arange(len(owner))
    return CellTable(
        D.offsets, D.masses, np.ascontiguousarray(short.points[:n]), cells.mass, cells.mean, cells.variance, rest,
        place, np.ascontiguousarray(short.points[n:]),
    )  # fmt: skip


class BracketCells(Record):
    """A `CellTable` (``native/bounds/cell_bracket.cpp``)."""

    _fields_ = [  # noqa: RUF012
        ("k", Int), ("width", Int), ("offsets", Ints), ("masses", Doubles), ("points", Doubles),
        ("cell_mass", Doubles), ("mean", Doubles), ("variance", Doubles), ("rest", Doubles), ("place", Ints),
        ("anchors", Doubles),
    ]  # fmt: skip


_bracket = entry("cell_bracket", BracketCells, AnchorPlans, BoundedPairs)


def cell_bracket(
    table: CellTable, trees: Trees, rows: NDArray[np.int64], columns: NDArray[np.int64], exponent: int, stop: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper bounds (P,) on W_1 of the pairs of a tile, up to rounding."""
    lower, upper = np.zeros(len(rows)), np.zeros(len(rows))
    cells = BracketCells(k=len(table.anchors), width=table.anchors.shape[1], **table._asdict())
    plans = trees._replace(potential=np.ldexp(trees.potential, -exponent)).at_unit(0)
    _bracket(cells, plans, BoundedPairs(n=len(rows), rows=rows, columns=columns, lower=lower, upper=upper, stop=stop))
    return np.ldexp(lower, exponent), np.ldexp(upper, exponent)
