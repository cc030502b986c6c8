"""Small collections take the shortest way, and nobody can tell from the answers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest

import asot
from asot import Distributions
from asot.exact import few_pairs


def both_ways(D, E=None, **options):
    """What a call returns by the shortest way, and by the general one."""
    short = asot.pairwise_exact(D, E, **options)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("asot.distances.few_distances", lambda *given: None)
        return short, asot.pairwise_exact(D, E, **options)


def assert_same(first, second):
    assert np.array_equal(first.values, second.values)
    assert np.array_equal(first.n_iter, second.n_iter)
    assert first.n_iter.dtype == second.n_iter.dtype
    assert np.array_equal(first.status, second.status)
    assert first.status.dtype == second.status.dtype
    assert np.array_equal(first.pairs, second.pairs)
    assert np.array_equal(first.ids, second.ids)
    assert np.array_equal(first.ids_columns, second.ids_columns)
    assert repr(first) == repr(second)
    known = [{key: value for key, value in r.info.items() if "seconds" not in key} for r in (first, second)]
    assert known[0] == known[1]
    assert list(first.info) == list(second.info)


def collections(rng):
    sizes = (5, 8, 1, 12)
    normal = [rng.normal(size=(n, 3)) for n in sizes]
    yield "normal", Distributions.from_list(normal)
    yield "one pair", Distributions.from_list(normal[:2])
    yield "weighted", Distributions.from_list(normal, [rng.dirichlet(np.ones(n)) for n in sizes])
    yield "named", Distributions.from_list(normal, ids=["a", "b", "c", "d"])
    yield "float32", Distributions.from_list([x.astype(np.float32) for x in normal])
    yield "mostly zero", Distributions.from_list([rng.normal(size=(n, 9)) * (rng.random((n, 9)) < 0.3) for n in sizes])
    yield "one column zero", Distributions.from_list([np.c_[x, np.zeros(len(x))] for x in normal])
    yield "repeated", Distributions.from_list([rng.integers(0, 3, (n, 2)).astype(float) for n in sizes])
    yield "without mass", Distributions.from_list(normal[:2], [np.r_[np.zeros(2), np.ones(n - 2)] for n in sizes[:2]])
    yield "signed zero", Distributions.from_list([[[0.0, 1.0]], [[-0.0, 1.0], [2.0, 3.0]]])
    for scale in (1e-200, 1e-320, 1e200, 1e300):
        yield f"scaled by {scale}", Distributions.from_list([scale * x for x in normal])
    yield "a single distribution", Distributions.from_list(normal[:1])
    yield "long points", Distributions.from_list([rng.normal(size=(n, 70)) for n in sizes[:2]])
    yield "long points, three", Distributions.from_list([rng.normal(size=(n, 70)) for n in sizes[:3]])
    clouds = [rng.normal(size=(n, 100)).astype(np.float32) for n in (30, 21)]
    yield "long points in float32", Distributions.from_list(clouds)
    yield "long points, one shared", Distributions.from_list([clouds[0], np.vstack([clouds[1], clouds[0][7]])])
    yield "long points without order", Distributions.from_list([x[:, ::-1].copy() for x in clouds])
    yield "on a line", Distributions.from_list([x[:, :1] for x in normal])
    for n in (1, 5, 16, 17, 40):
        yield f"{n} equal masses on a line", Distributions.from_list([rng.normal(size=(n, 1)) for _ in range(3)])
    yield "far apart on a line", Distributions.from_list([1e300 * rng.normal(size=(n, 1)) for n in (3, 3)])
    yield "many on a line", Distributions.from_list([rng.integers(0, 3, (n, 1)).astype(float) for n in range(1, 12)])


NAMES = [name for name, _ in collections(np.random.default_rng(0))]


def test_answers_stay_when_others_are_given_in_the_same_place():
    for kept in (few_pairs._desks, few_pairs._plain_desks):  # one of them may have forgotten what the other has
        kept.cache_clear()
    rng = np.random.default_rng(0)
    given = [(rng.normal(size=(n, 4, 2)), rng.normal(size=(m, 4, 2))) for n in (3, 4, 9) for m in range(1, 8)] * 2
    pairs = [tuple(Distributions.from_list(x) for x in both) for both in given]
    found = [few for D, E in pairs for few in (asot.pairwise_exact(D), asot.pairwise_exact(D, E))]
    desks = []
    for D, _ in pairs[:7]:
        asot.pairwise_exact(D)
        desks.append(few_pairs._desks(len(D), 0, 2, "euclidean", 1.0, False))
    assert all(each is desks[0] for each in desks)  # records are made once for three distributions
    assert len(desks[0]._free) == 1
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("asot.distances.few_distances", lambda *given: None)
        usual = [each for D, E in pairs for each in (asot.pairwise_exact(D), asot.pairwise_exact(D, E))]
    for one, other in zip(found, usual, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("D", [D for _, D in collections(np.random.default_rng(0))], ids=NAMES)
def test_the_shortest_way_gives_what_the_general_one_gives_bit_for_bit(D):
    assert_same(*both_ways(D))
    assert_same(*both_ways(D, device="cpu"))


@pytest.mark.parametrize("D", [D for _, D in collections(np.random.default_rng(2))], ids=NAMES)
@pytest.mark.parametrize(
    "options", [{"n_jobs": 2}, {"p": 2}, {"p": 2.5, "metric": "cityblock"}, {"metric": "chebyshev", "memory": "1M"}]
)
def test_so_it_is_with_other_orders_metrics_and_limits(D, options):
    assert_same(*both_ways(D, **options))


@pytest.mark.parametrize("D", [D for _, D in collections(np.random.default_rng(1))], ids=NAMES)
def test_so_it_is_between_two_collections(D):
    assert_same(*both_ways(D, D[: max(1, len(D) - 1)]))


def test_small_collections_do_take_the_shortest_way(monkeypatch):
    taken = []
    solve = few_pairs._solved
    monkeypatch.setattr(few_pairs, "_solved", lambda *given: taken.append(solve(*given)) or taken[-1])
    rng = np.random.default_rng(0)
    small = [rng.normal(size=(100, 30)) for _ in range(2)]
    asot.pairwise_exact(small)
    assert taken[-1] is not None
    asot.pairwise_exact([*small, small[0]])  # repeated points
    assert taken[-1] is None
    count = len(taken)
    asot.pairwise_exact([rng.normal(size=(20, 2)) for _ in range(40)])  # too many of them
    assert len(taken) == count
    for option in ({"p": 2}, {"metric": "cityblock"}, {"n_jobs": 2}, {"memory": "1G"}):
        asot.pairwise_exact(small, **option)
        assert taken[-1] is not None
    count = len(taken)
    for option in ({"metric": "canberra"}, {"unmatched": 100.0}, {"share": 0.5}, {"pairs": [(0, 1)]}):
        asot.pairwise_exact(small, **option)
    asot.pairwise_exact(small, sink=asot.sinks.Dense())
    assert len(taken) == count


def test_threads_that_share_kept_memory_do_not_share_answers():
    rng = np.random.default_rng(0)
    given = [[rng.normal(size=(n, 100)) for _ in range(2)] for n in (30, 60, 90, 120)]
    expected = [asot.pairwise_exact(D).values for D in given]

    def answers(k):
        return [np.array_equal(asot.pairwise_exact(given[i % 4]).values, expected[i % 4]) for i in range(k, k + 40)]

    with ThreadPoolExecutor(4) as pool:
        assert all(all(each) for each in pool.map(answers, range(4)))


def test_a_joblib_context_is_heard():
    x = [np.random.default_rng(0).normal(size=(4, 2)) for _ in range(3)]
    with joblib.parallel_config(backend="threading", n_jobs=2):
        r = asot.pairwise_exact(x)
    assert r.info["n_jobs"] == 2
    assert asot.pairwise_exact(x).info["n_jobs"] == 1
    assert np.array_equal(r.values, asot.pairwise_exact(x).values)


@pytest.mark.parametrize(
    "option",
    [
        {"device": "tpu"},
        {"p": 0.5},
        {"p": True},
        {"progress": "often"},
        {"metric": "nothing"},
        {"n_jobs": 0},
        {"memory": -1},
    ],
)
def test_bad_options_are_refused_for_one_pair_too(option):
    with pytest.raises(ValueError, match=r"device|p must|progress|metric|n_jobs|memory"):
        asot.pairwise_exact([[[0.0, 1.0]], [[1.0, 2.0]]], **option)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [3, 400])
def test_points_may_lie_in_any_order(dim, dtype):
    """Arrays in Fortran's order, joined, are in Fortran's order; long points are read where they lie."""
    rng = np.random.default_rng(dim)
    given = [rng.normal(size=(12, dim)).astype(dtype) for _ in range(2)]
    expected = asot.pairwise_exact(given).values
    for turned in ([np.asfortranarray(x) for x in given], [x[::-1, ::-1][::-1, ::-1] for x in given]):
        np.testing.assert_array_equal(asot.pairwise_exact(turned).values, expected)


def test_many_pairs_of_long_points_go_the_general_way_which_has_a_table():
    rng = np.random.default_rng(0)

    def few(count, dim, metric="euclidean"):
        D = Distributions.from_list([rng.normal(size=(2, dim)) for _ in range(count)])
        found = few_pairs.few_distances(D, None, 1, metric, ("cpu", 1, None, False), (dict, ()))
        if found is not None:
            pairs = list(zip(*np.triu_indices(count, 1), strict=True))
            usual = asot.pairwise_exact(D, pairs=pairs, metric=metric)
            np.testing.assert_array_equal(found.values, usual.values)
        return found is not None

    assert few(8, 768)
    assert few(40, 32)
    assert not few(40, 768)
    assert few(20, 768, "cityblock")
