"""Independent solvers that the package is compared with: SciPy's HiGHS and POT's network simplex."""

from __future__ import annotations

import os

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

for _backend in ("PYTORCH", "JAX", "TENSORFLOW", "CUPY"):  # POT loads them all unless it is told not to
    os.environ.setdefault(f"POT_BACKEND_DISABLE_{_backend}", "1")

import ot  # noqa: E402

SCALE = 1e3
"""HiGHS's tolerances are absolute, at best 1e-10: costs and masses are enlarged to see that much further."""


def pot_values(A, B, cost, pairs):
    """POT's optimal cost of every listed pair."""
    cost = np.ascontiguousarray(cost, dtype=np.float64)
    A, B = (np.ascontiguousarray(H / H.sum(axis=1, keepdims=True)) for H in (A, B))
    return np.array([ot.emd2(A[i], B[j], cost, numItermax=10_000_000) for i, j in pairs])


def highs_values(A, B, cost, pairs, per_program=60):
    """HiGHS's optimal cost of every listed pair; the pairs of a program are its independent blocks."""
    parts = [pairs[start : start + per_program] for start in range(0, len(pairs), per_program)]
    return np.concatenate([_highs_program(A, B, cost, part) for part in parts])


def _highs_program(A, B, cost, pairs):
    blocks, totals, prices = [], [], []
    top = cost.max() or 1.0
    for i, j in pairs:
        rows, columns = np.flatnonzero(A[i]), np.flatnonzero(B[j])
        p, q = len(rows), len(columns)
        out = sparse.kron(sparse.eye_array(p), np.ones((1, q)))
        into = sparse.kron(np.ones((1, p)), sparse.eye_array(q))
        free = np.arange(q) != B[j, columns].argmax()  # one equation follows from the others: rounding may not matter
        blocks.append(sparse.vstack([out, into.tocsr()[free]]))
        totals += [A[i, rows] / A[i].sum(), B[j, columns[free]] / B[j].sum()]
        prices.append(cost[np.ix_(rows, columns)].ravel() / top)
    program = linprog(
        SCALE * np.concatenate(prices),
        A_eq=sparse.block_diag(blocks, format="csc"),
        b_eq=SCALE * np.concatenate(totals),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert program.status == 0, program.message
    ends = np.cumsum([len(price) for price in prices])[:-1]
    plans = np.split(program.x / SCALE, ends)
    return np.array([top * (price @ plan) for price, plan in zip(prices, plans, strict=True)])
