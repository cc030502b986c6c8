"""What torch is told about the losses: operations with shapes, gradients and what has none. Imported with the first
call.

``asot::emd`` is an operation of its own (`torch.library.custom_op`), so that `torch.compile` passes it as one step and
`torch.func.grad` works.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from asot.batch import as_sizes
from asot.gradients.solver import Matrices, Side, home_of, solve
from asot.gradients.tensors import balance_of

NO_SECOND = (
    "asot.gradients has no second derivatives: plans are piecewise constant, and a loss of its own gradient would see "
    "only a part of the truth; call backward or grad without create_graph=True"
)


class _Refused(torch.autograd.Function):
    """Passes a gradient on, and raises if that gradient is differentiated."""

    generate_vmap_rule = True

    @staticmethod
    def forward(gradient: Tensor, tensor: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        return None

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError(NO_SECOND)


class _Once(torch.autograd.Function):
    """Nothing, but its gradient is `_Refused`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(tensor: Tensor) -> Tensor:
        return tensor.view_as(tensor)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return _refused(gradient, *ctx.saved_tensors)


def _refused(gradient: Tensor, tensor: Tensor) -> Tensor:
    """The gradient in a tensor, for torch to differentiate again or not. Without create_graph it does not."""
    if not torch.is_grad_enabled():
        return gradient
    passed: Tensor = _Refused.apply(gradient, tensor)  # type: ignore[no-untyped-call]
    return passed


def without_second(tensor: Tensor) -> Tensor:
    """The tensor itself, whose gradient refuses to be differentiated again, in one sentence."""
    passed: Tensor = _Once.apply(tensor)  # type: ignore[no-untyped-call]
    return passed


def emd(cost: Tensor, a: Tensor | None, b: Tensor | None, n: Tensor | None, m: Tensor | None) -> Any:
    """Values (B,), then sources, sinks and masses of the plans (B, rows + columns), then potentials."""
    return _Emd.apply(cost, a, b, n, m)  # type: ignore[no-untyped-call]


class _Emd(torch.autograd.Function):
    """The optimal value, whose gradients are the plan and the potentials."""

    generate_vmap_rule = True

    @staticmethod
    def forward(cost: Tensor, a: Any, b: Any, n: Any, m: Any) -> Any:
        return _plans(cost, a, b, n, m)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)  # zeros for what has no gradient would be five tensors
        ctx.save_for_backward(*inputs, *output[1:])

    @staticmethod
    def backward(ctx: Any, *weights: Any) -> Any:
        if weights[0] is None:
            return (None,) * 5
        cost, a, b, n, m, source, sink, mass, f, g = ctx.saved_tensors
        w = weights[0][:, None].to(mass.dtype)
        in_cost = in_a = in_b = None
        if ctx.needs_input_grad[0]:
            B, rows, columns = cost.shape
            shipped = w * mass
            flat = shipped.new_zeros((B, rows * columns)).scatter_add_(1, source * columns + sink, shipped)
            in_cost = _refused(flat.view(B, rows, columns).to(cost.dtype), cost)
        if ctx.needs_input_grad[1]:
            in_a = _refused(w * _centred(f, n), a)
        if ctx.needs_input_grad[2]:
            in_b = _refused(w * _centred(g, m), b)
        return in_cost, in_a, in_b, None, None


def _kept_dtype(cost: Tensor) -> torch.dtype:
    """Plans and potentials of half-precision costs are kept in float32."""
    return torch.promote_types(cost.dtype, torch.float32)


def _shapes(cost: Tensor, a: Tensor | None, b: Tensor | None, n: Tensor | None, m: Tensor | None) -> Any:
    B, rows, columns = cost.shape
    arcs, dtype = (B, rows + columns), _kept_dtype(cost)
    return (
        cost.new_empty((B,)),
        cost.new_empty(arcs, dtype=torch.int64),
        cost.new_empty(arcs, dtype=torch.int64),
        cost.new_empty(arcs, dtype=dtype),
        cost.new_empty((B, rows), dtype=dtype),
        cost.new_empty((B, columns), dtype=dtype),
    )


def _solve(
    cost: Tensor, a: Tensor | None, b: Tensor | None, n: Tensor | None, m: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    B, rows, columns = cost.shape
    home = home_of(cost)
    row_starts, column_starts, matrix_starts = (_steps(B, step, home) for step in (rows, columns, rows * columns))
    flat = cost.detach().to(home, torch.float64).reshape(-1)
    first, second = (
        Side(
            starts,
            _full(B, k, home) if size is None else _sizes(size, k, starts, name),
            None if mass is None else mass.detach().to(home, torch.float64).reshape(-1),
            k,
            True,
            B * k,
        )
        for mass, size, k, name, starts in ((a, n, rows, "n", row_starts), (b, m, columns, "m", column_starts))
    )
    matrices = Matrices(flat, matrix_starts, columns)
    plans = solve(first, second, matrices, potentials=True, balance=balance_of(a, b))
    floats, arcs = _kept_dtype(cost), (B, rows + columns)
    return (
        plans.values.to(cost.device, cost.dtype),
        plans.source.to(cost.device).view(arcs),
        plans.sink.to(cost.device).view(arcs),
        plans.mass.to(cost.device, floats).view(arcs),
        plans.f.to(cost.device, floats).view(B, rows),
        plans.g.to(cost.device, floats).view(B, columns),
    )


def _sizes(given: Tensor, most: int, starts: Tensor, name: str) -> Tensor:
    """True sizes (B,) of padded problems, where these are solved."""
    as_sizes(given.cpu().numpy(), most, len(starts), name)
    return given.to(starts.device)


@functools.lru_cache(maxsize=64)
def _steps(B: int, step: int, home: torch.device) -> Tensor:
    """0, step, 2 step, … (B,): kept, since a training step asks for the same ones again and again."""
    return _settled(torch.arange(B, device=home) * step)


@functools.lru_cache(maxsize=64)
def _full(B: int, size: int, home: torch.device) -> Tensor:
    """One size (B,) for all problems."""
    return _settled(torch.full((B,), size, dtype=torch.int64, device=home))


def _settled(tensor: Tensor) -> Tensor:
    """A tensor that any stream may read."""
    if tensor.is_cuda:
        torch.cuda.current_stream(tensor.device).synchronize()
    return tensor


def _centred(potential: Tensor, sizes: Tensor | None) -> Tensor:
    """Potentials (B, k) with mean 0 over the true entries, and 0 on padding."""
    if sizes is None:
        return potential - potential.mean(1, keepdim=True)
    inside = torch.arange(potential.shape[1], device=potential.device)[None] < sizes.to(potential.device)[:, None]
    mean = (potential * inside).sum(1, keepdim=True) / sizes.to(potential)[:, None].clamp(min=1)
    return (potential - mean) * inside


_SCHEMA = (
    "(Tensor cost, Tensor? a, Tensor? b, Tensor? n, Tensor? m) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
_plans: Any = torch.library.custom_op("asot::emd", _solve, mutates_args=(), schema=_SCHEMA)
_plans.register_fake(_shapes)


@_plans.register_vmap
def _over_batches(info: Any, in_dims: Any, *inputs: Any) -> Any:
    """A batch of batches is one longer batch."""
    V = info.batch_size
    whole = [
        None if x is None else (x[None].expand(V, *x.shape) if d is None else x.movedim(d, 0)).flatten(0, 1)
        for x, d in zip(inputs, in_dims, strict=True)
    ]
    out = _plans(*whole)
    return tuple(part.unflatten(0, (V, -1)) for part in out), (0,) * len(out)
