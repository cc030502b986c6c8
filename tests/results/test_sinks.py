"""Sinks: each keeps exactly its part of the distances, whatever the tiles."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist, squareform

import asot
import asot.results.sinks
import asot.validation
from asot.results.sinks import Callback, Condensed, Dense, Radius, TopK
from asot.run.pairs import AllPairs

GRID = cdist(np.argwhere(np.ones((5, 6))), np.argwhere(np.ones((5, 6))), "cityblock")  # (30, 30), full of ties


@pytest.fixture(scope="module")
def histograms():
    """Points of a grid, some of them twice: distances with many ties and zeros."""
    return np.eye(30)[np.random.default_rng(0).integers(30, size=40)]


@pytest.fixture(scope="module")
def matrix(histograms):
    return asot.emd_many(histograms, cost=GRID).matrix()


def nearest_by_sorting(matrix, n_neighbors, skip_self):
    """Brute force: sort every row by (distance, index)."""
    indices = []
    for i, row in enumerate(matrix):
        others = [j for j in range(len(row)) if not (skip_self and j == i)]
        indices.append(sorted(others, key=lambda j: (row[j], j))[:n_neighbors])
    return np.array(indices)


def test_dense_is_the_matrix(histograms, matrix):
    np.testing.assert_array_equal(asot.emd_many(histograms, cost=GRID, sink=Dense()), matrix)
    cross = asot.emd_many(histograms[:7], histograms, cost=GRID, sink=Dense())
    np.testing.assert_array_equal(cross, matrix[:7])


def test_condensed_is_the_default_in_scipys_order(histograms, matrix):
    result = asot.emd_many(histograms, cost=GRID, sink=Condensed())
    np.testing.assert_array_equal(result.values, squareform(matrix))


@pytest.mark.parametrize("n_neighbors", [1, 3, 39])
@pytest.mark.parametrize("memory", [None, 2000])
def test_top_k_within_one_set_is_brute_force_with_ties_by_index(histograms, matrix, n_neighbors, memory):
    nearest = asot.emd_many(histograms, cost=GRID, sink=TopK(n_neighbors), memory=memory, n_jobs=2)
    np.testing.assert_array_equal(nearest.indices, nearest_by_sorting(matrix, n_neighbors, skip_self=True))
    np.testing.assert_array_equal(nearest.distances, np.take_along_axis(matrix, nearest.indices, axis=1))


@pytest.mark.parametrize("n_neighbors", [1, 5, 40])
def test_top_k_of_two_sets_is_brute_force_with_ties_by_index(histograms, matrix, n_neighbors):
    nearest = asot.emd_many(histograms[:9], histograms, cost=GRID, sink=TopK(n_neighbors))
    np.testing.assert_array_equal(nearest.indices, nearest_by_sorting(matrix[:9], n_neighbors, skip_self=False))
    np.testing.assert_array_equal(nearest.distances, np.take_along_axis(matrix[:9], nearest.indices, axis=1))
    assert nearest.info["solver"] == "network simplex"


@given(st.lists(st.integers(0, 4), min_size=3, max_size=12), st.data())
def test_top_k_breaks_every_tie_by_index(places, data):
    line = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    n_neighbors = data.draw(st.integers(1, len(places) - 1))
    nearest = asot.emd_many(np.eye(5)[places], cost=line, sink=TopK(n_neighbors))
    matrix = line[np.ix_(places, places)]
    np.testing.assert_array_equal(nearest.indices, nearest_by_sorting(matrix, n_neighbors, skip_self=True))


@pytest.mark.parametrize("radius", [0.0, 2.0, 100.0])
def test_the_radius_graph_stores_the_pairs_within_it(histograms, matrix, radius):
    graph = asot.emd_many(histograms, cost=GRID, sink=Radius(radius))
    near = (matrix <= radius) & ~np.eye(40, dtype=bool)
    assert graph.shape == (40, 40)
    assert graph.nnz == near.sum()  # zero distances are stored too
    rows, columns = graph.nonzero()
    assert near[rows, columns].all()
    np.testing.assert_array_equal(graph.toarray(), np.where(near, matrix, 0.0))
    assert graph.has_sorted_indices


def test_the_radius_graph_of_two_sets_is_rectangular(histograms, matrix):
    graph = asot.emd_many(histograms[:6], histograms, cost=GRID, sink=Radius(3.0))
    assert graph.nnz == (matrix[:6] <= 3.0).sum()
    np.testing.assert_array_equal(graph.toarray(), np.where(matrix[:6] <= 3.0, matrix[:6], 0.0))


def test_the_radius_graph_may_be_empty():
    graph = asot.emd_many(np.eye(3), cost=1.0 - np.eye(3), sink=Radius(0.5))
    assert graph.nnz == 0
    assert graph.shape == (3, 3)


@pytest.mark.parametrize("pairs", [[(0, 1), (0, 1)], [(0, 1), (1, 0)], [(2, 2), (0, 1), (1, 0), (0, 2)]])
def test_a_pair_listed_twice_is_one_edge_of_the_radius_graph(pairs):
    cost = 3.0 * (1.0 - np.eye(3))
    graph = asot.emd_many(np.eye(3), cost=cost, pairs=pairs, sink=Radius(5.0)).toarray()
    assert graph[0, 1] == graph[1, 0] == 3.0


@pytest.mark.parametrize("memory", [None, 1, 1000])
def test_the_callback_sees_every_pair_once_and_in_order(histograms, matrix, memory):
    seen = []
    sink = Callback(lambda rows, columns, values: seen.append(np.stack([rows, columns, values], axis=1)))
    assert asot.emd_many(histograms, cost=GRID, sink=sink, memory=memory, n_jobs=3) is None
    rows, columns, values = np.concatenate(seen).T
    np.testing.assert_array_equal(np.stack([rows, columns]), np.triu_indices(40, 1))
    np.testing.assert_array_equal(values, squareform(matrix))


@pytest.mark.parametrize("sink", [Condensed, Dense, lambda: TopK(1), lambda: Radius(1.0)])
def test_a_sink_can_be_used_again(histograms, sink):
    used = sink()
    asot.emd_many(histograms, cost=GRID, sink=used)
    again, fresh = (asot.emd_many(histograms[:5], cost=GRID, sink=s) for s in (used, sink()))
    for name in ("values", "indices", "data"):
        if hasattr(fresh, name):
            np.testing.assert_array_equal(getattr(again, name), getattr(fresh, name))


@pytest.mark.parametrize(("sink", "n_bytes"), [(Condensed(), 13 * 45), (Dense(), 800), (TopK(3), 16 * 30)])
def test_a_result_larger_than_the_machine_is_refused_with_advice(monkeypatch, sink, n_bytes):
    monkeypatch.setattr(asot.validation, "physical_memory", lambda: n_bytes - 1)
    with pytest.raises(MemoryError, match=r"the result needs .* GB and this machine has .* GB; keep less .*TopK"):
        asot.emd_many(np.eye(10), cost=1.0 - np.eye(10), sink=sink)
    monkeypatch.setattr(asot.validation, "physical_memory", lambda: n_bytes)
    asot.emd_many(np.eye(10), cost=1.0 - np.eye(10), sink=sink)


def test_a_system_that_does_not_tell_its_memory_refuses_nothing(monkeypatch):
    monkeypatch.setattr(asot.validation, "physical_memory", lambda: None)
    assert len(asot.emd_many(np.eye(10), cost=1.0 - np.eye(10))) == 45


def test_keeping_the_nearest_does_not_hold_all_distances():
    tracemalloc.start()
    try:
        asot.emd_many(np.eye(3)[np.arange(1500) % 3], cost=1.0 - np.eye(3), sink=TopK(5), memory="256K")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * len(AllPairs(1500)) / 4


# ------------------------------------------------------------------------------------------- sinks of other people


class Gives:
    """A sink that returns whatever it was made with."""

    def __init__(self, result):
        self.result = result

    def open(self, pairs, info):
        self.known = dict(info)

    def accept(self, tile):
        self.last = tile

    def close(self, info):
        self.told = info
        return self.result


class HasInfo:
    """As a pandas.DataFrame or a zarr.Array has: an ``info`` that is no dictionary."""

    @property
    def info(self):
        return lambda: None


@pytest.mark.parametrize("result", [None, 3.5, HasInfo(), {"info": 1}], ids=["None", "number", "info", "dict"])
@pytest.mark.parametrize("options", [{}, {"bounds": True}, {"max_error": "5%"}, {"reg": 0.1}], ids=str)
def test_a_sink_returns_what_it_likes(result, options):
    rng = np.random.default_rng(0)
    D = [rng.normal(size=(6, 2)) for _ in range(4)]
    sink = Gives(result)
    assert asot.pairwise(D, random_state=0, sink=sink, **{"estimate": "anchor", **options}) is result
    assert sink.known["n_anchors"] == sink.told["n_anchors"] == 6
    assert sink.known["n_pairs"] == 6
    assert sink.told["n_not_converged"] == 0
    assert (sink.last.solution.lower is not None) == ("bounds" in options or "max_error" in options)


def test_a_sink_may_open_without_the_metadata(histograms):
    class Older(Gives):
        def open(self, pairs):
            self.pairs = pairs

    assert asot.emd_many(histograms, cost=GRID, sink=Older("kept")) == "kept"


def test_the_nearest_come_with_their_bounds_and_errors():
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_list([rng.normal(size=(8, 2)) for _ in range(12)])
    space = asot.KMeansAnchors(4, random_state=0).fit(D).space_
    options = {"space": space, "bounds": True, "estimate": "calibrated"}
    everything = asot.pairwise(D, **options)
    nearest = asot.pairwise(D, sink=TopK(4), n_jobs=2, memory=5000, **options)
    order = nearest_by_sorting(everything.matrix(), 4, skip_self=True)
    np.testing.assert_array_equal(nearest.indices, order)
    for name in ("lower", "upper", "error"):
        matrix = squareform(getattr(everything, name))
        np.testing.assert_array_equal(getattr(nearest, name), np.take_along_axis(matrix, order, axis=1))


def test_max_error_holds_for_what_a_sink_keeps():
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_list([rng.normal(size=(8, 2)) for _ in range(12)])
    exact = asot.pairwise_exact(D).matrix()
    kept = asot.pairwise(D, max_error="1%", n_anchors=5, random_state=0, sink=Dense())
    assert np.all(np.abs(kept - exact) <= 0.0100001 * exact)
