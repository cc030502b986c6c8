"""The high-level calls: a collection in, every distance out.

`pairwise` goes through an anchor space, `pairwise_exact` solves the original problems. Both are thin: read the input,
prepare a solver, let the engine run it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from asot import engine
from asot.anchors.space import AnchorSpace
from asot.distinct import sparse_histograms
from asot.distributions import Distributions, as_distributions
from asot.metrics import prepare_metric
from asot.pairs import make_pairs, tiles
from asot.progress import ProgressLike
from asot.result import Distances
from asot.shared_cost import emd_many, sinkhorn_many
from asot.sinks import Sink
from asot.solvers.exact_points import ExactPoints
from asot.validation import as_choice


def pairwise(
    D: Distributions,
    E: Distributions | None = None,
    *,
    space: Any = None,
    pairs: ArrayLike | None = None,
    reg: float | str | None = None,
    bounds: bool = False,
    estimate: str = "anchor",
    device: str = "auto",
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
    random_state: Any = None,
    sink: Sink | None = None,
) -> Any:
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
    bounds : bool
        Also give ``lower`` and ``upper`` bounds on the true W_1 of every pair: the anchor distance ∓ (r_x + r_y), where
        r is the mean distance of a distribution's points to their anchors. Exact solves on Euclidean spaces only.
    estimate : {"anchor"}
        The value returned: the distance on the anchors.
    device : {"auto", "cpu", "cuda", "cuda:N"}
        "auto" takes the GPUs of the machine when there are any and the work is worth it; ``info`` says where the pairs
        were solved and why. "cuda" takes all visible GPUs, or fails with the reason why it cannot.
    n_jobs : int, optional
        Threads, with joblib's meaning (None: 1, -1: every core).
    memory : int or str, optional
        Budget for scratch memory, beside inputs and result, such as ``"2G"``.
    progress : bool, None or callable
        None shows a bar on a terminal or in a notebook when it takes longer than a second.
    random_state : int, RandomState or None
        Seed for learning anchors where `space` is None.
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
    >>> r = asot.pairwise(D, bounds=True, random_state=0)
    >>> r.matrix().shape
    (4, 4)
    >>> exact = asot.pairwise_exact(D).values
    >>> bool(np.all((r.lower <= exact) & (exact <= r.upper)))
    True
    """
    D, E = _read_both(D, E)
    as_choice(estimate, "estimate", ("anchor",))
    anchor_space = _fitted_space(space, D if E is None else D + E, random_state, device)
    if bounds:
        _check_bounds_are_proven(anchor_space, reg, sink)
    A = anchor_space.histograms(D, device=device)
    B = None if E is None else anchor_space.histograms(E, device=device)
    common: dict[str, Any] = {"cost": anchor_space.cost, "pairs": pairs, "device": device, "n_jobs": n_jobs}
    common |= {"memory": memory, "progress": progress, "sink": sink}
    result = emd_many(A, B, **common) if reg is None else sinkhorn_many(A, B, reg=reg, **common)
    if hasattr(result, "info"):
        result.info.update(
            metric="euclidean" if anchor_space.is_euclidean else "given cost",
            p=1,
            n_anchors=anchor_space.n_anchors,
            estimate=estimate,
        )
    return _with_radius_bounds(result, anchor_space, D, E) if bounds else result


def pairwise_exact(
    D: Distributions,
    E: Distributions | None = None,
    *,
    pairs: ArrayLike | None = None,
    metric: str = "euclidean",
    metric_params: dict[str, Any] | None = None,
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
    sink: Sink | None = None,
) -> Any:
    """The original W_1 within a collection, or between two: exact, no anchors.

    Parameters
    ----------
    D, E, pairs, n_jobs, memory, progress, sink
        As in `pairwise`.
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
    D, E = _read_both(D, E)
    histograms = sparse_histograms(D if E is None else D + E)
    ground = prepare_metric(histograms.points, metric, metric_params)
    solver = ExactPoints(histograms, ground, column_start=0 if E is None else len(D))
    pair_set = make_pairs(len(D), None if E is None else len(E), pairs)
    info = {"p": 1, "estimate": "exact"}
    return engine.run(pair_set, solver, sink, n_jobs=n_jobs, memory=memory, progress=progress, info=info)


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


def _fitted_space(space: Any, pooled: Distributions, random_state: Any, device: str) -> AnchorSpace:
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


def _check_bounds_are_proven(space: AnchorSpace, reg: Any, sink: Sink | None) -> None:
    if reg is not None:
        raise ValueError("bounds=True needs the exact solve: an entropic value is no bound on W_1; use reg=None")
    if space.why_no_bounds is not None:
        raise ValueError(f"bounds=True needs nearest anchors and Euclidean anchor costs: {space.why_no_bounds}")
    if sink is not None:
        raise ValueError("bounds=True works with the default sink only, which keeps every value")


def _with_radius_bounds(result: Distances, space: AnchorSpace, D: Distributions, E: Distributions | None) -> Distances:
    """|W_AS - W_1| ≤ r_x + r_y (docs/method.md §6)."""
    row_radii = space.radii(D)
    column_radii = row_radii if E is None else space.radii(E)
    slack = np.empty(len(result))
    for start, stop in tiles(len(result), 2**20):
        rows, columns = result.pair_set.indices(start, stop)
        slack[start:stop] = row_radii[rows] + column_radii[columns]
    lower = np.maximum(result.values - slack, 0.0)
    return replace(result, lower=lower, upper=result.values + slack)
