"""Entropic distances of many pairs: against a long-double reference, the textbook loop, POT, and their limits."""

from __future__ import annotations

import re
import threading

import numpy as np
import ot
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import asot
from asot import Status
from asot.entropic.cpu import KERNEL_RANGE, SinkhornSharedCost, log_domain_pays
from asot.entropic.options import SinkhornOptions
from tests.oracles import entropic_values, sinkhorn_sweeps
from tests.strategies import METRICS, histograms_of_every_kind, metric_cost, rectangular_problems

REGS = (1e-4, 1e-3, 4e-3, 1e-2, 0.1, 1.0, 10.0)
"""ε in units of the largest cost. The kernel is formed from 1/KERNEL_RANGE = 5e-3 on."""

every_reg = pytest.mark.parametrize("reg", REGS)


def euclidean(rng, k, l=None):
    points = rng.normal(size=(k, 2))
    return cdist(points, points if l is None else rng.normal(size=(l, 2)))


def random_histograms(rng, n, k):
    return rng.dirichlet(np.ones(k), n)


def assert_close(values, expected, cost, rtol=1e-8):
    """1e-8 of the value; 1e-12 of the largest cost is what rounding C/ε leaves of it."""
    np.testing.assert_allclose(values, expected, rtol=rtol, atol=1e-12 * np.max(cost))


def assert_agrees_with_the_reference(A, B, pairs, cost, reg):
    """Both values and all statuses of the listed pairs, where the reference itself is one (and it nearly always is)."""
    transport, regularized, error = entropic_values(A[pairs[:, 0]], B[pairs[:, 1]], cost, reg)
    settled = error < 5e-13
    assert settled.mean() > 0.8
    pairs, transport, regularized = pairs[settled], transport[settled], regularized[settled]
    result = asot.sinkhorn_many(A, B, cost=cost, reg=reg, pairs=pairs)
    assert_close(result.values, transport, cost)
    np.testing.assert_array_equal(result.status, Status.CONVERGED)
    assert result.marginal_error.max() < 1e-9
    values = asot.sinkhorn_many(A, B, cost=cost, reg=reg, pairs=pairs, value="regularized").values
    # ⟨T, C⟩ and ε H(T) may cancel: their accuracy is of their own sizes
    assert np.all(np.abs(values - regularized) <= 1e-8 * (np.abs(transport) + reg) + 1e-12 * np.max(cost))


def some_pairs(rng, n_rows, n_columns, count):
    pairs = np.argwhere(np.ones((n_rows, n_columns)))
    return pairs[rng.permutation(len(pairs))[:count]]


# ------------------------------------------------------------------------------------------- the reference


@every_reg
@pytest.mark.parametrize("metric", METRICS)
def test_values_agree_with_a_long_double_reference(metric, reg):
    for k, count in ((1, 3), (2, 30), (3, 30), (17, 30), (60, 5)):
        rng = np.random.default_rng([k, METRICS.index(metric)])
        histograms = histograms_of_every_kind(k, rng)
        cost = metric_cost(metric, k, rng)
        pairs = some_pairs(rng, len(histograms), len(histograms), count)
        assert_agrees_with_the_reference(histograms, histograms, pairs, cost, reg * (cost.max() or 1.0))


def wild_histogram(rng, k):
    kind = rng.integers(6)
    if kind == 0:
        masses = rng.dirichlet(np.ones(k))
    elif kind == 1:
        masses = np.exp(rng.uniform(-40, 0, k))
    elif kind == 2:
        masses = np.exp(rng.uniform(-600, 0, k))
    elif kind == 3:
        masses = np.eye(k)[rng.integers(k)]
    elif kind == 4:
        masses = (rng.random(k) < 0.4) * rng.integers(1, 5, k) + np.eye(k)[rng.integers(k)]
    else:
        masses = np.full(k, 1e-13)
        masses[rng.integers(k)] = 1.0
    return masses / masses.sum()


