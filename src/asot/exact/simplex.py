"""The compiled heart: an exact transportation simplex on integer data (docs/method.md §8).

Every exact solver of the package ends here: p sources with masses, q sinks with masses, a p × q cost block, and the
cheapest way to ship everything. Three ideas make it fast and free of tolerances:

* **Integers.** Masses are int64 and balance exactly, so flows are exact. Costs are int64 whose lowest ``index_bits``
  bits hold the column, so that a plain integer minimum over a row finds the cheapest arc *and* its position, eight
  columns at a time (`asot.jit.lanes`), and "no arc improves" is an exact statement.
* **A good start.** A greedy least-cost basis, on costs from which each node's typical distance is subtracted.
* **Small trees.** The basis is a spanning tree kept as parent, flow to the parent and the *set of descendants* of each
  node as a bitset, so that "is the sink below this node?" and "shift the potentials below" are word operations. Trees
  are kept strongly feasible (zero flows point to the root), hence the method cannot cycle.

The problem lies in a `Workspace`, which numbers its nodes; the start is `initial_basis`'s. Potentials satisfy
``pi[i] - pi[first+j] == cost(i, j)`` on tree arcs.
All functions release the GIL; the engine runs many of them side by side on threads.
"""

from __future__ import annotations

import numpy as np

from asot.exact.initial_basis import greedy_start
from asot.exact.workspace import GROUP, TOP, first_sink, groups_of, stride_of
from asot.jit.compiled import at, called, inlined
from asot.jit.lanes import LANES, differ, either, least, lesser, load, minus, plus, plus_where, spread, store


@inlined
def _word_of(ws, x, width):
    """Where, in the bitset of node 0, the word with the bit of x stands."""
    return 0 if width == 1 else (x // GROUP) * ws.m * LANES + ((x >> 6) & (LANES - 1))


@inlined
def _plant_tree(ws, p, q, index_bits, width):
    """Parents, potentials and subtree bitsets from the steps of the greedy start.

    ``width`` is how many words of a bitset stand together: 1 if there is only one, else LANES. Callers pass a constant,
    so that the compiler makes a version for each.
    """
    first = first_sink(p)
    n = first + q
    steps = p + q - 1
    groups = groups_of(n)
    group_size = ws.m * LANES
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
            o = g * ws.m * LANES + y * LANES
            store(ws.below, o, differ(load(ws.below, o), load(ws.moved, g * LANES)))


@inlined
def _pivot(ws, source, sink, reduced_cost, p, n, width):
    """Bring the arc source -> sink (reduced cost < 0) into the tree and drop the arc that blocks its cycle."""
    groups = groups_of(n)
    group_size = ws.m * LANES
    word = _word_of(ws, sink, width)
    bit = np.int64(sink & 63)
    # Climb from both ends to the join. Shipping more along the new arc takes flow from arcs child-source -> parent on
    # the source's side and parent -> child-sink on the sink's side; '<=' picks the last blocking arc of the cycle.
    delta = TOP
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


@called
def solve_block(ws, p, q, index_bits, stop):
    """Solve the problem laid out in ``ws``: cost, supply, demand and offsets of p sources and q sinks.

    On return the optimal basis is in ``ws.parent`` and ``ws.flow``. Returns the number of pivots, or -1 if ``stop[0]``
    was raised in the meantime.
    """
    greedy_start(ws, p, q, index_bits)
    if first_sink(p) + q <= 64:
        _plant_tree(ws, p, q, index_bits, 1)
        return _improve(ws, p, q, index_bits, 1, stop)
    _plant_tree(ws, p, q, index_bits, LANES)
    return _improve(ws, p, q, index_bits, LANES, stop)


@inlined
def least_of_four(ws, r0, r1, r2, r3, first, stride):
    """The least reduced cost of four rows, with its column in the low bits.

    Four at a time share the potentials of the sinks and the minimum across the lanes, the slowest part of a short row.
    """
    least0 = least1 = least2 = least3 = spread(TOP)
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
            best = least_of_four(ws, r0, r1, r2, r3, first, stride)
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
