"""Clustering of distributions on anchors: `asot.WassersteinKMeans`, with medoids or barycenters as centers.

A medoid is a member that represents its cluster: always a real distribution, and any metric will do. Medoids are
swapped for other members as long as that reduces the sum of distances. A barycenter is a histogram on the anchors that
need not be a member; in turns, distributions join the nearest barycenter, and each barycenter moves to the middle of
its members. Distances are W_1 on the anchors, and what is minimized is the sum of the distances, not of their squares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.base import ClassNamePrefixFeaturesOutMixin as NamesColumns
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from asot._typing import Float
from asot.anchors.base import ReadsCollections
from asot.anchors.kmeans import KMeansAnchors
from asot.anchors.resolve import fitted_space
from asot.anchors.space import AnchorSpace
from asot.data.distributions import Distributions
from asot.histograms import emd_many
from asot.learn.barycenter import find_barycenter
from asot.native import Doubles, Int, Ints, Record, entry
from asot.results.sinks import Dense
from asot.run.executors import Progress, ProgressLike
from asot.validation import as_choice, as_positive_int

SHARPNESS = 100.0
"""Barycenters are entropic with ε = max C / SHARPNESS: sharp enough to see strokes, and fast."""


class Medoids(Record, n=Int, count=Int, matrix=Doubles, medoids=Ints, swap=Ints, gain=Doubles):
    """A clustering by medoids, and where the best swap goes (``native/learn/best_swap.cpp``)."""


_swap = entry("best_swap", Medoids)


@dataclass(eq=False, repr=False)
class WassersteinKMeans(ReadsCollections, NamesColumns, ClusterMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Cluster the distributions of a collection by W_1 on anchors.

    Parameters
    ----------
    n_clusters : int
    method : {"medoids", "barycenters"}
        What a center is: a member of its cluster, or any histogram on the anchors. Medoids need the matrix of all
        distances; barycenters do not.
    space : AnchorSpace or anchor learner, optional
        Default: ``KMeansAnchors(n_anchors, random_state=random_state)``, fitted on the collection.
    n_anchors : int, optional
        Number of anchors if `space` is None. Default: the mean number of points of a distribution.
    n_init : int
        Random starts, of which the one with the smallest inertia is kept.
    max_iter : int
        Most steps per start: swaps of a medoid, or rounds of barycenters.
    device, n_jobs
        As in `asot.emd_many`.
    progress : bool, None or callable
        As in `asot.pairwise`: first the distances, then the starts.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : (N,) int64
    cluster_centers_ : (n_clusters, k) float64, histograms on the anchors
    medoid_indices_ : (n_clusters,) int64, with ``method="medoids"``
    inertia_ : float
        Sum of the distances to the centers.
    n_iter_ : int
    space_ : AnchorSpace

    Examples
    --------
    >>> import asot
    >>> from asot.datasets import load_digits
    >>> from sklearn.metrics import adjusted_rand_score
    >>> digits, labels, _ = load_digits(300)
    >>> model = asot.WassersteinKMeans(10, random_state=0).fit(digits)
    >>> adjusted_rand_score(labels, model.labels_) > 0.5
    True
    """

    n_clusters: int = 8
    _: KW_ONLY
    method: str = "medoids"
    space: Any = None
    n_anchors: int | None = None
    n_init: int = 4
    max_iter: int = 100
    device: str = "auto"
    n_jobs: int | None = None
    progress: ProgressLike = None
    random_state: Any = None
    _made = "cluster_centers_"

    def fit(self, X: Any, y: Any = None) -> WassersteinKMeans:
        """Cluster a collection; ``y`` is not used."""
        as_choice(self.method, "method", ("medoids", "barycenters"))
        D = self._read(X, reset=True)
        count = as_positive_int(self.n_clusters, "n_clusters")
        if count > len(D):
            raise ValueError(f"n_samples={len(D)} should be >= n_clusters={count}")
        rng = check_random_state(self.random_state)
        self.space_: AnchorSpace = self._learned_space(D, rng.randint(2**31 - 1))
        H = self.space_.histograms(D, device=self.device)
        starts, most = as_positive_int(self.n_init, "n_init"), as_positive_int(self.max_iter, "max_iter")
        if self.method == "medoids":
            matrix = self._emd(H, None, self.progress)
            self.n_iter_, self.medoid_indices_ = self._best(starts, lambda: swap_medoids(matrix, count, rng, most))
            self.cluster_centers_ = H[self.medoid_indices_]
        else:
            self.n_iter_, self.cluster_centers_ = self._best(starts, lambda: self._by_barycenters(H, count, rng, most))
        distances = self._emd(H, self.cluster_centers_)
        self.labels_ = distances.argmin(axis=1)
        self.inertia_ = float(distances.min(axis=1).sum())
        return self

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The nearest center of every distribution (N,)."""
        return np.asarray(self.transform(X).argmin(axis=1), dtype=np.int64)

    def transform(self, X: Any) -> Float:
        """Distances on the anchors to the centers (N, n_clusters)."""
        check_is_fitted(self)
        return self._emd(self.space_.histograms(self._read(X, reset=False), device=self.device), self.cluster_centers_)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the sum of the distances to the nearest centers; ``y`` is not used."""
        return -float(self.transform(X).min(axis=1).sum())

    def _learned_space(self, D: Distributions, seed: int) -> AnchorSpace:
        if self.n_anchors is None:
            return fitted_space(self.space, D, seed)
        if self.space is not None:
            raise ValueError("n_anchors only applies if the space is learned here; pass either space or n_anchors")
        count = as_positive_int(self.n_anchors, "n_anchors")
        return KMeansAnchors(count, random_state=seed, device=self.device).fit(D).space_

    def _best(self, starts: int, run: Callable[[], tuple[float, int, Any]]) -> tuple[int, Any]:
        """Steps and result of the start with the least inertia."""
        found = []
        with Progress(self.progress, starts, "starts", unit="start") as shown:
            for _ in range(starts):
                found.append(run())
                shown.advance(1)
        return min(found, key=lambda run: run[0])[1:]

    def _emd(self, H: Float, centers: Float | None, progress: ProgressLike = False) -> Float:
        how: dict[str, Any] = {"device": self.device, "n_jobs": self.n_jobs, "progress": progress}
        return emd_many(H, centers, cost=self.space_.cost, sink=Dense(), **how)

    def _by_barycenters(self, H: Float, count: int, rng: Any, most: int) -> tuple[float, int, Float]:
        cost = self.space_.cost
        reg = float(cost.max()) / SHARPNESS
        centers = H[_spread_start(lambda i: self._emd(H, H[[i]])[:, 0], len(H), count, rng)]
        best, kept = np.inf, centers
        for steps in range(1, most + 1):  # noqa: B007
            distances = self._emd(H, centers)
            labels = distances.argmin(axis=1)
            inertia = float(distances.min(axis=1).sum())
            if not inertia < best:
                break
            best, kept = inertia, centers
            centers = centers.copy()
            for c in range(count):
                members = np.flatnonzero(labels == c)
                if reg > 0 and len(members) > 0:
                    candidate = find_barycenter(H[members], cost, None, reg=reg, max_iter=200, tol=1e-4)
                    if candidate.value * len(members) < distances[members, c].sum():
                        centers[c] = candidate.masses
        return best, steps, kept


