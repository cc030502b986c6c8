"""The cascade: bounds from cheap to dear, each looked at only while the ones before leave a pair in question.

Two questions are asked of it. Which columns look nearest to a row (`nearest_by_bound`)? And which pairs can still be
within a limit (`pairs_within`)? Both are compiled loops over all pairs of some rows, in threads, and neither keeps a
number per pair.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.bounding.dual_pool import DualPool
from asot.bounding.projections import Projections
from asot.compiled import compiled, inlined, reordered
from asot.metrics import CHEBYSHEV, CITYBLOCK, EUCLIDEAN, Ground

_ROWS = 16  # of a piece of work of one thread


@dataclass(frozen=True)
class Cascade:
    """Everything that bounds the pairs of a collection from below; rows are the first, columns from ``column_start``.

    ``within``: rows and columns are one set, in which nobody is his own neighbour and (i, j) is (j, i).
    """

    ground: Ground
    projections: Projections
    pool: DualPool
    n_rows: int
    n_columns: int
    column_start: int
    within: bool

    @property
    def unit(self) -> float:
        """Bounds are computed in this unit, so that no square leaves the range of its type."""
        return float(2.0**self.ground.exponent)

    def _arrays(self) -> tuple[Any, ...]:
        p = self.projections
        slack = p.relative, p.absolute, self.pool.relative, self.pool.absolute
        return p.coarse, p.fine, p.mixed, p.tail, self.pool.values, self.ground.code, self.ground.order, slack

    def nearest_by_bound(self, count: int, n_jobs: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The ``count`` columns with the smallest bounds of every row (n_rows, count), ascending, and their bounds."""
        columns = np.full((self.n_rows, count), -1)
        bounds = np.full((self.n_rows, count), np.inf)
        shape = self.n_columns, self.column_start, self.within

        def piece(start: int, stop: int) -> None:
            _nearest(*self._arrays(), *shape, start, stop, columns, bounds)

        _over_rows(piece, 0, self.n_rows, n_jobs)
        return columns, self.unit * bounds

    def pairs_within(
        self,
        start: int,
        stop: int,
        limits: NDArray[np.float64],
        settled: NDArray[np.int64],
        n_jobs: int,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs of the rows start..stop-1 whose distance may be within the limit of one of its ends.

        ``limits`` (n_rows,) are distances. A column at or behind ``settled`` (n_rows,) is out of question for a row
        whose limit is 0: it cannot be nearer than the neighbours that are known.
        """
        scaled = limits / self.unit
        first = start + 1 if self.within else 0
        possible = np.empty((stop - start, max(0, self.n_columns - first)), dtype=np.bool_)
        shape = first, self.column_start, self.within

        def piece(low: int, high: int) -> None:
            _within(*self._arrays(), *shape, start, low, high, scaled, settled, possible)

        _over_rows(piece, start, stop, n_jobs)
        rows, columns = np.nonzero(possible)
        return rows + start, columns + first


def _over_rows(piece: Callable[[int, int], None], start: int, stop: int, n_jobs: int) -> None:
    with ThreadPoolExecutor(n_jobs) as pool:
        work = [pool.submit(piece, low, min(low + _ROWS, stop)) for low in range(start, stop, _ROWS)]
        try:
            for part in work:
                part.result()
        finally:
            for part in work:
                part.cancel()


# ---------------------------------------------------------------------------------------------------------- kernels


@reordered
def _difference(a, b):  # type: ignore[no-untyped-def]
    """Σ |a - b| of two rows: the one-dimensional W_1 of sorted means."""
    total = np.float32(0.0)
    for t in range(len(a)):
        total += abs(a[t] - b[t])
    return total


@inlined
def _joined(code, order, total, part):  # type: ignore[no-untyped-def]
    """One more coordinate joins the (power of the) norm."""
    if code == EUCLIDEAN:
        return total + part * part
    if code == CITYBLOCK:
        return total + part
    if code == CHEBYSHEV:
        return max(total, part)
    return total + part ** np.float32(order)


@inlined
def _norm(code, order, total):  # type: ignore[no-untyped-def]
    if code == EUCLIDEAN:
        return np.sqrt(np.float64(total))
    if code == CITYBLOCK or code == CHEBYSHEV:
        return np.float64(total)
    return np.float64(total) ** (1.0 / order)


@reordered
def _farthest(a, b):  # type: ignore[no-untyped-def]
    """max |a - b| of two rows, in four runs, since one would wait for itself."""
    m0 = m1 = m2 = m3 = np.float32(0.0)
    for t in range(0, len(a) - 3, 4):
        m0 = max(m0, abs(a[t] - b[t]))
        m1 = max(m1, abs(a[t + 1] - b[t + 1]))
        m2 = max(m2, abs(a[t + 2] - b[t + 2]))
        m3 = max(m3, abs(a[t + 3] - b[t + 3]))
    return np.float64(max(max(m0, m1), max(m2, m3)))


@inlined
def _bound(coarse, fine, mixed, tail, pool, code, order, slack, i, j, limit):  # type: ignore[no-untyped-def]
    """A certain lower bound for the pair: the first one above ``limit``, or the largest of all."""
    best = 0.0
    leading = fine.shape[1]
    if leading > 0:
        keep = 1.0 - slack[0]
        end = np.float32(0.0)
        for c in range(tail.shape[1]):
            end = _joined(code, order, end, abs(tail[i, c] - tail[j, c]))
        total = end
        for c in range(leading):
            total = _joined(code, order, total, _difference(coarse[i, c], coarse[j, c]))
        best = _norm(code, order, total) * keep - slack[1]
        if best > limit:
            return best
        group = mixed.shape[2]
        for c in range(group, leading):
            end = _joined(code, order, end, _difference(fine[i, c], fine[j, c]))
        total = end
        for c in range(group):
            total = _joined(code, order, total, _difference(fine[i, c], fine[j, c]))
        best = max(best, _norm(code, order, total) * keep - slack[1])
        for r in range(mixed.shape[0]):
            if best > limit:
                return best
            total = end
            for c in range(group):
                total = _joined(code, order, total, _difference(mixed[r, i, c], mixed[r, j, c]))
            best = max(best, _norm(code, order, total) * keep - slack[1])
    if pool.shape[1] > 0 and best <= limit:
        best = max(best, _farthest(pool[i], pool[j]) * (1.0 - slack[2]) - slack[3])
    return best


@compiled
def _nearest(  # type: ignore[no-untyped-def]
    coarse, fine, mixed, tail, pool, code, order, slack, n_columns, column_start, within, start, stop, columns, bounds,
):  # fmt: skip
    last = columns.shape[1] - 1
    for i in range(start, stop):
        for j in range(n_columns):
            if within and i == j:
                continue
            limit = bounds[i, last]
            bound = _bound(coarse, fine, mixed, tail, pool, code, order, slack, i, column_start + j, limit)
            if bound >= limit:
                continue
            place = last
            while place > 0 and bounds[i, place - 1] > bound:
                bounds[i, place] = bounds[i, place - 1]
                columns[i, place] = columns[i, place - 1]
                place -= 1
            bounds[i, place] = bound
            columns[i, place] = j


@compiled
def _within(  # type: ignore[no-untyped-def]
    coarse, fine, mixed, tail, pool, code, order, slack, first, column_start, within, start, low, high, limits,
    settled, possible,
):  # fmt: skip
    for i in range(low, high):
        for c in range(possible.shape[1]):
            j = first + c
            possible[i - start, c] = False
            if within and j <= i:
                continue
            limit = limits[i] if limits[i] > 0.0 or j < settled[i] else -1.0
            if within and (limits[j] > 0.0 or i < settled[j]):
                limit = max(limit, limits[j])
            if limit >= 0.0:
                bound = _bound(coarse, fine, mixed, tail, pool, code, order, slack, i, column_start + j, limit)
                possible[i - start, c] = bound <= limit
