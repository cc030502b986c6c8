"""`barycenter`, beside POT's linear program and POT's Bregman projections."""

import numpy as np
import pytest
from hypothesis import given

import asot
from tests.oracles import ot
from tests.strategies import metric_problems


def problem(n=5, k=12, seed=0):
    rng = np.random.default_rng(seed)
    points = rng.random((k, 2))
    cost = np.linalg.norm(points[:, None] - points, axis=2)
    return rng.dirichlet(np.full(k, 0.5), size=n), 0.5 * (cost + cost.T), rng.dirichlet(np.ones(n))


def price(masses, histograms, cost, weights):
    return float(weights @ asot.emd_many(histograms, masses[None], cost=cost).values)


@pytest.mark.parametrize("seed", range(3))
def test_the_exact_barycenter_costs_what_pots_linear_program_costs(seed):
    H, cost, weights = problem(seed=seed)
    masses, value, info = asot.barycenter(H, cost, weights)
    theirs = ot.lp.barycenter(H.T.copy(), cost, weights, solver="highs")
    assert np.isclose(value, price(theirs / theirs.sum(), H, cost, weights), rtol=1e-7)
    assert np.isclose(value, price(masses, H, cost, weights))
    assert np.isclose(masses.sum(), 1.0)
    assert (masses >= 0).all()
    assert info["method"] == "linear program"


@pytest.mark.parametrize("reg", [0.5, 0.05, 0.02])
def test_projections_agree_with_pot(reg):
    H, cost, weights = problem()
    ours = asot.barycenter(H, cost, weights, reg=reg, max_iter=20_000, tol=1e-12)
    theirs = ot.bregman.barycenter(
        H.T.copy(), cost, reg, weights, method="sinkhorn_log", numItermax=20_000, stopThr=1e-13
    )
    assert ours.info["converged"]
    assert ours.info["status"] == "CONVERGED"
    assert np.abs(ours.masses - theirs / theirs.sum()).sum() < 1e-6


@pytest.mark.filterwarnings("ignore:the barycenter stopped")  # the smallest reg needs more than that
def test_small_reg_approaches_the_exact_value():
    H, cost, _ = problem()
    exact = asot.barycenter(H, cost).value
    values = [asot.barycenter(H, cost, reg=reg, max_iter=20_000).value for reg in (0.3, 0.03, 0.003)]
    assert values[0] > values[1] > values[2] > exact * (1 - 1e-9)
    assert values[2] < 1.02 * exact


def test_tiny_reg_stays_finite():
    H, cost, _ = problem()
    with pytest.warns(RuntimeWarning, match=r"stopped at max_iter=30 before tol=1e-07 was met: plans still"):
        found = asot.barycenter(H, cost, reg=1e-5, max_iter=30)
    assert np.isfinite(found.masses).all()
    assert not found.info["converged"]
    assert found.info["status"] == "MAX_ITER"


def test_the_barycenter_of_one_histogram_is_that_histogram():
    H, cost, _ = problem(n=1)
    masses, value, _ = asot.barycenter(H, cost)
    assert np.allclose(masses, H[0])
    assert np.isclose(value, 0.0, atol=1e-9)


def test_a_weight_of_zero_takes_a_histogram_out():
    H, cost, _ = problem(n=3)
    both = asot.barycenter(H, cost, [0.5, 0.5, 0.0]).value
    assert np.isclose(both, asot.barycenter(H[:2], cost).value)
    with_reg = asot.barycenter(H, cost, [0.5, 0.5, 0.0], reg=0.1).masses
    assert np.allclose(with_reg, asot.barycenter(H[:2], cost, reg=0.1).masses)


@given(metric_problems(n_histograms=3))
def test_no_histogram_of_the_collection_is_a_better_center(generated):
    cost, H = generated
    found = asot.barycenter(H, cost)
    members = asot.emd_many(H, H, cost=cost).matrix().mean(axis=0)
    assert found.value <= members.min() + 1e-7 * max(1.0, cost.max())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": [1.0, 2.0]}, "weights must hold one number for each of the 5 histograms"),
        ({"weights": [1.0, -1.0, 1.0, 1.0, 1.0]}, "weights must be finite, ≥ 0 and not all 0"),
        ({"reg": 0.0}, "reg must be a number > 0"),
        ({"reg": 0.1, "max_iter": 0}, "max_iter must be a whole number ≥ 1"),
        ({"reg": 0.1, "tol": 2.0}, "tol must be None or a number between 0 and 1"),
    ],
)
def test_wrong_arguments_are_refused(options, message):
    H, cost, _ = problem()
    with pytest.raises(ValueError, match=message):
        asot.barycenter(H, cost, **options)


def test_a_program_that_would_take_minutes_is_refused():
    H, cost, _ = problem(n=60, k=80)
    with pytest.raises(ValueError, match=r"linear program of [\d,]+ variables, more than 300,000; use reg='auto'"):
        asot.barycenter(np.ones_like(H), cost)


@pytest.mark.parametrize("reg", [0.2, 0.03, 0.004])
def test_longer_steps_end_where_plain_ones_do(reg):
    H, cost, weights = problem()
    kernel, u = np.exp(-cost / reg), np.ones(H.T.shape)
    for _ in range(60_000):
        reached = kernel.T @ (H.T / (kernel @ u))
        b = np.exp(np.log(reached) @ weights)
        u = b[:, None] / reached
    found = asot.barycenter(H, cost, weights, reg=reg, tol=1e-10, max_iter=20_000)
    assert found.info["status"] == "CONVERGED"
    np.testing.assert_allclose(found.masses, b / b.sum(), atol=1e-8)
