"""Estimates and bounds of every distance through few points: bounds hold, errors are what they are said to be."""

import numpy as np
import pytest

import asot

CASES = [
    {"p": 2},
    {"p": 1.5},
    {"p": 3},
    {"p": 2, "metric": "cityblock"},
    {"metric": "chebyshev"},
    {"p": 2, "metric": "minkowski", "metric_params": {"p": 3}},
    {"p": 2, "metric": "seuclidean"},
    {"metric": "mahalanobis"},
    {"unmatched": 40.0},
    {"p": 2, "unmatched": 40.0},
    {"p": 1.5, "metric": "cityblock", "unmatched": 80.0},
    {"unmatched": "diagonal"},
    {"p": 2, "unmatched": "diagonal"},
    {"p": 2, "metric": "chebyshev", "unmatched": "diagonal"},
]
NAMES = [" ".join(map(str, case.values())) for case in CASES]


def mixture(n=24, size=40, seed=0, dim=2):
    """Clouds of different shape and total, some of them equal, tiny, or on a line."""
    rng = np.random.default_rng(seed)
    points, masses = [], []
    for i in range(n):
        m = 1 if i % 8 == 0 else int(rng.integers(2, size))
        x = rng.normal(size=dim) + rng.normal(size=(m, dim)) * rng.choice([1e-4, 0.3, 2.0], dim)
        points.append(x.round(1) if i % 3 == 0 else x)
        masses.append(rng.random(m) * rng.choice([0.1, 1.0, 3.0]) + 1e-3)
    D = asot.Distributions.from_list(points, masses)
    return D + D[:3]


def assert_bounded(r, exact):
    assert (r.lower <= exact * (1 + 1e-9) + 1e-12).all()
    assert (r.upper >= exact * (1 - 1e-9) - 1e-12).all()
    assert (r.values >= r.lower).all()
    assert (r.values <= r.upper).all()


@pytest.mark.parametrize("wanted", CASES, ids=NAMES)
def test_bounds_hold_for_every_distance(wanted):
    for seed in range(3):
        D = mixture(seed=seed)
        exact = asot.pairwise_exact(D, **wanted).values
        for k in (1, 5, 12):
            r = asot.pairwise(D, estimate="calibrated", n_anchors=k, bounds=True, random_state=0, **wanted)
            assert_bounded(r, exact)
            assert r.info["p"] == wanted.get("p", 1)
            assert r.info["rooted"] == (wanted.get("p", 1) != 1)
            assert (r.values[r.status == asot.Status.EXACT] == exact[r.status == asot.Status.EXACT]).all()
        if wanted.get("metric") not in ("seuclidean", "mahalanobis"):
            on_anchors = asot.pairwise(D, estimate="anchor", n_anchors=5, bounds=True, random_state=0, **wanted)
            assert_bounded(on_anchors, exact)


def test_bounds_hold_in_many_dimensions_and_between_two_collections():
    D, E = mixture(dim=9, seed=1), mixture(dim=9, seed=2)
    exact = asot.pairwise_exact(D, E, p=2).values
    r = asot.pairwise(D, E, p=2, estimate="calibrated", n_anchors=6, bounds=True, random_state=0)
    assert_bounded(r, exact)


def test_gelbrich_is_reached_by_shifted_and_stretched_copies():
    x = np.random.default_rng(0).normal(size=(400, 3))
    x -= x.mean(axis=0)
    D = asot.Distributions.from_list([x, 2.0 * x + [5.0, 0.0, 0.0], x[:, ::-1] * 0.5])
    exact = asot.pairwise_exact(D, p=2).values
    r = asot.pairwise(D, p=2, estimate="anchor", n_anchors=2, bounds=True, random_state=0)
    assert np.isclose(r.lower[0], exact[0], rtol=1e-6)  # x and 2x + c: the bound is attained
    assert_bounded(r, exact)


