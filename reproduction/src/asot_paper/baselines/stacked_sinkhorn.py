"""Sinkhorn's iteration for a stack of pairs: in the kernel where float32 or float64 can hold it, else in logarithms.

It is the iteration of `asot_paper.baselines.own_kernel`, with all pairs in step. Sums outside of a range that is safe
for their type are noted, and the pairs they belong to are solved again in a finer one, in the end with logarithms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from asot_paper.baselines.own_kernel import KERNEL_RANGE, LARGEST, SMALLEST
from asot_paper.baselines.stacked import Stack

Float = NDArray[np.float64]


class Limits(NamedTuple):
    """What a type of floats can hold without loss."""

    exponent: float  # largest max C/ε for which exp(-C/ε) is formed
    smallest: float  # sums below this are not used
    largest: float  # nor those above


LIMITS = {
    torch.float32: Limits(80.0, 1e-28, 1e28),
    torch.float64: Limits(KERNEL_RANGE, SMALLEST, LARGEST),
}


class Problem(NamedTuple):
    """What the pairs of a stack transport."""

    stack: Stack
    cost: Tensor  # (E,) float64, row by row
    a: Tensor  # (R,) float64
    b: Tensor  # (Q,) float64
    start: Tensor  # (Q,) float64, the first V
    reg: float
    max_iter: int


def out_of_reach(problem: Problem, dtype: torch.dtype) -> NDArray[np.bool_]:
    """Pairs whose kernel cannot be formed in this type (P,)."""
    far = problem.stack.largest(problem.cost) > LIMITS[dtype].exponent * problem.reg
    return np.asarray(far.cpu().numpy())


def in_kernel(problem: Problem, dtype: torch.dtype, stop: NDArray[np.int64]) -> tuple[Float, Float, NDArray[np.bool_]]:
    """Values and marginal errors (P,), and which pairs left the range of the type: their answers mean nothing."""
    stack, limits = problem.stack, LIMITS[dtype]
    KM = problem.cost / problem.reg  # costs in units of ε: in those of the points they may be out of range
    K = torch.exp(-KM)
    KM = KM.mul_(K).to(dtype)
    K = K.to(dtype)
    by_row, by_column = stack.by_row.matrix(K), stack.by_column.matrix(stack.transposed(K))
    a, b, v = (x.to(dtype) for x in (problem.a, problem.b, problem.start))
    u = a
    low = [torch.full_like(x, torch.inf) for x in (a, b)]
    high = [torch.zeros_like(x) for x in (a, b)]
    for _ in range(problem.max_iter):
        if stop[0] != 0:
            break
        row_sums = by_row(v)
        u = a / row_sums
        column_sums = by_column(u)
        v = b / column_sums
        for side, sums in enumerate((row_sums, column_sums)):
            torch.minimum(low[side], sums, out=low[side])
            torch.maximum(high[side], sums, out=high[side])
    lost = [~((x >= limits.smallest) & (y <= limits.largest)) for x, y in zip(low, high, strict=True)]
    values, error = _answer(stack, K, KM, u, v, a)
    return problem.reg * values, error, stack.any_of(*lost).cpu().numpy()


def in_logarithms(problem: Problem, stop: NDArray[np.int64]) -> tuple[Float, Float]:
    """The same iterations for any C/ε, in float64.

    An iteration with log-sum-exp is followed by iterations in the kernel exp(φ_i + ψ_j - C_ij/ε), which is the present
    plan, as long as their sums stay in range.
    """
    stack, limits = problem.stack, LIMITS[torch.float64]
    rows, columns = stack.by_row, stack.by_column
    M = problem.cost / problem.reg
    MT = stack.transposed(M)
    log_a, log_b, psi = (torch.log(x) for x in (problem.a, problem.b, problem.start))
    done = 0
    u, v, K = problem.a, problem.b, M
    while done < problem.max_iter and stop[0] == 0:
        phi = log_a - rows.log_sum_exp(psi[rows.column] - M)
        psi = log_b - columns.log_sum_exp(phi[columns.column] - MT)
        K = torch.exp(rows.spread(phi) + psi[rows.column] - M)
        by_row = rows.matrix(K)
        by_column = columns.matrix(torch.exp(columns.spread(psi) + phi[columns.column] - MT))
        u, v = torch.ones_like(phi), torch.ones_like(psi)
        done += 1
        while done < problem.max_iter and stop[0] == 0:
            row_sums = by_row(v)
            column_sums = by_column(problem.a / row_sums)
            if not (_within(row_sums, limits) and _within(column_sums, limits)):
                break
            u, v = problem.a / row_sums, problem.b / column_sums
            done += 1
        psi = psi + torch.log(v)
    return _answer(stack, K, K * problem.cost, u, v, problem.a)


def _within(sums: Tensor, limits: Limits) -> bool:
    return bool(((sums >= limits.smallest) & (sums <= limits.largest)).all())


def _answer(stack: Stack, K: Tensor, KC: Tensor, u: Tensor, v: Tensor, a: Tensor) -> tuple[Float, Float]:
    """⟨T, C⟩ and Σ|T1 - a| of every pair, T = diag(u) K diag(v)."""
    values = stack.sum_of_rows(u * stack.by_row.matrix(KC)(v))
    error = stack.sum_of_rows((u * stack.by_row.matrix(K)(v) - a).abs())
    return values.cpu().numpy(), error.cpu().numpy()
