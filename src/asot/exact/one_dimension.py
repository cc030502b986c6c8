"""Distributions on a line: W_p by sorting, without any network.

In one dimension the cheapest plan ships mass in order, for every cost |x - y|^p with p ≥ 1: the q-th quantile of one
distribution goes to the q-th quantile of the other. So every distribution is sorted once, and a pair is a sum:

* **Aligned.** Distributions of one size with equal masses are vectors of quantiles. For p = 1 distributions over a
  short common list of positions are vectors, too: cumulative masses, times the gap to the next position. A pair is then
  Σ |u - v|^p over two vectors. Short vectors lie across, so that eight pairs of a row are summed at a time.
* **Merged.** Otherwise two sorted lists are merged by their cumulative masses, which are integers that end at exactly
  2^60, so that no mass is lost or invented on the way. A step of a merge waits for the one before it, so four pairs are
  merged in turn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.exact.packing import quantize_in_kernel
from asot.exact.workspace import MASS_BITS
from asot.jit.compiled import at, compiled, inlined, reordered
from asot.jit.double_lanes import DOUBLES, load, plus_gap, spread, store, times
from asot.jit.metrics import Ground
from asot.run.pairs import indices_of_runs
from asot.run.result import Status
from asot.run.solver import TILE_SECONDS, Solution, empty_solution

Float = NDArray[np.float64]

SHORT_VECTOR = 16
"""Vectors up to this length lie across."""

BLOCK = 16
"""Longer ones are padded to whole blocks of this many numbers, so that the compiler's loop has no remainder."""

LARGEST_EXPONENT = 900
"""Powers of two up to this one are exact, whatever they are multiplied by here."""

SHORT_LIST = 8.0
"""A step of a merge takes as long as this many numbers of a vector."""


class OneDimension:
    """Prepared once from distributions on a line; then solves tiles of pairs.

    Parameters
    ----------
    ground : Ground
        A norm prepared for points (n, 1), the points of all distributions one after the other.
    offsets : (N + 1,) int64, distribution i owns ``offsets[i]:offsets[i + 1]``
    masses : (n,) float64 ≥ 0, total 1 within a distribution
    p : order of the distance, ≥ 1
    column_start : added to column indices: the second collection of a rectangle follows the first one
    """

    def __init__(
        self,
        ground: Ground,
        offsets: NDArray[np.int64],
        masses: Float,
        *,
        p: float = 1.0,
        column_start: int = 0,
    ) -> None:
        self._p, self._column_start = float(p), column_start
        self._exponent = 0 if abs(ground.exponent) < LARGEST_EXPONENT else ground.exponent
        self._scale = 2.0 ** (ground.exponent - self._exponent)
        positions, offsets, masses = _with_mass(ground.points[:, 0], offsets, masses)
        self._share = 1.0
        sizes = np.diff(offsets)
        n = int(sizes[0])
        steps = 2.0 * len(positions) / len(sizes)
        vectors: Float | None = None
        if (sizes == n).all() and (masses == masses[0]).all():
            vectors = np.sort(positions.reshape(-1, n), axis=1)
            self._share = 1.0 / n
        else:
            grid = _short_list(positions, SHORT_LIST * steps) if self._p == 1.0 else None
            if grid is None:
                self._lists = _sorted_lists(positions, np.argsort(positions), offsets, masses)
            else:
                vectors = _cumulative_vectors(positions, offsets, masses, grid)
        self._is_aligned = vectors is not None
        self._lies_across = vectors is not None and self._p == 1.0 and vectors.shape[1] <= SHORT_VECTOR
        if vectors is not None:
            self._vectors = _across(vectors) if self._lies_across else _padded(vectors)
        work = steps if vectors is None else vectors.shape[1] / SHORT_LIST
        power = 1.0 if self._p == 1.0 else 4.0 if self._p == 2.0 else 20.0
        self._seconds = (3e-9 if self._is_aligned else 2e-8) + 2e-9 * work * power
        self.info: dict[str, Any] = {
            "solver": "sorting, aligned" if self._is_aligned else "sorting",
            "device": "cpu",
            "precision": "float64",
            "reg": None,
            "metric": ground.name,
        }

    @staticmethod
    def most_seconds(n_pairs: int, n: int, size: float) -> float:
        """About how long W_1 takes at most, sorting included: n points in all, and so many per distribution."""
        return n_pairs * (2e-8 + 4e-9 * size) + 1e-7 * n

    def expected_seconds(self, n_pairs: int) -> float:
        return n_pairs * self._seconds

    def pairs_per_tile(self, memory: int) -> int:
        return int(max(1, min(TILE_SECONDS / self._seconds, memory / 64, 2**18)))

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        room = empty_solution(len(rows))
        if self._is_aligned:
            self.solve_runs(rows, columns, columns + 1, room, stop)
        else:
            self._solve_merged(rows, columns, room, stop)
        return room

    def solve_runs(
        self,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
        ends: NDArray[np.int64],
        room: Solution,
        stop: NDArray[np.int64],
    ) -> None:
        """Solve the pairs of row rows[r] with the columns columns[r]..ends[r]-1, one run r after the other."""
        if not self._is_aligned:
            self._solve_merged(*indices_of_runs(rows, columns, ends), room, stop)
            return
        columns, ends = columns + self._column_start, ends + self._column_start
        if self._lies_across:
            _solve_across(self._vectors, rows, columns, ends, self._share * self._scale, room.values, stop)
        else:
            _solve_along(self._vectors, rows, columns, ends, self._p, self._share, self._scale, room.values, stop)
        self._finish(room)

    def _solve_merged(self, rows: Any, columns: Any, room: Solution, stop: NDArray[np.int64]) -> None:
        columns = columns + self._column_start
        _solve_merged(*self._lists, rows, columns, self._p, self._scale, room.values, stop)
        self._finish(room)

    def _finish(self, room: Solution) -> None:
        if self._exponent:
            np.ldexp(room.values, self._exponent, out=room.values)
        room.status.fill(Status.OPTIMAL)
        room.n_iter.fill(0)


