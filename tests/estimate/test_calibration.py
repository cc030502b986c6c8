"""The calibrated estimate: better than the plain one, honest about its error, and harmless where it cannot help."""

from __future__ import annotations

import re

import numpy as np
import pytest

import asot
from asot import Distributions, FixedAnchors, KMeansAnchors
from asot.anchors.lloyd import learn_space
from asot.bounds import error_bars
from asot.data.distinct import SharedPoints
from asot.datasets import load_digits
from asot.estimate.calibration import error_model, likeliest
from asot.estimate.exact_sample import Sampler, draw_sample, exact_distances, leverage
from asot.estimate.pair_features import PairFeatures, View, coordinates_of
from asot.run.engine import Resources
from asot.run.pairs import AllPairs


def clouds(seed, n, d=3, sizes=(10, 30)):
    rng = np.random.default_rng(seed)
    return Distributions.from_list([rng.normal(rng.normal(size=d), 1.0, size=(m, d)) for m in rng.integers(*sizes, n)])


@pytest.fixture(scope="module")
def D():
    return clouds(0, 60)


@pytest.fixture(scope="module")
def exact(D):
    return asot.pairwise_exact(D).values


@pytest.fixture(scope="module")
def calibrated(D):
    return asot.pairwise(D, estimate="calibrated", random_state=0)


def rmse(values, exact):
    return np.sqrt(np.mean((values - exact) ** 2))


@pytest.fixture(scope="module")
def measured():
    """Features of all pairs of clouds, what is known of fits, and the exact distances."""
    D = clouds(3, 60, sizes=(30, 60))
    short = coordinates_of(D)
    features = PairFeatures([View(learn_space(D, 16, 8192, 0), D, short, None)], short, 0, with_bounds=False)
    rows, columns = np.triu_indices(len(D), 1)
    found = features.solve(rows, columns, np.zeros(1, dtype=np.int64))
    return np.ldexp(found.features, features.exponent), features, asot.pairwise_exact(D).values


def test_ten_pairs_are_enough_for_a_fit(measured):
    x, own, exact = measured
    rng, off, squares = np.random.default_rng(0), [], []
    for _ in range(50):
        few = rng.permutation(len(exact))[:10]
        coefficients, decided = likeliest(x[few], exact[few], np.ones(10), own.prior, own.directions)
        assert 0 < decided < 7
        off.append(rmse(x @ coefficients, exact))
        squares.append(rmse(x @ np.linalg.lstsq(x[few], exact[few], rcond=None)[0], exact))
    assert rmse(np.array(off), 0) < 0.85 * rmse(np.array(squares), 0)
    best = rmse(x @ likeliest(x, exact, np.ones(len(exact)), own.prior, own.directions)[0], exact)
    assert np.median(off) < 1.75 * best


def test_hundreds_of_pairs_decide_alone(measured):
    x, own, exact = measured
    coefficients, decided = likeliest(x, exact, np.ones(len(exact)), own.prior, own.directions)
    squares = np.linalg.lstsq(x, exact, rcond=None)[0]
    assert decided > 6
    assert rmse(x @ coefficients, exact) < 1.01 * rmse(x @ squares, exact)


def test_samples_of_one_size_are_fitted_at_once_each_by_itself(measured):
    x, own, exact = measured
    draws = np.random.default_rng(0).integers(len(exact), size=(5, 20))
    weights = np.random.default_rng(1).random((5, 20)) + 0.1
    together, decided = likeliest(x[draws], exact[draws], weights, own.prior, own.directions)
    for t, few in enumerate(draws):
        one, n_fitted = likeliest(x[few], exact[few], weights[t], own.prior, own.directions)
        np.testing.assert_allclose(together[t], one, rtol=0.0, atol=1e-13)
        np.testing.assert_allclose(decided[t], n_fitted, rtol=1e-12)


@pytest.mark.parametrize("unit", [1e-200, 1e100])
def test_a_fit_does_not_depend_on_units(measured, unit):
    x, own, exact = measured
    few = slice(0, 30)
    one, _ = likeliest(x[few], exact[few], np.ones(30), own.prior, own.directions)
    other, _ = likeliest(unit * x[few], unit * exact[few], np.ones(30), own.prior, own.directions)
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_pair_unlike_all_others_is_solved(measured):
    x, own, _ = measured
    x = x.copy()
    x[1000, 0] = 0.0  # as if both had all points in one cell
    x[1000, 1] *= 10.0
    ones = np.ones(len(x))
    pull = leverage(x, own.directions, ones)
    for seed in range(20):
        drawn = draw_sample(ones, own.width(x), pull, x[:, 0], np.zeros(len(x), int), 64, np.random.default_rng(seed))
        assert 1000 in drawn.places


