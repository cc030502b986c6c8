"""The distinct points of a collection, and every distribution as a sparse histogram over them.

Molecules share most of their node features, and images share all of their pixel positions. Finding equal points once
lets the exact solver cancel common mass pair by pair, and lets k-means work on each point only once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asot.data.distributions import Distributions
from asot.jit.compiled import compiled
from asot.jit.sorting import sort_keys
from asot.validation import FloatArray

DICTIONARY_ROWS = 2000
"""Up to this many rows, a dictionary finds equal ones: it takes a fraction of a millisecond, and small collections
need not wait until hashing is compiled."""


Loop = Callable[[int, Callable[[int, int], object]], None]
"""Calls a function with ranges that cover 0..n, in any order, maybe from several threads (`asot.run.executors`)."""


def serially(n: int, work: Callable[[int, int], object]) -> None:
    """A `Loop` without threads."""
    work(0, n)


def distinct_rows(points: FloatArray, loop: Loop = serially) -> tuple[FloatArray, NDArray[np.int64]]:
    """Distinct rows (V, d) of points (n, d), in order of first appearance, and for every row its index among them.

    Rows are numbered by a 64-bit hash, and then each is compared with the first of its number, so equal means equal.
    """
    points = np.ascontiguousarray(points)
    if len(points) <= DICTIONARY_ROWS:
        return _few_distinct_rows(points)
    words = points.view(np.uint32 if points.dtype == np.float32 else np.uint64)
    n, sign_bit, factors = len(points), np.uint64(1) << np.uint64(8 * points.itemsize - 1), _factors(points.shape[1])
    hashes = np.empty(n, dtype=np.uint64)
    loop(n, lambda low, high: _row_hashes(words[low:high], sign_bit, factors, hashes[low:high]))
    bits = int(np.ceil(np.log2(n))) + 1
    table = np.full(2**bits, -1, dtype=np.int32 if n < 2**31 else np.int64)
    first, index = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    n_distinct = _number_hashes(hashes, np.uint64(64 - bits), table, first, index)
    if n_distinct < n and not _are_equal(points, first, index, loop):  # two rows of one hash
        table[:] = -1
        n_distinct = _number_rows(points, hashes, np.uint64(64 - bits), table, first, index)
    return (points if n_distinct == n else _taken(points, first[:n_distinct], loop)), index


def _are_equal(points: FloatArray, first: NDArray[np.int64], index: NDArray[np.int64], loop: Loop) -> bool:
    """Whether every row equals the first of its number."""
    found: list[bool] = []
    loop(len(points), lambda low, high: found.append(_all_equal(low, high, points, first, index)))
    return all(found)


def _taken(points: FloatArray, rows: NDArray[np.int64], loop: Loop) -> FloatArray:
    taken = np.empty((len(rows), points.shape[1]), dtype=points.dtype)
    loop(len(rows), lambda low, high: points.take(rows[low:high], axis=0, out=taken[low:high], mode="clip"))
    return taken


@functools.cache
def _factors(n: int) -> NDArray[np.uint64]:
    """A large odd number for every coordinate."""
    return np.random.default_rng(0).integers(2**63, 2**64 - 1, size=n, dtype=np.uint64) | np.uint64(1)


def _few_distinct_rows(points: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
    """The same with a dictionary."""
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


def sparse_histograms(D: Distributions, loop: Loop = serially) -> SparseHistograms:
    """Write a collection over its distinct points; repeats within a distribution merge, massless points drop out."""
    return numbered_histograms(D, loop)[0]


def numbered_histograms(D: Distributions, loop: Loop = serially) -> tuple[SparseHistograms, NDArray[np.int64]]:
    """The same, and for every point (n,) of the collection its index among the distinct ones, -1 without mass."""
    has_mass = D.masses > 0
    points, index = _distinct_points(D, None if has_mass.all() else has_mass, loop)
    if len(points) == len(D.masses):  # nothing to merge, and first appearance is the given order
        return SparseHistograms(points, D.offsets, index, D.masses), index
    if not has_mass.all():
        some, index = index, np.full(len(has_mass), -1, dtype=np.int64)
        index[has_mass] = some
    return SparseHistograms(points, *_merged(D, index, loop)), index


def _merged(
    D: Distributions, index: NDArray[np.int64], loop: Loop
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Offsets, indices and masses of sparse histograms: first each in its old place, and then without gaps."""
    n, counts = len(index), np.zeros(len(D) + 1, dtype=np.int64)
    loose = np.empty(n, dtype=np.int64), np.empty(n)

    def whole(low: int, high: int) -> tuple[int, int]:  # distributions that begin in a range of points
        first, last = np.searchsorted(D.offsets[:-1], [low, high])
        return int(first), int(last)

    loop(n, lambda low, high: _merge(*whole(low, high), D.offsets, D.masses, index, counts, *loose))
    offsets = np.cumsum(counts)
    tight = np.empty(offsets[-1], dtype=np.int64), np.empty(offsets[-1])
    loop(n, lambda low, high: _close_gaps(*whole(low, high), D.offsets, *loose, offsets, *tight))
    return offsets, *tight


