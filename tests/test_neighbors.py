"""`kneighbors` and `radius_neighbors`: the answers of brute force, ties included, with fewer solves."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier

import asot
from asot.datasets import load_digits
from asot.exact.points import ExactPoints

NORMS = ["euclidean", "cityblock", "chebyshev", "minkowski", "seuclidean", "mahalanobis"]
OTHERS = ["canberra", "hamming", "jensenshannon"]
TRUTHS = ["jaccard", "rogerstanimoto", "sokalsneath"]


def clouds(n, dim=3, seed=0, largest=9):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, largest + 1, size=n)
    arrays = [rng.normal(rng.normal(scale=2.0, size=dim), rng.uniform(0.2, 1.5), size=(s, dim)) for s in sizes]
    return asot.Distributions.from_list(arrays, [rng.random(s) + 0.01 for s in sizes])


def by_brute_force(Q, D, k, **options):
    """Sort the whole matrix by (distance, index)."""
    matrix = asot.pairwise_exact(Q, D, progress=False, **options).matrix()
    if D is None:
        np.fill_diagonal(matrix, np.inf)
    order = np.lexsort((np.broadcast_to(np.arange(matrix.shape[1]), matrix.shape), matrix), axis=1)[:, :k]
    return order, np.take_along_axis(matrix, order, axis=1)


def assert_same_neighbors(found, expected):
    indices, distances = expected
    assert np.array_equal(found.indices, indices)
    assert np.array_equal(found.distances, distances)  # bit for bit


# ------------------------------------------------------------------------------------------------ equals brute force


@pytest.mark.parametrize("metric", NORMS)
@pytest.mark.parametrize("prune", ["auto", "projections", "potentials", "relaxed", "all"])
def test_neighbors_equal_brute_force_in_every_norm(metric, prune):
    D = clouds(60)
    options = {"metric": metric, "metric_params": {"p": 3.0} if metric == "minkowski" else None}
    assert_same_neighbors(asot.kneighbors(D, None, 4, prune=prune, **options), by_brute_force(D, None, 4, **options))


@pytest.mark.parametrize("metric", OTHERS + TRUTHS)
@pytest.mark.parametrize("prune", ["auto", "potentials", "relaxed", "all"])
def test_neighbors_equal_brute_force_in_every_other_metric(metric, prune):
    D = clouds(60)
    points = np.abs(D.points) + 0.01 if metric not in [*TRUTHS, "hamming"] else (D.points > 0).astype(float)
    D = asot.Distributions(points, D.offsets, D.masses)
    found = asot.kneighbors(D, None, 4, metric=metric, prune=prune)
    assert_same_neighbors(found, by_brute_force(D, None, 4, metric=metric))
    named = {"auto": [], "potentials": ["potentials"], "relaxed": ["relaxed"], "all": ["potentials", "relaxed"]}
    assert found.info["bounds"] == named[prune]


@pytest.mark.parametrize("dim", [1, 2, 3, 6, 40])
@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("prune", ["auto", "projections", "relaxed"])
def test_neighbors_in_another_collection_equal_brute_force(dim, k, prune):
    Q, D = clouds(25, dim, seed=1), clouds(70, dim, seed=2)
    assert_same_neighbors(asot.kneighbors(Q, D, k, prune=prune), by_brute_force(Q, D, k))


def test_queries_that_are_part_of_the_collection_find_themselves():
    D = clouds(30)
    found = asot.kneighbors(D[:5], D, 2)
    assert found.indices[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert (found.distances[:, 0] == 0).all()


def test_within_one_collection_no_distribution_is_its_own_neighbor():
    D = clouds(30)
    once, twice = asot.kneighbors(D, None, 3), asot.kneighbors(D, D, 3)
    assert not (once.indices == np.arange(30)[:, None]).any()
    assert_same_neighbors(twice, (once.indices, once.distances))


@pytest.mark.parametrize("k", [1, 3, 39])
@pytest.mark.parametrize("prune", ["projections", "relaxed", "all"])
def test_equal_distributions_are_neighbors_in_order_of_index(k, prune):
    D = clouds(8)[np.arange(40) % 8]
    assert_same_neighbors(asot.kneighbors(D, None, k, prune=prune), by_brute_force(D, None, k))


@pytest.mark.parametrize("prune", ["projections", "relaxed"])
def test_a_collection_of_equal_distributions_needs_hardly_a_solve(prune):
    D = clouds(1)[np.zeros(100, dtype=int)]
    found = asot.kneighbors(D, None, 3, prune=prune)
    assert_same_neighbors(found, by_brute_force(D, None, 3))
    assert found.n_exact < 1500  # of 4950


def test_points_on_a_grid_have_many_ties_and_all_are_kept_in_order():
    rng = np.random.default_rng(3)
    D = asot.Distributions.from_list([rng.integers(0, 3, size=(rng.integers(1, 4), 2)) for _ in range(80)])
    for prune in ("projections", "potentials", "relaxed"):
        assert_same_neighbors(asot.kneighbors(D, None, 7, prune=prune), by_brute_force(D, None, 7))


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e30, 1e200])
@pytest.mark.parametrize("prune", ["projections", "relaxed"])
def test_neighbors_do_not_depend_on_the_scale_of_the_points(scale, prune):
    D = clouds(40)
    scaled = asot.Distributions(D.points * scale, D.offsets, D.masses)
    assert_same_neighbors(asot.kneighbors(scaled, None, 3, prune=prune), by_brute_force(scaled, None, 3))


def test_points_far_from_the_origin_keep_their_neighbors():
    D = clouds(40)
    moved = asot.Distributions(D.points + 1e8, D.offsets, D.masses)
    assert_same_neighbors(asot.kneighbors(moved, None, 3, prune="all"), by_brute_force(moved, None, 3))


@pytest.mark.parametrize("n", [2, 3])
def test_the_smallest_collections(n):
    D = clouds(n)
    assert_same_neighbors(asot.kneighbors(D, None, n - 1, prune="all"), by_brute_force(D, None, n - 1))


def test_a_single_query_against_a_single_distribution():
    D = clouds(2)
    found = asot.kneighbors(D[:1], D[1:], 1, prune="all")
    assert found.indices.tolist() == [[0]]
    assert found.distances[0, 0] == asot.pairwise_exact(D[:1], D[1:]).values[0]


@st.composite
def small_collections(draw):
    dim = draw(st.integers(1, 3))
    coordinate = st.integers(-2, 2) if draw(st.booleans()) else st.floats(-1e3, 1e3, allow_subnormal=False)
    sizes = draw(st.lists(st.integers(1, 3), min_size=3, max_size=9))
    points = [draw(st.lists(coordinate, min_size=n * dim, max_size=n * dim)) for n in sizes]
    return asot.Distributions.from_list(
        [np.array(p, dtype=float).reshape(n, dim) for p, n in zip(points, sizes, strict=True)]
    )


@given(small_collections(), st.sampled_from(["euclidean", "cityblock", "chebyshev"]), st.integers(1, 2), st.data())
def test_generated_collections_have_the_neighbors_of_brute_force(D, metric, k, data):
    prune = data.draw(st.sampled_from(["projections", "potentials", "relaxed", "all"]))
    assert_same_neighbors(
        asot.kneighbors(D, None, k, metric=metric, prune=prune), by_brute_force(D, None, k, metric=metric)
    )
    radius = float(data.draw(st.sampled_from(asot.pairwise_exact(D, metric=metric).values.tolist())))
    found = asot.radius_neighbors(D, None, radius, metric=metric, prune=prune)
    assert np.array_equal(found.graph().toarray(), within(D, radius, metric))


# ------------------------------------------------------------------------------------------------ few solves


def test_digits_need_a_small_share_of_the_solves():
    digits, _, _ = load_digits(600)
    found = asot.kneighbors(digits, None, 5, n_jobs=2)
    brute = asot.pairwise_exact(digits, sink=asot.sinks.TopK(5), n_jobs=2)
    assert_same_neighbors(found, (brute.indices, brute.distances))
    assert found.n_exact < 0.12 * found.info["n_pairs"]
    assert found.info["n_exact"] == found.n_exact


def documents(n, words, seed=0):
    """Bags of words from a vocabulary of 400 in 100 dimensions: projections exclude hardly a pair."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(400, 100))
    topics = rng.dirichlet(np.full(400, 0.05), size=8)
    weights = np.stack([rng.multinomial(words, topics[rng.integers(8)]) for _ in range(n)])
    return asot.Distributions.from_weights(weights, vectors)


