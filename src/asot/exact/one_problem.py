"""One problem with a cost of its own, solved directly: what `asot.emd` does up to a few dozen anchors, or if all
masses are equal.

Preparing a shared cost for many pairs takes ten times as long as solving one of thirty anchors. Here the kernel of
batches gets the arrays as they are. Whatever is not ordinary, such as bad input, goes the general way.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float
from asot.exact.batch import Costs, ExactBatch, Side
from asot.native import Desks, Double, Doubles, Int, Record, ShortInts, entry
from asot.results.plans import SparseArcs, Transport
from asot.run.executors import alone

MOST_ANCHORS = 64
"""Up to this many on each side, potentials from integers are right to 1e-13 of the largest cost."""


class OneProblem(Record):
    """A problem and its answer (``native/exact/batch.cpp``)."""

    _fields_ = [  # noqa: RUF012
        ("k", Int), ("l", Int), ("row_total", Double), ("column_total", Double), ("numbers", Doubles),
        ("places", ShortInts), ("arcs", ShortInts), ("n_arcs", Int),
    ]  # fmt: skip


# As bytes, since asking an array for its address takes ten times as long as copying a small one.
_solve = entry("one_problem", OneProblem, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p)
_NOT_ORDINARY = 2


def _desk() -> tuple[OneProblem, Float, NDArray[np.int32]]:
    """Room for one problem, filled in anew for every call."""
    room = 2 * MOST_ANCHORS
    numbers, places = np.empty(1 + 2 * room), np.empty(1 + 2 * room, dtype=np.int32)
    arcs = np.empty(3 * room, dtype=np.int32)
    return OneProblem(numbers=numbers, places=places, arcs=arcs), numbers, places


_desks = Desks(_desk)


def solve_small(a: Any, b: Any, cost: Any) -> Transport | None:
    """Value, plan and potentials of masses (k,) and (l,) under a cost (k, l); None if they are not ordinary."""
    if not (_is_ordinary(a, 1) and _is_ordinary(b, 1) and _is_ordinary(cost, 2)):
        return None
    k, l = cost.shape
    if a.shape != (k,) or b.shape != (l,) or not 0 < min(k, l) <= max(k, l) <= MOST_ANCHORS:
        return None
    totals = _total(a), _total(b)
    if min(totals) == 0.0:
        return None
    desk = problem, numbers, places = _desks.take()
    problem.k, problem.l = k, l
    problem.row_total, problem.column_total = totals
    is_ordinary = _solve(problem, a.tobytes(), b.tobytes(), cost.tobytes()) != _NOT_ORDINARY
    n_arcs = problem.n_arcs if is_ordinary else 0
    found, arcs = numbers[: 1 + k + l + n_arcs].copy(), places[: k + 1 + n_arcs].copy()
    _desks.put_back(desk)
    if not is_ordinary:
        return None
    plan = SparseArcs(found[1 + k + l :], arcs[k + 1 :], arcs[: k + 1], (k, l))
    return Transport(found.item(0), plan, (found[1 : 1 + k], found[1 + k : 1 + k + l]))


def _is_ordinary(array: Any, ndim: int) -> bool:
    return type(array) is np.ndarray and array.ndim == ndim and array.dtype.char == "d"


def _total(masses: Any) -> float:
    """The total of masses (n,); 0 if they are none."""
    given = masses.tolist()  # far quicker than NumPy for a few numbers
    total = math.fsum(given)
    return total if min(given) >= 0.0 and 1e-100 < total < 1e100 else 0.0


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
    start = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=n))]).astype(np.int32)
    return Transport(found.values.item(0), SparseArcs(mass[order], sink[order], start, (n, n)), solver.potentials_of(0))
