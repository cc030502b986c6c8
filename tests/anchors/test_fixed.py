"""Given anchors: a vocabulary, or the points themselves, on which distances are exact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import asot
from asot import Distributions, FixedAnchors
from asot.anchors import fixed
from tests.strategies import extent, ragged_lists


def test_without_anchors_the_distinct_points_are_the_anchors():
    D = Distributions.from_list([[[3.0], [1.0]], [[1.0], [0.0]]])
    space = FixedAnchors().fit(D).space_
    np.testing.assert_array_equal(space.anchors, [[3.0], [1.0], [0.0]])
    np.testing.assert_array_equal(space.radii(D), 0.0)


@given(ragged_lists())
def test_points_that_are_anchors_lose_nothing(lists):
    D = Distributions.from_list(*lists)
    exact = asot.pairwise_exact(D).values
    r = asot.pairwise(D, space=FixedAnchors(), bounds=True, estimate="anchor")
    np.testing.assert_allclose(r.values, exact, atol=1e-10 * extent(D.points))
    assert (r.lower <= r.values).all()
    assert (r.values <= r.upper).all()
    np.testing.assert_allclose(r.lower, r.upper, rtol=1e-9, atol=1e-10 * extent(D.points))


def test_a_vocabulary_is_taken_as_it_is():
    anchors = np.array([[0.0, 0.0], [1.0, 1.0]])
    learner = FixedAnchors(anchors, cost=[[0, 3], [3, 0]]).fit([np.array([[0.1, 0.0], [2.0, 1.0], [0.0, 0.2]])])
    np.testing.assert_array_equal(learner.space_.anchors, anchors)
    np.testing.assert_array_equal(learner.space_.cost, [[0.0, 3.0], [3.0, 0.0]])
    np.testing.assert_allclose(learner.transform([[[0.0, 0.0]], [[2.0, 2.0], [0.0, 0.0]]]), [[1, 0], [0.5, 0.5]])


def test_a_cost_without_its_anchors_is_refused():
    with pytest.raises(ValueError, match="a cost needs its anchors; pass anchors as well"):
        FixedAnchors(cost=1 - np.eye(2)).fit([[[0.0]]])


def test_a_collection_of_another_dimension_is_refused():
    with pytest.raises(ValueError, match="the collection is in 1 dimensions, but the anchors are in 2"):
        FixedAnchors(np.eye(2)).fit([[[0.0]]])


def test_a_cost_that_memory_cannot_hold_is_refused_with_advice(monkeypatch):
    def refuse(n_bytes, what, advice):
        raise MemoryError(f"{what} needs {n_bytes}: {advice}")

    monkeypatch.setattr(fixed, "refuse_what_cannot_fit", refuse)
    with pytest.raises(MemoryError, match="a cost between all 2 distinct points needs 96: pass anchors, learn them"):
        FixedAnchors().fit([[[0.0], [1.0]]])
