"""Many problems, one cost: `emd_many`, `sinkhorn_many`, and `emd` for a single pair.

These are the low-level calls: histograms on k anchors go in, with the k × k cost that all of them share.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot.data.reading import in_order_of_cost
from asot.entropic.cpu import Debiased, SinkhornSharedCost
from asot.entropic.cuda import SinkhornCuda
from asot.entropic.options import GPU_NEEDS, PRECISIONS, SinkhornOptions, choose_precision
from asot.exact import few_histograms
from asot.exact.cancel_and_check import CancelAndCheck, looks_like_metric
from asot.exact.cost_check import Read, held, is_metric, on_used_anchors, preparing_costs_more, seconds_per_pair
from asot.exact.cuda import solver as exact_cuda
from asot.exact.cuda.digits import TOO_FAR_APART, lacks_digits
from asot.exact.graph_metric import ExactOnGraph, graph_of
from asot.exact.one_problem import solve_matching, solve_small
from asot.exact.price import CALL_SECONDS, graph_pays, graph_seconds, shared_cost_gpu_seconds, shared_cost_seconds
from asot.exact.shared_cost import ExactSharedCost, solve_one
from asot.exact.with_plans import ExactCudaWithPlans, ExactWithPlans, KeepPlans
from asot.results.distances import Distances
from asot.results.plans import Transport
from asot.results.sinks import Kept, default_sink
from asot.run import devices
from asot.run.engine import NOTHING, Resources, Work, solve_work
from asot.run.executors import ProgressLike, one_thread_per_product
from asot.run.pairs import ListedPairs, PairSet, make_pairs
from asot.run.protocols import Notes, Sink, Solver
from asot.validation import as_choice, as_cost, as_histograms, cost_matrix, to_array


def emd_many(
    A: ArrayLike,
    B: ArrayLike | None = None,
    *,
    cost: ArrayLike,
    pairs: ArrayLike | None = None,
    device: str = "auto",
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
    sink: Sink[Kept] | None = None,
    plans: bool = False,
) -> Kept:
    """Exact optimal transport costs between many histograms under one shared cost.

    Parameters
    ----------
    A : array-like (N, k)
        Histograms, one per row, masses ≥ 0. Rows are scaled to total 1. Named columns are put in the order of a cost
        with names.
    B : array-like (M, l), optional
        A second set. Without it, distances are within A.
    cost : array-like (k, l)
        Cost between anchors, finite and ≥ 0; square, symmetric and zero on the diagonal without B. When it is a metric
        (which is checked, for all pairs at once or pair by pair) the common mass of a pair is canceled first; any other
        cost is solved without canceling. Where most anchors hold no mass, costs between those are not looked at. Values
        are exact to a share of the largest cost that a plan uses (3e-14 at k = 150, 2e-12 at k = 2,000): entries that
        mean "never" may be any large numbers, up to 1e300 times the others.
    pairs : array-like of int (P, 2), optional
        Which pairs to solve. Default: all i < j within A, or all of A × B.
    device, n_jobs, memory, progress, sink
        As in `pairwise`.
    plans : bool
        Also keep the optimal plan and potentials of every pair, in ``plans`` of the result (see `asot.Plans`).

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
    few_rows = B is not None or (isinstance(A, np.ndarray) and A.ndim == 2 and len(A) <= few_histograms.MOST_ROWS)
    if few_rows and pairs is None and sink is None and plans is False:
        few: Any = few_histograms.solve(A, B, cost, device, n_jobs, memory, progress)
        if few is not None:
            return few
    return run_emd(A, B, cost, Call(pairs, device, Resources(n_jobs, memory, progress), sink), plans=plans)


@dataclass(frozen=True)
class Call(Generic[Kept]):
    """What a call says beside its problems: which pairs, where they are solved, and where answers go."""

    pairs: ArrayLike | None
    device: str
    resources: Resources
    sink: Sink[Kept] | None
    notes: Notes = NOTHING
    """What is known about the run."""


