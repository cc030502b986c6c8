"""Many problems, one cost: `emd_many`, `sinkhorn_many`, and `emd` for a single pair.

These are the low-level calls: histograms on k anchors go in, with the k × k cost that all of them share.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import ThreadpoolController

from asot import engine
from asot.pairs import ListedPairs, PairSet, make_pairs
from asot.progress import ProgressLike
from asot.result import Distances
from asot.sinks import Sink
from asot.solvers.base import Solver
from asot.solvers.debiased import Debiased
from asot.solvers.exact_shared import ExactSharedCost, Transport, solve_one
from asot.solvers.sinkhorn_cpu import SinkhornSharedCost
from asot.solvers.triangle import is_metric, worth_checking
from asot.validation import as_choice, as_cost, as_device, as_histograms, as_positive_int, as_reg, as_tol, to_array


def emd_many(
    A: ArrayLike,
    B: ArrayLike | None = None,
    *,
    cost: ArrayLike,
    pairs: ArrayLike | None = None,
    device: str = "auto",
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = False,
    sink: Sink | None = None,
) -> Any:
    """Exact optimal transport costs between many histograms under one shared cost.

    Parameters
    ----------
    A : array-like (N, k)
        Histograms, one per row, masses ≥ 0. Rows are scaled to total 1.
    B : array-like (M, l), optional
        A second set. Without it, distances are within A.
    cost : array-like (k, l)
        Cost between anchors, finite and ≥ 0; square, symmetric and zero on the diagonal without B. When it is a metric
        (which is checked) the common mass of a pair is cancelled first; any other cost is solved as it stands. Values
        are exact to a share of the largest cost (3e-14 at k = 150, 2e-12 at k = 2,000), so a huge entry that means
        "forbidden" costs digits.
    pairs : array-like of int (P, 2), optional
        Which pairs to solve. Default: all i < j within A, or all of A × B.
    device : {"auto", "cpu"}
    n_jobs : int, optional
        Threads, with joblib's meaning (None: 1, -1: every core).
    memory : int or str, optional
        Budget for scratch memory, beside inputs and result, such as ``"2G"``.
    progress : bool, None or callable
        None shows a bar on a terminal when it takes longer than a second; a function gets (done, total).
    sink : optional
        What to keep: see `asot.sinks`. Default: every value.

    Returns
    -------
    Distances, or what the sink returns.

    Examples
    --------
    >>> import numpy as np, asot
    >>> points = np.array([[0.0], [1.0], [3.0]])
    >>> cost = np.abs(points - points.T)
    >>> asot.emd_many([[1, 0, 0], [0, 1, 0], [0, 0.5, 0.5]], cost=cost).values
    array([1., 2., 1.])
    """
    as_device(device)
    checked_cost = as_cost(cost, square=B is None)
    first, second = _read_both(A, B, checked_cost)
    pair_set = make_pairs(len(first), None if second is None else len(second), pairs)
    solver = exact_solver(first, second, checked_cost, pair_set)
    return engine.run(pair_set, solver, sink, n_jobs=n_jobs, memory=memory, progress=progress)


def emd(a: ArrayLike, b: ArrayLike, cost: ArrayLike) -> Transport:
    """Exact optimal transport of one pair: value, sparse plan and dual potentials.

    Parameters
    ----------
    a : array-like (k,), b : array-like (l,)
        Masses ≥ 0, scaled to total 1.
    cost : array-like (k, l), finite and ≥ 0

    Returns
    -------
    Transport
        ``value``, ``plan`` (scipy.sparse.csr_array (k, l)), ``potentials`` (f (k,), g (l,)).

    Examples
    --------
    >>> import asot
    >>> value, plan, (f, g) = asot.emd([0.5, 0.5], [1.0, 0.0], [[0.0, 2.0], [2.0, 0.0]])
    >>> value
    1.0
    >>> plan.toarray()
    array([[0.5, 0. ],
           [0.5, 0. ]])
    """
    checked_cost = as_cost(cost, square=False)
    row, column = np.atleast_2d(to_array(a, "a")), np.atleast_2d(to_array(b, "b"))
    if len(row) != 1 or len(column) != 1:
        raise ValueError(f"a and b must be single histograms; found shapes {np.shape(a)} and {np.shape(b)}")
    first = as_histograms(row, "a", checked_cost.shape[0])
    second = as_histograms(column, "b", checked_cost.shape[1])
    return solve_one(first[0], second[0], checked_cost)


def sinkhorn_many(
    A: ArrayLike,
    B: ArrayLike | None = None,
    *,
    cost: ArrayLike,
    reg: float | str,
    pairs: ArrayLike | None = None,
    max_iter: int = 1000,
    tol: float | None = 1e-9,
    value: str = "transport",
    init: str = "ones",
    device: str = "auto",
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = False,
    sink: Sink | None = None,
) -> Any:
    """Entropic optimal transport between many histograms under one shared cost.

    Solves min ⟨T, C⟩ - ε H(T) with H(T) = -Σ T (log T - 1) for every pair. Stable for every ε > 0: where C/ε leaves the
    range of a float64 kernel, pairs are solved in the log domain. Pairs that Sinkhorn's iteration would take too long
    for are finished by Newton steps, which count as iterations.

    Parameters
    ----------
    A, B, cost, pairs, device, n_jobs, memory, progress, sink
        As in `emd_many`; any cost ≥ 0 will do.
    reg : float or "auto"
        ε > 0, in the units of the cost. "auto" takes 5 percent of the median positive cost.
    max_iter : int
        Limit on iterations; pairs that hit it have status ``Status.MAX_ITER``.
    tol : float or None
        Accuracy of the value relative to itself (down to about 1e-12 of the largest cost, which is what rounding leaves
        at the smallest ε), and largest marginal error in total mass. None runs exactly
        ``max_iter`` iterations: ``max_iter=50, tol=None`` is the paper's setting.
    value : {"transport", "regularised", "divergence"}
        ⟨T, C⟩ of the entropic plan; ⟨T, C⟩ - ε H(T); or the debiased Sinkhorn divergence, the regularised value minus
        the mean of the two self terms (needs histograms on the same anchors).
    init : {"ones", "target"}
        Scaling of the columns before the first iteration: 1, or the second histogram as in the paper's code. Matters
        only where iterations are few.

    Returns
    -------
    Distances, or what the sink returns. ``marginal_error``, ``n_iter`` and ``status`` are per pair.

    Examples
    --------
    >>> import numpy as np, asot
    >>> points = np.array([[0.0], [1.0], [3.0]])
    >>> cost = np.abs(points - points.T)
    >>> r = asot.sinkhorn_many([[1, 0, 0], [0, 1, 0], [0, 0.5, 0.5]], cost=cost, reg=0.01)
    >>> r.values.round(6)
    array([1., 2., 1.])
    >>> asot.Status(r.status[0]).name
    'CONVERGED'
    """
    as_device(device)
    as_choice(value, "value", ("transport", "regularised", "divergence"))
    checked_cost = as_cost(cost, square=B is None or value == "divergence")
    first, second = _read_both(A, B, checked_cost)
    pair_set = make_pairs(len(first), None if second is None else len(second), pairs)
    prepare = functools.partial(
        SinkhornSharedCost,
        cost=checked_cost,
        reg=as_reg(reg, checked_cost),
        max_iter=as_positive_int(max_iter, "max_iter"),
        tol=as_tol(tol),
        regularised=value != "transport",
        start_at_target=as_choice(init, "init", ("ones", "target")) == "target",
    )
    with one_thread_per_product():
        solver: Solver = prepare(first, second)
        if value == "divergence":

            def self_terms(histograms: NDArray[np.float64]) -> Distances:
                n = len(histograms)
                diagonal = ListedPairs(np.repeat(np.arange(n), 2).reshape(n, 2), n, n, symmetric=True)
                return engine.run(diagonal, prepare(histograms, None), n_jobs=n_jobs, memory=memory)

            row_terms = self_terms(first)
            solver = Debiased(solver, row_terms, row_terms if second is None else self_terms(second))
        return engine.run(
            pair_set, solver, sink, n_jobs=n_jobs, memory=memory, progress=progress, info={"value": value}
        )


@functools.cache
def _matrix_products() -> ThreadpoolController:
    """The thread pools behind NumPy's products; finding them takes longer than many a call."""
    return ThreadpoolController()


def one_thread_per_product() -> Any:
    """A context in which threads work on different tiles, not inside a matrix product."""
    return _matrix_products().limit(limits=1, user_api="blas")


def exact_solver(
    A: NDArray[np.float64], B: NDArray[np.float64] | None, cost: NDArray[np.float64], pairs: PairSet
) -> ExactSharedCost:
    """The exact solver for a clean problem: with common mass cancelled where the cost is known to be a metric."""
    cancel = worth_checking(len(cost), len(pairs)) and is_metric(cost)
    return ExactSharedCost(A, B, cost, cancel=cancel)


def _read_both(
    A: ArrayLike, B: ArrayLike | None, cost: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    first = as_histograms(A, "A", cost.shape[0])
    return first, None if B is None else as_histograms(B, "B", cost.shape[1])
