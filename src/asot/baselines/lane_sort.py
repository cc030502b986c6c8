"""Eight lists sorted side by side, one in each lane of a vector, without a branch that depends on the numbers.

Batcher's merge exchange (Knuth, The Art of Computer Programming, 5.2.2 M) compares positions that depend on the length
alone, so eight lists go through the same steps: n (log n)² / 4 of them, two instructions each.

What is sorted are integers. `ordered_bits` turns floats into integers of the same order. Where masses belong to the
numbers, `make_keys` puts them on a grid of 2^-51 of the largest one, which is as fine as the rounding of projections,
and writes the place in the list below. So nothing has to travel with a key, and equal numbers keep their order.
"""
# mypy: check-untyped-defs=False

from __future__ import annotations

import numpy as np

from asot.jit.compiled import at, inlined, unordered
from asot.jit.lanes import LANES, larger, lesser, load, store

GRID_BITS = 51
"""Of a key, where the places leave room for them."""

_WITHOUT_SIGN = np.int64(2**63 - 1)
_ROUNDER = 1.5 * 2.0**52  # bit patterns of numbers around it differ as the nearest integers do
_ROUNDER_BITS = np.float64(_ROUNDER).view(np.int64)


@inlined
def sort_lanes(keys, begin, stride, n):  # type: ignore[no-untyped-def]
    """Sort eight columns of n integers: row i of them is keys[begin + i · stride :][:LANES]."""
    largest_step = 1
    while 2 * largest_step < n:
        largest_step *= 2
    p = largest_step if n > 1 else 0
    while p > 0:
        q = largest_step
        r = 0
        d = p
        while True:
            for base in range(r, n - d, 2 * p):
                for i in range(base, min(base + p, n - d)):
                    here = begin + i * stride
                    there = here + d * stride
                    low = load(keys, here)
                    high = load(keys, there)
                    store(keys, here, lesser(low, high))
                    store(keys, there, larger(low, high))
            if q == p:
                break
            d = q - p
            q //= 2
            r = p
        p //= 2


@inlined
def ordered_bits(bits, begin, count):  # type: ignore[no-untyped-def]
    """Bit patterns of floats to integers of the same order, in place; and back: the second time undoes the first."""
    for t in range(count):
        pattern = bits[at(begin, t)]
        bits[at(begin, t)] = pattern ^ ((pattern >> 63) & _WITHOUT_SIGN)


@inlined
def bits_for(n):  # type: ignore[no-untyped-def]
    """Bits that hold 0..n-1."""
    bits = 0
    while (1 << bits) < n:
        bits += 1
    return bits


@unordered
def _largest(values, count):  # type: ignore[no-untyped-def]
    top = 0.0
    for t in range(count):
        top = max(top, abs(values[at(t, 0)]))
    return top


@inlined
def make_keys(values, n, place_bits, grid, grid_bits, keys):  # type: ignore[no-untyped-def]
    """Keys of finite values, both (n, LANES), flat; the lowest ``place_bits`` hold the row.

    ``grid_bits`` sees the scratch ``grid`` (n · LANES) as int64.
    """
    top = _largest(values, n * LANES)
    scale = 2.0 ** min(GRID_BITS - 1, 61 - place_bits) / top if top > 0.0 else 0.0
    for t in range(n * LANES):
        grid[at(t, 0)] = values[at(t, 0)] * scale + _ROUNDER
    for t in range(n * LANES):
        keys[at(t, 0)] = (grid_bits[at(t, 0)] - _ROUNDER_BITS) << place_bits
    for i in range(n):
        for lane in range(LANES):
            keys[at(i * LANES, lane)] |= i
