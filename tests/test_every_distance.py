"""W_p for every p, ground costs of every kind, and mass that stays unmatched: against POT, HiGHS, GUDHI and others."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment, linprog
from scipy.spatial.distance import cdist

import asot
from asot.ground.costs import cost_table, prepare_cost
from tests.oracles import ot
from tests.test_neighbors import clouds

ORDERS = [1, 1.5, 2, 3]
NAMES = ["euclidean", "cityblock", "chebyshev", "sqeuclidean", "cosine", "braycurtis", "correlation", "canberra"]


def by_pot(D, p, distances):
    """W_p of all pairs (N, N) from a function of two point sets."""
    values = np.zeros((len(D), len(D)))
    for i in range(len(D)):
        for j in range(i):
            (x, a), (y, b) = D[i], D[j]
            values[i, j] = values[j, i] = ot.emd2(a, b, distances(x, y) ** p, numItermax=10**7) ** (1 / p)
    return values


# ------------------------------------------------------------------------------------------------ p and metrics


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("metric", NAMES)
def test_every_order_and_metric_agrees_with_pot(p, metric):
    D = clouds(14, largest=12)
    D = D + D[:3]  # equal ones, and points in common
    found = asot.pairwise_exact(D, p=p, metric=metric)
    assert np.allclose(found.matrix(), by_pot(D, p, lambda x, y: cdist(x, y, metric)), rtol=1e-9, atol=1e-12)
    assert found.info["p"] == p
    assert found.info.get("rooted", False) == (p != 1)


def test_common_mass_is_not_canceled_for_p_above_1():
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_weights(rng.random((30, 8)), rng.normal(size=(8, 2)))  # all points in common
    for p in ORDERS:
        expected = by_pot(D, p, cdist)
        assert np.allclose(asot.pairwise_exact(D, p=p).matrix(), expected, rtol=1e-9, atol=1e-12)
    canceled = [asot.pairwise_exact(D, p=p).info["common_mass_canceled"] for p in ORDERS]
    assert canceled == [True, False, False, False]


def test_high_orders_find_plans_that_costs_of_a_wide_range_hide():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(8, 2))
    near = x[::-1] + 1e-3 * rng.normal(size=(8, 2))
    far = np.vstack([x[:-1] + 1e-3, [[50.0, 0.0]]])
    D = asot.Distributions.from_list([x, near, far])
    for p in (8, 20):
        rows, columns = linear_sum_assignment(cdist(x, near) ** p)
        expected = (cdist(x, near)[rows, columns] ** p).mean() ** (1 / p)
        assert np.isclose(asot.pairwise_exact(D, p=p).values[0], expected, rtol=1e-9)


@pytest.mark.parametrize("p", [8, 16, 40, 300, 1e5])
def test_high_orders_agree_with_every_permutation(p):
    rng = np.random.default_rng(int(p))
    x = rng.normal(size=(5, 2))
    y = x[rng.permutation(5)] + 0.1 * rng.normal(size=(5, 2))
    distances = cdist(x, y)
    sums = [np.logaddexp.reduce(p * np.log(distances[range(5), s])) for s in itertools.permutations(range(5))]
    expected = np.exp((min(sums) - np.log(5)) / p)
    D = asot.Distributions.from_list([x, y])
    assert np.isclose(asot.pairwise_exact(D, p=p).values[0], expected, rtol=1e-12)
    T = asot.plan(D, 0, 1, p=p)
    assert np.isclose(T.cost, expected, rtol=1e-12)
    moved = T.toarray() > 1e-9
    assert np.isclose(np.exp((np.logaddexp.reduce(p * np.log(distances[moved])) - np.log(5)) / p), expected, rtol=1e-12)


def test_orders_are_monotone_and_approach_the_largest_step():
    D = clouds(10, largest=6)
    values = np.stack([asot.pairwise_exact(D, p=p).values for p in (1, 1.3, 2, 4, 50)])
    assert (np.diff(values, axis=0) >= -1e-9).all()  # W_p grows with p


@pytest.mark.parametrize("p", [1, 2, 3])
def test_one_dimension_agrees_with_the_simplex(p):
    D = clouds(12, dim=1)
    flat = asot.Distributions(np.hstack([D.points, np.zeros_like(D.points)]), D.offsets, D.masses)
    assert np.allclose(asot.pairwise_exact(D, p=p).values, asot.pairwise_exact(flat, p=p).values, rtol=1e-9)


def test_angles_and_great_circles():
    rng = np.random.default_rng(0)
    D = clouds(10)
    unit = asot.pairwise_exact(D, metric="angular")
    expected = by_pot(D, 1, lambda x, y: np.arccos(np.clip(1 - cdist(x, y, "cosine"), -1, 1)))
    assert np.allclose(unit.matrix(), expected, rtol=1e-6, atol=1e-7)
    assert unit.info["metric_proven"]
    sky = [np.stack([rng.uniform(-1.5, 1.5, 7), rng.uniform(-3, 3, 7)], axis=1) for _ in range(6)]
    from sklearn.metrics.pairwise import haversine_distances

    globe = asot.Distributions.from_list(sky)
    found = asot.pairwise_exact(globe, p=2, metric="great_circle", metric_params={"radius": 6371.0})
    assert np.allclose(found.matrix(), by_pot(globe, 2, lambda x, y: 6371.0 * haversine_distances(x, y)), rtol=1e-9)


@pytest.mark.parametrize("gap", [0.0, 1e-9, 1e-6, 1e-3, 0.3])
def test_nearly_opposite_points_are_as_far_apart_as_the_meridian_says(gap):
    for latitude, longitude in [(0.0, 0.0), (0.3, 1.0), (-1.2, -2.5), (0.5, 0.7)]:
        there = np.array([[gap - latitude, longitude + np.pi]])
        D = asot.Distributions.from_list([np.array([[latitude, longitude]]), there])
        found = asot.pairwise_exact(D, metric="great_circle").values[0]
        assert found == pytest.approx(np.pi - gap, abs=2e-15)
        assert cost_table(prepare_cost(D.points, "great_circle"))[0, 1] == pytest.approx(np.pi - gap, abs=2e-15)
    x = np.array([[3.0, 4.0, 0.0]])
    opposite = asot.Distributions.from_list([x, np.array([[-3.0, -4.0, 5.0 * np.tan(gap)]])])
    assert asot.pairwise_exact(opposite, metric="angular").values[0] == pytest.approx(np.pi - gap, abs=2e-15)


@pytest.mark.parametrize("size", [1e-12, 1e-6, 0.01, 0.5, 1.0, 1.4, 1.5707, 1.5709, 1.8, 3.0, 3.1415])
def test_angles_have_all_their_digits(size):
    """Small, large, and on both sides of a right angle, at which the formula changes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(9, 3))
    x /= np.linalg.norm(x, axis=1)[:, None]
    across = np.cross(x, rng.normal(size=(9, 3)))
    y = np.cos(size) * x + np.sin(size) * across / np.linalg.norm(across, axis=1)[:, None]
    D, E = (asot.Distributions.from_list(list(z[:, None])) for z in (x, y))
    found = asot.pairwise_exact(D, E, metric="angular").values
    u, v = (z.astype(np.longdouble) for z in (x, y))
    u, v = (z / np.sqrt((z * z).sum(axis=1))[:, None] for z in (u, v))
    apart, opposite = (np.sqrt(((u[:, None] + sign * v) ** 2).sum(axis=2)) for sign in (-1, 1))
    assert np.abs(found - 2 * np.arctan2(apart, opposite).ravel()).max() < 1e-15