def test_a_single_distribution_may_be_the_only_one_away_from_its_anchors():
    """Then a pair of two such ends, which candidates are also drawn from, does not exist."""
    places = np.array([[float(i), float(j)] for i in range(6) for j in range(2)])
    points = [places[[i % 12, (5 * i + 1) % 12]] for i in range(80)]
    points[5] = np.random.default_rng(0).normal(size=(60, 2))
    r = asot.pairwise(points, space=asot.AnchorSpace(places), estimate="calibrated")
    assert np.abs(r.values - asot.pairwise_exact(points).values).max() < 0.05 * r.values.mean()


def test_a_second_draw_measures_no_pair_and_solves_none_again(D, monkeypatch):
    short, solved, measured = coordinates_of(D), [], []
    features = PairFeatures([View(learn_space(D, 8, 8192, 0), D, short, None)], short, 0, with_bounds=False)
    measure = PairFeatures.solve
    monkeypatch.setattr(
        PairFeatures, "solve", lambda self, *given: measured.extend(given[0].tolist()) or measure(self, *given)
    )

    def solve(rows, columns):
        solved.extend(zip(rows.tolist(), columns.tolist(), strict=True))
        return exact_distances(D, rows, columns, Resources())

    def sampler():
        return Sampler(features, AllPairs(len(D)), 20, 0, Resources(), solve)

    later = sampler()
    first, second = later.sample(1), later.sample(2)
    assert len(measured) == len(AllPairs(len(D)))
    assert len(set(solved)) == len(solved) == len(second.exact) > len(first.exact)
    assert later.sample(1) is second  # pairs that are solved are used
    at_once = sampler().sample(2)
    assert np.array_equal(second.pairs.pairs, at_once.pairs.pairs)
    assert np.array_equal(second.exact, at_once.exact)
    assert np.array_equal(second.weights, at_once.weights)


# ------------------------------------------------------------------------------------------- quality


def test_most_of_the_error_is_removed(D, exact, calibrated):
    plain = asot.pairwise(D, random_state=0, estimate="anchor")
    assert rmse(calibrated.values, exact) < 0.25 * rmse(plain.values, exact)
    assert rmse(calibrated.values, exact) < 0.03 * exact.mean()


def test_digits_are_within_two_percent():
    digits, _, _ = load_digits(60)
    exact = asot.pairwise_exact(digits).values
    r = asot.pairwise(digits, estimate="calibrated", random_state=0)
    assert rmse(r.values, exact) < 0.02 * exact.mean()


def test_the_held_out_error_is_the_error_of_other_pairs(exact, calibrated):
    report = calibrated.info["calibration"]
    low, high = report["held_out_rmse_interval"]
    assert report["used"]
    assert report["n_exact"] == 64
    assert low <= report["held_out_rmse"] <= high
    assert 0.8 * low <= rmse(calibrated.values, exact) <= 1.25 * high
    assert report["held_out_relative"] == pytest.approx(report["held_out_rmse"] / report["mean_distance"])
    assert report["anchor_rmse"] > report["held_out_rmse"]


def test_expected_errors_are_of_the_size_of_the_errors(exact, calibrated):
    standardized = (calibrated.values - exact) / calibrated.error
    assert 0.6 < np.sqrt(np.mean(standardized**2)) < 1.6
    assert np.mean(np.abs(standardized) < 3) > 0.95


def test_values_stay_within_the_bounds(D, exact):
    r = asot.pairwise(D, estimate="calibrated", bounds=True, random_state=0)
    assert np.all((r.lower <= r.values) & (r.values <= r.upper))
    assert np.all(r.error <= r.upper - r.lower)
    assert np.all((r.lower <= exact * (1 + 1e-9)) & (exact <= r.upper * (1 + 1e-9)))


# ------------------------------------------------------------------------------------------- what it does not depend on


@pytest.mark.parametrize("options", [{"n_jobs": 3}, {"memory": "8K"}, {}])
def test_the_result_is_the_same_every_time(D, calibrated, options):
    again = asot.pairwise(D, estimate="calibrated", random_state=0, **options)
    np.testing.assert_array_equal(again.values, calibrated.values)
    np.testing.assert_array_equal(again.error, calibrated.error)


