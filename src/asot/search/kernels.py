"""The compiled loops of the cascade, as Python calls them (``native/search/cascade.cpp``)."""

from __future__ import annotations

import numpy as np

from asot._typing import Float, Indices
from asot.native import Bytes, Double, Doubles, Floats, Int, Ints, Record, ShortInts, Shorts, entry
from asot.run.executors import Stop
from asot.search.sweep import Shape


class BoundTables(
    Record, n=Int, coarse=Floats, fine=Floats, mixed=Floats, tail=Floats, pool=Floats, n_groups=Int, n_mixed=Int,
    n_tail=Int, n_pool=Int, code=Int, order=Double, relative=Double, absolute=Double, pool_relative=Double,
    pool_absolute=Double, group_stride=Int, row_stride=Int, means=Floats, brief=Shorts, step=Double,
    step_absolute=Double,
):  # fmt: skip
    """Means of sorted coordinates and of potentials, and how far a bound computed from them may be off."""


class SearchLimits(Record, column_start=Int, within=Int, limits=Doubles, settled=Ints, stop=Ints):
    """Which pairs of a search matter (``native/search/limits.hpp``)."""


def search_limits(
    shape: Shape, stop: Stop, limits: Float | None = None, settled: Indices | None = None
) -> SearchLimits:
    """The limits (n_rows,) of a search of this shape, if it has any."""
    settled = None if settled is None else np.ascontiguousarray(settled)
    return SearchLimits(column_start=shape.column_start, within=shape.within, limits=limits, settled=settled, stop=stop)


class NearestLists(Record, top=Int, count=Int, columns=Ints, bounds=Doubles):
    """For every row its nearest columns by some bound (``native/search/limits.hpp``)."""


class PossiblePairs(Record, start=Int, first=Int, n_columns=Int, possible=Bytes):
    """Where it is marked which pairs are left."""


class QueryBounds(Record, query=Int, first=Int, n=Int, rows=Ints, limit=Double, bounds=Doubles):
    """One row against members of another table, and where its bounds go."""


class ProjectedMembers(Record, points=Floats, masses=Doubles, ends=Ints, words=ShortInts, n_words=Int):
    """Points of members in a few coordinates (``native/search/projected.cpp``)."""


class ProjectedQuery(
    Record, n=Int, stride=Int, used=Int, points=Floats, masses=Doubles, code=Int, relative=Double, absolute=Double,
    equal=Double,
):  # fmt: skip
    """Points of a query in the same coordinates, and how far a bound may be off."""


class ProjectedBounds(Record, n=Int, rows=Ints, limit=Double, bounds=Doubles):
    """Members whose bounds may grow."""


nearest = entry("cascade_nearest", BoundTables, SearchLimits, NearestLists, Int, Int, Int)
"""Keep, for the rows low..high-1, the columns with the smallest bounds: (..., n_columns, low, high)."""

within_limits = entry("cascade_within", BoundTables, SearchLimits, PossiblePairs, Int, Int)
"""Mark, for the rows low..high-1, the columns whose bound is not above the limit of one end: (..., low, high)."""

query_bounds = entry("query_bounds", BoundTables, BoundTables, QueryBounds, Ints)
"""Bounds of one row of a table against members of another: (query's, members', wanted, stop)."""

projected_bounds = entry("projected_bounds", ProjectedMembers, ProjectedQuery, ProjectedBounds, Ints)
"""Reduced transport of a query and some members: (members, query, wanted, stop)."""
