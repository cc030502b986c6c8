"""How much two workers of Dask gain over one thread, and what a block costs there by itself. Answers are compared."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from threadpoolctl import threadpool_limits

import asot
from asot.sinks import Store
from benchmarks.common import Options, Report, Table, below, largest_difference, ratio, require
from benchmarks.data import trial_histograms
from benchmarks.store import Timed, shown, timed

K = 30
N_JOBS = 2


def run(options: Options) -> Report:
    """Every measurement, in folders that are gone afterwards."""
    with tempfile.TemporaryDirectory() as name, threadpool_limits(1):
        tables = _on_dask(Path(name), *((1_500, 700) if options.quick else (10_000, 2_000)))
    return Report(
        "cluster",
        "Dask on one machine",
        f"All pairs of N histograms on k = {K} anchors, solved exactly.",
        [shown(table) for table in tables],
        NOTES,
    )


NOTES = (
    "`LocalCluster(n_workers=2, threads_per_worker=1)`, already started, against one thread of this process in "
    "memory. Scheduler and caller share the two cores with the workers. Overhead of a block: what the two workers had "
    "of time and did not solve in, (2 × seconds by Dask - seconds of one thread) / blocks; it holds the writing of the "
    "block.",
    "Processor: seconds of caller, scheduler and workers together. Everything ran once. The values are equal, bit for "
    "bit.",
)


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
        one = timed(lambda: call(n_jobs=1))
    before = used()
    dask = timed(lambda: call(sink=Store(path)))
    processor = used() - before
    require("values by Dask", largest_difference(dask.answer.values(), one.answer.values, 1.0), 0.0)
    return BesideOneThread(n, one, dask, processor)


def _used_by(client: Any) -> float:
    """Seconds of the processor that this process and all workers have had."""
    return sum(client.run(time.process_time).values()) + time.process_time()
