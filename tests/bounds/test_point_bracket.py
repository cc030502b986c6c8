"""Plans on the original points, and the exchanges that make them cheaper, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import asot
from asot import Distributions, KMeansAnchors
from asot.bounds.point_bracket import bracket, lift, point_table
from asot.bounds.short_vectors import short_coordinates
from asot.data.distinct import sparse_histograms
from asot.exact.shared_cost import ExactSharedCost
from asot.exact.workspace import MASS_BITS

LEAST, MOST_LOOKS, NOISE = 1.01, 128.0, 2.0**-16
STOP = np.zeros(1, dtype=np.int64)


def clouds(n, m, dim, seed, *, weighted):
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(rng.normal(size=dim), 1.0, size=(size, dim)) for size in (n, m)]
    masses = [rng.dirichlet(np.ones(len(x))) for x in arrays] if weighted else None
    return Distributions.from_list(arrays, masses)


def prepared(D, space):
    """The table of points, the solved anchor problem of the pair, and the exponent of its coordinates."""
    histograms = sparse_histograms(D)
    short = short_coordinates(histograms.points, histograms.pooled_masses())
    table, _ = point_table(histograms, space.assign(histograms.points)[0], short, space.n_anchors)
    solver = ExactSharedCost(space.histograms(D), None, space.cost, cancel=True)
    return table, solver.solve_trees(np.array([0]), np.array([1]), STOP), short.exponent


def second_potentials(distance, start):
    f = (distance - start).min(axis=1)
    return f, (distance - f[:, None]).min(axis=0)


def exchanged(distance, f, g, plan):
    """What the kernel does with a plan, a list of (source, sink, mass): each dear arc is looked at once, in order."""
    most = 2 * sum(distance.shape)

    def excess(i, j, mass):
        return np.float32(mass) * (distance[i, j] - f[i] - g[j])

    limit = (LEAST + len(plan) / MOST_LOOKS) * sum(map(float, (excess(*arc) for arc in plan))) / len(plan)
    x = 0
    while x < len(plan):
        i, j, mass = plan[x]
        if excess(i, j, mass) > max(limit, 0.0):
            rows, columns, masses = map(np.array, zip(*plan, strict=True))
            apart = distance[i, j] + distance[rows, columns] - (distance[i, columns] + distance[rows, j])
            saved = apart * np.minimum(masses, mass).astype(np.float32)
            y = int(saved.argmax())
            k, l, other = plan[y]
            if saved[y] > NOISE * distance[i, j] * np.float32(mass) and (mass == other or len(plan) < most):
                both = min(mass, other)
                plan[x], plan[y] = (i, l, both), (k, j, both)
                if mass != other:
                    plan.append((i, j, mass - both) if mass > other else (k, l, other - both))
        x += 1
    return plan


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "m", "k"), [(1, 1, 1), (1, 7, 3), (9, 12, 4), (23, 20, 20), (40, 31, 12), (90, 130, 25)])
def test_the_upper_bound_is_the_price_of_the_lifted_plan_after_exchanges(n, m, k, weighted):
    D = clouds(n, m, 3, n + m, weighted=weighted)
    space = KMeansAnchors(k, random_state=0).fit(D).space_
    table, trees, exponent = prepared(D, space)
    lower, upper = bracket(table, trees, np.array([0]), np.array([1]), exponent, STOP)
    arrays = table.arrays()
    own, other, mass = lift(table, trees, 0, 1)
    sources, rows = np.unique(own, return_inverse=True)
    sinks, columns = np.unique(other, return_inverse=True)
    distance = cdist(arrays["points"][sources], arrays["points"][sinks]).astype(np.float32)
    potential = np.ldexp(trees.potential[0], -exponent)
    base = potential[arrays["cell"][sources[0]]]
    f, g = second_potentials(distance, (base - potential[arrays["cell"][sinks]]).astype(np.float32))
    plan = exchanged(distance, f, g, list(zip(rows.tolist(), columns.tolist(), mass.tolist(), strict=True)))
    for ends, before in ((0, rows), (1, columns)):  # what leaves or reaches a point is what did before
        after = np.zeros(before.max() + 1, dtype=np.int64)
        for arc in plan:
            after[arc[ends]] += arc[2]
        kept = np.zeros_like(after)
        np.add.at(kept, before, mass)
        assert np.array_equal(after, kept)
    price = np.ldexp(sum(shipped * float(distance[i, j]) for i, j, shipped in plan), exponent - MASS_BITS)
    np.testing.assert_allclose(upper[0], price, rtol=2e-5)
    exact = asot.pairwise_exact(D).values[0]
    assert lower[0] <= exact * (1 + 1e-12)
    assert exact <= upper[0] * (1 + 1e-12)


def test_exchanges_take_most_of_what_the_lifted_plan_costs_too_much():
    rng = np.random.default_rng(0)
    D = Distributions.from_list([rng.normal(rng.normal(size=5), 1.0, (n, 5)) for n in rng.integers(15, 30, 12)])
    space = KMeansAnchors(20, random_state=0).fit(D).space_
    bounded = asot.pairwise(D, space=space, estimate="anchor", bounds="points")
    exact = asot.pairwise_exact(D).values
    rows, columns = np.triu_indices(len(D), 1)
    lifted = np.array([asot.plan(D, i, j, space=space).cost for i, j in zip(rows, columns, strict=True)])
    assert np.all(bounded.upper <= lifted * (1 + 1e-5))
    assert np.mean(bounded.upper - exact) < 0.5 * np.mean(lifted - exact)