def test_a_periodic_box_a_function_and_a_matrix_are_the_same_metric():
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_list([rng.random((5, 2)) * [2.0, 3.0] for _ in range(8)])
    box = np.array([2.0, 3.0])

    def torus(x, y):
        gap = np.abs(x - y)
        return float(np.linalg.norm(np.minimum(gap, box - gap)))

    places = asot.Distributions(np.arange(40.0)[:, None], D.offsets, D.masses)
    matrix = np.array([[torus(x, y) for y in D.points] for x in D.points])
    for p in (1, 2):
        periodic = asot.pairwise_exact(D, p=p, metric="periodic", metric_params={"box": box}).values
        by_function = asot.pairwise_exact(D, p=p, metric=torus).values
        by_matrix = asot.pairwise_exact(places, p=p, metric="precomputed", metric_params={"distances": matrix})
        assert np.allclose(by_function, periodic, rtol=1e-9)
        assert np.allclose(by_matrix.values, periodic, rtol=1e-9)
    assert by_matrix.info["metric_proven"]


def test_a_table_that_is_not_a_metric_is_solved_without_canceling():
    matrix = np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 1.0], [9.0, 1.0, 0.0]])  # 9 > 1 + 1
    D = asot.Distributions.from_weights(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]), np.arange(3.0)[:, None])
    found = asot.pairwise_exact(D, metric="precomputed", metric_params={"distances": matrix})
    assert not found.info["metric_proven"]
    assert found.values[0] == 1.0  # both halves move by 1; canceling would send one half over 9


