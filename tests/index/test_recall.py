"""How far a search for a share of the neighbors trusts bounds, decided on members whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest

from asot.index.recall import rehearse
from asot.index.search import CERTAIN, Answer

MEMBERS = np.arange(2000)
N_NEIGHBORS = 10


class Asked:
    """A member whose bounds are half of every distance; trusting them saves a share of 100 solves."""

    def __init__(self, slot, saved):
        self.slot, self.saved = slot, saved

    def answer(self, nearest, max_solves, trust):
        slots = (self.slot + np.arange(1, nearest.n_neighbors + 1)) % len(MEMBERS)
        return Answer(slots, slots * 1.0, 100 if trust == CERTAIN else round(100 * (1.0 - self.saved)), np.inf)

    def shortfalls(self, slots):
        return np.full((len(CERTAIN), len(slots)), 0.5)


def rehearsed(saved):
    return rehearse(lambda slot: Asked(slot, saved), MEMBERS, N_NEIGHBORS, 0.98, seed=0)


@pytest.mark.parametrize("saved", [-0.5, 0.0, 0.03])
def test_a_search_is_certain_where_trusting_bounds_saves_hardly_a_solve(saved):
    found = rehearsed(saved)
    assert found.trust == CERTAIN
    assert found.record["certain"]


def test_bounds_are_trusted_where_that_saves_solves():
    found = rehearsed(0.3)
    assert found.trust == (2.0, 2.0, 2.0, 2.0)
    assert not found.record["certain"]
