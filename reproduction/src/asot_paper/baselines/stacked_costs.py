"""Distances of the points of a stack of pairs, where the stack is: on the host, or on a GPU.

On the host they come from the compiled loop of `asot_paper.baselines.merged`. On a GPU, distances between all distinct
points of the collection are computed once and looked up, if they fit and are fewer than those of all pairs; otherwise
each is summed coordinate by coordinate. None of them takes the shortcut x² + y² - 2xy, which loses the digits of small
distances.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from asot.native import Double, Doubles, Tile, entry
from asot_paper.baselines.eot import EntropicRuns
from asot_paper.baselines.merged import MergedCollection, MergedPoints
from asot_paper.baselines.stacked import Stack

Indices = NDArray[np.int64]

_fill_stack = entry("stacked_costs", MergedCollection, EntropicRuns, Tile, Double, Doubles)


class Costs(Protocol):
    def __call__(self, stack: Stack, row: Tensor, column: Tensor, rows: Indices, columns: Indices) -> Tensor:
        """Distances (E,) float64, row by row, of a stack of the pairs (rows[t], columns[t]).

        ``row`` (R,) and ``column`` (Q,) are the places of its rows and columns among the points of all distributions.
        """
        ...


def make_costs(points: MergedPoints, device: str, memory: int, n_entries: float) -> Costs:
    """``memory`` bounds the bytes of a table of all distances; ``n_entries`` is how many distances all pairs need."""
    if torch.device(device).type == "cpu":
        return HostCosts(points)
    n_distinct = len(points.distinct)
    table = n_distinct**2 <= n_entries and 8 * n_distinct**2 <= memory
    return TableOfCosts(points, device) if table else SummedCosts(points, device)


class HostCosts:
    """On the CPU, pair by pair."""

    def __init__(self, points: MergedPoints) -> None:
        self._points = points

    def __call__(self, stack: Stack, row: Tensor, column: Tensor, rows: Indices, columns: Indices) -> Tensor:
        sizes = self._points.sizes
        cost = np.empty(stack.n_entries)
        largest = EntropicRuns(most_rows=int(sizes[rows].max()), most_columns=int(sizes[columns].max()))
        _fill_stack(
            self._points.record, largest, Tile(n=len(rows), rows=rows, columns=columns), self._points.unit, cost
        )
        return torch.from_numpy(cost)


class TableOfCosts:
    """All distances between distinct points (V, V), computed once on the device."""

    def __init__(self, points: MergedPoints, device: str) -> None:
        distinct = torch.from_numpy(points.distinct).to(device)  # (V, d)
        self._index = torch.from_numpy(points.point).to(device)  # (nnz,)
        table = torch.cdist(distinct, distinct, compute_mode="donot_use_mm_for_euclid_dist")
        self._n_distinct = len(table)
        self._table = table.mul_(points.unit).view(-1)

    def __call__(self, stack: Stack, row: Tensor, column: Tensor, rows: Indices, columns: Indices) -> Tensor:
        first = stack.by_row.spread(self._index[row] * self._n_distinct)
        return self._table[first + self._index[column][stack.by_row.column]]


class SummedCosts:
    """Sums of squares over the coordinates, on the device."""

    def __init__(self, points: MergedPoints, device: str) -> None:
        self._coordinates = torch.from_numpy(np.ascontiguousarray(points.distinct.T)).to(device)  # (d, V)
        self._index = torch.from_numpy(points.point).to(device)  # (nnz,)
        self._unit = points.unit

    def __call__(self, stack: Stack, row: Tensor, column: Tensor, rows: Indices, columns: Indices) -> Tensor:
        x, y = self._index[row], self._index[column]
        squares = torch.zeros(stack.n_entries, dtype=torch.float64, device=x.device)
        for coordinate in self._coordinates:
            squares += (stack.by_row.spread(coordinate[x]) - coordinate[y][stack.by_row.column]).square_()
        return squares.sqrt_().mul_(self._unit)
