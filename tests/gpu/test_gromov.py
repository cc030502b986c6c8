"""Descents of Gromov–Wasserstein energies on a GPU, against those of the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import asot


def spaces_of(sizes, seed=0):
    rng = np.random.default_rng(seed)
    clouds = [rng.normal(size=(n, 3)) * rng.uniform(0.5, 2.0, 3) for n in sizes]
    return [np.linalg.norm(x[:, None] - x, axis=-1) for x in clouds]


@pytest.mark.parametrize("sizes", [[50] * 40, list(range(3, 60, 3)), [150, 260, 400]])
def test_descents_end_where_those_of_the_cpu_do(sizes):
    spaces = spaces_of(sizes)
    gpu, cpu = (asot.gromov(spaces, device=device, n_jobs=-1) for device in ("cuda", "cpu"))
    assert gpu.info["device"] == "cuda:0"
    assert (np.abs(gpu.values - cpu.values) <= 1e-9 * cpu.values).mean() > 0.9  # where steps tie, they may part
    np.testing.assert_allclose(gpu.values.mean(), cpu.values.mean(), rtol=0.01)
    np.testing.assert_allclose(gpu.lower, cpu.lower, rtol=1e-5, atol=1e-6)
    assert (gpu.lower <= gpu.values).all()


def test_relabeled_spaces_are_at_0():
    rng = np.random.default_rng(1)
    spaces = spaces_of([40] * 6)
    order = rng.permutation(40)
    again = [space[np.ix_(order, order)] for space in spaces]
    matrix = asot.gromov(spaces, again, device="cuda").matrix()
    assert (np.diag(matrix) == 0).all()
    assert (matrix[~np.eye(6, dtype=bool)] > 0).all()


def test_the_nearest_are_those_of_the_cpu():
    spaces = spaces_of([30] * 120, seed=2)
    gpu, cpu = (asot.gromov(spaces, sink=asot.sinks.TopK(5), device=device, n_jobs=-1) for device in ("cuda", "cpu"))
    assert (gpu.indices == cpu.indices).mean() > 0.95
    np.testing.assert_allclose(gpu.distances.mean(), cpu.distances.mean(), rtol=0.01)
