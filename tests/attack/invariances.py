"""The same problem in other words: order, splits, layouts, threads, memory, scale."""

from __future__ import annotations

import numpy as np

import asot
from tests.attack import problems, rounding


def attack(rng, report):
    dim = int(rng.choice([1, 1, 2, 3, 10]))
    D = problems.collection(rng, dim=dim, most=int(rng.choice([6, 12, 30])))
    p = float(rng.choice([1, 1, 2, 3, 8]))
    asked = {"p": p, "metric": str(rng.choice(["euclidean", "cityblock", "chebyshev"]))}
    values = asot.pairwise_exact(D, **asked).values
    extent = np.ptp(D.points, axis=0).sum() + 8 * np.spacing(np.abs(D.points).max())
    near = np.full(len(values), 2e-15 * extent)
    if p > 1 and dim > 1:
        largest = rounding.largest_distances(D, problems.all_pairs(len(D)), asked["metric"])
        near += rounding.of_plans(D, values, largest, p)
    rounded = near if p == 1 else extent * (2.0**-50) ** (1 / p)  # masses that were divided again, or split
    for what, other, slack in _other_words(rng, D, asked, near, rounded):
        code = problems.as_code(D, f"asot.pairwise_exact(D, **{asked})  # {what}")
        report.compare(what, other, values, slack=slack, reproduction=code)
    wide = int(rng.integers(-900, 900))
    scaled = asot.Distributions(np.ldexp(D.points, wide), D.offsets)._replaced(masses=D.masses)
    found = np.ldexp(asot.pairwise_exact(scaled, **asked).values, -wide)
    is_kept = (np.ldexp(scaled.points, -wide) == D.points).all()
    if is_kept:
        code = problems.as_code(D, f"asot.pairwise_exact(D scaled by 2.0**{wide}, **{asked})")
        report.compare("a power of two", found, values, slack=1e-15 * extent, reproduction=code)


def _other_words(rng, D, asked, near, rounded):
    n = len(D)
    pairs = problems.all_pairs(n)
    points, masses = zip(*[D[i] for i in range(n)], strict=True)
    orders = [rng.permutation(len(x)) for x in points]
    shuffled = _as_they_are([x[o] for x, o in zip(points, orders, strict=True)],
                            [a[o] for a, o in zip(masses, orders, strict=True)])  # fmt: skip
    equal = (D.masses == np.repeat(1.0 / D.sizes, D.sizes)).all()
    yield "points in another order", asot.pairwise_exact(shuffled, **asked).values, near if equal else rounded
    halves = _as_they_are([np.vstack([x, x]) for x in points], [np.concatenate([a, a]) / 2 for a in masses])
    yield "every point as two halves", asot.pairwise_exact(halves, **asked).values, rounded
    turned = asot.pairwise_exact(D, pairs=pairs[:, ::-1], **asked).values
    yield "pairs turned around", turned, near
    yield "two threads", asot.pairwise_exact(D, n_jobs=2, **asked).values, 0.0
    yield "little memory", asot.pairwise_exact(D, memory=2000, **asked).values, 0.0
    yield "a list of pairs", asot.pairwise_exact(D, pairs=pairs, **asked).values, near
    yield "D × D", asot.pairwise_exact(D, D, **asked).matrix()[tuple(pairs.T)], near
    backwards = asot.pairwise_exact(D[::-1], **asked).matrix()[::-1, ::-1][tuple(pairs.T)]
    yield "the collection backwards", backwards, near
    layout = _laid_out(rng, D.points)
    laid_out = asot.Distributions(layout, D.offsets)._replaced(masses=D.masses)
    yield "another layout", asot.pairwise_exact(laid_out, **asked).values, 0.0
    with_none = [np.vstack([x, x[:1] + 1e3]) for x in points], [np.append(a, 0.0) for a in masses]
    yield "points without mass", asot.pairwise_exact(_as_they_are(*with_none), **asked).values, near


def _as_they_are(points, masses):
    """A collection whose masses are not divided by their total once more."""
    D = asot.Distributions.from_list(points, masses)
    return D._replaced(masses=np.concatenate(masses))


def _laid_out(rng, points):
    match rng.integers(5):
        case 0:
            return np.asfortranarray(points)
        case 1:
            base = np.empty((2 * len(points), points.shape[1]))
            base[::2] = points
            return base[::2]
        case 2:
            return points.astype(points.dtype.newbyteorder())
        case 3:
            return points[::-1].copy()[::-1]
    return np.concatenate([points, points], axis=1)[:, : points.shape[1]]
