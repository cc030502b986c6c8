"""Random and degenerate distributions: the worst that users bring, and a little worse."""

from __future__ import annotations

import numpy as np

import asot

POINTS = ("normal", "lattice", "one place", "line", "close", "far apart", "repeated", "shifted", "steps", "offset")
MASSES = ("equal", "dyadic", "random", "wide", "some zero", "one large")


def points(rng, n, dim, kind=None):
    """n points (n, dim) of some kind."""
    x = rng.normal(size=(n, dim))
    match kind or rng.choice(POINTS):
        case "lattice":
            x = rng.integers(0, 4, size=(n, dim)).astype(float)
        case "one place":
            x[:] = x[0]
        case "line":
            x[:, 1:] = 0.0
        case "close":
            x = 1.0 + 1e-9 * x
        case "far apart":
            x *= 10.0 ** rng.uniform(-4, 4, size=(n, 1))
        case "repeated":
            x = x[rng.integers(0, max(1, n // 2), n)]
        case "shifted":
            x = np.arange(n, dtype=float)[:, None] + 10.0 ** rng.integers(-6, 0) * np.ones(dim)
        case "steps":
            x = np.round(x * 8) / 8
        case "offset":
            x += 10.0 ** rng.integers(1, 8)
    return np.ascontiguousarray(x[rng.permutation(n)])


def masses(rng, n, kind=None):
    """Masses (n,) of some kind; None for equal ones."""
    match kind or rng.choice(MASSES):
        case "equal":
            return None
        case "dyadic":
            return dyadic(rng, n)
        case "wide":
            return 10.0 ** rng.uniform(-9, 0, n)
        case "some zero":
            a = rng.random(n) * (rng.random(n) < 0.6)
            a[rng.integers(n)] = 1.0
            return a
        case "one large":
            a = np.full(n, 1e-3)
            a[rng.integers(n)] = 1.0
            return a
    return rng.random(n) + 1e-3


def dyadic(rng, n, bits=None):
    """Masses (n,) that are multiples of 2^-bits and sum to exactly 1."""
    bits = int(rng.integers(max(1, n.bit_length()), 41)) if bits is None else bits
    cuts = np.sort(rng.integers(0, 2**bits, size=n - 1))
    return np.ldexp(np.diff(np.concatenate([[0], cuts, [2**bits]])).astype(float), -bits)


def size(rng, most=9):
    """A number of points: usually few, seldom ``most``."""
    return int(min(most, 1 + rng.geometric(min(0.9, 3.0 / most))))


def collection(rng, *, dim, count=None, most=9, point_kind=None, mass_kind=None):
    """Some distributions in ``dim`` dimensions, of one kind or of several."""
    count = int(rng.integers(3, 7)) if count is None else count
    one_kind = point_kind or (rng.choice(POINTS) if rng.random() < 0.6 else None)
    one_mass = mass_kind or (rng.choice(MASSES) if rng.random() < 0.7 else None)
    common = size(rng, most) if rng.random() < 0.4 else None
    clouds, weights = [], []
    for _ in range(count):
        n = size(rng, most) if common is None else common
        if clouds and rng.random() < 0.15:  # an old one again, in another order or a little moved
            old = int(rng.integers(len(clouds)))
            order = rng.permutation(len(clouds[old]))
            clouds.append(clouds[old][order] + rng.choice([0.0, 0.0, 1e-3]))
            weights.append(weights[old][order])
            continue
        clouds.append(points(rng, n, dim, one_kind))
        drawn = masses(rng, n, one_mass)
        weights.append(np.full(n, 1.0 / n) if drawn is None else drawn)
    return asot.Distributions.from_list(clouds, weights)


def all_pairs(n):
    """Pairs (P, 2), in the order of results."""
    return np.stack(np.triu_indices(n, 1), axis=1)


def as_code(D, call=""):
    """Lines of Python that make a collection again, if it is small, and a call."""
    if len(D.masses) > 60:
        return f"  a collection of {len(D)} distributions, {len(D.masses)} points in {D.dim} dimensions; {call}"
    clouds = [D[i][0].tolist() for i in range(len(D))]
    weights = [D[i][1].tolist() for i in range(len(D))]
    return f"  D = asot.Distributions.from_list({clouds},\n      {weights})\n  {call}"
