"""Shared costs whose digits a GPU would lose are the CPU's. The emulator stands in for a GPU."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import asot
from asot.exact.cuda.digits import lacks_digits
from asot.run import devices
from tests.oracles import highs_values
from tests.simt import host, numpy_as_cupy

RNG = np.random.default_rng(0)
COST, MASK = RNG.random((8, 7)), RNG.random((8, 7)) < 0.1
A, B = RNG.dirichlet(np.full(8, 4.0), 3), RNG.dirichlet(np.full(7, 4.0), 2)
PAIRS = np.array(list(itertools.product(range(3), range(2))))


@pytest.fixture
def gpu(monkeypatch):
    if host.COMPILER is None:
        pytest.skip("g++ is not installed, and kernels are compiled with it")
    numpy_as_cupy.install(monkeypatch)


@pytest.mark.parametrize("plans", [False, True])
def test_costs_that_mean_never_are_refused_by_name_and_else_the_cpus(gpu, monkeypatch, plans):
    given = np.where(MASK, 1e15, COST)
    with pytest.raises(ValueError, match="take the digits of the others, which the CPU keeps"):
        asot.emd_many(A, B, cost=given, device="cuda", plans=plans)
    monkeypatch.setattr(devices, "_start_seconds", lambda: -1e9)
    monkeypatch.setattr(devices, "_awake", False)
    found = asot.emd_many(A, B, cost=given, pairs=PAIRS, plans=plans)
    assert (found.info["device"], found.info["device_reason"].count("never")) == ("cpu", 1)
    np.testing.assert_allclose(found.values, highs_values(A, B, np.where(MASK, 10.0, COST), PAIRS), atol=1e-12)
    monkeypatch.setattr(devices, "_awake", False)
    assert asot.emd_many(A, B, cost=COST, pairs=PAIRS).info["device"] == "cuda:0"


def test_large_costs_that_leave_the_digits_are_solved_on_a_gpu(gpu):
    given = np.where(MASK, 1e3, COST)
    found = asot.emd_many(A, B, cost=given, device="cuda")
    np.testing.assert_allclose(found.values, highs_values(A, B, np.where(MASK, 10.0, COST), PAIRS), atol=1e-12)


@pytest.mark.parametrize("never", [1e5, 1e9, 1e15, 1e300])
@pytest.mark.parametrize("cancel", [False, True])
def test_what_lies_apart_lacks_digits(never, cancel):
    assert lacks_digits(np.where(MASK, never, COST), cancel=cancel)
    assert lacks_digits(1e-200 * np.where(MASK, never, COST), cancel=cancel)


def test_entries_across_many_sizes_lack_digits_without_a_gap():
    assert lacks_digits(np.exp2(-np.linspace(0, 60, 2500).reshape(50, 50)), cancel=False)


@pytest.mark.parametrize("cancel", [False, True])
@pytest.mark.parametrize("dim", [1, 2, 3, 30])
@pytest.mark.parametrize("power", [1, 2])
def test_distances_and_their_squares_have_their_digits(cancel, dim, power):
    for k in (3, 30, 500):
        points = np.random.default_rng(k).normal(size=(k, dim))
        assert not lacks_digits(cdist(points, points) ** power, cancel=cancel)
        points[1] = points[0] * (1 + 1e-9)
        assert not lacks_digits(cdist(points, points) ** power, cancel=cancel)


@pytest.mark.parametrize("cancel", [False, True])
def test_costs_of_one_size_and_zeros_have_their_digits(cancel):
    for cost in (np.zeros((4, 4)), np.ones((3, 5)), 1 - np.eye(9), np.where(MASK, 1e15, 0.0)):
        assert not lacks_digits(cost, cancel=cancel)


def test_zeros_beside_small_costs_are_a_choice_unless_mass_on_them_is_canceled():
    cost = np.full((6, 6), 1e15)
    cost[:3, :3] = 0.0
    cost[0, 1] = 1.0
    assert lacks_digits(cost[:, ::-1], cancel=False)
    assert not lacks_digits(cost[:, ::-1], cancel=True)
