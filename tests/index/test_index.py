"""`asot.Index` in memory: equal to brute force after any history."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pandas as pd
import pytest

import asot
from asot.index.growing import FEWEST
from tests.index.histories import PlainList, check_neighbors, cloud, step

DISTANCES = [
    {},
    {"p": 2},
    {"metric": "cityblock"},
    {"metric": "minkowski", "metric_params": {"p": 3}},
    {"metric": "sqeuclidean"},
    {"metric": "angular"},
    {"metric": "seuclidean", "metric_params": {"V": [1.0, 4.0]}},
    {"metric": "canberra"},
    {"metric": "braycurtis"},
    {"metric": "periodic", "metric_params": {"box": 5.0}},
    {"unmatched": "diagonal"},
    {"unmatched": "diagonal", "p": 2},
    {"unmatched": 100.0},
]


def clouds(count, seed=0, dim=2):
    rng = np.random.default_rng(seed)
    return [cloud(rng, dim) for _ in range(count)]


@pytest.mark.parametrize("words", DISTANCES, ids=str)
def test_answers_equal_brute_force_under_every_distance(words):
    size = 40 if words.get("metric") == "braycurtis" else 280
    members, queries = clouds(size), clouds(4, 1)
    index = asot.Index(**words)
    index.add(members[:30])
    index.add(members[30:])
    index.remove(range(10, 20))
    left = [one for i, one in enumerate(members) if not 10 <= i < 20]
    matrix = asot.pairwise_exact(queries, left, **words).matrix()
    check_neighbors(index.query(queries, 5), matrix, 5)
    radius = float(np.quantile(matrix, 0.1))
    found = index.query_radius(queries, radius)
    assert np.diff(found.indptr).tolist() == (matrix <= radius).sum(axis=1).tolist()
    np.testing.assert_allclose(found.distances, matrix[np.repeat(np.arange(4), np.diff(found.indptr)), found.indices])


@pytest.mark.parametrize("dim", [1, 2, 9, 40])
def test_bounds_save_solves_in_every_dimension(dim):
    members, queries = clouds(600, dim=dim), clouds(3, 1, dim)
    index = asot.Index()
    index.add(members)
    found = index.query(queries, 3)
    check_neighbors(found, asot.pairwise_exact(queries, members).matrix(), 3)
    assert found.n_exact < 0.5 * 3 * 600


@pytest.mark.parametrize("seed", range(3))
def test_a_random_history_ends_where_a_plain_list_does(seed):
    rng = np.random.default_rng(seed)
    index, plain = asot.Index(random_state=seed), PlainList()
    for turn in range(60):
        step(rng, index, plain)
        if turn % 4 == 0:
            plain.check(index, [cloud(rng) for _ in range(2)], 4)
        if turn % 20 == 19:
            rng.choice([index.compact, index.rebuild])()
    assert len(index) > FEWEST // 2


def test_far_members_keep_the_answers_of_all_others():
    members = clouds(300)
    members[7] = members[7] * 1e12
    members[8] = members[8] + 1e9
    members[9] = members[9] * 1e-12
    index = asot.Index()
    index.add(clouds(300, 5), ids=range(1000, 1300))
    index.add(members)
    everyone = clouds(300, 5) + members
    queries = [*clouds(2, 1), members[7], members[8], members[9] * 2]
    found = index.query(queries, 4)
    matrix = np.array([[asot.pairwise_exact([q], [m]).values[0] for m in everyone] for q in queries])
    np.testing.assert_allclose(found.distances, np.sort(matrix, axis=1)[:, :4], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("exponent", [1015, 500, -500, -1015])
def test_no_scale_is_too_large_or_too_small(exponent):
    members, queries = ([np.abs(one) for one in clouds(n, n)] for n in (300, 3))
    index = asot.Index()
    index.add([np.ldexp(one, exponent) for one in members])
    expected = asot.pairwise_exact(queries, members, sink=asot.sinks.TopK(4))
    found = index.query([np.ldexp(one, exponent) for one in queries], 4)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_allclose(np.ldexp(found.distances, -exponent), expected.distances, rtol=1e-9)


def test_members_come_back_bit_for_bit():
    points, masses = np.float32([[0.1, 0.2], [0.3, 0.4]]), [0.3, 0.9]
    D = asot.Distributions(points, [0, 2], masses, ids=["a"])
    index = asot.Index()
    index.add(D)
    held, weights = index["a"]
    assert held.dtype == np.float32
    assert held.tobytes() == points.tobytes()
    assert weights.tobytes() == D[0][1].tobytes()


def test_ids_are_given_or_counted():
    index = asot.Index()
    assert index.add(clouds(2)).tolist() == [0, 1]
    assert index.add(clouds(1), ids=[5]).tolist() == [5]
    assert index.add(clouds(2)).tolist() == [6, 7]
    index.remove([7])
    assert index.add(clouds(1)).tolist() == [8]
    assert index.add(asot.Distributions.from_list(clouds(1), ids=["x"])).tolist() == ["x"]
    assert index.ids.tolist() == [0, 1, 5, 6, 8, "x"]
    assert "x" in index
    assert 5 in index
    assert 7 not in index
    assert "5" not in index


def test_a_known_id_without_replace_adds_nothing():
    index = asot.Index()
    index.add(clouds(2), ids=["a", "b"])
    with pytest.raises(ValueError, match="'b' is in the index already, and nothing was added"):
        index.add(clouds(2), ids=["c", "b"])
    assert index.ids.tolist() == ["a", "b"]
    index.add(clouds(2, 3), ids=["c", "a"], replace=True)
    assert index.ids.tolist() == ["b", "c", "a"]
    assert index["a"][0].tobytes() == clouds(2, 3)[1].tobytes()


def test_only_some_members_may_be_found():
    members = clouds(400)
    index = asot.Index()
    index.add(members)
    matrix = asot.pairwise_exact(clouds(2, 1), members).matrix()
    some = np.arange(0, 400, 7)
    mask = np.zeros(400, dtype=bool)
    mask[some] = True
    for among in (some, some.tolist(), mask):
        found = index.query(clouds(2, 1), 3, among=among)
        check_neighbors(found, np.where(mask, matrix, np.inf), 3)
        near = index.query_radius(clouds(2, 1), 3.0, among=among)
        assert len(near.indices) == np.count_nonzero(matrix[:, mask] <= 3.0)
    with pytest.raises(ValueError, match="only 2 members to be found"):
        index.query(clouds(1), 3, among=[4, 9])


def test_a_mask_with_names_goes_by_ids():
    index, query = asot.Index(), clouds(1, 1)
    index.add(clouds(4), ids=["a", "b", "c", "d"])
    mask = {"d": True, "c": False, "b": True, "a": False}
    for among in (mask, pd.Series(mask), pd.Series(mask, dtype=object), np.array([False, True, False, True], object)):
        assert set(index.query(query, 2, among=among).neighbor_ids[0].tolist()) == {"b", "d"}
        assert len(index.query_radius(query, 1e9, among=among).indices) == 2
    for among in ({"a": True, "b": True}, pd.Series([True] * 4)):
        with pytest.raises(ValueError, match=r"among= has no entry for distribution '[ac]'"):
            index.query(query, 1, among=among)
    assert index.query(query, 1, among=pd.Series(["c"])).neighbor_ids[0] == "c"


@pytest.mark.parametrize("name", ["", "\0", "a\0", "a\0b", "a\nb", "ü☃", "x" * 70_000, -(2**63), 2**63 - 1])
def test_every_id_comes_back(name, tmp_path):
    index = asot.Index()
    assert index.add(clouds(2), ids=[name, "b"]).tolist() == [name, "b"]
    index.save(tmp_path / "index")
    with asot.Index.open(tmp_path / "index", mode="r+") as again:
        assert again.ids.tolist() == [name, "b"]
        assert again.query([again[name][0]], 2).neighbor_ids[0].tolist() == [name, "b"]
        again.remove(name)
        assert name not in again


def test_what_is_no_list_of_ids_is_refused():
    index = asot.Index()
    for ids in ({"a", "b"}, b"ab", np.array(3), "ab", 5, iter("ab"), ["a"]):
        with pytest.raises(ValueError, match="ids must name each of the 2 distributions, in their order"):
            index.add(clouds(2), ids=ids)
    index.add(clouds(2))
    for name in (b"ab", True, 1.0, None):
        assert name not in index
        with pytest.raises((ValueError, TypeError), match=r"an id must be text or a whole number|expected an id"):
            index.remove(name)
    index.remove(np.array(1))
    assert index.ids.tolist() == [0]


@pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy])
def test_an_index_says_how_it_is_copied(copied):
    with pytest.raises(TypeError, match=r"is not pickled: index.save\(path\), and Index.open"):
        copied(asot.Index())


def test_a_closed_index_has_no_members():
    index = asot.Index()
    index.add(clouds(2), ids=["a", "b"])
    index.close()
    assert "a" not in index
    with pytest.raises(ValueError, match="this index is closed"):
        index["a"]


def test_a_budget_says_what_is_certain():
    members, queries = clouds(800, dim=12), clouds(5, 1, 12)
    index = asot.Index()
    index.add(members)
    matrix = asot.pairwise_exact(queries, members).matrix()
    found = index.query(queries, 4, max_solves=6)
    assert found.n_exact <= 5 * 6
    assert (found.lower <= np.sort(matrix, axis=1)[:, :4] + 1e-9).all()
    all_solved = index.query(queries, 4, max_solves=800)
    assert np.isinf(all_solved.info["unseen"]).all()
    np.testing.assert_array_equal(all_solved.lower, all_solved.distances)
    with pytest.raises(ValueError, match="max_solves=3 is not enough"):
        index.query(queries, 4, max_solves=3)


def test_a_stated_recall_is_measured_and_solves_no_more():
    rng = np.random.default_rng(0)
    members = [rng.normal(rng.normal(0, 1, 6), 2.0, size=(8, 6)) for _ in range(1500)]
    queries = [rng.normal(rng.normal(0, 1, 6), 2.0, size=(8, 6)) for _ in range(20)]
    index = asot.Index()
    index.add(members)
    certain, found = index.query(queries, 5), index.query(queries, 5, recall=0.9)
    shared = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(certain.indices, found.indices, strict=True)])
    assert found.n_exact <= certain.n_exact
    assert shared >= 0.8
    assert found.info["recall"]["measured"] >= 0.9
    assert index.query(queries[:1], 5, recall=0.9).info["recall"] is found.info["recall"]


def test_a_query_sees_the_members_that_were_there_when_it_began():
    index = asot.Index()
    index.add(clouds(300))
    failed = []

    def ask():
        for _ in range(30):
            found = index.query(clouds(2, 1), 3)
            members = dict.fromkeys(found.neighbor_ids.ravel().tolist())
            if len(members) < 3 or not np.isfinite(found.distances).all():
                failed.append(found)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(40):
        index.add(clouds(5, 100 + i))
        index.remove(index.ids[:3])
        if i % 10 == 0:
            index.compact()
    for thread in threads:
        thread.join()
    assert not failed
    everyone = [index[name][0] for name in index.ids.tolist()]
    check_neighbors(index.query(clouds(2, 1), 3), asot.pairwise_exact(clouds(2, 1), everyone).matrix(), 3)


def test_info_says_what_is_there():
    index = asot.Index()
    assert index.info["members"] == 0
    assert index.info["bytes"] == 0
    index.add(clouds(600))
    index.remove(range(350))
    index.query(clouds(3, 1), 2)
    info = index.info
    assert (info["members"], info["removed"], info["prepared"], info["n_queries"]) == (250, 350, 600, 3)
    assert info["compact_pays"]
    assert not info["rebuild_pays"]
    assert info["solves_per_query"] > 0
    index.compact()
    assert index.info["removed"] == 0
    assert index.info["bytes"] < info["bytes"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda index: index.add(clouds(1, dim=3)), "in 2 dimensions and the new distributions in 3"),
        (lambda index: index.add(clouds(2), ids=["x", "x"]), "'x' is given to two"),
        (lambda index: index.add(clouds(1), ids=[1.5]), "text or a whole number"),
        (lambda index: index.add(clouds(1), ids=[2**63]), "at most 64 bits"),
        (lambda index: index.add(clouds(1), ids=["\ud800"]), "not valid text"),
        (lambda index: index.remove("nobody"), "'nobody' is not in the index"),
        (lambda index: index["nobody"], "'nobody' is not in the index"),
        (lambda index: index.query(clouds(1, dim=3)), "queries are in 3 dimensions and the index in 2"),
        (lambda index: index.query(clouds(1), 9), "only 5 members to be found"),
        (lambda index: index.query(clouds(1), 2, recall=1.0), "recall must be a number between 0 and 1"),
        (lambda index: index.query(clouds(1), 2, among=[True]), "a mask of shape"),
        (lambda index: index.query_radius(clouds(1), -1.0), "radius must be a finite number"),
        (lambda index: index.query_radius(clouds(1), 10**400), "radius must be a finite number"),
        (lambda index: index.query_radius(clouds(1), np.nan), "radius must be a finite number"),
        (lambda index: index.add([[[1e308, 0.0]]]), r"points reach 1e\+308, too far for distances"),
        (lambda index: index.query([[[1e308, 0.0]]], 1), r"points reach 1e\+308, too far for distances"),
        (lambda index: asot.Index(metric="mahalanobis", metric_params={"VI": [[np.nan]]}).add([[[1.0]]]), "definite"),
        (lambda index: asot.Index(metric="seuclidean", metric_params={"V": [np.inf]}).add([[[1.0]]]), "a positive var"),
        (lambda index: index.query(clouds(1), 2, device="tpu"), "unknown device"),
        (lambda index: asot.Index().query(clouds(1)), "the index is empty"),
        (lambda index: asot.Index(metric="mahalanobis"), "pass metric_params={'VI'"),
        (lambda index: asot.Index(metric="nonsense"), "unknown metric 'nonsense'"),
        (lambda index: asot.Index(unmatched=[1.0, 2.0]), "a number or 'diagonal'"),
        (lambda index: asot.Index(p=0.5), "p must be"),
        (lambda index: asot.Index(metric="jaccard").add([[[0.5, 1.0]]]), "points must be 0 or 1"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(call, message):
    index = asot.Index()
    index.add(clouds(5))
    with pytest.raises(ValueError, match=message):
        call(index)
    assert len(index) == 5


def equally_far(count, seed, dim=30):
    rng = np.random.default_rng(seed)
    return [rng.normal(rng.normal(0, 0.3, dim), 2.0, size=(8, dim)) for _ in range(count)]


@pytest.mark.slow
def test_a_member_that_is_asked_for_in_a_rehearsal_does_not_find_itself():
    index, queries = asot.Index(), equally_far(60, 1)
    index.add(equally_far(1500, 0))
    certain, found = index.query(queries, 1), index.query(queries, 1, recall=0.9)
    assert np.mean(certain.indices == found.indices) >= 0.8


@pytest.mark.slow
@pytest.mark.parametrize("recall", [None, 0.5])
@pytest.mark.parametrize("budget", [15, 20, 40])
def test_no_kth_neighbor_is_nearer_than_lower_says(recall, budget):
    index, queries = asot.Index(), equally_far(20, 1)
    index.add(equally_far(1200, 0))
    found = index.query(queries, 3, recall=recall, max_solves=budget)
    assert found.n_exact <= 20 * budget
    assert (found.lower <= index.query(queries, 3).distances + 1e-12).all()


@pytest.mark.parametrize("words", [{}, {"p": 2}, {"metric": "cityblock"}, {"metric": "sqeuclidean"}], ids=str)
@pytest.mark.parametrize("whole", [False, True])
def test_equal_members_are_equally_far_and_in_order_of_addition(words, whole):
    """Also where some were solved beside other members than the rest."""
    rng = np.random.default_rng(0)
    pool = rng.integers(-3, 4, size=(30, 2)).astype(float) if whole else rng.normal(size=(30, 2))
    kinds = [pool[rng.integers(30, size=rng.integers(1, 8))] for _ in range(40)]
    which, index = rng.integers(40, size=1500), asot.Index(**words)
    index.add([kinds[i] for i in which])
    found = index.query([pool[rng.integers(30, size=5)] for _ in range(10)], 300)
    for near, distances in zip(found.indices, found.distances, strict=True):
        for i in range(40):
            own = which[near] == i
            assert len(set(distances[own].tolist())) <= 1
            assert (np.diff(near[own]) > 0).all()
