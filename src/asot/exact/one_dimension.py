"""Distributions on a line: W_p by sorting, without any network.

In one dimension the cheapest plan ships mass in order, for every cost |x - y|^p with p ≥ 1: the q-th quantile of one
distribution goes to the q-th quantile of the other. So every distribution is sorted once, and a pair is a sum:

* **Aligned.** Distributions of one size with equal masses are vectors of quantiles. For p = 1 distributions over a
  short common list of positions are vectors, too: cumulative masses. A pair is then Σ |u - v|^p over two vectors, or
  Σ |u - v| times the gap to the next position. Short vectors lie across, so that eight pairs of a row are summed at a
  time.
* **Merged.** Otherwise two sorted lists are merged by their cumulative masses.

Cumulative masses are integers that end at exactly 2^60, rounded after sorting: no mass is lost or invented on the way,
and none travels farther than to its neighbor, which high orders would see. Positions are used as they are. So an answer
depends on its two distributions only, whatever else is in the collection. The loops are in ``native/exact/line_*``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Identity, Indices, Info
from asot.exact.runs import Runs, RunsSolver
from asot.exact.workspace import LANES
from asot.native import Double, Doubles, Int, Ints, Record, entry
from asot.run.protocols import IN_FLOAT64, identity_of
from asot.validation import FloatArray

SHORT_VECTOR = 16
"""Vectors up to this length lie across."""

GROUP = 16
"""Longer vectors are padded to whole groups of this many numbers."""

SHORT_LIST = 8.0
"""A step of a merge takes as long as this many numbers of a vector."""

FEW = 8
"""Distributions up to this many are merged: a common list is not worth finding."""

LARGEST = 2.0**900
"""Sums of differences between positions of this size stay in range."""


class LineCloud(Record, n=Int, offsets=Ints, positions=Doubles, masses=Doubles):
    """Distributions as they were given (``native/exact/line_lists.cpp``)."""


class LineLists(Record, starts=Ints, stations=Doubles):
    """Sorted lists with cumulative masses (``native/exact/line_lists.cpp``)."""


class LineGrid(Record, n=Int, grid=Doubles, row=Int, column=Int, levels=Ints):
    """Common positions, and where cumulative masses go (``native/exact/line_lists.cpp``)."""


class Quantiles(Record, length=Int, width=Int, x=Doubles, p=Double, share=Double, in_range=Int):
    """Vectors of sorted positions (``native/exact/line_vectors.cpp``)."""


class Levels(Record, length=Int, width=Int, x=Ints, gaps=Doubles):
    """Vectors of cumulative masses (``native/exact/line_vectors.cpp``)."""


class Merged(Record, starts=Ints, stations=Doubles, p=Double, n=Int, by_length=Ints):
    """Sorted lists of an order p (``native/exact/line_merge.cpp``)."""


_sort = entry("line_sort", LineCloud, LineLists)
_fill_levels = entry("line_levels", LineCloud, LineGrid)
_QUANTILES = entry("line_quantiles_along", Quantiles, Runs), entry("line_quantiles_across", Quantiles, Runs)
_LEVELS = entry("line_levels_along", Levels, Runs), entry("line_levels_across", Levels, Runs)
_merge = entry("line_merge", Merged, Runs)


class OneDimension(RunsSolver):
    """Prepared once from distributions on a line; then solves tiles of pairs.

    Parameters
    ----------
    points : (n, 1), the points of all distributions one after the other
    offsets : (N + 1,) int64, distribution i owns ``offsets[i]:offsets[i + 1]``
    masses : (n,) float64 ≥ 0, total 1 within a distribution
    p : order of the distance, ≥ 1
    column_start : added to column indices: the second collection of a rectangle follows the first one
    metric : name of the norm, for ``info``: on a line all of them are |x - y|
    """

    def __init__(
        self,
        points: FloatArray,
        offsets: Indices,
        masses: Float,
        *,
        p: float = 1.0,
        column_start: int = 0,
        metric: str = "euclidean",
    ) -> None:
        self._column_start, p = column_start, float(p)
        positions = np.ascontiguousarray(points, dtype=np.float64).reshape(-1)
        self._p, self._points, self._offsets, self._masses = p, points, offsets, masses
        sizes = np.diff(offsets)
        steps = 2.0 * len(positions) / len(sizes)
        self._kernel: Any
        self._record: Record
        is_aligned = True
        if (sizes == sizes[0]).all() and (masses == masses[0]).all():
            self._kernel, self._record, length = _quantiles(positions.reshape(len(sizes), -1), p)
        else:
            cloud = LineCloud(n=len(sizes), offsets=offsets, positions=positions, masses=masses)
            grid = _short_list(positions, SHORT_LIST * steps) if p == 1.0 and len(sizes) > FEW else None
            if grid is None:
                self._kernel, self._record = _merge, _sorted_lists(cloud, len(positions), p)
                is_aligned = False
            else:
                self._kernel, self._record, length = _levels(cloud, grid)
        self._seconds = _expected(length if is_aligned else None, steps, p)
        self.info = describe(metric, is_aligned)

    @staticmethod
    def most_seconds(n_pairs: int, n: int, size: float) -> float:
        """About how long W_1 takes at most, sorting included: n points in all, and so many per distribution."""
        return n_pairs * (2e-8 + 4e-9 * size) + 1e-7 * n

    def identity(self) -> Identity:
        return identity_of(
            "line, 1", points=self._points, offsets=self._offsets, masses=self._masses, p=self._p,
            column_start=self._column_start,
        )  # fmt: skip

    def solve_kernel(self, runs: Runs) -> None:
        self._kernel(self._record, runs)


def describe(metric: str, is_aligned: bool) -> Info:
    """For ``info`` of a result."""
    return {"solver": "sorting, aligned" if is_aligned else "sorting", **IN_FLOAT64, "metric": metric}


# ---------------------------------------------------------------------------------------------------- preparation


def _expected(length: int | None, steps: float, p: float) -> float:
    """Seconds of a pair of vectors of some length, or of a merge of so many steps."""
    if p == 1.0 or p == 2.0:
        power = 1.0
    else:
        power = 3.0 if p <= 64 and (2 * p).is_integer() else 30.0
    return 2e-8 + 2e-9 * steps * power if length is None else 4e-9 * power + 2e-10 * length * power


def _sorted_lists(cloud: LineCloud, n_points: int, p: float) -> Merged:
    """Every distribution by ascending position. Points in one place are one, and those of less than 2^-61 left out."""
    starts, stations = np.empty(cloud.n + 1, np.int64), np.empty((n_points, 2))
    _sort(cloud, LineLists(starts=starts, stations=stations))
    by_length = np.argsort(np.diff(starts), kind="stable")
    return Merged(starts=starts, stations=stations, p=p, n=cloud.n, by_length=by_length)


def _quantiles(positions: Float, p: float) -> tuple[Any, Record, int]:
    """The kernel of vectors (N, n) of equal masses, its record, and the length of vectors."""
    n, length = positions.shape
    vectors = np.sort(positions, axis=1)
    lies_across = length <= SHORT_VECTOR and p <= 64 and (2 * p).is_integer()
    x = _room(n, length, lies_across, np.float64)
    if lies_across:
        x[:, :n] = vectors.T
    else:
        x[:, :length] = vectors
    in_range = vectors[:, -1].max() <= LARGEST and vectors[:, 0].min() >= -LARGEST
    record = Quantiles(length=length, width=x.shape[1], x=x, p=p, share=1.0 / length, in_range=int(in_range))
    return _QUANTILES[lies_across], record, length


def _levels(cloud: LineCloud, grid: Float) -> tuple[Any, Record, int]:
    """The same for cumulative masses up to each of some common positions (G,) but the last."""
    n, length = cloud.n, len(grid) - 1
    lies_across = length <= SHORT_VECTOR
    x = _room(n, length, lies_across, np.int64)
    gaps = np.zeros(length if lies_across else x.shape[1])
    gaps[:length] = np.diff(grid)
    row, column = (1, x.shape[1]) if lies_across else (x.shape[1], 1)
    _fill_levels(cloud, LineGrid(n=len(grid), grid=grid, row=row, column=column, levels=x))
    return _LEVELS[lies_across], Levels(length=length, width=x.shape[1], x=x, gaps=gaps), length


def _room(n: int, length: int, lies_across: bool, dtype: Any) -> NDArray[Any]:
    """Zeros for n vectors up to whole groups: equal numbers add nothing to a distance.

    They begin on a cache line, since eight numbers that lie on two take twice as long to read.
    """
    rows, width = (length, n + LANES) if lies_across else (n, -(-length // GROUP) * GROUP)
    room = np.zeros(rows * width + LANES, dtype)
    start = -(room.ctypes.data // room.itemsize) % LANES
    return room[start : start + rows * width].reshape(rows, width)


def _short_list(positions: Float, most: float) -> Float | None:
    """The distinct positions of all distributions, ascending, where there are no more than ``most``."""
    for few in (int(most) + 1, int(4 * most) + 2):  # a few of them usually decide
        if few < len(positions) and len(np.unique(positions[:few])) > most:
            return None
    grid = np.unique(positions)
    return grid if len(grid) <= most and max(grid[-1], -grid[0]) <= LARGEST else None