def cluster_distances(matrix: Float, n_clusters: int, random_state: Any) -> NDArray[np.int64]:
    """Clusters (N,) by given distances (N, N), around medoids."""
    count = as_positive_int(n_clusters, "n_clusters")
    if count > len(matrix):
        raise ValueError(f"{len(matrix)} distributions cannot be in {count} clusters")
    rng = check_random_state(random_state)
    _, _, medoids = min((swap_medoids(matrix, count, rng, 100) for _ in range(4)), key=lambda run: run[0])
    return np.asarray(matrix[:, medoids].argmin(axis=1), dtype=np.int64)


def swap_medoids(matrix: Float, count: int, rng: Any, max_iter: int) -> tuple[float, int, NDArray[np.int64]]:
    """Swap a medoid for another member as long as that reduces the sum of distances, the best swap each time."""
    medoids = _spread_start(lambda i: matrix[i], len(matrix), count, rng)
    swap, gain = np.empty(2, dtype=np.int64), np.empty(1)  # which medoid, for which member, by how much
    for steps in range(1, max_iter + 1):  # noqa: B007
        if count == 1:
            medoids[0] = int(matrix.sum(axis=1).argmin())
            break
        _swap(Medoids(n=len(matrix), count=count, matrix=matrix, medoids=medoids, swap=swap, gain=gain))
        if not gain[0] > 1e-12 * matrix.max():
            break
        medoids[swap[0]] = swap[1]
    return float(matrix[:, medoids].min(axis=1).sum()), steps, medoids


def _spread_start(distances_to: Any, n: int, count: int, rng: Any) -> NDArray[np.int64]:
    """Distributions far from each other: each one is drawn with a probability proportional to its distance to those
    before."""
    chosen = [int(rng.randint(n))]
    nearest = np.array(distances_to(chosen[0]))
    while len(chosen) < count:
        total = nearest.sum()
        free = np.setdiff1d(np.arange(n), chosen)
        draw = rng.choice(n, p=nearest / total) if total > 0 else rng.choice(free)
        chosen.append(int(draw))
        nearest = np.minimum(nearest, distances_to(chosen[-1]))
    return np.array(chosen)
