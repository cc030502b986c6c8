"""An anchor that a pair does not use changes nothing, however far it is."""

from __future__ import annotations

import numpy as np
import pytest

import asot

BROKEN = np.array([[0.0, 0.4, 1.5], [0.4, 0.0, 0.6], [1.5, 0.6, 0.0]])  # 1.5 > 0.4 + 0.6
A = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])


def beside_far_anchor(cost, A, distance):
    k = len(cost)
    larger = np.full((k + 1, k + 1), distance)
    larger[:k, :k] = cost
    larger[k, k] = 0.0
    return larger, np.pad(A, ((0, 0), (0, 1)))


@pytest.mark.parametrize("distance", [1e6, 1e12, 1e15])
def test_a_broken_triangle_stays_broken_beside_a_far_anchor(distance):
    cost, more = beside_far_anchor(BROKEN, A, distance)
    assert asot.emd_many(more, cost=cost).values[0] == pytest.approx(0.41, rel=1e-14)


@pytest.mark.parametrize("distance", [1e6, 1e12, 1e15])
@pytest.mark.parametrize("plans", [False, True])
def test_a_metric_keeps_its_digits_beside_a_far_anchor(distance, plans):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(12, 3))
    cost, histograms = np.linalg.norm(points[:, None] - points, axis=-1), rng.dirichlet(np.ones(12), 15)
    plain = asot.emd_many(histograms, cost=cost).values
    larger, more = beside_far_anchor(cost, histograms, distance)
    np.testing.assert_allclose(asot.emd_many(more, cost=larger, plans=plans).values, plain, rtol=1e-13)
