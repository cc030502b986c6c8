"""Exact distances of many pairs: against independent solvers, known answers, and the laws of a distance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist, pdist
from scipy.stats import wasserstein_distance

import asot
from asot.exact.shared_cost import ExactSharedCost
from tests.oracles import highs_values, pot_values
from tests.strategies import (
    METRICS,
    SIZES,
    histograms_of_every_kind,
    masses,
    metric_problems,
    metrics,
    problem,
    rectangular_problems,
)

every_metric = pytest.mark.parametrize("metric", METRICS)
every_size = pytest.mark.parametrize("k", SIZES)


def close(cost):
    """The promise of the package: 1e-10 of the largest cost."""
    return {"rtol": 0, "atol": 1e-10 * np.max(cost)}


def random_histograms(rng, n, k):
    return rng.dirichlet(np.ones(k), n)


def euclidean(rng, k):
    points = rng.normal(size=(k, 2))
    return cdist(points, points)


# ------------------------------------------------------------------------------------------- independent solvers


def test_the_generated_pairs_are_at_least_twenty_thousand():
    assert sum(len(problem(metric, k).pairs) for metric in METRICS for k in SIZES) >= 20_000


@every_size
@every_metric
def test_exact_values_agree_with_pot(metric, k):
    p = problem(metric, k)
    values = asot.emd_many(p.histograms, cost=p.cost).values
    np.testing.assert_allclose(values, pot_values(p.histograms, p.histograms, p.cost, p.pairs), **close(p.cost))


@every_size
@every_metric
def test_primal_equals_dual_on_every_pair(metric, k):
    p = problem(metric, k)
    values = asot.emd_many(p.histograms, cost=p.cost).values
    duals = np.empty(len(values))
    excess = np.empty(len(values))
    for t, (i, j) in enumerate(p.pairs):
        _, _, (f, g) = asot.emd(p.histograms[i], p.histograms[j], p.cost)
        duals[t] = f @ p.histograms[i] + g @ p.histograms[j]
        excess[t] = (f[:, None] + g - p.cost).max()
    assert excess.max() <= 1e-14 * p.cost.max()  # feasible, so that each dual is a lower bound
    np.testing.assert_allclose(values, duals, **close(p.cost))


@pytest.mark.parametrize("k", [2, 3, 8, 17])
@every_metric
def test_exact_values_agree_with_highs(metric, k):
    p = problem(metric, k)
    values = asot.emd_many(p.histograms, cost=p.cost).values
    np.testing.assert_allclose(values, highs_values(p.histograms, p.histograms, p.cost, p.pairs), **close(p.cost))


@pytest.mark.parametrize("k", [63, 64, 65, 130])
def test_exact_values_agree_with_highs_where_bitsets_grow_a_word(k):
    p = problem("plane", k)
    pairs = p.pairs[:: len(p.pairs) // 12]
    values = asot.emd_many(p.histograms, cost=p.cost, pairs=pairs).values
    expected = highs_values(p.histograms, p.histograms, p.cost, pairs, per_program=4)
    np.testing.assert_allclose(values, expected, **close(p.cost))


@given(metric_problems())
def test_small_problems_with_ties_agree_with_highs(problem):
    cost, histograms = problem
    values = asot.emd_many(histograms, cost=cost).values
    np.testing.assert_allclose(values, highs_values(histograms, histograms, cost, [(0, 1)]), **close(cost))


@given(rectangular_problems())
def test_small_rectangular_problems_with_ties_agree_with_highs(problem):
    cost, a, b = problem
    values = asot.emd_many([a], [b], cost=cost).values
    np.testing.assert_allclose(values, highs_values(a[None], b[None], cost, [(0, 0)]), **close(cost))


def test_two_thousand_anchors_agree_with_pot():
    rng = np.random.default_rng(0)
    cost, histograms = euclidean(rng, 2000), random_histograms(rng, 2, 2000)
    pairs = np.array([(0, 1)])
    expected = pot_values(histograms, histograms, cost, pairs)
    result = asot.emd_many(histograms, cost=cost, pairs=pairs)
    assert "pair" in result.info["common_mass_canceled"]  # one pair does not pay for checking 2000³ triangles
    np.testing.assert_allclose(result.values, expected, **close(cost))
    solution = ExactSharedCost(histograms, None, cost, cancel=True).solve(*pairs.T, np.zeros(1, np.int64))
    np.testing.assert_allclose(solution.values, expected, **close(cost))


# ------------------------------------------------------------------------------------------- costs of other kinds


@pytest.mark.parametrize("k", [2, 3, 17, 63, 64, 65])
@pytest.mark.parametrize("kind", ["random symmetric", "squared distance"])
def test_costs_that_are_not_metric_agree_with_pot(kind, k):
    rng = np.random.default_rng(k)
    histograms = histograms_of_every_kind(k, rng)
    cost = euclidean(rng, k) ** 2 if kind == "squared distance" else np.triu(rng.random((k, k)), 1)
    cost = np.maximum(cost, cost.T)
    if k > 3:  # three points may happen to satisfy the triangle inequality
        assert not asot.emd_many(histograms, cost=cost).info["common_mass_canceled"]
    pairs = np.argwhere(np.triu(np.ones((len(histograms),) * 2), 1))
    expected = pot_values(histograms, histograms, cost, pairs)
    np.testing.assert_allclose(asot.emd_many(histograms, cost=cost).values, expected, **close(cost))


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (2, 3), (17, 40), (64, 63), (130, 65)])
def test_rectangular_costs_agree_with_pot(shape):
    rng = np.random.default_rng(shape)
    A, B = (histograms_of_every_kind(k, rng)[:14] for k in shape)
    cost = rng.random(shape)
    result = asot.emd_many(A, B, cost=cost)
    expected = pot_values(A, B, cost, np.argwhere(np.ones((len(A), len(B)))))
    np.testing.assert_allclose(result.values, expected, **close(cost))
    assert result.matrix().shape == (14, 14)


def test_an_asymmetric_cost_is_solved_in_both_directions():
    rng = np.random.default_rng(3)
    A, cost = random_histograms(rng, 12, 20), rng.random((20, 20))
    matrix = asot.emd_many(A, A, cost=cost).matrix()
    expected = pot_values(A, A, cost, np.argwhere(np.ones((12, 12)))).reshape(12, 12)
    np.testing.assert_allclose(matrix, expected, **close(cost))
    assert np.abs(matrix - matrix.T).max() > 0.01


def test_a_metric_is_recognized_for_two_sets_as_well():
    rng = np.random.default_rng(4)
    A, B, cost = random_histograms(rng, 5, 12), random_histograms(rng, 4, 12), euclidean(rng, 12)
    result = asot.emd_many(A, B, cost=cost)
    assert result.info["common_mass_canceled"]
    expected = pot_values(A, B, cost, np.argwhere(np.ones((5, 4))))
    np.testing.assert_allclose(result.values, expected, **close(cost))


def test_one_cheap_detour_forbids_canceling():
    cost = np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]])  # 0 to 2 costs 3, but 2 by way of 1
    result = asot.emd_many([[1, 1, 0], [0, 1, 1]], cost=cost)
    assert not result.info["common_mass_canceled"]
    np.testing.assert_allclose(result.values, [1.0])  # 1.5 if the common mass at 1 stayed where it is


# ------------------------------------------------------------------------------------------- known answers


def test_the_distance_of_diracs_is_the_cost():
    cost = euclidean(np.random.default_rng(5), 40)
    np.testing.assert_array_equal(asot.emd_many(np.eye(40), cost=cost).matrix(), cost)


def test_on_a_line_the_distance_is_the_area_between_the_cumulative_sums():
    rng = np.random.default_rng(6)
    x = np.sort(rng.normal(size=50))
    histograms, cost = random_histograms(rng, 20, 50), np.abs(x[:, None] - x)
    expected = pdist(histograms, lambda a, b: wasserstein_distance(x, x, a, b))
    np.testing.assert_allclose(asot.emd_many(histograms, cost=cost).values, expected, **close(cost))


@pytest.mark.parametrize("shift", [1, 7, 30])
def test_a_translation_costs_its_length(shift):
    x = np.arange(60.0)
    bump = np.random.default_rng(shift).random(20)
    a, b = np.zeros((2, 60))
    a[:20], b[shift : shift + 20] = bump, bump
    np.testing.assert_allclose(asot.emd_many([a, b], cost=np.abs(x[:, None] - x)).values, [shift], rtol=1e-12)


@pytest.mark.parametrize("n", [2, 5, 33])
def test_equal_masses_are_an_assignment(n):
    rng = np.random.default_rng(n)
    cost = rng.random((n, n))
    expected = cost[linear_sum_assignment(cost)].mean()
    np.testing.assert_allclose(asot.emd_many(np.ones((1, n)), np.ones((1, n)), cost=cost).values, expected, rtol=1e-12)


def test_under_the_discrete_metric_the_distance_is_the_total_variation():
    histograms = random_histograms(np.random.default_rng(7), 15, 25)
    expected = 0.5 * pdist(histograms, "cityblock")
    np.testing.assert_allclose(asot.emd_many(histograms, cost=1.0 - np.eye(25)).values, expected, rtol=0, atol=1e-14)


def test_a_zero_cost_gives_zero():
    histograms = random_histograms(np.random.default_rng(8), 4, 6)
    np.testing.assert_array_equal(asot.emd_many(histograms, cost=np.zeros((6, 6))).values, np.zeros(6))


# ------------------------------------------------------------------------------------------- laws of a distance


@given(metric_problems())
def test_distances_are_symmetric(problem):
    cost, histograms = problem
    there, back = (asot.emd_many(histograms, histograms, cost=cost, pairs=[pair]).values for pair in ((0, 1), (1, 0)))
    np.testing.assert_allclose(there, back, rtol=1e-13, atol=0)


@given(metric_problems(n_histograms=3))
def test_the_triangle_inequality_holds(problem):
    cost, histograms = problem
    w = asot.emd_many(histograms, cost=cost).values
    assert 2 * w.max() <= w.sum() + 1e-13 * cost.max()


@given(metric_problems(), st.data())
def test_common_mass_never_changes_the_distance(problem, data):
    cost, (a, b) = problem
    a, b = a / a.sum(), b / b.sum()
    common = data.draw(masses(len(cost)))
    common /= common.sum()
    plain = asot.emd_many([a, b], cost=cost).values
    mixed = asot.emd_many([a + common, b + common], cost=cost).values
    np.testing.assert_allclose(2 * mixed, plain, **close(cost))


@given(metric_problems())
def test_a_histogram_is_at_distance_zero_from_itself(problem):
    cost, histograms = problem
    assert asot.emd_many(histograms, cost=cost, pairs=[(0, 0), (1, 1)]).values.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("factor", [1e-300, 1e-5, 3.0, 1e300])
def test_scaling_the_cost_scales_the_distances(factor):
    rng = np.random.default_rng(9)
    histograms, cost = random_histograms(rng, 10, 30), euclidean(rng, 30)
    scaled = asot.emd_many(histograms, cost=cost * factor).values
    np.testing.assert_allclose(scaled, asot.emd_many(histograms, cost=cost).values * factor, rtol=1e-12)


@pytest.mark.parametrize("exponent", [-900, -1, 40, 1000])
def test_scaling_the_cost_by_a_power_of_two_changes_no_bit(exponent):
    rng = np.random.default_rng(10)
    histograms, cost = random_histograms(rng, 10, 30), euclidean(rng, 30)
    scaled = asot.emd_many(histograms, cost=np.ldexp(cost, exponent)).values
    np.testing.assert_array_equal(scaled, np.ldexp(asot.emd_many(histograms, cost=cost).values, exponent))


@given(metrics(min_anchors=2), st.data())
def test_the_order_of_the_anchors_does_not_matter(cost, data):
    k = len(cost)
    order = np.array(data.draw(st.permutations(range(k))))
    pair = np.array([data.draw(masses(k)), data.draw(masses(k))])
    permuted = asot.emd_many(pair[:, order], cost=cost[np.ix_(order, order)]).values
    np.testing.assert_allclose(permuted, asot.emd_many(pair, cost=cost).values, **close(cost))


# ------------------------------------------------------------------------------------------- what may be passed in


def test_histograms_may_be_counts():
    rng = np.random.default_rng(11)
    counts, cost = rng.integers(0, 50, size=(8, 12)) + np.eye(8, 12, dtype=int), euclidean(rng, 12)
    expected = asot.emd_many(counts / counts.sum(axis=1, keepdims=True), cost=cost).values
    np.testing.assert_allclose(asot.emd_many(counts, cost=cost).values, expected, rtol=1e-13)


def test_float32_histograms_that_sum_to_one_only_nearly_are_scaled():
    rng = np.random.default_rng(12)
    histograms, cost = random_histograms(rng, 30, 64).astype(np.float32), euclidean(rng, 64)
    sums = histograms.astype(np.float64).sum(axis=1)
    assert 0 < np.abs(sums - 1).max() < 1e-6
    exact = histograms.astype(np.float64) / sums[:, None]
    values = asot.emd_many(histograms, cost=cost).values
    pairs = np.argwhere(np.triu(np.ones((30, 30)), 1))
    np.testing.assert_allclose(values, pot_values(exact, exact, cost, pairs), **close(cost))


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e300])
def test_the_scale_of_the_masses_does_not_matter(scale):
    rng = np.random.default_rng(13)
    histograms, cost = random_histograms(rng, 6, 9), euclidean(rng, 9)
    scaled = asot.emd_many(histograms * scale, cost=cost).values
    np.testing.assert_allclose(scaled, asot.emd_many(histograms, cost=cost).values, rtol=1e-12)


def test_a_cost_with_rounding_in_it_is_taken_as_symmetric():
    rng = np.random.default_rng(14)
    histograms, cost = random_histograms(rng, 5, 7), euclidean(rng, 7)
    rounded = cost * (1 + 1e-12 * rng.random((7, 7))) + 1e-13 * np.eye(7)
    values = asot.emd_many(histograms, cost=rounded).values
    np.testing.assert_allclose(values, asot.emd_many(histograms, cost=cost).values, rtol=0, atol=1e-11)


def test_sparse_tables_lists_and_frames_are_read_like_arrays():
    sparse = pytest.importorskip("scipy.sparse")
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(15)
    histograms, cost = random_histograms(rng, 5, 7), euclidean(rng, 7)
    expected = asot.emd_many(histograms, cost=cost).values
    for form in (sparse.csr_array, np.ndarray.tolist, pandas.DataFrame, np.asfortranarray):
        np.testing.assert_array_equal(asot.emd_many(form(histograms), cost=cost).values, expected)
    np.testing.assert_array_equal(asot.emd_many(histograms, cost=pandas.DataFrame(cost)).values, expected)


def test_the_input_is_left_as_it_was():
    rng = np.random.default_rng(16)
    histograms, cost = rng.random((5, 7)), euclidean(rng, 7)
    before = histograms.copy(), cost.copy()
    asot.emd_many(histograms, cost=cost)
    np.testing.assert_array_equal(histograms, before[0])
    np.testing.assert_array_equal(cost, before[1])
    assert histograms.flags.writeable
    assert cost.flags.writeable


# ------------------------------------------------------------------------------------------- shapes of the result


def test_values_come_in_the_order_of_scipys_condensed_matrices():
    rng = np.random.default_rng(17)
    points = rng.normal(size=(9, 2))
    values = asot.emd_many(np.eye(9), cost=cdist(points, points)).values
    np.testing.assert_allclose(values, pdist(points), rtol=1e-14)


def test_a_single_histogram_has_no_pairs():
    result = asot.emd_many([[1.0, 2.0]], cost=1.0 - np.eye(2))
    assert len(result) == 0
    np.testing.assert_array_equal(result.matrix(), [[0.0]])


def test_an_empty_list_of_pairs_gives_no_values():
    result = asot.emd_many(np.eye(2), cost=1.0 - np.eye(2), pairs=np.empty((0, 2), dtype=int))
    assert result.values.shape == (0,)
    assert result.pairs.shape == (0, 2)


def test_every_exact_value_is_reported_as_optimal():
    rng = np.random.default_rng(18)
    result = asot.emd_many(random_histograms(rng, 6, 9), cost=euclidean(rng, 9))
    assert set(result.status.tolist()) == {asot.Status.OPTIMAL}
    assert result.n_iter.min() >= 0


def test_the_result_says_what_the_numbers_are():
    info = asot.emd_many(np.eye(3), cost=1.0 - np.eye(3), n_jobs=2).info
    assert info["solver"] == "network simplex"
    assert info["device"] == "cpu"
    assert info["reg"] is None
    assert info["n_pairs"] == 3
    assert info["n_jobs"] == 2


# ------------------------------------------------------------------------------------------- identical answers


@pytest.fixture(scope="module", params=["metric", "not metric"])
def many(request):
    rng = np.random.default_rng(19)
    cost = euclidean(rng, 20) ** (1 if request.param == "metric" else 2)
    histograms = random_histograms(rng, 60, 20)
    return histograms, cost, asot.emd_many(histograms, cost=cost, n_jobs=1).values


@pytest.mark.parametrize("n_jobs", [2, 3, -1])
def test_the_number_of_threads_changes_no_bit(many, n_jobs):
    histograms, cost, expected = many
    np.testing.assert_array_equal(asot.emd_many(histograms, cost=cost, n_jobs=n_jobs).values, expected)


@pytest.mark.parametrize("memory", [1, "1K", 3000])
def test_the_memory_budget_changes_no_bit(many, memory):
    histograms, cost, expected = many
    np.testing.assert_array_equal(asot.emd_many(histograms, cost=cost, memory=memory, n_jobs=2).values, expected)


def test_listing_the_pairs_in_any_order_and_direction_changes_no_bit(many):
    histograms, cost, expected = many
    rng = np.random.default_rng(20)
    order = rng.permutation(len(expected))
    pairs = np.argwhere(np.triu(np.ones((60, 60)), 1))[order]
    flipped = np.where(rng.random((len(pairs), 1)) < 0.5, pairs, pairs[:, ::-1])
    result = asot.emd_many(histograms, cost=cost, pairs=flipped)
    np.testing.assert_array_equal(result.values, expected[order])
    np.testing.assert_array_equal(result.pairs, flipped)


def _sparse_rows(rng, n, k, words):
    A = np.zeros((n, k))
    for row in A:
        row[rng.choice(k, words, replace=False)] = rng.random(words)
    return A / A.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("words", [1, 2, 12])
def test_rows_of_few_words_over_a_large_vocabulary_cost_what_their_words_do(words, power):
    rng = np.random.default_rng(words)
    points = rng.normal(size=(700, 3))
    cost = np.linalg.norm(points[:, None] - points, axis=-1) ** power
    A, B = _sparse_rows(rng, 40, 700, words), _sparse_rows(rng, 3, 700, 30)
    found = asot.emd_many(A, cost=cost)
    if words > 1:  # else so few anchors are used that all triangles are checked
        assert found.info["common_mass_canceled"] == ("where a pair proves that it may be" if power == 1 else False)
    pairs, used = np.transpose(np.triu_indices(40, 1))[::26], A.any(axis=0)
    own = np.ascontiguousarray(A[:, used])
    np.testing.assert_allclose(
        found.values[::26], pot_values(own, own, np.ascontiguousarray(cost[np.ix_(used, used)]), pairs), rtol=1e-12
    )
    words_of = asot.Distributions.from_weights(A, points)
    if power == 1:
        np.testing.assert_allclose(found.values, asot.pairwise_exact(words_of).values, rtol=1e-12)
    crossed = asot.emd_many(A, B, cost=cost).matrix()
    np.testing.assert_allclose(crossed[0], pot_values(A, B, cost, [(0, j) for j in range(3)]), rtol=1e-12)
    np.testing.assert_allclose(crossed, asot.emd_many(A, B, cost=cost, plans=True).matrix(), rtol=1e-12)


def test_costs_between_anchors_without_mass_are_not_looked_at_and_others_are_named():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(600, 2))
    cost = np.linalg.norm(points[:, None] - points, axis=-1)
    A = np.zeros((5, 600))
    A[:, 100:120] = rng.dirichlet(np.ones(20), 5)
    expected = asot.emd_many(A, cost=cost).values
    cost[3, 4] = np.nan
    np.testing.assert_array_equal(asot.emd_many(A, cost=cost).values, expected)
    cost[105, 110] += 1.0
    with pytest.raises(ValueError, match=r"cost\[105, 110\] = .* but cost\[110, 105\]"):
        asot.emd_many(A, cost=cost)
    cost[110, 105] = -1.0
    with pytest.raises(ValueError, match=r"cost\[110, 105\] is negative"):
        asot.emd_many(A, cost=cost)
