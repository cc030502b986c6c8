"""Nearest neighbors without the matrix: the memory of a top-10 search over 20,000 histograms.

All 200 million distances are solved, and the sink keeps ten per row. The peak is read in a fresh process, above what
it held after its imports, its input and a first small call.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import asot
from benchmarks.common import (
    DisagreementError,
    Options,
    Report,
    Table,
    below,
    in_fresh_process,
    largest_difference,
    require,
    with_peak_memory,
)
from benchmarks.made import Histograms, trial_histograms
from benchmarks.peers.peers import pot

NEEDS = {"pot"}

K = 30
N_NEIGHBORS = 10
N_JOBS = 2
CHECKED_ROWS = 20
LARGEST_PEAK = 500.0
"""MB above start."""

TOLERANCE = 1e-10
"""Of the largest cost, against POT."""


@dataclass(frozen=True)
class Search:
    """The neighbors found, and what finding them took."""

    indices: NDArray[np.int64]  # (N, 10)
    distances: NDArray[np.float64]  # (N, 10)
    peak_bytes: int
    seconds: float


def run(options: Options) -> Report:
    """Search in a fresh process, check here, and make the report."""
    n = 3_000 if options.quick else 20_000
    search: Search = in_fresh_process(_search, n)
    deviation = _check(trial_histograms(K, n), search)
    return Report(
        "memory",
        "Memory of a nearest-neighbor search",
        f"The {N_NEIGHBORS} nearest of each of N histograms on k = {K} anchors, all pairs solved exactly, {N_JOBS} "
        "threads.",
        [_table(n, search, deviation)],
        NOTES,
    )


NOTES = (
    f"asot: `emd_many(A, cost=C, sink=asot.sinks.TopK({N_NEIGHBORS}), n_jobs={N_JOBS})`.",
    "Peak: largest resident memory of a fresh process during the call, less what was resident before it: imports, "
    "input, and a call on 100 histograms that loads the compiled code.",
    f"Checked: the neighbors of {CHECKED_ROWS} random rows equal those of a full sort of all their distances (index "
    "by index), and the distances of those neighbors are POT's `emd2`; deviation: |difference| / max C.",
)


def _search(n: int) -> Search:
    h = trial_histograms(K, n)
    call = partial(asot.emd_many, cost=h.cost, n_jobs=N_JOBS)
    with threadpool_limits(1):
        call(h.masses[:100], sink=asot.sinks.TopK(N_NEIGHBORS))
        started = time.perf_counter()
        found, peak_bytes = with_peak_memory(partial(call, h.masses, sink=asot.sinks.TopK(N_NEIGHBORS)))
        seconds = time.perf_counter() - started
    return Search(found.indices, found.distances, peak_bytes, seconds)


def _check(h: Histograms, search: Search) -> float:
    """Compare with brute force; returns the largest deviation of a neighbor's distance from POT's, over max C."""
    n = len(h.masses)
    emd2 = pot().emd2
    worst = 0.0
    for row in np.random.default_rng(1).permutation(n)[:CHECKED_ROWS]:
        others = np.delete(np.arange(n), row)
        pairs = np.stack([np.full(n - 1, row), others], axis=1)
        values = asot.emd_many(h.masses, cost=h.cost, pairs=pairs, n_jobs=1).values
        order = np.lexsort((others, values))[:N_NEIGHBORS]
        if not np.array_equal(others[order], search.indices[row]):
            raise DisagreementError(f"row {row}: the search found {search.indices[row]}, a sort {others[order]}")
        theirs = [emd2(h.masses[row], h.masses[j], h.cost) for j in search.indices[row]]
        worst = max(worst, largest_difference(search.distances[row], theirs, h.cost.max()))
    require("distances of the neighbors", worst, TOLERANCE)
    return worst


def _table(n: int, search: Search, deviation: float) -> Table:
    n_pairs = n * (n - 1) // 2
    row = [
        f"{n:,}",
        f"{n_pairs / 1e6:,.1f} million",
        below(search.peak_bytes / 1e6, LARGEST_PEAK, "MB"),
        f"{8 * n_pairs / 1e6:,.0f} MB",
        f"{search.seconds:.1f} s",
        f"{n_pairs / search.seconds / 1e6:.2f} million",
        f"{deviation:.1e} ({CHECKED_ROWS} rows)",
    ]
    columns = ["N", "pairs", "peak above start", "all distances would take", "time", "pairs per second", "deviation"]
    return Table("Peak memory, and the target:", columns, [row])
