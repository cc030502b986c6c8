"""The compiled heart: an exact transportation simplex on integer data (METHOD §8).

Every exact solver of the package ends here: p sources with masses, q sinks with masses, a p × q cost block, and the
cheapest way to ship everything. Three ideas make it fast and free of tolerances:

* **Integers.** Masses are int64 and balance exactly, so flows are exact. Costs are int64 whose lowest ``index_bits``
  bits hold the column, so that a plain integer minimum over a row finds the cheapest arc *and* its position, eight
  columns at a time (`asot.lanes`), and "no arc improves" is an exact statement.
* **A good start.** A greedy least-cost basis, on costs from which each node's typical distance is subtracted.
* **Small trees.** The basis is a spanning tree kept as parent, flow to the parent and the *set of descendants* of each
  node as a bitset, so that "is the sink below this node?" and "shift the potentials below" are word operations. Trees
  are kept strongly feasible (zero flows point to the root), hence the method cannot cycle.

Nodes 0..p-1 are sources and first..first+q-1 are sinks, where first is `first_sink` (p); the few numbers between are
no nodes. Potentials satisfy ``pi[i] - pi[first+j] == cost(i, j)`` on tree arcs.
All functions release the GIL; the engine runs many of them side by side on threads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.compiled import at, compiled, inlined
from asot.lanes import (
    LANES,
    both,
    count_up,
    differ,
    either,
    larger,
    least,
    lesser,
    load,
    lowest_bit,
    minus,
    plus,
    plus_where,
    put,
    spread,
    store,
    where_equal,
)

MASS_BITS = 60
"""Every quantised histogram sums to exactly ``2**MASS_BITS``."""

_GROUP = 64 * LANES  # how many nodes the bits of one `Lanes` value stand for

_TOP = np.int64(0x7FFFFFFFFFFFFFFF)  # larger than any key
_BOTTOM = np.int64(-0x8000000000000000)  # smaller than any key
PAD = np.int64(1 << 62)  # cost of a padding column: larger than any potential, and their difference does not overflow


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
    below: NDArray[np.int64]  # (groups, m, LANES), flat, or (m,) if n <= 64: bitset of each node's subtree
    moved: NDArray[np.int64]  # (groups·LANES,) scratch of a pivot
    passed: NDArray[np.int64]  # (groups·LANES,) scratch of a pivot
    child: NDArray[np.int32]  # (m,) greedy step t hangs child[t] ...
    hung_on: NDArray[np.int32]  # (m,) ... on hung_on[t]
    slot: NDArray[np.int32]  # (m,) slot of each open row in the greedy start
    owner: NDArray[np.int32]  # (m,) and the inverse


@inlined
def stride_of(q):
    """Row length of a cost block with q columns, padded to whole `Lanes`."""
    return (q + LANES - 1) & ~(LANES - 1)


@inlined
def first_sink(p):
    """The node of the first sink beside p sources.

    Aligned, so that pricing reads the potentials of the sinks in the groups in which a pivot has just written them: a
    processor forwards a write to a read of the same place, but a read across two writes waits for the cache.
    """
    return (p + LANES - 1) & ~(LANES - 1)


@inlined
def _groups_of(n):
    """How many `Lanes` values the bitset of n nodes takes."""
    return (n + _GROUP - 1) // _GROUP


@compiled
def make_workspace(max_sources: int, max_sinks: int, max_nodes: int) -> Workspace:
    """Scratch for problems with at most this many sources, sinks and nodes in all."""
    m = max_nodes + 2 * LANES
    words = _groups_of(m) * LANES  # (the numbers without a node included)
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
        np.empty(m * words, np.int64),
        np.empty(words, np.int64),
        np.empty(words, np.int64),
        short[3],
        short[4],
        short[5],
        short[6],
    )


@inlined
def _greedy_start(ws, p, q, index_bits):
    """Fill ``child``, ``hung_on`` and ``flow`` with a feasible basis: ship along the cheapest open arc, close a node.

    A key holds (shifted cost | row | column), so one integer minimum names the next arc; the least key of every open
    row is kept up to date, always in whole `Lanes`, since a wide read right after a narrow write waits for the cache.
    Open rows are numbered by slot: a closed row hands its slot to the last one. A closed column is barred. Each step
    closes one node, a leaf of the tree that `_plant_tree` builds in reverse. Ties close the sink: zero flows then point
    to the root (strongly feasible).
    """
    first = first_sink(p)
    stride = stride_of(q)
    index_mask = (np.int64(1) << index_bits) - 1
    cost_mask = ~((np.int64(1) << (2 * index_bits)) - 1)
    row_least = ws.pi  # by slot; the potentials are not needed yet
    for j in range(0, stride, LANES):
        store(ws.barred, j, spread(_BOTTOM))
    for j in range(q, stride):
        ws.column_offset[j] = 0
    for i in range(p):
        ws.slot[i] = i
        ws.owner[i] = i
        offset = spread(ws.row_offset[i])
        row = plus(spread(np.int64(i) << index_bits), count_up())
        row_best = spread(_TOP)
        for j in range(0, stride, LANES):
            shifted = minus(minus(load(ws.cost, i * stride + j), offset), load(ws.column_offset, j))
            key = either(both(shifted, spread(cost_mask)), plus(row, spread(j)))
            store(ws.keys, i * stride + j, key)
            row_best = lesser(key, row_best)
        row_least[i] = least(row_best)
    store(row_least, p, spread(_TOP))
    rows = p
    columns = q
    step = 0
    while True:
        bests = load(row_least, 0)
        for t in range(LANES, rows, LANES):
            bests = lesser(bests, load(row_least, t))
        best = least(bests)
        i = (best >> index_bits) & index_mask
        j = best & index_mask
        if rows == 1 and columns == 1:
            ws.child[step] = i
            ws.hung_on[step] = first + j
            ws.flow[i] = ws.supply[i]
            return
        if rows == 1 or (columns > 1 and ws.demand[j] <= ws.supply[i]):
            ws.child[step] = first + j
            ws.hung_on[step] = i
            ws.flow[first + j] = ws.demand[j]
            ws.supply[i] -= ws.demand[j]
            columns -= 1
            ws.barred[j] = _TOP
            for t in range(0, rows, LANES):
                leasts = load(row_least, t)
                orphaned = where_equal(both(leasts, spread(index_mask)), spread(j))
                if orphaned == 0:  # these rows have their least key elsewhere
                    continue
                while orphaned != 0:
                    lane = lowest_bit(orphaned)
                    orphaned &= orphaned - 1
                    o = ws.owner[t + lane] * stride
                    row_best = spread(_TOP)
                    for c in range(0, stride, LANES):
                        row_best = lesser(row_best, larger(load(ws.keys, o + c), load(ws.barred, c)))
                    leasts = put(leasts, lane, least(row_best))
                store(row_least, t, leasts)
        else:
            ws.child[step] = i
            ws.hung_on[step] = first + j
            ws.flow[i] = ws.supply[i]
            ws.demand[j] -= ws.supply[i]
            rows -= 1
            hole = np.int64(ws.slot[i])
            last = ws.owner[rows]
            ws.slot[last] = hole
            ws.owner[hole] = last
            key = row_least[rows]
            lane = hole & (LANES - 1)
            store(row_least, hole - lane, put(load(row_least, hole - lane), lane, key))
            lane = rows & (LANES - 1)
            store(row_least, rows - lane, put(load(row_least, rows - lane), lane, _TOP))
        step += 1


@inlined
def _word_of(ws, x, width):
    """Where, in the bitset of node 0, the word with the bit of x stands."""
    return 0 if width == 1 else (x // _GROUP) * len(ws.parent) * LANES + ((x >> 6) & (LANES - 1))


@inlined
def _plant_tree(ws, p, q, index_bits, width):
    """Parents, potentials and subtree bitsets from the steps of the greedy start.

    ``width`` is how many words of a bitset stand together: 1 if there is but one, else LANES. Callers pass a constant,
    so that the compiler makes a version for each.
    """
    first = first_sink(p)
    n = first + q
    steps = p + q - 1
    groups = _groups_of(n)
    group_size = len(ws.parent) * LANES
    stride = stride_of(q)
    value_mask = ~((np.int64(1) << index_bits) - 1)
    for x in range(n):
        bit = np.int64(1) << np.int64(x & 63)
        if width == 1:
            ws.below[x] = bit
        else:
            for g in range(groups):
                store(ws.below, g * group_size + x * LANES, spread(0))
            ws.below[_word_of(ws, x, width) + x * LANES] = bit
    store(ws.pi, n, spread(0))
    for x in range(p, first):
        ws.parent[x] = x  # no node: like the root, no arc to a parent
    root = ws.hung_on[steps - 1]
    ws.parent[root] = root
    ws.pi[root] = 0
    for step in range(steps - 1, -1, -1):
        x = ws.child[step]
        y = ws.hung_on[step]
        ws.parent[x] = y
        if x < p:
            ws.pi[x] = ws.pi[y] + (ws.cost[x * stride + y - first] & value_mask)
        else:
            ws.pi[x] = ws.pi[y] - (ws.cost[y * stride + x - first] & value_mask)
    for step in range(steps):
        x = ws.child[step]
        y = ws.hung_on[step]
        if width == 1:
            ws.below[y] |= ws.below[x]
        else:
            for g in range(groups):
                o = g * group_size
                union = either(load(ws.below, o + y * LANES), load(ws.below, o + x * LANES))
                store(ws.below, o + y * LANES, union)


@inlined
def _toggle_moved(ws, y, groups, width):
    """Take the moved subtree from the descendants of y, or add it to them."""
    if width == 1:
        ws.below[at(0, y)] ^= ws.moved[0]
    else:
        for g in range(groups):
            o = g * len(ws.parent) * LANES + y * LANES
            store(ws.below, o, differ(load(ws.below, o), load(ws.moved, g * LANES)))


@inlined
def _pivot(ws, source, sink, reduced_cost, p, n, width):
    """Bring the arc source -> sink (reduced cost < 0) into the tree and drop the arc that blocks its cycle."""
    groups = _groups_of(n)
    group_size = len(ws.parent) * LANES
    word = _word_of(ws, sink, width)
    bit = np.int64(sink & 63)
    # Climb from both ends to the join. Shipping more along the new arc takes flow from arcs child-source -> parent on
    # the source's side and parent -> child-sink on the sink's side; '<=' picks the last blocking arc of the cycle.
    delta = _TOP
    leaving = -1
    on_source_side = True
    x = source
    while ((ws.below[at(word, x * width)] >> bit) & 1) == 0:
        flow = ws.flow[at(0, x)]
        if x < p and flow < delta:
            delta = flow
            leaving = x
        x = ws.parent[at(0, x)]
    join = x
    y = sink
    while y != join:
        flow = ws.flow[at(0, y)]
        if y >= p and flow <= delta:
            delta = flow
            leaving = y
            on_source_side = False
        y = ws.parent[at(0, y)]
    # The subtree under the leaving arc moves. From its old and new ancestors it is taken away and added; along the
    # cycle every second arc loses delta and the others gain it.
    if width == 1:
        ws.moved[0] = ws.below[at(0, leaving)]
        ws.passed[0] = 0
    else:
        for g in range(groups):
            store(ws.moved, g * LANES, load(ws.below, g * group_size + leaving * LANES))
            store(ws.passed, g * LANES, spread(0))
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
        ws.flow[at(0, y)] += change
        change = -change
        _toggle_moved(ws, y, groups, width)
        y = ws.parent[at(0, y)]
    # Re-hang it from `end`, reversing the path end .. leaving.
    change = -delta
    y = end
    new_parent = other_end
    new_flow = delta
    while True:
        old_parent = ws.parent[at(0, y)]
        old_flow = ws.flow[at(0, y)] + change
        change = -change
        if width == 1:
            old = ws.below[at(0, y)]
            ws.below[at(0, y)] = ws.moved[0] ^ ws.passed[0]
            ws.passed[0] = old
        else:
            for g in range(groups):
                o = g * group_size + y * LANES
                olds = load(ws.below, o)
                store(ws.below, o, differ(load(ws.moved, g * LANES), load(ws.passed, g * LANES)))
                store(ws.passed, g * LANES, olds)
        ws.parent[at(0, y)] = new_parent
        ws.flow[at(0, y)] = new_flow
        new_parent = y
        new_flow = old_flow
        y = old_parent
        if new_parent == leaving:
            break
    while y != join:
        ws.flow[at(0, y)] += change
        change = -change
        _toggle_moved(ws, y, groups, width)
        y = ws.parent[at(0, y)]
    for o in range(0, n, 64):
        members = ws.moved[o >> 6]
        if members != 0:
            for b in range(o, min(o + 64, n), LANES):
                store(ws.pi, b, plus_where(members, load(ws.pi, b), spread(shift)))
                members >>= LANES


@compiled
def solve_block(ws, p, q, index_bits, stop):
    """Solve the problem laid out in ``ws``: cost, supply, demand and offsets of p sources and q sinks.

    On return the optimal basis is in ``ws.parent`` and ``ws.flow``. Returns the number of pivots, or -1 when
    ``stop[0]`` was raised meanwhile.
    """
    _greedy_start(ws, p, q, index_bits)
    if first_sink(p) + q <= 64:
        _plant_tree(ws, p, q, index_bits, 1)
        return _improve(ws, p, q, index_bits, 1, stop)
    _plant_tree(ws, p, q, index_bits, LANES)
    return _improve(ws, p, q, index_bits, LANES, stop)


@inlined
def _least_of_four(ws, r0, r1, r2, r3, first, stride):
    """The least reduced cost of four rows, with its column in the low bits.

    Four at a time share the potentials of the sinks and the minimum across the lanes, the slowest part of a short row.
    """
    least0 = least1 = least2 = least3 = spread(_TOP)
    o0, o1, o2, o3 = r0 * stride, r1 * stride, r2 * stride, r3 * stride
    for j in range(0, stride, LANES):
        pi = load(ws.pi, first + j)
        least0 = lesser(least0, plus(load(ws.cost, o0 + j), pi))
        least1 = lesser(least1, plus(load(ws.cost, o1 + j), pi))
        least2 = lesser(least2, plus(load(ws.cost, o2 + j), pi))
        least3 = lesser(least3, plus(load(ws.cost, o3 + j), pi))
    least0 = minus(least0, spread(ws.pi[r0]))
    least1 = minus(least1, spread(ws.pi[r1]))
    least2 = minus(least2, spread(ws.pi[r2]))
    least3 = minus(least3, spread(ws.pi[r3]))
    return least(lesser(lesser(least0, least1), lesser(least2, least3)))


@inlined
def _improve(ws, p, q, index_bits, width, stop):
    """Pivot until no arc improves."""
    first = first_sink(p)
    n = first + q
    stride = stride_of(q)
    index_mask = (np.int64(1) << index_bits) - 1
    row = 0
    pivots = 0
    while True:
        # The best arc of four rows, cyclic; a full round without one proves optimality.
        scanned = 0
        best = np.int64(0)
        r0 = r1 = r2 = r3 = row
        while scanned < p and best >= 0:
            r0 = row
            r1 = r0 + 1 if r0 + 1 < p else 0
            r2 = r1 + 1 if r1 + 1 < p else 0
            r3 = r2 + 1 if r2 + 1 < p else 0
            row = r3 + 1 if r3 + 1 < p else 0
            best = _least_of_four(ws, r0, r1, r2, r3, first, stride)
            scanned += 4
        if best >= 0:
            return pivots
        column = best & index_mask
        pi = ws.pi[first + column] - best  # the row is the one whose reduced cost is the best (any, if several are)
        source = r0
        source = r1 if ws.cost[r1 * stride + column] + pi == ws.pi[r1] else source
        source = r2 if ws.cost[r2 * stride + column] + pi == ws.pi[r2] else source
        source = r3 if ws.cost[r3 * stride + column] + pi == ws.pi[r3] else source
        _pivot(ws, source, first + column, best - column, p, n, width)
        pivots += 1
        if (pivots & 255) == 0 and stop[0] != 0:
            return -1
