"""Batches of queries of an index on a GPU: the first one, which reads the members, and those after it.

Molecules of ZINC where the data folder has them, and clouds of points elsewhere. Answers of some queries are compared
with those of the CPU, and with brute force.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import asot
from benchmarks.common import Options, Report, Table, below, require
from benchmarks.gpu.gpu import gpu_name
from benchmarks.index.index import collection

NEEDS = {"gpu"}

NEIGHBORS, REPEATS, COMPARED = 10, 3, 20
TARGET = 0.6
"""Milliseconds per query."""

TOLERANCE = 1e-12
"""Of the largest distance."""


def run(options: Options) -> Report:
    """Ask one batch several times, and batches beside each other: a cold one, a warm one, a smaller one."""
    n_members, n_queries = (3000, 200) if options.quick else (239_456, 10_000)
    name, members, queries = collection(options.data, n_members, n_queries)
    index = asot.Index()
    index.add(members)
    index.query(queries[:1], 1, device="cuda", among=range(50))  # loads the kernels
    rows = [_row("first batch, which reads the members", index, queries, None)]
    rows += [_row(f"batch {number}", index, queries, TARGET) for number in range(2, 2 + REPEATS)]
    rows.append(_row("a tenth of it", index, queries[: n_queries // 10], None))
    columns = ["what", "queries", "whole call", "per query", "pairs solved"]
    table = Table(f"{NEIGHBORS} nearest of {n_members:,} {name}:", columns, rows)
    return Report(
        "index_gpu", "Batches of queries on a GPU", f"One {gpu_name()}.", [table], (_agreement(index, queries),)
    )


def _row(what: str, index: asot.Index, queries: asot.Distributions, target: float | None) -> list[Any]:
    started = time.perf_counter()
    found = index.query(queries, NEIGHBORS, device="cuda", n_jobs=-1)
    seconds = time.perf_counter() - started
    each = 1e3 * seconds / len(queries)
    cell = f"{each:.2f} ms" if target is None else below(each, target, "ms")
    share = (found.n_exact or 0) / (len(queries) * len(index))
    return [what, f"{len(queries):,}", f"{seconds:.2f} s", cell, f"{100 * share:.2f}%"]


def _agreement(index: asot.Index, queries: asot.Distributions) -> str:
    some = queries[:COMPARED]
    gpu, cpu = (index.query(some, NEIGHBORS, device=device) for device in ("cuda", "cpu"))
    everyone = asot.Distributions.from_list([index[each][0] for each in index.ids])
    brute = asot.pairwise_exact(some, everyone, sink=asot.sinks.TopK(NEIGHBORS), device="cpu")
    largest = float(brute.distances.max())
    worst = max(float(np.abs(found.distances - brute.distances).max()) for found in (gpu, cpu)) / largest
    require("the index on a GPU", worst, TOLERANCE)
    return f"Distances of {COMPARED} queries are those of the CPU and of brute force to {worst:.0e} of the largest."
