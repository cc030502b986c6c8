"""The original W_1: against POT on scipy's distances for every metric, and what must hold for any of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from scipy.spatial.distance import cdist
from scipy.stats import wasserstein_distance

import asot
from asot import Distributions, Status
from asot.exact import points
from asot.ground.metrics import prepare_metric
from tests.oracles import ot
from tests.strategies import extent, ragged_lists


def normal(rng, n, d):
    return rng.normal(size=(n, d))


def mostly_zero(rng, n, d):
    return rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.3)


def whole(rng, n, d):
    return rng.integers(0, 3, (n, d)).astype(float)


def truth(rng, n, d):
    return rng.integers(0, 2, (n, d)).astype(float)


def positive(rng, n, d):
    return rng.random((n, d)) * (rng.random((n, d)) < 0.6) + 0.01


@dataclass(frozen=True)
class Case:
    metric: str
    points: Any
    parameters: dict = field(default_factory=dict)

    def distances(self, x, y, pool):
        """Scipy's distances of x to y; ``pool`` are the distinct points, for metrics that need their spread."""
        parameters = dict(self.parameters)
        if self.metric == "seuclidean":
            parameters.setdefault("V", np.var(pool, axis=0, ddof=1))
        if self.metric == "mahalanobis":
            parameters.setdefault("VI", np.linalg.inv(np.atleast_2d(np.cov(pool.T))))
        if self.points is truth and self.metric != "hamming":
            x, y = x.astype(bool), y.astype(bool)
        # scipy computes 0/0 for two zero vectors, and the root of -1e-17 for two equal ones
        return np.nan_to_num(cdist(x, y, self.metric, **parameters), nan=0.0)

    def __str__(self):
        return "-".join([self.metric, self.points.__name__, *map(str, self.parameters)])


D3_SPREAD = {"V": np.array([0.5, 2.0, 9.0])}
D3_SHAPE = {"VI": np.array([[2.0, 0.3, 0.0], [0.3, 1.0, -0.2], [0.0, -0.2, 0.5]])}

CASES = [
    *(Case(metric, points) for metric in ("euclidean", "cityblock", "chebyshev") for points in (normal, mostly_zero)),
    Case("minkowski", normal),
    Case("minkowski", normal, {"p": 1.5}),
    Case("minkowski", mostly_zero, {"p": 3}),
    Case("minkowski", normal, {"p": 1}),
    Case("canberra", normal),
    Case("canberra", mostly_zero),
    Case("hamming", whole),
    Case("hamming", truth),
    *(Case(metric, truth) for metric in ("jaccard", "rogerstanimoto", "sokalsneath")),
    Case("jensenshannon", positive),
    Case("seuclidean", normal),
    Case("seuclidean", mostly_zero),
    Case("seuclidean", normal, D3_SPREAD),
    Case("mahalanobis", normal),
    Case("mahalanobis", mostly_zero),
    Case("mahalanobis", normal, D3_SHAPE),
]
every_case = pytest.mark.parametrize("case", CASES, ids=str)


def collection(rng, draw=normal, n=8, d=3, largest=12):
    """Distributions with repeats inside and across them, and points without mass."""
    pool = draw(rng, 3 * largest, d)
    sizes = rng.integers(1, largest, n)
    points = [pool[rng.integers(len(pool), size=size)] for size in sizes]
    masses = [rng.integers(0, 3, size) + np.eye(size)[0] for size in sizes]
    return Distributions.from_list(points, masses)


def points_with_mass(*collections):
    return np.unique(np.concatenate([D.points[D.masses > 0] for D in collections]), axis=0)


def pot_value(x, a, y, b, distances):
    cost = distances(x, y)
    top = cost.max() or 1.0  # POT's tolerances are absolute
    return top * ot.emd2(a / a.sum(), b / b.sum(), np.ascontiguousarray(cost / top), numItermax=1_000_000)


def pot_matrix(D, E, distances):
    return np.array([[pot_value(x, a, y, b, distances) for y, b in E] for x, a in D])


def euclidean_matrix(D, E):
    return pot_matrix(D, E, cdist)


# ------------------------------------------------------------------------------------------- every metric


@pytest.mark.parametrize("d", [1, 3, 9])
@pytest.mark.parametrize("case", [case for case in CASES if not case.parameters.keys() & {"V", "VI"}], ids=str)
def test_ground_distances_are_scipys(case, d):
    """One point against one point: W_1 is the ground distance."""
    x = np.unique(case.points(np.random.default_rng(d), 15, d), axis=0)
    D = Distributions(x, np.arange(len(x) + 1))
    expected = case.distances(x, x, x)
    values = asot.pairwise_exact(D, metric=case.metric, metric_params=case.parameters).matrix()
    np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-12 * expected.max())


