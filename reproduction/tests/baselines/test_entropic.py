"""eOT: the textbook iteration, whatever ε is, on merged points and in every kind of pair set."""

from __future__ import annotations

import numpy as np
import pytest
from asot_paper.baselines import entropic, ot_emd, pot_sinkhorn
from asot_paper.baselines.eot import Entropic
from asot_paper.baselines.merged import merged_points
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

import asot
from asot.entropic.options import SinkhornOptions
from reproduction.tests.baselines.problems import clouds, lattice, swept, with_diagonal
from tests.oracles import entropic_values, highs_values
from tests.strategies import extent, ragged_lists

INITS = ("ones", "target")
REGS = (30.0, 1.0, 0.1, 0.03, 0.01, 0.004, 1e-3, 1e-6)
"""From nearly uniform plans, through kernels that are just held, to costs of 10⁷ ε."""


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("reg", REGS)
@pytest.mark.parametrize("make", [clouds, lattice])
def test_it_is_the_textbook_iteration_for_every_reg(make, reg, init):
    D = make()
    pairs = with_diagonal(len(D))
    r = entropic(D, reg=reg, pairs=pairs, max_iter=30, init=init)
    assert_allclose(r.values, swept(D, pairs, reg, 30, init), rtol=1e-11, atol=1e-13 * extent(D.points))
    assert set(r.status) == {asot.Status.FIXED_ITERATIONS}
    assert_array_equal(r.n_iter, 30)
    assert np.isfinite(r.marginal_error).all()


@pytest.mark.parametrize("count", [1, 2, 3, 11])
@pytest.mark.parametrize("reg", [1.0, 1e-3])
def test_few_iterations_are_counted_exactly(reg, count):
    D = clouds(sizes=(6, 9))
    assert_allclose(entropic(D, reg=reg, max_iter=count).values, swept(D, [(0, 1)], reg, count, "ones"), rtol=1e-12)


@pytest.mark.parametrize("init", INITS)
def test_masses_and_points_without_mass(init):
    D = clouds(weighted=True)
    assert (D.masses == 0).any()
    pairs = with_diagonal(len(D))
    r = entropic(D, reg=0.5, pairs=pairs, init=init)
    assert_allclose(r.values, swept(D, pairs, 0.5, 50, init), rtol=1e-12)


@settings(max_examples=25)
@given(ragged_lists(max_distributions=3), st.sampled_from([0.03, 1.0, 100.0]), st.sampled_from(INITS))
def test_generated_collections(lists, share, init):
    D = asot.Distributions.from_list(*lists)
    reg = share * extent(D.points)
    pairs = with_diagonal(len(D))
    r = entropic(D, reg=reg, pairs=pairs, max_iter=20, init=init)
    assert_allclose(r.values, swept(D, pairs, reg, 20, init), rtol=1e-10, atol=1e-13 * extent(D.points))


def test_splitting_a_point_in_two_changes_nothing_if_the_start_is_the_target():
    x, y = clouds(sizes=(8, 11))
    a, b = np.arange(1.0, 9), np.ones(11)
    whole = asot.Distributions.from_list([x[0], y[0]], [a, b])
    split = asot.Distributions.from_list(
        [np.vstack([x[0], x[0][2]]), np.vstack([y[0], y[0][5]])],
        [np.r_[a[:2], 1.0, a[3:], 2.0], np.r_[b[:5], 0.25, b[6:], 0.75]],
    )
    for reg in (1.0, 1e-3):
        first, second = (entropic(D, reg=reg, max_iter=7, init="target") for D in (whole, split))
        assert_allclose(first.values, second.values, rtol=1e-13)
        assert_allclose(first.marginal_error, second.marginal_error, atol=1e-14)


def test_repeated_points_count_as_often_as_they_occur_if_the_start_is_one():
    D = lattice(sizes=(12, 17))
    assert merged_points(D).sizes.sum() < len(D.points)
    assert_allclose(entropic(D, reg=0.7, max_iter=2).values, swept(D, [(0, 1)], 0.7, 2, "ones"), rtol=1e-13)


@pytest.mark.parametrize("reg", [1.0, 0.2, 0.05])
def test_a_tolerance_is_met(reg):
    D = clouds(sizes=(6, 9, 12))
    r = entropic(D, reg=reg, tol=1e-11, max_iter=100_000)
    assert set(r.status) == {asot.Status.CONVERGED}
    assert (r.marginal_error <= 1e-11).all()
    assert (r.n_iter % 10 == 0).all()
    for t, (i, j) in enumerate(r.pairs):
        (x, a), (y, b) = D[i], D[j]
        assert_allclose(r.values[t], entropic_values(a[None], b[None], cdist(x, y), reg)[0], rtol=1e-8)


def test_a_tolerance_that_is_not_met_is_reported():
    r = entropic(clouds(sizes=(20, 30)), reg=0.01, tol=1e-12, max_iter=25)
    assert asot.Status(r.status[0]) is asot.Status.MAX_ITER
    assert r.n_iter[0] == 25
    assert r.info["n_not_converged"] == 1


