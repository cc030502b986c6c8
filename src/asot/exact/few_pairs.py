"""A few small problems, solved at once and by the shortest way.

Two distributions of twenty points are solved in ten microseconds. What a call does around thousands of pairs (find
points that they share, choose a device, cut tiles, open a sink, show progress) takes twenty times as long. So for small
collections one compiled function prepares everything, the kernel of `asot.exact.points` solves it, and the result is
made directly. On a line, the solver is the usual one, and only what is around it is left out. Answers are the same, bit
for bit, and so is ``info``. Whatever is not ordinary, such as repeated points, goes the general way.
"""

from __future__ import annotations

import ctypes
import functools
import operator
import sys
import threading
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.data.distributions import Distributions
from asot.exact.any_cost import AnyCostOut, describe_any
from asot.exact.distance_table import LONG
from asot.exact.one_dimension import OneDimension
from asot.exact.points import ExactPoints, describe, widths
from asot.exact.solvers import on_cpu
from asot.exact.workspace import MASS_BITS
from asot.ground.metrics import CHEBYSHEV, CITYBLOCK, EUCLIDEAN
from asot.native import Double, Int, Record, Tile, entry
from asot.run.pairs import AllPairs, CrossPairs
from asot.run.result import Distances
from asot.run.solver import empty_solution

MOST_POINTS = 600
"""Points of a small collection."""

METRICS = {"euclidean": EUCLIDEAN, "cityblock": CITYBLOCK, "manhattan": CITYBLOCK, "chebyshev": CHEBYSHEV}
"""Metrics whose points need no other preparation than a power of two."""

MOST_SECONDS = 0.002
"""Small work should take no longer than this, so that nobody waits for it, and no thread or GPU would have helped."""


class FewPairs(Record):
    """The sizes of a small collection, and what is found about it (``native/exact/few_pairs.cpp``)."""

    _fields_ = [  # noqa: RUF012
        ("n", Int), ("dim", Int), ("count", Int), ("most", Int), ("index_bits", Int), ("cost_scale", Double),
        ("code", Int), ("power", Double), ("exponent", Int), ("equal", Int),
    ]  # fmt: skip


# As bytes, since asking an array for its address takes ten times as long as copying a small one.
_solve = entry("few_pairs", FewPairs, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, Tile, AnyCostOut)
_NOT_ORDINARY = 2

_ONE_PAIR = np.array([0]), np.array([1])


class _Desk(threading.local):
    """What a thread fills in anew for every call, and where answers to single pairs are written: making records takes
    longer than solving a pair of five points."""

    def __init__(self) -> None:
        self.few = FewPairs()
        self.values, self.steps = np.empty(1), np.empty(1, np.int32)
        self.tile = _tile(*_ONE_PAIR, self.values, self.steps)
        self.units = np.empty(1)
        self.out = AnyCostOut(units=self.units, reach=np.empty(1))


def _tile(
    rows: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.float64], steps: NDArray[np.int32]
) -> Tile:
    stop = np.zeros(1, np.int64)
    return Tile(n=len(rows), rows=rows, columns=columns, values=values, steps=steps, stop=stop)


_desk = _Desk()


class Asked(NamedTuple):
    """What the shortest way needs to know of a call."""

    device: str  # "auto" or "cpu"
    p: float  # order of the distance
    metric: str  # one of `METRICS`
    n_jobs: int


