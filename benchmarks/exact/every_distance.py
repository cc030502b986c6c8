"""W_2, persistence diagrams, events of different energy and nested labels, against the libraries people use for them.

One thread each, all pairs of small collections, best of interleaved repeats; answers are compared in every round.
"""

from __future__ import annotations

import contextlib
import importlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from asot_paper.datasets import load_tu_graphs
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

import asot
from benchmarks.common import Options, Race, Report, Table, largest_difference, microseconds, race, ratio
from benchmarks.made import trial_histograms
from benchmarks.peers.peers import pot

NEEDS = {"paper", "pot"}

OURS = "asot"
TOLERANCE = 1e-9
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A kind of collection, the call of ours, and the calls of others with what we are to be ahead of each by."""

    name: str
    ours: Callable[[], Values]
    others: dict[str, Callable[[], Values]]
    targets: dict[str, float]
    n_pairs: int


def run(options: Options) -> Report:
    """Measure every case and make the report."""
    count = 8 if options.quick else 24
    sizes = (20, 100) if options.quick else (20, 100, 300)
    cases = [_clouds(n, count) for n in sizes]
    cases += [_shared(k, 4 * count, target) for k, target in ((30, 15.0), (150, 6.0))]
    cases += [_diagrams(n, count) for n in ((20,) if options.quick else (20, 100, 200))]
    cases.append(_events(65, count))
    labels = _labels(options, 30 if options.quick else 120)
    cases += [] if labels is None else [labels]
    rows = [row for case in cases for row in _rows(case, _measured(case, 1 if options.quick else 5))]
    return Report(
        "every_distance",
        "W₂, diagrams, events of different energy and nested labels",
        f"All pairs of {count} distributions. One thread each, best of interleaved repeats.",
        [Table("Time per pair:", ["case", "rival", "rival, µs", "asot, µs", "times faster"], rows)],
        NOTES,
    )


NOTES = (
    "Clouds: normal points in 3 dimensions, W₂. Rival: SciPy's `cdist(x, y, 'sqeuclidean')` and POT's compiled core "
    "`emd_c`.",
    "One shared cost: squared distances of k anchors, `emd_many` and a root, all pairs of 96 histograms. Rival: POT's "
    "compiled core on the anchors that carry mass.",
    "Diagrams: births uniform, lives exponential; order 1, norm ∞, as GUDHI's default. Rivals: "
    "`gudhi.wasserstein.wasserstein_distance` (POT inside) and `gudhi.hera.wasserstein_distance` (Hera, relative error "
    "1e-9).",
    "Events: particles in a unit square with exponential energies, unmatched energy at R = 1. Rival: POT's compiled "
    "core with one particle more, which takes what is too much.",
    "Labels: the first graphs of ENZYMES, five Weisfeiler-Lehman labels per node, Hamming distance. Rival: the loop of "
    "the package `wwl` over pairs (`ot.dist` and `ot.emd2`), on the same labels.",
    "Answers agree to 1e-9 of the largest value in every round, or the benchmark fails.",
)


def _core() -> Any:
    pot()
    from ot.lp.emd_wrap import emd_c

    return emd_c


def _pairs(n: int) -> NDArray[np.int64]:
    return np.stack(np.triu_indices(n, 1), axis=1)


def _exact(D: asot.Distributions, **distance: Any) -> Values:
    values: Values = asot.pairwise_exact(D, n_jobs=1, progress=False, **distance).values
    return values


def _clouds(n: int, count: int) -> Case:
    points = np.random.default_rng(n).normal(size=(count, n, 3))
    core = _core()
    uniform = np.full(n, 1.0 / n)

    def loop() -> Values:
        costs = (cdist(points[i], points[j], "sqeuclidean") for i, j in _pairs(count))
        return np.sqrt([core(uniform, uniform, cost, 10**7, 1)[1] for cost in costs])

    D = asot.Distributions.from_list(list(points))
    return Case(
        f"W₂, {n} points", partial(_exact, D, p=2), {"cdist and POT's core": loop}, {"cdist and POT's core": 4.0},
        len(_pairs(count)),
    )  # fmt: skip


def _shared(k: int, count: int, target: float) -> Case:
    h = trial_histograms(k, count)
    cost = h.cost**2
    core = _core()

    def loop() -> Values:
        values = []
        for i, j in _pairs(count):
            rows, columns = np.flatnonzero(h.masses[i]), np.flatnonzero(h.masses[j])
            a, b = h.masses[i, rows], h.masses[j, columns]
            block = np.ascontiguousarray(cost[np.ix_(rows, columns)])
            values.append(core(a, b * (a.sum() / b.sum()), block, 10**7, 1)[1])
        return np.sqrt(values)

    def ours() -> Values:
        values: Values = np.sqrt(asot.emd_many(h.masses, cost=cost, n_jobs=1, progress=False).values)
        return values

    return Case(f"W₂, one shared cost, k = {k}", ours, {"POT's core": loop}, {"POT's core": target}, len(_pairs(count)))


def _diagrams(n: int, count: int) -> Case:
    rng = np.random.default_rng(n)
    births = rng.random((count, n, 1))
    diagrams = np.concatenate([births, births + rng.exponential(0.2, births.shape)], axis=2)
    D = asot.Distributions.from_diagrams(list(diagrams))
    others: dict[str, Callable[[], Values]] = {}
    try:
        from gudhi.hera import wasserstein_distance as hera
        from gudhi.wasserstein import wasserstein_distance as gudhi
    except ImportError:
        print("gudhi is missing (pip install gudhi): no rivals for diagrams", flush=True)
    else:
        others["GUDHI"] = lambda: np.array([gudhi(diagrams[i], diagrams[j], order=1.0) for i, j in _pairs(count)])
        others["Hera"] = lambda: np.array(
            [hera(diagrams[i], diagrams[j], order=1.0, delta=1e-9) for i, j in _pairs(count)]
        )
    return Case(
        f"diagrams, {n} points", partial(_exact, D, metric="chebyshev", unmatched="diagonal"), others,
        {"GUDHI": 5.0, "Hera": 2.0}, len(_pairs(count)),
    )  # fmt: skip


def _events(n: int, count: int) -> Case:
    rng = np.random.default_rng(0)
    points, energies = rng.random((count, n, 2)), rng.exponential(1.0, (count, n))
    core = _core()
    D = asot.Distributions.from_list(list(points), list(energies))

    def one(i: int, j: int) -> float:
        a, b, cost = energies[i], energies[j], np.ones((n + 1, n + 1))
        cost[:n, :n] = cdist(points[i], points[j])
        cost[n, n] = 0.0
        excess = a.sum() - b.sum()
        a, b = np.append(a, max(0.0, -excess)), np.append(b, max(0.0, excess))
        return float(core(a, b * (a.sum() / b.sum()), cost, 10**7, 1)[1])

    def loop() -> Values:
        return np.array([one(i, j) for i, j in _pairs(count)])

    return Case(
        f"events, {n} particles", partial(_exact, D, unmatched=1.0), {"cdist and POT's core": loop},
        {"cdist and POT's core": 5.0}, len(_pairs(count)),
    )  # fmt: skip


def _labels(options: Options, count: int) -> Case | None:
    if options.data is None:
        print("no --data: nested labels are left out", flush=True)
        return None
    graphs = load_tu_graphs("ENZYMES", folder=options.data, download=False)
    D = asot.Distributions.from_graphs(graphs, features="wl", rounds=4)[:count]
    others: dict[str, Callable[[], Values]] = {}
    try:
        solve = importlib.import_module("wwl.wwl")._compute_wasserstein_distance
    except ImportError:
        print("wwl is missing (pip install wwl): no rival for nested labels", flush=True)
    else:
        nodes = [np.asarray(points) for points, _ in D]

        def loop() -> Values:
            with contextlib.redirect_stdout(io.StringIO()):
                matrix: Values = solve(nodes, categorical=True)
            return matrix[np.triu_indices(count, 1)]

        others["wwl"] = loop
    return Case("labels, ENZYMES", partial(_exact, D, metric="hamming"), others, {"wwl": 100.0}, len(_pairs(count)))


def _measured(case: Case, repeats: int) -> Race:
    case.ours()  # compile
    contestants = {OURS: case.ours, **case.others}

    def deviations(answers: dict[str, Any]) -> dict[str, float]:
        scale = float(np.abs(answers[OURS]).max())
        return {name: largest_difference(answers[name], answers[OURS], scale) for name in case.others}

    outcome = race(contestants, deviations, repeats=repeats, tolerance=TOLERANCE)
    print(f"{case.name}: {outcome.seconds}", flush=True)
    return outcome


def _rows(case: Case, outcome: Race) -> list[list[str]]:
    ours = outcome.seconds[OURS]
    return [
        [
            case.name,
            name,
            microseconds(outcome.seconds[name] / case.n_pairs),
            microseconds(ours / case.n_pairs),
            ratio(outcome.seconds[name] / ours, case.targets[name]),
        ]
        for name in case.others
    ]
