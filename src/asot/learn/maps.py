"""Distances as positions in the plane and as an order on a line, for pictures of a collection.

A map starts from classical scaling, whose signs are fixed, so that it is the same every time; t-SNE or UMAP continue
from there. The order of a matrix comes from the leaves of a hierarchical clustering, flipped so that neighbors are
close.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot._typing import Float
from asot.data.squares import in_range
from asot.lazy import needed
from asot.validation import as_choice

METHODS = ("auto", "mds", "tsne", "umap")
FEWEST_FOR_TSNE = 30
MOST_BY_ALL = 500
"""Of larger matrices only the two eigenvectors that are needed are computed."""

MOST_TO_TURN = 600
"""Larger trees are not flipped: that takes more than quadratic time."""


def embed(distances: ArrayLike, method: str = "auto") -> Float:
    """Positions (N, 2) for a matrix of distances (N, N).

    Parameters
    ----------
    distances : (N, N)
        Symmetric, zero on the diagonal.
    method : {"auto", "mds", "tsne", "umap"}
        "mds" is classical scaling, which keeps large distances; "tsne" and "umap" keep neighbors. "auto" is t-SNE
        from 30 distributions on and classical scaling below. UMAP needs ``pip install umap-learn``.

    Examples
    --------
    >>> line = abs(np.subtract.outer([0.0, 1.0, 3.0], [0.0, 1.0, 3.0]))
    >>> places = embed(line, "mds")
    >>> bool(np.allclose(np.diff(places[:, 0]), [1.0, 2.0]) or np.allclose(np.diff(places[:, 0]), [-1.0, -2.0]))
    True
    """
    matrix, exponent = in_range(as_square(distances))
    method = as_choice(method, "method", METHODS)
    if method == "auto":
        method = "tsne" if len(matrix) >= FEWEST_FOR_TSNE else "mds"
    start = classical_scaling(matrix)
    if method == "mds" or len(matrix) < 4 or not matrix.any():
        return np.ldexp(start, exponent)
    return _tsne(matrix, start) if method == "tsne" else _umap(matrix, start)


def classical_scaling(matrix: Float) -> Float:
    """The plane (N, 2) that shows squared distances best."""
    n = len(matrix)
    if n < 3:
        return np.column_stack([matrix[0] if n else np.zeros(0), np.zeros(n)])
    squared = matrix**2
    centered = squared - squared.mean(axis=0) - squared.mean(axis=1)[:, None] + squared.mean()
    values, vectors = _largest_two(-0.5 * centered)
    axes = vectors * np.sqrt(np.maximum(values, 0.0))
    heaviest = np.abs(axes).argmax(axis=0)
    signs = np.where(axes[heaviest, [0, 1]] < 0, -1.0, 1.0)
    return np.asarray(axes * signs)


def _largest_two(matrix: Float) -> tuple[Float, Float]:
    """The two largest eigenvalues (2,) of a symmetric matrix, the larger first, and their vectors (N, 2).

    Large matrices are multiplied with vectors until two are found, which is quicker than all N; and Ctrl-C is heard
    between the products.
    """
    if len(matrix) > MOST_BY_ALL:
        from scipy.sparse.linalg import ArpackError, eigsh

        start = np.random.default_rng(0).normal(size=len(matrix))
        try:
            values, vectors = eigsh(matrix, k=2, which="LA", v0=start, ncv=20, maxiter=60, tol=1e-9)
            return values[::-1], vectors[:, ::-1]
        except ArpackError:  # several axes of one length, or none at all: only all of them can tell
            pass
    values, vectors = np.linalg.eigh(matrix)
    return values[[-1, -2]], vectors[:, [-1, -2]]


def leaf_order(matrix: Float) -> NDArray[np.int64]:
    """An order (N,) in which similar distributions are next to each other: the leaves of average linkage."""
    from scipy.cluster.hierarchy import leaves_list

    return np.arange(len(matrix)) if len(matrix) < 3 else leaves_list(tree_of(matrix)).astype(np.int64)


def tree_of(matrix: Float) -> Float:
    """Average linkage (N - 1, 4) as scipy has it, flipped so that neighboring leaves are close if N is not large."""
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    condensed = squareform(matrix, checks=False)
    return np.asarray(linkage(condensed, "average", optimal_ordering=len(matrix) <= MOST_TO_TURN), dtype=np.float64)


def stress(matrix: Float, places: Float) -> float:
    """How much distances on a map (N, 2), scaled as well as can be, differ from the true ones (Kruskal's stress 1)."""
    i, j = np.triu_indices(len(matrix), 1)
    true, places = in_range(matrix[i, j])[0], in_range(places)[0]
    shown = np.linalg.norm(places[i] - places[j], axis=1)
    if not shown.any() or not true.any():
        return 0.0 if not true.any() else 1.0
    shown = shown * (true @ shown / (shown @ shown))
    return float(np.sqrt(((true - shown) ** 2).sum() / (true**2).sum()))


def as_square(distances: Any) -> Float:
    """A matrix of distances (N, N) from an array or a `Distances`; anything else raises an error."""
    matrix = np.asarray(distances.matrix() if hasattr(distances, "matrix") else distances, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(
            f"a picture needs the distances of all pairs of one collection, a square matrix; found {matrix.shape}"
        )
    if not np.isfinite(matrix).all():
        i, j = np.argwhere(~np.isfinite(matrix))[0]
        raise ValueError(f"the distance between {i} and {j} is {matrix[i, j]}; a picture needs finite distances")
    return matrix


def _tsne(matrix: Float, start: Float) -> Float:
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    tiny = start / max(start[:, 0].std(), 1e-300) * 1e-4  # where t-SNE likes to start
    perplexity = min(30.0, len(matrix) / 4)
    tsne = TSNE(metric="precomputed", init=tiny, perplexity=perplexity, random_state=0)
    with threadpool_limits(1):  # threads would wait for each other
        return np.asarray(tsne.fit_transform(matrix), dtype=np.float64)


def _umap(matrix: Float, start: Float) -> Float:
    umap = needed("umap", 'a map by UMAP needs umap-learn: pip install umap-learn; or use method="tsne"')
    neighbors = min(15, len(matrix) - 1)
    found = umap.UMAP(metric="precomputed", n_neighbors=neighbors, init=start, random_state=0).fit_transform(matrix)
    return np.asarray(found, dtype=np.float64)
