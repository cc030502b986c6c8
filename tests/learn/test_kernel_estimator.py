"""`WassersteinKernel`: the kernel as a transformer, whose γ is searched without solving again."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import asot
from asot.datasets import load_digits
from asot.learn import kernel_estimator, recent


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


def test_a_search_over_gamma_solves_every_fold_once(monkeypatch):
    recent.forget()
    solved = []

    def counting(D, E=None, **options):
        solved.append((len(D), None if E is None else len(E)))
        return asot.pairwise_exact(D, E, **options)

    monkeypatch.setattr(kernel_estimator, "pairwise_exact", counting)
    digits, labels, _ = load_digits(60)
    model = make_pipeline(asot.WassersteinKernel(), SVC(kernel="precomputed", C=10))
    grid = {"wassersteinkernel__gamma": [1.0, 4.0, 16.0], "svc__C": [1.0, 10.0]}
    search = GridSearchCV(model, grid, cv=3, refit=False).fit(digits, labels)
    assert len(solved) == 6  # three folds, each within the training part and from the test part to it
    assert search.best_score_ > 0.5
    recent.forget()
