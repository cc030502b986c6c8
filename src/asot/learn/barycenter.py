"""The histogram nearest to many: min over b of Σ_i w_i W(h_i, b), on shared anchors.

Exact, it is one linear program, solved by HiGHS, for small problems. With an entropic term it is iterative Bregman
projections (Benamou, Carlier, Cuturi, Nenna, Peyré 2015), for any size: alternately match every histogram, and set the
other marginals of all plans to their weighted geometric mean. The iterations run on logarithms, so no ε is too small
for float64.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from asot._typing import Float, Info
from asot.data.reading import in_order_of, in_order_of_cost
from asot.histograms import emd_many
from asot.run.protocols import Status
from asot.validation import as_cost, as_histograms, as_positive_int, as_reg, as_tol, to_float_array

LARGEST_PROGRAM = 300_000
"""Exact linear programs with more variables are refused; they would take minutes."""

STEPS = 6
"""Iterations after which plans are compared."""

MOST_COST = 150.0
"""Costs over ε up to which potentials, which differ by four times as much at most, have exponentials in range."""


class Barycenter(NamedTuple):
    """``masses, value, info = asot.barycenter(histograms, cost)``."""

    masses: Float
    """The barycenter (k,), of total 1."""
    value: float
    """Σ_i w_i W(h_i, masses), always computed by exact solves."""
    info: Info
    """How the masses were found: method and reg; if entropic, iterations, status, and how much mass the plans disagree
    on."""

    def __repr__(self) -> str:
        held = int((self.masses > 0).sum())
        return f"Barycenter: mass on {held:,} of {len(self.masses):,} anchors, mean distance {self.value:.4g}"


def barycenter(
    histograms: ArrayLike,
    cost: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    reg: float | str | None = None,
    max_iter: int = 1000,
    tol: float = 1e-7,
) -> Barycenter:
    """The histogram b with the smallest Σ_i w_i W(h_i, b).

    Parameters
    ----------
    histograms : array-like (N, k)
        On shared anchors: ``space.histograms(D)``. Rows are scaled to total 1.
    cost : array-like (k, k)
        ``space.cost``.
    weights : array-like (N,), optional
        ≥ 0, scaled to total 1. Default: all equal. Where weights and histograms both have a pandas index, rows are
        matched by it.
    reg : float, "auto" or None
        None solves the linear program exactly, up to 300,000 variables (the number of positive masses, times k). A
        number is the ε of the entropic problem, whose barycenter is smoother; "auto" is 5 percent of the median cost.
    max_iter, tol
        Entropic: iterations end when the plans of all histograms agree on the barycenter up to ``tol`` in total mass.
        If ``max_iter`` comes first, a warning says so, and ``info["status"]`` is "MAX_ITER".

    Examples
    --------
    >>> import numpy as np, asot
    >>> line = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    >>> masses, value, info = asot.barycenter(np.eye(5)[[0, 2, 4]], line)
    >>> masses, round(value, 6)
    (array([0., 0., 1., 0., 0.]), 1.333333)
    """
    found = find_barycenter(histograms, cost, weights, reg=reg, max_iter=max_iter, tol=tol)
    if found.info.get("status") == Status.MAX_ITER.name:
        warnings.warn(
            f"the barycenter stopped at max_iter={max_iter} before tol={tol:g} was met: plans still disagree on "
            f"{found.info['disagreement']:.2g} of the mass; raise max_iter, reg or tol",
            RuntimeWarning,
            stacklevel=2,
        )
    return found


def find_barycenter(
    histograms: ArrayLike, cost: ArrayLike, weights: ArrayLike | None, *, reg: Any, max_iter: int, tol: float
) -> Barycenter:
    """`barycenter` for callers that accept an unfinished one."""
    price = as_cost(cost, square=True)
    named = in_order_of_cost(histograms, cost, "histograms", rows=True)
    table = as_histograms(named, "histograms", len(price))
    shares = _as_weights(in_order_of(weights, histograms, "weights", "histograms"), len(table))
    if reg is None:
        masses, info = _by_linear_program(table, price, shares)
    else:
        most, limit = as_positive_int(max_iter, "max_iter"), as_tol(tol) or 0.0
        masses, info = _by_projections(table, price, shares, as_reg(reg, price), most, limit)
    distances = emd_many(table, masses[None], cost=price, progress=False).values
    return Barycenter(masses, float(shares @ distances), info)


def _as_weights(weights: Any, n: int) -> Float:
    if weights is None:
        return np.full(n, 1.0 / n)
    array = np.asarray(to_float_array(weights, "weights"), dtype=np.float64)
    if array.shape != (n,):
        raise ValueError(f"weights must hold one number for each of the {n} histograms; found shape {array.shape}")
    if not np.isfinite(array).all() or array.min() < 0 or array.max() == 0:
        raise ValueError("weights must be finite, ≥ 0 and not all 0")
    array = array / array.max()
    return np.asarray(array / array.sum(), dtype=np.float64)


def _by_linear_program(table: Float, cost: Float, weights: Float) -> tuple[Float, Info]:
    """Plans from every positive mass to every anchor, whose column sums are the same b for all histograms."""
    from scipy import sparse
    from scipy.optimize import linprog

    used = np.flatnonzero(weights)
    owner, anchor = np.nonzero(table[used])
    k, rows = len(cost), len(owner)
    if rows * k > LARGEST_PROGRAM:
        raise ValueError(
            f"the exact barycenter of {len(used)} histograms on {k} anchors is a linear program of {rows * k:,} "
            f"variables, more than {LARGEST_PROGRAM:,}; use reg='auto' (or a number) for the entropic one"
        )
    scale = cost.max() or 1.0
    prices = (weights[used][owner, None] * len(used) * cost[anchor] / scale).ravel()
    leave = sparse.kron(sparse.eye_array(rows), np.ones((1, k)), format="csr")  # each mass is shipped
    member = sparse.csr_array((np.ones(rows), (owner, np.arange(rows))), shape=(len(used), rows))
    arrive = sparse.kron(member, sparse.eye_array(k), format="csr")  # (N·k, rows·k) column sums
    same = sparse.kron(np.ones((len(used), 1)), sparse.eye_array(k), format="csr")
    equations = sparse.block_array([[leave, None], [arrive, -same]], format="csc")
    totals = np.concatenate([table[used][owner, anchor], np.zeros(len(used) * k)])
    solve: Any = linprog  # (its type stubs only know dense matrices)
    program = solve(np.concatenate([prices, np.zeros(k)]), A_eq=equations, b_eq=totals, method="highs")
    if program.status != 0:
        raise RuntimeError(f"HiGHS could not solve the barycenter's linear program: {program.message}")
    masses = np.maximum(program.x[-k:], 0.0)
    return masses / masses.sum(), {"method": "linear program", "reg": None, "variables": rows * k + k}


def _by_projections(
    table: Float, cost: Float, weights: Float, reg: float, max_iter: int, tol: float
) -> tuple[Float, Info]:
    """Iterations on logarithms; g (N, k) are the potentials of the histograms, f (N, k) those of the barycenter's side.

    Whenever plans are compared, both steps are plain ones. Between that, steps are longer by a factor that the progress
    so far suggests: the answer is the same, since f keeps its mean 0, and it comes sooner.
    """
    used = weights > 0
    table, weights = table[used], weights[used]
    soft, held = _SoftSums(cost / reg), table > 0
    log_table = np.log(np.where(held, table, 1.0))
    f, g = np.zeros_like(table), np.zeros_like(table)
    masses = np.full(len(cost), 1.0 / len(cost))
    spread, done, step = np.inf, 0, 1.0
    while done < max_iter and spread > tol:
        done += 1
        compares = done % STEPS == 0 or done == max_iter
        factor = 1.0 if compares else step
        g += factor * (log_table - soft(f) - g)
        reached = soft(np.where(held, g, -np.inf))  # log of K v, for every histogram (N, k)
        common = weights @ reached
        if compares:
            # How far the plans are from agreeing on one barycenter. Small steps alone prove nothing.
            before, spread = spread, float(weights @ np.abs(np.exp(f + reached) - np.exp(common)).sum(axis=1))
            step = _step(step, (spread / before) ** (1.0 / STEPS))
            masses = np.exp(common - common.max())
        f += factor * (common - reached - f)
    status = Status.CONVERGED if spread <= tol else Status.MAX_ITER
    info = {"method": "Bregman projections", "reg": reg, "n_iter": done, "disagreement": spread}
    return masses / masses.sum(), info | {"converged": spread <= tol, "status": status.name}


def _step(step: float, shrinks: float) -> float:
    """The factor of the next steps, if by this one errors shrank so much in every iteration.

    Alternating steps are successive over-relaxation in two blocks: from its rate follows that of plain steps, and from
    that the best factor (Young 1954). Errors that do not shrink ask for shorter steps.
    """
    if not 0.0 < shrinks < 1.0:
        return 1.0 + 0.5 * (step - 1.0)
    plain = min((shrinks + step - 1.0) ** 2 / (shrinks * step**2), 0.999)
    best = 2.0 / (1.0 + np.sqrt(1.0 - plain))
    return float(max(step, best)) if shrinks > step - 1.0 else step


class _SoftSums:
    """log Σ_v exp(potential_v - cost_uv) of every row of potentials (N, k), for costs (k, k) over ε, symmetric."""

    def __init__(self, cost: Float) -> None:
        self._score, self._kernel = -cost, np.exp(-cost)
        self._in_range = bool(cost.max() <= MOST_COST)

    def __call__(self, potentials: Float) -> Float:
        """Out of range, the largest potential is taken out, and one matrix product does the rest. Where it underflows,
        because every v of large potential is far from u, the sum is taken term by term."""
        if self._in_range:
            return np.asarray(np.log(np.exp(potentials) @ self._kernel))
        top = potentials.max(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            result = np.log(np.exp(potentials - top) @ self._kernel) + top
        for i in np.flatnonzero(~(result - top > -600.0).all(axis=1)):
            terms = self._score + potentials[i]
            peak = terms.max(axis=1)
            result[i] = peak + np.log(np.exp(terms - peak[:, None]).sum(axis=1))
        return np.asarray(result, dtype=np.float64)
