"""Sparse plans as tables on an NVIDIA GPU, a problem per block (``plan_tables.cu``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from asot.exact.cuda.cloud_arcs import REALS
from asot.gpu.cuda import Variant, load

THREADS = 128
"""Of a block."""


def variants(shared_memory: int) -> Iterator[Variant]:
    """Kernels that are compiled ahead (`asot.gpu.cuda.Variant`)."""
    for real in REALS:
        yield "plan_tables", {"REAL": real}


class DeviceArcs(NamedTuple):
    """E arcs of each of B problems. Arrays are CuPy's, here and below, or addresses of memory on the GPU."""

    problems: int  # B
    each: int  # E
    source: Any  # (B, E) int64
    sink: Any  # (B, E) int64
    mass: Any  # (B, E) float32 or float64


def write(arcs: DeviceArcs, weights: Any, step: int, shape: tuple[int, int], real: str, tables: Any) -> None:
    """Write the plans, each times its own weight, to ``tables`` (B, *shape). Problem b has ``weights[step · b]``;
    ``real``: the type of masses, weights and tables, one of `REALS`."""
    if arcs.problems and shape[0] and shape[1]:
        load("plan_tables", {"REAL": real}).get_function("write_plans")(
            (arcs.problems,), (THREADS,),
            (weights, np.int64(step), arcs.source, arcs.sink, arcs.mass, np.int32(arcs.each), np.int32(shape[0]),
             np.int32(shape[1]), tables),
        )  # fmt: skip
