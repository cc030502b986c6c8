"""Distances less what finite samples alone would make of them.

Two samples at a true distance W are about √(W² + f²) apart, where f is what two samples of one distribution are apart:
noise moves points in all directions, a shift in one. So √(d² − f²) is what is left of a distance d, and 0 where noise
explains all of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.belonging import check_same_ids, ids_of
from asot.data.squares import in_range
from asot.results.distances import Distances


def above_noise(result: Distances, noise: Any) -> Distances:
    """Distances above a noise floor: a `NoiseFloor`, or an array (N, N)."""
    if not result.pair_set.symmetric:
        raise ValueError("noise is known within one collection; distances between two have none to subtract")
    floor = noise_matrix(noise, result.pair_set.n_rows, result.ids)
    pairs = result.pairs
    own = floor[pairs[:, 0], pairs[:, 1]]
    values, exponent = in_range(result.values)
    own = np.ldexp(own, -exponent)
    info = {**result.info, "above_noise": True, "noise_share": float(own.mean() / max(values.mean(), 1e-300))}
    values = np.ldexp(np.sqrt(np.maximum(values**2 - own**2, 0.0)), exponent)
    return replace(result, values=values, lower=None, upper=None, info=info, model=None, checked=False)


def noise_matrix(noise: Any, n: int, ids: NDArray[Any]) -> NDArray[np.float64]:
    """What part of every distance is noise (N, N)."""
    if noise is None:
        raise ValueError("which noise? Pass that of the collection: asot.noise_floor(D)")
    floor = np.atleast_1d(np.asarray(noise.matrix() if hasattr(noise, "matrix") else noise, dtype=np.float64))
    if floor.shape != (n, n):
        raise ValueError(f"noise is for {len(floor)} distributions, but the distances are between {n}")
    if not (np.isfinite(floor).all() and floor.min() >= 0):
        raise ValueError("noise must be finite and ≥ 0")
    check_same_ids(ids_of(noise, n), ids, "the noise is of another collection than the distances")
    return floor
