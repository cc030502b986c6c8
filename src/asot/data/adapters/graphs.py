"""Graphs as distributions: a graph is the bag of its nodes, and a node is described by its neighborhood.

A node starts with features x, usually its one-hot label. Then x ← (1 + ε) x + Σ_neighbors x is repeated, and the
results of all rounds are concatenated. After r rounds, two nodes with equal features have equal neighborhoods up to r
steps away, as far as sums can tell. Nothing is learned.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.adapters.surroundings import FlatGraphs, aggregated
from asot.data.distributions import Distributions
from asot.data.reading import by_group
from asot.validation import FloatArray, as_number, not_finite, refuse_what_cannot_fit, to_array, to_float_array


def graph_features(x: Any, edges: Any, *, rounds: int = 4, eps: float = 0.0) -> FloatArray:
    """Features that describe the neighborhood of every node.

    Parameters
    ----------
    x : (n, d) float
        What every node starts with. float32 stays float32, everything else becomes float64.
    edges : (m, 2) int
        Pairs of nodes, counted from 0. Edges are undirected and unweighted: one that is listed twice, in the same or
        the other direction, counts once. A node with a self-loop is one of its own neighbors.
    rounds : int
        How often x ← (1 + eps) x + Σ_neighbors x is applied.
    eps : float
        Extra weight of a node relative to its neighbors.

    Returns
    -------
    (n, (rounds + 1) d) float
        The start and the result of every round, concatenated.

    Examples
    --------
    A path of three nodes:

    >>> from asot.datasets import graph_features
    >>> graph_features([[1.0], [0.0], [0.0]], [[0, 1], [1, 2]], rounds=2)
    array([[1., 1., 2.],
           [0., 1., 2.],
           [0., 0., 1.]])
    """
    start = _as_start(x)
    listed = to_array(edges, "edges")
    if listed.size and (listed.ndim != 2 or listed.shape[1] != 2):
        hint = "; pass its transpose" if listed.ndim == 2 and listed.shape[0] == 2 else ""
        raise ValueError(f"edges must be (m, 2): two nodes in every row; found shape {listed.shape}{hint}")
    flat = flat_nodes(start, np.zeros(len(start), np.int64), as_ends(listed.T, "edges"), "edges")
    return aggregated(flat, as_rounds(rounds), "sum", as_eps(eps))


def from_pyg(x: Any, edge_index: Any, batch: Any = None, *, rounds: int = 4, eps: float = 0.0) -> Distributions:
    """A collection from the arrays of a PyTorch Geometric batch: every graph is the bag of its nodes' features.

    Takes NumPy arrays, or tensors on any device. PyTorch Geometric itself is not needed.

    Parameters
    ----------
    x : (n, d) float
        What every node starts with.
    edge_index : (2, m) int
        The two ends of every edge. Direction does not matter, see `graph_features`.
    batch : (n,) int, optional
        The graph of every node, 0 to N - 1; by default there is one graph. If it is not sorted, the graphs still come
        out in the order of their numbers, and nodes stay in order within a graph.
    rounds, eps : int, float
        See `graph_features`.

    Examples
    --------
    A path of three nodes, and a single edge:

    >>> import numpy as np
    >>> from asot.datasets import from_pyg
    >>> x = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    >>> edge_index = np.array([[0, 1, 3], [1, 2, 4]])
    >>> from_pyg(x, edge_index, batch=np.array([0, 0, 0, 1, 1]))
    Distributions: 2 distributions of 2 to 3 points (mean 2.5, 5 in all) in 10 dimensions, float64
    """
    start = _as_start(x)
    ends = as_ends(edge_index, "edge_index")
    graph = np.zeros(len(start), np.int64) if batch is None else _as_batch(batch, len(start))
    flat = flat_nodes(start, graph, ends, "edge_index")
    return Distributions(aggregated(flat, as_rounds(rounds), "sum", as_eps(eps)), flat.offsets)


def from_networkx(
    graphs: Iterable[Any],
    label: str | None = None,
    *,
    known: Sequence[Hashable] | None = None,
    rounds: int = 4,
    eps: float = 0.0,
) -> Distributions:
    """A collection from networkx graphs: every graph is the bag of its nodes' features.

    Parameters
    ----------
    graphs : iterable of networkx graphs
        Nodes may be anything. Directed graphs are refused, because edges are treated as undirected. Parallel edges
        count once, weights are ignored, and a node with a self-loop is one of its own neighbors.
    label : str, optional
        The node attribute that holds a node's label; nodes start with their one-hot label. By default, all nodes start
        with the number 1, and only the structure tells graphs apart.
    known : sequence, optional
        All labels, each once, in the order of their columns. By default, those that occur, sorted. Pass it if you want
        to compare several collections.
    rounds, eps : int, float
        See `graph_features`.

    Examples
    --------
    >>> import networkx as nx                                             # doctest: +SKIP
    >>> from_networkx([nx.path_graph(4), nx.cycle_graph(5)], rounds=2)    # doctest: +SKIP
    Distributions: 2 distributions of 4 to 5 points (mean 4.5, 9 in all) in 3 dimensions, float64
    """
    if hasattr(graphs, "nodes"):
        raise ValueError("graphs must be a list of networkx graphs; for a single graph pass [graph]")
    if known is not None and label is None:
        raise ValueError("known lists labels, but no label is read; pass label= with the node attribute that holds it")
    read = None if label is None else functools.partial(_label_of, label)
    flat = flat_networkx(graphs, read, lambda labels: one_hot_of_any(labels, known))
    return Distributions(aggregated(flat, as_rounds(rounds), "sum", as_eps(eps)), flat.offsets)


def one_hot(column: NDArray[Any], width: int) -> NDArray[np.float64]:
    """(n, width): 1 in the column (n,) of each row."""
    refuse_what_cannot_fit(8 * len(column) * width, f"one-hot labels of {width:,} kinds", "merge rare ones")
    hot = np.zeros((len(column), width))
    hot[np.arange(len(column)), column] = 1.0
    return hot


def flat_nodes(
    start: FloatArray, graph: NDArray[np.int64], ends: NDArray[np.int64], name: str,
    weights: NDArray[Any] | None = None,
) -> FlatGraphs:  # fmt: skip
    """From nodes in any order, the graph (n,) of each, and edges (2, m) between nodes of the whole collection."""
    check_edges_stay_inside(ends.T, graph, name)
    offsets, order = by_group(graph, int(graph.max()) + 1)
    owner = graph[ends[0]]  # (m,)
    if order is not None:
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        start, ends = start[order], rank[ends]
    edge_offsets, by_owner = by_group(owner, len(offsets) - 1)
    if by_owner is not None:
        owner, ends, weights = owner[by_owner], ends[:, by_owner], None if weights is None else weights[by_owner]
    return FlatGraphs(offsets, start, ends - offsets[owner], edge_offsets, weights)


def check_edges_stay_inside(edges: NDArray[np.int64], graph: NDArray[np.int64], what: str, first: int = 0) -> None:
    """Raise ValueError for an edge (m, 2) to a missing node or to another graph; ``first`` is the first index.

    Messages count edges, nodes and graphs as the source does.
    """
    inside = ((edges >= 0) & (edges < len(graph))).all(axis=1)
    if not inside.all():
        row = int(np.argmin(inside))
        a, b = edges[row] + first
        raise ValueError(
            f"{what}: edge {row + first:,} is ({a}, {b}), but nodes are numbered {first} to {len(graph) - 1 + first:,}"
        )
    crossing = graph[edges[:, 0]] != graph[edges[:, 1]]
    if crossing.any():
        row = int(np.argmax(crossing))
        a, b = edges[row]
        raise ValueError(
            f"{what}: edge {row + first:,} joins node {a + first} of graph {graph[a] + first} with node {b + first} of "
            f"graph {graph[b] + first}; edges must stay within a graph"
        )


def _as_start(x: Any) -> FloatArray:
    start = to_float_array(x, "x", keep_float32=True)
    if start.ndim != 2 or 0 in start.shape:
        raise ValueError(f"x must be (n, d): a row of features for every node; found shape {start.shape}")
    if odd := not_finite(start):
        raise ValueError(f"x[{odd[0]}, {odd[1]}] is {start[odd]}; features must be finite: drop or impute it")
    return start


def as_rounds(rounds: Any) -> int:
    if isinstance(rounds, bool) or not hasattr(rounds, "__index__") or int(rounds) < 0:
        raise ValueError(f"rounds must be a whole number ≥ 0; found {rounds!r}")
    return int(rounds)


def as_eps(eps: Any) -> float:
    return as_number(eps, np.isfinite, "eps must be a finite number")


def as_ends(ends: Any, name: str) -> NDArray[np.int64]:
    """The ends of edges (2, m)."""
    ends = to_array(ends, name)
    if ends.size == 0:
        return np.empty((2, 0), dtype=np.int64)
    if ends.ndim != 2 or ends.shape[0] != 2:
        raise ValueError(f"{name} must be (2, m): the ends of the edges in two rows; found shape {ends.shape}")
    if ends.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold integers, not {ends.dtype}")
    return np.asarray(ends, dtype=np.int64)


def _as_batch(batch: Any, n_nodes: int) -> NDArray[np.int64]:
    graph = to_array(batch, "batch")
    if graph.shape != (n_nodes,) or graph.dtype.kind not in "iu":
        raise ValueError(
            f"batch must hold the graph of each of the {n_nodes} nodes, as integers; "
            f"found {graph.dtype} of shape {graph.shape}"
        )
    graph = graph.astype(np.int64, copy=False)
    if graph.min() < 0:
        raise ValueError(f"batch[{int(np.argmin(graph))}] is {graph.min()}; graphs are numbered from 0")
    present = np.unique(graph)
    if len(present) != present[-1] + 1:
        gap = int(np.argmax(present != np.arange(len(present))))
        raise ValueError(
            f"batch gives no node to graph {gap}, and a distribution needs a point; "
            "renumber the graphs: np.unique(batch, return_inverse=True)[1]"
        )
    return graph


def flat_networkx(
    graphs: Iterable[Any],
    read: Callable[[Any, Any, int], Any] | None,
    start_of: Callable[[list[Any]], FloatArray],
    edge_weight: str | None = None,
) -> FlatGraphs:
    """Graphs whose nodes begin with ``start_of`` what is ``read`` of (graph, node, number of the graph), or with 1."""
    values: list[Any] = []
    ends: list[tuple[int, int]] = []
    weights: list[float] = []
    offsets, edge_offsets = [0], [0]
    for number, graph in enumerate(graphs):
        _check_networkx(graph, number)
        place = {node: i for i, node in enumerate(graph.nodes)}
        values.extend(1.0 if read is None else read(graph, node, number) for node in place)
        for a, b, weight in graph.edges(data=1 if edge_weight is None else edge_weight):
            ends.append((place[a], place[b]))
            if edge_weight is not None:
                if not isinstance(weight, (int, float, np.number)) or not 0 <= weight < np.inf:
                    raise ValueError(f"graph {number}: the {edge_weight!r} of edge ({a!r}, {b!r}) is {weight!r}")
                weights.append(float(weight))
        offsets.append(len(values))
        edge_offsets.append(len(ends))
    if not values:
        raise ValueError("graphs is empty: a collection needs at least one graph")
    start = np.ones((len(values), 1)) if read is None else start_of(values)
    edges = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    held = None if edge_weight is None else np.array(weights)
    return FlatGraphs(np.array(offsets), start, edges, np.array(edge_offsets), held)


def _check_networkx(graph: Any, number: int) -> None:
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed")):
        raise ValueError(f"graphs must be networkx graphs; entry {number} is {type(graph).__name__}")
    if graph.is_directed():
        raise ValueError(f"graph {number} is directed; pass graph.to_undirected() if directions do not matter")
    if len(graph.nodes) == 0:
        raise ValueError(f"graph {number} has no nodes; drop it, a distribution needs at least one point")


def _label_of(label: str, graph: Any, node: Any, number: int) -> Any:
    attributes = graph.nodes[node]
    value = attributes.get(label)
    is_tensor = hasattr(value, "shape") and not isinstance(value, np.generic)  # equal tensors are different keys
    if is_tensor or not isinstance(value, Hashable):
        raise ValueError(
            f"graph {number}: the {label!r} of node {node!r} is a {type(value).__name__}, not a label; "
            "for vectors of features use from_pyg or graph_features"
        )
    if value is None or value != value:
        others = ", ".join(sorted(map(repr, attributes))) or "none"
        raise ValueError(f"graph {number}: node {node!r} has no label {label!r}; its attributes are: {others}")
    return value


def one_hot_of_any(labels: list[Any], known: Sequence[Hashable] | None) -> NDArray[np.float64]:
    """(n, labels) for labels of any kind that can be compared for equality."""
    names = _sorted(set(labels)) if known is None else list(known)
    column = {name: i for i, name in enumerate(names)}
    if len(column) < len(names):
        twice = next(name for i, name in enumerate(names) if column[name] != i)
        raise ValueError(f"known lists the label {twice!r} more than once; every label has one column")
    unknown = next((name for name in labels if name not in column), None)
    if unknown is not None:
        raise ValueError(f"the label {unknown!r} occurs, but it is not among the {len(column)} known ones")
    return one_hot(np.array([column[name] for name in labels]), len(column))


def _sorted(names: set[Any]) -> list[Any]:
    try:
        return sorted(names)
    except TypeError:  # mixed kinds
        return sorted(names, key=lambda name: (type(name).__name__, repr(name)))
