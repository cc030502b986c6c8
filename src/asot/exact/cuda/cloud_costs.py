"""Costs between long points of many pairs of clouds, as matrices, on an NVIDIA GPU (``cloud_costs.cu``).

A solver that computes the costs of a pair itself reads every point again for each eight points of the other side. From
32 coordinates on that takes longer than solving, and a table of all costs is smaller than the points.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from asot.exact.cuda.cloud_arcs import REALS
from asot.exact.cuda.own_costs import DeviceClouds, DeviceSide
from asot.gpu.cuda import Variant, load
from asot.ground.metrics import CHEBYSHEV, CITYBLOCK, EUCLIDEAN

SIDE, DEPTH, THREADS = 64, 16, 128
"""Of ``price_clouds``: costs along each side of a tile, coordinates at a time, threads of a block."""

METRICS = (EUCLIDEAN, CITYBLOCK, CHEBYSHEV)


def variants(shared_memory: int) -> Iterator[Variant]:
    """Kernels that are compiled ahead (`asot.gpu.cuda.Variant`)."""
    for metric in METRICS:
        for real in REALS:
            yield "cloud_costs", {"METRIC": metric, "REAL": real}


class Watch(NamedTuple):
    """Whom to tell of coordinates that are not finite or not ordinary."""

    sizes: tuple[
        float, float
    ]  # the largest size of a pair's coordinates is 0, or at least the first and less than this
    refused: Any  # (1,) int32, becomes 1; also, though seldom, for pairs that are ordinary


def price(
    count: int,
    rows: DeviceSide,
    columns: DeviceSide,
    clouds: DeviceClouds,
    real: str,
    out: Any,
    watch: Watch | None = None,
) -> None:
    """Write the costs of ``count`` problems to ``out`` (count, rows.most, columns.most) float64. ``real``: the type of
    coordinates, one of `REALS`."""
    tiles = -(-rows.most // SIDE) * -(-columns.most // SIDE)
    if count and tiles:
        import cupy

        shrink = cupy.empty(0) if clouds.shrink is None else clouds.shrink
        sizes, refused = ((0.0, np.inf), cupy.empty(0, dtype=np.int32)) if watch is None else watch
        kernel = load("cloud_costs", {"METRIC": clouds.metric, "REAL": real}).get_function("price_clouds")
        kernel(
            (count * tiles,), (THREADS,),
            (clouds.x, clouds.y, np.int32(clouds.dim), rows.starts, rows.sizes, columns.starts, columns.sizes, shrink,
             np.float64(clouds.power), np.int32(rows.most), np.int32(columns.most), *map(np.float64, sizes), refused,
             out),
            shared_mem=8 * 2 * DEPTH * (SIDE + 1),
        )  # fmt: skip
