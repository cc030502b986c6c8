"""Distances by one matrix product lose nothing, and solving with them changes nothing."""

from __future__ import annotations

import numpy as np
import ot
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

import asot
from asot.data.distinct import sparse_histograms
from asot.exact import auto
from asot.exact.auto import table_pays
from asot.exact.distance_table import distance_table
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
    points = _points(kind, 550)
    ground = prepare_metric(points, "euclidean")
    table = np.ldexp(distance_table(ground), ground.exponent)
    expected = cdist(points, points)
    # A common offset costs both the digits that the coordinates themselves do not have.
    np.testing.assert_allclose(table, expected, rtol=1e-12, atol=4e-16 * np.abs(points).max())
    np.testing.assert_array_equal(table, table.T)
    assert not np.diagonal(table).any()
    assert np.array_equal(np.ldexp(distance_table(ground, n_jobs=3), ground.exponent), table)


@pytest.mark.parametrize("given", [{}, {"metric": "cosine"}, {"metric": "sqeuclidean"}, {"p": 2}], ids=str)
def test_the_table_is_used_where_it_pays_and_gives_the_same_bits(given, monkeypatch):
    rng = np.random.default_rng(4)
    words = rng.normal(size=(300, 100))
    D = asot.Distributions.from_weights(
        (rng.random((80, 300)) < 0.05) * rng.random((80, 300)) + 1e-3 * np.eye(80, 300), words
    )
    made = []
    monkeypatch.setattr(auto, "distance_table", lambda *given, **how: made.append(1) or distance_table(*given, **how))
    asked = dict(given, progress=False)
    by_table = asot.pairwise_exact(D, **asked)
    assert made
    monkeypatch.setattr(auto, "table_pays", lambda *_: False)
    assert np.array_equal(by_table.values, asot.pairwise_exact(D, **asked).values)
    one = asot.pairwise_exact(D[:1], D[1:2], **asked)
    assert one.values[0] == by_table.matrix()[0, 1]
    monkeypatch.undo()
    assert np.array_equal(by_table.values, asot.pairwise_exact(D, n_jobs=2, memory="1M", **asked).values)


@pytest.mark.parametrize("dim", [64, 69, 72])
def test_blocks_of_every_size_hold_the_distances_of_the_whole(dim):
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(2, 20, dim))
    expected = cdist(x, y)
    for p in range(1, 21):
        for q in range(1, 21):
            value = asot.pairwise_exact([x[:p], y[:q]]).values[0]
            if p == q:
                rows, columns = linear_sum_assignment(expected[:p, :q])
                assert value == pytest.approx(expected[rows, columns].mean(), rel=1e-13)
            elif min(p, q) == 1:
                assert value == pytest.approx(expected[:p, :q].mean(), rel=1e-13)
            else:
                solved = ot.emd2(np.full(p, 1 / p), np.full(q, 1 / q), expected[:p, :q])
                assert value == pytest.approx(solved, rel=1e-12)


def test_a_distance_depends_on_its_two_points_alone():
    rng = np.random.default_rng(5)
    points = rng.normal(size=(90, 130)) * (rng.random(130) < 0.6)
    points[40:] += 3.0  # near each other, far from the origin
    table = distance_table(prepare_metric(points, "euclidean"))
    order = rng.permutation(90)
    assert np.array_equal(distance_table(prepare_metric(points[order], "euclidean")), table[np.ix_(order, order)])
    spread_out = np.zeros((90, 300))
    spread_out[:, np.sort(rng.choice(300, 130, replace=False))] = points
    assert np.array_equal(distance_table(prepare_metric(spread_out, "euclidean")), table)


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "sqeuclidean"])
@pytest.mark.parametrize("p", [1, 2])
def test_matchings_of_long_points_are_those_of_scipy(metric, p):
    rng = np.random.default_rng(6)
    clouds = [rng.normal(size=(30, 90)) for _ in range(3)]
    clouds[2][:7] = clouds[0][:7]
    found = asot.pairwise_exact(asot.Distributions.from_list(clouds), metric=metric, p=p).matrix()
    for i in range(3):
        for j in range(i):
            cost = cdist(clouds[i], clouds[j], metric) ** p
            expected = cost[linear_sum_assignment(cost)].mean() ** (1 / p)
            np.testing.assert_allclose(found[i, j], expected, rtol=1e-12)


def test_distances_that_are_used_once_are_not_made_before_unless_they_are_very_long():
    for dim, pays in ((100, False), (3000, True)):
        points = np.random.default_rng(0).normal(size=(1200, dim))
        histograms = sparse_histograms(asot.Distributions.from_list(list(points.reshape(24, 50, dim))))
        assert table_pays(prepare_metric(points, "euclidean"), histograms, 24 * 23 // 2) == pays


def test_few_pairs_and_other_metrics_have_no_table():
    points = _points("plain", 200)
    histograms = sparse_histograms(asot.Distributions.from_list(list(points.reshape(20, 10, 80))))
    assert table_pays(prepare_metric(points, "euclidean"), histograms, 400)
    assert not table_pays(prepare_metric(points, "euclidean"), histograms, 1)
    assert not table_pays(prepare_metric(points, "cityblock"), histograms, 400)
    assert not table_pays(prepare_metric(points[:, :8], "euclidean"), histograms, 400)