WILD_COSTS = {
    "uniform": lambda rng, k, l: rng.random((k, l)),
    "euclidean": euclidean,
    "one huge entry": lambda rng, k, l: np.where(np.arange(k * l).reshape(k, l) == k * l - 1, 1e3, rng.random((k, l))),
    "every magnitude": lambda rng, k, l: np.exp(rng.uniform(-20, 0, (k, l))),
    "far clusters": lambda rng, k, l: cdist(
        *(rng.normal(size=(m, 2)) + 100 * rng.integers(0, 3, (m, 1)) for m in (k, l))
    ),
    "squared": lambda rng, k, l: np.subtract.outer(np.arange(k), np.arange(l)) ** 2.0,
    "ties": lambda rng, k, l: rng.integers(0, 3, (k, l)).astype(float),
}


def assert_a_wild_problem_agrees(kind, seed, smallest, regs):
    """Sixteen pairs with at least ``smallest`` anchors; ``regs`` are the exponents of ε / max C."""
    rng = np.random.default_rng([seed, len(kind)])
    k, l = rng.integers(smallest, 25, 2)
    cost = WILD_COSTS[kind](rng, k, l)
    A, B = (np.array([wild_histogram(rng, m) for _ in range(4)]) for m in (k, l))
    reg = 10.0 ** rng.uniform(*regs) * (cost.max() or 1.0)
    assert_agrees_with_the_reference(A, B, np.argwhere(np.ones((4, 4))), cost, reg)


@pytest.mark.parametrize("kind", WILD_COSTS)
def test_wild_rectangular_problems_agree_with_the_reference(kind):
    for seed in range(12):
        assert_a_wild_problem_agrees(kind, seed, smallest=1, regs=(-4, 1))


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("euclidean", 116),
        ("euclidean", 119),
        ("euclidean", 141),
        ("one huge entry", 118),
        ("squared", 103),
        ("ties", 142),
    ],
)
def test_the_hardest_problems_of_a_search_agree_with_the_reference(kind, seed):
    """Masses of every magnitude at small ε: Newton steps stall here unless they are exact and free to go far."""
    assert_a_wild_problem_agrees(kind, seed, smallest=8, regs=(-4, -2))


@given(rectangular_problems(), st.sampled_from(REGS))
def test_small_problems_with_ties_agree_with_the_reference(problem, reg):
    cost, a, b = problem
    assert_agrees_with_the_reference(a[None] / a.sum(), b[None] / b.sum(), np.array([[0, 0]]), cost, reg)


@pytest.mark.parametrize("reg", [1e-4, 1e-3])
def test_a_small_surplus_between_blocks_that_hardly_touch_is_carried_over(reg):
    """The middle anchor has 0.00012 too much, and the kernel between any two anchors is below e^-700."""
    cost = np.array([[0.0, 1.0, 0.74], [1.0, 0.0, 0.79], [0.74, 0.79, 0.0]])
    a, b = np.array([[0.05, 0.20012, 0.74988]]), np.array([[0.45, 0.2, 0.35]])
    result = asot.sinkhorn_many(a, b, cost=cost, reg=reg)
    assert result.status[0] == Status.CONVERGED
    assert result.n_iter[0] < 100
    np.testing.assert_allclose(result.values, asot.emd_many(a, b, cost=cost).values, rtol=1e-8)


@pytest.mark.parametrize("reg", [1e-4, 1e-3])
def test_histograms_that_differ_by_rounding_take_few_iterations(reg):
    rng = np.random.default_rng(8)
    cost, a = euclidean(rng, 60), random_histograms(rng, 1, 60)
    b = a * (1 + 1e-15 * rng.integers(-4, 5, size=60))
    result = asot.sinkhorn_many(a, b, cost=cost, reg=reg * cost.max())
    assert result.status[0] == Status.CONVERGED
    assert result.n_iter[0] < 300


