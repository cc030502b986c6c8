"""A query: bounds of all members first, then exact solves in the order of bounds, until no unsolved one can matter.

The cheap bounds of all members take one compiled pass over a table. Those that look nearest are solved, which gives a
first K-th best distance. Members whose bound exceeds it are out; the others get finer bounds, and then, in growing
chunks, the relaxed transport problem of the pair itself (`asot.search.relaxed`), and only what is left is
solved. So the answer is what brute force finds, ties in order of addition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices
from asot.data.distributions import Distributions
from asot.index.frame import Frame, Slack, Tables
from asot.index.members import Snapshot
from asot.index.settings import Settings
from asot.index.words import WordLook, look_at_words
from asot.run.executors import Stop, in_ranges
from asot.search.kernels import (
    BoundTables,
    ProjectedBounds,
    ProjectedMembers,
    ProjectedQuery,
    QueryBounds,
    SearchLimits,
    projected_bounds,
    query_bounds,
)

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
    """Some queries against a snapshot, with their vectors."""

    snapshot: Snapshot
    settings: Settings
    collection: Distributions
    tables: Tables
    slack: Slack
    allowed: NDArray[np.bool_]  # (S,) slots that may be found
    memory: int
    jobs: int = 1
    """Threads for the bounds of one query."""

    def answer(
        self, i: int, nearest: Nearest, stop: Stop, max_solves: int | None = None, trust: Trust = CERTAIN
    ) -> Answer:
        """Find the nearest members of query i; those whose bound times ``trust`` is too far count as out."""
        slots = np.flatnonzero(self.allowed)
        words = self._words(i)
        bounds = self._cheap_bounds(i, words, stop)
        bounds = bounds if len(slots) == len(bounds) else bounds[slots]
        solves, budget, unseen = 0, len(slots) if max_solves is None else max_solves, np.inf
        first: Indices = np.empty(0, dtype=np.int64)
        if nearest.n_neighbors is not None and len(slots) > _FIRST_CHUNK:
            count = min(len(slots), budget, _solved_first(nearest.n_neighbors))
            first = self._look_nearest(i, slots, bounds, count, words, stop)
            nearest.take(slots[first], self._solved(i, slots[first], np.inf, 1.0, stop)[0])
            solves = count
        limit = nearest.limit
        left = bounds <= limit / trust.cheap
        left[first] = True
        if max_solves is not None:
            unseen = float(bounds[~left].min(initial=unseen))
        left[first] = False
        slots, bounds = slots[left], bounds[left]
        bounds, left = self._fine_bounds(i, slots, bounds, limit, words, stop, trust)
        unseen = float(bounds[~left].min(initial=unseen))
        slots, bounds = slots[left], bounds[left]
        order = np.argsort(bounds, kind="stable")  # slots ascend
        slots, bounds = slots[order], bounds[order]
        low, most = 0, self._largest_chunk()
        size = min(_FIRST_CHUNK, most)
        while low < len(slots):
            limit = nearest.limit
            high = low + int(np.searchsorted(bounds[low : low + size], limit / trust.fine, side="right"))
            if high == low or solves >= budget:
                unseen = min(unseen, float(bounds[low]))
                break
            high = min(high, low + budget - solves)
            values, count = self._solved(i, slots[low:high], limit, trust.relaxed, stop)
            solves += count
            if trust.relaxed > 1.0 and count < high - low:
                unseen = min(unseen, limit / trust.relaxed)
            nearest.take(slots[low:high], values)
            low, size = high, min(4 * size, most)
        none_matters = trust == CERTAIN and not unseen <= nearest.limit
        return Answer(nearest.slots, nearest.distances, solves, np.inf if none_matters else unseen)

    def shortfalls(self, i: int, slots: Indices, stop: Stop) -> Float:
        """Bounds of some slots at each look (4, n), as shares of their largest distance; what a `Trust` rests on."""
        limit, words = float(self._solved(i, slots, np.inf, 1.0, stop)[0].max()), self._words(i)
        if limit == 0.0:
            return np.zeros((len(CERTAIN), len(slots)))
        cheap = self._cheap_bounds(i, words, stop)[slots]
        coarse = self._coarse_bounds(i, slots, cheap, np.inf, words, stop)
        fine = self._fine_bounds(i, slots, cheap, np.inf, words, stop)[0]
        relaxed = np.full(len(slots), limit)
        for times in TIMES:
            relaxed[self._solved(i, slots, limit, times, stop)[0] < np.inf] = limit / times
        shares = np.array([cheap, coarse, fine, relaxed]) / limit
        shares[:, np.isin(slots, self._solved_anyway(i, len(slots), words, stop))] = 0.0
        return shares

    def _solved_anyway(self, i: int, n_neighbors: int, words: WordLook | None, stop: Stop) -> Indices:
        """Slots of the members that a search solves before it has a limit."""
        slots = np.flatnonzero(self.allowed)
        bounds, count = self._cheap_bounds(i, words, stop)[slots], min(len(slots), _solved_first(n_neighbors))
        return slots[self._look_nearest(i, slots, bounds, count, words, stop)]

    def _largest_chunk(self) -> int:
        mean = max(1.0, len(self.snapshot.masses) / max(1, len(self.snapshot.ends)))
        return max(1, min(_LARGEST_CHUNK, int(_CHUNK_POINTS / mean)))

    # -------------------------------------------------------------------------------------------------------- bounds

    def _cheap_bounds(self, i: int, words: WordLook | None, stop: Stop) -> Float:
        """Bounds of all slots (S,)."""
        bounds = np.zeros(len(self.allowed))
        frame, n = self.snapshot.frame, self.snapshot.prepared
        if words is not None:
            slots = np.flatnonzero(self.allowed)
            found = np.zeros(len(slots))
            words.grow(slots, found, np.inf, False, stop)
            bounds[slots] = found
        elif frame is not None and n and not frame.only_words:
            own, theirs = self._records(frame)

            def some(low: int, high: int) -> None:
                wanted = QueryBounds(query=i, first=low, n=high - low, bounds=bounds[low:high])
                query_bounds(own, theirs, wanted, stop)

            in_ranges(self.jobs)(n, some)
            bounds *= 2.0**frame.exponent
        return bounds

    def _look_nearest(
        self, i: int, slots: Indices, bounds: Float, count: int, words: WordLook | None, stop: Stop
    ) -> Indices:
        """Places (count,) among slots of those that look nearest; bounds (n,) grow where looked at closely."""
        first: Indices = np.arange(len(slots))
        if words is None:
            first = _least(bounds, first, _LOOKED_AT_COARSELY * count)
            bounds[first] = self._coarse_bounds(i, slots[first], bounds[first], np.inf, words, stop)
        first = _least(bounds, first, (_LOOKED_AT if words is None else _LOOKED_AT_BY_WORDS) * count)
        bounds[first] = self._fine_bounds(i, slots[first], bounds[first], np.inf, words, stop)[0]
        return _least(bounds, first, count)

    def _fine_bounds(
        self, i: int, slots: Indices, bounds: Float, limit: float, words: WordLook | None, stop: Stop,
        trust: Trust = CERTAIN,
    ) -> tuple[Float, NDArray[np.bool_]]:  # fmt: skip
        """The largest known bounds of some slots (n,), and which of them are not out (n,)."""
        frame = self.snapshot.frame
        bounds = self._coarse_bounds(i, slots, bounds, limit, words, stop)
        left = bounds * trust.coarse <= limit
        known = np.flatnonzero(left & (slots < self.snapshot.prepared))
        if frame is not None and len(known):
            better, rows = bounds[known], slots[known]
            if words is not None:
                words.grow(rows, better, limit, True, stop)
            elif frame.has_places:
                unit = 2.0**frame.exponent
                better /= unit

                def some(low: int, high: int) -> None:
                    self._reduced_bounds(frame, i, rows[low:high], better[low:high], limit / unit, stop)

                in_ranges(self.jobs)(len(known), some)
                better *= unit
            bounds[known] = better
        return bounds, left & (bounds * trust.fine <= limit)

    def _coarse_bounds(
        self, i: int, slots: Indices, bounds: Float, limit: float, words: WordLook | None, stop: Stop
    ) -> Float:
        """The largest bounds of some slots (n,) that projections give."""
        frame, bounds = self.snapshot.frame, bounds.copy()
        known = np.flatnonzero((slots < self.snapshot.prepared) & (bounds <= limit))
        if frame is None or frame.axes is None or words is not None or len(known) == 0:
            return bounds
        unit, rows = 2.0**frame.exponent, slots[known]
        better = bounds[known] / unit
        own, theirs = self._records(frame)

        def some(low: int, high: int) -> None:
            wanted = QueryBounds(
                query=i, n=high - low, rows=rows[low:high], limit=limit / unit, bounds=better[low:high]
            )
            query_bounds(own, theirs, wanted, stop)

        in_ranges(self.jobs)(len(known), some)
        bounds[known] = better * unit
        return bounds

    def _reduced_bounds(self, frame: Frame, i: int, slots: Indices, bounds: Float, limit: float, stop: Stop) -> None:
        """Raise bounds (n,), in units of the frame, to reduced transport between points in a few coordinates."""
        query = self._projected(frame, i)
        if query is None:
            return
        s = self.snapshot
        if frame.has_words:
            words, known = s.tables["words"], s.tables["vocabulary"]
            members = ProjectedMembers(points=known, masses=s.masses, ends=s.ends, words=words, n_words=len(known))
        else:
            members = ProjectedMembers(points=s.tables["places"], masses=s.masses, ends=s.ends)
        wanted = ProjectedBounds(n=len(slots), rows=slots, limit=limit, bounds=bounds)
        projected_bounds(members, query, wanted, stop)

    def _projected(self, frame: Frame, i: int) -> ProjectedQuery | None:
        """A query's points in the coordinates in which those of members are kept; None if it is too far away."""
        first, last = self.collection.offsets[i : i + 2]
        places = self.tables["places"][first:last]
        if frame.axes is None or np.isnan(places[0, 0]):
            return None
        used, stride = places.shape[1] if frame.only_words else frame.axes.leading, (len(places) + 15) & ~15
        transposed = np.zeros((used, stride), dtype=np.float32)
        transposed[:, : len(places)] = places[:, :used].T
        slack = frame.rounding(self.snapshot.slack.joined(self.slack))["absolute"]
        return ProjectedQuery(
            n=len(places), stride=stride, used=used, points=transposed, masses=self.collection.masses[first:last],
            code=frame.code, relative=1e-5 + 2.5e-7 * used, absolute=2.0 * slack, equal=slack,
        )  # fmt: skip

    def _words(self, i: int) -> WordLook | None:
        """Where words of members meet query i; None if the index keeps no words."""
        frame = self.snapshot.frame
        if frame is None or not frame.only_words or self.snapshot.prepared < len(self.snapshot.ends):
            return None
        query = self._projected(frame, i)
        return None if query is None else look_at_words(self.snapshot, query, 2.0**frame.exponent)

    def _records(self, frame: Frame) -> tuple[BoundTables, BoundTables]:
        rounding = frame.rounding(self.snapshot.slack.joined(self.slack))
        return _record(frame, self.tables, rounding), _record(frame, self.snapshot.tables, rounding)

    # -------------------------------------------------------------------------------------------------------- solves

    def _solved(self, i: int, slots: Indices, limit: float, times: float, stop: Stop) -> tuple[Float, int]:
        """Distances to some slots, infinite where so many times a bound is beyond the limit; and how many were
        solved."""
        pooled = self.collection[i : i + 1] + self.snapshot.taken(slots)
        frame = self.snapshot.frame
        relaxes = np.isfinite(limit) and not (frame is not None and frame.only_words)
        problem = self.settings.problem(pooled, self.memory, relaxes)
        columns, values = np.arange(len(slots)), np.full(len(slots), np.inf)
        if problem.relaxed is not None:
            rows = np.zeros(len(slots), dtype=np.int64)
            scaled = problem.relaxed.scaled(np.array([limit / times]))
            search = SearchLimits(column_start=1, limits=scaled, settled=_ALWAYS, stop=stop)
            columns = columns[problem.relaxed.kept(rows, columns, search)]
        if len(columns):
            rows = np.zeros(len(columns), dtype=np.int64)
            values[columns] = problem.solver.solve(rows, columns, stop).values
        return values, len(columns)


