"""A million histograms on one GPU: the ten nearest of each among 5 · 10¹¹ pairs.

Histograms are those of the benchmark `gpu` at k = 23, which is the size of a molecule. Distances stay on the GPU but
for those that are near enough to matter, so memory does not grow with the number of pairs. Random rows are compared
with brute force on the CPU.
"""

from __future__ import annotations

import time

import numpy as np

import asot
from benchmarks.common import Options, Report, Table, below, largest_difference, require
from benchmarks.gpu.gpu import gpu_name
from benchmarks.gpu.gpu_neighbors import DeviceMemory
from benchmarks.made import trial_histograms

NEEDS = {"gpu"}

COUNTS, QUICK = (1_000_000,), (20_000,)
ANCHORS, NEIGHBORS, CHECKED_ROWS = 23, 10, 20
SECONDS = 720.0
"""For a million."""

TOLERANCE = 1e-12
"""Of the largest cost."""


def run(options: Options) -> Report:
    """Measure and make the report."""
    counts = QUICK if options.quick else COUNTS
    made = trial_histograms(ANCHORS, max(counts))
    rows = [_row(made.masses[:n], made.cost) for n in counts]
    caption = f"**{NEIGHBORS} nearest neighbors of every histogram**, k = {ANCHORS}, exact."
    table = Table(caption, ["histograms", "pairs", "time", "rate", "GPU memory"], rows)
    return Report("gpu_million", "A million histograms on one GPU", f"One {gpu_name()}.", [table], NOTES)


NOTES = (
    "Whole call: `emd_many(H, cost=C, device='cuda', sink=TopK(10))`, from histograms on the host to neighbors on the "
    "host; a smaller call has loaded the kernels.",
    f"Compared with brute force on the CPU for {CHECKED_ROWS} random rows: distances to 1e-12 of the largest cost.",
    "What bounds it: the exact kernel, whose own rate at this size is in the table of `gpu`.",
)


def _row(H: np.ndarray, cost: np.ndarray) -> list[str]:
    asot.emd_many(H[:5000], cost=cost, device="cuda", sink=asot.sinks.TopK(NEIGHBORS))
    with DeviceMemory() as memory:
        started = time.perf_counter()
        found = asot.emd_many(H, cost=cost, device="cuda", sink=asot.sinks.TopK(NEIGHBORS))
        seconds = time.perf_counter() - started
    _check(H, cost, found)
    n_pairs = len(H) * (len(H) - 1) // 2
    took = below(seconds, SECONDS, "s") if len(H) == max(COUNTS) else f"{seconds:.1f} s"
    rate = f"{n_pairs / seconds / 1e6:,.0f} M/s"
    return [f"{len(H):,}", f"{n_pairs:,}", took, rate, f"{memory.peak / 1e9:.2f} GB"]


def _check(H: np.ndarray, cost: np.ndarray, found: asot.Neighbors) -> None:
    rows = np.sort(np.random.default_rng(0).choice(len(H), CHECKED_ROWS, replace=False))
    values = asot.emd_many(H[rows], H, cost=cost, device="cpu", n_jobs=-1).matrix()
    values[np.arange(len(rows)), rows] = np.inf
    nearest = np.partition(values, NEIGHBORS, axis=1)[:, :NEIGHBORS]
    nearest.sort(axis=1)
    require("distances", largest_difference(found.distances[rows], nearest, cost.max()), TOLERANCE)
    claimed = np.take_along_axis(values, found.indices[rows], axis=1)
    require("neighbors", largest_difference(claimed, found.distances[rows], cost.max()), TOLERANCE)