# ------------------------------------------------------------------------------------------------ unmatched mass


def diagrams(n, seed=0, most=15):
    rng = np.random.default_rng(seed)
    births = [rng.random((rng.integers(0, most), 1)) for _ in range(n)]
    return [np.hstack([b, b + 0.5 * rng.random(b.shape)]) for b in births]


def by_assignment(x, y, p, order):
    """The textbook: both diagrams padded with the projections of the other, as an assignment."""
    to_x, to_y = (np.abs(z[:, 1] - z[:, 0]) * 2 ** (1 / order - 1) for z in (x, y))
    n, m = len(x), len(y)
    costs = np.zeros((n + m, m + n))
    costs[:n, :m] = cdist(x, y, "minkowski", p=order) ** p if order < np.inf else cdist(x, y, "chebyshev") ** p
    costs[:n, m:] = (to_x**p)[:, None]
    costs[n:, :m] = to_y**p
    rows, columns = linear_sum_assignment(costs)
    return costs[rows, columns].sum() ** (1 / p)


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize(("metric", "order"), [("chebyshev", np.inf), ("euclidean", 2.0), ("cityblock", 1.0)])
def test_diagrams_agree_with_an_assignment_solver(p, metric, order):
    given = diagrams(25)
    D = asot.Distributions.from_diagrams(given)
    found = asot.pairwise_exact(D, p=p, metric=metric, unmatched="diagonal").matrix()
    for i in range(25):
        for j in range(25):
            expected = by_assignment(given[i], given[j], p, order) if i != j else 0.0
            assert np.isclose(found[i, j], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("p", [1, 2])
def test_diagrams_agree_with_gudhi(p):
    gudhi = pytest.importorskip("gudhi.wasserstein")
    given = diagrams(12, seed=1)
    D = asot.Distributions.from_diagrams(given)
    found = asot.pairwise_exact(D, p=p, metric="chebyshev", unmatched="diagonal").matrix()
    for i in range(12):
        for j in range(i):
            expected = gudhi.wasserstein_distance(given[i], given[j], order=p, internal_p=np.inf)
            assert np.isclose(found[i, j], expected, rtol=1e-9, atol=1e-9)


def test_points_at_infinity_and_on_the_diagonal():
    endless = [[0.0, np.inf], [0.1, 0.4], [0.3, 0.3]]
    with pytest.raises(ValueError, match=r"distribution 0 has a point at infinity.*infinity='drop'"):
        asot.Distributions.from_diagrams([endless])
    assert asot.Distributions.from_diagrams([endless], infinity="drop").points.tolist() == [[0.1, 0.4]]
    assert asot.Distributions.from_diagrams([endless], infinity=2).points.tolist() == [[0.0, 2.0], [0.1, 0.4]]
    with pytest.raises(ValueError, match="infinity must be None, 'drop' or a finite number"):
        asot.Distributions.from_diagrams([endless], infinity="ignore")
    with pytest.raises(ValueError, match=r"must be an array \(n, 2\) of birth and death; found shape \(1, 3\)"):
        asot.Distributions.from_diagrams([[[0.0, 1.0, 0.0]]])


def by_program(x, a, y, b, distances, rho_x, rho_y):
    """The definition as a linear program: what is not shipped is paid for."""
    n, m = len(a), len(b)
    cost = (distances - rho_x[:, None] - rho_y).ravel()  # shipping spares both prices
    sums = np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    solved = linprog(cost, A_ub=sums, b_ub=np.concatenate([a, b]), method="highs")
    return solved.fun + a @ rho_x + b @ rho_y


def test_unmatched_mass_agrees_with_a_linear_program():
    rng = np.random.default_rng(0)
    for _ in range(40):
        sizes = rng.integers(1, 7, size=4)
        arrays = [rng.normal(size=(s, 2)) for s in sizes]
        masses = [rng.random(s) * rng.choice([0.1, 1.0, 7.0]) + 0.01 for s in sizes]
        D = asot.Distributions.from_list(arrays, masses)
        prices = rng.random(sizes.sum())
        found = asot.pairwise_exact(D, unmatched=prices).matrix()
        parts = np.split(prices, D.offsets[1:-1])
        for i in range(4):
            for j in range(i):
                expected = by_program(
                    arrays[i], masses[i], arrays[j], masses[j], cdist(arrays[i], arrays[j]), parts[i], parts[j]
                )
                assert np.isclose(found[i, j], expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("metric", "share"), [("euclidean", 0.5**0.5), ("cityblock", 1.0), ("chebyshev", 0.5)])
@pytest.mark.parametrize("unmatched", ["diagonal", 7.0])
def test_common_mass_is_canceled_beside_unmatched_mass(metric, share, unmatched):
    rng = np.random.default_rng(1)
    for _ in range(25):
        sizes = rng.integers(1, 8, size=2)
        arrays = [rng.integers(0, 4, size=(s, 2)).astype(float) for s in sizes]  # many points in common
        masses = [np.where(rng.random(s) < 0.5, 1.0, rng.random(s) + 0.1) for s in sizes]
        found = asot.pairwise_exact(asot.Distributions.from_list(arrays, masses), metric=metric, unmatched=unmatched)
        prices = [
            share * np.abs(x[:, 1] - x[:, 0]) if unmatched == "diagonal" else np.full(len(x), 7.0) for x in arrays
        ]
        (x, y), (a, b) = arrays, masses
        assert np.isclose(found.values[0], by_program(x, a, y, b, cdist(x, y, metric), *prices), rtol=1e-8, atol=1e-10)
        assert found.info["common_mass_canceled"]


def test_common_mass_stays_where_prices_do_not_fit_the_metric():
    x = [[0.0, 0.0], [1.0, 0.0]]
    D = asot.Distributions.from_list([x, x], [[1.0, 1.0], [1.0, 2.0]])
    found = asot.pairwise_exact(D, unmatched=[0.0, 5.0, 0.0, 5.0])
    assert found.values[0] == 1.0  # by way of the other point, which is 1 away and free to leave; canceled, 5
    assert not found.info["common_mass_canceled"]


def by_energyflow_definition(x, a, y, b, R):
    """Komiske, Metodiev, Thaler: all that finds a partner moves, f·θ, and what is too much costs R."""
    n, m = len(a), len(b)
    sums = np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    everything = np.ones((1, n * m))
    solved = linprog(
        cdist(x, y).ravel(), A_ub=sums, b_ub=np.concatenate([a, b]), A_eq=everything, b_eq=[min(a.sum(), b.sum())],
        method="highs",
    )  # fmt: skip
    return solved.fun + R * abs(a.sum() - b.sum())


def test_events_agree_with_the_definition_of_collider_physics():
    rng = np.random.default_rng(0)
    for _ in range(60):
        n, m = rng.integers(1, 9, size=2)
        x, y, a, b = rng.random((n, 2)), rng.random((m, 2)), rng.random(n), rng.random(m)
        D = asot.Distributions.from_list([x, y], [a, b])
        R = 0.75  # more than half of √2
        found = asot.pairwise_exact(D, unmatched=R).values[0]
        assert np.isclose(found, by_energyflow_definition(x, a, y, b, R), rtol=1e-8, atol=1e-10)


def test_a_constant_price_below_half_of_the_largest_distance_is_refused():
    D = asot.Distributions.from_list([[[0.0, 0.0]], [[3.0, 0.0]]])
    with pytest.raises(ValueError, match=r"unmatched=1 is less than half of the largest ground distance.*EnergyFlow"):
        asot.pairwise_exact(D, unmatched=1.0)
    assert asot.pairwise_exact(D, unmatched=1.5).values[0] == 3.0
    assert asot.pairwise_exact(D, unmatched=[1.0, 1.0]).values[0] == 2.0


def by_partial_program(a, b, cost, share):
    """A share of the mass at the least cost, as a linear program."""
    n, m = len(a), len(b)
    sums = np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    everything = np.ones((1, n * m))
    return linprog(
        cost.ravel(), A_ub=sums, b_ub=np.concatenate([a, b]), A_eq=everything, b_eq=[share], method="highs"
    ).fun


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.9, 1.0])
def test_partial_transport_agrees_with_a_linear_program_and_its_plan(p, share):
    D = clouds(10, largest=9)
    D = D + D[:2]  # equal ones
    found = asot.pairwise_exact(D, p=p, share=share)
    assert found.info.get("share") == (share if share < 1 else None)
    for (i, j), value in zip(found.pairs, found.values, strict=True):
        (x, a), (y, b) = D[i], D[j]
        expected = by_partial_program(a, b, cdist(x, y) ** p, share)
        assert np.isclose(value**p, expected, rtol=1e-8, atol=1e-10)
        T = asot.plan(D, i, j, p=p, share=share, exact=True)
        assert np.isclose(T.cost, value, rtol=1e-8, atol=1e-8)
        assert np.isclose(T.sum(), share)


