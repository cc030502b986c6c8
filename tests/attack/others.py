"""No pair's answer depends on other distributions: not on whether they are there, how many, nor how far away."""

from __future__ import annotations

import numpy as np

import asot
from tests.attack import problems, rounding, solvers

FAR = (1e8, 1e12, 1e15)
FORGIVEN = 1e-15
"""Where points are sorted on a line, of the value: bits, but for the order of a sum. Elsewhere, labels on one
column among them, of the pair's largest distance: masses are integers of 2^-53, and the last unit goes to another of
several equal points when points are numbered in another order."""


def outliers(rng, metric, dim, many=False):
    """Distributions that are as far away from the others as a metric allows, and may have ``many`` points."""
    n = int(rng.choice([300, 1200])) if many else int(rng.integers(1, 6))
    x = solvers.domain(rng, metric, dim, n)
    if metric not in ("hamming", "jaccard", "rogerstanimoto", "sokalsneath", "great_circle"):
        away = float(rng.choice(FAR))
        offset = rng.normal(size=dim) * away
        x = np.abs(x + offset) if metric in ("jensenshannon", "braycurtis") else x + offset
    elif metric == "hamming":
        x = x + 1e8
    return asot.Distributions.from_list([x])


def exact(rng, report):
    """`pairwise_exact` of every metric, order and price of unmatched mass: all, a subset, and with outliers."""
    metric = str(rng.choice(solvers.METRICS))
    most = int(rng.choice([2, 4, 9, 20, 80], p=[0.1, 0.2, 0.4, 0.25, 0.05]))
    many = most <= 4 and rng.random() < 0.1  # small clouds of a large collection have a solver of their own
    D, given = solvers.drawn(rng, metric, 66 if many else int(rng.integers(3, 6)), most)
    if rng.random() < 0.2:
        D = D[[0]] + D
    p = float(rng.choice([1, 1, 1, 1.5, 2, 3, 6, 8]))
    price = rng.random() < 0.15
    share = 0.6 if not price and rng.random() < 0.1 else None
    O = outliers(rng, metric, D.dim, many=rng.random() < 0.05)
    compare(report, D, O, metric=metric, metric_params=given, p=p, price=price, share=share)


def compare(report, D, O, *, metric="euclidean", metric_params=None, p=1.0, price=False, share=None, first=5):
    """Distances between the first distributions of D: each pair alone, beside the others of D, and beside O."""
    asked = {"metric": solvers.maximum if metric == "function" else metric, "metric_params": metric_params, "p": p}
    if share is not None:
        asked["share"] = share

    def solved(C, **more):
        prices = {"unmatched": np.full(len(C.masses), 0.7)} if price else {}
        return asot.pairwise_exact(C, **asked, **prices, **more)

    pairs = problems.all_pairs(min(first, len(D)))
    alone = np.array([solved(D[pair]).values[0] for pair in pairs])
    words = f"**{asked}{', a price of 0.7 for every point' if price else ''}"
    is_matched = not price and share is None
    is_sorted = D.dim == 1 and is_matched and metric in ("euclidean", "cityblock", "chebyshev", "minkowski")
    largest = rounding.largest_distances(D, pairs, metric, metric_params)
    slack = FORGIVEN * (alone if p == 1 and is_sorted else np.maximum(alone, largest))
    if p > 1 and not is_sorted:  # points that others have, too, may come in another order
        slack = slack + rounding.of_plans(D, alone, np.maximum(largest, 0.7 * price), p, pairs)
    if metric in ("seuclidean", "mahalanobis"):  # points are transformed, and rounded, before they are subtracted
        slack = slack + 8 * np.sqrt(D.dim) * np.spacing(np.abs(D.points).max())
    code = problems.as_code(D, f"asot.pairwise_exact(D and subsets, {words})")
    together = solved(D).matrix()[tuple(pairs.T)]
    report.compare("beside the others of the collection", together, alone, slack=slack, reproduction=code)
    for E, start in ((D + O, 0), (O + D, len(O))):
        code = problems.as_code(E, f"asot.pairwise_exact(D and D[{start}:{start + len(D)}], {words})")
        where = tuple(start + pairs.T)
        report.compare("beside an outlier", solved(E).matrix()[where], alone, slack=slack, reproduction=code)
        listed = solved(E, pairs=start + pairs).values
        report.compare("beside an outlier, pairs=", listed, alone, slack=slack, reproduction=code)