@pytest.mark.parametrize("reg", [6e-3, 1e-2, 1.5e-2])
def test_equal_histograms_converge_where_rounding_hides_the_rate(reg):
    for seed in range(50, 60):
        rng = np.random.default_rng(seed)
        k = int(rng.integers(2, 6))
        cost, histograms = euclidean(rng, k), random_histograms(rng, 20, k)
        pairs = np.stack([np.arange(20)] * 2, axis=1)
        result = asot.sinkhorn_many(histograms, cost=cost, reg=reg * cost.max(), pairs=pairs)
        np.testing.assert_array_equal(result.status, Status.CONVERGED)
        assert result.n_iter.max() < 600


# ------------------------------------------------------------------------------------------- fixed iterations


def textbook(A, B, cost, reg, count, V):
    """⟨T, C⟩ after ``count`` iterations in the kernel domain, a pair per row."""
    K = np.exp(-cost / reg)
    for _ in range(count):
        U = A / (V @ K.T)
        V = B / (U @ K)
    return ((U @ (K * cost)) * V).sum(axis=1)


@pytest.fixture(scope="module")
def fifty():
    rng = np.random.default_rng(50)
    return random_histograms(rng, 12, 30), random_histograms(rng, 12, 30), euclidean(rng, 30)


def run_fifty(A, B, cost, reg, **options):
    pairs = np.stack([np.arange(len(A))] * 2, axis=1)
    return asot.sinkhorn_many(A, B, cost=cost, reg=reg, pairs=pairs, max_iter=50, tol=None, **options)


@pytest.mark.parametrize("reg", [0.05, 0.1, 1.0, 10.0])
def test_fifty_iterations_are_the_textbook_loop(fifty, reg):
    A, B, cost = fifty
    result = run_fifty(A, B, cost, reg)
    np.testing.assert_allclose(result.values, textbook(A, B, cost, reg, 50, np.ones_like(B)), rtol=1e-12)
    np.testing.assert_array_equal(result.status, Status.FIXED_ITERATIONS)
    np.testing.assert_array_equal(result.n_iter, 50)


@pytest.mark.parametrize("reg", [0.05, 0.1, 1.0])
def test_fifty_iterations_from_the_target_are_the_papers_code(fifty, reg):
    A, B, cost = fifty
    result = run_fifty(A, B, cost, reg, init="target")
    expected = textbook(A, B, cost, reg, 50, B)
    np.testing.assert_allclose(result.values, expected, rtol=1e-12)
    if reg < 0.1:
        assert np.abs(result.values - run_fifty(A, B, cost, reg).values).max() > 1e-9  # the start still shows


@pytest.mark.parametrize("init", ["ones", "target"])
@pytest.mark.parametrize("reg", [1e-6, 1e-4, 1e-3, 4e-3, 6e-3])
def test_fifty_iterations_are_the_same_where_the_kernel_underflows(fifty, reg, init):
    A, B, cost = fifty
    reg = reg * cost.max()
    expected = sinkhorn_sweeps(A, B, cost, reg, 50, start_at_target=init == "target")
    result = run_fifty(A, B, cost, reg, init=init)
    assert ("log domain" in result.info["solver"]) == (cost.max() / reg > KERNEL_RANGE)
    np.testing.assert_allclose(result.values, expected, rtol=1e-10)


@pytest.mark.parametrize("count", [2, 3, 5, 50])
def test_a_mass_whose_scaling_vanishes_has_a_value(count):
    """Half of the mass moves by 897 ε; u of the first anchor is below the range of float64."""
    how = {"cost": [[0.0, 897.0], [897.0, 0.0]], "reg": 1.0, "tol": None, "max_iter": count, "device": "cpu"}
    for value, expected in (("transport", 448.5), ("regularized", 448.5 - 1.0 - np.log(2.0))):
        values = asot.sinkhorn_many([[1e-300, 1.0]], [[0.5, 0.5]], value=value, **how).values
        np.testing.assert_allclose(values, expected, rtol=1e-12)


