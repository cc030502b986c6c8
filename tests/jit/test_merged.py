"""Functions inside others: the same numbers, no machine code of their own, and Python may still call them."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

from asot.jit import merged
from asot.jit.compiled import at, called, compiled, inlined, reordered


def _doubled(x, k):
    return 2 * x + k


@pytest.mark.parametrize("kind", [inlined, called])
def test_compiled_functions_and_python_call_a_merged_one(kind):
    doubled = kind(_doubled)

    @compiled
    def outer(x):
        return doubled(x, 1) + doubled(x, 2)

    assert outer(5) == 23
    assert outer(1.5) == 9.0
    assert doubled(5, 1) == 11  # from Python
    assert doubled(1.5, 1) == 4.0
    assert outer(7) == 31


@pytest.mark.skipif(not merged.AVAILABLE, reason="numba's internals are not those that are known")
def test_one_version_serves_all_constants():
    doubled = inlined(_doubled)

    @compiled
    def outer(x):
        return doubled(x, 1) + doubled(x, 2) + doubled(x, 3)

    assert outer(1) == 12
    assert len(doubled.overloads) == 1


def test_merged_functions_call_merged_functions():
    inner = reordered(lambda x: x.sum() + 1.0)
    middle = called(lambda x: inner(x) + inner(x[1:]))
    outer = compiled(lambda x: middle(x) + inner(x))
    assert outer(np.arange(4.0)) == 21.0


def test_at_is_a_sum_that_is_an_index():
    @compiled
    def look(x, base, offset):
        return x[at(base, offset)] + x[at(base, 1)]

    assert look(np.arange(10.0), 2, np.int32(3)) == 8.0


def test_arrays_that_a_merged_function_makes_are_freed():
    total = called(lambda n: np.zeros(n).sum() + np.arange(n).copy()[0])
    part = inlined(lambda x: x[1:].sum())
    outer = compiled(lambda x: total(100) + part(x))
    x = np.arange(10.0)
    assert outer(x) == 45.0
    _nrt_python.memsys_enable_stats()
    try:
        before = rtsys.get_allocation_stats()
        for _ in range(100):
            outer(x)
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free > 0
    assert sys.getrefcount(x) == 2