def test_partial_transport_refuses_what_it_cannot_mean():
    D = clouds(4)
    for bad in (0, 1.5, -1, "half", True):
        with pytest.raises(ValueError, match="share must be a number above 0 and up to 1"):
            asot.pairwise_exact(D, share=bad)
    with pytest.raises(ValueError, match="leave out unmatched="):
        asot.pairwise_exact(D, share=0.5, unmatched=9.0)


# ------------------------------------------------------------------------------------------------ neighbors


def nearest_by_brute_force(D, k, **distance):
    matrix = asot.pairwise_exact(D, **distance).matrix()
    np.fill_diagonal(matrix, np.inf)
    order = np.lexsort((np.broadcast_to(np.arange(len(D)), matrix.shape), matrix), axis=1)[:, :k]
    return order, np.take_along_axis(matrix, order, axis=1)


@pytest.mark.parametrize("p", [1, 2, 3.5])
@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "sqeuclidean", "cosine", "angular", "braycurtis"])
def test_neighbors_equal_brute_force_for_every_order_and_metric(p, metric):
    D = clouds(50)
    D = asot.Distributions(np.abs(D.points).round(1) + 0.1, D.offsets, D.masses) + D[:4]
    indices, distances = nearest_by_brute_force(D, 4, p=p, metric=metric)
    for prune in ("relaxed", "all", "auto"):
        found = asot.kneighbors(D, None, 4, p=p, metric=metric, prune=prune)
        assert np.array_equal(found.indices, indices)
        assert np.array_equal(found.distances, distances)
    radius = float(np.median(distances))
    within = asot.radius_neighbors(D, None, radius, p=p, metric=metric, prune="relaxed").graph().toarray()
    matrix = asot.pairwise_exact(D, p=p, metric=metric).matrix()
    assert np.array_equal(within, np.where(matrix <= radius, matrix, 0.0))


