"""`asot.emd_batch`: problems with costs of their own, against HiGHS and SciPy's assignment."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

import asot
from tests.oracles import highs_values


def problems(seed, B=40, most=12):
    rng = np.random.default_rng(seed)
    shapes = rng.integers(1, most, size=(B, 2))
    costs = [rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4) for shape in shapes]
    a, b = ([rng.dirichlet(np.ones(k)) for k in shapes[:, side]] for side in (0, 1))
    for masses in (*a, *b):
        if len(masses) > 2 and rng.random() < 0.3:
            masses[0], masses[1] = masses[0] + masses[1], 0.0
    return costs, a, b


def highs(a, b, cost):
    """The value by HiGHS, which wants costs ≥ 0; the potentials below prove it to 1e-11."""
    low = cost.min()
    return (
        highs_values(a[None], b[None], (cost - low) / np.ptp(cost), [(0, 0)])[0] * np.ptp(cost) + low
        if np.ptp(cost)
        else low
    )


@pytest.mark.parametrize("seed", range(5))
def test_values_plans_and_potentials_agree_with_highs_and_with_each_other(seed):
    costs, a, b = problems(seed)
    r = asot.emd_batch(costs, a, b, plans=True)
    for t, cost in enumerate(costs):
        size = np.abs(cost).max()
        assert r.values[t] == pytest.approx(highs(a[t], b[t], cost), abs=1e-8 * size)
        plan, (f, g) = r.plan(t).toarray(), r.potentials(t)
        np.testing.assert_allclose(plan.sum(1), a[t], atol=1e-15)
        np.testing.assert_allclose(plan.sum(0), b[t], atol=1e-15)
        assert (plan * cost).sum() == pytest.approx(r.values[t], abs=1e-13 * size)
        assert (f[:, None] + g <= cost + 1e-14 * size).all()
        assert f @ a[t] + g @ b[t] == pytest.approx(r.values[t], abs=1e-11 * size)
        assert np.count_nonzero(plan) <= sum(cost.shape) - 1


@pytest.mark.parametrize("n", [1, 2, 25, 90, 300])
def test_equal_masses_are_assignments(n):
    costs = np.random.default_rng(n).random((3, n, n))
    r = asot.emd_batch(costs, plans=True)
    for t, cost in enumerate(costs):
        assert r.values[t] == pytest.approx(cost[linear_sum_assignment(cost)].mean(), rel=1e-13)


@pytest.mark.parametrize("n", [256, 301])
@pytest.mark.parametrize("kind", ["uniform", "negative", "ties", "one cost", "few levels", "between", "plane", "space"])
def test_assignments_of_many_sources_are_optimal(n, kind):
    """These bid from short lists: ties go past their ends, and a plane makes long chains."""
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=(2, n, 3 if kind == "space" else 2))
    cost = {
        "uniform": lambda: rng.random((n, n)),
        "negative": lambda: rng.normal(size=(n, n)) - 3.0,
        "ties": lambda: rng.integers(0, 2 * n, (n, n)).astype(float),
        "one cost": lambda: np.full((n, n), 2.5),
        "few levels": lambda: rng.integers(0, 5, (n, n)).astype(float),
        "between": lambda: np.where(rng.random((n, n)) < 0.15, 0.3, 1.0),  # 0.3 of the integers is none
        "plane": lambda: cdist(x, y, "sqeuclidean"),
        "space": lambda: cdist(x, y),
    }[kind]()
    r = asot.emd_batch([cost], plans=True)
    assert r.values[0] == pytest.approx(cost[linear_sum_assignment(cost)].mean(), rel=1e-12)
    plan, (f, g) = r.plan(0), r.potentials(0)
    assert plan.nnz == n
    np.testing.assert_allclose(plan.sum(0), 1 / n, rtol=1e-12)
    np.testing.assert_allclose(plan.sum(1), 1 / n, rtol=1e-12)
    size = np.abs(cost).max()
    assert (f[:, None] + g <= cost + 1e-14 * size).all()
    assert f.mean() + g.mean() == pytest.approx(r.values[0], abs=1e-9 * size)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_assignments_of_many_sources_with_costs_of_extreme_size(scale):
    cost = np.random.default_rng(0).random((260, 260))
    plain = asot.emd_batch([cost]).values[0]
    assert asot.emd_batch([cost * scale]).values[0] / scale == pytest.approx(plain, rel=1e-12)


def test_an_array_and_a_list_of_its_matrices_are_the_same_problems():
    rng = np.random.default_rng(0)
    costs, a, b = rng.random((9, 4, 6)), rng.dirichlet(np.ones(4), 9), rng.dirichlet(np.ones(6), 9)
    assert (asot.emd_batch(costs, a, b).values == asot.emd_batch(list(costs), list(a), list(b)).values).all()


def test_padding_does_not_count():
    rng = np.random.default_rng(1)
    costs, n, m = rng.random((8, 7, 9)), rng.integers(1, 8, 8), rng.integers(1, 10, 8)
    padded = costs.copy()
    for t in range(8):
        padded[t, n[t] :] = padded[t, :, m[t] :] = np.nan
    r = asot.emd_batch(padded, n=n, m=m, plans=True)
    alone = asot.emd_batch([cost[:i, :j] for cost, i, j in zip(costs, n, m, strict=True)], plans=True)
    assert (r.values == alone.values).all()
    assert (r.plan(3).toarray() == alone.plan(3).toarray()).all()


def test_no_answer_depends_on_the_other_problems():
    costs, a, b = problems(7)
    together = asot.emd_batch(costs, a, b).values
    alone = [asot.emd_batch([c], [x], [y]).values[0] for c, x, y in zip(costs, a, b, strict=True)]
    assert np.abs(together - alone).max() <= 1e-15 * max(np.abs(c).max() for c in costs)


def test_totals_other_than_one_scale_values():
    costs, a, b = problems(3, B=5)
    thrice = asot.emd_batch(costs, [3 * x for x in a], [3 * x for x in b]).values
    np.testing.assert_allclose(thrice, 3 * asot.emd_batch(costs, a, b).values, rtol=1e-14)


@pytest.mark.parametrize("total", [1e-305, 1e-300, 1e300])
def test_totals_of_any_size(total):
    """A unit of 2^-60 of the smallest is less than the smallest number with all digits."""
    costs, a, b = np.random.default_rng(0).random((4, 3, 5)), np.full((4, 3), total / 3), np.full((4, 5), total / 5)
    plain, scaled = asot.emd_batch(costs), asot.emd_batch(costs, a, b, plans=True)
    np.testing.assert_allclose(scaled.values / total, plain.values, rtol=1e-14)
    np.testing.assert_allclose(scaled.plan(1).sum(axis=1) / total, np.full(3, 1 / 3), rtol=1e-14)


def test_a_problem_without_mass_is_free():
    r = asot.emd_batch(np.ones((2, 3, 3)), [[0, 0, 0], [1, 0, 0]], [[0, 0, 0], [0, 1, 0]], plans=True)
    assert r.values.tolist() == [0.0, 1.0]
    assert r.plan(0).nnz == 0
    assert len(asot.emd_batch(np.ones((0, 3, 3)))) == 0


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e12, 1e300])
def test_costs_of_any_size(scale):
    costs, a, b = problems(5, B=6)
    costs = [cost / np.abs(cost).max() for cost in costs]
    plain = asot.emd_batch(costs, a, b).values
    np.testing.assert_allclose(asot.emd_batch([c * scale for c in costs], a, b).values / scale, plain, atol=1e-13)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_threads_change_nothing(n_jobs):
    costs = np.random.default_rng(0).random((400, 10, 10))
    assert (asot.emd_batch(costs, n_jobs=n_jobs).values == asot.emd_batch(costs).values).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[[1.0, np.nan]]],), "problem 0: the cost of row 0 and column 1 is nan"),
        (([np.ones((2, 2)), np.ones(3)],), "problem 1: its cost must be a matrix"),
        ((np.ones((2, 2)),), r"costs must be an array \(B, n, m\)"),
        ((np.ones((2, 2, 2)), [[1, 0], [1, -1]], None), "problem 1: a holds the mass -1.0 at 1"),
        ((np.ones((2, 2, 2)), [[1, 0], [1, 1]], None), "problem 1: the masses of its rows have the total 2"),
        ((np.ones((2, 2, 2)), np.ones((2, 3)), None), r"a must be an array \(2, 2\)"),
        (([np.ones((2, 2))], [[1.0]], None), r"problem 0: a must have shape \(2,\)"),
    ],
)
def test_bad_input_names_the_problem(arguments, message):
    with pytest.raises(ValueError, match=message):
        asot.emd_batch(*arguments)


def test_sizes_beyond_the_costs_are_refused():
    with pytest.raises(ValueError, match="problem 1: n is 3, but its costs have room for 0 to 2"):
        asot.emd_batch(np.ones((2, 2, 2)), n=[2, 3])
    with pytest.raises(ValueError, match="matrices of a list have their own sizes"):
        asot.emd_batch([np.ones((2, 2))], n=[2])


def test_plans_that_were_not_asked_for_are_refused():
    with pytest.raises(ValueError, match="plans=True"):
        asot.emd_batch(np.ones((1, 2, 2))).plan(0)


@pytest.mark.parametrize("never", [1e9, 1e15, 1e30, 1e300])
@pytest.mark.parametrize("size", [12, 40, 300])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_cost_that_means_never_takes_no_digits_from_the_others(never, size, weighted):
    rng = np.random.default_rng(size)
    costs = rng.random((3, size, size)) - 0.2
    masses = rng.dirichlet(np.ones(size), (2, 3)) if weighted else (None, None)
    barred = rng.random(costs.shape) < 0.15
    masked = [np.where(barred, cost, costs) for cost in (never, 1e3)]
    r, expected = (asot.emd_batch(each, *masses, plans=True) for each in masked)
    np.testing.assert_allclose(r.values, expected.values, atol=1e-13)
    for t in range(3):
        f, g = r.potentials(t)
        assert (f[:, None] + g - masked[0][t]).max() <= 1e-14
        a, b = (np.full(size, 1 / size),) * 2 if masses[0] is None else (masses[0][t], masses[1][t])
        assert f @ a + g @ b == pytest.approx(r.values[t], abs=1e-10)


@pytest.mark.parametrize("never", [1e9, 1e15, 1e300])
@pytest.mark.parametrize("shape", [(3, 3), (7, 7), (300, 300), (6, 9)])
def test_masses_that_are_all_the_same_leave_no_crumbs_for_costs_that_mean_never(never, shape):
    """Sums of 1/3 miss 1 by a crumb of rounding. Only a few costs are left, so that it had to pay the large one."""
    rng = np.random.default_rng(0)
    n, m = shape
    costs = np.where(np.arange(n)[:, None] % 3 == np.arange(m) % 3, rng.random(shape), never)
    expected = asot.emd_batch([costs], plans=True)
    given = [[np.full(k, 5 / k)] for k in shape]
    r = asot.emd_batch([costs], *given, plans=True)
    np.testing.assert_allclose(r.values, 5 * expected.values, rtol=1e-14)
    np.testing.assert_allclose(r.plan(0).toarray(), 5 * expected.plan(0).toarray(), rtol=1e-14)
    assert asot.emd_batch([costs], np.zeros((1, n)), np.zeros((1, m))).values[0] == 0


def test_a_cost_that_means_never_is_paid_where_there_is_no_other_way():
    cost = np.array([[1e18, 1e18, 1.0], [1e18, 1e18, 2.0], [0.5, 0.25, 3.0]])
    assert asot.emd_batch([cost]).values[0] == pytest.approx(1e18 / 3)
    assert asot.emd(np.full(3, 1 / 3), np.full(3, 1 / 3), cost).value == pytest.approx(1e18 / 3)


def test_three_sizes_of_costs_are_told_apart():
    rng = np.random.default_rng(0)
    cost = rng.random((30, 30))
    cost[rng.random((30, 30)) < 0.3] = 1e15
    cost[rng.random((30, 30)) < 0.3] = 1e30
    lower = np.minimum(cost, 100.0)
    np.testing.assert_allclose(asot.emd_batch([cost]).values, asot.emd_batch([lower]).values, rtol=1e-13)
    a = np.full(30, 1 / 30)
    assert asot.emd(a, a, cost).value == pytest.approx(asot.emd(a, a, lower).value, rel=1e-13)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("size", [5, 8, 70, 300])
@pytest.mark.parametrize("masses", ["uniform", "some are 0", "all are 0"])
def test_a_cost_that_is_no_number_is_named_whoever_would_read_it(wrong, size, masses):
    rng = np.random.default_rng(size)
    costs, a = rng.random((3, size, size)), np.ones((3, size))
    i, j = (int(k) for k in rng.integers(0, size, 2))
    costs[1, i, j] = wrong
    a[1, i] = a[1, i] if masses == "uniform" else 0.0
    a[1] = 0.0 if masses == "all are 0" else a[1]
    with pytest.raises(ValueError, match=rf"problem 1: the cost of row {i} and column {j} is {wrong}"):
        asot.emd_batch(costs, a, a)
