"""The high-level calls: a collection in, every distance out.

`pairwise` finds the cheapest way to reach the requested error, or uses an anchor space on request; `pairwise_exact`
solves the original problems. Both are thin: they read the input and hand it over.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from asot._typing import Info, Parameters
from asot.bounds.error_bars import BOUNDS_BY_LEVEL
from asot.choose.aim import solve_as_asked, solve_as_before
from asot.choose.model import Model
from asot.data.distributions import Distributions, check_mass, read_both
from asot.exact.auto import exact_work
from asot.exact.few_pairs import MOST_DISTRIBUTIONS, few_distances
from asot.ground.costs import Metric
from asot.request import DEFAULT_ERROR, Request, as_max_error, check_together, read_distance, read_goal
from asot.results.distances import named
from asot.results.sinks import Kept, default_sink
from asot.run import devices
from asot.run.engine import Resources, solve_work
from asot.run.executors import ProgressLike
from asot.run.protocols import Notes, Sink
from asot.validation import as_choice


def pairwise(
    D: Distributions,
    E: Distributions | None = None,
    *,
    error: float | str | None = DEFAULT_ERROR,
    max_error: float | str | None = None,
    p: float = 1,
    metric: Metric = "euclidean",
    metric_params: Parameters | None = None,
    unmatched: Any = None,
    space: Any = None,
    n_anchors: int | None = None,
    estimate: str = "auto",
    bounds: bool | str = False,
    reg: float | str | None = None,
    pairs: ArrayLike | None = None,
    strategy: dict[str, Any] | None = None,
    model: Model | None = None,
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
    model : Model, optional
        ``r.model`` of another result of `pairwise` or `pairwise_exact`: its anchors and its fit are used as they are,
        or its exact solves, and nothing is learned or measured again. p, metric, metric_params and unmatched must be
        those it was made with.
    device : {"auto", "cpu", "cuda", "cuda:N"}
        "auto" uses the GPUs of the machine if there are any and the job is large enough; ``info`` says where the pairs
        were solved and why. "cuda" uses all visible GPUs, or fails with the reason. Bounds beside estimates are
        computed there, those beside plain distances on anchors are not.
    n_jobs : int, optional
        Threads, with joblib's meaning (None: 1, -1: every core).
    memory : int or str, optional
        Budget for scratch memory, not counting inputs and result, such as ``"2G"``.
    progress : bool, None or callable
        None shows a bar on a terminal or in a notebook if the call takes longer than a second; a function is called
        with (done, total) for each stage in turn, the pairs last.
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
    goal = read_goal(error, random_state, estimate, reg, space, n_anchors, strategy)
    distance, proven = read_distance(p, metric, metric_params, unmatched), as_max_error(max_error)
    level = "auto" if bounds or proven is not None else None
    if not isinstance(bounds, (bool, np.bool_)):
        level = as_choice(bounds, "bounds", tuple(BOUNDS_BY_LEVEL))
    request = Request(D, E, distance, pairs, sink, device, Resources(n_jobs, memory, progress), level, proven, started)
    check_together(request, goal, bounds)
    result: Any = solve_as_asked(request, goal) if model is None else solve_as_before(request, goal, model)
    return named(result, *request.names, D.offsets)


def pairwise_exact(
    D: Distributions,
    E: Distributions | None = None,
    *,
    p: float = 1,
    metric: Metric = "euclidean",
    metric_params: Parameters | None = None,
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
        As in `pairwise`. A GPU takes pairs that have up to 2,048 points left on each side after common mass is
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
        distinct points that carry mass), ``radius`` of "great_circle", ``box`` of "periodic" (lengths, by default 1),
        ``distances`` (V, V) of "precomputed", whose points (n, 1) are indices into that matrix.
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
    if E is not None or type(D) is not Distributions:
        devices.parse(device)
        D, E = read_both(D, E)
    is_usual = metric_params is None and unmatched is None and share is None and pairs is None and sink is None
    if is_usual and (E is not None or len(D.offsets) <= MOST_DISTRIBUTIONS + 1 or D.dim == 1):
        check_mass(D, E)
        few: Any = few_distances(D, E, p, metric, (device, n_jobs, memory, progress), (_model, (D, E, p, metric)))
        if few is not None:
            return few
    devices.parse(device)
    distance = read_distance(p, metric, metric_params, unmatched, share)
    request = Request(D, E, distance, pairs, sink, device, Resources(n_jobs, memory, progress))
    work = exact_work(request, Notes({"estimate": "exact"}))
    result = solve_work(work, default_sink(sink), request.resources)
    return named(result, *request.names, D.offsets, Model(D, E, distance))


def _model(D: Distributions, E: Distributions | None, p: Any, metric: Metric) -> Info:
    """A field of a result that was made quickly."""
    return {"model": Model(D, E, read_distance(p, metric, None, None))}
