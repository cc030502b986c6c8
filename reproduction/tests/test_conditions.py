"""Conditions: errors are what the formulas say, and ε stands in its relation to the costs."""

import numpy as np
import pytest
from asot_paper.conditions import error_rule, features_of, mean_ground_cost, regularization, root_mean_square_error
from asot_paper.names import CONDITIONS, DESCRIBED, PUBLISHED, SETS
from scipy.spatial.distance import cdist, squareform

import asot

N = 7


@pytest.fixture
def numbers():
    rng = np.random.default_rng(0)
    n_pairs = N * (N - 1) // 2
    return rng.random(n_pairs), rng.random(n_pairs), rng.random(N)


def matrices(estimate, exact, diagonal):
    first, second = squareform(estimate), squareform(exact)
    if diagonal is not None:
        np.fill_diagonal(first, diagonal)
    return first, second


def test_as_described_is_the_mean_over_distinct_pairs(numbers):
    estimate, exact, diagonal = numbers
    expected = np.sqrt(np.mean((estimate - exact) ** 2))
    assert root_mean_square_error(DESCRIBED, estimate, exact) == pytest.approx(expected, rel=1e-14)
    assert root_mean_square_error(DESCRIBED, estimate, exact, diagonal=diagonal) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("row_zero", [True, False])
@pytest.mark.parametrize("entropic", [True, False])
def test_as_published_is_the_mean_over_the_whole_matrix(numbers, row_zero, entropic):
    estimate, exact, diagonal = numbers
    own = diagonal if entropic else None
    found, right = matrices(estimate, exact, own)
    if row_zero:
        right[0] = right[:, 0] = 0.0
        if not entropic:
            found[0] = found[:, 0] = 0.0
    expected = np.sqrt(np.mean((found - right) ** 2))
    error = root_mean_square_error(PUBLISHED, estimate, exact, diagonal=own, row_zero=row_zero)
    assert error == pytest.approx(expected, rel=1e-14)


def test_exact_distances_have_no_error_in_any_condition(numbers):
    _, exact, _ = numbers
    for condition in CONDITIONS:
        assert root_mean_square_error(condition, exact, exact, row_zero=True) == 0.0


@pytest.mark.parametrize("condition", CONDITIONS)
def test_an_error_that_is_not_finite_is_an_error(numbers, condition):
    estimate, exact, _ = numbers
    with pytest.raises(ValueError, match="not finite"):
        root_mean_square_error(condition, np.where(estimate > 0.5, np.nan, estimate), exact, row_zero=True)


def test_mean_ground_cost_is_that_of_random_pairs():
    rng = np.random.default_rng(1)
    D = asot.Distributions.from_list([rng.normal(size=(int(rng.integers(2, 6)), 3)) for _ in range(12)])
    all_pairs = [(i, j) for i in range(12) for j in range(12) if i != j]
    exact = np.mean([D[i][1] @ cdist(D[i][0], D[j][0]) @ D[j][1] for i, j in all_pairs])
    assert mean_ground_cost(D, 20_000) == pytest.approx(exact, rel=0.01)
    assert mean_ground_cost(D) == mean_ground_cost(D)


def test_epsilon_is_fixed_as_published_and_follows_the_costs_as_described():
    rng = np.random.default_rng(2)
    D = asot.Distributions.from_list([rng.normal(size=(4, 2)) for _ in range(6)])
    ten = asot.Distributions(10.0 * D.points, D.offsets, D.masses)
    assert regularization(PUBLISHED, D) == regularization(PUBLISHED, ten) == 0.1
    assert regularization(DESCRIBED, ten) == pytest.approx(10.0 * regularization(DESCRIBED, D))
    assert regularization(DESCRIBED, D) == pytest.approx(0.1 / np.sqrt(10) * mean_ground_cost(D))


def test_every_condition_and_set_has_words():
    assert len({error_rule(PUBLISHED, True), error_rule(PUBLISHED, False), error_rule(DESCRIBED, None)}) == 3
    for name in SETS:
        same = features_of(PUBLISHED, name) == features_of(DESCRIBED, name)
        assert same == (name == "MNIST")
