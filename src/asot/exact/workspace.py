"""How a transport problem lies in memory: p sources, q sinks, a padded cost block and a spanning tree.

All exact solvers write their problem into a `Workspace`, which one thread reuses from pair to pair.

Nodes 0..p-1 are sources and first..first+q-1 are sinks, where first is `first_sink` (p); the few numbers in between are
not nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.jit.compiled import called, inlined
from asot.jit.lanes import LANES
from asot.jit.spans import integers, short_integers

MASS_BITS = 60
"""Every quantized histogram sums to exactly ``2**MASS_BITS``."""

GROUP = 64 * LANES  # how many nodes the bits of one `Lanes` value represent

TOP = np.int64(0x7FFFFFFFFFFFFFFF)  # larger than any key
BOTTOM = np.int64(-0x8000000000000000)  # smaller than any key
PAD = np.int64(1 << 62)  # cost of a padding column: larger than any potential, and their difference does not overflow


class Workspace(NamedTuple):
    """Scratch memory of one thread, reused from pair to pair. ``m`` is the largest number of nodes plus padding.

    In kernels all but the first of these arrays are spans (`asot.jit.spans`).
    """

    memory: NDArray[np.int64]  # what all others are parts of; the keys come first
    m: int
    cost: NDArray[np.int64]  # (p·stride,) packed costs, row-major
    keys: NDArray[np.int64]  # (p·stride,) greedy keys
    supply: NDArray[np.int64]  # (m,) mass of each source, destroyed by the start
    demand: NDArray[np.int64]  # (m,) mass of each sink, destroyed by the start
    source: NDArray[np.int32]  # (m,) caller's name of each source (anchor or point)
    sink: NDArray[np.int32]  # (m,) caller's name of each sink
    row_offset: NDArray[np.int64]  # (m,) what the greedy start subtracts from each row
    column_offset: NDArray[np.int64]  # (m,) and from each column
    barred: NDArray[np.int64]  # (m,) by column: the largest key once the greedy start has closed it, else the smallest
    flow: NDArray[np.int64]  # (m,) flow on the arc to the parent
    parent: NDArray[np.int32]  # (m,) the root is its own parent
    pi: NDArray[np.int64]  # (m,) potentials
    below: NDArray[np.int64]  # (groups, m, LANES), flat, or (m,) if n <= 64: bitset of each node's subtree
    moved: NDArray[np.int64]  # (groups·LANES,) scratch of a pivot
    passed: NDArray[np.int64]  # (groups·LANES,) scratch of a pivot
    child: NDArray[np.int32]  # (m,) greedy step t hangs child[t] ...
    hung_on: NDArray[np.int32]  # (m,) ... on hung_on[t]
    slot: NDArray[np.int32]  # (m,) slot of each open row in the greedy start
    owner: NDArray[np.int32]  # (m,) and the inverse


def padded(q: int) -> int:
    """Row length of a cost block with q columns, padded to whole `Lanes`."""
    return (q + LANES - 1) & ~(LANES - 1)


stride_of = inlined(padded)
"""The same for kernels."""


@inlined
def first_sink(p):
    """The node of the first sink after p sources.

    Aligned, so that pricing reads the potentials of the sinks in the groups in which a pivot has just written them: a
    processor forwards a write to a read of the same place, but a read across two writes waits for the cache.
    """
    return (p + LANES - 1) & ~(LANES - 1)


@inlined
def groups_of(n):
    """How many `Lanes` values the bitset of n nodes takes."""
    return (n + GROUP - 1) // GROUP


@called
def make_workspace(max_sources, max_sinks, max_nodes):
    """Scratch for problems with at most this many sources, sinks and nodes in all, as spans."""
    m = (max_nodes + 4 * LANES - 1) & ~(2 * LANES - 1)  # so that rows of int32 also fill whole cache lines
    words = groups_of(m) * LANES  # (the numbers without a node included)
    # p + q <= max_nodes bounds p·q by the square of the half where that is smaller
    half = (max_nodes + 1) // 2
    block = max_sources * (max_sinks + LANES)
    smaller = half * half + max_nodes * LANES
    block = stride_of(smaller if smaller < block else block)
    long = 2 * block
    short = long + 8 * m
    sets = short + 7 * (m // 2)
    memory = np.empty(sets + (m + 2) * words, np.int64)
    return Workspace(
        memory,
        m,
        integers(memory, block),
        integers(memory, 0),
        integers(memory, long),
        integers(memory, long + m),
        short_integers(memory, short),
        short_integers(memory, short + m // 2),
        integers(memory, long + 2 * m),
        integers(memory, long + 3 * m),
        integers(memory, long + 4 * m),
        integers(memory, long + 5 * m),
        short_integers(memory, short + 2 * (m // 2)),
        integers(memory, long + 6 * m),
        integers(memory, sets),
        integers(memory, sets + m * words),
        integers(memory, sets + m * words + words),
        short_integers(memory, short + 3 * (m // 2)),
        short_integers(memory, short + 4 * (m // 2)),
        short_integers(memory, short + 5 * (m // 2)),
        short_integers(memory, short + 6 * (m // 2)),
    )
