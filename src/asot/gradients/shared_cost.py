"""Distances that torch can differentiate with respect to the histograms, the cost and, through the cost, the points.

No graph is recorded through a solver. The optimal value of a transport problem changes with its data as if the solution
were fixed (the envelope theorem): the potentials are its gradients with respect to the histograms, and the plan is its
gradient with respect to the cost. The entropic transport cost ⟨T, C⟩ is not an optimal value, so its solution is
differentiated implicitly, by one linear system per pair (docs/method.md §2). torch is imported when a function is
called.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from asot import histograms
from asot.entropic.options import SinkhornOptions
from asot.exact.cuda import solver as exact_cuda
from asot.exact.cuda.digits import lacks_digits
from asot.gradients.tensors import check_tensors, dtype_name, import_torch
from asot.run import devices
from asot.run.pairs import make_pairs, tiles
from asot.run.protocols import Status
from asot.validation import as_choice, as_cost, as_histograms

if TYPE_CHECKING:
    from torch import Tensor

    from asot.entropic.torch_solver import SinkhornTorch


def sinkhorn_many(
    A: Tensor,
    B: Tensor | None = None,
    *,
    cost: Tensor,
    reg: float | str,
    pairs: ArrayLike | None = None,
    max_iter: int = 1000,
    tol: float | None = 1e-9,
    value: str = "transport",
    gradient: str = "envelope",
    reg_m: float | None = None,
) -> Tensor:
    """Entropic transport between many histograms under one shared cost, with gradients.

    Parameters
    ----------
    A : tensor (N, k), float32 or float64
        Histograms, one per row, masses ≥ 0. Rows are scaled to total 1, and the scaling is differentiated.
    B : tensor (M, l), optional
        A second set. Without it, values are within A.
    cost : tensor (k, l)
        Finite and ≥ 0. Without B, and for "divergence", it must be square and symmetric with a zero diagonal, up to
        rounding; its gradient then is as well.
    reg : float or "auto"
        ε > 0, in the units of the cost. "auto" is 5 percent of the median positive cost, treated as a constant.
    pairs : array-like of int (P, 2), optional
        Which pairs. Default: all i < j within A, or all of A × B, row by row.
    max_iter, tol
        As in `asot.sinkhorn_many`. In float32, ``tol`` is met as far as rounding permits: to about 1e-6 of the largest
        cost over ε. A warning says how many pairs did not converge; their gradients are approximate.
    value : {"transport", "regularized", "divergence"}
        As in `asot.sinkhorn_many`, with the same default. "regularized" and "divergence" are quicker to differentiate:
        the gradient of "transport" takes a linear system per pair.
    gradient : {"envelope", "iterations"}
        "envelope" differentiates the solution by the envelope theorem, or implicitly for "transport". No iterations are
        recorded, and memory does not grow with their number. "iterations" records plain Sinkhorn iterations, with one
        graph for all pairs: what a short, fixed number of them computes (``tol=None``) is differentiated exactly.
    reg_m : float, optional
        Loose marginals, as in `asot.sinkhorn_many`: rows are not scaled. For "regularized" and "divergence", by
        "envelope".

    Returns
    -------
    tensor (P,), on the device and in the dtype of A

    Notes
    -----
    On an anchor without mass, gradients are one-sided derivatives, for mass that may only grow. Because of the entropy,
    that of the regularized value is -∞ there; it is returned without the entropy term, so it stays finite.

    Examples
    --------
    >>> import torch
    >>> from asot import gradients
    >>> points = torch.tensor([[0.0], [1.0], [3.0]], dtype=torch.float64, requires_grad=True)
    >>> histograms = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]], dtype=torch.float64)
    >>> cost = torch.cdist(points, points)
    >>> gradients.sinkhorn_many(histograms, cost=cost, reg=0.1, value="transport").sum().backward()
    >>> points.grad.round(decimals=6)
    tensor([[-1.0000],
            [ 0.5000],
            [ 0.5000]], dtype=torch.float64)
    """
    torch = import_torch()
    as_choice(gradient, "gradient", ("envelope", "iterations"))
    data = _read(A, B, cost, pairs, square=B is None or value == "divergence", scaled=reg_m is None)
    checked_cost = as_cost(data.cost.detach(), square=False)
    how = SinkhornOptions.read(checked_cost, reg=reg, max_iter=max_iter, tol=tol, value=value, reg_m=reg_m)
    if reg_m is not None and (value == "transport" or gradient == "iterations"):
        raise ValueError(
            "with reg_m, gradients are those of the objective: use value='regularized' or 'divergence', and "
            "gradient='envelope'"
        )
    solve = _differentiated
    if gradient == "iterations":
        from asot.entropic.torch_recorded import recorded_values as solve
    with torch.autocast(data.A.device.type, enabled=False):
        values, unfinished = solve(data.A, data.B, data.cost, data.rows, data.columns, how)
        if value == "divergence":
            for histograms, members in ((data.A, data.rows), (data.B, data.columns)):
                used, place = torch.unique(members, return_inverse=True)
                terms, unfinished_terms = solve(histograms, histograms, data.cost, used, used, how)
                values = values - 0.5 * terms[place]
                unfinished = unfinished | unfinished_terms[place]
    count = int(unfinished.sum())
    if count:
        warnings.warn(
            f"{count:,} of {len(values):,} pairs stopped at max_iter={max_iter} before the tolerance was met; their "
            "values and gradients are approximate; raise max_iter, reg or tol",
            RuntimeWarning,
            stacklevel=2,
        )
    return values


def emd_many(
    A: Tensor, B: Tensor | None = None, *, cost: Tensor, pairs: ArrayLike | None = None, n_jobs: int | None = None
) -> Tensor:
    """Exact optimal transport costs between many histograms under one shared cost, with gradients.

    Values come from `asot.emd_many`, on the GPU that holds the tensors if possible, and otherwise on the CPU. Where an
    optimal plan or potential is not unique, the value has a kink, and the gradient is one-sided.

    Parameters
    ----------
    A, B, cost, pairs
        As in `sinkhorn_many`.
    n_jobs : int, optional
        Threads, as in `asot.emd_many`.

    Returns
    -------
    tensor (P,), on the device and in the dtype of A

    Examples
    --------
    >>> import torch
    >>> from asot import gradients
    >>> histograms = torch.tensor([[0.75, 0.25], [0.5, 0.5]], requires_grad=True)
    >>> cost = torch.tensor([[0.0, 2.0], [2.0, 0.0]], requires_grad=True)
    >>> value = gradients.emd_many(histograms, cost=cost)
    >>> value.backward()
    >>> value.item()
    0.5
    >>> cost.grad
    tensor([[0.0000, 0.1250],
            [0.1250, 0.0000]])
    """
    torch = import_torch()
    data = _read(A, B, cost, pairs, square=B is None)
    device = _exact_device(data.cost)

    def solve() -> tuple[Tensor, _Pull]:
        first, second, shared = data.A.detach(), None if B is None else data.B.detach(), data.cost.detach()
        r = histograms.emd_many(
            first, second, cost=shared, pairs=pairs, device=device, n_jobs=n_jobs, progress=False, plans=True
        )
        assert r.plans is not None
        plans, like = r.plans, {"dtype": data.cost.dtype, "device": data.cost.device}
        f, g, mass = (torch.as_tensor(array, **like) for array in (plans.f, plans.g, plans.mass))
        pair = np.repeat(np.arange(len(r)), np.diff(plans.start))
        entry = plans.source * data.cost.shape[1] + plans.sink
        pair, entry = (torch.as_tensor(array, device=data.cost.device) for array in (pair, entry))

        def pull(w: Tensor, A: Tensor, B: Tensor, cost: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return (
                A.new_zeros(A.shape).index_add_(0, data.rows, w[:, None] * f),
                B.new_zeros(B.shape).index_add_(0, data.columns, w[:, None] * g),
                cost.new_zeros(cost.numel()).index_add_(0, entry, w[pair] * mass).view(cost.shape),
            )

        return torch.as_tensor(r.values, **like), pull

    values: Tensor = _given_gradients().apply(solve, data.A, data.B, data.cost)
    return values


# ------------------------------------------------------------------------------------------------------------ reading


class _Data(NamedTuple):
    A: Tensor  # (N, k), rows of total 1
    B: Tensor  # (M, l)
    cost: Tensor  # (k, l)
    rows: Tensor  # (P,) int64
    columns: Tensor  # (P,)


def _read(A: Tensor, B: Tensor | None, cost: Tensor, pairs: Any, *, square: bool, scaled: bool = True) -> _Data:
    """Check everything as the rest of the package does, then scale rows and symmetrize the cost, with gradients."""
    torch = import_torch()
    tensors = {"A": A, "cost": cost} if B is None else {"A": A, "B": B, "cost": cost}
    check_tensors(tensors, "asot.emd_many")
    for name, tensor in tensors.items():
        if tensor.dtype not in (torch.float32, torch.float64):
            raise ValueError(f"{name} must be float32 or float64, not {dtype_name(tensor)}")
        if tensor.dtype != A.dtype:
            raise ValueError(f"A is {A.dtype}, but {name} is {tensor.dtype}; give them one dtype")
    as_cost(cost.detach(), square=False)
    if square:
        cost = _symmetrized(cost)
    as_histograms(A.detach(), "A", cost.shape[0], scaled=scaled)
    if B is not None:
        as_histograms(B.detach(), "B", cost.shape[1], scaled=scaled)
    pair_set = make_pairs(len(A), None if B is None else len(B), pairs)
    indices = pair_set.indices(0, len(pair_set)) if len(pair_set) else (np.empty(0, np.int64),) * 2
    rows, columns = (torch.as_tensor(part, device=A.device) for part in indices)
    first, second = (_scaled(array) if scaled else array for array in (A, A if B is None else B))
    return _Data(first, first if B is None else second, cost, rows, columns)


def _scaled(histograms: Tensor) -> Tensor:
    """Rows of total 1; first divided by their peak, so that the total neither overflows nor underflows."""
    scaled = histograms / histograms.detach().amax(1, keepdim=True)
    return scaled / scaled.sum(1, keepdim=True)


def _symmetrized(cost: Tensor) -> Tensor:
    """The cost within one set. Rounding in `torch.cdist` and steps of finite differences do not count as asymmetry."""
    torch = import_torch()
    given = cost.detach()
    if len(cost) != cost.shape[1]:
        as_cost(given, square=True)
    both = 0.5 * (cost + cost.T)
    both = both * (1.0 - torch.eye(len(cost), dtype=cost.dtype, device=cost.device))
    if bool(((given - both.detach()).abs() > torch.finfo(cost.dtype).eps ** (1 / 3) * given.max()).any()):
        as_cost(given, square=True)
    return both


def _exact_device(cost: Tensor) -> str:
    """Exact solves stay on the GPU of the tensors, where CuPy reaches it and the problem fits the GPU's solver."""
    gpu = cost.device.index
    if cost.device.type != "cuda" or sum(cost.shape) > exact_cuda.MAX_NODES or gpu >= devices.gpu_count():
        return "cpu"
    given = as_cost(cost.detach(), square=False)
    return "cpu" if lacks_digits(given, cancel=False) else f"cuda:{gpu}"


