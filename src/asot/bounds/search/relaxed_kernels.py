"""The compiled loops of the relaxed bound: every pair of some rows and some columns, from one block of costs.

The relaxed bound of a pair is a sum over its points of minima that many pairs share (`_relax`): tens of nanoseconds.
Only pairs that it leaves in question look at their own part of the block (`_reduced`).

Everything is a lower bound up to a factor of 1 ± 2^-21, since all terms are positive: costs are rounded to float32, and
a difference of two of them is smaller than the larger one. `KEEP` covers that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.bounds.search.kernels import limit_of
from asot.bounds.search.relaxed_costs import block_of, fill_block
from asot.jit.compiled import at, compiled, inlined
from asot.jit.float_lanes import WIDTH, least, lesser, load, minus, spread, store

KEEP = 1.0 - 2.0**-20
"""A bound minus all possible rounding, so that it is certainly not too large."""


@inlined
def _lower_all(smallest, costs, start, count):
    """smallest = min(smallest, costs[start:start + count]), entry by entry."""
    for t in range(0, count, WIDTH):
        store(smallest, t, lesser(load(smallest, t), load(costs, start + t)))


@inlined
def _relax(h, block, low, high, first, last, bounds):
    """The relaxed bound of every pair into ``bounds`` (rows, columns), in units of mass 1.

    Every point ships to the nearest one of the other side. From a column's points to row i: minima over the points
    of i, one number for each point of any column. From a row's points to column j: minima over the points of j.
    """
    n_rows = high - low
    unit = 2.0**-60
    nearest_row = np.empty((len(block.costs) // block.stride, n_rows), np.float32)
    for v in range(len(nearest_row)):
        o = v * block.stride
        for i in range(n_rows):
            smallest = np.float32(np.inf)
            for s in range(h.offsets[low + i], h.offsets[low + i + 1]):
                value = block.costs[at(o, block.place_x[h.names[s]])]
                smallest = value if value < smallest else smallest
            nearest_row[v, i] = smallest
    to_rows = np.empty(n_rows)
    nearest = np.empty(block.stride, np.float32)
    for j in range(first, last):
        to_rows[:] = 0.0
        nearest[:] = np.inf
        for t in range(h.offsets[j], h.offsets[j + 1]):
            v = block.place_v[h.names[t]]
            mass = h.masses[t] * unit
            price = h.prices[h.names[t]]
            for i in range(n_rows):
                to_rows[i] += mass * min(price, nearest_row[v, i])
            _lower_all(nearest, block.costs, v * block.stride, block.stride)
        for i in range(n_rows):
            to_column = 0.0
            for s in range(h.offsets[low + i], h.offsets[low + i + 1]):
                least_cost = min(h.prices[h.names[s]], nearest[at(0, block.place_x[h.names[s]])])
                to_column += h.masses[s] * unit * least_cost
            bounds[i, j - first] = max(to_rows[i], to_column) * KEEP


class _Pair(NamedTuple):
    """Scratch for the points that a pair has to ship between."""

    x: NDArray[np.int64]  # (n,) places in the block
    v: NDArray[np.int64]  # (m,)
    supply: NDArray[np.float64]  # (n,)
    demand: NDArray[np.float64]  # (m,)
    price_x: NDArray[np.float32]  # (n,) padded, of unmatched mass
    price_v: NDArray[np.float32]  # (m,)
    costs: NDArray[np.float32]  # (m, n), rows padded, flat
    f: NDArray[np.float32]  # (n,) padded
    g: NDArray[np.float32]  # (m,)
    again: NDArray[np.float32]  # (n,) padded


@inlined
def _make_pair(n, m):
    padded = (n + 15) & ~15
    return _Pair(
        np.empty(n, np.int64), np.empty(m, np.int64), np.empty(n), np.empty(m), np.empty(padded, np.float32),
        np.empty(m, np.float32), np.empty(m * padded, np.float32), np.empty(padded, np.float32),
        np.empty(m, np.float32), np.empty(padded, np.float32),
    )  # fmt: skip


@inlined
def _place_pair(h, cost, block, pair, a, b):
    """Sources and sinks of a pair; mass that both have on a point stays there, if the cost is a metric."""
    p = 0
    q = 0
    s = h.offsets[a]
    t = h.offsets[b]
    s_end = h.offsets[a + 1]
    t_end = h.offsets[b + 1]
    while s < s_end or t < t_end:
        from_a = t == t_end or (s < s_end and h.names[s] <= h.names[t])
        from_b = s == s_end or (t < t_end and h.names[t] <= h.names[s])
        given = h.masses[s] if from_a else np.int64(0)
        taken = h.masses[t] if from_b else np.int64(0)
        if cost.cancels:
            common = min(given, taken)
            given -= common
            taken -= common
        if given > 0:
            pair.x[p] = block.place_x[h.names[s]]
            pair.supply[p] = given * 2.0**-60
            pair.price_x[p] = h.prices[h.names[s]]
            p += 1
        if taken > 0:
            pair.v[q] = block.place_v[h.names[t]]
            pair.demand[q] = taken * 2.0**-60
            pair.price_v[q] = h.prices[h.names[t]]
            q += 1
        s += from_a
        t += from_b
    stride = (p + 15) & ~15
    for j in range(q):
        o = j * stride
        row = pair.v[j] * block.stride
        for i in range(p):
            pair.costs[at(o, i)] = block.costs[at(row, pair.x[i])]
        for i in range(p, stride):
            pair.costs[at(o, i)] = np.float32(np.inf)
    return p, q


@inlined
def _reduced(pair, p, q, limit):
    """The first of the reduced bounds above ``limit``, or the larger of both.

    g_j = min_i c_ij and then f_i = min_j c_ij - g_j are dual potentials: f_i + g_j ≤ c_ij, whatever the cost is. So
    are those with the roles exchanged. Without the second step this is the relaxed bound. Where mass may stay
    unmatched, no potential exceeds the price of its point, and those of the reservoirs are 0.
    """
    stride = (p + 15) & ~15
    infinite = spread(np.float32(np.inf))
    pair.price_x[p:stride] = np.inf
    pair.f[:stride] = pair.price_x[:stride]
    forth = 0.0
    for j in range(q):
        smallest = infinite
        for t in range(0, stride, WIDTH):
            costs = load(pair.costs, j * stride + t)
            smallest = lesser(smallest, costs)
            store(pair.f, t, lesser(load(pair.f, t), costs))
        pair.g[j] = min(least(smallest), pair.price_v[j])
        forth += pair.demand[j] * pair.g[j]
    if forth * KEEP > limit:
        return forth * KEEP
    back = 0.0
    for i in range(p):
        back += pair.supply[i] * pair.f[i]
    if back * KEEP > limit:
        return back * KEEP
    pair.f[p:stride] = 0.0
    pair.again[:stride] = pair.price_x[:stride]
    for j in range(q):
        smallest = infinite
        height = spread(pair.g[j])
        for t in range(0, stride, WIDTH):
            costs = load(pair.costs, j * stride + t)
            smallest = lesser(smallest, minus(costs, load(pair.f, t)))
            store(pair.again, t, lesser(load(pair.again, t), minus(costs, height)))
        back += pair.demand[j] * min(least(smallest), pair.price_v[j])
    for i in range(p):
        forth += pair.supply[i] * pair.again[i]
    return max(forth, back) * KEEP


@inlined
def _largest_size(h, low, high):
    largest = 0
    for i in range(low, high):
        largest = max(largest, h.offsets[i + 1] - h.offsets[i])
    return largest


@compiled
def relaxed_bounds(h, cost, low, high, first, last, bounds):
    """Relaxed bounds of the rows low..high-1 and columns first..last-1 into ``bounds`` (rows, columns)."""
    block = block_of(h, cost, low, high, first, last)
    _relax(h, block, low, high, first, last, bounds)


@compiled
def keep_smallest(bounds, low, first, within, top, columns, smallest):
    """Merge bounds (rows, columns) of rows from ``low`` and columns from ``first`` into each row's smallest ones.

    Those of a row are in line ``row - top``.
    """
    last = columns.shape[1] - 1
    for i in range(low, low + bounds.shape[0]):
        line = i - top
        for j in range(first, first + bounds.shape[1]):
            bound = bounds[i - low, j - first]
            if bound >= smallest[line, last] or (within and i == j):
                continue
            place = last
            while place > 0 and smallest[line, place - 1] > bound:
                smallest[line, place] = smallest[line, place - 1]
                columns[line, place] = columns[line, place - 1]
                place -= 1
            smallest[line, place] = bound
            columns[line, place] = j


@compiled
def still_possible(h, cost, low, high, first, last, column_start, within, limits, settled, possible):
    """Mark in ``possible`` (rows, columns) the pairs whose bounds are not above the limit of one end.

    Returns how many pairs the relaxed bound left to the reduced one.
    """
    block = block_of(h, cost, low, high, column_start + first, column_start + last)
    bounds = np.empty((high - low, last - first))
    _relax(h, block, low, high, column_start + first, column_start + last, bounds)
    pair = _make_pair(_largest_size(h, low, high), _largest_size(h, column_start + first, column_start + last))
    doubted = 0
    for i in range(low, high):
        for j in range(first, last):
            limit = limit_of(limits, settled, within, i, j)
            left = bounds[i - low, j - first] <= limit
            if left:
                doubted += 1
                p, q = _place_pair(h, cost, block, pair, i, column_start + j)
                left = _reduced(pair, p, q, limit) <= limit
            possible[i - low, j - first] = left
    return doubted


@compiled
def keep_possible(h, cost, rows, columns, column_start, within, limits, settled, possible):
    """Mark in ``possible`` (P,) the single pairs whose reduced bounds are not above the limit of one end."""
    place_x = np.empty(len(h.points), np.int32)  # only read where a pair has written
    place_v = np.empty(len(h.points), np.int32)
    most_x = 0
    most_v = 0
    for t in range(len(rows)):
        a = rows[t]
        b = column_start + columns[t]
        most_x = max(most_x, h.offsets[a + 1] - h.offsets[a])
        most_v = max(most_v, h.offsets[b + 1] - h.offsets[b])
    pair = _make_pair(most_x, most_v)
    for t in range(len(rows)):
        a = rows[t]
        b = column_start + columns[t]
        xs = h.names[h.offsets[a] : h.offsets[a + 1]]
        vs = h.names[h.offsets[b] : h.offsets[b + 1]]
        for i in range(len(xs)):
            place_x[xs[i]] = i
        for j in range(len(vs)):
            place_v[vs[j]] = j
        block = fill_block(h, cost, xs, vs, place_x, place_v)
        p, q = _place_pair(h, cost, block, pair, a, b)
        limit = limit_of(limits, settled, within, a, columns[t])
        possible[t] = _reduced(pair, p, q, limit) <= limit