class Asked(NamedTuple):
    """Queries, and who may be found."""

    snapshot: Snapshot
    collection: Distributions
    allowed: NDArray[np.bool_]  # (S,) slots
    memory: int
    jobs: int

    def queries(self, settings: Settings) -> Queries:
        """The same with the vectors of the queries."""
        s, Q, tables, slack = self.snapshot, self.collection, Tables(), Slack()
        if s.frame is not None and s.prepared:
            tables, slack = s.frame.vectors(Q, settings, self.memory, self.jobs)
        jobs = self.jobs if len(Q) == 1 else 1
        return Queries(s, settings, Q, tables, slack, self.allowed, self.memory, jobs)


def _solved_first(n_neighbors: int) -> int:
    """Members that are solved to get a first limit."""
    return 2 * n_neighbors + 8


def _least(bounds: Float, places: Indices, count: int) -> Indices:
    """The places (count,) with the smallest bounds, or all if there are no more."""
    return places if len(places) <= count else places[np.argpartition(bounds[places], count - 1)[:count]]


def _record(frame: Frame, tables: Tables, rounding: dict[str, float]) -> BoundTables:
    """Tables (N, widths) as the kernel sees them."""
    widths = frame.widths
    row = widths["fine"]
    given = {name: tables[name] for name in ("means", "coarse", "fine", "mixed", "tail", "pool") if widths[name]}
    if frame.is_brief:
        given["brief"] = given.pop("coarse")
    return BoundTables(
        n=len(tables["pool"]), n_groups=widths["mixed"] // row if row else 0,
        n_mixed=0 if frame.axes is None else min(4, frame.axes.leading) if widths["mixed"] else 0,
        n_tail=widths["tail"], n_pool=widths["pool"], code=frame.code, order=frame.order,
        group_stride=row, row_stride=widths["mixed"], step=frame.step, **rounding, **given,
    )  # fmt: skip
