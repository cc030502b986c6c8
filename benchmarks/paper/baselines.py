"""`asot.baselines` against the loops that everybody writes with POT: exact, entropic, block-diagonal, sliced.

Exact distances of whole collections have targets in seconds on two cores, and a target against the loop. The other
baselines are there to be compared with, so they have to be fair: each is timed beside POT's function on a sample of the
same pairs, and the answers are compared while the clock is not running.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from asot_paper import baselines
from asot_paper.baselines.fresh_kernel import directions_of_pair
from asot_paper.datasets import load_mnist
from numpy.typing import NDArray

import asot
from benchmarks.common import (
    DisagreementError,
    Options,
    Report,
    Table,
    below,
    largest_difference,
    microseconds,
    race,
    ratio,
    require,
)
from benchmarks.data import tu_collection
from benchmarks.made import random_pairs
from benchmarks.peers.peers import pot

NEEDS = {"graphs", "images", "pot", "torch"}

OVER_LOOP = 25.0
MOST_SECONDS = {"MUTAG": 0.3, "NCI1": 240.0}
THREADS = 2
TOLERANCE = 1e-10
"""Of the largest distance among the answers, where both sides compute the same thing."""

OURS, ALONE, LOOP = "asot", "asot, one thread", "POT loop"
ITERATIONS = 50


def run(options: Options) -> Report:
    """Measure everything and make the report."""
    pot()  # first, so that it looks at NumPy only
    graphs = {name: _collection(options, name) for name in ("MUTAG", "NCI1")}
    digits = load_mnist("test", folder=options.data, download=False).distributions[: 40 if options.quick else 300]
    exact = [_exact(name, D, options) for name, D in graphs.items()]
    others = [
        measured
        for name, D in (*graphs.items(), ("MNIST", digits))
        for measured in (*_entropic(name, D, options), *_sliced(name, D, options))
    ]
    return Report(
        "baselines",
        "Baselines",
        "Graphs as uniform bags of node features: one-hot node labels and four rounds of x ← x + Σ_neighbors x, "
        "concatenated. MNIST: the points (row / 28, column / 28, ink / 256) of inked pixels, of one mass each. Best of "
        "interleaved repeats; all pairs of NCI1 ran once.",
        [_exact_table(exact), _table(others)],
        NOTES,
    )


NOTES = (
    f"OT-EMD: `ot_emd(D, n_jobs={THREADS})` for all pairs, preparation included. Times faster: "
    f"`ot_emd(D, pairs=..., n_jobs={THREADS})` and the loop `ot.emd2(a, b, ot.dist(x, y, metric='euclidean'))` on the "
    "same random sample of pairs; of our call on a sample, without the preparation that all pairs share; in brackets "
    "with one thread.",
    "Second table: one thread each, on a random sample of pairs; our preparation is left out, since it is paid once "
    "for all pairs.",
    f"eOT and BDS-eOT: {ITERATIONS} iterations from V = 1, ε = 0.1/√10 of the mean ground distance of a collection of "
    "graphs, ε = 0.1 for digits; the loop calls `ot.dist` and `ot.sinkhorn2`.",
    "SW: as many directions as dimensions; the loop calls `ot.sliced_wasserstein_distance` with p = 1. Shared "
    "directions: POT is given the same ones. Fresh directions: on digits POT is given those that our call drew; on "
    "graphs both draw their own, and the deviation is that of the means over the sample, in standard errors.",
    "Deviations are the largest |difference| over the largest compared distance, over all repeats.",
)


def _collection(options: Options, name: str) -> asot.Distributions:
    assert options.data is not None
    D = tu_collection(options.data, name)
    return D[:120] if options.quick else D


# ---------------------------------------------------------------------------------------------------------- exact


@dataclass(frozen=True)
class Exact:
    name: str
    n_pairs: int
    seconds: float  # all pairs
    per_pair: dict[str, float]  # on the sample
    deviation: float


def _exact(name: str, D: asot.Distributions, options: Options) -> Exact:
    """All pairs on two threads, then a race against the loop on a sample of them."""
    pairs = random_pairs(len(D), 300 if options.quick else 3000)
    everything = partial(baselines.ot_emd, D, n_jobs=THREADS, progress=False)
    baselines.ot_emd(D[:10], n_jobs=1, progress=False)  # compiled, or loaded from the cache
    seconds, answer = _best(everything, once=len(D) > 1000)
    matrix = answer.matrix()
    contestants: dict[str, Callable[[], Any]] = {
        OURS: partial(baselines.ot_emd, D, pairs=pairs, n_jobs=THREADS, progress=False),
        ALONE: partial(baselines.ot_emd, D, pairs=pairs, n_jobs=1, progress=False),
        LOOP: partial(baselines.pot_emd, D, pairs=pairs, progress=False),
    }
    fastest = dict.fromkeys(contestants, np.inf)

    def deviations(answers: dict[str, Any]) -> dict[str, float]:
        for who, answer in answers.items():
            fastest[who] = min(fastest[who], answer.info["seconds"])
        reference = answers[LOOP].values
        found = {who: largest_difference(answers[who].values, reference, reference.max()) for who in (OURS, ALONE)}
        whole = matrix[pairs[:, 0], pairs[:, 1]]
        return {**found, "all pairs": largest_difference(whole, reference, reference.max())}

    outcome = race(contestants, deviations, repeats=2 if options.quick else 5, tolerance=TOLERANCE)
    per_pair = {who: best / len(pairs) for who, best in fastest.items()}
    return Exact(name, len(answer), seconds, per_pair, max(outcome.deviations.values()))


def _best(call: Callable[[], Any], once: bool) -> tuple[float, Any]:
    best = np.inf
    for _ in range(1 if once else 5):
        started = time.perf_counter()
        answer = call()
        best = min(best, time.perf_counter() - started)
    return best, answer


def _exact_table(measured: list[Exact]) -> Table:
    rows = []
    for m in measured:
        ours, alone, loop = (m.per_pair[who] for who in (OURS, ALONE, LOOP))
        rows.append(
            [
                m.name,
                f"{m.n_pairs:,}",
                below(m.seconds, MOST_SECONDS[m.name], "s"),
                f"{microseconds(ours)} ({microseconds(alone)})",
                microseconds(loop),
                f"{ratio(loop / ours, OVER_LOOP)} ({ratio(loop / alone)})",
                f"{m.deviation:.1e}",
            ]
        )
    columns = [
        "collection", "pairs", f"all of them, {THREADS} threads", "asot, µs/pair", "POT loop, µs/pair", "times faster",
        "deviation",
    ]  # fmt: skip
    return Table(f"OT-EMD, and the targets ({THREADS} threads; in brackets one):", columns, rows)


# ---------------------------------------------------------------------------------------------------------- others


@dataclass(frozen=True)
class Other:
    collection: str
    method: str
    n_sampled: int
    ours: float  # seconds per pair
    theirs: float
    deviation: str


def _ground_reg(D: asot.Distributions) -> float:
    """0.1/√10 of the mean distance of two points of the collection."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(len(D.points), size=(2, 20_000))
    return float(0.1 / np.sqrt(10) * np.linalg.norm(D.points[first] - D.points[second], axis=1).mean())


