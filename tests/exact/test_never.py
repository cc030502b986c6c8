"""A cost that means "never" takes no digits from the others of a shared cost, on whichever way it is solved."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import asot
from asot.exact.cancel_and_check import CancelAndCheck, looks_like_metric
from asot.exact.shared_cost import ExactSharedCost
from tests.oracles import highs_values

STOP = np.zeros(1, np.int64)
NEVER = [1e6, 1e9, 1e15, 1e30, 1e300]
ORDINARY = 10.0
"""Above any sum of two costs in these tests, and next to nothing beside those that mean "never"."""


def barred(k, l, seed=0, share=0.15):
    """Costs (k, l) below 1, and which of them mean "never"."""
    rng = np.random.default_rng(seed)
    return rng.random((k, l)), rng.random((k, l)) < share


def histograms(n, k, seed=1, share=1.0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(k), n) * (rng.random((n, k)) < share)


def every_pair(n, m):
    return np.array(list(itertools.product(range(n), range(m))))


@pytest.mark.parametrize("never", NEVER)
@pytest.mark.parametrize("k", [6, 30, 70, 140])
def test_values_are_those_of_the_costs_in_use(k, never):
    cost, mask = barred(k, k + 3)
    A, B = histograms(3, k), histograms(2, k + 3, seed=2)
    pairs = every_pair(3, 2)
    expected = highs_values(A, B, np.where(mask, ORDINARY, cost), pairs)
    given = np.where(mask, never, cost)
    few, many = asot.emd_many(A, B, cost=given), asot.emd_many(A, B, cost=given, pairs=pairs)
    np.testing.assert_allclose(few.values, expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(few.values, many.values)


@pytest.mark.parametrize("never", NEVER)
@pytest.mark.parametrize("k", [6, 30, 140])
def test_plans_and_potentials_prove_the_value(k, never):
    cost, mask = barred(k, k)
    A, B = histograms(3, k), histograms(2, k, seed=2)
    given = np.where(mask, never, cost)
    r = asot.emd_many(A, B, cost=given, plans=True)
    np.testing.assert_allclose(r.values, asot.emd_many(A, B, cost=given).values, rtol=1e-14)
    for t, (i, j) in enumerate(every_pair(3, 2)):
        a, b = A[i] / A[i].sum(), B[j] / B[j].sum()
        _, plan, (f, g) = r.plans[t]
        plan = plan.toarray()
        assert not plan[mask].any()
        assert (f[:, None] + g - given).max() <= 1e-12
        assert f @ a + g @ b == pytest.approx(r.values[t], abs=1e-12)
        np.testing.assert_allclose(plan.sum(1), a, atol=1e-15)


@pytest.mark.parametrize("never", NEVER)
def test_rows_with_few_anchors_keep_their_digits(never):
    k = 300
    rng = np.random.default_rng(0)
    cost, mask = barred(k, k)
    A, B = np.zeros((4, k)), np.zeros((3, k))
    for row in (*A, *B):
        row[rng.choice(k, 25, replace=False)] = rng.random(25)
    expected = highs_values(A, B, np.where(mask, ORDINARY, cost), every_pair(4, 3))
    given = np.where(mask, never, cost)
    few, many = asot.emd_many(A, B, cost=given), asot.emd_many(A, B, cost=given, pairs=every_pair(4, 3))
    assert few.info["common_mass_canceled"] is False
    for r in (few, many):
        np.testing.assert_allclose(r.values, expected, rtol=0, atol=1e-12)


def islands(k, apart, seed=0):
    """Distances (2k, 2k) between points on two islands, and histograms (4, 2k) with half of their mass on either."""
    rng = np.random.default_rng(seed)
    points = rng.random((2 * k, 2))
    cost = np.linalg.norm(points[:, None] - points, axis=-1)
    cost[:k, k:] = cost[k:, :k] = apart
    parts = rng.multinomial(2**20, np.full(k, 1 / k), (4, 2)).reshape(4, 2 * k)
    return cost, parts / 2.0**21


@pytest.mark.parametrize("apart", [1e6, 1e15, 1e300])
@pytest.mark.parametrize("k", [15, 60])
def test_islands_that_are_far_apart_keep_their_digits(k, apart):
    cost, H = islands(k, apart)
    pairs = np.array(list(itertools.combinations(range(4), 2)))
    expected = highs_values(H, H, np.minimum(cost, ORDINARY), pairs)
    r = asot.emd_many(H, cost=cost)
    np.testing.assert_allclose(r.values, expected, rtol=0, atol=1e-12)
    assert looks_like_metric(cost)
    for solver in (ExactSharedCost(H, None, cost, cancel=True), CancelAndCheck(H, None, cost, cancel=True)):
        found = solver.solve(*np.ascontiguousarray(pairs.T), STOP)
        np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("apart", [1e6, 1e15, 1e300])
def test_trees_of_islands_prove_their_value(apart):
    cost, H = islands(15, apart)
    rows, columns = np.triu_indices(4, 1)
    solver = ExactSharedCost(H, None, cost, cancel=True)
    trees = solver.solve_trees(rows, columns, STOP)
    np.testing.assert_array_equal(trees.values, solver.solve(rows, columns, STOP).values)
    for t, (i, j) in enumerate(zip(rows, columns, strict=True)):
        f = trees.potential[t]
        assert np.all(f[:, None] - f <= cost + 1e-12)
        assert f @ (H[i] - H[j]) == pytest.approx(trees.values[t], abs=1e-12)


def test_a_broken_triangle_stays_broken_beside_a_cost_that_means_never():
    rng = np.random.default_rng(0)
    cost = np.full((80, 80), 1e15)
    cost[:3, :3] = [[0.0, 0.4, 1.5], [0.4, 0.0, 0.6], [1.5, 0.6, 0.0]]  # 1.5 > 0.4 + 0.6
    np.fill_diagonal(cost, 0.0)
    H = np.zeros((2, 80))
    H[:, :3] = [[0.25, 0.15, 0.1], [0.1, 0.1, 0.3]]
    H[:, 3:] = rng.multinomial(2**20, np.full(77, 1 / 77)) / 2.0**21
    for solver in (ExactSharedCost(H, None, cost, cancel=False), CancelAndCheck(H, None, cost, cancel=True)):
        found = solver.solve(np.array([0]), np.array([1]), STOP)
        assert found.values[0] == pytest.approx(0.205, rel=1e-14)


@pytest.mark.parametrize("never", [1e9, 1e15, 1e300])
def test_matchings_of_three_are_right_to_the_last_digit(never):
    for seed in range(50):
        cost, mask = barred(3, 3, seed, share=0.3)
        given = np.where(mask, never, cost)
        row = np.full((1, 3), 0.25)
        row[0, 0] = 0.5
        exact = min(_exact_values(given, (2, 1, 1)))
        found = asot.emd_many(row, row, cost=given).values[0]
        assert found == pytest.approx(float(exact), rel=1e-15)


def _exact_values(cost, masses):
    """The values of all plans in quarters between equal masses, in rational numbers."""
    places = [x for x, mass in enumerate(masses) for _ in range(mass)]
    for order in itertools.permutations(places):
        yield sum((Fraction(cost[i, j]) for i, j in zip(places, order, strict=True)), Fraction(0)) / 4


def test_a_cost_that_means_never_is_paid_where_there_is_no_other_way():
    cost = np.array([[1e18, 1e18, 1.0], [1e18, 1e18, 2.0], [0.5, 0.25, 3.0]])
    third = np.full((1, 3), 1 / 3)
    assert asot.emd_many(third, third, cost=cost).values[0] == pytest.approx(1e18 / 3)


@pytest.mark.parametrize("k", [30, 140])
def test_three_sizes_of_costs_are_told_apart(k):
    cost, first = barred(k, k, share=0.3)
    _, second = barred(k, k, seed=3, share=0.3)
    A, B = histograms(2, k), histograms(2, k, seed=2)
    values = [
        asot.emd_many(A, B, cost=np.where(second, far, np.where(first, near, cost))).values
        for far, near in ((1e30, 1e15), (ORDINARY, ORDINARY))
    ]
    np.testing.assert_allclose(values[0], values[1], rtol=1e-13)


@pytest.mark.parametrize("never", [*NEVER, 1e18])
@pytest.mark.parametrize(("n", "each"), [(3, 1), (7, 1), (11, 1), (3, 2), (5, 3), (40, 1)])
@pytest.mark.parametrize("way", ["few", "many", "sparse", "plans"])
def test_equal_masses_leave_no_crumbs_for_costs_that_mean_never(way, n, each, never):
    """Every row may go to columns of its own only, which hold as much; thirds are no whole numbers of units."""
    rng = np.random.default_rng(n)
    own = np.repeat(np.eye(n), each, axis=1)[rng.permutation(n)] > 0
    cost = np.where(own, rng.random(own.shape), never)
    expected = cost[own].mean()
    A, B = np.full((1, n), 1 / n), np.full((1, n * each), 1 / (n * each))
    if way == "sparse":  # among anchors without mass
        cost = np.pad(cost, (0, 1500), constant_values=0.5)
        A, B = (np.pad(rows, ((0, 0), (0, 1500))) for rows in (A, B))
    if way == "many":
        A, B = np.repeat(A, 40, axis=0), np.repeat(B, 40, axis=0)
    r = asot.emd_many(A, B, cost=cost, plans=way == "plans")
    np.testing.assert_allclose(r.values, expected, rtol=1e-14)
    if way == "plans":
        assert own[r.plans.source, r.plans.sink].all()


def parts_of_their_own(sizes, each, seed):
    """Histograms of counts: the rows of each part have as much mass as its columns, where alone they may go. Masses
    (n,) and (m,), and which pairs (n, m) are in one part."""
    rng = np.random.default_rng(seed)
    rows, columns = (np.concatenate([rng.multinomial(each, np.full(n, 1 / n)) for n in side]) for side in sizes)
    own = np.repeat(np.arange(len(sizes[0])), sizes[0])[:, None] == np.repeat(np.arange(len(sizes[1])), sizes[1])
    at = rows > 0, columns > 0
    return rows[at[0]] / rows.sum(), columns[at[1]] / columns.sum(), own[np.ix_(*at)]


WAYS = {
    "few": lambda a, b, cost: asot.emd_many(a[None], b[None], cost=cost).values[0],
    "many": lambda a, b, cost: asot.emd_many(np.tile(a, (40, 1)), np.tile(b, (40, 1)), cost=cost).values[0],
    "plans": lambda a, b, cost: asot.emd_many(a[None], b[None], cost=cost, plans=True).values[0],
    "sparse": lambda a, b, cost: asot.emd_many(
        np.pad(a, (0, 1500))[None],
        np.pad(b, (0, 1500))[None],
        cost=np.pad(cost, (0, 1500), constant_values=0.5),
    ).values[0],
    "one": lambda a, b, cost: asot.emd(a, b, cost).value,
    "batch": lambda a, b, cost: asot.emd_batch(cost[None], a=a[None], b=b[None]).values[0],
}


@pytest.mark.parametrize("never", NEVER)
@pytest.mark.parametrize(
    ("sizes", "each"), [(([2, 1], [1, 2]), 3), (([2, 3, 4], [3, 1, 2]), 7), (([5] * 6, [4] * 6), 100)]
)
@pytest.mark.parametrize("way", WAYS)
def test_masses_of_counts_leave_no_crumbs_for_costs_that_mean_never(way, sizes, each, never):
    for seed in range(5):
        a, b, own = parts_of_their_own(sizes, each, seed)
        cost = np.random.default_rng(seed).random(own.shape)
        expected = WAYS[way](a, b, np.where(own, cost, ORDINARY * len(a)))
        assert WAYS[way](a, b, np.where(own, cost, never)) == pytest.approx(expected, rel=1e-12)


def test_plans_of_counts_ship_what_is_there_and_nothing_that_means_never():
    a, b, own = parts_of_their_own(([5] * 6, [4] * 6), 100, seed=0)
    cost = np.where(own, np.random.default_rng(0).random(own.shape), 1e15)
    _, one, _ = asot.emd(a, b, cost)
    for plan in (one.toarray(), asot.emd_batch(cost[None], a=a[None], b=b[None], plans=True).plan(0).toarray()):
        assert not plan[~own].any()
        np.testing.assert_allclose(plan.sum(1), a, rtol=0, atol=1e-16)
        np.testing.assert_allclose(plan.sum(0), b, rtol=0, atol=1e-16)


@pytest.mark.parametrize("low", [-1e3, -1e9, -1e18])
def test_costs_of_rows_without_mass_take_no_digits(low):
    rng = np.random.default_rng(0)
    cost, mask = rng.random((8, 8)), rng.random((8, 8)) < 0.2
    np.fill_diagonal(mask, False)
    a, b = np.append(0.0, rng.dirichlet(np.ones(7))), rng.dirichlet(np.ones(8))
    cost[0], mask[0] = low, False
    expected = asot.emd_batch(np.where(mask, ORDINARY, cost)[None, 1:], a=a[None, 1:], b=b[None]).values
    for never in (1e15, 1e18):
        found = asot.emd_batch(np.where(mask, never, cost)[None], a=a[None], b=b[None]).values
        np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("apart", [1e6, 1e15, 1e300])
@pytest.mark.parametrize("kind", [ExactSharedCost, CancelAndCheck])
def test_counts_on_islands_leave_no_crumbs_where_they_cancel(kind, apart):
    """Masses of one anchor that are the same may differ by a unit, which has to go nowhere."""
    rng = np.random.default_rng(0)
    cost, _ = islands(8, apart)
    totals = [10, 30, 70, 70, 101, 1000]
    H = np.array([rng.multinomial(n, np.full(8, 1 / 8), 2).ravel() / (2.0 * n) for n in totals])
    pairs = np.ascontiguousarray(np.triu_indices(len(H), 1))
    found, expected = (
        kind(H, None, each, cancel=True).solve(*pairs, STOP).values for each in (cost, np.minimum(cost, ORDINARY))
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
