"""Assignments of few large problems on an NVIDIA GPU (``large_assignment.cu``): equal masses, as many rows as columns.

A block that solves a problem alone (`asot.exact.cuda.own_costs`) makes one step after the other. Here the whole GPU
looks for the shortest paths from all free columns to all rows at once, and assigns a row for each tree of paths. The
host launches rounds of that search until none is left to do; of the answers, only how many that are is read by it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from asot.exact.cuda.own_costs import DeviceMatrices, DevicePlans
from asot.gpu.cuda import Variant, load

THREADS = 1024
"""Of a block that looks at costs."""

LEAST_POINTS, MOST_PROBLEMS = 512, 16
"""Smaller problems, and more of them, are faster side by side."""

MOST_BYTES = 2**32
"""Of costs."""

ROUNDS = 16
"""Of a search, before the host asks whether it is done."""

TILE, COUNTERS_BYTES, NODE_BYTES = 32, 48, 64
"""Rows of a block; memory of a problem, and more for each of its rows."""

N_LISTED, N_FREE = slice(0, 3), 3
"""Places of ``Counters``, in words."""


def variants(shared_memory: int) -> Iterator[Variant]:
    """Kernels that are compiled ahead (`asot.gpu.cuda.Variant`)."""
    yield "large_assignment", {"THREADS": THREADS}


def takes(count: int, n: int) -> bool:
    """Whether ``count`` problems of n × n are for this solver."""
    return 0 < count <= MOST_PROBLEMS and n >= LEAST_POINTS and 8 * count * n * n <= MOST_BYTES


def solve(count: int, n: int, costs: DeviceMatrices, plans: DevicePlans, *, by_column: bool) -> Any:
    """Assign the rows of ``count`` problems of n × n to columns, on the current stream. Returns the number (1,) of
    those that are refused, and keep their zeros, or whose costs are of too different sizes.

    ``by_column``: the matrices that are given have columns as their rows.
    """
    import cupy

    blocks = -(-n // TILE)
    memory = cupy.zeros(count * (COUNTERS_BYTES + NODE_BYTES * n), dtype=np.int8)
    n_wrong = cupy.zeros(1, dtype=np.int32)
    tables = cupy.empty(count * n * n, dtype=np.int64)
    where = costs.flat, costs.starts, np.int32(costs.stride), np.int32(n)
    tile_bytes, round_bytes = 8 * TILE * (TILE + 1), 12 * (THREADS // 32) * (TILE + 1)
    _launch("measure_costs", blocks, count, (*where, memory))
    _launch("place_costs", blocks**2, count, (*where, np.int32(by_column), tables, memory, n_wrong), tile_bytes)
    _launch("begin", -(-n * 32 // THREADS), count, (tables, memory, np.int32(n)))
    counters = memory[: count * COUNTERS_BYTES].view(np.int32).reshape(count, -1)
    nodes = -(-n // THREADS)
    while True:
        _launch("begin_phase", nodes, count, (memory, np.int32(n)))
        known = _search(blocks, count, (tables, memory, np.int32(n)), counters, round_bytes)
        if not known[:, N_FREE].any():
            break
        for step in ("find_winners", "lift", "augment"):
            _launch(step, nodes, count, (memory, np.int32(n)))
    none, no_place = cupy.empty(0), cupy.empty(0, dtype=np.int64)
    potentials = (no_place, no_place, none, none) if plans.f_at is None else plans[5:]
    _launch("write_answers", 1, count, (tables, memory, np.int32(n), *plans[:5], *potentials, n_wrong), 16 * TILE)
    return n_wrong


def _search(blocks: int, count: int, arguments: tuple[Any, ...], counters: Any, shared_bytes: int) -> Any:
    """Rounds of a phase until no distance falls any more. Returns the counters (count, words)."""
    done = 0
    while True:
        for number in range(done, done + ROUNDS):
            _launch("relax", blocks, count, (*arguments, np.int32(number)), shared_bytes)
        done += ROUNDS
        known = counters.get()
        if not known[:, N_LISTED][:, done % 3].any():
            return known


def _launch(kernel: str, blocks: int, count: int, arguments: tuple[Any, ...], shared_bytes: int = 0) -> None:
    import cupy

    function = _function(cupy.cuda.Device().id, kernel, THREADS)
    function((blocks, count), (THREADS,), arguments, shared_mem=shared_bytes)


@functools.lru_cache(maxsize=64)
def _function(device: int, kernel: str, threads: int) -> Any:
    """For the current GPU, which is ``device``: kept, since a launch takes less time than asking for it."""
    return load("large_assignment", {"THREADS": threads}).get_function(kernel)
