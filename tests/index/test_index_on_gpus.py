"""`asot.Index` on a GPU, run by the emulator: the answers of the CPU, and nothing is prepared twice."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import asot
from asot.index.frame import FAR
from asot.index.members import Snapshot
from tests.index.histories import cloud
from tests.simt import host, numpy_as_cupy


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    if host.COMPILER is None:
        pytest.skip("g++ is not installed, and kernels are compiled with it")
    monkeypatch.setattr("asot.run.gpu_engine.FILLS_A_GPU", 200)  # many tiles, so that limits matter
    monkeypatch.setattr("asot.exact.cuda.points.FIRST_TILE_SECONDS", 1e-6)
    monkeypatch.setattr("asot.search.on_gpus.FIRST_COLUMNS", 16)
    return numpy_as_cupy.install(monkeypatch)


def clouds(count, seed=0, dim=2):
    rng = np.random.default_rng(seed)
    return [cloud(rng, dim) for _ in range(count)]


def assert_same(found, expected):
    assert found.indices.tolist() == expected.indices.tolist()
    np.testing.assert_allclose(found.distances, expected.distances, rtol=1e-12, atol=1e-13)
    assert found.neighbor_ids.tolist() == expected.neighbor_ids.tolist()
    assert found.info["device"].startswith("cuda")
    assert found.info["n_columns"] == expected.info["n_columns"]


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"metric": "cityblock"},
        {"metric": "minkowski", "metric_params": {"p": 3}},
        {"metric": "minkowski", "metric_params": {"p": 2}},
        {"metric": "chebyshev"},
        {"metric": "seuclidean", "metric_params": {"V": [1.0, 4.0]}},
        {"metric": "canberra"},
        {"metric": "sqeuclidean"},
        {"p": 2},
        {"unmatched": 100.0},
    ],
    ids=str,
)
def test_answers_are_those_of_the_cpu(words):
    members, queries = clouds(90), clouds(5, 1)
    index = asot.Index(**words)
    index.add(members[:30])
    index.add(members[30:])
    index.remove(range(10, 20))
    expected = index.query(queries, 4)
    assert_same(index.query(queries, 4, device="cuda"), expected)
    radius = float(np.median(expected.distances))
    found, near = (index.query_radius(queries, radius, device=device) for device in ("cuda", "cpu"))
    assert found.indptr.tolist() == near.indptr.tolist()
    assert 0 < len(found.indices) < 5 * 80
    assert_same(found, near)


@pytest.mark.parametrize("dim", [1, 2, 9, 40])
def test_the_projections_of_the_index_rule_out_members(dim):
    members, queries = clouds(400, dim=dim), clouds(6, 1, dim)
    index = asot.Index()
    index.add(members)
    found = index.query(queries, 3, device="cuda")
    assert_same(found, index.query(queries, 3))
    assert found.info["bounds"][0] == "projections"
    assert found.n_exact < 0.6 * 6 * 400


def test_nothing_is_prepared_twice_until_members_change(monkeypatch):
    calls = []
    taken = Snapshot.taken
    monkeypatch.setattr(Snapshot, "taken", lambda self, slots: calls.append(len(slots)) or taken(self, slots))
    index = asot.Index()
    index.add(clouds(300))
    queries, others = clouds(4, 1), clouds(3, 2)
    for Q in (queries, others, queries):
        index.query(Q, 2, device="cuda")
    assert calls == [300]
    index.query_radius(others, 1.0, device="cuda")
    assert calls == [300]
    index.add(others, ids=["a", "b", "c"])
    index.remove(0)
    found = index.query(others, 1, device="cuda")
    assert found.neighbor_ids[:, 0].tolist() == ["a", "b", "c"]
    assert calls == [300, 302]
    index.rebuild()
    index.query(others, 1, device="cuda")
    index.add(clouds(1, 5), ids=["d"])
    index.remove(1)
    index.rebuild()  # as many members as before, in the same places
    assert_same(index.query(queries, 3, device="cuda"), index.query(queries, 3))


def test_only_some_may_be_found():
    members, queries = clouds(120), clouds(4, 1)
    index = asot.Index()
    index.add(members)
    index.query(queries, 3, device="cuda")
    for among in (range(50, 90), np.arange(120) % 3 == 0):
        assert_same(index.query(queries, 3, among=among, device="cuda"), index.query(queries, 3, among=among))
    assert_same(index.query(queries, 3, device="cuda"), index.query(queries, 3))


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e3, 1e6])
def test_queries_of_another_scale(scale):
    index = asot.Index()
    index.add(clouds(300))
    queries = [scale * np.random.default_rng(i).normal(size=(5, 2)) for i in range(3)]
    assert_same(index.query(queries, 3, device="cuda"), index.query(queries, 3))


def test_members_far_from_the_others_have_no_projections():
    members = clouds(300)
    index = asot.Index()
    index.add(members)
    index.add([1e9 + np.random.default_rng(i).normal(size=(4, 2)) for i in range(3)], ids=["x", "y", "z"])
    queries = [*clouds(2, 1), 1e9 + np.random.default_rng(5).normal(size=(4, 2))]
    found = index.query(queries, 3, device="cuda")
    assert set(found.neighbor_ids[2].tolist()) == {"x", "y", "z"}
    assert_same(found, index.query(queries, 3))


def test_a_member_just_too_far_away_for_a_projection_is_found_by_one_that_is_not():
    index = asot.Index()
    index.add(clouds(300))
    frame = index._snapshot.frame
    extent = float(np.ldexp(frame.extent, frame.exponent))
    far = FAR * extent * frame.axes.rotation[:, 0]
    index.add([(frame.center - 1.0002 * far)[None]], ids=["just too far"])
    found = index.query_radius([(frame.center - 0.9998 * far)[None]], extent, device="cuda")
    assert found.neighbor_ids.tolist() == ["just too far"]


def test_members_that_share_their_points():
    rng = np.random.default_rng(0)
    words = rng.normal(size=(50, 6))
    members = [words[rng.choice(50, 8, replace=False)] for _ in range(300)]
    queries = [words[rng.choice(50, 8, replace=False)] for _ in range(4)] + [rng.normal(size=(3, 6))]
    index = asot.Index()
    index.add(members)
    assert_same(index.query(queries, 3, device="cuda"), index.query(queries, 3))


def test_what_a_gpu_cannot_do_is_said():
    index = asot.Index(metric="angular")
    index.add(clouds(20))
    with pytest.raises(ValueError, match="recall= works on the CPU"):
        index.query(clouds(1, 1), 2, recall=0.9, device="cuda")
    index = asot.Index()
    index.add(clouds(20))
    with pytest.raises(ValueError, match="cuda:7 does not exist"):
        index.query(clouds(1, 1), 2, device="cuda:7")
    index.add([np.full((2, 2), 1e-300)])
    with pytest.raises(ValueError, match="1e138 times as large"):
        index.query(clouds(1, 1), 2, device="cuda")


def test_an_index_that_is_closed_keeps_none_of_its_files(tmp_path):
    index = asot.Index()
    index.add(clouds(300))
    index.save(tmp_path / "index")
    opened = asot.Index.open(tmp_path / "index")
    opened.query(clouds(2, 1), 2, device="cuda")
    seen = weakref.ref(opened._snapshot)
    opened.close()
    gc.collect()
    assert seen() is None
