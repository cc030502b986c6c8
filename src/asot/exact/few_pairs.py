"""A few small problems, solved at once and by the shortest way.

Two distributions of twenty points are solved in ten microseconds. What a call does around thousands of pairs (find
points that they share, choose a device, cut tiles, open a sink, show progress) takes twenty times as long. So for small
collections one compiled function prepares everything, the kernel of `asot.exact.points` solves it, and the result is
made directly. On a line, the solver is the usual one, and only what is around it is left out. Answers are the same, bit
for bit, and so is ``info``. Whatever is not ordinary, such as repeated points, goes the general way.
"""

from __future__ import annotations

import functools
import sys
import time
from typing import Any

import numpy as np

from asot.data.distributions import Distributions
from asot.exact.distance_table import LONG
from asot.exact.one_dimension import OneDimension
from asot.exact.points import ExactPoints, describe, widths
from asot.exact.workspace import MASS_BITS
from asot.native import Double, Doubles, Int, Ints, Record, Tile, entry
from asot.run.pairs import AllPairs, CrossPairs
from asot.run.result import Distances
from asot.run.solver import empty_solution

MOST_POINTS = 600
"""Points of a small collection."""

MOST_SECONDS = 0.002
"""Small work should take no longer than this, so that nobody waits for it, and no thread or GPU would have helped."""


class FewPairs(Record):
    """A small collection as it was given (``native/exact/few_pairs.cpp``)."""

    _fields_ = [  # noqa: RUF012
        ("n", Int), ("dim", Int), ("count", Int), ("points", Doubles), ("offsets", Ints), ("masses", Doubles),
        ("index_bits", Int), ("cost_scale", Double), ("found", Ints),
    ]  # fmt: skip


_solve = entry("few_pairs", FewPairs, Tile)
_NOT_ORDINARY = 2


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
    rows, columns = _ONE_PAIR if n_pairs == 1 else pairs.indices(0, n_pairs)
    if column_start and n_pairs > 1:
        columns = columns + column_start
    values, pivots, stop = np.empty(n_pairs), np.empty(n_pairs, np.int32), np.zeros(1, np.int64)
    found = np.empty(2, np.int64)
    index_bits, cost_scale = widths(int(pooled.sizes.max()))
    few = FewPairs(
        n=n, dim=dim, count=count, points=points, offsets=pooled.offsets, masses=pooled.masses, index_bits=index_bits,
        cost_scale=cost_scale, found=found,
    )  # fmt: skip
    tile = Tile(n=n_pairs, rows=rows, columns=columns, values=values, steps=pivots, stop=stop)
    if _solve(few, tile) == _NOT_ORDINARY:
        return None
    exponent, equal = found.tolist()
    values *= 2.0 ** (exponent - MASS_BITS)
    seconds = time.perf_counter() - started
    info = {
        **describe("euclidean", n, bool(equal)),
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
