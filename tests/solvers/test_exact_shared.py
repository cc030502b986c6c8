"""The prepared solver: what it promises to the engine."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from asot.solvers.exact_shared import ExactSharedCost
from tests.strategies import METRICS, problem

RUN = np.zeros(1, np.int64)


@pytest.mark.parametrize("k", [2, 3, 30, 64, 130])
@pytest.mark.parametrize("metric", METRICS)
def test_cancelling_changes_nothing_under_a_metric(metric, k):
    p = problem(metric, k)
    rows, columns = np.ascontiguousarray(p.pairs.T)
    cancelled, whole = (
        ExactSharedCost(p.histograms, None, p.cost, cancel=cancel).solve(rows, columns, RUN) for cancel in (True, False)
    )
    np.testing.assert_allclose(cancelled.values, whole.values, rtol=0, atol=1e-12 * p.cost.max())


def test_the_cut_into_tiles_changes_no_bit():
    p = problem("plane", 30)
    rows, columns = np.ascontiguousarray(p.pairs.T)
    solver = ExactSharedCost(p.histograms, None, p.cost, cancel=True)
    together = solver.solve(rows, columns, RUN).values
    one_by_one = [solver.solve(rows[t : t + 1], columns[t : t + 1], RUN).values[0] for t in range(len(rows))]
    np.testing.assert_array_equal(one_by_one, together)


def test_tiles_shrink_with_memory_and_with_the_number_of_anchors():
    def tile(k, memory):
        points = np.random.default_rng(0).random((k, 2))
        return ExactSharedCost(np.eye(k), None, cdist(points, points), cancel=True).pairs_per_tile(memory)

    assert tile(30, 2**30) > tile(30, 2**10) >= 1
    assert tile(30, 2**30) > tile(300, 2**30) >= 1
    assert tile(30, 0) == 1
