"""Sparse plans of many problems as tables, in one step on a GPU. Imported with the first call."""

from __future__ import annotations

import torch
from torch import Tensor

from asot.exact.cuda import plan_tables
from asot.gradients import on_gpu
from asot.gradients.eager import is_eager

MOST_CELLS = 2**14
"""Of a table that one block clears faster than a step of its own."""


def has_kernel(weights: Tensor, mass: Tensor, cells: int) -> bool:
    """Whether `weighted` takes tables of so many cells."""
    return cells <= MOST_CELLS and on_gpu.has_gpu(on_gpu.home_of(mass)) and is_eager(weights, mass)


def weighted(weights: Tensor, ends: Tensor, mass: Tensor, rows: int, columns: int) -> Tensor:
    """Plans (B, rows, columns) times weights (B,), of arcs with ends (2, B, E) and masses (B, E); all are on a GPU."""
    B, E = mass.shape
    tables = torch.empty((B, rows, columns), dtype=mass.dtype, device=mass.device)
    weights, step = on_gpu.weights_in_one_piece(weights)
    arcs = plan_tables.DeviceArcs(B, E, *map(on_gpu.address, (*ends.unbind(), mass)))
    weights_at, tables_at = on_gpu.address(weights), on_gpu.address(tables)
    with on_gpu.stream_of(mass.device):
        plan_tables.write(arcs, weights_at, step, (rows, columns), on_gpu.REALS[mass.dtype], tables_at)
    return tables
