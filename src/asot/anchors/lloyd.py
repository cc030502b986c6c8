"""Weighted k-means on all cores, with progress, that stops when it is told to.

The centers are those of scikit-learn's ``KMeans`` on one thread: the same draws of k-means++, the same products, and
sums in the order of the points. Only the search for the nearest center, nearly all of the work, is shared between
threads, and it has no sums that could round differently. So the anchors do not depend on the number of threads.

`asot.KMeansAnchors` runs it until it ends; estimates need anchors that are nearly as good at once (`learn_space`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.anchors.space import AnchorSpace
from asot.data.distinct import sparse_histograms
from asot.data.distributions import Distributions
from asot.native import Doubles, Floats, Int, Record, ShortInts, entry
from asot.run.executors import Progress, ProgressLike, Stop, in_threads, one_thread_per_product
from asot.run.pairs import tiles
from asot.validation import FloatArray, as_n_jobs

MOST_ROUNDS = 300
"""Rounds of Lloyd's iteration at most."""

FEW_ROUNDS = 10
"""Rounds of k-means after which a calibrated estimate hardly improves: its error is within 3 % of what convergence
gives, in a third of the time."""

TOLERANCE = 1e-4
"""Squared moves of all centers that end the iteration, as a share of the mean variance of a coordinate."""

_PRODUCT = 256  # points of one matrix product, or a multiple of it, ...
_PRODUCTS = 2**15  # ... while it has no more numbers than this
_NUMBERS = 2**25  # products of numbers in a piece of work: some milliseconds


def _centers(Real: Any) -> dict[str, type]:
    """Points and centers of one type of float (``native/anchors/lloyd.cpp``)."""
    return {
        "n": Int, "k": Int, "d": Int, "points": Real, "weights": Real, "products": Real, "squares": Real,
        "labels": ShortInts, "sums": Real, "held": Real,
    }  # fmt: skip


class WideCenters(Record, **_centers(Doubles)):
    pass


class NarrowCenters(Record, **_centers(Floats)):
    pass


_KINDS = {np.dtype(np.float64): WideCenters, np.dtype(np.float32): NarrowCenters}
_NAMES = {WideCenters: "wide", NarrowCenters: "narrow"}
_label = {kind: entry(f"label_{name}", kind, Int, Int) for kind, name in _NAMES.items()}
_add_up = {kind: entry(f"add_up_{name}", kind) for kind, name in _NAMES.items()}


