"""`WassersteinKernel`: the kernel as a transformer, whose γ is searched without solving again."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import asot
from asot.datasets import load_digits
from asot.learn import estimators, recent


@parametrize_with_checks([asot.WassersteinKernel()])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_it_is_the_kernel_of_the_distances():
    digits, _, _ = load_digits(40)
    train, test = digits[:30], digits[30:]
    model = asot.WassersteinKernel(3.0)
    K = asot.kernel(asot.pairwise_exact(train), 3.0)
    np.testing.assert_array_equal(model.fit_transform(train), K.matrix)
    np.testing.assert_allclose(model.transform(test), K.between(asot.pairwise_exact(test, train)), rtol=1e-12)
    assert model.kernel_.done == K.done
    assert asot.WassersteinKernel().fit(train).kernel_.gamma == asot.kernel(asot.pairwise_exact(train)).gamma


def test_a_search_solves_every_pair_once_whatever_the_folds(monkeypatch):
    recent.forget()
    solved = []

    def counting(D, E=None, **options):
        found = asot.pairwise_exact(D, E, **options)
        solved.append(len(found))
        return found

    monkeypatch.setattr(estimators, "pairwise_exact", counting)
    digits, labels, _ = load_digits(60)
    model = make_pipeline(asot.WassersteinKernel(), SVC(kernel="precomputed", C=10))
    grid = {"wassersteinkernel__gamma": [1.0, 4.0, 16.0], "svc__C": [1.0, 10.0]}
    search = GridSearchCV(model, grid, cv=3, refit=False).fit(digits, labels)
    assert sum(solved) == 60 * 59 // 2  # one matrix behind three folds and six candidates
    assert search.best_score_ > 0.5
    recent.forget()


def test_a_search_over_other_parameters_makes_every_kernel_once(monkeypatch):
    recent.forget()
    made = []

    def counting(distances, gamma, **options):
        made.append(gamma)
        return asot.kernel(distances, gamma, **options)

    monkeypatch.setattr(estimators, "kernel", counting)
    digits, labels, _ = load_digits(60)
    model = make_pipeline(asot.WassersteinKernel(), SVC(kernel="precomputed"))
    grid = {"wassersteinkernel__gamma": [1.0, 4.0], "svc__C": [0.1, 1.0, 10.0]}
    GridSearchCV(model, grid, cv=3, refit=False).fit(digits, labels)
    assert sorted(made) == [1.0] * 3 + [4.0] * 3  # one for each fold
    fitted = asot.WassersteinKernel(1.0, psd="shift").fit(digits[:20])
    with pytest.raises(ValueError, match="read-only"):
        fitted.kernel_.matrix[0, 0] = 2.0
    assert len(made) == 7
    asot.WassersteinKernel(1.0, psd="shift", p=2).fit(digits[:20])
    assert len(made) == 8
    recent.forget()


@pytest.mark.parametrize(
    "how", [{"p": 2}, {"metric": "cityblock"}, {"unmatched": 1.0}, {"p": 2, "metric": "chebyshev", "unmatched": 1.0}]
)
def test_it_takes_the_distances_that_pairwise_exact_takes(how):
    recent.forget()
    digits, _, _ = load_digits(14)
    train, test = digits[:9], digits[9:]
    model = asot.WassersteinKernel(2.0, psd=None, **how).fit(train)
    np.testing.assert_allclose(model.kernel_.matrix, np.exp(-2.0 * asot.pairwise_exact(train, **how).matrix()))
    expected = np.exp(-2.0 * asot.pairwise_exact(test, train, **how).matrix())
    np.testing.assert_allclose(model.transform(test), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="unmatched must be a number or 'diagonal'"):
        asot.WassersteinKernel(unmatched=np.ones(3)).fit(train)
    recent.forget()


def test_estimates_are_within_the_error_that_was_asked_for():
    recent.forget()
    digits, _, _ = load_digits(60)
    model = asot.WassersteinKernel(1.0, psd=None, error="5%").fit(digits)
    exact = asot.pairwise_exact(digits).matrix()
    off = -np.log(model.kernel_.matrix) - exact
    assert np.sqrt(np.mean(off**2)) < 0.1 * exact.mean()
    recent.forget()


def test_what_repeats_in_a_collection_is_solved_and_found():
    recent.forget()
    digits, _, _ = load_digits(6)
    twice = digits[[0, 1, 1, 2, 0, 5]]
    model = asot.WassersteinKernel(1.0, psd=None).fit(twice)
    np.testing.assert_allclose(model.kernel_.matrix, np.exp(-asot.pairwise_exact(twice).matrix()))
    np.testing.assert_allclose(model.transform(digits), np.exp(-asot.pairwise_exact(digits, twice).matrix()))
    recent.forget()


@pytest.mark.parametrize("estimator", ["kernel", "neighbors"])
def test_what_a_function_said_is_not_taken_for_what_another_says(estimator):
    """Functions are known by their address only, which the next one may have, and may read what has changed."""
    scale = 1.0

    def metric(a, b):
        return scale * np.abs(a - b).sum()

    rng = np.random.default_rng(0)
    D = asot.Distributions.from_list([rng.normal(size=(5, 2)) for _ in range(6)])
    for scale in (1.0, 2.0):  # noqa: B007 - the metric reads it
        expected = asot.pairwise_exact(D, metric=metric).matrix()
        if estimator == "kernel":
            K = asot.WassersteinKernel(1.0, metric=metric, psd=None).fit(D).kernel_
            np.testing.assert_allclose(K.matrix, np.exp(-expected), rtol=1e-12)
        else:
            found, _ = asot.WassersteinNeighbors(3, metric=metric).fit(D).kneighbors()
            np.testing.assert_allclose(found, np.sort(expected, axis=1)[:, 1:4], rtol=1e-12)


@pytest.mark.parametrize("metric", ["seuclidean", "mahalanobis"])
def test_a_scale_from_the_points_is_that_of_the_fitted_collection(metric):
    rng = np.random.default_rng(1)
    D = asot.Distributions.from_list([rng.normal(size=(5, 2)) * [1 + i**2, 1] for i in range(8)])
    for part in (D[:4], D):  # pairs of the first are in the second, at another distance
        K = asot.WassersteinKernel(1.0, metric=metric, psd=None).fit(part).kernel_
        expected = asot.pairwise_exact(part, metric=metric).matrix()
        np.testing.assert_allclose(K.matrix, np.exp(-expected), rtol=1e-12)
