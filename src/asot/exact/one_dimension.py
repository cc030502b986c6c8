"""Distributions on a line: W_p by sorting, without any network.

In one dimension the cheapest plan ships mass in order, for every cost |x - y|^p with p ≥ 1: the q-th quantile of one
distribution goes to the q-th quantile of the other. So every distribution is sorted once, and a pair is a sum:

* **Aligned.** Distributions of one size with equal masses are vectors of quantiles. For p = 1 distributions over a
  short common list of positions are vectors, too: cumulative masses, times the gap to the next position. A pair is then
  Σ |u - v|^p over two vectors, in straight order.
* **Merged.** Otherwise two sorted lists are merged by their cumulative masses, which are integers that end at exactly
  2^60, so that no mass is lost or invented on the way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.exact.packing import quantize_sparse
from asot.exact.workspace import MASS_BITS
from asot.jit.compiled import at, compiled, inlined, reordered
from asot.jit.metrics import Ground
from asot.run.result import Status
from asot.run.solver import TILE_SECONDS, Solution

Float = NDArray[np.float64]

BLOCK = 16
"""Vectors are padded to whole blocks of this many numbers, so that the compiler's loop has no remainder."""

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
        self._p, self._exponent, self._column_start = float(p), ground.exponent, column_start
        positions, offsets, masses = _with_mass(ground.points[:, 0], offsets, masses)
        self._offsets = offsets
        self._vectors: Float | None = None
        self._share = 1.0
        sizes = np.diff(offsets)
        n = int(sizes[0])
        steps = 2.0 * float(sizes.mean())
        if (sizes == n).all() and (masses == masses[0]).all():
            self._vectors = _padded(np.sort(positions.reshape(-1, n), axis=1))
            self._share = 1.0 / n
        else:
            grid = _short_list(positions, SHORT_LIST * steps) if self._p == 1.0 else None
            if grid is None:
                order = _order_within(positions, offsets)
                self._positions = positions[order]
                self._reached = _reached_masses(offsets, masses[order])
            else:
                self._vectors = _padded(_cumulative_vectors(positions, offsets, masses, grid))
        work = steps if self._vectors is None else self._vectors.shape[1] / SHORT_LIST
        self._seconds = 2e-8 + 4e-9 * work * (1.0 if self._p == 1.0 else 4.0 if self._p == 2.0 else 20.0)
        self.info: dict[str, Any] = {
            "solver": "sorting" if self._vectors is None else "sorting, aligned",
            "device": "cpu",
            "precision": "float64",
            "reg": None,
            "metric": ground.name,
        }

    def expected_seconds(self, n_pairs: int) -> float:
        return n_pairs * self._seconds

    def pairs_per_tile(self, memory: int) -> int:
        return int(max(1, min(TILE_SECONDS / self._seconds, memory / 64, 2**18)))

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        if self._column_start:
            columns = columns + self._column_start
        values = np.empty(len(rows))
        if self._vectors is not None:
            _solve_aligned(self._vectors, rows, columns, self._p, self._share, values, stop)
        else:
            _solve_merged(self._positions, self._reached, self._offsets, rows, columns, self._p, values, stop)
        status = np.full(len(rows), Status.OPTIMAL, dtype=np.int8)
        if self._exponent:
            values = np.ldexp(values, self._exponent)
        return Solution(values, status, np.zeros(len(rows), dtype=np.int32))


# ---------------------------------------------------------------------------------------------------- preparation


def _with_mass(positions: Float, offsets: NDArray[np.int64], masses: Float) -> tuple[Float, NDArray[np.int64], Float]:
    """The same distributions without points of mass 0."""
    has_mass = masses > 0
    if has_mass.all():
        return positions, offsets, masses
    kept = np.concatenate([[0], np.cumsum(has_mass)])[offsets]
    return positions[has_mass], kept, masses[has_mass]


def _order_within(positions: Float, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The order that sorts every distribution by position."""
    return np.lexsort((positions, np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))))


def _padded(vectors: Float) -> Float:
    """Rows with zeros up to whole blocks: equal numbers add nothing to a distance."""
    n, length = vectors.shape
    block = BLOCK if length > BLOCK // 2 else BLOCK // 2
    padded = np.zeros((n, -(-length // block) * block))
    padded[:, :length] = vectors
    return padded


def _short_list(positions: Float, most: float) -> Float | None:
    """The distinct positions of all distributions, ascending, where there are no more than ``most``."""
    few = positions[: int(4 * most) + 2]
    if len(few) < len(positions) and len(np.unique(few)) > most:  # a few of them usually decide
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


def _reached_masses(offsets: NDArray[np.int64], masses: Float) -> NDArray[np.int64]:
    """Cumulative masses as int64 that end at exactly 2^60 in every distribution."""
    sums = np.cumsum(quantize_sparse(offsets, masses))  # may wrap around; differences do not
    before = np.concatenate([[0], sums[offsets[1:-1] - 1]])
    return np.asarray(sums - np.repeat(before, np.diff(offsets)), dtype=np.int64)


# --------------------------------------------------------------------------------------------------------- kernels


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
def _solve_aligned(vectors, rows, columns, p, share, values, stop):  # type: ignore[no-untyped-def]
    length = vectors.shape[1]
    for t in range(len(rows)):
        if (t & 1023) == 0 and stop[0] != 0:
            return
        u = vectors[rows[t]]
        v = vectors[columns[t]]
        if p == 1.0:
            values[t] = share * _sum_of_gaps(u, v, length)
        else:
            largest = _largest_gap(u, v, length)
            total = 0.0
            if largest > 0.0:
                total = largest * (share * _sum_of_powers(u, v, length, p, largest)) ** (1.0 / p)
            values[t] = total


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
        elif p == 1.0:
            total += np.float64(level - done) * gap
        else:
            total += np.float64(level - done) * (gap / largest) ** p
        done = level
        i += np.int64(a <= b)
        j += np.int64(b <= a)
    return total


@compiled
def _solve_merged(positions, reached, offsets, rows, columns, p, values, stop):  # type: ignore[no-untyped-def]
    unit = 2.0**-MASS_BITS
    for t in range(len(rows)):
        if (t & 63) == 0 and stop[0] != 0:
            return
        i, j = offsets[rows[t]], offsets[columns[t]]
        if p == 1.0:
            values[t] = unit * _merge(positions, reached, i, j, 1.0, 1.0)
        else:
            largest = _merge(positions, reached, i, j, p, 0.0)
            total = 0.0
            if largest > 0.0:
                total = largest * (unit * _merge(positions, reached, i, j, p, largest)) ** (1.0 / p)
            values[t] = total
