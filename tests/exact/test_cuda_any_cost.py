"""Every order, cost and price of unmatched mass on a GPU, run by the emulator, against the CPU's solver and POT."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import asot
from asot.exact.cuda import any_cost
from asot.exact.cuda.points_plan import BlockClass
from tests.oracles import ot
from tests.simt import host, numpy_as_cupy

pytestmark = host.needs_compiler
TOL = 1e-12


@pytest.fixture
def gpu(monkeypatch):
    # one kernel for all sizes: each is compiled for the emulator
    monkeypatch.setattr(any_cost, "CLASSES", (BlockClass(64, 64, 32, "any_cost"),))
    return functools.partial(numpy_as_cupy.install, monkeypatch)


def collection(seed=0, n=5, most=30, totals=False, dim=2):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, most + 1, n)
    masses = [rng.dirichlet(np.ones(m)) * (rng.uniform(0.5, 2.0) if totals else 1.0) for m in sizes]
    births = [rng.normal(size=(m, dim)) for m in sizes]
    return asot.Distributions.from_list([np.sort(np.round(b, 1), axis=1) for b in births], masses)


def by_function(x, y):
    return float(np.abs(x - y).sum() ** 0.5)


CASES = {
    "p=2": {"p": 2},
    "p=1.5": {"p": 1.5, "metric": "cityblock"},
    "p=12": {"p": 12},
    "p=40": {"p": 40},
    "cosine": {"metric": "cosine"},
    "angular": {"metric": "angular"},
    "sqeuclidean": {"metric": "sqeuclidean"},
    "a table": {"metric": by_function},
    "share": {"share": 0.6},
    "share, p=2": {"share": 0.6, "p": 2},
    "price": {"unmatched": 20.0},
    "price, p=2": {"unmatched": 20.0, "p": 2},
    "diagonal": {"unmatched": "diagonal", "metric": "chebyshev"},
    "diagonal, p=2": {"unmatched": "diagonal", "p": 2},
}


@pytest.mark.parametrize("name", CASES)
def test_values_are_the_cpus(gpu, name):
    gpu()
    D = collection(totals="unmatched" in CASES[name])
    found, expected = (asot.pairwise_exact(D, device=device, **CASES[name]) for device in ("cuda", "cpu"))
    assert found.info["device"] == "cuda:0"
    assert (found.status == asot.Status.OPTIMAL).all()
    assert np.abs(found.values - expected.values).max() <= TOL * expected.values.max()


@pytest.mark.parametrize("name", ["p=2", "cosine", "angular", "price", "share, p=2"])
def test_long_points(gpu, name):
    gpu()
    D = collection(7, n=4, totals="unmatched" in CASES[name], dim=40)
    found, expected = (asot.pairwise_exact(D, device=device, **CASES[name]).values for device in ("cuda", "cpu"))
    assert np.abs(found - expected).max() <= TOL * expected.max()


def test_values_are_those_of_pot(gpu):
    gpu()
    D = collection(3)
    found = asot.pairwise_exact(D, p=2, device="cuda").matrix()
    for i, j in itertools.combinations(range(len(D)), 2):
        (x, a), (y, b) = D[i], D[j]
        assert found[i, j] == pytest.approx(np.sqrt(ot.emd2(a, b, cdist(x, y) ** 2)), abs=1e-9)


def test_prices_of_an_array(gpu):
    gpu()
    D = collection(1, totals=True)
    prices = np.abs(D.points).sum(axis=1)
    found, expected = (asot.pairwise_exact(D, device=d, unmatched=prices).values for d in ("cuda", "cpu"))
    assert np.abs(found - expected).max() <= TOL * expected.max()


@pytest.mark.parametrize("scale", [1e-290, 1e-150, 1e150, 1e290])
def test_points_of_any_size(gpu, scale):
    gpu()
    D = collection(2)
    D = asot.Distributions(D.points * scale, D.offsets, D.masses)
    found, expected = (asot.pairwise_exact(D, p=3, device=device).values for device in ("cuda", "cpu"))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_price_that_is_too_low_is_refused_in_the_words_of_the_cpu(gpu):
    gpu()
    D = collection(totals=True)
    said = []
    for device in ("cuda", "cpu"):
        with pytest.raises(ValueError, match="less than half of the largest ground distance") as refused:
            asot.pairwise_exact(D, unmatched=0.5, device=device)
        said.append(str(refused.value))
    assert said[0] == said[1]


def test_the_order_of_threads_does_not_matter(gpu):
    D = collection(4, most=40)
    found = []
    for order in host.ORDERS:
        gpu(order_seed=order)
        found.append(asot.pairwise_exact(D, p=12, device="cuda"))
    assert all(np.array_equal(found[0].values, other.values) for other in found[1:])


def test_two_collections_lists_and_sinks(gpu):
    gpu()
    D, E = collection(5), collection(6, n=4)
    whole = asot.pairwise_exact(D, E, p=2, device="cuda").matrix()
    np.testing.assert_allclose(whole, asot.pairwise_exact(D, E, p=2, device="cpu").matrix(), rtol=1e-12)
    listed = [[4, 0], [0, 3], [2, 2]]
    values = asot.pairwise_exact(D, E, p=2, pairs=listed, device="cuda").values
    assert np.array_equal(values, whole[tuple(np.transpose(listed))])
    nearest = [asot.pairwise_exact(D, E, p=2, device=d, sink=asot.sinks.TopK(2)).indices for d in ("cuda", "cpu")]
    assert np.array_equal(*nearest)


def test_pairs_that_are_too_large_are_solved_on_the_cpu(gpu):
    gpu()
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_list([rng.normal(size=(n, 2)) for n in (5, 80, 10)])
    r = asot.pairwise_exact(D, p=2, device="cuda")
    np.testing.assert_allclose(r.values, asot.pairwise_exact(D, p=2, device="cpu").values, rtol=1e-12)
    assert r.info["n_solved_on_cpu"] == 2


@pytest.mark.parametrize("options", [{"p": 2}, {"metric": "cosine"}, {"unmatched": 20.0}], ids=str)
def test_neighbors_are_those_of_the_cpu(gpu, options):
    gpu()
    D, E = collection(8, n=12, totals=True), collection(9, n=3, totals=True)
    for sides in ((D, None), (E, D)):
        found, expected = (asot.kneighbors(*sides, 3, device=device, **options) for device in ("cuda", "cpu"))
        assert np.array_equal(found.indices, expected.indices)
        np.testing.assert_allclose(found.distances, expected.distances, rtol=1e-12, atol=1e-14)
        assert found.info["device"] == "cuda:0"
    radius = 1.0001 * float(np.median(expected.distances))
    found, expected = (asot.radius_neighbors(D, radius=radius, device=d, **options) for d in ("cuda", "cpu"))
    assert np.array_equal(found.indices, expected.indices)


@pytest.mark.parametrize("never", [1e9, 1e15, 1e300])
def test_a_price_that_means_never_is_not_paid_for_the_rounding_of_masses(gpu, never):
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_list([rng.normal(size=(n, 3)) for n in (3, 5, 7, 11, 6)])
    expected = asot.pairwise_exact(D).values
    gpu()
    found = asot.pairwise_exact(D, unmatched=never, device="cuda")
    assert found.info["device"].startswith("cuda")
    np.testing.assert_allclose(found.values, expected, rtol=1e-13)
