"""Equal sizes and equal masses: an assignment, solved by bids and shortest augmenting paths.

If every source has the mass of every sink, the cheapest plan is a matching, and there is no need for a tree. This is
the method of Jonker and Volgenant (1987) on the integers of `simplex`: sources bid for sinks in turn, and those that
are left without one find the cheapest chain of swaps to a free sink. In the end, no arc costs less than the prices of
its ends, exactly. Prices begin with the mean distances of `distance_block`, far better ones than the usual minima.

In few dimensions, chains are long and many, and the simplex is faster. That shows after the bids: if too many sources
are left, everything is as it was, and the simplex takes over.

A cost holds its column in its lowest bits, so a plain minimum finds the arc, too, eight columns at a time.
"""

from __future__ import annotations

import numpy as np

from asot.exact.workspace import BOTTOM, TOP, first_sink, stride_of
from asot.jit.compiled import called, inlined
from asot.jit.lanes import LANES, larger, least, lesser, load, minus, plus, put, select_less, spread, store

NOBODY = -1

UNFIT = -2
"""What `assign` returns if the simplex should solve the problem."""

FEW = 64
"""Up to this many sources, chains are always short enough."""


@inlined
def is_assignment(ws, p, q):
    """Whether all masses are equal, up to what their rounding to integers leaves."""
    if p != q:
        return False
    low = high = ws.supply[0]
    for i in range(p):
        low = min(low, min(ws.supply[i], ws.demand[i]))
        high = max(high, max(ws.supply[i], ws.demand[i]))
    return high - low <= 2 * p


@called
def assign(ws, n, index_bits, stop):
    """Solve the n × n problem in ``ws``, whose masses are equal; the matching is left as a forest.

    Returns the number of bids and chains, -1 if ``stop[0]`` was raised in the meantime, or `UNFIT`.
    """
    stride = stride_of(n)
    price = ws.keys  # of each sink
    owner, partner = ws.owner, ws.slot  # the source of each sink, and the sink of each source
    free = ws.child
    for j in range(stride):
        price[j] = ws.column_offset[j] if j < n else 0
    for i in range(n):
        owner[i] = NOBODY
        partner[i] = NOBODY
        free[i] = i
    left, bids = n, 0
    most, allowed = n, 3 * n // 10
    for _ in range(2):
        left, more = _bid(ws, n, left, most, stride, index_bits, price, owner, partner, free, stop)
        bids += more
        if stop[0] != 0:
            return -1
        if n > FEW and left > allowed:
            return UNFIT
        most, allowed = 3 * n + n * n // 100, 16 + n // 10
    for t in range(left):
        if stop[0] != 0:
            return -1
        _augment(ws, free[t], stride, index_bits, price, owner, partner)
    _leave_forest(ws, n, stride, index_bits, price, partner)
    return bids + left


@inlined
def _bid(ws, n, left, most, stride, index_bits, price, owner, partner, free, stop):
    """Each free source takes its best sink, at a price at which the second best is as good. Who loses a sink bids next.

    After ``most`` bids, losers wait. Returns how many sources are free, and the number of bids.
    """
    index_mask = (np.int64(1) << index_bits) - 1
    later = 0
    bids = 0
    for t in range(left):
        if stop[0] != 0:
            return later, bids
        i = np.int64(free[t])
        while True:
            best = second = spread(TOP)
            for j in range(0, stride, LANES):
                key = minus(load(ws.cost, i * stride + j), load(price, j))
                second = lesser(second, larger(best, key))
                best = lesser(best, key)
            first_key = least(best)
            j = first_key & index_mask
            second_key = least(lesser(put(best, j & (LANES - 1), TOP), second))
            gap = (second_key & ~index_mask) - (first_key & ~index_mask)
            if n > 1 and gap > 0:
                price[j] -= gap
            elif n > 1 and owner[j] != NOBODY:
                j = second_key & index_mask
            loser = np.int64(owner[j])
            partner[i] = j
            owner[j] = i
            bids += 1
            if loser == NOBODY or stop[0] != 0:
                break
            partner[loser] = NOBODY
            if gap == 0 or bids >= most:
                free[later] = loser
                later += 1
                break
            i = loser
    return later, bids


@inlined
def _augment(ws, start, stride, index_bits, price, owner, partner):
    """The cheapest chain of swaps from a free source to a free sink (Dijkstra), and the prices that keep it so."""
    index_mask = (np.int64(1) << index_bits) - 1
    distance, done, before = ws.row_offset, ws.barred, ws.flow
    scanned = ws.hung_on
    count = 0
    for j in range(0, stride, LANES):
        store(distance, j, spread(TOP))
        store(done, j, spread(BOTTOM))
    i = np.int64(start)
    ahead = np.int64(0)
    while True:
        best = spread(TOP)
        row = spread(i)
        added = spread(ahead)
        for j in range(0, stride, LANES):
            key = plus(minus(load(ws.cost, i * stride + j), load(price, j)), added)
            old = load(distance, j)
            store(before, j, select_less(key, old, row, load(before, j)))
            now = lesser(key, old)
            store(distance, j, now)
            best = lesser(best, larger(now, load(done, j)))
        key = least(best)
        j = key & index_mask
        if owner[j] == NOBODY:
            break
        done[j] = TOP
        scanned[count] = j
        count += 1
        i = np.int64(owner[j])
        ahead = (key & ~index_mask) - ((ws.cost[i * stride + j] & ~index_mask) - price[j])
    reach = key & ~index_mask
    for t in range(count):
        price[scanned[t]] += (distance[scanned[t]] & ~index_mask) - reach
    while True:
        i = before[j]
        owner[j] = i
        taken = np.int64(partner[i])
        partner[i] = j
        j = taken
        if i == start:
            return


@inlined
def _leave_forest(ws, n, stride, index_bits, price, partner):
    """Every source hangs on its sink; potentials as in `simplex`."""
    value_mask = ~((np.int64(1) << index_bits) - 1)
    first = first_sink(n)
    total = np.int64(0)
    for i in range(n):
        total += ws.supply[i]
    for x in range(n, first + n):
        ws.parent[x] = x
    for j in range(n):
        ws.pi[first + j] = -price[j]
    for i in range(n):
        j = np.int64(partner[i])
        ws.parent[i] = first + j
        ws.flow[i] = (total + n // 2) // n
        ws.pi[i] = (ws.cost[i * stride + j] & value_mask) - price[j]
