"""Distributions as short vectors that rank pairs almost as W_1 does, under any ground distance (docs/method.md §9).

The energy distance 2 E d(X, Y) - E d(X, X') - E d(Y, Y') is small where W_1 is small, and it is the squared distance of
two vectors. Nyström's method finds such vectors from the mean distances of each distribution to some landmarks, which
are points of the collection: V K^(-1/2), where K are the distances between landmarks, centered. One matrix product then
compares all pairs.

Nothing is proven here, and nothing needs to be: vectors only suggest candidates, and how good they are is measured.

Entries are rounded to integers below 2^20. Products of them are exact in float64, so the order of the candidates does
not depend on threads or on who computes matrix products.
"""

from __future__ import annotations

import numpy as np

from asot._typing import Float, Indices
from asot.data.distinct import SparseHistograms
from asot.exact.unmatched import Unmatched
from asot.ground.costs import GroundCost, plain_distances
from asot.run.executors import Stop, in_threads, one_thread_per_product

LANDMARKS = 256
"""Points that every distribution is compared with."""

_BITS = 20
_POINTS = 2**12  # of a piece of work of one thread
_RIDGE = 1e-3  # the part of the largest eigenvalue that is added to all, against noise in directions that hardly occur


def energy_vectors(
    histograms: SparseHistograms, cost: GroundCost, unmatched: Unmatched | None, seed: int, n_jobs: int
) -> Float:
    """Integers (N, r), r ≤ 257, as float64: near distributions have near vectors."""
    landmarks = _choose(histograms, seed)
    prices = None if unmatched is None else unmatched.over(cost.scale)
    means = _mean_distances(histograms, cost, landmarks, prices, n_jobs)
    between = _reach(cost, landmarks, landmarks, prices)
    if unmatched is not None and prices is not None:
        means, between = _with_reservoir(histograms, unmatched.totals, prices, landmarks, means, between)
    with one_thread_per_product():
        vectors = _centered(means) @ _inverse_root(between)
    peak = float(np.abs(vectors).max(initial=0.0))
    return np.asarray(np.rint(vectors * (2.0**_BITS / peak))) if peak > 0 else np.zeros_like(vectors)


def _choose(histograms: SparseHistograms, seed: int) -> Indices:
    """Places of the landmarks among the distinct points, drawn by mass."""
    mass = np.bincount(histograms.index, weights=histograms.masses, minlength=len(histograms.points))
    there = np.flatnonzero(mass)
    count = min(LANDMARKS, len(there))
    chosen = np.random.default_rng(seed).choice(there, count, replace=False, p=mass[there] / mass[there].sum())
    return np.asarray(np.sort(chosen))


def _reach(cost: GroundCost, rows: Indices, columns: Indices, prices: Float | None) -> Float:
    """Distances; where mass may stay unmatched, none is above what that would cost on both sides."""
    distances = plain_distances(cost, rows, columns)
    return distances if prices is None else np.minimum(distances, prices[rows][:, None] + prices[columns])


def _mean_distances(
    histograms: SparseHistograms, cost: GroundCost, landmarks: Indices, prices: Float | None, n_jobs: int
) -> Float:
    """Mean distance of every distribution to each landmark (N, R)."""
    offsets, index, masses = histograms.offsets, histograms.index, histograms.masses
    means = np.empty((len(offsets) - 1, len(landmarks)))

    def piece(own: tuple[int, int], _: Stop) -> None:
        first, last = offsets[own[0]], offsets[own[1]]
        points, place = np.unique(index[first:last], return_inverse=True)
        distances = _reach(cost, points, landmarks, prices)[place]
        distances *= masses[first:last, None]
        means[own[0] : own[1]] = np.add.reduceat(distances, offsets[own[0] : own[1]] - first, axis=0)

    in_threads(piece, _pieces(offsets), n_jobs)
    return means


def _pieces(offsets: Indices) -> list[tuple[int, int]]:
    """Ranges of distributions with about `_POINTS` points each; they depend on the collection alone."""
    starts = np.flatnonzero(np.diff(offsets[:-1] // _POINTS, prepend=-1))
    return list(zip(starts.tolist(), [*starts[1:].tolist(), len(offsets) - 1], strict=True))


def _with_reservoir(
    histograms: SparseHistograms, totals: Float, prices: Float, landmarks: Indices, means: Float, between: Float
) -> tuple[Float, Float]:
    """Mass without a partner goes to one more place, which is a landmark, too.

    All distributions get the same total, by what they have there.
    """
    totals = totals / (totals.max() or 1.0)
    own = np.add.reduceat(histograms.masses * prices[histograms.index], histograms.offsets[:-1])
    border = prices[landmarks]
    means = totals[:, None] * means + (1.0 - totals)[:, None] * border
    return np.column_stack([means, totals * own]), np.block([[between, border[:, None]], [border, np.zeros(1)]])


def _centered(means: Float) -> Float:
    means = means - means.mean(axis=0)
    return np.asarray(means - means.mean(axis=1, keepdims=True))


def _inverse_root(between: Float) -> Float:
    """(R, r): the pseudo-inverse root of the centered kernel -between; negative eigenvalues count as none."""
    kernel = -_centered(between)
    values, vectors = np.linalg.eigh(0.5 * (kernel + kernel.T))
    used = values > 1e-9 * values[-1]
    if not used.any():
        return np.zeros((len(between), 1))
    return np.asarray(vectors[:, used] / np.sqrt(values[used] + _RIDGE * values[-1]))
