"""What torch is told about the losses: operations with shapes, gradients and what has none. Imported with the first
call.

``asot::emd`` is an operation of its own (`torch.library.custom_op`), so that `torch.compile` passes it as one step and
`torch.func.grad` works. Where torch computes at once, it is left out.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asot.batch import as_sizes
from asot.exact.cuda import plan_tables
from asot.gradients import on_gpu
from asot.gradients.eager import is_eager
from asot.gradients.problems import Matrices, Plans, Side, alike, steps
from asot.gradients.refusals import refused
from asot.gradients.solver import solve
from asot.gradients.tensors import balance_of

LARGE_PAGE = 2**21
"""Bytes. Below that, memory is mostly used again, and NumPy asks for nothing."""

MOST_CELLS = 2**14
"""Of a table that one block of a GPU clears faster than a step of its own."""


def emd(
    cost: Tensor, a: Tensor | None, b: Tensor | None, n: Tensor | None, m: Tensor | None, potentials: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Values (B,), ends (2, B, rows + columns) and masses of the arcs of plans, and potentials, or none."""
    if is_eager(cost, a, b, n, m):
        with torch.no_grad():
            solved = _solve(cost, a, b, n, m, potentials)
        values: Tensor = _Value.apply(cost, a, b, (n, m, solved))  # type: ignore[no-untyped-call]
        return values, *solved[1:]
    out: tuple[Tensor, Tensor, Tensor, Tensor, Tensor] = _Emd.apply(cost, a, b, n, m, potentials)  # type: ignore[no-untyped-call]
    return out


class _Emd(torch.autograd.Function):
    """The optimal value, whose gradients are the plan and the potentials."""

    generate_vmap_rule = True

    @staticmethod
    def forward(cost: Tensor, a: Any, b: Any, n: Any, m: Any, potentials: bool) -> Any:
        return _plans(cost, a, b, n, m, potentials)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)  # zeros for what has no gradient would be four tensors
        ctx.save_for_backward(*inputs[:-1], *output[1:])

    @staticmethod
    def backward(ctx: Any, *weights: Any) -> Any:
        return *_gradients(ctx, weights[0]), None, None, None


# torch asks for it at every call, and it takes longer to find out than a small problem
_Emd.forward.__signature__ = inspect.signature(_Emd.forward)  # type: ignore[attr-defined]


class _Value(torch.autograd.Function):
    """The same where torch computes at once, with sizes and answers that are there already."""

    @staticmethod
    def forward(ctx: Any, cost: Tensor, a: Any, b: Any, found: tuple[Any, Any, tuple[Tensor, ...]]) -> Tensor:
        n, m, (values, *plan) = found
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(cost, a, b, n, m, *plan)
        return values

    @staticmethod
    def backward(ctx: Any, *weights: Any) -> Any:
        return *_gradients(ctx, weights[0]), None


