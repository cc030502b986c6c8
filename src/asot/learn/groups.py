"""Do groups of distributions differ? The usual question once you have distances: patients and controls, classes of
graphs.

A permutation test (PERMANOVA: Anderson 2001) says whether groups are farther apart than expected by chance. Two simple
numbers say how well they are separated: the silhouette, and how often the nearest neighbors have the right label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from asot.data.belonging import check_same_ids, ids_of, in_order_of_ids
from asot.data.reading import factorized
from asot.learn.kernel import as_matrix
from asot.learn.unequal_sizes import warn_of_sizes
from asot.validation import as_positive_int

_BLOCK = 64
"""How many permutations are processed together."""


@dataclass(frozen=True)
class GroupDifferences:
    """How far apart groups of distributions are.

    Attributes
    ----------
    pseudo_f : float
        Variation between groups over variation within them, each divided by its degrees of freedom; about 1 by chance.
    p_value : float
        The share of permutations, including the observed one, whose pseudo-F is at least as large.
    explained : float
        R²: the share of all squared distances that is between groups.
    silhouette : float
        scikit-learn's, from -1 to 1.
    neighbor_accuracy : float
        How often the nearest neighbors vote for the right group, each distribution left out in turn.
    chance : float
        What always guessing the largest group would get right.
    n_permutations : int
    noise_share : float or None
        How far apart finite samples alone would be, as a share of the mean distance; None without a noise floor.
    """

    pseudo_f: float
    p_value: float
    explained: float
    silhouette: float
    neighbor_accuracy: float
    chance: float
    n_permutations: int
    noise_share: float | None = None

    def __repr__(self) -> str:
        return (
            f"GroupDifferences: pseudo-F {self.pseudo_f:.3g} (p = {self.p_value:.3g}, {self.n_permutations:,} "
            f"permutations), R² {self.explained:.2f}, silhouette {self.silhouette:.2f}, neighbors right "
            f"{self.neighbor_accuracy:.0%} (chance {self.chance:.0%})"
            + ("" if self.noise_share is None else f"; {self.noise_share:.0%} of the mean distance is noise")
        )


def group_differences(
    distances: Any,
    groups: ArrayLike,
    *,
    n_permutations: int = 999,
    n_neighbors: int = 3,
    noise: Any = None,
    random_state: Any = None,
) -> GroupDifferences:
    """Whether groups of distributions differ, and how well they are separated.

    Parameters
    ----------
    distances : Distances, or array-like (N, N)
        All pairs of one collection.
    groups : array-like (N,), pandas Series or dict
        The group of every distribution: in their order, or found by id where it has an index or keys.
    n_permutations : int
        Of the permutation test; the smallest p-value it can give is 1 / (n_permutations + 1).
    n_neighbors : int
        Neighbors that vote; in a tie, the group of the nearest wins.
    noise : NoiseFloor or array-like (N, N), optional
        How far apart two samples of one distribution are: ``asot.noise_floor(D)``.
    random_state : int, RandomState or None
        Seed of the permutations.

    Notes
    -----
    Small samples are far from everything, so groups of different sample sizes differ even where their distributions do
    not. A warning says so where the result knows the sizes; `asot.size_matched` compares at one size.

    Examples
    --------
    >>> import numpy as np, asot
    >>> rng = np.random.default_rng(0)
    >>> D = asot.Distributions.from_list([rng.normal(i % 2, 1.0, size=(30, 2)) for i in range(20)])
    >>> asot.group_differences(asot.pairwise_exact(D), np.arange(20) % 2, random_state=0)
    GroupDifferences: pseudo-F ... (p = 0.001, 999 permutations), R² ..., neighbors right 100% (chance 50%)
    """
    from sklearn.metrics import silhouette_score

    matrix = as_matrix(distances)
    n = len(matrix)
    if matrix.shape != (n, n) or np.abs(matrix - matrix.T).max() > 1e-9 * matrix.max():
        raise ValueError("groups are compared by the distances of all pairs of one collection, which must be symmetric")
    ids = ids_of(distances, n)
    names, label = factorized(in_order_of_ids(groups, "groups", ids), n, "groups", "distribution")
    sizes = np.bincount(label)
    if len(names) < 2:
        raise ValueError(f"there is only one group, {str(names[0])!r}; comparing takes two or more")
    if sizes.max() == 1:
        raise ValueError("every group has one member; there is nothing to compare within them")
    warn_of_sizes(getattr(distances, "sizes", None), names, label)
    votes = as_positive_int(n_neighbors, "n_neighbors")
    count = as_positive_int(n_permutations, "n_permutations")
    squares = matrix**2
    total = squares.sum() / 2 / n
    within = _within(squares, label[None], sizes)[0]
    observed = _pseudo_f(total, within, n, len(names))
    rng = check_random_state(random_state)
    as_large = 1
    for start in range(0, count, _BLOCK):
        shuffled = np.stack([rng.permutation(label) for _ in range(min(_BLOCK, count - start))])
        values = _pseudo_f(total, _within(squares, shuffled, sizes), n, len(names))
        as_large += int(np.count_nonzero(values >= observed * (1 - 1e-12)))
    return GroupDifferences(
        pseudo_f=float(observed),
        p_value=as_large / (count + 1),
        explained=float(1 - within / total) if total > 0 else 0.0,
        silhouette=float(silhouette_score(matrix, label, metric="precomputed")),
        neighbor_accuracy=_left_out_accuracy(matrix, label, min(votes, n - 1)),
        chance=float(sizes.max() / n),
        n_permutations=count,
        noise_share=None if noise is None else _share_of_noise(matrix, noise, ids),
    )


def _share_of_noise(matrix: NDArray[np.float64], noise: Any, ids: NDArray[Any]) -> float:
    floor = as_matrix(noise.matrix() if hasattr(noise, "matrix") else noise)
    if floor.shape != matrix.shape:
        raise ValueError(f"noise is for {floor.shape[0]} distributions, but the distances are between {len(matrix)}")
    check_same_ids(ids_of(noise, len(floor)), ids, "the noise is of another collection than the distances")
    pairs = np.triu_indices(len(matrix), 1)
    return float(floor[pairs].mean() / max(matrix[pairs].mean(), np.finfo(float).tiny))


def _within(squares: NDArray[np.float64], labels: NDArray[Any], sizes: NDArray[Any]) -> NDArray[np.float64]:
    """Sum over groups of the squared distances within them divided by their size, for every row of labels (B, n):
    (B,)."""
    found = np.zeros(len(labels))
    for group, size in enumerate(sizes):
        member = (labels == group).astype(np.float64)  # (B, n)
        found += np.einsum("bi,bi->b", member @ squares, member) / (2 * size)
    return found


def _pseudo_f(total: float, within: Any, n: int, groups: int) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return ((total - within) / (groups - 1)) / (within / (n - groups))


def _left_out_accuracy(matrix: NDArray[np.float64], label: NDArray[np.int64], votes: int) -> float:
    others = matrix + np.diag(np.full(len(matrix), np.inf))
    nearest = label[np.argsort(others, axis=1, kind="stable")[:, :votes]]  # (n, votes)
    counts = np.stack([(nearest == group).sum(axis=1) for group in range(label.max() + 1)], axis=1)
    most = counts.max(axis=1, keepdims=True)
    is_leader = np.take_along_axis(counts, nearest, axis=1) == most
    voted = np.take_along_axis(nearest, is_leader.argmax(axis=1)[:, None], axis=1)[:, 0]
    return float(np.mean(voted == label))
