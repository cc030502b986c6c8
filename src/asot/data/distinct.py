"""The distinct points of a collection, and every distribution as a sparse histogram over them.

Molecules share most of their node features, and images share all of their pixel positions. Finding equal points once
lets the exact solver cancel common mass pair by pair, and lets k-means work on each point only once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Identity, Indices
from asot.data.distributions import Distributions
from asot.native import Doubles, Floats, Int, Ints, Record, ShortInts, entry
from asot.validation import FloatArray


class PointRows(Record, n=Int, d=Int, wide=Doubles, narrow=Floats):
    """A matrix of points, float64 or float32 (``native/data/distinct.cpp``)."""


class RowNumbers(Record, hashes=Ints, bits=Int, short_table=ShortInts, table=Ints, first=Ints, index=Ints, out=Ints):
    """Hashes, and the numbers of equal rows (``native/data/distinct.cpp``)."""


class LoosePoints(Record, offsets=Ints, index=Ints, masses=Doubles):
    """Numbered points of distributions, one after the other (``native/data/distinct.cpp``)."""


class MergedOut(Record, offsets=Ints, index=Ints, masses=Doubles):
    """Where merged distributions go (``native/data/distinct.cpp``)."""


class LabelMasses(Record, n_labels=Int, offsets=Ints, labels=Ints, masses=Ints):
    """Masses by label (``native/data/common_mass.cpp``)."""


class LabelTile(Record, n=Int, rows=Ints, columns=Ints, common=Ints, stop=Ints):
    """Some pairs, and where their common mass goes (``native/data/common_mass.cpp``)."""


class SparseMeans(Record, width=Int, offsets=Ints, index=Ints, masses=Doubles, points=Doubles, found=Doubles):
    """Sparse histograms, numbers of their points, and where means go (``native/data/distinct.cpp``)."""


MASS_UNIT = 2.0**-44
"""Of common mass, which is at most 1."""

_row_hashes = entry("row_hashes", PointRows, Ints, RowNumbers, Int, Int)
_number_hashes = entry("number_hashes", PointRows, RowNumbers)
_number_rows = entry("number_rows", PointRows, RowNumbers)
_rows_agree = entry("rows_agree", PointRows, RowNumbers, Int, Int, Ints)
_merge_points = entry("merge_points", LoosePoints, MergedOut, Int, Int)
_close_gaps = entry("close_gaps", LoosePoints, MergedOut, Int, Int)
_common_mass = entry("common_mass", LabelMasses, LabelTile)
_sparse_means = entry("sparse_means", SparseMeans, Int, Int)

Loop = Callable[[int, Callable[[int, int], object]], None]
"""Calls a function with ranges that cover 0..n, in any order, maybe from several threads (`asot.run.executors`)."""


def serially(n: int, work: Callable[[int, int], object]) -> None:
    """A `Loop` without threads."""
    work(0, n)


def distinct_rows(points: FloatArray, loop: Loop = serially) -> tuple[FloatArray, Indices]:
    """Distinct rows (V, d) of points (n, d), in order of first appearance, and for every row its index among them.

    Rows are numbered by a 64-bit hash, and then each is compared with the first of its number, so equal means equal.
    """
    points = np.ascontiguousarray(points)
    n, d = points.shape
    rows = PointRows(n=n, d=d, **{"narrow" if points.dtype == np.float32 else "wide": points})
    bits = int(max(n, 1) - 1).bit_length() + 1
    is_short = n < 2**31
    table = np.full(2**bits, -1, dtype=np.int32 if is_short else np.int64)
    first, index, found = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(1, dtype=np.int64)
    numbers = RowNumbers(
        hashes=np.empty(n, dtype=np.int64), bits=bits, first=first, index=index, out=found,
        **{"short_table" if is_short else "table": table},
    )  # fmt: skip
    factors = _factors(d)
    loop(n, lambda low, high: _row_hashes(rows, factors, numbers, low, high))
    _number_hashes(rows, numbers)
    if found[0] < n and not _are_equal(rows, numbers, loop):  # two rows of one hash
        table[:] = -1
        _number_rows(rows, numbers)
    n_distinct = int(found[0])
    return (points if n_distinct == n else _taken(points, first[:n_distinct], loop)), index


def _are_equal(rows: PointRows, numbers: RowNumbers, loop: Loop) -> bool:
    """Whether every row equals the first of its number."""
    found: list[bool] = []

    def compare(low: int, high: int) -> None:
        equal = np.empty(1, dtype=np.int64)
        _rows_agree(rows, numbers, low, high, equal)
        found.append(bool(equal[0]))

    loop(rows.n, compare)
    return all(found)


def _taken(points: FloatArray, rows: Indices, loop: Loop) -> FloatArray:
    taken = np.empty((len(rows), points.shape[1]), dtype=points.dtype)
    loop(len(rows), lambda low, high: points.take(rows[low:high], axis=0, out=taken[low:high], mode="clip"))
    return taken


@functools.cache
def _factors(n: int) -> Indices:
    """The bits of a large odd number for every coordinate."""
    large = np.random.default_rng(0).integers(2**63, 2**64 - 1, size=n, dtype=np.uint64)
    return (large | np.uint64(1)).view(np.int64)


@dataclass(frozen=True)
class SparseHistograms:
    """Distributions over a shared list of points.

    Distribution i puts ``masses[t]`` on ``points[index[t]]`` for t in ``offsets[i]:offsets[i + 1]``; indices ascend
    within a distribution, and every point is distinct from every other.
    """

    points: FloatArray  # (V, d)
    offsets: Indices  # (N + 1,)
    index: Indices  # (nnz,)
    masses: Float  # (nnz,), total 1 within a distribution

    def identity(self) -> Identity:
        """Its arrays, by the names that stores know them by."""
        return {"points": self.points, "offsets": self.offsets, "index": self.index, "masses": self.masses}

    def pooled_masses(self) -> Float:
        """Total mass of every distinct point over the whole collection (V,)."""
        return np.asarray(np.bincount(self.index, self.masses, minlength=len(self.points)), dtype=np.float64)

    def means(self, values: Float, loop: Callable[[Indices, Callable[[int, int], object]], None]) -> Float:
        """Mean (N, w) under every distribution of numbers (V, w) that the points have.

        ``loop`` calls a function with ranges of distributions, given their offsets (`asot.run.executors`).
        """
        found = np.empty((len(self.offsets) - 1, values.shape[1]))
        sought = SparseMeans.of(self, width=values.shape[1], points=np.ascontiguousarray(values), found=found)
        loop(self.offsets, lambda low, high: _sparse_means(sought, low, high))
        return found


def sparse_histograms(D: Distributions, loop: Loop = serially) -> SparseHistograms:
    """Write a collection over its distinct points; repeats within a distribution merge, massless points drop out."""
    return numbered_histograms(D, loop)[0]


def in_own_order(D: Distributions) -> SparseHistograms:
    """The same for pairs of the first distribution: what each of the others has in common with it comes first, and then
    its own points as they were given, so that no other one has a say in the order.

    By first appearance, equal distributions come in different orders beside different ones, and their distances may
    differ in the last digit. Points that others share are therefore listed once for each.
    """
    histograms, index = numbered_histograms(D)
    n_points, n_own = len(histograms.points), int(histograms.offsets[1])
    if n_points == len(D.masses):
        return histograms
    of = np.repeat(np.arange(len(D)), np.diff(histograms.offsets))
    used = np.flatnonzero(index >= 0)
    keys = np.repeat(np.arange(len(D)), D.sizes)[used] * n_points + index[used]
    first = np.empty_like(of)
    first[np.searchsorted(of * n_points + histograms.index, keys)[::-1]] = used[::-1]
    is_common = histograms.index < n_own
    places = np.where(is_common, histograms.index, n_points + first)
    order = np.argsort(of * (n_points + len(index)) + places)
    numbers, is_other = histograms.index[order], ~is_common[order]
    points = np.concatenate([histograms.points[:n_own], histograms.points[numbers[is_other]]])
    numbers[is_other] = np.arange(n_own, len(points))
    return SparseHistograms(points, histograms.offsets, numbers, histograms.masses[order])


def numbered_histograms(D: Distributions, loop: Loop = serially) -> tuple[SparseHistograms, Indices]:
    """The same, and for every point (n,) of the collection its index among the distinct ones, -1 without mass."""
    has_mass = D.masses > 0
    points, index = distinct_points(D, None if has_mass.all() else has_mass, loop)
    if len(points) == len(D.masses):  # nothing to merge, and first appearance is the given order
        return SparseHistograms(points, D.offsets, index, D.masses), index
    if not has_mass.all():
        some, index = index, np.full(len(has_mass), -1, dtype=np.int64)
        index[has_mass] = some
    return SparseHistograms(points, *_merged(D, index, loop)), index


def joined_histograms(first: SparseHistograms, second: SparseHistograms, loop: Loop = serially) -> SparseHistograms:
    """Two collections, one after the other, over the distinct points of both, of which the second's come first."""
    points, number = distinct_rows(np.concatenate([second.points, first.points]), loop)
    index = number[len(second.points) :][first.index]
    ascending = np.lexsort((index, np.repeat(np.arange(len(first.offsets) - 1), np.diff(first.offsets))))
    return SparseHistograms(
        points,
        np.concatenate([first.offsets, first.offsets[-1] + second.offsets[1:]]),
        np.concatenate([index[ascending], second.index]),
        np.concatenate([first.masses[ascending], second.masses]),
    )