def run_emd(A: ArrayLike, B: ArrayLike | None, cost: ArrayLike, call: Call[Kept], *, plans: bool = False) -> Kept:
    """`emd_many` for callers that know more about the run."""
    device, resources, sink, notes = call.device, call.resources, call.sink, call.notes
    devices.parse(device)
    first, second, checked_cost = _read_for_emd(*_in_order_of_cost(A, B, cost), cost, plans=plans)
    pair_set = make_pairs(len(first), None if second is None else len(second), call.pairs)
    jobs = resources.jobs
    graph = None
    if not plans and _graph_pays(first, second, len(pair_set)):
        graph = graph_of(checked_cost, symmetric=B is None, n_jobs=jobs)
    forced = graph is not None or plans or devices.parse(device)[0] == "cuda"
    if not forced and preparing_costs_more(first, second, checked_cost, len(pair_set)):
        cpu_seconds = len(pair_set) * seconds_per_pair(first, second) / jobs
        choice = devices.choose(device, unfit="rows with few anchors are solved on the CPU", cpu_seconds=cpu_seconds)
        cancel = looks_like_metric(checked_cost)
        by_itself = functools.partial(CancelAndCheck, first, second, checked_cost, cancel=cancel)
        return solve_work(Work(pair_set, by_itself, None, choice, notes), default_sink(sink), resources)
    cancel = graph is not None or is_metric(checked_cost, n_jobs=jobs, progress=resources.progress)
    on_cpu, on_gpu = ExactSharedCost, exact_cuda.ExactCuda
    if plans:
        if sink is not None:
            raise ValueError("plans=True only works with the default sink, which keeps every pair")
        sink = cast("Sink[Kept]", KeepPlans(checked_cost.shape))
        on_cpu, on_gpu = ExactWithPlans, ExactCudaWithPlans
    nodes = ExactSharedCost.count_nodes(checked_cost, cancel)
    how = {"cancel": cancel and not plans}
    cpu_solver: Callable[[], Solver] = functools.partial(on_cpu, first, second, checked_cost, **how)
    seconds = shared_cost_seconds(nodes)
    if graph is not None:
        cpu_solver, seconds = functools.partial(ExactOnGraph, first, second, graph), graph_seconds(nodes)
    cpu_seconds = len(pair_set) * seconds / jobs
    unfit = None
    if nodes > exact_cuda.MAX_NODES:
        counted = "anchors of a metric cost" if cancel else "rows and columns of a cost not known to be a metric"
        unfit = f"the exact GPU solver takes up to {exact_cuda.MAX_NODES} {counted}; found {nodes}"
    gpu_seconds = CALL_SECONDS + len(pair_set) * shared_cost_gpu_seconds(nodes, cancel=cancel)
    choice = devices.choose(device, cpu_seconds=cpu_seconds, gpu_seconds=gpu_seconds, unfit=unfit)
    if choice.gpus and lacks_digits(checked_cost, cancel=cancel):
        choice = devices.choose(device, unfit=TOO_FAR_APART, cpu_seconds=np.inf)
    gpu_solver = functools.partial(on_gpu, first, second, checked_cost, cancel=cancel)
    return solve_work(Work(pair_set, cpu_solver, gpu_solver, choice, notes, plans), default_sink(sink), resources)


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
    small = solve_small(a, b, cost)
    if small is not None:
        return small
    checked_cost = as_cost(cost, square=False)
    a, b = in_order_of_cost(a, cost, "a", rows=True), in_order_of_cost(b, cost, "b", rows=False)
    row, column = np.atleast_2d(to_array(a, "a")), np.atleast_2d(to_array(b, "b"))
    if len(row) != 1 or len(column) != 1:
        raise ValueError(f"a and b must be single histograms; found shapes {np.shape(a)} and {np.shape(b)}")
    first = as_histograms(row, "a", checked_cost.shape[0])
    second = as_histograms(column, "b", checked_cost.shape[1])
    matching = solve_matching(first[0], second[0], checked_cost)
    return solve_one(first[0], second[0], checked_cost) if matching is None else matching


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
    reg_m: float | None = None,
    precision: str = "auto",
    device: str = "auto",
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
    sink: Sink[Kept] | None = None,
) -> Kept:
    """Entropic optimal transport between many histograms under one shared cost.

    Solves min ⟨T, C⟩ - ε H(T) with H(T) = -Σ T (log T - 1) for every pair. Stable for every ε > 0: where C/ε leaves the
    range of a float64 kernel, pairs are solved in the log domain. Pairs that converge too slowly are finished by Newton
    steps, which count as iterations.

    Parameters
    ----------
    A, B, cost, pairs, device, n_jobs, memory, progress, sink
        As in `emd_many`, with any cost ≥ 0.
    reg : float or "auto"
        ε > 0, in the units of the cost. "auto" is 5 percent of the median positive cost.
    max_iter : int
        Limit on iterations; pairs that hit it have status ``Status.MAX_ITER``.
    tol : float or None
        Relative accuracy of the value (down to about 1e-12 of the largest cost, the limit of rounding at the smallest
        ε), and largest marginal error in total mass. None runs exactly ``max_iter`` iterations: ``max_iter=50,
        tol=None`` is the paper's setting.
    value : {"transport", "regularized", "divergence"}
        ⟨T, C⟩ of the entropic plan; ⟨T, C⟩ - ε H(T); or the debiased Sinkhorn divergence, the regularized value minus
        the mean of the two self terms (needs histograms on the same anchors).
    init : {"ones", "target"}
        Scaling of the columns before the first iteration: 1, or the second histogram as in the paper's code. Only
        matters if there are few iterations.
    reg_m : float, optional
        ρ > 0, in the units of the cost: the plan may miss the marginals, at a price of ρ KL, as in POT's
        `sinkhorn_unbalanced`. Rows are then *not* scaled to total 1. Solves min ⟨T, C⟩ + ε KL(T|a⊗b) + ρ KL(T1|a) + ρ
        KL(Tᵀ1|b); "regularized" is the value of this objective, and "divergence" includes the mass term of Séjourné et
        al. (2019). Only on the CPU, and with a tolerance. ``marginal_error`` is the distance to the row sums that the
        solution would have, as a share of the mass of T.
    precision : {"auto", "float32", "tf32", "float64"}
        Arithmetic. On a GPU: float32 by three TF32 products (relative error about 1e-6), one TF32 product (1e-3, twice
        as fast), or float64; "auto" uses float32 if ``tol`` allows it. On the CPU: float64, or float32 if you ask for
        it (about 1e-6, and half the time), for ``tol`` None or at least 1e-4. Where float32 cannot hold the kernel (max
        C/ε above 25), the CPU computes in float64; ``info["precision"]`` says which it was.

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
    devices.parse(device)
    as_choice(precision, "precision", PRECISIONS)
    checked_cost = as_cost(cost, square=B is None or value == "divergence")
    A, B = _in_order_of_cost(A, B, cost)
    how: dict[str, Any] = {"max_iter": max_iter, "tol": tol, "value": value, "init": init, "reg_m": reg_m}
    options = SinkhornOptions.read(checked_cost, reg=reg, **how)
    call = Call(pairs, device, Resources(n_jobs, memory, progress), sink)
    return run_sinkhorn(A, B, checked_cost, options, call, precision)


def run_sinkhorn(
    A: ArrayLike,
    B: ArrayLike | None,
    checked_cost: NDArray[np.float64],
    options: SinkhornOptions,
    call: Call[Kept],
    precision: str = "auto",
) -> Kept:
    """`sinkhorn_many` for callers that know more about the run, with options that were read."""
    resources, notes = call.resources, call.notes
    first, second = _read_both(A, B, checked_cost, scaled=options.reg_m is None)
    pair_set = make_pairs(len(first), None if second is None else len(second), call.pairs)
    arithmetic = choose_precision(precision, options.tol)
    choice = _choose_for_sinkhorn(call.device, precision, pair_set, checked_cost, options, resources.jobs)

    def solvers(A: Any, B: Any, *terms: Distances) -> tuple[Callable[[], Any], Callable[[], Any]]:
        """For the CPU and for GPUs."""
        narrow = "float32" if precision in ("float32", "tf32") else "float64"
        cpu = functools.partial(SinkhornSharedCost, A, B, checked_cost, options, narrow)
        gpu = functools.partial(SinkhornCuda, A, B, checked_cost, options, *terms, precision=arithmetic)
        return functools.partial(Debiased, cpu, *terms) if terms else cpu, gpu

    def self_terms(A: NDArray[np.float64]) -> Distances:
        n = len(A)
        diagonal = ListedPairs(np.repeat(np.arange(n), 2).reshape(n, 2), n, n, symmetric=True)
        quiet = replace(resources, progress=False)
        return solve_work(Work(diagonal, *solvers(A, None), choice), default_sink(None), quiet)

    with one_thread_per_product():
        notes, sink = replace(notes, info={**notes.info, "value": options.value}), default_sink(call.sink)
        terms: list[Distances] = []
        if options.value == "divergence":
            terms.append(self_terms(first))
            terms.append(terms[0] if second is None else self_terms(second))
        return solve_work(Work(pair_set, *solvers(first, second, *terms), choice, notes), sink, resources)


def _choose_for_sinkhorn(
    device: str, precision: str, pairs: PairSet, cost: NDArray[np.float64], options: SinkhornOptions, n_jobs: int
) -> devices.Choice:
    if device == "cpu" and precision == "tf32":
        raise ValueError("precision='tf32' is for GPUs; the CPU computes in 'float64' or 'float32'")
    work = len(pairs) * SinkhornSharedCost.seconds_per_pair(cost.shape, options.max_iter) / n_jobs
    return devices.choose(device, needs=GPU_NEEDS, cpu_seconds=work, unfit=options.only_on_cpu)


def _read_for_emd(A: ArrayLike, B: ArrayLike | None, cost: ArrayLike, *, plans: bool) -> Read:
    """Histograms and cost, on the anchors in use; plans name all anchors."""
    if plans:
        checked_cost = as_cost(cost, square=B is None)
        return Read(*_read_both(A, B, checked_cost), checked_cost)
    matrix = cost_matrix(cost)
    return on_used_anchors(*_read_both(A, B, matrix), matrix)


def _graph_pays(A: NDArray[np.float64], B: NDArray[np.float64] | None, n_pairs: int) -> bool:
    k = A.shape[1]
    together = int(held(A) + held(A if B is None else B))
    seconds = min(shared_cost_seconds(min(k, together)), seconds_per_pair(A, B))
    return graph_pays(k, seconds, n_pairs)


def _in_order_of_cost(A: ArrayLike, B: ArrayLike | None, cost: ArrayLike) -> tuple[ArrayLike, ArrayLike | None]:
    if not hasattr(cost, "reindex"):  # no names to go by
        return A, B
    return in_order_of_cost(A, cost, "A", rows=True), in_order_of_cost(B, cost, "B", rows=False)


def _read_both(
    A: ArrayLike, B: ArrayLike | None, cost: NDArray[np.float64], *, scaled: bool = True
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    first = as_histograms(A, "A", cost.shape[0], scaled=scaled)
    return first, None if B is None else as_histograms(B, "B", cost.shape[1], scaled=scaled)
