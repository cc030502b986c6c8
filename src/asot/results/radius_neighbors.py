"""What a search within a radius returns: rows with different numbers of neighbors, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Info
from asot.results.distances import NamedNeighbors, neighbor_graph
from asot.results.frames import ShownAsFrame


@dataclass(frozen=True, eq=False)
class RadiusNeighbors(NamedNeighbors, ShownAsFrame):
    """All columns within a distance of every row.

    Row i has the columns ``indices[indptr[i]:indptr[i + 1]]`` at ``distances[indptr[i]:indptr[i + 1]]``, nearest first,
    ties in order of index.
    """

    indptr: NDArray[np.int64]  # (N + 1,)
    indices: NDArray[np.int64]  # (edges,)
    distances: NDArray[np.float64]  # (edges,)
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
