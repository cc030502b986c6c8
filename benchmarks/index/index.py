"""`asot.Index`: how long opening, adding and asking take, beside brute force and `kneighbors` on equal answers.

Molecules of ZINC where the data folder has them, and clouds of points elsewhere. Answers are compared with those of
brute force for a few queries.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import asot
from benchmarks.common import Options, Report, Table

NEEDS: set[str] = set()

BATCH, NEIGHBORS = 1000, 10


def run(options: Options) -> Report:
    """Build an index on disk in batches, open it, and ask for single queries."""
    n_members, n_queries = (2000, 10) if options.quick else (50_000, 100)
    with threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
        name, members, queries = collection(options.data, n_members, n_queries)
        path = Path(folder) / "index"
        asot.Index().save(path)
        rows: list[list[Any]] = [[f"add, per member in batches of {BATCH:,}", _added(path, members), ""]]
        started = time.perf_counter()
        index = asot.Index.open(path)
        rows.append(["open", f"{1e3 * (time.perf_counter() - started):.1f} ms", ""])
        rows += [_asked(index, queries, None), _asked(index, queries, 0.98)]
        rows.append(_compared(index, members, queries[:5]))
    return Report(
        "index",
        "An index of distributions",
        __doc__ or "",
        [Table(f"{n_members:,} {name}, one thread:", ["what", "time", "notes"], rows)],
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


def _added(path: Path, members: asot.Distributions) -> str:
    started = time.perf_counter()
    with asot.Index.open(path, mode="r+") as index:
        for start in range(0, len(members), BATCH):
            index.add(members[start : start + BATCH])
    return f"{1e3 * (time.perf_counter() - started) / len(members):.2f} ms"


def _asked(index: asot.Index, queries: asot.Distributions, recall: float | None) -> list[Any]:
    index.query(queries[:1], NEIGHBORS, recall=recall)  # a rehearsal is not a query
    seconds, solves = [], []
    for i in range(len(queries)):
        started = time.perf_counter()
        solves.append(index.query(queries[i : i + 1], NEIGHBORS, recall=recall).n_exact or 0)
        seconds.append(time.perf_counter() - started)
    p50, p99 = 1e3 * np.quantile(seconds, [0.5, 0.99])
    word = "certain" if recall is None else f"recall {recall}"
    return [f"{NEIGHBORS} nearest, {word}", f"{p50:.1f} ms p50, {p99:.1f} ms p99", f"{np.mean(solves):.0f} solves"]


def _compared(index: asot.Index, members: asot.Distributions, queries: asot.Distributions) -> list[Any]:
    started = time.perf_counter()
    brute = asot.pairwise_exact(queries, members, sink=asot.sinks.TopK(NEIGHBORS))
    seconds = (time.perf_counter() - started) / len(queries)
    found = index.query(queries, NEIGHBORS)
    differ = int(np.count_nonzero(~np.isclose(found.distances, brute.distances, rtol=1e-9)))
    return ["brute force, per query", f"{1e3 * seconds:.0f} ms", f"{differ} distances differ"]
