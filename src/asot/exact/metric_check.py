"""Is a cost a metric? Checked, not assumed, because mass that two histograms share may be canceled only then."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from asot.native import Double, Doubles, Int, Record, entry
from asot.run.executors import Stop, local_executor
from asot.run.progress import Progress, ProgressLike

ALWAYS_CHECKED = 64
"""Up to this many anchors the triangle inequality is always checked (tens of microseconds)."""


TRIANGLES_PER_TILE = 2**25
"""What a thread checks at a time."""


class MetricCheck(Record):
    """A cost whose triangles are checked (``native/exact/metric_check.cpp``)."""

    _fields_ = [("k", Int), ("cost", Doubles), ("slack", Double)]  # noqa: RUF012


_check_triangles = entry("check_triangles", MetricCheck, Int, Int)  # 0 if they hold


def worth_checking(n_anchors: int, n_pairs: int) -> bool:
    """Whether to spend the O(k³) check.

    With fewer pairs than anchors, it is cheaper if every pair proves its own answer: see `cancel_and_check`.
    """
    return n_anchors <= ALWAYS_CHECKED or n_pairs >= n_anchors


def is_metric(cost: NDArray[np.float64], *, n_jobs: int = 1, progress: ProgressLike = False) -> bool:
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
