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
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices, Info
from asot.data.distributions import Distributions
from asot.exact.any_cost import AnyCostOut, describe_any
from asot.exact.auto import A_SUM, line_solver, lopsided_solver, on_cpu
from asot.exact.distance_table import LONG
from asot.exact.one_dimension import FEW, OneDimension
from asot.exact.one_dimension import describe as describe_line
from asot.exact.one_or_two import METRICS, few_are_columns, seconds_of_pair
from asot.exact.points import describe
from asot.exact.price import laid_out_seconds
from asot.native import Desks, Double, Int, Record, entry, tile_of
from asot.native.records import address, refused
from asot.request import Distance, as_order
from asot.results.distances import Distances, Later
from asot.run import devices
from asot.run.engine import joblib_is_idle
from asot.run.pairs import AllPairs, CrossPairs, PairSet
from asot.run.protocols import Solver, empty_solution
from asot.validation import as_bytes, as_n_jobs

MOST_POINTS = 600
"""Points of a small collection."""

MOST_DISTRIBUTIONS = 63
"""Within a collection in more than one dimension, since a pair takes a microsecond at least."""

MOST_SECONDS = 0.002
"""Small work should take no longer than this, so that nobody waits for it, and no thread or GPU would have helped."""

LOPSIDED_SECONDS = 0.01
"""Sums that take no longer than this are taken at once: an engine, threads and a bar would be half of the time."""


CALL_SECONDS, SAVED_BY_TABLE = 1.1e-4, 4.4e-9
"""What a call of the general way takes at least, and what it saves of a pair for each coordinate of long points, whose
distances it finds in a table."""


class FewPairs(
    Record, dim=Int, count=Int, code=Int, power=Double, single=Int, tile=ctypes.c_void_p, out=ctypes.c_void_p,
    exponent=Int, equal=Int,
):  # fmt: skip
    """A small collection, where answers go, and what is found about it (``native/exact/few_pairs.hpp``)."""


MOST_COPIED = 1 << 14
"""Bytes of points up to which they are copied: asking an array for its address takes ten times as long."""

_GIVEN = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p  # a record, points, offsets and masses
_solve = entry("few_pairs", *_GIVEN, checked=False)
_solve_lines = entry("few_lines", *_GIVEN, checked=False)
_NOT_ORDINARY = 2


class _Table(NamedTuple):
    """A record and where it lies, room for answers, and what else the record points to."""

    few: FewPairs
    place: int
    values: Float
    steps: NDArray[np.int32]
    units: Float | None  # where NumPy is to take roots, and multiply with them
    kept: tuple[Any, ...]


def _laid(rows: Indices, columns: Indices, **told: Any) -> _Table:
    """A record and room for the answers of some pairs."""
    tile, values, steps = tile_of(rows, columns)
    units = np.empty(len(rows))
    out = AnyCostOut(units=units, reach=np.empty(len(rows)))
    few = FewPairs(tile=ctypes.addressof(tile), out=ctypes.addressof(out), **told)
    is_final = told["power"] in (1, 2) or told["dim"] == 1
    return _Table(few, ctypes.addressof(few), values, steps, None if is_final else units, (tile, out))


MOST_LAID = 64
"""Pairs whose room is used again."""


@functools.lru_cache(maxsize=64)
def _desks(n_first: int, n_second: int, dim: int, metric: str, p: float, single: bool) -> Desks[_Table]:
    """Records for all pairs of so many distributions, or of those with so many others, used again: making one takes
    longer than solving a pair of five points."""
    told: Any = {"dim": dim, "count": n_first + n_second, "code": METRICS[metric], "power": p, "single": single}
    return Desks(lambda: _laid(*_places(n_first, n_second), **told))


@functools.lru_cache(maxsize=1024)
def _plain_desks(n: int, dim: int, n_offsets: int, metric: str, kind: str) -> Desks[_Table] | None:
    """The same for W_1 within a collection of n points, unless it is large, on a line, or under another metric."""
    count = n_offsets - 1
    n_pairs = count * (count - 1) // 2
    if dim == 1 or metric not in METRICS or n_pairs > MOST_LAID or not _are_few(dim, metric, n, count, n_pairs):
        return None
    return _desks(count, 0, dim, metric, 1.0, kind == "f")