def _merged(D: Distributions, index: Indices, loop: Loop) -> tuple[Indices, Indices, Float]:
    """Offsets, indices and masses of sparse histograms: first each in its old place, and then without gaps."""
    n, counts = len(index), np.zeros(len(D) + 1, dtype=np.int64)
    loose = np.empty(n, dtype=np.int64), np.empty(n)
    given = LoosePoints(offsets=D.offsets, index=index, masses=D.masses)
    merged = MergedOut(offsets=counts, index=loose[0], masses=loose[1])

    def whole(low: int, high: int) -> tuple[int, int]:  # distributions that begin in a range of points
        first, last = np.searchsorted(D.offsets[:-1], [low, high])
        return int(first), int(last)

    loop(n, lambda low, high: _merge_points(given, merged, *whole(low, high)))
    offsets = np.cumsum(counts)
    tight = np.empty(offsets[-1], dtype=np.int64), np.empty(offsets[-1])
    with_gaps = LoosePoints(offsets=D.offsets, index=loose[0], masses=loose[1])
    without = MergedOut(offsets=offsets, index=tight[0], masses=tight[1])
    loop(n, lambda low, high: _close_gaps(with_gaps, without, *whole(low, high)))
    return offsets, *tight


def distinct_points(
    D: Distributions, which: NDArray[np.bool_] | None = None, loop: Loop = serially
) -> tuple[FloatArray, Indices]:
    """Distinct points (V, d), of all or of ``which``, in order of first appearance, and the index of each of them."""
    if D.vocabulary is None:
        return distinct_rows(D.points if which is None else D.points[which], loop)
    support, index = D.vocabulary
    used, first, place = np.unique(index if which is None else index[which], return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    points, among = distinct_rows(support[used[order]], loop)  # words may share a vector
    return points, among[rank[place]]


FEW_COORDINATES = 16
"""Up to this many coordinates in use, their number does not matter."""


def left_to_ship(histograms: SparseHistograms, rows: Indices, columns: Indices) -> Indices:
    """Sources, sinks and coordinates (P, 3) of the pairs (rows[t], columns[t]) once common mass is canceled."""
    named, place = np.unique(np.stack([rows, columns]), return_inverse=True)
    a, b = place.reshape(2, -1)
    begin, sizes = histograms.offsets[named], np.diff(histograms.offsets)[named]
    entry, own = _stretched(begin, sizes)  # of all named ones, one after the other
    n_points, dim = histograms.points.shape
    keys = own * n_points + histograms.index[entry]  # ascending
    mass = histograms.masses[entry]
    first = np.concatenate([[0], np.cumsum(sizes)])
    source, pair = _stretched(first[a], sizes[a])
    wanted = b[pair] * n_points + histograms.index[entry[source]]
    sink = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    common = keys[sink] == wanted
    surplus, of = (mass[source] - mass[sink])[common], pair[common]
    p = sizes[a] - np.bincount(of[surplus <= 0], minlength=len(a))
    q = sizes[b] - np.bincount(of[surplus >= 0], minlength=len(a))
    width = np.full(len(a), dim)
    if dim > FEW_COORDINATES:
        used = np.logical_or.reduceat(histograms.points[histograms.index[entry]] != 0, first[:-1])  # (named, d)
        width = (used[a] | used[b]).sum(axis=1)
    return np.stack([p, q, width], axis=1)


def _stretched(begin: Indices, sizes: Indices) -> tuple[Indices, Indices]:
    """begin[t], begin[t] + 1, .., sizes[t] of them for every t, and the t of each."""
    of = np.repeat(np.arange(len(sizes)), sizes)
    return np.arange(len(of)) + np.repeat(begin - np.cumsum(sizes) + sizes, sizes), of


# ------------------------------------------------------------------------------------------------ mass in common


def common_mass(own: LabelMasses, rows: Indices, columns: Indices, stop: Indices) -> Indices:
    """What pairs (P,) have on the same labels, in the units of the masses."""
    common = np.empty(len(rows), dtype=np.int64)
    _common_mass(own, LabelTile(n=len(rows), rows=rows, columns=columns, common=common, stop=stop))
    return common


class SharedPoints(NamedTuple):
    """The points that at least two distributions have, and how much mass each distribution has there."""

    at: Indices  # (W,) where in the collection each of them is found
    offsets: Indices  # (N + 1,)
    labels: Indices  # (entries,) which of these points
    masses: NDArray[np.float64]  # (entries,)

    @classmethod
    def of(cls, D: Distributions, loop: Loop = serially) -> SharedPoints:
        histograms, number = numbered_histograms(D, loop)
        at = np.empty(len(histograms.points), dtype=np.int64)
        used = np.flatnonzero(number >= 0)[::-1]
        at[number[used]] = used  # the first of equal ones
        is_shared = np.bincount(histograms.index, minlength=len(at)) > 1
        kept = is_shared[histograms.index]
        labels: Indices = (np.cumsum(is_shared) - 1)[histograms.index[kept]]
        offsets = np.concatenate([[0], np.cumsum(kept)])[histograms.offsets]
        return cls(at[is_shared], offsets, labels, histograms.masses[kept])

    def weighed(self, weights: NDArray[np.float64] | float) -> LabelMasses:
        """The masses times weights (W,) of at most 2^15, in units of `MASS_UNIT`: sums of integers do not depend on the
        order of points."""
        each = weights if isinstance(weights, float) else weights[self.labels]
        masses = np.rint(self.masses * each / MASS_UNIT).astype(np.int64)
        return LabelMasses(n_labels=len(self.at), offsets=self.offsets, labels=self.labels, masses=masses)
