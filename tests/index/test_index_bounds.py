"""Bounds of the index against plain NumPy: never above the distance, and what their formulas say."""

from __future__ import annotations

import numpy as np
import pytest

import asot
from asot.data.distributions import Distributions
from asot.index.search import Queries
from tests.index.test_index import clouds


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev", "minkowski"])
@pytest.mark.parametrize("dim", [2, 6, 30])
def test_no_bound_exceeds_its_distance(metric, dim):
    members, stop = clouds(300, dim=dim), np.zeros(1, dtype=np.int64)
    members[3] = members[5] = clouds(1, 1, dim)[0]
    index = asot.Index(metric=metric)
    index.add(members)
    Q = Distributions.from_list(clouds(5, 1, dim))
    queries = Queries(index._snapshot, index._settings, Q, index._snapshot.alive, 2**30, 1)
    matrix = asot.pairwise_exact(Q, members, metric=metric).matrix()
    every = np.arange(300)
    for i in range(5):
        cheap = queries.one(i, stop).cheap_bounds()
        fine = queries.one(i, stop).fine_bounds(every, cheap)[0]
        assert (cheap <= fine).all()
        assert (fine <= matrix[i] * (1 + 1e-12)).all()
        assert np.median(fine / np.maximum(matrix[i], 1e-9)) > 0.6


def test_reduced_transport_is_what_its_formula_says():
    members, stop = clouds(300, dim=5), np.zeros(1, dtype=np.int64)
    index = asot.Index()
    index.add(members)
    Q = Distributions.from_list(clouds(1, 1, 5))
    queries = Queries(index._snapshot, index._settings, Q, index._snapshot.alive, 2**30, 1)
    frame = index._snapshot.frame
    bounds = queries.one(0, stop).reduced_bounds(np.arange(300), np.zeros(300), np.inf)
    x, a = Q[0]
    for member, bound in zip(members, bounds * 2.0**frame.exponent, strict=True):
        cost = np.linalg.norm(member[:, None] - x, axis=2)  # all five axes are kept
        b = np.full(len(member), 1.0 / len(member))
        f, u = cost.min(axis=1), cost.min(axis=0)
        first = b @ f + a @ (cost - f[:, None]).min(axis=0)
        second = a @ u + b @ (cost - u).min(axis=1)
        assert bound == pytest.approx(max(first, second), rel=1e-4, abs=1e-4)


def test_members_far_from_the_frame_have_no_bound():
    index = asot.Index()
    index.add(clouds(300))
    index.add([clouds(1, 2)[0] * 1e15], ids=["far"])
    Q = Distributions.from_list([clouds(1, 3)[0], clouds(1, 2)[0] * 1e15])
    stop = np.zeros(1, dtype=np.int64)
    queries = Queries(index._snapshot, index._settings, Q, index._snapshot.alive, 2**30, 1)
    matrix = asot.pairwise_exact(Q, [index[name][0] for name in index.ids.tolist()]).matrix()
    for i in range(2):
        query = queries.one(i, stop)
        bounds = query.fine_bounds(np.arange(301), query.cheap_bounds())[0]
        assert (bounds <= matrix[i] * (1 + 1e-9)).all()