# ---------------------------------------------------------------------------------------------------------- gradients

_Pull = Callable[..., "tuple[Tensor, Tensor, Tensor]"]
"""From weights w (P,) and the inputs A, B, cost to the gradients of Σ w_t value_t in each."""


@functools.cache
def _given_gradients() -> Any:
    """The `torch.autograd.Function` of (solve, A, B, cost), where ``solve()`` gives values and their `_Pull`."""
    torch = import_torch()
    from torch.autograd.function import once_differentiable

    class GivenGradients(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, solve: Callable[[], tuple[Tensor, _Pull]], *inputs: Tensor) -> Tensor:
            values, ctx.pull = solve()
            ctx.save_for_backward(*inputs)
            return values

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, weights: Tensor) -> Any:
            return None, *ctx.pull(weights, *ctx.saved_tensors)

    return GivenGradients


def _differentiated(
    A: Tensor, B: Tensor, cost: Tensor, rows: Tensor, columns: Tensor, how: SinkhornOptions
) -> tuple[Tensor, Tensor]:
    """Values (P,) of pairs, differentiable at the solution, and which of them are unfinished."""
    from asot.entropic.torch_solver import SinkhornTorch

    solver = SinkhornTorch(A, B, cost, how)
    solution = solver.solve(rows, columns)
    at_solution = _gradients_by_envelope if how.regularized else _gradients_implicitly
    per_tile = solver.pairs_per_tile if how.regularized and solver.in_kernel else solver.plans_per_tile

    def pull(w: Tensor, A: Tensor, B: Tensor, cost: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        sums = A.new_zeros(A.shape), B.new_zeros(B.shape), cost.new_zeros(cost.shape)
        for start, stop in tiles(len(rows), per_tile):
            i, j, c, d = (array[start:stop] for array in (rows, columns, solution.c, solution.d))
            in_a, in_b, in_cost = at_solution(solver, A[i], B[j], c, d, w[start:stop])
            weights = how.reg * w[start:stop, None]
            sums[0].index_add_(0, i, weights * in_a.to(w.dtype))
            sums[1].index_add_(0, j, weights * in_b.to(w.dtype))
            sums[2].add_(in_cost)
        return sums

    values: Tensor = _given_gradients().apply(lambda: (solution.values, pull), A, B, cost)
    return values, solution.status == int(Status.MAX_ITER)


def _gradients_by_envelope(
    solver: SinkhornTorch, a: Tensor, b: Tensor, c: Tensor, d: Tensor, w: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of regularized values, in units of ε: with respect to a (P, k) and b (P, l), and the weighted sum (k,
    l) of the plans.

    The first are the potentials; with loose marginals Σb - e^(-σ c) + (1 - e^(-σ c)) / σ, whose first term is that of
    the objective's (Σa)(Σb).

    Where the kernel exists, Σ_t w_t diag(u_t) K diag(v_t) = K ∘ (Uᵀ diag(w) V), and no plan is formed.
    """
    import torch

    from asot.entropic.shared_kernel import log_or_zero

    options = solver.options
    if options.sigma:
        totals = (b, a) if options.value == "regularized" else (0.0 * b, 0.0 * a)
        in_a, in_b = (
            other.sum(1, keepdim=True) + 1.0 / options.sigma - (1.0 + 1.0 / options.sigma) * (-options.sigma * x).exp()
            for other, x in zip(totals, (c, d), strict=True)
        )
        potentials = in_a, in_b
    else:
        potentials = log_or_zero(torch, a) + c, log_or_zero(torch, b) + d
    if solver.in_kernel:
        shift = 0.5 * (d.amax(1, keepdim=True) - c.amax(1, keepdim=True))  # c + t and d - t are the same plan
        U, V = w[:, None] * a * (c + shift).exp(), b * (d - shift).exp()
        return *potentials, solver.K * (U.T @ V)
    plans = (a.to(c.dtype).log() + c)[:, :, None] + (b.to(d.dtype).log() + d)[:, None, :] - solver.M
    return *potentials, _weighted_sum(w, plans.exp_())


def _gradients_implicitly(
    solver: SinkhornTorch, a: Tensor, b: Tensor, c: Tensor, d: Tensor, w: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of transport costs, in units of ε: (P, k), (P, l), and the weighted sum (k, l) of those in the cost."""
    from asot.entropic.torch_solver import transport_gradients

    a, b, d = (array.to(solver.M.dtype) for array in (a, b, d))
    in_a, in_b, in_cost = transport_gradients(a, b, d, solver.M)
    return in_a, in_b, _weighted_sum(w, in_cost)


def _weighted_sum(w: Tensor, plans: Tensor) -> Tensor:
    """Σ_t w_t plans_t: (P,), (P, k, l) → (k, l)."""
    return (w.to(plans.dtype) @ plans.flatten(1)).view(plans.shape[1:])
