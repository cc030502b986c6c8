"""Whether groups differ: against a PERMANOVA by the definition, and against scikit-learn."""

import warnings
from math import comb

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.metrics import silhouette_score
from sklearn.model_selection import LeaveOneOut, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

import asot


def by_definition(matrix, label):
    """Anderson's pseudo-F and R², pair by pair."""
    n, names = len(label), np.unique(label)
    total = sum(matrix[i, j] ** 2 for i in range(n) for j in range(i)) / n
    within = sum(
        sum(matrix[i, j] ** 2 for i in np.flatnonzero(label == g) for j in np.flatnonzero(label == g) if j < i)
        / np.count_nonzero(label == g)
        for g in names
    )
    return ((total - within) / (len(names) - 1)) / (within / (n - len(names))), 1 - within / total


def test_similarities_are_refused():
    x = np.random.default_rng(0).normal(size=(8, 2))
    with pytest.raises(ValueError, match=r"distance \(0, 0\) is 1, but everything is at distance 0 from itself"):
        asot.group_differences(np.exp(-cdist(x, x)), [0, 1] * 4)


@pytest.mark.parametrize("seed", range(3))
def test_it_is_what_the_definitions_say(seed):
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.repeat(np.arange(3), [4, 7, 9]))
    x = rng.normal(size=(20, 2)) + label[:, None]
    matrix = cdist(x, x)
    found = asot.group_differences(matrix, label, n_permutations=199, random_state=0)
    f, explained = by_definition(matrix, label)
    assert found.pseudo_f == pytest.approx(f)
    assert found.explained == pytest.approx(explained)
    assert found.silhouette == pytest.approx(silhouette_score(matrix, label, metric="precomputed"))
    shuffles = np.random.RandomState(0)
    as_large = sum(by_definition(matrix, shuffles.permutation(label))[0] >= f for _ in range(199))
    assert found.p_value == (as_large + 1) / 200
    one = asot.group_differences(matrix, label, n_permutations=9, n_neighbors=1)
    left_out = cross_val_score(KNeighborsClassifier(1), x, label, cv=LeaveOneOut()).mean()
    assert one.neighbor_accuracy == pytest.approx(left_out)
    assert found.chance == 9 / 20


def test_by_chance_p_values_are_even():
    rng = np.random.default_rng(0)
    values = []
    for _ in range(60):
        x = rng.normal(size=(12, 2))
        found = asot.group_differences(cdist(x, x), np.arange(12) % 2, n_permutations=99, random_state=1)
        values.append(found.p_value)
    assert 0.35 < np.mean(values) < 0.65


@pytest.mark.parametrize("n", [8, 9, 12, 20])
@pytest.mark.parametrize("noise", [0.0, 1e-5])
def test_groups_without_any_distance_inside_are_told_apart(n, noise):
    rng = np.random.default_rng(n)
    label = rng.permutation(np.arange(n) % 2)
    distances = np.abs(label[:, None] - label) + noise * np.triu(rng.random((n, n)), 1)
    found = asot.group_differences(np.maximum(distances, distances.T), label, random_state=0)
    alike = (2 if n % 2 == 0 else 1) / comb(n, n // 2)  # the orders that leave groups as they are, or exchange them
    assert found.p_value == pytest.approx(alike, abs=0.015)
    assert found.pseudo_f > 1e9
    assert found.explained == pytest.approx(1.0)


def test_names_and_results_are_read_and_what_is_wrong_is_reported():
    D = asot.Distributions.from_list([[[float(i)]] for i in (0, 1, 10, 11)])
    r = asot.pairwise_exact(D)
    found = asot.group_differences(r, ["a", "a", "b", "b"], n_neighbors=1, random_state=0)
    assert found.neighbor_accuracy == 1.0
    assert "neighbors right 100% (chance 50%)" in repr(found)
    for groups, message in (
        (["a"] * 4, "there is only one group, 'a'"),
        (list("abcd"), "every group has one member"),
        (["a", "b"], "groups must hold one label for each of the 4 distributions"),
    ):
        with pytest.raises(ValueError, match=message):
            asot.group_differences(r, groups)
    with pytest.raises(ValueError, match="all pairs of one collection"):
        asot.group_differences(asot.pairwise_exact(D, D[:2]), ["a", "a", "b", "b"])


def test_the_share_of_noise_is_reported_where_it_is_known():
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_list([rng.normal(size=(40, 2)) for _ in range(8)])
    r = asot.pairwise_exact(D)
    found = asot.group_differences(r, np.arange(8) % 2, noise=asot.noise_floor(D), random_state=0)
    assert 0.7 < found.noise_share < 1.3  # all of it is noise
    assert "of the mean distance is noise" in repr(found)
    assert asot.group_differences(r, np.arange(8) % 2, noise=0.5 * r.matrix()).noise_share == pytest.approx(0.5)
    with pytest.raises(ValueError, match="noise is for 2 distributions, but the distances are between 8"):
        asot.group_differences(r, np.arange(8) % 2, noise=np.zeros((2, 2)))


def sizes_of(small, large, n=8):
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_list([rng.normal(size=(small if i % 2 else large, 2)) for i in range(2 * n)])
    return D, np.where(np.arange(2 * n) % 2, "few", "many")


def test_groups_of_different_sample_sizes_are_warned_of():
    D, groups = sizes_of(10, 60)
    message = "distributions of group 'few' have 10 points where those of 'many' have 60.*size_matched"
    with pytest.warns(UserWarning, match=message):
        found = asot.group_differences(asot.pairwise_exact(D), groups, random_state=0)
    assert found.p_value <= 0.05  # nothing but noise
    for r in (asot.size_matched(D, size=10), asot.pairwise_exact(D).matrix()):
        with warnings.catch_warnings(record=True) as seen:
            asot.group_differences(r, groups, random_state=0)
        assert seen == []


def test_sizes_that_vary_alike_in_all_groups_are_not_warned_of():
    rng = np.random.default_rng(1)
    D = asot.Distributions.from_list([rng.normal(size=(int(n), 2)) for n in rng.integers(10, 80, size=30)])
    with warnings.catch_warnings(record=True) as seen:
        asot.group_differences(asot.pairwise_exact(D), np.arange(30) % 3, random_state=0)
    assert seen == []


def test_a_file_of_distances_keeps_the_sizes(tmp_path):
    D, groups = sizes_of(10, 60)
    asot.pairwise_exact(D).save(tmp_path / "r.npz")
    r = asot.load_distances(tmp_path / "r.npz")
    np.testing.assert_array_equal(r.sizes, D.sizes)
    with pytest.warns(UserWarning, match="size_matched"):
        asot.group_differences(r, groups)
    r.save(tmp_path / "r.csv")
    assert asot.load_distances(tmp_path / "r.csv").sizes is None
