"""A run cut into blocks that can be solved anywhere and in any order, for stores.

The table of rows × columns is cut into squares. All pairs of one set are the squares on and above its diagonal; a list
of pairs is cut into ranges. A block is identified by its number alone, so a worker only receives a few bytes, and a row
of the table lies in few blocks. The blocks depend on the pairs and on the cost of one, not on who solves them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.run.pairs import AllPairs, ListedPairs, PairSet, RowsColumns

SMALLEST_SIDE = 64
MOST_ROWS_OF_A_STRIP = 4096


@dataclass(frozen=True)
class BlockPairs:
    """Rows first_row..last_row-1 with columns first_column..last_column-1, row by row; above the diagonal if asked."""

    n_rows: int
    n_columns: int
    symmetric: bool
    first_row: int
    last_row: int
    first_column: int
    last_column: int

    @property
    def on_diagonal(self) -> bool:
        return self.symmetric and self.first_row == self.first_column

    def __len__(self) -> int:
        height, width = self.last_row - self.first_row, self.last_column - self.first_column
        return height * (height - 1) // 2 if self.on_diagonal else height * width

    def indices(self, start: int, stop: int) -> RowsColumns:
        if self.on_diagonal and start < stop:
            row, column = AllPairs(self.last_row - self.first_row).indices(start, stop)
        else:
            row, column = np.divmod(np.arange(start, stop), self.last_column - self.first_column)
        return row + self.first_row, column + self.first_column

    def square(self, values: NDArray[Any], fill: Any) -> NDArray[Any]:
        """Values (P,) of the block at their places (rows, columns)."""
        height, width = self.last_row - self.first_row, self.last_column - self.first_column
        if not self.on_diagonal:
            return values.reshape(height, width)
        placed = np.full((height, width), fill, dtype=values.dtype)
        placed[np.triu_indices(height, 1)] = values
        return placed


@dataclass(frozen=True)
class Grid:
    """The blocks of a pair set; ``side`` rows and columns each, or ``side`` pairs of a list.

    ``strips``: ``side`` rows with all columns, each pair of one set from both of its ends.
    """

    pairs: PairSet
    side: int
    strips: bool = False

    @property
    def is_list(self) -> bool:
        return isinstance(self.pairs, ListedPairs)

    @property
    def n_down(self) -> int:
        """Blocks one below the other, or blocks of a list."""
        return -(-(len(self.pairs) if self.is_list else self.pairs.n_rows) // self.side)

    @property
    def n_across(self) -> int:
        return 1 if self.is_list or self.strips else -(-self.pairs.n_columns // self.side)

    @property
    def is_triangle(self) -> bool:
        """Whether only blocks on and above the diagonal are there."""
        return self.pairs.symmetric and not self.is_list and not self.strips

    @property
    def total(self) -> int:
        """Rows of all strips, or pairs of all blocks."""
        return self.pairs.n_rows if self.strips else len(self.pairs)

    def size(self, number: int) -> int:
        """Rows of a strip, or pairs of a block."""
        if self.strips:
            return min(self.side, self.pairs.n_rows - number * self.side)
        return len(self.block(number))

    def __len__(self) -> int:
        return self.n_down * (self.n_down + 1) // 2 if self.is_triangle else self.n_down * self.n_across

    def place(self, number: int) -> tuple[int, int]:
        """Row and column of a block in the grid."""
        if not self.is_triangle:
            return divmod(number, self.n_across)
        row, column = AllPairs(self.n_down + 1).indices(number, number + 1)
        return int(row[0]), int(column[0]) - 1

    def number(self, row: int, column: int) -> int:
        """The block at a place on or above the diagonal of one set, or anywhere in the grid of two."""
        if not self.is_triangle:
            return row * self.n_across + column
        return int(AllPairs(self.n_down + 1).row_start(row)) + column - row

    def block(self, number: int) -> PairSet:
        """The pairs of a block."""
        row, column = self.place(number)
        p = self.pairs
        if isinstance(p, ListedPairs):
            own = p.pairs[row * self.side : (row + 1) * self.side]
            return ListedPairs(own, p.n_rows, p.n_columns, p.symmetric)
        rows = row * self.side, min(p.n_rows, (row + 1) * self.side)
        columns = column * self.side, min(p.n_columns, (column + 1) * self.side)
        return BlockPairs(p.n_rows, p.n_columns, p.symmetric, *rows, *columns)


LEAST_SECONDS = 0.5
"""Blocks are not made shorter than this for the sake of having many: each has a price, above all on a cluster."""


def side_of_blocks(pairs: PairSet, seconds_per_pair: float, most_seconds: float, largest_side: int) -> int:
    """For blocks of at most about ``most_seconds`` each; a good hundred of them unless that makes them very short."""
    affordable = most_seconds / max(seconds_per_pair, 1e-12)
    if isinstance(pairs, ListedPairs):
        side = min(affordable, largest_side**2, max(SMALLEST_SIDE**2, len(pairs) / 64))
        return max(1, int(side))
    most = max(pairs.n_rows, pairs.n_columns)
    worthwhile = min(most / 4, np.sqrt(LEAST_SECONDS / max(seconds_per_pair, 1e-12)))
    wanted = min(np.sqrt(affordable), largest_side, max(most / 16, worthwhile))
    return max(SMALLEST_SIDE, 2 ** int(np.log2(max(1.0, wanted))))


def side_of_strips(n_rows: int, seconds_per_row: float, most_seconds: float) -> int:
    """For blocks of rows with all columns, of at most about ``most_seconds`` each: a search of neighbors."""
    wanted = min(most_seconds / max(seconds_per_row, 1e-12), MOST_ROWS_OF_A_STRIP, max(SMALLEST_SIDE, n_rows / 16))
    return 2 ** int(np.log2(max(1.0, wanted)))
