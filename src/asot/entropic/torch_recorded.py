"""Sinkhorn's iterations as autograd records them: what a short, fixed number of them computes, differentiated exactly.

Nothing is done in place here, and every step is finite where there is no mass, so that gradients are finite as well.
Everything else is as `asot.entropic.options` says.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from asot.entropic.options import LOOK_EVERY, SinkhornOptions
from asot.entropic.shared_kernel import regularized_values
from asot.entropic.torch_solver import KERNEL_RANGE


def recorded_values(
    A: Tensor, B: Tensor, cost: Tensor, rows: Tensor, columns: Tensor, how: SinkhornOptions
) -> tuple[Tensor, Tensor]:
    """Values (P,) of pairs after recorded Sinkhorn iterations, and which of them are unfinished.

    All pairs iterate until the last one has converged. Potentials are those of `asot.entropic.torch_solver`.
    """
    a, b, M, eps = A[rows], B[columns], cost / how.reg, torch.finfo(cost.dtype).eps
    largest = float(M.detach().max())
    in_kernel = 2 * largest <= KERNEL_RANGE[cost.dtype]  # gradients divide by its products once more than values do
    fit_rows, fit_columns = _soft_minimum(M, in_kernel), _soft_minimum(M.T, in_kernel)
    goal = None if how.tol is None else max(how.tol, 4.5 * eps * (1.0 + largest))
    unfinished = torch.full((len(rows),), goal is not None, device=cost.device)
    c = fit_rows(torch.ones_like(b), torch.zeros_like(b))
    for iteration in range(1, how.max_iter + 1):
        d = fit_columns(a, c)
        next_c = fit_rows(b, d)
        row_sums = a * _bounded_exp(c - next_c)
        if goal is not None and (iteration % LOOK_EVERY == 0 or iteration == how.max_iter):
            unfinished = (row_sums.detach() - a.detach()).abs().sum(1) > goal
            if not bool(unfinished.any()):
                break
        if iteration < how.max_iter:
            c = next_c
    if how.regularized:
        return how.reg * regularized_values(torch, how, a, b, c, d, row_sums), unfinished
    if in_kernel:
        return how.reg * ((a * c.exp()) * ((b * d.exp()) @ (M * (-M).exp()).T)).sum(1), unfinished
    plans = a[:, :, None] * (b[:, None, :] * _bounded_exp(c[:, :, None] + d[:, None, :] - M))
    return how.reg * (plans * M).sum((1, 2)), unfinished


def _soft_minimum(M: Tensor, in_kernel: bool) -> Callable[[Tensor, Tensor], Tensor]:
    """The map of masses b and potentials d, both (P, l), to c_i = -log Σ_j b_j exp(d_j - M_ij), (P, k).

    Its gradient is finite also in masses that are 0.
    """
    if in_kernel:
        KT = (-M).exp().T
        return lambda b, d: -((b * d.exp()) @ KT).log()

    def stable(b: Tensor, d: Tensor) -> Tensor:
        exponents = d[:, None, :] - M  # (P, k, l)
        top = (exponents + b.log()[:, None, :]).detach().amax(2, keepdim=True)
        return -(top[:, :, 0] + (b[:, None, :] * _bounded_exp(exponents - top)).sum(2).log())

    return stable


def _bounded_exp(exponents: Tensor) -> Tensor:
    """exp, finite everywhere. Only entries without mass, or with next to none, ever meet the bound."""
    return exponents.clamp(max=float(np.log(torch.finfo(exponents.dtype).max)) - 1.0).exp()
