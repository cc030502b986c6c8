"""`kneighbors` into a store: the neighbors of brute force, strip by strip, resumed, shared and refused."""

from __future__ import annotations

import os

import joblib
import numpy as np
import pytest

import asot
from asot.sinks import Store, TopK
from tests.test_neighbors import by_brute_force, clouds

pytest.importorskip("zarr")

D = clouds(200)


@pytest.fixture(scope="module")
def expected():
    return asot.kneighbors(D, 4)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "near.zarr"


def assert_same(found, expected):
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.distances, expected.distances)  # bit for bit


@pytest.mark.parametrize("prune", ["auto", "projections", "potentials", "relaxed", "all"])
def test_a_store_holds_the_neighbors_of_the_call_without_one(path, expected, prune):
    stored = asot.kneighbors(D, 4, prune=prune, sink=Store(path))
    assert (stored.is_complete, stored.n_blocks) == (True, 4)
    assert_same(stored.top_k(), expected)
    again = asot.open_store(path)
    np.testing.assert_array_equal(again.top_k(2).indices, expected.indices[:, :2])
    np.testing.assert_array_equal(again.zarr()["indices"][:], expected.indices)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_queries_against_a_collection(path, n_jobs):
    Q = clouds(90, seed=5)
    found = asot.kneighbors(Q, D, 3, n_jobs=n_jobs, sink=Store(path)).top_k()
    indices, distances = by_brute_force(Q, D, 3)
    np.testing.assert_array_equal(found.indices, indices)
    np.testing.assert_array_equal(found.distances, distances)


@pytest.mark.parametrize("prune", ["auto", "projections", "relaxed"])
def test_equal_distributions_keep_their_order(path, prune):
    twins = clouds(12)[np.arange(150) % 12]
    found = asot.kneighbors(twins, 20, prune=prune, sink=Store(path)).top_k()
    indices, distances = by_brute_force(twins, None, 20)
    np.testing.assert_array_equal(found.indices, indices)
    np.testing.assert_array_equal(found.distances, distances)


@pytest.mark.parametrize(
    "options", [{"p": 2}, {"metric": "cityblock"}, {"unmatched": 9.0}, {"metric": "cosine"}], ids=str
)
def test_every_distance_can_be_stored(path, options):
    assert_same(asot.kneighbors(D, 3, sink=Store(path), **options).top_k(), asot.kneighbors(D, 3, **options))


def test_what_is_lost_is_searched_again_and_nothing_else(path, expected, monkeypatch):
    from asot.search.strips import StripSearch

    asot.kneighbors(D, 4, sink=Store(path))
    (path / "distances" / "c" / "2" / "0").unlink()
    torn = path / "indices" / "c" / "0" / "0"
    torn.write_bytes(torn.read_bytes()[:-7])
    searched, whole = [], StripSearch.nearest
    monkeypatch.setattr(StripSearch, "nearest", lambda self, *rows: searched.append(rows) or whole(self, *rows))
    stored = asot.kneighbors(D, 4, prune="relaxed", n_jobs=2, sink=Store(path))  # how it looks does not matter
    assert sorted(searched) == [(0, 64), (128, 192)]
    assert_same(stored.top_k(), expected)


def test_parts_make_the_whole(path, expected):
    for part in ((3, 3), (1, 3)):
        stored = asot.kneighbors(D, 4, sink=Store(path, part=part))
        assert not stored.is_complete
    with pytest.raises(ValueError, match="blocks are done; run the same call again first"):
        stored.top_k()
    assert_same(asot.kneighbors(D, 4, sink=Store(path, part=(2, 3))).top_k(), expected)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda sink: asot.kneighbors(D, 5, sink=sink), "n_neighbors was 4 and is now 5"),
        (lambda sink: asot.kneighbors(D[:150], 4, sink=sink), r"inputs\.collection\."),
        (lambda sink: asot.kneighbors(D, 4, metric="cityblock", sink=sink), "metric was 'euclidean'"),
        (lambda sink: asot.kneighbors(D, 4, p=2, sink=sink), "p was 1.0 and is now 2.0"),
        (lambda sink: asot.pairwise_exact(D, sink=Store(sink.path, TopK(4))), "plan was 'strips' and is now 'squares'"),
    ],
    ids=["another number", "other inputs", "another metric", "another order", "another call"],
)
def test_another_search_is_refused_with_the_difference(path, call, says):
    asot.kneighbors(D, 4, sink=Store(path, part=(1, 4)))
    with pytest.raises(ValueError, match=rf"holds the result of another call: .*{says}"):
        call(Store(path))


def test_other_sinks_and_fields_are_refused(path):
    with pytest.raises(ValueError, match=r"sink= is for asot.sinks.Store\(path\)"):
        asot.kneighbors(D, 4, sink=TopK(4))
    with pytest.raises(ValueError, match="give the store no fields"):
        asot.kneighbors(D, 4, sink=Store(path, fields=["values"]))
    with pytest.raises(ValueError, match="and no other number"):
        asot.kneighbors(D, 4, sink=Store(path, TopK(3)))
    with pytest.raises(ValueError, match="a search into a store runs on CPUs"):
        asot.kneighbors(D, 4, device="cuda", sink=Store(path))
    assert not path.exists()
    assert_same(asot.kneighbors(D, 4, sink=Store(path, TopK(4))).top_k(), asot.kneighbors(D, 4))


def test_a_store_of_neighbors_has_no_values(path):
    stored = asot.kneighbors(D, 4, sink=Store(path))
    with pytest.raises(ValueError, match=r"only keeps the nearest.*use .top_k\(\)"):
        stored[3, 4]
    with pytest.raises(ValueError, match="at most 4 in this store"):
        stored.top_k(5)


def test_progress_counts_every_row(path):
    calls = []
    asot.kneighbors(D, 4, sink=Store(path), progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (200, 200)


@pytest.mark.filterwarnings("ignore")
def test_processes_search_strips(path, expected):
    with joblib.parallel_config(backend="loky", n_jobs=2):
        stored = asot.kneighbors(D, 4, sink=Store(path))
    assert_same(stored.top_k(), expected)
    assert not list(path.parent.glob(".asot-*"))


def test_memory_does_not_grow_with_the_pairs():
    """One strip holds what its rows need: no array of rows × columns, nor one of all rows × neighbors."""
    import tracemalloc

    from asot.request import Request
    from asot.search.choose import Pruning
    from asot.search.nearest import in_strips, read_problem

    many = asot.Distributions(np.random.default_rng(0).normal(size=(6000, 2)), np.arange(0, 6001, 2))
    search = in_strips(read_problem(Request(many, None)), 5, Pruning("projections"), 1)
    search.nearest(0, 16)
    tracemalloc.start()
    search.nearest(64, 128)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3e6  # 64 × 3,000 marks and what they leave; all rows × 18 columns would be 0.9 MB, all pairs 36 MB


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL on Windows")
def test_a_killed_search_goes_on():
    from tests.run.cluster_faults import kill_callers

    record = kill_callers(2, n=400, job="search")
    assert (record.times, record.equal) == (2, True)
