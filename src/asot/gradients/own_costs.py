"""An exact loss of cost matrices: B problems, each with a cost of its own.

By the envelope theorem the gradient of a value in the costs is its optimal plan, and in the masses the potentials, so that
nothing is differentiated through a solver. A plan of the simplex has at most n + m - 1 entries; they are kept, and
the backward pass costs no more than writing the gradient down (docs/method.md §16).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from asot.batch import read_problems, solve_batch
from asot.gradients.tensors import check_tensors, import_torch, without_second

if TYPE_CHECKING:
    from torch import Tensor


class EmdPlan(NamedTuple):
    """Optimal plans of B problems, sparse: entry e of problem b ships ``mass[b, e]`` from row ``source[b, e]`` to column
    ``sink[b, e]``; where there are fewer entries than room, masses are 0."""

    source: Tensor  # (B, n + m) int64
    sink: Tensor  # (B, n + m) int64
    mass: Tensor  # (B, n + m)
    f: Tensor  # (B, n) potentials: f_i + g_j ≤ cost_ij, and ⟨f, a⟩ + ⟨g, b⟩ is the value
    g: Tensor  # (B, m)

    def dense(self) -> Tensor:
        """The plans as a tensor (B, n, m)."""
        B, n = self.f.shape
        m = self.g.shape[1]
        flat = self.mass.new_zeros((B, n * m)).scatter_add_(1, self.source * m + self.sink, self.mass)
        return flat.view(B, n, m)


def emd(
    cost: Tensor,
    a: Tensor | None = None,
    b: Tensor | None = None,
    *,
    n: Tensor | None = None,
    m: Tensor | None = None,
    plans: bool = False,
) -> Any:
    """Exact optimal transport costs of B problems, each with a cost matrix of its own, with gradients.

    Parameters
    ----------
    cost : tensor (B, n, m)
        Finite, of any floating dtype; negative costs are allowed. One matrix (n, m) is one problem.
    a, b : tensor (B, n) and (B, m), optional
        Masses ≥ 0, with one total per problem; default: uniform of total 1. A problem of total 0 has value 0.
    n, m : integer tensor (B,), optional
        How many rows and columns of each problem count; what lies behind them is padding, and its gradients are 0.
    plans : bool
        Return the plans and potentials as well.

    Returns
    -------
    values : tensor (B,)
        In the dtype and on the device of ``cost``. With ``plans=True``, (values, `EmdPlan`).

    Notes
    -----
    Costs are solved in float64 integers whatever their dtype (`asot.emd_batch`), so a value is the exact optimum of the
    costs given, summed in float64 and then rounded to their dtype: for float32 costs it is right to 6e-8 of itself, and
    for costs that were rounded to float32 before, as right as they are. Where several plans are optimal the gradient is
    that of the plan which the solver found, always the same one. Gradients in masses are potentials with mean 0, since
    masses keep their total. There is no second derivative.

    Examples
    --------
    >>> import torch
    >>> from asot import gradients
    >>> cost = torch.tensor([[[0.0, 2.0], [1.0, 4.0]], [[1.0, 1.0], [3.0, 0.0]]], requires_grad=True)
    >>> values = gradients.emd(cost)
    >>> values
    tensor([1.5000, 0.5000], grad_fn=<...>)
    >>> values.sum().backward()
    >>> cost.grad[0]
    tensor([[0.0000, 0.5000],
            [0.5000, 0.0000]])
    """
    torch = import_torch()
    given = {name: tensor for name, tensor in (("cost", cost), ("a", a), ("b", b)) if tensor is not None}
    check_tensors(given, "asot.emd_batch")
    single = cost.ndim == 2
    if single:
        cost, a, b = cost[None], None if a is None else a[None], None if b is None else b[None]
    if cost.ndim != 3:
        raise ValueError(f"cost must be a tensor (B, n, m) or (n, m); found shape {tuple(cost.shape)}")
    B, rows, columns = cost.shape
    sizes = [_as_sizes(torch, size, most, B, name) for size, most, name in ((n, rows, "n"), (m, columns, "m"))]
    a, b = (_as_masses(torch, mass, name, cost, k) for mass, name, k in ((a, "a", rows), (b, "b", columns)))
    passed = (None if x is None else without_second(x) for x in (cost, a, b))
    out = _operation()(*passed, *sizes)
    values = out[0][0] if single else out[0]
    return (values, EmdPlan(*(part.detach() for part in out[1:]))) if plans else values


def _as_sizes(torch: Any, given: Any, most: int, B: int, name: str) -> Tensor | None:
    if given is None:
        return None
    sizes: Tensor = torch.as_tensor(given)
    if sizes.dtype.is_floating_point or tuple(sizes.shape) != (B,):
        raise ValueError(f"{name} must be an integer tensor ({B},), one size per problem; found {tuple(sizes.shape)}")
    return sizes.to(torch.int64)


def _as_masses(torch: Any, mass: Tensor | None, name: str, cost: Tensor, k: int) -> Tensor | None:
    if mass is None:
        return None
    if tuple(mass.shape) == (k,) and cost.shape[0] != 1:
        mass = mass.expand(cost.shape[0], k)
    if tuple(mass.shape) != (cost.shape[0], k):
        raise ValueError(f"{name} must be a tensor ({cost.shape[0]}, {k}); found shape {tuple(mass.shape)}")
    return mass


# --------------------------------------------------------------------------------------------------- torch's operation


@functools.cache
def _operation() -> Any:
    """``asot::emd`` as torch knows it, made when it is first used."""
    torch = import_torch()

    def solve(
        cost: torch.Tensor,
        a: torch.Tensor | None,
        b: torch.Tensor | None,
        n: torch.Tensor | None,
        m: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        return _solve(cost, a, b, n, m)

    for name in ("cost", "a", "b", "n", "m"):
        solve.__annotations__[name] = torch.Tensor if name == "cost" else (torch.Tensor | None)
    solve.__annotations__["return"] = tuple[(torch.Tensor,) * 6]
    operation = torch.library.custom_op("asot::emd", solve, mutates_args=())
    operation.register_fake(_shapes)
    operation.register_autograd(_pull_back, setup_context=_keep)
    return operation


def _shapes(cost: Tensor, a: Tensor | None, b: Tensor | None, n: Tensor | None, m: Tensor | None) -> Any:
    torch = import_torch()
    B, rows, columns = cost.shape
    arcs = (B, rows + columns)
    return (
        cost.new_empty((B,)),
        cost.new_empty(arcs, dtype=torch.int64),
        cost.new_empty(arcs, dtype=torch.int64),
        cost.new_empty(arcs),
        cost.new_empty((B, rows)),
        cost.new_empty((B, columns)),
    )


def _solve(cost: Tensor, a: Tensor | None, b: Tensor | None, n: Tensor | None, m: Tensor | None) -> Any:
    torch = import_torch()
    B, rows, columns = cost.shape
    arrays = [None if x is None else x.detach().to("cpu", torch.float64).numpy() for x in (cost, a, b)]
    sizes = [None if x is None else x.cpu().numpy() for x in (n, m)]
    r = solve_batch(*read_problems(*arrays, *sizes), plans=True, n_jobs=torch.get_num_threads())
    arcs, potentials = r.solver.arcs, r.solver.potentials
    assert arcs is not None and potentials is not None
    shapes = (B,), (B, rows + columns), (B, rows + columns), (B, rows + columns), (B, rows), (B, columns)
    parts = r.values, arcs.source.astype(np.int64), arcs.sink.astype(np.int64), arcs.mass, potentials.f, potentials.g
    return tuple(
        torch.as_tensor(part.reshape(shape), device=cost.device, dtype=None if part.dtype == np.int64 else cost.dtype)
        for part, shape in zip(parts, shapes, strict=True)
    )


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    cost, a, b, n, m = inputs
    ctx.save_for_backward(n, m, *output[1:])
    ctx.set_materialize_grads(False)
    ctx.shape, ctx.has_masses = cost.shape, (a is not None, b is not None)


def _pull_back(ctx: Any, weights: Tensor | None, *others: Tensor | None) -> Any:
    if any(other is not None for other in others):
        raise RuntimeError("plans and potentials of asot.gradients.emd have no gradients; detach them")
    if weights is None:
        return (None,) * 5
    n, m, source, sink, mass, f, g = ctx.saved_tensors
    in_cost = in_a = in_b = None
    if ctx.needs_input_grad[0]:
        B, rows, columns = ctx.shape
        in_cost = mass.new_zeros((B, rows * columns)).scatter_add_(1, source * columns + sink, weights[:, None] * mass)
        in_cost = in_cost.view(B, rows, columns)
    if ctx.needs_input_grad[1]:
        in_a = weights[:, None] * _centred(f, n)
    if ctx.needs_input_grad[2]:
        in_b = weights[:, None] * _centred(g, m)
    return in_cost, in_a, in_b, None, None


def _centred(potential: Tensor, sizes: Tensor | None) -> Tensor:
    """Potentials (B, k) with mean 0 over the true entries, and 0 on padding."""
    if sizes is None:
        return potential - potential.mean(1, keepdim=True)
    torch = import_torch()
    inside = torch.arange(potential.shape[1], device=potential.device)[None] < sizes.to(potential.device)[:, None]
    mean = (potential * inside).sum(1, keepdim=True) / sizes.to(potential)[:, None].clamp(min=1)
    return (potential - mean) * inside
