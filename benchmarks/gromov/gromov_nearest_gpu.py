"""The ten nearest spaces of each by Gromov–Wasserstein distances, on a GPU.

Bounds of all pairs come first, then descents from two starts of every pair that bounds do not rule out.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import asot
from benchmarks.common import Options, Report, Table, require
from benchmarks.gpu.gpu import gpu_name
from benchmarks.gromov.gromov_gpu import COLUMNS, POINTS, QUICK, WHOLE, rows_of
from benchmarks.gromov.made import neurons

NEEDS = {"gpu"}

SIZES = (WHOLE,)
NEIGHBORS = 10
LIMIT = 180.0
"""Seconds for 10,000 spaces."""

COMPARED, TOLERANCE = 300, 1e-2
"""Spaces that the CPU searches as well, and by how much the mean of distances may differ, of itself: where their steps
tie, descents may end at other plans."""


def run(options: Options) -> Report:
    """Time the search."""
    sizes = QUICK if options.quick else SIZES
    spaces = neurons(POINTS, sizes[-1])
    agreement = _agreement(spaces[:COMPARED])
    rows = rows_of(f"`gromov(X, sink=TopK({NEIGHBORS}))`", _nearest, LIMIT, spaces, sizes)
    table = Table(f"Generated neurons of {POINTS} points, whole calls:", COLUMNS, rows)
    notes = (
        f"For {WHOLE:,} spaces: the time itself, or that of the largest collection times the ratio of the pairs.",
        agreement,
    )
    title = "The nearest of many spaces on a GPU"
    return Report("gromov_nearest_gpu", title, f"One {gpu_name()} and 16 threads.", [table], notes)


def _search(spaces: list[Any], device: str) -> Any:
    return asot.gromov(spaces, sink=asot.sinks.TopK(NEIGHBORS), device=device, n_jobs=-1, progress=False)


def _nearest(spaces: list[Any]) -> tuple[float, str]:
    started = time.perf_counter()
    found = _search(spaces, "cuda")
    return time.perf_counter() - started, f"{found.info['n_solved']:,} pairs searched"


def _agreement(spaces: list[Any]) -> str:
    gpu, cpu = (_search(spaces, device) for device in ("cuda", "cpu"))
    same = float((np.abs(gpu.distances - cpu.distances) <= 1e-9 * cpu.distances).mean())
    apart = float(np.mean(gpu.distances) / np.mean(cpu.distances) - 1.0)
    require("the nearest", abs(apart), TOLERANCE)
    return (
        f"For {len(spaces)} spaces, {100 * same:.2f} % of the distances are those of the CPU to 1e-9, and the mean "
        f"differs by {apart:.0e} of itself."
    )
