"""The compiled heart: an exact transportation simplex on integer data (METHOD §8).

Every exact solver of the package ends here: p sources with masses, q sinks with masses, a p × q cost block, and the
cheapest way to ship everything. Three ideas make it fast and free of tolerances:

* **Integers.** Masses are int64 and balance exactly, so flows are exact. Costs are int64 whose lowest ``index_bits``
  bits hold the column, so that a plain integer minimum over a row finds the cheapest arc *and* its position; the
  compiler vectorises it, and "no arc improves" is an exact statement.
* **A good start.** A greedy least-cost basis, on costs from which each node's typical distance is subtracted.
* **Small trees.** The basis is a spanning tree kept as parent, flow to the parent and the *set of descendants* of each
  node as a bitset, so that "is the sink below this node?" and "shift the potentials below" are word operations. Trees
  are kept strongly feasible (zero flows point to the root), hence the method cannot cycle.

Nodes 0..p-1 are sources and p..p+q-1 are sinks. Potentials satisfy ``pi[i] - pi[p+j] == cost(i, j)`` on tree arcs.
All functions release the GIL; the engine runs many of them side by side on threads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.compiled import at, compiled, inlined

MASS_BITS = 60
"""Every quantised histogram sums to exactly ``2**MASS_BITS``."""

LANES = 8
"""Rows of the cost block are padded to a multiple of this many columns, so that loops over a row vectorise."""

_TOP = np.int64(0x7FFFFFFFFFFFFFFF)  # larger than any key
_BOTTOM = np.int64(-0x8000000000000000)  # smaller than any key
PAD = np.int64(0x6000000000000000)  # cost of a padding column: larger than any cost plus potential


class Workspace(NamedTuple):
    """Scratch memory of one thread, reused from pair to pair. ``m`` is the largest number of nodes plus padding."""

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
    below: NDArray[np.int64]  # (m, words) bitset of each node's subtree, itself included
    moved: NDArray[np.int64]  # (words,) scratch of a pivot
    passed: NDArray[np.int64]  # (words,) scratch of a pivot
    child: NDArray[np.int32]  # (m,) greedy step t hangs child[t] ...
    hung_on: NDArray[np.int32]  # (m,) ... on hung_on[t]
    slot: NDArray[np.int32]  # (m,) slot of each open row in the greedy start
    owner: NDArray[np.int32]  # (m,) and the inverse


@compiled
def make_workspace(max_sources: int, max_sinks: int, max_nodes: int) -> Workspace:
    """Scratch for problems with at most this many sources, sinks and nodes in all."""
    m = max_nodes + 2 * LANES
    words = (m + 63) >> 6
    # p + q <= max_nodes bounds p·q by the square of the half where that is smaller
    half = (max_nodes + 1) // 2
    block = min(max_sources * (max_sinks + LANES), half * half + max_nodes * LANES)
    long = np.empty((8, m), np.int64)
    short = np.empty((7, m), np.int32)
    return Workspace(
        np.empty(block, np.int64),
        np.empty(block, np.int64),
        long[0],
        long[1],
        short[0],
        short[1],
        long[2],
        long[3],
        long[4],
        long[5],
        short[2],
        long[6],
        np.empty((m, words), np.int64),
        np.empty(words, np.int64),
        np.empty(words, np.int64),
        short[3],
        short[4],
        short[5],
        short[6],
    )


@inlined
def stride_of(q):
    """Padded row length of a cost block with q columns."""
    return (q + LANES - 1) & ~(LANES - 1)


@inlined
def _greedy_start(ws, p, q, index_bits):
    """Fill ``child``, ``hung_on`` and ``flow`` with a feasible basis: ship along the cheapest open arc, close a node.

    A key holds (shifted cost | row | column), so one integer minimum names the next arc; the least key of every open
    row is kept up to date. Open rows are numbered by slot: a closed row hands its slot to the last one. A closed column
    is barred. Each step closes one node, a leaf of the tree that `_plant_tree` builds in reverse. Ties close the sink:
    zero flows then point to the root (strongly feasible).
    """
    stride = stride_of(q)
    index_mask = (np.int64(1) << index_bits) - 1
    cost_mask = ~((np.int64(1) << (2 * index_bits)) - 1)
    row_least = ws.pi  # by slot; the potentials are not needed yet
    for j in range(stride):
        ws.barred[j] = _BOTTOM
    for j in range(q, stride):
        ws.column_offset[j] = 0
    for i in range(p):
        ws.slot[i] = i
        ws.owner[i] = i
        offset = ws.row_offset[i]
        o = i * stride
        row = np.int64(i) << index_bits
        least = _TOP
        for j in range(stride):
            key = ((ws.cost[at(o, j)] - offset - ws.column_offset[j]) & cost_mask) | row | j
            ws.keys[at(o, j)] = key
            least = key if key < least else least
        row_least[i] = least
    rows = p
    columns = q
    step = 0
    while True:
        best = _TOP
        for t in range(rows):
            key = row_least[at(0, t)]
            best = key if key < best else best
        i = (best >> index_bits) & index_mask
        j = best & index_mask
        if rows == 1 and columns == 1:
            ws.child[step] = i
            ws.hung_on[step] = p + j
            ws.flow[i] = ws.supply[i]
            return
        if rows == 1 or (columns > 1 and ws.demand[j] <= ws.supply[i]):
            ws.child[step] = p + j
            ws.hung_on[step] = i
            ws.flow[p + j] = ws.demand[j]
            ws.supply[i] -= ws.demand[j]
            columns -= 1
            ws.barred[j] = _TOP
            for t in range(rows):
                if (row_least[t] & index_mask) == j:
                    o = ws.owner[t] * stride
                    least = _TOP
                    for c in range(stride):
                        key = ws.keys[at(o, c)]
                        bar = ws.barred[at(0, c)]
                        key = key if key > bar else bar
                        least = key if key < least else least
                    row_least[t] = least
        else:
            ws.child[step] = i
            ws.hung_on[step] = p + j
            ws.flow[i] = ws.supply[i]
            ws.demand[j] -= ws.supply[i]
            rows -= 1
            hole = ws.slot[i]
            last = ws.owner[rows]
            ws.slot[last] = hole
            ws.owner[hole] = last
            row_least[hole] = row_least[rows]
        step += 1


@inlined
def _plant_tree(ws, p, q, index_bits):
    """Parents, potentials and subtree bitsets from the steps of the greedy start."""
    n = p + q
    words = (n + 63) >> 6
    stride = stride_of(q)
    value_mask = ~((np.int64(1) << index_bits) - 1)
    for x in range(n):
        for w in range(words):
            ws.below[x, w] = 0
        ws.below[x, x >> 6] = np.int64(1) << np.int64(x & 63)
    for x in range(n, n + LANES):
        ws.pi[x] = 0
    root = ws.hung_on[n - 2]
    ws.parent[root] = root
    ws.pi[root] = 0
    for step in range(n - 2, -1, -1):
        x = ws.child[step]
        y = ws.hung_on[step]
        ws.parent[x] = y
        if x < p:
            ws.pi[x] = ws.pi[y] + (ws.cost[x * stride + y - p] & value_mask)
        else:
            ws.pi[x] = ws.pi[y] - (ws.cost[y * stride + x - p] & value_mask)
    for step in range(n - 1):
        x = ws.child[step]
        y = ws.hung_on[step]
        for w in range(words):
            ws.below[y, w] |= ws.below[x, w]


@inlined
def _pivot(ws, source, sink, reduced_cost, p, n, words):
    """Bring the arc source -> sink (reduced cost < 0) into the tree and drop the arc that blocks its cycle."""
    word = sink >> 6
    bit = np.int64(sink & 63)
    # Climb from both ends to the join. Shipping more along the new arc takes flow from arcs child-source -> parent on
    # the source's side and parent -> child-sink on the sink's side; '<=' picks the last blocking arc of the cycle.
    delta = _TOP
    leaving = -1
    on_source_side = True
    x = source
    while ((ws.below[x, word] >> bit) & 1) == 0:
        if x < p and ws.flow[x] < delta:
            delta = ws.flow[x]
            leaving = x
        x = ws.parent[x]
    join = x
    y = sink
    while y != join:
        if y >= p and ws.flow[y] <= delta:
            delta = ws.flow[y]
            leaving = y
            on_source_side = False
        y = ws.parent[y]
    # The subtree under the leaving arc moves. From its old and new ancestors it is taken away and added; along the
    # cycle every second arc loses delta and the others gain it.
    for w in range(words):
        ws.moved[w] = ws.below[leaving, w]
        ws.passed[w] = 0
    if on_source_side:
        end = source
        other_end = sink
        shift = reduced_cost
    else:
        end = sink
        other_end = source
        shift = -reduced_cost
    change = -delta
    y = other_end
    while y != join:
        ws.flow[y] += change
        change = -change
        for w in range(words):
            ws.below[y, w] ^= ws.moved[w]
        y = ws.parent[y]
    # Re-hang it from `end`, reversing the path end .. leaving.
    change = -delta
    y = end
    new_parent = other_end
    new_flow = delta
    while True:
        old_parent = ws.parent[y]
        old_flow = ws.flow[y] + change
        change = -change
        for w in range(words):
            old = ws.below[y, w]
            ws.below[y, w] = ws.moved[w] ^ ws.passed[w]
            ws.passed[w] = old
        ws.parent[y] = new_parent
        ws.flow[y] = new_flow
        new_parent = y
        new_flow = old_flow
        y = old_parent
        if new_parent == leaving:
            break
    while y != join:
        ws.flow[y] += change
        change = -change
        for w in range(words):
            ws.below[y, w] ^= ws.moved[w]
        y = ws.parent[y]
    for w in range(words):
        members = ws.moved[w]
        if members != 0:
            o = w << 6
            for b in range(min(64, (n - o + LANES - 1) & ~(LANES - 1))):
                ws.pi[at(o, b)] += shift & -((members >> b) & 1)


@compiled
def solve_block(ws, p, q, index_bits, stop):
    """Solve the problem laid out in ``ws``: cost, supply, demand and offsets of p sources and q sinks.

    On return the optimal basis is in ``ws.parent`` and ``ws.flow``. Returns the number of pivots, or -1 when
    ``stop[0]`` was raised meanwhile.
    """
    _greedy_start(ws, p, q, index_bits)
    _plant_tree(ws, p, q, index_bits)
    if p + q <= 64:
        return _improve(ws, p, q, index_bits, 1, stop)  # a constant: the compiler drops the loops over words
    return _improve(ws, p, q, index_bits, (p + q + 63) >> 6, stop)


@inlined
def _improve(ws, p, q, index_bits, words, stop):
    """Pivot until no arc improves."""
    rows_per_look = 4
    n = p + q
    stride = stride_of(q)
    index_mask = (np.int64(1) << index_bits) - 1
    value_mask = ~index_mask
    row = 0
    pivots = 0
    while True:
        # The best arc of a few rows, cyclic; a full round without one proves optimality.
        scanned = 0
        best = np.int64(0)
        source = -1
        column = np.int64(0)
        while scanned < p and source < 0:
            look = min(rows_per_look, p - scanned)
            for _ in range(look):
                least = _TOP
                o = row * stride
                for j in range(stride):
                    value = ws.cost[at(o, j)] + ws.pi[at(p, j)]
                    least = value if value < least else least
                reduced_cost = (least & value_mask) - ws.pi[row]
                if reduced_cost < best:
                    best = reduced_cost
                    source = row
                    column = least & index_mask
                row += 1
                if row == p:
                    row = 0
            scanned += look
        if source < 0:
            return pivots
        _pivot(ws, source, p + column, best, p, n, words)
        pivots += 1
        if (pivots & 255) == 0 and stop[0] != 0:
            return -1
