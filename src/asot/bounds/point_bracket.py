"""From a plan on the anchors to a plan and a bracket on the original points (docs/method.md §6).

For a pair of distributions, what both have on a point is canceled, and the anchor plan says how much of the rest goes
from which cell to which. Two things are made of it:

* *an upper bound*: each arc of the anchor plan takes its mass from the points of its first cell that lie toward the
  second, and what stays in a cell is joined in order of position. That is a plan on the original points; its price is
  at least W_1.
* *a lower bound*: every point takes the potential of its anchor, and c-transforms with the distances between the points
  make these potentials feasible. Feasible potentials are worth at most W_1. Each side begins once, and the better
  result counts.

Distances are those of `asot.bounds.short_vectors`: never too long in the lower bound, never too short in the upper one.
They are computed in float32, around a point of the pair, and the bounds are widened by the error that this can cause.
Points are numbered cell by cell and by their first coordinate, so that the points of a distribution in a cell are
neighbors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.bounds.blocks import BARRED, block_stride, column_transform, fill_block, row_transform
from asot.bounds.point_table import PointTable
from asot.exact.shared_cost import Trees
from asot.exact.workspace import MASS_BITS, TOP
from asot.jit.compiled import at, compiled, inlined


def bracket(
    table: PointTable, trees: Trees, rows: NDArray[np.int64], columns: NDArray[np.int64], exponent: int, stop: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper bounds (P,) on W_1 of the pairs of a tile, rounded outward."""
    lower, upper = np.zeros(len(rows)), np.zeros(len(rows))
    half = -exponent // 2  # 2^-exponent itself may be out of range
    _bracket_tile(
        *table[:7], rows, columns, table.largest(rows), table.largest(columns),
        trees.start, trees.source, trees.sink, trees.mass, trees.potential, 2.0**half, 2.0 ** (-exponent - half),
        lower, upper, stop,
    )  # fmt: skip
    return np.ldexp(lower, exponent - MASS_BITS), np.ldexp(upper, exponent - MASS_BITS)


