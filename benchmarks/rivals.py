"""Other ways to many Wasserstein distances, each with its best rescaling to the same exact pairs.

*Sliced*: W_1 along random directions. *Linear*: every distribution is matched once to a common reference of k points
and becomes the vector of where its points go; distances are those of the vectors. *Regression on sliced and lifted
bounds* (after arXiv 2509.20508, written anew): W_1 from the mean and the largest sliced distance, which are below it,
and the mean and smallest price of the plans that sorting along a direction gives, which are above it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import asot
from asot.baselines import sliced

Float = NDArray[np.float64]
Pairs = NDArray[np.int64]
Rival = Callable[[asot.Distributions, Pairs], Float]
"""From a collection and pairs (P, 2) to features (P, F) of every pair."""

QUANTILES = 128


def sliced_features(n_projections: int) -> Rival:
    def features(D: asot.Distributions, pairs: Pairs) -> Float:
        r = sliced(D, pairs=pairs, n_projections=n_projections, random_state=0, progress=False)
        return r.values[:, None]

    return features


def linear_features(n_reference: int) -> Rival:
    def features(D: asot.Distributions, pairs: Pairs) -> Float:
        reference = asot.KMeansAnchors(n_reference, random_state=0).fit(D).space_
        weights = np.full(reference.n_anchors, 1.0 / reference.n_anchors)
        where = np.stack([_carried(reference.anchors, weights, *D[i]) for i in range(len(D))])
        apart = np.linalg.norm(where[pairs[:, 0]] - where[pairs[:, 1]], axis=2)
        return np.asarray(apart.mean(axis=1)[:, None])

    return features


def _carried(reference: Float, weights: Float, points: Float, masses: Float) -> Float:
    """Where the optimal plan takes each reference point in the mean (k, d)."""
    from scipy.spatial.distance import cdist

    plan = asot.emd(weights, masses, cdist(reference, points)).plan
    return np.asarray(plan @ points) / weights[:, None]


def bounds_features(n_projections: int) -> Rival:
    def features(D: asot.Distributions, pairs: Pairs) -> Float:
        rng = np.random.default_rng(0)
        directions = rng.normal(size=(n_projections, D.dim))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        sorted_points = np.stack([_quantiles(*D[i], directions) for i in range(len(D))])  # (N, L, Q, d)
        out = np.empty((len(pairs), 4))
        for t, (i, j) in enumerate(pairs):
            gap = sorted_points[i] - sorted_points[j]
            along = np.abs(np.einsum("lqd,ld->lq", gap, directions)).mean(axis=1)
            lifted = np.linalg.norm(gap, axis=2).mean(axis=1)
            out[t] = along.mean(), along.max(), lifted.mean(), lifted.min()
        return out

    return features


def _quantiles(points: Float, masses: Float, directions: Float) -> Float:
    """Points at equal steps of mass along every direction (L, Q, d)."""
    steps = (np.arange(QUANTILES) + 0.5) / QUANTILES
    found = []
    for direction in directions:
        order = np.argsort(points @ direction, kind="stable")
        reached = np.cumsum(masses[order])
        found.append(points[order[np.minimum(np.searchsorted(reached, steps), len(order) - 1)]])
    return np.stack(found)


def rescaled(features: Float, exact: Float, fitted: Pairs) -> Float:
    """The best linear combination of features on the fitted places, everywhere."""
    weights, *_ = np.linalg.lstsq(features[fitted], exact, rcond=None)
    return np.asarray(features @ weights)