def test_a_raised_stop_ends_a_long_run_at_small_reg(fifty):
    A, B, cost = fifty
    stop = np.zeros(1, dtype=np.int64)
    how = {"reg": 1e-3 * cost.max(), "max_iter": 2**31 - 1, "tol": None}  # an hour and more
    solver = SinkhornSharedCost(A, B, cost, SinkhornOptions(**how))
    timer = threading.Timer(0.2, stop.fill, [1])
    timer.start()
    solver.solve(np.array([0]), np.array([1]), stop)
    assert stop[0] == 1


def test_fifty_iterations_work_with_anchors_that_carry_nothing():
    rng = np.random.default_rng(3)
    A, cost = histograms_of_every_kind(10, rng), euclidean(rng, 10)
    for reg in (1e-3, 0.1, 1.0):
        expected = sinkhorn_sweeps(A, A[::-1], cost, reg * cost.max(), 50)
        values = run_fifty(A, A[::-1], cost, reg * cost.max()).values
        np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-13 * cost.max())


@pytest.mark.parametrize("reg", [1e-4, 1e-2, 1.0])
def test_one_iteration_gives_finite_values_and_says_that_it_was_not_enough(fifty, reg):
    A, B, cost = fifty
    result = asot.sinkhorn_many(A, B, cost=cost, reg=reg * cost.max(), max_iter=1)
    np.testing.assert_array_equal(result.status, Status.MAX_ITER)
    np.testing.assert_array_equal(result.n_iter, 1)
    assert np.isfinite(result.values).all()
    assert np.all((result.values >= 0) & (result.values <= 1.001 * cost.max()))
    assert f"{len(result)} not converged" in repr(result)


@pytest.mark.parametrize("max_iter", [1, 7, 10, 25, 100])
def test_iterations_never_exceed_their_limit(fifty, max_iter):
    A, B, cost = fifty
    for reg in REGS:
        result = asot.sinkhorn_many(A, B, cost=cost, reg=reg * cost.max(), max_iter=max_iter)
        assert result.n_iter.max() <= max_iter
        assert np.isfinite(result.values).all()


# ------------------------------------------------------------------------------------------- per-pair convergence


@pytest.mark.parametrize("reg", [1e-3, 6e-3, 2e-2, 0.1])
def test_a_pair_has_the_same_answer_among_others_as_alone(reg):
    rng = np.random.default_rng(7)
    cost = euclidean(rng, 25)
    easy, hard = np.ones((20, 25)), np.concatenate([np.eye(25)[:10], random_histograms(rng, 10, 25)])
    histograms = np.concatenate([easy, hard])
    pairs = some_pairs(rng, 40, 40, 60)
    together = asot.sinkhorn_many(histograms, histograms, cost=cost, reg=reg * cost.max(), pairs=pairs)
    for t, pair in enumerate(pairs):
        alone = asot.sinkhorn_many(histograms, histograms, cost=cost, reg=reg * cost.max(), pairs=[pair])
        np.testing.assert_allclose(together.values[t], alone.values[0], rtol=1e-9, atol=1e-12 * cost.max())
        assert alone.status[0] == together.status[t]


def test_easy_pairs_leave_before_hard_ones():
    rng = np.random.default_rng(9)
    cost = euclidean(rng, 20)
    histograms = np.concatenate([np.full((1, 20), 0.05), random_histograms(rng, 10, 20)])
    result = asot.sinkhorn_many(histograms, cost=cost, reg=0.1 * cost.max())
    assert result.n_iter.min() < result.n_iter.max()


def test_a_looser_tolerance_takes_fewer_iterations_and_keeps_its_word(fifty):
    A, B, cost = fifty
    reg = 0.1 * cost.max()
    exact = asot.sinkhorn_many(A, B, cost=cost, reg=reg, tol=1e-12).values
    iterations = []
    for tol in (1e-9, 1e-6, 1e-3):
        result = asot.sinkhorn_many(A, B, cost=cost, reg=reg, tol=tol)
        np.testing.assert_allclose(result.values, exact, rtol=tol)
        assert result.marginal_error.max() <= tol
        iterations.append(result.n_iter.sum())
    assert iterations[1] > iterations[2]  # at 1e-9, most pairs take Newton steps, which are fewer


