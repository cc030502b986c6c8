"""What a result was made with: which distance, the collections, and the anchors and the fit, or exact solves.

`Distances.extend` computes only pairs with new distributions, and ``asot.pairwise(new, old, model=r.model)`` only those
it is asked for; both as the call that made the model would have.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from asot._typing import Float, Identity, Indices, Info
from asot.anchors.space import AnchorSpace
from asot.choose.prices import estimates_work
from asot.data.distributions import Distributions, as_distributions
from asot.estimate.attempts import attempts_for
from asot.estimate.calibration import EXACT_ERROR
from asot.estimate.known_spaces import KnownSpaces
from asot.estimate.pair_features import Features
from asot.exact.auto import exact_solver, exact_work
from asot.ground.metrics import FROM_POINTS
from asot.request import Accuracy, Distance, Request
from asot.results.distances import Distances, named
from asot.results.model import ModelBase
from asot.results.neighbors import Neighbors
from asot.results.sinks import default_sink
from asot.run.engine import Ready, Resources, Work, solve_work
from asot.run.executors import kept_threads, one_thread_per_product
from asot.run.pairs import ListedPairs
from asot.run.protocols import EXTRAS, Notes, Sink, Solution, Solver, Status, all_ended, identity_of
from asot.store.stored import Stored

FARTHER = 2.0
"""How many times farther from the anchors than any old distribution makes a new one suspicious."""


def solve_all(request: Request, info: Info) -> Any:
    """Every pair exactly, with its error, and with bounds where they are wanted."""
    info = {**info, "estimate": "exact"}
    if request.max_error is not None:
        info["max_error"] = str(request.max_error)
    work = exact_work(request, Notes(info, started=request.started))
    result: Any = solve_work(work, default_sink(request.sink), request.resources)
    if request.max_error is not None and isinstance(result, Distances):
        result.info["n_exact"] = len(result)
    return certain(result, request)


def certain(result: Any, request: Request) -> Any:
    """A result of exact solves, with its error and, where they are wanted, bounds."""
    if not isinstance(result, (Distances, Neighbors)):
        return result
    values = result.values if isinstance(result, Distances) else result.distances
    more: dict[str, Any] = {"error": EXACT_ERROR * values}
    if request.level is not None:
        more.update(lower=values.copy(), upper=values.copy())
    if isinstance(result, Distances):
        more["status"] = np.full(len(result), Status.EXACT, dtype=np.int8)
    return replace(result, **more)


# ------------------------------------------------------------------------------------------------ the model of a result


@dataclass(eq=False)
class Model(ModelBase):
    """What a result was made with. Nobody changes it."""

    D: Distributions | None
    """The rows of the result; None if it was saved without its collections."""
    E: Distributions | None
    distance: Distance
    level: str | None = None
    """Which bounds the result has."""
    max_error: Accuracy | None = None
    known: KnownSpaces | None = None
    """The anchors and the fit of estimates; None where pairs are solved exactly."""
    strategy: Info | None = None
    """``info["strategy"]`` of a result of `pairwise`; None of `pairwise_exact`."""
    saved_dim: int = 0
    """Dimensions, where the collections are not there to tell."""

    @property
    def dim(self) -> int:
        return self.saved_dim if self.D is None else self.D.dim

    @property
    def kind(self) -> str:
        """ "exact" or "calibrated"."""
        return "exact" if self.known is None else "calibrated"

    @property
    def spaces(self) -> tuple[AnchorSpace, ...]:
        """The anchors of estimates."""
        return () if self.known is None else self.known.spaces

    def __repr__(self) -> str:
        how = "exact solves" if self.known is None else f"{self.spaces[0].n_anchors} anchors, calibrated"
        of = "" if self.D is None else f" of {len(self.D):,} distributions"
        return f"Model{of} in {self.dim} dimensions: {describe(self.distance)}, {how}"

    # ------------------------------------------------------------------------------------------------ other pairs

    def solve(self, request: Request) -> Any:
        """The distances of a request, as this model makes them."""
        self.check_fits(request.D, request.distance)
        self._check_extends()
        request = replace(request, max_error=self.max_error, level=request.level or self.level)
        info = self._info(request)
        with one_thread_per_product(), kept_threads(request.resources.jobs):
            if self.known is None:
                return solve_all(request, info)
            work = self._estimates(request, self.known, self.known.features(request), info, same_rows=False)
            return solve_work(work, request.bounded_sink, request.resources)

    def _estimates(
        self, request: Request, known: KnownSpaces, features: Features, info: Info, *, same_rows: bool
    ) -> Work:
        fitted = known.calibration(features, same_rows=same_rows)
        seconds = features.expected_seconds(len(request.pairs))

        def exact_solver() -> Solver:
            return attempts_for(request, None).exact_solver()

        return estimates_work(request, features, fitted, exact_solver, seconds, info)

    def check_fits(self, D: Distributions, distance: Distance) -> None:
        """Refuse collections and distances that the model is not for."""
        if D.dim != self.dim:
            raise ValueError(f"the model is for points in {self.dim} dimensions, but the collection has {D.dim}")
        if not _same(distance, self.distance):
            raise ValueError(
                f"the model is for {describe(self.distance)}, but this call asks for {describe(distance)}; "
                "pass the p, metric, metric_params and unmatched that the model was made with"
            )

    def _check_extends(self) -> None:
        """Refuse distances that depend on all points of a collection, and so change with new ones."""
        distance = self.distance
        parameter = FROM_POINTS.get(str(distance.metric))
        if parameter is not None and parameter not in (distance.metric_params or {}):
            raise ValueError(
                f"metric {distance.metric!r} took its {parameter} from the old points, and new ones would change it; "
                f"make the result with metric_params={{{parameter!r}: ...}}, which it keeps"
            )
        if distance.unmatched is not None and np.ndim(distance.unmatched) > 0:
            raise ValueError(
                "unmatched= was an array with a price for every old point, which says nothing of new ones; make the "
                "result with a number or 'diagonal', or solve all pairs again"
            )

    def _info(self, request: Request) -> Info:
        info = {"metric": "euclidean", "p": 1} if request.distance.is_plain else request.distance.info
        if self.strategy is not None:
            info["strategy"] = self.strategy
        return info if self.known is None else {**info, "n_anchors": self.spaces[0].n_anchors}

    # ------------------------------------------------------------------------------------------------ growing

    def extend(self, result: Any, new: Any, resources: Resources, sink: Sink[Any] | None) -> Any:
        started = time.perf_counter()
        if isinstance(result.pair_set, ListedPairs):
            raise ValueError(
                "a list of pairs does not say which pairs with new distributions are wanted; use "
                "asot.pairwise(new, old, pairs=..., model=r.model)"
            )
        old, more = self._collection(result), as_distributions(new)
        self.check_fits(more, self.distance)
        self._check_extends()
        both = joined(old, more)
        request = Request(
            both, self.E, self.distance, None, sink, "cpu", resources, self.level, self.max_error, started
        )  # fmt: skip
        with one_thread_per_product(), kept_threads(resources.jobs):
            kept = default_sink(sink) if self.known is None else request.bounded_sink
            grown: Any = solve_work(self._work(request, result), kept, resources)
        if self.known is None and isinstance(grown, Distances) and self.strategy is not None:
            grown = certain(grown, request)
        own = replace(self, D=both)
        return named(grown, both.ids, both.ids if self.E is None else self.E.ids, both.offsets, own)

    def _collection(self, result: Any) -> Distributions:
        if self.D is None:
            raise ValueError(
                "the result was saved without its collection, so it cannot be extended by itself; use "
                "asot.pairwise(new, old, model=r.model), or save it with r.save(path)"
            )
        if len(self.D) != result.pair_set.n_rows or (self.E is None) != result.pair_set.symmetric:
            raise ValueError("the model is of other collections than the distances; the file is damaged")
        return self.D

    def _work(self, request: Request, old: Any) -> Work:
        solver: Solver
        n_new = (len(request.D) - old.pair_set.n_rows) * request.pairs.n_columns
        info = {**self._info(request), "estimate": "exact", "n_old": old.pair_set.n_rows}
        if self.known is None:
            solver = exact_solver(
                request.both, self.distance, request.column_start, request.resources.budget, n_pairs=n_new
            )  # fmt: skip
        else:
            features = self.known.features(request)
            _warn_of_others(features.radii[: len(request.D)], old.pair_set.n_rows)
            own = self._estimates(request, self.known, features, info, same_rows=True)
            solver, info = own.cpu(), own.notes.info
        there = ("status",) if self.known is None else ("lower", "upper", "error", "status")
        fields = ("values", *(name for name in there if _has(old, name)))
        return Work(request.pairs, Ready(Grown(old, fields, solver)), notes=Notes(info, started=request.started))

    def parts(self, collection: bool = True) -> Any:
        from asot.choose.model_files import model_parts

        return model_parts(self, collection)


class Grown(Solver):
    """Pairs of a collection whose first distributions are those of ``old``, an earlier result that has their answers;
    all others are solved by ``solver``. Of two collections, the first one has grown."""

    def __init__(self, old: Distances | Stored, fields: tuple[str, ...], solver: Solver) -> None:
        self._old, self._fields, self._solver = old, fields, solver
        self._n_rows, self._symmetric = old.pair_set.n_rows, old.pair_set.symmetric
        self.info, self.stage, self.counts_exact = solver.info, solver.stage, solver.counts_exact

    def identity(self) -> Identity:
        return identity_of("grown, 1", old=self._old, n_old=self._n_rows, new=self._solver)

    def pairs_per_tile(self, memory: int) -> int:
        return self._solver.pairs_per_tile(memory)

    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
        known = np.maximum(rows, columns) < self._n_rows if self._symmetric else rows < self._n_rows
        fresh = ~known
        if fresh.all():
            return self._solver.solve(rows, columns, stop)
        extras = {name: np.empty(len(rows)) for name in EXTRAS if name in self._fields}
        found = all_ended(Status.UNKNOWN, np.empty(len(rows)), None, **extras)
        for name in self._fields:
            getattr(found, name)[known] = self._old.at(rows[known], columns[known], name)
        if fresh.any():
            solved = self._solver.solve(rows[fresh], columns[fresh], stop)
            for name in ("values", "status", "n_iter", *extras):
                getattr(found, name)[fresh] = getattr(solved, name)
        return found


def _warn_of_others(radii: Float, n_old: int) -> None:
    """Tell of new distributions that the anchors were not made for."""
    far = np.flatnonzero(radii[n_old:] > FARTHER * radii[:n_old].max())
    if len(far):
        warnings.warn(
            f"{len(far):,} of {len(radii) - n_old:,} new distributions, the first of them new distribution {far[0]}, "
            f"are more than {FARTHER:g} times as far from the anchors as any old one: their errors may be larger than "
            "stated; compute all pairs anew if there will be more of them",
            stacklevel=5,
        )


def _has(old: Any, field: str) -> bool:
    """Whether a result, or a store, has a field."""
    return field in old.fields if hasattr(old, "fields") else getattr(old, field) is not None


def joined(old: Distributions, new: Distributions) -> Distributions:
    """Old and new distributions in one collection; an id that is there twice is refused."""
    both = old + new
    if both.given_ids is None:
        return both
    seen = set(old.ids.tolist())
    for i, name in enumerate(new.ids.tolist()):
        if name in seen:
            raise ValueError(
                f"the id {name!r} of new distribution {i} is there already; ids of new distributions must be new "
                "(Distributions(..., ids=...))"
            )
        seen.add(name)
    return both


def describe(distance: Distance) -> str:
    """Which distance it is, in words."""
    metric = getattr(distance.metric, "__qualname__", distance.metric)
    more = "" if not distance.metric_params else f" with {', '.join(sorted(distance.metric_params))}"
    prices = "" if distance.unmatched is None else ", with unmatched mass"
    return f"W_{distance.p:g} under {metric!r}{more}{prices}"


def _same(one: Distance, other: Distance) -> bool:
    parameters = [distance.metric_params or {} for distance in (one, other)]
    return (
        one.p == other.p
        and one.metric == other.metric
        and parameters[0].keys() == parameters[1].keys()
        and all(_equal(parameters[0][key], parameters[1][key]) for key in parameters[0])
        and _equal(one.unmatched, other.unmatched)
    )


def _equal(one: Any, other: Any) -> bool:
    """Of words, numbers, arrays and None."""
    a, b = np.asarray(one), np.asarray(other)
    return (a.dtype.kind == "U") == (b.dtype.kind == "U") and np.array_equal(a, b)
