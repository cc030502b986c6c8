"""From a plan on the anchors to a plan and a bracket on the original points (docs/method.md §6).

For a pair of distributions, what both have on a point is canceled, and the anchor plan says how much of the rest goes
from which cell to which. Two things are made of it:

* *an upper bound*: each arc of the anchor plan takes its mass from the points of its first cell that lie toward the
  second, and what stays in a cell is joined in order of position. That is a plan on the original points; its price is
  at least W_1.
* *a lower bound*: every point takes the potential of its anchor, and c-transforms with the distances between the points
  make these potentials feasible. Feasible potentials are worth at most W_1. Each side begins once, and the better
  result counts.

Distances are those of `asot.bounds.short_vectors`: never too long in the lower bound, never too short in the upper one.
They are computed in float32, around a point of the pair, and the bounds are widened by the error that this can cause.
Points are numbered cell by cell and by their first coordinate, so that the points of a distribution in a cell are
neighbors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.bounds.point_table import PointTable
from asot.exact.shared_cost import AnchorPlans, Trees
from asot.exact.workspace import MASS_BITS
from asot.native import Doubles, Int, Ints, Record, ShortInts, entry


class BracketPoints(Record):
    """A `PointTable` (``native/bounds/point_bracket.cpp``)."""

    _fields_ = [  # noqa: RUF012
        ("k", Int), ("width", Int), ("offsets", Ints), ("point", Ints), ("masses", Ints), ("cell", ShortInts),
        ("points", Doubles), ("rest", Doubles), ("height", Doubles),
    ]  # fmt: skip


class BoundedPairs(Record):
    """Pairs, and where both ends of their intervals go (``native/bounds/records.hpp``)."""

    _fields_ = [  # noqa: RUF012
        ("n", Int), ("rows", Ints), ("columns", Ints), ("lower", Doubles), ("upper", Doubles), ("stop", Ints),
    ]  # fmt: skip


class LiftedPlan(Record):
    """Where the plan of a pair goes (``native/bounds/point_bracket.cpp``)."""

    _fields_ = [  # noqa: RUF012
        ("row", Int), ("column", Int), ("source", Ints), ("sink", Ints), ("mass", Ints), ("count", Ints),
    ]  # fmt: skip


_bracket = entry("point_bracket", BracketPoints, AnchorPlans, BoundedPairs)
_lift = entry("lift_plan", BracketPoints, AnchorPlans, LiftedPlan)


def _record(table: PointTable) -> BracketPoints:
    return BracketPoints(
        k=len(table.height), width=table.points.shape[1], offsets=table.offsets, point=table.point,
        masses=table.masses, cell=table.cell, points=table.points, rest=table.rest, height=table.height,
    )  # fmt: skip


def bracket(
    table: PointTable, trees: Trees, rows: NDArray[np.int64], columns: NDArray[np.int64], exponent: int, stop: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper bounds (P,) on W_1 of the pairs of a tile, rounded outward."""
    lower, upper = np.zeros(len(rows)), np.zeros(len(rows))
    pairs = BoundedPairs(n=len(rows), rows=rows, columns=columns, lower=lower, upper=upper, stop=stop)
    _bracket(_record(table), trees.at_unit(exponent), pairs)
    return np.ldexp(lower, exponent - MASS_BITS), np.ldexp(upper, exponent - MASS_BITS)


def lift(
    table: PointTable, trees: Trees, row: int, column: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The lifted plan of the single pair of ``trees``: numbers of the points in the table, and masses in 2^-60.

    What both distributions have on a point stays there and is not listed.
    """
    sizes = np.diff(table.offsets)
    most = int(sizes[row] + sizes[column]) + 2 * len(table.height) + 2  # as in the kernel
    source, sink, mass = (np.empty(most, dtype=np.int64) for _ in range(3))
    count = np.zeros(1, dtype=np.int64)
    out = LiftedPlan(row=row, column=column, source=source, sink=sink, mass=mass, count=count)
    _lift(_record(table), trees.at_unit(0), out)
    arcs = int(count[0])
    return source[:arcs], sink[:arcs], mass[:arcs]
