"""The compiled parts that baselines share: merged points, the exponential, the sort."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from asot_paper.baselines import own_kernel
from asot_paper.baselines.merged import MergedCollection, merged_points
from asot_paper.baselines.own_kernel import LANES, ROWS, padded
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

import asot
from asot.baselines.sliced_wasserstein import SlicedPoints, sort_uniform
from asot.entropic import log_newton
from asot.native import Doubles, Int, Ints, entry
from reproduction.tests.baselines.problems import clouds, lattice

exponentials = entry("exponentials", Doubles, Int)
order_in_lanes = entry("order_in_lanes", Doubles, Int, Ints)
pair_block = entry("pair_block", MergedCollection, Int, Int, Doubles)

LOWEST = -707.0


def exp_of(x):
    """exp, eight at a time."""
    found = np.zeros(padded(len(x), LANES))
    found[: len(x)] = x
    exponentials(found, len(found))
    return found[: len(x)]


def test_the_exponential_is_right_to_two_units_in_the_last_place():
    rng = np.random.default_rng(0)
    x = np.concatenate([LOWEST * rng.random(5000), -rng.random(5000), -np.logspace(-20, 2.8, 500), [0.0, LOWEST, 1e-9]])
    found = exp_of(x)
    exact = np.exp(x.astype(np.longdouble))
    assert float(np.max(np.abs(found - exact) / exact)) < 2 * np.finfo(float).eps


def test_the_exponential_of_very_negative_numbers_is_next_to_nothing():
    x = np.array([-1e300, -800.0, -708.0, -np.inf])
    assert_allclose(exp_of(x), np.exp(LOWEST))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13, 30, 64, 65, 151, 300])
def test_lanes_are_sorted_side_by_side(n):
    x = np.random.default_rng(n).normal(size=(n, 16))
    x[n // 2] = x[0]
    x[-1, :3] = [0.0, -0.0, np.inf]
    found = x.copy()
    offsets = np.array([0, n])
    sort_uniform(SlicedPoints(offsets=offsets, n_points=n, count=16, width=16, projected=found), 0, 1)
    assert_array_equal(found, np.sort(x, axis=0))


@pytest.mark.parametrize("n", [1, 2, 7, 30, 151, 2048, 4000, 5000])
def test_keys_sort_numbers_and_remember_where_they_were(n):
    x = np.random.default_rng(n).normal(size=(n, 8))
    x[:, 1] = 0.0
    x[:, 2] = np.arange(n)[::-1] // 2
    places = np.empty((n, 8), dtype=np.int64)
    order_in_lanes(x, n, places)
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
        block = np.full((padded(n, ROWS), padded(m, LANES)), np.nan)
        pair_block(points.record, a, b, block)
        x, y = (points.distinct[points.point[points.offsets[k] : points.offsets[k + 1]]] for k in (a, b))
        assert_allclose(block[:n, :m], cdist(x, y), rtol=1e-14)
        assert_array_equal(block[n:], block[n - 1][None].repeat(len(block) - n, axis=0))
        assert_array_equal(block[:, m:], block[:, [m - 1]].repeat(block.shape[1] - m, axis=1))


@pytest.mark.parametrize(
    ("source", "module", "names"),
    [
        ("own_kernel.hpp", own_kernel, {"KERNEL_RANGE": "KERNEL_RANGE", "SMALLEST_SUM": "SMALLEST",
                                        "LARGEST_SUM": "LARGEST", "ROWS_TOGETHER": "ROWS"}),
        ("newton_step.hpp", log_newton, {"LARGEST_MOVE": "LARGEST_MOVE"}),
        ("log_newton.cpp", log_newton, {name: name for name in
                                        ("TRIALS", "ANNEALING_FACTOR", "COARSE_TOLERANCE", "STALLED")}),
    ],
)  # fmt: skip
def test_numbers_that_python_and_cpp_share_are_equal(source, module, names):
    text = (Path(asot.__file__).parent / "native" / "entropic" / source).read_text(encoding="utf-8")
    for name, known_as in names.items():
        found = re.search(rf"\b{name} = ([-+.e0-9]+)", text)
        assert float(found[1]) == getattr(module, known_as), name
