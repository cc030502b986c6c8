"""Plans between clouds, i-th with i-th, on an NVIDIA GPU: their values, and the gradients of these in the points.

Where every point belongs to one pair, its arcs are among the few of that pair, and nothing has to be sorted; a pair's
values, and a point's gradient, take one launch each (``cloud_pairs.cu``). Other pairs: `asot.exact.cuda.cloud_arcs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from asot.exact.cuda.cloud_arcs import REALS
from asot.gpu.cuda import Variant, load

WARPS = 8
"""Of a block."""


def variants(shared_memory: int) -> Iterator[Variant]:
    """Kernels that are compiled ahead (`asot.gpu.cuda.Variant`)."""
    for real in REALS:
        yield "cloud_pairs", {"REAL": real}


class DeviceClouds(NamedTuple):
    """The clouds of P pairs on one side. Arrays are CuPy's, here and below, or addresses of memory on the GPU."""

    points: Any  # (N, dim), one cloud after the other
    starts: Any  # (P,) int64
    sizes: Any  # (P,) int64
    most: int  # no size is larger


class DevicePlans(NamedTuple):
    """Plans of P pairs: that of n and m points has n + m arcs, from ``arcs_at`` on, with ends that count within it."""

    problems: int  # P
    arcs_at: Any  # (P,) int64
    source: Any  # (arcs,) int64
    sink: Any  # (arcs,) int64
    mass: Any  # (arcs,) float64
    prices: Any  # (arcs,) float64: |x - y|^power, or 0 where mass is
    totals: Any  # (P,) float64: the sums of mass · price


class Form(NamedTuple):
    """Values are (Σ mass · |x - y|^power)^(1 / order)."""

    dim: int  # ≥ 1
    real: str  # type of coordinates, values and weights, one of `REALS`
    power: float
    order: float


def look(x: DeviceClouds, y: DeviceClouds, count: int, form: Form, sizes: tuple[float, float], refused: Any) -> None:
    """Set ``refused`` (1,) int32 to 1 if a coordinate is not finite, or the largest one of a pair neither 0 nor within
    ``sizes``: at least the first, and less than the second."""
    _kernel("look_at_pairs", form.real)(
        (count,), (32 * WARPS,),
        (x.points, y.points, np.int32(form.dim), *x[1:3], *y[1:3], *map(np.float64, sizes), refused),
    )  # fmt: skip


def price(x: DeviceClouds, y: DeviceClouds, plans: DevicePlans, form: Form, values: Any, refused: Any) -> None:
    """Write ``values`` (P,), and prices and totals of the plans. Set ``refused`` (1,) int32 to 1 if all that is shipped
    in a pair goes so short a way that its price has lost digits."""
    _kernel("price_pairs", form.real)(
        (plans.problems,), (32 * WARPS,),
        (x.points, y.points, np.int32(form.dim), *x[1:3], *y[1:3], *plans[1:5], np.float64(form.power),
         np.float64(form.order), plans.prices, plans.totals, values, refused),
    )  # fmt: skip


def differentiate(
    own: DeviceClouds, other: DeviceClouds, plans: DevicePlans, form: Form, weights: Any, step: int, gradient: Any
) -> None:
    """Write the gradient (N, dim) of Σ weights · values in the points ``own``, for plans whose ``source`` is that side.
    Pair t has ``weights[step · t]``."""
    chunks = -(-own.most // WARPS)
    _kernel("differentiate_pairs", form.real)(
        (plans.problems * chunks,), (32 * WARPS,),
        (*own[:3], *other[:3], np.int32(form.dim), *plans[1:], weights, np.int64(step), np.float64(form.power),
         np.float64(form.order), np.int32(chunks), gradient),
    )  # fmt: skip


def _kernel(name: str, real: str) -> Any:
    return load("cloud_pairs", {"REAL": real}).get_function(name)