# ---------------------------------------------------------------------------------------------------- preparation


def _with_mass(positions: Float, offsets: NDArray[np.int64], masses: Float) -> tuple[Float, NDArray[np.int64], Float]:
    """The same distributions without points of mass 0."""
    if masses.min() > 0:
        return positions, offsets, masses
    has_mass = masses > 0
    kept = np.concatenate([[0], np.cumsum(has_mass)])[offsets]
    return positions[has_mass], kept, masses[has_mass]


def _across(vectors: Float) -> Float:
    """Component t of all vectors (N, length) in row t, with room for whole groups of columns."""
    n, length = vectors.shape
    across = np.zeros((length, n + DOUBLES))
    across[:, :n] = vectors.T
    return across


def _padded(vectors: Float) -> Float:
    """Rows with zeros up to whole blocks: equal numbers add nothing to a distance."""
    n, length = vectors.shape
    block = BLOCK if length > BLOCK // 2 else BLOCK // 2
    padded = np.zeros((n, -(-length // block) * block))
    padded[:, :length] = vectors
    return padded


def _short_list(positions: Float, most: float) -> Float | None:
    """The distinct positions of all distributions, ascending, where there are no more than ``most``."""
    for few in (int(most) + 1, int(4 * most) + 2):  # a few of them usually decide
        if few < len(positions) and len(np.unique(positions[:few])) > most:
            return None
    grid = np.unique(positions)
    return grid if len(grid) <= most else None


def _cumulative_vectors(positions: Float, offsets: NDArray[np.int64], masses: Float, grid: Float) -> Float:
    """(N, G - 1): the mass up to each position, times the gap to the next, so that W_1 is the L1 distance of rows."""
    n, g = len(offsets) - 1, len(grid)
    cell = np.repeat(np.arange(n) * g, np.diff(offsets)) + np.searchsorted(grid, positions)
    masses_on_grid = np.bincount(cell, weights=masses, minlength=n * g).reshape(n, g)
    vectors = np.cumsum(masses_on_grid, axis=1)[:, :-1] * np.diff(grid)
    return np.asarray(vectors, dtype=np.float64)


# --------------------------------------------------------------------------------------------------------- kernels


@compiled
def _sorted_lists(positions, order, offsets, masses):  # type: ignore[no-untyped-def]
    """Every distribution by ascending position: positions, cumulative masses and offsets.

    ``order`` sorts all positions. Masses are int64 that ascend strictly and end at exactly 2^60: points of less than
    2^-61 are left out.
    """
    quantized = quantize_in_kernel(offsets, masses)
    owner, size = np.empty(len(order), np.int64), np.zeros(len(offsets), np.int64)
    for i in range(len(offsets) - 1):
        for t in range(offsets[i], offsets[i + 1]):
            owner[t] = i
            size[i] += quantized[t] > 0
    starts, place = np.empty_like(size), np.empty_like(size)
    starts[0] = 0
    for i in range(len(offsets) - 1):
        place[i] = starts[i]
        starts[i + 1] = starts[i] + size[i]
    sorted_positions, reached = np.empty(starts[-1]), np.empty(starts[-1], np.int64)
    for t in order:
        if quantized[t] > 0:
            u = place[owner[t]]
            sorted_positions[u] = positions[t]
            reached[u] = quantized[t]
            place[owner[t]] = u + 1
    for i in range(len(offsets) - 1):
        for u in range(starts[i] + 1, starts[i + 1]):
            reached[u] += reached[u - 1]
    return sorted_positions, reached, starts


@reordered
def _sum_of_gaps(u, v, length):  # type: ignore[no-untyped-def]
    total = 0.0
    for t in range(length):
        total += abs(u[at(0, t)] - v[at(0, t)])
    return total


@reordered
def _sum_of_powers(u, v, length, p, largest):  # type: ignore[no-untyped-def]
    """Σ (|u - v| / largest)^p: powers of at most 1 stay in range."""
    total = 0.0
    if p == 2.0:
        for t in range(length):
            gap = (u[at(0, t)] - v[at(0, t)]) / largest
            total += gap * gap
    else:
        for t in range(length):
            total += (abs(u[at(0, t)] - v[at(0, t)]) / largest) ** p
    return total


@inlined
def _largest_gap(u, v, length):  # type: ignore[no-untyped-def]
    largest = 0.0
    for t in range(length):
        gap = abs(u[at(0, t)] - v[at(0, t)])
        largest = gap if gap > largest else largest
    return largest


@compiled
def _solve_across(across, rows, columns, ends, scale, values, stop):  # type: ignore[no-untyped-def]
    """Eight columns at a time. What a group writes beyond its run is written over by the next one.

    Sums are taken in straight order, so that they do not depend on where a pair stands.
    """
    length, width = across.shape
    flat = across.reshape(-1)
    place = 0
    for r in range(len(rows)):
        if (r & 1023) == 0 and stop[0] != 0:
            return
        before = place - columns[r]
        j = columns[r]
        while j < ends[r] and before + j + DOUBLES <= len(values):
            total = spread(0.0)
            o = 0
            for _ in range(length):
                total = plus_gap(total, spread(flat[at(o, rows[r])]), load(flat, o + j))
                o += width
            store(values, before + j, times(total, spread(scale)))
            j += DOUBLES
        while j < ends[r]:  # the last few, after which there is no room
            single = 0.0
            for t in range(length):
                single += abs(across[t, rows[r]] - across[t, j])
            values[before + j] = single * scale
            j += 1
        place = before + ends[r]


@compiled
def _solve_along(vectors, rows, columns, ends, p, share, scale, values, stop):  # type: ignore[no-untyped-def]
    length = vectors.shape[1]
    place = 0
    for r in range(len(rows)):
        u = vectors[rows[r]]
        for j in range(columns[r], ends[r]):
            if (place & 1023) == 0 and stop[0] != 0:
                return
            v = vectors[j]
            if p == 1.0:
                total = share * _sum_of_gaps(u, v, length)
            else:
                largest = _largest_gap(u, v, length)
                total = 0.0
                if largest > 0.0:
                    total = largest * (share * _sum_of_powers(u, v, length, p, largest)) ** (1.0 / p)
            values[place] = total * scale
            place += 1


@inlined
def _merge(positions, reached, i, j, p, largest):  # type: ignore[no-untyped-def]
    """Ship in order from the list that begins at i to the one that begins at j: Σ mass·(distance / largest)^p.

    With ``largest`` = 0 only the largest distance that carries mass is looked for and returned.
    """
    full = np.int64(1) << MASS_BITS
    done = np.int64(0)
    total = 0.0
    while done != full:
        a = reached[at(0, i)]
        b = reached[at(0, j)]
        level = a if a < b else b
        gap = abs(positions[at(0, i)] - positions[at(0, j)])
        if largest == 0.0:
            total = gap if gap > total and level > done else total
        else:
            total += np.float64(level - done) * (gap / largest) ** p
        done = level
        i += np.int64(a <= b)
        j += np.int64(b <= a)
    return total


@inlined
def _step(positions, reached, i, j, done, total):  # type: ignore[no-untyped-def]
    """One step of a merge for p = 1: one of the lists advances. Two of n and m points take n + m - 1 steps."""
    a = reached[at(0, i)]
    b = reached[at(0, j)]
    is_first = np.int64(a <= b)
    level = a if a < b else b
    total += np.float64(level - done) * abs(positions[at(0, i)] - positions[at(0, j)])
    return i + is_first, j + 1 - is_first, level, total


@inlined
def _merge_four(positions, reached, offsets, rows, columns, t, scale, values):  # type: ignore[no-untyped-def]
    """W_1 of the pairs t..t+3, or fewer at the end of the list."""
    full = np.int64(1) << MASS_BITS
    last = len(rows) - 1
    t1, t2, t3 = min(t + 1, last), min(t + 2, last), min(t + 3, last)
    i0, i1, i2, i3 = offsets[rows[t]], offsets[rows[t1]], offsets[rows[t2]], offsets[rows[t3]]
    j0, j1, j2, j3 = offsets[columns[t]], offsets[columns[t1]], offsets[columns[t2]], offsets[columns[t3]]
    steps0 = offsets[rows[t] + 1] - i0 + offsets[columns[t] + 1] - j0
    steps1 = offsets[rows[t1] + 1] - i1 + offsets[columns[t1] + 1] - j1
    steps2 = offsets[rows[t2] + 1] - i2 + offsets[columns[t2] + 1] - j2
    steps3 = offsets[rows[t3] + 1] - i3 + offsets[columns[t3] + 1] - j3
    done0 = done1 = done2 = done3 = np.int64(0)
    total0 = total1 = total2 = total3 = 0.0
    for _ in range(min(min(steps0, steps1), min(steps2, steps3)) - 1):
        i0, j0, done0, total0 = _step(positions, reached, i0, j0, done0, total0)
        i1, j1, done1, total1 = _step(positions, reached, i1, j1, done1, total1)
        i2, j2, done2, total2 = _step(positions, reached, i2, j2, done2, total2)
        i3, j3, done3, total3 = _step(positions, reached, i3, j3, done3, total3)
    while done0 != full:
        i0, j0, done0, total0 = _step(positions, reached, i0, j0, done0, total0)
    while done1 != full:
        i1, j1, done1, total1 = _step(positions, reached, i1, j1, done1, total1)
    while done2 != full:
        i2, j2, done2, total2 = _step(positions, reached, i2, j2, done2, total2)
    while done3 != full:
        i3, j3, done3, total3 = _step(positions, reached, i3, j3, done3, total3)
    values[t] = total0 * scale
    values[t1] = total1 * scale
    values[t2] = total2 * scale
    values[t3] = total3 * scale


@compiled
def _solve_merged(positions, reached, offsets, rows, columns, p, scale, values, stop):  # type: ignore[no-untyped-def]
    unit = 2.0**-MASS_BITS
    if p == 1.0:
        for t in range(0, len(rows), 4):
            if (t & 63) == 0 and stop[0] != 0:
                return
            _merge_four(positions, reached, offsets, rows, columns, t, unit * scale, values)
        return
    for t in range(len(rows)):
        if (t & 63) == 0 and stop[0] != 0:
            return
        i, j = offsets[rows[t]], offsets[columns[t]]
        largest = _merge(positions, reached, i, j, p, 0.0)
        total = 0.0
        if largest > 0.0:
            total = largest * (unit * _merge(positions, reached, i, j, p, largest)) ** (1.0 / p)
        values[t] = total * scale
