"""The compiled loops of the relaxed bound, as Python calls them (``native/search/relaxed.cpp``)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices
from asot.native import Bytes, Doubles, Int, Ints, Record, entry
from asot.search.kernels import NearestLists, SearchLimits
from asot.search.relaxed_costs import Cost, Histograms, RelaxedCost, RelaxedPoints


class RelaxedRange(Record):
    """Some rows and some columns."""

    _fields_ = [("low", Int), ("high", Int), ("first", Int), ("last", Int)]  # noqa: RUF012


class SinglePairs(Record):
    """Some pairs, and where it is marked which of them are left."""

    _fields_ = [("n", Int), ("rows", Ints), ("columns", Ints), ("possible", Bytes)]  # noqa: RUF012


_bounds = entry("relaxed_bounds", RelaxedPoints, RelaxedCost, RelaxedRange, Doubles, Ints)
_keep = entry("keep_smallest", RelaxedRange, Doubles, Int, NearestLists)
_possible = entry("relaxed_possible", RelaxedPoints, RelaxedCost, RelaxedRange, SearchLimits, Doubles, Bytes, Ints)
_singles = entry("relaxed_singles", RelaxedPoints, RelaxedCost, SinglePairs, SearchLimits)


def relaxed_bounds(h: Histograms, cost: Cost, rows: tuple[int, int], columns: tuple[int, int], stop: Indices) -> Float:
    """Relaxed bounds (rows, columns), both ranges of distributions of the collection, in units of mass 1."""
    bounds = np.empty((rows[1] - rows[0], columns[1] - columns[0]))
    _bounds(h.record(), cost.record(), _range(rows, columns), bounds, stop)
    return bounds


def keep_smallest(
    bounds: Float, rows: tuple[int, int], columns: tuple[int, int], within: bool, lists: NearestLists
) -> None:
    """Merge bounds (rows, columns) into the smallest ones of each row."""
    _keep(_range(rows, columns), bounds, within, lists)


def still_possible(
    h: Histograms, cost: Cost, rows: tuple[int, int], columns: tuple[int, int], search: SearchLimits
) -> tuple[NDArray[np.bool_], int]:
    """Which pairs (rows, columns) have bounds that are not above the limit of one end.

    And how many pairs the relaxed bound left to the reduced one.
    """
    possible = np.zeros((rows[1] - rows[0], columns[1] - columns[0]), dtype=np.int8)
    doubted = np.zeros(1, dtype=np.int64)
    scratch = np.empty(possible.shape)
    _possible(h.record(), cost.record(), _range(rows, columns), search, scratch, possible, doubted)
    return possible.view(np.bool_), int(doubted[0])


def keep_possible(
    h: Histograms, cost: Cost, rows: Indices, columns: Indices, search: SearchLimits
) -> NDArray[np.bool_]:
    """Which of some pairs (P,) have reduced bounds that are not above the limit of one end."""
    possible = np.zeros(len(rows), dtype=np.int8)
    pairs = SinglePairs(n=len(rows), rows=rows, columns=columns, possible=possible)
    _singles(h.record(), cost.record(), pairs, search)
    return possible.view(np.bool_)


def _range(rows: tuple[int, int], columns: tuple[int, int]) -> RelaxedRange:
    return RelaxedRange(low=rows[0], high=rows[1], first=columns[0], last=columns[1])
