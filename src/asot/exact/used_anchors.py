"""Anchors without mass do not exist: a shared cost is read, checked and prepared only between those that have some.

Rows over a vocabulary of thousands use a few words each. Looking at all k² costs would take longer than all pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.exact.metric_check import ALWAYS_CHECKED
from asot.exact.price import sparse_rows_seconds
from asot.validation import as_cost

FEWEST = 256
"""Anchors from which it is worth looking for those without mass."""


class Read(NamedTuple):
    """Histograms and their cost, checked, on the anchors that matter."""

    A: NDArray[np.float64]  # (N, k)
    B: NDArray[np.float64] | None  # (M, l)
    cost: NDArray[np.float64]  # (k, l)


def on_used_anchors(
    A: NDArray[np.float64], B: NDArray[np.float64] | None, cost: NDArray[np.float64], *, square: bool
) -> Read:
    """Histograms (N, k) and (M, l) and a cost (k, l) that is still unchecked, without the anchors that nobody uses.

    A square cost stays square, since both sets may be on the same anchors. Where most anchors are in use, nothing is
    left out.
    """
    k, l = cost.shape
    if max(k, l) < FEWEST or (square and k != l):
        return Read(A, B, as_cost(cost, square=square))
    rows, columns = A.any(axis=0), (A if B is None else B).any(axis=0)
    if k == l:
        rows = columns = rows | columns
    i, j = np.flatnonzero(rows), np.flatnonzero(columns)
    if 2 * len(i) * len(j) > k * l:
        return Read(A, B, as_cost(cost, square=square))
    return Read(A[:, i], None if B is None else B[:, j], as_cost(cost, square=square, only=(i, j)))


def preparing_costs_more(
    A: NDArray[np.float64], B: NDArray[np.float64] | None, cost: NDArray[np.float64], n_pairs: int
) -> bool:
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


def held(histograms: NDArray[np.float64]) -> float:
    """The mean number of anchors with mass."""
    return np.count_nonzero(histograms) / len(histograms)


def seconds_per_pair(A: NDArray[np.float64], B: NDArray[np.float64] | None) -> float:
    """Roughly how long a thread takes for a pair that is solved by itself."""
    return sparse_rows_seconds(held(A), held(A if B is None else B))
