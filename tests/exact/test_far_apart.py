"""Collections whose scales are so far apart that one unit for all pairs would lose the near ones: these are no work for
GPUs. The emulator stands in for one."""

from __future__ import annotations

import numpy as np
import pytest

import asot
from asot.exact.auto import are_far_apart
from asot.exact.cuda import any_cost
from asot.exact.cuda.points_plan import BlockClass
from tests.simt import host, numpy_as_cupy

pytestmark = host.needs_compiler


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    monkeypatch.setattr(any_cost, "CLASSES", (BlockClass(64, 64, 32, "any_cost"),))
    return numpy_as_cupy.install(monkeypatch)


def clouds(far):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(5, 2)), rng.normal(size=(6, 2)), far * rng.normal(size=(4, 2))]


@pytest.mark.parametrize("p", [1, 2, 8])
def test_near_points_beside_very_far_ones_are_the_cpus(p):
    D, alone = clouds(1e200), asot.pairwise_exact(clouds(1e200)[:2], p=p, device="cpu").values[0]
    with pytest.raises(ValueError, match="1e138 times as large as others"):
        asot.pairwise_exact(D, p=p, device="cuda")
    found = asot.pairwise_exact(D, p=p)
    assert found.info["device"] == "cpu"
    assert found.values[0] == pytest.approx(alone, rel=1e-12) != 0.0


def test_searches_leave_them_to_the_cpu_as_well():
    with pytest.raises(ValueError, match="1e138 times as large as others"):
        asot.kneighbors(clouds(1e200), 1, device="cuda")
    assert asot.kneighbors(clouds(1e200), 1).indices.ravel().tolist()[:2] == [1, 0]


@pytest.mark.parametrize("p", [1, 2])
def test_points_that_are_merely_far_are_solved_on_a_gpu(p):
    gpu, cpu = (asot.pairwise_exact(clouds(1e100), p=p, device=device) for device in ("cuda", "cpu"))
    assert gpu.info["device"] == "cuda:0"
    np.testing.assert_allclose(gpu.values, cpu.values, rtol=1e-12)


def test_zeros_are_not_small():
    assert not are_far_apart(np.array([[0.0, 1e300], [1e200, -1.0e170]]))
    assert are_far_apart(np.array([[0.0, 1e300], [1e-3, 0.0]]))
    assert not are_far_apart(np.zeros((3, 2)))
    assert not are_far_apart(np.zeros((0, 2)))
