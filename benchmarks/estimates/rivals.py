"""Other ways to many Wasserstein distances, each with its best rescaling to the same exact pairs.

*Sliced*: W_1 along random directions. *Linear*: every distribution is matched once to a common reference of k points
and becomes the vector of where its points go; distances are those of the vectors. *Regression on sliced and lifted
bounds* (after arXiv 2509.20508, written anew): W_1 from the mean and the largest sliced distance, which are below it,
and the mean and smallest price of the plans that sorting along a direction gives, which are above it. *Tree-sliced*
(after arXiv 1902.00342, written anew): transport along random trees, each made by clustering the points again and
again around points that are far apart; on a tree, transport is a weighted sum of differences of mass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


def tree_features(n_trees: int, depth: int = 6, branches: int = 4) -> Rival:
    def features(D: asot.Distributions, pairs: Pairs) -> Float:
        rng = np.random.default_rng(0)
        total = np.zeros(len(pairs))
        for _ in range(n_trees):
            masses = _masses_on_a_tree(D, depth, branches, rng)  # (N, edges), times the lengths of the edges
            for begin in range(0, len(pairs), 4096):
                part = slice(begin, begin + 4096)
                total[part] += np.asarray(abs(masses[pairs[part, 0]] - masses[pairs[part, 1]]).sum(axis=1)).ravel()
        return np.asarray(total[:, None] / n_trees)

    return features


def _masses_on_a_tree(D: asot.Distributions, depth: int, branches: int, rng: np.random.Generator) -> Any:
    """How much of each distribution is below every edge of a random tree, times the length of the edge."""
    from scipy.sparse import csr_matrix, hstack

    x = np.asarray(D.points, dtype=np.float64)
    owner = np.repeat(np.arange(len(D)), D.sizes)
    node, center = np.zeros(len(x), dtype=np.int64), x.mean(axis=0)[None]
    levels = []
    for _ in range(depth):
        child, centers = _split(x, node, center, branches, rng)
        lengths = np.linalg.norm(centers - center[node[_first_of(child)]], axis=1)
        weights = D.masses * lengths[child]
        levels.append(csr_matrix((weights, (owner, child)), shape=(len(D), len(centers))))
        node, center = child, centers
    return hstack(levels).tocsr()


def _split(x: Float, node: Pairs, center: Float, branches: int, rng: np.random.Generator) -> tuple[Pairs, Float]:
    """Every node into up to ``branches`` children around points that are far from each other."""
    nearest, child = np.full(len(x), np.inf), np.zeros(len(x), dtype=np.int64)
    chosen = rng.permutation(len(x))
    for b in range(branches):
        order = chosen if b == 0 else np.argsort(-nearest, kind="stable")
        _, first = np.unique(node[order], return_index=True)
        heads = x[order[first]]  # one point of every node: at random, then the farthest from those before
        apart = np.linalg.norm(x - heads[node], axis=1)
        child[apart < nearest] = b
        nearest = np.minimum(nearest, apart)
    names, child = np.unique(node * branches + child, return_inverse=True)
    counts = np.bincount(child, minlength=len(names))
    sums = np.stack([np.bincount(child, weights=x[:, c], minlength=len(names)) for c in range(x.shape[1])], axis=1)
    return child, sums / counts[:, None]


def _first_of(index: Pairs) -> Pairs:
    return np.unique(index, return_index=True)[1]


def rescaled(features: Float, exact: Float, fitted: Pairs) -> Float:
    """The best linear combination of features on the fitted places, everywhere."""
    weights, *_ = np.linalg.lstsq(features[fitted], exact, rcond=None)
    return np.asarray(features @ weights)
