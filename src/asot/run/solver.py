"""What the engine expects of every solver.

A solver is made from what all pairs share (the cost, the histograms) and prepares it once; then it is handed tiles of
pairs, from several threads at a time, and answers each with a `Solution`. It knows nothing of pair sets, sinks or
progress.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from asot.run.pairs import PairSet

TILE_SECONDS = 0.03
"""A tile should take about this long: long compared with Python's overhead, short enough for Ctrl-C and even
threads."""

OPEN = 100
"""Status of a pair that a GPU leaves to another solver. It never reaches a result (``common.cuh`` has it, too)."""


EXTRAS = ("marginal_error", "lower", "upper", "error")
"""Numbers (P,) that only some solvers report."""


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
    plans: TilePlans | None = None


def empty_solution(n_pairs: int) -> Solution:
    """Arrays for the answers of this many pairs."""
    return Solution(np.empty(n_pairs), np.empty(n_pairs, np.int8), np.empty(n_pairs, np.int32))


def joined(parts: list[Solution]) -> Solution:
    """The answers of several tiles, without plans, as those of one."""
    names = ("values", "status", "n_iter", *EXTRAS)
    columns = {name: [getattr(part, name) for part in parts] for name in names}
    there: dict[str, Any] = {name: np.concatenate(column) for name, column in columns.items() if column[0] is not None}
    return Solution(**there)


class TilePlans(NamedTuple):
    """Optimal plans and potentials of the P pairs of a tile."""

    pair: NDArray[np.int64]
    """(E,) which pair an entry belongs to, ascending."""
    source: NDArray[np.int64]
    """(E,) row of the entry in its plan."""
    sink: NDArray[np.int64]
    """(E,) column of the entry."""
    mass: NDArray[np.float64]
    """(E,) positive."""
    f: NDArray[np.float64]
    """(P, k) potentials: f_i + g_j ≤ cost_ij everywhere, and ⟨f, a⟩ + ⟨g, b⟩ is the value of the pair."""
    g: NDArray[np.float64]
    """(P, l)."""


@dataclass(frozen=True)
class DeviceSolution:
    """Answers for the P pairs of a tile, still on a GPU: CuPy arrays, ready when the stream that makes them is."""

    values: Any  # (P,) float64
    status: Any  # (P,) int8
    n_iter: Any  # (P,) int32
    marginal_error: Any = None  # (P,) float64
    lower: Any = None  # (P,) float64
    upper: Any = None  # (P,) float64
    error: Any = None  # (P,) float64
    trees: Any = None  # a tuple of arrays (P, …) that `OnDevice.read_trees` understands once they are on the host


Identity = dict[str, Any]
"""What results depend on: plain values and arrays, by name; records of such values may nest."""


class Solver(ABC):
    """The base of every solver: `pairs_per_tile` and `solve` must be written, all else has a default."""

    info: dict[str, Any]
    """What this solver is, for `Distances.info`. Nothing reads it back."""

    takes_runs = False
    """Whether `solve_runs` may be called: worth it where pairs take nanoseconds."""

    @abstractmethod
    def pairs_per_tile(self, memory: int) -> int:
        """How many pairs make a good tile if one thread may use ``memory`` bytes of scratch."""

    @abstractmethod
    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        """Solve the pairs (rows[t], columns[t]). If ``stop[0]`` becomes non-zero, return early with any result."""

    def solve_runs(
        self,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
        ends: NDArray[np.int64],
        room: Solution,
        stop: NDArray[np.int64],
    ) -> None:
        """Solve rows[r] with the columns columns[r]..ends[r]-1, one run r after the other, into the arrays of ``room``.

        Then nobody lists every pair, and nothing is copied.
        """
        raise NotImplementedError(f"{type(self).__name__} takes lists of pairs")

    def expected_seconds(self, n_pairs: int) -> float:
        """About how long one thread takes for this many pairs: very short work gets no other threads."""
        return math.inf

    def identity(self) -> Identity:
        """What the answers depend on, so that a store can tell whether a call is the same again.

        Names are part of users' stores: keep them when code is renamed. Where answers change, change ``"solver"``,
        which names the solver and ends with the version of its answers.
        """
        raise ValueError(
            f"a store must be able to tell whether a call is the same again, and {type(self).__qualname__} does not "
            "say what its answers depend on; write its identity(), or leave out the store"
        )


class OnDevice(Protocol):
    """What all pairs share, on one GPU."""

    def solve(self, pairs: PairSet, start: int, stop: int) -> DeviceSolution:
        """Enqueue the pairs start..stop-1 of the set on the current CuPy stream; never wait."""
        ...


class DeviceSolver(Protocol):
    """A solver for GPUs: made on the host, without a device until `on` copies what all pairs share to one."""

    info: dict[str, Any]

    def pairs_per_tile(self, memory: int) -> int:
        """How many pairs make a good tile if a tile may use ``memory`` bytes on the device."""
        ...

    def on(self, device: int) -> OnDevice:
        """Copy the shared data to a GPU, which is the current one."""
        ...
