"""Calibrated estimates by the kernels of a GPU, run by the emulator: those of the CPU, in every shape of launch."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import asot
from asot.anchors.lloyd import learn_space
from asot.bounds.error_bars import make_bounds
from asot.data.distinct import SharedPoints
from asot.estimate import cuda as on_gpu
from asot.estimate.calibration import Calibration, Estimates
from asot.estimate.cuda import EstimatesCuda, FeaturesCuda, ViewOnDevice
from asot.estimate.exact_sample import Sampler, exact_distances
from asot.estimate.pair_features import PairFeatures, View, coordinates_of, untie
from asot.exact.shared_cost import ExactSharedCost
from asot.run.engine import Resources
from asot.run.pairs import make_pairs
from asot.run.protocols import OPEN
from tests.simt import host, numpy_as_cupy
from tests.simt.numpy_as_cupy import DEVICE

pytestmark = host.needs_compiler

STOP = np.zeros(1, np.int64)


@pytest.fixture
def gpu(monkeypatch):
    return functools.partial(numpy_as_cupy.install, monkeypatch)


def clouds(n, sizes, dim=3, seed=0):
    """Distributions whose masses tie, as those of graphs do; the first two are the same."""
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(rng.normal(size=dim), 1.0, size=(m, dim)) for m in rng.integers(*sizes, n)]
    arrays[1] = arrays[0]
    return asot.Distributions.from_list(arrays)


def both_ways(D, E=None, k=6, n_spaces=1, memory=2**28, level=None, give_bounds=False, space=None, share=False):
    """Answers of the CPU and of the kernels for all pairs; bounds of a level are features, too."""
    both, column_start = (D, None) if E is None else (D + E, len(D))
    short = coordinates_of(both)
    spaces = [learn_space(both, k, 8192, seed) for seed in range(n_spaces)] if space is None else [space]
    bounds = [None if level is None else make_bounds(space, both, column_start or 0, level) for space in spaces]
    views = [View(space, both, short, column_start, own) for space, own in zip(spaces, bounds, strict=True)]
    shared = SharedPoints.of(both) if share else None
    features = PairFeatures(views, short, column_start or 0, with_bounds=level is not None, shared=shared)
    pairs = make_pairs(len(D), None if E is None else len(E))
    solve = functools.partial(exact_distances, both, resources=Resources())
    sample = Sampler(features, pairs, 20, 0, Resources(), solve).sample()
    calibration = Calibration(features, sample, Resources())
    cpu = Estimates(features, calibration, give_bounds=give_bounds).solve(*pairs.indices(0, len(pairs)), STOP)
    assert features.only_on_cpu is None
    solver = EstimatesCuda(Estimates(features, calibration, give_bounds=give_bounds), memory=memory)
    return cpu, solver.on(DEVICE).solve(pairs, 0, len(pairs))


def assert_same(cpu, gpu):
    scale = cpu.values.max()
    assert np.abs(gpu.values.get() - cpu.values).max() <= 1e-6 * scale
    assert np.all(np.abs(gpu.error.get() - cpu.error) <= 1e-5 * scale + 0.01 * cpu.error)  # an estimate of an error
    if cpu.lower is not None:
        assert np.abs(gpu.lower.get() - cpu.lower).max() <= 1e-6 * scale
        assert np.abs(gpu.upper.get() - cpu.upper).max() <= 1e-6 * scale
    seen = gpu.status.get() != OPEN
    assert np.array_equal(gpu.status.get()[seen], cpu.status[seen])
    return np.flatnonzero(~seen)


@pytest.mark.parametrize("order", host.ORDERS)
def test_estimates_are_the_cpus(gpu, order):
    gpu(order_seed=order)
    assert_same(*both_ways(clouds(14, (5, 20))))


def test_what_was_begun_is_taken_and_not_measured_again(gpu, monkeypatch):
    gpu()
    D = clouds(14, (5, 20))
    short, space, pairs = coordinates_of(D), learn_space(D, 6, 8192, 0), make_pairs(len(D), None)
    features = PairFeatures([View(space, D, short, None)], short, 0, with_bounds=False)
    solve = functools.partial(exact_distances, D, resources=Resources())
    calibration = Calibration(features, Sampler(features, pairs, 20, 0, Resources(), solve).sample(), Resources())
    late = EstimatesCuda(Estimates(features, calibration, give_bounds=False), memory=2**28)
    measuring = FeaturesCuda(features, memory=2**28)
    early = EstimatesCuda(Estimates(features, calibration, give_bounds=False), memory=2**28, measuring=measuring)
    measured = []
    measure = ViewOnDevice.measure

    def count(self, tile, *rest, **how):
        measured.append(tile[1])
        return measure(self, tile, *rest, **how)

    monkeypatch.setattr(ViewOnDevice, "measure", count)
    expected = [late.on(DEVICE).solve(pairs, *tile).values.get() for tile in ((0, 40), (40, 91))]
    for tile in ((0, 40), (40, 91)):
        measuring.on(DEVICE).begin(pairs, *tile)
    measured.clear()
    for tile, values in zip(((0, 40), (40, 91)), expected, strict=True):
        assert np.array_equal(early.on(DEVICE).solve(pairs, *tile).values.get(), values)
    assert measured == []
    measuring.on(DEVICE).begin(pairs, 0, 40)
    measured.clear()
    assert np.array_equal(early.on(DEVICE).solve(pairs, 0, 20).values.get(), expected[0][:20])  # another tile
    assert np.array_equal(early.on(DEVICE).solve(pairs, 0, 40).values.get(), expected[0])
    assert measured == [0, 0]


def test_near_pairs_agree_as_well_as_far_ones(gpu):
    gpu()
    rng = np.random.default_rng(3)
    common = rng.normal(size=(30, 6))
    moved = [rng.integers(30, size=3) for _ in range(24)]
    arrays = [common + 0.3 * np.isin(np.arange(30), own)[:, None] * rng.normal(size=(30, 6)) for own in moved]
    cpu, emulated = both_ways(asot.Distributions.from_list([*arrays, 40.0 * common[:4]]), k=16)
    near = cpu.values < 0.02 * cpu.values.max()
    assert near.sum() > 200
    assert np.all(np.abs(emulated.values.get() - cpu.values) <= 1e-6 * cpu.values)


def test_anchors_on_a_grid_whose_costs_tie(gpu):
    """Swapping two partners often costs nothing there, and features depend on which plan is found."""
    gpu()
    rng = np.random.default_rng(0)
    grid = np.argwhere(np.ones((4, 4))).astype(float)
    places = [rng.choice(16, size, replace=False) for size in rng.integers(4, 9, 24)]
    D = asot.Distributions.from_list([grid[at] + 0.2 * rng.normal(size=(len(at), 2)) for at in places])
    cpu, emulated = both_ways(D, space=asot.AnchorSpace(grid))
    assert np.all(np.abs(emulated.values.get() - cpu.values) <= 1e-6 * cpu.values)


@pytest.mark.parametrize("order", host.ORDERS)
def test_exchanges_between_arcs_are_the_cpus(gpu, order):
    gpu(order_seed=order)
    rng = np.random.default_rng(0)
    grid = [rng.integers(0, 4, (size, 3)).astype(float) for size in rng.integers(20, 50, 7)]  # many equal distances
    assert_same(*both_ways(asot.Distributions.from_list(grid), k=12, level="points", give_bounds=True))
    D = clouds(7, (20, 50), dim=4)
    masses = rng.uniform(0.1, 1.0, len(D.points))
    totals = np.repeat(np.add.reduceat(masses, D.offsets[:-1]), D.sizes)
    assert_same(*both_ways(asot.Distributions(D.points, D.offsets, masses / totals), k=12, level="points"))


@pytest.mark.parametrize(("k", "sizes"), [(2, (1, 4)), (20, (5, 40)), (40, (50, 60)), (70, (80, 90))])
def test_every_size_of_a_team(gpu, k, sizes):
    gpu()
    assert_same(*both_ways(clouds(8, sizes), k=k))


def test_distances_in_global_memory(gpu, monkeypatch):
    gpu()
    monkeypatch.setattr(on_gpu, "ENOUGH_TEAMS", 10**6)
    assert_same(*both_ways(clouds(8, (5, 20)), memory=10**5))


@pytest.mark.parametrize("order", host.ORDERS)
def test_bounds_are_the_cpus(gpu, order):
    gpu(order_seed=order)
    left = assert_same(*both_ways(clouds(12, (5, 20)), level="points", give_bounds=True))
    assert set(left) <= {0}  # twins


@pytest.mark.parametrize(("k", "sizes"), [(2, (1, 4)), (40, (40, 60)), (6, (70, 80))])
def test_bounds_of_every_size(gpu, k, sizes):
    gpu()
    assert_same(*both_ways(clouds(7, sizes), k=k, level="points", give_bounds=True))


def test_bounds_with_distances_in_global_memory(gpu, monkeypatch):
    gpu()
    monkeypatch.setattr(on_gpu, "ENOUGH_TEAMS", 10**6)
    assert_same(*both_ways(clouds(7, (5, 40)), memory=10**5, level="points", give_bounds=True))


def test_bounds_of_several_spaces_and_collections(gpu):
    gpu()
    D, E = clouds(6, (5, 20), dim=30), clouds(5, (5, 20), dim=30, seed=1)
    assert_same(*both_ways(D, E, n_spaces=2, level="points", give_bounds=True))


def test_two_collections_and_several_spaces(gpu):
    gpu()
    assert_same(*both_ways(clouds(7, (5, 20)), clouds(6, (5, 20), seed=1), n_spaces=2))


@pytest.mark.parametrize(("level", "n_spaces"), [(None, 1), (None, 2), ("points", 1)])
def test_points_that_distributions_share(gpu, level, n_spaces):
    gpu()
    places, rng = np.random.default_rng(0).normal(size=(30, 5)), np.random.default_rng(1)
    bags = [rng.choice(30, size) for size in rng.integers(8, 25, 16)]
    D = asot.Distributions.from_list([places[own] for own in bags])
    assert_same(*both_ways(D[:9], D[9:], level=level, n_spaces=n_spaces, share=True))
    assert_same(*both_ways(D, level=level, n_spaces=n_spaces, share=True))


def test_many_coordinates_and_extreme_scales(gpu):
    gpu()
    for scale in (1.0, 1e200, 1e-200):
        D = clouds(8, (5, 12), dim=30)
        D = asot.Distributions(scale * D.points, D.offsets, D.masses)
        assert_same(*both_ways(D))


def test_what_is_equal_stays_equal_without_ties():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 3, (50, 9)) + np.eye(9, dtype=int)[rng.integers(0, 9, 50)]
    histograms = counts / counts.sum(axis=1, keepdims=True)
    untied = untie(np.vstack([histograms, histograms]))
    assert np.array_equal(untied[:50], untied[50:])
    assert np.abs(untied[:50] - histograms).max() <= 1e-8
    assert (untied.sum(axis=1) == 1.0).all()
    assert np.array_equal(np.rint(untied * 2.0**54), untied * 2.0**54)
    assert (untied[:50] >= 0).all()
    assert np.array_equal(untied[:50] == 0, histograms == 0)
    sums = (untied[:50, :, None] * np.array([1, 0, 1, 0, 1, 1, 0, 0, 0])[:, None]).sum(axis=1).ravel()
    inner = sums[(sums > 0.01) & (sums < 0.99)]
    assert len(np.unique(inner)) > 0.9 * len(np.unique(histograms[:50], axis=0))


def test_masses_that_differ_by_rounding_become_equal():
    third = np.array([[1 / 3, 1 / 3, 1 / 3], [1 / 9 + 2 / 9, 1 / 3, 1 - 2 / 3]])
    assert third[0, 0] != third[1, 2]
    untied = untie(third)
    assert np.array_equal(untied[0, 1:], untied[1, 1:])


def test_potentials_without_ties_do_not_depend_on_the_order_of_anchors():
    rng = np.random.default_rng(0)
    k, anchors = 12, rng.normal(size=(12, 4))
    counts = np.stack([rng.multinomial(m, rng.dirichlet(np.full(k, 0.5))) for m in rng.integers(8, 20, 60)])
    histograms = counts / counts.sum(axis=1, keepdims=True)
    rows, columns = np.triu_indices(len(histograms), 1)
    known = (histograms[rows] > 0) | (histograms[columns] > 0)

    def differences(A):
        order = rng.permutation(k)
        found = []
        for own in (np.arange(k), order):
            solver = ExactSharedCost(A[:, own], None, cdist(anchors[own], anchors[own]), cancel=True)
            found.append(solver.solve_trees(rows, columns, STOP).potential[:, np.argsort(own)])
        apart = np.where(known, found[0] - found[1], np.nan)
        return int(np.count_nonzero(np.nanmax(apart, axis=1) - np.nanmin(apart, axis=1) > 1e-6))

    assert differences(histograms) > 0
    assert differences(untie(histograms)) == 0
