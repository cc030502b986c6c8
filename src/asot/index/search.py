"""A query: bounds of all members first, then exact solves in the order of bounds, until no unsolved one can matter.

The cheap bounds of all members take one compiled pass over a table. Those that look nearest are solved, which gives a
first K-th best distance. Members whose bound exceeds it are out; the others get finer bounds, and then, in growing
chunks, the relaxed transport problem of the pair itself (`asot.search.relaxed`), and only what is left is
solved. So the answer is what brute force finds, ties in order of addition.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices
from asot.data.distributions import Distributions
from asot.index.frame import Frame, Slack, Tables
from asot.index.members import Names, Snapshot
from asot.index.settings import Settings
from asot.index.words import WordLook, look_at_words
from asot.run.executors import Stop, in_ranges
from asot.search import kernels

_FIRST_CHUNK, _LARGEST_CHUNK = 64, 4096
_CHUNK_POINTS = 2**17
_LOOKED_AT_COARSELY = 64  # times as many members as are solved first get coarse bounds before
_LOOKED_AT = 16  # times as many members get fine bounds before the first solves
_LOOKED_AT_BY_WORDS = 4  # which order members well
TIMES = (1.0, 1.05, 1.1, 1.15, 1.25, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0)
"""How much a distance may be taken to be more than a bound that is only compared with limits."""

_ALWAYS = np.array([np.iinfo(np.int64).max])


@dataclass
class Nearest:
    """The K nearest members so far, or all within a radius; by slot."""

    n_neighbors: int | None
    radius: float = np.inf
    slots: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    distances: Float = field(default_factory=lambda: np.empty(0))

    @property
    def limit(self) -> float:
        """No member farther than this matters."""
        if self.n_neighbors is None:
            return self.radius
        return float(self.distances[-1]) if len(self.distances) == self.n_neighbors else np.inf

    def take(self, slots: Indices, distances: Float) -> None:
        near = distances <= self.limit
        slots = np.concatenate([self.slots, slots[near]])
        distances = np.concatenate([self.distances, distances[near]])
        order = np.lexsort((slots, distances))[: self.n_neighbors]
        self.slots, self.distances = slots[order], distances[order]


class Trust(NamedTuple):
    """How much more than its bound a distance is taken to be, at each look; 1 is what is proven.

    A search for a share of the neighbors trusts early looks, which fall short by half, more than late ones.
    """

    cheap: float = 1.0
    coarse: float = 1.0
    fine: float = 1.0
    relaxed: float = 1.0


CERTAIN = Trust()


class Answer(NamedTuple):
    """What was found for one query."""

    slots: Indices
    distances: Float
    solves: int
    unseen: float
    """No member that was not solved is nearer than this; infinite if all that matter were solved."""


@dataclass(frozen=True)
class Queries:
    """Some queries against a snapshot, and who may be found."""

    snapshot: Snapshot
    settings: Settings
    collection: Distributions
    allowed: NDArray[np.bool_]  # (S,) slots
    memory: int
    n_jobs: int

    @property
    def jobs(self) -> int:
        """Threads for the bounds of one query."""
        return self.n_jobs if len(self.collection) == 1 else 1

    @functools.cached_property
    def vectors(self) -> tuple[Tables, Slack]:
        """Of the queries; ask for them before threads do."""
        s = self.snapshot
        if s.frame is None or not s.prepared:
            return {}, Slack()
        return s.frame.vectors(self.collection, self.settings, self.memory, self.n_jobs)

    def one(self, i: int, stop: Stop) -> Query:
        """Begin query i."""
        return Query(self, i, stop)

    @property
    def names(self) -> tuple[NDArray[Any], Any]:
        """Ids of the queries and of the members."""
        return self.collection.ids, Names(self.snapshot)

    @functools.cached_property
    def rounding(self) -> dict[str, float]:
        assert self.snapshot.frame is not None
        return self.snapshot.frame.rounding(self.snapshot.slack.joined(self.vectors[1]))

    @functools.cached_property
    def records(self) -> tuple[kernels.BoundTables, kernels.BoundTables]:
        """The vectors of the queries and of the members as the kernel sees them."""
        frame = self.snapshot.frame
        assert frame is not None
        return _record(frame, self.vectors[0], self.rounding), _record(frame, self.snapshot.tables, self.rounding)


class Query:
    """One of some queries, on its way to an answer."""

    def __init__(self, queries: Queries, i: int, stop: Stop) -> None:
        self._all, self._i, self._stop = queries, i, stop
        self._snapshot = snapshot = queries.snapshot
        self._frame = frame = snapshot.frame
        self._slots = np.flatnonzero(queries.allowed)
        self._unit = 1.0 if frame is None else 2.0**frame.exponent
        """Of lengths in vectors."""
        self._words: WordLook | None = None
        """Where words of members meet it, if the index keeps words."""
        if frame is not None and frame.only_words and snapshot.prepared == len(snapshot.ends):
            places = self._places
            self._words = None if places is None else look_at_words(snapshot, places, self._unit)

    def answer(self, nearest: Nearest, max_solves: int | None = None, trust: Trust = CERTAIN) -> Answer:
        """Find the nearest members; those whose bound times ``trust`` is too far count as out."""
        slots, bounds = self._slots, self.cheap_bounds()
        bounds = bounds if len(slots) == len(bounds) else bounds[slots]
        solves, budget, unseen = 0, len(slots) if max_solves is None else max_solves, np.inf
        first: Indices = np.empty(0, dtype=np.int64)
        if nearest.n_neighbors is not None and len(slots) > _FIRST_CHUNK:
            solves = min(len(slots), budget, _solved_first(nearest.n_neighbors))
            first = self._look_nearest(bounds, solves)
            nearest.take(slots[first], self._solved(slots[first])[0])
        limit = nearest.limit
        left = bounds <= limit / trust.cheap
        left[first] = True
        if max_solves is not None:
            unseen = float(bounds[~left].min(initial=unseen))
        left[first] = False
        slots, bounds = slots[left], bounds[left]
        bounds, left = self.fine_bounds(slots, bounds, limit, trust)
        unseen = float(bounds[~left].min(initial=unseen))
        slots, bounds = slots[left], bounds[left]
        order = np.argsort(bounds, kind="stable")  # slots ascend
        slots, bounds = slots[order], bounds[order]
        mean = max(1.0, len(self._snapshot.masses) / max(1, len(self._snapshot.ends)))
        low, most = 0, max(1, min(_LARGEST_CHUNK, int(_CHUNK_POINTS / mean)))
        size = min(_FIRST_CHUNK, most)
        while low < len(slots):
            limit = nearest.limit
            high = low + int(np.searchsorted(bounds[low : low + size], limit / trust.fine, side="right"))
            if high == low or solves >= budget:
                unseen = min(unseen, float(bounds[low]))
                break
            high = min(high, low + budget - solves)
            values, count = self._solved(slots[low:high], limit, trust.relaxed)
            solves += count
            if trust.relaxed > 1.0 and count < high - low:
                unseen = min(unseen, limit / trust.relaxed)
            nearest.take(slots[low:high], values)
            low, size = high, min(4 * size, most)
        none_matters = trust == CERTAIN and not unseen <= nearest.limit
        return Answer(nearest.slots, nearest.distances, solves, np.inf if none_matters else unseen)

    def shortfalls(self, slots: Indices) -> Float:
        """Bounds of some slots at each look (4, n), as shares of their largest distance; what a `Trust` rests on."""
        limit = float(self._solved(slots)[0].max())
        if limit == 0.0:
            return np.zeros((len(CERTAIN), len(slots)))
        every = self.cheap_bounds()
        cheap, relaxed = every[slots], np.full(len(slots), limit)
        for times in TIMES:
            relaxed[self._solved(slots, limit, times)[0] < np.inf] = limit / times
        shares = np.array([cheap, self.coarse_bounds(slots, cheap), self.fine_bounds(slots, cheap)[0], relaxed]) / limit
        count = min(len(self._slots), _solved_first(len(slots)))
        solved_anyway = self._slots[self._look_nearest(every[self._slots], count)]  # before there is a limit
        shares[:, np.isin(slots, solved_anyway)] = 0.0
        return shares

    # -------------------------------------------------------------------------------------------------------- bounds

    def cheap_bounds(self) -> Float:
        """Bounds of all slots (S,)."""
        bounds = np.zeros(len(self._all.allowed))
        frame, n = self._frame, self._snapshot.prepared
        if self._words is not None:
            found = np.zeros(len(self._slots))
            self._words.grow(self._slots, found, np.inf, False, self._stop)
            bounds[self._slots] = found
        elif frame is not None and n and not frame.only_words:
            self._raise(bounds[:n])
            bounds *= self._unit
        return bounds

    def _raise(self, bounds: Float, rows: Indices | None = None, limit: float = np.inf) -> None:
        """Raise bounds (n,) of some rows of the tables, or of the first n to the cheapest there are."""
        records = self._all.records

        def some(low: int, high: int) -> None:
            some_rows: dict[str, Any] = {"first": low} if rows is None else {"rows": rows[low:high], "limit": limit}
            wanted = kernels.QueryBounds(query=self._i, n=high - low, bounds=bounds[low:high], **some_rows)
            kernels.query_bounds(*records, wanted, self._stop)

        in_ranges(self._all.jobs)(len(bounds), some)

    def _look_nearest(self, bounds: Float, count: int) -> Indices:
        """Places (count,), among all to be found, of those that look nearest; bounds (n,) grow where looked at."""
        slots, first = self._slots, np.arange(len(self._slots))
        if self._words is None:
            first = _least(bounds, first, _LOOKED_AT_COARSELY * count)
            bounds[first] = self.coarse_bounds(slots[first], bounds[first])
        first = _least(bounds, first, (_LOOKED_AT if self._words is None else _LOOKED_AT_BY_WORDS) * count)
        bounds[first] = self.fine_bounds(slots[first], bounds[first])[0]
        return _least(bounds, first, count)

    def fine_bounds(
        self, slots: Indices, bounds: Float, limit: float = np.inf, trust: Trust = CERTAIN
    ) -> tuple[Float, NDArray[np.bool_]]:
        """The largest known bounds of some slots (n,), and which of them are not out (n,)."""
        bounds = self.coarse_bounds(slots, bounds, limit)
        left = bounds * trust.coarse <= limit
        known = np.flatnonzero(left & (slots < self._snapshot.prepared))
        if self._frame is not None and len(known):
            better, rows = bounds[known], slots[known]
            if self._words is not None:
                self._words.grow(rows, better, limit, True, self._stop)
            elif self._frame.has_places and self._places is not None:
                better = self.reduced_bounds(rows, better / self._unit, limit / self._unit) * self._unit
            bounds[known] = better
        return bounds, left & (bounds * trust.fine <= limit)

    def coarse_bounds(self, slots: Indices, bounds: Float, limit: float = np.inf) -> Float:
        """The largest bounds of some slots (n,) that projections give."""
        bounds = bounds.copy()
        known = np.flatnonzero((slots < self._snapshot.prepared) & (bounds <= limit))
        if self._frame is None or self._frame.axes is None or self._words is not None or len(known) == 0:
            return bounds
        better = bounds[known] / self._unit
        self._raise(better, slots[known], limit / self._unit)
        bounds[known] = better * self._unit
        return bounds

    def reduced_bounds(self, slots: Indices, bounds: Float, limit: float) -> Float:
        """Bounds (n,), in units of the frame, raised to reduced transport between points in a few coordinates."""
        s, query = self._snapshot, self._places
        known, words = s.tables["vocabulary" if "words" in s.tables else "places"], s.tables.get("words")
        members = kernels.ProjectedMembers(points=known, masses=s.masses, ends=s.ends, words=words, n_words=len(known))

        def some(low: int, high: int) -> None:
            own = slice(low, high)
            wanted = kernels.ProjectedBounds(n=high - low, rows=slots[own], limit=limit, bounds=bounds[own])
            kernels.projected_bounds(members, query, wanted, self._stop)

        in_ranges(self._all.jobs)(len(slots), some)
        return bounds

    @functools.cached_property
    def _places(self) -> kernels.ProjectedQuery | None:
        """Its points in the coordinates in which those of members are kept; None if it is too far away."""
        collection, frame = self._all.collection, self._frame
        first, last = collection.offsets[self._i : self._i + 2]
        places = self._all.vectors[0]["places"][first:last]
        if frame is None or frame.axes is None or np.isnan(places[0, 0]):
            return None
        used, stride = places.shape[1] if frame.only_words else frame.axes.leading, (len(places) + 15) & ~15
        transposed = np.zeros((used, stride), dtype=np.float32)
        transposed[:, : len(places)] = places[:, :used].T
        slack = self._all.rounding["absolute"]
        return kernels.ProjectedQuery(
            n=len(places), stride=stride, used=used, points=transposed, masses=collection.masses[first:last],
            code=frame.code, relative=1e-5 + 2.5e-7 * used, absolute=2.0 * slack, equal=slack,
        )  # fmt: skip

    # -------------------------------------------------------------------------------------------------------- solves

    def _solved(self, slots: Indices, limit: float = np.inf, times: float = 1.0) -> tuple[Float, int]:
        """Distances to some slots, infinite where so many times a bound is above the limit; how many were solved."""
        pooled = self._all.collection[self._i : self._i + 1] + self._snapshot.taken(slots)
        relaxes = np.isfinite(limit) and not (self._frame is not None and self._frame.only_words)
        solver, relaxed = self._all.settings.problem(pooled, self._all.memory, relaxes)
        columns, values = np.arange(len(slots)), np.full(len(slots), np.inf)
        if relaxed is not None:
            rows = np.zeros(len(slots), dtype=np.int64)
            scaled = relaxed.scaled(np.array([limit / times]))
            search = kernels.SearchLimits(column_start=1, limits=scaled, settled=_ALWAYS, stop=self._stop)
            columns = columns[relaxed.kept(rows, columns, search)]
        if len(columns):
            rows = np.zeros(len(columns), dtype=np.int64)
            values[columns] = solver.solve(rows, columns, self._stop).values
        return values, len(columns)


def _solved_first(n_neighbors: int) -> int:
    """Members that are solved to get a first limit."""
    return 2 * n_neighbors + 8


def _least(bounds: Float, places: Indices, count: int) -> Indices:
    """The places (count,) with the smallest bounds, or all if there are no more."""
    return places if len(places) <= count else places[np.argpartition(bounds[places], count - 1)[:count]]


def _record(frame: Frame, tables: Tables, rounding: dict[str, float]) -> kernels.BoundTables:
    """Tables (N, widths) as the kernel sees them."""
    widths = frame.widths
    row = widths["fine"]
    given = {name: tables[name] for name in ("means", "coarse", "fine", "mixed", "tail", "pool") if widths[name]}
    if frame.is_brief:
        given["brief"] = given.pop("coarse")
    return kernels.BoundTables(
        n=len(tables["pool"]), n_groups=widths["mixed"] // row if row else 0,
        n_mixed=0 if frame.axes is None else min(4, frame.axes.leading) if widths["mixed"] else 0,
        n_tail=widths["tail"], n_pool=widths["pool"], code=frame.code, order=frame.order,
        group_stride=row, row_stride=widths["mixed"], step=frame.step, **rounding, **given,
    )  # fmt: skip
