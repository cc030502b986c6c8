"""Spaces as people have them; what is wrong with them is said in one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asot
from asot.data.spaces.reading import read_spaces

LINE = np.abs(np.subtract.outer(np.arange(3.0), np.arange(3.0)))


def test_paths_in_a_networkx_graph_are_shortest_ones_by_weight() -> None:
    networkx = pytest.importorskip("networkx")
    graph = networkx.MultiGraph()
    graph.add_nodes_from("dcba")
    graph.add_edge("a", "b", weight=5.0)
    graph.add_edge("b", "a", weight=2.0)
    graph.add_edge("b", "c")
    graph.add_edge("c", "d", weight=0.0)
    graph.add_edge("d", "d", weight=7.0)
    matrix = np.ldexp(read_spaces([graph]).matrix(0), read_spaces([graph]).exponent)
    expected = np.array([[0, 0, 1, 3], [0, 0, 1, 3], [1, 1, 0, 2], [3, 3, 2, 0]])
    np.testing.assert_array_equal(matrix, expected)


def test_a_pyg_graph_has_edges_of_length_1() -> None:
    torch = pytest.importorskip("torch")
    data = pytest.importorskip("torch_geometric.data")
    graph = data.Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    assert asot.gromov([graph, LINE]).values[0] == 0.0


def test_a_distributions_is_compared_by_distances_within_each() -> None:
    rng = np.random.default_rng(0)
    clouds = [rng.normal(size=(n, 2)) for n in (4, 6, 6)]
    D = asot.Distributions.from_list(clouds, ids=["a", "b", "c"])
    matrices = {name: np.linalg.norm(x[:, None] - x[None], axis=-1) for name, x in zip("abc", clouds, strict=True)}
    r = asot.gromov(D)
    np.testing.assert_allclose(r.values, asot.gromov(matrices).values, rtol=1e-12)
    assert r.ids.tolist() == asot.gromov(matrices).ids.tolist() == ["a", "b", "c"]
    moved = asot.Distributions.from_list([clouds[1] @ [[0.6, -0.8], [0.8, 0.6]] + 5.0])
    assert asot.gromov(D, moved).matrix()[1, 0] < 1e-7


def test_points_without_mass_do_not_count() -> None:
    rng = np.random.default_rng(1)
    clouds = [rng.normal(size=(6, 2)), rng.normal(size=(5, 2))]
    masses = [rng.random(6), rng.random(5)]
    more = [np.vstack([x, [[9.0, 9.0]]]) for x in clouds]
    with_zero = [np.append(a, 0.0) for a in masses]
    few = asot.gromov(asot.Distributions.from_list(clouds, masses))
    many = asot.gromov(asot.Distributions.from_list(more, with_zero))
    np.testing.assert_allclose(many.values, few.values, rtol=1e-9)


BAD: list[tuple[Any, dict[str, Any], str]] = [
    ([LINE, LINE + np.triu(LINE)], {}, "space 1 of X is not symmetric: 4 from point 0 to 2, 2 back"),
    ([-LINE], {}, "space 0 of X: the distance of points 0 and 2 is -2; it must be ≥ 0"),
    ([LINE * np.nan], {}, "space 0 of X: the distance of points 0 and 0 is nan; distances must be finite"),
    ([LINE[:2]], {}, r"space 0 of X must be a square matrix of distances; found shape \(2, 3\)"),
    ([np.zeros((0, 0))], {}, r"must be a square matrix of distances; found shape \(0, 0\)"),
    ([], {}, "X is empty"),
    ([LINE, LINE], {"masses": [np.ones(3)]}, "masses must hold one vector for each of the 2 spaces of X; found 1"),
    ([LINE], {"masses": [np.ones(2)]}, r"space 0 of X has 3 points, but its masses have shape \(2,\)"),
    ([LINE], {"masses": [[1.0, -1.0, 1.0]]}, "space 0 of X: its masses must be finite numbers ≥ 0"),
    ([LINE], {"masses": [[0.0, 0.0, 0.0]]}, "not all of them 0"),
    ([LINE], {"alpha": 0.0}, r"alpha must be a number in \(0, 1\]; found 0.0"),
    ([LINE], {"alpha": "x"}, r"alpha must be a number in \(0, 1\]"),
    ([LINE], {"alpha": 0.5}, "alpha=0.5 shares the energy with features; pass features="),
    ([LINE], {"features": [np.ones((3, 1))]}, "features count for nothing where alpha is 1"),
    ([LINE], {"features": [np.ones((2, 1))], "alpha": 0.5}, r"its features must be an array \(3, 1\); found \(2, 1\)"),
    ([LINE], {"features": [np.full((3, 1), np.nan)], "alpha": 0.5}, "feature of point 0 is not finite"),
    ([LINE], {"p": 0.5}, "p must be a number from 1 to 16.*; found 0.5"),
    ([LINE], {"p": 40}, "p must be a number from 1 to 16.*; found 40"),
    ([LINE], {"device": "cuda", "p": 1}, "GPUs take p=2 without features"),
    ([LINE, LINE], {"error": "0%"}, "error must be a share of the mean distance"),
    ([LINE, LINE], {"sink": asot.sinks.TopK(2)}, "n_neighbors=2, but there are only 1 candidates"),
    ([LINE, LINE], {"sink": asot.sinks.TopK(1), "pairs": [[0, 1]]}, "nearest neighbors need all pairs or two sets"),
    ([LINE], {"Y": [LINE], "masses": [np.ones(3)]}, r"masses must be a pair: \(masses of X, masses of Y\)"),
]


@pytest.mark.parametrize(("X", "options", "message"), BAD)
def test_bad_input_is_named(X: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        asot.gromov(X, **options)


@pytest.mark.parametrize("X", [LINE, 3, "spaces", {1.0, 2.0}])
def test_what_is_no_list_is_refused(X: Any) -> None:
    with pytest.raises(TypeError, match="X must be a list of distance matrices"):
        asot.gromov(X)


def test_features_of_one_collection_only_are_refused() -> None:
    with pytest.raises(ValueError, match="features must be given for both collections"):
        asot.gromov([LINE], [LINE], features=([np.ones((3, 1))], None), alpha=0.5)
    with pytest.raises(ValueError, match="features of X have 1 columns and those of Y 2"):
        asot.gromov([LINE], [LINE], features=([np.ones((3, 1))], [np.ones((3, 2))]), alpha=0.5)


def test_bad_graphs_are_named() -> None:
    networkx = pytest.importorskip("networkx")
    graph = networkx.path_graph(3)
    graph.add_node(3)
    with pytest.raises(ValueError, match="space 1 of X: no path leads from node 0 to node 3"):
        asot.gromov([LINE, graph])
    graph.add_edge(2, 3, weight=-1.0)
    with pytest.raises(ValueError, match="the edge of nodes 2 and 3 has the length -1"):
        asot.gromov([graph])
    with pytest.raises(ValueError, match="the graph has no nodes"):
        asot.gromov([networkx.Graph()])


def test_a_distributions_brings_its_own_masses() -> None:
    D = asot.Distributions.from_list([[[0.0], [1.0]]])
    with pytest.raises(ValueError, match="X is a Distributions, which has its own masses"):
        asot.gromov(D, masses=[np.ones(2)])


@pytest.mark.parametrize("factor", [1e-300, 1e-160, 1e150, 1e300])
def test_the_unit_does_not_matter(factor: float) -> None:
    rng = np.random.default_rng(5)
    clouds = [rng.normal(size=(5, 2)) for _ in range(3)]
    plain = asot.gromov(asot.Distributions.from_list(clouds)).values
    scaled = asot.gromov(asot.Distributions.from_list([factor * x for x in clouds])).values
    np.testing.assert_allclose(scaled, factor * plain, rtol=1e-9)


def test_more_bins_than_memory_are_refused() -> None:
    with pytest.raises(MemoryError, match=r"1,000,000,000,000 bins of every point needs .* use fewer bins="):
        asot.Distributions.from_spaces([LINE, LINE], bins=10**12)
