"""Graphs as spaces: the lengths of shortest paths between their nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from asot._typing import Float


def is_graph(given: Any) -> bool:
    return _is_networkx(given) or (hasattr(given, "edge_index") and hasattr(given, "num_nodes"))


def _is_networkx(given: Any) -> bool:
    return hasattr(given, "nodes") and hasattr(given, "edges")


def shortest_paths(graph: Any, name: str) -> Float:
    """(n, n) in the order of the nodes. An edge is as long as its ``weight`` says (networkx), else 1; directions do
    not count, and of several edges between two nodes the shortest does."""
    from scipy import sparse
    from scipy.sparse.csgraph import shortest_path

    if _is_networkx(graph):
        place = {node: i for i, node in enumerate(graph.nodes)}
        edges = [(place[u], place[v], 1.0 if weight is None else weight) for u, v, weight in graph.edges(data="weight")]
        source, target = np.array([edge[:2] for edge in edges], dtype=np.int64).reshape(-1, 2).T
        length, n = np.array([edge[2] for edge in edges], dtype=np.float64), len(place)
    else:
        source, target = np.asarray(graph.edge_index, dtype=np.int64).reshape(2, -1)
        length, n = np.ones(len(source)), int(graph.num_nodes)
    if n == 0:
        raise ValueError(f"{name}: the graph has no nodes; leave it out")
    if not (np.isfinite(length).all() and (length >= 0).all()):
        worst = int(np.argmin(np.isfinite(length) & (length >= 0)))
        raise ValueError(
            f"{name}: the edge of nodes {source[worst]} and {target[worst]} has the length {length[worst]:g}; it "
            "must be a finite number ≥ 0"
        )
    low, high = np.minimum(source, target), np.maximum(source, target)
    order = np.argsort(length, kind="stable")
    kept = order[np.unique((low * n + high)[order], return_index=True)[1]]
    kept = kept[low[kept] != high[kept]]
    adjacency = sparse.coo_array((length[kept], (low[kept], high[kept])), shape=(n, n)).tocsr()
    distances = np.asarray(shortest_path(adjacency, method="D", directed=False))
    if not np.isfinite(distances).all():
        a, b = np.argwhere(~np.isfinite(distances))[0]
        raise ValueError(f"{name}: no path leads from node {a} to node {b}; take the largest connected component")
    return np.minimum(distances, distances.T)
