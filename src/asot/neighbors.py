"""Exact nearest neighbors under W_1, without solving the pairs that a bound rules out (docs/method.md §9).

A pair whose lower bound exceeds the K-th best distance of a query cannot be among its K nearest. So the search looks at
all pairs through bounds that cost a fraction of a solve (`asot.search`), solves those that look nearest to get a
first K-th best distance for every query, and then solves every pair that no bound rules out. The answer equals brute
force over `pairwise_exact`, ties included; only the number of solves depends on how good the bounds are. A test on a
few rows decides which bounds to use; if none pays off, brute force is used, or a search for a stated share of the
neighbors (`asot.search.stated_recall`) if the caller asks for one.
"""

from __future__ import annotations

import functools
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from asot import renamed
from asot._typing import Info, Parameters
from asot.data.distinct import sparse_histograms
from asot.data.distributions import Distributions, as_distributions
from asot.exact.auto import exact_solver, of_one_scale, read_prices
from asot.exact.cuda.points_plan import MOST_POINTS
from asot.exact.price import best_split, mean_seconds
from asot.ground.costs import Metric, prepare_cost
from asot.ground.metrics import ON_GPUS
from asot.request import Distance, as_order
from asot.results.distances import Neighbors, named
from asot.results.radius_neighbors import RadiusNeighbors
from asot.run import devices
from asot.run.cluster import Cluster
from asot.run.engine import Resources, active_cluster
from asot.run.executors import Progress, ProgressLike, in_ranges, kept_threads
from asot.run.pairs import make_pairs, tiles
from asot.run.protocols import Sink
from asot.search import stated_recall
from asot.search.choose import Offer, Problem, Pruning, offer_bounds
from asot.search.energy import energy_vectors
from asot.search.rehearse import choose_look, rehearse
from asot.search.strips import SearchStrip, Strip, StripSearch
from asot.search.sweep import Best, Edges, Look, Search, Shape
from asot.store.identity import cost_hash
from asot.store.sink import Store
from asot.store.stored import Stored
from asot.store.strips import Question, search_into
from asot.validation import as_positive_int, as_radius, as_seed

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    Found = TypeVarWithDefault("Found", default=Neighbors)
else:
    Found = TypeVar("Found")
    """What a search returns: `Neighbors`, or what its store is read with."""

SHARE_SOLVED = 0.1
"""Roughly the share of brute force's time that a search on the CPU takes when bounds are as good as they are for
graphs."""


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
        n_neighbors, D = int(D), None
    K = as_positive_int(n_neighbors, "n_neighbors")
    started = time.perf_counter()
    distance, pruning = Distance(as_order(p), metric, metric_params, unmatched), Pruning(prune, space, random_state)
    problem = _read(Q, D, distance, Resources(n_jobs, memory))
    shape = problem.shape
    candidates = shape.n_columns - shape.within
    if candidates < K:
        raise ValueError(f"n_neighbors={K}, but there are only {candidates} candidates for each query")
    share = None if recall is None else stated_recall.as_recall(recall, prune, space, sink)
    choice = _choose(device, problem, pruning, sink, share)
    if sink is not None:
        stored = _into_store(sink, problem, K, distance, pruning, progress)
        return cast("Found", named(stored, *_names(Q, D)))
    cluster = None if choice.gpus or share is not None else active_cluster()
    if cluster is not None and shape.n_rows > 1:
        found = _on_cluster(problem, K, pruning, cluster, progress, started)
        return cast("Found", replace(found, names=_names(Q, D)))
    best = Best(shape.n_rows, K, shape.within)
    shown = Progress(progress, shape.n_pairs, "nearest neighbors")
    try:
        if choice.gpus:
            info = _search_on_gpus(problem, best, choice, shown, started)
            return cast("Found", Neighbors(best.indices, best.distances, info, info["n_exact"], _names(Q, D)))
        seed = as_seed(random_state)
        held_out = None if share is None else stated_recall.choose_held_out(shape, K, share, seed)
        if share is not None and held_out is not None:
            search = _search_for_share(problem, held_out, best, share, seed, shown)
        else:
            search, offer = _prepare(problem, pruning, shown)
            _search_for_all(search, choose_look(search, problem.histograms, offer, best), best)
        if share is not None:
            search.made.setdefault("recall", stated_recall.all_were_found(share, candidates))
    finally:
        shown.close()
    info = search.info(started) | {"device_reason": choice.reason}
    return cast("Found", Neighbors(best.indices, best.distances, info, search.n_exact, _names(Q, D)))


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
    started = time.perf_counter()
    distance, pruning = Distance(as_order(p), metric, metric_params, unmatched), Pruning(prune, space, random_state)
    problem = _read(Q, D, distance, Resources(n_jobs, memory))
    shape = problem.shape
    found = Edges(radius, shape.n_rows, shape.within)
    choice = _choose(device, problem, pruning)
    shown = Progress(progress, shape.n_pairs, "neighbors within the radius")
    try:
        if choice.gpus:
            info = _search_on_gpus(problem, found, choice, shown, started)
        else:
            search, offer = _prepare(problem, pruning, shown)
            search.sweep(choose_look(search, problem.histograms, offer, found), found)
            info = search.info(started) | {"device_reason": choice.reason}
    finally:
        shown.close()
    rows, columns, values = found.sorted()
    indptr = np.searchsorted(rows, np.arange(shape.n_rows + 1))
    return RadiusNeighbors(indptr, columns, values, info["n_exact"], info, _names(Q, D))


