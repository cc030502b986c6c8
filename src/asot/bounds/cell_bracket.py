"""Bounds on W_1 from what a distribution has in each cell, for distributions much larger than the anchor space.

*Upper* (docs/method.md §6): spread every flow of the anchor plan evenly over the points of its two cells. By Jensen's
inequality the mean distance between the points of two cells is at most √(‖m_x - m_y‖² + var_x + var_y), so the price
needs only each cell's mean and spread. *Lower* (McShane): the anchor potentials, known at the sinks v of the anchor
plan, extend to all points as f̃(z) = min_v f_v + d(z, w_v), or from the sources u as max_u f_u - d(z, w_u). Both are
1-Lipschitz, so W_1 ≥ Σ a_i f̃(x_i) - Σ b_j f̃(y_j); the side with fewer anchors is taken.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.anchors.space import AnchorSpace
from asot.bounds.short_vectors import Coordinates
from asot.data.distributions import Distributions
from asot.exact.shared_cost import Trees
from asot.exact.workspace import MASS_BITS
from asot.jit.compiled import compiled, inlined, reordered


class CellTable(NamedTuple):
    """Points, cells and anchors of a collection in common coordinates."""

    offsets: NDArray[np.int64]  # (N + 1,) of the points
    masses: NDArray[np.float64]  # (n,)
    points: NDArray[np.float64]  # (n, w)
    cell_mass: NDArray[np.float64]  # (cells,)
    mean: NDArray[np.float64]  # (cells, w)
    variance: NDArray[np.float64]  # (cells,)
    rest: NDArray[np.float64]  # (cells,) mean of what the coordinates leave out
    place: NDArray[np.int64]  # (N, k) the cell of an anchor in a distribution, or -1
    anchors: NDArray[np.float64]  # (k, w)


def cell_table(space: AnchorSpace, D: Distributions, short: Coordinates) -> CellTable:
    """From coordinates of the points of D, followed by the anchors."""
    n, k = len(D.points), space.n_anchors
    cells = space.cells(D, short.points[:n])
    rest = space.cells(D, short.rest[:n, None]).mean[:, 0]
    place = np.full((len(D), k), -1, dtype=np.int64)
    owner = np.repeat(np.arange(len(D)), np.diff(cells.offsets))
    place[owner, cells.anchor] = np.arange(len(owner))
    return CellTable(
        D.offsets, D.masses, np.ascontiguousarray(short.points[:n]), cells.mass, cells.mean, cells.variance, rest,
        place, np.ascontiguousarray(short.points[n:]),
    )  # fmt: skip


def cell_bracket(
    table: CellTable, trees: Trees, rows: NDArray[np.int64], columns: NDArray[np.int64], exponent: int, stop: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper bounds (P,) on W_1 of the pairs of a tile, up to rounding."""
    lower, upper = np.zeros(len(rows)), np.zeros(len(rows))
    potential = np.ldexp(trees.potential, -exponent)
    _bracket_tile(
        *table, rows, columns, trees.start, trees.source, trees.sink, trees.mass, potential, 2.0**-MASS_BITS,
        lower, upper, stop,
    )  # fmt: skip
    return np.ldexp(lower, exponent), np.ldexp(upper, exponent)


@reordered
def _squared(x, y):  # type: ignore[no-untyped-def]
    total = 0.0
    for c in range(len(x)):
        gap = x[c] - y[c]
        total += gap * gap
    return total


@inlined
def _price(mean, variance, rest, i, j):  # type: ignore[no-untyped-def]
    """An upper bound on the mean distance between the points of two cells."""
    return np.sqrt(_squared(mean[i], mean[j]) + variance[i] + variance[j] + 4.0 * rest[i] * rest[j])


@inlined
def _distinct_ends(ends, start, stop, seen, stamp, found):  # type: ignore[no-untyped-def]
    """The anchors at one end of a pair's arcs, each once; returns how many there are."""
    count = 0
    for e in range(start, stop):
        u = ends[e]
        if seen[u] != stamp:
            seen[u] = stamp
            found[count] = u
            count += 1
    return count


@inlined
def _extended(points, masses, begin, end, anchors, found, count, f, sign):  # type: ignore[no-untyped-def]
    """Mean over the points of sign · min over the found anchors of (sign · f_u + d(z, w_u))."""
    total = 0.0
    for i in range(begin, end):
        least = np.inf
        for c in range(count):
            u = found[c]
            least = min(least, sign * f[u] + np.sqrt(_squared(points[i], anchors[u])))
        total += masses[i] * least
    return sign * total


@compiled
def _bracket_tile(  # type: ignore[no-untyped-def]
    offsets, masses, points, cell_mass, mean, variance, rest, place, anchors, rows, columns,
    start, source, sink, mass, potential, unit, lower, upper, stop,
):  # fmt: skip
    k = len(anchors)
    seen = np.full(k, -1, np.int64)
    sources = np.empty(k, np.int64)
    sinks = np.empty(k, np.int64)
    for t in range(len(rows)):
        if stop[0] != 0:
            return
        a, b = rows[t], columns[t]
        price = 0.0
        for e in range(start[t], start[t + 1]):
            price += mass[e] * unit * _price(mean, variance, rest, place[a, source[e]], place[b, sink[e]])
        for u in range(k):
            i, j = place[a, u], place[b, u]
            if i >= 0 and j >= 0:
                price += min(cell_mass[i], cell_mass[j]) * _price(mean, variance, rest, i, j)
        upper[t] = price
        n_sources = _distinct_ends(source, start[t], start[t + 1], seen, 2 * t, sources)
        n_sinks = _distinct_ends(sink, start[t], start[t + 1], seen, 2 * t + 1, sinks)
        if n_sources == 0:
            continue
        found, count, sign = (sinks, n_sinks, 1.0) if n_sinks <= n_sources else (sources, n_sources, -1.0)
        f = potential[t]
        lower[t] = _extended(points, masses, offsets[a], offsets[a + 1], anchors, found, count, f, sign) - _extended(
            points, masses, offsets[b], offsets[b + 1], anchors, found, count, f, sign
        )
