"""Spaces as people have them, checked: distance matrices of different sizes, clouds of points, graphs.

A space is a set of n points that are known by their distances only, with masses and perhaps features. Everything
becomes one flat record, like `Distributions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.distributions import Distributions
from asot.validation import to_float_array

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Spaces:
    """N spaces; distances are in units of 2^exponent."""

    start: NDArray[np.int64]  # (N + 1,) where the points of each begin
    distance: Float  # flat, (n_i, n_i) each
    mass: Float | None  # (points,) of total 1 each, or None: uniform
    features: Float | None  # (points, dim)
    exponent: int
    ids: NDArray[Any]

    def __len__(self) -> int:
        return len(self.start) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.start)

    @property
    def matrix_at(self) -> NDArray[np.int64]:
        """(N,) where the distances of each space begin."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.sizes**2)])[:-1]

    def matrix(self, i: int) -> Float:
        n, at = int(self.sizes[i]), int(self.matrix_at[i])
        return self.distance[at : at + n * n].reshape(n, n)

    def masses(self, i: int) -> Float:
        own = slice(int(self.start[i]), int(self.start[i + 1]))
        return np.full(own.stop - own.start, 1.0 / (own.stop - own.start)) if self.mass is None else self.mass[own]


def read_spaces(X: Any, masses: Any = None, features: Any = None, name: str = "X") -> Spaces:
    """Spaces of a list of matrices, of graphs, or of a `Distributions`, whose points' Euclidean distances they are."""
    if isinstance(X, Spaces):
        return X
    if isinstance(X, Distributions):
        if masses is not None:
            raise ValueError("a Distributions has its own masses; leave masses= out")
        return _from_distributions(X, features)
    if not isinstance(X, Sequence) and not (isinstance(X, np.ndarray) and X.ndim == 3):
        raise TypeError(
            f"{name} must be a list of distance matrices (n_i, n_i), of graphs, or a Distributions; found "
            f"{type(X).__name__}"
        )
    if len(X) == 0:
        raise ValueError(f"{name} is empty; a collection needs at least one space")
    matrices = [_as_matrix(each, i, name) for i, each in enumerate(X)]
    return _assembled(matrices, masses, features, np.arange(len(matrices)), name)


def _from_distributions(D: Distributions, features: Any) -> Spaces:
    from scipy.spatial.distance import cdist

    matrices, masses = [], []
    for i in range(len(D)):
        points, own = D[i]
        held = own > 0
        x = np.asarray(points, dtype=np.float64)[held]
        matrices.append(cdist(x, x))
        masses.append(own[held])
    uniform = all(np.ptp(own) <= 1e-12 * own.max() for own in masses)
    return _assembled(matrices, None if uniform else masses, features, D.ids, "X")


def _as_matrix(given: Any, i: int, name: str) -> Float:
    if hasattr(given, "nodes") and hasattr(given, "edges"):
        return _shortest_paths(_adjacency_of_networkx(given), i, name)
    if hasattr(given, "edge_index") and hasattr(given, "num_nodes"):
        return _shortest_paths(_adjacency_of_pyg(given), i, name)
    matrix = np.asarray(to_float_array(given, f"{name}[{i}]"), dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) == 0:
        raise ValueError(
            f"space {i} of {name} must be a square matrix of distances; found shape {matrix.shape}. Points go into "
            "Distributions.from_list"
        )
    if not np.isfinite(matrix).all():
        a, b = np.argwhere(~np.isfinite(matrix))[0]
        raise ValueError(
            f"space {i} of {name}: the distance of points {a} and {b} is {matrix[a, b]}; distances must be finite. For "
            "a graph that is not connected, take its largest component"
        )
    if matrix.min() < 0:
        a, b = np.unravel_index(int(matrix.argmin()), matrix.shape)
        raise ValueError(f"space {i} of {name}: the distance of points {a} and {b} is {matrix[a, b]:g}; it must be ≥ 0")
    if np.abs(matrix - matrix.T).max() > 1e-9 * matrix.max():
        a, b = np.unravel_index(int(np.abs(matrix - matrix.T).argmax()), matrix.shape)
        raise ValueError(
            f"space {i} of {name} is not symmetric: {matrix[a, b]:g} from point {a} to {b}, {matrix[b, a]:g} back; "
            "take (d + d.T) / 2"
        )
    return 0.5 * (matrix + matrix.T)


def _adjacency_of_networkx(graph: Any) -> Any:
    import networkx

    return networkx.to_scipy_sparse_array(graph, weight="weight", dtype=np.float64)


