"""Anchor learners are scikit-learn estimators: their own checks, pipelines, cloning, names and frames."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from asot import DictionaryAnchors, Distributions, FixedAnchors, KMeansAnchors, MetricAnchors

TRAINED = [MetricAnchors, DictionaryAnchors] if importlib.util.find_spec("torch") is not None else []

EXEMPTIONS: dict[str, str] = {}
"""Checks that ragged input makes impossible, with the reason. None: a plain table is read as scikit-learn reads it."""


@parametrize_with_checks(
    [
        KMeansAnchors(),
        KMeansAnchors(3, batch_size=16),
        FixedAnchors(),
        *(make(max_epochs=1, n_pairs=20, hidden=4) for make in TRAINED),
    ],
    expected_failed_checks=lambda _: EXEMPTIONS,
)
@pytest.mark.filterwarnings("ignore:.*(distinct points|to learn):UserWarning")  # some checks fit one or two samples
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def labeled():
    """Forty clouds of two kinds: around one center, or around two."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=40)
    sizes = rng.integers(10, 30, 40)
    clouds = [
        rng.normal(size=(n, 2)) + 6 * kind * rng.integers(2, size=(n, 1)) for n, kind in zip(sizes, y, strict=True)
    ]
    return Distributions.from_list(clouds, [rng.random(n) for n in sizes]), y


LEARNERS = [
    KMeansAnchors(6, random_state=0),
    FixedAnchors(np.array([[0.0, 0.0], [6.0, 6.0], [3.0, 3.0]])),
    *(make(6, max_epochs=2, n_pairs=100, random_state=0) for make in TRAINED),
]
every_learner = pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)


@every_learner
def test_learners_work_in_a_pipeline(learner, labeled):
    D, y = labeled
    pipeline = make_pipeline(clone(learner), SVC())
    assert cross_val_score(pipeline, D, y, cv=4).min() > 0.85
    assert pipeline.fit(D[:30], y[:30]).score(D[30:], y[30:]) > 0.85


def test_the_number_of_anchors_can_be_searched(labeled):
    D, y = labeled
    pipeline = make_pipeline(KMeansAnchors(random_state=0), SVC())
    search = GridSearchCV(pipeline, {"kmeansanchors__n_anchors": [1, 6]}, cv=3).fit(D, y)
    assert search.best_params_ == {"kmeansanchors__n_anchors": 6}  # with one anchor all histograms are equal


@every_learner
def test_a_list_and_a_collection_are_read_alike(learner, labeled):
    D, _ = labeled
    histograms = clone(learner).fit_transform(D)
    as_pairs = [D[i] for i in range(len(D))]  # what scikit-learn's splitters make of a collection
    np.testing.assert_allclose(clone(learner).fit_transform(as_pairs), histograms, rtol=1e-12, atol=1e-15)
    uniform = Distributions(D.points, D.offsets)
    clouds = [points for points, _ in D]
    np.testing.assert_array_equal(clone(learner).fit_transform(clouds), clone(learner).fit_transform(uniform))


@every_learner
def test_histograms_are_rows_of_total_one(learner, labeled):
    D, _ = labeled
    learner = clone(learner).fit(D)
    histograms = learner.transform(D)
    assert histograms.shape == (40, learner.space_.n_anchors)
    assert histograms.dtype == np.float64
    assert histograms.min() >= 0
    np.testing.assert_allclose(histograms.sum(axis=1), 1.0, rtol=1e-15)
    np.testing.assert_array_equal(histograms, learner.space_.histograms(D))


def test_a_clone_has_the_parameters_and_nothing_learned(labeled):
    learner = KMeansAnchors(5, batch_size=99, n_init=2, random_state=7)
    parameters = {"n_anchors": 5, "batch_size": 99, "n_init": 2, "random_state": 7, "device": "auto"}
    parameters |= {"max_points": None, "n_jobs": None, "progress": None}
    assert learner.get_params() == parameters
    copy = clone(learner.fit(labeled[0]))
    assert copy.get_params() == parameters
    assert not hasattr(copy, "space_")
    assert copy.set_params(n_anchors=3).n_anchors == 3
    assert copy.fit(labeled[0]).space_.n_anchors == 3


def test_fixed_anchors_keep_what_they_were_given():
    anchors, cost = np.eye(2), 1 - np.eye(2)
    learner = FixedAnchors(anchors, cost)
    assert learner.get_params()["anchors"] is anchors
    np.testing.assert_array_equal(clone(learner).cost, cost)


@every_learner
def test_output_columns_have_names(learner, labeled):
    D, _ = labeled
    learner = clone(learner).fit(D)
    prefix = type(learner).__name__.lower()
    assert list(learner.get_feature_names_out()) == [f"{prefix}{u}" for u in range(learner.space_.n_anchors)]


def test_output_may_be_a_frame(labeled):
    D, _ = labeled
    learner = KMeansAnchors(3, random_state=0).set_output(transform="pandas").fit(D)
    frame = learner.transform(D)
    assert list(frame.columns) == ["kmeansanchors0", "kmeansanchors1", "kmeansanchors2"]
    np.testing.assert_array_equal(frame.to_numpy(), learner.space_.histograms(D))


@every_learner
def test_what_is_not_fitted_says_so(learner, labeled):
    with pytest.raises(NotFittedError, match=f"This {type(learner).__name__} instance is not fitted yet"):
        clone(learner).transform(labeled[0])
    with pytest.raises(NotFittedError):
        clone(learner).get_feature_names_out()


@every_learner
def test_another_dimension_is_refused(learner, labeled):
    learner = clone(learner).fit(labeled[0])
    assert learner.n_features_in_ == 2
    with pytest.raises(ValueError, match=f"X has 3 features, but {type(learner).__name__} is expecting 2 features"):
        learner.transform([np.eye(3)])
