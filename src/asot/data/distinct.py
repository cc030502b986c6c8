"""The distinct points of a collection, and every distribution as a sparse histogram over them.

Molecules share most of their node features, and images share all of their pixel positions. Finding equal points once
lets the exact solver cancel common mass pair by pair, and lets k-means work on each point only once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asot.data.distributions import Distributions
from asot.jit.compiled import compiled
from asot.validation import FloatArray

DICTIONARY_ROWS = 100
"""Up to this many rows, a dictionary finds equal ones faster than sorting does."""


def distinct_rows(points: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
    """Distinct rows (V, d) of points (n, d), in order of first appearance, and for every row its index among them.

    Rows are looked up by a 64-bit hash and then compared with the first of their kind, so equal means equal.
    """
    points = np.ascontiguousarray(points)
    if len(points) <= DICTIONARY_ROWS:
        return _few_distinct_rows(points)
    words = points.view(np.uint32 if points.dtype == np.float32 else np.uint64)
    hashes = _row_hashes(words, np.uint64(1) << np.uint64(8 * points.dtype.itemsize - 1))
    bits = int(np.ceil(np.log2(len(points)))) + 1
    table = np.full(2**bits, -1, dtype=np.int32 if len(points) < 2**31 else np.int64)
    first, index = np.empty(len(points), dtype=np.int64), np.empty(len(points), dtype=np.int64)
    n_distinct = _number_rows(points, hashes, np.uint64(64 - bits), table, first, index)
    return (points if n_distinct == len(points) else points[first[:n_distinct]]), index


def _few_distinct_rows(points: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
    """The same with a dictionary, which is faster than calling NumPy a dozen times."""
    size = points.dtype.itemsize * points.shape[1]
    raw = (points + 0.0).tobytes()  # -0.0 becomes 0.0
    place: dict[bytes, int] = {}
    index = [place.setdefault(raw[o : o + size], len(place)) for o in range(0, len(raw), size)]
    if len(place) == len(points):
        return points, np.arange(len(points))
    found = np.array(index)
    first = np.full(len(place), len(points))
    np.minimum.at(first, found, np.arange(len(points)))
    return points[first], found


@dataclass(frozen=True)
class SparseHistograms:
    """Distributions over a shared list of points.

    Distribution i puts ``masses[t]`` on ``points[index[t]]`` for t in ``offsets[i]:offsets[i + 1]``; indices ascend
    within a distribution, and every point is distinct from every other.
    """

    points: FloatArray  # (V, d)
    offsets: NDArray[np.int64]  # (N + 1,)
    index: NDArray[np.int64]  # (nnz,)
    masses: NDArray[np.float64]  # (nnz,), total 1 within a distribution

    def pooled_masses(self) -> NDArray[np.float64]:
        """Total mass of every distinct point over the whole collection (V,)."""
        return np.asarray(np.bincount(self.index, self.masses, minlength=len(self.points)), dtype=np.float64)


def sparse_histograms(D: Distributions) -> SparseHistograms:
    """Write a collection over its distinct points; repeats within a distribution merge, massless points drop out."""
    return numbered_histograms(D)[0]


def numbered_histograms(D: Distributions) -> tuple[SparseHistograms, NDArray[np.int64]]:
    """The same, and for every point (n,) of the collection its index among the distinct ones, -1 without mass."""
    has_mass = D.masses > 0
    points, index = _distinct_points(D, None if has_mass.all() else has_mass)
    if len(points) == len(D.masses):  # nothing to merge, and first appearance is the given order
        return SparseHistograms(points, D.offsets, index, D.masses), index
    if not has_mass.all():
        some, index = index, np.full(len(has_mass), -1, dtype=np.int64)
        index[has_mass] = some
    offsets, merged = np.zeros(len(D) + 1, dtype=np.int64), np.empty(len(index), dtype=np.int64)
    masses = np.empty(len(index))
    used = _merge(D.offsets, D.masses, index, offsets, merged, masses)
    return SparseHistograms(points, offsets, merged[:used], masses[:used]), index


def distinct_points(D: Distributions) -> tuple[FloatArray, NDArray[np.int64]]:
    """Distinct points (V, d) of a collection, in order of first appearance, and the index of every point among them."""
    return _distinct_points(D, None)


def _distinct_points(D: Distributions, which: NDArray[np.bool_] | None) -> tuple[FloatArray, NDArray[np.int64]]:
    if D.vocabulary is None:
        return distinct_rows(D.points if which is None else D.points[which])
    support, index = D.vocabulary
    used, first, place = np.unique(index if which is None else index[which], return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    points, among = distinct_rows(support[used[order]])  # words may share a vector
    return points, among[rank[place]]


@compiled
def _row_hashes(words, sign_bit):  # type: ignore[no-untyped-def]
    """A 64-bit hash of every row of float bit patterns; -0.0 counts as 0.0."""
    n, d = words.shape
    hashes = np.empty(n, np.uint64)
    for i in range(n):
        h = np.uint64(0x9E3779B97F4A7C15)
        for j in range(d):
            word = np.uint64(words[i, j])
            if word == sign_bit:
                word = np.uint64(0)
            h = (h ^ word) * np.uint64(0xFF51AFD7ED558CCD)
            h ^= h >> np.uint64(32)
        hashes[i] = h
    return hashes


@compiled
def _number_rows(points, hashes, shift, table, first, index):  # type: ignore[no-untyped-def]
    """Number the distinct rows; ``table``, of a power of two and all -1, holds the numbers at places from hashes."""
    n, d = points.shape
    last = len(table) - 1
    n_distinct = 0
    for i in range(n):
        slot = np.int64(hashes[i] >> shift)
        while True:
            known = np.int64(table[slot])
            if known < 0:
                table[slot] = n_distinct
                first[n_distinct] = i
                index[i] = n_distinct
                n_distinct += 1
                break
            r = first[known]
            equal = hashes[r] == hashes[i]
            for j in range(d if equal else 0):
                if points[i, j] != points[r, j]:
                    equal = False
                    break
            if equal:
                index[i] = known
                break
            slot = (slot + 1) & last
    return n_distinct


@compiled
def _merge(offsets, masses, index, new_offsets, new_index, new_masses):  # type: ignore[no-untyped-def]
    """Sparse histograms of lists of points: ascending within a distribution, repeats added in their order.

    Points without mass have the index -1 and drop out.
    """
    used = 0
    for i in range(len(offsets) - 1):
        begin = offsets[i]
        n = 0
        keys = np.empty(offsets[i + 1] - begin, np.int64)
        for t in range(begin, offsets[i + 1]):
            if index[t] >= 0:
                keys[n] = index[t] << 31 | (t - begin)
                n += 1
        keys[:n].sort()
        for m in range(n):
            point = keys[m] >> 31
            if m > 0 and keys[m - 1] >> 31 == point:
                new_masses[used - 1] += masses[begin + (keys[m] & 0x7FFFFFFF)]
            else:
                new_index[used] = point
                new_masses[used] = masses[begin + (keys[m] & 0x7FFFFFFF)]
                used += 1
        new_offsets[i + 1] = used
    return used


FEW_COORDINATES = 16
"""Up to this many coordinates in use, their number does not matter."""


def left_to_ship(histograms: SparseHistograms, i: int, j: int) -> tuple[int, int, int]:
    """Sources, sinks and coordinates of a pair once common mass is canceled."""
    a, b = (slice(histograms.offsets[t], histograms.offsets[t + 1]) for t in (i, j))
    x, y = histograms.index[a], histograms.index[b]
    place = np.minimum(np.searchsorted(y, x), len(y) - 1)  # both ascend
    common = np.flatnonzero(y[place] == x)
    surplus = histograms.masses[a][common] - histograms.masses[b][place[common]]
    p, q = len(x) - int(np.sum(surplus <= 0)), len(y) - int(np.sum(surplus >= 0))
    if histograms.points.shape[1] <= FEW_COORDINATES:
        return p, q, histograms.points.shape[1]
    used = (histograms.points[x] != 0).any(axis=0) | (histograms.points[y] != 0).any(axis=0)
    return p, q, int(used.sum())
