"""Answers that a GPU begins and the host finishes, in the emulator: those of the CPU."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import asot
from asot.run.protocols import Status
from tests import test_every_combination as grid
from tests.simt import host, numpy_as_cupy

pytestmark = host.needs_compiler


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    numpy_as_cupy.install(monkeypatch)


def clouds(n, sizes, dim=3, seed=0):
    rng = np.random.default_rng(seed)
    return asot.Distributions.from_list([rng.normal(i % 3, 1.0, size=(rng.integers(*sizes), dim)) for i in range(n)])


@pytest.mark.parametrize("unmatched", ["none", "number", "diagonal"])
@pytest.mark.parametrize("estimate", ["anchor", "calibrated"])
def test_estimates_of_other_distances_are_those_of_the_cpu(estimate, unmatched):
    prices = {"none": None, "number": grid.PRICE, "diagonal": "diagonal"}
    for p, metric, bounds in itertools.product([1, 2], grid.NORMS, [False, True]):
        if p == 1 and metric == "euclidean" and unmatched == "none":
            continue
        wanted = {
            "p": p, "metric": metric, "unmatched": prices[unmatched], "space": grid.SPACE, "estimate": estimate,
            "bounds": bounds,
        }  # fmt: skip
        gpu, cpu = (asot.pairwise(grid.D, device=device, **wanted) for device in ("cuda", "cpu"))
        assert gpu.info["device"] == "cuda:0"
        assert np.array_equal(gpu.status, cpu.status)
        for name in ("values", "error", "lower", "upper"):
            found, right = getattr(gpu, name), getattr(cpu, name)
            assert (found is None) == (right is None)
            if right is not None:
                np.testing.assert_allclose(found, right, rtol=1e-9, atol=1e-12 * cpu.values.max())


@pytest.mark.parametrize(
    "sink", [asot.sinks.TopK(3), asot.sinks.Radius(4.0), asot.sinks.Dense()], ids=["nearest", "radius", "dense"]
)
def test_sinks_get_finished_answers(sink):
    wanted = {"p": 2, "space": grid.SPACE, "estimate": "calibrated", "sink": sink}
    gpu, cpu = (asot.pairwise(grid.D, device=device, **wanted) for device in ("cuda", "cpu"))
    if isinstance(sink, asot.sinks.TopK):
        np.testing.assert_array_equal(gpu.indices, cpu.indices)
        gpu, cpu = gpu.distances, cpu.distances
    elif isinstance(sink, asot.sinks.Radius):
        gpu, cpu = gpu.toarray(), cpu.toarray()
    np.testing.assert_allclose(gpu, cpu, rtol=1e-9)


@pytest.mark.parametrize("p", [1, 2])
def test_a_max_error_is_kept_and_what_is_too_wide_is_solved_exactly(p):
    D = clouds(20, (20, 40))
    wanted = {"p": p, "max_error": "25%", "estimate": "calibrated", "n_anchors": 12, "random_state": 0}
    gpu, cpu = (asot.pairwise(D, device=device, **wanted) for device in ("cuda", "cpu"))
    exact = asot.pairwise_exact(D, p=p, device="cpu").values
    assert gpu.info["device"] == "cuda:0"
    assert (np.abs(gpu.values - exact) <= 0.25 * exact + 1e-12).all()
    assert (gpu.lower <= exact + 1e-12).all()
    assert (exact <= gpu.upper + 1e-12).all()
    assert 0 < np.count_nonzero(gpu.status == Status.EXACT) == gpu.info["n_exact"] < len(gpu)
    solved = gpu.status == Status.EXACT
    np.testing.assert_allclose(gpu.values[solved], exact[solved], rtol=1e-12)
    same = gpu.status == cpu.status
    assert np.count_nonzero(~same) <= 2  # their bounds are just as wide as is accepted
    np.testing.assert_allclose(gpu.values[same], cpu.values[same], rtol=1e-5)


def test_where_asot_chooses_a_max_error_is_met_by_exact_solves():
    found = asot.pairwise(clouds(20, (20, 40)), max_error="5%", device="cuda")
    assert found.info["device"] == "cuda:0"
    assert found.info["strategy"]["kind"] == "exact"
    assert found.info["n_exact"] == len(found)