def solve(
    D: Distributions, E: Distributions | None, p: float, metric: str, device: str, n_jobs: int, later: Later
) -> Distances | None:
    """W_p of all pairs within D, or between D and E, where they are few and small; None if they are not ordinary."""
    n_first, n_second = len(D), 0 if E is None else len(E)
    kept = (n_second or n_first // 2) * n_first <= MOST_LAID
    single = D.dim > 1 and (D if E is None else D + E).points.dtype.char == "f"
    desks = (_desks if kept else _desks.__wrapped__)(n_first, n_second, D.dim, metric, p, single)
    return _solved(desks, D, E, p, metric, device, n_jobs, later)


def _solved(
    desks: Desks[_Table], D: Distributions, E: Distributions | None, p: float, metric: str, device: str, n_jobs: int,
    later: Later,
) -> Distances | None:  # fmt: skip
    """The same with these records."""
    started = time.perf_counter()
    pooled = D if E is None else D + E
    points, kernel = pooled.points, _solve
    if points.shape[1] == 1:
        points, kernel = points.astype(np.float64, copy=False), _solve_lines
    table = desks.take()
    few, place, values, steps, units, _ = table
    if points.nbytes <= MOST_COPIED:
        where: bytes | int = points.tobytes()
    else:
        points = np.ascontiguousarray(points)
        where = address(points, points.dtype)
    code = kernel(place, where, pooled.offsets.tobytes(), pooled.masses.tobytes())
    if code and refused(code) == _NOT_ORDINARY:
        desks.put_back(table)
        return None
    values = values.copy() if units is None else units * values ** (1.0 / p)
    pivots, equal = steps.tolist(), few.equal
    desks.put_back(table)
    seconds = time.perf_counter() - started
    return Distances.quickly(values, ((_rest, ((D, E, p, metric, device, n_jobs), pivots, equal, seconds)), later))


def _rest(
    asked: tuple[Distributions, Distributions | None, float, str, str, int],
    pivots: list[int],
    equal: int,
    seconds: float,
) -> Info:
    """The fields of such a result other than its values. ``asked``: what `_solved` was, in this order."""
    D, E, p, metric, device, n_jobs = asked
    dim, n = D.dim, len(D.masses) + (0 if E is None else len(E.masses))
    if dim == 1:
        own = describe_line(metric, bool(equal))
    else:
        own = describe(metric, n, bool(equal)) if p == 1 else describe_any(metric, n)
    info = {**own, **_note(Distance(p, metric), dim, device, n_jobs)}
    return _fields(D, E, np.array(pivots, np.int32), np.zeros(len(pivots), np.int8), info, seconds, seconds)


def _places(n_first: int, n_second: int) -> tuple[Indices, Indices]:
    """Rows and columns of all pairs, in the order of the pooled collection."""
    pairs = CrossPairs(n_first, n_second) if n_second else AllPairs(n_first)
    rows, columns = pairs.indices(0, len(pairs))
    return rows, columns + n_first if n_second else columns


def in_runs(
    make: Callable[[], Solver], D: Distributions, E: Distributions | None, known: Callable[[], Info], later: Later
) -> Distances:
    """All pairs by a solver that takes runs, such as that of a line; ``known`` makes what is told about the call,
    ``later`` what others know."""
    started = time.perf_counter()
    solver, pairs, begun = make(), _pairs(D, E), time.perf_counter()
    found = empty_solution(len(pairs))
    solver.solve_runs(*pairs.runs(0, len(pairs)), found, np.zeros(1, dtype=np.int64))
    ended = time.perf_counter()

    def rest() -> dict[str, Any]:
        info = {**solver.info, **known()}
        return _fields(D, E, found.n_iter, found.status, info, ended - started, ended - begun)

    return Distances.quickly(found.values, ((rest, ()), later))


def _fields(
    D: Distributions, E: Distributions | None, steps: NDArray[np.int32], status: NDArray[np.int8], info: Info,
    seconds: float, on_pairs: float,
) -> Info:  # fmt: skip
    """The fields of a result other than its values."""
    own = {"names": (D.given_ids, D.given_ids if E is None else E.given_ids), "offsets": D.offsets}
    return {**counted(_pairs(D, E), steps, status, info, seconds, on_pairs), **own}


def counted(
    pairs: PairSet, steps: NDArray[np.int32], status: NDArray[np.int8], info: Info, seconds: float, on_pairs: float
) -> Info:
    """The fields that say how all pairs were solved."""
    counts = {"n_pairs": len(pairs), "n_not_converged": 0, "seconds": seconds, "seconds_on_pairs": on_pairs}
    return {"status": status, "n_iter": steps, "pair_set": pairs, "info": {**info, **counts}}


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
    D: Distributions, E: Distributions | None, p: Any, metric: Any, words: tuple[Any, Any, Any, Any], later: Later
) -> Distances | None:
    """All pairs of an ordinary call, if they are few and small: then what is around a solver costs more than it.

    ``words``: device, n_jobs, memory, progress. ``later`` makes fields of the result that others know. Nothing is made
    of the arguments but what is needed, since a pair of five points takes a microsecond. The plainest call is read here
    and now: asking one function after the other takes longer than the pair.
    """
    device, n_jobs, memory, progress = words
    if (
        E is None and memory is None and (progress is None or progress is False) and type(p) is int and p == 1
        and type(metric) is str and type(device) is str and (device == "auto" or device == "cpu")
        and (joblib_is_idle() if n_jobs is None else type(n_jobs) is int and n_jobs > 0)
    ):  # fmt: skip
        points = D.__dict__.get("points")
        desks = None if points is None else _plain_desks(*points.shape, len(D.offsets), metric, points.dtype.char)
        if desks is not None:
            return _solved(desks, D, None, 1.0, metric, device, n_jobs or 1, later)
    return _less_plain(D, E, p, metric, words, later)