@pytest.mark.parametrize("reg", [1e-3, 1e-2, 0.1])
@pytest.mark.parametrize("value", ["transport", "regularized", "divergence"])
def test_threads_and_memory_do_not_change_the_answer(value, reg):
    rng = np.random.default_rng(10)
    histograms, cost = histograms_of_every_kind(12, rng), euclidean(rng, 12)
    options = {"cost": cost, "reg": reg * cost.max(), "value": value}
    first = asot.sinkhorn_many(histograms, **options).values
    for others in ({"n_jobs": 3}, {"memory": 2000}, {"n_jobs": 2, "memory": "20K"}):
        again = asot.sinkhorn_many(histograms, **options, **others).values
        np.testing.assert_allclose(again, first, rtol=1e-9, atol=1e-12 * cost.max())


# ------------------------------------------------------------------------------------------- what the numbers are


@every_reg
def test_the_regularized_value_is_the_formula(reg):
    """⟨T, C⟩ - ε H(T) with H(T) = -Σ T (log T - 1), of the plan that the textbook loop arrives at."""
    rng = np.random.default_rng(11)
    cost = euclidean(rng, 5, 7)
    a, b = random_histograms(rng, 1, 5), random_histograms(rng, 1, 7)
    reg = max(reg, 1e-2) * cost.max()
    K = np.exp(-cost / reg)
    V = np.ones_like(b)
    for _ in range(20_000):
        U = a / (V @ K.T)
        V = b / (U @ K)
    T = U[0][:, None] * K * V[0]
    expected = (T * cost).sum() + reg * (T * (np.log(T) - 1)).sum()
    value = asot.sinkhorn_many(a, b, cost=cost, reg=reg, value="regularized").values[0]
    np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-9 * reg)


@pytest.mark.parametrize("reg", [1e-3, 1e-2, 0.1, 1.0])
def test_the_divergence_is_three_regularized_values(reg):
    rng = np.random.default_rng(12)
    cost = euclidean(rng, 9)
    A, B = histograms_of_every_kind(9, rng)[:12], random_histograms(rng, 4, 9)
    reg = reg * cost.max()

    def regularized(first, second):
        return asot.sinkhorn_many(first, second, cost=cost, reg=reg, value="regularized").matrix()

    own_a, own_b = np.diagonal(regularized(A, A)), np.diagonal(regularized(B, B))
    result = asot.sinkhorn_many(A, B, cost=cost, reg=reg, value="divergence")
    np.testing.assert_allclose(
        result.matrix(), regularized(A, B) - (own_a[:, None] + own_b) / 2, atol=1e-8 * (reg + cost.max())
    )
    within = asot.sinkhorn_many(A, cost=cost, reg=reg, value="divergence").matrix()
    expected = regularized(A, A) - (own_a[:, None] + own_a) / 2
    np.testing.assert_allclose(within, expected - np.diag(np.diagonal(expected)), atol=1e-8 * (reg + cost.max()))
    assert result.info["value"] == "divergence"


@every_reg
def test_the_divergence_is_a_divergence(reg):
    rng = np.random.default_rng(13)
    cost = euclidean(rng, 15)
    histograms = histograms_of_every_kind(15, rng)[:14]
    result = asot.sinkhorn_many(histograms, histograms, cost=cost, reg=reg * cost.max(), value="divergence")
    matrix, slack = result.matrix(), 1e-9 * (1 + reg) * cost.max()
    np.testing.assert_array_equal(result.status, Status.CONVERGED)
    assert matrix.min() >= -slack
    np.testing.assert_allclose(matrix, matrix.T, atol=slack)
    np.testing.assert_allclose(np.diagonal(matrix), 0.0, atol=slack)
    np.testing.assert_allclose(matrix[0, 1], 0.0, atol=slack)  # rows 0 and 1 are equal
    assert matrix[0, 7] > 1e-4 * cost.max()


