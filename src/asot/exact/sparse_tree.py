"""A network simplex on a list of arcs, for trees of thousands of nodes.

The small solver (`simplex`) keeps the set of descendants of every node as bits, which costs n bits per node and pivot.
Here the nodes are kept in preorder: the subtree of x is the ``size[x]`` nodes from ``place[x]`` on. Whether a node is
below another one takes two comparisons. When a subtree moves, stretches of the order are copied and its potentials
shifted, all in straight loops over memory, where children and siblings would be found one after the other. That
matters: with general masses, the subtrees that move hold a third of all nodes. Arcs are looked at in blocks, and the
best of a block enters. Trees are kept strongly feasible, as in `simplex`.

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
    order: NDArray[np.int32]  # the nodes, each one followed by its descendants
    place: NDArray[np.int32]  # of each node in that order
    size: NDArray[np.int32]  # of its subtree, itself included
    moved: NDArray[np.int32]  # scratch of a pivot


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
    return Tree(parent, flow, pi, np.empty(n, np.bool_), short[0], short[1], short[2], short[3])


@inlined
def lay_out(tree, nodes):
    """Sizes and order of a tree whose parents are set; ``nodes`` are all of its nodes, parents before children."""
    for t in range(len(nodes)):
        tree.size[nodes[t]] = 1
    for t in range(len(nodes) - 1, 0, -1):
        tree.size[tree.parent[nodes[t]]] += tree.size[nodes[t]]
    free = tree.moved  # where the next child of a node goes
    tree.place[nodes[0]] = 0
    free[nodes[0]] = 1
    for t in range(1, len(nodes)):
        x = nodes[t]
        tree.place[x] = free[tree.parent[x]]
        free[tree.parent[x]] += tree.size[x]
        free[x] = tree.place[x] + 1
    for t in range(len(nodes)):
        tree.order[tree.place[nodes[t]]] = nodes[t]


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
def _pivot(tree, tail, head, reduced_cost):
    """Bring the arc tail -> head (reduced cost < 0) into the tree and drop the arc that blocks its cycle."""
    # Climb from both ends to the join. Shipping along the new arc takes flow from arcs that lead up on the tail's side
    # and down on the head's side; '<=' picks the last blocking arc of the cycle.
    delta = TOP
    leaving = NOBODY
    x = tail
    while tree.place[head] < tree.place[x] or tree.place[head] >= tree.place[x] + tree.size[x]:
        if tree.up[x] and tree.flow[x] < delta:
            delta = tree.flow[x]
            leaving = x
        x = tree.parent[x]
    join = x
    end = tail
    other_end = head
    shift = reduced_cost
    x = head
    while x != join:
        if not tree.up[x] and tree.flow[x] <= delta:
            delta = tree.flow[x]
            leaving = x
            end = head
            other_end = tail
            shift = -reduced_cost
        x = tree.parent[x]
    if delta != 0:
        x = tail
        while x != join:
            tree.flow[x] += -delta if tree.up[x] else delta
            x = tree.parent[x]
        x = head
        while x != join:
            tree.flow[x] += delta if tree.up[x] else -delta
            x = tree.parent[x]
    start = np.int64(tree.place[leaving])
    size = np.int64(tree.size[leaving])
    target = np.int64(tree.place[other_end])  # what moves goes right behind this place
    if start >= target + tree.size[other_end]:
        target += tree.size[other_end] - 1
    x = tree.parent[leaving]
    while x != join:
        tree.size[x] -= size
        x = tree.parent[x]
    x = other_end
    while x != join:
        tree.size[x] += size
        x = tree.parent[x]
    _turn_over(tree, end, leaving, other_end, end == tail, delta)
    _move(tree, start, size, target, shift)


@inlined
def _turn_over(tree, end, leaving, parent, up, flow):
    """Hang the subtree under the leaving arc from ``end``, reversing the path end .. leaving; its order goes to
    ``moved``."""
    whole = tree.size[leaving]
    count = 0
    inner = np.int64(tree.place[end])  # the part that is done: the subtree of the last node
    inner_size = np.int64(0)
    x = end
    while True:
        start = np.int64(tree.place[x])
        stop = start + tree.size[x]
        for t in range(start, inner):
            tree.moved[at(count, t - start)] = tree.order[at(0, t)]
        count += inner - start
        for t in range(inner + inner_size, stop):
            tree.moved[at(count, t - inner - inner_size)] = tree.order[at(0, t)]
        count += stop - inner - inner_size
        tree.size[x] = whole - inner_size
        inner = start
        inner_size = stop - start
        old_parent = tree.parent[x]
        old_flow = tree.flow[x]
        old_up = tree.up[x]
        tree.parent[x] = parent
        tree.flow[x] = flow
        tree.up[x] = up
        if x == leaving:
            break
        parent = x
        flow = old_flow
        up = not old_up
        x = old_parent


@inlined
def _move(tree, start, size, target, shift):
    """Put the nodes in ``moved`` behind a place, from where they were, and shift their potentials."""
    if start > target:
        for t in range(start - 1, target, -1):
            x = tree.order[at(0, t)]
            tree.order[at(t, size)] = x
            tree.place[at(0, x)] = t + size
        begin = target + 1
    else:
        for t in range(start + size, target + 1):
            x = tree.order[at(0, t)]
            tree.order[at(0, t - size)] = x
            tree.place[at(0, x)] = t - size
        begin = target + 1 - size
    for t in range(size):
        x = tree.moved[at(0, t)]
        tree.order[at(begin, t)] = x
        tree.place[at(0, x)] = begin + t
        tree.pi[at(0, x)] += shift


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
