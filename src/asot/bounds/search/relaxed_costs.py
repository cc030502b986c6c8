"""Costs between the distinct points of some rows and of some columns, in float32: what relaxed bounds are made of.

Rows and columns share most of their points where they come from a vocabulary, so that a block of costs is computed
once for all pairs of them. Every entry is at most (1 + 2^-22) times the true cost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.jit.compiled import at, inlined
from asot.jit.costs import ARC, HALF_SQUARE, PLAIN
from asot.jit.float_lanes import WIDTH, load, plus_product, spread, store
from asot.jit.metrics import fill_distances

TINY = 1e-30
"""Smaller costs count as 0: as float32 they would have fewer digits than the others."""

TINY_SQUARE = 1e-34
"""Smaller squared distances count as 0, since the products they are made of may have been too small for float32."""

_CHUNK = 32  # points of the columns whose distances are computed at a time


class Histograms(NamedTuple):
    """The collection: who has which distinct point, and with what mass."""

    offsets: NDArray[np.int64]  # (N + 1,)
    names: NDArray[np.int64]  # (nnz,) of points, ascending within a distribution
    masses: NDArray[np.int64]  # (nnz,) total 2^60 within a distribution
    points: NDArray[np.float64]  # (V, d) in the units of the ground metric
    short: NDArray[np.float32]  # (V, d) the same around their center, for the Euclidean metric; else (0, d)
    squares: NDArray[np.float32]  # (V,) squared lengths of those, less what rounding can add to a squared distance
    table: NDArray[np.float64]  # (V, V) of distances, for costs without a kernel; else (0, 0)
    prices: NDArray[np.float32]  # (V,) what a unit of mass costs that stays unmatched, to the power; else inf


class Cost(NamedTuple):
    """What shipping a unit of mass costs: a power of the ground distance."""

    code: int | None  # `Ground.kernel`
    order: float
    transform: int  # as in `asot.jit.costs`
    power: float
    error: float  # by which a computed distance may be off in absolute terms
    cancels: bool  # common mass may be left out: the cost is a metric


class Block(NamedTuple):
    """Costs between the distinct points of some columns (v) and of some rows (x), float32, row after row."""

    costs: NDArray[np.float32]  # (n_v, stride), flat
    stride: int
    place_x: NDArray[np.int32]  # (V,) where a point stands among those of the rows
    place_v: NDArray[np.int32]  # (V,)


@inlined
def _distinct(h, low, high, place):
    """Number the points of the distributions low..high-1 in ``place`` (V,), which is -1 elsewhere; their names."""
    names = np.empty(min(h.offsets[high] - h.offsets[low], len(place)), np.int64)
    place[:] = -1
    count = 0
    for t in range(h.offsets[low], h.offsets[high]):
        v = h.names[t]
        if place[v] < 0:
            place[v] = count
            names[count] = v
            count += 1
    return names[:count]


@inlined
def fill_block(h, cost, xs, vs, place_x, place_v):
    """Costs between the points ``vs`` of the columns and ``xs`` of the rows, which stand at the given places."""
    stride = (len(xs) + WIDTH - 1) // WIDTH * WIDTH
    if len(h.table) > 0:
        costs = _looked_up_costs(h, cost, xs, vs, stride)
    elif len(h.short) > 0:
        costs = _short_costs(h, cost, xs, vs, stride)
    else:
        costs = _wide_costs(h, cost, xs, vs, stride)
    return Block(costs, stride, place_x, place_v)


@inlined
def _looked_up_costs(h, cost, xs, vs, stride):
    wide = np.zeros(stride)
    costs = np.empty(len(vs) * stride, np.float32)
    for i in range(len(vs)):
        row = h.table[vs[i]]
        for j in range(len(xs)):
            wide[j] = row[xs[j]]
        _to_costs(cost, wide, stride, costs, i * stride)
    return costs


@inlined
def _wide_costs(h, cost, xs, vs, stride):
    """By the metric's own kernel, in float64."""
    d = h.points.shape[1]
    width = (d + 3) & ~3
    y = np.zeros(width * stride)
    for j in range(len(xs)):
        for c in range(d):
            y[c * stride + j] = h.points[xs[j], c]
    chunk = min(_CHUNK, len(vs))
    x = np.zeros((chunk + 1) * width)
    wide = np.empty((chunk + 1) * stride)
    costs = np.empty(len(vs) * stride, np.float32)
    for start in range(0, len(vs), chunk):
        count = min(chunk, len(vs) - start)
        for i in range(count):
            for c in range(d):
                x[i * width + c] = h.points[vs[start + i], c]
        fill_distances(cost.code, cost.order, x, y, count, stride, width, wide)
        _to_costs(cost, wide, count * stride, costs, start * stride)
    return costs


