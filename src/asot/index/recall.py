"""Fewer solves for a stated share of the neighbors.

Bounds are too careful: a neighbor at distance 10 has a bound of 6, not of 10. So a search that may miss some neighbors
counts a member as out if `boldness` times its bound is too far. How bold it may be is found on members that are asked
for as if they were queries, and what share of the neighbors it then finds is measured on others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

GRID = (3.0, 2.5, 2.0, 1.75, 1.5, 1.35, 1.25, 1.15, 1.1, 1.05)
ASKED = 48
"""Members that are asked for to choose the boldness, and as many others to measure the share."""

FEWEST = 1000
"""With fewer members, there is nothing to gain and too little to measure on."""

_NORMAL = 1.96

Search = Callable[[NDArray[np.int64], float], NDArray[np.int64]]
"""Slots (n, K) of the neighbors of some members, which are slots (n,), at a boldness."""


class Rehearsal(NamedTuple):
    """How bold a search for a share of the neighbors may be, and what was measured."""

    boldness: float
    record: dict[str, Any]


def as_recall(recall: Any) -> float:
    """Check a share that a caller asks for."""
    if isinstance(recall, bool) or not isinstance(recall, (int, float, np.number)) or not 0 < recall < 1:
        raise ValueError(f"recall must be a number between 0 and 1, such as 0.98; found {recall!r}")
    return float(recall)


def rehearse(search: Search, members: NDArray[np.int64], recall: float, seed: int) -> Rehearsal:
    """Choose the boldness on some members and measure it on others."""
    if len(members) < FEWEST:
        return certain(recall)
    drawn = np.random.default_rng(seed).permutation(members)[: 2 * ASKED]
    first, second = drawn[:ASKED], drawn[ASKED:]
    truth = search(first, 1.0)
    for boldness in GRID:
        if _interval(_shares(search(first, boldness), truth), truth.shape[1])[0] >= recall:
            break
    else:
        return certain(recall)
    truth = search(second, 1.0)
    shares = _shares(search(second, boldness), truth)
    interval = _interval(shares, truth.shape[1])
    if shares.mean() < recall:  # a lucky choice: rather be certain than promise too much
        return certain(recall)
    record = {"asked": recall, "measured": float(shares.mean()), "interval": interval, "certain": False}
    return Rehearsal(boldness, record | {"boldness": boldness, "n_queries": len(second)})


def certain(recall: float) -> Rehearsal:
    """What a search reports that finds all."""
    return Rehearsal(1.0, {"asked": recall, "measured": 1.0, "interval": (1.0, 1.0), "certain": True})


def _shares(found: NDArray[np.int64], truth: NDArray[np.int64]) -> NDArray[np.float64]:
    """The share of the true neighbors that were found, by row."""
    return np.array([len(np.intersect1d(a, b)) / len(b) for a, b in zip(found, truth, strict=True)])


def _interval(shares: NDArray[np.float64], n_neighbors: int) -> tuple[float, float]:
    """Wilson's 95 % interval, for neighbors that are missed together within a row."""
    share = float(shares.mean())
    alone = share * (1.0 - share) / n_neighbors
    design = max(1.0, float(shares.var(ddof=1)) / alone) if alone > 0 else 1.0
    n = len(shares) * n_neighbors / design
    scale = 1.0 + _NORMAL**2 / n
    middle = (share + _NORMAL**2 / (2.0 * n)) / scale
    half = _NORMAL / scale * float(np.sqrt(share * (1.0 - share) / n + _NORMAL**2 / (4.0 * n**2)))
    return max(0.0, middle - half), min(1.0, middle + half)
