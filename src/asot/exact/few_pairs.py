"""A few small problems, solved at once and by the shortest way.

Two distributions of twenty points are solved in ten microseconds. What a call does around thousands of pairs (find
points that they share, choose a device, cut tiles, open a sink, show progress) takes twenty times as long. So for small
collections one compiled function prepares everything, the kernel of `asot.exact.points` solves it, and the result is
made directly. On a line, the solver is the usual one, and only what is around it is left out. Answers are the same, bit
for bit, and so is ``info``. Whatever is not ordinary, such as repeated points, goes the general way.
"""

from __future__ import annotations

import functools
import math
import sys
import time
from typing import Any

import numpy as np

from asot.data.distributions import Distributions
from asot.exact.distance_table import LONG
from asot.exact.one_dimension import OneDimension
from asot.exact.packing import quantize_in_kernel
from asot.exact.points import ExactPoints, describe, solve_tile, tile_arguments
from asot.exact.workspace import MASS_BITS
from asot.jit.compiled import compiled
from asot.jit.euclidean import largest_size
from asot.run.pairs import AllPairs, CrossPairs
from asot.run.result import Distances
from asot.run.solver import empty_solution

MOST_POINTS = 600
"""Points of a small collection."""

MOST_SECONDS = 0.002
"""Small work should take no longer than this, so that nobody waits for it, and no thread or GPU would have helped."""


def solve_few(D: Distributions, E: Distributions | None, device: str) -> Distances | None:
    """The Euclidean W_1 of all pairs within D, or between D and E; None if they are not few, small and ordinary."""
    dim, n, count = D.dim, len(D.masses), len(D)
    if E is None:
        n_pairs, column_start, names = count * (count - 1) // 2, 0, (D.given_ids,) * 2
    else:
        n_pairs, column_start, names = count * len(E), count, (D.given_ids, E.given_ids)
        n, count = n + len(E.masses), count + len(E)
    if not (_is_small(n_pairs, n, count, dim) and _joblib_is_idle()):
        return None
    started = time.perf_counter()
    pooled = D if E is None else D + E
    pairs = _all_pairs(count) if E is None else CrossPairs(column_start, len(E))
    if dim == 1:
        return _on_line(pooled, pairs, column_start, device, names, started)
    points = pooled.points
    if points.dtype.char != "d":
        points = points.astype(np.float64)
        points.flags.writeable = False  # kernels are compiled for points that cannot change
    is_ordinary, is_equal, exponent, largest, *prepared = _prepare(points, pooled.offsets, pooled.masses)
    if not is_ordinary:
        return None
    rows, columns = _ONE_PAIR if n_pairs == 1 else pairs.indices(0, n_pairs)
    if column_start and n_pairs > 1:
        columns = columns + column_start
    values, pivots, stop = np.empty(n_pairs), np.empty(n_pairs, np.int32), np.zeros(1, np.int64)
    equal = True if is_equal else None
    given = (pooled.offsets, *prepared, rows, columns, dim, None, float(dim), largest, equal)
    arguments = tile_arguments(*given)
    solve_tile(*arguments, None, values, pivots, stop)
    values *= 2.0 ** (exponent - MASS_BITS)
    seconds = time.perf_counter() - started
    info = {
        **describe("euclidean", n, equal),
        "p": 1,
        "estimate": "exact",
        "device_reason": "asked for" if device == "cpu" else "too little work for a GPU",
        "n_jobs": 1,
        "n_pairs": n_pairs,
        "n_not_converged": 0,
        "seconds": seconds,
        "seconds_on_pairs": seconds,
    }
    return Distances.quickly(values, np.zeros(n_pairs, np.int8), pivots, pairs, info, names)


def _on_line(
    pooled: Distributions, pairs: AllPairs | CrossPairs, column_start: int, device: str, names: Any, started: float
) -> Distances:
    solver = OneDimension(pooled.points, pooled.offsets, pooled.masses, column_start=column_start)
    found = empty_solution(len(pairs))
    begun = time.perf_counter()
    solver.solve_runs(*pairs.runs(0, len(pairs)), found, np.zeros(1, dtype=np.int64))
    ended = time.perf_counter()
    info = {
        **solver.info,
        "estimate": "exact",
        "p": 1,
        "rooted": False,
        "device_reason": "asked for" if device == "cpu" else "sorting takes no GPU",
        "n_jobs": 1,
        "n_pairs": len(pairs),
        "n_not_converged": 0,
        "seconds": ended - started,
        "seconds_on_pairs": ended - begun,
    }
    return Distances.quickly(found.values, found.status, found.n_iter, pairs, info, names)


