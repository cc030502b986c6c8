"""`kneighbors(recall=...)`: a stated share of the neighbors, with exact distances and a measurement that is true."""

import numpy as np
import pytest
from click.testing import CliRunner

import asot
from asot.cli import cli
from asot.search.choose import Rehearsed
from asot.search.stated_recall import (
    Candidates,
    _measured_of_others,
    _smallest,
    _tuned,
    choose_held_out,
    interval_of,
    may_pay,
)
from asot.search.sweep import Shape


def mixtures(n, dim, seed=0):
    """Clouds from a few shared clusters, in so many dimensions that bounds rule out little."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(8, dim))
    arrays = []
    for _ in range(n):
        own = rng.choice(8, rng.integers(4, 9), p=rng.dirichlet(np.full(8, 0.4)))
        arrays.append(centers[own] + 0.4 * rng.normal(size=(len(own), dim)))
    return asot.Distributions.from_list(arrays)


def share_found(found, truth):
    return np.mean([np.isin(own, true).mean() for own, true in zip(truth.indices, found.indices, strict=True)])


@pytest.mark.parametrize(
    "distance",
    [
        {},
        {"metric": "cityblock"},
        {"metric": "canberra"},
        {"metric": "cosine"},
        {"metric": "braycurtis"},
        {"p": 2},
        {"metric": "sqeuclidean"},
        {"unmatched": 8.0},
    ],
)
def test_the_stated_share_is_found_under_every_distance(distance):
    D = mixtures(150, 12)
    if distance.get("metric") in ("canberra", "braycurtis"):
        D = asot.Distributions(np.abs(D.points) + 0.1, D.offsets, D.masses)
    truth = asot.kneighbors(D, 6, **distance)
    found = asot.kneighbors(D, 6, recall=0.9, **distance)
    record = found.info["recall"]
    assert share_found(found, truth) > 0.85
    assert record["asked"] == 0.9 <= record["measured"] <= 1.0
    assert record["interval"][0] < record["measured"]
    assert found.n_exact < 0.7 * found.info["n_pairs"]
    assert found.info["n_exact"] == found.n_exact


def test_distances_are_exact_and_neighbors_ascend():
    D = mixtures(120, 10)
    found = asot.kneighbors(D, 5, recall=0.8)
    matrix = asot.pairwise_exact(D, progress=False).matrix()
    assert np.array_equal(found.distances, np.take_along_axis(matrix, found.indices, axis=1))
    assert (np.diff(found.distances, axis=1) >= 0).all()
    assert not (found.indices == np.arange(120)[:, None]).any()
    assert all(len(set(row)) == 5 for row in found.indices.tolist())


def test_neighbors_in_another_collection():
    both = mixtures(250, 10)
    Q, D = both[:100], both[100:]
    truth, found = asot.kneighbors(Q, D, 5), asot.kneighbors(Q, D, 5, recall=0.9)
    assert share_found(found, truth) > 0.85
    assert found.n_exact < 100 * 150
    matrix = asot.pairwise_exact(Q, D, progress=False).matrix()
    assert np.array_equal(found.distances, np.take_along_axis(matrix, found.indices, axis=1))


def test_the_measured_interval_holds_the_true_share():
    D = mixtures(200, 15, seed=3)
    truth = asot.kneighbors(D, 5)
    inside = []
    for seed in range(10):
        found = asot.kneighbors(D, 5, recall=0.9, random_state=seed)
        low, high = found.info["recall"]["interval"]
        inside.append(low <= share_found(found, truth) <= high)
    assert sum(inside) >= 8


@pytest.mark.parametrize("n_rows", [80, 240, 2000])
def test_intervals_of_few_rows_miss_one_time_in_twenty(n_rows):
    """Of the rows that were not drawn: if those that were happened to miss much, the others miss less than all do."""
    rng = np.random.default_rng(0)
    outside = []
    for _ in range(1000):
        misses = rng.beta(0.3, 2.0, size=n_rows)
        found = rng.binomial(10, 1.0 - misses)
        drawn = rng.permutation(n_rows)
        tuning, measuring, others = found[drawn[:16]], found[drawn[16:40]], found[drawn[40:]]
        design = max(1.0, tuning.var(ddof=1) / 10 / max(1e-9, tuning.mean() / 10 * (1 - tuning.mean() / 10)))
        low, share, high = _measured_of_others(measuring, 10, design, len(others))
        assert low <= share <= high
        outside.append(not low <= others.mean() / 10 <= high)
    assert np.mean(outside) < 0.06


def test_neighbors_that_are_held_out_are_found_by_others():
    """Two of five rows are held out here: if they did not count, the share would be stated 1.3 points too low."""
    D = mixtures(80, 15, seed=3)
    truth = asot.kneighbors(D, 3)
    off = []
    for seed in range(60):
        found = asot.kneighbors(D, 3, recall=0.8, random_state=seed)
        off.append(share_found(found, truth) - found.info["recall"]["measured"])
    assert abs(np.mean(off)) < 0.008


def test_what_is_measured_is_measured_on_other_queries_than_those_that_tuned():
    tuning, measuring = choose_held_out(Shape(1500, 1500, 0, True), 10, 0.98, 0)
    assert len(tuning) == len(measuring) >= 40
    assert not np.isin(tuning, measuring).any()
    found = asot.kneighbors(mixtures(150, 12), 6, recall=0.9)
    record = found.info["recall"]
    assert record["tuning_queries"] == record["held_out_queries"] == 16
    assert not record["certain"]


@pytest.mark.parametrize("recall", [0.9, 0.98])
def test_the_true_share_is_rarely_below_the_stated_one(recall):
    """Ranks of neighbors, of which some rows have large ones: the share of all that a list of candidates holds."""
    rng = np.random.default_rng(0)

    def ranks(n):
        return np.floor(rng.exponential(20.0 * rng.gamma(2.0, size=(n, 1)), (n, 10))).astype(np.int64)

    everything = ranks(100_000)
    n = len(choose_held_out(Shape(10_000, 10_000, 0, True), 10, recall, 0).tuning)
    below = [np.mean(everything < _tuned(ranks(n), recall)[0]) < recall for _ in range(300)]
    assert np.mean(below) <= 0.05


def test_where_certainty_is_no_dearer_it_is_given():
    """In two dimensions, bounds rule out nearly all pairs."""
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_list([rng.normal(4 * rng.normal(size=2), 1.0, (20, 2)) for _ in range(300)])
    truth, found = asot.kneighbors(D, 5), asot.kneighbors(D, 5, recall=0.9)
    assert found.info["recall"]["certain"]
    assert found.info["recall"]["measured"] == 1.0
    assert np.array_equal(found.indices, truth.indices)
    assert found.n_exact == truth.n_exact < 0.3 * truth.info["n_pairs"]


def test_nothing_is_solved_in_vain_where_bounds_rule_out_most_pairs():
    """Rows that only tell the number of candidates are part of brute force, but not of a search with bounds."""
    shape = Shape(400, 400, 0, True)
    held_out = choose_held_out(shape, 10, 0.95, 0)
    assert may_pay(held_out, shape, Rehearsed(None, 1.0, shape.n_pairs))
    look = object()
    assert not may_pay(held_out, shape, Rehearsed(look, 1.0, 0.2 * shape.n_pairs))
    assert may_pay(held_out, shape, Rehearsed(look, 1.0, 0.9 * shape.n_pairs))


def test_the_answer_does_not_depend_on_threads_and_memory_and_repeats_for_a_seed():
    D = mixtures(120, 10)
    once = asot.kneighbors(D, 5, recall=0.85, random_state=1, n_jobs=1)
    for more in ({"n_jobs": 3}, {"n_jobs": 2, "memory": "20M"}):
        again = asot.kneighbors(D, 5, recall=0.85, random_state=1, **more)
        assert np.array_equal(once.indices, again.indices)
        assert np.array_equal(once.distances, again.distances)
        assert once.info["recall"] == again.info["recall"]
        assert once.n_exact == again.n_exact


@pytest.mark.parametrize("options", [{"n_neighbors": 3}, {"n_neighbors": 8}])
def test_where_nothing_can_be_measured_all_neighbors_are_found(options):
    D = mixtures(20, 10) if options["n_neighbors"] == 3 else mixtures(60, 10)
    found, truth = asot.kneighbors(D, recall=0.95, **options), asot.kneighbors(D, **options)
    assert np.array_equal(found.indices, truth.indices)
    assert found.info["recall"]["measured"] == 1.0
    assert found.info["recall"]["interval"] == (1.0, 1.0)


def test_candidates_that_tell_nothing_end_in_brute_force():
    """Equal means of all distances: the vectors are no help, and the measurement says so."""
    D = mixtures(1, 4)[np.zeros(80, dtype=int)]  # all equal: ties everywhere
    found = asot.kneighbors(D, 3, recall=0.9)
    assert np.array_equal(found.indices, asot.kneighbors(D, 3).indices)
    rng = np.random.default_rng(0)
    shape = Shape(90, 90, 0, True)
    D = mixtures(90, 10)
    from asot.exact.auto import exact_solver
    from asot.request import Distance
    from asot.run.executors import Progress
    from asot.search import stated_recall
    from asot.search.sweep import Best, Search

    solver = exact_solver(D, Distance(), 0, 2**28)
    best = Best(90, 4, True)
    search = Search(shape, solver, 1, 2**28, {}, Progress(False, 0, ""))
    nonsense = Candidates(np.rint(1000 * rng.normal(size=(90, 5))), shape, 1)
    held_out = choose_held_out(shape, 4, 0.9, 0)
    brute = Rehearsed(None, 1.0, shape.n_pairs)
    assert stated_recall.search_with_recall(search, nonsense, held_out, best, 0.9, brute) is None
    assert search.n_exact < 0.4 * shape.n_pairs  # those of the rows that told
    search.sweep(None, best)
    assert np.array_equal(best.indices, asot.kneighbors(D, 4).indices)
    assert search.n_exact == shape.n_pairs


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_the_scale_of_the_points_does_not_matter(scale):
    D = mixtures(100, 10)
    scaled = asot.Distributions(D.points * scale, D.offsets, D.masses)
    found = asot.kneighbors(scaled, 4, recall=0.9)
    assert share_found(found, asot.kneighbors(scaled, 4)) > 0.85


def test_ranks_and_lists_agree_with_sorting_and_ties_go_by_index():
    rng = np.random.default_rng(0)
    vectors = rng.integers(-2, 3, size=(50, 2)).astype(float)
    gaps = ((vectors[:, None] - vectors) ** 2).sum(axis=2)
    np.fill_diagonal(gaps, np.inf)
    order = np.lexsort((np.broadcast_to(np.arange(50), gaps.shape), gaps), axis=1)
    candidates = Candidates(vectors, Shape(50, 50, 0, True), 2)
    assert np.array_equal(np.sort(order[:, :7], axis=1), candidates.nearest(0, 50, 7))
    rows, columns = np.nonzero(~np.eye(50, dtype=bool))
    place = np.argsort(order, axis=1)
    assert np.array_equal(candidates.ranks(rows, columns), place[rows, columns])
    assert np.array_equal(_smallest(np.zeros((2, 9)), 3), [[0, 1, 2]] * 2)


def test_the_interval_is_wilsons_and_wider_where_rows_differ():
    even = interval_of(np.full(20, 0.9), 10)
    assert even == pytest.approx((0.8506, 0.9344), abs=1e-3)
    uneven = interval_of(np.array([0.0, 0.0] + [1.0] * 18), 10)
    assert uneven[1] - uneven[0] > even[1] - even[0]
    assert interval_of(np.ones(12), 5)[0] < 0.95


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"recall": 1.0}, "recall is the share of the neighbors to find, a number between 0 and 1; found 1.0"),
        ({"recall": 0}, "between 0 and 1; found 0"),
        ({"recall": True}, "found True"),
        ({"recall": "98%"}, "found '98%'"),
        ({"recall": 0.9, "prune": "relaxed"}, "leave out prune= and space=, or recall="),
        ({"recall": 0.9, "space": asot.KMeansAnchors(3)}, "leave out prune= and space=, or recall="),
        ({"recall": 0.9, "sink": asot.sinks.Store("never-made.zarr")}, "a store keeps certain neighbors"),
        ({"recall": 0.9, "device": "cuda"}, "recall= runs on CPUs"),
    ],
)
def test_what_does_not_go_together_is_refused(options, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        asot.kneighbors(mixtures(60, 5), 2, **options)


def test_the_estimator_and_the_command_line_take_it(tmp_path):
    D = mixtures(120, 10)
    expected = asot.kneighbors(D, 5, recall=0.9)
    model = asot.WassersteinNeighbors(5, recall=0.9).fit(D)
    assert np.array_equal(model.kneighbors(return_distance=False), expected.indices)
    with pytest.raises(ValueError, match="within a radius are certain"):
        model.radius_neighbors_graph()
    D.save(tmp_path / "d.npz")
    arguments = ["neighbors", str(tmp_path / "d.npz"), "-o", str(tmp_path / "n.npz"), "--recall", "0.9"]
    outcome = CliRunner().invoke(cli, arguments)
    assert outcome.exit_code == 0, outcome.output
    assert "pairs solved; recall 0.9" in outcome.output
    assert np.array_equal(np.load(tmp_path / "n.npz")["indices"], expected.indices)
    assert "; recall 0.9" in repr(expected)
