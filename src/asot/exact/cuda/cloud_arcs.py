"""Arcs of plans between clouds of points on an NVIDIA GPU: their prices, and the gradients of these in the points.

Kernels read coordinates where they lie, in float32 or float64, and sum in float64 (``cloud_arcs.cu``); nothing is
gathered. A gradient is added up by the warp of its point, in one order, so that it is the same every time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from asot.gpu.cuda import Variant, load

WARPS = 8
"""Of a block."""

REALS = ("float", "double")


def variants(shared_memory: int) -> Iterator[Variant]:
    """Kernels that are compiled ahead (`asot.gpu.cuda.Variant`)."""
    for real in REALS:
        yield "cloud_arcs", {"REAL": real}


class DevicePoints(NamedTuple):
    """Points (size, dim) of one side. Arrays are CuPy's, here and below, or addresses of memory on the GPU."""

    array: Any
    size: int
    dim: int
    real: str
    """Type of coordinates, one of `REALS`."""


class DeviceArcs(NamedTuple):
    """E arcs of P pairs."""

    size: int  # E
    source: Any  # (E,) int64
    sink: Any  # (E,) int64
    pair: Any  # (E,) int64
    mass: Any  # (E,) float64
    shrink: Any  # (P,) float64: what the coordinates of a pair are multiplied with
    slope: Any  # (P,) float64: what gradients in shrunk coordinates are multiplied with
    power: float


def price(x: DevicePoints, y: DevicePoints, arcs: DeviceArcs, prices: Any) -> None:
    """Write |x_source - y_sink|^power of every arc to ``prices`` (E,) float64; 0 where its mass is."""
    if arcs.size:
        load("cloud_arcs", {"REAL": x.real}).get_function("price_arcs")(
            (-(-arcs.size // WARPS),), (32 * WARPS,),
            (x.array, y.array, np.int32(x.dim), arcs.source, arcs.sink, arcs.pair, arcs.shrink, arcs.mass,
             np.float64(arcs.power), np.int64(arcs.size), prices),
        )  # fmt: skip


class DeviceEnds(NamedTuple):
    """The arcs of each point of one side."""

    order: Any  # (E,) int64: all arcs, those of one point after those of another
    ends: Any  # (size,) int64: where those of a point end
    far_end: Any  # (E,) int64: the other point of an arc


def differentiate(
    own: DevicePoints, other: DevicePoints, arcs: DeviceArcs, ends: DeviceEnds, prices: Any, weights: Any, gradient: Any
) -> None:
    """Write the gradient (size, dim) of Σ weights · prices in the points ``own``."""
    if own.size and own.dim:
        load("cloud_arcs", {"REAL": own.real}).get_function("differentiate_arcs")(
            (-(-own.size // WARPS),), (32 * WARPS,),
            (own.array, other.array, np.int32(own.dim), *ends, arcs.pair, arcs.shrink, arcs.slope, prices, weights,
             np.float64(arcs.power), np.int64(own.size), gradient),
        )  # fmt: skip
