"""Bare pointers into an array: what is written through them is in the array, which lives as long as they do."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba.core.runtime import _nrt_python, rtsys

from asot.jit.compiled import at, called, compiled, inlined
from asot.jit.lanes import load, plus, spread, store
from asot.jit.spans import doubles, integers, short_integers


def test_spans_read_and_write_the_memory_of_an_array():
    @compiled
    def write(memory, i, j):
        integers(memory, 1)[0] = -7
        integers(memory, 1)[i] = 2.9  # as NumPy does
        short = short_integers(memory, 3)
        short[0] = 5
        short[at(0, 1)] = -6
        short[j] += 10
        number = doubles(memory, 4)
        number[0] = 3
        number[1] = number[0] / 2
        return short[np.uint64(0)] + short[j], number[i]

    memory = np.zeros(6, np.int64)
    assert write(memory, 1, np.int32(1)) == (9, 1.5)
    assert memory[:3].tolist() == [0, -7, 2]
    assert memory[3:4].view(np.int32).tolist() == [5, 4]
    assert memory[4:].view(np.float64).tolist() == [3.0, 1.5]


def test_vectors_are_loaded_from_spans():
    @compiled
    def shifted(memory):
        part = integers(memory, 2)
        store(part, 8, plus(load(part, 0), spread(100)))

    memory = np.arange(20)
    shifted(memory)
    assert memory.tolist() == [*range(10), *range(102, 110), 18, 19]


class _Pair(NamedTuple):
    memory: np.ndarray
    first: np.ndarray
    second: np.ndarray


@called
def _make_pair(n):
    memory = np.empty(2 * n, np.int64)
    return _Pair(memory, integers(memory, 0), integers(memory, n))


@inlined
def _fill(pair, n):
    for i in range(n):
        pair.first[i] = i
        pair.second[i] = 10 * i


def test_memory_beside_its_spans_stays_and_is_freed_in_the_end():
    @compiled
    def total(n):
        pair = _make_pair(n)
        _fill(pair, n)
        other = np.full(2 * n, -1)  # would take the place of memory that is free
        found = other.sum() + 2 * n
        for i in range(n):
            found += pair.first[i] + pair.second[i]
        return found

    assert total(1000) == 11 * 999 * 500
    _nrt_python.memsys_enable_stats()
    try:
        before = rtsys.get_allocation_stats()
        for _ in range(100):
            total(1000)
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free > 0
