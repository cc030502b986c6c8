"""The original problems, exactly: W_1 between the distributions themselves (docs/method.md §8).

Every distribution is a sparse histogram over the distinct points of the collection. For each pair the common mass is
canceled, the cost is computed for the p × q points that remain (and only in the coordinates where either
distribution is not all zero: one-hot and count features are mostly zeros), and the simplex runs. No cost matrix is
ever stored, and nothing is of size N × V.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.data.distinct import SparseHistograms
from asot.exact.assignment import UNFIT, assign, is_assignment
from asot.exact.distance_block import make_scratch, place_distances, value_of_flows
from asot.exact.integers import cost_bits_for, index_bits_for
from asot.exact.large import may_be_large, solve_any
from asot.exact.packing import pack_points, quantize_sparse, used_coordinates
from asot.exact.simplex import solve_block
from asot.exact.workspace import MASS_BITS, first_sink, make_workspace, stride_of
from asot.jit.compiled import at, compiled, inlined
from asot.jit.metrics import MINKOWSKI, Ground, fill_distances
from asot.run.result import Status
from asot.run.solver import TILE_SECONDS, Solution

TINY = 2.0**-450
"""Distances below this, at the scale of 1, lose digits when they are squared, or vanish."""

ENLARGED = 2.0**900
"""Points of such a small pair are multiplied by this first, so that every difference has a square."""


class ExactPoints:
    """Prepared once from sparse histograms and a ground metric; then solves tiles of pairs.

    ``column_start`` is added to column indices: the second collection of a rectangle follows the first one. ``table``
    (V, V) holds the distances between all distinct points, if they were computed (`distance_table`).
    """

    def __init__(
        self,
        histograms: SparseHistograms,
        ground: Ground,
        column_start: int = 0,
        table: NDArray[np.float64] | None = None,
    ) -> None:
        self._table = table
        self._offsets = histograms.offsets
        self._index = histograms.index
        self._masses = quantize_sparse(histograms.offsets, histograms.masses)
        self._equal = True if histograms.masses.min() == histograms.masses.max() else None
        self._ground = ground
        self._column_start = column_start
        self._sizes = np.diff(histograms.offsets)
        self._largest = int(self._sizes.max())
        self._seconds = self.seconds_per_pair(histograms, ground)
        self._used, self._used_offsets = used_coordinates(ground.points, histograms.offsets, histograms.index)
        self._packed, self._packed_offsets = pack_points(
            ground.points, histograms.offsets, histograms.index, self._used_offsets, self._used
        )
        self.info = describe(ground.name, len(ground.points), self._equal)

    @property
    def has_table(self) -> bool:
        """Whether distances are looked up and not computed for every pair."""
        return self._table is not None

    def expected_seconds(self, n_pairs: int) -> float:
        return n_pairs * self._seconds

    def pairs_per_tile(self, memory: int) -> int:
        return int(max(1, min(TILE_SECONDS / self._seconds, memory / 64, 2**14)))

    @staticmethod
    def seconds_per_pair(histograms: SparseHistograms, ground: Ground) -> float:
        """Roughly how long a thread takes for a pair."""
        nodes = 2.0 * len(histograms.index) / (len(histograms.offsets) - 1)
        return ExactPoints.seconds_for(nodes, ground.points.shape[1])

    @staticmethod
    def seconds_for(nodes: float, dim: int) -> float:
        """The same, for pairs of this many sources and sinks together."""
        return 1e-6 + 4e-9 * nodes**2 + 5e-12 * nodes**3 + 1e-10 * nodes**2 * dim

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        values = np.empty(len(rows))
        pivots = np.empty(len(rows), dtype=np.int32)
        solve_tile(*self._arguments(rows, columns), self._table, values, pivots, stop)
        status = np.full(len(rows), Status.OPTIMAL, dtype=np.int8)
        return Solution(np.ldexp(values, self._ground.exponent - MASS_BITS), status, pivots)

    def potentials(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]
    ) -> SinkPotentials:
        """Solve the pairs and give an optimal dual potential of each, on the points it ships to."""
        most = int(self._sizes[columns + self._column_start].sum())
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        points, heights = np.empty(most, dtype=np.int64), np.empty(most)
        _solve_potentials(*self._arguments(rows, columns), starts, points, heights, stop)
        return SinkPotentials(starts, points[: starts[-1]], heights[: starts[-1]])

    def _arguments(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> tuple[Any, ...]:
        columns = columns + self._column_start
        ground = self._ground
        return tile_arguments(
            self._offsets, self._index, self._masses, self._used_offsets, self._used, self._packed_offsets,
            self._packed, rows, columns, ground.points.shape[1], ground.kernel, ground.order, self._largest,
            self._equal, int(self._sizes[rows].max()), int(self._sizes[columns].max()),
        )  # fmt: skip


def describe(metric: str, n_distinct: int, equal: bool | None) -> dict[str, Any]:
    """For ``info`` of a result."""
    return {
        "solver": "network simplex" if equal is None else "assignment or network simplex",
        "common_mass_canceled": True,
        "device": "cpu",
        "precision": "float64",
        "reg": None,
        "metric": metric,
        "distinct_points": n_distinct,
    }


def tile_arguments(
    offsets: NDArray[np.int64],
    index: NDArray[np.int64],
    masses: NDArray[np.int64],
    used_offsets: NDArray[np.int64],
    used: NDArray[np.int32],
    packed_offsets: NDArray[np.int64],
    packed: NDArray[np.float64],
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    dim: int,
    code: int | None,
    order: float,
    largest: int,
    equal: bool | None,
    most_sources: int | None = None,
    most_sinks: int | None = None,
) -> tuple[Any, ...]:
    """What the kernels take. ``largest`` is of the collection, so that no answer depends on its tile. ``equal`` is True
    if all masses of the collection are equal, else None."""
    sources = largest if most_sources is None else most_sources
    sinks = largest if most_sinks is None else most_sinks
    return (
        offsets, index, masses, used_offsets, used, packed_offsets, packed, rows, columns, dim, code, order,
        sources, sinks, *_widths(largest, sources, sinks), equal,
    )  # fmt: skip


@functools.lru_cache(maxsize=256)
def _widths(largest: int, sources: int, sinks: int) -> tuple[int, float, bool | None]:
    """Bits of an index, the scale of costs, and whether a problem may be large (True or None)."""
    index_bits = index_bits_for(largest, largest)
    return index_bits, 2.0 ** cost_bits_for(index_bits), True if may_be_large(sources, sinks) else None


class SinkPotentials(NamedTuple):
    """Dual potentials of P pairs, on the points that each pair ships to.

    Pair t has the heights g of the distinct points ``points[starts[t]:starts[t + 1]]``, in units of 2^exponent of the
    ground metric. f(z) = min_j g_j + d(z, y_j) is 1-Lipschitz, and E f(x) - E f(y) is the distance of the pair. A pair
    of distance 0 has none.
    """

    starts: NDArray[np.int64]  # (P + 1,)
    points: NDArray[np.int64]  # indices of distinct points
    heights: NDArray[np.float64]


@inlined
def _place_masses(ws, offsets, index, masses, a, b):  # type: ignore[no-untyped-def]
    """Merge two ascending sparse histograms into sources and sinks; equal masses on a point cancel.

    A source or sink is named by its place in its distribution.
    """
    p = 0
    q = 0
    s = offsets[a]
    t = offsets[b]
    s_end = offsets[a + 1]
    t_end = offsets[b + 1]
    while s < s_end or t < t_end:
        from_a = t == t_end or (s < s_end and index[s] <= index[t])
        from_b = s == s_end or (t < t_end and index[t] <= index[s])
        surplus = (masses[s] if from_a else 0) - (masses[t] if from_b else 0)
        if surplus > 0:
            ws.supply[p] = surplus
            ws.source[p] = s - offsets[a]
            p += 1
        elif surplus < 0:
            ws.demand[q] = -surplus
            ws.sink[q] = t - offsets[b]
            q += 1
        s += from_a
        t += from_b
    return p, q


@inlined
def merge_used(used_offsets, used, a, b, place_a, place_b):  # type: ignore[no-untyped-def]
    """Where the coordinates of a and of b stand in their ascending union; returns the size of the union."""
    s = used_offsets[a]
    t = used_offsets[b]
    s_end = used_offsets[a + 1]
    t_end = used_offsets[b + 1]
    count = 0
    while s < s_end or t < t_end:
        from_a = t == t_end or (s < s_end and used[s] <= used[t])
        from_b = s == s_end or (t < t_end and used[t] <= used[s])
        if from_a:
            place_a[s - used_offsets[a]] = count
            s += 1
        if from_b:
            place_b[t - used_offsets[b]] = count
            t += 1
        count += 1
    return count


@inlined
def _gather_points(ws, scratch, packed, start_a, start_b, used_a, used_b, width, p, q):  # type: ignore[no-untyped-def]
    """Coordinates of the sources into x (p, width) and of the sinks, transposed, into y (width, stride)."""
    stride = stride_of(q)
    if used_a == width and used_b == width:  # both use the same coordinates, and all of them
        for i in range(p):
            o = start_a + ws.source[i] * width
            for c in range(width):
                scratch.x[at(i * width, c)] = packed[at(o, c)]
        for begin in range(0, width, 8):  # few coordinates at a time, so that what is written stays in the cache
            end = min(begin + 8, width)
            for j in range(q):
                o = start_b + ws.sink[j] * width
                for c in range(begin, end):
                    scratch.y[at(c * stride, j)] = packed[at(o, c)]
            for c in range(begin, end):
                for j in range(q, stride):
                    scratch.y[at(c * stride, j)] = 0.0
        return
    for t in range((p + 1) * width):
        scratch.x[t] = 0.0
    for t in range(width * stride):
        scratch.y[t] = 0.0
    for i in range(p):
        o = start_a + ws.source[i] * used_a
        for c in range(used_a):
            scratch.x[at(i * width, scratch.place_a[c])] = packed[at(o, c)]
    for j in range(q):
        o = start_b + ws.sink[j] * used_b
        for c in range(used_b):
            scratch.y[at(scratch.place_b[c] * stride, j)] = packed[at(o, c)]


@inlined
def _read_distances(ws, scratch, table, index, start_a, start_b, p, q):  # type: ignore[no-untyped-def]
    """The distances of a pair from the table of all of them."""
    stride = stride_of(q)
    for i in range(p):
        row = table[index[start_a + ws.source[i]]]
        for j in range(q):
            scratch.distance[at(i * stride, j)] = row[index[at(start_b, ws.sink[j])]]
        for j in range(q, stride):
            scratch.distance[at(i * stride, j)] = 0.0


@inlined
def _all_tiny(distance, p, q):  # type: ignore[no-untyped-def]
    """Whether no distance of a block is large enough for its square to be a number. Nearly always the first one is."""
    stride = stride_of(q)
    for i in range(p):
        for j in range(q):
            if distance[i * stride + j] >= TINY:
                return False
    return True


@inlined
def _is_norm(code):  # type: ignore[no-untyped-def]
    if code is None:
        return True
    return code <= MINKOWSKI


@inlined
def _measure(  # type: ignore[no-untyped-def]
    ws, scratch, offsets, index, used_offsets, used, packed_offsets, packed, a, b, code, order, table, p, q
):
    """The distances of a pair, times the factor that is returned: 1, or more where their squares would vanish."""
    if table is not None:
        _read_distances(ws, scratch, table, index, offsets[a], offsets[b], p, q)
        if not _all_tiny(scratch.distance, p, q):
            return 1.0
    width = merge_used(used_offsets, used, a, b, scratch.place_a, scratch.place_b)
    used_a = used_offsets[a + 1] - used_offsets[a]
    used_b = used_offsets[b + 1] - used_offsets[b]
    _gather_points(ws, scratch, packed, packed_offsets[a], packed_offsets[b], used_a, used_b, width, p, q)
    factor = 1.0
    while True:
        fill_distances(code, order, scratch.x, scratch.y, p, stride_of(q), width, scratch.distance)
        if factor > 1.0 or not _is_norm(code) or not _all_tiny(scratch.distance, p, q):
            return factor
        factor = ENLARGED
        for t in range(p * width):
            scratch.x[t] *= factor
        for t in range(width * stride_of(q)):
            scratch.y[t] *= factor


@inlined
def _solve_pair(  # type: ignore[no-untyped-def]
    ws, scratch, offsets, index, masses, used_offsets, used, packed_offsets, packed, a, b, code, order, index_bits,
    cost_scale, large, equal, table, stop,
):  # fmt: skip
    """Cancel, compute the costs and solve one pair; sources, sinks and steps. The optimal tree or forest stays in
    ``ws``."""
    p, q = _place_masses(ws, offsets, index, masses, a, b)
    if p == 0:
        return p, q, 0
    factor = _measure(
        ws, scratch, offsets, index, used_offsets, used, packed_offsets, packed, a, b, code, order, table, p, q
    )  # fmt: skip
    place_distances(ws, scratch, p, q, index_bits, cost_scale)
    if factor > 1.0:
        for t in range(p * stride_of(q)):
            scratch.distance[t] /= factor
    if equal is not None and is_assignment(ws, p, q):
        steps = assign(ws, p, index_bits, stop)
        if steps != UNFIT:
            return p, q, steps
    if large is not None:
        return p, q, solve_any(ws, p, q, index_bits, stop)
    return p, q, solve_block(ws, p, q, index_bits, stop)


@compiled
def solve_tile(  # type: ignore[no-untyped-def]
    offsets, index, masses, used_offsets, used, packed_offsets, packed, rows, columns, dim, code, order,
    most_sources, most_sinks, index_bits, cost_scale, large, equal, table, values, pivots, stop,
):  # fmt: skip
    """``large`` and ``equal`` are None or True: whether the kernels for large problems and for equal masses are
    compiled in, which takes a while. ``table`` is None or the distances of all points."""
    ws = make_workspace(most_sources, most_sinks, most_sources + most_sinks)
    scratch = make_scratch(most_sources, most_sinks, dim)
    for t in range(len(rows)):
        if stop[0] != 0:
            return
        p, q, pivots[t] = _solve_pair(
            ws, scratch, offsets, index, masses, used_offsets, used, packed_offsets, packed, rows[t], columns[t], code,
            order, index_bits, cost_scale, large, equal, table, stop,
        )  # fmt: skip
        values[t] = value_of_flows(ws, scratch, p, q) if p > 0 else 0.0


@compiled
def _solve_potentials(  # type: ignore[no-untyped-def]
    offsets, index, masses, used_offsets, used, packed_offsets, packed, rows, columns, dim, code, order,
    most_sources, most_sinks, index_bits, cost_scale, large, equal, starts, points, heights, stop,
):  # fmt: skip
    """The distinct points of the sinks of every pair, and their potentials, one pair after the other."""
    ws = make_workspace(most_sources, most_sinks, most_sources + most_sinks)
    scratch = make_scratch(most_sources, most_sinks, dim)
    for t in range(len(rows)):
        starts[t + 1] = starts[t]
        if stop[0] != 0:
            return
        p, q, _ = _solve_pair(
            ws, scratch, offsets, index, masses, used_offsets, used, packed_offsets, packed, rows[t], columns[t], code,
            order, index_bits, cost_scale, large, equal, None, stop,
        )  # fmt: skip
        if p > 0:
            unit = scratch.largest[0] / (cost_scale * (np.int64(1) << index_bits))
            first = first_sink(p)
            for j in range(q):
                points[starts[t] + j] = index[offsets[columns[t]] + ws.sink[j]]
                heights[starts[t] + j] = ws.pi[first + j] * unit
            starts[t + 1] += q
