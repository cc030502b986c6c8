"""Neighbors in a collection larger than any matrix: all 249,456 molecules of ZINC-250k on one GPU.

31.1 billion pairs: on anchors, by calibrated estimates, and under the true W₁. The distances of a tile stay on the GPU,
but for those that are near enough to matter. Random rows are compared with brute force on the CPU.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

import asot
from benchmarks.common import Options, Report, Table, below, largest_difference, require
from benchmarks.data import zinc_collection
from benchmarks.gpu.gpu import gpu_name
from benchmarks.gpu.gpu_points import compare

NEEDS = {"gpu", "molecules"}

NEIGHBORS, ANCHORS, CHECKED_ROWS = 10, 23, 100
EXACT_SECONDS, ENTROPIC_SECONDS, MEMORY = 60.0, 300.0, 16e9
CALIBRATED_SECONDS, CERTAIN_SECONDS, CERTAIN_ROWS = 150.0, 360.0, 20
TOLERANCE = {"exact": 1e-12, "entropic, 50 iterations": 1e-5}
"""Of the largest cost."""


def run(options: Options) -> Report:
    """Measure and make the report."""
    assert options.data is not None
    D = zinc_collection(options.data)
    if options.quick:
        D = D[:5000]
    tables = [_on_anchors(D), _calibrated(D), _certain(D)]
    return Report("gpu_neighbors", "Neighbors of a quarter of a million graphs", f"One {gpu_name()}.", tables, NOTES)


def _on_anchors(D: asot.Distributions) -> Table:
    started = time.perf_counter()
    space = asot.KMeansAnchors(ANCHORS, random_state=0, device="cuda").fit(D).space_
    H = space.histograms(D, device="cuda")
    prepared = time.perf_counter() - started
    n_pairs = len(H) * (len(H) - 1) // 2
    rows = [["k-means and histograms", f"{len(D.points):,} points", f"{prepared:.1f} s", "–", "–"]]
    reg = 0.1 * float(np.median(space.cost[space.cost > 0]))
    for name, target, how in (
        ("exact", EXACT_SECONDS, {}),
        ("entropic, 50 iterations", ENTROPIC_SECONDS, {"reg": reg, "max_iter": 50, "tol": None}),
    ):
        many: Any = asot.sinkhorn_many if how else asot.emd_many
        with DeviceMemory() as memory:
            started = time.perf_counter()
            found = many(H, cost=space.cost, device="cuda", sink=asot.sinks.TopK(NEIGHBORS), **how)
            seconds = time.perf_counter() - started
        _check_rows(many, H, space.cost, found, how, name)
        gigabytes = below(memory.peak / 1e9, MEMORY / 1e9, "GB")
        rate = f"{n_pairs / seconds / 1e6:,.0f} M/s"
        rows.append([name, f"{n_pairs:,} pairs", below(seconds, target, "s"), gigabytes, rate])
    caption = (
        f"**{NEIGHBORS} nearest neighbors of all {len(D):,} ZINC molecules** on k = {ANCHORS} anchors; equal to brute "
        f"force on the CPU for {CHECKED_ROWS} random rows."
    )
    return Table(caption, ["", "", "time", "GPU memory", "pairs"], rows)


def _calibrated(D: asot.Distributions) -> Table:
    space = asot.KMeansAnchors(ANCHORS, random_state=0, device="cuda").fit(D).space_
    way = {"kind": "calibrated", "n_anchors": ANCHORS, "n_exact": 64, "given_space": True}
    how: dict[str, Any] = {"space": space, "strategy": way, "random_state": 0, "device": "cuda", "n_jobs": -1}
    started = time.perf_counter()
    found = asot.pairwise(D, **how, sink=asot.sinks.TopK(NEIGHBORS))
    seconds = time.perf_counter() - started
    n_pairs = found.info["n_pairs"]
    whole = below(seconds, CALIBRATED_SECONDS, "s")
    cells = [f"{n_pairs:,} pairs", whole, f"{n_pairs / seconds / 1e6:,.0f} M/s"]
    caption = f"**By calibrated values**, also {NEIGHBORS} of each (`pairwise(D, ..., sink=TopK({NEIGHBORS}))`)."
    return Table(caption, ["", "whole call", "pairs"], [cells])


def _certain(D: asot.Distributions) -> Table:
    asot.kneighbors(D[:3000], n_neighbors=NEIGHBORS, device="cuda", n_jobs=-1)  # loads the kernels
    started = time.perf_counter()
    found = asot.kneighbors(D, n_neighbors=NEIGHBORS, device="cuda", n_jobs=-1)
    seconds = time.perf_counter() - started
    rows = np.sort(np.random.default_rng(0).permutation(len(D))[:CERTAIN_ROWS])
    matrix = asot.pairwise_exact(D[rows], D, device="cpu", n_jobs=-1).matrix()
    matrix[np.arange(len(rows)), rows] = np.inf
    answers = compare("all of ZINC", found.indices[rows], found.distances[rows], matrix)
    n_pairs = found.info["n_pairs"]
    cells = [f"{n_pairs:,} pairs", below(seconds, CERTAIN_SECONDS, "s"), f"{found.n_exact / n_pairs:.3%}", answers]
    caption = f"**Under the true W₁**, {NEIGHBORS} of each for certain (`kneighbors(D, n_neighbors={NEIGHBORS})`)."
    return Table(caption, ["", "whole call", "solved exactly", f"{CERTAIN_ROWS} rows beside brute force"], [cells])


NOTES = (
    "Features: one-hot elements and four rounds of sums over neighbors, 45 dimensions, float32.",
    "Whole call: `emd_many(H, cost=C, device='cuda', sink=TopK(10))`, or `sinkhorn_many` with ε = 0.1 of the median "
    "cost.",
    "GPU memory: the most in use during the call, beyond what was in use before it.",
)


def _check_rows(many: Any, H: Any, cost: Any, found: asot.Neighbors, how: dict[str, Any], name: str) -> None:
    """Brute force on the CPU for random rows: the same distances, and neighbors that are as near as they are said."""
    rows = np.sort(np.random.default_rng(0).choice(len(H), CHECKED_ROWS, replace=False))
    # As pairs of one set: after a fixed number of iterations (i, j) and (j, i) differ, and only i < j is solved.
    pairs = np.stack([np.repeat(rows, len(H)), np.tile(np.arange(len(H)), len(rows))], axis=1)
    values = many(H, cost=cost, pairs=pairs, device="cpu", n_jobs=-1, **how).values.reshape(len(rows), len(H))
    values[np.arange(len(rows)), rows] = np.inf
    nearest = np.sort(values, axis=1)[:, :NEIGHBORS]
    require(f"{name}, distances", largest_difference(found.distances[rows], nearest, cost.max()), TOLERANCE[name])
    claimed = np.take_along_axis(values, found.indices[rows], axis=1)
    require(f"{name}, neighbors", largest_difference(claimed, found.distances[rows], cost.max()), TOLERANCE[name])


class DeviceMemory:
    """The most memory of the GPU in use, beyond what was in use before, looked at every few milliseconds."""

    def __enter__(self) -> DeviceMemory:
        import cupy

        cupy.get_default_memory_pool().free_all_blocks()
        self._before = self._in_use()
        self.peak = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.02):
            self.peak = max(self.peak, self._in_use() - self._before)

    @staticmethod
    def _in_use() -> int:
        import cupy

        free, total = cupy.cuda.runtime.memGetInfo()
        return int(total - free)
