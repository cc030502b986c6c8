"""What a store, a cluster and a resumed run cost, and how much memory a part of a very large run takes.

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
from unittest import mock

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
from benchmarks.data import trial_histograms

K = 30
N_JOBS = 2


def run(options: Options) -> Report:
    """Every measurement, in folders that are gone afterwards."""
    with tempfile.TemporaryDirectory() as name, threadpool_limits(1):
        folder = Path(name)
        tables = [
            *map(_shown, _on_dask(folder, *((1_500, 700) if options.quick else (8_000, 2_000)))),
            _shown(_neighbors(folder, 600 if options.quick else 6_000)),
            _shown(_memory(folder, *((6_000, 20) if options.quick else (100_000, 200)))),
            _shown(_on_disk(folder, [(K, 1_000)] if options.quick else [(K, 20_000)])),
        ]
    return Report(
        "store",
        "Stores, Dask, and collections of a hundred thousand",
        f"All pairs of N histograms on k = {K} anchors, solved exactly, unless something else is said.",
        tables[-1:] + tables[:-1],
        NOTES,
    )


NOTES = (
    f"In memory: `emd_many(A, cost=C, n_jobs={N_JOBS})`. In a store: the same with `sink=Store(path)`, float64, on a "
    "local disk. Resumed: the same call again, with nothing left to do. The values are equal, bit for bit.",
    "Processor: seconds of all threads and processes together, which other work on the machine does not change much; "
    "the targets for what a store and a tile cost are checked on them. Everything ran once.",
    "Dask: `LocalCluster(n_workers=2, threads_per_worker=1)`, already started, against one thread of this process in "
    "memory. Scheduler and caller share the two cores with the workers. Overhead of a block: what the two workers had "
    "of time and did not solve in, (2 × seconds by Dask - seconds of one thread) / blocks; it holds the writing of the "
    "block.",
    "Neighbors: `kneighbors(D, 10)` of clouds of 8 to 24 points in 3 dimensions, 2 threads. A store looks at each pair "
    "from both of its ends. The answers are equal, bit for bit.",
    "Memory: largest resident memory of a fresh process during the call, less what was resident before it: imports, "
    "input, and a call on 100 histograms. All parts are alike; the time of the whole is extrapolated from this one.",
)


def _shown(table: Table) -> Table:
    """The table, printed as soon as it is there: all of them take minutes."""
    print(table.markdown(), flush=True)
    return table


@dataclass(frozen=True)
class Timed:
    """An answer, the seconds it took, and those of the processor in this process."""

    answer: Any
    seconds: float
    processor: float


def _timed(function: Callable[[], Any]) -> Timed:
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
        memory = _timed(lambda call=call, h=h: call(h.masses))  # type: ignore[misc]
        disk, again = (_timed(lambda call=call, h=h, p=path: call(h.masses, sink=Store(p))) for _ in range(2))  # type: ignore[misc]
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


def _on_dask(folder: Path, n: int, n_of_many: int) -> tuple[Table, Table]:
    """All pairs of ``n`` histograms; and of ``n_of_many`` in very small blocks, for what a block costs by itself."""
    import joblib
    from distributed import Client, LocalCluster

    workers = {"n_workers": N_JOBS, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        LocalCluster(host="127.0.0.1", **workers) as cluster,
        Client(cluster) as client,
        joblib.parallel_config(backend="dask"),
    ):
        used = partial(_used_by, client)
        asot.emd_many(trial_histograms(K, 3_000).masses, cost=trial_histograms(K, 1).cost, sink=Store(folder / "warm"))
        before = used()
        time.sleep(10.0)
        idle = 100 * (used() - before) / (10.0 * N_JOBS)
        large = _beside_one_thread(folder / "dask.zarr", n, used)
        with mock.patch("asot.run.store.BLOCK_SECONDS", 0.02):
            small = _beside_one_thread(folder / "blocks.zarr", n_of_many, used)
    speed_up = ratio(large.one.seconds / large.dask.seconds, 1.8)
    title = f"Dask with two local workers of one thread, which take {idle:.1f} % of both cores when they have no work:"
    columns = ["N", "pairs", "one thread, processor", "Dask into a store, processor", "blocks"]
    lost = 1e3 * (N_JOBS * small.dask.seconds - small.one.seconds) / small.dask.answer.n_blocks
    return (
        Table(title, [*columns, "speed-up of Dask"], [[*large.cells(), speed_up]]),
        Table(
            "The same in many small blocks:",
            [*columns, "overhead of a block"],
            [[*small.cells(), below(max(0.0, lost), 20.0, "ms")]],
        ),
    )


@dataclass(frozen=True)
class BesideOneThread:
    """All pairs of ``n`` histograms by one thread in memory and by Dask into a store, with everyone's processor."""

    n: int
    one: Timed
    dask: Timed
    processor: float

    def cells(self) -> list[str]:
        return [
            f"{self.n:,}",
            f"{len(self.one.answer) / 1e6:,.1f} million",
            f"{self.one.seconds:.1f} s, {self.one.processor:.1f} s",
            f"{self.dask.seconds:.1f} s, {self.processor:.1f} s",
            f"{self.dask.answer.n_blocks}",
        ]


def _beside_one_thread(path: Path, n: int, used: Callable[[], float]) -> BesideOneThread:
    import joblib

    h = trial_histograms(K, n)
    call = partial(asot.emd_many, h.masses, cost=h.cost)
    with joblib.parallel_config(backend="threading"):
        asot.emd_many(h.masses[:100], cost=h.cost, n_jobs=1)  # loads compiled code
        one = _timed(lambda: call(n_jobs=1))
    before = used()
    dask = _timed(lambda: call(sink=Store(path)))
    processor = used() - before
    require("values by Dask", largest_difference(dask.answer.values(), one.answer.values, 1.0), 0.0)
    return BesideOneThread(n, one, dask, processor)


def _used_by(client: Any) -> float:
    """Seconds of the processor that this process and all workers have had."""
    return sum(client.run(time.process_time).values()) + time.process_time()


def _neighbors(folder: Path, n: int) -> Table:
    rng = np.random.default_rng(0)
    sizes = rng.integers(8, 25, n)
    D = asot.Distributions.from_list([rng.normal(rng.normal(scale=2.0, size=3), 1.0, size=(s, 3)) for s in sizes])
    call = partial(asot.kneighbors, D, 10, n_jobs=N_JOBS)
    asot.kneighbors(D[:200], 10, n_jobs=N_JOBS)
    memory = _timed(call)
    disk, again = (_timed(lambda: call(sink=Store(folder / "near.zarr"))) for _ in range(2))
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