@pytest.mark.parametrize("p", [1, 2])
def test_neighbors_of_diagrams_equal_brute_force(p):
    D = asot.Distributions.from_diagrams(diagrams(60, seed=3))
    distance = {"p": p, "metric": "chebyshev", "unmatched": "diagonal"}
    indices, distances = nearest_by_brute_force(D, 5, **distance)
    found = asot.kneighbors(D, None, 5, prune="relaxed", **distance)
    assert np.array_equal(found.indices, indices)
    assert np.array_equal(found.distances, distances)
    assert found.n_exact < 60 * 59 / 2
    with pytest.raises(ValueError, match="needs a metric with its own kernel and total mass 1"):
        asot.kneighbors(D, None, 5, prune="projections", **distance)


def test_the_estimator_of_neighbors_takes_every_distance():
    D = asot.Distributions.from_diagrams(diagrams(30, seed=4))
    distance = {"p": 2, "metric": "chebyshev", "unmatched": "diagonal"}
    indices, distances = nearest_by_brute_force(D, 3, **distance)
    model = asot.WassersteinNeighbors(3, **distance).fit(D)
    assert np.array_equal(model.kneighbors()[1], indices)
    assert np.array_equal(model.kneighbors()[0], distances)
    doubled = asot.Distributions(D.points, D.offsets, 2.0 * np.ones(len(D.points)))  # the same but for its totals
    assert np.allclose(model.fit(doubled).kneighbors()[0], np.sqrt(2.0) * distances, rtol=1e-9)


def test_projections_bound_higher_orders_too():
    D = clouds(60)
    indices, distances = nearest_by_brute_force(D, 3, p=2)
    for prune in ("projections", "potentials"):
        found = asot.kneighbors(D, None, 3, p=2, prune=prune)
        assert np.array_equal(found.indices, indices)
        assert np.array_equal(found.distances, distances)
        assert (found.info["p"], found.info["rooted"]) == (2, True)


