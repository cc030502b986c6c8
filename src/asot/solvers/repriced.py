"""Pricing an anchor plan with each distribution's own points: by cell, so that its cost is that of the plan itself.

A distribution keeps, for every anchor it has mass at, the mean of its own points there. A pair's anchor plan is priced
with these means instead of the anchors (docs/method.md §7), and the anchor potentials are improved by c-transforms with
the distances between the means. The two bracket the optimum of the transport between means, which is much nearer to W_1
than the distance on the anchors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.anchors.space import Cells
from asot.compiled import at, compiled, inlined, unordered
from asot.solvers.exact_shared import Trees
from asot.solvers.workspace import MASS_BITS

FAR = np.float32(1e15)
"""Coordinate of a column that is only padding: far from everything, and its square is still a float32."""

BARRED = np.float32(-1e30)
"""Potential of a padding column: no row's minimum takes it."""


class LocalMeans(NamedTuple):
    """Local means of every distribution, ready to be compared: as rows, and transposed with padding."""

    offsets: NDArray[np.int64]  # (N + 1,)
    anchor: NDArray[np.int32]  # (cells,)
    mass: NDArray[np.float64]  # (cells,)
    place: NDArray[np.int32]  # (N, k) where the cell of an anchor stands among those of its distribution, or -1
    rows: NDArray[np.float32]  # (cells, w)
    column_offsets: NDArray[np.int64]  # (N + 1,)
    columns: NDArray[np.float32]  # flat: (w, stride) for each distribution, stride a multiple of 16
    centres: NDArray[np.float64]  # (N, w) mean of each distribution


def local_means(cells: Cells, n_anchors: int) -> LocalMeans:
    """From means whose coordinates are at most about 1 in size."""
    sizes = np.diff(cells.offsets)
    strides = (sizes + 15) & ~15
    width = cells.mean.shape[1]
    column_offsets = np.concatenate([[0], np.cumsum(strides * width)])
    place = np.full((len(sizes), n_anchors), -1, dtype=np.int32)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    within = np.arange(len(owner)) - cells.offsets[owner]
    place[owner, cells.anchor] = within
    rows = np.ascontiguousarray(cells.mean, dtype=np.float32)
    columns = np.full(column_offsets[-1], FAR, dtype=np.float32)
    for c in range(width):
        columns[column_offsets[owner] + c * strides[owner] + within] = rows[:, c]
    centres = np.add.reduceat(cells.mean * cells.mass[:, None], cells.offsets[:-1], axis=0)
    return LocalMeans(cells.offsets, cells.anchor, cells.mass, place, rows, column_offsets, columns, centres)


def reprice(
    table: LocalMeans, trees: Trees, rows: NDArray[np.int64], columns: NDArray[np.int64], exponent: int, stop: Any
) -> NDArray[np.float64]:
    """What the anchor plans of a tile cost between local means, and more: (P, 4).

    The price of mass that stays in its cell, of mass that moves, the dual of the transport between local means, and
    the distance between the means of the whole distributions. Means are in units of 2^exponent.
    """
    prices = np.zeros((len(rows), 4))
    most_rows, most_columns = (int((table.offsets[own + 1] - table.offsets[own]).max()) for own in (rows, columns))
    half = -exponent // 2  # 2^-exponent itself may be out of range
    _reprice_tile(
        *table, rows, columns, most_rows, most_columns, trees.start, trees.source, trees.sink, trees.mass,
        trees.potential, 2.0**-MASS_BITS, 2.0**half, 2.0 ** (-exponent - half), prices, stop,
    )  # fmt: skip
    return np.ldexp(prices, exponent)