def test_a_divergence_is_unfinished_where_any_of_its_parts_is():
    rng = np.random.default_rng(14)
    cost = euclidean(rng, 10)
    histograms = np.concatenate([np.eye(10)[:2], random_histograms(rng, 2, 10)])
    result = asot.sinkhorn_many(histograms, cost=cost, reg=1e-2 * cost.max(), value="divergence", max_iter=10)
    unfinished = result.matrix() * 0 + np.inf
    unfinished[tuple(result.pairs.T)] = result.status
    assert unfinished[0, 1] == Status.CONVERGED
    assert unfinished[0, 2] == unfinished[2, 3] == Status.MAX_ITER


def test_auto_is_a_twentieth_of_the_median_positive_cost(fifty):
    A, B, cost = fifty
    reg = 0.05 * np.median(cost[cost > 0])
    result = asot.sinkhorn_many(A, B, cost=cost, reg="auto")
    np.testing.assert_array_equal(result.values, asot.sinkhorn_many(A, B, cost=cost, reg=reg).values)
    assert result.info["reg"] == reg


def test_auto_has_an_answer_where_all_costs_are_zero():
    np.testing.assert_array_equal(asot.sinkhorn_many(np.eye(3), cost=np.zeros((3, 3)), reg="auto").values, 0.0)


def test_the_result_says_what_the_numbers_are():
    info = asot.sinkhorn_many(np.eye(3), cost=1 - np.eye(3), reg=0.5, max_iter=77, tol=1e-6).info
    assert {key: info[key] for key in ("reg", "max_iter", "tol", "device", "value", "n_pairs")} == {
        "reg": 0.5,
        "max_iter": 77,
        "tol": 1e-6,
        "device": "cpu",
        "value": "transport",
        "n_pairs": 3,
    }


# ------------------------------------------------------------------------------------------- limits and laws


@pytest.mark.parametrize("k", [2, 9, 40])
def test_a_vanishing_reg_gives_the_exact_distance(k):
    rng = np.random.default_rng(k)
    cost, histograms = euclidean(rng, k), random_histograms(rng, 6, k)
    exact = asot.emd_many(histograms, cost=cost).values
    previous = np.inf
    for reg in (1e-1, 1e-2, 1e-3, 1e-4):
        above = asot.sinkhorn_many(histograms, cost=cost, reg=reg * cost.max()).values - exact
        assert above.min() > -1e-9 * cost.max()
        assert above.max() <= reg * cost.max() * np.log(k * k)
        assert above.sum() <= previous + 1e-9 * cost.max()
        previous = above.sum()


def test_a_growing_reg_gives_the_independent_coupling():
    rng = np.random.default_rng(16)
    A, B, cost = random_histograms(rng, 4, 12), random_histograms(rng, 5, 8), euclidean(rng, 12, 8)
    for reg in (1e6, 1e300):
        values = asot.sinkhorn_many(A, B, cost=cost, reg=reg).matrix()
        np.testing.assert_allclose(values, A @ cost @ B.T, rtol=1e-5 if reg == 1e6 else 1e-12)


@every_reg
def test_diracs_are_at_the_cost_of_their_anchors(reg):
    cost = euclidean(np.random.default_rng(17), 12)
    values = asot.sinkhorn_many(np.eye(12), cost=cost, reg=reg * cost.max()).matrix()
    np.testing.assert_allclose(values, cost, rtol=1e-12)