@inlined
def _short_costs(h, cost, xs, vs, stride):
    """Euclidean: |x|² + |v|² - 2 x·v, six points of the columns and sixteen of the rows at a time."""
    d = h.short.shape[1]
    y = np.zeros(d * stride, np.float32)
    for j in range(len(xs)):
        for c in range(d):
            y[c * stride + j] = np.float32(-2.0) * h.short[xs[j], c]
    squares = np.zeros(stride, np.float32)
    for j in range(len(xs)):
        squares[j] = h.squares[xs[j]]
    padded = (len(vs) + 5) // 6 * 6
    costs = np.empty(padded * stride, np.float32)
    x = np.zeros(6 * d, np.float32)
    for start in range(0, padded, 6):
        for i in range(6):
            v = vs[min(start + i, len(vs) - 1)]
            for c in range(d):
                x[6 * c + i] = h.short[v, c]
        for j in range(0, stride, WIDTH):
            own = load(squares, j)
            s0, s1, s2, s3, s4, s5 = own, own, own, own, own, own
            for c in range(d):
                column = load(y, c * stride + j)
                s0 = plus_product(s0, spread(x[6 * c]), column)
                s1 = plus_product(s1, spread(x[6 * c + 1]), column)
                s2 = plus_product(s2, spread(x[6 * c + 2]), column)
                s3 = plus_product(s3, spread(x[6 * c + 3]), column)
                s4 = plus_product(s4, spread(x[6 * c + 4]), column)
                s5 = plus_product(s5, spread(x[6 * c + 5]), column)
            o = start * stride + j
            store(costs, o, s0)
            store(costs, o + stride, s1)
            store(costs, o + 2 * stride, s2)
            store(costs, o + 3 * stride, s3)
            store(costs, o + 4 * stride, s4)
            store(costs, o + 5 * stride, s5)
        for i in range(6):
            _to_powers(cost, costs, (start + i) * stride, stride, h.squares[vs[min(start + i, len(vs) - 1)]])
    return costs


@inlined
def _to_powers(cost, costs, start, count, more):
    """Squared Euclidean distances less ``more`` become powers of what is taken of the distance."""
    for t in range(count):
        square = costs[at(start, t)] + more
        costs[at(start, t)] = square if square > np.float32(TINY_SQUARE) else np.float32(0.0)
    if cost.transform == PLAIN and cost.power == 1.0:
        for t in range(count):
            costs[at(start, t)] = np.sqrt(costs[at(start, t)])
    elif cost.transform == ARC:
        for t in range(count):
            half = 0.5 * np.sqrt(np.float64(costs[at(start, t)]))
            costs[at(start, t)] = np.float32((2.0 * np.arcsin(min(1.0, half))) ** cost.power)
    else:
        factor = np.float32(0.5) if cost.transform == HALF_SQUARE else np.float32(1.0)
        power = 0.5 * cost.power if cost.transform == PLAIN else cost.power
        for t in range(count):
            costs[at(start, t)] *= factor
        if power != 1.0:
            for t in range(count):
                costs[at(start, t)] = np.float32(np.float64(costs[at(start, t)]) ** power)


@inlined
def block_of(h, cost, low, high, first, last):
    """The block of rows low..high-1 and columns first..last-1 (both named as in the collection)."""
    place_x = np.empty(len(h.points), np.int32)
    place_v = np.empty(len(h.points), np.int32)
    xs = _distinct(h, low, high, place_x)
    vs = _distinct(h, first, last, place_v)
    return fill_block(h, cost, xs, vs, place_x, place_v)


@inlined
def _to_costs(cost, wide, count, costs, start):
    if cost.power == 1.0 and cost.error == 0.0:
        for t in range(count):
            costs[at(start, t)] = np.float32(wide[t] if wide[t] > TINY else 0.0)
        return
    for t in range(count):
        value = max(0.0, wide[t] - cost.error)
        if cost.power == 2.0:
            value *= value
        elif cost.power != 1.0:
            value **= cost.power
        costs[at(start, t)] = np.float32(value if value > TINY else 0.0)
