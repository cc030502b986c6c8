"""Theorems of docs/method.md §8 and §9, attacked: no lower bound is ever above the distance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.stats import wasserstein_distance

import asot
from asot.data.distinct import sparse_histograms
from asot.exact.points import ExactPoints
from asot.ground import metrics
from asot.ground.costs import prepare_cost
from asot.ground.metrics import prepare_metric
from asot.index.frame import make_frame
from asot.index.settings import read_settings
from asot.search.cascade import Cascade, no_pool
from asot.search.choose import _no_projections
from asot.search.dual_pool import dual_pool
from asot.search.projections import SHARES, project
from asot.search.relaxed import relax
from asot.search.sweep import Shape
from tests.strategies import ragged_lists
from tests.test_neighbors import clouds, documents


def cascade_of(D, metric="euclidean", parameters=None, *, projections=True, potentials=False, memory=2**30):
    histograms = sparse_histograms(D)
    ground = prepare_metric(histograms.points, metric, parameters)
    pool = no_pool(len(D))
    if potentials:
        pool, _ = dual_pool(histograms, ground, ExactPoints(histograms, ground), ground.points, seed=0, memory=memory)
    projected = project(histograms, ground, memory=memory) if projections else _no_projections(len(D))
    return Cascade(ground, projected, pool, Shape(len(D), len(D), 0, True))


def all_bounds(cascade):
    """The matrix of the best bounds, read off the lists of nearest columns."""
    n = cascade.shape.n_rows
    columns, bounds = cascade.nearest_by_bound(0, n, n - 1, 1)
    matrix = np.zeros((n, n))
    np.put_along_axis(matrix, columns, bounds, axis=1)
    return matrix


def assert_certain(bounds, exact):
    slack = 1e-12 * exact.max()
    assert (bounds <= exact + slack).all()


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev", "minkowski", "seuclidean", "mahalanobis"])
@pytest.mark.parametrize("dim", [2, 5, 30])
def test_projections_never_exceed_the_distance(metric, dim):
    D = clouds(40, dim, largest=40)
    parameters = {"p": 1.7} if metric == "minkowski" else None
    exact = asot.pairwise_exact(D, metric=metric, metric_params=parameters).matrix()
    bounds = all_bounds(cascade_of(D, metric, parameters))
    assert_certain(bounds, exact)
    assert (bounds[exact > 0] / exact[exact > 0]).mean() > 0.4


@pytest.mark.parametrize("metric", ["euclidean", "canberra", "hamming", "jensenshannon", "chebyshev"])
def test_potentials_of_some_pairs_bound_all_pairs(metric):
    D = clouds(60, largest=12)
    D = asot.Distributions(np.abs(D.points) + 0.01, D.offsets, D.masses)
    exact = asot.pairwise_exact(D, metric=metric).matrix()
    bounds = all_bounds(cascade_of(D, metric, projections=False, potentials=True))
    assert_certain(bounds, exact)
    assert (bounds > 0.5 * exact).mean() > 0.3


def test_a_potential_reaches_the_distance_of_its_own_pair():
    D = clouds(20, largest=12)  # fewer than the pool takes: each pair gives a potential
    exact = asot.pairwise_exact(D).matrix()
    bounds = all_bounds(cascade_of(D, projections=False, potentials=True))
    assert np.allclose(bounds, exact, rtol=1e-5, atol=1e-6 * exact.max())


def test_in_one_dimension_the_projections_are_nearly_the_distance():
    D = clouds(20, dim=1, largest=30)
    exact = asot.pairwise_exact(D).matrix()
    bounds = all_bounds(cascade_of(D))
    assert_certain(bounds, exact)
    assert np.abs(bounds - exact).max() < 0.05 * exact.max()


def test_sorted_means_are_those_of_the_quantile_function():
    D = clouds(6, dim=1, largest=9)
    histograms = sparse_histograms(D)
    ground = prepare_metric(histograms.points, "cityblock")
    projected = project(histograms, ground)
    center = (histograms.pooled_masses() / len(D)) @ ground.points
    for i, (points, masses) in enumerate(D):
        order = np.argsort(points[:, 0])
        levels = (np.arange(200 * SHARES) + 0.5) / (200 * SHARES)
        place = np.minimum(np.searchsorted(np.cumsum(masses[order]), levels), len(order) - 1)
        quantiles = np.ldexp(points[order[place], 0], -ground.exponent) - center[0]
        means = quantiles.reshape(SHARES, 200).mean(axis=1) / SHARES
        assert np.allclose(projected.fine[i, :, 0], means, atol=1e-3)
    values = asot.pairwise_exact(D, metric="cityblock").matrix()
    (x, a), (y, b) = D[0], D[1]
    assert np.isclose(values[0, 1], wasserstein_distance(x[:, 0], y[:, 0], a, b))


@given(ragged_lists(), st.sampled_from(["euclidean", "cityblock", "chebyshev"]))
def test_no_generated_collection_breaks_a_bound(lists, metric):
    D = asot.Distributions.from_list(*lists)
    if len(D) < 2:
        return
    exact = asot.pairwise_exact(D, metric=metric).matrix()
    assert_certain(all_bounds(cascade_of(D, metric)), exact)
    assert_certain(all_bounds(cascade_of(D, metric, projections=False, potentials=True)), exact)


def relaxed_of(D, metric="euclidean", parameters=None, p=1.0):
    histograms = sparse_histograms(D)
    cost = prepare_cost(histograms.points, metric, parameters)
    return relax(histograms, cost, Shape(len(D), len(D), 0, True), p)


def relaxed_by_numpy(D, metric="euclidean"):
    """Each point to its nearest one of the other side, the larger of the two directions."""
    bounds = np.zeros((len(D), len(D)))
    for i, (x, a) in enumerate(D):
        for j, (y, b) in enumerate(D):
            costs = np.nan_to_num(cdist(x, y, metric))  # (Jensen-Shannon of equal points: the root of -1e-17)
            bounds[i, j] = max(a @ costs.min(axis=1), b @ costs.min(axis=0))
    return bounds


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev", "canberra", "hamming", "jensenshannon"])
@pytest.mark.parametrize("dim", [1, 3, 40])
def test_relaxed_bounds_are_those_of_numpy_and_never_exceed_the_distance(metric, dim):
    D = clouds(40, dim, largest=20)
    D = asot.Distributions(np.abs(D.points).round(1) + 0.1, D.offsets, D.masses)
    bounds = all_bounds(relaxed_of(D, metric))
    assert_certain(bounds, asot.pairwise_exact(D, metric=metric).matrix())
    expected = relaxed_by_numpy(D, metric)
    assert np.allclose(bounds, expected, rtol=1e-4, atol=1e-4 * expected.max())


def test_points_of_one_far_distribution_do_not_break_the_relaxed_bound():
    rng = np.random.default_rng(0)
    for far in (1e3, 1e6, 1e9, 1e12):
        arrays = [rng.normal(size=(6, 4)) * 1e-3 for _ in range(12)]
        D = asot.Distributions.from_list([*arrays, np.full((1, 4), far)])
        assert_certain(all_bounds(relaxed_of(D)), asot.pairwise_exact(D).matrix() * (1 + 1e-12))


@given(ragged_lists(), st.sampled_from(["euclidean", "cityblock", "chebyshev"]))
def test_no_generated_collection_breaks_a_relaxed_or_reduced_bound(lists, metric):
    D = asot.Distributions.from_list(*lists)
    if len(D) < 2:
        return
    exact = asot.pairwise_exact(D, metric=metric).matrix()
    relaxed = relaxed_of(D, metric)
    assert_certain(all_bounds(relaxed), exact)
    for limits in (exact.min(axis=1), exact.max(axis=1), np.median(exact, axis=1)):  # (distances: ties belong)
        assert_nothing_is_left_out(relaxed, exact, limits)
        pairs = np.triu_indices(len(D), 1)
        kept = relaxed.keep(*pairs, limits, np.full(len(D), len(D)), 1)
        assert (kept | (exact[pairs] > np.maximum(limits[pairs[0]], limits[pairs[1]]))).all()


def test_canceled_mass_and_second_minima_exclude_more_than_the_relaxed_bound():
    D = documents(60, 20)
    exact = asot.pairwise_exact(D).matrix()
    limits = np.sort(exact, axis=1)[:, 5]
    relaxed = relaxed_of(D)
    kept = assert_nothing_is_left_out(relaxed, exact, limits)
    by_relaxed = np.triu(relaxed_by_numpy(D) <= np.maximum(limits[:, None], limits), 1)
    assert kept.sum() < 0.85 * by_relaxed.sum()


def assert_nothing_is_left_out(look, exact, limits):
    n = len(exact)
    rows, columns, _ = look.pairs_within(0, n, limits, np.full(n, n), 2)
    assert (rows < columns).all()
    kept = np.zeros((n, n), dtype=bool)
    kept[rows, columns] = True
    needed = np.triu(exact <= np.maximum(limits[:, None], limits), 1)
    assert (kept | ~needed).all()
    return kept


def test_pairs_within_a_limit_are_never_left_out():
    D = clouds(50)
    exact = asot.pairwise_exact(D).matrix()
    cascade = cascade_of(D, potentials=True)
    limits = np.quantile(exact, np.linspace(0.05, 0.5, 50), axis=1).diagonal().copy()
    kept = assert_nothing_is_left_out(cascade, exact, limits)
    assert kept.sum() < 0.9 * 50 * 49 / 2


def test_little_memory_means_fewer_rotations_and_potentials():
    D = clouds(50)
    rich, poor = cascade_of(D, potentials=True), cascade_of(D, potentials=True, memory=60_000)
    assert len(poor.projections.mixed) < len(rich.projections.mixed)
    assert poor.pool.values.shape[1] < rich.pool.values.shape[1]
    assert_certain(all_bounds(poor), asot.pairwise_exact(D).matrix())


@pytest.mark.parametrize("scale", [1.0, 1e250])
def test_a_metric_that_scales_is_not_taken_for_a_norm_that_projections_know(scale, monkeypatch):
    D = clouds(30, 3, largest=9)
    D = asot.Distributions(scale * np.asarray(D.points), D.offsets, D.masses)
    expected = asot.kneighbors(D, 4, metric="cityblock", device="cpu")
    monkeypatch.setattr(metrics, "_LENGTHS", metrics._LENGTHS - {metrics.CITYBLOCK})
    found = asot.kneighbors(D, 4, metric="cityblock", prune="all", device="cpu")
    np.testing.assert_array_equal(found.distances, expected.distances)
    assert found.info["tables"] == ["potentials"]
    with pytest.raises(ValueError, match="only proven for metrics that are norms"):
        asot.kneighbors(D, 4, metric="cityblock", prune="projections", device="cpu")


def test_all_bounds_know_how_rough_a_metric_is(monkeypatch):
    D = clouds(20, 3, largest=9)
    histograms = sparse_histograms(D)

    def lowered():
        cost = prepare_cost(histograms.points, "canberra")
        pool, _ = dual_pool(
            histograms, cost.ground, ExactPoints(histograms, cost.ground), histograms.points, seed=0, memory=2**30
        )
        frame = make_frame(D, read_settings(1, "canberra", None, None, 0), 2**30)
        return relax(histograms, cost, Shape(len(D), len(D), 0, True), 1.0).cost.error, pool.absolute, frame.error

    exact = lowered()
    monkeypatch.setitem(metrics.ROUGH, metrics.CANBERRA, 0.5)
    assert (np.array(lowered()) > np.array(exact) + 0.01).all()
