"""From a plan on the anchors to a plan and a bracket on the original points (docs/method.md §6).

For a pair of distributions, what both have on a point is canceled, and the anchor plan says how much of the rest goes
from which cell to which. Two things are made of it:

* *an upper bound*: each arc of the anchor plan takes its mass from the points of its first cell that lie toward the
  second, and what stays in a cell is joined in order of position. That is a plan on the original points; its price is
  at least W_1. Then arcs exchange sinks: of an arc that costs much more than the potentials of its ends (those of the
  lower bound), and all others, the two that save most by it. So plans become cheaper, and remain plans.
* *a lower bound*: every point takes the potential of its anchor, and c-transforms with the distances between the points
  make these potentials feasible. Feasible potentials are worth at most W_1. Each side begins once, and the better
  result counts.

Distances are those of `asot.bounds.short_vectors`: never too long in the lower bound, never too short in the upper one.
They are computed in float32, around a point of the pair, and the bounds are widened by the error that this can cause.
Points are numbered cell by cell and by their first coordinate, so that the points of a distribution in a cell are
neighbors in its sorted list: merging two such lists both cancels common mass and keeps the cells together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices
from asot.bounds.short_vectors import Coordinates
from asot.data.distinct import SparseHistograms
from asot.exact.points import quantize_sparse
from asot.exact.shared_cost import AnchorPlans, Trees
from asot.exact.workspace import MASS_BITS
from asot.native import Doubles, Int, Ints, Record, ShortInts, entry
from asot.run.executors import in_ranges, in_stretches

# ------------------------------------------------------------------------------------------------ the table of points


class BracketPoints(
    Record, k=Int, width=Int, offsets=Ints, point=Ints, masses=Ints, cell=ShortInts, points=Doubles, rest=Doubles,
    height=Doubles,
):  # fmt: skip
    """Distributions as sparse histograms over distinct points that are numbered cell by cell
    (``native/bounds/point_bracket.cpp``)."""


class Renumbering(Record, offsets=Ints, old=Ints, number=Ints, index=Ints, masses=Ints):
    """Histograms and the new numbers of their points (``native/bounds/tables.cpp``)."""


_renumber = entry("renumber_points", Renumbering, Int, Int)


def point_table(
    histograms: SparseHistograms,
    cell: Indices,
    coordinates: Coordinates,
    k: int,
    n_jobs: int = 1,
    along: Indices | None = None,
) -> tuple[BracketPoints, Indices]:
    """Renumber the distinct points, cell by cell; also the numbers (V,) that they had before.

    ``cell`` (V,) is the anchor of each, of ``k``; ``along`` their order by the first coordinate (`order_along`), if it
    is known.
    """
    first = coordinates.points[:, 0]
    along = order_along(coordinates) if along is None else along
    cells = cell[along]
    order = along[np.argsort(cells.astype(np.uint16) if k <= 2**16 else cells, kind="stable")]  # quick for few bits
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    offsets, masses = histograms.offsets, quantize_sparse(histograms.offsets, histograms.masses)
    index = np.empty_like(histograms.index)
    renumbering = Renumbering(offsets=offsets, old=histograms.index, number=number, index=index, masses=masses)
    in_stretches(offsets, lambda low, high: _renumber(renumbering, low, high), n_jobs)
    points = np.empty(coordinates.points.shape)
    in_ranges(n_jobs)(
        len(order),
        lambda low, high: coordinates.points.take(order[low:high], axis=0, out=points[low:high], mode="clip"),
    )
    height = np.bincount(cell, weights=first, minlength=k) / np.maximum(np.bincount(cell, minlength=k), 1)
    table = BracketPoints(
        k=k, width=coordinates.points.shape[1], offsets=offsets, point=index, masses=masses, points=points,
        cell=cell[order].astype(np.int32), rest=coordinates.rest[order], height=height,
    )  # fmt: skip
    return table, order


def order_along(coordinates: Coordinates) -> Indices:
    """The order (V,) of points by their first coordinate."""
    return np.argsort(coordinates.points[:, 0], kind="stable")


# ------------------------------------------------------------------------------------------------ plans and brackets


class BoundedPairs(Record, n=Int, rows=Ints, columns=Ints, lower=Doubles, upper=Doubles, stop=Ints):
    """Pairs, and where both ends of their intervals go (``native/bounds/records.hpp``)."""


class LiftedPlan(Record, row=Int, column=Int, source=Ints, sink=Ints, mass=Ints, count=Ints):
    """Where the plan of a pair goes (``native/bounds/point_bracket.cpp``)."""


_bracket = entry("point_bracket", BracketPoints, AnchorPlans, BoundedPairs)
_lift = entry("lift_plan", BracketPoints, AnchorPlans, LiftedPlan)


def bracket(
    table: BracketPoints, trees: Trees, rows: NDArray[np.int64], columns: NDArray[np.int64], exponent: int, stop: Any
) -> tuple[Float, Float]:
    """Lower and upper bounds (P,) on W_1 of the pairs of a tile, rounded outward."""
    lower, upper = np.zeros(len(rows)), np.zeros(len(rows))
    pairs = BoundedPairs(n=len(rows), rows=rows, columns=columns, lower=lower, upper=upper, stop=stop)
    _bracket(table, trees.at_unit(exponent), pairs)
    return np.ldexp(lower, exponent - MASS_BITS), np.ldexp(upper, exponent - MASS_BITS)


def lift(table: BracketPoints, trees: Trees, row: int, column: int) -> tuple[Indices, Indices, Indices]:
    """The lifted plan of the single pair of ``trees``: numbers of the points in the table, and masses in 2^-60.

    What both distributions have on a point stays there and is not listed.
    """
    sizes = np.diff(table.arrays()["offsets"])
    most = int(sizes[row] + sizes[column]) + 2 * table.k + 2  # as in the kernel
    source, sink, mass = (np.empty(most, dtype=np.int64) for _ in range(3))
    count = np.zeros(1, dtype=np.int64)
    out = LiftedPlan(row=row, column=column, source=source, sink=sink, mass=mass, count=count)
    _lift(table, trees.at_unit(0), out)
    arcs = int(count[0])
    return source[:arcs], sink[:arcs], mass[:arcs]
