"""Every solver and metric against brute force, SciPy's assignment, POT and HiGHS."""

from __future__ import annotations

import functools

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

import asot
from tests.attack import oracles, problems

METRICS = (
    "euclidean", "euclidean", "cityblock", "chebyshev", "minkowski", "canberra", "hamming", "jaccard", "rogerstanimoto",
    "sokalsneath", "jensenshannon", "seuclidean", "mahalanobis", "sqeuclidean", "cosine", "angular", "great_circle",
    "periodic", "braycurtis", "function",
)  # fmt: skip
ANY_ORDER = (1, 1.5, 2, 3, 5, 6, 7, 8, 12, 20, 100, 1000, 1e6)


def domain(rng, metric, dim, n):
    """Points (n, dim) that a metric takes."""
    if metric in ("hamming",):
        return rng.integers(0, 3, size=(n, dim)).astype(float)
    if metric in ("jaccard", "rogerstanimoto", "sokalsneath"):
        return rng.integers(0, 2, size=(n, dim)).astype(float)
    if metric in ("jensenshannon", "braycurtis"):
        return rng.random((n, dim)) + 1e-3 * (rng.random((n, dim)) < 0.9)
    if metric in ("cosine", "angular"):
        return rng.normal(size=(n, dim))
    if metric == "great_circle":
        return np.stack([rng.uniform(-1.5, 1.5, n), rng.uniform(-3, 3, n)], axis=1)
    return problems.points(rng, n, dim)


def parameters(rng, metric, dim):
    """metric_params that fix a metric whatever the collection."""
    match metric:
        case "minkowski":
            return {"p": float(rng.choice([1.0, 1.5, 3.0]))}
        case "seuclidean":
            return {"V": rng.uniform(0.5, 2.0, dim)}
        case "mahalanobis":
            root = np.eye(dim) + 0.2 * rng.normal(size=(dim, dim))
            return {"VI": root @ root.T}
        case "periodic":
            return {"box": rng.uniform(0.5, 2.0, dim)}
    return None


def maximum(x, y):
    """A metric that is a function of two points."""
    return float(np.abs(x - y).max())


def drawn(rng, metric, count, most):
    """A collection under a metric, and the metric's parameters."""
    dim = 2 if metric == "great_circle" else int(rng.choice([1, 2, 3, 5, 20]))
    if dim == 1 and metric in ("cosine", "angular", "jensenshannon"):
        dim = 2
    common = problems.size(rng, most) if rng.random() < 0.4 else None
    clouds, weights = [], []
    kind = rng.choice(problems.MASSES)
    for _ in range(count):
        n = problems.size(rng, most) if common is None else common
        clouds.append(domain(rng, metric, dim, n))
        a = problems.masses(rng, n, kind)
        weights.append(np.full(n, 1.0 / n) if a is None else a)
    return asot.Distributions.from_list(clouds, weights), parameters(rng, metric, dim)


def ground(metric):
    """Distances by an oracle."""
    if metric == "function":
        return lambda x, y, _: cdist(x, y, "chebyshev")
    return functools.partial(_by_name, metric=metric)


def _by_name(x, y, given, metric):
    return oracles.distances(x, y, metric, given)


def any_metric(rng, report):
    """POT for every pair, HiGHS for one of them."""
    metric = str(rng.choice(METRICS))
    D, given = drawn(rng, metric, 4, int(rng.choice([5, 9, 20])))
    p = float(rng.choice([1, 1, 1, 2, 3, 1.5, 6]))
    asked = {"metric": maximum if metric == "function" else metric, "metric_params": given, "p": p}
    pairs = problems.all_pairs(len(D))
    costs = [ground(metric)(D[i][0], D[j][0], given) ** p for i, j in pairs.tolist()]
    values = asot.pairwise_exact(D, **asked).values ** p
    largest = np.array([cost.max() for cost in costs])
    expected = [oracles.by_pot(D[i][1], D[j][1], cost) for (i, j), cost in zip(pairs.tolist(), costs, strict=True)]
    lost = 1e-7 if metric in ("angular", "cosine", "canberra", "mahalanobis") else 0.0  # near 0, oracles lose digits
    rounding = 8 * np.sqrt(D.dim) * np.spacing(np.abs(D.points).max())  # of coordinates, seen through a power
    slack = 3e-13 * largest + 1e-15 * lost + (largest ** (1 / p) + rounding) ** p - largest + 1e-300
    code = problems.as_code(D, f"asot.pairwise_exact(D, **{asked})")
    report.compare("POT", values, expected, slack=slack + 4 * p * lost * 1e-6 * largest, reproduction=code)
    t = int(rng.integers(len(pairs)))
    if rng.random() < 0.2 and largest[t] > 0:
        i, j = pairs[t].tolist()
        expected = oracles.by_highs(D[i][1], D[j][1], costs[t])
        tolerance = 1e-7 * largest[t]  # its own
        report.compare("HiGHS", values[t], expected, slack=slack[t] + tolerance, reproduction=code)


