"""The high-level calls: a collection in, every distance out.

`pairwise` finds the cheapest way to reach the requested error, or uses an anchor space on request; `pairwise_exact`
solves the original problems. Both are thin: they read the input and hand it over.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from asot.anchors.resolve import fitted_space
from asot.anchors.space import AnchorSpace
from asot.bounds.error_bars import BOUNDS_BY_LEVEL
from asot.choose.aim import calibrated, solve_to_aim
from asot.choose.on_anchors import solve_on_anchors
from asot.choose.other_distances import solve_other_distance
from asot.choose.strategy import as_strategy
from asot.data.distributions import Distributions, read_both
from asot.exact.auto import solve_wanted
from asot.exact.few_pairs import METRICS, Asked, solve_few
from asot.exact.unmatched import as_share
from asot.ground.costs import Metric
from asot.request.accuracy import MaxError, as_aim, as_max_error
from asot.request.distance import Distance, as_order
from asot.request.request import Request
from asot.results.distances import named
from asot.results.sinks import Callback, Counts, Dense, Kept, Radius
from asot.run import devices
from asot.run.cluster import joblib_is_idle
from asot.run.pairs import make_pairs
from asot.run.progress import ProgressLike
from asot.run.protocols import Sink
from asot.run.work import Resources
from asot.validation import as_bytes, as_choice, as_n_jobs, as_positive_int, as_seed


def pairwise(
    D: Distributions,
    E: Distributions | None = None,
    *,
    error: float | str | None = "2%",
    max_error: float | str | None = None,
    p: float = 1,
    metric: Metric = "euclidean",
    metric_params: dict[str, Any] | None = None,
    unmatched: Any = None,
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
    """Wasserstein distances within a collection, or between two, as accurate as you ask for.

    Parameters
    ----------
    D : Distributions (N)
        Or a list of point arrays (n_i, d).
    E : Distributions (M), optional
        A second collection. Without it, distances are within D.
    error : float, str or None
        The root-mean-square error that you accept: a share of the mean distance (``"2%"``), or a number in distance
        units. asot picks the cheapest method that measures within it on held-out pairs: exact solves, or anchors with a
        fit. ``info["strategy"]`` says what was chosen and why, and what was measured. None accepts any error and picks
        the cheapest method.
    max_error : float or str, optional
        The largest error of any value, in distance units or as a share of the distance (``"2%"``), proven pair by pair.
        Pairs whose bounds are too far apart are solved exactly and have the status ``Status.EXACT``.
    p, metric, metric_params, unmatched
        Which distance, as in `pairwise_exact`. The default is the Euclidean W_1 between total masses of 1. Estimates
        exist for metrics that are norms, and for prices that are a number or "diagonal"; everything else is solved
        exactly.
    space : AnchorSpace or anchor learner, optional
        Your own anchors. If a learner is not fitted yet, a copy of it is fitted on the collection. By default, anchors
        are learned by k-means, and the strategy decides how many.
    n_anchors : int, optional
        The number of anchors if `space` is None. By default, it is chosen for you.
    estimate : {"auto", "anchor", "calibrated"}
        "auto" meets the requested error. "anchor" is the paper's distance on the anchors, uncorrected. "calibrated" is
        that distance corrected by a fit to 64 pairs that are solved exactly, whatever error remains.
        ``info["calibration"]`` describes the fit and its error on held-out pairs, and ``error`` of the result is the
        expected error of each pair.
    bounds : bool, or "radius", "cells", "points"
        Also compute ``lower`` and ``upper`` bounds on the true distance of every pair, proven for Euclidean spaces;
        values outside them are moved to the nearer end (except entropic ones). True looks at every pair of points if
        distributions have up to four points per anchor ("points"), and otherwise only at summaries near each anchor
        ("cells"); "radius" takes almost no time, and is the only level for p > 1, other norms and unmatched mass.
        Entropic solves (`reg`) are bounded by what their scalings prove.
    reg : float, "auto" or None
        The ε of entropic transport on the anchors; "auto" chooses it from the cost. Entropic distances are a different
        quantity, to which `error` does not apply.
    pairs : array-like of int (P, 2), optional
        Which pairs to solve. Default: all i < j within D, or all of D × E.
    strategy : dict, optional
        ``info["strategy"]`` from another call, to repeat its choice.
    device : {"auto", "cpu", "cuda", "cuda:N"}
        "auto" uses the GPUs of the machine if there are any and the job is large enough; ``info`` says where the pairs
        were solved and why. "cuda" uses all visible GPUs, or fails with the reason. Bounds are
        computed on a GPU if they look at every pair of points; `max_error` is met on the CPU.
    n_jobs : int, optional
        Threads, with joblib's meaning (None: 1, -1: every core).
    memory : int or str, optional
        Budget for scratch memory, not counting inputs and result, such as ``"2G"``.
    progress : bool, None or callable
        None shows a bar on a terminal or in a notebook if the call takes longer than a second.
    random_state : int, RandomState or None
        Seed for learning anchors and for choosing exact pairs. None is a fixed one.
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
    aim, seed = as_aim(error), as_seed(random_state)
    wanted = Distance(as_order(p), metric, metric_params, unmatched)
    accepted = None if max_error is None else as_max_error(max_error)
    level = _bounds_level(bounds, accepted)
    if reg is not None and error not in ("2%", None):
        raise ValueError(
            "error= applies to W_1, but entropic distances (reg=) are a different quantity; leave out error"
        )
    if strategy is not None and (estimate != "auto" or reg is not None):
        raise ValueError("strategy= already says how values are computed; leave out estimate and reg")
    _check_together(D, E, estimate, reg, bounds, sink)
    _check_device(
        device, bounded=level is not None and (estimate == "anchor" or reg is not None or max_error is not None)
    )
    pair_set = make_pairs(len(D), None if E is None else len(E), pairs)
    running = Resources(n_jobs, memory, progress)
    call = Request(D, E, pair_set, pairs, sink, device, running, level, accepted, started, wanted)
    if n_anchors is not None:
        n_anchors = _check_number(n_anchors, space)
    given = space is not None
    aimed = estimate == "auto" and reg is None
    anchors = None
    if given or not aimed:
        learner = space if given else _default_learner(n_anchors, device, running)
        anchors = fitted_space(learner, call.both, seed, device)
        if anchors.dim != D.dim:
            raise ValueError(f"the collection is in {D.dim} dimensions, but the anchors are in {anchors.dim}")
    if not wanted.is_plain:
        way = None if strategy is None else as_strategy(strategy, given)
        other: Any = solve_other_distance(
            call, aim, estimate, reg, seed, space=anchors, n_anchors=n_anchors, strategy=way
        )
        return named(other, D.ids, D.ids if E is None else E.ids, D.offsets)
    if aimed and (anchors is None or anchors.why_no_bounds is None):
        way = None if strategy is None else as_strategy(strategy, given)
        result: Any = solve_to_aim(
            call, aim, seed, space=anchors, n_anchors=n_anchors, strategy=way
        )  # fmt: skip
    elif estimate == "calibrated":
        assert anchors is not None
        result = calibrated(call, anchors, seed)
    else:
        assert anchors is not None
        made_before = isinstance(space, AnchorSpace) or hasattr(space, "space_")
        result = solve_on_anchors(call, anchors, reg, given=made_before)
    return named(result, D.ids, D.ids if E is None else E.ids, D.offsets)


