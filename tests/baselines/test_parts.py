"""The compiled parts that baselines share: merged points, the exponential, the sort."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

import asot
from asot.baselines.lane_sort import bits_for, make_keys, ordered_bits, sort_lanes
from asot.baselines.merged import fill_pair, make_block_scratch, merged_points
from asot.entropic.own_kernel import LANES, ROWS, padded
from asot.jit.compiled import compiled
from asot.jit.exponential import LOWEST, exponentials
from tests.baselines.problems import clouds, lattice


@compiled
def exp_of(x, scratch):
    exponentials(x, x.view(np.int64), scratch, scratch.view(np.int64), 0, len(x))


@compiled
def sort_floats(x, n, stride):
    bits = x.view(np.int64)
    ordered_bits(bits, 0, n * stride)
    for c in range(0, stride, 8):
        sort_lanes(bits, c, stride, n)
    ordered_bits(bits, 0, n * stride)


@compiled
def order_of(x, n, grid, keys):
    place_bits = bits_for(n)
    make_keys(x, n, place_bits, grid, grid.view(np.int64), keys)
    sort_lanes(keys, 0, 8, n)
    return (1 << place_bits) - 1


@compiled
def distances_of(points, a, b, n, m, out):
    fill_pair(make_block_scratch(n, m, points.dim), points, a, b, out)


def test_the_exponential_is_right_to_two_units_in_the_last_place():
    rng = np.random.default_rng(0)
    x = np.concatenate([LOWEST * rng.random(5000), -rng.random(5000), -np.logspace(-20, 2.8, 500), [0.0, LOWEST, 1e-9]])
    found = x.copy()
    exp_of(found, np.empty_like(x))
    exact = np.exp(x.astype(np.longdouble))
    assert float(np.max(np.abs(found - exact) / exact)) < 2 * np.finfo(float).eps


def test_the_exponential_of_very_negative_numbers_is_next_to_nothing():
    x = np.array([-1e300, -800.0, -708.0, -np.inf])
    exp_of(x, np.empty_like(x))
    assert_allclose(x, np.exp(LOWEST))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13, 30, 64, 65, 151, 300])
def test_lanes_are_sorted_side_by_side(n):
    x = np.random.default_rng(n).normal(size=(n, 16))
    x[n // 2] = x[0]
    x[-1, :3] = [0.0, -0.0, np.inf]
    found = x.copy()
    sort_floats(found.reshape(-1), n, 16)
    assert_array_equal(found, np.sort(x, axis=0))


@pytest.mark.parametrize("n", [1, 2, 7, 30, 151, 2048, 4000, 5000])
def test_keys_sort_numbers_and_remember_where_they_were(n):
    x = np.random.default_rng(n).normal(size=(n, 8))
    x[:, 1] = 0.0
    x[:, 2] = np.arange(n)[::-1] // 2
    keys = np.empty(n * 8, dtype=np.int64)
    mask = order_of(x.reshape(-1), n, np.empty(n * 8), keys)
    places = (keys & mask).reshape(n, 8)
    # Numbers closer than the grid may change places.
    assert_allclose(np.take_along_axis(x, places, axis=0), np.sort(x, axis=0), atol=2**-48 * np.abs(x).max())
    assert_array_equal(np.sort(places, axis=0), np.arange(n)[:, None].repeat(8, axis=1))
    assert_array_equal(places[:, 1], np.arange(n))


def test_merging_keeps_masses_and_counts():
    D = asot.Distributions.from_list(
        [[[1.0, 0.0], [1.0, 0.0], [2.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]], [[1, 2, 1], [0, 1]]
    )
    merged = merged_points(D)
    assert_array_equal(merged.sizes, [2, 1])
    assert_allclose(merged.masses, [0.75, 0.25, 1.0])
    assert_array_equal(merged.counts, [2.0, 1.0, 1.0])
    assert merged.largest == 1.0


@pytest.mark.parametrize("make", [clouds, lattice])
def test_blocks_of_distances_are_padded_with_the_last_point(make):
    D = make()
    points = merged_points(D)
    for a, b in ((0, 1), (4, 2), (3, 3)):
        n, m = (int(points.sizes[k]) for k in (a, b))
        block = np.full((padded.py_func(n, ROWS), padded.py_func(m, LANES)), np.nan)
        distances_of(points, a, b, n, m, block.reshape(-1))
        x, y = (points.distinct[points.point[points.offsets[k] : points.offsets[k + 1]]] for k in (a, b))
        assert_allclose(block[:n, :m], cdist(x, y), rtol=1e-14)
        assert_array_equal(block[n:], block[n - 1][None].repeat(len(block) - n, axis=0))
        assert_array_equal(block[:, m:], block[:, [m - 1]].repeat(block.shape[1] - m, axis=1))
