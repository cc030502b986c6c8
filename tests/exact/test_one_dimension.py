"""W_p on a line by sorting, against linear programs and SciPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

import asot
from asot.exact.one_dimension import OneDimension
from tests.attack import problems
from tests.attack.oracles import on_a_line
from tests.oracles import highs_values


def _solved(positions, offsets, masses, pairs, p=1.0):
    solver = OneDimension(positions[:, None], offsets, masses, p=p)
    rows, columns = np.array(pairs).T
    return solver.solve(np.ascontiguousarray(rows), np.ascontiguousarray(columns), np.zeros(1, np.int64)).values


def _collection(seed, kind):
    rng = np.random.default_rng(seed)
    sizes = np.full(6, 7) if kind == "equal" else rng.integers(1, 12, 6)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    positions = rng.normal(size=offsets[-1]) * 10.0 ** rng.integers(-3, 4)
    if kind == "grid":
        positions = rng.integers(0, 9, offsets[-1]).astype(float)
    masses = np.ones(offsets[-1]) if kind == "equal" else rng.random(offsets[-1]) * (rng.random(offsets[-1]) < 0.8)
    masses[offsets[:-1]] += 0.1 if kind != "equal" else 0.0
    masses /= np.repeat(np.add.reduceat(masses, offsets[:-1]), sizes)
    return positions, offsets, masses


@pytest.mark.parametrize("kind", ["equal", "weighted", "grid"])
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 7.0])
def test_sorting_gives_what_a_linear_program_gives(kind, p):
    for seed in range(4):
        positions, offsets, masses = _collection(seed, kind)
        pairs = [(i, j) for i in range(6) for j in range(6)]
        values = _solved(positions, offsets, masses, pairs, p)
        for (i, j), value in zip(pairs, values, strict=True):
            x, a = positions[offsets[i] : offsets[i + 1]], masses[offsets[i] : offsets[i + 1]]
            y, b = positions[offsets[j] : offsets[j + 1]], masses[offsets[j] : offsets[j + 1]]
            scale = np.abs(positions).max()
            expected = highs_values(a[None], b[None], np.abs((x[:, None] - y) / scale) ** p, [(0, 0)])[0]
            assert (value / scale) ** p == pytest.approx(expected, rel=1e-8, abs=1e-9)
            if p == 1.0:
                assert value == pytest.approx(wasserstein_distance(x, y, a, b), rel=1e-12, abs=1e-13 * scale)


def test_large_powers_neither_vanish_nor_overflow():
    positions, offsets, masses = (
        np.array([0.0, 1e-200, 3e-200, 1e200]),
        np.array([0, 1, 3, 4]),
        np.array([1, 0.5, 0.5, 1]),
    )
    values = _solved(positions, offsets, masses, [(0, 1), (0, 2)], p=400.0)
    assert values[0] == pytest.approx(3e-200 * 0.5 ** (1 / 400))
    assert values[1] == pytest.approx(1e200)
    tiny = _solved(positions[:3], offsets[:3], masses[:3], [(0, 1)], p=400.0)
    assert tiny[0] == values[0]


def test_a_line_in_the_plane_has_the_distances_of_the_line():
    rng = np.random.default_rng(5)
    arrays = [rng.normal(size=(n, 1)) for n in (3, 8, 8, 20)]
    masses = [rng.dirichlet(np.ones(len(x))) for x in arrays]
    on_line = asot.pairwise_exact(asot.Distributions.from_list(arrays, masses))
    in_plane = asot.pairwise_exact(asot.Distributions.from_list([np.hstack([x, 0 * x]) for x in arrays], masses))
    np.testing.assert_allclose(on_line.values, in_plane.values, rtol=1e-12)
    assert on_line.info["solver"].startswith("sorting")
    assert in_plane.info["solver"] == "network simplex"


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cityblock", "chebyshev", "minkowski"])
def test_every_norm_on_a_line_is_sorted(metric):
    rng = np.random.default_rng(6)
    arrays = [rng.normal(size=(n, 1)) for n in (4, 9, 15)]
    result = asot.pairwise_exact(arrays, metric=metric)
    expected = [wasserstein_distance(arrays[i][:, 0], arrays[j][:, 0]) for i, j in [(0, 1), (0, 2), (1, 2)]]
    np.testing.assert_allclose(result.values, expected, rtol=1e-12)
    assert result.info["solver"].startswith("sorting")


def test_other_metrics_on_a_line_are_not():
    arrays = [np.array([[1.0], [2.0]]), np.array([[4.0]])]
    result = asot.pairwise_exact(arrays, metric="canberra")
    assert result.values[0] == pytest.approx(0.5 * (3 / 5 + 2 / 6))


@pytest.mark.parametrize("kind", ["equal", "weighted", "grid"])
def test_threads_do_not_change_a_bit(kind):
    positions, offsets, masses = _collection(9, kind)
    D = asot.Distributions(positions[:, None], offsets, masses)
    one, two = asot.pairwise_exact(D, D), asot.pairwise_exact(D, D, n_jobs=2, memory=1000)
    assert np.array_equal(one.values, two.values)
    assert np.array_equal(np.diag(one.matrix()), np.zeros(len(D)))


@pytest.mark.parametrize("n", [1, 2, 5, 16, 17, 40])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_distance_does_not_depend_on_how_its_pair_is_asked_for(n, weighted):
    rng = np.random.default_rng(n)
    x, masses = rng.normal(size=(21, n)), rng.dirichlet(np.ones(n), 21) if weighted else np.full((21, n), 1 / n)
    D = asot.Distributions.from_list(list(x[:, :, None]), list(masses))
    values = asot.pairwise_exact(D).values
    pairs = [(i, j) for i in range(21) for j in range(i + 1, 21)]
    expected = [wasserstein_distance(x[i], x[j], masses[i], masses[j]) for i, j in pairs]
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-14)
    assert np.array_equal(asot.pairwise_exact(D, pairs=pairs[::-1]).values, values[::-1])
    assert np.array_equal(asot.pairwise_exact(D, memory=64 * 5).values, values)  # five pairs at a time
    every = asot.pairwise_exact(D[:8], D[8:])
    assert np.array_equal(every.values, [values[pairs.index((i, j))] for i in range(8) for j in range(8, 21)])
    assert np.array_equal(asot.pairwise_exact(D[:8], D[8:], memory=64 * 7, n_jobs=2).values, every.values)
    assert (every.status == asot.Status.OPTIMAL).all()
    assert not every.n_iter.any()


@pytest.mark.parametrize("scale", [1e-310, 1e-280, 1e280, 1e307])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_largest_and_the_smallest_numbers_keep_their_distances(scale, weighted):
    x = np.array([[1.0, 2.0, 4.0], [3.0, 5.0, 9.0], [0.0, 2.0, 16.0], [7.0, 7.5, 8.0]])
    masses = [[0.5, 0.25, 0.25] if weighted else [1 / 3] * 3] * 4
    of_one = asot.pairwise_exact(asot.Distributions.from_list(list(x[:, :, None]), masses)).values
    scaled = asot.pairwise_exact(asot.Distributions.from_list(list(scale * x[:, :, None]), masses)).values
    np.testing.assert_allclose(scaled, scale * of_one, rtol=1e-12)


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_points_of_almost_no_mass_change_nothing(p):
    rng = np.random.default_rng(8)
    x = rng.normal(size=(5, 30))
    masses = rng.dirichlet(np.ones(30), 5) * np.where(rng.random((5, 30)) < 0.3, 1e-25, 1.0)
    masses[np.arange(5), x.argmax(axis=1)] = 1e-30  # after it, both lists have reached their full mass
    masses /= masses.sum(axis=1, keepdims=True)
    values = asot.pairwise_exact(asot.Distributions.from_list(list(x[:, :, None]), list(masses)), p=p).values
    kept = masses > 1e-20
    without = [x[i][kept[i]] for i in range(5)], [masses[i][kept[i]] for i in range(5)]
    expected = asot.pairwise_exact(asot.Distributions.from_list([y[:, None] for y in without[0]], without[1]), p=p)
    np.testing.assert_allclose(values, expected.values, rtol=1e-12)
    if p == 1.0:
        pairs = [(i, j) for i in range(5) for j in range(i + 1, 5)]
        by_scipy = [wasserstein_distance(x[i], x[j], masses[i], masses[j]) for i, j in pairs]
        np.testing.assert_allclose(values, by_scipy, rtol=1e-12)


@pytest.mark.parametrize("far", [1e8, 1e12, 1e15, 1e200])
@pytest.mark.parametrize("n_far", [1, 30])
def test_no_distance_changes_when_a_third_distribution_lies_far_away(far, n_far):
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(8, 1)) * 1e-3, (rng.normal(size=(14, 1)) + 1) * 1e-3
    given = [x, y, np.zeros((10, 1)), np.zeros((1, 1))]
    D = asot.Distributions.from_list([*given, *[[[far + i]] for i in range(n_far)]])
    for pair in ([0, 1], [2, 3], [1, 2]):
        alone = asot.pairwise_exact(D[pair]).values[0]
        (a, a_mass), (b, b_mass) = D[pair[0]], D[pair[1]]
        assert alone == pytest.approx(float(on_a_line(a[:, 0], a_mass, b[:, 0], b_mass)), rel=1e-15, abs=0)
        assert asot.pairwise_exact(D).matrix()[pair[0], pair[1]] == pytest.approx(alone, rel=1e-15, abs=0)
    nearest = asot.kneighbors(D, 1).distances
    assert nearest[2, 0] == nearest[3, 0] == 0.0
    r = asot.pairwise(D, max_error="0.1%", n_anchors=4, random_state=0)
    alone = asot.pairwise_exact(D[:2]).values[0]
    assert r.values[0] == pytest.approx(alone, rel=1e-3, abs=0)


@pytest.mark.parametrize("p", [6, 7, 8, 20, 1000])
def test_no_distance_of_high_order_depends_on_the_order_of_points(p):
    near = [[[0.0], [1.0], [2.0]], [[2.001], [1.001], [0.001]]]
    beside = asot.Distributions.from_list([*near, [[0.0], [1.0]]])  # another size: lists are merged
    assert asot.pairwise_exact(beside, p=p).values[0] == pytest.approx(0.001, rel=1e-12)
    rng = np.random.default_rng(p)
    for n in range(2, 12):
        x, a = rng.normal(size=(n, 1)), problems.dyadic(rng, n) if n % 2 else rng.random(n)
        order = rng.permutation(n)
        D = asot.Distributions.from_list([x, x[order], [[0.0]]], [a, a[order], [1.0]])
        assert asot.pairwise_exact(D, p=p).values[0] == 0.0
        E = asot.Distributions.from_list([x, np.vstack([x, x])[rng.permutation(2 * n)]])  # all points twice
        assert asot.pairwise_exact(E, p=p).values[0] == 0.0


@pytest.mark.parametrize("n", [40, 3000])
def test_long_sums_keep_their_digits(n):
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=n), rng.normal(size=n + 1)
    D = asot.Distributions.from_list([x[:, None], y[:, None], y[:n, None]])
    values = asot.pairwise_exact(D).values
    masses = [np.full(len(z), 1.0 / len(z)) for z in (x, y)]
    assert values[0] == pytest.approx(float(on_a_line(x, masses[0], y, masses[1])), rel=1e-15)
    assert values[1] == pytest.approx(float(on_a_line(x, masses[0], y[:n], masses[0])), rel=1e-15)
    assert asot.pairwise_exact(D[[0, 2]]).values[0] == pytest.approx(values[1], rel=1e-15)


@pytest.mark.parametrize("p", [1, 2, 3, 1.7])
def test_lists_of_all_lengths_have_the_bits_of_their_pair_alone(p):
    """Columns are taken by their lengths, lists of up to 64 distinct places are sorted by counting, others are not."""
    rng = np.random.default_rng(5)
    sizes = np.concatenate([[1, 63, 64, 65, 300], rng.integers(1, 90, 35)])
    decimals = rng.integers(1, 9, len(sizes))  # few: points share their places
    D = asot.Distributions.from_list(
        [np.round(rng.normal(size=(n, 1)), d) for n, d in zip(sizes, decimals, strict=True)],
        masses=[rng.random(n) * (rng.random(n) < 0.9) + 1e-3 for n in sizes],
    )
    together = asot.pairwise_exact(D, p=p, n_jobs=1).matrix()
    for i, j in rng.choice(len(D), (60, 2)):
        if i != j:
            assert asot.pairwise_exact(D[[i, j]], p=p, n_jobs=1).values[0] == together[i, j]


@pytest.mark.parametrize("p", [2, 3])
def test_lists_beside_some_that_overflow_have_the_bits_of_their_pair_alone(p):
    """Pairs are summed side by side, in memory where others have left gaps whose powers are infinite."""
    rng = np.random.default_rng(5)
    near = [rng.normal(size=(n, 1)) for n in rng.integers(1, 90, 25)]
    far = [rng.normal(size=(5, 1)) * 1e200 for _ in range(3)]
    D = asot.Distributions.from_list([far[0], *near[:12], far[1], *near[12:], far[2]])
    D = asot.Distributions(D.points, D.offsets, rng.random(len(D.points)))
    together = asot.pairwise_exact(D, p=p, n_jobs=1).matrix()
    for i, j in itertools.combinations([i for i in range(len(D)) if i not in (0, 13, 27)], 2):
        assert asot.pairwise_exact(D[[i, j]], p=p, n_jobs=1).values[0] == together[i, j]