@pytest.mark.parametrize("words", [8, 60])
def test_documents_need_a_part_of_the_solves(words):
    D = documents(300, words)
    expected = by_brute_force(D, None, 5)  # of so many pairs that their distances come from a table
    found = asot.kneighbors(D, None, 5, prune="relaxed")
    assert_same_neighbors(found, expected)
    assert found.n_exact < 0.4 * found.info["n_pairs"]
    assert_same_neighbors(asot.kneighbors(D, None, 5), expected)


@pytest.mark.parametrize("clock", ["process_time", "perf_counter", "monotonic", "time"])
def test_no_clock_decides_which_way_a_search_takes(monkeypatch, clock):
    D = documents(200, 20)
    plain = asot.kneighbors(D, None, 5)
    assert plain.info["bounds"] != []
    ticks = itertools.accumulate(itertools.cycle([1e-9, 1e9]))  # whatever is timed took no time, or a lifetime
    monkeypatch.setattr(time, clock, lambda: next(ticks))
    strange = asot.kneighbors(D, None, 5)
    assert strange.info["rehearsal"] == plain.info["rehearsal"]
    assert strange.n_exact == plain.n_exact


def test_what_a_rehearsal_has_solved_is_not_solved_again(monkeypatch):
    solved = []
    solve = ExactPoints.solve

    def counted(self, rows, columns, stop):
        solved.extend(zip(rows.tolist(), columns.tolist(), strict=True))
        return solve(self, rows, columns, stop)

    monkeypatch.setattr(ExactPoints, "solve", counted)
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_list(rng.normal(size=(120, 30, 50)))
    found = asot.kneighbors(D, None, 5)
    assert found.info["bounds"] == []
    assert len(solved) == len(set(solved)) == found.n_exact == found.info["n_pairs"]


