"""`asot.Index`: distributions that are added, removed, asked for and kept on disk."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from asot._typing import Parameters
from asot.data.distributions import as_distributions
from asot.index.columns import give_back
from asot.index.frame import bounds_of
from asot.index.growing import GrowingMembers
from asot.index.naming import allowed_slots
from asot.index.on_gpus import GpuSearch
from asot.index.recall import Rehearsal, as_recall, rehearse
from asot.index.search import CERTAIN, Answer, Nearest, Queries, Query, Trust
from asot.index.settings import read_settings
from asot.neighbors import kneighbors, radius_neighbors
from asot.results.neighbors import Neighbors, RadiusNeighbors
from asot.run import devices
from asot.run.engine import Resources
from asot.run.executors import Progress, ProgressLike, Stop, local_executor
from asot.search.sweep import Best, Edges
from asot.validation import as_positive_int, as_radius

_SHORT = 2**28  # distances between the points of a query and those of all members: no need for a thread


class Index(GrowingMembers):
    """An index of distributions: exact nearest neighbors under W_p, in a collection that changes.

    Every member is prepared once, when it is added: a query costs no preparation, and adding touches no other member.
    Answers are certain: what brute force over `pairwise_exact` would find, after any history of changes.

    Queries may run in any number of threads beside changes. A query sees the members that were there when it began.

    Parameters
    ----------
    p, metric, metric_params, unmatched
        Which distance, as in `asot.kneighbors`; what is taken from all points at once must be given (``"V"`` of
        "seuclidean", ``"VI"`` of "mahalanobis"), and prices of unmatched mass by point are not taken.
    random_state : int or None
        Decides which members become landmarks; no answer depends on it.

    Examples
    --------
    >>> import numpy as np, asot
    >>> rng = np.random.default_rng(0)
    >>> index = asot.Index()
    >>> index.add([rng.normal(i, 1.0, size=(20, 2)) for i in range(5)], ids=["a", "b", "c", "d", "e"])
    array(['a', 'b', 'c', 'd', 'e'], dtype='<U1')
    >>> found = index.query([rng.normal(2.2, 1.0, size=(30, 2))], n_neighbors=2)
    >>> found.neighbor_ids
    array([['c', 'd']], dtype='<U1')
    >>> index.remove("c")
    >>> index.query([rng.normal(2.2, 1.0, size=(30, 2))], n_neighbors=2).neighbor_ids
    array([['b', 'd']], dtype='<U1')
    """

    def __init__(
        self,
        *,
        p: float = 1,
        metric: Any = "euclidean",
        metric_params: Parameters | None = None,
        unmatched: Any = None,
        random_state: Any = 0,
    ) -> None:
        self._begin(read_settings(p, metric, metric_params, unmatched, random_state), None)

    @functools.cached_property
    def _gpus(self) -> GpuSearch:
        return GpuSearch(self._settings)

    def query(
        self,
        Q: Any,
        n_neighbors: int = 5,
        *,
        recall: float | None = None,
        among: Any = None,
        max_solves: int | None = None,
        device: str = "auto",
        n_jobs: int | None = None,
        memory: int | str | None = None,
        progress: ProgressLike = None,
    ) -> Neighbors:
        """The nearest members of each query, certain unless you ask for less.

        Parameters
        ----------
        Q : Distributions (N), or a list of point arrays (n_i, d)
            A query that is a member finds itself, at distance 0.
        n_neighbors : int
        recall : float, optional
            The share of the true neighbors to find, such as 0.98, with fewer solves. How many are needed is found on
            some members at the first such query, and the share is measured on others; ``info["recall"]`` has it. That
            takes as long as some 400 queries, once while the index is open. Where it saves no solves, answers are
            certain.
        among : sequence of ids, or mask (members,), optional
            Only these may be found. The order of a mask is that of `ids`.
        max_solves : int, optional
            Solve no more pairs than this for a query. Then ``lower`` (N, n_neighbors) says what is certain: no k-th
            neighbor is nearer than that; and ``info["unseen"]`` (N,), how near a member could be that was not solved.
        device : {"auto", "cpu", "cuda", "cuda:N"}
            "auto" works on the CPU. On a GPU, all members are searched for all queries at once; what that takes is
            made at the first batch, and kept until members change.
        n_jobs, memory, progress
            As in `kneighbors`; threads work on different queries, or on the bounds of a single one.

        Returns
        -------
        Neighbors
            ``neighbor_ids``, ``distances`` (N, n_neighbors); ``indices`` are places in `ids` at the time of the query.
        """
        started = time.perf_counter()
        K = as_positive_int(n_neighbors, "n_neighbors")
        resources = Resources(n_jobs, memory, progress)
        queries = self._queries(Q, among, resources)
        candidates = int(np.count_nonzero(queries.allowed))
        if candidates < K:
            raise ValueError(f"n_neighbors={K}, but there are only {candidates} members to be found")
        budget = None if max_solves is None else as_positive_int(max_solves, "max_solves")
        if budget is not None and budget < K:
            raise ValueError(f"max_solves={budget} is not enough for n_neighbors={K}: each neighbor has to be solved")
        if devices.parse(device)[0] == "cuda":
            if recall is not None or max_solves is not None:
                name = "max_solves" if recall is None else "recall"
                raise ValueError(f"{name}= works on the CPU: use device='auto' or 'cpu'")
            return self._on_gpu(queries, K, np.inf, device, resources, started)
        rehearsal = None if recall is None else self._rehearsal(queries, K, as_recall(recall))
        trust = CERTAIN if rehearsal is None else rehearsal.trust
        answers = list(self._answers(queries, progress, Nearest(K), budget, trust))
        slots = np.array([answer.slots for answer in answers], dtype=np.int64).reshape(-1, K)
        distances = np.array([answer.distances for answer in answers]).reshape(-1, K)
        info = self._described(queries, answers, started)
        if rehearsal is not None:
            info["recall"] = rehearsal.record
        lower = None
        if budget is not None:
            info["unseen"] = np.array([answer.unseen for answer in answers])
            lower = np.minimum(distances, info["unseen"][:, None])
        return Neighbors(queries.snapshot.positions(slots), distances, info, info["n_exact"], queries.names, lower)

    def query_radius(
        self,
        Q: Any,
        radius: float = 1.0,
        *,
        among: Any = None,
        device: str = "auto",
        n_jobs: int | None = None,
        memory: int | str | None = None,
        progress: ProgressLike = None,
    ) -> RadiusNeighbors:
        """All members within a radius of each query; see `query` and `asot.radius_neighbors`."""
        started = time.perf_counter()
        radius = as_radius(radius)
        resources = Resources(n_jobs, memory, progress)
        queries = self._queries(Q, among, resources)
        if devices.parse(device)[0] == "cuda":
            return self._on_gpu(queries, None, radius, device, resources, started)
        answers = list(self._answers(queries, progress, Nearest(None, radius)))
        indptr = np.concatenate([[0], np.cumsum([len(answer.slots) for answer in answers])]).astype(np.int64)
        slots = np.concatenate([np.empty(0, dtype=np.int64), *(answer.slots for answer in answers)])
        distances = np.concatenate([np.empty(0), *(answer.distances for answer in answers)])
        info = self._described(queries, answers, started)
        places = queries.snapshot.positions(slots)
        return RadiusNeighbors(indptr, places, distances, info["n_exact"], info, queries.names)

    def _queries(self, Q: Any, among: Any, resources: Resources) -> Queries:
        """Queries against the members of this moment."""
        self._check_open()
        collection = as_distributions(Q)
        with self._change:
            snapshot = self._snapshot
            if snapshot is None or snapshot.count == 0:
                raise ValueError("the index is empty: add distributions before you ask for neighbors")
            allowed = snapshot.alive if among is None else allowed_slots(among, snapshot, self._places)
        if collection.dim != snapshot.points.shape[1]:
            raise ValueError(
                f"the queries are in {collection.dim} dimensions and the index in {snapshot.points.shape[1]}; "
                "they must share one space"
            )
        self._settings.check(collection)
        return Queries(snapshot, self._settings, collection, allowed, resources.budget, resources.jobs)

    def _answers(
        self, queries: Queries, progress: ProgressLike, wanted: Nearest, budget: int | None = None,
        trust: Trust = CERTAIN,
    ) -> Iterator[Answer]:  # fmt: skip
        def one(i: int, stop: Stop) -> Answer:
            return queries.one(i, stop).answer(replace(wanted), budget, trust)

        n, _ = len(queries.collection), queries.vectors
        short = n == 1 and len(queries.collection.masses) * len(queries.snapshot.masses) < _SHORT
        with Progress(progress, n, "queries", "query") as shown:
            for answer in local_executor(min(queries.n_jobs, n), short=short).map(one, range(n)):
                shown.advance(1)
                yield answer

    def _described(self, queries: Queries, answers: list[Answer], started: float) -> dict[str, Any]:
        give_back(queries.snapshot.points)
        solves = [answer.solves for answer in answers]
        self._served.note(solves, queries.snapshot.count)
        n = len(solves)
        return {
            "estimate": "exact", "p": self._settings.p, "metric": self._settings.metric,
            "rooted": self._settings.p != 1,
            "n_exact": sum(solves), "n_pairs": n * int(np.count_nonzero(queries.allowed)),
            "n_columns": queries.snapshot.count, "bounds": bounds_of(queries.snapshot.frame),
            "device": "cpu", "seconds": time.perf_counter() - started,
        }  # fmt: skip

    def _rehearsal(self, queries: Queries, K: int, recall: float) -> Rehearsal:
        """How far a search may trust bounds; kept until the members are others."""
        snapshot = queries.snapshot
        if (K, recall) in self._rehearsed:
            count, frame, known = self._rehearsed[(K, recall)]
            if frame is snapshot.frame and 0.8 * count <= snapshot.count <= 1.25 * count:
                return known
        stop = np.zeros(1, dtype=np.int64)

        def ask(slot: int) -> Query:
            others = snapshot.alive.copy()
            others[slot] = False
            member = snapshot.taken(np.array([slot]))
            return Queries(snapshot, self._settings, member, others, queries.memory, 1).one(0, stop)

        made = rehearse(ask, snapshot.slots, K, recall, self._settings.seed)
        self._rehearsed[(K, recall)] = (snapshot.count, snapshot.frame, made)
        return made

    def _on_gpu(
        self, queries: Queries, K: int | None, radius: float, device: str, resources: Resources, started: float
    ) -> Any:
        """K neighbors of each query, or all within a radius."""
        slots, Q, snapshot = np.flatnonzero(queries.allowed), queries.collection, queries.snapshot
        names, more = queries.names, {"n_columns": snapshot.count}
        if not self._settings.has_kernel:
            distance = {name: getattr(self._settings, name) for name in ("p", "metric", "metric_params", "unmatched")}
            given = {**vars(resources), **distance, "device": device}
            members = snapshot.taken(slots)
            found: Any = kneighbors(Q, members, K, **given) if K else radius_neighbors(Q, members, radius, **given)
            places = snapshot.positions(slots[found.indices])
            return replace(found, indices=places, info=found.info | more, names=names)
        sink = Edges(radius, len(Q), False) if K is None else Best(len(Q), K, False)
        info = self._gpus.search(Q, snapshot, slots, sink, device, resources) | more
        info["seconds"] = time.perf_counter() - started
        if isinstance(sink, Best):
            places = snapshot.positions(slots[sink.indices])
            return Neighbors(places, sink.distances, info, info["n_exact"], names)
        rows, columns, distances = sink.sorted()
        indptr, places = np.searchsorted(rows, np.arange(len(Q) + 1)), snapshot.positions(slots[columns])
        return RadiusNeighbors(indptr, places, distances, info["n_exact"], info, names)
