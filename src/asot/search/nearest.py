"""A search from its question to its answer: on GPUs, in threads, on a cluster, or into a store.

`asot.kneighbors` and `asot.radius_neighbors` read their arguments and hand over to `find_nearest` and `find_within`.
"""

from __future__ import annotations

import functools
import time
from dataclasses import replace
from typing import Any

import numpy as np

from asot._typing import Info
from asot.data.distinct import sparse_histograms
from asot.exact.auto import exact_solver, of_one_scale, read_prices
from asot.exact.cuda.points_plan import MOST_POINTS
from asot.exact.price import best_split, mean_seconds
from asot.ground.costs import prepare_cost
from asot.ground.metrics import ON_GPUS
from asot.request import Distance, Request
from asot.results.distances import named
from asot.results.neighbors import Neighbors, RadiusNeighbors
from asot.run import devices
from asot.run.cluster import Cluster
from asot.run.engine import active_cluster
from asot.run.executors import Progress, ProgressLike, in_ranges, kept_threads
from asot.run.pairs import make_pairs, tiles
from asot.search import stated_recall
from asot.search.choose import Offer, Problem, Pruning, choose_look, rehearse
from asot.search.energy import energy_vectors
from asot.search.strips import SearchStrip, Strip, StripSearch
from asot.search.sweep import Best, Edges, Look, Search, Shape
from asot.store.identity import cost_hash
from asot.store.sink import Store
from asot.store.stored import Stored
from asot.store.strips import Question, search_into
from asot.validation import as_seed

SHARE_SOLVED = 0.1
"""Roughly the share of brute force's time that a search on the CPU takes when bounds are as good as they are for
graphs."""


def find_nearest(request: Request, K: int, pruning: Pruning, recall: float | None) -> Any:
    """The K nearest of each row of a request: all of them, or the share ``recall`` of them."""
    sink, progress, started = request.sink, request.resources.progress, request.started
    problem = read_problem(request)
    shape = problem.shape
    candidates = shape.n_columns - shape.within
    if candidates < K:
        raise ValueError(f"n_neighbors={K}, but there are only {candidates} candidates for each query")
    share = None if recall is None else stated_recall.as_recall(recall, pruning.prune, pruning.space, sink)
    choice = _place(request.device, problem, pruning, sink, share)
    if sink is not None:
        return named(_into_store(sink, problem, K, request.distance, pruning, progress), *request.names)
    cluster = None if choice.gpus or share is not None else active_cluster()
    if cluster is not None and shape.n_rows > 1:
        return replace(_on_cluster(problem, K, pruning, cluster, progress, started), names=request.names)
    best = Best(shape.n_rows, K, shape.within)
    with Progress(progress, shape.n_pairs, "nearest neighbors") as shown:
        if choice.gpus:
            info = _search_on_gpus(problem, best, choice, shown, started)
            return Neighbors(best.indices, best.distances, info, info["n_exact"], request.names)
        seed = as_seed(pruning.random_state)
        held_out = None if share is None else stated_recall.choose_held_out(shape, K, share, seed)
        if share is not None and held_out is not None:
            search = _search_for_share(problem, held_out, best, share, seed, shown)
        else:
            search, offer = _prepare(problem, pruning, shown)
            _search_for_all(search, choose_look(search, offer, best), best)
        if share is not None:
            search.made.setdefault("recall", stated_recall.all_were_found(share, candidates))
    info = search.info(started) | {"device_reason": choice.reason}
    return Neighbors(best.indices, best.distances, info, search.n_exact, request.names)


