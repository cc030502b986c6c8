"""The high-level calls: a collection in, every distance out.

`pairwise` finds the cheapest way to the error that is asked for, or goes through an anchor space on request;
`pairwise_exact` solves the original problems. Both are thin: read the input, hand over.
"""

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from asot.anchors.resolve import fitted_space
from asot.anchors.space import AnchorSpace
from asot.bounds.calibration import Running
from asot.bounds.guarantee import MaxError, as_max_error
from asot.data.distributions import Distributions, read_both
from asot.exact.solvers import cpu_solver, is_plain, on_cpu
from asot.jit.costs import Metric
from asot.run import devices, dispatch, engine
from asot.run.call import Call
from asot.run.exactly import solve_exactly
from asot.run.on_anchors import solve_on_anchors
from asot.run.pairs import make_pairs
from asot.run.progress import ProgressLike
from asot.run.result import named
from asot.run.sinks import Callback, Counts, Dense, Kept, Radius, Sink
from asot.run.strategy import as_aim, as_strategy
from asot.run.to_aim import calibrated, solve_to_aim
from asot.run.work import Work
from asot.validation import as_bytes, as_choice, as_positive_int, as_seed


def pairwise(
    D: Distributions,
    E: Distributions | None = None,
    *,
    error: float | str | None = "2%",
    max_error: float | str | None = None,
    space: Any = None,
    n_anchors: int | None = None,
    estimate: str = "auto",
    bounds: bool | str = False,
    reg: float | str | None = None,
    pairs: ArrayLike | None = None,
    strategy: dict[str, Any] | None = None,
    device: str = "auto",
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
    random_state: Any = None,
    sink: Sink[Kept] | None = None,
) -> Kept:
    """Wasserstein distances W_1 within a collection, or between two, as right as you ask for.

    Parameters
    ----------
    D : Distributions (N)
        Or a list of point arrays (n_i, d).
    E : Distributions (M), optional
        A second collection. Without it, distances are within D.
    error : float, str or None
        What a value may be off by in the root mean square: a share of the mean distance (``"2%"``), or an amount in
        its units. asot takes the cheapest way that a measurement on held-out pairs shows to be that good: exact
        solves, or anchors with a fit. ``info["strategy"]`` says what was chosen and why, and what was measured. None:
        no aim, the cheapest way.
    max_error : float or str, optional
        What no value may be off by, in the units of the distance, or as a share of it (``"2%"``): proven pair by pair.
        Pairs whose bounds are farther apart are solved exactly and have the status ``Status.EXACT``.
    space : AnchorSpace or anchor learner, optional
        Anchors of your own. A learner that is not fitted is fitted (a copy of it) on the collection. Default: anchors
        are learned by k-means, as many as the strategy takes.
    n_anchors : int, optional
        The number of anchors where `space` is None, if you want to fix it.
    estimate : {"auto", "anchor", "calibrated"}
        "auto" meets the error. "anchor" is the paper's distance on the anchors, untouched. "calibrated" is that
        distance corrected by a fit on 64 pairs that are solved exactly, whatever error it leaves.
        ``info["calibration"]`` tells the fit and its error on held-out pairs, ``error`` of the result the error to be
        expected of every pair.
    bounds : bool, or "radius", "cells", "points"
        Also give ``lower`` and ``upper`` bounds on the true W_1 of every pair, proven for Euclidean spaces; values
        outside them are moved to the nearer end (not for entropic ones). True looks at every pair of points where
        distributions have up to four points per anchor ("points"), else only at what they have near each anchor
        ("cells"); "radius" takes no time. Entropic solves (`reg`) are bounded by what their scalings prove.
    reg : float, "auto" or None
        The ε of entropic transport on the anchors; "auto" chooses it from the cost. Entropic distances are a quantity
        of their own, to which `error` does not apply.
    pairs : array-like of int (P, 2), optional
        Which pairs to solve. Default: all i < j within D, or all of D × E.
    strategy : dict, optional
        ``info["strategy"]`` of another call: do the same again, without choosing.
    device : {"auto", "cpu", "cuda", "cuda:N"}
        "auto" takes the GPUs of the machine when there are any and the work is worth it; ``info`` says where the pairs
        were solved and why. "cuda" takes all visible GPUs, or fails with the reason why it cannot. Bounds and
        calibrated estimates are made on the CPU.
    n_jobs : int, optional
        Threads, with joblib's meaning (None: 1, -1: every core).
    memory : int or str, optional
        Budget for scratch memory, beside inputs and result, such as ``"2G"``.
    progress : bool, None or callable
        None shows a bar on a terminal or in a notebook when it takes longer than a second.
    random_state : int, RandomState or None
        Seed for learning anchors and for choosing exact pairs. None is a fixed one, except with ``estimate="anchor"``.
    sink : optional
        What to keep: see `asot.sinks`. Default: every value.

    Returns
    -------
    Distances, or what the sink returns.

    Examples
    --------
    >>> import numpy as np, asot
    >>> rng = np.random.default_rng(0)
    >>> D = asot.Distributions.from_list([rng.normal(i, 1.0, size=(30 + i, 2)) for i in range(4)])
    >>> r = asot.pairwise(D)
    >>> r.matrix().shape
    (4, 4)
    >>> r.info["strategy"]["kind"], r.info["strategy"]["relative_error"]
    ('exact', 0.0)
    """
    started = time.perf_counter()
    D, E = read_both(D, E)
    as_choice(estimate, "estimate", ("auto", "anchor", "calibrated"))
    aim = as_aim(error)
    accepted = None if max_error is None else as_max_error(max_error)
    level = _bounds_level(bounds, accepted)
    if reg is not None and error not in ("2%", None):
        raise ValueError(
            "error= is about W_1, and entropic distances (reg=) are a quantity of their own; leave out error"
        )
    if strategy is not None and (estimate != "auto" or reg is not None):
        raise ValueError("strategy= says how values are made; leave out estimate and reg")
    _check_together(D, E, estimate, reg, bounds, sink)
    _check_device(device, refined=level is not None or estimate == "calibrated")
    pair_set = make_pairs(len(D), None if E is None else len(E), pairs)
    running = Running(n_jobs, memory, progress)
    call = Call(D, E, pair_set, pairs, sink, device, running, level, accepted, started)
    if n_anchors is not None:
        n_anchors = _check_number(n_anchors, space)
    given = space is not None
    aimed = estimate == "auto" and reg is None
    anchors = None
    if given or not aimed:
        learner = space if given else _default_learner(n_anchors, random_state, device)
        anchors = fitted_space(learner, call.both, random_state, device)
        if anchors.dim != D.dim:
            raise ValueError(f"the collection is in {D.dim} dimensions, but the anchors are in {anchors.dim}")
    if aimed and (anchors is None or anchors.why_no_bounds is None):
        way = None if strategy is None else as_strategy(strategy, given)
        result: Any = solve_to_aim(
            call, aim, as_seed(random_state), space=anchors, n_anchors=n_anchors, strategy=way
        )  # fmt: skip
    elif estimate == "calibrated":
        assert anchors is not None
        result = calibrated(call, anchors, as_seed(random_state))
    else:
        assert anchors is not None
        made_before = isinstance(space, AnchorSpace) or hasattr(space, "space_")
        result = solve_on_anchors(call, anchors, reg, given=made_before)
    return named(result, D.ids, D.ids if E is None else E.ids)


