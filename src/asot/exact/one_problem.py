"""One problem with a cost of its own, solved directly: what `asot.emd` does up to a few dozen anchors, or if all
masses are equal.

Preparing a shared cost for many pairs takes ten times as long as solving one of thirty anchors. Here the kernel of
batches gets the arrays as they are. Whatever is not ordinary, such as bad input, goes the general way.
"""

from __future__ import annotations

import ctypes
import math
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float
from asot.exact.batch import Costs, ExactBatch, Side
from asot.native import Desks, Double, Doubles, Int, Record, ShortInts, entry
from asot.native.records import refused
from asot.results.plans import PackedSolution, Transport
from asot.run.executors import alone

MOST_ANCHORS = 64
"""Up to this many on each side, potentials from integers are right to 1e-13 of the largest cost."""


class OneProblem(
    Record, k=Int, l=Int, row_total=Double, column_total=Double, numbers=Doubles, places=ShortInts, arcs=ShortInts,
    n_arcs=Int,
):  # fmt: skip
    """A problem and its answer (``native/exact/batch.cpp``)."""


# As bytes, since asking an array for its address takes ten times as long as copying a small one.
_solve = entry("one_problem", ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, checked=False)
_write = struct.Struct("=2q2d").pack_into  # the first fields, twice as fast as one by one
_NOT_ORDINARY = 2


def _desk() -> tuple[OneProblem, int, Float, NDArray[np.int32]]:
    """Room for one problem, filled in anew for every call: a record and where it lies, and its numbers."""
    room = 2 * MOST_ANCHORS
    numbers, places = np.empty(1 + 2 * room), np.empty(1 + 2 * room, dtype=np.int32)
    arcs = np.empty(3 * room, dtype=np.int32)
    problem = OneProblem(numbers=numbers, places=places, arcs=arcs)
    return problem, ctypes.addressof(problem), numbers, places


_desks = Desks(_desk)


def solve_small(a: Any, b: Any, cost: Any) -> Transport | None:
    """Value, plan and potentials of masses (k,) and (l,) under a cost (k, l); None if they are not ordinary."""
    if not (type(a) is type(b) is type(cost) is np.ndarray and a.dtype.char == b.dtype.char == cost.dtype.char == "d"):
        return None
    if cost.ndim != 2 or not 0 < cost.size <= MOST_ANCHORS**2:
        return None
    k, l = cost.shape
    if a.shape != (k,) or b.shape != (l,) or max(k, l) > MOST_ANCHORS:
        return None
    try:
        row_total, column_total = math.fsum(a.tolist()), math.fsum(b.tolist())  # quicker than NumPy for a few numbers
    except (OverflowError, ValueError):  # infinite
        return None
    if not (1e-100 < row_total < 1e100 and 1e-100 < column_total < 1e100):
        return None
    desk = problem, place, numbers, places = _desks.take()
    _write(problem, 0, k, l, row_total, column_total)
    code = _solve(place, a.tobytes(), b.tobytes(), cost.tobytes())
    if code and refused(code) == _NOT_ORDINARY:
        _desks.put_back(desk)
        return None
    n_arcs = problem.n_arcs
    found, arcs = numbers[: 1 + k + l + n_arcs].copy(), places[: k + 1 + n_arcs].copy()
    _desks.put_back(desk)
    return Transport(found.item(0), PackedSolution(found, arcs, k, l), None)


def solve_matching(a: Float, b: Float, cost: Float) -> Transport | None:
    """Value, plan and potentials of checked histograms (n,) and (n,) of equal masses under a cost (n, n); else None.

    The cheapest plan is then a matching, and the solver of batches knows a shorter way to it than the simplex.
    """
    n, m = cost.shape
    largest = float(cost.max())
    if n != m or a.min() != a.max() or b.min() != b.max() or not 1e-100 < largest < 1e100:
        return None
    one, size = np.zeros(1, dtype=np.int64), np.full(1, n, dtype=np.int64)
    costs = Costs(np.ascontiguousarray(cost).reshape(-1), one, size)
    solver = ExactBatch(Side(one, size, None), Side(one, size, None), costs, plans=True, potentials=True)
    found = alone(lambda stop: solver.solve(one, one, stop), solver.expected_seconds(1))
    source, sink, mass = solver.arcs_of(0)
    order = np.lexsort((sink, source))
    start = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=n))])
    numbers = np.concatenate([found.values, *solver.potentials_of(0), mass[order]])
    places = np.concatenate([start, sink[order]]).astype(np.int32)
    return Transport(found.values.item(0), PackedSolution(numbers, places, n, n), None)
