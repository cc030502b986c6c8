"""A few small problems, solved at once and by the shortest way.

Two distributions of twenty points are solved in ten microseconds. What a call does around thousands of pairs (find
points that they share, choose a device, cut tiles, open a sink, show progress) takes twenty times as long. So for small
collections one compiled function prepares everything, the kernel of `asot.exact.points` solves it, and the result is
made directly. More than a few distributions on a line have the usual solver, and only what is around it is left out.
Answers are the same, bit for bit, and so is ``info``. Whatever is not ordinary, such as repeated points, goes the
general way.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Info
from asot.data.distributions import Distributions
from asot.exact.any_cost import AnyCostOut, describe_any
from asot.exact.auto import A_SUM, line_solver, lopsided_solver, on_cpu
from asot.exact.one_dimension import FEW, OneDimension
from asot.exact.one_dimension import describe as describe_line
from asot.exact.one_or_two import few_are_columns, seconds_of_pair
from asot.exact.points import describe
from asot.exact.price import laid_out_seconds
from asot.ground.metrics import CHEBYSHEV, CITYBLOCK, EUCLIDEAN
from asot.native import Double, Int, Record, Tile, entry
from asot.request import Distance, as_order
from asot.results.distances import Distances
from asot.run import devices
from asot.run.engine import joblib_is_idle
from asot.run.pairs import AllPairs, CrossPairs
from asot.run.protocols import Solver, empty_solution
from asot.validation import as_bytes, as_n_jobs

MOST_POINTS = 600
"""Points of a small collection."""

MOST_DISTRIBUTIONS = 63
"""Within a collection in more than one dimension, since a pair takes a microsecond at least."""

METRICS = {"euclidean": EUCLIDEAN, "cityblock": CITYBLOCK, "manhattan": CITYBLOCK, "chebyshev": CHEBYSHEV}
"""Metrics whose points need no other preparation than a power of two."""

MOST_SECONDS = 0.002
"""Small work should take no longer than this, so that nobody waits for it, and no thread or GPU would have helped."""

LOPSIDED_SECONDS = 0.01
"""Sums that take no longer than this are taken at once: an engine, threads and a bar would be half of the time."""

Note = Callable[[], Info]
"""Makes what a call knows for ``info``: what the numbers are, why no GPU was used, and threads."""


class FewPairs(Record):
    """The sizes of a small collection, and what is found about it (``native/exact/few_pairs.cpp``)."""

    _fields_ = [  # noqa: RUF012
        ("n", Int), ("dim", Int), ("count", Int), ("code", Int), ("power", Double), ("exponent", Int), ("equal", Int),
    ]  # fmt: skip


# As bytes, since asking an array for its address takes ten times as long as copying a small one.
_solve = entry("few_pairs", FewPairs, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, Tile, AnyCostOut)
_solve_lines = entry("few_lines", FewPairs, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, Tile)
_NOT_ORDINARY = 2


class _Desk(threading.local):
    """What a thread fills in anew for every call, and where answers to single pairs are written: making records takes
    longer than solving a pair of five points."""

    def __init__(self) -> None:
        units = np.empty(1)
        out = AnyCostOut(units=units, reach=np.empty(1))
        self.parts = FewPairs(), *one_tile(), out, units


def tile_of(rows: NDArray[np.int64], columns: NDArray[np.int64]) -> tuple[Tile, Float, NDArray[np.int32]]:
    """Pairs with room for their values and steps, and these."""
    values, steps, stop = np.empty(len(rows)), np.empty(len(rows), np.int32), np.zeros(1, np.int64)
    return Tile(n=len(rows), rows=rows, columns=columns, values=values, steps=steps, stop=stop), values, steps


def one_tile() -> tuple[Tile, Float, NDArray[np.int32]]:
    """The same for the pair of two distributions."""
    return tile_of(np.array([0]), np.array([1]))


_desk = _Desk()


def solve(D: Distributions, E: Distributions | None, p: float, metric: str, note: Note) -> Distances | None:
    """W_p of all pairs within D, or between D and E, where `are_small`; None if they are not ordinary."""
    started = time.perf_counter()
    pooled = D if E is None else D + E
    points, offsets, masses = pooled.points, pooled.offsets, pooled.masses
    n, count = len(masses), len(offsets) - 1
    few, tile, values, steps, out, units = _desk.parts
    few.n, few.dim, few.count, few.code, few.power = n, points.shape[1], count, METRICS[metric], p
    if count > 2:
        pairs, column_start = _pairs(D, E), 0 if E is None else len(D)
        rows, columns = pairs.indices(0, len(pairs))
        tile, values, steps = tile_of(rows, columns + column_start if column_start else columns)
        units = np.empty(len(rows))
        out = AnyCostOut(units=units, reach=np.empty(len(rows)))
    if points.dtype.char != "d":
        points = points.astype(np.float64)
    given, on_line = (points.tobytes(), offsets.tobytes(), masses.tobytes()), points.shape[1] == 1
    if on_line:
        _solve_lines(few, *given, tile)
    elif _solve(few, *given, tile, out) == _NOT_ORDINARY:
        return None
    values = values.copy() if p == 1 or on_line else units * values ** (1.0 / p)
    pivots, equal, seconds = steps.tolist(), few.equal, time.perf_counter() - started

    def rest() -> dict[str, Any]:
        if on_line:
            own = describe_line(metric, bool(equal))
        else:
            own = describe(metric, n, bool(equal)) if p == 1 else describe_any(metric, n)
        return _rest(D, E, np.array(pivots, np.int32), np.zeros(len(pivots), np.int8), own, note, seconds, seconds)

    return Distances.quickly(values, rest)


def in_runs(solver: Solver, D: Distributions, E: Distributions | None, note: Note, preparing: float) -> Distances:
    """All pairs by a solver that takes runs, such as that of a line, which took so many seconds to prepare."""
    pairs, begun = _pairs(D, E), time.perf_counter()
    found = empty_solution(len(pairs))
    solver.solve_runs(*pairs.runs(0, len(pairs)), found, np.zeros(1, dtype=np.int64))
    seconds = time.perf_counter() - begun

    def rest() -> dict[str, Any]:
        return _rest(D, E, found.n_iter, found.status, solver.info, note, seconds + preparing, seconds)

    return Distances.quickly(found.values, rest)


def _rest(
    D: Distributions, E: Distributions | None, steps: NDArray[np.int32], status: NDArray[np.int8], own: Info,
    note: Note, seconds: float, on_pairs: float,
) -> dict[str, Any]:  # fmt: skip
    """The fields of a result other than its values."""
    pairs = _pairs(D, E)
    counted = {"n_pairs": len(pairs), "n_not_converged": 0, "seconds": seconds, "seconds_on_pairs": on_pairs}
    return {
        "status": status,
        "n_iter": steps,
        "pair_set": pairs,
        "info": {**own, **note(), **counted},
        "names": (D.given_ids, D.given_ids if E is None else E.given_ids),
        "offsets": D.offsets,
    }


def _pairs(D: Distributions, E: Distributions | None) -> AllPairs | CrossPairs:
    return _all_pairs(len(D)) if E is None else CrossPairs(len(D), len(E))


_all_pairs = functools.lru_cache(maxsize=64)(AllPairs)
"""Pair sets cannot be changed, so that results may share one."""


# ------------------------------------------------------------------------------------------------ who takes it


def is_usual(device: Any, n_jobs: Any, progress: Any) -> bool:
    """Whether a call leaves it to asot where and how its pairs are solved."""
    return (
        type(device) is str and device in ("auto", "cpu") and (progress is None or progress is False)
        and (n_jobs is not None or joblib_is_idle())
    )  # fmt: skip


def few_distances(
    D: Distributions, E: Distributions | None, p: Any, metric: Any, device: Any, n_jobs: Any, memory: Any, progress: Any
) -> Distances | None:
    """All pairs of an ordinary call, if they are few and small: then what is around a solver costs more than it.

    Nothing is made of the arguments but what is needed, since a pair of five points takes a microsecond.
    """
    if not (type(metric) is str and metric in METRICS and is_usual(device, n_jobs, progress)):
        return None
    order, dim = as_order(p), D.dim
    turned = None if E is None or order != 1 else few_are_columns(D, E, metric)
    if turned is None and not are_few(D, E, dim):
        return None
    if memory is not None:
        as_bytes(memory, 1)  # refuses what is no amount
    jobs = 1 if n_jobs is None else as_n_jobs(n_jobs)
    if E is not None and turned is not None:
        return _few_lopsided(
            D, E, metric, turned, {"device_reason": devices.on_cpu(device, A_SUM).reason, "n_jobs": jobs}
        )
    if dim > 1 or len(D.offsets) + (0 if E is None else len(E)) <= FEW + 1:
        return solve(D, E, order, metric, lambda: _note(Distance(order, metric), dim, device, jobs))
    began, distance = time.perf_counter(), Distance(order, metric)
    pooled, column_start = (D, 0) if E is None else (D + E, len(D))
    solver = line_solver(pooled, distance, column_start)
    seconds = time.perf_counter() - began
    return in_runs(solver, D, E, lambda: _note(distance, dim, device, jobs), seconds)


def _note(distance: Distance, dim: int, device: str, n_jobs: int) -> Info:
    """For ``info`` of the fast lane."""
    known = {"device_reason": on_cpu(distance, dim, device).reason, "n_jobs": n_jobs}
    if distance.p == 1 and dim > 1:
        return {"p": 1, "estimate": "exact", **known}
    return {"estimate": "exact", **distance.info, **known}


def are_few(D: Distributions, E: Distributions | None, dim: int) -> bool:
    """Whether the pairs within D, or between D and E, are few and small."""
    n, count = len(D.masses), len(D.offsets) - 1
    if E is None:
        return _are_few(dim, n, count, count * (count - 1) // 2)
    more = len(E.offsets) - 1
    return _are_few(dim, n + len(E.masses), count + more, count * more)


@functools.lru_cache(maxsize=1024)  # the formula takes as long as a pair of five points
def _are_few(dim: int, n: int, count: int, n_pairs: int) -> bool:
    """The same for n points in all."""
    if n_pairs == 0:
        return False
    if dim == 1:
        return OneDimension.most_seconds(n_pairs, n, n / count) < MOST_SECONDS
    if n > MOST_POINTS:
        return False
    return n_pairs * float(laid_out_seconds(n / count, n / count, dim)) < MOST_SECONDS


def _few_lopsided(D: Distributions, E: Distributions, metric: str, turned: bool, known: Info) -> Distances | None:
    """The same for one or two points against many, unless somebody would wait for it."""
    if len(D) * len(E) * seconds_of_pair(D, E) > LOPSIDED_SECONDS:
        return None
    began = time.perf_counter()
    solver = lopsided_solver(D, E, metric, turned)
    seconds = time.perf_counter() - began
    return in_runs(solver, D, E, lambda: {"p": 1, "estimate": "exact", **known}, seconds)
