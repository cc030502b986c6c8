"""What a difference of groups may be besides a shift: more spread in one of them; and a test that only sees ranks.

Dispersion (Anderson 2006): how far the members of a group are from its center, which squared distances tell without
any coordinates. If a test of dispersions is significant, groups may differ in spread instead of place. Ranks (ANOSIM,
Clarke 1993): are distances between groups of higher rank than those within? A few huge distances do not matter there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices
from asot.learn.permanova import basis, indicators
from asot.learn.shuffles import share_as_large, shuffled


def from_centers(matrix: Float, label: Indices) -> Float:
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
    G: Float, label: Indices, rng: Any, count: int, strata: list[Indices] | None
) -> tuple[float, float]:
    """F of an analysis of variance of the distances to centers, and its p-value by permutation.

    From Gower's matrix G, the centers of groups (and of strata) are taken out, so that all members could be of one
    group; then members change groups, and their distances to the new centers are measured as those to the true ones
    were. So the noise of the centers is in both.
    """
    sizes = np.bincount(label)
    counted = sizes[label] > 1  # groups of one member have no spread
    if len(np.unique(label[counted])) < 2:
        return float("nan"), float("nan")
    columns = [indicators(label)]
    if strata is not None:
        columns += [np.isin(np.arange(len(label)), own).astype(np.float64)[:, None] for own in strata]
    Q = basis(np.concatenate(columns, axis=1))
    rest = G - Q @ (Q.T @ G)
    rest = rest - (rest @ Q) @ Q.T
    free = 1.0 - (Q**2).sum(axis=1)  # what is left of the variance of a residual
    scale = np.where(free > 1e-9, 1.0 / np.sqrt(np.maximum(free, 1e-9)), 0.0)
    rest = rest * scale * scale[:, None]
    groups = np.flatnonzero(sizes > 1)
    own = np.diagonal(rest)
    observed = _f(np.sqrt(np.maximum(own, 0.0)), label, groups, counted)
    member = indicators(label) / sizes
    growth = np.sqrt(sizes / np.maximum(sizes - 1, 1))
    values = []
    for _ in range(count):
        order = shuffled(rng, len(label), strata)
        moved, mean = label[order], member[order]
        across = rest @ mean  # (n, groups)
        center = np.einsum("ij,ij->j", mean, across)
        squares = own - 2 * across[np.arange(len(label)), moved] + center[moved]
        reach = np.sqrt(np.maximum(squares, 0.0)) * growth[moved]
        values.append(_f(reach, moved, groups, sizes[moved] > 1))
    return observed, share_as_large(values, observed, max(observed, 1.0) if np.isfinite(observed) else 1.0)


def _f(values: Float, label: Indices, groups: Indices, counted: NDArray[np.bool_]) -> float:
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

    def statistic(self, label: Indices) -> float:
        member = np.eye(int(label.max()) + 1)[label]  # (n, g)
        sizes = member.sum(axis=0)
        within = 0.5 * float(np.einsum("ij,ij->", member, self._ranks @ member))
        inside = float((sizes * (sizes - 1) / 2).sum())
        between = (self._total - within) / (self._pairs - inside)
        return (between - within / inside) / (self._pairs / 2)