@every_reg
def test_two_anchors_have_a_closed_form(reg):
    """Of two equal histograms (½, ½), the mass that leaves its anchor is ½ e^(-1/ε) / (1 + e^(-1/ε)) on each side."""
    value = asot.sinkhorn_many([[0.5, 0.5]], [[0.5, 0.5]], cost=1 - np.eye(2), reg=reg).values[0]
    np.testing.assert_allclose(value, 1 / (1 + np.exp(min(1 / reg, 700))), rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
@pytest.mark.parametrize("reg", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("value", ["transport", "regularized", "divergence"])
def test_the_scale_of_cost_and_reg_does_not_matter(value, reg, scale):
    rng = np.random.default_rng(18)
    cost, histograms = euclidean(rng, 8), histograms_of_every_kind(8, rng)[:9]
    unit = asot.sinkhorn_many(histograms, cost=cost, reg=reg * cost.max(), value=value).values
    scaled = asot.sinkhorn_many(histograms, cost=scale * cost, reg=reg * cost.max() * scale, value=value).values
    np.testing.assert_allclose(scaled / scale, unit, rtol=1e-8, atol=1e-11 * cost.max())


@pytest.mark.parametrize("reg", [5e-3, 0.05, 0.5])
def test_pots_sinkhorn_agrees(reg):
    rng = np.random.default_rng(19)
    A, B, cost = random_histograms(rng, 3, 14), random_histograms(rng, 3, 11), euclidean(rng, 14, 11)
    expected = [
        [
            ot.sinkhorn2(a, b, cost, reg * cost.max(), method="sinkhorn_log", numItermax=100_000, stopThr=1e-12)
            for b in B
        ]
        for a in A
    ]
    values = asot.sinkhorn_many(A, B, cost=cost, reg=reg * cost.max()).matrix()
    np.testing.assert_allclose(values, np.array(expected, dtype=float), rtol=1e-7)


@every_reg
def test_swapping_the_sides_transposes_the_answer(reg):
    rng = np.random.default_rng(20)
    A, B, cost = histograms_of_every_kind(7, rng)[:9], histograms_of_every_kind(5, rng)[:9], euclidean(rng, 7, 5)
    there = asot.sinkhorn_many(A, B, cost=cost, reg=reg * cost.max()).matrix()
    back = asot.sinkhorn_many(B, A, cost=cost.T, reg=reg * cost.max()).matrix()
    assert_close(there, back.T, cost)


def test_all_pairs_are_a_symmetric_matrix_with_zero_diagonal(fifty):
    A, _, cost = fifty
    matrix = asot.sinkhorn_many(A, cost=cost, reg="auto").matrix()
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_array_equal(np.diagonal(matrix), 0.0)
    both = asot.sinkhorn_many(A, A, cost=cost, reg="auto").matrix()
    upper = np.triu_indices(len(A), 1)
    np.testing.assert_allclose(matrix[upper], both[upper], rtol=1e-9)


def test_sinks_take_entropic_values_too(fifty):
    A, _, cost = fifty
    values = asot.sinkhorn_many(A, cost=cost, reg="auto").matrix()
    nearest = asot.sinkhorn_many(A, cost=cost, reg="auto", sink=asot.sinks.TopK(2))
    np.fill_diagonal(values, np.inf)
    np.testing.assert_array_equal(nearest.indices, values.argsort(axis=1)[:, :2])


# ------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize("reg", [0, -1.0, np.nan, np.inf, "big", None, True])
def test_a_reg_that_is_none(reg):
    with pytest.raises(ValueError, match=re.escape(f"reg must be a number > 0 or 'auto'; found {reg!r}")):
        asot.sinkhorn_many(np.eye(2), cost=1 - np.eye(2), reg=reg)


def test_a_reg_that_float64_cannot_resolve():
    with pytest.raises(ValueError, match=r"less than 1e-8 of the largest cost .* use emd_many"):
        asot.sinkhorn_many(np.eye(2), cost=1 - np.eye(2), reg=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": 0}, "tol must be None or a number between 0 and 1; found 0"),
        ({"tol": 1.5}, "tol must be None or a number between 0 and 1; found 1.5"),
        ({"max_iter": 0}, "max_iter must be a whole number ≥ 1; found 0"),
        ({"value": "exact"}, "value must be one of 'transport', 'regularized', 'divergence'; found 'exact'"),
        ({"init": "zeros"}, "init must be one of 'ones', 'target'; found 'zeros'"),
    ],
)
def test_options_that_are_none(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        asot.sinkhorn_many(np.eye(2), cost=1 - np.eye(2), reg=0.1, **options)


def test_a_divergence_needs_one_set_of_anchors():
    with pytest.raises(ValueError, match="need a square one"):
        asot.sinkhorn_many(np.eye(2), np.eye(3), cost=np.ones((2, 3)), reg=0.1, value="divergence")


@pytest.mark.parametrize("how", [{"max_iter": 50, "tol": None}, {"tol": 1e-4}, {"tol": 1e-3, "value": "regularized"}])
@pytest.mark.parametrize("k", [7, 40])
def test_float32_is_right_to_its_digits(how, k):
    rng = np.random.default_rng(k)
    A, cost = random_histograms(rng, 9, k), euclidean(rng, k)
    A[0, : k // 2] = 0.0
    reg = 0.05 * cost.max()
    narrow = asot.sinkhorn_many(A, cost=cost, reg=reg, precision="float32", device="cpu", **how)
    wide = asot.sinkhorn_many(A, cost=cost, reg=reg, device="cpu", **how)
    assert (narrow.info["precision"], wide.info["precision"]) == ("float32", "float64")
    np.testing.assert_allclose(narrow.values, wide.values, rtol=how["tol"] or 3e-6, atol=3e-6 * cost.max())
    assert how["tol"] is not None or np.any(narrow.values != wide.values)


def test_float32_is_not_used_where_it_cannot_hold_the_kernel():
    rng = np.random.default_rng(1)
    A, cost = random_histograms(rng, 5, 12), euclidean(rng, 12)
    asked = {"cost": cost, "reg": cost.max() / 30.0, "max_iter": 50, "tol": None, "device": "cpu"}
    narrow, wide = (asot.sinkhorn_many(A, precision=precision, **asked) for precision in ("float32", "float64"))
    assert narrow.info["precision"] == "float64"
    np.testing.assert_array_equal(narrow.values, wide.values)


def test_a_tolerance_that_float32_cannot_meet_is_refused():
    with pytest.raises(ValueError, match="cannot be met in float32; use precision='float64'"):
        asot.sinkhorn_many(np.eye(3), cost=1.0 - np.eye(3), reg=0.1, precision="float32", device="cpu")


def test_pairs_of_few_anchors_are_solved_by_themselves_at_small_eps_and_agree():
    rng = np.random.default_rng(2)
    cost = euclidean(rng, 60)
    A = random_histograms(rng, 6, 60) * (np.arange(60) < np.array([60, 60, 60, 5, 5, 4])[:, None])
    A /= A.sum(axis=1, keepdims=True)
    held = np.count_nonzero(A, axis=1).astype(float)
    pays = log_domain_pays(held, held, cost.shape, 50.0)
    assert pays.any()
    assert not pays.all()
    assert_agrees_with_the_reference(A, A, some_pairs(rng, 6, 6, 20), cost, cost.max() / 50.0)


def test_a_short_call_starts_no_thread(monkeypatch):
    rng = np.random.default_rng(0)
    cost, A = euclidean(rng, 20), random_histograms(rng, 3, 20)
    expected = asot.sinkhorn_many(A, cost=cost, reg=0.5, n_jobs=2).values
    monkeypatch.setattr(threading.Thread, "start", lambda self: pytest.fail("a thread was started"))
    assert np.array_equal(asot.sinkhorn_many(A, cost=cost, reg=0.5, n_jobs=1).values, expected)
    swept = asot.sinkhorn_many(A, cost=cost, reg=0.5, tol=None, max_iter=20, n_jobs=1)
    assert (swept.status == Status.FIXED_ITERATIONS).all()
