"""W_p of a high order, masses that may stay unmatched, and distances between vectors that are nearly equal."""

from __future__ import annotations

import numpy as np
import pytest

import asot
from asot import Distributions

CLOUD = [[-2.0, -0.5], [1.375, 0.5], [0.25, -0.25], [-0.75, -0.5], [0.875, -0.125], [0.375, 2.5]]
SHIFTED = [[2.375, 1.5], [-1.0, 0.5], [1.875, 0.875], [1.375, 3.5], [1.25, 0.75], [0.25, 0.5]]  # by (1, 1)


@pytest.mark.parametrize("p", [1000, 1e4, 1e6, 1e8])
def test_a_shift_is_as_long_as_it_is_whatever_the_order(p):
    """One step that is too long may be worth five that are free, so costs must not be clipped too low."""
    D = Distributions.from_list([CLOUD, SHIFTED])
    np.testing.assert_allclose(asot.pairwise_exact(D, p=p).values, [np.sqrt(2)], rtol=1e-15)
    np.testing.assert_allclose(asot.plan(D, 0, 1, exact=True, p=p).cost, np.sqrt(2), rtol=1e-15)


@pytest.mark.parametrize("p", [1, 2, 8])
@pytest.mark.parametrize("heavy", [3.0, 1e3, 1e30])
def test_unmatched_mass_does_not_depend_on_how_heavy_others_are(p, heavy):
    rng = np.random.default_rng(0)
    D = Distributions.from_list(list(rng.normal(size=(4, 5, 2))), list(rng.random((4, 5)) * [[1], [2], [0.3], [1e-3]]))
    beside = D + Distributions.from_list([rng.normal(size=(3, 2))], [np.full(3, heavy)])
    alone = asot.pairwise_exact(D, p=p, unmatched=np.full(20, 0.7)).values
    pairs = np.transpose(np.triu_indices(4, 1))
    together = asot.pairwise_exact(beside, p=p, unmatched=np.full(23, 0.7), pairs=pairs).values
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("never", [1e4, 1e9, 1e15, 1e300])
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_a_price_that_means_never_is_not_paid_for_the_rounding_of_masses(metric, never):
    """Thirds, fifths and sevenths do not add up to exactly 1."""
    rng = np.random.default_rng(0)
    D = Distributions.from_list([rng.normal(size=(n, 3)) for n in (3, 5, 7, 11, 6)])
    expected = asot.pairwise_exact(D, metric=metric)
    found = asot.pairwise_exact(D, metric=metric, unmatched=never)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-14)
    nearest = asot.kneighbors(D, n_neighbors=4, metric=metric, unmatched=never)
    np.testing.assert_allclose(nearest.distances, np.sort(expected.matrix(), axis=1)[:, 1:], rtol=1e-14)
    cost = asot.plan(D, 0, 1, exact=True, metric=metric, unmatched=never).cost
    np.testing.assert_allclose(cost, expected.values[0], rtol=1e-11)


def test_a_price_that_means_never_is_paid_where_there_is_more_mass():
    rng = np.random.default_rng(0)
    D = Distributions.from_list([rng.normal(size=(n, 3)) for n in (3, 5)], [np.ones(3), np.ones(5)])
    assert asot.pairwise_exact(D, unmatched=1e12).values[0] == pytest.approx(2e12, rel=1e-11)


@pytest.mark.parametrize(("size", "price"), [(1e-170, 1.0), (1e-150, 1e10)])
def test_prices_that_distances_are_nothing_beside_are_refused(size, price):
    D = Distributions.from_list(list(size * np.random.default_rng(0).normal(size=(3, 4, 2))))
    with pytest.raises(ValueError, match="scale the points up, or the prices down"):
        asot.pairwise_exact(D, metric="sqeuclidean", unmatched=price)
    assert not asot.pairwise_exact(D, metric="sqeuclidean", unmatched=np.zeros(12)).values.any()


@pytest.mark.parametrize("apart", [1e-2, 1e-6, 1e-12])
def test_vectors_that_are_nearly_equal_have_a_jensen_shannon_distance_with_all_digits(apart):
    """|t| / 2 √2 to first order, for (½ + t/4, ½ - t/4) and (½, ½)."""
    x, y = [0.5 + apart / 4, 0.5 - apart / 4], [0.5, 0.5]
    found = asot.pairwise_exact([[x], [y]], metric="jensenshannon").values
    t = (x[0] - x[1]) / 2
    np.testing.assert_allclose(found, [t / np.sqrt(2)], rtol=t**2 + 4e-16 / apart)


@pytest.mark.parametrize("p", [1, 2, 8])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_a_distribution_of_many_points_changes_no_other_pair(metric, p):
    """Costs are integers of as many bits as the pair's own sizes allow: those of the largest of all are coarser.

    Distributions that are far apart, or whose points are anywhere between near and far, have plans that only the last
    of these bits tell apart.
    """
    rng = np.random.default_rng(0)
    sizes = (9, 14, 20, 30)
    apart = [rng.normal(size=(n, 3)) + 1e4 * i for i, n in enumerate(sizes)]
    wide = [rng.normal(size=(n, 3)) * 10.0 ** rng.uniform(-4, 4, (n, 1)) for n in sizes]
    D = Distributions.from_list(apart + wide, [10.0 ** rng.uniform(-9, 0, n) for n in 2 * sizes])
    beside = D + Distributions.from_list([rng.normal(size=(1500, 3))])
    pairs = np.transpose(np.triu_indices(len(D), 1))
    alone = [asot.pairwise_exact(D[pair], metric=metric, p=p).values[0] for pair in pairs]
    together = asot.pairwise_exact(beside, metric=metric, p=p, pairs=pairs).values
    np.testing.assert_allclose(together, alone, rtol=1e-15)


@pytest.mark.parametrize(("count", "size"), [(9, 2), (9, 5), (70, 4)])
@pytest.mark.parametrize("dim", [2, 64])
@pytest.mark.parametrize("far", [1e160, 1e250])
def test_no_order_loses_distances_whose_squares_vanish_beside_others(count, size, dim, far):
    rng = np.random.default_rng(0)
    near = [rng.normal(size=(size, dim)) for _ in range(count)]
    D = asot.Distributions.from_list([*near, far * rng.normal(size=(size, dim))])
    for p in (2, 6.5):
        alone = asot.pairwise_exact(D[:2], p=p).values[0]
        assert asot.pairwise_exact(D, p=p).values[0] == pytest.approx(alone, rel=1e-12, abs=0)
