"""Clustering of distributions on anchors: `asot.WassersteinKMeans`, with medoids or barycentres as centres.

Lloyd's alternation: every distribution joins the nearest centre, every centre moves to the middle of its distributions.
A medoid is the member with the smallest sum of distances to the others: always a real distribution, and any metric will
do. A barycentre is a histogram on the anchors that need not be a member. Distances are W_1 on the anchors, and the sum
that is made small is that of the distances themselves, not of their squares.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from asot.anchors.base import ReadsCollections
from asot.anchors.space import AnchorSpace
from asot.distances import _fitted_space
from asot.histograms import emd_many
from asot.learn.barycenter import barycenter
from asot.run.sinks import Dense
from asot.validation import as_choice, as_positive_int

Float = NDArray[np.float64]

SHARPNESS = 100.0
"""Barycentres are entropic with ε = max C / SHARPNESS: sharp enough to see strokes, and quick."""


class WassersteinKMeans(ReadsCollections, ClusterMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Cluster the distributions of a collection by W_1 on anchors.

    Parameters
    ----------
    n_clusters : int
    method : {"medoids", "barycenters"}
        What a centre is: a member of its cluster, or any histogram on the anchors. Medoids need the matrix of all
        distances; barycentres do not.
    space : AnchorSpace or anchor learner, optional
        Default: ``KMeansAnchors(random_state=random_state)``, fitted on the collection.
    n_init : int
        Random starts, of which the one with the smallest inertia is kept.
    max_iter : int
    n_jobs : int, optional
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : (N,) int64
    cluster_centers_ : (n_clusters, k) float64, histograms on the anchors
    medoid_indices_ : (n_clusters,) int64, with ``method="medoids"``
    inertia_ : float
        Sum of the distances to the centres.
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

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        method: str = "medoids",
        space: Any = None,
        n_init: int = 4,
        max_iter: int = 50,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.method = method
        self.space = space
        self.n_init = n_init
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> WassersteinKMeans:
        """Cluster a collection; ``y`` is not used."""
        as_choice(self.method, "method", ("medoids", "barycenters"))
        D = self._read(X, reset=True)
        count = as_positive_int(self.n_clusters, "n_clusters")
        if count > len(D):
            raise ValueError(f"n_samples={len(D)} should be >= n_clusters={count}")
        rng = check_random_state(self.random_state)
        self.space_: AnchorSpace = _fitted_space(self.space, D, rng.randint(2**31 - 1))
        H = self.space_.histograms(D)
        starts = as_positive_int(self.n_init, "n_init")
        if self.method == "medoids":
            matrix = emd_many(H, cost=self.space_.cost, n_jobs=self.n_jobs, sink=Dense())
            runs = [self._by_medoids(matrix, count, rng) for _ in range(starts)]
            _, self.n_iter_, self.medoid_indices_ = min(runs, key=lambda run: run[0])
            self.cluster_centers_ = H[self.medoid_indices_]
        else:
            moved = [self._by_barycenters(H, count, rng) for _ in range(starts)]
            _, self.n_iter_, self.cluster_centers_ = min(moved, key=lambda run: run[0])
        distances = self._to_centers(H)
        self.labels_ = distances.argmin(axis=1)
        self.inertia_ = float(distances.min(axis=1).sum())
        return self

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The nearest centre of every distribution (N,)."""
        return np.asarray(self.transform(X).argmin(axis=1), dtype=np.int64)

    def transform(self, X: Any) -> Float:
        """Distances on the anchors to the centres (N, n_clusters)."""
        check_is_fitted(self, "cluster_centers_")
        return self._to_centers(self.space_.histograms(self._read(X, reset=False)))

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the sum of the distances to the nearest centres; ``y`` is not used."""
        return -float(self.transform(X).min(axis=1).sum())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "cluster_centers_")

    # ------------------------------------------------------------------------------------------------ alternation

    def _to_centers(self, H: Float, centers: Float | None = None) -> Float:
        centers = self.cluster_centers_ if centers is None else centers
        return np.asarray(emd_many(H, centers, cost=self.space_.cost, n_jobs=self.n_jobs).matrix(), dtype=np.float64)

    def _by_medoids(self, matrix: Float, count: int, rng: Any) -> tuple[float, int, NDArray[np.int64]]:
        medoids = _spread_start(lambda i: matrix[i], len(matrix), count, rng)
        inertia = np.inf
        steps = 0
        while steps < as_positive_int(self.max_iter, "max_iter"):
            steps += 1
            nearest = matrix[:, medoids]
            labels = nearest.argmin(axis=1)
            labels[medoids] = np.arange(count)  # equal medoids must not leave a cluster empty
            new = float(nearest.min(axis=1).sum())
            if not new < inertia:
                break
            inertia = new
            for c in range(count):
                members = np.flatnonzero(labels == c)
                medoids[c] = members[matrix[np.ix_(members, members)].sum(axis=1).argmin()]
        return inertia, steps, medoids

    def _by_barycenters(self, H: Float, count: int, rng: Any) -> tuple[float, int, Float]:
        cost = self.space_.cost
        reg = float(cost.max()) / SHARPNESS
        start = _spread_start(lambda i: self._to_centers(H, H[[i]])[:, 0], len(H), count, rng)
        centers = H[start]
        best = np.inf
        kept = centers
        steps = 0
        while steps < as_positive_int(self.max_iter, "max_iter"):
            steps += 1
            distances = self._to_centers(H, centers)
            labels = distances.argmin(axis=1)
            inertia = float(distances.min(axis=1).sum())
            if not inertia < best:
                break
            best, kept = inertia, centers
            centers = centers.copy()
            for c in range(count):
                members = np.flatnonzero(labels == c)
                if reg > 0 and len(members) > 0:
                    candidate = barycenter(H[members], cost, reg=reg, max_iter=200, tol=1e-4)
                    if candidate.value * len(members) < distances[members, c].sum():
                        centers[c] = candidate.masses
        return best, steps, kept


def _spread_start(distances_to: Any, n: int, count: int, rng: Any) -> NDArray[np.int64]:
    """Distributions far from each other: each next one is drawn with probability as its distance to those before."""
    chosen = [int(rng.randint(n))]
    nearest = np.array(distances_to(chosen[0]))
    while len(chosen) < count:
        total = nearest.sum()
        free = np.setdiff1d(np.arange(n), chosen)
        draw = rng.choice(n, p=nearest / total) if total > 0 else rng.choice(free)
        chosen.append(int(draw))
        nearest = np.minimum(nearest, distances_to(chosen[-1]))
    return np.array(chosen)
