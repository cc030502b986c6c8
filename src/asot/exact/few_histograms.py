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
from asot.exact.cost_check import ALWAYS_CHECKED, FEWEST, preparing_costs_more, seconds_per_pair, used_anchors
from asot.exact.few_pairs import MOST_LAID, MOST_SECONDS, counted, is_usual
from asot.exact.graph_metric import FEWEST as FEWEST_POINTS
from asot.exact.price import graph_pays, shared_cost_seconds
from asot.exact.shared_cost import OFFSET_WEIGHT, describe
from asot.native import Desks, Double, Int, Record, Tile, entry, tile_of
from asot.native.records import address
from asot.results.distances import Distances
from asot.run.devices import on_cpu
from asot.run.pairs import AllPairs, CrossPairs
from asot.validation import as_bytes, as_histograms, as_n_jobs


class FewHistograms(
    Record, n=Int, m=Int, k=Int, l=Int, scaled=Int, by_itself=Int, triangles=Int, slack=Double, weight=Double,
    canceled=Int,
):  # fmt: skip
    """Sizes, and what is found (``native/exact/few_histograms.cpp``)."""


MOST_ROWS = 100
"""Of one set: pairs of more are never so few that they take no longer than `MOST_SECONDS`."""

MOST_MASSES, MOST_ANCHORS = 2**14, 512
"""Of all rows together, and in use: more take long to copy and to look at."""

_BYTES = ctypes.c_char_p
_solve = entry("few_histograms", FewHistograms, _BYTES, _BYTES, ctypes.c_void_p, _BYTES, Tile)
_NOT_ORDINARY = 2
_DOUBLE = np.dtype(np.float64)


def solve(A: Any, B: Any, cost: Any, device: Any, n_jobs: Any, memory: Any, progress: Any) -> Distances | None:
    """All pairs of rows (N, k) of A, or of A and rows (M, l) of B, under a cost (k, l), if they are few and small."""
    if not (_is_ordinary(A) and _is_ordinary(cost) and (B is None or _is_ordinary(B))):
        return None
    started = time.perf_counter()
    (n, k), (rows, l) = A.shape, cost.shape
    m = 0 if B is None else len(B)
    n_pairs = n * m if m else n * (n - 1) // 2
    fits = k == rows and (k == l if B is None else m > 0 and B.shape[1] == l)
    if not (fits and n_pairs > 0 and is_usual(device, n_jobs, progress)):
        return None
    scaled = max(k, l) >= FEWEST
    if scaled:
        narrow = _on_used_anchors(A, B, cost, n_pairs)
        if narrow is None:
            return None
        A, B, cost = narrow
        k, l = cost.shape
    by_itself = max(k, l) > ALWAYS_CHECKED
    if not (_are_sparse(A, B, cost, n_pairs) if by_itself else _are_few(n + m, n_pairs, k, l)):
        return None
    if memory is not None:
        as_bytes(memory, 1)  # refuses what is no amount
    jobs = 1 if n_jobs is None else as_n_jobs(n_jobs)
    pairs = AllPairs(n) if B is None else CrossPairs(n, m)
    desks = (_desks if n_pairs <= MOST_LAID else _desks.__wrapped__)(n, m)
    desk = few, (tile, values, steps) = desks.take()
    few.n, few.m, few.k, few.l, few.scaled, few.by_itself = n, m, k, l, scaled, by_itself
    second, triangles = None if B is None else B.tobytes(), random_triangles(k) if by_itself else None
    costs = address(cost, _DOUBLE) if by_itself and cost.flags.c_contiguous else cost.tobytes()
    code = _solve(few, A.tobytes(), second, costs, triangles, tile)
    values, pivots, canceled = values.copy(), steps.tolist(), bool(few.canceled)
    desks.put_back(desk)
    if code == _NOT_ORDINARY:
        return None
    seconds = time.perf_counter() - started

    def rest() -> dict[str, Any]:
        own: Info = describe_by_itself(canceled) if by_itself else describe(canceled)
        reason = on_cpu(device, "too little work for a GPU").reason
        info, steps = {**own, "device_reason": reason, "n_jobs": jobs}, np.array(pivots, np.int32)
        fields = counted(pairs, steps, np.zeros(n_pairs, np.int8), info, seconds, seconds)
        return {**fields, "names": (None, None), "offsets": None, "model": None}

    return Distances.quickly(values, ((rest, ()),))


@functools.lru_cache(maxsize=1024)  # the formula takes as long as a small pair
def _are_few(n: int, n_pairs: int, k: int, l: int) -> bool:
    """Whether n histograms in all, and their pairs under a cost that is prepared, are few and small."""
    return n * max(k, l) < MOST_MASSES and n_pairs * shared_cost_seconds(k + l) < MOST_SECONDS


def _are_sparse(A: Any, B: Any, cost: Any, n_pairs: int) -> bool:
    """The same for pairs that are better solved by themselves."""
    most, n = max(cost.shape), len(A) + (0 if B is None else len(B))
    if n * most >= MOST_MASSES or most >= MOST_ANCHORS or not preparing_costs_more(A, B, cost, n_pairs):
        return False
    each = min(shared_cost_seconds(sum(cost.shape)), seconds_per_pair(A, B))
    return n_pairs * each < MOST_SECONDS and not (most >= FEWEST_POINTS and graph_pays(most, each, n_pairs))


@functools.lru_cache(maxsize=64)
def _desks(n: int, m: int) -> Desks[Any]:
    """What calls fill in anew for all pairs of n rows, or of n with m: a record, and a tile with room for values."""
    pairs = CrossPairs(n, m) if m else AllPairs(n)

    def make() -> Any:
        few = FewHistograms(triangles=TRIANGLES, slack=SLACK, weight=OFFSET_WEIGHT)
        return few, tile_of(*pairs.indices(0, len(pairs)))

    return Desks(make)


def _is_ordinary(array: Any) -> bool:
    return type(array) is np.ndarray and array.ndim == 2 and array.dtype.char == "d"


def _on_used_anchors(A: Any, B: Any, cost: Any, n_pairs: int) -> tuple[Any, Any, Any] | None:
    """Rows of total 1 and a cost that is still unchecked, as `on_used_anchors` has them; None if they are not few."""
    if n_pairs * seconds_per_pair(A, B) > MOST_SECONDS:
        return None
    first, second = as_histograms(A, "A", len(cost)), None if B is None else as_histograms(B, "B", cost.shape[1])
    used = used_anchors(first, second, cost.shape)
    if used is None:
        return None
    i, j = used
    return first[:, i], None if second is None else second[:, j], cost[i[:, None], j]
