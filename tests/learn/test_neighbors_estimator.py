"""`WassersteinNeighbors`: scikit-learn's conventions around certain neighbors."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import asot
from asot.datasets import load_digits
from tests.test_neighbors import clouds


@parametrize_with_checks([asot.WassersteinNeighbors(1)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_methods_without_a_collection_look_within_the_fitted_one():
    D = clouds(40)
    model = asot.WassersteinNeighbors(3).fit(D)
    distances, indices = model.kneighbors()
    expected = asot.kneighbors(D, None, 3)
    assert np.array_equal(indices, expected.indices)
    assert np.array_equal(distances, expected.distances)
    assert np.array_equal(model.kneighbors(return_distance=False), indices)


def test_methods_with_the_fitted_collection_find_every_query_itself():
    D = clouds(40)
    model = asot.WassersteinNeighbors(2).fit(D)
    assert np.array_equal(model.kneighbors(D, return_distance=False)[:, 0], np.arange(40))


def test_graphs_have_ones_or_distances():
    D = clouds(30)
    model = asot.WassersteinNeighbors(3, radius=2.0).fit(D)
    near, far = model.kneighbors_graph(), model.kneighbors_graph(mode="distance")
    assert near.shape == far.shape == (30, 30)
    assert (near.sum(axis=1) == 3).all()
    assert np.array_equal(far.data.reshape(30, 3), model.kneighbors()[0])
    matrix = asot.pairwise_exact(D).matrix() + 9 * np.eye(30)
    assert np.array_equal(model.radius_neighbors_graph().toarray(), (matrix <= 2.0).astype(float))
    within = model.radius_neighbors_graph(clouds(4, seed=5), radius=3.0, mode="distance")
    assert within.shape == (4, 30)
    assert within.data.max() <= 3.0


def test_single_points_have_the_neighbors_that_scikit_learn_finds():
    X = np.random.default_rng(0).normal(size=(60, 3))
    ours = asot.WassersteinNeighbors(4).fit_transform(X)
    theirs = KNeighborsTransformer(n_neighbors=4).fit_transform(X)
    assert np.allclose(ours.toarray(), theirs.toarray())
    assert np.array_equal(ours.indices, theirs.indices)


def test_an_array_of_points_is_not_read_as_many_queries():
    D = clouds(20)
    points = np.random.default_rng(0).normal(size=(13, D.dim))
    message = r"X is an array \(13, \d\), but .* was fitted on a collection; .* pass a list of one: \[X\]"
    for model, ask in (
        (asot.WassersteinNeighbors(2), "kneighbors"),
        (asot.WassersteinNeighbors(2), "transform"),
        (asot.WassersteinKernel(), "transform"),
        (asot.WassersteinKMeans(2, n_anchors=4), "predict"),
        (asot.KMeansAnchors(4), "transform"),
    ):
        model.fit(D)
        with pytest.raises(ValueError, match=message):
            getattr(model, ask)(points)
        answer = getattr(model, ask)([points])
        assert (answer[0] if isinstance(answer, tuple) else answer).shape[0] == 1
    rows = asot.WassersteinNeighbors(2).fit(points)  # fitted on rows, as scikit-learn reads them
    assert rows.kneighbors(points)[0].shape == (13, 2)


def test_classification_by_neighbors_in_a_pipeline_and_a_search():
    digits, labels, _ = load_digits(160)
    steps = asot.WassersteinNeighbors(3), KNeighborsClassifier(3, metric="precomputed")
    model = make_pipeline(*steps).fit(digits[:120], labels[:120])
    dense = KNeighborsClassifier(3, metric="precomputed").fit(asot.pairwise_exact(digits[:120]).matrix(), labels[:120])
    expected = dense.predict(asot.pairwise_exact(digits[120:], digits[:120]).matrix())
    assert np.array_equal(model.predict(digits[120:]), expected)
    grid = {"kneighborsclassifier__n_neighbors": [1, 3]}
    search = GridSearchCV(make_pipeline(*map(clone, steps)), grid, cv=3).fit(digits, labels)
    assert search.best_score_ > 0.7


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m, D: m.kneighbors(D[0][0]), ValueError, "is expecting 3 features|expecting"),
        (lambda m, D: m.kneighbors(n_neighbors=20), ValueError, "n_neighbors=20, but there are only 19 candidates"),
        (lambda m, D: m.kneighbors_graph(mode="both"), ValueError, "mode must be one of 'connectivity', 'distance'"),
        (lambda m, D: clone(m).kneighbors(D), NotFittedError, "not fitted"),
        (lambda m, D: m.set_params(n_neighbors=0).fit(D), ValueError, "n_neighbors must be a whole number ≥ 1"),
    ],
)
def test_wrong_use_is_refused_with_a_reason(call, error, message):
    fitted = asot.WassersteinNeighbors(3).fit(clouds(20))
    with pytest.raises(error, match=message):
        call(fitted, clouds(5, dim=2))


def test_a_search_over_the_number_of_neighbors_does_not_solve_anew(monkeypatch):
    from asot.learn import estimators, recent

    recent.forget()
    searched = []

    def counting(Q, D, n_neighbors, **options):
        searched.append(n_neighbors)
        return asot.kneighbors(Q, D, n_neighbors, **options)

    monkeypatch.setattr(estimators, "kneighbors", counting)
    digits, labels, _ = load_digits(60)
    model = make_pipeline(asot.WassersteinNeighbors(8), KNeighborsClassifier(metric="precomputed"))
    grid = {"kneighborsclassifier__n_neighbors": [1, 2, 3, 5, 8]}
    GridSearchCV(model, grid, cv=2, refit=False).fit(digits, labels)
    assert len(searched) == 4  # two folds, each within the training part and from the test part
    searched.clear()
    recent.forget()
    grid = {"wassersteinneighbors__n_neighbors": [1, 2, 3, 4, 5, 6]}
    model = make_pipeline(asot.WassersteinNeighbors(), KNeighborsClassifier(1, metric="precomputed"))
    GridSearchCV(model, grid, cv=2, refit=False).fit(digits, labels)
    assert len(searched) <= 12
    recent.forget()


def test_what_is_recalled_is_what_would_be_found():
    from asot.learn import recent

    recent.forget()
    D, Q = clouds(30), clouds(9, seed=4)
    model = asot.WassersteinNeighbors(6).fit(D)
    for count in (6, 2, 7, 9, 14):
        found = model.kneighbors(Q, count)
        expected = asot.kneighbors(Q, D, count)
        assert np.array_equal(found[0], expected.distances)
        assert np.array_equal(found[1], expected.indices)
    other = asot.WassersteinNeighbors(6, metric="cityblock").fit(D)
    assert not np.array_equal(other.kneighbors(Q)[0], model.kneighbors(Q)[0])
    recent.forget()


def test_the_oldest_is_forgotten_first(monkeypatch):
    from asot.learn import recent

    recent.forget()
    monkeypatch.setattr(recent, "MOST_BYTES", 100)
    for i in range(4):
        recent.remember(bytes([i]), i, 40)
    assert [recent.recalled(bytes([i])) for i in range(4)] == [None, None, 2, 3]
    recent.remember(b"large", "large", 101)
    assert recent.recalled(b"large") is None
    recent.forget()


def test_what_is_added_is_found_as_if_it_had_been_fitted():
    D, queries = clouds(300), clouds(5, seed=9)
    once = asot.WassersteinNeighbors(4).fit(D)
    model = asot.WassersteinNeighbors(4).partial_fit(D[:260])
    for part in (D[260:270], D[270:]):
        assert model.partial_fit(part) is model
    expected = asot.kneighbors(queries, D, 4)
    for own in (once, model):
        distances, indices = own.kneighbors(queries)
        assert np.array_equal(indices, expected.indices)
        assert np.allclose(distances, expected.distances, rtol=1e-12)
        assert own.kneighbors_graph(queries, mode="distance").shape == (5, 300)
    assert np.array_equal(model.kneighbors()[1], once.kneighbors()[1])
    with pytest.raises(ValueError, match=r"dimension|features"):
        model.partial_fit(asot.Distributions.from_list([np.zeros((3, D.dim + 1))]))


def test_queries_are_asked_of_what_fit_has_prepared(monkeypatch):
    from asot.learn import estimators

    D = clouds(300)
    model = asot.WassersteinNeighbors(3).fit(D)
    wanted = asot.kneighbors(clouds(2, seed=4), D, 3)

    def refuse(*_, **__):
        raise AssertionError("prepared again")

    monkeypatch.setattr(estimators, "kneighbors", refuse)
    assert np.array_equal(model.kneighbors(clouds(2, seed=4))[1], wanted.indices)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.kneighbors(clouds(2, seed=4))[1], wanted.indices)


@pytest.mark.parametrize(
    "options",
    [
        {"prune": "projections"},
        {"metric": "seuclidean"},
        {"metric": "seuclidean", "metric_params": {"V": [1.0, 4.0]}},
        {"p": 2},
    ],
    ids=str,
)
def test_every_option_has_the_answers_of_kneighbors(options):
    D, queries = clouds(280, dim=2), clouds(4, seed=5, dim=2)
    model = asot.WassersteinNeighbors(3, **options).fit(D)
    expected = asot.kneighbors(queries, D, 3, **options)
    assert np.array_equal(model.kneighbors(queries)[1], expected.indices)


def test_recall_is_asked_of_the_index_too():
    D = clouds(400)
    found = asot.WassersteinNeighbors(3, recall=0.9).fit(D)._search(clouds(3, seed=6), 3)
    assert found.info["recall"]["asked"] == 0.9


def test_parameters_that_are_set_later_hold_for_few_queries_and_for_many():
    rng = np.random.default_rng(0)
    members, queries = ([rng.normal(size=(rng.integers(1, 6), 2)) for _ in range(n)] for n in (300, 70))
    model = asot.WassersteinNeighbors(3).fit(members)
    for words in ({"metric": "cityblock"}, {"p": 2}):
        model.set_params(**words)
        np.testing.assert_array_equal(model.kneighbors(queries)[1][:5], model.kneighbors(queries[:5])[1])
    model.partial_fit(queries)
    np.testing.assert_array_equal(model.kneighbors(queries[:2])[1][:, 0], [300, 301])


def test_a_partial_fit_that_is_refused_adds_nothing():
    model = asot.WassersteinNeighbors(1, metric="jaccard").fit([np.array([[0.0, 1.0]])] * 300)
    with pytest.raises(ValueError, match="points must be 0 or 1"):
        model.partial_fit([np.array([[0.5, 1.0]])])
    assert len(model.collection_) == 300
    model.partial_fit([np.array([[1.0, 0.0]])])
    assert model.kneighbors([np.array([[1.0, 0.0]])])[1].tolist() == [[300]]


@pytest.mark.parametrize("first", [100, 300])
def test_a_partial_fit_prepares_what_was_not(first):
    """Too few members for an index at first, or a model that was pickled before it was asked."""
    rng = np.random.default_rng(0)
    members = [rng.normal(size=(rng.integers(1, 6), 2)) for _ in range(600)]
    model = pickle.loads(pickle.dumps(asot.WassersteinNeighbors(3).fit(members[:first])))
    model.partial_fit(members[first:])
    found = model._search(members[:4], 3)
    np.testing.assert_array_equal(found.indices, asot.kneighbors(members[:4], members, 3).indices)
    assert found.n_exact < 4 * 300
