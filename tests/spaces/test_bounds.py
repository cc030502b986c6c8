"""Lower bounds are below every plan, values are the prices of plans, and descents end where POT's do."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from asot.data.spaces.quantiles import binned
from asot.data.spaces.reading import read_spaces
from asot.spaces.bounds import rounded_down
from asot.spaces.solver import FROM_BOUND, FROM_PRODUCT, Gromov

from .made import energy, masses_of, neuron, random_plan

BOTH = FROM_BOUND + FROM_PRODUCT
GO_ON = np.zeros(1, dtype=np.int64)


def collection(rng: np.random.Generator, count: int, most: int, even: bool) -> tuple[list[Any], Any]:
    sizes = np.full(count, most) if even else rng.integers(1, most + 1, count)
    matrices = [neuron(rng, int(n)) for n in sizes]
    return matrices, None if even else [masses_of(rng, int(n)) for n in sizes]


def all_pairs(count: int) -> tuple[Any, Any]:
    rows, columns = np.triu_indices(count, 1)
    return rows.astype(np.int64), columns.astype(np.int64)


def as_distance(value: float, p: float, alpha: float) -> float:
    return (0.5 if alpha == 1 else 1.0) * value ** (1 / p)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("alpha", [1.0, 0.4])
def test_no_bound_is_above_the_price_of_any_plan(p: float, even: bool, alpha: float) -> None:
    rng = np.random.default_rng([int(10 * p), even, int(10 * alpha)])
    matrices, masses = collection(rng, 14, 7, even)
    features = None if alpha == 1 else [rng.normal(size=(len(x), 2)) for x in matrices]
    spaces = read_spaces(matrices, masses, features)
    solver = Gromov(spaces, p, alpha, BOTH)
    rows, columns = all_pairs(len(matrices))
    solved = solver.solve(rows, columns, GO_ON)
    third = solver.energies(rows, columns, GO_ON).third
    bounds = solver.bounds.of(rows, columns, third)
    assert (solved.lower == np.minimum(bounds.max(axis=1), solved.values)).all()
    assert (solved.lower <= solved.upper).all()
    for t, (i, j) in enumerate(zip(rows, columns, strict=True)):
        costs = None if features is None else np.linalg.norm(features[i][:, None] - features[j][None], axis=-1)
        for _ in range(12):
            plan = random_plan(rng, spaces.masses(i), spaces.masses(j))
            price = as_distance(energy(plan, matrices[i], matrices[j], p, alpha, costs), p, alpha)
            assert (bounds[t] <= price * (1 + 1e-13)).all()


@pytest.mark.parametrize("p", [1.0, 2.0, 2.5])
@pytest.mark.parametrize("alpha", [1.0, 0.3])
@pytest.mark.parametrize("starts", [FROM_BOUND, FROM_PRODUCT, BOTH])
def test_a_value_is_the_price_of_the_plan_that_comes_with_it(p: float, alpha: float, starts: int) -> None:
    rng = np.random.default_rng(1)
    matrices, masses = collection(rng, 8, 12, even=False)
    features = None if alpha == 1 else [rng.normal(size=(len(x), 2)) for x in matrices]
    spaces = read_spaces(matrices, masses, features)
    solver = Gromov(spaces, p, alpha, starts)
    for i, j in zip(*all_pairs(len(matrices)), strict=True):
        plan = np.zeros((len(matrices[i]), len(matrices[j])))
        found = solver.energies(np.array([i]), np.array([j]), GO_ON, plan)[0]
        costs = None if features is None else np.linalg.norm(features[i][:, None] - features[j][None], axis=-1)
        price = as_distance(energy(plan, matrices[i], matrices[j], p, alpha, costs), p, alpha)
        np.testing.assert_allclose(solver.bounds.distance(found)[0], price, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(plan.sum(axis=1), spaces.masses(i), atol=1e-14)
        np.testing.assert_allclose(plan.sum(axis=0), spaces.masses(j), atol=1e-14)
        assert (plan >= 0).all()


def pot_value(x: Any, y: Any, a: Any, b: Any, **fused: Any) -> float:
    ot = pytest.importorskip("ot")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if fused:
            return float(ot.fused_gromov_wasserstein2(fused["costs"], x, y, a, b, alpha=fused["alpha"], symmetric=True))
        return float(ot.gromov_wasserstein2(x, y, a, b, symmetric=True))


@pytest.mark.parametrize("even", [True, False])
def test_from_the_product_a_descent_is_never_above_pot(even: bool) -> None:
    rng = np.random.default_rng(2)
    matrices, masses = collection(rng, 20, 16, even)
    spaces = read_spaces(matrices, masses)
    rows, columns = all_pairs(len(matrices))
    theirs = [
        pot_value(matrices[i], matrices[j], *map(spaces.masses, (i, j))) for i, j in zip(rows, columns, strict=True)
    ]
    one = Gromov(spaces, 2.0, 1.0, FROM_PRODUCT).solve(rows, columns, GO_ON).values
    both = Gromov(spaces, 2.0, 1.0, BOTH).solve(rows, columns, GO_ON).values
    expected = 0.5 * np.sqrt(np.maximum(theirs, 0.0))
    assert (one <= expected + 1e-9).all()
    assert (both <= one + 1e-12).all()
    assert both.mean() < 0.99 * expected.mean()


@pytest.mark.parametrize("alpha", [0.2, 0.7])
def test_fused_descents_are_never_above_pot(alpha: float) -> None:
    rng = np.random.default_rng(3)
    matrices, masses = collection(rng, 14, 12, even=False)
    features = [rng.normal(size=(len(x), 3)) for x in matrices]
    spaces = read_spaces(matrices, masses, features)
    rows, columns = all_pairs(len(matrices))
    theirs = []
    for i, j in zip(rows, columns, strict=True):
        costs = ((features[i][:, None] - features[j][None]) ** 2).sum(axis=-1)
        theirs.append(pot_value(matrices[i], matrices[j], *map(spaces.masses, (i, j)), costs=costs, alpha=alpha))
    one = Gromov(spaces, 2.0, alpha, FROM_PRODUCT).solve(rows, columns, GO_ON).values
    assert (one <= np.sqrt(np.maximum(theirs, 0.0)) + 1e-9).all()


def test_bins_are_means_of_the_quantile_function() -> None:
    rng = np.random.default_rng(4)
    values, masses = rng.random((5, 9)), masses_of(rng, 9)
    found = binned(values, masses, 4)
    fine = (np.arange(400_000) + 0.5) / 400_000
    for row, means in zip(values, found, strict=True):
        order = np.argsort(row)
        quantiles = row[order][np.searchsorted(np.cumsum(masses[order]), fine).clip(max=8)]
        np.testing.assert_allclose(means, quantiles.reshape(4, -1).mean(axis=1), atol=1e-4)


def test_bounds_of_large_spaces_allow_for_coarser_integers():
    small, large = (read_spaces([np.zeros((n, n))] * 2) for n in (50, 2000))
    root = np.array([0.0, 1e-6, 0.5])
    assert (rounded_down(root, large) <= rounded_down(root, small)).all()
    assert rounded_down(root, small)[2] > 0.5 - 2e-7
    unit = 2.0 ** -(62 - 2 * 11)  # of costs up to 1 between 2,000 points
    assert (rounded_down(root, large) ** 2 <= np.maximum(root**2 - unit, 0.0)).all()
