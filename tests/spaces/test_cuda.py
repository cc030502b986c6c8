"""Descents on a GPU, run by the emulator, against those of the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asot
from asot.exact.cuda import own_costs
from asot.exact.cuda.points_plan import BlockClass
from asot.sinks import TopK
from asot.spaces import cuda
from tests.simt import host, numpy_as_cupy

from .made import masses_of, neuron

pytestmark = host.needs_compiler


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(own_costs, "CLASSES", (BlockClass(64, 64, 32, "own_costs"),))  # each is compiled
    return numpy_as_cupy.install(monkeypatch)


def neurons(seed: int, sizes: list[int]) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [neuron(rng, n) for n in sizes]


@pytest.mark.parametrize("sizes", [[9] * 5, [5, 12, 1, 7, 11, 33]])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e150])
def test_descents_end_where_those_of_the_cpu_do(sizes: list[int], weighted: bool, scale: float) -> None:
    rng = np.random.default_rng(1)
    masses = [masses_of(rng, n) for n in sizes] if weighted else None
    spaces = [scale * x for x in neurons(0, sizes)]
    found, plain = (asot.gromov(spaces, masses=masses, device=device) for device in ("cuda", "cpu"))
    assert found.info["device"] == "cuda:0"
    np.testing.assert_allclose(found.values, plain.values, rtol=1e-9)
    np.testing.assert_allclose(found.error, plain.error, rtol=1e-6, atol=1e-9 * plain.values.max())
    np.testing.assert_allclose(found.lower, plain.lower, rtol=1e-5, atol=2e-6 * np.max(spaces[0]))
    assert (found.lower <= found.values).all()
    np.testing.assert_array_equal(found.upper, found.values)
    np.testing.assert_array_equal(found.n_iter, plain.n_iter)


@pytest.mark.parametrize("order", host.ORDERS)
def test_the_order_of_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch, order: int) -> None:
    spaces = neurons(3, [8, 11, 40])
    expected = asot.gromov(spaces, device="cuda").values
    numpy_as_cupy.install(monkeypatch, order)
    np.testing.assert_array_equal(asot.gromov(spaces, device="cuda").values, expected)


def test_two_collections_and_listed_pairs() -> None:
    x, y = neurons(4, [5, 8, 6]), neurons(5, [7, 3])
    for more in ({}, {"pairs": [(0, 1), (2, 0)]}):
        found, plain = (asot.gromov(x, y, device=device, bounds=False, **more) for device in ("cuda", "cpu"))
        np.testing.assert_allclose(found.values, plain.values, rtol=1e-9)
        assert found.lower is None


def test_isometric_spaces_are_at_0_and_the_cpu_has_looked_at_them() -> None:
    rng = np.random.default_rng(6)
    space = neurons(6, [10])[0]
    order = rng.permutation(10)
    cycle = np.abs(np.subtract.outer(np.arange(8.0), np.arange(8.0)))
    cycle = np.minimum(cycle, 8 - cycle)  # all points look alike
    turn = rng.permutation(8)
    spaces = [space, space[np.ix_(order, order)], space, cycle, cycle[np.ix_(turn, turn)]]
    r = asot.gromov(spaces, device="cuda")
    matrix = r.matrix()
    assert matrix[0, 1] == matrix[0, 2] == matrix[3, 4] == 0.0
    assert r.info["n_solved_on_cpu"] >= 3
    assert matrix[0, 3] > 0


def test_the_nearest_spaces_are_those_of_the_cpu() -> None:
    spaces = neurons(2, [10] * 12)
    found, plain = (asot.gromov(spaces, sink=TopK(2), device=device) for device in ("cuda", "cpu"))
    np.testing.assert_array_equal(found.indices, plain.indices)
    np.testing.assert_allclose(found.distances, plain.distances, rtol=1e-9)
    assert found.info["n_solved"] == plain.info["n_solved"] < 66


def test_small_tiles_and_limited_memory_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    spaces = neurons(7, [6] * 6)
    expected = asot.gromov(spaces, device="cuda").values
    monkeypatch.setattr(cuda, "MOST_PAIRS", 4)
    np.testing.assert_array_equal(asot.gromov(spaces, device="cuda").values, expected)
    np.testing.assert_array_equal(asot.gromov(spaces, device="cuda", memory=2**16).values, expected)


def test_larger_spaces_are_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asot.gromov_wasserstein.MOST_POINTS", 5)
    with pytest.raises(ValueError, match="more than 5 points are left to the CPU"):
        asot.gromov(neurons(8, [4, 6]), device="cuda")
    assert asot.gromov(neurons(8, [4, 6])).info["device"] == "cpu"
