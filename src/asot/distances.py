"""The high-level calls: a collection in, every distance out.

`pairwise` goes through an anchor space, `pairwise_exact` solves the original problems. Both are thin: read the input,
prepare a solver, let the engine run it.
"""

from __future__ import annotations

import time
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot.anchors.space import AnchorSpace
from asot.bounds.calibration import Calibration, Running
from asot.bounds.error_bars import check_proven, make_bounds, warn_far_from_anchors
from asot.bounds.guarantee import Guaranteed, MaxError, as_max_error, choose_anchors
from asot.bounds.pair_features import PairFeatures, View, coordinates_of
from asot.bounds.refined_solver import BoundedAnchors, BoundedSinkhorn, Estimates
from asot.data.distinct import sparse_histograms
from asot.data.distributions import Distributions, as_distributions
from asot.entropic.cpu import SinkhornSharedCost
from asot.entropic.options import SinkhornOptions
from asot.exact.metric_check import is_metric
from asot.exact.one_dimension import OneDimension
from asot.exact.points_on_devices import solve_points
from asot.exact.shared_cost import ExactSharedCost
from asot.histograms import run_emd, run_sinkhorn
from asot.jit.metrics import NORMS, prepare_metric
from asot.jit.products import one_thread_per_product
from asot.run import devices, engine
from asot.run.pairs import make_pairs
from asot.run.progress import ProgressLike
from asot.run.result import Distances, Status, named
from asot.run.sinks import Callback, Condensed, Counts, Dense, Kept, Radius, Sink
from asot.run.solver import Solver
from asot.validation import as_choice, as_histograms, as_positive_int, as_seed


def pairwise(
    D: Distributions,
    E: Distributions | None = None,
    *,
    space: Any = None,
    pairs: ArrayLike | None = None,
    reg: float | str | None = None,
    bounds: bool | str = False,
    estimate: str = "anchor",
    max_error: float | str | None = None,
    n_anchors: int | str | None = None,
    device: str = "auto",
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
    random_state: Any = None,
    sink: Sink[Kept] | None = None,
) -> Kept:
    """Wasserstein distances W_1 within a collection, or between two, through an anchor space.

    Parameters
    ----------
    D : Distributions (N)
        Or a list of point arrays (n_i, d).
    E : Distributions (M), optional
        A second collection. Without it, distances are within D.
    space : AnchorSpace or anchor learner, optional
        A learner that is not fitted is fitted (a copy of it) on the collection. Default:
        ``KMeansAnchors(random_state=random_state)``.
    pairs : array-like of int (P, 2), optional
        Which pairs to solve. Default: all i < j within D, or all of D × E.
    reg : float, "auto" or None
        None solves exactly on the anchors; a number is the ε of entropic transport; "auto" chooses it from the cost.
    bounds : bool, or "radius", "cells", "points"
        Also give ``lower`` and ``upper`` bounds on the true W_1 of every pair, proven for Euclidean spaces; values
        outside them are moved to the nearer end (not for entropic ones). True looks at every pair of points where
        distributions have up to four points per anchor ("points"), else only at what they have near each anchor
        ("cells"); "radius" takes no time. Entropic solves (`reg`) are bounded by what their scalings prove.
    estimate : {"anchor", "calibrated"}
        The value returned: the distance on the anchors, or that distance corrected by a fit on 64 pairs that are solved
        exactly. ``info["calibration"]`` tells the fit and its error on held-out pairs, ``error`` the error to be
        expected of every pair.
    max_error : float or str, optional
        The largest error you accept, in the units of the distance, or as a share of it (``"2%"``). Pairs whose bounds
        are farther apart are solved exactly and have the status ``Status.EXACT``.
    n_anchors : int or "auto", optional
        Number of anchors where `space` is None. "auto" weighs anchors against exact solves; it needs `max_error`.
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
        Seed for learning anchors where `space` is None.
    sink : optional
        What to keep: see `asot.run.sinks`. Default: every value.

    Returns
    -------
    Distances, or what the sink returns.

    Examples
    --------
    >>> import numpy as np, asot
    >>> rng = np.random.default_rng(0)
    >>> D = asot.Distributions.from_list([rng.normal(i, 1.0, size=(30 + i, 2)) for i in range(4)])
    >>> r = asot.pairwise(D, bounds=True, random_state=0)
    >>> r.matrix().shape
    (4, 4)
    >>> exact = asot.pairwise_exact(D).values
    >>> bool(np.all((r.lower <= exact) & (exact <= r.upper)))
    True
    """
    started = time.perf_counter()
    D, E = _read_both(D, E)
    as_choice(estimate, "estimate", ("anchor", "calibrated"))
    accepted = None if max_error is None else as_max_error(max_error)
    level = _bounds_level(bounds, accepted)
    _check_together(D, E, estimate, reg, bounds, sink)
    _check_device(device, refined=level is not None or estimate != "anchor")
    pair_set = make_pairs(len(D), None if E is None else len(E), pairs)
    more: dict[str, Any] = {}
    pooled = D if E is None else D + E
    if n_anchors is not None:
        space, more = _learner_for(n_anchors, space, pooled, accepted, random_state, device)
    given = isinstance(space, AnchorSpace) or hasattr(space, "space_")
    anchor_space = _fitted_space(space, pooled, random_state, device)
    options: dict[str, Any] = {"n_jobs": n_jobs, "memory": memory, "progress": progress}
    info = {
        "metric": "euclidean" if anchor_space.is_euclidean else "given cost",
        "p": 1,
        "n_anchors": anchor_space.n_anchors,
        "estimate": estimate,
        "started": started,
        **more,
    }
    if level is None and estimate == "anchor":
        result = _plain(anchor_space, D, E, reg, pairs, device, sink, options, info)
        return named(result, D.ids, D.ids if E is None else E.ids)
    asked_by = "bounds=True" if level is not None else f"estimate={estimate!r}"
    check_proven(anchor_space, asked_by if accepted is None else "max_error")
    with one_thread_per_product():
        solver, radii = _refined_solver(anchor_space, D, E, reg, level, estimate, random_state, Running(**options))
        if given:
            warn_far_from_anchors(anchor_space.proven, radii)
        if accepted is not None:
            solver = Guaranteed(solver, D, E, accepted)
        if level is not None and sink is None:
            sink = cast("Sink[Kept]", Condensed(extras=("lower", "upper")))
        result = engine.run(pair_set, solver, sink, info=info, **options)
    return named(result, D.ids, D.ids if E is None else E.ids)


