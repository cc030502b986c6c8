"""`asot.Index`: how long opening, adding and asking take, beside brute force and `kneighbors` on equal answers.

Molecules of ZINC where the data folder has them, and clouds of points elsewhere. Answers are compared with those of
brute force for a few queries.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import asot
from benchmarks.common import Options, Report, Table, below, require

NEEDS: set[str] = set()

BATCH, NEIGHBORS = 1000, 10


def run(options: Options) -> Report:
    """Build an index on disk in batches, open it, and ask for single queries."""
    n_members, n_queries = (2000, 10) if options.quick else (249_356, 100)
    with threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
        name, members, queries = collection(options.data, n_members, n_queries)
        path = Path(folder) / "index"
        asot.Index().save(path)
        rows: list[list[Any]] = [[f"add, per member in batches of {BATCH:,}", *_added(path, members), ""]]
        started = time.perf_counter()
        index = asot.Index.open(path)
        rows.append(["open", below(1e3 * (time.perf_counter() - started), 1000.0, "ms"), "", ""])
        rows += [_asked(index, queries, None, 50.0), _asked(index, queries, 0.98, 15.0)]
        rows.append(_compared(index, members, queries[:5]))
        with multiprocessing.get_context("spawn").Pool(1) as fresh:
            megabytes = fresh.apply(_resident, (path, queries))
        rows.append(["memory", below(megabytes, 300.0, "MB"), "", "resident in a fresh process, after all queries"])
    return Report(
        "index",
        "An index of distributions",
        __doc__ or "",
        [Table(f"{n_members:,} {name}, one thread:", ["what", "elapsed", "processor", "notes"], rows)],
        (f"Queries are asked one at a time; {NEIGHBORS} nearest members of each. Times of queries are medians.",),
    )


def collection(data: Path | None, n: int, m: int) -> tuple[str, asot.Distributions, asot.Distributions]:
    """n members and m queries, and what they are."""
    if data is not None and (data / "zinc").is_dir():
        from asot_paper.datasets import load_zinc

        drawn = np.random.default_rng(0).permutation(249_456)[: n + m]
        D = load_zinc("all", atoms="elements", graphs=drawn, folder=data, download=False)[0]
        return "molecules of ZINC", D[:n], D[n:]
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_list([rng.normal(rng.normal(0, 2, 8), 1.0, size=(20, 8)) for _ in range(n + m)])
    return "clouds of 20 points in 8 dimensions", D[:n], D[n:]


def _added(path: Path, members: asot.Distributions) -> list[str]:
    started, worked = time.perf_counter(), time.process_time()
    with asot.Index.open(path, mode="r+") as index:
        for start in range(0, len(members), BATCH):
            index.add(members[start : start + BATCH])
    each = 1e3 * (time.perf_counter() - started) / len(members)
    return [below(each, 1.0, "ms"), f"{1e3 * (time.process_time() - worked) / len(members):.2f} ms"]


def _asked(index: asot.Index, queries: asot.Distributions, recall: float | None, target: float) -> list[Any]:
    index.query(queries[:1], NEIGHBORS, recall=recall)  # a rehearsal is not a query
    elapsed, worked, solves = [], [], []
    for i in range(len(queries)):
        began, busy = time.perf_counter(), time.process_time()
        solves.append(index.query(queries[i : i + 1], NEIGHBORS, recall=recall).n_exact or 0)
        elapsed.append(1e3 * (time.perf_counter() - began))
        worked.append(1e3 * (time.process_time() - busy))
    word = "certain" if recall is None else f"recall {recall}"
    p99 = float(np.quantile(elapsed, 0.99))
    return [
        f"{NEIGHBORS} nearest, {word}", below(float(np.median(elapsed)), target, "ms"), f"{np.median(worked):.1f} ms",
        f"{p99:.1f} ms elapsed at the 99th percentile, {np.mean(solves):.0f} solves",
    ]  # fmt: skip


def _compared(index: asot.Index, members: asot.Distributions, queries: asot.Distributions) -> list[Any]:
    began, busy = time.perf_counter(), time.process_time()
    brute = asot.pairwise_exact(queries, members, sink=asot.sinks.TopK(NEIGHBORS))
    elapsed, worked = (1e3 * x / len(queries) for x in (time.perf_counter() - began, time.process_time() - busy))
    found = index.query(queries, NEIGHBORS)
    differ = int(np.count_nonzero(~np.isclose(found.distances, brute.distances, rtol=1e-9)))
    require("the index", float(differ), 0.0)
    return ["brute force, per query", f"{elapsed:.0f} ms", f"{worked:.0f} ms", f"{differ} distances differ"]


def _resident(path: Path, queries: asot.Distributions) -> float:
    """Megabytes of this process after certain queries and others."""
    index = asot.Index.open(path)
    for recall in (None, 0.98):
        for i in range(len(queries)):
            index.query(queries[i : i + 1], NEIGHBORS, recall=recall)
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1e3
