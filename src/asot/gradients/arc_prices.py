"""Prices of the arcs of plans, as one step of autograd on a GPU: nothing is gathered, and no price waits for another.

The formula of `asot.gradients.clouds` says the same in operations of torch, for every device, metric and dtype; there
each of its steps is a tensor of arcs × coordinates. Imported with the first call on a GPU.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from asot.exact.cuda import cloud_arcs
from asot.gradients.eager import is_eager
from asot.gradients.solver import REALS, home_of, on_stream_of


def has_kernel(x: Tensor, y: Tensor, metric: str) -> bool:
    """Whether `prices` takes these points. Transforms of torch (`vmap`, `compile`) see through operations only."""
    known = metric in ("euclidean", "sqeuclidean") and x.dtype == y.dtype and x.dtype in REALS
    return known and x.is_cuda and home_of(x).type == "cuda" and is_eager(x, y)


class Arcs(NamedTuple):
    """E arcs of P pairs of clouds."""

    source: Tensor  # (E,) points of x
    sink: Tensor  # (E,) points of y
    pair: Tensor  # (E,)
    mass: Tensor  # (E,)
    shrink: Tensor  # (P,) what the coordinates of a pair are multiplied with
    power: float

    def on_device(self) -> cloud_arcs.DeviceArcs:
        source, sink, pair, mass, shrink = (one.data_ptr() for one in self[:-1])
        return cloud_arcs.DeviceArcs(len(self.pair), source, sink, pair, mass, shrink, self.power)


def prices(x: Tensor, y: Tensor, arcs: Arcs) -> Tensor:
    """|x_source - y_sink|^power (E,) float64 of shrunk points, 0 for arcs without mass."""
    found: Tensor = _Prices.apply(x, y, arcs)  # type: ignore[no-untyped-call]
    return found


class _Prices(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, arcs: Arcs) -> Tensor:
        x, y = x.contiguous(), y.contiguous()
        out = torch.empty_like(arcs.mass)
        with on_stream_of(x.device):
            cloud_arcs.price(_points(x), _points(y), arcs.on_device(), out.data_ptr())
        ctx.save_for_backward(x, y, out)
        ctx.arcs = arcs
        return out

    @staticmethod
    def backward(ctx: Any, weights: Tensor) -> Any:
        x, y, cost = ctx.saved_tensors
        weights, arcs = weights.contiguous(), ctx.arcs
        in_x, in_y, _ = ctx.needs_input_grad
        return (
            _in_points(x, y, arcs, (arcs.source, arcs.sink), cost, weights) if in_x else None,
            _in_points(y, x, arcs, (arcs.sink, arcs.source), cost, weights) if in_y else None,
            None,
        )


def _in_points(
    own: Tensor, other: Tensor, arcs: Arcs, ends: tuple[Tensor, Tensor], cost: Tensor, weights: Tensor
) -> Tensor:
    """The gradient in the points (n, d) of one side, with the ends (E,) of arcs on this side and on the other."""
    near, far = ends
    ordered, order = near.sort(stable=True)
    last = torch.searchsorted(ordered, torch.arange(len(own), device=own.device), right=True)
    gradient = torch.empty_like(own)
    with on_stream_of(own.device):
        of_points = cloud_arcs.DeviceEnds(order.data_ptr(), last.data_ptr(), far.data_ptr())
        cloud_arcs.differentiate(
            _points(own), _points(other), arcs.on_device(), of_points, cost.data_ptr(), weights.data_ptr(),
            gradient.data_ptr(),
        )  # fmt: skip
    return gradient


def _points(points: Tensor) -> cloud_arcs.DevicePoints:
    size, dim = points.shape
    return cloud_arcs.DevicePoints(points.data_ptr(), size, dim, REALS[points.dtype])