def _less_plain(
    D: Distributions, E: Distributions | None, p: Any, metric: Any, words: tuple[Any, Any, Any, Any], later: Later
) -> Distances | None:
    """The same for two collections, points on a line, and other words."""
    device, n_jobs, memory, progress = words
    if not (type(metric) is str and metric in METRICS and is_usual(device, n_jobs, progress)):
        return None
    order, dim = as_order(p), D.dim
    turned = None if E is None or order != 1 else few_are_columns(D, E, metric)
    if turned is None and not are_few(D, E, dim, metric):
        return None
    if memory is not None:
        as_bytes(memory, 1)  # refuses what is no amount
    jobs = 1 if n_jobs is None else as_n_jobs(n_jobs)
    if E is not None and turned is not None:
        if len(D) * len(E) * seconds_of_pair(D, E) > LOPSIDED_SECONDS:
            return None
        reason = devices.on_cpu(device, A_SUM).reason
        known = {"p": 1, "estimate": "exact", "device_reason": reason, "n_jobs": jobs}
        return in_runs(lambda: lopsided_solver(D, E, metric, turned), D, E, lambda: known, later)
    if dim > 1 or len(D.offsets) + (0 if E is None else len(E)) <= FEW + 1:
        return solve(D, E, order, metric, device, jobs, later)
    distance = Distance(order, metric)

    def on_a_line() -> Solver:
        return line_solver(D, distance, 0) if E is None else line_solver(D + E, distance, len(D))

    return in_runs(on_a_line, D, E, lambda: _note(distance, dim, device, jobs), later)


def _note(distance: Distance, dim: int, device: str, n_jobs: int) -> Info:
    """For ``info`` of the fast lane."""
    known = {"device_reason": on_cpu(distance, dim, device).reason, "n_jobs": n_jobs}
    if distance.p == 1 and dim > 1:
        return {"p": 1, "estimate": "exact", **known}
    return {"estimate": "exact", **distance.info, **known}


def are_few(D: Distributions, E: Distributions | None, dim: int, metric: str) -> bool:
    """Whether the pairs within D, or between D and E, are few and small."""
    n, count = len(D.masses), len(D.offsets) - 1
    if E is None:
        return _are_few(dim, metric, n, count, count * (count - 1) // 2)
    more = len(E.offsets) - 1
    return _are_few(dim, metric, n + len(E.masses), count + more, count * more)


@functools.lru_cache(maxsize=1024)  # the formula takes as long as a pair of five points
def _are_few(dim: int, metric: str, n: int, count: int, n_pairs: int) -> bool:
    """The same for n points in all."""
    if n_pairs == 0:
        return False
    if dim == 1:
        return OneDimension.most_seconds(n_pairs, n, n / count) < MOST_SECONDS
    if n > MOST_POINTS or (metric == "euclidean" and dim >= LONG and n_pairs * dim * SAVED_BY_TABLE > CALL_SECONDS):
        return False
    return n_pairs * float(laid_out_seconds(n / count, n / count, dim)) < MOST_SECONDS
