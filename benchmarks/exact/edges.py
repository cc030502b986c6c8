"""Where others are strong: the edges of the field, each beside the strongest rival that pip installs.

In the middle of the field (many pairs of tens of points) there is no rival; see exact_shared and exact_points. Here are
the cases for which somebody else has a special tool: sorting on a line, assignment solvers, a bare compiled core for
one small problem, one matrix product for all costs. Problems with one cost are in edges_shared, searches in
edges_search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import pdist
from scipy.stats import wasserstein_distance

import asot
from benchmarks.common import Options, Report, Table, largest_difference, race, ratio
from benchmarks.exact.edges_rivals import core, core_values, emd2, lap, needs

NEEDS = {"pot"}

TOLERANCE = 1e-9
Float = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """Ours and theirs: functions without arguments that return the same distances."""

    group: str
    label: str
    ours: Callable[[], Float]
    rivals: dict[str, Callable[[], Float]]
    n_pairs: int
    target: float
    repeats: int = 5
    tolerance: float = TOLERANCE


def run(options: Options) -> Report:
    """Race every case and make the report."""
    makers = (_lines, _single_pairs, _large_pairs, _long_points, _documents)
    return Report("edges", "The edges of the field: points", INTRODUCTION, race_all(makers, options.quick), NOTES)


def race_all(makers: Sequence[Callable[[Any, bool], Iterator[Case]]], quick: bool) -> list[Table]:
    """A table for each group of cases."""
    rng = np.random.default_rng(0)
    rows: dict[str, list[list[str]]] = {}
    for maker in makers:
        for case in maker(rng, quick):
            rows.setdefault(case.group, []).append(_row(case, quick))
            print(rows[case.group][-1], flush=True)
    columns = ["case", "pairs", "asot", "rival", "its time", "times faster", "largest difference"]
    return [Table(f"{group}:", columns, lines) for group, lines in rows.items()]


INTRODUCTION = (
    "Each case beside the strongest rivals we know for it, one thread each, best of interleaved repeats. Times are "
    "those that the processor worked for the whole call, from arrays to distances. Every rival is shown; the target is "
    "for each of them."
)

NOTES = (
    "core: `ot.lp.emd_wrap.emd_c`, POT's compiled solver without any of its checks, on costs by SciPy's `cdist`.",
    "lapjv, lapx, SciPy: assignment solvers, for equal sizes and masses only, on costs by `cdist`.",
    "sort + pdist: `np.sort` and SciPy's `pdist`, for equal sizes on a line; CDF + pdist: cumulative masses over all "
    "positions of the collection.",
    "product + core: all costs of the collection by one matrix product, then POT's core pair by pair.",
    "Differences are over the largest distance of the case.",
)


def _row(case: Case, quick: bool) -> list[str]:
    case.ours()  # compiled before the clock starts
    contestants: dict[str, Callable[[], Any]] = {"asot": case.ours, **case.rivals}

    def deviations(answers: dict[str, Any]) -> dict[str, float]:
        reference = answers["asot"]
        scale = float(np.abs(reference).max()) or 1.0
        loose = {"OR-tools"}
        return {
            name: largest_difference(answers[name], reference, scale) * (1e-4 if name in loose else 1.0)
            for name in case.rivals
        }

    outcome = race(
        contestants, deviations, repeats=2 if quick else case.repeats, tolerance=case.tolerance, clock=process_time
    )
    ours = outcome.seconds["asot"]
    order = sorted(case.rivals, key=lambda name: outcome.seconds[name])
    return [
        case.label,
        f"{case.n_pairs:,}",
        _time(ours / case.n_pairs),
        " / ".join(order),
        " / ".join(_time(outcome.seconds[name] / case.n_pairs) for name in order),
        " / ".join(ratio(outcome.seconds[name] / ours, case.target if name == order[0] else None) for name in order),
        f"{max(outcome.deviations.values()):.0e}",
    ]


def _time(seconds: float) -> str:
    """Time per pair with its unit."""
    for unit, size in (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3)):
        if seconds < 1000 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _exact(collection: Any) -> Callable[[], Float]:
    return lambda: asot.pairwise_exact(collection, progress=False).values


def upper(n: int) -> Iterator[tuple[int, int]]:
    return ((i, j) for i in range(n) for j in range(i + 1, n))


# ------------------------------------------------------------------------------------------------------------- cases


def _lines(rng: Any, quick: bool) -> Iterator[Case]:
    group = "One dimension, all pairs"
    for n, size in ((5, 1000), (100, 400), (300, 200)):
        size = 20 if quick else size
        x = rng.normal(size=(size, n))
        D = asot.Distributions.from_list(list(x[:, :, None]))
        rivals = {"sort + pdist": lambda x=x, n=n: pdist(np.sort(x, axis=1), "cityblock") / n}
        yield Case(group, f"{n} points each, equal masses", _exact(D), rivals, size * (size - 1) // 2, 0.8)
    for n in (20, 100):
        size = 10 if quick else 40
        x, w = rng.normal(size=(size, n)), rng.dirichlet(np.ones(n), size)
        D = asot.Distributions.from_list(list(x[:, :, None]), list(w))
        rivals = {
            "SciPy": lambda x=x, w=w, size=size: np.array(
                [wasserstein_distance(x[i], x[j], w[i], w[j]) for i, j in upper(size)]
            ),
            "CDF + pdist": lambda x=x, w=w: _by_cumulative(x, w),
        }
        yield Case(group, f"{n} points each, weighted", _exact(D), rivals, size * (size - 1) // 2, 3.0)


def _by_cumulative(x: Float, w: Float) -> Float:
    grid = np.unique(x)
    masses = np.zeros((len(x), len(grid)))
    np.add.at(masses, (np.repeat(np.arange(len(x)), x.shape[1]), np.searchsorted(grid, x).ravel()), w.ravel())
    return pdist(np.cumsum(masses, axis=1)[:, :-1] * np.diff(grid), "cityblock")


def _single_pairs(rng: Any, quick: bool) -> Iterator[Case]:
    for n in (5, 20, 50, 100, 300):
        for d in (2, 30):
            x, y = rng.normal(size=(n, d)), rng.normal(size=(n, d)) + 0.3
            D = asot.Distributions.from_list([x, y])
            rivals = {"emd2": emd2(x, y), "core": core(x, y), "SciPy": lap("SciPy", x, y)}
            rivals |= {name: lap(name, x, y) for name in ("lapjv",) if d == 30 and needs(name)}
            yield Case("One pair, equal sizes", f"n = {n}, d = {d}", _exact(D), rivals, 1, 1.0, 20)


def _large_pairs(rng: Any, quick: bool) -> Iterator[Case]:
    for n in (400,) if quick else (1000, 2000):
        for d in (3, 30):
            x, y = rng.normal(size=(n, d)), rng.normal(size=(n, d)) + 0.3
            D = asot.Distributions.from_list([x, y])
            rivals = {"emd2": emd2(x, y)}
            rivals |= {name: lap(name, x, y) for name in ("lapjv", "lapx") if d == 30 and needs(name)}
            yield Case("One large pair, equal sizes", f"n = {n:,}, d = {d}", _exact(D), rivals, 1, 1.5, 2)
        w = rng.dirichlet(np.ones(n), 2)
        D = asot.Distributions.from_list([x, y], list(w))
        yield Case("One large pair, weighted", f"n = {n:,}, d = 30", _exact(D), {"emd2": emd2(x, y, *w)}, 1, 7.0, 2)


def _long_points(rng: Any, quick: bool) -> Iterator[Case]:
    for n, size in ((5, 200), (20, 50), (50, 30)):
        size = 8 if quick else size
        x = rng.normal(size=(size, n, 300))
        D = asot.Distributions.from_list(list(x))
        rivals = {
            "product + core": lambda x=x: _by_product(x, core_of_cost),
            "product + SciPy": lambda x=x: _by_product(x, assignment_of_cost),
        }
        yield Case("300 dimensions", f"n = {n}", _exact(D), rivals, size * (size - 1) // 2, 3.0, 3)


def _by_product(x: Float, solve: Callable[[Float], float]) -> Float:
    size, n, _ = x.shape
    flat = x.reshape(size * n, -1)
    squares = (flat**2).sum(axis=1)
    cost = np.sqrt(np.maximum(squares[:, None] + squares - 2.0 * flat @ flat.T, 0.0)).reshape(size, n, size, n)
    return np.array([solve(np.ascontiguousarray(cost[i, :, j])) for i, j in upper(size)])


def core_of_cost(cost: Float) -> float:
    return core_values(np.full(len(cost), 1 / len(cost)), np.full(cost.shape[1], 1 / cost.shape[1]), cost)


def assignment_of_cost(cost: Float) -> float:
    return float(cost[linear_sum_assignment(cost)].mean())


def _documents(rng: Any, quick: bool) -> Iterator[Case]:
    vocabulary = rng.normal(size=(400 if quick else 2000, 100))
    popular = 1.0 / np.arange(1, len(vocabulary) + 1)
    for words in (5, 20, 50):
        size = 10 if quick else 120
        chosen = [rng.choice(len(vocabulary), words, replace=False, p=popular / popular.sum()) for _ in range(size)]
        masses = [rng.dirichlet(np.ones(words)) for _ in range(size)]
        weights = np.zeros((size, len(vocabulary)))
        for i in range(size):
            weights[i, chosen[i]] = masses[i]
        D = asot.Distributions.from_weights(weights, vocabulary)
        rivals = {"product + core": lambda c=chosen, m=masses: _documents_by_product(vocabulary, c, m)}
        pairs = size * (size - 1) // 2
        yield Case("Documents, words in 100 dimensions", f"{words} words", _exact(D), rivals, pairs, 3.0, 3)


def _documents_by_product(vocabulary: Float, chosen: list[Any], masses: list[Float]) -> Float:
    squares = (vocabulary**2).sum(axis=1)
    cost = np.sqrt(np.maximum(squares[:, None] + squares - 2.0 * vocabulary @ vocabulary.T, 0.0))
    np.fill_diagonal(cost, 0.0)
    return np.array(
        [
            core_values(masses[i], masses[j], np.ascontiguousarray(cost[np.ix_(chosen[i], chosen[j])]))
            for i, j in upper(len(chosen))
        ]
    )