def _entropic(name: str, D: asot.Distributions, options: Options) -> list[Other]:
    pairs = random_pairs(len(D), 100 if options.quick else 1000)
    how = {"reg": 0.1 if name == "MNIST" else _ground_reg(D), "max_iter": ITERATIONS, "pairs": pairs, "progress": False}
    ours = {
        "eOT": partial(baselines.entropic, D, **how, n_jobs=1),
        "BDS-eOT": partial(baselines.block_diagonal, D, **how, n_jobs=1),
    }
    return _race(name, ours, partial(baselines.pot_sinkhorn, D, **how), len(pairs), options, tolerance=1e-6)


def _sliced(name: str, D: asot.Distributions, options: Options) -> list[Other]:
    pairs = random_pairs(len(D), 100 if options.quick else 1000)
    how: dict[str, Any] = {"pairs": pairs, "random_state": 0, "progress": False}
    shared = _race(
        name,
        {"SW, shared directions": partial(baselines.sliced, D, **how, n_jobs=1)},
        partial(baselines.pot_sliced, D, **how, shared=True),
        len(pairs),
        options,
        tolerance=TOLERANCE,
    )
    fresh = partial(baselines.sliced, D, **how, shared=False, n_jobs=1)
    if name == "MNIST":
        _compare_fresh(D, pairs, fresh().values)
    means = _race(
        name,
        {"SW, fresh directions": fresh},
        partial(baselines.pot_sliced, D, **how),
        len(pairs),
        options,
        tolerance=5.0,
        compare=_standard_errors,
    )
    return shared + means


def _standard_errors(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> float:
    """How far the means of two noisy measurements are from each other."""
    gap = ours - theirs
    return float(abs(gap.mean()) / (gap.std() / np.sqrt(len(gap))))


def _compare_fresh(D: asot.Distributions, pairs: NDArray[np.int64], values: NDArray[np.float64]) -> None:
    """POT along the directions that our pairs drew."""
    ot, seed = pot(), int(np.random.RandomState(0).randint(2**31))
    reference = []
    for i, j in np.sort(pairs, axis=1):
        (x, a), (y, b) = D[int(i)], D[int(j)]
        own = directions_of_pair(seed, i, j, D.dim, D.dim, D.dim)
        reference.append(ot.sliced_wasserstein_distance(x, y, a, b, p=1, projections=own))
    require("fresh directions", largest_difference(values, reference, max(reference)), TOLERANCE)


def _race(
    name: str,
    ours: dict[str, Callable[[], Any]],
    loop: Callable[[], Any],
    n_pairs: int,
    options: Options,
    *,
    tolerance: float,
    compare: Callable[[Any, Any], float] | None = None,
) -> list[Other]:
    fastest = dict.fromkeys((*ours, LOOP), np.inf)

    def deviations(answers: dict[str, Any]) -> dict[str, float]:
        for who, answer in answers.items():
            if not np.isfinite(answer.values).all():
                raise DisagreementError(f"{who} on {name}: an answer is not a number")
            fastest[who] = min(fastest[who], answer.info["seconds"])
        reference = answers[LOOP].values
        by = compare or partial(largest_difference, scale=reference.max())
        return {who: by(answers[who].values, reference) for who in ours}

    outcome = race({**ours, LOOP: loop}, deviations, repeats=2 if options.quick else 3, tolerance=tolerance)
    unit = "{:.1e}" if compare is None else "{:.1f} standard errors"
    return [
        Other(name, who, n_pairs, fastest[who] / n_pairs, fastest[LOOP] / n_pairs, unit.format(outcome.deviations[who]))
        for who in ours
    ]


def _table(measured: list[Other]) -> Table:
    rows = [
        [
            m.collection,
            m.method,
            f"{m.n_sampled:,}",
            microseconds(m.ours),
            microseconds(m.theirs),
            ratio(m.theirs / m.ours),
            m.deviation,
        ]
        for m in measured
    ]
    columns = ["collection", "baseline", "pairs", "asot, µs/pair", "POT loop, µs/pair", "times faster", "deviation"]
    return Table("Entropic and sliced baselines:", columns, rows)