def _default_learner(n_anchors: int | None, random_state: Any, device: str) -> Any:
    from asot.anchors.kmeans import KMeansAnchors

    return KMeansAnchors(n_anchors, random_state=random_state, device=device)


def _check_number(n_anchors: Any, space: Any) -> int | None:
    if space is not None:
        raise ValueError("n_anchors is for a space that is learned here; pass either space or n_anchors")
    return None if n_anchors == "auto" else as_positive_int(n_anchors, "n_anchors")


def _bounds_level(bounds: bool | str, accepted: MaxError | None) -> str | None:
    """Which bounds to compute: none, or a level of `asot.bounds.error_bars.make_bounds`."""
    if isinstance(bounds, (bool, np.bool_)):
        return "auto" if bounds or accepted is not None else None
    return as_choice(bounds, "bounds", ("radius", "cells", "points"))


def _check_together(
    D: Distributions, E: Distributions | None, estimate: str, reg: Any, bounds: bool | str, sink: Any
) -> None:
    """Refuse options that mean nothing together."""
    n = len(D) + (0 if E is None else len(E))
    if estimate == "calibrated" and reg is not None:
        raise ValueError("estimate='calibrated' corrects the exact anchor distance; use reg=None")
    if estimate == "calibrated" and n < 3:
        raise ValueError(
            f"estimate='calibrated' is fitted on exact pairs and needs at least three distributions; found {n}: "
            "use pairwise_exact"
        )
    if bounds and isinstance(sink, (Callback, Counts, Dense, Radius)):
        raise ValueError(
            f"sinks.{type(sink).__name__} keeps values only, so that bounds would be lost; use the default sink, TopK, "
            "or a sink of your own, whose tiles have them"
        )