@every_case
def test_values_agree_with_pot_on_scipys_distances(case):
    rng = np.random.default_rng(len(str(case)))
    D, E = collection(rng, case.points), collection(rng, case.points, n=5)
    pool = points_with_mass(D, E)
    expected = pot_matrix(D, E, lambda x, y: case.distances(x, y, pool))
    result = asot.pairwise_exact(D, E, metric=case.metric, metric_params=case.parameters)
    np.testing.assert_allclose(result.matrix(), expected, rtol=0, atol=1e-10 * expected.max())
    np.testing.assert_array_equal(result.status, Status.OPTIMAL)
    assert result.info["metric"] == case.metric


def test_manhattan_is_another_name_of_cityblock():
    D = collection(np.random.default_rng(1))
    manhattan, cityblock = (asot.pairwise_exact(D, metric=name).values for name in ("manhattan", "cityblock"))
    np.testing.assert_array_equal(manhattan, cityblock)


@pytest.mark.parametrize("p", [30, 100, 1000])
def test_a_large_p_does_not_lose_small_distances(p):
    D = Distributions.from_list([[[0.0, 0.0], [1.0, 0.0]], [[1e-4, 0.0], [1.0, 2e-4]]])
    value = asot.pairwise_exact(D, metric="minkowski", metric_params={"p": p}).values
    np.testing.assert_allclose(value, [1.5e-4], rtol=1e-12)


@pytest.mark.parametrize("metric", ["seuclidean", "mahalanobis"])
@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e200, 1e300])
def test_metrics_measured_in_the_spread_of_the_points_do_not_depend_on_their_scale(metric, scale):
    D = collection(np.random.default_rng(2))
    scaled = Distributions(scale * D.points, D.offsets, D.masses)
    expected = asot.pairwise_exact(D, metric=metric).values
    np.testing.assert_allclose(asot.pairwise_exact(scaled, metric=metric).values, expected, rtol=1e-10)


@pytest.mark.parametrize("metric", ["euclidean", "seuclidean", "mahalanobis"])
def test_a_common_offset_costs_no_digits(metric):
    D = collection(np.random.default_rng(3))
    far = Distributions(D.points + 1e8, D.offsets, D.masses)
    near = Distributions(far.points - 1e8, D.offsets, D.masses)
    expected = asot.pairwise_exact(near, metric=metric).values
    np.testing.assert_allclose(asot.pairwise_exact(far, metric=metric).values, expected, rtol=1e-12)


@pytest.mark.parametrize("metric", ["sqeuclidean", "cosine", "braycurtis"])
def test_what_is_no_metric_is_solved_without_canceling(metric):
    found = asot.pairwise_exact([[[0.5, 1.0]], [[1.0, 0.1]]], metric=metric)
    assert not found.info["common_mass_canceled"] or found.info["metric_proven"]


@pytest.mark.parametrize(
    ("points", "metric", "parameters", "message"),
    [
        (normal, "euclidean", {"p": 3}, "metric 'euclidean' takes no parameter 'p'"),
        (normal, "minkowski", {"p": 0.5}, "needs p ≥ 1 to be a metric; found 0.5"),
        (normal, "minkowski", {"p": np.nan}, "needs p ≥ 1"),
        (normal, "jaccard", None, "compares truth values; points must be 0 or 1"),
        (normal, "jensenshannon", None, "compares probability vectors; points must be ≥ 0 and not all 0"),
        (normal, "seuclidean", {"V": [1.0, 1.0]}, "needs a positive variance for each of the 3 coordinates"),
        (normal, "seuclidean", {"V": [1.0, 0.0, 1.0]}, "needs a positive variance for each of the 3 coordinates"),
        (normal, "mahalanobis", {"VI": np.eye(2)}, "needs a positive definite (3, 3) inverse covariance"),
        (normal, "mahalanobis", {"VI": -np.eye(3)}, "needs a positive definite (3, 3) inverse covariance"),
        (lambda rng, n, d: np.ones((n, d)), "seuclidean", None, "drop constant ones or pass metric_params={'V': ...}"),
        (lambda rng, n, d: np.ones((n, d)), "mahalanobis", None, "pass metric_params={'VI': ...}"),
    ],
)
def test_points_and_parameters_that_do_not_fit_a_metric(points, metric, parameters, message):
    x = points(np.random.default_rng(0), 10, 3)
    with pytest.raises(ValueError, match=re.escape(message)):
        prepare_metric(x, metric, parameters)