def solve_few(D: Distributions, E: Distributions | None, asked: Asked) -> Distances | None:
    """W_p of all pairs within D, or between D and E; None if they are not few, small and ordinary."""
    dim, n, count = D.dim, len(D.masses), len(D)
    if E is None:
        n_pairs, column_start, names = count * (count - 1) // 2, 0, (D.given_ids,) * 2
    else:
        n_pairs, column_start, names = count * len(E), count, (D.given_ids, E.given_ids)
        n, count = n + len(E.masses), count + len(E)
    if not _is_small(n_pairs, n, count, dim, by_table=asked.p == 1 and asked.metric == "euclidean"):
        return None
    started = time.perf_counter()
    pooled = D if E is None else D + E
    pairs = _all_pairs(count) if E is None else CrossPairs(column_start, len(E))
    if dim == 1:
        return _on_line(pooled, pairs, column_start, asked, names, started)
    offsets = pooled.offsets.tolist()
    most = max(offsets[1], n - offsets[1]) if count == 2 else max(map(operator.sub, offsets[1:], offsets))
    few = _desk.few
    few.n, few.dim, few.count, few.most = n, dim, count, most
    few.index_bits, few.cost_scale = widths(most if asked.p == 1 else most + 1)
    few.code, few.power = METRICS[asked.metric], asked.p
    units, out = _desk.units, _desk.out
    if n_pairs == 1:
        values, pivots, tile = _desk.values, _desk.steps, _desk.tile
    else:
        rows, columns = pairs.indices(0, n_pairs)
        values, pivots = np.empty(n_pairs), np.empty(n_pairs, np.int32)
        tile = _tile(rows, columns + column_start if column_start else columns, values, pivots)
        if asked.p != 1:
            units = np.empty(n_pairs)
            out = AnyCostOut(units=units, reach=np.empty(n_pairs))
    points = pooled.points if pooled.points.dtype.char == "d" else pooled.points.astype(np.float64)
    if _solve(few, points.tobytes(), pooled.offsets.tobytes(), pooled.masses.tobytes(), tile, out) == _NOT_ORDINARY:
        return None
    if asked.p == 1:
        values = values * 2.0 ** (few.exponent - MASS_BITS)
        info = describe(asked.metric, n, bool(few.equal))
        info["p"], info["estimate"] = 1, "exact"
        info["device_reason"] = "asked for" if asked.device == "cpu" else "too little work for a GPU"
    else:
        moved = np.ldexp(values, -MASS_BITS)
        values = 2.0**few.exponent * units * moved ** (1.0 / asked.p)
        info = {**describe_any(asked.metric, n), "estimate": "exact"}
        info |= on_cpu(asked.p, dim, asked.metric, None, asked.device)
    pivots, seconds = pivots.copy(), time.perf_counter() - started
    info["n_jobs"], info["n_pairs"], info["n_not_converged"] = asked.n_jobs, n_pairs, 0
    info["seconds"] = info["seconds_on_pairs"] = seconds
    return Distances.quickly(values, np.zeros(n_pairs, np.int8), pivots, pairs, info, names)


def _on_line(
    pooled: Distributions, pairs: AllPairs | CrossPairs, column_start: int, asked: Asked, names: Any, started: float
) -> Distances:
    solver = OneDimension(
        pooled.points, pooled.offsets, pooled.masses, p=asked.p, column_start=column_start, metric=asked.metric
    )
    found = empty_solution(len(pairs))
    begun = time.perf_counter()
    solver.solve_runs(*pairs.runs(0, len(pairs)), found, np.zeros(1, dtype=np.int64))
    ended = time.perf_counter()
    info = {
        **solver.info,
        "estimate": "exact",
        **on_cpu(asked.p, 1, asked.metric, None, asked.device),
        "n_jobs": asked.n_jobs,
        "n_pairs": len(pairs),
        "n_not_converged": 0,
        "seconds": ended - started,
        "seconds_on_pairs": ended - begun,
    }
    return Distances.quickly(found.values, found.status, found.n_iter, pairs, info, names)


_all_pairs = functools.lru_cache(maxsize=64)(AllPairs)
"""Pair sets cannot be changed, so that results may share one."""


def _is_small(n_pairs: int, n: int, count: int, dim: int, *, by_table: bool) -> bool:
    """Whether pairs of ``count`` distributions with n points in all are few and small.

    ``by_table``: the general way might take distances of long points from a table, whose last bits differ.
    """
    if n_pairs == 0:
        return False
    if dim == 1:
        return OneDimension.most_seconds(n_pairs, n, n / count) < MOST_SECONDS
    if n > MOST_POINTS or (by_table and n_pairs > 1 and dim >= LONG):
        return False
    return n_pairs * ExactPoints.seconds_for(2.0 * n / count, dim) < MOST_SECONDS


def joblib_is_idle() -> bool:
    """Whether no ``joblib.parallel_config`` is in force. Asking joblib takes as long as a small pair."""
    joblib: Any = sys.modules.get("joblib.parallel")
    if joblib is None:
        return True
    try:
        usual = joblib.default_parallel_config
        return getattr(joblib._backend, "config", usual) is usual
    except AttributeError:  # a version that keeps this elsewhere
        return False
