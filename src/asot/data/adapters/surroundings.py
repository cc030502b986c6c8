"""What the nodes of many graphs see around them: sums, means, or the labels of Weisfeiler and Lehman.

A round is one product with the sparse matrix of neighbors. Graphs have nothing to do with each other, so they are taken
in blocks of some thousand nodes: the matrices stay in the cache, and beside the result only a block is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.reading import stretches
from asot.validation import FloatArray, refuse_what_cannot_fit

_BLOCK = 2**15
"""Nodes of the graphs that are taken at a time."""


@dataclass(frozen=True)
class FlatGraphs:
    """n nodes in N graphs and their m listed edges, one graph after the other."""

    offsets: NDArray[np.int64]  # (N + 1,) where the nodes of a graph begin
    start: FloatArray  # (n, d) what nodes begin with
    edges: NDArray[np.int64]  # (2, m) nodes, from 0 in every graph
    edge_offsets: NDArray[np.int64]  # (N + 1,) where the edges of a graph begin
    weights: NDArray[Any] | None  # (m,)


def aggregated(flat: FlatGraphs, rounds: int, kind: str, eps: float) -> FloatArray:
    """(n, (rounds + 1) d): what nodes begin with and the result of every round, "sum" or "mean"."""
    n, d = flat.start.shape
    size = n * (rounds + 1) * d * flat.start.itemsize
    refuse_what_cannot_fit(size, f"features of {n:,} nodes", "use fewer rounds, fewer graphs or float32")
    found = np.empty((n, (rounds + 1) * d), flat.start.dtype)
    for own, neighbors in _blocks(flat):
        x = flat.start[own]
        found[own, :d] = x
        degree = np.asarray(neighbors.sum(axis=1), dtype=x.dtype).reshape(-1, 1)
        for r in range(1, rounds + 1):
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                around = neighbors @ x
                if kind == "sum":
                    x = x.dtype.type(1.0 + eps) * x + around
                else:  # a node without neighbors stays what it is
                    x = np.where(degree > 0, (x + around / degree) * x.dtype.type(0.5), x)
            if not np.isfinite(x).all():
                raise ValueError(f"features overflow {x.dtype} in round {r} of {rounds}; use fewer rounds")
            found[own, r * d : (r + 1) * d] = x
    return found


def labels_of_neighborhoods(flat: FlatGraphs, rounds: int) -> FloatArray:
    """(n, rounds + 1): after r rounds two nodes have one label exactly if they look alike up to r steps away."""
    _, first = np.unique(flat.start, axis=0, return_inverse=True)
    found = np.empty((len(first), rounds + 1))
    found[:, 0] = first.ravel()
    seen: list[dict[Any, int]] = [{} for _ in range(rounds + 1)]  # in every round: what was met, and its number
    for own, neighbors in _blocks(flat):
        bounds = neighbors.indptr
        owner = np.repeat(np.arange(own.stop - own.start), np.diff(bounds))
        for r in range(1, rounds + 1):
            current = found[own, r - 1].astype(np.int64)
            around = current[neighbors.indices]
            around = around[np.lexsort((around, owner))]
            place = seen[r]
            keys = ((current[i], around[bounds[i] : bounds[i + 1]].tobytes()) for i in range(len(current)))
            found[own, r] = np.fromiter((place.setdefault(key, len(place)) for key in keys), np.float64, len(current))
    return found


def _blocks(flat: FlatGraphs) -> Iterator[tuple[slice, Any]]:
    """Nodes of some graphs, and the symmetric matrix of the weights between them."""
    for first, last in stretches(flat.offsets, _BLOCK):
        listed = slice(int(flat.edge_offsets[first]), int(flat.edge_offsets[last]))
        owner = np.repeat(np.arange(first, last), np.diff(flat.edge_offsets[first : last + 1]))
        ends = flat.edges[:, listed]
        _check_ends(ends, flat.offsets, owner)
        weights = None if flat.weights is None else flat.weights[listed].astype(flat.start.dtype)
        own = slice(int(flat.offsets[first]), int(flat.offsets[last]))
        within = ends + (flat.offsets[owner] - own.start)
        yield own, _neighbors(within, weights, own.stop - own.start, flat.start.dtype)


def _check_ends(ends: NDArray[np.int64], offsets: NDArray[np.int64], owner: NDArray[np.int64]) -> None:
    inside = ((ends >= 0) & (ends < offsets[owner + 1] - offsets[owner])).all(axis=0)
    if not inside.all():
        edge = int(np.argmin(inside))
        number = int(owner[edge])
        (a, b), size = ends[:, edge], int(offsets[number + 1] - offsets[number])
        raise ValueError(f"graph {number} has an edge ({a}, {b}), but its nodes are numbered 0 to {size - 1}")


def _neighbors(ends: NDArray[np.int64], weights: NDArray[Any] | None, n: int, dtype: Any) -> Any:
    """The symmetric matrix (n, n) of weights; an edge that is listed twice, in either direction, counts once."""
    from scipy import sparse

    if weights is None:
        listed = sparse.csr_array((np.ones(ends.shape[1], dtype), (ends[0], ends[1])), shape=(n, n))
        both = listed + listed.T
        both.data[:] = 1.0
        return both
    order = np.argsort(weights)[::-1]  # of parallel edges the heaviest counts
    kept = order[np.unique((ends[0] * n + ends[1])[order], return_index=True)[1]]
    single = sparse.csr_array((weights[kept], (ends[0][kept], ends[1][kept])), shape=(n, n))
    return single.maximum(single.T)
