"""A few pairs of histograms under one small cost, solved at once and by the shortest way.

Two histograms on thirty anchors are solved in microseconds; reading, preparing and running them as one would thousands
takes a quarter of a millisecond. Here one compiled function checks, prepares and solves. Answers are the same, bit for
bit, and so is ``info``: it takes the steps of `asot.validation` and `asot.exact.shared_cost`, or of
`asot.exact.cancel_and_check`, in their order. Whatever is not ordinary, such as bad input, goes the general way.
"""

from __future__ import annotations

import ctypes
import functools
import time
from typing import Any

import numpy as np

from asot._typing import Info
from asot.exact.cancel_and_check import SLACK, TRIANGLES, random_triangles
from asot.exact.cancel_and_check import describe as describe_by_itself
from asot.exact.cost_check import ALWAYS_CHECKED, FEWEST, preparing_costs_more
from asot.exact.few_pairs import MOST_SECONDS, is_usual, one_tile, tile_of
from asot.exact.price import shared_cost_seconds
from asot.exact.shared_cost import OFFSET_WEIGHT, describe
from asot.native import Desks, Double, Int, Record, Tile, entry
from asot.native.records import address
from asot.results.distances import Distances
from asot.run.devices import on_cpu
from asot.run.pairs import AllPairs, CrossPairs
from asot.validation import as_bytes, as_n_jobs


class FewHistograms(Record):
    """Sizes, and what is found (``native/exact/few_histograms.cpp``)."""

    _fields_ = [  # noqa: RUF012
        ("n", Int), ("m", Int), ("k", Int), ("l", Int), ("by_itself", Int), ("triangles", Int), ("slack", Double),
        ("weight", Double), ("canceled", Int),
    ]  # fmt: skip


MOST_ROWS = 100
"""Of one set: pairs of more are never so few that they take no longer than `MOST_SECONDS`."""

_BYTES = ctypes.c_char_p
_solve = entry("few_histograms", FewHistograms, _BYTES, _BYTES, ctypes.c_void_p, _BYTES, Tile)
_NOT_ORDINARY = 2
_DOUBLE = np.dtype(np.float64)


_desks = Desks(lambda: (FewHistograms(triangles=TRIANGLES, slack=SLACK, weight=OFFSET_WEIGHT), one_tile()))
"""What every call fills in anew."""


def solve(A: Any, B: Any, cost: Any, device: Any, n_jobs: Any, memory: Any, progress: Any) -> Distances | None:
    """All pairs of rows (N, k) of A, or of A and rows (M, l) of B, under a cost (k, l), if they are few and small."""
    if not (_is_ordinary(A) and _is_ordinary(cost) and (B is None or _is_ordinary(B))):
        return None
    started = time.perf_counter()
    (n, k), (rows, l) = A.shape, cost.shape
    m = 0 if B is None else len(B)
    n_pairs = n * m if m else n * (n - 1) // 2
    fits = k == rows and (k == l if B is None else m > 0 and B.shape[1] == l)
    if not (fits and n_pairs > 0 and _are_few(n + m, n_pairs, k, l) and is_usual(device, n_jobs, progress)):
        return None
    by_itself = max(k, l) > ALWAYS_CHECKED
    if by_itself and not preparing_costs_more(A, B, cost, n_pairs):
        return None
    if memory is not None:
        as_bytes(memory, 1)  # refuses what is no amount
    jobs = 1 if n_jobs is None else as_n_jobs(n_jobs)
    pairs = AllPairs(n) if B is None else CrossPairs(n, m)
    desk = few, one_pair = _desks.take()
    is_one = n == 2 and not m
    tile, values, steps = one_pair if is_one else tile_of(*pairs.indices(0, n_pairs))
    few.n, few.m, few.k, few.l, few.by_itself = n, m, k, l, by_itself
    second, triangles = None if B is None else B.tobytes(), random_triangles(k) if by_itself else None
    costs = address(cost, _DOUBLE) if by_itself and cost.flags.c_contiguous else cost.tobytes()
    code = _solve(few, A.tobytes(), second, costs, triangles, tile)
    if is_one:
        values = values.copy()
    pivots, canceled = steps.tolist(), bool(few.canceled)
    _desks.put_back(desk)
    if code == _NOT_ORDINARY:
        return None
    seconds = time.perf_counter() - started

    def rest() -> dict[str, Any]:
        own: Info = describe_by_itself(canceled) if by_itself else describe(canceled)
        known = {
            "device_reason": on_cpu(device, "too little work for a GPU").reason,
            "n_jobs": jobs,
            "n_pairs": n_pairs,
        }
        timed = {"n_not_converged": 0, "seconds": seconds, "seconds_on_pairs": seconds}
        return {
            "status": np.zeros(n_pairs, np.int8),
            "n_iter": np.array(pivots, np.int32),
            "pair_set": pairs,
            "info": {**own, **known, **timed},
            "names": (None, None),
            "offsets": None,
            "model": None,
        }

    return Distances.quickly(values, rest)


def _is_ordinary(array: Any) -> bool:
    return type(array) is np.ndarray and array.ndim == 2 and array.dtype.char == "d"


@functools.lru_cache(maxsize=1024)
def _are_few(n: int, n_pairs: int, k: int, l: int) -> bool:
    """Whether n histograms in all, and their pairs, are few and small."""
    most = max(k, l)
    return most < FEWEST and n * most < 2**14 and n_pairs * shared_cost_seconds(k + l) < MOST_SECONDS