def test_relaxed_bounds_of_small_clouds_cost_less_than_their_distances():
    rng = np.random.default_rng(3)
    D = asot.Distributions.from_list([rng.normal(size=(size, 5)) for size in rng.integers(10, 31, 300)])
    found = asot.kneighbors(D, None, 5)  # by the clock, they save a third of the work
    assert found.info["bounds"] == ["relaxed"]
    assert found.n_exact < 0.3 * found.info["n_pairs"]


def test_where_no_bound_pays_it_is_brute_force_and_info_says_so():
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_list(rng.normal(size=(120, 30, 50)))
    found = asot.kneighbors(D, None, 5)
    assert_same_neighbors(found, by_brute_force(D, None, 5))
    assert found.info["bounds"] == []
    assert found.info["rehearsal"]["chosen"].startswith("brute force")
    assert found.n_exact == found.info["n_pairs"]
    radius = float(found.distances.max())
    near = asot.radius_neighbors(D, None, radius)
    assert np.array_equal(near.graph().toarray(), within(D, radius))


def test_neither_answer_nor_work_depends_on_threads():
    D = clouds(120)
    for prune in ("all", "relaxed"):
        one, two = (asot.kneighbors(D, None, 4, prune=prune, n_jobs=n) for n in (1, 2))
        assert_same_neighbors(one, (two.indices, two.distances))
        assert one.n_exact == two.n_exact


def test_answers_do_not_depend_on_memory():
    D = clouds(120)
    plenty, little = (asot.kneighbors(D, None, 4, prune="all", memory=m) for m in ("1G", "20K"))
    assert_same_neighbors(plenty, (little.indices, little.distances))
    assert little.info["n_rotations"] < plenty.info["n_rotations"]


