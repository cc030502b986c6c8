"""Answers that owe nothing to the package: rational numbers, permutations, and others' solvers."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from tests.oracles import highs_values, ot


def rational_masses(a):
    """Masses as fractions that sum to exactly 1: those of equal masses are 1/n, and others what the floats say."""
    if (a == a[0]).all():
        return [Fraction(1, len(a))] * len(a)
    exact = [Fraction(float(mass)) for mass in a]
    total = sum(exact)
    return [mass / total for mass in exact]


def steps_on_a_line(x, a, y, b):
    """The monotone plan between two distributions on a line, without any rounding: (mass, distance) of every step."""
    first, second = _sorted_with_mass(x, a), _sorted_with_mass(y, b)
    i = j = 0
    left, right = first[0][1], second[0][1]
    steps = []
    while True:
        mass = min(left, right)
        steps.append((mass, abs(first[i][0] - second[j][0])))
        left, right = left - mass, right - mass
        if left == 0:
            i += 1
            if i == len(first):
                return steps
            left = first[i][1]
        if right == 0:
            j += 1
            right = second[j][1]


def _sorted_with_mass(x, a):
    together = zip((Fraction(float(t)) for t in x), rational_masses(a), strict=True)
    return sorted((place, mass) for place, mass in together if mass > 0)


def on_a_line(x, a, y, b, p=1):
    """W_p on a line from its exact plan: to long double, whatever the order p ≥ 1."""
    steps = [(mass, gap) for mass, gap in steps_on_a_line(x, a, y, b) if mass and gap]
    if not steps:
        return np.longdouble(0)
    if p == 1:
        return as_long_double(sum(mass * gap for mass, gap in steps))
    largest = max(gap for _, gap in steps)
    parts = [as_long_double(mass) * as_long_double(gap / largest) ** np.longdouble(p) for mass, gap in steps]
    return as_long_double(largest) * np.sum(parts) ** (1 / np.longdouble(p))


def as_long_double(number):
    """A fraction as a long double, to about 1e-19."""
    if number == 0:
        return np.longdouble(0)
    shift = 100 + number.denominator.bit_length() - number.numerator.bit_length()
    whole = int(number * 2**shift) if shift >= 0 else int(number / 2**-shift)
    high = whole >> 50
    return np.ldexp(np.longdouble(high) * np.longdouble(2**50) + np.longdouble(whole - (high << 50)), -shift)


def by_permutations(distances, p):
    """W_p of equal masses from distances (n, n), by trying all permutations, in long double."""
    n = len(distances)
    orders = np.array(list(itertools.permutations(range(n))))
    gaps = distances.astype(np.longdouble)[np.arange(n), orders]
    largest = gaps.max(axis=1)
    top = np.where(largest > 0, largest, 1)
    means = ((gaps / top[:, None]) ** np.longdouble(p)).mean(axis=1)
    return (largest * means ** (1 / np.longdouble(p))).min()


def by_assignment(distances, p):
    """W_p of equal masses from distances (n, n), by SciPy."""
    top = distances.max() or 1.0
    rows, columns = linear_sum_assignment((distances / top) ** p)
    return top * np.mean((distances[rows, columns] / top) ** p) ** (1 / p)


def by_pot(a, b, costs):
    """POT's optimal cost."""
    top = costs.max() or 1.0  # POT's tolerance is absolute
    return top * ot.emd2(a / a.sum(), b / b.sum(), np.ascontiguousarray(costs / top), numItermax=10_000_000)


def by_highs(a, b, costs):
    """HiGHS's optimal cost."""
    n, m = costs.shape
    square = np.zeros((n + m, n + m))
    square[:n, n:] = costs
    A, B = np.concatenate([a, np.zeros(m)]), np.concatenate([np.zeros(n), b])
    return highs_values(A[None], B[None], square, [(0, 0)])[0]


def distances(x, y, metric, parameters=None):
    """Distances (n, m) under a metric, as SciPy or a formula says, in long double where that is easy."""
    match metric:
        case "angular":
            return _angles(*(z / np.linalg.norm(z, axis=1, keepdims=True) for z in (x, y)))
        case "great_circle":
            return _angles(*(_on_globe(z) for z in (x, y)))
        case "periodic":
            gap = np.abs(x[:, None] - y) % parameters["box"]
            return np.sqrt((np.minimum(gap, parameters["box"] - gap) ** 2).sum(axis=2))
        case "jensenshannon":
            return _jensen_shannon(*(z / z.sum(axis=1, keepdims=True) for z in (x, y)))
    return np.nan_to_num(cdist(x, y, metric, **(parameters or {})))  # 0/0 between two points without any truth


def _on_globe(z):
    latitude, longitude = z.astype(np.longdouble).T
    level = np.cos(latitude)
    return np.stack([level * np.cos(longitude), level * np.sin(longitude), np.sin(latitude)], axis=1)


def _jensen_shannon(u, v):
    """Where SciPy's subtracts what is nearly equal, this takes logarithms of 1 plus something small."""
    u, v = u.astype(np.longdouble)[:, None], v.astype(np.longdouble)
    mean = np.where(u + v > 0, (u + v) / 2, 1)
    t = (u - v) / (2 * mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.nan_to_num((1 + t) * np.log1p(t)) + np.nan_to_num((1 - t) * np.log1p(-t))
    return np.float64(np.sqrt(np.maximum((mean * parts).sum(axis=2) / 2, 0)))


def _angles(u, v):
    """Angles (n, m) between unit vectors, by a formula that is right for small and large ones."""
    apart, together = u[:, None] - v, u[:, None] + v
    norms = [np.sqrt((z * z).sum(axis=2)) for z in (apart, together)]
    return np.float64(2 * np.arctan2(*norms))
