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

from asot.anchors.cell_means import Cells, in_stretches
from asot.bounds.blocks import BARRED, block_stride, column_transform, dot, fill_block, row_transform
from asot.exact.shared_cost import Trees
from asot.exact.workspace import MASS_BITS
from asot.jit.compiled import compiled, unordered

FAR = np.float32(1e15)
"""Coordinate of a column that is only padding: far from everything, and its square is still a float32."""


class LocalMeans(NamedTuple):
    """Local means of every distribution, ready to be compared: as rows, and transposed with padding."""

    offsets: NDArray[np.int64]  # (N + 1,)
    anchor: NDArray[np.int32]  # (cells,)
    mass: NDArray[np.float64]  # flat: (stride,) for each distribution, zeros behind its cells
    variance: NDArray[np.float32]  # like mass: how far, squared, the points of a cell are from their mean
    mass_offsets: NDArray[np.int64]  # (N + 1,)
    place: NDArray[np.int32]  # (N, k) index of an anchor's cell among those of its distribution, or -1
    rows: NDArray[np.float32]  # flat: (cells + 3, w), the last three are padding
    column_offsets: NDArray[np.int64]  # (N + 1,)
    columns: NDArray[np.float32]  # flat: (w, stride) for each distribution, stride a multiple of 16
    centers: NDArray[np.float64]  # (N, w) mean of each distribution


def local_means(cells: Cells, n_anchors: int, n_jobs: int = 1) -> LocalMeans:
    """From means whose coordinates are at most about 1 in size."""
    sizes = np.diff(cells.offsets)
    strides = (sizes + 15) & ~15
    width = cells.mean.shape[1]
    column_offsets = np.concatenate([[0], np.cumsum(strides * width)])
    mass_offsets = np.concatenate([[0], np.cumsum(strides)])
    place = np.empty((len(sizes), n_anchors), dtype=np.int32)
    mass, variance = np.empty(mass_offsets[-1]), np.empty(mass_offsets[-1], dtype=np.float32)
    rows = np.empty((len(cells.mean) + 3, width), dtype=np.float32)
    rows[-3:] = 0.0
    columns = np.empty(column_offsets[-1], dtype=np.float32)
    centers = np.empty((len(sizes), width))
    tables = mass_offsets, column_offsets, place, mass, variance, rows, columns, centers
    in_stretches(cells.offsets, lambda low, high: _lay_out(low, high, *cells, *tables), n_jobs)
    return LocalMeans(
        cells.offsets, cells.anchor, mass, variance, mass_offsets, place, rows.ravel(), column_offsets, columns, centers
    )


@compiled
def _lay_out(  # type: ignore[no-untyped-def]
    low, high, offsets, anchor, own_mass, mean, own_variance, mass_offsets, column_offsets, place, mass, variance, rows,
    columns, centers,
):  # fmt: skip
    width = mean.shape[1]
    for i in range(low, high):
        stride = mass_offsets[i + 1] - mass_offsets[i]
        place[i] = -1
        centers[i] = 0.0
        mass[mass_offsets[i] : mass_offsets[i + 1]] = 0.0
        variance[mass_offsets[i] : mass_offsets[i + 1]] = 0.0
        columns[column_offsets[i] : column_offsets[i + 1]] = FAR
        for t in range(offsets[i], offsets[i + 1]):
            within = t - offsets[i]
            place[i, anchor[t]] = within
            mass[mass_offsets[i] + within] = own_mass[t]
            variance[mass_offsets[i] + within] = own_variance[t]
            for c in range(width):
                rows[t, c] = mean[t, c]
                columns[column_offsets[i] + c * stride + within] = mean[t, c]
                centers[i, c] += own_mass[t] * mean[t, c]


def reprice(
    table: LocalMeans, trees: Trees, rows: NDArray[np.int64], columns: NDArray[np.int64], exponent: int,
    prices: NDArray[np.float64], stop: Any,
) -> None:  # fmt: skip
    """Fill ``prices`` (P, 5), columns contiguous, with what the anchor plans of a tile cost between local means.

    The price of mass that stays in its cell, of mass that moves, the dual of the transport between local means, the
    distance between the means of the whole distributions, and the price of all mass if the points of a cell are
    spread around their mean. Means and prices are in units of 2^exponent.
    """
    most_rows, most_columns = (int((table.offsets[own + 1] - table.offsets[own]).max()) for own in (rows, columns))
    half = -exponent // 2  # 2^-exponent itself may be out of range
    _reprice_tile(
        *table, rows, columns, most_rows, most_columns, trees.start, trees.source, trees.sink, trees.mass,
        trees.potential, 2.0**-MASS_BITS, 2.0**half, 2.0 ** (-exponent - half), prices, stop,
    )  # fmt: skip


@unordered
def _apart(x, y):  # type: ignore[no-untyped-def]
    total = 0.0
    for c in range(len(x)):
        gap = x[c] - y[c]
        total += gap * gap
    return np.sqrt(total)


@compiled
def _reprice_tile(  # type: ignore[no-untyped-def]
    offsets, anchor, mass, variance, mass_offsets, place, means, column_offsets, transposed, centers,
    rows, columns, most_rows, most_columns, start, source, sink, flow, potential, unit, scale, more_scale, prices, stop,
):  # fmt: skip
    width = centers.shape[1]
    most_stride = block_stride(most_columns)
    distance = np.empty((most_rows + 3) * most_stride, np.float32)
    f = np.zeros(block_stride(most_rows), np.float32)
    g = np.empty(most_stride, np.float32)
    for t in range(len(rows)):
        if stop[0] != 0:
            return
        a, b = rows[t], columns[t]
        i0, j0 = offsets[a], offsets[b]
        n, m = offsets[a + 1] - i0, offsets[b + 1] - j0
        a0, b0 = mass_offsets[a], mass_offsets[b]
        stride = block_stride(m)
        fill_block(means, i0 * width, transposed, column_offsets[b], distance, n, width, stride)
        moves = 0.0
        spread = 0.0
        for e in range(start[t], start[t + 1]):
            i, j = place[a, source[e]], place[b, sink[e]]
            own = distance[i * stride + j]
            moves += flow[e] * own
            spread += flow[e] * np.sqrt(own * own + variance[a0 + i] + variance[b0 + j])
        spread *= unit
        stays = 0.0
        level = potential[t, anchor[i0]]  # solvers agree on potentials up to a constant, which would round differently
        for i in range(n):
            u = anchor[i0 + i]
            f[i] = (potential[t, u] - level) * scale * more_scale
            j = place[b, u]
            there = j if j >= 0 else 0  # without a branch, which would often be guessed wrong
            least = min(mass[a0 + i], mass[b0 + there]) if j >= 0 else 0.0
            own = distance[i * stride + there]
            stays += least * own
            spread += least * np.sqrt(own * own + variance[a0 + i] + variance[b0 + there])
        column_transform(distance, f, g, n, m, stride)
        row_transform(distance, g, f, n, stride)
        dual = dot(mass, a0, f, n) + dot(mass, b0, g, m)
        for j in range(m):
            g[j] = (level - potential[t, anchor[j0 + j]]) * scale * more_scale
        for j in range(m, stride):
            g[j] = BARRED
        row_transform(distance, g, f, n, stride)
        column_transform(distance, f, g, n, m, stride)
        prices[t, 0] = stays
        prices[t, 1] = moves * unit
        prices[t, 2] = max(dual, dot(mass, a0, f, n) + dot(mass, b0, g, m))
        prices[t, 3] = _apart(centers[a], centers[b])
        prices[t, 4] = spread
