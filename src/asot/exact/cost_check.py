"""What is found out about a shared cost before anything is solved: which anchors are used, and is it a metric?

Anchors without mass do not exist: a cost is read, checked and prepared only between those that have some. Rows over a
vocabulary of thousands use a few words each, and looking at all k² costs would take longer than all pairs. That a cost
is a metric is checked, not assumed, because mass that two histograms share may be canceled only then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from asot._typing import Float, Indices
from asot.exact.price import sparse_rows_seconds
from asot.native import Double, Doubles, Int, Record, entry
from asot.run.executors import Progress, ProgressLike, Stop, local_executor
from asot.validation import as_cost

ALWAYS_CHECKED = 64
"""Up to this many anchors the triangle inequality is always checked (tens of microseconds)."""


TRIANGLES_PER_TILE = 2**25
"""What a thread checks at a time."""


class MetricCheck(Record, k=Int, cost=Doubles, slack=Double):
    """A cost whose triangles are checked (``native/exact/metric_check.cpp``)."""


_check_triangles = entry("check_triangles", MetricCheck, Int, Int)  # 0 if they hold


def is_metric(cost: Float, *, n_jobs: int = 1, progress: ProgressLike = False) -> bool:
    """Whether a cost is square, symmetric, zero on the diagonal and satisfies every triangle inequality.

    Sides that are too long by up to 1e-11/k of themselves are rounding: at most k of them in a row could make a
    distance wrong by 1e-11 of itself. A share of the largest cost would let a far anchor excuse broken triangles among
    near ones. Progress is shown only where the check takes long, in rows of the cost.
    """
    k = len(cost)
    if cost.shape != (k, k) or np.diagonal(cost).any() or not np.array_equal(cost, cost.T):
        return False
    check = MetricCheck(k=k, cost=np.ascontiguousarray(cost), slack=1e-11 / k)
    if k <= ALWAYS_CHECKED:
        return _check_triangles(check, 0, k) == 0

    def part(rows: tuple[int, int], stop: Stop) -> tuple[int, bool]:
        return rows[1] - rows[0], _check_triangles(check, *rows) == 0

    with Progress(progress, k, "is the cost a metric? rows", unit="row") as shown:
        for count, holds in local_executor(n_jobs).map(part, _row_tiles(k)):
            if not holds:
                return False
            shown.advance(count)
    return True


def _row_tiles(k: int) -> Iterator[tuple[int, int]]:
    """Rows first..last-1 that take a few hundredths of a second, too short to need stopping: row i has k · i
    triangles."""
    first = 0
    while first < k:
        last = min(k, max(first + 1, int(np.sqrt(first**2 + 2 * TRIANGLES_PER_TILE / k))))
        yield first, last
        first = last


# ------------------------------------------------------------------------------------------------ anchors in use


FEWEST = 256
"""Anchors from which it is worth looking for those without mass."""


class Read(NamedTuple):
    """Histograms and their cost, checked, on the anchors that matter."""

    A: Float  # (N, k)
    B: Float | None  # (M, l)
    cost: Float  # (k, l)


def used_anchors(A: Float, B: Float | None, shape: tuple[int, ...]) -> tuple[Indices, Indices] | None:
    """The anchors that hold mass in histograms (N, k) and (M, l), whose cost has this ``shape``; None if these are few
    anchors, or most of them are in use. Where k = l, both sets may be on the same anchors, and keep the same."""
    k, l = shape
    if max(k, l) < FEWEST or (B is None and k != l):
        return None
    rows, columns = A.any(axis=0), (A if B is None else B).any(axis=0)
    if k == l:
        rows = columns = rows | columns
    i, j = np.flatnonzero(rows), np.flatnonzero(columns)
    return None if 2 * len(i) * len(j) > k * l else (i, j)


def on_used_anchors(A: Float, B: Float | None, cost: Float) -> Read:
    """Histograms (N, k) and (M, l) and a cost (k, l) that is still unchecked, without the anchors that nobody uses,
    unless most are in use. Without B, it is a cost within one set."""
    used, square = used_anchors(A, B, cost.shape), B is None
    if used is None:
        return Read(A, B, as_cost(cost, square=square))
    i, j = used
    return Read(A[:, i], None if B is None else B[:, j], as_cost(cost, square=square, only=used))


def preparing_costs_more(A: Float, B: Float | None, cost: Float, n_pairs: int) -> bool:
    """Whether pairs that read and prove what they need (`CancelAndCheck`) are faster than a cost that is prepared once.

    Preparing takes k² steps, finding out whether it is a metric k³, and each pair then looks at all k anchors. Times
    were measured with 10 to 1,500 anchors.
    """
    k, l = cost.shape
    if max(k, l) <= ALWAYS_CHECKED:
        return False
    both = held(A) * held(A if B is None else B)
    prepared = 1.2e-8 * k * l + (4e-10 * k**3 if k == l else 0.0) + n_pairs * 5e-10 * (k + l)
    return n_pairs * (1e-7 + 4e-9 * both) < prepared


def held(histograms: Float) -> float:
    """The mean number of anchors with mass."""
    return np.count_nonzero(histograms) / len(histograms)


def seconds_per_pair(A: Float, B: Float | None) -> float:
    """Roughly how long a thread takes for a pair that is solved by itself."""
    return sparse_rows_seconds(held(A), held(A if B is None else B))
