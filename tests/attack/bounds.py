"""Proven bounds and `max_error` hold however far away other distributions lie."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

import asot
from asot import Distributions, KMeansAnchors
from tests.attack import oracles, problems


def far_clusters(rng):
    """Narrow distributions near the origin and near points up to 1e14 widths away; some hardly differ."""
    d = int(rng.choice([1, 2, 5, 20]))
    n = int(rng.integers(2, 9))
    width = 10.0 ** rng.uniform(-6, 3)
    places = [np.zeros(d)] + [rng.normal(size=d) * width * 10.0 ** rng.uniform(0, 14) for _ in range(2)]
    shape = rng.normal(size=(n, d))
    clouds = []
    for place in places:
        for _ in range(int(rng.integers(1, 4))):
            cloud = shape + 1e-3 * rng.normal(size=(n, d)) if rng.random() < 0.3 else rng.normal(size=(n, d)) + 0.5
            clouds.append(place + width * cloud)
    return Distributions.from_list(clouds)


def true_distances(D):
    """Every pair by itself, moved to the origin first: by fractions on a line, else by the exact solver."""
    values = []
    for i, j in problems.all_pairs(len(D)):
        (x, a), (y, b) = D[int(i)], D[int(j)]
        if D.dim == 1:
            values.append(float(oracles.on_a_line(x[:, 0], a, y[:, 0], b)))
        else:
            values.append(asot.pairwise_exact(Distributions.from_list([x - x[0], y - x[0]])).values[0])
    return np.array(values)


def diameters(D):
    """The largest distance between points of every pair."""
    pairs = [(D[int(i)][0], D[int(j)][0]) for i, j in problems.all_pairs(len(D))]
    return np.array([cdist(x - x[0], y - x[0]).max() for x, y in pairs])


def bounds(rng, report):
    """Four levels of bounds hold, and rounding alone never makes an interval wide."""
    D = far_clusters(rng)
    true = true_distances(D)
    k = int(rng.integers(2, 9))
    for level in ("points", "cells", "radius", True):
        asked = f"bounds={level!r}, space=KMeansAnchors({k}, random_state=0), estimate='anchor'"
        code = problems.as_code(D, f"asot.pairwise(D, {asked})")
        r = asot.pairwise(D, bounds=level, space=KMeansAnchors(k, random_state=0), estimate="anchor")
        worst = np.max(r.lower - true), np.max(true - r.upper)
        report.check("lower bounds", np.all(r.lower <= true * (1 + 1e-9)), f"{level} {worst[0]:g} too high", code)
        report.check("upper bounds", np.all(true <= r.upper * (1 + 1e-9)), f"{level} {worst[1]:g} too low", code)
        if level in ("points", "cells"):
            report.check("narrow intervals", np.all(r.upper <= 1.5 * diameters(D)), f"{level} too wide", code)


def max_error(rng, report):
    """No value is farther from the truth than `max_error` says."""
    D = far_clusters(rng)
    true = true_distances(D)
    share = float(rng.choice([0.1, 0.01, 0.001]))
    space = KMeansAnchors(int(rng.integers(2, 9)), random_state=0)
    r = asot.pairwise(D, max_error=f"{100 * share:g}%", space=space, estimate="anchor")
    code = problems.as_code(D, f"asot.pairwise(D, max_error='{100 * share:g}%', space={space}, estimate='anchor')")
    report.compare("max_error", r.values, true, slack=share * true * (1 + 1e-6), reproduction=code)