_ONE_PAIR = np.array([0]), np.array([1])

_all_pairs = functools.lru_cache(maxsize=64)(AllPairs)
"""Pair sets cannot be changed, so that results may share one."""


def _is_small(n_pairs: int, n: int, count: int, dim: int) -> bool:
    """Whether pairs of ``count`` distributions with n points in all are few and small."""
    if n_pairs == 0:
        return False
    if dim == 1:
        return OneDimension.most_seconds(n_pairs, n, n / count) < MOST_SECONDS
    if n > MOST_POINTS or (n_pairs > 1 and dim >= LONG):
        return False
    return n_pairs * ExactPoints.seconds_for(2.0 * n / count, dim) < MOST_SECONDS


def _joblib_is_idle() -> bool:
    """Whether no ``joblib.parallel_config`` is in force. Asking joblib takes as long as a small pair."""
    joblib: Any = sys.modules.get("joblib.parallel")
    if joblib is None:
        return True
    try:
        usual = joblib.default_parallel_config
        return getattr(joblib._backend, "config", usual) is usual
    except AttributeError:  # a version that keeps this elsewhere
        return False


@compiled
def _prepare(points, offsets, masses):  # type: ignore[no-untyped-def]
    """What `ExactPoints` keeps of a collection in which all points are distinct and have mass.

    Whether it is so; whether all masses are equal; the exponent of the largest coordinate; the size of the largest
    distribution; index, integer masses, coordinates in use and packed points. All coordinates count as used, which
    changes no distance: where both points are 0, nothing is added.
    """
    n, d = points.shape
    count = len(offsets) - 1
    largest = 0.0
    for i in range(n):
        largest = max(largest, largest_size(points[i]))
    exponent = math.frexp(largest)[1]
    is_ordinary = abs(exponent) < 900  # powers of two far from the ends of their range are exact
    scale = 2.0 ** -(exponent if is_ordinary else 0)
    packed = np.empty(n * d)
    for i in range(n):
        for c in range(d):
            packed[i * d + c] = points[i, c] * scale + 0.0  # -0.0 becomes 0.0
    is_equal = True
    for i in range(n):
        is_ordinary &= masses[i] > 0.0
        is_equal &= masses[i] == masses[0]
    is_ordinary &= _all_differ(packed, n, d)
    used = np.empty(count * d, np.int32)
    used_offsets = np.empty(count + 1, np.int64)
    packed_offsets = np.empty(count + 1, np.int64)
    for i in range(count + 1):
        used_offsets[i] = i * d
        packed_offsets[i] = offsets[i] * d
    most = 0
    for i in range(count):
        most = max(most, offsets[i + 1] - offsets[i])
        for c in range(d):
            used[i * d + c] = c
    return (
        is_ordinary, is_equal, exponent, most, np.arange(n), quantize_in_kernel(offsets, masses), used_offsets, used,
        packed_offsets, packed,
    )  # fmt: skip


@compiled
def _all_differ(packed, n, d):  # type: ignore[no-untyped-def]
    """Whether no two rows of points (n, d), flat, are equal."""
    bits = packed.view(np.uint64)
    size = 2
    shift = 63
    while size < 2 * n:
        size *= 2
        shift -= 1
    seen = np.full(size, -1, np.int64)  # rows, at places from hashes
    for i in range(n):
        mixed = np.uint64(0)
        factor = np.uint64(0x9E3779B97F4A7C15)
        for c in range(d):
            mixed += bits[i * d + c] * factor
            factor += np.uint64(0x3C6EF372FE94F82A)  # still odd
        place = np.int64(mixed >> np.uint64(shift))
        while seen[place] >= 0:
            other = seen[place]
            c = 0
            while c < d and packed[i * d + c] == packed[other * d + c]:
                c += 1
            if c == d:
                return False
            place = (place + 1) & (size - 1)
        seen[place] = i
    return True
