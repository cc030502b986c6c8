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

    Rows are sorted by a 64-bit hash and then compared with the first of their hash, so equal means equal; should two
    different rows ever collide, a full lexicographic sort decides.
    """
    points = np.ascontiguousarray(points)
    if len(points) <= DICTIONARY_ROWS:
        return _few_distinct_rows(points)
    words = points.view(np.uint32 if points.dtype == np.float32 else np.uint64)
    hashes = _row_hashes(words, np.uint64(1) << np.uint64(8 * points.dtype.itemsize - 1))
    _, first, index = np.unique(hashes, return_index=True, return_inverse=True)
    if not _rows_match(points, first[index]):
        _, first, index = np.unique(points, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return points[first[order]], rank[index.ravel()]


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
    has_mass = D.masses > 0
    points, index = _distinct_points(D, None if has_mass.all() else has_mass)
    if len(points) == len(D.masses):  # nothing to merge, and first appearance is the given order
        return SparseHistograms(points, D.offsets, index, D.masses)
    owner = np.repeat(np.arange(len(D)), D.sizes)[has_mass]
    cells, place = np.unique(owner * len(points) + index, return_inverse=True)
    masses = np.asarray(np.bincount(place, weights=D.masses[has_mass]), dtype=np.float64)
    rows = cells // len(points)
    offsets = np.searchsorted(rows, np.arange(len(D) + 1))
    return SparseHistograms(points, offsets, cells - rows * len(points), masses)


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
def _rows_match(points, representative):  # type: ignore[no-untyped-def]
    n, d = points.shape
    for i in range(n):
        r = representative[i]
        for j in range(d):
            if points[i, j] != points[r, j]:
                return False
    return True


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
