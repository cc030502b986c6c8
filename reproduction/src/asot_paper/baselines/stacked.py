"""Many small transport problems as one large one: their kernels on the diagonal of a sparse matrix, in torch.

Pairs of different sizes follow each other without padding. U and V of all of them are two long vectors, and an
iteration of all of them is two products of a sparse matrix with a vector, on whatever device torch has. The matrix is
kept by rows and by columns, so that both products read it in order.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Blocks(NamedTuple):
    """One direction of a block-diagonal matrix with E entries: by rows, or by columns (then "row" means column)."""

    starts: Tensor  # (R + 1,) int32, where each row begins
    column: Tensor  # (E,) int32, of each entry
    lengths: Tensor  # (R,) int64
    shape: tuple[int, int]

    def matrix(self, entries: Tensor) -> Callable[[Tensor], Tensor]:
        """Multiplication by the matrix with these entries (E,): from one vector to another (R,)."""
        if has_sparse_products(entries.device.type, entries.dtype):
            sparse = torch.sparse_csr_tensor(self.starts, self.column, entries, self.shape, check_invariants=False)
            return functools.partial(torch.mv, sparse)
        return lambda x: self._reduce(entries * x.index_select(0, self.column), "sum")

    def spread(self, x: Tensor) -> Tensor:
        """The number of its row for every entry: (R,) → (E,)."""
        return torch.repeat_interleave(x, self.lengths, output_size=len(self.column))

    def log_sum_exp(self, exponents: Tensor) -> Tensor:
        """log Σ exp over each row: (E,) → (R,)."""
        top = self._reduce(exponents, "max")
        return top + torch.log(self._reduce(torch.exp(exponents - self.spread(top)), "sum"))

    def _reduce(self, entries: Tensor, how: str) -> Tensor:
        return torch.segment_reduce(entries, how, lengths=self.lengths, unsafe=True)


@functools.cache
def has_sparse_products(device: str, dtype: torch.dtype) -> bool:
    """Whether this torch multiplies sparse matrices on a device. The first one of a process warns of a beta state."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ends, column = (torch.tensor(list(x), dtype=torch.int32, device=device) for x in ((0, 1), (0,)))
            one = torch.ones(1, dtype=dtype, device=device)
            return bool(torch.sparse_csr_tensor(ends, column, one, (1, 1)) @ one == 1)
    except RuntimeError:
        return False


class Stack:
    """The layout of P pairs of n_t × m_t points: where the rows, columns and entries of each are.

    Parameters
    ----------
    n, m : (P,) int64, on the device where the work is done
    """

    def __init__(self, n: Tensor, m: Tensor) -> None:
        device = n.device
        self.n_rows, self.n_columns, self.n_entries = (int(x) for x in torch.stack([n.sum(), m.sum(), (n * m).sum()]))
        pair = torch.arange(len(n), device=device)
        self.n, self.m = n, m
        self.row_pair = torch.repeat_interleave(pair, n, output_size=self.n_rows)  # (R,)
        self.column_pair = torch.repeat_interleave(pair, m, output_size=self.n_columns)  # (Q,)
        self.first_row, self.first_column, self._first_entry = (x.cumsum(0) - x for x in (n, m, n * m))  # (P,)
        shape = (self.n_rows, self.n_columns)
        self.by_row = self._blocks(m[self.row_pair], self.first_column[self.row_pair], shape)
        self.by_column = self._blocks(n[self.column_pair], self.first_row[self.column_pair], shape[::-1])

    def _blocks(self, lengths: Tensor, first: Tensor, shape: tuple[int, int]) -> Blocks:
        ends = lengths.cumsum(0)
        starts = torch.cat([ends.new_zeros(1), ends])
        shift = torch.repeat_interleave(first - starts[:-1], lengths, output_size=self.n_entries)
        index = torch.arange(self.n_entries, device=lengths.device) + shift
        return Blocks(starts.to(torch.int32), index.to(torch.int32), lengths, shape)

    def transposed(self, entries: Tensor) -> Tensor:
        """Entries (E,) given row by row, reordered column by column."""
        pair, by_column = self.column_pair, self.by_column
        place = torch.arange(self.n_columns, device=pair.device) - self.first_column[pair]  # of a column in its block
        begin = by_column.spread(self._first_entry[pair] + place)
        row = by_column.column - by_column.spread(self.first_row[pair])
        return entries[begin + row * by_column.spread(self.m[pair])]

    def of_rows(self, starts: Tensor) -> Tensor:
        """Where the rows are in an array in which the points of pair t begin at starts[t] (P,): (R,)."""
        return torch.arange(self.n_rows, device=starts.device) + (starts - self.first_row)[self.row_pair]

    def of_columns(self, starts: Tensor) -> Tensor:
        """The same for columns: (Q,)."""
        return torch.arange(self.n_columns, device=starts.device) + (starts - self.first_column)[self.column_pair]

    def sum_of_rows(self, x: Tensor) -> Tensor:
        """Sum over the rows of each pair, in float64: (R,) → (P,)."""
        return torch.segment_reduce(x.double(), "sum", lengths=self.n, unsafe=True)

    def any_of(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Whether something is true of a row or of a column of each pair: (R,), (Q,) → (P,)."""
        by_row = torch.segment_reduce(rows.float(), "max", lengths=self.n, unsafe=True)
        by_column = torch.segment_reduce(columns.float(), "max", lengths=self.m, unsafe=True)
        return (by_row + by_column) > 0

    def largest(self, entries: Tensor) -> Tensor:
        """Largest entry of each pair: (E,) → (P,)."""
        return torch.segment_reduce(entries, "max", lengths=self.n * self.m, unsafe=True)