# ------------------------------------------------------------------------------------------- collections of any kind


def test_all_pairs_come_in_condensed_order():
    D = collection(np.random.default_rng(4))
    expected = euclidean_matrix(D, D)
    result = asot.pairwise_exact(D)
    upper = np.triu_indices(len(D), 1)
    np.testing.assert_allclose(result.values, expected[upper], atol=1e-12)
    np.testing.assert_allclose(result.matrix(), expected, atol=1e-12)


def test_a_rectangle_is_a_block_of_the_square():
    rng = np.random.default_rng(5)
    D, E = collection(rng, n=4), collection(rng, n=6)
    whole = asot.pairwise_exact(D + E).matrix()
    np.testing.assert_allclose(asot.pairwise_exact(D, E).matrix(), whole[:4, 4:], rtol=1e-13)


def test_listed_pairs_are_entries_of_the_matrix():
    rng = np.random.default_rng(6)
    D, E = collection(rng), collection(rng, n=5)
    pairs = np.array([[3, 1], [0, 0], [7, 4], [3, 1], [1, 3]])
    within = asot.pairwise_exact(D, pairs=pairs)
    np.testing.assert_array_equal(within.values, asot.pairwise_exact(D).matrix()[tuple(pairs.T)])
    across = asot.pairwise_exact(D, E, pairs=pairs)
    np.testing.assert_array_equal(across.values, asot.pairwise_exact(D, E).matrix()[tuple(pairs.T)])


@pytest.mark.parametrize("kind", ["dense", "sparse", "long"])
def test_few_listed_pairs_lay_out_only_what_they_name_and_keep_every_bit(kind, monkeypatch):
    rng = np.random.default_rng(0)
    words = rng.normal(size=(50, 70 if kind == "long" else 6))
    if kind == "sparse":
        words *= rng.random(words.shape) < 0.4
    D = asot.Distributions.from_list([words[rng.integers(50, size=rng.integers(3, 9))] for _ in range(120)])
    pairs = np.array([[3, 1], [90, 7], [7, 119], [5, 5]])
    matrix, across = asot.pairwise_exact(D).matrix(), asot.pairwise_exact(D[:60], D[60:]).matrix()
    laid_out = []
    original = points.pack_points
    monkeypatch.setattr(points, "pack_points", lambda *given: laid_out.append(original(*given)) or laid_out[-1])
    np.testing.assert_array_equal(asot.pairwise_exact(D, pairs=pairs).values, matrix[tuple(pairs.T)])
    some = np.array([[3, 1], [59, 59]])
    np.testing.assert_array_equal(asot.pairwise_exact(D[:60], D[60:], pairs=some).values, across[tuple(some.T)])
    assert all(np.count_nonzero(np.diff(offsets)) <= 6 for _, offsets in laid_out)
    assert len(laid_out) == 2


def test_a_single_distribution_has_no_pairs():
    result = asot.pairwise_exact([[[1.0, 2.0]]])
    assert len(result) == 0
    np.testing.assert_array_equal(result.matrix(), [[0.0]])


@given(ragged_lists())
def test_small_collections_agree_with_pot(lists):
    D = Distributions.from_list(*lists)
    expected = euclidean_matrix(D, D)
    np.testing.assert_allclose(asot.pairwise_exact(D).matrix(), expected, atol=1e-10 * extent(D.points))


def test_equal_distributions_are_at_distance_zero_however_they_are_written():
    x, y = [0.0, 1.0], [2.0, 5.0]
    D = Distributions.from_list(
        [[x, y], [y, x], [x, x, y, y], [x, y, [9.0, 9.0]], [y, x, x]],
        [[1, 1], [3, 3], [1, 1, 1, 1], [2, 2, 0], [2, 1, 1]],
    )
    np.testing.assert_array_equal(asot.pairwise_exact(D).values, 0.0)


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "canberra"])
def test_repeated_and_massless_points_change_nothing(metric):
    rng = np.random.default_rng(7)
    plain = [normal(rng, n, 2) for n in (3, 5, 4)]
    expected = asot.pairwise_exact(plain, metric=metric).values
    doubled = Distributions.from_list([np.repeat(x, 2, axis=0) for x in plain])
    np.testing.assert_allclose(asot.pairwise_exact(doubled, metric=metric).values, expected, rtol=1e-13)
    padded = Distributions.from_list(
        [np.concatenate([normal(rng, 3, 2), x]) for x in plain], [np.repeat([0.0, 1.0], [3, len(x)]) for x in plain]
    )
    np.testing.assert_allclose(asot.pairwise_exact(padded, metric=metric).values, expected, rtol=1e-13)


