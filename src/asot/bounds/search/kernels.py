"""The compiled loops of the cascade: bounds of pairs of rows of small tables, a few nanoseconds each. A pair is dropped
as soon as one of its bounds is above the limit. The order is: means and coarse shares, fine shares, rotations,
potentials.
"""

from __future__ import annotations

import numpy as np

from asot.bounds.search.projections import COARSE, SHARES
from asot.jit.compiled import at, compiled, inlined, reordered, unordered
from asot.jit.float_lanes import WIDTH, load, plus_gap, plus_square, spread, store, total
from asot.jit.metrics import CHEBYSHEV, CITYBLOCK, EUCLIDEAN

_COLUMNS = 256  # that all rows of a piece meet, one row after the other, while their coarse table is in the cache


@inlined
def _sums(table, a, b, shares):
    """Σ |x - y| over the shares, of 16 coordinates side by side: each the one-dimensional W_1 of sorted means.

    x and y (shares, 16) begin at a and b of the flat table. Two sums, since one would wait for itself.
    """
    even = spread(np.float32(0.0))
    odd = spread(np.float32(0.0))
    for o in range(0, WIDTH * shares, 2 * WIDTH):
        even = plus_gap(even, load(table, a + o), load(table, b + o))
        odd = plus_gap(odd, load(table, a + o + WIDTH), load(table, b + o + WIDTH))
    return plus_gap(even, odd, spread(np.float32(0.0)))


@reordered
def _joined(norm, total, parts, start, stop):
    """The coordinates start..stop-1 of ``parts`` join the (power of the) norm; the branch is outside of the loop."""
    code, order = norm
    if code == EUCLIDEAN:
        for c in range(start, stop):
            total += parts[at(0, c)] * parts[at(0, c)]
    elif code == CITYBLOCK:
        for c in range(start, stop):
            total += parts[at(0, c)]
    elif code == CHEBYSHEV:
        for c in range(start, stop):
            total = max(total, parts[at(0, c)])
    else:
        for c in range(start, stop):
            total += parts[at(0, c)] ** np.float32(order)
    return total


@inlined
def _norm(norm, total):
    code, order = norm
    if code == EUCLIDEAN:
        return np.sqrt(np.float64(total))
    if code == CITYBLOCK or code == CHEBYSHEV:
        return np.float64(total)
    return np.float64(total) ** (1.0 / order)


@unordered
def _farthest(table, a, b, count):
    """max |x - y| of two rows."""
    largest = np.float32(0.0)
    for t in range(count):
        largest = max(largest, abs(table[at(a, t)] - table[at(b, t)]))
    return np.float64(largest)


@inlined
def _tail(tail, n_tail, norm, lanes, i, j):
    """What the coordinates contribute of which only the mean is known."""
    end = np.float32(0.0)
    for first in range(0, n_tail, WIDTH):
        count = min(WIDTH, n_tail - first)
        for c in range(count):
            lanes[c] = abs(tail[i * n_tail + first + c] - tail[j * n_tail + first + c])
        end = _joined(norm, end, lanes, 0, count)
    return end


@inlined
def _first_look(coarse, tail, sizes, norm, slack, lanes, i, j):
    """The coarse bound. Apart from `_second_look`, so that the few nanoseconds it takes are not spent on the call."""
    end = np.float32(0.0)
    if sizes[4] > 0:
        end = _tail(tail, sizes[4], norm, lanes, i, j)
    row = COARSE * WIDTH
    sums = _sums(coarse, i * row, j * row, COARSE)
    if norm[0] == EUCLIDEAN:
        bound = np.sqrt(np.float64(end + total(plus_square(spread(np.float32(0.0)), sums))))
    else:
        store(lanes, 0, sums)
        bound = _norm(norm, _joined(norm, end, lanes, 0, WIDTH))
    return bound * (1.0 - slack[0]) - slack[1]


