"""Graphs of networkx and PyTorch Geometric: one reading for all of them, features that are what they say."""

import numpy as np
import pytest

import asot
from asot.data.distributions import Distributions
from asot.datasets import from_networkx, from_pyg

nx = pytest.importorskip("networkx")
torch = pytest.importorskip("torch")
geometric = pytest.importorskip("torch_geometric.data")


def some_graphs(n=6, seed=0):
    rng = np.random.default_rng(seed)
    return [nx.gnp_random_graph(int(rng.integers(2, 9)), 0.4, seed=int(rng.integers(1000))) for _ in range(n)]


def as_data(graph, x=None, both=True):
    edges = np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2).T
    edges = np.concatenate([edges, edges[::-1]], axis=1) if both else edges
    x = np.eye(3, dtype=np.float32)[np.arange(len(graph)) % 3] if x is None else x
    return geometric.Data(x=torch.from_numpy(x), edge_index=torch.from_numpy(np.ascontiguousarray(edges)))


class InMemory(geometric.InMemoryDataset):
    """A data set of PyTorch Geometric, made of a list."""

    def __init__(self, listed):
        super().__init__(None)
        self._data, self.slices = self.collate(listed)


def test_every_way_to_hold_graphs_gives_the_same_collection():
    listed = [as_data(graph) for graph in some_graphs()]
    batch = geometric.Batch.from_data_list(listed)
    D = from_pyg(batch.x, batch.edge_index, batch.batch)
    for graphs in (listed, batch, InMemory(listed), InMemory(listed).copy()):
        assert Distributions.from_graphs(graphs) == D
    assert Distributions.from_graphs(InMemory(listed)[2:5]) == D[2:5]
    assert Distributions.from_graphs([as_data(graph, both=False) for graph in some_graphs()]) == D
    assert D.dtype == np.float32
    named = Distributions.from_graphs(listed, ids=list("abcdef"))
    assert named.ids.tolist() == list("abcdef")


def test_networkx_labels_and_numbers_are_read():
    graphs = some_graphs()
    for graph in graphs:
        for i, node in enumerate(graph.nodes):
            graph.nodes[node].update(label="CNO"[i % 3], z=i % 3, size=0.5 * i, position=[0.1 * i, 1.0])
    assert Distributions.from_graphs(graphs, attributes="label") == from_networkx(graphs, "label")
    assert Distributions.from_graphs(graphs, attributes="z").dim == 5 * 3
    assert Distributions.from_graphs(graphs) == from_networkx(graphs)
    assert Distributions.from_graphs(graphs, attributes="size", rounds=0).points[1].tolist() == [0.5]
    assert Distributions.from_graphs(graphs, attributes="position", rounds=1).dim == 4


def test_mean_aggregation_is_half_the_node_and_half_its_neighbors():
    path = nx.path_graph(4)
    path.remove_edge(2, 3)
    D = Distributions.from_graphs([as_data(path, np.array([[1.0], [0.0], [4.0], [7.0]]))], features="mean", rounds=2)
    assert D.points[:, 1].tolist() == [0.5, (0.0 + 2.5) / 2, 2.0, 7.0]
    assert D.points[:, 2].tolist() == [0.875, (1.25 + 1.25) / 2, 1.625, 7.0]


@pytest.mark.parametrize("features", ["sum", "mean"])
def test_weights_scale_what_comes_over_an_edge(features):
    graph = nx.Graph()
    graph.add_weighted_edges_from([(0, 1, 2.0), (1, 2, 0.5)])
    for i in range(3):
        graph.nodes[i]["v"] = float(i + 1)
    D = Distributions.from_graphs([graph], attributes="v", edge_weight="weight", rounds=1, features=features)
    W = np.array([[0, 2.0, 0], [2.0, 0, 0.5], [0, 0.5, 0]])
    x = np.array([1.0, 2.0, 3.0])
    expected = x + W @ x if features == "sum" else (x + W @ x / W.sum(axis=1)) / 2
    np.testing.assert_allclose(D.points[:, 1], expected)
    data = as_data(graph, x[:, None])
    data.edge_attr = torch.tensor([2.0, 0.5, 2.0, 0.5])[:, None]
    for graphs in ([data], InMemory([data, data])):
        other = Distributions.from_graphs(graphs, edge_weight="edge_attr", rounds=1, features=features)
        np.testing.assert_allclose(other[0][0], D.points)


