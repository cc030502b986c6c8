"""Which distances are wanted: all pairs of one set, every pair of two sets, or a list.

All pairs of a quarter of a million graphs are 31 billion, so a pair set is a *description*: it has a size and an order,
and can list the indices of any range of that order. Tiles are such ranges.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from asot.validation import as_pairs

RowsColumns = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Rows and columns of pairs, both (P,)."""

Runs = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""Rows, and for each the columns from a first one to the one before an end."""


class PairSet(Protocol):
    """Pairs (row, column) of an (n_rows, n_columns) table in a fixed order."""

    @property
    def n_rows(self) -> int: ...
    @property
    def n_columns(self) -> int: ...
    @property
    def symmetric(self) -> bool:
        """Whether rows and columns are the same set, so that (i, j) and (j, i) are one distance."""
        ...

    def __len__(self) -> int: ...
    def indices(self, start: int, stop: int) -> RowsColumns:
        """Rows and columns of the pairs start..stop-1 of the order."""
        ...


@dataclass(frozen=True)
class AllPairs:
    """i < j of one set, in the order of scipy's condensed distance matrices."""

    n_rows: int

    @property
    def n_columns(self) -> int:
        return self.n_rows

    symmetric: ClassVar[bool] = True

    def __len__(self) -> int:
        return self.n_rows * (self.n_rows - 1) // 2

    def row_start(self, row: NDArray[np.int64] | int) -> Any:
        """Position of the first pair of a row."""
        return row * (2 * self.n_rows - row - 1) // 2

    def row_of(self, position: int) -> int:
        """The row whose range holds a position: the root of a quadratic, corrected by integer steps."""
        n = self.n_rows
        row = int(n - 0.5 - math.sqrt(max(0.0, (n - 0.5) ** 2 - 2.0 * position)))
        while self.row_start(row + 1) <= position:
            row += 1
        while self.row_start(row) > position:
            row -= 1
        return row

    def indices(self, start: int, stop: int) -> RowsColumns:
        if self.n_rows == 2:
            both = np.arange(2)
            return both[start:stop], both[start + 1 : stop + 1]
        return indices_of_runs(*self.runs(start, stop))

    def runs(self, start: int, stop: int) -> Runs:
        """The same pairs, row by row."""
        if stop - start == len(self):
            rows = np.arange(self.n_rows - 1)
            return rows, rows + 1, np.full(len(rows), self.n_rows)
        first, last = self.row_of(start), self.row_of(stop - 1)
        rows = np.arange(first, last + 1)
        starts = self.row_start(rows)
        before = starts - rows - 1
        return rows, np.maximum(starts, start) - before, np.minimum(self.row_start(rows + 1), stop) - before


@dataclass(frozen=True)
class CrossPairs:
    """Every row with every column of two sets, row by row."""

    n_rows: int
    n_columns: int

    symmetric: ClassVar[bool] = False

    def __len__(self) -> int:
        return self.n_rows * self.n_columns

    def indices(self, start: int, stop: int) -> RowsColumns:
        position = np.arange(start, stop)
        row = position // self.n_columns
        return row, position - row * self.n_columns

    def runs(self, start: int, stop: int) -> Runs:
        """The same pairs, row by row."""
        rows = np.arange(start // self.n_columns, (stop - 1) // self.n_columns + 1)
        starts = rows * self.n_columns
        return rows, np.maximum(starts, start) - starts, np.minimum(starts + self.n_columns, stop) - starts


@dataclass(frozen=True, eq=False)
class ListedPairs:
    """The pairs of an array (P, 2), in its order.

    Within one set (i, j) is solved as (min, max), so that a distance does not depend on the order of its pair.
    """

    pairs: NDArray[np.int64]
    n_rows: int
    n_columns: int
    symmetric: bool

    def __len__(self) -> int:
        return len(self.pairs)

    def indices(self, start: int, stop: int) -> RowsColumns:
        row, column = self.pairs[start:stop].T
        if self.symmetric:
            return np.minimum(row, column), np.maximum(row, column)
        return row.copy(), column.copy()


def indices_of_runs(rows: NDArray[np.int64], columns: NDArray[np.int64], ends: NDArray[np.int64]) -> RowsColumns:
    """Rows and columns of every pair of some runs."""
    sizes = ends - columns
    places = np.cumsum(sizes)
    return np.repeat(rows, sizes), np.arange(places[-1]) + np.repeat(columns - places + sizes, sizes)


def at_places(pairs: PairSet, places: NDArray[np.int64]) -> ListedPairs:
    """The pairs at the given positions of a pair set's order, as a list."""
    if isinstance(pairs, ListedPairs):
        listed = pairs.pairs[places]
    elif isinstance(pairs, AllPairs):
        starts = pairs.row_start(np.arange(pairs.n_rows))
        row = np.searchsorted(starts, places, side="right") - 1
        row = np.where(row == pairs.n_rows - 1, pairs.n_rows - 2, row)  # the last row has no pairs of its own
        listed = np.stack([row, places - starts[row] + row + 1], axis=1)
    else:
        listed = np.stack(np.divmod(places, pairs.n_columns), axis=1)
    return ListedPairs(listed, pairs.n_rows, pairs.n_columns, pairs.symmetric)


def make_pairs(n_rows: int, n_columns: int | None, listed: Any = None) -> PairSet:
    """The pair set of a call: ``n_columns`` is None within one set, ``listed`` an array (P, 2) or None for all."""
    if listed is not None:
        columns = n_rows if n_columns is None else n_columns
        return ListedPairs(as_pairs(listed, n_rows, columns), n_rows, columns, symmetric=n_columns is None)
    return AllPairs(n_rows) if n_columns is None else CrossPairs(n_rows, n_columns)


def tiles(size: int, per_tile: int, first: int = 0) -> Iterator[tuple[int, int]]:
    """Cut first..size into ranges of at most ``per_tile``."""
    for start in range(first, size, per_tile):
        yield start, min(start + per_tile, size)
