"""What every solver promises to the engine.

A solver is made from what all pairs share (the cost, the histograms) and prepares it once; then it is handed tiles of
pairs, from several threads at a time, and answers each with a `Solution`. It knows nothing of pair sets, sinks or
progress.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

TILE_SECONDS = 0.03
"""A tile should take about this long: long against Python's overhead, short against Ctrl-C and uneven threads."""


@dataclass(frozen=True)
class Solution:
    """Answers for the P pairs of a tile."""

    values: NDArray[np.float64]  # (P,)
    status: NDArray[np.int8]  # (P,) asot.Status
    n_iter: NDArray[np.int32]  # (P,)
    marginal_error: NDArray[np.float64] | None = None  # (P,)
    lower: NDArray[np.float64] | None = None  # (P,)
    upper: NDArray[np.float64] | None = None  # (P,)
    error: NDArray[np.float64] | None = None  # (P,)


class Solver(Protocol):
    info: dict[str, Any]
    """What this solver is, for `Distances.info`."""

    def pairs_per_tile(self, memory: int) -> int:
        """How many pairs make a good tile, when one thread may use ``memory`` bytes of scratch."""
        ...

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        """Solve the pairs (rows[t], columns[t]). When ``stop[0]`` becomes non-zero, return early with anything."""
        ...
