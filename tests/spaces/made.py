"""Generated spaces, and energies of plans by their definition: four loops, written out with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

Rng = np.random.Generator


def neuron(rng: Rng, n: int) -> Any:
    """Distances (n, n) of points on a random tree in space."""
    points = np.zeros((n, 3))
    for t in range(1, n):
        points[t] = points[rng.integers(max(0, t - 4), t)] + rng.normal(size=3) * rng.uniform(0.5, 2.0, 3)
    return np.linalg.norm(points[:, None] - points[None], axis=-1)


def masses_of(rng: Rng, n: int) -> Any:
    mass = rng.random(n) * (rng.random(n) < 0.8) + 1e-3 * (np.arange(n) == 0)
    return mass / mass.sum()


def random_plan(rng: Rng, a: Any, b: Any) -> Any:
    """A plan (n, m) with these marginals: vertices that fill entries in a random order, mixed with each other."""
    plan = np.zeros((len(a), len(b)))
    weights = rng.dirichlet(np.ones(3))
    for weight in weights:
        left, right = a.copy(), b.copy()
        for entry in rng.permutation(len(a) * len(b)):
            i, j = divmod(int(entry), len(b))
            moved = min(left[i], right[j])
            plan[i, j] += weight * moved
            left[i] -= moved
            right[j] -= moved
    return plan


def energy(plan: Any, x: Any, y: Any, p: float, alpha: float = 1.0, feature_costs: Any = None) -> float:
    """(1 - α) Σ c^p T + α Σ |d_X - d_Y|^p T T, by its definition."""
    gaps = np.abs(x[:, None, :, None] - y[None, :, None, :]) ** p
    total = alpha * float(np.einsum("ij,ijkl,kl->", plan, gaps, plan))
    return total if feature_costs is None else total + (1 - alpha) * float((plan * feature_costs**p).sum())
