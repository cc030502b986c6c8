"""Values of clouds that are paired i-th with i-th, as one step of autograd on a GPU.

A training step mostly asks for these, and may take less time on a GPU than it takes the host to say what to do. So all
is launched at once, as if nothing were wrong and no distance extreme. Kernels say whether that was so; if not,
`asot.gradients.cloud_plans` does it again, or refuses it. Imported with the first call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from asot.exact.cuda import cloud_pairs
from asot.gradients import gpu_solver, on_gpu, problems
from asot.gradients.eager import is_eager
from asot.gradients.given_clouds import GivenClouds
from asot.gradients.refusals import refused
from asot.gradients.tensors import balance_of
from asot.gradients.units import ordinary_sizes
from asot.ground.metrics import EUCLIDEAN

MOST_ARCS = 1024
"""Of a pair. Its kernels look for the arcs of a point among all of its pair."""


def distances(x: GivenClouds, y: GivenClouds, power: float, order: float) -> Tensor | None:
    """(Σ mass · |x - y|^power)^(1 / order) of every pair (P,), or None where that is not for this step."""
    if not _takes(x, y):
        return None
    offsets = x.offsets.numpy(), y.offsets.numpy()
    sizes = np.diff(offsets[0]), np.diff(offsets[1])
    most = int(sizes[0].max()), int(sizes[1].max())
    if sum(most) > MOST_ARCS or min(int(each.min()) for each in sizes) == 0:
        return None
    home, real = on_gpu.home_of(x.points), on_gpu.REALS[x.points.dtype]
    counted = _on_device(*offsets, sizes, home)
    steps = _Steps(cloud_pairs.Form(x.points.shape[1], real, power, order), most)
    with torch.no_grad(), on_gpu.stream_of(home), on_gpu.noticing(home) as notice:
        values, solved = _enqueue(x, y, counted, steps, notice.there)
    if notice.given:
        return None
    followed: Tensor = _Values.apply(x.points, y.points, (values, solved, steps))  # type: ignore[no-untyped-call]
    return followed


def _takes(x: GivenClouds, y: GivenClouds) -> bool:
    """Whether there are pairs of points that kernels read, of which torch wants to know no more than the gradient."""
    one, two = x.points, y.points
    return (
        on_gpu.has_gpu(on_gpu.home_of(one))
        and len(x) == len(y) > 0
        and one.dtype == two.dtype
        and one.dtype in on_gpu.REALS
        and one.shape[1] > 0
        and one.is_contiguous()
        and two.is_contiguous()
        and not any(masses is not None and masses.requires_grad for masses in (x.masses, y.masses))
        and is_eager(one, two, x.masses, y.masses)
    )


def _on_device(
    first: NDArray[np.int64], second: NDArray[np.int64], sizes: tuple[NDArray[np.int64], ...], home: torch.device
) -> Tensor:
    """Starts and sizes of clouds of both sides, and starts of arcs (5, P), copied at once without a wait."""
    shape = 5, len(first) - 1
    counted = torch.empty(shape, dtype=torch.int64, device="cpu", pin_memory=home.type == "cuda")
    rows = counted.numpy()
    rows[0], rows[1], rows[2], rows[3] = first[:-1], sizes[0], second[:-1], sizes[1]
    np.add(first[:-1], second[:-1], out=rows[4])
    return counted.to(home, non_blocking=True)


class _Steps(NamedTuple):
    """How kernels are asked."""

    form: cloud_pairs.Form
    most: tuple[int, int]  # the sizes of the largest clouds

    def side(self, side: int, points: Tensor, counted: Tensor) -> cloud_pairs.DeviceClouds:
        points_at, starts, sizes = map(on_gpu.address, (points, counted[2 * side], counted[2 * side + 1]))
        return cloud_pairs.DeviceClouds(points_at, starts, sizes, self.most[side])


class _Solved(NamedTuple):
    """Plans of P pairs."""

    totals: Tensor  # (P,) float64
    prices: Tensor  # (arcs,) float64
    mass: Tensor  # (arcs,) float64
    ends: Tensor  # (2, arcs)
    counted: Tensor  # (5, P), see `_on_device`


def _enqueue(x: GivenClouds, y: GivenClouds, counted: Tensor, steps: _Steps, notice: Tensor) -> tuple[Tensor, _Solved]:
    """Launch all steps on the current stream. Values (P,) and plans; ``notice`` (1,) int32 becomes 1 where they are in
    vain."""
    form, P = steps.form, counted.shape[1]
    rows, columns = (
        _side(side, counted[at : at + 2], most) for side, at, most in zip((x, y), (0, 2), steps.most, strict=True)
    )
    points = x.points.detach(), y.points.detach()
    ordinary = ordinary_sizes(form.power, form.dim)
    costs = problems.Clouds(*points, EUCLIDEAN, form.power, None, ordinary)
    balance = balance_of(x.masses, y.masses)
    plans = gpu_solver.enqueue(rows, columns, costs, notice, potentials=False, balance=balance, arcs_at=counted[4])
    floats = torch.empty(P + len(plans.mass), dtype=torch.float64, device=counted.device)
    solved = _Solved(floats[:P], floats[P:], plans.mass, plans.ends, counted)
    values = torch.empty(P, dtype=x.points.dtype, device=counted.device)
    one, two = (steps.side(side, each, counted) for side, each in enumerate(points))
    if not gpu_solver.pays_to_price(rows, columns, costs):  # else costs were looked at when they were computed
        cloud_pairs.look(one, two, P, form, ordinary, on_gpu.address(notice))
    cloud_pairs.price(one, two, _plans(solved, 0), form, on_gpu.address(values), on_gpu.address(notice))
    return values, solved


def _side(clouds: GivenClouds, counted: Tensor, most: int) -> problems.Side:
    """As solvers take it, with starts and sizes (2, P) of clouds."""
    starts, sizes = counted
    masses = None if clouds.masses is None else on_gpu.in_one_piece(clouds.masses, clouds.points.device, torch.float64)
    room = len(clouds.points)
    return problems.Side(starts, sizes, masses, most, padded=False, room=room, even=room == len(sizes) * most)


def _plans(solved: _Solved, side: int) -> cloud_pairs.DevicePlans:
    """With the ends on this side first."""
    near, far = solved.ends[side], solved.ends[1 - side]
    arrays = map(on_gpu.address, (solved.counted[4], near, far, solved.mass, solved.prices, solved.totals))
    return cloud_pairs.DevicePlans(solved.counted.shape[1], *arrays)


class _Values(torch.autograd.Function):
    """Values that are there already, with their gradients in the points."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, found: tuple[Tensor, _Solved, _Steps]) -> Tensor:
        values, solved, ctx.steps = found
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, y, *solved)
        return values

    @staticmethod
    def backward(ctx: Any, *weights: Any) -> Any:
        if weights[0] is None:
            return (None,) * 3
        x, y, *solved = ctx.saved_tensors
        gradients = (
            refused(_gradient(side, (x, y), _Solved(*solved), ctx.steps, weights[0]), points) if needed else None
            for side, (points, needed) in enumerate(zip((x, y), ctx.needs_input_grad, strict=False))
        )
        return *gradients, None


def _gradient(side: int, points: tuple[Tensor, Tensor], solved: _Solved, steps: _Steps, weights: Tensor) -> Tensor:
    """Of Σ weights · values in the points of one side, for weights (P,)."""
    own, plain = points[side], is_eager(weights)
    row, step = on_gpu.weights_in_one_piece(weights if plain else own.new_ones(1).expand(len(solved.totals)))
    gradient = torch.empty_like(own)
    here, there = (steps.side(each, points[each], solved.counted) for each in (side, 1 - side))
    with on_gpu.stream_of(own.device):
        cloud_pairs.differentiate(
            here, there, _plans(solved, side), steps.form, on_gpu.address(row), step, on_gpu.address(gradient)
        )
    if plain:
        return gradient
    pairs = torch.arange(len(solved.totals), device=own.device)  # such as many weights at a time
    sizes = solved.counted[2 * side + 1]
    return weights[pairs.repeat_interleave(sizes, output_size=len(own))][:, None] * gradient
