"""How far a search for a share of the neighbors trusts bounds, decided on members whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest

from asot.index.recall import Found, rehearse
from asot.index.search import CERTAIN

MEMBERS = np.arange(2000)
N_NEIGHBORS = 10


def rehearsed(saved):
    """A rehearsal in which bounds are half of every distance, and trusting them saves a share of 100 solves each."""

    def search(slots, trust):
        solves = 100 if trust == CERTAIN else round(100 * (1.0 - saved))
        return Found((slots[:, None] + np.arange(1, N_NEIGHBORS + 1)) % len(MEMBERS), solves * len(slots))

    def shortfalls(slots, found):
        return [np.full((len(CERTAIN), N_NEIGHBORS), 0.5) for _ in slots]

    return rehearse(search, shortfalls, MEMBERS, 0.98, seed=0)


@pytest.mark.parametrize("saved", [-0.5, 0.0, 0.03])
def test_a_search_is_certain_where_trusting_bounds_saves_hardly_a_solve(saved):
    found = rehearsed(saved)
    assert found.trust == CERTAIN
    assert found.record["certain"]


def test_bounds_are_trusted_where_that_saves_solves():
    found = rehearsed(0.3)
    assert found.trust == (2.0, 2.0, 2.0, 2.0)
    assert not found.record["certain"]