def test_float32_points_are_taken_for_what_they_are():
    D = collection(np.random.default_rng(8))
    small = Distributions(D.points.astype(np.float32), D.offsets, D.masses)
    same = Distributions(small.points.astype(np.float64), D.offsets, D.masses)
    assert small.points.dtype == np.float32
    np.testing.assert_array_equal(asot.pairwise_exact(small).values, asot.pairwise_exact(same).values)


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev", "minkowski"])
@pytest.mark.parametrize("tiny", [1e-130, 1e-178, 1e-250, 1e-300])
def test_distances_whose_squares_vanish_are_no_zeros(metric, tiny):
    x, y = np.array([[1.0, 3.0], [0.0, 2.0]]), np.array([[5.0, 1.0], [0.0, 1.0], [7.0, 4.0]])
    large = asot.pairwise_exact(Distributions.from_list([x, y]), metric=metric).values[0]
    D = Distributions.from_list([tiny * x, tiny * y, [[1.0, 0.0]]])
    np.testing.assert_allclose(asot.pairwise_exact(D, metric=metric).values[0], tiny * large, rtol=1e-12)


def test_lists_and_mixed_precision_are_read():
    x, y = [[0.0, 0.0], [1.0, 0.0]], np.array([[0.5, 1.0]], dtype=np.float32)
    values = asot.pairwise_exact([x], [y]).values
    np.testing.assert_allclose(values, [np.sqrt(1.25)], rtol=1e-14)


@pytest.mark.parametrize("d", [40, 300])
def test_features_that_are_mostly_zero_agree_with_pot(d):
    rng = np.random.default_rng(d)
    one_hot = [np.eye(d)[rng.integers(d, size=n)] for n in rng.integers(1, 15, 6)]
    counts = [x + np.roll(x, 1, axis=0) for x in one_hot]
    D = Distributions.from_list(one_hot + counts)
    np.testing.assert_allclose(asot.pairwise_exact(D).matrix(), euclidean_matrix(D, D), atol=1e-12)


def test_distributions_of_hundreds_of_points_agree_with_pot():
    rng = np.random.default_rng(9)
    D = Distributions.from_list(
        [normal(rng, 300, 3), normal(rng, 257, 3) + 0.5, whole(rng, 300, 3)], [rng.random(n) for n in (300, 257, 300)]
    )
    np.testing.assert_allclose(asot.pairwise_exact(D).matrix(), euclidean_matrix(D, D), atol=1e-10)


@pytest.mark.parametrize("options", [{"n_jobs": 3}, {"memory": 64}, {"n_jobs": 2, "memory": "1K"}])
def test_threads_and_memory_change_no_bit(options):
    D = collection(np.random.default_rng(10), n=25)
    np.testing.assert_array_equal(asot.pairwise_exact(D, **options).values, asot.pairwise_exact(D).values)


def test_the_result_says_what_the_numbers_are():
    D = Distributions.from_list([[[0.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [3.0, 0.0]]])
    info = asot.pairwise_exact(D, metric="cityblock").info
    assert {key: info[key] for key in ("metric", "p", "estimate", "reg", "distinct_points", "n_pairs")} == {
        "metric": "cityblock",
        "p": 1,
        "estimate": "exact",
        "reg": None,
        "distinct_points": 3,
        "n_pairs": 1,
    }


def test_collections_of_two_spaces_are_refused():
    with pytest.raises(ValueError, match="in 1 and 2 dimensions; they must share one space"):
        asot.pairwise_exact([[[0.0]]], [[[0.0, 1.0]]])


# ------------------------------------------------------------------------------------------- known answers and laws


def test_on_a_line_it_is_scipys_wasserstein_distance():
    rng = np.random.default_rng(11)
    D = collection(rng, d=1, largest=40)
    expected = [[wasserstein_distance(x[:, 0], y[:, 0], a, b) for y, b in D] for x, a in D]
    np.testing.assert_allclose(asot.pairwise_exact(D).matrix(), expected, atol=1e-12)


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev"])
def test_a_translation_costs_its_length(metric):
    rng = np.random.default_rng(12)
    x, shift = normal(rng, 40, 3), np.array([3.0, -4.0, 12.0])
    expected = cdist([shift], [[0.0, 0.0, 0.0]], metric)[0]
    np.testing.assert_allclose(asot.pairwise_exact([x, x + shift], metric=metric).values, expected, rtol=1e-12)


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev", "seuclidean", "mahalanobis"])
def test_moving_everything_changes_nothing(metric):
    D = collection(np.random.default_rng(13), mostly_zero)
    moved = Distributions(D.points + np.array([5.0, -3.0, 0.25]), D.offsets, D.masses)
    expected = asot.pairwise_exact(D, metric=metric).values
    np.testing.assert_allclose(asot.pairwise_exact(moved, metric=metric).values, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-310, 1e-300, 1e-150, 1e150, 1e300])
