"""What a store and a resumed run cost, and how much memory a part of a very large run takes.

Values in memory and in a store come from the same call, once each, since they take minutes. Answers are compared.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import asot
from asot.sinks import Store, TopK
from benchmarks.common import (
    Options,
    Report,
    Table,
    below,
    in_fresh_process,
    largest_difference,
    ratio,
    require,
    with_peak_memory,
)
from benchmarks.made import trial_histograms

NEEDS = {"zarr"}

K = 30
N_JOBS = 2


def run(options: Options) -> Report:
    """Every measurement, in folders that are gone afterwards."""
    with tempfile.TemporaryDirectory() as name, threadpool_limits(1):
        folder = Path(name)
        tables = [
            shown(_neighbors(folder, 600 if options.quick else 6_000)),
            shown(_memory(folder, *((6_000, 20) if options.quick else (100_000, 200)))),
            shown(_on_disk(folder, [(K, 1_000)] if options.quick else [(K, 20_000)])),
        ]
    return Report(
        "store",
        "Stores, and collections of a hundred thousand",
        f"All pairs of N histograms on k = {K} anchors, solved exactly, unless something else is said.",
        tables[-1:] + tables[:-1],
        NOTES,
    )


NOTES = (
    f"In memory: `emd_many(A, cost=C, n_jobs={N_JOBS})`. In a store: the same with `sink=Store(path)`, float64, on a "
    "local disk. Resumed: the same call again, with nothing left to do. The values are equal, bit for bit.",
    "Processor: seconds of all threads and processes together, which other work on the machine does not change much; "
    "the target for what a store costs is checked on them. Everything ran once.",
    "Neighbors: `kneighbors(D, 10)` of clouds of 8 to 24 points in 3 dimensions, 2 threads. A store looks at each pair "
    "from both of its ends. The answers are equal, bit for bit.",
    "Memory: largest resident memory of a fresh process during the call, less what was resident before it: imports, "
    "input, and a call on 100 histograms. All parts are alike; the time of the whole is extrapolated from this one.",
)


def shown(table: Table) -> Table:
    """The table, printed as soon as it is there: all of them take minutes."""
    print(table.markdown(), flush=True)
    return table


@dataclass(frozen=True)
class Timed:
    """An answer, the seconds it took, and those of the processor in this process."""

    answer: Any
    seconds: float
    processor: float


def timed(function: Callable[[], Any]) -> Timed:
    started, used = time.perf_counter(), time.process_time()
    answer = function()
    return Timed(answer, time.perf_counter() - started, time.process_time() - used)


def _on_disk(folder: Path, sizes: Sequence[tuple[int, int]]) -> Table:
    rows = []
    for k, n in sizes:
        h = trial_histograms(k, n)
        call = partial(asot.emd_many, cost=h.cost, n_jobs=N_JOBS)
        path = folder / f"run{k}.zarr"
        call(h.masses[:100], sink=Store(folder / f"first{k}.zarr"))  # loads compiled code and zarr
        memory = timed(lambda call=call, h=h: call(h.masses))  # type: ignore[misc]
        disk, again = (timed(lambda call=call, h=h, p=path: call(h.masses, sink=Store(p))) for _ in range(2))  # type: ignore[misc]
        assert again.answer.is_complete
        values = disk.answer.values()
        require("stored values", largest_difference(values, memory.answer.values, 1.0), 0.0)
        more = 100 * (disk.processor / memory.processor - 1)
        rows.append(
            [
                f"{k}",
                f"{n:,}",
                f"{len(values) / 1e6:,.1f} million",
                f"{memory.seconds:.1f} s, {memory.processor:.1f} s",
                f"{disk.seconds:.1f} s, {disk.processor:.1f} s",
                f"{more:+.1f} % ({'met' if more <= 10 else 'missed'}: ≤ 10 %)",
                below(again.seconds, 2.0, "s"),
                f"{disk.answer.n_blocks}",
            ]
        )
    columns = ["k", "N", "pairs", "in memory, processor", "in a store, processor", "a store costs, processor"]
    return Table(f"A store on disk, {N_JOBS} threads:", [*columns, "resumed, complete", "blocks"], rows)


def _neighbors(folder: Path, n: int) -> Table:
    rng = np.random.default_rng(0)
    sizes = rng.integers(8, 25, n)
    D = asot.Distributions.from_list([rng.normal(rng.normal(scale=2.0, size=3), 1.0, size=(s, 3)) for s in sizes])
    call = partial(asot.kneighbors, D, 10, n_jobs=N_JOBS)
    asot.kneighbors(D[:200], 10, n_jobs=N_JOBS)
    memory = timed(call)
    disk, again = (timed(lambda: call(sink=Store(folder / "near.zarr"))) for _ in range(2))
    found, kept = disk.answer.top_k(), memory.answer
    require("indices", float(np.abs(found.indices - kept.indices).max()), 0.0)
    require("distances", largest_difference(found.distances, kept.distances, 1.0), 0.0)
    row = [
        f"{n:,}",
        f"{memory.seconds:.1f} s, {memory.processor:.1f} s",
        f"{disk.seconds:.1f} s, {disk.processor:.1f} s",
        ratio(disk.processor / memory.processor),
        f"{again.seconds:.2f} s",
        f"{disk.answer.n_blocks}",
    ]
    columns = ["N", "in memory, processor", "in a store, processor", "a store costs, processor"]
    return Table("The 10 nearest under the exact W₁, certain:", [*columns, "resumed, complete", "strips"], [row])


def _memory(folder: Path, n: int, parts: int) -> Table:
    peak, seconds, done, blocks = in_fresh_process(_part, str(folder / "large.zarr"), n, parts)
    pairs = n * (n - 1) // 2
    share = done / blocks
    row = [
        f"{n:,}",
        f"{pairs * share / 1e6:,.1f} of {pairs / 1e6:,.0f} million",
        f"{done} of {blocks:,}",
        below(peak / 1e6, 1000.0, "MB"),
        f"{seconds:.1f} s",
        f"{seconds / share / 3600:.1f} h",
    ]
    columns = ["N", "pairs solved", "blocks", "peak above inputs", "time", "the whole would take"]
    return Table(f"The 10 nearest of each into a store, a part of the blocks, {N_JOBS} threads:", columns, [row])


def _part(path: str, n: int, parts: int) -> tuple[int, float, int, int]:
    h = trial_histograms(K, n)
    call = partial(asot.emd_many, cost=h.cost, n_jobs=min(N_JOBS, os.cpu_count() or 1))
    with threadpool_limits(1):
        call(h.masses[:100], sink=Store(path + ".first", TopK(10)))
        started = time.perf_counter()
        stored, peak = with_peak_memory(partial(call, h.masses, sink=Store(path, TopK(10), part=(1, parts))))
    return peak, time.perf_counter() - started, stored.n_done, stored.n_blocks