def _default_learner(n_anchors: int | None, device: str, running: Resources) -> Any:
    from asot.anchors.kmeans import KMeansAnchors

    jobs, progress = running.n_jobs, running.progress
    return KMeansAnchors(n_anchors, device=device, n_jobs=jobs, progress=progress)


def _check_number(n_anchors: Any, space: Any) -> int | None:
    if space is not None:
        raise ValueError("n_anchors only applies if the space is learned here; pass either space or n_anchors")
    return None if n_anchors == "auto" else as_positive_int(n_anchors, "n_anchors")


def _bounds_level(bounds: bool | str, accepted: MaxError | None) -> str | None:
    """Which bounds to compute: none, or a level of `asot.bounds.error_bars.make_bounds`."""
    if isinstance(bounds, (bool, np.bool_)):
        return "auto" if bounds or accepted is not None else None
    return as_choice(bounds, "bounds", tuple(BOUNDS_BY_LEVEL))


def _check_together(
    D: Distributions, E: Distributions | None, estimate: str, reg: Any, bounds: bool | str, sink: Any
) -> None:
    """Refuse options that make no sense together."""
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
            f"sinks.{type(sink).__name__} only keeps values, so bounds would be lost; use the default sink, TopK, "
            "or your own sink, which can read them from its tiles"
        )


