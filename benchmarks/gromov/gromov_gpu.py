"""Gromov–Wasserstein distances of many spaces of 50 points on a GPU: bounds and estimates of all pairs.

Collections grow until a call, extrapolated by the number of pairs, would take longer than `LONGEST`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import asot
from benchmarks.common import Options, Report, Table, below
from benchmarks.gpu.gpu import gpu_name
from benchmarks.gromov.made import neurons

NEEDS = {"gpu"}

POINTS = 50
SIZES, QUICK = (1000, 3000, 10_000), (100,)
WHOLE = 10_000
LONGEST = 150.0
"""Seconds."""


def run(options: Options) -> Report:
    """Time every call on growing collections."""
    sizes = QUICK if options.quick else SIZES
    spaces = neurons(POINTS, sizes[-1])
    _third_bounds(spaces[:50])
    rows = [row for name, (limit, call) in CALLS.items() for row in rows_of(name, call, limit, spaces, sizes)]
    table = Table(f"Generated neurons of {POINTS} points, whole calls:", COLUMNS, rows)
    title = "Gromov–Wasserstein distances of a large collection on a GPU"
    return Report("gromov_gpu", title, f"One {gpu_name()} and 16 threads.", [table], NOTES)


COLUMNS = ["call", "spaces", "pairs", "time", f"for {WHOLE:,} spaces", ""]
NOTES = (
    f"For {WHOLE:,} spaces: the time itself, or that of the largest collection times the ratio of the pairs.",
    "Bounds: the third lower bound of all pairs, `pairwise_exact` of `Distributions.from_spaces`, p = 2. Reading the "
    "spaces is not timed there, but in the other calls.",
)


def _third_bounds(spaces: list[Any]) -> tuple[float, str]:
    D = asot.Distributions.from_spaces(spaces)
    started = time.perf_counter()
    asot.pairwise_exact(D, p=2, device="cuda", n_jobs=-1, progress=False)
    return time.perf_counter() - started, ""


def _estimates(spaces: list[Any]) -> tuple[float, str]:
    started = time.perf_counter()
    result = asot.gromov(spaces, error="5%", n_jobs=-1, progress=False)
    seconds = time.perf_counter() - started
    return seconds, str(result.info.get("why", ""))


CALLS: dict[str, tuple[float, Callable[[list[Any]], tuple[float, str]]]] = {
    "bounds": (60.0, _third_bounds),
    '`gromov(X, error="5%")`': (180.0, _estimates),
}


def rows_of(name: str, call: Any, limit: float, spaces: list[Any], sizes: tuple[int, ...]) -> list[list[str]]:
    """Rows of a table: a call on growing parts of the collection."""
    rows: list[list[str]] = []
    each = 0.0
    for n in sizes:
        pairs = n * (n - 1) // 2
        if each * pairs > LONGEST:
            break
        seconds, said = call(spaces[:n])
        each = seconds / pairs
        whole = below(each * WHOLE * (WHOLE - 1) / 2, limit, "s")
        rows.append([name, f"{n:,}", f"{pairs:,}", f"{seconds:.2f} s", whole, said])
        print(" | ".join(rows[-1]), flush=True)
    return rows
