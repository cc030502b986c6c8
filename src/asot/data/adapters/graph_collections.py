"""Collections of graphs, from networkx and PyTorch Geometric: read into flat arrays once, then given features.

Whatever the library, a collection of graphs becomes the flat arrays of `FlatGraphs`. A PyTorch Geometric data set
already holds them, and none of it is copied. Features are computed in `asot.data.adapters.surroundings`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Indices
from asot.data.adapters.graphs import as_ends, as_eps, as_rounds, flat_networkx, flat_nodes, one_hot_of_any
from asot.data.adapters.surroundings import FlatGraphs, aggregated, labels_of_neighborhoods
from asot.data.reading import place_of
from asot.validation import FloatArray, as_choice, can_be_walked, not_finite, to_array, to_float_array


def flatten_graphs(
    graphs: Any,
    features: str | Callable[[Any], Any] | None,
    rounds: int,
    attributes: str | None,
    edge_weight: str | None,
    eps: float,
) -> tuple[FloatArray, Indices]:
    """Features (n, d) of all nodes, and the offsets (N + 1,) of the graphs."""
    if callable(features):
        if attributes is not None or edge_weight is not None or eps != 0:
            raise ValueError("features is a function, which reads the graphs itself; drop attributes, edge_weight, eps")
        return _by_function(graphs, features)
    kind = as_choice("sum" if features is None else features, "features", ("sum", "mean", "wl"))
    steps, extra = as_rounds(rounds), as_eps(eps)
    if extra and kind != "sum":
        raise ValueError(f"eps only applies to features='sum'; with {kind!r} leave it at 0")
    if kind == "wl" and edge_weight is not None:
        raise ValueError("features='wl' counts neighbors and does not use edge_weight")
    flat = read_graphs(graphs, attributes, edge_weight)
    if odd := not_finite(flat.start):
        number, place = place_of(odd[0], flat.offsets)
        value = f"graph {number}: {attributes or 'x'!r} is {flat.start[odd]}"
        raise ValueError(f"{value} at node {place}; features must be finite")
    if kind == "wl":
        return labels_of_neighborhoods(flat, steps), flat.offsets
    return aggregated(flat, steps, kind, extra), flat.offsets


def read_graphs(graphs: Any, attributes: str | None, edge_weight: str | None) -> FlatGraphs:
    """The flat arrays of graphs of any of the libraries."""
    if hasattr(graphs, "node_labels") and hasattr(graphs, "graph"):
        return _of_tu(graphs, attributes, edge_weight)
    if hasattr(graphs, "slices") and hasattr(graphs, "_data"):
        return _of_data_set(graphs, attributes, edge_weight)
    if hasattr(graphs, "ptr") and hasattr(graphs, "edge_index"):
        return _of_batch(graphs, attributes, edge_weight)
    listed = _as_list(graphs)
    if hasattr(listed[0], "edge_index"):
        return _of_data_list(listed, attributes, edge_weight)
    if hasattr(listed[0], "nodes"):
        return _of_networkx(listed, attributes, edge_weight)
    kind = type(listed[0]).__name__
    raise ValueError(f"graphs must be networkx or PyTorch Geometric graphs; entry 0 is a {kind}")


def _as_list(graphs: Any) -> list[Any]:
    if hasattr(graphs, "ptr") and hasattr(graphs, "to_data_list"):
        return list(graphs.to_data_list())
    if hasattr(graphs, "nodes") or hasattr(graphs, "edge_index"):
        raise ValueError("graphs must be a list of graphs; for a single graph pass [graph]")
    if isinstance(graphs, (str, bytes)) or not can_be_walked(graphs):
        raise ValueError(f"graphs must be a list of graphs or a data set; found {type(graphs).__name__}")
    listed = list(graphs)
    if not listed:
        raise ValueError("graphs is empty: a collection needs at least one graph")
    return listed


def _by_function(graphs: Any, function: Callable[[Any], Any]) -> tuple[FloatArray, Indices]:
    blocks: list[FloatArray] = []
    for number, graph in enumerate(_as_list(graphs)):
        block = to_float_array(function(graph), f"the features of graph {number}", keep_float32=True)
        if block.ndim != 2 or 0 in block.shape:
            raise ValueError(f"features must return one row per node (n, d); graph {number} has {block.shape}")
        if blocks and block.shape[1] != blocks[0].shape[1]:
            raise ValueError(f"graph {number} has {block.shape[1]} features per node, not {blocks[0].shape[1]}")
        blocks.append(block)
    return np.concatenate(blocks), np.cumsum([0, *(len(block) for block in blocks)])


def _of_data_set(graphs: Any, attributes: str | None, edge_weight: str | None) -> FlatGraphs:
    """A data set in memory is flat already: ``_data`` holds the arrays, and ``slices`` says where graphs begin."""
    data, slices = graphs._data, graphs.slices
    if getattr(graphs, "_indices", None) is not None or slices is None:  # a part of it, or a single graph
        return _of_data_list([graphs[i] for i in range(len(graphs))], attributes, edge_weight)
    key = _node_key(data, attributes)
    ends = _edge_index(data, "the data set")
    edge_start = np.asarray(to_array(slices["edge_index"], "slices"), dtype=np.int64)
    if key is not None:
        offsets = np.asarray(to_array(slices[key], "slices"), dtype=np.int64)
        if not np.array_equal(offsets, to_array(slices.get("x", offsets), "slices")):
            raise ValueError(f"{key!r} has not a row for every node, as 'x' has")
    else:
        sizes = getattr(data, "num_nodes", None)
        offsets = np.concatenate([[0], np.cumsum(np.asarray(sizes if isinstance(sizes, list) else [sizes]))])
    _check_sizes(offsets)
    start = _start(data, key, int(offsets[-1]))
    return FlatGraphs(offsets, start, ends, edge_start, _edge_values(data, edge_weight, "the data set"))


def _of_batch(batch: Any, attributes: str | None, edge_weight: str | None) -> FlatGraphs:
    offsets = np.asarray(to_array(batch.ptr, "ptr"), dtype=np.int64)
    _check_sizes(offsets)
    start = _start(batch, _node_key(batch, attributes), int(offsets[-1]))
    graph = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    weights = _edge_values(batch, edge_weight, "the batch")
    return flat_nodes(start, graph, _edge_index(batch, "the batch"), "edge_index", weights)


def _of_data_list(listed: list[Any], attributes: str | None, edge_weight: str | None) -> FlatGraphs:
    key = _node_key(listed[0], attributes)
    starts: list[FloatArray] = []
    ends: list[Indices] = []
    weights: list[Any] = []
    for number, data in enumerate(listed):
        if not hasattr(data, "edge_index"):
            raise ValueError(f"graph {number} is a {type(data).__name__}, but graph 0 is from PyTorch Geometric")
        if key is not None and getattr(data, key, None) is None:
            raise ValueError(f"graph {number} has no {key!r}, but graph 0 has")
        block = _start(data, key, int(data.num_nodes or 0))
        if key not in (None, "x") and len(block) != data.num_nodes:
            raise ValueError(f"graph {number} has {data.num_nodes} nodes, but {key!r} has {len(block)} rows")
        if starts and block.shape[1] != starts[0].shape[1]:
            raise ValueError(f"graph {number} has {block.shape[1]} features per node, not {starts[0].shape[1]}")
        starts.append(block)
        ends.append(_edge_index(data, f"graph {number}"))
        weights.append(_edge_values(data, edge_weight, f"graph {number}"))
    offsets = np.cumsum([0, *map(len, starts)])
    _check_sizes(offsets)
    edge_start = np.cumsum([0, *(part.shape[1] for part in ends)])
    joined = None if edge_weight is None else np.concatenate(weights)
    return FlatGraphs(offsets, np.concatenate(starts), np.concatenate(ends, axis=1), edge_start, joined)


def _node_key(data: Any, attributes: str | None) -> str | None:
    keys = list(data.keys()) if callable(getattr(data, "keys", None)) else list(getattr(data, "keys", []))
    if attributes is not None and attributes not in keys:
        raise ValueError(f"the graphs have no {attributes!r}; they have {', '.join(map(repr, sorted(keys)))}")
    return attributes if attributes is not None else ("x" if getattr(data, "x", None) is not None else None)


def _start(data: Any, key: str | None, n_nodes: int) -> FloatArray:
    """What nodes begin with: the rows of an attribute, or 1."""
    if key is None:
        return np.ones((n_nodes, 1))
    array = to_array(data[key], key)
    array = array[:, None] if array.ndim == 1 else array
    return _checked_start(to_float_array(array, key, keep_float32=True), key)


def _edge_index(data: Any, what: str) -> Indices:
    return as_ends(data.edge_index, f"the edge_index of {what}")


def _edge_values(data: Any, edge_weight: str | None, what: str) -> NDArray[Any] | None:
    if edge_weight is None:
        return None
    values = getattr(data, edge_weight, None)
    if values is None:
        raise ValueError(f"{what} has no edge attribute {edge_weight!r}")
    weights = to_float_array(values, edge_weight)
    weights = weights[:, 0] if weights.ndim == 2 and weights.shape[1] == 1 else weights
    if weights.shape != (data.edge_index.shape[1],) or not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(f"the {edge_weight!r} of {what} must be one finite number ≥ 0 for every edge")
    return weights


def _of_networkx(listed: list[Any], attributes: str | None, edge_weight: str | None) -> FlatGraphs:
    if attributes is None:
        return flat_networkx(listed, None, np.array, edge_weight)
    read = functools.partial(_of_node, attributes)
    return flat_networkx(listed, read, lambda values: _start_of_values(values, attributes), edge_weight)


def _of_node(name: str, graph: Any, node: Any, number: int) -> Any:
    attributes = graph.nodes[node]
    if attributes.get(name) is None:
        others = ", ".join(sorted(map(repr, attributes))) or "none"
        raise ValueError(f"graph {number}: node {node!r} has no attribute {name!r}; its attributes are: {others}")
    return attributes[name]


def _start_of_values(values: list[Any], name: str) -> FloatArray:
    """Labels one-hot; numbers and vectors as they are."""
    first: Any = values[0]
    if isinstance(first, (str, bytes, bool, int, np.integer)) or (
        isinstance(first, Hashable) and not isinstance(first, (float, np.floating)) and np.ndim(values[0]) == 0
    ):
        return one_hot_of_any(values, None)
    try:
        table = np.array([np.asarray(value, dtype=np.float64).ravel() for value in values])
    except (TypeError, ValueError) as error:
        raise ValueError(f"the attribute {name!r} must have the same type and length in all nodes: {error}") from error
    return _checked_start(table, name)


def _of_tu(graphs: Any, attributes: str | None, edge_weight: str | None) -> FlatGraphs:
    if edge_weight is not None:
        raise ValueError("the graphs of a TU set are read without edge weights; leave out edge_weight")
    return flat_nodes(graphs.start(attributes), graphs.graph, np.asarray(graphs.edges.T), "the edges")


def _checked_start(start: FloatArray, name: str) -> FloatArray:
    if start.ndim != 2 or 0 in start.shape:
        raise ValueError(f"{name!r} must hold one row of numbers per node; found shape {start.shape}")
    return start


def _check_sizes(offsets: Indices) -> None:
    sizes = np.diff(offsets)
    if len(sizes) == 0 or sizes.min() == 0:
        number = int(np.argmin(sizes)) if len(sizes) else 0
        raise ValueError(f"graph {number} has no nodes; drop it, a distribution needs at least one point")
