"""How many modules a call passes in its main thread: fewer can be read more easily, so that the numbers only fall."""

from __future__ import annotations

import pytest

from tests.walks import CALLS, modules_passed, stages_entered

MOST = {
    "pairwise": 28,
    "pairwise_exact": 16,
    "kneighbors": 20,
    "kneighbors, projected": 22,
    "emd_many": 7,
    "emd_many, many": 12,
    "sinkhorn_many": 12,
}
"""As measured, and as aimed for. Few histograms take the fast lane; many do not. A search of many distributions
also tries projections, in two modules of their own."""

MOST_FOR_OTHER_DISTANCES = 4
"""Modules that W_1 does not pass: costs, prices of unmatched mass, their solver, and their features."""


@pytest.mark.parametrize("name", MOST)
def test_a_call_passes_few_modules(name):
    passed = modules_passed(CALLS[name])
    assert len(passed) <= MOST[name], " ".join(passed)


def test_other_distances_go_the_same_way():
    plain, other = (set(modules_passed(CALLS[name])) for name in ("pairwise", "pairwise, other"))
    assert len(other - plain) <= MOST_FOR_OTHER_DISTANCES, sorted(other - plain)


@pytest.mark.parametrize("name", MOST)
def test_a_stage_that_was_left_is_not_entered_again(name):
    entered = stages_entered(CALLS[name])
    assert len(entered) == len(set(entered)), " ".join(entered)
