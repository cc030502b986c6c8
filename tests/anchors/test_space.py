"""The anchor space: nearest anchors, histograms, radii, and a file that gives it all back."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import asot
from asot import AnchorSpace, Distributions
from asot.anchors import space as space_module
from asot.estimate.local_means import means_to_lay_out
from asot.run import executors
from tests.strategies import extent, ragged_lists


@pytest.fixture
def space():
    return AnchorSpace(np.random.default_rng(1).normal(size=(13, 3)))


def test_the_cost_is_the_euclidean_distance_of_the_anchors(space):
    np.testing.assert_array_equal(space.cost, cdist(space.anchors, space.anchors))
    assert space.is_euclidean
    assert (space.n_anchors, space.dim) == (13, 3)
    assert repr(space).startswith("AnchorSpace: 13 anchors in 3 dimensions, Euclidean cost up to ")


def test_a_cost_may_be_given():
    space = AnchorSpace(np.eye(2), cost=[[0, 7], [7, 0]])
    np.testing.assert_array_equal(space.cost, [[0.0, 7.0], [7.0, 0.0]])
    assert not space.is_euclidean
    assert "given cost up to 7" in repr(space)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "k", "d"), [(1, 1, 1), (255, 3, 2), (256, 64, 3), (257, 65, 5), (1000, 7, 9)])
def test_points_go_to_their_nearest_anchor(n, k, d, dtype):
    rng = np.random.default_rng([n, k])
    points, anchors = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(k, d))
    distances = cdist(points.astype(np.float64), anchors)
    index, distance = AnchorSpace(anchors).assign(points)
    np.testing.assert_array_equal(index, distances.argmin(axis=1))
    np.testing.assert_allclose(distance, distances.min(axis=1), rtol=1e-13)


def test_of_equally_near_anchors_the_first_is_taken():
    index, distance = AnchorSpace([[2.0], [0.0], [2.0], [0.0]]).assign([[1.0], [2.0], [0.0]])
    np.testing.assert_array_equal(index, [0, 0, 1])
    np.testing.assert_array_equal(distance, [1.0, 0.0, 0.0])


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-300, 1e-160, 1e160, 1e300, 1e305])
def test_the_nearest_anchor_is_found_at_any_scale(scale):
    x = np.array([[-3.0], [0.0], [1.0], [4.0]])
    index, distance = AnchorSpace(scale * np.array([[0.0], [5.0]])).assign(scale * x)
    np.testing.assert_array_equal(index, [0, 0, 0, 1])
    np.testing.assert_allclose(distance / scale, [3.0, 0.0, 1.0, 1.0], rtol=1e-12)


def test_codes_are_one_at_the_nearest_anchor(space, collection):
    codes = space.encode(collection.points)
    np.testing.assert_array_equal(codes.argmax(axis=1), space.assign(collection.points)[0])
    np.testing.assert_array_equal(np.sort(codes, axis=1)[:, -2:], [[0.0, 1.0]] * len(codes))


def test_no_points_have_no_codes(space):
    assert space.encode(np.empty((0, 3))).shape == (0, 13)


def test_histograms_are_masses_times_codes(space, collection):
    expected = [masses @ space.encode(points) for points, masses in collection]
    histograms = space.histograms(collection)
    np.testing.assert_allclose(histograms, expected, rtol=1e-12, atol=1e-16)
    assert histograms.min() >= 0
    np.testing.assert_allclose(histograms.sum(axis=1), 1.0, rtol=1e-15)


def test_radii_are_mean_distances_to_the_anchors(space, collection):
    expected = [masses @ cdist(points, space.anchors).min(axis=1) for points, masses in collection]
    np.testing.assert_allclose(space.radii(collection), expected, rtol=1e-12)


@given(ragged_lists(), st.data())
def test_the_radius_is_the_distance_to_the_own_histogram(lists, data):
    """r_x = W_1(x, x'): a point's nearest anchor is the cheapest place for its mass to go."""
    D = Distributions.from_list(*lists)
    rows = data.draw(st.lists(st.integers(0, len(D.points) - 1), min_size=1, max_size=4, unique=True))
    space = AnchorSpace(D.points[rows] + 0.5)
    own = Distributions.from_list([space.anchors] * len(D), list(space.histograms(D)))
    pairs = np.stack([np.arange(len(D))] * 2, axis=1)
    exact = asot.pairwise_exact(D, own, pairs=pairs).values
    np.testing.assert_allclose(
        space.radii(D), exact, rtol=0, atol=1e-10 * extent(np.concatenate([D.points, space.anchors]))
    )


@pytest.mark.parametrize("cost", [None, 1.0 - np.eye(13)])
def test_a_saved_space_comes_back_whole(space, cost, collection, tmp_path):
    space = AnchorSpace(space.anchors, cost)
    space.save(tmp_path / "space.npz")
    back = AnchorSpace.load(tmp_path / "space.npz")
    np.testing.assert_array_equal(back.anchors, space.anchors)
    np.testing.assert_array_equal(back.cost, space.cost)
    assert back.is_euclidean == space.is_euclidean
    np.testing.assert_array_equal(back.histograms(collection), space.histograms(collection))


def test_a_space_cannot_be_changed(space):
    with pytest.raises(ValueError, match="read-only"):
        space.anchors[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        space.cost[0, 0] = 1.0


def test_a_space_does_not_share_memory_with_what_it_was_made_from():
    anchors, cost = np.eye(2), 1 - np.eye(2)
    space = AnchorSpace(anchors, cost)
    anchors[:], cost[:] = 9.0, 9.0
    np.testing.assert_array_equal(space.anchors, np.eye(2))
    np.testing.assert_array_equal(space.cost, 1 - np.eye(2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0],), r"anchors must be \(k, d\) with k, d ≥ 1; found shape \(2,\)"),
        ((np.empty((0, 2)),), r"anchors must be \(k, d\) with k, d ≥ 1; found shape \(0, 2\)"),
        (([[0.0, np.nan]],), "anchor 0 is nan in coordinate 1; anchors must be finite"),
        ((np.eye(2), 1 - np.eye(3)), "cost is for 3 anchors, but there are 2"),
        ((np.eye(2), [[0, 1], [2, 0]]), "cost is not symmetric"),
        ((1e308 * np.array([[1.0], [-1.0]]),), "distances between anchors exceed the range of float64"),
    ],
)
def test_anchors_that_are_none(arguments, message):
    with pytest.raises(ValueError, match=message):
        AnchorSpace(*arguments)


def test_points_that_do_not_fit_the_anchors(space):
    with pytest.raises(ValueError, match=r"points must be \(n, 3\) in this anchor space; found shape \(4, 2\)"):
        space.encode(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="point 1 is inf in coordinate 2; points must be finite"):
        space.encode([[0.0, 0.0, 0.0], [0.0, 0.0, np.inf]])
    with pytest.raises(ValueError, match="the collection is in 2 dimensions, but the anchors are in 3"):
        space.histograms(Distributions.from_list([np.zeros((4, 2))]))


MEMORY = """
import resource, sys
import numpy as np, asot
rng = np.random.default_rng(0)
space = asot.AnchorSpace(rng.normal(size=(500, 2)))
D = asot.Distributions(rng.normal(size=(200_000, 2)), np.arange(0, 200_001, 100))
space.histograms(D[:1]), space.radii(D[:1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
space.histograms(D), space.radii(D)
unit = 1 if sys.platform == "darwin" else 1024
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no resource module")
def test_encoding_does_not_hold_a_code_for_every_point():
    """200,000 points on 500 anchors: all codes would be 800 MB."""
    source = str(Path(asot.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}
    run = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True, env=environment)
    assert int(run.stdout) < 80e6


# ------------------------------------------------------------------------------------------- cells


@given(ragged_lists(), st.integers(1, 4))
def test_cells_hold_mass_mean_and_spread_of_each_distribution(lists, k):
    D = Distributions.from_list(*lists)
    space = AnchorSpace(D.points[:k])
    cells = space.cells(D)
    size = extent(D.points)
    everywhere, _ = space.assign(D.points)
    for i, (points, masses) in enumerate(D):
        nearest = everywhere[D.offsets[i] : D.offsets[i + 1]]
        own = slice(cells.offsets[i], cells.offsets[i + 1])
        assert cells.anchor[own].tolist() == sorted(set(nearest[masses > 0].tolist()))
        for u, mass, mean, variance in zip(*(part[own] for part in cells[1:]), strict=True):
            there, share = points[nearest == u], masses[nearest == u]
            np.testing.assert_allclose(mass, share.sum(), rtol=1e-12)
            np.testing.assert_allclose(mean, share @ there / share.sum(), atol=1e-12 * size)
            spread = share @ ((there - mean) ** 2).sum(axis=1) / share.sum()
            np.testing.assert_allclose(variance, spread, atol=1e-12 * size**2)


def test_cells_of_other_coordinates_keep_the_anchors():
    D = Distributions.from_list([[[0.0, 0.0], [0.2, 0.0], [5.0, 0.0]], [[4.0, 0.0]]])
    space = AnchorSpace([[0.0, 0.0], [5.0, 0.0]])
    cells = space.cells(D, np.array([[1.0], [3.0], [7.0], [9.0]]), space.assign(D.points)[0])
    assert cells.anchor.tolist() == [0, 1, 1]
    assert cells.mean.ravel().tolist() == [2.0, 7.0, 9.0]
    assert cells.variance.tolist() == [1.0, 0.0, 0.0]


# ------------------------------------------------------------------------------------------- nearest anchors, once


@pytest.fixture
def counted(monkeypatch):
    """How many points were assigned in each call."""
    calls = []
    assign = AnchorSpace._assign

    def count(self, points, *options):
        calls.append(len(points))
        return assign(self, points, *options)

    monkeypatch.setattr(AnchorSpace, "_assign", count)
    return calls


def a_collection(n=12):
    rng = np.random.default_rng(0)
    return asot.Distributions.from_list([rng.normal(size=(int(rng.integers(3, 30)), 3)) for _ in range(n)])


@pytest.mark.parametrize("options", [{}, {"estimate": "calibrated"}, {"estimate": "anchor"}], ids=str)
def test_a_call_finds_nearest_anchors_once(counted, options):
    D = a_collection(20)
    space = AnchorSpace(D.points[:7])
    asot.pairwise(D, space=space, **options)
    assert counted.count(len(D.points)) <= 1


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_nearest_anchors_do_not_depend_on_pieces_or_threads(monkeypatch, n_jobs):
    points = np.random.default_rng(0).normal(size=(2000, 5))
    space = AnchorSpace(points[:40])
    expected = space.assign(points)
    monkeypatch.setattr(space_module, "_PIECE", 1)
    for found, known in zip(space.assign(points, n_jobs=n_jobs), expected, strict=True):
        np.testing.assert_array_equal(found, known)


def test_nearest_anchors_of_points_of_very_different_scales(monkeypatch):
    monkeypatch.setattr(space_module, "_PIECE", 1)  # chunks of different sizes follow each other in any order
    rng = np.random.default_rng(0)
    anchors = rng.normal(size=(6, 4))
    scales = np.repeat([1.0, 1e200, 1e-200, 1e5, 0.0, 1.0], 256)
    points = rng.normal(size=(len(scales), 4)) * scales[:, None]
    index, distance = AnchorSpace(anchors).assign(points)
    exact = [[math.hypot(*(p - a)) for a in anchors] for p in points]
    np.testing.assert_allclose(distance, np.min(exact, axis=1), rtol=1e-14)
    unsure = scales > 1e100  # all anchors are at the same distance, up to rounding
    assert np.array_equal(index[~unsure], np.argmin(exact, axis=1)[~unsure])


def test_cells_do_not_depend_on_threads(monkeypatch):
    rng = np.random.default_rng(0)
    D = Distributions.from_list([rng.normal(size=(n, 3)) for n in rng.integers(1, 9, 40)])
    space = AnchorSpace(rng.normal(size=(5, 3)))
    plain = space.cells(D)
    monkeypatch.setattr(executors, "POINTS_PER_THREAD", 7)
    for one, other in zip(plain, space.cells(D, n_jobs=3), strict=True):
        assert np.array_equal(one, other)
    (whole, lay_out), (parts, lay_out_part) = means_to_lay_out(plain, 5), means_to_lay_out(plain, 5)
    lay_out(0, 40)
    executors.in_stretches(plain.offsets, lay_out_part, 3)
    for name, array in whole.arrays().items():
        assert np.array_equal(array, parts.arrays()[name]), name


def interrupted(call, at, other):
    """What ``call`` returns if ``other`` is called at its moment ``at``, and how many moments it has: before each of
    the instructions that it spends in the module of the space."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        if frame.f_code.co_filename != space_module.__file__:
            return None
        frame.f_trace_opcodes = True
        if event in ("line", "opcode"):
            count += 1
            if count - 1 == at:
                other()
        return trace

    usual = sys.gettrace()
    sys.settrace(trace)
    try:
        return call(), count
    finally:
        sys.settrace(usual)


@pytest.mark.parametrize("before", [0, 1], ids=["asked before", "asked for the first time"])
@pytest.mark.parametrize("method", ["histograms", "radii", "cells"])
def test_another_thread_at_any_moment_of_a_call_changes_nothing(method, before):
    """Threads at liberty meet at the wrong moment once in 500,000 calls; here, another call comes at every moment."""
    rng = np.random.default_rng(1)
    space = AnchorSpace(rng.normal(size=(5, 2)))
    collections = [Distributions.from_list([rng.normal(size=(7, 2))]) for _ in range(3)]

    def ask(i):
        return getattr(space, method)(collections[i])

    expected = ask(0)
    at, moments = 0, 1
    while at < moments:
        ask(before)
        found, moments = interrupted(lambda: ask(0), at, lambda: ask(2))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=f"another call came at moment {at} of {moments}")
        at += 1
    assert moments > 50