def test_small_reg_comes_close_to_the_exact_distance():
    D = clouds(sizes=(5, 6, 7))
    r = entropic(D, reg=2e-3, tol=1e-9, max_iter=10**6)
    exact = [highs_values(D[i][1][None], D[j][1][None], cdist(D[i][0], D[j][0]), [(0, 0)])[0] for i, j in r.pairs]
    assert_allclose(r.values, exact, rtol=1e-2)
    assert (r.values >= np.array(exact) - 1e-8).all()


def test_a_pair_of_one_distribution_costs_what_its_spread_plan_costs():
    D = clouds(sizes=(9, 10))
    r = entropic(D, reg=1.0, pairs=[(1, 1), (0, 0)])
    assert_allclose(r.values, swept(D, [(1, 1), (0, 0)], 1.0, 50, "ones"), rtol=1e-13)
    assert (r.values > 0.1).all()


def test_extreme_masses_and_coordinates_give_numbers():
    masses = [[1.0, 1e-300, 1e-200], [1e-250, 1.0]]
    far = asot.Distributions.from_list([[[1e150, 0.0], [0.0, 1e-150], [0.0, 0.0]], [[0.0, 0.0], [-1e150, 1.0]]], masses)
    for reg in (1e145, 1e150):
        r = entropic(far, reg=reg, pairs=[(0, 1), (0, 0), (1, 1)])
        assert np.isfinite(r.values).all()
        assert_allclose(r.values[0], 2e150, rtol=1e-6)
    tiny = asot.Distributions.from_list([[[1e-200]], [[3e-200]]])
    assert_allclose(entropic(tiny, reg=1e-202).values, [2e-200], rtol=1e-14)
    same = asot.Distributions.from_list([[[5.0, 5.0]], [[5.0, 5.0], [5.0, 5.0]]])
    assert_array_equal(entropic(same, reg=0.1).values, [0.0])


@pytest.mark.parametrize("reg", [1.0, 1e-3])
def test_values_scale_with_the_points(reg):
    D = clouds()
    for scale in (4.0, 3e5):
        larger = asot.Distributions(scale * D.points, D.offsets)
        r = entropic(larger, reg=scale * reg)
        assert_allclose(r.values, scale * entropic(D, reg=reg).values, rtol=1e-10)


def test_the_order_of_a_pair_does_not_matter_within_a_set():
    D = clouds()
    assert_array_equal(
        entropic(D, reg=0.5, pairs=[(1, 4), (4, 1)], max_iter=3).values,
        np.repeat(entropic(D, reg=0.5, pairs=[(1, 4)], max_iter=3).values, 2),
    )


def test_two_collections_are_solved_as_rectangles():
    D, E = clouds(), lattice()
    r = entropic(D, E, reg=0.4)
    assert r.matrix().shape == (5, 5)
    assert_allclose(r.values, swept(D, r.pairs, 0.4, 50, "ones", E=E), rtol=1e-11)
    listed = entropic(D, E, reg=0.4, pairs=[(4, 1), (0, 3)])
    assert_array_equal(listed.values, r.matrix()[[4, 0], [1, 3]])


@pytest.mark.parametrize("reg", [0.5, 5e-3])
def test_answers_do_not_depend_on_threads_or_memory(reg):
    D = clouds(sizes=tuple(range(1, 30)))
    alone = entropic(D, reg=reg)
    shared = entropic(D, reg=reg, n_jobs=3, memory=2000)
    assert_array_equal(alone.values, shared.values)
    assert_array_equal(alone.marginal_error, shared.marginal_error)


def test_it_agrees_with_histograms_on_the_distinct_points():
    D = lattice()
    points, index = np.unique(D.points, axis=0, return_inverse=True)
    histograms = np.zeros((len(D), len(points)))
    np.add.at(histograms, (np.repeat(np.arange(len(D)), D.sizes), index.ravel()), D.masses)
    for reg in (0.5, 1e-3):
        how = {"reg": reg, "max_iter": 20, "tol": None, "init": "target"}
        shared = asot.sinkhorn_many(histograms, cost=cdist(points, points), **how)
        assert_allclose(entropic(D, **how).values, shared.values, rtol=1e-10)


def test_it_agrees_with_pot():
    D = clouds(weighted=True)
    for init in INITS:
        r = entropic(D, reg=0.3, init=init)
        assert_allclose(r.values, pot_sinkhorn(D, reg=0.3, init=init).values, rtol=1e-9)


def test_a_call_that_is_stopped_returns():
    points = merged_points(clouds())
    solver = Entropic(points, SinkhornOptions(0.1, max_iter=10**9, tol=None))
    solution = solver.solve(np.array([0, 1]), np.array([2, 3]), np.ones(1, dtype=np.int64))
    assert len(solution.values) == 2


def test_float32_points_are_solved_in_float64():
    D = clouds()
    single = asot.Distributions(D.points.astype(np.float32), D.offsets)
    double = asot.Distributions(D.points.astype(np.float32).astype(np.float64), D.offsets)
    assert_array_equal(entropic(single, reg=0.3).values, entropic(double, reg=0.3).values)


def test_exact_distances_go_by_the_name_they_have_in_comparisons():
    D = clouds()
    assert_array_equal(ot_emd(D).values, asot.pairwise_exact(D).values)
    assert ot_emd(D, pairs=[(2, 2)]).values == [0.0]
    assert ot_emd(D).info["method"] == "OT-EMD"
