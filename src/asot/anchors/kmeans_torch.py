"""k-means of millions of points, in torch: on a GPU, or on torch's CPU device.

The algorithm is that of scikit-learn's ``KMeans``: greedy k-means++, then Lloyd's iteration, both from matrix products
in float64. Points keep their type, and stay on the device if it has room, or are uploaded in every pass. Chunks have a
fixed size and nothing is added by atomics, so sums are taken in the same order on every run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from asot.anchors.lloyd import MOST_ROUNDS, TOLERANCE, safe_exponent
from asot.anchors.nearest_torch import ROUNDING, Chunks, memory_advice, scaled, shared, slices, squares, upload
from asot.validation import FloatArray

if TYPE_CHECKING:
    from torch import Tensor

START_POINTS = 20_000_000
"""A larger pool starts from the k-means of a sample of this size, because k-means++ makes k passes over its points."""

START_BYTES = 2**32
"""The same for pools of many dimensions, which may have to be uploaded again in each of those passes."""

START_PER_CENTER = 64
"""A sample has at least this many points for each center."""

_BLOCK = 1024  # rows that are summed by one small product: many of them keep a GPU busy where a long one does not
_PIECE = 2**26  # bytes of pinned memory that an upload of the whole pool goes through

_Result = TypeVar("_Result")


class Clustering(NamedTuple):
    """Centers (k, d), the weighted sum of squared distances to the nearest one, and the number of iterations."""

    centers: NDArray[np.float64]
    inertia: float
    n_iter: int


def kmeans(
    points: FloatArray,
    weights: NDArray[np.float64],
    k: int,
    *,
    device: str,
    n_init: int = 1,
    random_state: Any = None,
    max_iter: int = MOST_ROUNDS,
) -> Clustering:
    """Weighted k-means. With a seed, the centers are the same on every run on one kind of device.

    Parameters
    ----------
    points : (n, d) float32 or float64
    weights : (n,) ≥ 0, not all 0
    k : int
        Number of centers. Some coincide if there are fewer distinct points.
    device : str
        A torch device.
    n_init : int
        Number of starts, of which the best is kept.
    random_state : int, RandomState or None
    max_iter : int
        Limit on the iterations of every start.
    """
    from sklearn.utils import check_random_state

    random = check_random_state(random_state)
    exponent = 0 if points.dtype == np.float32 else safe_exponent(points)  # squares of float32 stay within float64
    with memory_advice(device):
        pool = _Pool(points, weights, k, exponent, device)
        n_start = max(min(START_POINTS, START_BYTES // points[0].nbytes), START_PER_CENTER * k)
        start = pool
        if n_start < len(points):
            start = _Pool(*_sample(points, weights, n_start, random), k, exponent, device)
        runs = [_lloyd(start, _plus_plus(start, k, random), max_iter) for _ in range(n_init)]
        centers, inertia, n_iter = min(runs, key=lambda run: run[1])
        if start is not pool:
            centers, inertia, n_iter = _lloyd(pool, centers + (start.mean - pool.mean), max_iter)
        found = (centers + pool.mean).cpu().numpy()
    with np.errstate(over="ignore", under="ignore"):  # a square beyond float64 becomes inf or 0
        return Clustering(np.ldexp(found, exponent), float(np.ldexp(inertia, 2 * exponent)), n_iter)


def _sample(
    points: FloatArray, weights: NDArray[np.float64], size: int, random: Any
) -> tuple[FloatArray, NDArray[np.float64]]:
    """Points drawn by weight, one from each of ``size`` equal shares of it, and how often each was drawn."""
    places = (np.arange(size) + random.random_sample(size)) * (weights.sum() / size)
    rows, counts = np.unique(_locate(weights, places)[0], return_counts=True)
    return points[rows], counts.astype(np.float64)


class _Pool:
    """Weighted points in chunks on a device, in float64 and relative to their mean, which saves digits."""

    def __init__(self, points: FloatArray, weights: NDArray[np.float64], k: int, exponent: int, device: str) -> None:
        import torch

        self.n, self.d = points.shape
        self.device = device
        self._exponent = exponent
        self._points = _resident(shared(points), device)
        self._chunks = Chunks(self.n, 24 * (self.d + k) + 8 * k * self.d // _BLOCK)
        self.weights = torch.zeros(-(-self.n // _BLOCK) * _BLOCK, dtype=torch.float64, device=device)  # whole blocks
        self.weights[: self.n] = upload(shared(weights), device)
        total = self.weights.sum()
        self.mean = torch.zeros(self.d, dtype=torch.float64, device=device)
        self.mean = _sum(self.map(lambda own: self.weights[own] @ self.points(own))) / total
        scatter = _sum(self.map(lambda own: self.weights[own] @ squares(self.points(own))))
        self.variance = float(scatter / total) / self.d

    def points(self, own: slice) -> Tensor:
        """The points of a chunk (m, d)."""
        return scaled(upload(self._points[own], self.device), self._exponent) - self.mean

    def rows(self, index: NDArray[np.int64]) -> Tensor:
        """Some points (m, d)."""
        import torch

        some = self._points[torch.from_numpy(index).to(self._points.device)]
        return scaled(some.to(self.device), self._exponent) - self.mean

    def map(self, function: Callable[[slice], _Result]) -> Iterator[_Result]:
        """Results of a function of every chunk, which is a slice of the rows."""
        return self._chunks.map(function)


def _resident(host: Tensor, device: str) -> Tensor:
    """The points on the device if they take at most half of its free memory, otherwise where they are."""
    import torch

    target = torch.device(device)
    if target.type == "cpu" or host.nbytes > torch.cuda.mem_get_info(target)[0] // 2:
        return host
    points = torch.empty_like(host, device=target)
    for own in slices(len(host), max(1, _PIECE // host[0].nbytes)):
        points[own].copy_(host[own].pin_memory(), non_blocking=True)
    return points


def _plus_plus(pool: _Pool, k: int, random: Any) -> Tensor:
    """Centers (k, d), each the best of a few points that are drawn by their cost with the centers so far."""
    import torch

    n_trials = 2 + int(np.log(k))
    norms = torch.cat(list(pool.map(lambda own: squares(pool.points(own)))))  # (n,)
    closest = torch.zeros_like(pool.weights)  # squared distance to the nearest center so far
    closest[: pool.n] = torch.inf
    trials = closest.repeat(n_trials, 1)  # the same with each candidate as well
    centers = torch.empty((k, pool.d), dtype=torch.float64, device=pool.device)
    cost = pool.weights
    for u in range(k):
        candidates = pool.rows(_draw(cost, random.random_sample(n_trials if u else 1)))
        remaining = _remaining(pool, norms, candidates, closest, trials)
        best = int(remaining.argmin())
        centers[u] = candidates[best]
        closest.copy_(trials[best])
        # Once all points are at centers, any further center will do.
        cost = pool.weights * closest if float(remaining[best]) > 0 else pool.weights
    return centers


def _remaining(pool: _Pool, norms: Tensor, candidates: Tensor, closest: Tensor, trials: Tensor) -> Tensor:
    """What the points would cost with each of l candidates as well (l,). Their distances go to trials (l, n)."""
    sizes = squares(candidates)[:, None]  # (l, 1)

    def cost(own: slice) -> Tensor:
        scale = sizes + norms[own]  # (l, m)
        squared = scale.addmm(candidates, pool.points(own).T, alpha=-2)
        squared[squared <= 4 * (pool.d + 8) * ROUNDING * scale] = 0.0  # rounding must not attract centers
        reduced = trials[: len(candidates), own]
        reduced.copy_(squared.minimum(closest[own]))
        return reduced @ pool.weights[own]

    return _sum(pool.map(cost))


def _draw(cost: Tensor, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """Indices drawn in proportion to cost (whole blocks): first a block, then an index in it.

    One cumulative sum over all would need no blocks, but on a GPU it is not the same on every run.
    """
    blocks = cost.view(-1, _BLOCK)
    sums = blocks.sum(dim=1).cpu().numpy()
    block, rest = _locate(sums, uniform * sums.sum())
    inside = [int(_locate(blocks[b].cpu().numpy(), r)[0]) for b, r in zip(block.tolist(), rest, strict=True)]
    return np.asarray(block * _BLOCK + inside, dtype=np.int64)


def _locate(weights: NDArray[np.float64], places: Any) -> tuple[Any, Any]:
    """Which weight each position along the cumulative weights falls into, never one of 0, and how far into it."""
    ends = np.cumsum(weights)
    which = np.minimum(np.searchsorted(ends, places, side="right"), np.flatnonzero(weights)[-1])
    return which, places - (ends[which] - weights[which])


def _lloyd(pool: _Pool, centers: Tensor, max_iter: int) -> tuple[Tensor, float, int]:
    """Move centers (k, d) to the means of their points until they stop moving; centers, inertia, iterations."""
    import torch

    n_iter, step = 0, np.inf
    while n_iter < max_iter and step > TOLERANCE * pool.variance:
        sums, totals = torch.zeros_like(centers), centers.new_zeros(len(centers))
        for more_sums, more_totals in pool.map(functools.partial(_cluster_sums, pool, centers)):
            sums += more_sums
            totals += more_totals
        empty = totals == 0
        means = torch.where(empty[:, None], centers, sums / totals[:, None])
        if bool(empty.any()):
            _relocate(pool, means, empty.nonzero().ravel())
        step = float((means - centers).square().sum())
        centers = means
        n_iter += 1
    inertia = _sum(costs.sum() for costs in pool.map(functools.partial(_costs, pool, centers)))
    return centers, float(inertia), n_iter


def _cluster_sums(pool: _Pool, centers: Tensor, own: slice) -> tuple[Tensor, Tensor]:
    """Weighted sums (k, d) and total weights (k,) of the points of a chunk that are nearest to each center."""
    k, d = centers.shape
    x = pool.points(own)
    codes = x.new_zeros((len(x), k)).scatter_(1, _labels(x, centers)[:, None], pool.weights[own][:, None])  # (m, k)
    whole = len(x) // _BLOCK * _BLOCK
    sums = codes[whole:].T @ x[whole:]
    if whole:
        sums += (codes[:whole].view(-1, _BLOCK, k).mT @ x[:whole].view(-1, _BLOCK, d)).sum(dim=0)
    return sums, codes.sum(dim=0)


def _relocate(pool: _Pool, centers: Tensor, empty: Tensor) -> None:
    """Move empty centers to the points that cost most, in place. Points that cost nothing attract none."""
    import torch

    def costliest(own: slice) -> tuple[Tensor, Tensor]:
        costs = _costs(pool, centers, own)
        top = costs.topk(min(len(empty), len(costs)))
        return top.values, top.indices + own.start

    parts = list(pool.map(costliest))
    cost = torch.cat([values for values, _ in parts]).cpu().numpy()
    row = torch.cat([rows for _, rows in parts]).cpu().numpy()
    order = np.argsort(-cost, kind="stable")[: len(empty)]
    chosen = row[order[cost[order] > 0]]
    centers[empty[: len(chosen)]] = pool.rows(chosen)


def _costs(pool: _Pool, centers: Tensor, own: slice) -> Tensor:
    """Weight times squared distance to the nearest center, for the points of a chunk (m,); from differences."""
    x = pool.points(own)
    return pool.weights[own] * squares(x - centers[_labels(x, centers)])


def _labels(x: Tensor, centers: Tensor) -> Tensor:
    """Nearest center of every row (m,), up to the rounding of a product."""
    return squares(centers).addmm(x, centers.T, alpha=-2).argmin(dim=1)


def _sum(parts: Iterator[Tensor]) -> Tensor:
    total = next(parts)
    for part in parts:
        total = total + part
    return total
