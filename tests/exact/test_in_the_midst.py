"""Small problems are written to memory that is used again. Whoever calls asot in the midst of such a call, as a signal
handler or a finalizer may, must not write to the same."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import asot

RNG = np.random.default_rng(0)


def points(scale, n, count=2):
    return asot.Distributions.from_list([scale * RNG.normal(size=(n, 3)) for _ in range(count)])


def masses(k, count=2):
    return RNG.dirichlet(np.ones(k), count)


def plan(a, cost):
    found = asot.emd(*a, cost=cost)
    return [found.value, *found.plan.toarray().ravel(), *found.potentials[0]]


CLOSE, FAR = points(1.0, 5), points(100.0, 9)
THREE_CLOSE, THREE_FAR = points(1.0, 5, 3), points(100.0, 9, 3)
FEW, MANY = masses(4), masses(30)
FEW_OF_THREE, MANY_OF_THREE = masses(4, 3), masses(30, 3)
COSTS = {n: np.abs(np.subtract.outer(np.arange(n), np.arange(n))) ** 0.5 for n in (4, 30)}
CALLS = {
    "points": (lambda: asot.pairwise_exact(CLOSE).values, lambda: asot.pairwise_exact(FAR)),
    "points, p = 2": (lambda: asot.pairwise_exact(CLOSE, p=2).values, lambda: asot.pairwise_exact(FAR, p=2)),
    "three of points": (
        lambda: asot.pairwise_exact(THREE_CLOSE).values,
        lambda: asot.pairwise_exact(THREE_FAR),
    ),
    "three histograms": (
        lambda: asot.emd_many(FEW_OF_THREE, cost=COSTS[4]).values,
        lambda: asot.emd_many(MANY_OF_THREE, cost=COSTS[30]),
    ),
    "histograms": (
        lambda: asot.emd_many(FEW, cost=COSTS[4]).values,
        lambda: asot.emd_many(MANY, cost=COSTS[30]),
    ),
    "a plan": (lambda: plan(FEW, COSTS[4]), lambda: plan(MANY, COSTS[30])),
}


def at_step(step, call, other):
    """The answer of a call, with another one in front of one of its instructions; and how many of these there are."""
    seen = 0

    def trace(frame, event, _):
        nonlocal seen
        if not frame.f_globals.get("__name__", "").startswith("asot."):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen += 1
            if seen == step:
                sys.settrace(None)
                other()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return call(), seen
    finally:
        sys.settrace(before)


@pytest.mark.parametrize(("call", "other"), CALLS.values(), ids=CALLS)
def test_a_call_in_the_midst_of_another_changes_nothing(call, other):
    expected, count = at_step(0, call, other)
    other()
    assert count > 50
    for step in range(1, count + 1):
        found, _ = at_step(step, call, other)
        np.testing.assert_array_equal(found, expected)
