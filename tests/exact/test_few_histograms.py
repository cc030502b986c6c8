"""A few small histograms take the shortest way, and nobody can tell from the answers."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import asot
from asot.exact import few_histograms
from tests.exact.test_few_pairs import assert_same


def both_ways(A, B=None, **options):
    """What a call returns by the shortest way, and by the general one."""
    short = asot.emd_many(A, B, **options)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(few_histograms, "solve", lambda *given: None)
        return short, asot.emd_many(A, B, **options)


def rows(rng, n, k):
    A = rng.dirichlet(np.full(k, 0.4), n) * (rng.random((n, k)) < rng.choice([0.2, 0.7, 1.0]))
    A[:, 0] += A.sum(axis=1) == 0
    return A * rng.choice([1.0, 3.0, 1e-30])


def metric(rng, k):
    x = rng.normal(size=(k, 2))
    return np.linalg.norm(x[:, None] - x, axis=-1)


def costs(rng, k):
    yield metric(rng, k)
    yield metric(rng, k) ** 2
    yield 1e-300 * metric(rng, k)
    yield 1e200 * metric(rng, k)
    yield 1.0 - np.eye(k)
    yield np.zeros((k, k))
    far = metric(rng, k)
    far[0, 1:] = far[1:, 0] = 1e9
    yield far
    yield np.asfortranarray(np.round(metric(rng, k), 1))


SIZES = [*range(2, 18), 31, 33, 63, 64, 65, 66, 80, 127, 128, 129, 150, 255]


@pytest.mark.parametrize("k", SIZES)
def test_the_shortest_way_gives_what_the_general_one_gives_bit_for_bit(k):
    rng = np.random.default_rng(k)
    for cost in costs(rng, k):
        A = rows(rng, int(rng.integers(2, 5)), k)
        assert_same(*both_ways(A, cost=cost))
        assert_same(*both_ways(A[:2], cost=cost, device="cpu", n_jobs=1, progress=False, memory="1M"))
        assert_same(*both_ways(A[:1], rows(rng, 2, k), cost=cost))


def few_words(rng, n, k, most):
    """Rows on at most so many anchors each."""
    A = np.zeros((n, k))
    for row in A:
        row[rng.choice(k, rng.integers(1, most + 1), replace=False)] = rng.random() * 1e-20
    return A * rng.random((n, k))


@pytest.mark.parametrize(
    ("k", "n", "most"),
    [(256, 2, 2), (300, 12, 10), (600, 3, 90), (1500, 2, 5), pytest.param(3000, 30, 12, marks=pytest.mark.slow)],
)
def test_so_it_is_on_the_anchors_that_are_used_of_many(k, n, most):
    rng = np.random.default_rng(k)
    for cost in costs(rng, k):
        assert_same(*both_ways(few_words(rng, n, k, most), cost=cost))
        assert_same(*both_ways(few_words(rng, 1, k, most), few_words(rng, 3, k, most), cost=cost))
    between = np.ascontiguousarray(rng.random((k, 270)))
    assert_same(*both_ways(few_words(rng, 2, k, most), few_words(rng, 3, 270, most), cost=between))


@pytest.mark.parametrize(("k", "l"), [(1, 1), (1, 5), (7, 3), (64, 2), (20, 70), (70, 20), (200, 9)])
def test_so_it_is_between_two_sets_of_anchors(k, l):
    rng = np.random.default_rng(k)
    for cost in (rng.random((k, l)), rng.integers(0, 3, (k, l)).astype(float)):
        assert_same(*both_ways(rows(rng, 2, k), rows(rng, 3, l), cost=cost, n_jobs=2))


def test_a_cost_that_is_almost_symmetric_is_looked_at_as_usual():
    rng = np.random.default_rng(0)
    for k in (9, 90):
        cost = metric(rng, k)
        cost[0, 1] += 1e-13
        assert_same(*both_ways(rows(rng, 2, k), cost=cost))
        assert_same(*both_ways(rows(rng, 2, k), rows(rng, 2, k), cost=cost))


def test_small_histograms_do_take_the_shortest_way(monkeypatch):
    taken = []
    solve = few_histograms.solve
    monkeypatch.setattr(few_histograms, "solve", lambda *given: taken.append(solve(*given)) or taken[-1])
    rng = np.random.default_rng(0)
    cases = (
        (5, 2, True),
        (2, 98, True),
        (2, 99, False),
        (64, 4, True),
        (150, 2, True),
        (30, 200, False),
        (300, 2, False),
    )
    for k, n, short in cases:
        taken.clear()
        asot.emd_many(rng.dirichlet(np.ones(k), n), cost=metric(rng, k))
        assert any(found is not None for found in taken) == short
    for k, n, most, short in ((1500, 2, 2, True), (600, 40, 10, True), (600, 2, 50, True), (600, 90, 10, False)):
        taken.clear()
        asot.emd_many(few_words(rng, n, k, most), cost=metric(rng, k))
        assert any(found is not None for found in taken) == short
    taken.clear()
    A, cost = rng.dirichlet(np.ones(5), 2), metric(rng, 5)
    asot.emd_many(A, cost=cost, pairs=[(0, 1)])
    asot.emd_many(A, cost=cost, sink=asot.sinks.Dense())
    asot.emd_many(A, cost=cost, plans=True)
    for odd in (A.tolist(), A.astype(np.float32)):
        asot.emd_many(odd, cost=cost)
    assert all(found is None for found in taken)


@pytest.mark.parametrize(
    ("A", "cost", "message"),
    [
        ([[np.nan, 1.0], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]], "histogram 0 of A is nan"),
        ([[1.0, 0.0], [-1.0, 2.0]], [[0.0, 1.0], [1.0, 0.0]], "histogram 1 of A has a negative mass"),
        ([[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]], "histogram 1 of A has zero total mass"),
        ([[1.0, 0.0], [0.0, 1.0]], [[0.0, np.inf], [1.0, 0.0]], r"cost\[0, 1\] is inf"),
        ([[1.0, 0.0], [0.0, 1.0]], [[0.0, -1.0], [-1.0, 0.0]], r"cost\[0, 1\] is negative"),
        ([[1.0, 0.0], [0.0, 1.0]], [[0.0, 2.0], [1.0, 0.0]], "not symmetric"),
        ([[1.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 0.0]], "zero diagonal"),
        ([[1.0, 0.0, 0.0]], [[0.0, 2.0], [2.0, 0.0]], "3 anchors"),
    ],
)
def test_bad_histograms_and_costs_are_refused_as_ever(A, cost, message):
    with pytest.raises(ValueError, match=message):
        asot.emd_many(np.array(A), cost=np.array(cost))


@pytest.mark.parametrize("option", [{"device": "tpu"}, {"n_jobs": 0}, {"memory": -1}, {"progress": "often"}])
def test_bad_options_are_refused_for_one_pair_too(option):
    with pytest.raises(ValueError, match=r"device|n_jobs|memory|progress"):
        asot.emd_many(np.eye(2), cost=1.0 - np.eye(2), **option)


def test_a_quick_result_travels_and_has_all_its_fields():
    made = asot.emd_many(np.eye(2), cost=1.0 - np.eye(2))
    for r in (pickle.loads(pickle.dumps(made)), made):
        assert r.values.tolist() == [1.0]
        assert r.model is None
        assert r.offsets is None
        assert not hasattr(r, "nothing")
        assert r.info["n_pairs"] == 1
        assert r.matrix().tolist() == [[0.0, 1.0], [1.0, 0.0]]