def test_the_distance_on_the_anchors_is_that_of_moved_points():
    D = mixture(seed=4)
    space = asot.KMeansAnchors(6, random_state=0).fit(D).space_
    moved = asot.Distributions(
        space.anchors[space.assign(D.points)[0]], D.offsets, D.masses * np.repeat(D.totals, D.sizes)
    )
    for wanted in ({"p": 2}, {"p": 3, "metric": "chebyshev"}, {"p": 2, "unmatched": 40.0}, {"unmatched": "diagonal"}):
        found = asot.pairwise(D, space=space, estimate="anchor", **wanted)
        assert np.allclose(found.values, asot.pairwise_exact(moved, **wanted).values, rtol=1e-9, atol=1e-9)
        assert (found.status == asot.Status.ON_ANCHORS).all()


@pytest.mark.parametrize("wanted", [{"p": 2}, {"p": 2, "unmatched": 60.0}], ids=["p=2", "unmatched"])
def test_the_error_that_was_asked_for_is_met_and_anchors_are_used_where_they_pay(wanted):
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_list([rng.normal(size=2) + rng.normal(size=(120, 2)) for _ in range(40)])
    exact = asot.pairwise_exact(D, **wanted).values
    r = asot.pairwise(D, error="5%", **wanted)
    assert r.info["strategy"]["kind"] == "calibrated"
    assert np.sqrt(((r.values - exact) ** 2).mean()) <= 0.05 * exact.mean()
    again = asot.pairwise(D, strategy=r.info["strategy"], n_jobs=2, **wanted)
    assert np.array_equal(again.values, r.values)
    sure = asot.pairwise(D, max_error="2%", **wanted)
    assert (np.abs(sure.values - exact) <= 0.02 * exact * (1 + 1e-9)).all()
    forced = asot.pairwise(D, max_error="30%", strategy=r.info["strategy"], **wanted)
    assert (np.abs(forced.values - exact) <= 0.3 * exact * (1 + 1e-9)).all()
    assert (forced.status == asot.Status.ESTIMATED).any()
    tight = asot.pairwise(D, error="0.001%", **wanted)
    assert tight.info["strategy"]["kind"] == "exact"
    assert np.array_equal(tight.values, exact)


def test_scale_does_not_matter():
    D = mixture(seed=5)
    expected = asot.pairwise(D, p=2, estimate="calibrated", n_anchors=5, bounds=True, random_state=0)
    for scale in (2.0**300, 2.0**-300):
        scaled = asot.Distributions(D.points * scale, D.offsets, D.masses)
        r = asot.pairwise(scaled, p=2, estimate="calibrated", n_anchors=5, bounds=True, random_state=0)
        for name in ("values", "lower", "upper"):
            assert np.allclose(getattr(r, name) / scale, getattr(expected, name), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p": 2, "reg": 0.1}, "reg= is for p=1.*sinkhorn_many"),
        ({"p": 2, "bounds": "points"}, "bounds='points' is for p=1"),
        ({"metric": "hamming", "estimate": "calibrated"}, "estimates need a metric that is a norm, and 'hamming'"),
        ({"metric": "cosine", "estimate": "anchor"}, "estimates need a metric that is a norm, and 'cosine'"),
        ({"unmatched": [1.0], "estimate": "calibrated"}, "known everywhere: a number or 'diagonal'"),
        ({"unmatched": "edge"}, "unmatched must be a number, an array or 'diagonal'"),
        ({"unmatched": 0.1, "estimate": "calibrated"}, "at least half of what all points span"),
        ({"p": 2, "metric": "seuclidean", "estimate": "anchor"}, "not compared by metric='seuclidean'"),
        ({"p": 0.5}, "p must be a finite number ≥ 1"),
    ],
)
def test_what_has_no_estimate_is_refused_with_a_reason(options, message):
    with pytest.raises((ValueError, RuntimeError), match=message):
        asot.pairwise(mixture(), **options)


def test_what_has_no_estimate_is_solved_exactly():
    D = mixture()
    prices = np.full(len(D.points), 0.5)
    for wanted in ({"metric": "cosine"}, {"p": 2, "unmatched": prices}, {"metric": "canberra", "p": 2}):
        r = asot.pairwise(D, bounds=True, **wanted)
        assert r.info["strategy"]["why"].startswith("exact solves: estimates need")
        exact = asot.pairwise_exact(D, **wanted).values
        assert np.array_equal(r.values, exact)
        assert np.array_equal(r.upper, exact)
