"""Labels that nest: the closed form equals the simplex and a linear program, and is used only where labels do nest."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import asot
from asot.exact.nested_labels import nested_codes
from tests.oracles import ot


def labeled(n=12, depth=4, nests=True, seed=0):
    """Bags of nodes with a label per round; in a tree, the label of a round tells those before."""
    rng = np.random.default_rng(seed)
    points = []
    for _ in range(n):
        fine = rng.integers(0, 40, size=(rng.integers(1, 15),))
        columns = [fine // 2**t for t in range(depth)][::-1]
        if not nests:
            columns[0] = rng.integers(0, 3, len(fine))
        points.append(np.stack(columns, axis=1).astype(float))
    return asot.Distributions.from_list(points, [rng.random(len(x)) + 0.01 for x in points])


def by_pot(D):
    return [ot.emd2(a, b, cdist(x, y, "hamming")) for i, (x, a) in enumerate(D) for y, b in list(D)[i + 1 :]]


@pytest.mark.parametrize("depth", [1, 2, 4, 11])
def test_nested_labels_agree_with_pot(depth):
    D = labeled(depth=depth)
    D = D + D[:2]
    found = asot.pairwise_exact(D, metric="hamming")
    assert found.info["solver"] == "tree of nested labels"
    assert np.allclose(found.values, by_pot(D), rtol=1e-9, atol=1e-12)
    assert found.matrix()[0, -2] == 0.0  # equal ones


def test_labels_that_do_not_nest_are_left_to_the_simplex():
    D = labeled(nests=False)
    assert nested_codes(D.points) is None
    found = asot.pairwise_exact(D, metric="hamming")
    assert found.info["solver"] == "network simplex"
    assert np.allclose(found.values, by_pot(D), rtol=1e-9, atol=1e-12)


def test_the_order_of_columns_does_not_matter():
    D = labeled()
    mixed = asot.Distributions(D.points[:, [2, 0, 3, 1]], D.offsets, D.masses)
    found, expected = (asot.pairwise_exact(one, metric="hamming").values for one in (mixed, D))
    assert np.allclose(found, expected, rtol=0, atol=1e-14)


def test_two_collections_neighbors_and_threads():
    D, E = labeled(20), labeled(9, seed=1)
    between = asot.pairwise_exact(D, E, metric="hamming").matrix()
    assert np.allclose(between, asot.pairwise_exact(D + E, metric="hamming").matrix()[:20, 20:], atol=1e-15)
    assert np.array_equal(between, asot.pairwise_exact(D, E, metric="hamming", n_jobs=2).matrix())
    found = asot.kneighbors(D, E, 2, metric="hamming")
    assert np.array_equal(found.distances, np.sort(between, axis=1)[:, :2])


def test_higher_orders_take_the_simplex():
    D = labeled(6)
    found = asot.pairwise_exact(D, metric="hamming", p=2)
    expected = [
        np.sqrt(ot.emd2(a, b, cdist(x, y, "hamming") ** 2)) for i, (x, a) in enumerate(D) for y, b in list(D)[i + 1 :]
    ]
    assert np.allclose(found.values, expected, rtol=1e-9)
