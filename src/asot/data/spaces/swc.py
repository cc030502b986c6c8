"""Neurons in SWC files: points spread evenly along the branches, and their distances in space or along the tree.

Segments are laid end to end in the order of the file, and points stand at equal steps of that length, the first half
a step from its beginning. So every stretch of a neuron has as many points as its length demands, and the result depends
on nothing but the file.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from asot._typing import Float, Indices
from asot.data.squares import in_range
from asot.validation import refuse_what_cannot_fit


def read_swc(path: str | os.PathLike[str], n_points: int, along_tree: bool) -> Float:
    """Distances (n_points, n_points) within the neuron of a file: Euclidean, or along the tree."""
    refuse_what_cannot_fit(16 * n_points**2, f"the distances of {n_points:,} points", "use a smaller n_points=")
    places, parents = _nodes(path)
    _check_tree(path, parents)
    places, exponent = in_range(places)
    child = np.flatnonzero(parents >= 0)
    lengths = np.linalg.norm(places[child] - places[parents[child]], axis=1)
    ends = np.cumsum(lengths)
    if len(child) == 0 or ends[-1] <= 0:
        raise ValueError(f"{path}: the neuron has no branch of positive length")
    at = (np.arange(n_points) + 0.5) * (ends[-1] / n_points)
    segment = np.minimum(np.searchsorted(ends, at, side="right"), len(child) - 1)
    before = np.clip(at - (ends[segment] - lengths[segment]), 0.0, lengths[segment])  # from the parent
    if along_tree:
        return np.ldexp(_along_tree(path, parents, child, lengths, segment, before), exponent)
    from scipy.spatial.distance import cdist

    share = (before / np.where(lengths > 0, lengths, 1.0)[segment])[:, None]
    points = (1.0 - share) * places[parents[child[segment]]] + share * places[child[segment]]
    return np.asarray(np.ldexp(cdist(points, points), exponent))


def _along_tree(
    path: object, parents: Indices, child: Indices, lengths: Float, segment: Indices,
    before: Float,
) -> Float:  # fmt: skip
    """Lengths of paths between points: from the ends of their segments, except for two points of one segment."""
    from scipy import sparse
    from scipy.sparse.csgraph import shortest_path

    n = len(parents)
    tree = sparse.coo_array((lengths, (child, parents[child])), shape=(n, n)).tocsr()
    low, high = child[segment], parents[child[segment]]
    nodes, place = np.unique(np.concatenate([low, high]), return_inverse=True)
    between = np.asarray(shortest_path(tree, method="D", directed=False, indices=nodes))[:, nodes]
    if not np.isfinite(between).all():
        raise ValueError(f"{path}: the file has several trees, between which no path leads; use distances='euclidean'")
    ends = np.stack([place[: len(low)], place[len(low) :]])  # (2, points)
    outer = np.stack([lengths[segment] - before, before])
    paths = [
        outer[a][:, None] + between[np.ix_(ends[a], ends[b])] + outer[b][None, :] for a in range(2) for b in range(2)
    ]
    found = np.min(paths, axis=0)
    same = segment[:, None] == segment[None, :]
    return np.where(same, np.abs(before[:, None] - before[None, :]), found)


def _check_tree(path: object, parents: Indices) -> None:
    """Parents (n,) lead to a root from everywhere."""
    above = parents
    for _ in range(len(parents).bit_length()):  # twice as far up each time
        above = np.where(above >= 0, above[above], -1)
    if (above >= 0).any():
        raise ValueError(f"{path}: the parents of line {int((above >= 0).argmax()) + 1} of the nodes lead in a circle")


def _nodes(path: str | os.PathLike[str]) -> tuple[Float, Indices]:
    """Places (nodes, 3), and the index of each node's parent, or -1."""
    lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    rows = [line.split() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    try:
        table = np.array([row[:7] for row in rows], dtype=np.float64).reshape(-1, 7)
    except ValueError:
        raise ValueError(
            f"{path} is no SWC file: a line must have seven numbers: id, type, x, y, z, radius, parent"
        ) from None
    if len(table) == 0 or not np.isfinite(table).all():
        raise ValueError(f"{path} has no nodes, or one whose numbers are not finite")
    names = table[:, 0].astype(np.int64)
    index = {int(name): i for i, name in enumerate(names)}
    if len(index) < len(names):
        raise ValueError(f"{path}: two nodes have the same id")
    given = table[:, 6].astype(np.int64)
    missing = [int(name) for name in given if name >= 0 and int(name) not in index]
    if missing:
        raise ValueError(f"{path}: the parent {missing[0]} is not among the nodes")
    return table[:, 2:5], np.array([index[int(name)] if name >= 0 else -1 for name in given], dtype=np.int64)
