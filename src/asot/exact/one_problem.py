"""One small problem with a cost of its own, solved directly: what `asot.emd` does up to a few dozen anchors.

Preparing a shared cost for many pairs takes ten times as long as solving one of thirty anchors. Here the kernel of
batches gets the arrays as they are. Whatever is not ordinary, such as bad input, goes the general way.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.exact.batch import BatchPlans, BatchProblems, solve_batch_tile
from asot.native import Tile
from asot.results.plans import Transport

MOST_ANCHORS = 64
"""Up to this many on each side, potentials from integers are right to 1e-13 of the largest cost."""

_ZERO = np.zeros(1, dtype=np.int64)


class _Desk(threading.local):
    """Room for one problem, filled in anew for every call of a thread."""

    def __init__(self) -> None:
        room, most = 2 * MOST_ANCHORS, MOST_ANCHORS
        self.k, self.l = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        self.counts = np.zeros(1, dtype=np.int64)
        self.source, self.sink = np.zeros(room, dtype=np.int32), np.zeros(room, dtype=np.int32)
        self.mass, self.f, self.g = np.zeros(room), np.zeros(most), np.zeros(most)
        self.a, self.b, self.cost = np.zeros(most), np.zeros(most), np.zeros(most * most)
        self.values = np.zeros(1)
        self.problem = BatchProblems(
            rows_at=_ZERO, rows=self.k, row_mass=self.a, columns_at=_ZERO, columns=self.l, column_mass=self.b,
            cost=self.cost, cost_at=_ZERO, cost_stride=self.l,
        )  # fmt: skip
        self.plans = BatchPlans(
            arcs_at=_ZERO, n_arcs=self.counts, source=self.source, sink=self.sink, mass=self.mass, f_at=_ZERO,
            f=self.f, g_at=_ZERO, g=self.g,
        )  # fmt: skip
        self.tile = Tile(
            n=1, rows=_ZERO, columns=_ZERO, values=self.values, steps=np.zeros(1, np.int32), stop=np.zeros(1, np.int64)
        )


_desk = _Desk()


def solve_small(a: Any, b: Any, cost: Any) -> Transport | None:
    """Value, plan and potentials of masses (k,) and (l,) under a cost (k, l); None if they are not ordinary."""
    if not (_is_ordinary(a, 1) and _is_ordinary(b, 1) and _is_ordinary(cost, 2)):
        return None
    k, l = cost.shape
    if a.shape != (k,) or b.shape != (l,) or not 0 < min(k, l) <= max(k, l) <= MOST_ANCHORS:
        return None
    low, high = float(cost.min()), float(cost.max())  # NaN if there is one
    if not 0.0 <= low <= high < 1e100 or (0.0 < high < 1e-100):
        return None
    desk = _desk
    if not (_scaled(a, desk.a) and _scaled(b, desk.b)):
        return None
    desk.cost[: k * l] = cost.reshape(-1)
    desk.k[0], desk.l[0] = k, l
    desk.problem.most_rows, desk.problem.most_columns = k, l
    solve_batch_tile(desk.problem, desk.plans, desk.tile)
    own = slice(0, int(desk.counts[0]))
    plan = _rows(desk.source[own], desk.sink[own], desk.mass[own], (k, l))
    return Transport(float(desk.values[0]), plan, (desk.f[:k].copy(), desk.g[:l].copy()))


def _is_ordinary(array: Any, ndim: int) -> bool:
    return type(array) is np.ndarray and array.ndim == ndim and array.dtype.char == "d"


def _scaled(masses: NDArray[np.float64], out: NDArray[np.float64]) -> bool:
    """Masses of total 1 into ``out``; False if they are none."""
    given = masses.tolist()  # far quicker than NumPy for a few numbers
    total = math.fsum(given)
    if not (min(given) >= 0.0 and 1e-100 < total < 1e100):
        return False
    np.divide(masses, total, out=out[: len(given)])
    return True


def _rows(source: NDArray[np.int32], sink: NDArray[np.int32], mass: NDArray[np.float64], shape: tuple[int, int]) -> Any:
    """Arcs as scipy.sparse.csr_array."""
    from scipy import sparse

    order = np.argsort(source * shape[1] + sink)
    start = np.zeros(shape[0] + 1, dtype=np.int32)
    np.cumsum(np.bincount(source, minlength=shape[0]), out=start[1:])
    return sparse.csr_array((mass[order], sink[order], start), shape=shape)