def _adjacency_of_pyg(graph: Any) -> Any:
    from scipy import sparse

    source, target = np.asarray(graph.edge_index)
    n = int(graph.num_nodes)
    both = sparse.coo_array((np.ones(len(source)), (source, target)), shape=(n, n)).tocsr()
    both.data[:] = 1.0
    return both


def _shortest_paths(adjacency: Any, i: int, name: str) -> Float:
    from scipy.sparse.csgraph import shortest_path

    distances = np.asarray(shortest_path(adjacency, directed=False))
    if len(distances) == 0:
        raise ValueError(f"space {i} of {name}: the graph has no nodes")
    if not np.isfinite(distances).all():
        a, b = np.argwhere(~np.isfinite(distances))[0]
        raise ValueError(
            f"space {i} of {name}: no path leads from node {a} to node {b}; take the largest connected component"
        )
    return distances


def _assembled(matrices: list[Float], masses: Any, features: Any, ids: Any, name: str) -> Spaces:
    sizes = np.array([len(matrix) for matrix in matrices], dtype=np.int64)
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    largest = max(float(matrix.max()) for matrix in matrices)
    exponent = int(np.frexp(largest)[1]) if largest > 0 else 0
    flat = np.concatenate([np.ldexp(matrix.reshape(-1), -exponent) for matrix in matrices])
    return Spaces(
        start,
        flat,
        _as_masses(masses, sizes, name),
        _as_features(features, sizes, exponent, name),
        exponent,
        np.asarray(ids),
    )


def _as_masses(masses: Any, sizes: NDArray[np.int64], name: str) -> Float | None:
    if masses is None:
        return None
    if len(masses) != len(sizes):
        raise ValueError(
            f"masses must hold one vector for each of the {len(sizes)} spaces of {name}; found {len(masses)}"
        )
    parts = []
    for i, (given, n) in enumerate(zip(masses, sizes, strict=True)):
        own = np.asarray(to_float_array(given, f"masses[{i}]"), dtype=np.float64)
        if own.shape != (n,) or not np.isfinite(own).all() or (own < 0).any() or own.sum() <= 0:
            raise ValueError(
                f"space {i} of {name}: its masses must be {n} finite numbers ≥ 0, not all 0; found shape {own.shape}"
            )
        parts.append(own / own.sum())
    return np.concatenate(parts)


def _as_features(features: Any, sizes: NDArray[np.int64], exponent: int, name: str) -> Float | None:
    """Features in the unit of the distances, so that both parts of a fused energy have one scale."""
    if features is None:
        return None
    if len(features) != len(sizes):
        raise ValueError(
            f"features must hold one array for each of the {len(sizes)} spaces of {name}; found {len(features)}"
        )
    parts = [np.asarray(to_float_array(each, f"features[{i}]"), dtype=np.float64) for i, each in enumerate(features)]
    for i, (part, n) in enumerate(zip(parts, sizes, strict=True)):
        if part.ndim != 2 or len(part) != n or part.shape[1] != parts[0].shape[1]:
            raise ValueError(
                f"space {i} of {name}: its features must be an array ({n}, {parts[0].shape[-1]}); found {part.shape}"
            )
        if not np.isfinite(part).all():
            raise ValueError(
                f"space {i} of {name}: feature of point {int(np.argwhere(~np.isfinite(part))[0, 0])} is not finite"
            )
    return np.ldexp(np.concatenate(parts), -exponent)


def joined_spaces(first: Spaces, second: Spaces) -> Spaces:
    """Two collections as one, the second after the first, in one unit."""
    exponent = max(first.exponent, second.exponent)
    parts = [(each, each.exponent - exponent) for each in (first, second)]
    mass = None
    if first.mass is not None or second.mass is not None:
        mass = np.concatenate([np.concatenate([each.masses(i) for i in range(len(each))]) for each in (first, second)])
    if (first.features is None) != (second.features is None):
        raise ValueError("features must be given for both collections, or for neither")
    features = None
    if first.features is not None and second.features is not None:
        features = np.concatenate([np.ldexp(each.features, shift) for each, shift in parts])  # type: ignore[arg-type]
    return Spaces(
        np.concatenate([first.start, second.start[1:] + first.start[-1]]),
        np.concatenate([np.ldexp(each.distance, shift) for each, shift in parts]),
        mass,
        features,
        exponent,
        np.concatenate([first.ids, second.ids]),
    )