def test_labels_of_weisfeiler_and_lehman_tell_what_they_can():
    graphs = [nx.path_graph(6), nx.relabel_nodes(nx.path_graph(6), {i: 5 - i for i in range(6)}), nx.star_graph(5)]
    D = Distributions.from_graphs(graphs, features="wl", rounds=2)
    values = asot.pairwise_exact(D, metric="hamming").values
    assert values[0] == 0.0
    assert values[1] > 0.3
    ends = D[0][0]
    assert ends[0].tolist() == ends[5].tolist()
    assert ends[0].tolist() != ends[2].tolist()
    triangles = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))  # which no such label tells from a hexagon
    alike = Distributions.from_graphs([triangles, nx.cycle_graph(6)], features="wl", rounds=3)
    assert asot.pairwise_exact(alike, metric="hamming").values.tolist() == [0.0]


def test_features_may_be_a_function():
    degrees = Distributions.from_graphs(some_graphs(), features=lambda g: [[d] for _, d in g.degree()])
    assert degrees.dim == 1
    batch = geometric.Batch.from_data_list([as_data(graph) for graph in some_graphs()])
    assert Distributions.from_graphs(batch, features=lambda data: data.x).sizes.tolist() == degrees.sizes.tolist()
    with pytest.raises(ValueError, match="features is a function, which reads the graphs itself; drop attributes"):
        Distributions.from_graphs(some_graphs(), features=lambda g: [[1.0]], attributes="z")
    with pytest.raises(ValueError, match=r"for a single graph pass \[graph\]"):
        Distributions.from_graphs(nx.path_graph(3), features=lambda g: [[1.0]])
    with pytest.raises(ValueError, match=r"features must return one row per node \(n, d\); graph 0 has"):
        Distributions.from_graphs(some_graphs(), features=lambda g: [1.0])


def test_what_is_wrong_is_reported():
    good, bad = as_data(nx.path_graph(3)), as_data(nx.path_graph(3))
    bad.edge_index = torch.tensor([[0], [7]])
    empty, made = nx.Graph(), Distributions.from_graphs
    for call, message in (
        (lambda: made([]), "graphs is empty"),
        (lambda: made(nx.path_graph(3)), r"for a single graph pass \[graph\]"),
        (lambda: made(good), r"for a single graph pass \[graph\]"),
        (lambda: made([np.eye(3)]), "entry 0 is a ndarray"),
        (lambda: made(7), "found int"),
        (
            lambda: made([good, bad]),
            r"graph 1 has an edge \(0, 7\), but its nodes are numbered 0 to 2",
        ),
        (lambda: made(InMemory([good, bad])), r"graph 1 has an edge \(0, 7\)"),
        (lambda: made([good, nx.path_graph(3)]), "graph 1 is a Graph, but graph 0 is from PyTorch"),
        (lambda: made([nx.path_graph(3), empty]), "graph 1 has no node"),
        (lambda: made([nx.DiGraph([(0, 1)])]), "graph 0 is directed"),
        (lambda: made([nx.path_graph(3)], attributes="z"), "node 0 has no attribute 'z'"),
        (
            lambda: made([good], attributes="z"),
            "the graphs have no 'z'; they have 'edge_index', 'x'",
        ),
        (lambda: made([good], edge_weight="w"), "graph 0 has no edge attribute 'w'"),
        (lambda: made([nx.path_graph(2)], edge_weight="w"), r"the 'w' of edge \(0, 1\) is None"),
        (lambda: made([good], features="gin"), "features must be one of 'sum', 'mean', 'wl'"),
        (lambda: made([good], features="wl", eps=1.0), "eps only applies to features='sum'"),
        (
            lambda: made([as_data(nx.path_graph(2), np.full((2, 1), np.nan))]),
            "graph 0: 'x' is nan at node 0",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
