"""What a difference of groups may be besides a shift: more spread in one of them; and a test that only sees ranks.

Dispersion (Anderson 2006): how far the members of a group are from its center, which squared distances tell without
any coordinates. If a test of dispersions is significant, groups may differ in spread instead of place. Ranks (ANOSIM,
Clarke 1993): are distances between groups of higher rank than those within? A few huge distances do not matter there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.learn.shuffles import Index, share_as_large, shuffled

Float = NDArray[np.float64]


def from_centers(matrix: Float, label: Index) -> Float:
    """How far each distribution is from the center of its group (n,), with small groups corrected for their size."""
    squares, found = matrix**2, np.zeros(len(matrix))
    for group in range(int(label.max()) + 1):
        own = np.flatnonzero(label == group)
        if len(own) < 2:
            continue
        inner = squares[np.ix_(own, own)]
        reach = np.maximum(inner.mean(axis=1) - 0.5 * inner.mean(), 0.0)
        found[own] = np.sqrt(reach * len(own) / (len(own) - 1))
    return found


def dispersion_test(
    reach: Float, label: Index, rng: Any, count: int, strata: list[Index] | None
) -> tuple[float, float]:
    """F of an analysis of variance of the distances to centers, and its p-value by permutation of residuals."""
    sizes = np.bincount(label)
    counted = sizes[label] > 1  # groups of one member have no spread
    if len(np.unique(label[counted])) < 2:
        return float("nan"), float("nan")
    means = np.bincount(label, weights=reach) / sizes
    rest = np.where(counted, reach - means[label], 0.0)
    groups = np.flatnonzero(sizes > 1)
    observed = _f(reach, label, groups, counted)
    inner = None if strata is None else [own[counted[own]] for own in strata if counted[own].any()]
    places = np.flatnonzero(counted)
    values = []
    for _ in range(count):
        if inner is None:
            moved = rest.copy()
            moved[places] = rest[places[rng.permutation(len(places))]]
        else:
            moved = rest[shuffled(rng, len(rest), inner)]
        values.append(_f(moved, label, groups, counted))
    return observed, share_as_large(values, observed, max(observed, 1.0) if np.isfinite(observed) else 1.0)


def _f(values: Float, label: Index, groups: Index, counted: NDArray[np.bool_]) -> float:
    own = values[counted]
    sizes = np.bincount(label[counted], minlength=label.max() + 1)[groups]
    means = np.bincount(label[counted], weights=own, minlength=label.max() + 1)[groups] / sizes
    between = float((sizes * (means - own.mean()) ** 2).sum()) / (len(groups) - 1)
    within = float(((own - means[np.searchsorted(groups, label[counted])]) ** 2).sum()) / max(len(own) - len(groups), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.float64(between) / np.float64(within)) if between > 0 else 0.0


class Ranks:
    """ANOSIM's R of labels: from -1 to 1, 0 by chance, 1 where all distances within are smaller than all between."""

    def __init__(self, matrix: Float) -> None:
        from scipy.spatial.distance import squareform
        from scipy.stats import rankdata

        n = len(matrix)
        ranks = rankdata(squareform(matrix, checks=False))
        self._ranks = squareform(ranks)
        self._total, self._pairs = float(ranks.sum()), n * (n - 1) / 2

    def statistic(self, label: Index) -> float:
        member = np.eye(int(label.max()) + 1)[label]  # (n, g)
        sizes = member.sum(axis=0)
        within = 0.5 * float(np.einsum("ij,ij->", member, self._ranks @ member))
        inside = float((sizes * (sizes - 1) / 2).sum())
        between = (self._total - within) / (self._pairs - inside)
        return (between - within / inside) / (self._pairs / 2)
