"""Prices of the arcs of plans, as one step of autograd on a GPU: nothing is gathered, and no price waits for another.

The formula of `asot.gradients.clouds` says the same in operations of torch, for every device, metric and dtype; there
each of its steps is a tensor of arcs × coordinates. Imported with the first call on a GPU.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from asot.exact.cuda import cloud_arcs
from asot.gradients import on_gpu
from asot.gradients.eager import is_eager


def has_kernel(x: Tensor, y: Tensor, metric: str) -> bool:
    """Whether `prices` takes these points. Transforms of torch (`vmap`, `compile`) see through operations only."""
    known = metric in ("euclidean", "sqeuclidean") and x.dtype == y.dtype and x.dtype in on_gpu.REALS
    return known and on_gpu.has_gpu(on_gpu.home_of(x)) and is_eager(x, y)


class Arcs(NamedTuple):
    """E arcs of P pairs of clouds."""

    source: Tensor  # (E,) points of x
    sink: Tensor  # (E,) points of y
    pair: Tensor  # (E,)
    mass: Tensor  # (E,)
    shrink: Tensor  # (P,) what the coordinates of a pair are multiplied with
    slope: Tensor  # (P,) what gradients in shrunk coordinates are multiplied with

    def on_device(self, power: float) -> cloud_arcs.DeviceArcs:
        source, sink, pair, mass, shrink, slope = map(on_gpu.address, self)
        return cloud_arcs.DeviceArcs(len(self.pair), source, sink, pair, mass, shrink, slope, power)


def prices(x: Tensor, y: Tensor, arcs: Arcs, power: float) -> Tensor:
    """|x_source - y_sink|^power (E,) float64 of shrunk points, 0 for arcs without mass."""
    found: Tensor = _Prices.apply(x, y, arcs, power)  # type: ignore[no-untyped-call]
    return found


class _Prices(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, arcs: Arcs, power: float) -> Tensor:
        x, y = x.contiguous(), y.contiguous()
        out = torch.empty_like(arcs.mass)
        with on_gpu.stream_of(x.device):
            cloud_arcs.price(_points(x), _points(y), arcs.on_device(power), on_gpu.address(out))
        ctx.save_for_backward(x, y, out, *arcs)
        ctx.power = power
        return out

    @staticmethod
    def backward(ctx: Any, weights: Tensor) -> Any:
        x, y, cost, *saved = ctx.saved_tensors
        arcs, (in_x, in_y, *_) = Arcs(*saved), ctx.needs_input_grad
        if not is_eager(weights):
            return *_in_operations(x, y, arcs, ctx.power, cost, weights), None, None
        weights, ends = weights.contiguous(), (arcs.source, arcs.sink)
        return (
            _in_points(x, y, arcs, ctx.power, ends, cost, weights) if in_x else None,
            _in_points(y, x, arcs, ctx.power, ends[::-1], cost, weights) if in_y else None,
            None,
            None,
        )


def _in_points(
    own: Tensor, other: Tensor, arcs: Arcs, power: float, ends: tuple[Tensor, ...], cost: Tensor, weights: Tensor
) -> Tensor:
    """The gradient in the points (n, d) of one side, with the ends (E,) of arcs on this side and on the other."""
    near, far = ends
    ordered, order = near.sort(stable=True)
    last = torch.searchsorted(ordered, torch.arange(len(own), device=own.device), right=True)
    gradient = torch.empty_like(own)
    of_points = cloud_arcs.DeviceEnds(*map(on_gpu.address, (order, last, far)))
    arrays = map(on_gpu.address, (cost, weights, gradient))
    with on_gpu.stream_of(own.device):
        cloud_arcs.differentiate(_points(own), _points(other), arcs.on_device(power), of_points, *arrays)
    return gradient


def _in_operations(
    x: Tensor, y: Tensor, arcs: Arcs, power: float, cost: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients in both sides for weights that kernels cannot read, such as many of them at a time."""
    own, after = (each[arcs.pair][:, None] for each in (arcs.shrink, arcs.slope))
    gap = x[arcs.source].double() * own - y[arcs.sink].double() * own
    fall = torch.where(cost > 0, power * cost ** (1 - 2 / power), 0.0)
    change = (weights * fall)[:, None] * gap * after
    in_x, in_y = (
        change.new_zeros(points.shape).index_add(0, at, change).to(points.dtype)
        for points, at in ((x, arcs.source), (y, arcs.sink))
    )
    return in_x, -in_y


def _points(points: Tensor) -> cloud_arcs.DevicePoints:
    size, dim = points.shape
    return cloud_arcs.DevicePoints(on_gpu.address(points), size, dim, on_gpu.REALS[points.dtype])
