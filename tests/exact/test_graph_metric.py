"""Costs along a sparse graph are recognized, nothing else is, and the flow on the graph costs what the plan does."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import minimum_spanning_tree, shortest_path

import asot
from asot.exact.graph_metric import ExactOnGraph, graph_of
from asot.exact.price import graph_pays, shared_cost_seconds, sparse_rows_seconds
from asot.validation import is_symmetric
from tests.oracles import pot_values

STOP = np.zeros(1, np.int64)


def _lattice(x, y):
    return np.stack(np.meshgrid(x, y, indexing="ij"), -1).reshape(-1, 2).astype(float)


def _norm(points, order):
    return np.linalg.norm(points[:, None] - points, ord=order, axis=-1)


def _roads(rng, n):
    """Distances in a random sparse network: a tree and a few more roads."""
    points = rng.normal(size=(n, 2))
    straight = _norm(points, 2)
    tree = minimum_spanning_tree(sparse.csr_array(straight)).tocoo()
    u, v = rng.integers(n, size=(2, n // 4))
    rows, columns = np.r_[tree.row, u[u != v]], np.r_[tree.col, v[u != v]]
    network = sparse.coo_array((straight[rows, columns] * rng.uniform(1, 1.2, len(rows)), (rows, columns)), (n, n))
    along = shortest_path(network.tocsr(), directed=False)
    return np.minimum(along, along.T)


def _costs():
    rng = np.random.default_rng(3)
    unit = _lattice(np.arange(16), np.arange(17))
    yield "city block", _norm(unit, 1)
    yield "chess king", _norm(unit, np.inf)
    yield "uneven gaps", _norm(_lattice(np.cumsum(rng.uniform(0.5, 1.5, 17)), np.cumsum(rng.uniform(1, 3, 16))), 1)
    yield "on a line", _norm(np.cumsum(rng.uniform(0.01, 1.0, 300))[:, None], 1)
    yield "roads", _roads(rng, 280)
    yield "a ring", np.minimum(np.abs(np.subtract.outer(np.arange(260), np.arange(260))), 260 - np.abs(
        np.subtract.outer(np.arange(260), np.arange(260)))).astype(float)  # fmt: skip


COSTS = [pytest.param(cost, id=name) for name, cost in _costs()]


def _masses(rng, k):
    """Dense, sparse, equal, tied and concentrated histograms."""
    dense = rng.dirichlet(np.ones(k), 2)
    pixels = rng.integers(0, 4, (2, k)).astype(float)
    equal = np.ones((1, k))
    one = np.eye(k)[[0, k - 1]]
    shifted = np.roll(pixels[:1], 1, axis=1)
    A = np.concatenate([dense, pixels, equal, one, shifted])
    return A / A.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("cost", COSTS)
def test_the_flow_on_the_graph_costs_what_the_plan_does(cost):
    k = len(cost)
    A = _masses(np.random.default_rng(k), k)
    graph = graph_of(cost)
    assert graph is not None
    assert len(graph.heads) < 12 * k
    network = sparse.csr_array((graph.lengths, graph.heads, graph.offsets), (k, k))
    np.testing.assert_allclose(shortest_path(network), cost, rtol=1e-12)
    rows, columns = np.triu_indices(len(A))
    solution = ExactOnGraph(A, None, graph).solve(rows, columns, STOP)
    expected = pot_values(A, A, cost, list(zip(rows, columns, strict=True)))
    np.testing.assert_allclose(solution.values, expected, rtol=0, atol=1e-12 * cost.max())
    assert (solution.values[rows == columns] == 0.0).all()


def _other_costs():
    rng = np.random.default_rng(4)
    unit = _lattice(np.arange(16), np.arange(17))
    block = _norm(unit, 1)
    yield "euclidean grid", _norm(unit, 2)
    yield "scattered points", _norm(rng.normal(size=(300, 2)), 1)
    yield "too few points", block[:100, :100]
    yield "not square", block[:, :260]
    yield "equal points", np.pad(block, (0, 1), mode="edge") - np.pad(np.zeros((272, 272)), (0, 1))
    for name, u, v, change in (
        ("a short cut", 0, 271, -0.5), ("a detour", 30, 200, 0.5), ("a longer arc", 100, 101, 1.5),
        ("the last rows", 269, 271, -0.1),
    ):  # fmt: skip
        other = block.copy()
        other[u, v] += change
        other[v, u] += change
        yield name, other
    lopsided = block.copy()
    lopsided[200, 30] += 0.5  # below the diagonal only
    yield "not symmetric", lopsided


@pytest.mark.parametrize("cost", [pytest.param(cost, id=name) for name, cost in _other_costs()])
def test_other_costs_have_no_graph(cost):
    graph = graph_of(np.ascontiguousarray(cost))
    if graph is not None:  # a change may leave a graph, but then it is another one
        k = len(cost)
        network = sparse.csr_array((graph.lengths, graph.heads, graph.offsets), (k, k))
        np.testing.assert_allclose(shortest_path(network), cost, rtol=1e-12)


@pytest.mark.parametrize("name", ["euclidean grid", "scattered points", "too few points", "equal points", "a detour"])
def test_these_are_refused(name):
    assert graph_of(np.ascontiguousarray(dict(_other_costs())[name])) is None


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_emd_many_takes_the_graph_at_any_scale_and_with_any_threads(scale):
    cost = _norm(_lattice(np.arange(30), np.arange(30)), 1)
    A = np.random.default_rng(0).dirichlet(np.ones(900), 4)
    r = asot.emd_many(A, cost=scale * cost)
    assert "graph" in r.info["solver"]
    pairs = list(zip(*np.triu_indices(4, 1), strict=True))
    np.testing.assert_allclose(r.values / scale, pot_values(A, A, cost, pairs), rtol=1e-12)
    np.testing.assert_array_equal(r.values, asot.emd_many(A, cost=scale * cost, n_jobs=2).values)
    both = asot.emd_many(A, A, cost=scale * cost)
    assert "graph" in both.info["solver"]
    np.testing.assert_allclose(both.matrix() / scale, r.matrix() / scale, rtol=1e-14)


def test_few_pixels_with_mass_are_solved_without_the_graph():
    cost = _norm(_lattice(np.arange(20), np.arange(20)), 1)
    A = np.zeros((3, 400))
    A[:, ::50] = np.random.default_rng(0).dirichlet(np.ones(8), 3)
    assert not graph_pays(400, sparse_rows_seconds(8, 8), n_pairs=10**6)
    assert "graph" not in asot.emd_many(A, cost=cost).info["solver"]


def test_dense_images_take_the_graph_only_where_it_is_faster():
    """Measured with photos and digits: all arcs take as long as the graph at 400 pixels, and 1.1 to 2.6 times as long
    at 576."""
    assert not graph_pays(324, shared_cost_seconds(324), n_pairs=10**6)
    assert graph_pays(576, shared_cost_seconds(576), n_pairs=10**6)


def test_a_raised_stop_is_heard():
    cost = _norm(_lattice(np.arange(20), np.arange(20)), 1)
    A = np.random.default_rng(0).dirichlet(np.ones(400), 2)
    solver = ExactOnGraph(A, None, graph_of(cost))
    assert solver.solve(np.array([0]), np.array([1]), np.ones(1, np.int64)).n_iter[0] == 0


@pytest.mark.parametrize("n", [5, 100, 512, 517])
def test_symmetry_is_seen_to_the_last_bit(n):
    matrix = np.random.default_rng(n).random((n, n))
    matrix += matrix.T
    assert is_symmetric(matrix)
    for i, j in ((n - 1, 0), (0, n - 1), (n - 1, n - 2), (n // 2, 1)):
        other = matrix.copy()
        other[i, j] = np.nextafter(other[i, j], 9.0)
        assert not is_symmetric(other)
