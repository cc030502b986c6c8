"""Spaces as people have them, checked: distance matrices of different sizes, clouds of points, graphs.

A space is a set of n points that are known by their distances only, with masses and perhaps features. Everything
becomes one flat record, like `Distributions`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float
from asot.data.distributions import Distributions, check_mass
from asot.data.spaces.graphs import is_graph, shortest_paths
from asot.validation import as_index, as_number, to_float_array

MOST_ORDER = 16
"""The largest p of GW_p."""


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

    def __iter__(self) -> Iterator[tuple[Float, Float]]:
        """Distances (n_i, n_i) and masses (n_i,) of each."""
        return ((self.matrix(i), self.masses(i)) for i in range(len(self)))

    @property
    def has_size(self) -> bool:
        """Whether any distance or feature is not 0; the exponent says something only then."""
        return bool(self.distance.any() or (self.features is not None and self.features.any()))

    @functools.cached_property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.start)

    @functools.cached_property
    def matrix_at(self) -> NDArray[np.int64]:
        """(N,) where the distances of each space begin."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.sizes**2)])[:-1]

    def matrix(self, i: int) -> Float:
        n, at = int(self.sizes[i]), int(self.matrix_at[i])
        return self.distance[at : at + n * n].reshape(n, n)

    def masses(self, i: int) -> Float:
        own = slice(int(self.start[i]), int(self.start[i + 1]))
        return np.full(own.stop - own.start, 1.0 / (own.stop - own.start)) if self.mass is None else self.mass[own]


def as_gromov_order(p: Any) -> float:
    """p of GW_p."""
    rule = f"p must be a number from 1 to {MOST_ORDER}, above which powers vanish beside each other"
    return as_number(p, lambda order: 1 <= order <= MOST_ORDER, rule)


def read_spaces(X: Any, masses: Any = None, features: Any = None, name: str = "X") -> Spaces:
    """Spaces of a list of matrices or graphs, of a dictionary of them by name, or of a `Distributions`, whose points'
    Euclidean distances they are."""
    if isinstance(X, Distributions):
        if masses is not None:
            raise ValueError(f"{name} is a Distributions, which has its own masses; leave masses= out")
        return _from_distributions(X, features, name)
    if isinstance(X, Mapping):
        ids, given = np.asarray(list(X)), list(X.values())
    elif X.ndim == 3 if isinstance(X, np.ndarray) else isinstance(X, Sequence) and not isinstance(X, str):
        ids, given = np.arange(len(X)), list(X)
    else:
        found = f"an array of shape {X.shape}" if isinstance(X, np.ndarray) else type(X).__name__
        raise TypeError(
            f"{name} must be a list of distance matrices (n_i, n_i), of graphs, or a Distributions; found {found}"
        )
    if len(given) == 0:
        raise ValueError(f"{name} is empty; a collection needs at least one space")
    matrices = [_as_matrix(each, i, name) for i, each in enumerate(given)]
    return _assembled(matrices, masses, features, ids, name)


def _from_distributions(D: Distributions, features: Any, name: str) -> Spaces:
    from scipy.spatial.distance import cdist

    check_mass(D)
    largest = max(float(np.abs(points).max()) for points, _ in D)
    exponent = int(np.frexp(largest)[1])
    matrices, masses = [], []
    for points, own in D:
        x = np.ldexp(np.asarray(points, dtype=np.float64), -exponent)
        matrices.append(cdist(x, x))
        masses.append(own)
    uniform = all(np.ptp(own) <= 1e-12 * own.max() for own in masses)
    return _assembled(matrices, None if uniform else masses, features, D.ids, name, exponent)


def _as_matrix(given: Any, i: int, name: str) -> Float:
    if is_graph(given):
        return shortest_paths(given, f"space {i} of {name}")
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
    return 0.5 * matrix + 0.5 * matrix.T


def _assembled(
    matrices: list[Float], masses: Any, features: Any, ids: Any, name: str, given_exponent: int = 0
) -> Spaces:
    """In one unit, in which no distance or feature is above 1, so that powers of them do not overflow; matrices are
    given in units of 2^given_exponent."""
    sizes = np.array([len(matrix) for matrix in matrices], dtype=np.int64)
    own_masses, own_features = _as_masses(masses, sizes, name), _as_features(features, sizes, name)
    largest = max(float(matrix.max()) for matrix in matrices)
    exponents = [int(np.frexp(largest)[1]) + given_exponent] if largest > 0 else []  # zeros have no size
    if own_features is not None and own_features.any():
        exponents.append(int(np.frexp(np.abs(own_features).max())[1]))
    exponent = max(exponents, default=0)
    if own_features is not None:
        own_features = np.ldexp(own_features, -exponent)
    flat = np.concatenate([np.ldexp(matrix.reshape(-1), given_exponent - exponent) for matrix in matrices])
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    return Spaces(start, flat, own_masses, own_features, exponent, np.asarray(ids))