def test_progress_reaches_all_pairs():
    seen = []
    asot.kneighbors(clouds(50), None, 2, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (1225, 1225)
    asot.kneighbors(clouds(50), clouds(9), 2, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (450, 450)


# ------------------------------------------------------------------------------------------------ spaces


@pytest.mark.parametrize("space", [asot.KMeansAnchors(6, random_state=0), asot.FixedAnchors()])
def test_a_space_changes_the_work_but_not_the_answer(space):
    D = clouds(60)
    found = asot.kneighbors(D, None, 4, space=space)
    assert_same_neighbors(found, by_brute_force(D, None, 4))
    named = asot.kneighbors(D, None, 4, space=space, prune="all")
    assert_same_neighbors(named, (found.indices, found.distances))
    assert named.info["bounds"] == ["projections", "potentials", "relaxed"]
    assert named.info["n_anchors"] > 0


def test_a_space_with_a_cost_of_its_own_still_gives_certain_answers():
    D = clouds(60)
    anchors = D.points[:5]
    space = asot.AnchorSpace(anchors, cost=7.0 * (1.0 - np.eye(5)))
    assert_same_neighbors(asot.kneighbors(D, None, 4, space=space), by_brute_force(D, None, 4))


def test_a_space_of_another_collection_is_warned_about_with_the_number():
    D = clouds(30)
    space = asot.AnchorSpace(1000.0 + np.arange(8.0).reshape(4, 2) @ np.ones((2, 3)))
    with pytest.warns(UserWarning, match=r"points are 1\.\d+e\+03 away from their anchors on average, \d+"):
        found = asot.kneighbors(D, None, 2, space=space)
    assert_same_neighbors(found, by_brute_force(D, None, 2))


# ------------------------------------------------------------------------------------------------ radius


def within(D, radius, metric="euclidean"):
    matrix = asot.pairwise_exact(D, metric=metric).matrix()
    return np.where(matrix <= radius, matrix, 0.0)


@pytest.mark.parametrize("prune", ["projections", "potentials", "relaxed", "all"])
def test_radius_neighbors_are_all_pairs_within_the_radius(prune):
    D = clouds(60)
    radius = float(np.quantile(asot.pairwise_exact(D).values, 0.1))  # (a value: the pair at the edge belongs)
    found = asot.radius_neighbors(D, None, radius, prune=prune)
    assert np.array_equal(found.graph().toarray(), within(D, radius))
    assert found.n_exact < 60 * 59 / 2 + 496
    for i in range(60):
        assert (np.diff(found.distances[found.indptr[i] : found.indptr[i + 1]]) >= 0).all()


def test_radius_zero_finds_equal_distributions_as_stored_zeros():
    D = clouds(8)[np.arange(16) % 8]
    graph = asot.radius_neighbors(D, None, 0.0).graph()
    assert graph.nnz == 16
    assert (graph.data == 0).all()


def test_radius_neighbors_in_another_collection():
    Q, D = clouds(20, seed=1), clouds(30, seed=2)
    matrix = asot.pairwise_exact(Q, D).matrix()
    radius = float(np.median(matrix))
    found = asot.radius_neighbors(Q, D, radius)
    assert np.array_equal(found.graph().toarray(), np.where(matrix <= radius, matrix, 0.0))


# ------------------------------------------------------------------------------------------------ graphs


def test_graphs_are_what_scikit_learn_reads_as_precomputed():
    digits, labels, _ = load_digits(120)
    train, test = digits[:90], digits[90:]
    model = KNeighborsClassifier(3, metric="precomputed")
    model.fit(asot.kneighbors(train, None, 3).graph(), labels[:90])
    predicted = model.predict(asot.kneighbors(test, train, 3).graph())
    dense = KNeighborsClassifier(3, metric="precomputed")
    dense.fit(asot.pairwise_exact(train).matrix(), labels[:90])
    assert np.array_equal(predicted, dense.predict(asot.pairwise_exact(test, train).matrix()))
    by_radius = RadiusNeighborsClassifier(0.08, metric="precomputed", outlier_label=-1)
    by_radius.fit(asot.radius_neighbors(train, None, 0.08).graph(), labels[:90])
    assert by_radius.predict(asot.radius_neighbors(test, train, 0.08).graph()).shape == (30,)


def test_graph_of_a_sink_needs_to_be_told_its_columns():
    found = asot.pairwise_exact(clouds(6), sink=asot.sinks.TopK(2))
    with pytest.raises(ValueError, match="does not know the size of the collection; pass n_columns"):
        found.graph()
    assert sparse.issparse(found.graph(n_columns=6))
    assert found.n_exact is None


# ------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((None, 30), {}, "n_neighbors=30, but there are only 29 candidates for each query"),
        ((None, 0), {}, "n_neighbors must be a whole number ≥ 1; found 0"),
        ((None, 2.5), {}, "n_neighbors must be a whole number ≥ 1; found 2.5"),
        ((clouds(5, dim=2), 2), {}, "the two collections are in 3 and 2 dimensions"),
        ((clouds(5), 6), {}, "n_neighbors=6, but there are only 5 candidates"),
        ((None, 2), {"prune": "hope"}, "prune must be one of 'auto', 'projections', 'potentials', 'relaxed', 'all'"),
        ((None, 2), {"metric": "cosines"}, "unknown metric 'cosines'"),
        ((None, 2), {"metric": "canberra", "prune": "projections"}, "proven for metrics that are norms"),
        ((None, 2), {"metric": "cityblock", "space": asot.KMeansAnchors(4)}, "space= works with metric='euclidean'"),
        ((None, 2), {"n_jobs": 0}, "n_jobs must be None, a positive number"),
        ((None, 2), {"memory": "a lot"}, "memory must be a number of bytes"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_reason(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        asot.kneighbors(clouds(30), *arguments, **options)


@pytest.mark.parametrize("radius", [-1.0, np.nan, np.inf, "wide", True, 10**400])
def test_a_radius_is_a_number_of_at_least_0(radius):
    with pytest.raises(ValueError, match="radius must be a finite number ≥ 0"):
        asot.radius_neighbors(clouds(5), None, radius)


def test_a_space_must_be_one():
    with pytest.raises(TypeError, match="space must be an AnchorSpace or an anchor learner"):
        asot.kneighbors(clouds(5), None, 2, space="anchors")


def test_neighbors_within_a_radius_are_a_table_with_names():
    D = asot.Distributions.from_list([[[0.0]], [[1.0]], [[9.0]], [[2.5]]], ids=["a", "b", "far", "c"])
    table = asot.radius_neighbors(D, radius=2.6).to_frame()
    assert table.columns.tolist() == ["id", "rank", "neighbor", "distance"]
    assert table["id"].tolist() == ["a", "a", "b", "b", "c", "c"]
    assert table["rank"].tolist() == [1, 2] * 3
    assert table["neighbor"].tolist() == ["b", "c", "a", "c", "b", "a"]
    assert table["distance"].tolist() == [1.0, 2.5, 1.0, 1.5, 1.5, 2.5]
