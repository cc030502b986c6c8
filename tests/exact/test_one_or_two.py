"""One or two points against many: a mean, or a split in two, and the same distances as everywhere else."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import asot
from asot.exact.auto import euclidean_solver, exact_work
from asot.exact.one_or_two import ExactOneOrTwo, few_are_columns
from asot.request import Distance, Request
from asot.run.protocols import Notes
from tests.oracles import pot_values

STOP = np.zeros(1, np.int64)


def _sides(seed, few_sizes, many_sizes, dim=3, weighted=False, make=None):
    rng = np.random.default_rng(seed)
    make = make or (lambda n: rng.normal(size=(n, dim)))
    return tuple(
        asot.Distributions.from_list(
            [make(n) for n in sizes], [rng.dirichlet(np.ones(n)) for n in sizes] if weighted else None
        )
        for sizes in (few_sizes, many_sizes)
    )


def _by_pot(D, E, metric="euclidean"):
    cost = cdist(np.asarray(D.points, float), np.asarray(E.points, float), metric)
    rows = [np.zeros((len(side), len(side.masses))) for side in (D, E)]
    for A, side in zip(rows, (D, E), strict=True):
        for i in range(len(side)):
            own = slice(side.offsets[i], side.offsets[i + 1])
            A[i, own] = side.masses[own]
    pairs = np.stack(np.divmod(np.arange(len(D) * len(E)), len(E)), axis=1)
    return pot_values(*rows, cost, pairs).reshape(len(D), len(E))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dim", [2, 7, 40])
@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev"])
def test_they_agree_with_pot_in_either_direction(metric, dim, weighted):
    few, many = _sides(dim, [1, 2, 1, 2, 2], [9, 50, 8, 31], dim, weighted)
    r = asot.pairwise_exact(few, many, metric=metric)
    assert r.info["solver"] == "a mean, or a split in two"
    np.testing.assert_allclose(r.matrix(), _by_pot(few, many, metric), rtol=1e-12)
    turned = asot.pairwise_exact(many, few, metric=metric)
    np.testing.assert_array_equal(turned.matrix(), r.matrix().T)
    listed = asot.pairwise_exact(few, many, metric=metric, pairs=[[4, 1], [0, 3]])
    np.testing.assert_array_equal(listed.values, r.matrix()[[4, 0], [1, 3]])


def test_ties_shared_points_and_points_without_mass_are_no_exception():
    rng = np.random.default_rng(0)
    few, many = _sides(1, [2, 2, 1, 2], [40, 64, 7, 100], make=lambda n: rng.integers(0, 3, (n, 2)).astype(float))
    np.testing.assert_allclose(asot.pairwise_exact(few, many).matrix(), _by_pot(few, many), rtol=1e-12, atol=1e-14)
    corners = np.array([[0.0, 0.0], [1000.0, 0.0]])
    ends = (
        asot.Distributions.from_list([corners], [[0.0, 1.0]]),
        asot.Distributions.from_list([corners], [[0.25, 0.75]]),
    )
    both = np.repeat(corners, 5, axis=0)
    others = asot.Distributions.from_list([both], [[0.05] * 5 + [0.15] * 5])
    assert asot.pairwise_exact(ends[1], others).values == pytest.approx([0.0], abs=1e-12)
    assert asot.pairwise_exact(ends[0], others).values == pytest.approx([250.0], rel=1e-15)


@pytest.mark.parametrize("scale", [1e-305, 1e-200, 1e150, 1e300])
def test_tiny_and_huge_points_keep_their_digits(scale):
    few, many = _sides(2, [1, 2], [20, 30])
    usual = asot.pairwise_exact(few, many).values
    scaled = [asot.Distributions(each.points * scale, each.offsets, each.masses) for each in (few, many)]
    np.testing.assert_allclose(asot.pairwise_exact(*scaled).values / scale, usual, rtol=1e-13)


def test_a_tiny_pair_among_large_ones_keeps_its_digits():
    few, many = _sides(3, [2, 1], [10, 12])
    usual = asot.pairwise_exact(few, many).values
    shrunk = [asot.Distributions(each.points * 1e-170, each.offsets, each.masses) for each in (few, many)]
    beside = asot.Distributions.from_list([*_lists(shrunk[1]), np.full((6, 3), 7.0)])
    found = asot.pairwise_exact(shrunk[0], beside).matrix()[:, :2].ravel()
    np.testing.assert_allclose(found * 1e170, usual, rtol=1e-13)


def _lists(D):
    return [D.points[D.offsets[i] : D.offsets[i + 1]] for i in range(len(D))]


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev"])
def test_the_same_one_or_two_points_are_at_no_distance(metric):
    few, many = _sides(8, [1, 2, 2], [12, 30])
    more = [np.vstack([x, np.full((3, 3), 9.0)]) for x in _lists(few)]  # points without mass, far away
    masses = [np.r_[mass, np.zeros(3)] for _, mass in few]
    beside = many + few + asot.Distributions.from_list(more, masses)
    found = asot.pairwise_exact(few, beside, metric=metric).matrix()
    assert np.diag(found[:, 2:5]).tolist() == np.diag(found[:, 5:]).tolist() == [0.0, 0.0, 0.0]
    turned = asot.pairwise_exact(beside, few, metric=metric).matrix()
    np.testing.assert_array_equal(turned, found.T)


def test_float32_points_are_their_float64_values():
    few, many = _sides(4, [2, 1], [25, 9], make=lambda n: np.random.default_rng(n).normal(size=(n, 3)).astype("f4"))
    wide = [asot.Distributions(each.points.astype(float), each.offsets, each.masses) for each in (few, many)]
    np.testing.assert_array_equal(asot.pairwise_exact(few, many).values, asot.pairwise_exact(*wide).values)


def test_an_engine_gives_the_same_numbers_as_the_short_way():
    few, many = _sides(5, [1, 2, 2], [30] * 9, weighted=True)
    request = Request(few, many, Distance(), None, None, "cpu")
    made = exact_work(request, Notes()).cpu()
    assert isinstance(made, ExactOneOrTwo)
    rows, columns = np.divmod(np.arange(27), 9)
    np.testing.assert_array_equal(made.solve(rows, columns, STOP).values, asot.pairwise_exact(few, many).values)
    simplex = euclidean_solver(few + many, len(few)).solve(rows, columns, STOP).values
    np.testing.assert_allclose(made.solve(rows, columns, STOP).values, simplex, rtol=1e-13)


def test_other_shapes_are_left_to_other_solvers():
    few, many = _sides(6, [1, 2], [30, 40])
    assert few_are_columns(few, many, "euclidean") is False
    assert few_are_columns(many, few, "euclidean") is True
    assert few_are_columns(few, many, "canberra") is None
    assert few_are_columns(few, few, "euclidean") is None
    assert few_are_columns(*_sides(7, [1, 1, 3], [30, 40]), "euclidean") is None
