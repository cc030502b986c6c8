"""Assignments of few large problems on an NVIDIA GPU (``large_assignment.cu``): equal masses, as many rows as columns.

A block that solves a problem alone (`asot.exact.cuda.own_costs`) makes one step after the other. Here the whole GPU
looks for the shortest paths from all free columns to all rows at once, and assigns a row for each tree of paths. The
host launches rounds of that search until none is left to do; of the answers, only how many that are is read by it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from asot.exact.cuda.own_costs import DeviceMatrices, DevicePlans
from asot.gpu import cupy
from asot.gpu.cuda import Variant, load

THREADS = 1024
"""Of a block that looks at costs."""

LEAST_POINTS, MOST_PROBLEMS = 512, 16
"""Smaller problems, and more of them, are faster side by side."""

MOST_BYTES = 2**32
"""Of costs."""

ROUNDS, LISTS = 18, 6
"""Of a search, before the host asks whether it is done; and after how many rounds lists are used as at first."""

TILE, COUNTERS_BYTES, NODE_BYTES = 32, 48, 64
"""Rows of a block; memory of a problem, and more for each of its rows."""

NEXT_LIST, N_FREE = 0, 3
"""Words of ``Counters``: columns that the next round will read, after all `ROUNDS`; and rows without a column."""


def variants(shared_memory: int) -> Iterator[Variant]:
    """Kernels that are compiled ahead (`asot.gpu.cuda.Variant`)."""
    yield "large_assignment", {"THREADS": THREADS}


def takes(count: int, n: int) -> bool:
    """Whether ``count`` problems of n × n are for this solver."""
    return 0 < count <= MOST_PROBLEMS and n >= LEAST_POINTS and 8 * count * n * n <= MOST_BYTES


def solve(count: int, n: int, costs: DeviceMatrices, plans: DevicePlans, refused: Any) -> None:
    """Assign the rows of ``count`` problems of n × n to columns, on the current stream. Of the plans, only what is used
    is written; the caller fills them with zeros. ``refused`` (1,) int32 becomes 1 if a problem is refused, and keeps
    its zeros, or if its costs are of too different sizes."""
    blocks, nodes = -(-n // TILE), -(-n // THREADS)
    memory = cupy.zeros(count * (COUNTERS_BYTES + NODE_BYTES * n), dtype=np.int8)
    tables = cupy.empty(count * n * n, dtype=np.int64)
    size = np.int32(n)
    given, state = (costs.flat, costs.starts, np.int32(costs.stride), size), (memory, size)

    def kernel(name: str, blocks: int, arguments: tuple[Any, ...], shared_bytes: int = 0) -> Callable[[], None]:
        function = _function(cupy.cuda.Device().id, name, THREADS)
        return functools.partial(function, (blocks, count), (THREADS,), arguments, shared_mem=shared_bytes)

    kernel("measure_costs", blocks, (*given, memory))()
    kernel("place_costs", blocks**2, (*given, tables, memory, refused), 8 * TILE * (TILE + 1))()
    kernel("begin", -(-n * 32 // THREADS), (tables, *state))()
    counters = memory[: count * COUNTERS_BYTES].view(np.int32).reshape(count, -1)
    relax_bytes = 12 * (THREADS // 32) * (TILE + 1)
    rounds = [kernel("relax", blocks, (tables, *state, np.int32(number)), relax_bytes) for number in range(LISTS)]
    begin_phase, *end_phase = (
        kernel(name, nodes, state) for name in ("begin_phase", "find_winners", "lift", "augment")
    )
    begin_phase()
    while _search(rounds, counters)[:, N_FREE].any():
        for step in (*end_phase, begin_phase):
            step()
    none, no_place = cupy.empty(0), cupy.empty(0, dtype=np.int64)
    potentials = (no_place, no_place, none, none) if plans.f_at is None else plans[5:9]
    kernel("write_answers", 1, (tables, *state, *plans[:5], *potentials, refused), 16 * TILE)()


def _search(rounds: list[Callable[[], None]], counters: Any) -> Any:
    """A phase's rounds, until no distance falls any more. Returns the counters (count, words)."""
    while True:
        for number in range(ROUNDS):
            rounds[number % LISTS]()
        known = counters.get()
        if not known[:, NEXT_LIST].any():
            return known


@functools.lru_cache(maxsize=64)
def _function(device: int, kernel: str, threads: int) -> Any:
    """For the current GPU, which is ``device``: kept, since a launch takes less time than asking for it."""
    return load("large_assignment", {"THREADS": threads}).get_function(kernel)
