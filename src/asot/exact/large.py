"""Large problems: guess which arcs matter, solve on those, price all arcs, repeat until none improves.

From a few hundred nodes on, the small solver (`simplex`) spends its time on pricing: every pivot looks at thousands of
arcs, nearly all of them useless. Rough potentials (`first_potentials`) name the ten arcs per node that are near them; a
network simplex (`sparse_tree`) starts from a greedy basis of these arcs and solves the problem on them alone; then all
n² arcs are priced once, and those that would improve join the list. When there are none, the tree is optimal for the
whole problem, just like the small solver's: the same integers, no tolerance.
"""

from __future__ import annotations

import numpy as np

from asot.exact.first_potentials import entropic_potentials
from asot.exact.simplex import least_of_four, solve_block
from asot.exact.sparse_tree import add_arc, improve, lay_out, make_arcs, make_tree, more_room
from asot.exact.workspace import first_sink, stride_of
from asot.jit.compiled import at, called, inlined, reordered

LARGE_NODES = 1000
"""Nodes from which a problem is large."""

NARROW = 48
"""Problems with fewer sources or sinks than this go to the small solver, regardless of their total size."""

ARCS_PER_NODE = 10
"""Arcs that the first list holds, over the mean of sources and sinks."""

ADDED_PER_ROW = 12
"""The most arcs of one source that a round of pricing adds."""

RANKS = 2048
"""Reduced costs are sorted into this many steps."""

PATIENCE = 1
"""Pivots between two rounds of pricing, over the number of nodes: there is no point in finishing with a list that lacks
arcs."""


def may_be_large(p: int, q: int) -> bool:
    """Whether a problem of up to p sources and q sinks may be solved here."""
    return p + q >= LARGE_NODES and min(p, q) >= NARROW


@called
def solve_any(ws, p, q, index_bits, stop):
    """Like `simplex.solve_block`, by whichever method is faster for the size."""
    if p + q >= LARGE_NODES and p >= NARROW and q >= NARROW:
        return _solve_large(ws, p, q, index_bits, stop)
    return solve_block(ws, p, q, index_bits, stop)


@inlined
def _solve_large(ws, p, q, index_bits, stop):
    first = first_sink(p)
    stride = stride_of(q)
    half = p * stride
    cost = ws.memory.view(np.float32)[:half]  # where the keys of the small solver are
    for t in range(half):
        cost[t] = np.float32(ws.cost[at(0, t)])
    f = np.empty(p, np.float32)
    g = np.empty(stride, np.float32)
    kernel = ws.memory.view(np.uint16)[2 * half : 3 * half]  # behind the costs
    spread = entropic_potentials(cost, kernel, ws.supply, ws.demand, p, q, stride, f, g)
    sources, sinks, ranks = _near_arcs(cost, f, g, p, q, stride, spread)
    steps = _greedy_basis(ws, cost, f, g, p, q, stride, spread, sources, sinks, ranks)
    tree = _plant(ws, p, q, index_bits, steps)
    value_mask = ~((np.int64(1) << index_bits) - 1)
    arcs = make_arcs(len(sources) + ADDED_PER_ROW * p)
    for e in range(len(sources)):
        i, j = sources[e], sinks[e]
        add_arc(arcs, i, first + j, ws.cost[i * stride + j] & value_mask)
    pivots = 0
    while True:
        made = improve(tree, arcs, PATIENCE * (p + q), stop)
        if made < 0 or stop[0] != 0:
            return -1
        pivots += made
        if len(arcs.tail) < arcs.used[0] + ADDED_PER_ROW * p:
            arcs = more_room(arcs, 2 * len(arcs.tail) + ADDED_PER_ROW * p)
        before = arcs.used[0]
        _price_all(ws, arcs, p, q, index_bits)
        if arcs.used[0] == before and made < PATIENCE * (p + q):
            return pivots


@reordered
def _rank_row(cost, o, stride, height, g, scale, limit, rank):
    """Reduced costs of a row in steps from 0 (best) to ``limit`` (that, or worse)."""
    for j in range(stride):
        step = (cost[at(o, j)] - height - g[at(0, j)]) * scale
        rank[at(0, j)] = np.int32(min(max(step, np.float32(0.0)), limit))


