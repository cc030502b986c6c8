"""The page about shapes says how asot's numbers become those of POT and CAJAL: here it is checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asot

from .made import masses_of, neuron


def pair(seed: int) -> tuple[list[Any], list[Any], list[Any]]:
    rng = np.random.default_rng(seed)
    spaces = [neuron(rng, n) for n in (7, 9)]
    return spaces, [masses_of(rng, len(x)) for x in spaces], [rng.normal(size=(len(x), 2)) for x in spaces]


def test_two_points_tell_the_half_the_root_and_the_square() -> None:
    near, far = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[0.0, 3.0], [3.0, 0.0]])
    for p in (1, 2, 3):
        expected = 0.5 * (0.5 * 2.0**p) ** (1 / p)  # two of four pairs of points differ by 2
        assert asot.gromov([near, far], p=p).values[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_pots_value_is_the_square_of_twice_ours(seed: int) -> None:
    ot = pytest.importorskip("ot")
    spaces, masses, _ = pair(seed)
    T = asot.gromov_plan(spaces, 0, 1, masses=masses)
    theirs = ot.gromov_wasserstein2(*spaces, *masses, symmetric=True, G0=T.toarray())
    assert (2 * T.cost) ** 2 == pytest.approx(float(theirs), rel=1e-6)
    assert asot.gromov(spaces, masses=masses).values[0] == pytest.approx(T.cost, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("alpha", [0.3, 0.8])
def test_pots_fused_value_is_the_square_of_ours(seed: int, alpha: float) -> None:
    ot = pytest.importorskip("ot")
    spaces, masses, features = pair(seed)
    T = asot.gromov_plan(spaces, 0, 1, masses=masses, features=features, alpha=alpha)
    M = ot.dist(*features)
    start = {"symmetric": True, "G0": T.toarray()}
    theirs = ot.fused_gromov_wasserstein2(M, *spaces, *masses, alpha=alpha, **start)
    assert T.cost**2 == pytest.approx(float(theirs), rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_cajals_value_is_ours(seed: int) -> None:
    core = pytest.importorskip("cajal.gw_cython")
    spaces, masses, _ = pair(seed)
    cells = [(x, m, x @ m, float(((x * x) @ m) @ m)) for x, m in zip(spaces, masses, strict=True)]
    plan, value = core.gw_cython_core(*cells[0], *cells[1])[:2]
    gaps = (spaces[0][:, None, :, None] - spaces[1][None, :, None, :]) ** 2
    assert 0.5 * np.sqrt(np.einsum("ij,ijkl,kl->", plan, gaps, plan)) == pytest.approx(value, rel=1e-6)
    assert asot.gromov(spaces, masses=masses).values[0] <= value * (1 + 1e-9)


def test_kernels_take_results_and_clouds_of_sorted_distances() -> None:
    rng = np.random.default_rng(0)
    spaces = [neuron(rng, 8) for _ in range(6)]
    r = asot.gromov(spaces)
    K = asot.kernel(r, gamma=0.5, psd=None).matrix
    np.testing.assert_allclose(K, np.exp(-0.5 * r.matrix()), rtol=1e-12)
    clouds = asot.Distributions.from_spaces(spaces)
    fitted = asot.WassersteinKernel(0.5, p=2, psd=None).fit_transform(clouds)
    np.testing.assert_allclose(fitted, np.exp(-0.5 * asot.pairwise_exact(clouds, p=2).matrix()), rtol=1e-9)
    assert (fitted >= K * (1 - 1e-9)).all()


def test_searches_of_clouds_are_those_of_the_third_bound() -> None:
    rng = np.random.default_rng(1)
    clouds = asot.Distributions.from_spaces({f"s{i}": neuron(rng, int(n)) for i, n in enumerate([8] * 6 + [5, 9, 11])})
    matrix = asot.pairwise_exact(clouds, p=2).matrix()
    index = asot.Index(p=2)
    index.add(clouds)
    found = index.query(clouds, 3)
    np.testing.assert_allclose(found.distances, np.sort(matrix, axis=1)[:, :3], atol=1e-7)
    radius = float(np.median(matrix)) + 1e-6
    near = asot.radius_neighbors(clouds, radius=radius, p=2)
    off = matrix + np.diag(np.full(len(matrix), np.inf))  # nobody is its own neighbor
    np.testing.assert_allclose(np.sort(near.distances), np.sort(off[off <= radius]), atol=1e-7)