def _as_masses(masses: Any, sizes: NDArray[np.int64], name: str) -> Float | None:
    if masses is None:
        return None
    _check_count(masses, "masses must hold one vector", sizes, name)
    parts = []
    for i, (given, n) in enumerate(zip(masses, sizes, strict=True)):
        own = np.asarray(to_float_array(given, f"masses[{i}]"), dtype=np.float64)
        if own.shape != (n,):
            raise ValueError(f"space {i} of {name} has {n} points, but its masses have shape {own.shape}")
        if not np.isfinite(own).all() or (own < 0).any() or not own.any():
            raise ValueError(f"space {i} of {name}: its masses must be finite numbers ≥ 0, and not all of them 0")
        own = own / own.max()
        # Multiples of 2^-52: so their sums, too, are the same in every order of the points.
        parts.append(np.ldexp(np.rint(np.ldexp(own / math.fsum(own), 52)), -52))
    return np.concatenate(parts)


def _check_count(given: Any, what: str, sizes: NDArray[np.int64], name: str) -> None:
    if len(given) != len(sizes):
        raise ValueError(f"{what} for each of the {len(sizes)} spaces of {name}; found {len(given)}")


def _as_features(features: Any, sizes: NDArray[np.int64], name: str) -> Float | None:
    if features is None:
        return None
    _check_count(features, "features must hold one array", sizes, name)
    parts = [np.asarray(to_float_array(each, f"features[{i}]"), dtype=np.float64) for i, each in enumerate(features)]
    parts = [part[:, None] if part.ndim == 1 else part for part in parts]
    for i, (part, n) in enumerate(zip(parts, sizes, strict=True)):
        if part.ndim != 2 or len(part) != n or part.shape[1] != parts[0].shape[1]:
            raise ValueError(
                f"space {i} of {name}: its features must be an array ({n}, {parts[0].shape[-1]}); found {part.shape}"
            )
        if not np.isfinite(part).all():
            raise ValueError(
                f"space {i} of {name}: feature of point {int(np.argwhere(~np.isfinite(part))[0, 0])} is not finite"
            )
    return np.concatenate(parts)


def joined_spaces(first: Spaces, second: Spaces) -> Spaces:
    """Two collections as one, the second after the first, in one unit."""
    exponent = max((each.exponent for each in (first, second) if each.has_size), default=0)
    parts = [(each, each.exponent - exponent) for each in (first, second)]
    mass = None
    if first.mass is not None or second.mass is not None:
        mass = np.concatenate([own for each in (first, second) for _, own in each])
    held = [np.ldexp(each.features, shift) for each, shift in parts if each.features is not None]
    if len(held) == 1:
        raise ValueError("features must be given for both collections, or for neither")
    widths = [part.shape[1] for part in held]
    if len(set(widths)) > 1:
        raise ValueError(f"features of X have {widths[0]} columns and those of Y {widths[1]}; they must have as many")
    return Spaces(
        np.concatenate([first.start, second.start[1:] + first.start[-1]]),
        np.concatenate([np.ldexp(each.distance, shift) for each, shift in parts]),
        mass,
        np.concatenate(held) if held else None,
        exponent,
        np.arange(len(first) + len(second)),
    )


def chosen_spaces(spaces: Spaces, places: list[int]) -> Spaces:
    """Some of the spaces, in this order."""
    own = np.concatenate([np.arange(spaces.start[i], spaces.start[i + 1]) for i in places])
    return Spaces(
        np.concatenate([np.zeros(1, np.int64), np.cumsum(spaces.sizes[places])]),
        np.concatenate([spaces.matrix(i).reshape(-1) for i in places]),
        None if spaces.mass is None else spaces.mass[own],
        None if spaces.features is None else spaces.features[own],
        spaces.exponent,
        spaces.ids[places],
    )


def place_of(key: Any, ids: NDArray[Any], name: str) -> int:
    """The index of a space, from its name or an index that may count from the end."""
    if not isinstance(key, str):
        return as_index(key, name, len(ids))
    found = np.flatnonzero(ids == key)
    if len(found) != 1:
        raise ValueError(f"{name}={key!r} is the name of {len(found)} spaces; pass an index, or a name that one has")
    return int(found[0])
