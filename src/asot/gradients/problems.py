"""Problems on tensors as solvers take them, and their plans. Imported with the first call."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from torch import Tensor

from asot.exact.cuda import own_costs
from asot.gradients import on_gpu


class Side(NamedTuple):
    """Rows or columns of P problems."""

    starts: Tensor  # (P,) int64: where those of a problem begin among all masses, and among all points
    sizes: Tensor  # (P,) int64
    masses: Tensor | None  # flat float64 (with matrices also float32), or None: uniform of total 1
    most: int  # the largest size, or more
    padded: bool  # whether every problem takes room for `most` of them in the plans; else each takes its own size
    room: int  # of all problems together
    even: bool  # whether all have the largest size

    def places(self) -> Tensor:
        """Where each problem's room begins, (P,)."""
        return self.starts if self.padded else self.sizes.cumsum(0) - self.sizes

    def on_device(self) -> own_costs.DeviceSide:
        starts, sizes, masses = map(on_gpu.address, (self.starts, self.sizes, self.masses))
        return own_costs.DeviceSide(starts, sizes, masses, self.most)


class Matrices(NamedTuple):
    """Costs that are given: entry (i, j) of problem t is ``flat[starts[t] + i · stride + j]``."""

    flat: Tensor  # float64, or float32 if all masses are
    starts: Tensor  # (P,) int64
    stride: int

    def on_device(self) -> own_costs.DeviceMatrices:
        return own_costs.DeviceMatrices(on_gpu.address(self.flat), on_gpu.address(self.starts), self.stride)


class Clouds(NamedTuple):
    """Costs that the solver computes: d(x_i, y_j)^power of points, which the sides' starts refer to."""

    x: Tensor  # (N, d) float64, or both float32
    y: Tensor  # (M, d)
    metric: int  # a code of `asot.ground.metrics`
    power: float
    shrink: Tensor | None  # (P,) float64: what the coordinates of a problem are multiplied with, or None: 1
    ordinary: tuple[float, float] | None = None  # sizes of coordinates; others are refused where costs are priced

    def on_device(self) -> own_costs.DeviceClouds:
        x, y, shrink = map(on_gpu.address, (self.x, self.y, self.shrink))
        return own_costs.DeviceClouds(x, y, self.x.shape[1], self.metric, self.power, shrink)


class Plans(NamedTuple):
    """Optimal plans of P problems, one after the other. A problem of n rows and m columns has room for n + m arcs (with
    their padding, where sides are padded); arcs that it does not use have mass 0, row 0 and column 0. No two tensors
    share their memory. Values and mass may be float32 where costs are."""

    values: Tensor  # (P,) float64
    ends: Tensor  # (2, arcs) int64: rows and columns, each counted within its problem
    mass: Tensor  # (arcs,) float64
    f: Tensor  # (rows.room,) float64, or (0,) where potentials were not wanted
    g: Tensor  # (columns.room,)


@functools.lru_cache(maxsize=64)
def steps(count: int, step: int, home: torch.device) -> Tensor:
    """0, step, 2 step, … (count,): kept, since a training step asks for the same ones again and again."""
    return _settled(torch.arange(count, device=home) * step)


@functools.lru_cache(maxsize=64)
def alike(count: int, size: int, home: torch.device) -> Tensor:
    """One size (count,) for all problems."""
    return _settled(torch.full((count,), size, dtype=torch.int64, device=home))


def _settled(tensor: Tensor) -> Tensor:
    """A tensor that any stream may read."""
    if tensor.is_cuda:
        torch.cuda.current_stream(tensor.device).synchronize()
    return tensor