@dataclass
class _Problem:
    """Points (n, d) around their mean, and their weights, both of one type of float."""

    points: NDArray[Any]  # (n, d)
    weights: NDArray[Any]  # (n,)
    squares: NDArray[Any]  # (n,) squared lengths
    k: int
    tolerance: float
    n_jobs: int
    shown: Progress
    most_rounds: int = MOST_ROUNDS

    def pieces(self, work: int) -> list[tuple[int, int]]:
        """Ranges of points, each with ``work`` products per point; whole matrix products of `_PRODUCT`."""
        size = max(1, _NUMBERS // max(1, work * _PRODUCT)) * _PRODUCT
        return list(tiles(len(self.points), size))

    def over_points(self, piece: Callable[[tuple[int, int], Stop], None], work: int) -> None:
        pieces = self.pieces(work)
        if len(pieces) == 1:  # to start a thread would take longer
            piece(pieces[0], np.zeros(1, dtype=np.int64))
        else:
            in_threads(piece, pieces, self.n_jobs)


class _Found(NamedTuple):
    centers: NDArray[Any]  # (k, d)
    labels: NDArray[np.int32]  # (n,)
    inertia: float


def _generator(random_state: Any) -> np.random.RandomState:
    """As scikit-learn's, whose import takes longer than the anchors of a call with a seed."""
    if isinstance(random_state, (int, np.integer)):
        return np.random.RandomState(random_state)
    from sklearn.utils import check_random_state

    return check_random_state(random_state)


def kmeans(
    points: NDArray[Any],
    weights: NDArray[np.float64],
    k: int,
    *,
    n_init: int = 1,
    most_rounds: int = MOST_ROUNDS,
    random_state: Any = None,
    n_jobs: int | None = None,
    progress: ProgressLike = None,
) -> NDArray[Any]:
    """Centers (k, d) of points (n, d), float32 or float64, with weights (n,), the best of ``n_init`` starts."""
    rng = _generator(random_state)
    points = np.array(points, order="C")
    tolerance = float(np.mean(np.var(points, axis=0)) * TOLERANCE)
    mean = points.mean(axis=0)
    points -= mean
    best: _Found | None = None
    with one_thread_per_product(), Progress(progress, n_init * (k + most_rounds), "anchors", unit="step") as shown:
        squares = np.einsum("ij,ij->i", points, points)
        own, jobs = weights.astype(points.dtype), as_n_jobs(n_jobs)
        problem = _Problem(points, own, squares, k, tolerance, jobs, shown, most_rounds)
        for _ in range(n_init):
            found = _iterate(problem, _first_centers(problem, rng))
            if best is None or (found.inertia < best.inertia and not _same(found.labels, best.labels, k)):
                best = found
    assert best is not None
    return best.centers + mean


def learn_space(
    D: Distributions, k: int, most: int, seed: int, n_jobs: int | None = None, progress: ProgressLike = None
) -> AnchorSpace:
    """At most k anchors for estimates: in a few rounds, on a sample of at most this many points of a collection."""
    if most < len(D.points):
        drawn = np.random.default_rng(seed).choice(len(D.points), most, p=D.masses / D.masses.sum())
        D = Distributions(D.points[np.sort(drawn)], np.array([0, most]))
    pool = sparse_histograms(D)
    if k >= len(pool.points):
        return AnchorSpace(pool.points)
    exponent = safe_exponent(pool.points)
    points = np.ldexp(pool.points, -exponent) if exponent else pool.points
    how: dict[str, Any] = {"most_rounds": FEW_ROUNDS, "random_state": seed % 2**32, "n_jobs": n_jobs}
    centers = kmeans(points, pool.pooled_masses() / len(D), k, progress=progress, **how)
    return AnchorSpace(np.ldexp(np.asarray(centers, dtype=np.float64), exponent))


def safe_exponent(points: FloatArray) -> int:
    """The power of two to divide by if squares of points would leave the range of their type; otherwise 0."""
    exponent = int(np.frexp(max(points.max(), -points.min()))[1])
    return exponent if abs(exponent) > (40 if points.dtype == np.float32 else 400) else 0


def _first_centers(problem: _Problem, rng: Any) -> NDArray[Any]:
    """k-means++: points that are drawn by their squared distance from the centers so far, the best of a few each."""
    points, weights, k = problem.points, problem.weights, problem.k
    centers = np.empty((k, points.shape[1]), dtype=points.dtype)
    tries = 2 + int(np.log(k))
    centers[0] = points[rng.choice(len(points), p=weights / weights.sum())]
    nearest = _squared_distances(problem, centers[:1])
    potential = nearest @ weights
    problem.shown.advance(1)
    for c in range(1, k):
        drawn = np.searchsorted(np.cumsum(weights * nearest), rng.uniform(size=tries) * potential)
        drawn = np.minimum(drawn, nearest.size - 1)
        distances = _squared_distances(problem, points[drawn])
        np.minimum(nearest, distances, out=distances)
        potentials = distances @ weights.reshape(-1, 1)
        chosen = int(np.argmin(potentials))
        potential, nearest = potentials[chosen], distances[chosen]
        centers[c] = points[drawn[chosen]]
        problem.shown.advance(1)
    return centers


def _squared_distances(problem: _Problem, some: NDArray[Any]) -> NDArray[Any]:
    """Squared distances (m, n) of some points (m, d) from all; products of float32 are taken in float64."""
    points, wide = problem.points, some.astype(np.float64)
    own = np.einsum("ij,ij->i", wide, wide)[:, None]
    out = np.empty((len(some), len(points)), dtype=points.dtype)

    def piece(part: tuple[int, int], _: Stop) -> None:
        low, high = part
        x = points[low:high].astype(np.float64, copy=False)
        squares = problem.squares[low:high] if points.dtype == np.float64 else np.einsum("ij,ij->i", x, x)
        block = -2.0 * (wide @ x.T)
        block += own
        block += squares
        np.maximum(block, 0.0, out=block)
        out[:, low:high] = block

    problem.over_points(piece, points.shape[1] * len(some))
    return out


def _iterate(problem: _Problem, centers: NDArray[Any]) -> _Found:
    """Nearest centers and means in turn, until no point changes its center or the centers hardly move."""
    labels = _nearest_centers(problem, centers)
    for done in range(1, problem.most_rounds + 1):
        means, held = _sums(problem.points, problem.weights, labels, problem.k)
        _relocate_empty(problem, centers, labels, means, held)
        means = _averaged(means, held)
        moved = float(((means - centers) ** 2).sum())
        centers, before = means, labels
        labels = _nearest_centers(problem, centers)
        problem.shown.advance(1)
        if np.array_equal(labels, before) or moved <= problem.tolerance:
            problem.shown.advance(problem.most_rounds - done)
            break
    own = ((problem.points - centers[labels]) ** 2).sum(axis=1)
    return _Found(centers, labels, float(own @ problem.weights))


def _nearest_centers(problem: _Problem, centers: NDArray[Any]) -> NDArray[np.int32]:
    """The nearest center of every point (n,), the first of equals."""
    labels = np.empty(len(problem.points), dtype=np.int32)
    squares = np.einsum("ij,ij->i", centers, centers)
    kind, k = _KINDS[problem.points.dtype], len(centers)
    size = max(2, _PRODUCTS // (k * _PRODUCT)) * _PRODUCT

    def piece(part: tuple[int, int], _: Stop) -> None:
        low, high = part
        products = np.empty((min(size, high - low), k), dtype=centers.dtype)
        record = kind(k=k, products=products, squares=squares, labels=labels)
        for start in range(low, high, size):
            count = min(size, high - start)
            np.dot(problem.points[start : start + count], centers.T, out=products[:count])
            _label[kind](record, start, count)

    problem.over_points(piece, centers.size)
    return labels


def _sums(
    points: NDArray[Any], weights: NDArray[Any], labels: NDArray[np.int32], k: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sums (k, d) of weighted points by label, in the order of the points, and of their weights (k,)."""
    (n, d), kind = points.shape, _KINDS[points.dtype]
    sums, held = np.zeros((k, d), points.dtype), np.zeros(k, points.dtype)
    _add_up[kind](kind(n=n, k=k, d=d, points=points, weights=weights, labels=labels, sums=sums, held=held))
    return sums, held


def _relocate_empty(
    problem: _Problem, centers: NDArray[Any], labels: NDArray[np.int32], sums: NDArray[Any], held: NDArray[Any]
) -> None:
    """Give centers without a point those that are farthest from theirs."""
    empty = np.flatnonzero(held == 0)
    if len(empty) == 0:
        return
    distances = ((problem.points - centers[labels]) ** 2).sum(axis=1)
    if distances.max() == 0:
        return
    far = np.argpartition(distances, -len(empty))[: -len(empty) - 1 : -1]
    for new, i in zip(empty, far, strict=True):
        moved = problem.points[i] * problem.weights[i]
        sums[labels[i]] -= moved
        sums[new] = moved
        held[new] = problem.weights[i]
        held[labels[i]] -= problem.weights[i]


def _averaged(sums: NDArray[Any], held: NDArray[Any]) -> NDArray[Any]:
    """Means; a center that stayed empty stands where the heaviest one does."""
    full = held > 0
    means = sums * np.divide(1.0, held, out=np.zeros_like(held), where=full)[:, None]
    means[~full] = means[np.argmax(held)]
    return means


def _same(labels: NDArray[np.int32], others: NDArray[np.int32], k: int) -> bool:
    """Whether two labelings differ in their names only."""
    pairs = np.unique(labels.astype(np.int64) * k + others)
    return len(pairs) == len(np.unique(labels)) == len(np.unique(others))
