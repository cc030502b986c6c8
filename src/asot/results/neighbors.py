"""Results of searches: the nearest of every distribution, or all within a radius."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices, Info
from asot.data.notebook import MOST_ROWS, page_of
from asot.results.frames import ShownAsFrame, neighbors_frame


class NamedNeighbors(Sized):
    """What all lists of neighbors have: names, and a table of them."""

    indices: Indices
    names: tuple[NDArray[Any] | None, NDArray[Any] | None]

    @property
    def ids(self) -> NDArray[Any]:
        """Names of the rows (N,)."""
        return np.arange(len(self)) if self.names[0] is None else self.names[0]

    @property
    def neighbor_ids(self) -> NDArray[Any]:
        """Names of the neighbors, in the shape of `indices`."""
        return self.indices if self.names[1] is None else self.names[1][self.indices]

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row per neighbor: id, rank (from 1), neighbor and distance."""
        return neighbors_frame(self)


@dataclass(frozen=True, eq=False)
class Neighbors(NamedNeighbors):
    """The nearest columns of every row, ascending; ties in order of index.

    Attributes
    ----------
    indices : (N, K) int64
    distances : (N, K) float64
    n_exact : int or None
        How many pairs were solved to find them, if that was counted (`asot.kneighbors`).
    lower, upper, error : (N, K) float64 or None
        Bounds and expected errors if you asked for them, as in `Distances`.
    info : dict, as in `Distances`
    """

    indices: Indices
    distances: Float
    info: Info = field(default_factory=dict, repr=False)
    n_exact: int | None = None
    names: tuple[NDArray[Any] | None, NDArray[Any] | None] = field(default=(None, None), repr=False)
    lower: Float | None = field(default=None, repr=False)
    upper: Float | None = field(default=None, repr=False)
    error: Float | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.indices)

    def _repr_html_(self) -> str:
        n, k = self.indices.shape
        rows = [(own, *near[:MOST_ROWS].tolist()) for own, near in zip(self.ids, self.neighbor_ids[:MOST_ROWS])]  # noqa: B905
        return page_of(f"Neighbors: the {k:,} nearest of {n:,}", range(1, min(k, MOST_ROWS) + 1), rows, n)

    def __repr__(self) -> str:
        n, k = self.indices.shape
        solved = "" if self.n_exact is None else f"; {self.n_exact:,} pairs solved"
        spread = f", {self.distances.min():.4g} to {self.distances.max():.4g}" if self.distances.size else ""
        recall = f"; recall {self.info['recall']['measured']:.3f}" if "recall" in self.info else ""
        return f"Neighbors: the {k:,} nearest of each of {n:,}{spread}{solved}{recall}"

    def graph(self, n_columns: int | None = None) -> Any:
        """The distances as scipy.sparse.csr_matrix (N, M), as scikit-learn's ``metric="precomputed"`` reads it.

        Zero distances are stored, and the entries of a row ascend. Pass M as ``n_columns`` if the result does not know
        it.
        """
        columns = self.info.get("n_columns") if n_columns is None else n_columns
        if columns is None:
            raise ValueError("this result does not know the size of the collection; pass n_columns")
        n, k = self.indices.shape
        return neighbor_graph(np.arange(n + 1) * k, self.indices.ravel(), self.distances.ravel(), columns)


@dataclass(frozen=True, eq=False)
class RadiusNeighbors(NamedNeighbors, ShownAsFrame):
    """All columns within a distance of every row.

    Row i has the columns ``indices[indptr[i]:indptr[i + 1]]`` at ``distances[indptr[i]:indptr[i + 1]]``, nearest first,
    ties in order of index.
    """

    indptr: Indices  # (N + 1,)
    indices: Indices  # (edges,)
    distances: Float  # (edges,)
    n_exact: int  # pairs that were solved
    info: Info = field(default_factory=dict, repr=False)
    names: tuple[NDArray[Any] | None, NDArray[Any] | None] = field(default=(None, None), repr=False)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __repr__(self) -> str:
        return f"RadiusNeighbors: {len(self.indices):,} neighbors of {len(self):,}; {self.n_exact:,} pairs solved"

    def graph(self) -> Any:
        """The distances as scipy.sparse.csr_matrix (N, M), zeros stored, as scikit-learn's "precomputed" reads it."""
        return neighbor_graph(self.indptr, self.indices, self.distances, self.info["n_columns"])


def neighbor_graph(indptr: Indices, indices: Indices, distances: Float, n_columns: int) -> Any:
    """A sparse matrix of distances whose rows keep the order in which they are given."""
    from scipy import sparse

    shape = (len(indptr) - 1, n_columns)
    return sparse.csr_matrix((distances.copy(), indices.copy(), indptr), shape=shape)
