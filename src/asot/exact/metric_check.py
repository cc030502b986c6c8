"""Is a cost a metric? Checked, not assumed, because mass that two histograms share may be cancelled only then."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asot.jit.compiled import compiled

ALWAYS_CHECKED = 256
"""Up to this many anchors the triangle inequality is always checked (a few milliseconds)."""


def worth_checking(n_anchors: int, n_pairs: int) -> bool:
    """Whether to spend the O(k³) check.

    The check is exact whenever it is made. For more than 256 anchors it is made only when there are at least as many
    pairs as anchors to gain from it; otherwise the cost is treated as non-metric, which is slower but always right.
    """
    return n_anchors <= ALWAYS_CHECKED or n_pairs >= n_anchors


def is_metric(cost: NDArray[np.float64]) -> bool:
    """Whether a cost is square, symmetric, zero on the diagonal and satisfies every triangle inequality.

    Violations up to 1e-11·max(cost)/k are rounding: by at most k of them in a row, a distance could be wrong by
    1e-11·max(cost).
    """
    k = len(cost)
    if cost.shape != (k, k) or np.diagonal(cost).any() or not np.array_equal(cost, cost.T):
        return False
    return bool(_triangles_hold(np.ascontiguousarray(cost), 1e-11 * cost.max() / k))


@compiled
def _triangles_hold(cost, slack):  # type: ignore[no-untyped-def]
    k = cost.shape[0]
    for i in range(k):
        for via in range(k):
            first = cost[i, via] + slack
            broken = 0
            for j in range(i):
                broken |= first + cost[via, j] < cost[i, j]
            if broken != 0:
                return False
    return True
