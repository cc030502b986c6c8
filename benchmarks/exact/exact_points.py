"""`asot.pairwise_exact`: the original W_1 between graphs as bags of node features (METHOD §8, last point).

The other side is the loop that everybody writes: a distance matrix and a transport problem for every pair; and its
strongest form, the compiled functions below it without any checks. Our call
first finds the distinct points of the whole collection; this preparation is part of the time where all pairs are
solved, and stands apart where only a sample of rows is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

import asot
from benchmarks.common import (
    Options,
    Race,
    Report,
    Table,
    in_fresh_process,
    largest_difference,
    microseconds,
    race,
    ratio,
    with_peak_memory,
)
from benchmarks.data import tu_collection
from benchmarks.exact.edges_rivals import core_values
from benchmarks.peers.peers import pot

NEEDS = {"graphs", "pot"}

TOLERANCE = 1e-10
"""Of the largest distance among the answers."""

OURS, LOOP, CORE = "asot", "POT loop", "cdist + core"


@dataclass(frozen=True)
class Case:
    """A collection: all pairs of it, or those of some random rows with every column."""

    name: str
    rows: int | None = None
    over_loop: float | None = None  # how many times faster than the loop it should be

    def pairs(self, n: int) -> NDArray[np.int64] | None:
        if self.rows is None:
            return None
        chosen = np.sort(np.random.default_rng(0).permutation(n)[: self.rows])
        grid = np.stack(np.meshgrid(chosen, np.arange(n), indexing="ij"), axis=-1).reshape(-1, 2)
        return grid[grid[:, 0] != grid[:, 1]]


CASES = (
    Case("MUTAG"),
    Case("COX2", over_loop=40.0),
    Case("ENZYMES", over_loop=30.0),
    Case("NCI1", rows=20, over_loop=40.0),
)
QUICK_CASES = (Case("MUTAG"), Case("COX2", rows=10), Case("NCI1", rows=1))


def run(options: Options) -> Report:
    """Measure every collection and make the report."""
    assert options.data is not None
    cases = QUICK_CASES if options.quick else CASES
    measured = [_measure(case, options.data, options.quick) for case in cases]
    return Report(
        "exact_points",
        "The original W₁ between graphs, exactly",
        "Graphs as uniform bags of node features: one-hot node labels and four rounds of x ← x + Σ_neighbors x, "
        "concatenated. Euclidean metric. One thread each, best of interleaved repeats.",
        [_times(measured), _sizes(measured)],
        NOTES,
    )


NOTES = (
    "asot: `pairwise_exact(D)`; for a sample of rows, `pairwise_exact(D, pairs=...)`.",
    "POT loop: `ot.emd2(a, b, ot.dist(x, y, metric='euclidean'))` over a random sample of the same pairs.",
    "cdist + core: SciPy's `cdist` and `ot.lp.emd_wrap.emd_c`, POT's compiled solver, over the same sample.",
    "Preparation: finding the distinct points of the whole collection and packing them, the part of our call before "
    "the first pair is solved. All pairs: it is counted in the time per pair and in the ratio. A sample of rows: it is "
    "not, because it is paid once for all pairs; the last column of the second table says what it adds to each of "
    "them.",
    "Memory: by how much a fresh process grew at most during the call, on one thread, result included; beside it what "
    "a dense table of N × V masses would take.",
    "Deviations are the largest |difference| over the largest compared distance, over all repeats.",
)


@dataclass(frozen=True)
class Measured:
    case: Case
    collection: asot.Distributions
    n_pairs: int
    n_sampled: int
    outcome: Race
    preparation: float
    distinct: int
    peak_bytes: int

    @property
    def ours(self) -> float:
        """Seconds per pair; with preparation where all pairs are solved."""
        seconds = self.outcome.seconds[OURS]
        return (seconds if self.case.rows is None else seconds - self.preparation) / self.n_pairs

    def theirs(self, who: str) -> float:
        """Seconds per pair of a rival."""
        return self.outcome.seconds[who] / self.n_sampled


def _measure(case: Case, data: Path, quick: bool) -> Measured:
    collection = tu_collection(data, case.name)
    pairs = case.pairs(len(collection))
    solver = _Ours(collection, pairs)
    solver()  # compile
    solver.preparation = np.inf
    n_pairs = len(solver.pairs)
    sample = np.random.default_rng(1).permutation(n_pairs)[: 100 if quick else 3000]
    contestants = {OURS: solver, **_rivals(collection, solver.pairs[sample])}
    outcome = race(contestants, partial(_deviations, sample), repeats=2 if quick else 7, tolerance=TOLERANCE)
    peak_bytes = in_fresh_process(_peak_bytes, case, data)
    print(f"{case.name}: {microseconds(outcome.seconds[OURS] / n_pairs)} µs per pair", flush=True)
    return Measured(case, collection, n_pairs, len(sample), outcome, solver.preparation, solver.distinct, peak_bytes)


class _Ours:
    """The call, remembering its shortest preparation."""

    def __init__(self, collection: asot.Distributions, pairs: NDArray[np.int64] | None) -> None:
        self._collection, self._listed = collection, pairs
        self.pairs = np.stack(np.triu_indices(len(collection), 1), axis=1) if pairs is None else pairs
        self.preparation = np.inf
        self.distinct = 0

    def __call__(self) -> NDArray[np.float64]:
        started = time.perf_counter()
        result = asot.pairwise_exact(self._collection, pairs=self._listed, n_jobs=1, progress=False)
        seconds = time.perf_counter() - started
        self.preparation = min(self.preparation, seconds - result.info["seconds"])
        self.distinct = result.info["distinct_points"]
        return result.values


def _rivals(collection: asot.Distributions, pairs: NDArray[np.int64]) -> dict[str, Callable[[], NDArray[np.float64]]]:
    ot = pot()

    def by(solve: Callable[..., float]) -> NDArray[np.float64]:
        return np.array([solve(*collection[int(i)], *collection[int(j)]) for i, j in pairs])

    return {
        LOOP: lambda: by(lambda x, a, y, b: ot.emd2(a, b, ot.dist(x, y, metric="euclidean"))),
        CORE: lambda: by(lambda x, a, y, b: core_values(a, b, cdist(x, y))),
    }


def _deviations(sample: NDArray[np.int64], answers: dict[str, Any]) -> dict[str, float]:
    ours = answers[OURS][sample]
    return {who: largest_difference(ours, answers[who], answers[who].max()) for who in (LOOP, CORE)}


def _peak_bytes(case: Case, data: Path) -> int:
    """Growth of this (fresh) process during the call; a first small call compiles everything."""
    collection = tu_collection(data, case.name)
    pairs = case.pairs(len(collection))
    with threadpool_limits(1):
        asot.pairwise_exact(collection[:10], n_jobs=1, progress=False)
        call = partial(asot.pairwise_exact, collection, pairs=pairs, n_jobs=1, progress=False)
        return with_peak_memory(call)[1]


# ---------------------------------------------------------------------------------------------------------- tables


def _times(measured: list[Measured]) -> Table:
    rows = [
        [
            m.case.name,
            f"{m.n_pairs:,}" + (" (all)" if m.case.rows is None else f" ({m.case.rows} rows)"),
            microseconds(m.ours),
            *(microseconds(m.theirs(who)) for who in (LOOP, CORE)),
            ratio(m.theirs(LOOP) / m.ours, m.case.over_loop),
            ratio(m.theirs(CORE) / m.ours),
            f"{max(m.outcome.deviations.values()):.1e} ({m.n_sampled:,} pairs)",
        ]
        for m in measured
    ]
    columns = ["collection", "pairs", "asot, µs/pair", f"{LOOP}, µs/pair", f"{CORE}, µs/pair"]
    columns += [f"times faster than {LOOP}", f"than {CORE}", "deviation"]
    return Table("Time per pair, and the target:", columns, rows)


def _sizes(measured: list[Measured]) -> Table:
    rows = []
    for m in measured:
        n = len(m.collection)
        rows.append(
            [
                m.case.name,
                f"{n:,}",
                f"{m.collection.sizes.mean():.1f}",
                str(m.collection.dim),
                f"{m.distinct:,}",
                f"{m.peak_bytes / 1e6:.0f} MB",
                f"{8 * n * m.distinct / 1e6:,.0f} MB",
                f"{m.preparation * 1e3:.1f} ms",
                f"{microseconds(m.preparation / (n * (n - 1) // 2))} µs",
            ]
        )
    columns = [
        "collection", "N", "mean size", "dimensions", "distinct points V", "peak memory", "a dense N × V",
        "preparation", "preparation per pair of all",
    ]  # fmt: skip
    return Table("Sizes, memory and preparation:", columns, rows)