@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev", "minkowski"])
def test_scaling_the_points_scales_the_distances(metric, scale):
    D = collection(np.random.default_rng(14))
    scaled = Distributions(scale * D.points, D.offsets, D.masses)
    values = asot.pairwise_exact(scaled, metric=metric).values
    # 1e-310 is below the normal numbers, which have fewer digits there
    rtol = 1e-12 if scale > 1e-305 else 1e-9
    np.testing.assert_allclose(values / scale, asot.pairwise_exact(D, metric=metric).values, rtol=rtol)


@every_case
def test_the_triangle_inequality_holds(case):
    D = collection(np.random.default_rng(15), case.points)
    W = asot.pairwise_exact(D, metric=case.metric, metric_params=case.parameters).matrix()
    detours = (W[:, :, None] + W[None, :, :]).min(axis=1)
    assert np.all(detours + 1e-12 * W.max() >= W)


def test_a_metric_that_gpus_do_not_know_is_solved_on_the_cpu(monkeypatch):
    monkeypatch.setattr("asot.exact.auto.ON_GPUS", frozenset())
    monkeypatch.setattr("asot.search.nearest.ON_GPUS", frozenset())
    D = Distributions.from_list([[[0.0, 0.0]], [[1.0, 2.0]]])
    with pytest.raises(ValueError, match="device='cuda' cannot be used: the metric 'cityblock' has no GPU kernel"):
        asot.pairwise_exact(D, metric="cityblock", device="cuda")
    with pytest.raises(ValueError, match="device='cuda' cannot be used: the metric 'cityblock' has no GPU kernel"):
        asot.kneighbors(D, 1, metric="cityblock", device="cuda")


@pytest.mark.parametrize(("metric", "given"), [("seuclidean", {"V": [1.0, 2.0]}), ("mahalanobis", {"VI": np.eye(2)})])
def test_standardized_distances_do_not_depend_on_a_far_first_point(metric, given):
    rng = np.random.default_rng(0)
    near = Distributions.from_list([rng.normal(size=(4, 2)) + 0.1 for _ in range(2)])
    far = Distributions.from_list([np.full((1, 2), 1e12)])
    alone = asot.pairwise_exact(near, metric=metric, metric_params=given).values[0]
    beside = asot.pairwise_exact(far + near, metric=metric, metric_params=given).values[-1]
    assert beside == pytest.approx(alone, rel=1e-14)
    offset = Distributions(near.points + 2.0**30, near.offsets)  # points that share an offset keep their digits
    shifted = Distributions(offset.points - 2.0**30, near.offsets)
    values = [asot.pairwise_exact(D, metric=metric, metric_params=given).values[0] for D in (offset, shifted)]
    assert values[0] == pytest.approx(values[1], rel=1e-14)


@pytest.mark.parametrize("name", ["dice", "russellrao", "hamming", "minkowski", "mahalanobis", "cosine"])
def test_the_name_of_a_metric_that_is_a_function_says_nothing(name):
    def blocks(x, y):
        return float(np.abs(x - y).sum())

    blocks.__name__ = name
    D = asot.Distributions.from_list(np.random.default_rng(0).normal(size=(4, 5, 2)))
    expected = asot.pairwise_exact(D, metric="cityblock").values
    np.testing.assert_allclose(asot.pairwise_exact(D, metric=blocks).values, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("answer", "words"), [(np.zeros(3), r"an array of shape \(3,\) came back"), ("far", "'far' came back"), (1j, "1j")]
)
def test_a_metric_that_gives_no_number_is_refused(answer, words):
    D = asot.Distributions.from_list(np.zeros((2, 1, 2)) + np.arange(2)[:, None, None])
    with pytest.raises(ValueError, match=rf"a metric must give one number for two points \(d,\), but {words}"):
        asot.pairwise_exact(D, metric=lambda x, y: answer)
