"""Anchor plans priced between local means, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import asot
from asot import Distributions, FixedAnchors, KMeansAnchors
from asot.bounds.short_vectors import leading_coordinates
from asot.estimate.local_means import means_to_lay_out, reprice
from asot.exact.shared_cost import ExactSharedCost


def repriced(D, space):
    short = leading_coordinates(D.points, D.masses)
    table, lay_out = means_to_lay_out(space.cells(D, short.points), space.n_anchors)
    lay_out(0, len(D))
    rows, columns = np.triu_indices(len(D), 1)
    stop = np.zeros(1, dtype=np.int64)
    trees = ExactSharedCost(space.histograms(D), None, space.cost, cancel=True).solve_trees(rows, columns, stop)
    prices = np.empty((5, len(rows))).T
    reprice(table, trees, rows, columns, short.exponent, prices, stop)
    return np.ldexp(prices, short.exponent), trees


@given(st.integers(0, 10**6))
def test_prices_are_those_of_the_plan_on_the_means_and_bracket_their_optimum(seed):
    rng = np.random.default_rng(seed)
    D = Distributions.from_list([rng.normal(rng.normal(), 1.0, size=(n, 3)) for n in rng.integers(1, 25, size=4)])
    space = KMeansAnchors(int(rng.integers(2, 20)), random_state=0).fit(D).space_
    prices, trees = repriced(D, space)
    H, cells = space.histograms(D), space.cells(D)
    for t, (i, j) in enumerate(zip(*np.triu_indices(len(D), 1), strict=True)):
        own = slice(trees.start[t], trees.start[t + 1])
        flow = np.zeros_like(space.cost)
        flow[trees.source[own], trees.sink[own]] = trees.mass[own] * 2.0**-60
        x, y = (slice(cells.offsets[d], cells.offsets[d + 1]) for d in (i, j))
        u, v = cells.anchor[x], cells.anchor[y]
        between = cdist(cells.mean[x], cells.mean[y])
        stays = np.diag(np.minimum(H[i], H[j]))[np.ix_(u, v)]
        np.testing.assert_allclose(prices[t, 0], (stays * between).sum(), atol=1e-5)
        np.testing.assert_allclose(prices[t, 1], (flow[np.ix_(u, v)] * between).sum(), atol=1e-5)
        optimum = asot.emd(cells.mass[x], cells.mass[y], between).value
        assert prices[t, 2] <= optimum + 1e-5
        assert optimum <= prices[t, 0] + prices[t, 1] + 1e-5
        means = [masses @ points for points, masses in (D[int(i)], D[int(j)])]
        np.testing.assert_allclose(prices[t, 3], np.linalg.norm(means[0] - means[1]), atol=1e-5)
        apart = np.sqrt(between**2 + cells.variance[x][:, None] + cells.variance[y])
        np.testing.assert_allclose(prices[t, 4], ((stays + flow[np.ix_(u, v)]) * apart).sum(), atol=1e-5)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 16), (4, 17), (9, 5), (30, 40)])
@pytest.mark.parametrize("width", [3, 4, 16])
def test_duals_are_those_of_the_c_transforms_of_numpy(n, m, width):
    rng = np.random.default_rng(n * m)
    points = [rng.normal(size=(size, width)) for size in (n, m)]
    D = Distributions.from_list(points, [rng.dirichlet(np.ones(len(x))) for x in points])
    space = FixedAnchors(np.concatenate(points)).fit(D).space_  # every cell is a point, its own mean
    prices, trees = repriced(D, space)
    cells = space.cells(D)
    x, y = (slice(cells.offsets[d], cells.offsets[d + 1]) for d in (0, 1))
    a, b, between = cells.mass[x], cells.mass[y], cdist(cells.mean[x], cells.mean[y])
    f = trees.potential[0][cells.anchor[x]]
    g = (between - f[:, None]).min(axis=0)
    forth = a @ (between - g).min(axis=1) + b @ g
    f = (between + trees.potential[0][cells.anchor[y]]).min(axis=1)
    back = a @ f + b @ (between - f[:, None]).min(axis=0)
    np.testing.assert_allclose(prices[0, 2], max(forth, back), atol=1e-5)
    np.testing.assert_allclose(prices[0, 3], np.linalg.norm(a @ points[0] - b @ points[1]), atol=1e-12)
