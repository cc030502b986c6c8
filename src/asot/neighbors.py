"""Exact nearest neighbors under W_1, without solving the pairs that a bound rules out (docs/method.md §9).

A pair whose lower bound exceeds the K-th best distance of a query cannot be among its K nearest. So the search looks at
all pairs through bounds that cost a fraction of a solve (`asot.search`), solves those that look nearest to get a
first K-th best distance for every query, and then solves every pair that no bound rules out. The answer equals brute
force over `pairwise_exact`, ties included; only the number of solves depends on how good the bounds are. A test on a
few rows decides which bounds to use; if none pays off, brute force is used, or a search for a stated share of the
neighbors (`asot.search.stated_recall`) if the caller asks for one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from asot import renamed
from asot._typing import Parameters
from asot.data.distributions import Distributions, read_both
from asot.ground.costs import Metric
from asot.request import Request, read_distance
from asot.results.neighbors import Neighbors, RadiusNeighbors
from asot.run.engine import Resources
from asot.run.executors import ProgressLike
from asot.run.protocols import Sink
from asot.search.choose import Pruning
from asot.search.nearest import find_nearest, find_within
from asot.validation import as_positive_int, as_radius

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    Found = TypeVarWithDefault("Found", default=Neighbors)
else:
    Found = TypeVar("Found")
    """What a search returns: `Neighbors`, or what its store is read with."""


def kneighbors(
    Q: Distributions,
    D: Distributions | int | None = None,
    n_neighbors: int = 5,
    *,
    p: float = 1,
    metric: Metric = "euclidean",
    metric_params: Parameters | None = None,
    unmatched: Any = None,
    space: Any = None,
    prune: str = "auto",
    device: str = "auto",
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
    random_state: Any = None,
    recall: float | None = None,
    sink: Sink[Found] | None = None,
    bounds: Any = None,
) -> Found:
    """The nearest distributions of each query under the exact W_p: what brute force over `pairwise_exact` would find.

    Parameters
    ----------
    Q : Distributions (N)
        The queries. Or a list of point arrays (n_i, d).
    D : Distributions (M), optional
        Where to look for neighbors. None, or the same object as Q, means within Q, where a distribution is not its own
        neighbor. (Duplicates are neighbors at distance 0.) A number here is `n_neighbors`: ``kneighbors(D, 10)``.
    n_neighbors : int
    space : AnchorSpace or anchor learner, optional
        Anchors for the potentials (see ``prune="potentials"``). If a learner is not fitted yet, a copy of it is fitted
        on the collection. Of a learned space, the nearest anchors it started from are used. Euclidean metric only. The
        answer does not depend on it.
    p, metric, metric_params, unmatched
        Which distance, as in `pairwise_exact`.
    prune : {"auto", "projections", "potentials", "relaxed", "all"}
        Which lower bounds rule out pairs: sorted projections (for metrics that are norms), a pool of dual potentials, a
        relaxed transport problem (both for every metric), or all of them, one after the other. "auto" uses whatever was
        cheapest in a rehearsal on a few rows, which may be brute force; ``info["rehearsal"]`` has the numbers. This
        only affects how many pairs are solved, not the answer.
    device : {"auto", "cpu", "cuda", "cuda:N"}
        As in `pairwise`. GPUs have their own bounds, so `prune` and `space` do not apply there.
    n_jobs, memory, progress
        As in `pairwise_exact`. Under ``joblib.parallel_config``, strips of rows are searched by the workers of the
        cluster, each with its own bounds; with `recall`, the search stays in this process.
    random_state : int, RandomState or None
        Decides which pairs the pool of potentials comes from. The answer does not depend on it, unless there is a
        `recall`.
    recall : float, optional
        The share of the true neighbors to find, such as 0.98, for collections in which no bound rules out anything.
        Only the pairs that look nearest are solved. Distances are still exact, but some neighbors are missing. How many
        pairs that takes is found on some queries, and the share on others; ``info["recall"]`` has it with its 95 %
        interval. Where a certain search takes no more work, it is made instead, and ``info["recall"]["certain"]`` is
        True. By default, all neighbors are found, for certain.
    sink : asot.sinks.Store, optional
        Where the neighbors go on disk, a strip of rows at a time, on the CPU. The same call again resumes. Returns what
        `asot.open_store` does; its ``top_k()`` is the result without a store.
    bounds
        The old name of `prune`, until 0.3.0.

    Returns
    -------
    Neighbors
        ``indices`` and ``distances`` (N, n_neighbors), ascending, ties in order of index; ``n_exact``, the number of
        pairs that were solved; ``graph()``, a sparse matrix for scikit-learn's ``metric="precomputed"``.

    Examples
    --------
    >>> import asot
    >>> from asot.datasets import load_digits
    >>> digits, labels, _ = load_digits(200)
    >>> found = asot.kneighbors(digits, n_neighbors=3)
    >>> found.indices[0], found.distances[0].round(4)
    (array([160,  36, 140]), array([0.0304, 0.032 , 0.0326]))
    >>> brute = asot.pairwise_exact(digits, sink=asot.sinks.TopK(3))
    >>> bool((found.indices == brute.indices).all())
    True
    """
    if bounds is not None:
        prune = renamed.prune_of(bounds)
    if isinstance(D, (int, np.integer)):
        if n_neighbors not in (5, D):
            raise ValueError(f"n_neighbors is given twice, as {D} and as {n_neighbors!r}; leave out one of them")
        n_neighbors, D = D, None
    K = as_positive_int(n_neighbors, "n_neighbors")
    started, distance = time.perf_counter(), read_distance(p, metric, metric_params, unmatched)
    queries, others = read_both(Q, None if D is Q else D)
    resources = Resources(n_jobs, memory, progress)
    request = Request(queries, others, distance, None, sink, device, resources, started=started)
    return cast("Found", find_nearest(request, K, Pruning(prune, space, random_state), recall))


def radius_neighbors(
    Q: Distributions,
    D: Distributions | None = None,
    radius: float = 1.0,
    *,
    p: float = 1,
    metric: Metric = "euclidean",
    metric_params: Parameters | None = None,
    unmatched: Any = None,
    space: Any = None,
    prune: str = "auto",
    device: str = "auto",
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
    random_state: Any = None,
    bounds: Any = None,
) -> RadiusNeighbors:
    """All distributions within a radius of each query under the exact W_p; the counterpart of `kneighbors`.

    Parameters
    ----------
    radius : float
        Pairs with W_p ≤ radius are found.
    Q, D, p, metric, metric_params, unmatched, space, prune, device, n_jobs, memory, progress, random_state, bounds
        As in `kneighbors`. It always runs in threads of this process, also under ``joblib.parallel_config``.

    Examples
    --------
    >>> import asot
    >>> D = asot.Distributions.from_list([[[0.0]], [[1.0]], [[5.0]], [[1.5]]])
    >>> found = asot.radius_neighbors(D, radius=1.5)
    >>> found.graph().toarray()
    array([[0. , 1. , 0. , 1.5],
           [1. , 0. , 0. , 0.5],
           [0. , 0. , 0. , 0. ],
           [1.5, 0.5, 0. , 0. ]])
    """
    if bounds is not None:
        prune = renamed.prune_of(bounds)
    radius = as_radius(radius)
    started, distance = time.perf_counter(), read_distance(p, metric, metric_params, unmatched)
    queries, others = read_both(Q, None if D is Q else D)
    resources = Resources(n_jobs, memory, progress)
    request = Request(queries, others, distance, None, None, device, resources, started=started)
    return find_within(request, radius, Pruning(prune, space, random_state))