def test_listed_pairs_are_entries_of_the_matrix(D, calibrated):
    listed = asot.pairwise(D, estimate="calibrated", random_state=0, pairs=[[3, 7], [50, 2]])
    np.testing.assert_array_equal(listed.values, calibrated.matrix()[[3, 2], [7, 50]])


def test_calibrated_values_go_to_any_sink(D, calibrated):
    matrix = asot.pairwise(D, estimate="calibrated", random_state=0, sink=asot.sinks.Dense())
    np.testing.assert_array_equal(matrix, calibrated.matrix())


def test_two_collections_are_calibrated_together(D):
    E = clouds(1, 12)
    r = asot.pairwise(D, E, estimate="calibrated", random_state=0)
    exact = asot.pairwise_exact(D, E).values
    assert rmse(r.values, exact) < 0.03 * exact.mean()


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_scale_changes_nothing(D, calibrated, scale):
    scaled = asot.pairwise(Distributions(scale * D.points, D.offsets), estimate="calibrated", random_state=0)
    report, scaled_report = (r.info["calibration"] for r in (calibrated, scaled))
    assert scaled_report["held_out_relative"] == pytest.approx(report["held_out_relative"], rel=0.2)
    assert scaled_report["held_out_rmse"] == pytest.approx(scale * report["held_out_rmse"], rel=0.2)


# ------------------------------------------------------------------------------------------- where it cannot help


def test_where_anchors_are_exact_the_plain_estimate_is_returned():
    D = Distributions.from_list([np.random.default_rng(i).integers(0, 3, size=(6, 2)).astype(float) for i in range(8)])
    r = asot.pairwise(D, space=FixedAnchors(), estimate="calibrated")
    assert not r.info["calibration"]["used"]
    assert "the fit did not help on held-out pairs" in r.info["calibration"]["note"]
    np.testing.assert_allclose(r.values, asot.pairwise(D, space=FixedAnchors(), estimate="anchor").values, rtol=1e-12)


def test_equal_distances_do_not_make_the_fit_fail():
    """Corners of a simplex: every distance is √2, and every feature is constant."""
    D = Distributions.from_list([np.eye(6)[[i]] for i in range(6)])
    r = asot.pairwise(D, space=KMeansAnchors(3, random_state=0), estimate="calibrated")
    assert np.isfinite(r.values).all()
    plain = asot.pairwise(D, space=KMeansAnchors(3, random_state=0), estimate="anchor")
    assert rmse(r.values, np.sqrt(2)) <= rmse(plain.values, np.sqrt(2)) + 1e-12


def test_all_distances_zero_is_reported():
    D = Distributions.from_list([[[1.0, 2.0], [3.0, 4.0]]] * 5)
    r = asot.pairwise(D, estimate="calibrated", random_state=0)
    np.testing.assert_array_equal(r.values, 0.0)
    np.testing.assert_array_equal(r.error, 0.0)
    assert r.info["calibration"]["note"].startswith("all sampled distances are equal")


def test_values_that_are_all_exact_have_no_error():
    r = asot.pairwise(clouds(3, 9), estimate="calibrated", random_state=0)
    assert r.info["calibration"]["held_out_rmse_interval"] == [0.0, 0.0]


def test_errors_of_every_size_are_explained_together():
    """Squared errors 1e-4, 1 and 100 in three groups that three squares tell apart."""
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], [30, 25, 9])
    size = np.array([1e-2, 1.0, 10.0])
    squares = np.stack([np.ones(64), np.array([0.0, 4.0, 4.0])[group], np.array([0.0, 0.0, 7.0])[group]]).T
    errors = np.sqrt(squares @ error_model(squares, size[group] * rng.normal(size=64)))
    for g in range(3):
        assert 0.7 * size[g] < errors[group == g][0] < 2 * size[g]


def test_three_distributions_are_enough():
    D = clouds(2, 3)
    r = asot.pairwise(D, estimate="calibrated", random_state=0)
    assert r.info["calibration"]["n_exact"] == 3
    assert np.isfinite(r.values).all()