def find_within(request: Request, radius: float, pruning: Pruning) -> RadiusNeighbors:
    """All within a radius of each row of a request."""
    problem = read_problem(request)
    shape = problem.shape
    found = Edges(radius, shape.n_rows, shape.within)
    choice = _place(request.device, problem, pruning)
    with Progress(request.resources.progress, shape.n_pairs, "neighbors within the radius") as shown:
        if choice.gpus:
            info = _search_on_gpus(problem, found, choice, shown, request.started)
        else:
            search, offer = _prepare(problem, pruning, shown)
            search.sweep(choose_look(search, offer, found), found)
            info = search.info(request.started) | {"device_reason": choice.reason}
    rows, columns, values = found.sorted()
    indptr = np.searchsorted(rows, np.arange(shape.n_rows + 1))
    return RadiusNeighbors(indptr, columns, values, info["n_exact"], info, request.names)


def read_problem(request: Request) -> Problem:
    """The collections of a request, made ready."""
    pooled, distance, start = request.both, request.distance, request.column_start
    budget, jobs = request.resources.budget, request.resources.jobs
    with kept_threads(jobs):
        histograms = sparse_histograms(pooled, in_ranges(jobs))
    cost = prepare_cost(histograms.points, distance.metric, distance.metric_params, budget)
    shape = Shape(len(request.D), len(pooled) - start, start, request.E is None)
    solver = functools.partial(
        exact_solver, pooled, distance, start, budget, histograms=histograms, n_pairs=shape.n_pairs
    )
    prices = None if distance.unmatched is None else read_prices(distance.unmatched, pooled, cost)
    return Problem(pooled, histograms, cost, distance, prices, shape, solver, jobs, budget)


def _place(
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
    choice = devices.choose(device, cpu_seconds=split.cpu, gpu_seconds=gpu_seconds, unfit=unfit)
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
        search.solve_promising(look, best)
        search.made["n_promising"] = len(search.solved())
    search.sweep(look, best)


def _search_for_share(
    problem: Problem, held_out: stated_recall.HeldOut, best: Best, recall: float, seed: int, shown: Progress
) -> Search:
    """The cheaper of a certain search and one that finds the share, which ``made["recall"]`` then tells of."""
    histograms, shape, jobs = problem.histograms, problem.shape, problem.jobs
    search, offer = _prepare(problem, Pruning(random_state=seed), shown)
    certain = rehearse(search, offer, best)
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
    offer = Offer(problem, pruning)
    return Search(
        problem.shape, problem.solver(), problem.jobs, problem.memory // 2, offer.made, shown, problem.distance.p
    ), offer  # fmt: skip


# ------------------------------------------------------------------------------------------- elsewhere, and on disk


def _on_cluster(
    problem: Problem, K: int, pruning: Pruning, cluster: Cluster, progress: ProgressLike, started: float
) -> Neighbors:
    """The search in strips of rows by the workers of a cluster."""
    shape = problem.shape
    starts = list(tiles(shape.n_rows, max(1, -(-shape.n_rows // (4 * cluster.jobs)))))
    task = SearchStrip(functools.partial(in_strips, problem, K, pruning, 1))
    parts: list[Strip] = []
    with Progress(progress, shape.n_rows, f"nearest neighbors ({cluster.name})", unit="row") as shown:
        for strip in cluster.map(task, starts):
            parts.append(strip)
            shown.advance(len(strip.indices))
    n_exact = sum(strip.n_exact for strip in parts)
    said = {"n_exact": n_exact, "n_jobs": cluster.jobs, "seconds": time.perf_counter() - started}
    info = parts[0].info | said | {"executor": cluster.name}
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
        lambda jobs: SearchStrip(functools.partial(in_strips, problem, K, pruning, jobs)),
        share * shape.n_columns,
        computed,
    )
    return search_into(sink, question, problem.jobs, progress)


def in_strips(problem: Problem, K: int, pruning: Pruning, jobs: int) -> StripSearch:
    """The search of single strips, made ready: every process chooses the same bounds in a rehearsal of its own."""
    search, offer = _prepare(problem._replace(jobs=jobs), pruning, Progress(False, 0, ""))
    look = choose_look(search, offer, Best(problem.shape.n_rows, K, problem.shape.within))
    return StripSearch(search, look, K)
