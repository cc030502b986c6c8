"""Shapes at the edges: sparse rows, tiny clouds, one against many, 768 dimensions, and one pair with options, beside
whoever does only that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import ot
from ot.lp.emd_wrap import emd_c
from scipy.spatial.distance import cdist, pdist

import asot
from benchmarks.common import Options, Report
from benchmarks.exact.edges import INTRODUCTION, Case, Float, race_all, upper
from benchmarks.exact.edges_rivals import assignment, needs

NEEDS = {"pot"}

MOST_STEPS = 1_000_000

SINGLE = 1e-5
"""What answers of a rival that computes in float32 may differ by."""


def run(options: Options) -> Report:
    """Race every case and make the report."""
    tables = race_all(
        (
            _words, _tiny, _one_against_many, _two_against_many, _long, _one_long_pair, _barycenters,
            _one_entropic_pair, _one_pair, _one_cost, _one_assignment,
        ),
        options.quick,
    )  # fmt: skip
    return Report("edges_more", "The edges of the field: shapes", INTRODUCTION, tables, NOTES)


NOTES = (
    "support + core: the columns with mass of each row are found once, and each pair is solved on its own block of the "
    "cost by `ot.lp.emd_wrap.emd_c`, POT's compiled solver without any of its checks.",
    "Single pairs of up to 20 points are repeated a hundred times in each round.",
    "float32 product + …: one product of all points (or of both clouds) in float32, then an assignment solver on "
    "float32 costs. Its answers have the rounding of float32. asot computes in float64, whatever the points are stored "
    "in, so that answers are exact: a product takes twice as long.",
)


def sparse_rows(rng: Any, n: int, k: int, words: int) -> Float:
    """Histograms (n, k) with this many words each."""
    A = np.zeros((n, k))
    for row in A:
        row[rng.choice(k, words, replace=False)] = rng.random(words)
    return np.asarray(A / A.sum(axis=1, keepdims=True))


def on_support(A: Float, cost: Float) -> Float:
    """All pairs of rows by POT's core, each on the columns that it uses."""
    held = [np.flatnonzero(row) for row in A]
    masses = [row[own] for row, own in zip(A, held, strict=True)]
    values = [
        emd_c(masses[i], masses[j], np.ascontiguousarray(cost[np.ix_(held[i], held[j])]), MOST_STEPS, 1)[1]
        for i, j in upper(len(A))
    ]
    return np.array(values)


