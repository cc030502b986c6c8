"""W_p on a line against its exact plan in rational numbers."""

from __future__ import annotations

import numpy as np

import asot
from tests.attack import oracles, problems

ORDERS = (1, 1, 1, 2, 2, 3, 1.5, 4, 6, 8, 20, 64, 1000, 1e6)


def attack(rng, report):
    """All pairs of a small collection; another distribution may lie far away, or many may be there."""
    kind = rng.choice(["equal", "dyadic", "dyadic", "any"])
    most = int(rng.choice([9, 9, 30, 150]))
    D = problems.collection(rng, dim=1, most=most, mass_kind=None if kind == "any" else kind)
    D = _at_any_scale(rng, D)
    if rng.random() < 0.5:
        D = D + asot.Distributions.from_list([_far(rng)])
    p = float(rng.choice(ORDERS))
    metric = str(rng.choice(["euclidean", "cityblock", "chebyshev", "minkowski"]))
    values = asot.pairwise_exact(D, p=p, metric=metric).values
    expected, slack = [], []
    for i, j in problems.all_pairs(len(D)):
        (x, a), (y, b) = D[int(i)], D[int(j)]
        expected.append(oracles.on_a_line(x[:, 0], a, y[:, 0], b, p))
        slack.append(_forgiven(x, a, y, b, p, expected[-1]))
    what = "rationals, p = 1" if p == 1 else "rationals, p > 1"
    representable = kind != "any"
    report.compare(
        f"{what}, {'masses without rounding' if representable else 'any masses'}",
        values, np.array(expected), slack=np.array(slack),
        reproduction=problems.as_code(D, f"asot.pairwise_exact(D, p={p:g}, metric={metric!r})"),
    )  # fmt: skip


def _at_any_scale(rng, D):
    exponent = int(rng.choice([0, 0, 0, rng.integers(-60, 60), rng.integers(-1000, 960)]))
    return asot.Distributions(np.ldexp(D.points, exponent), D.offsets)._replaced(masses=D.masses)


def _far(rng):
    sign, size = rng.choice([-1.0, 1.0]), 10.0 ** rng.choice([3, 8, 12, 15, 100, 300])
    return sign * size * (1 + rng.random((int(rng.integers(1, 4)), 1)))


def _forgiven(x, a, y, b, p, expected):
    """What a sum of n + m steps may lose, 2^-53 of it each, and no less than 1e-15; and where masses are no multiples
    of 2^-60, what rounding them to such moves at most."""
    slack = max(1e-15, (len(x) + len(y)) * 2.0**-53) * expected + 2.0**-1074
    if _is_rounded(a) or _is_rounded(b):
        both = np.concatenate([x, y])[:, 0]
        span = np.longdouble(both.max()) - np.longdouble(both.min())
        rounding = np.longdouble(2.0) ** -60 * (len(x) + len(y))
        if expected > 0:
            slack += expected * np.longdouble(_relative(a, b))
        if not (_is_equal(a) and _is_equal(b)):
            whole = (expected / span) ** np.longdouble(p) if span > 0 else np.longdouble(0)
            slack += expected - span * max(whole - rounding, np.longdouble(0)) ** (1 / np.longdouble(p))
            slack += span * (whole + rounding) ** (1 / np.longdouble(p)) - expected
    return slack


def _relative(a, b):
    """Steps between equal masses are at least 1/(n m), so that rounding changes them by this share."""
    return len(a) * len(b) * 2.0**-59 if _is_equal(a) and _is_equal(b) else 0.0


def _is_equal(a):
    return bool((a == a[0]).all())


def _is_rounded(a):
    if _is_equal(a):
        return len(a) & (len(a) - 1) != 0
    whole = a * 2.0**60
    return bool((whole != np.rint(whole)).any()) or sum(map(int, whole)) != 2**60
