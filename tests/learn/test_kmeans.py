"""`WassersteinKMeans`: clusters of distributions, by medoids and by barycenters."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import asot
from asot.datasets import load_digits

METHODS = ["medoids", "barycenters"]


@parametrize_with_checks(
    [asot.WassersteinKMeans(2, n_init=1), asot.WassersteinKMeans(2, n_init=1, method="barycenters")]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def three_kinds(n=45, seed=0):
    """Clouds around one, two or three centers."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(3, size=n)
    centers = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    arrays = [centers[np.arange(20) % (kind + 1)] + rng.normal(size=(20, 2)) for kind in kinds]
    return asot.Distributions.from_list(arrays), kinds


@pytest.mark.parametrize("method", METHODS)
def test_separate_kinds_are_found(method):
    D, kinds = three_kinds()
    model = asot.WassersteinKMeans(3, method=method, random_state=0).fit(D)
    assert adjusted_rand_score(kinds, model.labels_) > 0.9
    assert np.array_equal(model.predict(D), model.labels_)
    assert model.cluster_centers_.shape == (3, model.space_.n_anchors)
    assert np.allclose(model.cluster_centers_.sum(axis=1), 1.0)
    assert np.isclose(-model.score(D), model.inertia_)
    assert np.isclose(model.transform(D).min(axis=1).sum(), model.inertia_)


def test_medoids_are_members_with_the_smallest_sum_of_distances():
    D, _ = three_kinds()
    model = asot.WassersteinKMeans(3, random_state=0).fit(D)
    matrix = asot.pairwise(D, space=model.space_, estimate="anchor").matrix()
    for c, medoid in enumerate(model.medoid_indices_):
        members = np.flatnonzero(model.labels_ == c)
        sums = matrix[np.ix_(members, members)].sum(axis=1)
        assert np.isclose(sums[members == medoid][0], sums.min())


def test_barycenters_lie_nearer_to_their_members_than_medoids_do():
    digits, _, _ = load_digits(120)
    space = asot.KMeansAnchors(24, random_state=0).fit(digits).space_
    medoids, barycenters = (
        asot.WassersteinKMeans(5, method=m, space=space, random_state=0, n_init=2).fit(digits) for m in METHODS
    )
    assert barycenters.inertia_ < medoids.inertia_


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_clusters(method):
    D, _ = three_kinds()
    one, two = (asot.WassersteinKMeans(3, method=method, random_state=4, n_init=1).fit(D) for _ in range(2))
    assert np.array_equal(one.labels_, two.labels_)
    assert one.inertia_ == two.inertia_


@pytest.mark.parametrize("method", METHODS)
def test_equal_distributions_can_be_clustered(method):
    D = asot.Distributions.from_list([np.zeros((1, 2))] * 3 + [np.ones((1, 2))] * 3)
    model = asot.WassersteinKMeans(4, method=method, random_state=0).fit(D)
    assert np.isclose(model.inertia_, 0.0)
    assert len(set(model.labels_[:3])) == len(set(model.labels_[3:])) == 1


def test_every_distribution_can_be_its_own_cluster():
    D, _ = three_kinds(6)
    assert np.isclose(asot.WassersteinKMeans(6, random_state=0).fit(D).inertia_, 0.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_clusters": 46}, "n_samples=45 should be >= n_clusters=46"),
        ({"n_clusters": 0}, "n_clusters must be a whole number ≥ 1"),
        ({"method": "means"}, "method must be one of 'medoids', 'barycenters'"),
        ({"n_init": 0}, "n_init must be a whole number ≥ 1"),
        ({"max_iter": -1}, "max_iter must be a whole number ≥ 1"),
    ],
)
def test_wrong_parameters_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        asot.WassersteinKMeans(**options).fit(three_kinds()[0])


def test_no_single_swap_of_a_medoid_would_be_better():
    D, _ = three_kinds(25)
    model = asot.WassersteinKMeans(3, random_state=0, n_init=1).fit(D)
    matrix = asot.pairwise(D, space=model.space_, estimate="anchor").matrix()
    for c in range(3):
        for other in range(len(D)):
            swapped = model.medoid_indices_.copy()
            swapped[c] = other
            assert matrix[:, swapped].min(axis=1).sum() >= model.inertia_ - 1e-9


def test_one_cluster_has_the_middle_as_its_medoid():
    D, _ = three_kinds(12)
    model = asot.WassersteinKMeans(1, random_state=0).fit(D)
    matrix = asot.pairwise(D, space=model.space_, estimate="anchor").matrix()
    assert model.medoid_indices_.tolist() == [matrix.sum(axis=1).argmin()]


def test_the_number_of_anchors_may_be_chosen_and_progress_is_reported():
    D, _ = three_kinds(12)
    calls = []
    model = asot.WassersteinKMeans(2, n_anchors=7, random_state=0, progress=lambda *c: calls.append(c)).fit(D)
    assert model.space_.n_anchors == 7
    assert (66, 66) in calls  # pairs
    assert calls[-1] == (4, 4)  # starts
    with pytest.raises(ValueError, match="pass either space or n_anchors"):
        asot.WassersteinKMeans(2, n_anchors=7, space=model.space_).fit(D)


def test_distances_to_centers_may_be_a_data_frame():
    pytest.importorskip("pandas")
    D, _ = three_kinds(12)
    model = asot.WassersteinKMeans(2, random_state=0).set_output(transform="pandas").fit(D)
    assert model.transform(D).columns.tolist() == ["wassersteinkmeans0", "wassersteinkmeans1"]
