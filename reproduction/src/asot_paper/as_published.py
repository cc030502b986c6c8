"""What the paper's graph numbers were computed on, and how its errors were averaged (docs/method.md §11).

Its text describes features of four rounds of aggregation and errors of distances. Its public code gives every node five
copies of its one-hot label, leaves row and column 0 of most matrices empty, and averages over whole matrices with their
diagonals. Its k-means sees every point once. None of that is what a user wants, but the published numbers can only be
checked this way; so it is all here, under this name, and nowhere else.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import squareform

from asot.anchors.space import AnchorSpace
from asot.data.distinct import distinct_rows
from asot.data.distributions import Distributions
from asot.validation import as_positive_int, to_float_array

COPIES = 5
"""How often a node's one-hot label is repeated in its features."""

ONE_HOT_COLUMNS = {"BZR": 53, "COX2": 35}
"""Columns of the one-hot labels, if there are more than labels: the public code has a column for every number from the
smallest label to the largest, used or not. The numbers of the other sets have no gaps."""

DISTRIBUTIONS_PER_BATCH = 500
"""Graphs of a batch while anchors are learned, in order, according to the paper's text; an option of its public
code."""

POINTS_PER_STEP = 2048
"""Points of one step of its k-means."""


def five_copies(D: Distributions, columns: int | None = None) -> Distributions:
    """The features as published: each point (the one-hot label of a node) written five times side by side.

    Parameters
    ----------
    D : Distributions in L dimensions
        One-hot labels, as from ``load_tu(name, rounds=0)``.
    columns : int, optional
        Columns to pad the labels to with zeros before they are copied; see `ONE_HOT_COLUMNS`. Default: L.

    Returns
    -------
    Distributions in 5 × columns dimensions, float32 as in the public code. Two different points are √10 apart.

    Examples
    --------
    >>> import asot
    >>> D = asot.Distributions.from_list([[[1, 0], [0, 1]], [[0, 1]]])
    >>> copied = five_copies(D, columns=3)
    >>> copied.dim
    15
    >>> asot.pairwise_exact(copied).values.round(4)  # half of the mass moves by √10
    array([1.5811])
    """
    width = D.dim if columns is None else as_positive_int(columns, "columns")
    if width < D.dim:
        raise ValueError(f"columns must be at least the dimension of the points, {D.dim}; found {width}")
    one_hot = np.zeros((len(D.points), width), dtype=np.float32)
    one_hot[:, : D.dim] = D.points
    return Distributions(np.tile(one_hot, COPIES), D.offsets, D.masses, D.ids)


