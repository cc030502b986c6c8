"""Tests by permutation: against least squares, against the definitions, and uniform where there is nothing to find."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist, squareform
from scipy.stats import chisquare, false_discovery_control, kstest, rankdata

import asot
from asot.learn.anova import from_centers, q_values, shuffled
from asot.learn.perturbations import TwoBags, split_histograms
from tests.oracles import highs_values


def on_a_line(y):
    return np.abs(np.subtract.outer(y, y))


def residual(X, y):
    """Sum of squares that least squares leaves."""
    return float(((y - X @ np.linalg.lstsq(X, y, rcond=None)[0]) ** 2).sum())


def f_of(X0, X1, y):
    """The F of what X1 adds to X0."""
    full = np.column_stack([X0, X1])
    df, left = np.linalg.matrix_rank(full) - np.linalg.matrix_rank(X0), len(y) - np.linalg.matrix_rank(full)
    return ((residual(X0, y) - residual(full, y)) / df) / (residual(full, y) / left)


def dummies(values):
    return (np.asarray(values)[:, None] == np.unique(values)).astype(float)


@pytest.fixture
def study():
    rng = np.random.default_rng(3)
    n = 24
    table = pd.DataFrame(
        {
            "drug": rng.permutation(np.repeat(["a", "b", "c"], 8)),
            "sex": rng.choice(["f", "m"], n),
            "age": rng.normal(50.0, 10.0, n),
        },
        index=[f"p{i}" for i in range(n)],
    )
    y = rng.normal(size=n) + (table["drug"] == "b") + 0.05 * table["age"].to_numpy()
    return table, y.to_numpy()


def test_with_covariates_f_is_that_of_least_squares(study):
    table, y = study
    found = asot.group_differences(on_a_line(y), table["drug"].to_numpy(), covariates=table["age"].to_numpy())
    X0 = np.column_stack([np.ones(24), table["age"]])
    assert found.pseudo_f == pytest.approx(f_of(X0, dummies(table["drug"]), y))
    both = asot.group_differences(
        on_a_line(y), table["drug"].to_numpy(), covariates=table[["age", "sex"]].to_numpy(object)
    )
    assert both.factors[0].df == 2


def test_several_factors_are_tested_in_their_order_or_after_all_others(study):
    table, y = study
    D = asot.Distributions.from_list([[[v]] for v in y], ids=table.index.tolist())
    r = asot.pairwise_exact(D)
    one = np.ones((24, 1))
    X = {"drug": dummies(table["drug"]), "sex": dummies(table["sex"]), "age": table[["age"]].to_numpy()}
    shuffled_rows = table.sample(frac=1, random_state=0)
    terms = asot.group_differences(r, shuffled_rows, random_state=0).to_frame()
    assert terms.index.tolist() == ["drug", "sex", "age"]
    full = residual(np.column_stack([one, *X.values()]), y) / (24 - 5)
    before = one
    for name in terms.index:
        after = np.column_stack([before, X[name]])
        df = 2 if name == "drug" else 1
        own = term_f(before, after, df, y)
        assert terms.loc[name, "pseudo_f"] == pytest.approx(own)
        before = after
    margin = asot.group_differences(r, table, by="margin", random_state=0)
    assert "each after all others" in repr(margin)
    for name in X:
        others = np.column_stack([one, *(X[other] for other in X if other != name)])
        df = 2 if name == "drug" else 1
        expected = (residual(others, y) - full * 19) / df / full
        assert margin.to_frame().loc[name, "pseudo_f"] == pytest.approx(expected)


def term_f(before, after, df, y):
    left = len(y) - np.linalg.matrix_rank(after)
    return ((residual(before, y) - residual(after, y)) / df) / (residual(after, y) / left)


def test_ranks_and_dispersions_are_what_their_definitions_say():
    rng = np.random.default_rng(0)
    label = np.repeat([0, 1, 2], [5, 9, 7])
    x = rng.normal(size=(21, 3)) * (1 + label)[:, None]
    matrix = cdist(x, x)
    found = asot.group_differences(matrix, label, n_permutations=199, random_state=0)
    ranks = squareform(rankdata(squareform(matrix)))
    i, j = np.triu_indices(21, 1)
    same = label[i] == label[j]
    expected = (ranks[i, j][~same].mean() - ranks[i, j][same].mean()) / (len(i) / 2)
    assert found.rank_statistic == pytest.approx(expected)
    away = np.array([np.linalg.norm(x[t] - x[label == label[t]].mean(axis=0)) for t in range(21)])
    correction = np.sqrt(np.bincount(label) / (np.bincount(label) - 1))[label]
    np.testing.assert_allclose(from_centers(matrix, label), away * correction)
    assert found.dispersions == {g: pytest.approx((away * correction)[label == g].mean()) for g in range(3)}
    assert found.dispersion_p_value < 0.05
    assert "groups differ in spread, too" in repr(found)


def test_the_effect_has_an_interval_around_it_and_is_zero_by_chance():
    rng = np.random.default_rng(0)
    effects = []
    for _ in range(60):
        x = rng.normal(size=(20, 2))
        effects.append(asot.group_differences(cdist(x, x), np.arange(20) % 2, n_permutations=1).effect)
    assert abs(np.mean(effects)) < 0.03  # R² would be 0.05 and more
    y = rng.normal(size=40) + 2.0 * (np.arange(40) % 2)
    found = asot.group_differences(on_a_line(y), np.arange(40) % 2, n_permutations=9)
    low, high = found.effect_interval
    assert 0.2 < low < found.effect < high < 0.9


def test_labels_are_only_exchanged_within_strata():
    strata = [np.array([0, 3, 4]), np.array([1, 2])]
    for seed in range(20):
        order = shuffled(np.random.RandomState(seed), 5, strata)
        assert sorted(order[[0, 3, 4]]) == [0, 3, 4]
        assert sorted(order[[1, 2]]) == [1, 2]


def test_a_difference_of_batches_is_none_of_groups_within_them():
    rng = np.random.default_rng(1)
    batch = np.repeat(["x", "y"], 12)
    groups = np.concatenate([np.repeat(["ill", "well"], [9, 3]), np.repeat(["ill", "well"], [3, 9])])
    matrix = on_a_line(rng.normal(size=24) + 5.0 * (batch == "x"))
    assert asot.group_differences(matrix, groups, random_state=0).p_value < 0.05
    assert asot.group_differences(matrix, groups, strata=batch, random_state=0).p_value > 0.05
    assert asot.group_differences(matrix, groups, covariates=batch, random_state=0).p_value > 0.05


def test_p_values_within_strata_are_those_of_all_permutations():
    rng = np.random.default_rng(2)
    y = rng.normal(size=6)
    groups, batch = np.array([0, 1, 0, 1, 1, 0]), np.array([0, 0, 0, 1, 1, 1])
    values = []
    for a in ([0, 1, 0], [0, 0, 1], [1, 0, 0]):
        for b in ([1, 1, 0], [1, 0, 1], [0, 1, 1]):
            values.append(f_of(np.ones((6, 1)), dummies([*a, *b]), y))
    observed = f_of(np.ones((6, 1)), dummies(groups), y)
    exact = np.mean(np.array(values) >= observed - 1e-9)
    found = asot.group_differences(on_a_line(y), groups, strata=batch, n_permutations=2999, random_state=0)
    assert found.p_value == pytest.approx(exact, abs=0.03)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"strata": np.repeat([0, 1], 5)}, "groups do not differ within any stratum"),
        ({"covariates": np.repeat([0.0, 1.0], 5)}, "groups is determined by the covariates"),
        ({"covariates": np.full(10, np.nan)}, "covariates has a value that is not a finite number"),
        ({"covariates": np.eye(10)}, "determined by the covariates|too few"),
        ({"strata": [0, 1]}, "strata must have one entry for each of the 10 distributions"),
        ({"by": "onedf"}, "by must be one of 'terms', 'margin'"),
    ],
)
def test_what_cannot_be_tested_is_refused(more, message):
    y = np.random.default_rng(0).normal(size=10)
    with pytest.raises(ValueError, match=message):
        asot.group_differences(on_a_line(y), np.repeat(["a", "b"], 5), **more)


def test_q_values_are_those_of_scipy():
    p = np.random.default_rng(0).random(50) ** 2
    np.testing.assert_allclose(q_values(p), false_discovery_control(p))


# -------------------------------------------------------------------------------------------------- nothing to be found


def uniform(values):
    """p-values (k + 1) / (B + 1) spread evenly over their steps, as a continuous test would give them."""
    return kstest(values, "uniform").pvalue


def spread_out(p, count, rng):
    return p - rng.random(len(p)) / (count + 1)


def test_p_values_of_groups_are_uniform_with_strata_unequal_sizes_and_ties():
    rng = np.random.default_rng(0)
    found = {"p_value": [], "rank_p_value": [], "dispersion_p_value": []}
    batch, groups = np.repeat([0, 1, 2], [4, 5, 6]), np.array([0, 1] * 4 + [0] * 3 + [1, 0, 0, 1])
    for seed in range(250):
        y = np.round(rng.normal(size=15), 1) + 3.0 * batch
        test = asot.group_differences(on_a_line(y), groups, strata=batch, n_permutations=39, random_state=seed)
        for name, values in found.items():
            values.append(getattr(test, name))
    for values in found.values():
        assert np.mean(np.array(values) <= 0.1) < 0.16
        assert uniform(spread_out(np.array(values), 39, rng)) > 0.001


def test_p_values_of_perturbations_are_uniform_with_strata_and_unequal_sizes():
    rng = np.random.default_rng(0)
    plain, within = [], []
    for seed in range(150):
        donors = [rng.integers(0, 2, 9), rng.integers(0, 2, 14)]
        D = asot.Distributions.from_list([rng.normal(size=(len(own), 1)) + 4.0 * own[:, None] for own in donors])
        test = asot.perturbation_test(D, 1, n_permutations=39, random_state=seed, strata=np.concatenate(donors))
        within.append(test.p_value[0])
        E = asot.Distributions.from_list([rng.normal(size=(n, 2)) for n in (6, 15)])
        plain.append(asot.perturbation_test(E, 1, n_permutations=39, random_state=seed).p_value[0])
    for values in (plain, within):
        assert uniform(spread_out(np.array(values), 39, rng)) > 0.001


# --------------------------------------------------------------------------------------------------- perturbation_test


def screen(seed=0, sizes=(30, 25, 40, 30), shift=(0.0, 0.0, 1.5, 0.0), d=3):
    rng = np.random.default_rng(seed)
    points = [rng.normal(x, 1.0, size=(n, d)) for x, n in zip(shift, sizes, strict=True)]
    return asot.Distributions.from_list(points, ids=["control", "none", "strong", "nothing"])


def test_each_distribution_is_compared_with_the_control():
    D = screen()
    found = asot.perturbation_test(D, "control", n_permutations=199)
    exact = asot.pairwise_exact(D).matrix()[0]
    np.testing.assert_allclose(found.distance, exact)
    assert found.p_value.shape == found.q_value.shape == (4,)
    assert found.p_value[2] == 1 / 200
    assert found.to_frame().index.tolist()[0] == "strong"
    assert "control" not in found.to_frame().index
    np.testing.assert_allclose(found.q_value[1:], false_discovery_control(found.p_value[1:]))
    assert "1 of 3 distributions differ from 'control'" in repr(found)


def test_a_control_may_be_points_and_an_index():
    D = screen()
    by_id = asot.perturbation_test(D, "control", n_permutations=49)
    by_number = asot.perturbation_test(D, 0, n_permutations=49)
    np.testing.assert_array_equal(by_id.p_value, by_number.p_value)
    given = asot.perturbation_test(D[1:], D[0][0], n_permutations=49)
    assert len(given) == 3
    np.testing.assert_allclose(given.distance, by_id.distance[1:])
    assert "the control" in repr(given)


def test_a_control_that_is_none_is_named():
    D = asot.Distributions.from_list([[[0.0], [1.0]], [[2.0]]])
    with pytest.raises(ValueError, match="control cannot be read as an array: it is a NoneType"):
        asot.perturbation_test(D, None)


def test_p_values_are_the_share_of_all_splits():
    """Three and three points on a line: all twenty splits, by definition."""
    from itertools import combinations

    x = np.array([0.0, 1.0, 2.5, 4.5, 7.0, 11.0])
    D = asot.Distributions.from_list([x[[0, 1, 3], None], x[[2, 4, 5], None]])

    def apart(first):
        rest = [t for t in range(6) if t not in first]
        return np.abs(np.sort(x[list(first)]) - np.sort(x[rest])).mean()

    values = np.array([apart(first) for first in combinations(range(6), 3)])
    exact = np.mean(values >= apart((0, 1, 3)) - 1e-12)
    found = asot.perturbation_test(D, 1, n_permutations=2000)
    assert found.p_value[0] == pytest.approx(exact, abs=0.04)


def test_donors_as_strata_hide_what_only_donors_make():
    rng = np.random.default_rng(0)
    donors = [np.repeat([0, 1], own) for own in ([25, 5], [5, 25])]
    D = asot.Distributions.from_list([rng.normal(size=(30, 2)) + 3.0 * own[:, None] for own in donors])
    assert asot.perturbation_test(D, 1, n_permutations=99).p_value[0] <= 0.01
    assert asot.perturbation_test(D, 1, n_permutations=99, strata=np.concatenate(donors)).p_value[0] > 0.05


def test_masses_travel_with_their_points():
    rng = np.random.default_rng(0)
    points, masses = [rng.normal(size=(20, 2)) for _ in range(2)], [rng.random(20) for _ in range(2)]
    D = asot.Distributions.from_list(points, masses)
    found = asot.perturbation_test(D, 1, n_permutations=19)
    assert found.distance[0] == pytest.approx(asot.pairwise_exact(D).values[0])


def test_on_anchors_the_test_finds_the_same():
    found = asot.perturbation_test(screen(), "control", n_permutations=99, n_anchors=12)
    assert found.p_value[2] == 0.01
    assert found.p_value[1] > 0.05


@pytest.mark.parametrize(
    ("control", "more", "message"),
    [
        ("nobody", {}, "no distribution is called 'nobody'"),
        (np.zeros((4, 2)), {}, "the control is in 2 dimensions, but the collection in 3"),
        (np.zeros((4, 3)), {"strata": np.zeros(125)}, "the control must be one of its distributions"),
        ("control", {"strata": [1, 2]}, "strata must hold one label for each of the 125 points"),
        ("control", {"strata": np.repeat([0, 1], [30, 95])}, "do not differ within any stratum"),
        ("control", {"n_anchors": 4, "p": 2}, "distances on anchors are the Euclidean W_1"),
    ],
)
def test_wrong_controls_and_strata_are_refused(control, more, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        asot.perturbation_test(screen(), control, n_permutations=9, **more)


def sides_of(histograms):
    """Points of both sides of every split: (first, second)."""
    rows = np.split(histograms.index, histograms.offsets[1:-1])
    return list(zip(rows[::2], rows[1::2], strict=True))


def test_p_values_are_those_of_a_linear_program_for_the_same_splits():
    D, B = screen(sizes=(7, 6, 8, 5)), 19
    found = asot.perturbation_test(D, "control", n_permutations=B, random_state=3)
    for i in (1, 2, 3):
        points = np.concatenate([D[i][0], D[0][0]])
        n = len(D[i][0])
        bags = TwoBags(i, "", n, np.arange(len(points)), np.ones(len(points)), 0, 1 + B)
        splits = sides_of(split_histograms(points, [bags], 3))
        np.testing.assert_array_equal(splits[0][0], np.arange(n))
        first, second = np.zeros((2, 1 + B, len(points)))
        for t, (a, b) in enumerate(splits):
            first[t, a], second[t, b] = 1 / len(a), 1 / len(b)
        each = np.repeat(np.arange(1 + B)[:, None], 2, axis=1)
        values = highs_values(first, second, cdist(points, points), each)
        assert found.distance[i] == pytest.approx(values[0])
        assert found.null_mean[i] == pytest.approx(np.mean(values[1:]))
        assert found.p_value[i] == (1 + sum(v >= values[0] - 1e-12 for v in values[1:])) / (1 + B)


def test_a_split_depends_on_its_number_and_not_on_the_others():
    points, bags = np.zeros((12, 1)), (4, "", 5, np.arange(12), np.ones(12))
    whole = sides_of(split_histograms(points, [TwoBags(*bags, 0, 30)], 1))
    parts = sides_of(split_histograms(points, [TwoBags(*bags, 0, 11), TwoBags(*bags, 11, 30)], 1))
    for (a, b), (c, d) in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, d)
        np.testing.assert_array_equal(np.sort(np.concatenate([a, b])), np.arange(12))
        assert len(a) == 5


def test_every_split_is_as_likely_within_its_strata():
    strata = np.array([0, 0, 1, 0, 1, 1, 1])  # of three and four points, two and one on the first side
    bags = TwoBags(0, "", 3, np.arange(7), np.ones(7), 1, 12001, strata)
    splits = sides_of(split_histograms(np.zeros((7, 1)), [bags], 0))
    kinds, counts = np.unique([tuple(a) for a, _ in splits], axis=0, return_counts=True)
    assert len(kinds) == 3 * 4
    assert (strata[kinds].sum(axis=1) == 1).all()
    assert chisquare(counts).pvalue > 0.001


def test_repeated_points_are_merged_and_masses_sum_to_one():
    place, weights = np.array([2, 0, 0, -1, 2, 1, 0]), np.array([1.0, 2.0, 1.0, 0.0, 3.0, 1.0, 1.0])
    found = split_histograms(np.zeros((3, 1)), [TwoBags(0, "", 3, place, weights, 0, 20)], 0)
    np.testing.assert_array_equal(found.index[:5], [0, 2, 0, 1, 2])
    np.testing.assert_allclose(found.masses[:5], [0.75, 0.25, 0.2, 0.2, 0.6])
    np.testing.assert_allclose(np.add.reduceat(found.masses, found.offsets[:-1]), 1.0)
    assert all((np.diff(side) > 0).all() for pair in sides_of(found) for side in pair)