@inlined
def _second_look(fine, mixed, tail, pool, sizes, norm, slack, lanes, i, j, limit):
    """The first of the finer bounds that is above ``limit``, or the largest of all."""
    n, has_projections, n_groups, n_mixed, n_tail, n_pool = sizes
    best = 0.0
    if has_projections:
        keep = 1.0 - slack[0]
        end = _tail(tail, n_tail, norm, lanes, i, j)
        row = SHARES * WIDTH
        store(lanes, 0, _sums(fine, i * row, j * row, SHARES))
        end = _joined(norm, end, lanes, n_mixed, WIDTH)
        best = _norm(norm, _joined(norm, end, lanes, 0, n_mixed)) * keep - slack[1]
        for g in range(n_groups):
            if best > limit:
                break
            store(lanes, 0, _sums(mixed, (g * n + i) * row, (g * n + j) * row, SHARES))
            for first in range(0, WIDTH - n_mixed + 1, n_mixed):
                turned = _joined(norm, end, lanes, first, first + n_mixed)
                best = max(best, _norm(norm, turned) * keep - slack[1])
    if n_pool > 0 and best <= limit:
        best = max(best, _farthest(pool, i * n_pool, j * n_pool, n_pool) * (1.0 - slack[2]) - slack[3])
    return best


@compiled
def nearest(
    coarse, fine, mixed, tail, pool, sizes, norm, slack, n_columns, column_start, within, start, stop, top, columns,
    bounds,
):  # fmt: skip
    """Keep, for the rows start..stop-1, the columns with the smallest bounds, ascending, in line ``row - top``."""
    lanes = np.empty(WIDTH, np.float32)
    last = columns.shape[1] - 1
    for block in range(0, n_columns, _COLUMNS):
        for i in range(start, stop):
            for j in range(block, min(block + _COLUMNS, n_columns)):
                if within and i == j:
                    continue
                line = i - top
                limit = bounds[line, last]
                bound = _first_look(coarse, tail, sizes, norm, slack, lanes, i, column_start + j) if sizes[1] else 0.0
                if bound < limit:
                    more = _second_look(
                        fine, mixed, tail, pool, sizes, norm, slack, lanes, i, column_start + j, limit
                    )  # fmt: skip
                    bound = max(bound, more)
                if bound >= limit:
                    continue
                place = last
                while place > 0 and bounds[line, place - 1] > bound:
                    bounds[line, place] = bounds[line, place - 1]
                    columns[line, place] = columns[line, place - 1]
                    place -= 1
                bounds[line, place] = bound
                columns[line, place] = j


@inlined
def limit_of(limits, settled, within, i, j):
    """The largest distance at which a pair still matters to one of its ends; -1 if it matters at none.

    Column j is out of the question for row i if the row's limit is 0 and its neighbors come before j (``settled``).
    """
    if within and j <= i:
        return -1.0
    limit = limits[i] if limits[i] > 0.0 or j < settled[i] else -1.0
    if within and (limits[j] > 0.0 or i < settled[j]):
        limit = max(limit, limits[j])
    return limit


@compiled
def within_limits(
    coarse, fine, mixed, tail, pool, sizes, norm, slack, first, column_start, within, start, low, high, limits,
    settled, possible,
):  # fmt: skip
    """Mark, for the rows low..high-1, the columns whose bound is not above the limit of one end."""
    lanes = np.empty(WIDTH, np.float32)
    n_columns = first + possible.shape[1]
    for block in range(first, n_columns, _COLUMNS):
        for i in range(low, high):
            for j in range(block, min(block + _COLUMNS, n_columns)):
                possible[i - start, j - first] = False
                limit = limit_of(limits, settled, within, i, j)
                if limit >= 0.0:
                    bound = (
                        _first_look(coarse, tail, sizes, norm, slack, lanes, i, column_start + j) if sizes[1] else 0.0
                    )
                    if bound <= limit:
                        bound = _second_look(
                            fine, mixed, tail, pool, sizes, norm, slack, lanes, i, column_start + j, limit
                        )  # fmt: skip
                    possible[i - start, j - first] = bound <= limit
