"""Small collections that baselines are tried on, and the textbook iteration they are compared with."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

import asot
from tests.oracles import sinkhorn_sweeps


def clouds(sizes=(1, 7, 20, 3, 33), dim=3, seed=0, weighted=False, shift=0.5):
    """Normal points; every distribution a little further away."""
    rng = np.random.default_rng(seed)
    points = [rng.normal(shift * i, 1.0, size=(n, dim)) for i, n in enumerate(sizes)]
    masses = [rng.integers(0, 4, size=n) + (np.arange(n) == 0) for n in sizes] if weighted else None
    return asot.Distributions.from_list(points, masses)


def lattice(sizes=(1, 9, 20, 4, 15), seed=0):
    """Whole coordinates between 0 and 3: points repeat within distributions and between them."""
    rng = np.random.default_rng(seed)
    return asot.Distributions.from_list([rng.integers(0, 4, size=(n, 3)).astype(float) for n in sizes])


def with_diagonal(n):
    """All i ≤ j as a list of pairs."""
    return np.stack(np.triu_indices(n), axis=1)


def swept(D, pairs, reg, count, init, E=None):
    """⟨T, C⟩ after ``count`` iterations in long double, on the points as they are."""
    E = D if E is None else E
    values = []
    for i, j in pairs:
        (x, a), (y, b) = (tuple(part[X[int(k)][1] > 0] for part in X[int(k)]) for X, k in ((D, i), (E, j)))
        values.append(sinkhorn_sweeps(a[None], b[None], cdist(x, y), reg, count, init == "target")[0])
    return np.array(values)
