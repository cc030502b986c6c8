"""Anchor plans and pairs as kernels see them: what brackets and estimates of a tile are made from.

The structs of the same names are in ``native/bounds/records.hpp``.
"""

from __future__ import annotations

from asot.exact.shared_cost import Trees
from asot.native import Double, Doubles, Int, Ints, Record, ShortInts


class AnchorPlans(Record):
    """The optimal flows and potentials of the pairs of a tile."""

    _fields_ = [  # noqa: RUF012
        ("k", Int), ("start", Ints), ("source", ShortInts), ("sink", ShortInts), ("mass", Ints),
        ("potential", Doubles), ("scale", Double), ("more_scale", Double),
    ]  # fmt: skip


class BoundedPairs(Record):
    """Pairs, and where both ends of their intervals go."""

    _fields_ = [  # noqa: RUF012
        ("n", Int), ("rows", Ints), ("columns", Ints), ("lower", Doubles), ("upper", Doubles), ("stop", Ints),
    ]  # fmt: skip


def plans_at_unit(trees: Trees, exponent: int) -> AnchorPlans:
    """The plans of a tile, with potentials in units of 2^exponent."""
    half = -exponent // 2  # 2^-exponent itself may be out of range
    return AnchorPlans(
        k=trees.potential.shape[1], start=trees.start, source=trees.source, sink=trees.sink, mass=trees.mass,
        potential=trees.potential, scale=2.0**half, more_scale=2.0 ** (-exponent - half),
    )  # fmt: skip
