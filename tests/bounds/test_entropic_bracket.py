"""What scalings prove, however far the iteration came."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asot
from asot.bounds.bounded_anchors import Scalings, anchor_bounds
from asot.entropic.cpu import SinkhornSharedCost
from asot.entropic.options import SinkhornOptions
from tests.strategies import metric_problems


def solved(H, cost, reg, max_iter, tol=1e-9):
    solver = SinkhornSharedCost(H, None, cost, SinkhornOptions(reg, max_iter, tol))
    rows, columns = np.triu_indices(len(H), 1)
    return solver.solve_with_scalings(rows, columns, np.zeros(1, dtype=np.int64))[1]


@given(metric_problems(n_histograms=3), st.sampled_from([1e-3, 0.1, 10.0]), st.sampled_from([1, 7, 300]))
def test_bounds_hold_after_any_number_of_iterations(problem, reg, max_iter):
    cost, histograms = problem
    H = histograms / histograms.sum(axis=1, keepdims=True)
    exact = asot.emd_many(H, cost=cost).values
    lower, upper = anchor_bounds(solved(H, cost, reg, max_iter), np.zeros(1, dtype=np.int64))
    assert np.all((lower >= 0) & (lower <= exact * (1 + 1e-9)))
    assert np.all(exact <= upper * (1 + 1e-9))


@given(metric_problems(n_histograms=2), st.integers(0, 10**6))
def test_bounds_hold_for_scalings_that_are_noise(problem, seed):
    cost, histograms = problem
    rng = np.random.default_rng(seed)
    a, b = (histograms / histograms.sum(axis=1, keepdims=True))[:, None]
    phi, psi = (np.where(h > 0, 5 * rng.normal(size=h.shape), -np.inf) for h in (a, b))
    lower, upper = anchor_bounds(Scalings(a, b, phi, psi, cost / 0.5, 0.5), np.zeros(1, dtype=np.int64))
    exact = asot.emd_many(a, b, cost=cost).values
    assert lower[0] <= exact[0] * (1 + 1e-9)
    assert exact[0] <= upper[0] * (1 + 1e-9)


@pytest.mark.parametrize("reg", [1e-4, 1e-2])
def test_bounds_close_as_reg_falls(reg):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(12, 2))
    cost = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2))
    H = rng.dirichlet(np.ones(12), 5)
    lower, upper = anchor_bounds(solved(H, cost, reg, 1000), np.zeros(1, dtype=np.int64))
    assert np.all(upper - lower <= 30 * reg)
