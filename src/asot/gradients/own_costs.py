"""An exact loss of cost matrices: B problems, each with a cost of its own.

By the envelope theorem the gradient of a value in the costs is its optimal plan, and in the masses the potentials, so
that nothing is differentiated through a solver. A plan of the simplex has at most n + m - 1 entries; they are kept, and
the backward pass costs no more than writing the gradient down (docs/method.md §16).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from asot.gradients.tensors import check_integers, check_tensors, dtype_name, import_torch

if TYPE_CHECKING:
    from torch import Tensor


class EmdPlan(NamedTuple):
    """Optimal plans of B problems, sparse: entry e of problem b ships ``mass[b, e]`` from row ``source[b, e]`` to
    column ``sink[b, e]``; where there are fewer entries than room, masses are 0. Half-precision costs have plans and
    potentials in float32."""

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
    a, b : tensor (B, n) and (B, m), or (n,) and (m,) for all problems, optional
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
    masses keep their total. Totals of a problem may differ by 1e-6 of themselves, or by the rounding of the masses'
    dtype if that is more. The gradient of a problem without mass is 0, and so are its potentials. There is no second
    derivative and no forward mode.

    The solver runs on the CPU, on `torch.get_num_threads()` threads, and for tensors on an NVIDIA GPU there, if CuPy is
    installed and problems have up to 4,096 rows and columns (1,536 on GPUs with the least shared memory); a square one
    of equal masses may have 23,000.

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
    masses = {name: mass for name, mass in (("a", a), ("b", b)) if mass is not None}
    check_tensors({"cost": cost, **masses}, "asot.emd_batch")
    single = cost.ndim == 2
    cost = cost[None] if single else cost
    if cost.ndim != 3:
        raise ValueError(f"cost must be a tensor (B, n, m) or (n, m); found shape {tuple(cost.shape)}")
    B, rows, columns = cost.shape
    n, m = (_as_sizes(torch, size, B, name, cost.device) for size, name in ((n, "n"), (m, "m")))
    a, b = (_as_masses(mass, name, B, k, single) for mass, name, k in ((a, "a", rows), (b, "b", columns)))
    from asot.gradients import operations

    potentials = plans or any(mass is not None and mass.requires_grad for mass in (a, b))
    values, ends, *kept = operations.emd(cost, a, b, n, m, potentials)
    values = values[0] if single else values
    return (values, EmdPlan(*(part.detach() for part in (*ends.unbind(), *kept)))) if plans else values


def _as_sizes(torch: Any, given: Any, B: int, name: str, device: Any) -> Tensor | None:
    if given is None:
        return None
    meaning = f"an integer tensor ({B},), one size per problem"
    sizes: Tensor = check_integers(given, name, meaning)
    if tuple(sizes.shape) != (B,):
        raise ValueError(f"{name} must be {meaning}; found {dtype_name(sizes)} {tuple(sizes.shape)}")
    if sizes.device.type != "cpu" and sizes.device != device:
        raise ValueError(f"{name} is on {sizes.device}, cost on {device}; move {name} there or to the CPU")
    return sizes.to(torch.int64)


def _as_masses(mass: Tensor | None, name: str, B: int, k: int, single: bool) -> Tensor | None:
    """Masses (B, k), also where all problems have the same (k,)."""
    if mass is None:
        return None
    if tuple(mass.shape) == (k,):
        return mass.expand(B, k)
    if single or tuple(mass.shape) != (B, k):
        expected = f"({k},)" if single else f"({B}, {k})"
        raise ValueError(f"{name} must be a tensor {expected}; found shape {tuple(mass.shape)}")
    return mass