def _gradients(ctx: Any, weights: Tensor | None) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Of weighted values, in costs and masses."""
    if weights is None:
        return None, None, None
    cost, a, b, n, m, ends, mass, f, g = ctx.saved_tensors
    in_cost = in_a = in_b = None
    if ctx.needs_input_grad[0]:
        in_cost = refused(_in_cost(weights.to(mass.dtype), ends, mass, cost).to(cost.dtype), cost)
    if ctx.needs_input_grad[1]:
        in_a = refused(weights[:, None].to(mass.dtype) * _centred(f, n), a)
    if ctx.needs_input_grad[2]:
        in_b = refused(weights[:, None].to(mass.dtype) * _centred(g, m), b)
    return in_cost, in_a, in_b


def _in_cost(weights: Tensor, ends: Tensor, mass: Tensor, cost: Tensor) -> Tensor:
    """Plans (B, rows, columns), times weights (B,)."""
    B, rows, columns = cost.shape
    if rows * columns <= MOST_CELLS and on_gpu.has_gpu(on_gpu.home_of(mass)) and is_eager(weights, mass):
        return _tables_on_gpu(weights, ends, mass, rows, columns)
    shipped = weights[:, None] * mass
    flat = zeros_like_rows(shipped, rows * columns).scatter_add_(1, torch.add(ends[1], ends[0], alpha=columns), shipped)
    return flat.view(B, rows, columns)


def _tables_on_gpu(weights: Tensor, ends: Tensor, mass: Tensor, rows: int, columns: int) -> Tensor:
    """The same in one step."""
    B, E = mass.shape
    tables = torch.empty((B, rows, columns), dtype=mass.dtype, device=mass.device)
    weights, step = on_gpu.weights_in_one_piece(weights)
    arcs = plan_tables.DeviceArcs(B, E, *map(on_gpu.address, (*ends.unbind(), mass)))
    weights_at, tables_at = on_gpu.address(weights), on_gpu.address(tables)
    with on_gpu.stream_of(mass.device):
        plan_tables.write(arcs, weights_at, step, (rows, columns), on_gpu.REALS[mass.dtype], tables_at)
    return tables


def zeros_like_rows(rows: Tensor, width: int) -> Tensor:
    """Zeros (B, width) of the dtype and the kind of ``rows`` (B, n), which may also stand for what torch traces.

    Fresh memory comes in pages of 4 KiB, and a system takes longer to hand out a thousand of them than asot to solve
    the problems whose gradient they hold. NumPy asks for large pages from 4 MiB on; memory that begins and ends with
    whole ones gets them.
    """
    size = len(rows) * width * rows.element_size()
    if size < LARGE_PAGE or rows.device.type != "cpu" or not is_eager(rows):
        return rows.new_zeros((len(rows), width))
    room = np.empty(size + LARGE_PAGE, dtype=np.uint8)
    start = -room.ctypes.data % LARGE_PAGE
    large: Tensor = torch.from_numpy(room[start : start + size]).view(rows.dtype).view(len(rows), width)
    return large.zero_()


def _kept_dtype(cost: Tensor) -> torch.dtype:
    """Plans and potentials of half-precision costs are kept in float32."""
    return torch.promote_types(cost.dtype, torch.float32)


def _shapes(cost: Tensor, a: Any, b: Any, n: Any, m: Any, potentials: bool) -> Any:
    B, rows, columns = cost.shape
    kept = (rows, columns) if potentials else (0, 0)
    floats = ((B, rows + columns), *((B, k) for k in kept))
    return (
        cost.new_empty((B,)),
        cost.new_empty((2, B, rows + columns), dtype=torch.int64),
        *(cost.new_empty(shape, dtype=_kept_dtype(cost)) for shape in floats),
    )


def _solve(
    cost: Tensor, a: Tensor | None, b: Tensor | None, n: Tensor | None, m: Tensor | None, potentials: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    B, rows, columns = cost.shape
    home, floats = on_gpu.home_of(cost), _kept_dtype(cost)
    # A GPU reads costs as they are; what goes to the CPU is solved there in float64 anyway.
    as_given = on_gpu.has_gpu(home) and all(t is None or t.dtype == torch.float32 for t in (cost, a, b))
    real = torch.float32 if as_given else torch.float64
    first, second = (
        _side(mass, sizes, (B, k), home, real, name)
        for mass, sizes, k, name in ((a, n, rows, "n"), (b, m, columns, "m"))
    )
    flat = on_gpu.in_one_piece(cost, home, real).view(-1)
    matrices = Matrices(flat, steps(B, rows * columns, home), columns)

    def finish(plans: Plans) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The dtypes of the costs."""
        ends = plans.ends.to(cost.device).view(2, B, rows + columns)
        mass, f, g = (part.to(cost.device, floats) for part in plans[2:])
        f, g = (part.view(B, k if potentials else 0) for part, k in ((f, rows), (g, columns)))
        return plans.values.to(cost.device, cost.dtype), ends, mass.view(B, rows + columns), f, g

    return solve(first, second, matrices, finish, potentials=potentials, balance=balance_of(a, b))


def _side(
    masses: Tensor | None,
    sizes: Tensor | None,
    shape: tuple[int, int],
    home: torch.device,
    real: torch.dtype,
    name: str,
) -> Side:
    """Rows or columns of B problems with room for k each, ``shape`` (B, k); ``name``: of the ``sizes`` (B,)."""
    B, k = shape
    if sizes is None:
        counts = alike(B, k, home)
    else:
        as_sizes(sizes.cpu().numpy(), k, B, name)
        counts = on_gpu.in_one_piece(sizes, home, torch.int64)
    flat = None if masses is None else on_gpu.in_one_piece(masses, home, real).view(-1)
    return Side(steps(B, k, home), counts, flat, k, padded=True, room=B * k, even=sizes is None)


def _centred(potential: Tensor, sizes: Tensor | None) -> Tensor:
    """Potentials (B, k) with mean 0 over the true entries, and 0 on padding."""
    if sizes is None:
        return potential - potential.mean(1, keepdim=True)
    inside = torch.arange(potential.shape[1], device=potential.device)[None] < sizes.to(potential.device)[:, None]
    mean = (potential * inside).sum(1, keepdim=True) / sizes.to(potential)[:, None].clamp(min=1)
    return (potential - mean) * inside


_SCHEMA = (
    "(Tensor cost, Tensor? a, Tensor? b, Tensor? n, Tensor? m, bool potentials) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor)"
)
_plans: Any = torch.library.custom_op("asot::emd", _solve, mutates_args=(), schema=_SCHEMA)
_plans.register_fake(_shapes)


@_plans.register_vmap
def _over_batches(info: Any, in_dims: Any, *inputs: Any) -> Any:
    """A batch of batches is one longer batch."""
    V, (*tensors, potentials) = info.batch_size, inputs
    B = next(size for axis, size in enumerate(tensors[0].shape) if axis != in_dims[0])
    whole: list[Any] = [
        None if x is None else (x[None].expand(V, *x.shape) if d is None else x.movedim(d, 0)).flatten(0, 1)
        for x, d in zip(tensors, in_dims, strict=False)
    ]
    out = _plans(*whole, potentials)
    dims = (0, 1, 0, 0, 0)
    return tuple(part.unflatten(d, (V, B)) for part, d in zip(out, dims, strict=True)), dims