@pytest.mark.parametrize(
    ("n", "options", "message"),
    [
        (2, {}, "estimate='calibrated' is fitted on exact pairs and needs at least three distributions; found 2"),
        (5, {"reg": 0.1}, "estimate='calibrated' corrects the exact anchor distance; use reg=None"),
    ],
)
def test_what_calibration_needs(n, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        asot.pairwise(clouds(3, n), estimate="calibrated", random_state=0, **options)


@pytest.mark.parametrize("n_jobs", [1, 3, 6])
def test_bounds_of_several_spaces_look_for_distinct_points_once(D, monkeypatch, n_jobs):
    how = {
        "strategy": {"kind": "calibrated", "n_anchors": 5, "n_spaces": 3, "bounds": True, "n_exact": 30},
        "random_state": 0,
    }
    expected = asot.pairwise(D, **how, bounds=True)
    made, make = [], error_bars.numbered_histograms
    monkeypatch.setattr(error_bars, "numbered_histograms", lambda *given: made.append(given) or make(*given))
    found = asot.pairwise(D, **how, bounds=True, n_jobs=n_jobs)
    assert len(made) == 1
    for name in ("values", "lower", "upper", "error"):
        assert np.array_equal(getattr(found, name), getattr(expected, name))


def test_calibration_shows_progress_and_can_be_interrupted(D):
    """The calls of the function are those of k-means, of measuring, of exact solves and of all pairs."""
    totals = []
    asot.pairwise(D, estimate="calibrated", random_state=0, progress=lambda done, total: totals.append(total))
    assert list(dict.fromkeys(totals))[-2:] == [1770, 64]

    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asot.pairwise(D, estimate="calibrated", random_state=0, progress=interrupt)


def test_another_seed_draws_other_pairs(D, calibrated):
    other = asot.pairwise(D, space=KMeansAnchors(20, random_state=0), estimate="calibrated", random_state=1)
    assert np.any((other.status == asot.Status.EXACT) != (calibrated.status == asot.Status.EXACT))


# ------------------------------------------------------------------------------------------------ points in common


def bags(n, seed=0, dim=40):
    """Bags of words, frequent words first: distributions share many of their points."""
    rng = np.random.default_rng(seed)
    words = np.random.default_rng(0).normal(size=(400, dim))
    share = 1.0 / np.arange(3, 403)
    sizes = rng.integers(30, 90, n)
    return Distributions.from_list([words[rng.choice(400, size, p=share / share.sum())] for size in sizes])


def test_what_pairs_have_in_common_makes_estimates_better():
    D = bags(120)
    exact = asot.pairwise_exact(D).values
    r = asot.pairwise(D, estimate="calibrated", n_anchors=16, random_state=0)
    assert {"common", "left"} <= set(r.info["calibration"]["coefficients"])
    moved = np.random.default_rng(1).normal(0.0, 1e-9, D.points.shape)  # nothing is in common any more
    apart = Distributions(D.points + moved, D.offsets, D.masses)
    blind = asot.pairwise(apart, estimate="calibrated", n_anchors=16, random_state=0)
    assert "common" not in blind.info["calibration"]["coefficients"]
    assert rmse(r.values, exact) < 0.6 * rmse(blind.values, exact)
    low, high = r.info["calibration"]["held_out_rmse_interval"]
    assert 0.8 * low < rmse(r.values, exact) < 1.2 * high


@pytest.mark.parametrize("n_spaces", [1, 2])
def test_radii_of_what_is_left_bound_the_distance(n_spaces):
    D = bags(20, dim=5)
    short, shared = coordinates_of(D), SharedPoints.of(D)
    views = [View(learn_space(D, 12, 8192, seed), D, short, None) for seed in range(n_spaces)]
    features = PairFeatures(views, short, 0, with_bounds=False, shared=shared)
    rows, columns = np.triu_indices(len(D), 1)
    found = features.solve(rows, columns, np.zeros(1, dtype=np.int64)).features
    low, high = (np.ldexp(each, features.exponent) for each in features.limits(found))
    exact = asot.pairwise_exact(D).values
    assert (low <= exact + 1e-6).all()
    assert (exact <= high + 1e-6).all()
    plain = PairFeatures(views, short, 0, with_bounds=False).solve(rows, columns, np.zeros(1, dtype=np.int64)).features
    common = found[:, features.names.index("common")]
    assert np.allclose(found[:, 1] + 2 * common, plain[:, 1], atol=1e-12)
    assert found[:, 1].mean() < 0.8 * plain[:, 1].mean()


def test_other_pairs_have_the_same_estimates_with_points_in_common():
    D = bags(60)
    r = asot.pairwise(D[:40], estimate="calibrated", n_anchors=12, random_state=0)
    grown = r.extend(D[40:]).matrix()
    assert np.allclose(asot.pairwise(D[:40], D[40:], model=r.model).matrix(), grown[:40, 40:], rtol=1e-12)
