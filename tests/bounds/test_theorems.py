"""Statements of docs/method.md that no solver relies on, but readers do: each is tried on generated problems."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import asot

SEEDS = st.integers(0, 2**32 - 1)


def drawn(seed, k):
    """Two histograms (2, k), often with equal masses and empty anchors, under a metric cost full of ties."""
    rng = np.random.default_rng(seed)
    points = rng.integers(0, 4, size=(k, 2)).astype(float) if seed % 2 else rng.normal(size=(k, 2))
    masses = rng.integers(0, 4, size=(2, k)) + 1e-9 * (seed % 3 == 0)
    masses[:, rng.integers(k)] += 1
    return rng, masses / masses.sum(axis=1, keepdims=True), cdist(points, points)


@given(SEEDS, st.integers(2, 12))
def test_any_spanning_tree_bounds_the_distance_from_above(seed, k):
    rng, (a, b), cost = drawn(seed, k)
    order = rng.permutation(k)
    surplus, total = (a - b).copy(), 0.0
    for place in range(k - 1, 0, -1):  # leaves first: every node hangs on one that comes before it
        child, parent = order[place], order[rng.integers(place)]
        total += abs(surplus[child]) * cost[child, parent]
        surplus[parent] += surplus[child]
    assert asot.emd(a, b, cost).value <= total + 1e-12 * cost.max()


@given(SEEDS, st.integers(2, 10))
def test_mass_that_both_have_may_stay(seed, k):
    _, (a, b), cost = drawn(seed, k)
    both = np.minimum(a, b)
    if np.array_equal(a, b):
        return
    moved = (a - both).sum()
    rest = asot.emd((a - both) / moved, (b - both) / moved, cost).value
    np.testing.assert_allclose(asot.emd(a, b, cost).value, moved * rest, rtol=1e-9, atol=1e-12 * cost.max())


@given(SEEDS, st.integers(2, 8))
def test_a_potential_of_one_pair_bounds_every_pair(seed, k):
    rng, (a, b), cost = drawn(seed, k)
    f, _ = asot.emd(a, b, cost).potentials
    lipschitz = (f + cost).min(axis=1)  # what a cost of 0 between two anchors ties together
    others = rng.dirichlet(np.ones(k), 4)
    values = asot.emd_many(others, cost=cost).matrix()
    heights = others @ lipschitz
    assert (np.abs(heights[:, None] - heights) <= values + 1e-12 * max(cost.max(), 1.0)).all()


@given(SEEDS, st.integers(2, 6), st.integers(2, 6))
def test_soft_codes_never_lengthen_the_coded_cost(seed, n, k):
    rng = np.random.default_rng(seed)
    x_codes, y_codes = rng.dirichlet(np.full(k, 0.3), n), rng.dirichlet(np.full(k, 0.3), n + 1)
    anchors = rng.normal(size=(k, 2))
    shared = cdist(anchors, anchors)
    a, b = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(n + 1))
    on_anchors = asot.emd(a @ x_codes, b @ y_codes, shared).value
    coded = asot.emd(a, b, x_codes @ shared @ y_codes.T).value
    assert on_anchors <= coded + 1e-12 * shared.max()
