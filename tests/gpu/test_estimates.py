"""Calibrated estimates and bounds on a GPU, against those of the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import asot


def molecules(n, sizes=(5, 30), dim=6, seed=0):
    """Distributions with equal masses on a few distinct points, whose anchor problems tie as those of graphs do."""
    rng = np.random.default_rng(seed)
    atoms = rng.normal(size=(40, dim))
    noise = 0.1 * rng.normal(size=(40, 5, dim))
    kinds = [rng.choice(40, m, p=rng.dirichlet(np.full(40, 0.3))) for m in rng.integers(*sizes, n)]
    return asot.Distributions.from_list([atoms[own] + noise[own, rng.integers(0, 5, len(own))] for own in kinds])


def assert_same(gpu, cpu, names):
    assert gpu.info["device"].startswith("cuda")
    scale = getattr(cpu, names[0]).max()
    for name in names:
        mine, theirs = getattr(gpu, name), getattr(cpu, name)
        apart = np.abs(mine - theirs)
        assert apart.max() <= 1e-6 * scale, name


@pytest.mark.parametrize("k", [8, 12, 23, 40, 64, 90])
@pytest.mark.parametrize("bounds", [False, True])
def test_calibrated_values(k, bounds):
    D = molecules(150)
    space = asot.KMeansAnchors(k, random_state=0).fit(D).space_
    how = {"space": space, "estimate": "calibrated", "bounds": bounds and "points", "random_state": 0, "n_jobs": -1}
    gpu, cpu = (asot.pairwise(D, **how, device=device) for device in ("cuda", "cpu"))
    assert_same(gpu, cpu, ("values", "error", "lower", "upper") if bounds else ("values", "error"))
    assert np.array_equal(gpu.status, cpu.status)
    assert gpu.info["calibration"] == cpu.info["calibration"]
    if bounds:
        exact = asot.pairwise_exact(D, device="cpu", n_jobs=-1).values
        assert (gpu.lower <= exact * (1 + 1e-12)).all()
        assert (gpu.upper >= exact * (1 - 1e-12)).all()


def test_larger_distributions():
    D = molecules(40, sizes=(200, 400), dim=20)
    space = asot.KMeansAnchors(150, random_state=0).fit(D).space_
    how = {"space": space, "estimate": "calibrated", "bounds": "points", "random_state": 0, "n_jobs": -1}
    gpu, cpu = (asot.pairwise(D, **how, device=device) for device in ("cuda", "cpu"))
    assert_same(gpu, cpu, ("values", "error", "lower", "upper"))


def test_two_collections_and_neighbors():
    D, E = molecules(60), molecules(500, seed=1)
    space = asot.KMeansAnchors(15, random_state=0).fit(D + E).space_
    how = {"space": space, "estimate": "calibrated", "random_state": 0, "n_jobs": -1}
    gpu, cpu = (asot.pairwise(D, E, **how, device=device) for device in ("cuda", "cpu"))
    assert_same(gpu, cpu, ("values", "error"))
    gpu, cpu = (asot.pairwise(D, E, **how, device=d, sink=asot.sinks.TopK(5)) for d in ("cuda", "cpu"))
    assert_same(gpu, cpu, ("distances", "error"))


def test_the_result_does_not_depend_on_tiles_or_on_the_run():
    D = molecules(300)
    space = asot.KMeansAnchors(23, random_state=0).fit(D).space_
    how = {"space": space, "estimate": "calibrated", "random_state": 0, "device": "cuda"}
    first = asot.pairwise(D, **how)
    for memory in (None, 10**7, 10**9):
        again = asot.pairwise(D, **how, memory=memory)
        assert np.array_equal(first.values, again.values)
        assert np.array_equal(first.error, again.error)


def test_an_aim_is_met():
    D = molecules(800)
    exact = asot.pairwise_exact(D, device="cuda").values
    for error in ("1%", "3%"):
        r = asot.pairwise(D, error=error, device="cuda")
        assert r.info["device"].startswith("cuda")
        off = np.sqrt(np.mean((r.values - exact) ** 2)) / exact.mean()
        assert off <= 1.5 * float(error[:-1]) / 100


@pytest.mark.parametrize("estimate", ["auto", "calibrated"])
@pytest.mark.parametrize("p", [1, 2])
def test_a_max_error_is_kept(p, estimate):
    D = molecules(200)
    exact = asot.pairwise_exact(D, p=p, device="cpu").values
    r = asot.pairwise(D, p=p, max_error="10%", estimate=estimate, device="cuda")
    assert r.info["device"].startswith("cuda")
    assert (np.abs(r.values - exact) <= 0.1 * exact + 1e-9 * exact.max()).all()
    assert ((r.lower <= exact * (1 + 1e-9)) & (exact <= r.upper * (1 + 1e-9))).all()


@pytest.mark.parametrize("estimate", ["anchor", "calibrated"])
@pytest.mark.parametrize("unmatched", [None, 50.0])
def test_estimates_of_other_distances(estimate, unmatched):
    D = molecules(200)
    space = asot.KMeansAnchors(12, random_state=0).fit(D).space_
    wanted = {"p": 2, "unmatched": unmatched, "estimate": estimate, "space": space, "bounds": True}
    gpu, cpu = (asot.pairwise(D, device=device, **wanted) for device in ("cuda", "cpu"))
    assert_same(gpu, cpu, ("values", "lower", "upper"))