def distinct_points(D: Distributions) -> tuple[FloatArray, NDArray[np.int64]]:
    """Distinct points (V, d) of a collection, in order of first appearance, and the index of every point among them."""
    return _distinct_points(D, None, serially)


def _distinct_points(
    D: Distributions, which: NDArray[np.bool_] | None, loop: Loop
) -> tuple[FloatArray, NDArray[np.int64]]:
    if D.vocabulary is None:
        return distinct_rows(D.points if which is None else D.points[which], loop)
    support, index = D.vocabulary
    used, first, place = np.unique(index if which is None else index[which], return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    points, among = distinct_rows(support[used[order]], loop)  # words may share a vector
    return points, among[rank[place]]


@compiled
def _row_hashes(words, sign_bit, factors, hashes):  # type: ignore[no-untyped-def]
    """A 64-bit hash (n,) of every row of float bit patterns (n, d); -0.0 counts as 0.0.

    A sum of products, which do not wait for each other. Small integers differ in their upper bits only, so these are
    also put into the lower half.
    """
    n, d = words.shape
    for i in range(n):
        h = np.uint64(0)
        for j in range(d):
            word = np.uint64(words[i, j])
            word = np.uint64(0) if word == sign_bit else word
            h += (word ^ (word >> np.uint64(32))) * factors[j]
        hashes[i] = h ^ (h >> np.uint64(32))


@compiled
def _number_hashes(hashes, shift, table, first, index):  # type: ignore[no-untyped-def]
    """Number the distinct hashes; ``table``, of a power of two and all -1, holds the numbers at places from hashes."""
    last = len(table) - 1
    n_distinct = 0
    for i in range(len(hashes)):
        slot = np.int64(hashes[i] >> shift)
        while table[slot] >= 0 and hashes[first[table[slot]]] != hashes[i]:
            slot = (slot + 1) & last
        if table[slot] < 0:
            table[slot] = n_distinct
            first[n_distinct] = i
            n_distinct += 1
        index[i] = table[slot]
    return n_distinct


@compiled
def _all_equal(low, high, points, first, index):  # type: ignore[no-untyped-def]
    for i in range(low, high):
        r = first[index[i]]
        differ = 0
        for j in range(points.shape[1] if r != i else 0):
            differ += points[i, j] != points[r, j]
        if differ:
            return False
    return True


@compiled
def _number_rows(points, hashes, shift, table, first, index):  # type: ignore[no-untyped-def]
    """The same for the rows themselves, which are compared wherever hashes agree."""
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
def _merge(low, high, offsets, masses, index, counts, new_index, new_masses):  # type: ignore[no-untyped-def]
    """Merge the points of distributions low..high-1: ascending, repeats added in their order, counts[i + 1] are left.

    Points without mass have the index -1 and drop out.
    """
    for i in range(low, high):
        begin = offsets[i]
        n = 0
        keys = np.empty(offsets[i + 1] - begin, np.int64)
        for t in range(begin, offsets[i + 1]):
            if index[t] >= 0:
                keys[n] = index[t] << 31 | (t - begin)
                n += 1
        sort_keys(keys, n)
        used = begin
        for m in range(n):
            point = keys[m] >> 31
            if m > 0 and keys[m - 1] >> 31 == point:
                new_masses[used - 1] += masses[begin + (keys[m] & 0x7FFFFFFF)]
            else:
                new_index[used] = point
                new_masses[used] = masses[begin + (keys[m] & 0x7FFFFFFF)]
                used += 1
        counts[i + 1] = used - begin


@compiled
def _close_gaps(low, high, offsets, index, masses, new_offsets, new_index, new_masses):  # type: ignore[no-untyped-def]
    for i in range(low, high):
        begin, to = offsets[i], new_offsets[i]
        for t in range(new_offsets[i + 1] - to):
            new_index[to + t] = index[begin + t]
            new_masses[to + t] = masses[begin + t]


FEW_COORDINATES = 16
"""Up to this many coordinates in use, their number does not matter."""


def left_to_ship(
    histograms: SparseHistograms, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.int64]:
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


def _stretched(begin: NDArray[np.int64], sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """begin[t], begin[t] + 1, .., sizes[t] of them for every t, and the t of each."""
    of = np.repeat(np.arange(len(sizes)), sizes)
    return np.arange(len(of)) + np.repeat(begin - np.cumsum(sizes) + sizes, sizes), of
