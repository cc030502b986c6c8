"""One-dimensional transport along directions that all pairs share: one quantile function minus the other.

On a line the best plan keeps the order: W_1 = ∫ |F⁻¹(q) - G⁻¹(q)| dq. With sorted points this is a walk through both
lists, of at most n + m steps.

Where all points of a distribution have the same mass, the walk is the same along every direction: only n and m decide
which ranks meet, and for how much mass. So it is done once for all directions, and a step compares two rows of sorted
points, one entry for each direction, in vector instructions.
"""

from __future__ import annotations

from asot.native import Doubles, Int, Ints, Record, Tile, entry

LANES = 8
"""Directions that are sorted side by side; their number is padded to a multiple of this."""


class SlicedPoints(Record):
    """Projections of a collection, and what becomes of them (``native/baselines/sliced_shared.cpp``)."""

    _fields_ = [  # noqa: RUF012
        ("offsets", Ints), ("n_points", Int), ("count", Int), ("width", Int), ("projected", Doubles),
        ("masses", Doubles), ("z", Doubles), ("cumulative", Doubles),
    ]  # fmt: skip


sort_uniform = entry("sort_uniform", SlicedPoints, Int, Int)
sort_weighted = entry("sort_weighted", SlicedPoints, Int, Int)
solve_uniform = entry("sliced_uniform", SlicedPoints, Tile)
solve_weighted = entry("sliced_weighted", SlicedPoints, Tile)