# ---------------------------------------------------------------------------------------------------------- the search


def _names(Q: Any, D: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ids of the queries and of the collection."""
    own = as_distributions(Q).ids
    return own, own if D is None else as_distributions(D).ids


def _read(Q: Any, D: Any, distance: Distance, resources: Resources) -> Problem:
    first = as_distributions(Q)
    second = None if D is None or D is Q else as_distributions(D)
    if second is not None and second.dim != first.dim:
        raise ValueError(
            f"the queries are in {first.dim} dimensions and the collection in {second.dim}; they must share one space"
        )
    pooled = first if second is None else first + second
    budget, jobs = resources.budget, resources.jobs
    with kept_threads(jobs):
        histograms = sparse_histograms(pooled, in_ranges(jobs))
    cost = prepare_cost(histograms.points, distance.metric, distance.metric_params, budget)
    start = 0 if second is None else len(first)
    shape = Shape(len(first), len(first) if second is None else len(second), start, second is None)
    solver = functools.partial(
        exact_solver, pooled, distance, start, budget, histograms=histograms, n_pairs=shape.n_pairs
    )
    prices = None if distance.unmatched is None else read_prices(distance.unmatched, pooled, cost)
    return Problem(pooled, histograms, cost, distance, prices, shape, solver, jobs, budget)


def _choose(
    device: str, problem: Problem, pruning: Pruning, sink: Any = None, recall: float | None = None
) -> devices.Choice:
    n_rows, n_columns, start, _ = problem.shape
    sizes = np.diff(problem.histograms.offsets)
    split = best_split(
        sizes[:n_rows], sizes[start : start + n_columns], SHARE_SOLVED * problem.shape.n_pairs,
        problem.cost.ground.points.shape[1], problem.jobs, MOST_POINTS,
    )  # fmt: skip
    unfit = None
    if not problem.cost.has_table and problem.cost.ground.code not in ON_GPUS:
        unfit = f"the metric {problem.cost.name!r} has no GPU kernel"
    if problem.distance.p != 1 and problem.distance.is_sorted(problem.pooled.dim):
        unfit = "on a line sorting is enough, which takes no GPU"
    if pruning.space is not None or pruning.prune != "auto":
        unfit = "the search on GPUs has its own bounds and takes neither prune= nor space="
    if sink is not None:
        unfit = "a search into a store runs on CPUs"
    if recall is not None:
        unfit = "a search with recall= runs on CPUs"
    gpu_seconds = devices.LATER_CALL_SECONDS + split.gpu
    choice = devices.choose(device, needs=("cupy",), cpu_seconds=split.cpu, gpu_seconds=gpu_seconds, unfit=unfit)
    return of_one_scale(choice, problem.cost.ground.points, device)


def _search_on_gpus(
    problem: Problem, sink: Best | Edges, choice: devices.Choice, shown: Progress, started: float
) -> Info:
    from asot.search.on_gpus import search_on_gpus

    shape = problem.shape
    found = search_on_gpus(problem, sink, choice, shown)
    own = {"estimate": "exact", **problem.distance.info, "n_pairs": shape.n_pairs, "n_columns": shape.n_columns}
    return found | own | {"seconds": time.perf_counter() - started}


def _search_for_all(search: Search, look: Look | None, best: Best) -> None:
    if look is not None:
        candidates = search.shape.n_columns - search.shape.within
        search.solve_promising(look, best, min(candidates, 2 * best.distances.shape[1] + 8))
    search.sweep(look, best)


def _search_for_share(
    problem: Problem, held_out: stated_recall.HeldOut, best: Best, recall: float, seed: int, shown: Progress
) -> Search:
    """The cheaper of a certain search and one that finds the share, which ``made["recall"]`` then tells of."""
    histograms, shape, jobs = problem.histograms, problem.shape, problem.jobs
    search, offer = _prepare(problem, Pruning(random_state=seed), shown)
    certain = rehearse(search, histograms, offer, best)
    if stated_recall.may_pay(held_out, shape, certain):
        vectors = energy_vectors(histograms, problem.cost, problem.unmatched, seed, jobs)
        candidates = stated_recall.Candidates(vectors, shape, jobs)
        record = stated_recall.search_with_recall(search, candidates, held_out, best, recall, certain)
        if record is not None:
            search.made |= {"recall": record, "bounds": []}
            return search
    _search_for_all(search, certain.look, best)
    return search


def _prepare(problem: Problem, pruning: Pruning, shown: Progress) -> tuple[Search, Offer]:
    offer = offer_bounds(problem, pruning)
    return Search(
        problem.shape, problem.solver(), problem.jobs, problem.memory // 2, offer.made, shown, problem.distance.p
    ), offer  # fmt: skip


# ------------------------------------------------------------------------------------------- elsewhere, and on disk


def _on_cluster(
    problem: Problem, K: int, pruning: Pruning, cluster: Cluster, progress: ProgressLike, started: float
) -> Neighbors:
    """The search in strips of rows by the workers of a cluster."""
    shape, distance = problem.shape, problem.distance
    starts = list(tiles(shape.n_rows, max(1, -(-shape.n_rows // (4 * cluster.jobs)))))
    task = SearchStrip(functools.partial(_strips, problem, K, pruning, 1))
    parts: list[Strip] = []
    with Progress(progress, shape.n_rows, f"nearest neighbors ({cluster.name})", unit="row") as shown:
        for strip in cluster.map(task, starts):
            parts.append(strip)
            shown.advance(len(strip.indices))
    n_exact = sum(strip.n_exact for strip in parts)
    search = Search(
        shape, problem.solver(), cluster.jobs, problem.memory, parts[0].made, Progress(False, 0, ""), distance.p
    )
    info = search.info(started) | {"n_exact": n_exact, "executor": cluster.name}
    indices, distances = (np.concatenate([strip[part] for strip in parts]) for part in (0, 1))
    return Neighbors(indices, distances, info, n_exact)


def _into_store(
    sink: Any, problem: Problem, K: int, distance: Distance, pruning: Pruning, progress: ProgressLike
) -> Stored:
    """The search in strips of rows."""
    if not isinstance(sink, Store):
        raise ValueError(f"a search keeps the nearest by itself; sink= is for asot.sinks.Store(path); found {sink!r}")
    shape, metric = problem.shape, distance.metric
    computed = None if isinstance(metric, str) else cost_hash(problem.cost)
    name = metric if isinstance(metric, str) else getattr(metric, "__qualname__", "function")
    settings = {"estimate": "exact", "p": distance.p, "metric": name, "metric_params": distance.metric_params}
    settings |= {} if computed is None else {"metric_computes": computed}
    share = 2 * SHARE_SOLVED * mean_seconds(problem.histograms, problem.cost.ground.points.shape[1])
    question = Question(
        make_pairs(shape.n_rows, None if shape.within else shape.n_columns),
        K,
        settings,
        {
            "collection": problem.histograms.identity(),
            "unmatched": None if problem.unmatched is None else problem.unmatched.identity(),
            "table": problem.cost.table,
        },
        functools.partial(_strips, problem, K, pruning),
        share * shape.n_columns,
        computed,
    )
    return search_into(sink, question, problem.jobs, progress)


def _strips(problem: Problem, K: int, pruning: Pruning, jobs: int) -> StripSearch:
    """The search of single strips, made ready: every process chooses the same bounds in a rehearsal of its own."""
    search, offer = _prepare(problem._replace(jobs=jobs), pruning, Progress(False, 0, ""))
    look = choose_look(search, problem.histograms, offer, Best(problem.shape.n_rows, K, problem.shape.within))
    return StripSearch(search, look, K)