def search(rng, report):
    """`kneighbors` finds among the near ones what brute force finds, whatever else is far away."""
    metric = str(rng.choice(["euclidean", "cityblock", "chebyshev", "euclidean"]))
    dim = int(rng.choice([1, 1, 2, 5]))
    D = problems.collection(rng, dim=dim, count=int(rng.integers(4, 8)), most=6)
    far = asot.Distributions.from_list([rng.normal(size=(2, dim)) + float(rng.choice(FAR)) for _ in range(2)])
    p = float(rng.choice([1, 1, 2]))
    k = len(D) - 1
    found = asot.kneighbors(D + far, k, p=p, metric=metric, random_state=0)
    alone = np.full((len(D), len(D)), np.inf)
    for i, j in problems.all_pairs(len(D)):
        alone[i, j] = alone[j, i] = asot.pairwise_exact(D[[i, j]], p=p, metric=metric).values[0]
    expected = np.sort(alone, axis=1)[:, :k]
    widest = max(rounding.largest_distances(D, problems.all_pairs(len(D)), metric))
    code = problems.as_code(D + far, f"asot.kneighbors(D, {k}, p={p:g}, metric={metric!r}, random_state=0).distances")
    spread = expected if p == 1 and dim == 1 else widest
    report.compare(
        "kneighbors beside outliers", found.distances[: len(D)], expected, slack=FORGIVEN * spread, reproduction=code
    )


def promised(rng, report):
    """`pairwise(max_error=)` keeps its promise beside outliers; what it calls exact, is."""
    dim = int(rng.choice([1, 1, 2, 5]))
    D = problems.collection(rng, dim=dim, count=5, most=9)
    if D.dim == 1 and rng.random() < 0.5:
        D = asot.Distributions(D.points * 1e-3, D.offsets)._replaced(masses=D.masses)
    E = D + asot.Distributions.from_list([rng.normal(size=(1, dim)) + float(rng.choice(FAR))])
    pairs = problems.all_pairs(len(D))
    alone = np.array([asot.pairwise_exact(D[pair]).values[0] for pair in pairs])
    result = asot.pairwise(E, max_error="0.1%", n_anchors=min(4, len(np.unique(E.points, axis=0))), random_state=0)
    place = [int(np.flatnonzero((result.pairs == pair).all(axis=1))[0]) for pair in pairs]
    values, status = result.values[place], result.status[place]
    code = problems.as_code(E, "asot.pairwise(D, max_error='0.1%', n_anchors=4, random_state=0)")
    is_exact = status == asot.Status.EXACT
    size = alone if dim == 1 else np.maximum(alone, rounding.largest_distances(D, pairs, "euclidean"))
    slack = np.where(is_exact, FORGIVEN * size, 0.001 * (1 + 1e-9) * alone)
    report.compare("max_error beside an outlier", values, alone, slack=slack, reproduction=code)


def histograms(rng, report):
    """`emd_many`: a histogram more, and an anchor far away from all others that only this one uses."""
    k = int(rng.choice([3, 8, 20]))
    A = rng.random((5, k)) * (rng.random((5, k)) < rng.choice([0.3, 1.0]))
    A[np.arange(5), rng.integers(k, size=5)] += 0.5
    cost = solvers.shared_cost(rng, k)
    away = float(rng.choice(FAR))
    longer = np.full((k + 1, k + 1), away)
    longer[:k, :k], longer[k, k] = cost, 0.0
    B = np.zeros((6, k + 1))
    B[:5, :k], B[5] = A, rng.random(k + 1)
    pairs = problems.all_pairs(5)
    alone = np.array([asot.emd_many(A[[i, j]], cost=cost).values[0] for i, j in pairs])
    code = f"  asot.emd_many({B.tolist()},\n      cost={longer.tolist()})" if k < 10 else ""
    together = asot.emd_many(A, cost=cost).values
    report.compare("emd_many beside others", together, alone, slack=FORGIVEN * alone, reproduction=code)
    beside = asot.emd_many(B, cost=longer, pairs=pairs).values
    report.compare("emd_many beside a far anchor", beside, alone, slack=FORGIVEN * alone, reproduction=code)