def lift(
    table: PointTable, trees: Trees, row: int, column: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The lifted plan of the single pair of ``trees``: numbers of the points in the table, and masses in 2^-60.

    What both distributions have on a point stays there and is not listed.
    """
    both = np.array([row]), np.array([column])
    return _lift_one(
        *table[:7], row, column, table.largest(both[0]), table.largest(both[1]),
        trees.start, trees.source, trees.sink, trees.mass,
    )  # fmt: skip


class _Scratch(NamedTuple):
    """Memory of one thread for a pair of p sources and q sinks."""

    source: NDArray[np.int64]  # (p,) numbers of the points that have something to give
    sink: NDArray[np.int64]  # (q,)
    supply: NDArray[np.int64]  # (p,)
    demand: NDArray[np.int64]  # (q,)
    x: NDArray[np.float32]  # (p, w), flat
    y: NDArray[np.float32]  # (w, stride), flat
    distance: NDArray[np.float32]  # (p, stride), flat
    f: NDArray[np.float32]  # (p,)
    g: NDArray[np.float32]  # (stride,)
    source_low: NDArray[np.int64]  # (k,) the sources of each cell that are not used up begin here ...
    source_high: NDArray[np.int64]  # (k,) ... and end here
    sink_low: NDArray[np.int64]  # (k,)
    sink_high: NDArray[np.int64]  # (k,)
    arc_source: NDArray[np.int64]  # (arcs,) what is shipped
    arc_sink: NDArray[np.int64]
    arc_mass: NDArray[np.int64]


@compiled
def _make_scratch(most_sources, most_sinks, k, width):  # type: ignore[no-untyped-def]
    stride = block_stride(most_sinks)
    arcs = most_sources + most_sinks + 2 * k + 2  # each use of an arc empties a source, a sink or an anchor's arc
    return _Scratch(
        np.empty(most_sources + 1, np.int64),
        np.empty(most_sinks + 1, np.int64),
        np.empty(most_sources + 1, np.int64),
        np.empty(most_sinks + 1, np.int64),
        np.zeros((most_sources + 3) * width, np.float32),
        np.empty(width * stride, np.float32),
        np.empty((most_sources + 3) * stride, np.float32),
        np.empty(most_sources, np.float32),
        np.empty(stride, np.float32),
        np.empty(k, np.int64),
        np.empty(k, np.int64),
        np.empty(k, np.int64),
        np.empty(k, np.int64),
        np.empty(arcs, np.int64),
        np.empty(arcs, np.int64),
        np.empty(arcs, np.int64),
    )


@inlined
def _merge(s, offsets, index, masses, a, b):  # type: ignore[no-untyped-def]
    """Points where one distribution has more mass than the other, and how much more."""
    p = 0
    q = 0
    i = offsets[a]
    j = offsets[b]
    i_end = offsets[a + 1]
    j_end = offsets[b + 1]
    while i < i_end or j < j_end:
        from_a = j == j_end or (i < i_end and index[i] <= index[j])
        from_b = i == i_end or (j < j_end and index[j] <= index[i])
        surplus = (masses[i] if from_a else 0) - (masses[j] if from_b else 0)
        if surplus > 0:
            s.supply[p] = surplus
            s.source[p] = index[i]
            p += 1
        elif surplus < 0:
            s.demand[q] = -surplus
            s.sink[q] = index[j]
            q += 1
        i += from_a
        j += from_b
    return p, q


# ---------------------------------------------------------------------------------------------------------- distances


@inlined
def _measure(s, points, p, q):  # type: ignore[no-untyped-def]
    """All distances between sources and sinks; returns a size that no coordinate exceeds."""
    width = points.shape[1]
    stride = block_stride(q)
    origin = points[s.source[0]]
    for i in range(p):
        own = points[s.source[i]]
        for c in range(width):
            s.x[at(i * width, c)] = np.float32(own[c] - origin[c])
    for j in range(q):
        own = points[s.sink[j]]
        for c in range(width):
            s.y[at(c * stride, j)] = np.float32(own[c] - origin[c])
    for c in range(width):
        for j in range(q, stride):
            s.y[at(c * stride, j)] = np.float32(0.0)
    fill_block(s.x, 0, s.y, 0, s.distance, p, width, stride)
    # The origin is the first source: distances from it are lengths, and so, nearly, are those to the first sink.
    size = np.float32(0.0)
    for j in range(q):
        size = max(size, s.distance[j])
    for i in range(p):
        size = max(size, s.distance[i * stride] + s.distance[0])
    return np.float64(size)


# ---------------------------------------------------------------------------------------------------------- lower bound


@inlined
def _worth(s, p, q):  # type: ignore[no-untyped-def]
    """⟨f, supply⟩ + ⟨g, demand⟩."""
    total = 0.0
    for i in range(p):
        total += np.float64(s.supply[i]) * np.float64(s.f[i])
    for j in range(q):
        total += np.float64(s.demand[j]) * np.float64(s.g[j])
    return total


@inlined
def _dual_bound(s, cell, potential, scale, more_scale, p, q):  # type: ignore[no-untyped-def]
    """The better of two feasible pairs of potentials: c-transforms that begin at the sources or at the sinks.

    Returns it with the size of the potentials it began with, which are counted from that of the first source.
    """
    stride = block_stride(q)
    base = potential[cell[s.source[0]]]
    size = 0.0
    for i in range(p):
        start = (potential[cell[s.source[i]]] - base) * scale * more_scale
        s.f[i] = np.float32(start)
        size = max(size, abs(start))
    column_transform(s.distance, s.f, s.g, p, q, stride)
    row_transform(s.distance, s.g, s.f, p, stride)
    first = _worth(s, p, q)
    for j in range(q):
        start = (base - potential[cell[s.sink[j]]]) * scale * more_scale
        s.g[j] = np.float32(start)
        size = max(size, abs(start))
    for j in range(q, stride):
        s.g[j] = BARRED
    row_transform(s.distance, s.g, s.f, p, stride)
    column_transform(s.distance, s.f, s.g, p, q, stride)
    return max(first, _worth(s, p, q)), size


# ---------------------------------------------------------------------------------------------------------- upper bound


@inlined
def _find_cells(names, count, cell, low, high, k):  # type: ignore[no-untyped-def]
    """Where the points of each cell begin and end in an ascending list of points."""
    for u in range(k):
        low[u] = 0
        high[u] = 0
    for t in range(count):
        own = cell[names[t]]
        if high[own] == 0:
            low[own] = t
        high[own] = t + 1


@inlined
def _ship(s, u, v, limit, sources_from_above, sinks_from_above, arc):  # type: ignore[no-untyped-def]
    """Ship up to ``limit`` from the sources of cell u to the sinks of cell v, each from one end of its cell.

    Returns the next free arc.
    """
    i0, i1 = s.source_low[u], s.source_high[u]
    j0, j1 = s.sink_low[v], s.sink_high[v]
    while limit > 0 and i0 < i1 and j0 < j1:
        i = i1 - 1 if sources_from_above else i0
        j = j1 - 1 if sinks_from_above else j0
        mass = min(limit, min(s.supply[i], s.demand[j]))
        s.arc_source[arc] = i
        s.arc_sink[arc] = j
        s.arc_mass[arc] = mass
        arc += 1
        limit -= mass
        s.supply[i] -= mass
        s.demand[j] -= mass
        if s.supply[i] == 0:
            if sources_from_above:
                i1 -= 1
            else:
                i0 += 1
        if s.demand[j] == 0:
            if sinks_from_above:
                j1 -= 1
            else:
                j0 += 1
    s.source_low[u], s.source_high[u] = i0, i1
    s.sink_low[v], s.sink_high[v] = j0, j1
    return arc


@inlined
def _sort_arcs(source, sink, mass, begin, end):  # type: ignore[no-untyped-def]
    """Arcs by source and then by sink. Which end of a tree's arc is the parent depends on the solver's pivots."""
    for e in range(begin + 1, end):
        u, v, m = source[e], sink[e], mass[e]
        place = e
        while place > begin and (source[place - 1] > u or (source[place - 1] == u and sink[place - 1] > v)):
            source[place], sink[place], mass[place] = source[place - 1], sink[place - 1], mass[place - 1]
            place -= 1
        source[place], sink[place], mass[place] = u, v, m


@inlined
def _lift(s, cell, height, p, q, start, source, sink, mass, t):  # type: ignore[no-untyped-def]
    """Fill the arcs with a plan of all supply and demand (which it uses up); returns how many there are.

    Anchor masses and point masses are rounded each by itself, so a few units of 2^-60 may be left when the anchor plan
    is done; they go wherever there is room.
    """
    k = len(height)
    _find_cells(s.source, p, cell, s.source_low, s.source_high, k)
    _find_cells(s.sink, q, cell, s.sink_low, s.sink_high, k)
    arc = 0
    _sort_arcs(source, sink, mass, start[t], start[t + 1])
    for e in range(start[t], start[t + 1]):
        u, v = source[e], sink[e]
        upwards = height[v] > height[u]
        arc = _ship(s, u, v, mass[e], upwards, not upwards, arc)
    for u in range(k):
        arc = _ship(s, u, u, TOP, False, False, arc)
    j = 0
    for i in range(p):
        while s.supply[i] > 0 and j < q:
            moved = min(s.supply[i], s.demand[j])
            if moved > 0:
                s.arc_source[arc] = i
                s.arc_sink[arc] = j
                s.arc_mass[arc] = moved
                arc += 1
                s.supply[i] -= moved
                s.demand[j] -= moved
            if s.demand[j] == 0:
                j += 1
    return arc


@compiled
def _bracket_tile(  # type: ignore[no-untyped-def]
    offsets, index, masses, cell, points, rest, height, rows, columns, most_sources, most_sinks,
    start, source, sink, mass, potential, scale, more_scale, lower, upper, stop,
):  # fmt: skip
    s = _make_scratch(most_sources, most_sinks, len(height), points.shape[1])
    rounding = (8.0 + 0.25 * points.shape[1]) * 2.0**-23
    for t in range(len(rows)):
        if stop[0] != 0:
            return
        p, q = _merge(s, offsets, index, masses, rows[t], columns[t])
        if p == 0:
            continue
        size = _measure(s, points, p, q)
        total = 0.0
        for i in range(p):
            total += np.float64(s.supply[i])
        worth, potential_size = _dual_bound(s, cell, potential[t], scale, more_scale, p, q)
        arcs = _lift(s, cell, height, p, q, start, source, sink, mass, t)
        stride = block_stride(q)
        price = 0.0
        for e in range(arcs):
            i, j = s.arc_source[e], s.arc_sink[e]
            short = np.float64(s.distance[i * stride + j])
            price += s.arc_mass[e] * np.sqrt(short * short + 4.0 * rest[s.source[i]] * rest[s.sink[j]])
        slack = rounding * total * (size + size + potential_size)
        lower[t] = worth - slack
        upper[t] = price + slack


@compiled
def _lift_one(  # type: ignore[no-untyped-def]
    offsets, index, masses, cell, points, rest, height, row, column, most_sources, most_sinks, start, source, sink, mass
):
    s = _make_scratch(most_sources, most_sinks, len(height), points.shape[1])
    p, q = _merge(s, offsets, index, masses, row, column)
    if p == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    arcs = _lift(s, cell, height, p, q, start, source, sink, mass, 0)
    return s.source[s.arc_source[:arcs]], s.sink[s.arc_sink[:arcs]], s.arc_mass[:arcs].copy()
