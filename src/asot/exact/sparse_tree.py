"""A network simplex on a list of arcs, for trees of thousands of nodes.

The small solver (`simplex`) keeps the set of descendants of every node as bits, which costs n bits per node and pivot.
Here every node knows its depth, its first child and its siblings: a pivot climbs from both ends to where they meet and
then walks the subtree that moves. Arcs are looked at in blocks, and the best of a block enters. Trees are kept strongly
feasible, as in `simplex`.

Potentials satisfy ``pi[tail] - pi[head] == cost`` on tree arcs. ``up[x]`` tells whether the arc between x and its
parent leads to the parent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.exact.workspace import TOP
from asot.jit.compiled import at, inlined

NOBODY = -1


class Tree(NamedTuple):
    """A spanning tree of n nodes with the flows and potentials of its basis; the root is its own parent."""

    parent: NDArray[np.int32]
    flow: NDArray[np.int64]  # on the arc to the parent
    pi: NDArray[np.int64]
    up: NDArray[np.bool_]
    depth: NDArray[np.int32]
    first_child: NDArray[np.int32]
    next_sibling: NDArray[np.int32]
    previous_sibling: NDArray[np.int32]


class Arcs(NamedTuple):
    """The arcs that may enter, the first ``used[0]`` entries of each array."""

    tail: NDArray[np.int32]
    head: NDArray[np.int32]
    cost: NDArray[np.int64]
    used: NDArray[np.int64]  # (1,)


@inlined
def make_tree(parent, flow, pi, n):
    """A tree around arrays that the caller owns."""
    short = np.empty((4, n), np.int32)
    for x in range(n):
        short[1, x] = NOBODY
    return Tree(parent, flow, pi, np.empty(n, np.bool_), short[0], short[1], short[2], short[3])


@inlined
def make_arcs(capacity):
    return Arcs(
        np.empty(capacity, np.int32), np.empty(capacity, np.int32), np.empty(capacity, np.int64), np.zeros(1, np.int64)
    )


@inlined
def more_room(arcs, capacity):
    """The same arcs in larger arrays."""
    larger = make_arcs(capacity)
    for e in range(arcs.used[0]):
        larger.tail[e] = arcs.tail[e]
        larger.head[e] = arcs.head[e]
        larger.cost[e] = arcs.cost[e]
    larger.used[0] = arcs.used[0]
    return larger


@inlined
def add_arc(arcs, tail, head, cost):
    e = arcs.used[0]
    arcs.tail[e] = tail
    arcs.head[e] = head
    arcs.cost[e] = cost
    arcs.used[0] = e + 1


@inlined
def plant_root(tree, x):
    tree.parent[x] = x
    tree.pi[x] = 0
    tree.depth[x] = 0
    tree.next_sibling[x] = NOBODY
    tree.previous_sibling[x] = NOBODY


@inlined
def hang(tree, x, parent):
    """Make x the first child of a node."""
    sibling = tree.first_child[parent]
    tree.parent[x] = parent
    tree.next_sibling[x] = sibling
    tree.previous_sibling[x] = NOBODY
    if sibling != NOBODY:
        tree.previous_sibling[sibling] = x
    tree.first_child[parent] = x


@inlined
def _take_off(tree, x):
    """Remove x from the children of its parent."""
    before = tree.previous_sibling[x]
    after = tree.next_sibling[x]
    if before != NOBODY:
        tree.next_sibling[before] = after
    else:
        tree.first_child[tree.parent[x]] = after
    if after != NOBODY:
        tree.previous_sibling[after] = before


@inlined
def _pivot(tree, tail, head, reduced_cost):
    """Bring the arc tail -> head (reduced cost < 0) into the tree and drop the arc that blocks its cycle."""
    # Climb to where both ends meet. Shipping along the new arc takes flow from arcs that lead up on the tail's side
    # and down on the head's side; of the blocking arcs the last one of the cycle leaves.
    x = tail
    y = head
    least_below_tail = TOP
    least_below_head = TOP
    leaving = NOBODY
    leaving_below_head = NOBODY
    height = tree.depth[x] - tree.depth[y]
    while x != y:
        if height >= 0:
            if tree.up[x] and tree.flow[x] < least_below_tail:
                least_below_tail = tree.flow[x]
                leaving = x
            x = tree.parent[x]
            height -= 1
        else:
            if not tree.up[y] and tree.flow[y] <= least_below_head:
                least_below_head = tree.flow[y]
                leaving_below_head = y
            y = tree.parent[y]
            height += 1
    join = x
    delta = least_below_tail
    end = tail
    other_end = head
    shift = reduced_cost
    if least_below_head <= least_below_tail:
        delta = least_below_head
        leaving = leaving_below_head
        end = head
        other_end = tail
        shift = -reduced_cost
    if delta != 0:
        x = tail
        while x != join:
            tree.flow[x] += -delta if tree.up[x] else delta
            x = tree.parent[x]
        x = head
        while x != join:
            tree.flow[x] += delta if tree.up[x] else -delta
            x = tree.parent[x]
    # Re-hang the subtree under the leaving arc from `end`, reversing the path end .. leaving.
    y = end
    new_parent = other_end
    new_flow = delta
    new_up = end == tail
    while True:
        old_parent = tree.parent[y]
        old_flow = tree.flow[y]
        old_up = tree.up[y]
        _take_off(tree, y)
        hang(tree, y, new_parent)
        tree.flow[y] = new_flow
        tree.up[y] = new_up
        if y == leaving:
            break
        new_parent = y
        new_flow = old_flow
        new_up = not old_up
        y = old_parent
    _shift_subtree(tree, end, shift)


@inlined
def _shift_subtree(tree, top, shift):
    """Move the potentials below a node, the node included, and set their depths."""
    x = top
    while True:
        tree.pi[x] += shift
        tree.depth[x] = tree.depth[tree.parent[x]] + 1
        if tree.first_child[x] != NOBODY:
            x = tree.first_child[x]
            continue
        while x != top and tree.next_sibling[x] == NOBODY:
            x = tree.parent[x]
        if x == top:
            return
        x = tree.next_sibling[x]


@inlined
def improve(tree, arcs, most, stop):
    """Pivot until none of the arcs improves. Returns the number of pivots, or -1 when ``stop[0]`` was raised."""
    count = arcs.used[0]
    block = max(32, np.int64(np.sqrt(count)))
    e = 0
    pivots = 0
    left = count
    while left > 0 and pivots < most:
        best = np.int64(0)
        entering = np.int64(NOBODY)
        while left > 0 and entering == NOBODY:
            size = min(block, count - e)
            for t in range(e, e + size):
                reduced = (
                    arcs.cost[at(0, t)] - tree.pi[at(0, arcs.tail[at(0, t)])] + tree.pi[at(0, arcs.head[at(0, t)])]
                )
                entering = t if reduced < best else entering
                best = reduced if reduced < best else best
            e = e + size if e + size < count else 0
            left -= size
        if entering != NOBODY:
            _pivot(tree, arcs.tail[entering], arcs.head[entering], best)
            left = count
            pivots += 1
            if (pivots & 255) == 0 and stop[0] != 0:
                return -1
    return pivots