@unordered
def _fill(x, y, distance, n, width, stride):  # type: ignore[no-untyped-def]
    """Distances (n, stride) between rows x (n, w) and columns y (w, stride), all flat."""
    for i in range(n):
        o = i * stride
        for j in range(stride):
            distance[at(o, j)] = np.float32(0.0)
        for c in range(0, width, 4):
            w = i * width + c
            a0, a1, a2, a3 = x[at(w, 0)], x[at(w, 1)], x[at(w, 2)], x[at(w, 3)]
            c0 = c * stride
            c1 = c0 + stride
            c2 = c1 + stride
            c3 = c2 + stride
            for j in range(stride):
                d0, d1, d2, d3 = a0 - y[at(c0, j)], a1 - y[at(c1, j)], a2 - y[at(c2, j)], a3 - y[at(c3, j)]
                distance[at(o, j)] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3)
        for j in range(stride):
            distance[at(o, j)] = np.sqrt(distance[at(o, j)])


@unordered
def _row_minima(distance, g, f, n, stride):  # type: ignore[no-untyped-def]
    for i in range(n):
        least = np.float32(np.inf)
        for j in range(stride):
            least = min(least, distance[at(i * stride, j)] - g[j])
        f[i] = least


@inlined
def _column_minima(distance, f, g, n, m, stride):  # type: ignore[no-untyped-def]
    for j in range(stride):
        g[j] = np.float32(np.inf)
    for i in range(n):
        own = f[i]
        for j in range(stride):
            value = distance[at(i * stride, j)] - own
            g[j] = value if value < g[j] else g[j]
    for j in range(m, stride):
        g[j] = BARRED


@inlined
def _worth(f, g, mass, i0, j0, n, m):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(n):
        total += mass[i0 + i] * f[i]
    for j in range(m):
        total += mass[j0 + j] * g[j]
    return total


@unordered
def _apart(x, y):  # type: ignore[no-untyped-def]
    total = 0.0
    for c in range(len(x)):
        gap = x[c] - y[c]
        total += gap * gap
    return np.sqrt(total)


@compiled
def _reprice_tile(  # type: ignore[no-untyped-def]
    offsets, anchor, mass, place, means, column_offsets, transposed, centres, rows, columns, most_rows, most_columns,
    start, source, sink, flow, potential, unit, scale, more_scale, prices, stop,
):  # fmt: skip
    width = means.shape[1]
    most_stride = (most_columns + 15) & ~15
    distance = np.empty(most_rows * most_stride, np.float32)
    f = np.empty(most_rows, np.float32)
    g = np.empty(most_stride, np.float32)
    for t in range(len(rows)):
        if stop[0] != 0:
            return
        a, b = rows[t], columns[t]
        i0, j0 = offsets[a], offsets[b]
        n, m = offsets[a + 1] - i0, offsets[b + 1] - j0
        stride = (m + 15) & ~15
        x = means[i0 : i0 + n].reshape(n * width)
        y = transposed[column_offsets[b] : column_offsets[b] + width * stride]
        _fill(x, y, distance, n, width, stride)
        moves = 0.0
        for e in range(start[t], start[t + 1]):
            moves += flow[e] * distance[place[a, source[e]] * stride + place[b, sink[e]]]
        stays = 0.0
        for i in range(n):
            f[i] = potential[t, anchor[i0 + i]] * scale * more_scale
            j = place[b, anchor[i0 + i]]
            if j >= 0:
                stays += min(mass[i0 + i], mass[j0 + j]) * distance[i * stride + j]
        _column_minima(distance, f, g, n, m, stride)
        _row_minima(distance, g, f, n, stride)
        dual = _worth(f, g, mass, i0, j0, n, m)
        for j in range(m):
            g[j] = -potential[t, anchor[j0 + j]] * scale * more_scale
        for j in range(m, stride):
            g[j] = BARRED
        _row_minima(distance, g, f, n, stride)
        _column_minima(distance, f, g, n, m, stride)
        prices[t, 0] = stays
        prices[t, 1] = moves * unit
        prices[t, 2] = max(dual, _worth(f, g, mass, i0, j0, n, m))
        prices[t, 3] = _apart(centres[a], centres[b])