def _words(rng: Any, quick: bool) -> Iterator[Case]:
    large = ((1000, 5, 150), (2000, 2, 200), (2000, 20, 150), (3000, 30, 60), (5000, 10, 120))
    for k, words, n in ((600, 5, 40),) if quick else large:
        points = rng.normal(size=(k, 3))
        cost, A = cdist(points, points), sparse_rows(rng, n, k, words)
        rivals = {"support + core": lambda A=A, cost=cost: on_support(A, cost)}
        label = f"k = {k:,}, {words} words, N = {n}"
        ours = lambda A=A, cost=cost: asot.emd_many(A, cost=cost, n_jobs=1, device="cpu").values  # noqa: E731
        yield Case("Rows of few words", label, ours, rivals, n * (n - 1) // 2, 3.0, 2)


def _tiny(rng: Any, quick: bool) -> Iterator[Case]:
    n = 100 if quick else 600
    for size in (1, 2, 3, 4, 5):
        D = asot.Distributions.from_list([rng.normal(size=(size, 3)) for _ in range(n)])
        clouds, u = D.points.reshape(n, size, 3), np.full(size, 1.0 / size)

        def core(clouds: Float = clouds, u: Float = u) -> Float:
            return np.array([emd_c(u, u, cdist(clouds[i], clouds[j]), MOST_STEPS, 1)[1] for i, j in upper(len(clouds))])

        def pairs(clouds: Float = clouds) -> Float:
            return np.asarray(pdist(clouds[:, 0]))

        def swaps(clouds: Float = clouds) -> Float:
            i, j = np.triu_indices(len(clouds), 1)
            d = [np.linalg.norm(clouds[i, a] - clouds[j, b], axis=1) for a in (0, 1) for b in (0, 1)]
            return np.asarray(np.minimum(d[0] + d[3], d[1] + d[2]) / 2.0)

        rivals = {"pdist": pairs} if size == 1 else {"closed form": swaps} if size == 2 else {"core": core}
        ours = lambda D=D: asot.pairwise_exact(D, n_jobs=1, device="cpu").values  # noqa: E731
        yield Case("Tiny clouds, 3-D", f"{size} points", ours, rivals, n * (n - 1) // 2, 0.5 if size == 1 else 1.0, 3)


def _one_against_many(rng: Any, quick: bool) -> Iterator[Case]:
    for size in (50,) if quick else (50, 300, 2000):
        one = asot.Distributions.from_list([rng.normal(size=(1, 3)) for _ in range(20)])
        many = asot.Distributions.from_list([rng.normal(size=(size, 3)) for _ in range(20)])

        def means(one: Any = one, many: Any = many, size: int = size) -> Float:
            return np.asarray(cdist(one.points, many.points).reshape(20, 20, size).mean(axis=2).reshape(-1))

        ours = lambda one=one, many=many: asot.pairwise_exact(one, many, n_jobs=1, device="cpu").values  # noqa: E731
        yield Case("One point against many", f"{size:,} points", ours, {"cdist.mean": means}, 400, 0.7, 3)


def _two_against_many(rng: Any, quick: bool) -> Iterator[Case]:
    for size in (50,) if quick else (50, 300, 2000):
        two = asot.Distributions.from_list([rng.normal(size=(2, 3)) for _ in range(20)])
        many = asot.Distributions.from_list([rng.normal(size=(size, 3)) for _ in range(20)])

        def split(two: Any = two, many: Any = many, size: int = size) -> Float:
            d = cdist(two.points, many.points).reshape(20, 2, 20, size)
            nearest = np.partition(d[:, 0] - d[:, 1], size // 2 - 1, axis=2)[..., : size // 2]
            return np.asarray((nearest.sum(axis=2) + d[:, 1].sum(axis=2)).reshape(-1) / size)

        ours = lambda two=two, many=many: asot.pairwise_exact(two, many, n_jobs=1, device="cpu").values  # noqa: E731
        yield Case("Two points against many", f"{size:,} points", ours, {"partition": split}, 400, 0.7, 5)


def float32_costs(x: Any, y: Any, metric: str) -> Any:
    """Costs (n, m) by one product, as one writes it to be fast."""
    if metric == "cosine":
        x, y = (z / np.sqrt(np.einsum("ij,ij->i", z, z))[:, None] for z in (x, y))
        return 1.0 - x @ y.T
    cost = x @ y.T
    cost *= -2.0
    cost += np.einsum("ij,ij->i", x, x)[:, None]
    cost += np.einsum("ij,ij->i", y, y)
    return np.sqrt(np.maximum(cost, 0.0, out=cost), out=cost)


def _matched(cost: Any, solve: Any) -> float:
    return float(cost[np.arange(len(cost)), solve(cost)].mean(dtype=np.float64))


def _solvers() -> dict[str, Any]:
    return {name: assignment(name) for name in ("lapjv", "lapx", "SciPy") if name == "SciPy" or needs(name)}


def _long(rng: Any, quick: bool) -> Iterator[Case]:
    for metric in ("euclidean", "cosine"):
        for size, n in ((10, 20),) if quick else ((10, 100), (50, 30), (200, 8)):
            x = rng.normal(size=(n, size, 768)).astype(np.float32)
            D = asot.Distributions.from_list(list(x))

            def product(x: Any = x, solve: Any = None, metric: str = metric, n: int = n, size: int = size) -> Float:
                flat = x.reshape(n * size, -1)
                cost = float32_costs(flat, flat, metric).reshape(n, size, n, size)
                return np.array([_matched(np.ascontiguousarray(cost[i, :, j]), solve) for i, j in upper(n)])

            rivals = {
                f"float32 product + {name}": lambda solve=solve, product=product: product(solve=solve)
                for name, solve in _solvers().items()
            }
            ours = lambda D=D, metric=metric: asot.pairwise_exact(D, metric=metric, n_jobs=1, device="cpu").values  # noqa: E731
            label = f"{metric}, n = {size}, N = {n}"
            yield Case("768 dimensions, float32", label, ours, rivals, n * (n - 1) // 2, 1.5, 3, SINGLE)


def _one_long_pair(rng: Any, quick: bool) -> Iterator[Case]:
    for n in (20,) if quick else (20, 50, 100, 300):
        x, y = rng.normal(size=(2, n, 768)).astype(np.float32)
        D, u = asot.Distributions.from_list([x, y]), np.full(n, 1.0 / n)
        rivals = {
            f"float32 product + {name}": lambda solve=solve, x=x, y=y: np.array(
                [_matched(float32_costs(x, y, "euclidean"), solve)]
            )
            for name, solve in _solvers().items()
        }
        rivals["emd2"] = lambda x=x, y=y, u=u: np.array(
            [ot.emd2(u, u, ot.dist(x.astype(np.float64), y.astype(np.float64), metric="euclidean"))]
        )
        ours = lambda D=D: asot.pairwise_exact(D, n_jobs=1).values  # noqa: E731
        yield Case("One pair in 768 dimensions, float32", f"n = {n}", ours, rivals, 1, 1.0, 20, SINGLE)


def _one_entropic_pair(rng: Any, quick: bool) -> Iterator[Case]:
    for n in (100,) if quick else (100, 500):
        points, A = rng.normal(size=(n, 2)), rng.dirichlet(np.ones(n), 2)
        cost = cdist(points, points)
        reg = 0.1 * cost.max()
        ours = lambda A=A, cost=cost, reg=reg: asot.sinkhorn_many(A, cost=cost, reg=reg, n_jobs=1, device="cpu").values  # noqa: E731
        pots = lambda A=A, cost=cost, reg=reg: np.array([ot.sinkhorn2(A[0], A[1], cost, reg, stopThr=1e-9)])  # noqa: E731
        label = f"n = {n}, ε = 0.1 max C"
        yield Case("One entropic pair, to 1e-9", label, ours, {"sinkhorn2": pots}, 1, 1.2, 20, 1e-7)


def _one_assignment(rng: Any, quick: bool) -> Iterator[Case]:
    for n in (200,) if quick else (1000, 4096):
        points = rng.normal(size=(2, n, 64))
        for kind, cost in (("uniform costs", rng.random((n, n))), ("64 dimensions", cdist(*points))):
            u = np.full(n, 1.0 / n)
            rivals = {
                name: lambda solve=solve, cost=cost: np.array([_matched(cost, solve)])
                for name, solve in _solvers().items()
                if n == 1000 or name == "lapjv" or quick
            }
            ours = lambda u=u, cost=cost: np.array([asot.emd(u, u, cost).value])  # noqa: E731
            yield Case("One assignment, `asot.emd`", f"n = {n:,}, {kind}", ours, rivals, 1, 1.0, 3 if n == 1000 else 1)


def _barycenters(rng: Any, quick: bool) -> Iterator[Case]:
    for k, n in ((30, 20),) if quick else ((30, 20), (200, 20), (784, 10)):
        points = rng.random((k, 2))
        cost, A = cdist(points, points), rng.dirichlet(np.full(k, 0.3), n)
        reg = 0.05 * cost.max()

        def plain(A: Float = A, cost: Float = cost, reg: float = reg) -> Float:
            K, u, columns = np.exp(-cost / reg), np.ones(A.T.shape), A.T
            for step in range(1000):
                reached = K.T @ (columns / (K @ u))
                b = np.exp(np.log(reached).mean(axis=1))
                if step % 10 == 0 and np.abs(u * reached - b[:, None]).sum(axis=0).mean() < 1e-11:
                    break
                u = b[:, None] / reached
            return np.asarray(b / b.sum())

        ours = lambda A=A, cost=cost, reg=reg: asot.barycenter(A, cost, reg=reg, tol=1e-11).masses  # noqa: E731
        pots = lambda A=A, cost=cost, reg=reg: np.asarray(  # noqa: E731
            ot.bregman.barycenter(A.T.copy(), cost, reg, numItermax=1000, stopThr=1e-11)
        )
        rivals = {"NumPy": plain, "POT": pots}
        yield Case("Entropic barycenters, with their exact value", f"k = {k}, N = {n}", ours, rivals, 1, 1.0, 3)


def _one_pair(rng: Any, quick: bool) -> Iterator[Case]:
    options: tuple[tuple[str, dict[str, Any], str, int], ...] = (
        ("no options", {}, "euclidean", 1),
        ("n_jobs=1", {"n_jobs": 1}, "euclidean", 1),
        ("p=2", {"p": 2}, "euclidean", 2),
        ("cityblock", {"metric": "cityblock"}, "cityblock", 1),
    )
    for n in (5, 20):
        D = asot.Distributions.from_list([rng.normal(size=(n, 3)) for _ in range(2)])
        x, y, u = D.points[:n], D.points[n:], np.full(n, 1.0 / n)
        for label, given, metric, power in options:

            def core(x: Float = x, y: Float = y, u: Float = u, metric: str = metric, power: int = power) -> Float:
                costs = (cdist(x, y, metric) for _ in range(100))
                found = [emd_c(u, u, c**power if power > 1 else c, MOST_STEPS, 1)[1] ** (1.0 / power) for c in costs]
                return np.array(found[-1:])

            def ours(D: Any = D, given: dict[str, Any] = given) -> Float:
                return [asot.pairwise_exact(D, **given) for _ in range(100)][-1].values

            yield Case("One pair", f"n = {n}, {label}", ours, {"cdist + core": core}, 100, 1.0, 3)


def _one_cost(rng: Any, quick: bool) -> Iterator[Case]:
    for k in (5, 30):
        a, b, cost = rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k)), rng.random((k, k))
        ours = lambda a=a, b=b, cost=cost: np.array([[asot.emd(a, b, cost) for _ in range(100)][-1].value])  # noqa: E731
        emd2 = lambda a=a, b=b, cost=cost: np.array([[ot.emd2(a, b, cost) for _ in range(100)][-1]])  # noqa: E731
        yield Case("One cost, `asot.emd`", f"k = {k}", ours, {"emd2": emd2}, 100, 3.0, 3)