def equal_masses(rng, report):
    """Any order p, brute force over permutations; n up to 6, and SciPy's assignment for more."""
    small = rng.random() < 0.7
    n = int(rng.integers(1, 7)) if small else int(rng.choice([10, 40, 150]))
    dim = int(rng.choice([1, 1, 2, 3, 8]))
    kind = str(rng.choice(problems.POINTS))
    clouds = [problems.points(rng, n, dim, kind) for _ in range(3)]
    clouds.append(clouds[0][rng.permutation(n)] + 10.0 ** rng.integers(-6, 1) * rng.integers(0, 2))
    D = asot.Distributions.from_list(clouds)
    if rng.random() < 0.4:  # other sizes beside them choose another solver
        D = D + asot.Distributions.from_list([problems.points(rng, n + 1, dim)])
    p = float(rng.choice(ANY_ORDER if small else (1, 2, 3)))
    metric = str(rng.choice(["euclidean", "cityblock", "chebyshev"]))
    pairs = problems.all_pairs(4)
    values = asot.pairwise_exact(D, p=p, metric=metric, pairs=pairs).values
    costs = [cdist(clouds[i], clouds[j], metric) for i, j in pairs]
    oracle = oracles.by_permutations if small else oracles.by_assignment
    expected = np.array([oracle(cost, p) for cost in costs], np.longdouble)
    largest = np.array([cost.max() for cost in costs])
    slack = 1e-14 * expected + 1e-15 * largest + 4 * np.spacing(np.abs(D.points).max())
    if not small:  # costs are rounded to a share of the largest, and the root of a small value magnifies that
        slack += largest * (((expected / largest) ** p + 3e-13) ** (1 / p) - expected / largest)
    code = problems.as_code(D, f"asot.pairwise_exact(D, p={p:g}, metric={metric!r}, pairs={pairs.tolist()})")
    report.compare("permutations" if small else "SciPy's assignment", values, expected, slack=slack, reproduction=code)


def assignments(rng, report):
    """Costs of many rows and columns, which are solved from short lists: ties, levels, clouds; against SciPy."""
    n = int(rng.choice([64, 256, 300, 450]))
    x, y = rng.normal(size=(2, n, int(rng.choice([1, 2, 3, 8, 64]))))
    level = float(rng.uniform(0.01, 0.99))
    cost = (
        lambda: np.where(rng.random((n, n)) < rng.uniform(0.02, 0.6), level, 1.0),
        lambda: rng.integers(0, int(rng.choice([3, 20, n, n * n])), (n, n)) * level,
        lambda: cdist(x, y, str(rng.choice(["euclidean", "sqeuclidean", "cityblock"]))),
        lambda: cdist(np.round(x, 1), np.round(y, 1)),
        lambda: rng.random((n, 1)) + rng.random(n) + 10.0 ** -rng.integers(1, 14) * rng.random((n, n)),
        lambda: rng.normal(size=(n, n)),
    )[rng.integers(6)]()
    value = asot.emd_batch([cost]).values
    expected = np.array([cost[linear_sum_assignment(cost)].mean()])
    slack = 1e-9 * np.abs(cost).max() * np.ones(1)  # costs are integers of 36 bits and more
    report.compare("SciPy's assignment of a matrix", value, expected, slack=slack, reproduction=f"  a matrix of {n}")


def histograms(rng, report):
    """`emd_many` under metrics, distances along graphs and costs that are no metric, against POT."""
    k = int(rng.choice([3, 8, 20]))
    cost = shared_cost(rng, k)
    A = rng.random((5, k)) * (rng.random((5, k)) < rng.choice([0.3, 1.0])) + 1e-12 * (rng.random((5, k)) < 0.1)
    A[np.arange(5), rng.integers(k, size=5)] += 0.5
    values = asot.emd_many(A, cost=cost).values
    shares = A / A.sum(axis=1, keepdims=True)
    expected = [oracles.by_pot(shares[i], shares[j], cost) for i, j in problems.all_pairs(5)]
    code = f"  asot.emd_many({A.tolist()},\n      cost={cost.tolist()})" if k < 10 else ""
    report.compare("POT, shared cost", values, expected, slack=1e-13 * cost.max(), reproduction=code)


def shared_cost(rng, k):
    """Costs (k, k)."""
    x = rng.normal(size=(k, 2))
    match rng.integers(5):
        case 0:
            return cdist(x, x)
        case 1:
            return cdist(np.arange(k)[:, None], np.arange(k)[:, None], "cityblock")
        case 2:
            grid = np.stack(np.divmod(np.arange(k), 4), axis=1)
            return cdist(grid, grid, "cityblock")
        case 3:
            return cdist(x, x, "sqeuclidean")
    cost = rng.random((k, k)) + 0.01
    cost = cost + cost.T
    np.fill_diagonal(cost, 0.0)
    return cost
