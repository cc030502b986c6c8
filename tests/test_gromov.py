"""`asot.gromov` from outside: isometric spaces, orders, sinks, stores, estimates, neighbours, plans."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asot
from asot.data.spaces.reading import read_spaces
from asot.run.pairs import AllPairs, CrossPairs, ListedPairs
from asot.sinks import Dense, Radius, TopK
from asot.spaces.estimate import large_pairs
from asot.spaces.solver import FROM_BOUND, FROM_PRODUCT, Gromov
from tests.spaces.made import energy, masses_of, neuron


def neurons(seed: int, sizes: list[int]) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [neuron(rng, n) for n in sizes]


def relabelled(rng: np.random.Generator, matrix: Any) -> tuple[Any, Any]:
    order = rng.permutation(len(matrix))
    return matrix[np.ix_(order, order)], order


def test_levels_of_bounds_are_no_choice_here() -> None:
    with pytest.raises(ValueError, match="bounds must be True or False; found 'cells'"):
        asot.gromov(neurons(0, [5, 6]), bounds="cells")  # type: ignore[arg-type]


@pytest.mark.parametrize("p", [1, 2, 3])
def test_a_space_is_at_0_from_itself_and_from_relabelled_copies(p: int) -> None:
    rng = np.random.default_rng(0)
    spaces = neurons(0, [1, 2, 7, 30, 80])
    copies = [relabelled(rng, x)[0] for x in spaces]
    r = asot.gromov(spaces, copies, p=p)
    assert (np.diag(r.matrix()) == 0.0).all()
    assert (np.diag(asot.gromov(spaces, spaces, p=p).matrix()) == 0.0).all()
    assert (r.lower <= r.values).all()


@pytest.mark.parametrize("p", [1, 2])
def test_relabelled_copies_with_masses_and_features_are_at_0(p: int) -> None:
    rng = np.random.default_rng(1)
    spaces = neurons(1, [1, 2, 20, 20, 20, 50])
    masses = [rng.random(len(x)) + 0.1 for x in spaces]
    features = [rng.normal(size=(len(x), 2)) for x in spaces]
    copies, orders = zip(*(relabelled(rng, x) for x in spaces), strict=True)
    moved = [[each[order] for each, order in zip(part, orders, strict=True)] for part in (masses, features)]
    r = asot.gromov(spaces, list(copies), p=p, masses=(masses, moved[0]))
    assert (np.diag(r.matrix()) == 0.0).all()
    fused = {"features": (features, moved[1]), "alpha": 0.5}
    assert (np.diag(asot.gromov(spaces, list(copies), p=p, masses=(masses, moved[0]), **fused).matrix()) == 0.0).all()


def test_graphs_whose_points_all_look_alike_are_told_apart_or_matched() -> None:
    networkx = pytest.importorskip("networkx")
    rng = np.random.default_rng(7)
    alike = [networkx.random_regular_graph(3, 16, seed=seed) for seed in range(12)]
    graphs = [graph for graph in alike if networkx.is_connected(graph)]
    matrices = [np.asarray(networkx.floyd_warshall_numpy(graph)) for graph in graphs]
    matrices += [np.abs(np.subtract.outer(x, x)) for x in (np.repeat([0.0, 1.0, 3.0], 3), np.arange(9.0) % 3)]
    copies = [relabelled(rng, x)[0] for x in matrices]
    assert (np.diag(asot.gromov(matrices, copies).matrix()) == 0.0).all()


def test_relabelled_graphs_with_symmetric_points_are_at_0() -> None:
    networkx = pytest.importorskip("networkx")
    rng = np.random.default_rng(1)
    graphs = [networkx.cycle_graph(9), networkx.balanced_tree(2, 3), networkx.petersen_graph(), networkx.star_graph(6)]
    graphs += [networkx.grid_2d_graph(4, 4), networkx.complete_bipartite_graph(3, 4), networkx.path_graph(12)]
    matrices = [np.asarray(networkx.floyd_warshall_numpy(graph)) for graph in graphs]
    copies = [relabelled(rng, x)[0] for x in matrices]
    assert (np.diag(asot.gromov(graphs, copies).matrix()) == 0.0).all()
    assert (np.diag(asot.gromov(graphs, graphs).matrix()) == 0.0).all()


def test_values_do_not_depend_on_the_order_of_points() -> None:
    rng = np.random.default_rng(2)
    spaces, masses, features = neurons(2, [9, 12, 15, 15]), [], []
    for x in spaces:
        masses.append(masses_of(rng, len(x)))
        features.append(rng.normal(size=(len(x), 2)))
    plain = asot.gromov(spaces, masses=masses, features=features, alpha=0.6)
    turned = [relabelled(rng, x) for x in spaces]
    again = asot.gromov(
        [x for x, _ in turned],
        masses=[m[order] for m, (_, order) in zip(masses, turned, strict=True)],
        features=[f[order] for f, (_, order) in zip(features, turned, strict=True)],
        alpha=0.6,
    )
    np.testing.assert_allclose(again.values, plain.values, rtol=1e-9)
    np.testing.assert_allclose(again.lower, plain.lower, rtol=1e-9)


def test_two_collections_hold_the_values_of_one() -> None:
    spaces = neurons(3, [5, 8, 8, 11, 6])
    matrix = asot.gromov(spaces).matrix()
    cross = asot.gromov(spaces[:2], spaces[2:])
    np.testing.assert_allclose(cross.matrix(), matrix[:2, 2:], rtol=1e-12)
    listed = asot.gromov(spaces, pairs=[[1, 4], [2, 0], [3, 3]])
    np.testing.assert_allclose(listed.values[:2], [matrix[1, 4], matrix[2, 0]], rtol=1e-6)
    assert listed.values[2] == 0.0


def test_names_of_both_collections_stay_what_they_are() -> None:
    spaces = neurons(3, [4, 5, 6])
    r = asot.gromov(spaces[:2], {"x": spaces[2]})
    assert r.ids.tolist() == [0, 1]
    assert r.ids_columns.tolist() == ["x"]


def test_one_space_has_no_pairs() -> None:
    r = asot.gromov(neurons(4, [5]))
    assert len(r) == len(r.lower) == len(r.upper) == len(r.error) == 0
    assert r.matrix().tolist() == [[0.0]]


def test_a_point_is_as_far_as_half_the_spread_of_the_other() -> None:
    (space,) = neurons(5, [12])
    r = asot.gromov([np.zeros((1, 1)), space])
    expected = 0.5 * np.sqrt((space**2).mean())
    np.testing.assert_allclose([r.values[0], r.lower[0]], expected, rtol=1e-6)


def test_status_and_convention_say_what_a_value_is() -> None:
    r = asot.gromov(neurons(6, [6, 7, 8]))
    assert {asot.Status(s) for s in r.status} == {asot.Status.BEST_FOUND}
    assert "½" in r.info["convention"]
    assert (r.upper == r.values).all()
    assert (r.error >= 0).all()
    assert "exact" not in repr(r).replace("exact transport steps", "")


def test_bounds_are_left_out_on_request() -> None:
    spaces = neurons(6, [6, 7, 8])
    r = asot.gromov(spaces, bounds=False)
    assert r.lower is None
    assert r.upper is None
    np.testing.assert_array_equal(r.values, asot.gromov(spaces).values)


def test_bits_do_not_depend_on_threads_or_tiles() -> None:
    spaces = neurons(7, [10] * 30)
    one = asot.gromov(spaces, n_jobs=1)
    two = asot.gromov(spaces, n_jobs=3, memory="1M")
    for name in ("values", "lower", "upper", "error", "n_iter"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_processes_give_the_same_bits() -> None:
    joblib = pytest.importorskip("joblib")
    spaces = neurons(7, [6] * 8)
    with joblib.parallel_config("loky", n_jobs=2):
        there = asot.gromov(spaces)
    here = asot.gromov(spaces)
    np.testing.assert_array_equal(there.values, here.values)
    np.testing.assert_array_equal(there.lower, here.lower)


def test_every_sink_takes_the_values() -> None:
    spaces = neurons(8, [9] * 12)
    matrix = asot.gromov(spaces).matrix()
    np.testing.assert_array_equal(asot.gromov(spaces, sink=Dense()), matrix)
    radius = float(np.median(matrix))
    graph = asot.gromov(spaces, sink=Radius(radius))
    assert graph.nnz == (matrix <= radius).sum() - len(spaces)


def test_a_store_is_taken_up_again(tmp_path: Path) -> None:
    spaces = neurons(8, [9] * 12)
    plain = asot.gromov(spaces)
    folder = tmp_path / "store"

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asot.gromov(spaces, sink=asot.sinks.Store(folder), progress=interrupt)
    for _ in range(2):
        stored = asot.gromov(spaces, sink=asot.sinks.Store(folder)).distances()
        for name in ("values", "lower", "upper", "error"):
            np.testing.assert_array_equal(getattr(stored, name), getattr(plain, name))
    with pytest.raises(ValueError, match="p"):
        asot.gromov(spaces, p=1, sink=asot.sinks.Store(folder))
    with pytest.raises(ValueError, match="input"):
        asot.gromov(neurons(9, [9] * 12), sink=asot.sinks.Store(folder))


@pytest.mark.parametrize("two", [False, True])
def test_the_nearest_by_bounds_are_those_of_all_values(two: bool) -> None:
    rng = np.random.default_rng(9)
    bases = neurons(9, [12] * 8)
    spaces = [base * scale + rng.random() * (1 - np.eye(12)) for base in bases for scale in (0.3, 1.0, 3.0)]
    matrix = asot.gromov(spaces, spaces[:10]).matrix() if two else asot.gromov(spaces).matrix()
    if not two:
        np.fill_diagonal(matrix, np.inf)
    found = asot.gromov(spaces, spaces[:10] if two else None, sink=TopK(3))
    order = np.argsort(matrix, axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(found.distances, np.take_along_axis(matrix, order, axis=1))
    np.testing.assert_array_equal(found.indices, order)
    assert found.info["n_solved"] < found.info["n_pairs"]
    assert (found.lower <= found.distances).all()


def test_estimates_are_as_good_as_they_say() -> None:
    spaces = neurons(10, [14] * 40)
    r = asot.gromov(spaces, error="15%")
    truth = asot.gromov(spaces).values
    report = r.info["calibration"]
    rmse = float(np.sqrt(((r.values - truth) ** 2).mean()))
    assert {asot.Status(s) for s in r.status} == {asot.Status.ESTIMATED}
    assert rmse <= 0.15 * truth.mean()
    assert 0.7 * report["held_out_rmse"] < rmse < 1.3 * report["held_out_rmse"]
    assert (r.error == report["held_out_rmse"]).all()
    assert (r.lower <= r.values).all()
    assert (r.values <= r.upper).all()
    assert "rms error" in repr(r)
    assert asot.gromov(spaces, error="15%", sink=TopK(2)).distances.shape == (40, 2)


def test_estimates_take_more_steps_for_less_error() -> None:
    spaces = neurons(10, [20] * 42)
    truth = asot.gromov(spaces).values
    taken, errors = [], []
    for aim in ("15%", "10%", "8%"):
        r = asot.gromov(spaces, error=aim)
        taken.append(r.info["calibration"]["steps"])
        errors.append(float(np.sqrt(((r.values - truth) ** 2).mean())))
        assert errors[-1] <= 0.01 * float(aim[:-1]) * truth.mean()
        assert (r.values <= r.upper).all()
        assert (truth <= r.upper * (1 + 1e-12)).all()
    assert taken == sorted(taken)
    assert taken[0] == 0
    assert taken[-1] > 0
    assert errors[-1] < errors[0]


def test_an_aim_that_estimates_miss_is_answered_with_plans() -> None:
    spaces = neurons(10, [8] * 40)
    r = asot.gromov(spaces, error="0.01%")
    assert "which is more than" in r.info["why"]
    np.testing.assert_array_equal(r.values, asot.gromov(spaces).values)
    assert "few pairs" in asot.gromov(spaces[:4], error="5%").info["why"]


def test_equal_spaces_can_be_estimated() -> None:
    (space,) = neurons(11, [5])
    r = asot.gromov([space] * 40, error="5%")
    assert (r.values == 0.0).all()


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("sizes", [[9] * 5, [4, 9, 6, 7, 5]])
def test_clouds_of_sorted_distances_are_at_the_third_lower_bound(p: int, sizes: list[int]) -> None:
    from asot.data.spaces.reading import read_spaces
    from asot.spaces.solver import Gromov

    spaces = neurons(12, sizes)
    D = asot.Distributions.from_spaces(spaces, p=p)
    options: dict[str, Any] = {} if p == 2 else {"metric": "minkowski", "metric_params": {"p": p}}
    r = asot.pairwise_exact(D, p=p, **options)
    solver = Gromov(read_spaces(spaces), float(p), 1.0, 0)
    rows, columns = (x.astype(np.int64) for x in np.triu_indices(5, 1))
    energy = solver.energies(rows, columns, np.zeros(1, dtype=np.int64)).third
    third = solver.bounds.of(rows, columns, energy)[:, 2]
    np.testing.assert_allclose(r.values, third, rtol=1e-7, atol=1e-9)
    assert (r.values <= asot.gromov(spaces, p=p).values * (1 + 1e-9)).all()
    fewer = asot.pairwise_exact(asot.Distributions.from_spaces(spaces, p=p, bins=3), p=p, **options)
    assert (fewer.values <= r.values * (1 + 1e-9)).all()


def test_neighbours_among_clouds_of_sorted_distances() -> None:
    spaces = neurons(13, [8] * 15)
    D = asot.Distributions.from_spaces(dict(enumerate(spaces)))
    matrix = asot.pairwise_exact(D, p=2).matrix()
    np.fill_diagonal(matrix, np.inf)
    found = asot.kneighbors(D, n_neighbors=2, p=2)
    np.testing.assert_allclose(found.distances, np.sort(matrix, axis=1)[:, :2], rtol=1e-9)


def test_a_plan_of_two_spaces_costs_the_value() -> None:
    rng = np.random.default_rng(14)
    spaces = dict(zip("abc", neurons(14, [8, 11, 11]), strict=True))
    masses = [masses_of(rng, n) for n in (8, 11, 11)]
    r = asot.gromov(spaces, masses=masses)
    T = asot.gromov_plan(spaces, "a", "c", masses=masses)
    assert T.cost == pytest.approx(r.matrix()[0, 2], rel=1e-12)
    assert T.lower == pytest.approx(r.lower[1], rel=1e-9)
    assert T.ids == ("a", "c")
    assert 0.5 * energy(T.toarray(), spaces["a"], spaces["c"], 2) ** 0.5 == pytest.approx(T.cost, rel=1e-9)
    np.testing.assert_allclose(T.sum(axis=1), masses[0], atol=1e-12)
    np.testing.assert_allclose(T.sum(axis=0), masses[2], atol=1e-12)
    assert T.nnz <= 3 * 19
    cross = asot.gromov_plan([spaces["a"]], 0, 1, Y=[spaces["b"], spaces["c"]])
    assert cross.shape == (8, 11)


def test_a_plan_costs_the_value_also_beside_larger_spaces() -> None:
    rng = np.random.default_rng(5)
    spaces = neurons(5, rng.integers(2, 12, 16))
    values = asot.gromov(spaces).matrix()
    for i, j in itertools.combinations(range(16), 2):
        assert asot.gromov_plan(spaces, i, j).cost == pytest.approx(values[i, j], rel=1e-9)


@pytest.mark.parametrize("scale", [1e-290, 1e-150, 1.0, 1e290])
def test_a_single_point_has_no_size_that_hides_small_spaces(scale: float) -> None:
    point, two = np.zeros((1, 1)), scale * (1.0 - np.eye(2))
    within, across = asot.gromov([point, two], p=3), asot.gromov([point], [two], p=3)
    assert within.values[0] == across.values[0] == pytest.approx(0.5 * scale * 0.5 ** (1 / 3), rel=1e-12)
    apart = asot.gromov([point, point], features=[[[0.0]], [[scale]]], alpha=0.5, p=3)
    assert apart.values[0] == pytest.approx(scale * 0.5 ** (1 / 3), rel=1e-12)


@pytest.mark.parametrize("p", [1, 3])
def test_every_step_of_a_long_descent_hears_the_flag(p: float) -> None:
    """From the product of the masses, the first form of an order other than 2 takes n²m² powers: here half a minute."""
    spaces = read_spaces(neurons(16, [250 if p > 1 else 400] * 2))
    solver, stop, ends = Gromov(spaces, p, 1.0, FROM_PRODUCT), np.zeros(1, np.int64), (np.array([0]), np.array([1]))
    kernel = threading.Thread(target=solver.energies, args=(*ends, stop))
    kernel.start()
    time.sleep(1.0)  # longer than the bound that is computed first
    assert kernel.is_alive()
    stop[0] = 1
    kernel.join(1.0)
    stopped = not kernel.is_alive()
    kernel.join()
    assert stopped


@pytest.mark.parametrize("seed", range(6))
def test_two_spaces_that_have_most_of_the_error_are_in_its_interval(seed: int) -> None:
    """One pair of 1,225 is far larger than all others: a sample of 256 would rarely hold it."""
    spaces = [scale * cloud for scale, cloud in zip([100.0] * 2 + [1.0] * 48, neurons(seed, [8] * 50), strict=True)]
    searched, found = asot.gromov(spaces), asot.gromov(spaces, error="20%", random_state=seed)
    _, high = found.info["calibration"]["held_out_rmse_interval"]
    assert np.sqrt(np.mean((found.values - searched.values) ** 2)) <= high


@pytest.mark.parametrize("pairs", [AllPairs(40), CrossPairs(30, 20)])
def test_large_pairs_are_those_of_two_large_spaces(pairs: AllPairs | CrossPairs) -> None:
    rng = np.random.default_rng(18)
    rows = rng.pareto(0.5, pairs.n_rows)
    columns = rows if pairs.symmetric else rng.pareto(0.5, pairs.n_columns)
    i, j = pairs.indices(0, len(pairs))
    smaller = np.minimum(rows[i], columns[j])
    expected = np.flatnonzero(smaller > 4 / 256 * smaller.sum())
    assert 0 < len(expected) < 64
    listed = ListedPairs(np.stack([i, j], axis=1), pairs.n_rows, pairs.n_columns, pairs.symmetric)
    for each in (pairs, listed):
        np.testing.assert_array_equal(large_pairs(each, rows, columns, 256), expected)
    assert len(large_pairs(pairs, np.ones(pairs.n_rows), np.ones(pairs.n_columns), 256)) == 0


def test_pairs_of_another_order_than_2_are_long_work() -> None:
    """So that they are cut into short tiles, and a thread solves them while the calling one hears Ctrl-C."""
    spaces = read_spaces(neurons(17, [60, 60]))
    solvers = {p: Gromov(spaces, p, 1.0, FROM_BOUND + FROM_PRODUCT) for p in (1.0, 1.5, 2.0, 3.0)}
    seconds = {p: solver.expected_seconds(1) for p, solver in solvers.items()}
    assert 100 * seconds[2.0] < seconds[3.0] == seconds[1.5]
    assert 3 * seconds[2.0] < seconds[1.0] < seconds[3.0]
    assert solvers[3.0].pairs_per_tile(2**30) == 1


def test_a_plan_of_symmetric_copies_is_a_relabelling() -> None:
    networkx = pytest.importorskip("networkx")
    x = np.asarray(networkx.floyd_warshall_numpy(networkx.cycle_graph(8)))
    y, _ = relabelled(np.random.default_rng(15), x)
    T = asot.gromov_plan([x, y], 0, 1)
    assert T.cost == 0.0
    match = T.toarray().argmax(axis=1)
    np.testing.assert_array_equal(x, y[np.ix_(match, match)])


def test_a_plan_of_unknown_spaces_is_refused() -> None:
    with pytest.raises(ValueError, match="j='z' is the name of 0 spaces"):
        asot.gromov_plan({"a": np.zeros((1, 1))}, "a", "z")
    with pytest.raises(IndexError, match="i is 3"):
        asot.gromov_plan([np.zeros((1, 1))], 3, 0)