def _plain(
    space: AnchorSpace, D: Distributions, E: Distributions | None, reg: Any, pairs: Any, device: str,
    sink: Sink[Kept] | None, options: dict[str, Any], info: dict[str, Any],
) -> Kept:  # fmt: skip
    A = space.histograms(D, device=device)
    B = None if E is None else space.histograms(E, device=device)
    common: dict[str, Any] = {"cost": space.cost, "pairs": pairs, "device": device, "info": info, **options}
    if reg is not None:
        return run_sinkhorn(A, B, reg=reg, sink=sink, **common)
    result = run_emd(A, B, sink=sink, **common)
    if isinstance(result, Distances):
        result.status[result.status == Status.OPTIMAL] = Status.ON_ANCHORS
    return result


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


def _learner_for(
    n_anchors: Any, space: Any, D: Distributions, accepted: MaxError | None, random_state: Any, device: str
) -> tuple[Any, dict[str, Any]]:
    """A learner with the number of anchors that was asked for, and what to say about it."""
    from asot.anchors.kmeans import KMeansAnchors

    if space is not None:
        raise ValueError("n_anchors is for a space that is learned here; pass either space or n_anchors")
    more: dict[str, Any] = {}
    if n_anchors == "auto":
        if accepted is None:
            raise ValueError("n_anchors='auto' weighs anchors against exact solves and needs max_error, such as '2%'")
        n_anchors, more = choose_anchors(D, accepted, random_state)
    return KMeansAnchors(as_positive_int(n_anchors, "n_anchors"), random_state=random_state, device=device), more


def _refined_solver(
    space: AnchorSpace, D: Distributions, E: Distributions | None, reg: Any, level: str | None, estimate: str,
    random_state: Any, running: Running,
) -> tuple[Solver, NDArray[np.float64]]:  # fmt: skip
    """The solver that gives bounds or calibrated values, and the radii of all distributions."""
    proven = space.proven
    bounds = None if level is None else make_bounds(proven, D, E, level if reg is None else "radius")
    if reg is not None:
        if proven is not space:
            raise ValueError("bounds on entropic distances need nearest anchors, not soft codes; use reg=None")
        assert bounds is not None
        A, B = _histograms(space, D, E)
        entropic = SinkhornSharedCost(A, B, space.cost, SinkhornOptions.read(space.cost, reg=reg))
        return BoundedSinkhorn(entropic, bounds), bounds.radii
    anchor = ExactSharedCost(*_histograms(proven, D, E), proven.cost, cancel=True)
    learned = None
    if proven is not space:
        learned = ExactSharedCost(*_histograms(space, D, E), space.cost, cancel=is_metric(space.cost))
    if estimate != "calibrated":
        assert bounds is not None
        return BoundedAnchors(anchor, bounds, learned), bounds.radii
    both = D if E is None else D + E
    short = coordinates_of(both)
    views = [View(proven, both, anchor, short, bounds)]
    features = PairFeatures(views, short, 0 if E is None else len(D), with_bounds=bounds is not None, learned=learned)
    everything = make_pairs(len(D), None if E is None else len(E))
    calibration = Calibration(features, both, everything, seed=as_seed(random_state), running=running)
    return Estimates(features, calibration), features.radii


