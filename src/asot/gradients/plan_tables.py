"""Sparse plans of many problems as tables, in one step on a GPU. Imported with the first call."""

from __future__ import annotations

import torch
from torch import Tensor

from asot.exact.cuda import plan_tables
from asot.gradients import solver

MOST_CELLS = 2**14
"""Of a table that one block clears faster than a step of its own."""


def weighted(weights: Tensor, ends: Tensor, mass: Tensor, rows: int, columns: int) -> Tensor:
    """Plans (B, rows, columns) times weights (B,), of arcs with ends (2, B, E) and masses (B, E); all are on a GPU."""
    B, E = mass.shape
    tables = torch.empty((B, rows, columns), dtype=mass.dtype, device=mass.device)
    with solver.on_stream_of(mass.device):
        arcs = plan_tables.DeviceArcs(B, E, *map(solver.address, (ends[0], ends[1], mass)))
        weights, step = solver.in_one_piece(weights)
        shape = rows, columns
        plan_tables.write(arcs, solver.address(weights), step, shape, solver.REALS[mass.dtype], solver.address(tables))
    return tables
