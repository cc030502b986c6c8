"""How kernels know which pairs to work on, and how kernels over all pairs of a tile are launched."""

from __future__ import annotations

from typing import Any

import numpy as np

from asot.gpu.cuda import load
from asot.run.pairs import AllPairs, CrossPairs, PairSet


def pair_arguments(pairs: PairSet, start: int, stop: int) -> tuple[Any, ...]:
    """The arguments (kind, n_rows, n_columns, listed) by which kernels know the pairs start..stop-1 of a set."""
    import cupy

    kind = 0 if isinstance(pairs, AllPairs) else 1 if isinstance(pairs, CrossPairs) else 2
    if kind == 2:
        listed = cupy.asarray(np.stack(pairs.indices(start, stop), axis=1))  # (P, 2)
    else:
        listed = cupy.empty((0, 2), dtype=np.int64)
    return np.int32(kind), np.int64(pairs.n_rows), np.int64(pairs.n_columns), listed


def launch_over_pairs(kernel: str, size: int, *arguments: Any) -> None:
    """Enqueue a kernel of ``reduce.cu``, whose threads stride over ``size`` pairs."""
    threads, most_blocks = 256, 1024
    blocks = max(1, min(most_blocks, -(-size // threads)))
    load("reduce", {}).get_function(kernel)((blocks,), (threads,), arguments)