@inlined
def _lowest(cost, f, g, p, q, stride):
    """Roughly the lowest reduced cost: that of some rows."""
    lowest = np.float32(np.inf)
    for i in range(0, p, 1 + p // 32):
        for j in range(q):
            lowest = min(lowest, cost[i * stride + j] - f[i] - g[j])
    return lowest


@inlined
def _near_arcs(cost, f, g, p, q, stride, spread):
    """The arcs with the lowest reduced costs: sources, sinks and ranks."""
    lowest = _lowest(cost, f, g, p, q, stride)
    scale = np.float32(RANKS / spread) if spread > 0.0 else np.float32(0.0)
    rank = np.empty(stride, np.int32)
    count = np.zeros(RANKS + 1, np.int64)
    for i in range(p):
        _rank_row(cost, i * stride, stride, f[i] + lowest, g, scale, np.float32(RANKS), rank)
        for j in range(q):
            count[rank[j]] += 1
    wanted = ARCS_PER_NODE * (p + q) // 2
    limit = 0
    total = np.int64(0)
    while limit < RANKS and total < wanted:
        total += count[limit]
        limit += 1
    total = min(total, 4 * wanted)  # where nearly all costs are alike, more arcs of one rank say nothing more
    sources = np.empty(total, np.int32)
    sinks = np.empty(total, np.int32)
    ranks = np.empty(total, np.int32)
    e = 0
    for i in range(p):
        _rank_row(cost, i * stride, stride, f[i] + lowest, g, scale, np.float32(limit), rank)
        for j in range(q):
            if rank[j] < limit and e < total:
                sources[e] = i
                sinks[e] = j
                ranks[e] = rank[j]
                e += 1
    return sources[:e], sinks[:e], ranks[:e]


@inlined
def _by_rank(ranks):
    """The order that sorts arcs by rank."""
    start = np.zeros(RANKS + 2, np.int64)
    for e in range(len(ranks)):
        start[ranks[e] + 1] += 1
    for r in range(RANKS + 1):
        start[r + 1] += start[r]
    order = np.empty(len(ranks), np.int64)
    for e in range(len(ranks)):
        order[start[ranks[e]]] = e
        start[ranks[e]] += 1
    return order


@inlined
def _greedy_basis(ws, cost, f, g, p, q, stride, spread, sources, sinks, ranks):
    """A feasible basis, as steps that hang ``child`` on ``hung_on``: ship along the best open arc, close a node.

    First along the arcs given; what is still open then, along all arcs between open nodes. Returns the steps.
    """
    row_open = np.ones(p, np.bool_)
    column_open = np.ones(q, np.bool_)
    left = np.array([p, q, 0])  # open rows, open columns, steps
    _ship(ws, p, sources, sinks, _by_rank(ranks), row_open, column_open, left)
    if left[0] > 0:
        total = left[0] * left[1]
        sources = np.empty(total, np.int32)
        sinks = np.empty(total, np.int32)
        ranks = np.empty(total, np.int32)
        lowest = _lowest(cost, f, g, p, q, stride)
        scale = np.float32(RANKS / (2.0 * spread)) if spread > 0.0 else np.float32(0.0)
        rank = np.empty(stride, np.int32)
        e = 0
        for i in range(p):
            if row_open[i]:
                _rank_row(cost, i * stride, stride, f[i] + lowest, g, scale, np.float32(RANKS), rank)
                for j in range(q):
                    if column_open[j]:
                        sources[e] = i
                        sinks[e] = j
                        ranks[e] = rank[j]
                        e += 1
        _ship(ws, p, sources, sinks, _by_rank(ranks), row_open, column_open, left)
    return left[2]


@inlined
def _ship(ws, p, sources, sinks, order, row_open, column_open, left):
    """Walk through arcs in order. Each one between two open nodes closes one of them; the last closes both."""
    first = first_sink(p)
    rows, columns, step = left[0], left[1], left[2]
    for t in range(len(order)):
        i = np.int64(sources[order[t]])
        j = np.int64(sinks[order[t]])
        if not (row_open[i] and column_open[j]):
            continue
        if columns > 1 and (rows == 1 or ws.demand[j] <= ws.supply[i]):
            ws.child[step] = first + j
            ws.hung_on[step] = i
            ws.flow[first + j] = ws.demand[j]
            ws.supply[i] -= ws.demand[j]
            column_open[j] = False
            columns -= 1
        else:
            ws.child[step] = i
            ws.hung_on[step] = first + j
            ws.flow[i] = ws.supply[i]
            ws.demand[j] -= ws.supply[i]
            row_open[i] = False
            rows -= 1
        step += 1
        if rows == 0:
            break
    left[0], left[1], left[2] = rows, columns, step


@inlined
def _plant(ws, p, q, index_bits, steps):
    """The tree of the greedy steps, with its potentials."""
    first = first_sink(p)
    stride = stride_of(q)
    value_mask = ~((np.int64(1) << index_bits) - 1)
    for x in range(p, first):
        ws.parent[x] = x  # no node: like the root, no arc to a parent
    tree = make_tree(ws.parent, ws.flow, ws.pi, first + q)
    nodes = np.empty(steps + 1, np.int64)
    nodes[0] = ws.hung_on[steps - 1]
    tree.parent[nodes[0]] = nodes[0]
    tree.pi[nodes[0]] = 0
    for t in range(1, steps + 1):
        x = np.int64(ws.child[steps - t])
        y = np.int64(ws.hung_on[steps - t])
        nodes[t] = x
        tree.parent[x] = y
        tree.up[x] = x < p
        if x < p:
            tree.pi[x] = tree.pi[y] + (ws.cost[x * stride + y - first] & value_mask)
        else:
            tree.pi[x] = tree.pi[y] - (ws.cost[y * stride + x - first] & value_mask)
    lay_out(tree, nodes)
    return tree


@inlined
def _price_all(ws, arcs, p, q, index_bits):
    """Add the arcs that would improve the tree: of each row those that are at least half as good as its best."""
    first = first_sink(p)
    stride = stride_of(q)
    value_mask = ~((np.int64(1) << index_bits) - 1)
    for j in range(q, stride):
        ws.pi[first + j] = 0
    for r in range(0, p, 4):
        last = min(r + 4, p)
        if least_of_four(ws, r, min(r + 1, p - 1), min(r + 2, p - 1), min(r + 3, p - 1), first, stride) >= 0:
            continue
        for i in range(r, last):
            o = i * stride
            best = np.int64(0)
            for j in range(q):
                best = min(best, ws.cost[at(o, j)] + ws.pi[at(first, j)] - ws.pi[i])
            if best >= 0:
                continue
            added = 0
            for j in range(q):
                cost = ws.cost[at(o, j)] & value_mask
                if cost + ws.pi[at(first, j)] - ws.pi[i] <= best // 2 and added < ADDED_PER_ROW:
                    add_arc(arcs, i, first + j, cost)
                    added += 1