def merged(D: Distributions) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Every distribution as a histogram over the distinct points of the collection: (N, V) and the points (V, d).

    Merging equal points changes neither W_1 nor the entropic cost, nor Sinkhorn's iteration: the scaling of a merged
    point is the sum of the original ones, iteration by iteration. It turns eOT on a set of labeled graphs into a
    problem with as many points as there are labels. The histograms are dense, so use it where V is small.

    >>> import asot
    >>> histograms, points = merged(asot.Distributions.from_list([[[1, 0], [0, 1], [1, 0]], [[0, 1]]]))
    >>> histograms.round(3)
    array([[0.667, 0.333],
           [0.   , 1.   ]])
    >>> points
    array([[1., 0.],
           [0., 1.]])
    """
    points, index = distinct_rows(D.points)
    cell = np.repeat(np.arange(len(D)) * len(points), D.sizes) + index
    sums = np.asarray(np.bincount(cell, weights=D.masses, minlength=len(D) * len(points)), dtype=np.float64)
    return sums.reshape(len(D), -1), np.asarray(points, dtype=np.float64)


# ------------------------------------------------------------------------------------------------------------- errors


def full_matrix(values: ArrayLike, diagonal: ArrayLike | None = None, *, row_zero: bool = False) -> NDArray[np.float64]:
    """The symmetric matrix (N, N) of condensed values (N (N - 1) / 2,) and a diagonal (N,), zeros unless given.

    ``row_zero=True`` leaves row and column 0 empty, like the loops of the public code that begin at the second graph.

    >>> full_matrix([1.0, 2.0, 3.0], row_zero=True)
    array([[0., 0., 0.],
           [0., 0., 3.],
           [0., 3., 0.]])
    """
    condensed = _read_condensed(values, "values")
    matrix = np.asarray(squareform(condensed, checks=False), dtype=np.float64)
    if diagonal is not None:
        np.fill_diagonal(matrix, _read_diagonal(diagonal, len(matrix)))
    if row_zero:
        matrix[0] = matrix[:, 0] = 0.0
    return matrix


def full_matrix_error(
    estimate: ArrayLike,
    exact: ArrayLike,
    *,
    diagonal: ArrayLike | None = None,
    entropic: bool = False,
    row_zero_rule: bool = True,
) -> float:
    """The error as published: root mean square difference of two N × N matrices, diagonal included.

    No matrix is built; the result is the same as with `full_matrix` on both sides.

    Parameters
    ----------
    estimate, exact : array-like (N (N - 1) / 2,)
        Distances of all pairs i < j, in order.
    diagonal : array-like (N,), optional
        Estimates of each distribution with itself; exact ones are 0. Entropic costs are not.
    entropic : bool
        Whether the estimates are Sinkhorn's. Their matrices have a row 0.
    row_zero_rule : bool
        Row and column 0 of the exact matrix, and of estimates that are not entropic, are empty.

    Returns
    -------
    float, NaN if an estimate is.

    Examples
    --------
    >>> estimate, exact = [1.0, 1.0, 2.0], [1.5, 1.0, 1.0]
    >>> round(full_matrix_error(estimate, exact, row_zero_rule=False) ** 2 * 9, 6)  # 2 × (0.25 + 1)
    2.5
    >>> round(full_matrix_error(estimate, exact) ** 2 * 9, 6)  # 2 × 1
    2.0
    >>> round(full_matrix_error(estimate, exact, entropic=True) ** 2 * 9, 6)  # 2 × (1 + 1 + 1)
    6.0
    """
    found, right = _read_condensed(estimate, "estimate"), _read_condensed(exact, "exact")
    if len(found) != len(right):
        raise ValueError(f"there are {len(found)} estimates but {len(right)} exact distances; give both for all pairs")
    n = _side(len(found))
    gap = found - right
    own = np.zeros(n) if diagonal is None else _read_diagonal(diagonal, n)
    if row_zero_rule:
        gap[: n - 1] = found[: n - 1] if entropic else 0.0  # pairs (0, j) come first
        if not entropic:
            own = np.concatenate([[0.0], own[1:]])
    return float(np.sqrt((2.0 * np.square(gap).sum() + np.square(own).sum()) / n**2))


def _side(n_pairs: int) -> int:
    """N of N (N - 1) / 2."""
    return round((1 + np.sqrt(1 + 8 * n_pairs)) / 2)


def _read_condensed(values: ArrayLike, name: str) -> NDArray[np.float64]:
    array = np.asarray(to_float_array(values, name), dtype=np.float64)
    n = _side(array.size)
    if array.ndim != 1 or array.size == 0 or n * (n - 1) // 2 != array.size:
        raise ValueError(
            f"{name} must be the N (N - 1) / 2 distances of all pairs i < j, as Distances.values of a whole collection "
            f"has them; found shape {array.shape}"
        )
    return array


def _read_diagonal(diagonal: ArrayLike, n: int) -> NDArray[np.float64]:
    array = np.asarray(to_float_array(diagonal, "diagonal"), dtype=np.float64)
    if array.shape != (n,):
        raise ValueError(f"diagonal must have one value for each of the {n} distributions; found shape {array.shape}")
    return array


# ------------------------------------------------------------------------------------------------------------ k-means


def one_pass_kmeans(D: Distributions, k: int, seed: int) -> AnchorSpace:
    """ASOT-k as published: mini-batch k-means that sees every point once.

    The points come in order, 500 distributions at a time, in blocks of 2048. The first block places the centers. Later
    ones move them, and each block may send centers with few points elsewhere; where k is far above the number of
    distinct points, this is how rare points lose their center. Such points then share the nearest other center, which
    is the entire error of ASOT-k in the paper: with a center on every distinct point it would be 0.

    Parameters
    ----------
    D : Distributions
        Those to learn from. Masses are ignored.
    k : int
        Number of centers; at most as many as there are points in the first block.
    seed : int
        The public code draws a new one every time.

    Returns
    -------
    AnchorSpace with k anchors, some of them equal where there are few distinct points.

    Examples
    --------
    >>> import numpy as np, asot
    >>> labels = np.random.default_rng(0).integers(3, size=90)
    >>> D = asot.Distributions(np.eye(3)[labels], offsets=range(0, 91, 9))
    >>> one_pass_kmeans(D, 4, seed=0)
    AnchorSpace: 4 anchors in 3 dimensions, Euclidean cost up to 1.414
    """
    from sklearn.cluster import MiniBatchKMeans

    k = as_positive_int(k, "k")
    steps = _blocks_of_points(D)
    if k > len(steps[0]):
        raise ValueError(f"k = {k} centers cannot be placed on a first block of {len(steps[0])} points; lower k")
    learner = MiniBatchKMeans(k, batch_size=POINTS_PER_STEP, random_state=seed)
    for points in steps:
        learner.partial_fit(points)
    return AnchorSpace(np.asarray(learner.cluster_centers_, dtype=np.float64))


def batches(D: Distributions, size: int = DISTRIBUTIONS_PER_BATCH) -> list[slice]:
    """The points of each ``size`` distributions in turn, as slices of ``D.points``."""
    starts = [*D.offsets[:-1:size], D.offsets[-1]]
    return [slice(int(start), int(stop)) for start, stop in itertools.pairwise(starts)]


def _blocks_of_points(D: Distributions) -> list[NDArray[np.float32]]:
    blocks = []
    for batch in batches(D):
        points = np.asarray(D.points[batch], dtype=np.float32)
        blocks += [points[start : start + POINTS_PER_STEP] for start in range(0, len(points), POINTS_PER_STEP)]
    return blocks
