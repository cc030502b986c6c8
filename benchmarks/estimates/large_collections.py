"""Generated collections of large distributions: cells of patients, voxels of bodies, silhouettes in the plane."""

from __future__ import annotations

import numpy as np

import asot


def cells(n: int, size: int) -> asot.Distributions:
    """Patients as mixtures of twelve cell types in ten dimensions, with shares and a shift of their own."""
    rng = np.random.default_rng(1)
    types = 3.0 * rng.normal(size=(12, 10))
    patients = []
    for _ in range(n):
        shares, shift, m = rng.dirichlet(np.ones(12)), 0.3 * rng.normal(size=10), _size(rng, size)
        patients.append(types[rng.choice(12, m, p=shares)] + shift + rng.normal(size=(m, 10)))
    return asot.Distributions.from_list(patients)


def voxels(n: int, size: int) -> asot.Distributions:
    """Bodies of two to five blobs in space, on a grid of 1/16: points repeat within and between bodies."""
    rng = np.random.default_rng(3)
    bodies = []
    for _ in range(n):
        k = int(rng.integers(2, 6))
        centers, widths = rng.uniform(-1, 1, (k, 3)), rng.uniform(0.1, 0.5, (k, 3))
        blob = rng.integers(k, size=_size(rng, size))
        bodies.append(np.round(16 * (centers[blob] + widths[blob] * rng.normal(size=(len(blob), 3)))) / 16)
    return asot.Distributions.from_list(bodies)


def silhouettes(n: int, size: int) -> asot.Distributions:
    """Filled outlines in the plane, stretched and dented each in its own way."""
    rng = np.random.default_rng(2)
    outlines = []
    for _ in range(n):
        m = _size(rng, size)
        angle, phase, dent = rng.uniform(0, 2 * np.pi, m), rng.normal(size=2), 0.3 * rng.normal(size=2)
        radius = 1 + dent[0] * np.cos(2 * angle + phase[0]) + dent[1] * np.cos(3 * angle + phase[1])
        radius = radius * np.sqrt(rng.uniform(size=m))
        outlines.append(np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1) * rng.uniform(0.6, 1.4, 2))
    return asot.Distributions.from_list(outlines)


def _size(rng: np.random.Generator, size: int) -> int:
    return int(size * rng.uniform(0.7, 1.3))
