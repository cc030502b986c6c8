"""The true W₁ on a GPU: all pairs of graphs, images and diagrams, and certain neighbors.

Whole calls, from a collection to NumPy results: the median of repeats after a warm-up, which loads the kernels. Values
are compared with those of the CPU on all pairs, neighbors with brute force over them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import asot
from benchmarks.common import DisagreementError, Options, Report, Table, below, largest_difference, ratio, require
from benchmarks.data import mnist_collection, shape_diagrams, tu_collection, zinc_test_collection
from benchmarks.gpu.gpu import gpu_name, median_seconds

NEEDS = {"diagrams", "gpu", "graphs", "images", "molecules"}

Collection = Callable[[Path], asot.Distributions]

COLLECTIONS: dict[str, tuple[Collection, float]] = {  # target in ms for the whole call
    "ZINC, test split": (lambda folder: zinc_test_collection(folder, 5000), 350.0),
    "NCI1": (lambda folder: tu_collection(folder, "NCI1"), 700.0),
    "MNIST, 500 digits": (lambda folder: mnist_collection(folder, 500), 250.0),
    "persistence diagrams, 100": (lambda folder: shape_diagrams(folder, 100), 33.0),
    "persistence diagrams, 300": (lambda folder: shape_diagrams(folder, 300), 299.0),
}
QUICK = 300
"""Distributions of a quick run."""

NEIGHBORS = 10
TOLERANCE = 1e-12
"""Of the largest distance."""


def run(options: Options) -> Report:
    """Measure everything and make the report."""
    assert options.data is not None
    pairs, neighbors = [], []
    for name, (load, target) in COLLECTIONS.items():
        D = load(options.data)
        D = D[:QUICK] if options.quick else D
        cells, cpu = _all_pairs(name, D, target)
        pairs.append(cells)
        neighbors.append(_neighbors(name, D, cpu))
    tables = [
        Table("**All pairs** (`pairwise_exact`).", PAIR_COLUMNS, pairs),
        Table(f"**Certain neighbors**, {NEIGHBORS} of every distribution (`kneighbors`).", NEIGHBOR_COLUMNS, neighbors),
    ]
    return Report("gpu_points", "The true W₁ on a GPU", f"One {gpu_name()}; whole calls.", tables, NOTES)


PAIR_COLUMNS = ["collection", "pairs", "whole call", "rate", "CPU threads", "CPU / whole call", "error"]
NEIGHBOR_COLUMNS = ["collection", "pairs", "whole call", "solved exactly", "brute force on the GPU", "answers"]
NOTES = (
    "Whole call: `pairwise_exact(D, device='cuda')`, from the collection to values on the host: distinct points, "
    "tables, transfers. Graphs are bags of node features, as in exact_points; MNIST digits are bags of pixels; "
    "diagrams are bags of 80 to 243 points (birth, death), and their targets are 150,000 pairs per second.",
    "CPU threads: the same call with `device='cpu'` and every core of the machine. Error: the largest difference "
    "between the two over all pairs, in units of the largest distance.",
    "Neighbors: `kneighbors(D, n_neighbors=10, device='cuda')`. Brute force: `pairwise_exact` with `TopK(10)`. "
    "Answers are compared with brute force over the values of the CPU: distances to 1e-12 of the largest, and indices "
    "wherever two distances differ by more.",
)


def _all_pairs(name: str, D: asot.Distributions, target: float) -> tuple[list[str], Any]:
    seconds, gpu = median_seconds(lambda: asot.pairwise_exact(D, device="cuda"), 7)
    asot.pairwise_exact(D[:10], device="cpu")  # compiles
    started = time.perf_counter()
    cpu = asot.pairwise_exact(D, device="cpu", n_jobs=-1)
    cpu_seconds = time.perf_counter() - started
    error = largest_difference(gpu.values, cpu.values, cpu.values.max())
    require(name, error, TOLERANCE)
    if (gpu.status != asot.Status.OPTIMAL).any():
        raise DisagreementError(f"{name}: a pair is not proven optimal")
    rate = f"{len(gpu.values) / seconds / 1e6:,.2f} M/s"
    whole = below(1e3 * seconds, target, "ms")
    speed = ratio(cpu_seconds / seconds, None)
    return [name, f"{len(gpu.values):,}", whole, rate, f"{cpu_seconds:.2f} s", speed, f"{error:.1e}"], cpu


def _neighbors(name: str, D: asot.Distributions, cpu: Any) -> list[str]:
    seconds, found = median_seconds(lambda: asot.kneighbors(D, n_neighbors=NEIGHBORS, device="cuda"), 3)
    brute, _ = median_seconds(lambda: asot.pairwise_exact(D, device="cuda", sink=asot.sinks.TopK(NEIGHBORS)), 3)
    matrix = cpu.matrix()
    np.fill_diagonal(matrix, np.inf)
    answers = compare(name, found.indices, found.distances, matrix)
    share = f"{found.n_exact / found.info['n_pairs']:.2%}"
    return [name, f"{found.info['n_pairs']:,}", f"{1e3 * seconds:,.0f} ms", share, f"{1e3 * brute:,.0f} ms", answers]


def compare(name: str, indices: Any, distances: Any, matrix: Any) -> str:
    """Nearest columns of each row against brute force; where distances tie, any order will do."""
    expected = np.sort(matrix, axis=1)[:, :NEIGHBORS]
    scale = expected.max()
    require(name, largest_difference(distances, expected, scale), TOLERANCE)
    require(name, largest_difference(np.take_along_axis(matrix, indices, axis=1), expected, scale), TOLERANCE)
    same = np.array_equal(indices, np.argsort(matrix, axis=1, kind="stable")[:, :NEIGHBORS])
    return "identical" if same else "identical but for ties"
