"""How much two workers of Dask or Ray gain over one thread, and what a block costs by itself. Answers are compared."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import joblib
from threadpoolctl import threadpool_limits

import asot
from asot.sinks import Store
from benchmarks.common import Options, Report, Table, below, largest_difference, ratio, require
from benchmarks.made import trial_histograms
from benchmarks.stores.store import Timed, shown, timed

NEEDS = {"distributed", "zarr"}

K = 30
N_JOBS = 2


def run(options: Options) -> Report:
    """Every measurement, in folders that are gone afterwards."""
    sizes = (1_500, 700) if options.quick else (10_000, 2_000)
    with tempfile.TemporaryDirectory() as name, threadpool_limits(1):
        alone = [_one_thread(n) for n in sizes]
        with _dask() as idle:
            found = {"Dask": _both(Path(name) / "dask", alone)}
        if importlib.util.find_spec("ray") is not None:
            with _ray():
                found["Ray"] = _both(Path(name) / "ray", alone)
    columns = ["engine", "N", "pairs", "one thread", "engine into a store", "blocks"]
    speed = [
        [*_cells(who, a, r), ratio(a.seconds / r.seconds, 1.8)] for who, (r, _) in found.items() for a in alone[:1]
    ]
    lost = [[*_cells(who, a, r), _overhead(a, r)] for who, (_, r) in found.items() for a in alone[1:]]
    tables = [
        Table("Two workers of one thread each:", [*columns, "speed-up"], speed),
        Table("The same in many small blocks:", [*columns, "overhead of a block"], lost),
    ]
    return Report(
        "cluster",
        "Dask and Ray on one machine",
        f"All pairs of N histograms on k = {K} anchors, solved exactly.",
        [shown(table) for table in tables],
        (*NOTES, f"With no work at all, Dask's scheduler and workers took {idle:.1f} % of the time of two cores."),
    )


NOTES = (
    "The engine is already started, and has solved something else, when the clock starts. Dask: "
    "`LocalCluster(n_workers=2, threads_per_worker=1)`; Ray, where it is installed: `ray.init(num_cpus=2)`. Scheduler "
    "and caller share the two cores with the workers. One thread works in memory in this process.",
    "Overhead of a block: what the two workers had of time and did not solve in, (2 × seconds by the engine - seconds "
    "of one thread) / blocks; it holds the writing of the block.",
    "Everything ran once. The values are equal, bit for bit.",
)


def _one_thread(n: int) -> Timed:
    h = trial_histograms(K, n)
    asot.emd_many(h.masses[:100], cost=h.cost, n_jobs=1)  # loads compiled code
    return timed(lambda: asot.emd_many(h.masses, cost=h.cost, n_jobs=1))


def _both(folder: Path, alone: Sequence[Timed]) -> tuple[Timed, Timed]:
    """All pairs on the engine in blocks of the usual size, and fewer of them in very small ones."""
    folder.mkdir()
    h = trial_histograms(K, 3_000)
    asot.emd_many(h.masses, cost=h.cost, sink=Store(folder / "warm.zarr"))  # every worker loads its compiled code
    usual = _into_store(folder / "usual.zarr", alone[0])
    with mock.patch("asot.store.sink.BLOCK_SECONDS", 0.02):
        return usual, _into_store(folder / "small.zarr", alone[1])


def _into_store(path: Path, alone: Timed) -> Timed:
    h = trial_histograms(K, alone.answer.shape[0])
    found = timed(lambda: asot.emd_many(h.masses, cost=h.cost, sink=Store(path)))
    require("values", largest_difference(found.answer.values(), alone.answer.values, 1.0), 0.0)
    return found


def _cells(engine: str, alone: Timed, found: Timed) -> list[str]:
    pairs = f"{len(alone.answer) / 1e6:,.1f} million"
    seconds = f"{alone.seconds:.1f} s", f"{found.seconds:.1f} s"
    return [engine, f"{alone.answer.shape[0]:,}", pairs, *seconds, f"{found.answer.n_blocks}"]


def _overhead(alone: Timed, found: Timed) -> str:
    lost = N_JOBS * found.seconds - alone.seconds
    return below(max(0.0, 1e3 * lost / found.answer.n_blocks), 20.0, "ms")


@contextlib.contextmanager
def _dask() -> Iterator[float]:
    """Two workers; gives the share of two cores, in percent, that they and the scheduler take when idle."""
    from distributed import Client, LocalCluster

    workers = {"n_workers": N_JOBS, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(host="127.0.0.1", **workers) as cluster, Client(cluster) as client:
        used = [0.0, 0.0]
        for which in range(2):
            used[which] = sum(client.run(time.process_time).values()) + time.process_time()
            time.sleep(10.0 * (1 - which))
        with joblib.parallel_config(backend="dask"):
            yield 100 * (used[1] - used[0]) / (10.0 * N_JOBS)


@contextlib.contextmanager
def _ray() -> Iterator[None]:
    ray, register = importlib.import_module("ray"), importlib.import_module("ray.util.joblib")
    register.register_ray()
    ray.init(num_cpus=N_JOBS, include_dashboard=False, log_to_driver=False)
    try:
        with joblib.parallel_config(backend="ray", n_jobs=N_JOBS):
            yield
    finally:
        ray.shutdown()
