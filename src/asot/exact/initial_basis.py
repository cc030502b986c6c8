"""A good first basis for the simplex: ship along the cheapest arc that is still open, again and again.

Costs are compared after each node's typical distance is subtracted, so that a far node is served before its only near
partner is gone.
"""

from __future__ import annotations

import numpy as np

from asot.exact.workspace import BOTTOM, TOP, first_sink, stride_of
from asot.jit.compiled import inlined
from asot.jit.lanes import (
    LANES,
    both,
    count_up,
    either,
    larger,
    least,
    lesser,
    load,
    lowest_bit,
    minus,
    plus,
    put,
    spread,
    store,
    where_equal,
)


@inlined
def greedy_start(ws, p, q, index_bits):
    """Fill ``child``, ``hung_on`` and ``flow`` with a feasible basis: ship along the cheapest open arc, close a node.

    A key holds (shifted cost | row | column), so one integer minimum names the next arc; the least key of every open
    row is kept up to date, always in whole `Lanes`, since a wide read right after a narrow write waits for the cache.
    Open rows are numbered by slot: a closed row hands its slot to the last one. A closed column is barred. Each step
    closes one node, a leaf of the tree that `simplex` builds in reverse. Ties close the sink: zero flows then point
    to the root (strongly feasible).
    """
    first = first_sink(p)
    stride = stride_of(q)
    index_mask = (np.int64(1) << index_bits) - 1
    cost_mask = ~((np.int64(1) << (2 * index_bits)) - 1)
    row_least = ws.pi  # by slot; the potentials are not needed yet
    for j in range(0, stride, LANES):
        store(ws.barred, j, spread(BOTTOM))
    for j in range(q, stride):
        ws.column_offset[j] = 0
    for i in range(p):
        ws.slot[i] = i
        ws.owner[i] = i
        offset = spread(ws.row_offset[i])
        row = plus(spread(np.int64(i) << index_bits), count_up())
        row_best = spread(TOP)
        for j in range(0, stride, LANES):
            shifted = minus(minus(load(ws.cost, i * stride + j), offset), load(ws.column_offset, j))
            key = either(both(shifted, spread(cost_mask)), plus(row, spread(j)))
            store(ws.keys, i * stride + j, key)
            row_best = lesser(key, row_best)
        row_least[i] = least(row_best)
    store(row_least, p, spread(TOP))
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
            ws.barred[j] = TOP
            for t in range(0, rows, LANES):
                leasts = load(row_least, t)
                orphaned = where_equal(both(leasts, spread(index_mask)), spread(j))
                if orphaned == 0:  # these rows have their least key elsewhere
                    continue
                while orphaned != 0:
                    lane = lowest_bit(orphaned)
                    orphaned &= orphaned - 1
                    o = ws.owner[t + lane] * stride
                    row_best = spread(TOP)
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
            store(row_least, rows - lane, put(load(row_least, rows - lane), lane, TOP))
        step += 1
