"""Distances by one matrix product lose nothing, and solving with them changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import asot
from asot.exact import auto
from asot.exact.auto import table_pays
from asot.exact.distance_table import BLOCK, distance_table
from asot.ground.metrics import prepare_metric


def _points(kind, n):
    rng = np.random.default_rng(3)
    points = rng.normal(size=(n, 80))
    if kind == "pairs that nearly agree":
        points[1::2] = points[::2][: n // 2] + 1e-9 * rng.normal(size=(n // 2, 80))
    if kind == "far from the origin":
        points = 1e-6 * points + 1e3
    if kind == "one outlier":
        points[5] *= 1e8
    return points


@pytest.mark.parametrize("kind", ["plain", "pairs that nearly agree", "far from the origin", "one outlier"])
def test_every_entry_has_the_digits_of_a_sum_of_squares(kind):
    points = _points(kind, 2 * BLOCK + 40)
    ground = prepare_metric(points, "euclidean")
    table = np.ldexp(distance_table(ground), ground.exponent)
    expected = cdist(points, points)
    # A common offset costs both the digits that the coordinates themselves do not have.
    np.testing.assert_allclose(table, expected, rtol=1e-12, atol=4e-16 * np.abs(points).max())
    np.testing.assert_array_equal(table, table.T)
    assert not np.diagonal(table).any()


def test_the_table_is_used_where_it_pays_and_gives_the_same_distances(monkeypatch):
    rng = np.random.default_rng(4)
    words = rng.normal(size=(300, 100))
    D = asot.Distributions.from_weights(
        (rng.random((80, 300)) < 0.05) * rng.random((80, 300)) + 1e-3 * np.eye(80, 300), words
    )
    made = []
    monkeypatch.setattr(auto, "distance_table", lambda ground: made.append(1) or distance_table(ground))
    by_table = asot.pairwise_exact(D)
    assert made
    monkeypatch.setattr(auto, "table_pays", lambda *_: False)
    np.testing.assert_allclose(by_table.values, asot.pairwise_exact(D).values, rtol=1e-13)
    monkeypatch.undo()
    assert np.array_equal(by_table.values, asot.pairwise_exact(D, n_jobs=2, memory="1M").values)


def test_few_pairs_and_other_metrics_have_no_table():
    points = _points("plain", 200)
    assert table_pays(prepare_metric(points, "euclidean"), 200.0**2)
    assert not table_pays(prepare_metric(points, "euclidean"), 100.0)
    assert not table_pays(prepare_metric(points, "cityblock"), 200.0**2)
    assert not table_pays(prepare_metric(points[:, :8], "euclidean"), 200.0**2)
