"""The kernels of all rooms but the exact solvers, on made-up problems of random sizes (see ``every_solver``)."""

from __future__ import annotations

import numpy as np

import asot
from asot import baselines
from asot.data.distinct import distinct_rows, sparse_histograms

CPU = {"device": "cpu", "n_jobs": 1}


def _collection(rng, sizes, d, n=None, most=14):
    """Distributions of weighted points, some of them the same."""
    counts = [sizes(most) for _ in range(n or sizes(9, 3))]
    points = np.round(rng.normal(size=(sum(counts), d)), int(rng.integers(1, 4)))
    return asot.Distributions(points, np.concatenate([[0], np.cumsum(counts)]), rng.random(len(points)) + 0.01)


def _histograms(rng, n, k):
    A = rng.dirichlet(np.ones(k), n) + 1e-4
    return A / A.sum(axis=1, keepdims=True)


def error_bars(level):
    def bounds(rng, sizes):
        D = _collection(rng, sizes, sizes(9))
        space = asot.KMeansAnchors(min(sizes(6), len(np.unique(D.points, axis=0))), random_state=0).fit(D).space_
        found = asot.pairwise(D, error=None, space=space, bounds=level, **CPU)
        return [found.values, found.lower, found.upper]

    return bounds


def entropic_error_bars(rng, sizes):
    D = _collection(rng, sizes, 3)
    found = asot.pairwise(D, error=None, space=asot.AnchorSpace(D.points[:3]), bounds=True, reg=0.1, **CPU)
    return [found.values, found.lower, found.upper]


def estimates(rng, sizes):
    D = _collection(rng, sizes, 3, n=20)
    return [asot.pairwise(D, n_anchors=4, estimate="calibrated", random_state=0, **CPU).values]


def search(prune, **options):
    def neighbors(rng, sizes):
        d = sizes(5)
        Q, D = _collection(rng, sizes, d), _collection(rng, sizes, d, n=30)
        k = sizes(6)
        found = asot.kneighbors(Q, D, k, prune=prune, random_state=0, **options, **CPU)
        near = asot.radius_neighbors(Q, D, float(np.median(found.distances)), prune=prune, **options, **CPU)
        return [found.indices, found.distances, near.indices, near.distances]

    return neighbors


def entropic(reg, **options):
    def values(rng, sizes):
        k, n = sizes(40, 2), sizes(9, 2)
        x = rng.normal(size=(k, 2))
        cost = np.linalg.norm(x[:, None] - x, axis=-1)
        found = asot.sinkhorn_many(_histograms(rng, n, k), cost=cost, reg=reg, max_iter=300, **options, **CPU)
        return [found.values, found.n_iter]

    return values


def entropic_points(rng, sizes):
    return [baselines.entropic(_collection(rng, sizes, 2), reg=0.3, max_iter=100).values]


def sliced(rng, sizes):
    D = _collection(rng, sizes, 3)
    found = baselines.sliced(D, n_projections=sizes(20), random_state=0, n_jobs=1)
    return [found.values]


def medoids(rng, sizes):
    D = _collection(rng, sizes, 2, n=25)
    found = asot.WassersteinKMeans(sizes(5, 2), method="medoids", random_state=0, n_jobs=1).fit(D)
    return [found.labels_, found.inertia_]


def distinct(rng, sizes):
    D = _collection(rng, sizes, sizes(3), most=200)
    found = sparse_histograms(D)
    return [*distinct_rows(D.points), *distinct_rows(D.points.astype(np.float32)), found.offsets, found.masses]


def spaces(p):
    def gromov(rng, sizes):
        D = _collection(rng, sizes, 2, n=4, most=9 if p != 2 else 20)
        found = asot.gromov(D, p=p, n_jobs=1)
        return [found.values, found.lower, found.upper]

    return gromov


KERNELS = {
    **{f"error bars: {level}": error_bars(level) for level in ("radius", "cells", "points")},
    "error bars: entropic": entropic_error_bars,
    "estimates": estimates,
    **{f"search: {prune}": search(prune) for prune in ("projections", "potentials", "relaxed", "all")},
    "search: city block": search("all", metric="cityblock"),
    "search: squares": search("relaxed", p=2),
    "entropic: large": entropic(0.3),
    "entropic: small": entropic(0.003),
    "entropic: steps": entropic(0.3, tol=None),
    "entropic: points": entropic_points,
    "sliced": sliced,
    "medoids": medoids,
    "distinct": distinct,
    "spaces": spaces(2),
    "spaces, p = 1": spaces(1),
}
