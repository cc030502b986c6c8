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
import threading
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Info
from asot.data.distributions import Distributions
from asot.exact.any_cost import AnyCostOut, describe_any
from asot.exact.points import describe
from asot.exact.workspace import MASS_BITS
from asot.ground.metrics import CHEBYSHEV, CITYBLOCK, EUCLIDEAN
from asot.native import Double, Int, Record, Tile, entry
from asot.results.distances import Distances
from asot.run.pairs import AllPairs, CrossPairs
from asot.run.protocols import Solver, empty_solution

MOST_POINTS = 600
"""Points of a small collection."""

METRICS = {"euclidean": EUCLIDEAN, "cityblock": CITYBLOCK, "manhattan": CITYBLOCK, "chebyshev": CHEBYSHEV}
"""Metrics whose points need no other preparation than a power of two."""

MOST_SECONDS = 0.002
"""Small work should take no longer than this, so that nobody waits for it, and no thread or GPU would have helped."""


class FewPairs(Record):
    """The sizes of a small collection, and what is found about it (``native/exact/few_pairs.cpp``)."""

    _fields_ = [  # noqa: RUF012
        ("n", Int), ("dim", Int), ("count", Int), ("most", Int),
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

    p: float  # order of the distance
    metric: str  # one of `METRICS`
    n_jobs: int
    info: Info  # what the numbers are, and why no GPU was used
    preparing: float = 0.0  # seconds, if they were spent before


def solve(D: Distributions, E: Distributions | None, asked: Asked) -> Distances | None:
    """W_p of all pairs within D, or between D and E, where `are_small`; None if they are not ordinary."""
    started = time.perf_counter()
    pooled = D if E is None else D + E
    pairs = _pairs(D, E)
    n_pairs, column_start, n, count = len(pairs), 0 if E is None else len(D), len(pooled.masses), len(pooled)
    offsets = pooled.offsets.tolist()
    most = max(map(operator.sub, offsets[1:], offsets))
    few = _desk.few
    few.n, few.dim, few.count, few.most = n, D.dim, count, most
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
        own = describe(asked.metric, n, bool(few.equal))
    else:
        moved = np.ldexp(values, -MASS_BITS)
        values = 2.0**few.exponent * units * moved ** (1.0 / asked.p)
        own = describe_any(asked.metric, n)
    pivots, seconds = pivots.copy(), time.perf_counter() - started
    info = _info(own, asked, n_pairs, seconds, seconds)
    return Distances.quickly(values, np.zeros(n_pairs, np.int8), pivots, pairs, info, _names(D, E), D.offsets)


def in_runs(solver: Solver, D: Distributions, E: Distributions | None, asked: Asked) -> Distances:
    """All pairs by a solver that takes runs, such as that of a line."""
    pairs, begun = _pairs(D, E), time.perf_counter()
    found = empty_solution(len(pairs))
    solver.solve_runs(*pairs.runs(0, len(pairs)), found, np.zeros(1, dtype=np.int64))
    seconds = time.perf_counter() - begun
    info = _info(solver.info, asked, len(pairs), seconds + asked.preparing, seconds)
    return Distances.quickly(found.values, found.status, found.n_iter, pairs, info, _names(D, E), D.offsets)


def _info(own: Info, asked: Asked, n_pairs: int, seconds: float, on_pairs: float) -> Info:
    return {
        **own,
        **asked.info,
        "n_jobs": asked.n_jobs,
        "n_pairs": n_pairs,
        "n_not_converged": 0,
        "seconds": seconds,
        "seconds_on_pairs": on_pairs,
    }


def _pairs(D: Distributions, E: Distributions | None) -> AllPairs | CrossPairs:
    return _all_pairs(len(D)) if E is None else CrossPairs(len(D), len(E))


def _names(D: Distributions, E: Distributions | None) -> tuple[Any, Any]:
    return D.given_ids, D.given_ids if E is None else E.given_ids


_all_pairs = functools.lru_cache(maxsize=64)(AllPairs)
"""Pair sets cannot be changed, so that results may share one."""
