"""A lower bound on W_1 from sorted projections, for ground metrics that are norms (docs/method.md §9).

Let Φ(z) = (φ_1(z_1), …, φ_d(z_d)) with every φ_c 1-Lipschitz. Then ‖Φ(z) - Φ(z')‖_p ≤ ‖z - z'‖_p, and taking means over
any transport plan,

    W_1(x, y) ≥ ‖E Φ(x) - E Φ(y)‖_p.

The best φ_c are the potentials of the one-dimensional problems, so W_1 ≥ ‖(W_1(x_c, y_c))_c‖_p, where x_c is
coordinate c of x. A one-dimensional W_1 is the distance ∫|Q_x - Q_y| of two quantile functions, and means over equal
shares of the mass can only make it smaller. So each distribution becomes a few hundred numbers, the means of its sorted
coordinates, and a bound on any pair is a sum of differences. With one share it is the distance of the centroids. For
the Euclidean metric every rotation of the coordinates gives another such bound, and the largest holds.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices
from asot.data.distinct import SparseHistograms
from asot.ground.metrics import CITYBLOCK, EUCLIDEAN, Ground
from asot.native import Doubles, Int, Ints, Record, entry
from asot.run.executors import Stop, in_stretches, local_executor

WIDTH = 16
"""Coordinates that go side by side: the float32 numbers of 64 bytes."""

SHARES = 32
"""Equal shares of the mass whose means are kept of every sorted coordinate."""

COARSE = 8
"""Shares of the first, coarse look; divides `SHARES`."""

SORTED = WIDTH
"""Coordinates that are sorted; of the others the mean is kept."""

MIXED = 4
"""Leading coordinates that the rotations mix: with more, each rotation costs more and adds less."""

GROUPS = 3
"""Groups of rotations besides the principal axes; each group fills the 16 lanes."""

TAIL = 112
"""Most coordinates of which only the mean is kept."""

_SHORT = 2**10  # entries that are sorted before a thread has started
_MOST_AXES = 512  # coordinates of largest variance that the principal axes are made from
_ROUNDING = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class Projections:
    """Means of sorted coordinates, in the units of ``ground.points`` (distances are 2^exponent larger).

    A bound computed from them in float32 is certain after ``bound · (1 - relative) - absolute``.
    """

    coarse: NDArray[np.float32]  # (N, COARSE, WIDTH) along the axes; unused places are 0
    fine: NDArray[np.float32]  # (N, SHARES, WIDTH)
    mixed: NDArray[np.float32]  # (groups, N, SHARES, WIDTH) the first n_mixed axes in several rotations
    n_mixed: int
    tail: NDArray[np.float32]  # (N, t) means along further axes
    relative: float
    absolute: float


class SortedMasses(
    Record, n_points=Int, shares=Int, order=Ints, y=Doubles, starts=Ints, owners=Ints, masses=Doubles, filled=Doubles,
    bins=Doubles,
):  # fmt: skip
    """Who has the points along an axis, and where integrals go (``native/search/tables.cpp``)."""


_fill_shares = entry("fill_shares", SortedMasses)


def project(histograms: SparseHistograms, ground: Ground, n_jobs: int = 1, memory: int = 2**30) -> Projections:
    """Project every distribution of a collection. ``memory`` limits the number of rotations."""
    n = len(histograms.offsets) - 1
    weights = histograms.pooled_masses() / n
    centered = ground.points - weights @ ground.points
    axes = choose_axes(centered, weights, ground.code)
    groups = int(min(GROUPS, memory // (4 * WIDTH * SHARES * n)))
    return project_on(axes, histograms, centered, ground.code, groups, n_jobs)


@dataclass(frozen=True)
class Axes:
    """Coordinates to look along: some of the given ones, and maybe a rotation of them."""

    widest: Indices  # (w,) of the d coordinates, by spread
    rotation: Float | None  # (w, C + t), orthonormal columns; None: the coordinates as they are
    leading: int
    """How many (C) are to be sorted; of the others the mean is kept."""

    def along(self, x: Float) -> Float:
        """Points (V, d) in these coordinates (V, C + t)."""
        if len(self.widest) < x.shape[1] or self.rotation is None:
            x = x[:, self.widest]
        return np.ascontiguousarray(x if self.rotation is None else x @ self.rotation)


def choose_axes(x: Float, weights: Float, code: int) -> Axes:
    """The coordinates in which centered points (V, d) spread most."""
    spread = np.einsum("vd,vd,v->d", x, x, weights)
    widest = np.argsort(-spread, kind="stable")[:_MOST_AXES]
    if len(widest) < x.shape[1] or code != EUCLIDEAN:
        x, spread = x[:, widest], spread[widest]
    else:
        widest = np.arange(x.shape[1])
    axes = None
    if code == EUCLIDEAN:
        spread, axes = np.linalg.eigh((x * weights[:, None]).T @ x)
        spread, axes = np.maximum(spread[::-1], 0.0), axes[:, ::-1]
    leading = min(SORTED, x.shape[1])
    share = np.cumsum(spread) / max(spread.sum(), np.finfo(float).tiny)
    kept = int(np.clip(1 + np.searchsorted(share, 0.999), leading, min(x.shape[1], leading + TAIL)))
    return Axes(widest[:kept], None, leading) if axes is None else Axes(widest, axes[:, :kept], leading)


def project_on(
    axes: Axes, histograms: SparseHistograms, centered: Float, code: int, groups: int, n_jobs: int
) -> Projections:
    """Project distributions over points (V, d) on axes that may come from others, and on some groups of rotations."""
    n = len(histograms.offsets) - 1
    x, leading = axes.along(centered), axes.leading
    starts, owners, masses = _by_point(histograms)

    def binned(y: Float) -> NDArray[np.float32]:
        """Integrals (N, SHARES, WIDTH) of the sorted columns of y (V, columns)."""
        out = np.zeros((n, SHARES, WIDTH), dtype=np.float32)

        def one(c: int, stop: Stop) -> None:
            bins = np.zeros((n, SHARES))
            _fill_shares(
                SortedMasses(
                    n_points=len(y), shares=SHARES, order=np.argsort(y[:, c]), y=y[:, c].copy(), starts=starts,
                    owners=owners, masses=masses, filled=np.zeros(n), bins=bins,
                )
            )  # fmt: skip
            out[:, :, c] = bins

        for _ in local_executor(n_jobs, short=len(masses) < _SHORT).map(one, range(y.shape[1])):
            pass
        return out

    fine = binned(x[:, :leading])
    n_mixed = min(MIXED, leading) if code == EUCLIDEAN else 0
    mixed = [binned(x[:, :n_mixed] @ turns) for turns in _rotations(n_mixed, groups)]
    coarse = fine.reshape(n, COARSE, SHARES // COARSE, WIDTH).sum(axis=2, dtype=np.float64).astype(np.float32)
    extent = float(np.linalg.norm(np.abs(x).max(axis=0), 1 if code == CITYBLOCK else 2))
    return Projections(
        coarse=coarse,
        fine=fine,
        mixed=np.stack(mixed) if mixed else np.empty((0, n, SHARES, WIDTH), dtype=np.float32),
        n_mixed=n_mixed,
        tail=histograms.means(x[:, leading:], functools.partial(in_stretches, n_jobs=n_jobs)).astype(np.float32),
        # one rounding for each addition of float32, and for each number that became one
        relative=2.0 * _ROUNDING * (SHARES + leading + x.shape[1] + 16),
        absolute=8.0 * _ROUNDING * extent,
    )


def _rotations(size: int, groups: int) -> list[Float]:
    """Groups of orthogonal matrices side by side (size, R·size), over all directions; always the same ones."""
    if size < 2 or groups == 0:
        return []
    each = WIDTH // size
    if size == 2:
        angles = np.arange(1, each * groups + 1) * (np.pi / 2 / (each * groups + 1))  # a quarter turn renames the axes
        angles = angles.reshape(each, groups).T.ravel()  # the first group looks everywhere
        turns = [np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]) for a in angles]
    else:
        rng = np.random.default_rng(0)
        turns = [np.linalg.qr(rng.normal(size=(size, size)))[0] for _ in range(each * groups)]
    return [np.hstack(turns[start : start + each]) for start in range(0, len(turns), each)]


def _by_point(histograms: SparseHistograms) -> tuple[NDArray[Any], NDArray[Any], Float]:
    """The table of masses (N, V) by columns: for every distinct point, who has it and with what mass."""
    n = len(histograms.offsets) - 1
    owner = np.repeat(np.arange(n), np.diff(histograms.offsets))
    order = np.argsort(histograms.index, kind="stable")
    starts = np.searchsorted(histograms.index[order], np.arange(len(histograms.points) + 1))
    return starts, owner[order], histograms.masses[order]