def pairwise_exact(
    D: Distributions,
    E: Distributions | None = None,
    *,
    p: float = 1,
    metric: Metric = "euclidean",
    metric_params: dict[str, Any] | None = None,
    unmatched: Any = None,
    share: float | None = None,
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
        Ground distance d. Metrics with their own compiled kernels: "euclidean", "cityblock", "chebyshev", "minkowski",
        "canberra", "hamming", "jaccard", "rogerstanimoto", "sokalsneath", "jensenshannon", "seuclidean", "mahalanobis";
        also "angular" and "great_circle" ((latitude, longitude) in radians), and the costs "sqeuclidean" and "cosine",
        which are not metrics. Any other name that SciPy or scikit-learn knows, "periodic", "precomputed", or a function
        of two points is kept as a table over the distinct points. ``info["metric_proven"]`` says whether it is known to
        be a metric.
    metric_params : dict, optional
        ``p`` of "minkowski" (default 2), ``V`` of "seuclidean", ``VI`` of "mahalanobis" (by default computed from the
        distinct points that carry mass), ``radius`` of "great_circle", ``box`` of "periodic" (lengths), ``distances``
        (V, V) of "precomputed", whose points (n, 1) are indices into that matrix.
    unmatched : number, array-like (n,) or "diagonal", optional
        None: every distribution has total 1. Otherwise masses are used as they were given (`Distributions.totals`), and
        this is the price of mass without a partner: one number for all points, an array with one price per point of the
        collection (followed by those of the second one), or "diagonal", the distance to the diagonal, for persistence
        diagrams.
    share : float in (0, 1], optional
        Partial transport: only this share of the mass has to be moved, at the least cost, and the rest stays for free.
        It is not divided by the share, and it is no metric.

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
    is_usual = (
        metric_params is None and unmatched is None and share is None and pairs is None and sink is None
        and type(metric) is str and metric in METRICS and (progress is None or progress is False)
        and device in ("auto", "cpu") and (n_jobs is not None or joblib_is_idle())
    )  # fmt: skip
    if is_usual:
        if memory is not None:
            as_bytes(memory, 0)  # refuses what is no amount
        order = 1.0 if type(p) is int and p == 1 else as_order(p)
        few: Any = solve_few(D, E, Asked(device, order, str(metric), 1 if n_jobs is None else as_n_jobs(n_jobs)))
        if few is not None:
            object.__setattr__(few, "offsets", D.offsets)
            return few
    pooled, column_start = (D, 0) if E is None else (D + E, len(D))
    pair_set = make_pairs(len(D), None if E is None else len(E), pairs)
    wanted = Distance(as_order(p), metric, metric_params, as_share(share, unmatched))
    result = solve_wanted(
        pair_set, pooled, column_start, wanted, device, sink, info={"estimate": "exact"}, n_jobs=n_jobs, memory=memory,
        progress=progress,
    )  # fmt: skip
    return named(result, D.ids, D.ids if E is None else E.ids, D.offsets)


def _check_device(device: str, *, bounded: bool) -> None:
    kind, _ = devices.parse(device)
    if bounded and kind == "cuda":
        raise ValueError(
            "max_error, and bounds beside plain anchor distances, are computed on the CPU, not on "
            f"device={str(device)!r}; use device='auto' or 'cpu', or leave them out"
        )