def pairwise_exact(
    D: Distributions,
    E: Distributions | None = None,
    *,
    p: float = 1,
    metric: Metric = "euclidean",
    metric_params: dict[str, Any] | None = None,
    unmatched: Any = None,
    pairs: ArrayLike | None = None,
    device: str = "auto",
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
    sink: Sink[Kept] | None = None,
) -> Kept:
    """The original W_p within a collection, or between two: exact, no anchors.

    Parameters
    ----------
    D, E, pairs, device, n_jobs, memory, progress, sink
        As in `pairwise`. A GPU takes pairs that have up to 512 points left on each side after common mass is
        canceled; larger ones are solved on the CPU, and ``info["n_solved_on_cpu"]`` counts them.
    p : float
        Order of the distance, ≥ 1: W_p = (min Σ T d^p)^(1/p). The root is taken.
    metric : str or function
        Ground distance d. Metrics with kernels of their own: "euclidean", "cityblock", "chebyshev", "minkowski",
        "canberra", "hamming", "jaccard", "rogerstanimoto", "sokalsneath", "jensenshannon", "seuclidean",
        "mahalanobis"; also "angular" and "great_circle" ((latitude, longitude) in radians), and the costs "sqeuclidean"
        and "cosine", which are no metrics. Any other name of SciPy or scikit-learn, "periodic", "precomputed", or a
        function of two points is kept as a table over the distinct points. ``info["metric_proven"]`` says whether it
        is known to be a metric.
    metric_params : dict, optional
        ``p`` of "minkowski" (2 without), ``V`` of "seuclidean", ``VI`` of "mahalanobis" (without: from the distinct
        points that carry mass), ``radius`` of "great_circle", ``box`` of "periodic" (lengths), ``distances`` (V, V) of
        "precomputed", whose points (n, 1) are places in that matrix.
    unmatched : number, array-like (n,) or "diagonal", optional
        None: every distribution has total 1. Otherwise masses are taken as they were given (`Distributions.totals`),
        and this is the price of mass without partner: the same for all points, that of each point of the collection
        (and of the second one, behind it), or its distance to the diagonal, for persistence diagrams.

    Returns
    -------
    Distances, or what the sink returns.

    Examples
    --------
    >>> import asot
    >>> D = asot.Distributions.from_list([[[0.0], [1.0]], [[1.0], [3.0]], [[2.0]]])
    >>> asot.pairwise_exact(D).values
    array([1.5, 1.5, 1. ])
    >>> asot.pairwise_exact(D, p=2).values.round(4)
    array([1.5811, 1.5811, 1.    ])
    """
    devices.parse(device)
    D, E = read_both(D, E)
    pooled, column_start = (D, 0) if E is None else (D + E, len(D))
    pair_set = make_pairs(len(D), None if E is None else len(E), pairs)
    limits: dict[str, Any] = {"n_jobs": n_jobs, "memory": memory, "progress": progress}
    if is_plain(pooled, p, metric, unmatched, device):
        result = solve_exactly(
            pair_set, pooled, column_start, device, sink, metric=str(metric), metric_params=metric_params,
            info={"p": 1, "estimate": "exact"}, **limits,
        )  # fmt: skip
    else:
        budget = as_bytes(memory, engine.DEFAULT_MEMORY)
        make = functools.partial(cpu_solver, pooled, p, metric, metric_params, unmatched, column_start, budget)
        info = {"estimate": "exact", **on_cpu(p, pooled.dim, metric, unmatched, device)}
        result = dispatch.solve(Work(pair_set, make, info=info), sink, **limits)
    return named(result, D.ids, D.ids if E is None else E.ids)


def _check_device(device: str, *, refined: bool) -> None:
    kind, _ = devices.parse(device)
    if refined and kind == "cuda":
        raise ValueError(
            "bounds, max_error and calibrated estimates are made on the CPU, not on "
            f"device={str(device)!r}; use device='auto' or 'cpu', or leave them out"
        )
