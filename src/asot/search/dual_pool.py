"""A lower bound on W_1 from a pool of dual potentials, for every ground metric (docs/method.md §8, §9).

Feasible potentials do not depend on the pair: any 1-Lipschitz f gives W_1(x, y) ≥ |E f(x) - E f(y)| for *all* pairs. So
solve some pairs, keep their optimal potentials, and extend each to all points by f(z) = min_j g_j + d(z, y_j), after
McShane, which is 1-Lipschitz for any heights g. Every distribution becomes M numbers, its means of M potentials, and a
bound on any pair is the largest difference. Nothing is lost to the radii of anchors, since the potentials are evaluated
at the original points.
"""

from __future__ import annotations

import functools

import numpy as np

from asot._typing import Float, Indices
from asot.anchors.space import AnchorSpace
from asot.data.distinct import SparseHistograms, sparse_histograms
from asot.data.distributions import Distributions
from asot.exact.auto import simplex_of_points
from asot.exact.points import ExactPoints, SinkPotentials
from asot.exact.workspace import padded
from asot.ground.metrics import ROUGH, Ground
from asot.native import Double, Doubles, Int, Ints, Record, entry
from asot.run.executors import Stop, in_stretches, in_threads, local_executor
from asot.run.pairs import tiles
from asot.search.cascade import DualPool, no_pool

SOURCES = 32
"""Distributions whose pairs give the potentials; 32 of them have 496 pairs."""

_ROUNDING = float(np.finfo(np.float32).eps)
_PAIRS = 8  # pairs that a thread solves at a time
_POINTS = 256  # points at which a thread evaluates potentials at a time


class PoolPotentials(
    Record, d=Int, width=Int, stride=Int, count=Int, support=Doubles, code=Int, order=Double, starts=Ints, place=Ints,
    heights=Doubles,
):  # fmt: skip
    """Potentials on some points, and the metric that extends them (``native/search/tables.cpp``)."""


_extend = entry("extend_potentials", PoolPotentials, Doubles, Int, Doubles, Ints)


def dual_pool(
    histograms: SparseHistograms,
    ground: Ground,
    source: ExactPoints,
    support: Float,
    seed: int,
    n_jobs: int = 1,
    memory: int = 2**30,
) -> tuple[DualPool, int]:
    """The pool of a collection, and how many pairs were solved for it.

    ``source`` solves the pairs that the potentials come from; ``support`` (L, d) are the points over which it is
    written, prepared for the same metric as ``ground``: those of the collection, or anchors.
    """
    n = len(histograms.offsets) - 1
    chosen = np.sort(np.random.default_rng(seed).permutation(n)[:SOURCES])
    rows, columns = (chosen[ends] for ends in np.triu_indices(len(chosen), 1))
    count = min(len(rows), memory // (8 * (len(ground.points) + n)))  # of potentials that fit
    order = np.random.default_rng(seed).permutation(len(rows))[:count]
    if count == 0:
        return no_pool(n), 0
    potentials = _solved_potentials(source, rows[order], columns[order], n_jobs)
    if len(potentials.points) == 0:
        return no_pool(n), count
    extended = _extended(potentials, support, ground, n_jobs)
    values = histograms.means(extended, functools.partial(in_stretches, n_jobs=n_jobs))
    values -= values.mean(axis=0)  # a constant changes no difference, and small numbers lose less as float32
    exactness = ROUGH.get(ground.code, 1e-11)
    absolute = 4.0 * _ROUNDING * float(np.abs(values).max()) + exactness * float(np.abs(extended).max())
    wide = np.zeros((n, -(-values.shape[1] // 16) * 16), dtype=np.float32)
    wide[:, : values.shape[1]] = values
    return DualPool(wide, 4.0 * _ROUNDING, absolute), count


def pool_on_anchors(
    pooled: Distributions,
    histograms: SparseHistograms,
    ground: Ground,
    anchors: AnchorSpace,
    seed: int,
    n_jobs: int,
    memory: int,
) -> DualPool:
    """Potentials of transport between histograms on anchors, extended from the anchors to the points."""
    on_anchors = sparse_histograms(
        Distributions.from_weights(anchors.histograms(pooled, device="cpu"), anchors.anchors)
    )
    support: Float = np.ldexp(np.asarray(on_anchors.points, dtype=np.float64), -ground.exponent)
    source = simplex_of_points(on_anchors, Ground(support, ground.code, ground.order, ground.exponent, ground.name))
    pool, _ = dual_pool(histograms, ground, source, support, seed, n_jobs, memory)
    return pool


def _solved_potentials(source: ExactPoints, rows: Indices, columns: Indices, n_jobs: int) -> SinkPotentials:
    """The potentials of the pairs (rows[t], columns[t]), one after the other."""

    def part(own: tuple[int, int], stop: Stop) -> SinkPotentials:
        return source.potentials(rows[slice(*own)], columns[slice(*own)], stop)

    parts = list(local_executor(n_jobs).map(part, tiles(len(rows), _PAIRS)))
    sizes = np.concatenate([np.diff(found.starts) for found in parts])
    points, heights = (np.concatenate(which) for which in zip(*(found[1:] for found in parts), strict=True))
    return SinkPotentials(np.concatenate([[0], np.cumsum(sizes)]), points, heights)


def _extended(potentials: SinkPotentials, support: Float, ground: Ground, n_jobs: int) -> Float:
    """Every potential at every distinct point of the collection (V, M)."""
    used, place = np.unique(potentials.points, return_inverse=True)
    nonempty = np.flatnonzero(np.diff(potentials.starts))
    starts = np.append(potentials.starts[nonempty], potentials.starts[-1])
    d = support.shape[1]
    transposed = np.zeros(((d + 3) & ~3, padded(len(used))))
    transposed[:d, : len(used)] = support[used].T
    out = np.empty((len(ground.points), len(nonempty)))
    record = PoolPotentials(
        d=d, width=transposed.shape[0], stride=transposed.shape[1], count=len(nonempty), support=transposed,
        code=ground.code, order=ground.order, starts=starts, place=place, heights=potentials.heights,
    )  # fmt: skip

    def piece(low: int, stop: Stop) -> None:
        points = ground.points[low : low + _POINTS]
        _extend(record, points, len(points), out[low:], stop)

    in_threads(piece, range(0, len(out), _POINTS), n_jobs)
    return out
