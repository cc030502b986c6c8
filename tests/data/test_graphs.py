"""Graphs as distributions: sums over neighbors, and the ways in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asot
from asot.data.adapters.graphs import one_hot
from asot.datasets import from_networkx, from_pyg, graph_features


@st.composite
def graphs(draw):
    """Features (n, d) and edges (m, 2) of a graph, some listed twice, some loops."""
    n, d = draw(st.integers(1, 8)), draw(st.integers(1, 3))
    x = np.array(draw(st.lists(st.lists(st.integers(-5, 5), min_size=d, max_size=d), min_size=n, max_size=n)), float)
    edges = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=12))
    return x, np.array(edges, dtype=np.int64).reshape(-1, 2)


def dense_features(x, edges, rounds, eps):
    """The definition, written with a dense matrix."""
    adjacency = np.zeros((len(x), len(x)))
    for a, b in edges:
        adjacency[a, b] = adjacency[b, a] = 1.0
    found = [x]
    for _ in range(rounds):
        found.append((1 + eps) * found[-1] + adjacency @ found[-1])
    return np.hstack(found)


@given(graphs(), st.integers(0, 4), st.sampled_from([0.0, 0.5, -1.0]))
def test_features_are_what_the_definition_says(graph, rounds, eps):
    x, edges = graph
    found = graph_features(x, edges, rounds=rounds, eps=eps)
    np.testing.assert_allclose(found, dense_features(x, edges, rounds, eps), atol=1e-9)
    assert found.dtype == np.float64


@given(graphs(), st.randoms(use_true_random=False))
def test_the_order_and_direction_in_which_edges_are_listed_do_not_count(graph, random):
    x, edges = graph
    listed = [*edges.tolist(), *edges[:, ::-1].tolist(), *edges.tolist()]
    random.shuffle(listed)
    again = graph_features(x, np.array(listed, dtype=np.int64).reshape(-1, 2))
    np.testing.assert_array_equal(graph_features(x, edges), again)


@given(graphs(), st.randoms(use_true_random=False))
def test_renaming_nodes_renames_their_features(graph, random):
    x, edges = graph
    order = list(range(len(x)))
    random.shuffle(order)
    place = np.argsort(order)
    np.testing.assert_array_equal(graph_features(x[order], place[edges]), graph_features(x, edges)[order])


def test_float32_stays_and_the_input_is_left_alone():
    x = np.eye(3, dtype=np.float32)
    edges = np.array([[0, 1], [1, 2]])
    found = graph_features(x, edges)
    assert found.dtype == np.float32
    assert found.shape == (3, 15)
    np.testing.assert_array_equal(x, np.eye(3))
    np.testing.assert_array_equal(found, graph_features(np.eye(3), edges))


def test_lists_of_integers_and_no_edges_are_fine():
    np.testing.assert_array_equal(graph_features([[2]], [], rounds=2, eps=1.0), [[2.0, 4.0, 8.0]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": [1.0, 2.0]}, r"x must be \(n, d\)"),
        ({"x": np.empty((0, 2))}, r"x must be \(n, d\)"),
        ({"x": [[np.nan], [1.0]]}, r"x\[0, 0\] is nan"),
        ({"x": [["a"], ["b"]]}, "x must hold numbers"),
        ({"edges": [[0, 2]]}, r"edge 0 is \(0, 2\), but nodes are numbered 0 to 1"),
        ({"edges": [[0, 1], [-1, 0]]}, r"edge 1 is \(-1, 0\)"),
        ({"edges": [[0.0, 1.0]]}, "must hold integers"),
        ({"edges": [[0, 1, 1], [1, 0, 0]]}, r"edges must be \(m, 2\).*pass its transpose"),
        ({"edges": [0, 1]}, r"edges must be \(m, 2\)"),
        ({"rounds": -1}, "rounds must be a whole number ≥ 0"),
        ({"rounds": 1.5}, "rounds must be a whole number ≥ 0"),
        ({"rounds": True}, "rounds must be a whole number ≥ 0"),
        ({"eps": np.inf}, "eps must be a finite number"),
        ({"eps": "0"}, "eps must be a finite number"),
        ({"x": [[1e308], [1e308]], "rounds": 2}, "overflow float64 in round 1 of 2"),
    ],
)
def test_wrong_arguments_are_reported(change, message):
    with pytest.raises(ValueError, match=message):
        graph_features(**({"x": [[1.0], [2.0]], "edges": [[0, 1]]} | change))


def test_features_that_cannot_fit_are_refused():
    with pytest.raises(MemoryError, match="use fewer rounds"):
        graph_features(np.ones((1000, 1000)), [], rounds=10**8)


def test_more_kinds_of_labels_than_fit_are_refused():
    with pytest.raises(MemoryError, match="one-hot labels of 3,000,000 kinds"):
        one_hot(np.arange(3_000_000), 3_000_000)


# --------------------------------------------------------------------------------------------------------------- PyG


X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
EDGES = np.array([[0, 1, 3], [1, 2, 4]])
BATCH = np.array([0, 0, 0, 1, 1])


def test_a_batch_becomes_a_collection_of_its_graphs():
    D = from_pyg(X, EDGES, BATCH, rounds=2, eps=0.5)
    assert D.sizes.tolist() == [3, 2]
    np.testing.assert_array_equal(D.points, graph_features(X, EDGES.T, rounds=2, eps=0.5))
    np.testing.assert_allclose(D.masses, [1 / 3] * 3 + [1 / 2] * 2)


def test_without_a_batch_there_is_one_graph():
    assert from_pyg(X, EDGES).sizes.tolist() == [5]


@given(st.permutations(range(5)))
def test_an_unsorted_batch_gives_the_same_graphs(order):
    order = np.array(order)
    D, shuffled = from_pyg(X, EDGES, BATCH), from_pyg(X[order], np.argsort(order)[EDGES], BATCH[order])
    assert asot.pairwise_exact(D, shuffled).matrix().diagonal().tolist() == [0.0, 0.0]


def test_tensors_are_read_like_arrays():
    torch = pytest.importorskip("torch")
    found = from_pyg(torch.tensor(X, dtype=torch.float32), torch.tensor(EDGES), torch.tensor(BATCH))
    assert found.points.dtype == np.float32
    np.testing.assert_array_equal(found.points, from_pyg(X, EDGES, BATCH).points)
    integers = from_pyg(torch.tensor(X).long(), torch.tensor(EDGES, dtype=torch.int32), torch.tensor(BATCH))
    np.testing.assert_array_equal(integers.points, from_pyg(X, EDGES, BATCH).points)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edge_index": EDGES.T}, r"edge_index must be \(2, m\).*found shape \(3, 2\)"),
        ({"edge_index": [[0], [5]]}, r"edge 0 is \(0, 5\), but nodes are numbered 0 to 4"),
        ({"edge_index": [[0, 1], [1, 3]]}, "edge 1 joins node 1 of graph 0 with node 3 of graph 1"),
        ({"batch": BATCH[:4]}, "batch must hold the graph of each of the 5 nodes"),
        ({"batch": BATCH + 0.0}, "batch must hold the graph of each of the 5 nodes"),
        ({"batch": BATCH - 1}, r"batch\[0\] is -1"),
        ({"batch": BATCH * 2}, "batch gives no node to graph 1.*np.unique"),
        ({"x": None}, "x"),
    ],
)
def test_wrong_batches_are_reported(change, message):
    with pytest.raises(ValueError, match=message):
        from_pyg(**({"x": X, "edge_index": EDGES, "batch": BATCH} | change))


def test_an_empty_edge_index_of_any_shape_means_no_edges():
    for empty in (np.empty((2, 0), np.int64), np.empty((0,)), []):
        assert len(from_pyg(X, empty, BATCH)) == 2


# ---------------------------------------------------------------------------------------------------------- networkx


@pytest.fixture
def nx():
    return pytest.importorskip("networkx")


def test_networkx_graphs_become_the_same_as_their_arrays(nx):
    path, edge = nx.Graph(), nx.Graph()
    path.add_nodes_from([("a", {"element": "C"}), (7, {"element": "N"}), ((1, 2), {"element": "C"})])
    path.add_edges_from([("a", 7), (7, (1, 2))])
    edge.add_nodes_from([("x", {"element": "N"}), ("y", {"element": "N"})])
    edge.add_edge("x", "y")
    found = from_networkx([path, edge], "element", rounds=3)
    assert found == from_pyg(X, EDGES, BATCH, rounds=3)


def test_without_a_label_only_the_structure_tells(nx):
    D = from_networkx((nx.path_graph(n) for n in (2, 3)), rounds=1)
    np.testing.assert_array_equal(D.points, [[1, 2], [1, 2], [1, 2], [1, 3], [1, 2]])


def test_known_labels_fix_the_columns(nx):
    graph = nx.Graph()
    graph.add_node(0, kind="b")
    D = from_networkx([graph], "kind", known=["c", "b", "a"], rounds=0)
    np.testing.assert_array_equal(D.points, [[0, 1, 0]])
    with pytest.raises(ValueError, match="the label 'b' occurs, but it is not among the 2 known ones"):
        from_networkx([graph], "kind", known=["c", "a"])
    with pytest.raises(ValueError, match="known lists the label 'c' more than once"):
        from_networkx([graph], "kind", known=["c", "b", "c"])
    with pytest.raises(ValueError, match="known lists labels, but no label is read"):
        from_networkx([graph], known=["b"])


def test_labels_of_several_kinds_get_a_column_each(nx):
    graph = nx.Graph()
    graph.add_nodes_from([(0, {"kind": "b"}), (1, {"kind": 3}), (2, {"kind": (1, 2)})])
    assert from_networkx([graph], "kind", rounds=0).points.sum(axis=0).tolist() == [1.0, 1.0, 1.0]


def test_parallel_edges_count_once_and_loops_make_a_node_its_own_neighbor(nx):
    graph = nx.MultiGraph([(0, 1), (0, 1), (1, 1)])
    np.testing.assert_array_equal(from_networkx([graph], rounds=1).points, [[1, 2], [1, 3]])


class Tensor:
    """As those of PyTorch: it can be a key, but an equal one is another key."""

    shape = ()


def test_more_labels_than_fit_are_refused(nx, monkeypatch):
    graph = nx.Graph()
    graph.add_nodes_from((i, {"kind": i}) for i in range(100))
    monkeypatch.setattr("asot.validation.physical_memory", lambda: 1000)
    with pytest.raises(MemoryError, match="one-hot labels of 100 kinds"):
        from_networkx([graph], "kind")


def test_wrong_networkx_graphs_are_reported(nx):
    labeled = nx.Graph()
    labeled.add_nodes_from([(0, {"kind": "a"}), ("b", {"sort": 1})])
    vectors, arrays, tensors = nx.Graph(), nx.Graph(), nx.Graph()
    vectors.add_node(0, kind=[1.0, 2.0])
    arrays.add_node(0, kind=np.array([1.0, 2.0]))
    tensors.add_node(0, kind=Tensor())
    missing = nx.Graph()
    missing.add_node(0, kind=float("nan"))
    for graphs, label, message in [
        (nx.path_graph(3), None, r"for a single graph pass \[graph\]"),
        ([], None, "graphs is empty"),
        ([nx.path_graph(2), 3], None, "entry 1 is int"),
        ([nx.DiGraph([(0, 1)])], None, r"graph 0 is directed; pass graph.to_undirected\(\)"),
        ([nx.path_graph(2), nx.Graph()], None, "graph 1 has no node"),
        ([labeled], "kind", "graph 0: node 'b' has no label 'kind'; its attributes are: 'sort'"),
        ([missing], "kind", "graph 0: node 0 has no label 'kind'"),
        ([vectors], "kind", "is a list, not a label; for vectors of features use from_pyg"),
        ([arrays], "kind", "is a ndarray, not a label"),
        ([tensors], "kind", "is a Tensor, not a label"),
    ]:
        with pytest.raises(ValueError, match=message):
            from_networkx(graphs, label)