def _histograms(
    space: AnchorSpace, D: Distributions, E: Distributions | None
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    A = as_histograms(space.histograms(D), "A", space.n_anchors)
    return A, None if E is None else as_histograms(space.histograms(E), "B", space.n_anchors)


def pairwise_exact(
    D: Distributions,
    E: Distributions | None = None,
    *,
    pairs: ArrayLike | None = None,
    metric: str = "euclidean",
    metric_params: dict[str, Any] | None = None,
    device: str = "auto",
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
    sink: Sink[Kept] | None = None,
) -> Kept:
    """The original W_1 within a collection, or between two: exact, no anchors.

    Parameters
    ----------
    D, E, pairs, device, n_jobs, memory, progress, sink
        As in `pairwise`. A GPU takes pairs that have up to 512 points left on each side after common mass is
        cancelled; larger ones are solved on the CPU, and ``info["n_solved_on_cpu"]`` counts them.
    metric : str
        Ground metric: any of scipy's ``cdist`` that satisfies the triangle inequality ("euclidean", "cityblock",
        "chebyshev", "minkowski", "canberra", "hamming", "jaccard", "rogerstanimoto", "sokalsneath", "jensenshannon",
        "seuclidean", "mahalanobis").
    metric_params : dict, optional
        ``p`` of "minkowski" (2 without), ``V`` of "seuclidean", ``VI`` of "mahalanobis" (without: from the distinct
        points that carry mass).

    Returns
    -------
    Distances, or what the sink returns.

    Examples
    --------
    >>> import asot
    >>> D = asot.Distributions.from_list([[[0.0], [1.0]], [[1.0], [3.0]], [[2.0]]])
    >>> asot.pairwise_exact(D).values
    array([1.5, 1.5, 1. ])
    """
    devices.parse(device)
    D, E = _read_both(D, E)
    pooled, column_start = (D, 0) if E is None else (D + E, len(D))
    pair_set = make_pairs(len(D), None if E is None else len(E), pairs)
    info = {"p": 1, "estimate": "exact"}
    limits: dict[str, Any] = {"n_jobs": n_jobs, "memory": memory, "progress": progress}
    if pooled.dim == 1 and metric in NORMS and devices.parse(device)[0] != "cuda":
        line = OneDimension(
            prepare_metric(pooled.points, metric, metric_params),
            pooled.offsets,
            pooled.masses,
            column_start=column_start,
        )
        reason = "asked for" if device == "cpu" else "sorting takes no GPU"
        result = engine.run(pair_set, line, sink, info={**info, "device_reason": reason}, **limits)
    else:
        histograms = sparse_histograms(pooled)
        ground = prepare_metric(histograms.points, metric, metric_params)
        result = solve_points(pair_set, histograms, ground, column_start, device, sink, info=info, **limits)
    return named(result, D.ids, D.ids if E is None else E.ids)


def _read_both(D: Any, E: Any) -> tuple[Distributions, Distributions | None]:
    first = as_distributions(D)
    if E is None:
        return first, None
    second = as_distributions(E)
    if first.dim != second.dim:
        raise ValueError(
            f"the two collections are in {first.dim} and {second.dim} dimensions; they must share one space"
        )
    return first, second


def _check_device(device: str, *, refined: bool) -> None:
    kind, _ = devices.parse(device)
    if refined and kind == "cuda":
        raise ValueError(
            "bounds, max_error and calibrated estimates are made on the CPU, not on "
            f"device={str(device)!r}; use device='auto' or 'cpu', or leave them out"
        )


def _fitted_space(space: Any, pooled: Distributions, random_state: Any, device: str = "auto") -> AnchorSpace:
    """The space a caller means: itself, that of a learner, or one that is learned here."""
    if isinstance(space, AnchorSpace):
        return space
    if space is None:
        from asot.anchors.kmeans import KMeansAnchors

        space = KMeansAnchors(random_state=random_state, device=device)
    if not hasattr(space, "fit"):
        raise TypeError(f"space must be an AnchorSpace or an anchor learner such as KMeansAnchors(); found {space!r}")
    if not hasattr(space, "space_"):
        from sklearn.base import clone

        space = clone(space).fit(pooled)
    fitted: AnchorSpace = space.space_
    return fitted
