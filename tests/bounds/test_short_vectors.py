"""Fewer coordinates: distances may shrink, and by how much is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from asot.bounds import short_vectors
from asot.bounds.short_vectors import leading_coordinates, short_coordinates


def low_rank(seed, n=30, d=50, rank=6, noise=1e-3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d)) + noise * rng.normal(size=(n, d)) + 5.0


@given(st.integers(0, 10**6), st.sampled_from([0.0, 1e-6, 1e-2]))
def test_distances_are_bracketed(seed, noise):
    x = low_rank(seed, noise=noise)
    short = short_coordinates(x, np.ones(len(x)))
    true = np.ldexp(cdist(x, x), -short.exponent)
    below = cdist(short.points, short.points)
    above = np.sqrt(below**2 + 4 * np.outer(short.rest, short.rest))
    slack = 2e-13 * short.extent
    assert np.all(below <= true + slack)
    assert np.all(true <= above + slack)
    assert true.max() <= short.extent


def test_points_near_a_subspace_take_few_coordinates():
    x = low_rank(0, n=200, d=185)
    short = short_coordinates(x, np.ones(len(x)))
    assert short.points.shape == (200, 16)
    assert 0 < short.rest.max() < 0.01 * short.extent


@pytest.mark.parametrize(("d", "width"), [(1, 4), (3, 4), (16, 16)])
def test_few_coordinates_are_kept_as_they_are(d, width):
    x = np.random.default_rng(0).normal(size=(9, d))
    short = short_coordinates(x, np.ones(9))
    assert short.points.shape == (9, width)
    assert not short.rest.any()
    np.testing.assert_allclose(np.ldexp(cdist(short.points, short.points), short.exponent), cdist(x, x), atol=1e-13)


def test_points_that_fill_their_space_keep_all_coordinates():
    x = np.random.default_rng(0).normal(size=(500, 60))
    short = short_coordinates(x, np.ones(500))
    assert short.points.shape == (500, 60)
    assert not short.rest.any()


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_any_scale_stays_within_range(scale):
    x = scale * low_rank(1)
    short = short_coordinates(x, np.ones(len(x)))
    assert np.isfinite(short.points).all()
    assert 0.1 < short.extent < 1e3


@pytest.mark.parametrize("d", [3, 40, 1500])
def test_leading_coordinates_hold_most_of_the_distance(d):
    x = low_rank(2, n=40, d=d, noise=1e-6)
    short = leading_coordinates(x, np.ones(40))
    assert short.points.shape[1] == min(16, (d + 3) & ~3)
    np.testing.assert_allclose(np.ldexp(cdist(short.points, short.points), short.exponent), cdist(x, x), atol=1e-3)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
@pytest.mark.parametrize("spread", ["all alike", "the first ones are 0", "one is far larger"])
def test_leading_coordinates_of_any_scale(monkeypatch, scale, spread):
    monkeypatch.setattr(short_vectors, "LOOKED_AT", 8)
    x = low_rank(3, n=64, d=20, noise=0.0)
    if spread == "the first ones are 0":
        x[::8] = 0.0  # those that are looked at
    if spread == "one is far larger":
        x[1:] *= 1e-250
    largest = np.abs(x).max()
    expected, found = (leading_coordinates(points, np.ones(64)) for points in (x / largest, scale * x))
    true = np.ldexp(cdist(expected.points, expected.points), expected.exponent)
    apart = np.ldexp(cdist(found.points, found.points), found.exponent) / (scale * largest)
    np.testing.assert_allclose(apart, true, atol=1e-12)
    assert 0.5 < true.max() < 10.0
    assert 0.5 <= np.abs(found.points).max() < 1.0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_points_far_larger_than_those_that_are_looked_at_give_no_warning(monkeypatch, n_jobs):
    monkeypatch.setattr(short_vectors, "LOOKED_AT", 8)
    monkeypatch.setattr(short_vectors, "PIECE", 16)
    x = 1e-120 * low_rank(4, n=64, d=20)
    x[1], x[39] = 1e250, -1e250
    short = leading_coordinates(x, np.ones(64), n_jobs=n_jobs)
    assert 0.5 <= np.abs(short.points).max() < 1.0


@pytest.mark.parametrize("d", [1, 5, 8, 13, 40])
def test_leading_coordinates_are_centered_and_of_size_one(monkeypatch, d):
    monkeypatch.setattr(short_vectors, "PIECE", 100)
    rng = np.random.default_rng(d)
    x, weights = rng.normal(3.0, 1e-3, size=(333, d)), rng.random(333)
    short = leading_coordinates(x, weights, n_jobs=2)
    assert np.abs(weights @ short.points).max() <= 1e-12 * weights.sum()
    assert 0.5 <= np.abs(short.points).max() < 1.0
    apart = np.ldexp(cdist(short.points, short.points), short.exponent)
    assert (apart <= cdist(x, x) + 1e-14).all()
    if d <= 16:
        np.testing.assert_allclose(apart, cdist(x, x), atol=1e-14)
    np.testing.assert_allclose(short.extent, 2.0 * np.linalg.norm(short.points, axis=1).max(), rtol=1e-15)


def test_points_that_differ_by_tiny_numbers_are_moved_to_the_scale_of_one():
    rng = np.random.default_rng(0)
    x = np.ldexp(1.0, -1060) * rng.integers(0, 8, (50, 3))
    x[0] = 0.0, 0.0, 8.0 * np.ldexp(1.0, -1060)
    short = leading_coordinates(x, np.ones(50))
    assert 0.5 <= np.abs(short.points).max() < 1.0
    expected = cdist(np.ldexp(x, 1060), np.ldexp(x, 1060))
    np.testing.assert_allclose(np.ldexp(cdist(short.points, short.points), short.exponent + 1060), expected, rtol=1e-14)


def test_a_single_point_has_no_extent():
    short = short_coordinates(np.zeros((1, 3)), np.ones(1))
    assert short.extent == 0.0
    assert short.slack == 0.0


@pytest.mark.parametrize("shorten", [short_coordinates, leading_coordinates])
def test_pieces_are_the_same_for_any_number_of_threads(monkeypatch, shorten):
    monkeypatch.setattr(short_vectors, "PIECE", 16)
    monkeypatch.setattr(short_vectors, "ROWS", 8)
    monkeypatch.setattr(short_vectors, "MOVED", 240)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4)) @ rng.normal(size=(4, 30)) + 1e-4 * rng.normal(size=(200, 30))
    one, three = (shorten(x, np.ones(200), n_jobs=n_jobs) for n_jobs in (1, 3))
    assert np.array_equal(one.points, three.points)
    assert (one.exponent, one.extent) == (three.exponent, three.extent)