# ------------------------------------------------------------------------------------------------ plans


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "braycurtis"])
def test_plans_cost_what_the_distance_is(p, metric):
    D = clouds(4)
    T = asot.plan(D, 0, 1, p=p, metric=metric, exact=True)
    assert np.isclose(T.cost, asot.pairwise_exact(D, p=p, metric=metric, pairs=[[0, 1]]).values[0], rtol=1e-9)
    assert np.allclose(T.sum(axis=1), D[0][1])
    with pytest.raises(ValueError, match="a lifted plan needs p=1, metric='euclidean'"):
        asot.plan(D, 0, 1, p=2, space=asot.KMeansAnchors(3, random_state=0))


@pytest.mark.parametrize("p", [1, 2, 2.5])
@pytest.mark.parametrize("kind", ["number", "array", "diagonal"])
def test_plans_with_unmatched_mass_cost_what_the_distance_is(p, kind):
    D = asot.Distributions.from_diagrams(diagrams(6, seed=5)[1:])
    rng = np.random.default_rng(0)
    unmatched = {"number": 3.0, "array": 0.2 * rng.random(len(D.points)), "diagonal": "diagonal"}[kind]
    distance = {"p": p, "metric": "chebyshev", "unmatched": unmatched}
    values = asot.pairwise_exact(D, **distance).matrix()
    for i in range(5):
        for j in range(i):
            T = asot.plan(D, i, j, **distance)
            assert np.isclose(T.cost, values[i, j], rtol=1e-9, atol=1e-12)
            masses = [D[t][1] * D.totals[t] for t in (i, j)]
            for axis, mass, left in zip((1, 0), masses, T.unmatched, strict=True):
                assert np.allclose(T.sum(axis=axis) + left, mass, atol=1e-12)
                assert left.min() >= 0


def test_a_plan_refuses_what_the_distance_refuses():
    D = asot.Distributions.from_list([[[0.0, 0.0]], [[3.0, 0.0]]], ids=["a", "b"])
    with pytest.raises(ValueError, match="largest ground distance between distributions a and b"):
        asot.plan(D, 0, 1, unmatched=1.0)
    with pytest.raises(ValueError, match=r"unmatched has shape \(1,\).*each of the 2 points"):
        asot.plan(D, 0, 1, unmatched=[1.0])
    with pytest.raises(ValueError, match="a lifted plan needs p=1, metric='euclidean' and total mass 1"):
        asot.plan(D, 0, 1, unmatched=2.0, space=asot.KMeansAnchors(1, random_state=0))


# ------------------------------------------------------------------------------------------------ refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p": 0.5}, "p must be a finite number ≥ 1; found 0.5"),
        ({"p": np.inf}, "p must be a finite number ≥ 1"),
        ({"p": "2"}, "p must be a finite number ≥ 1"),
        ({"metric": "nonsense"}, "unknown metric 'nonsense'"),
        ({"metric": "great_circle"}, "reads \\(latitude, longitude\\) in radians"),
        ({"metric": "precomputed"}, "metric='precomputed' needs the distances between the points"),
        ({"metric": "periodic", "metric_params": {"box": -1}}, "needs positive lengths of the box"),
        ({"metric": "cosine", "metric_params": {"w": 1}}, "metric 'cosine' takes no parameter 'w'"),
        ({"metric": lambda x, y: -1.0}, "it must be ≥ 0"),
        ({"metric": lambda x, y: np.nan}, "it must be finite"),
        ({"unmatched": -1.0}, "unmatched must be a positive price"),
        ({"unmatched": "edge"}, "unmatched must be a number, an array or 'diagonal'"),
        ({"unmatched": "diagonal"}, "is for points \\(birth, death\\)"),
        ({"unmatched": "diagonal", "metric": "cosine"}, "unmatched='diagonal' is known for the metrics"),
        ({"unmatched": [1.0, 2.0]}, "as an array it is the price of each of the"),
        ({"p": 2, "device": "cuda:99"}, "device='cuda:99' cannot be used"),
        ({"metric": "braycurtis", "memory": 100}, "raise memory="),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_reason(options, message):
    with pytest.raises((ValueError, RuntimeError), match=message):
        asot.pairwise_exact(clouds(6), **options)
