"""What the engine expects of every solver and of every sink.

A solver is made from what all pairs share (the cost, the histograms) and prepares it once; then it is handed tiles of
pairs, from several threads at a time, and answers each with a `Solution`. It knows nothing of pair sets, sinks or
progress. A sink takes the solved tiles and makes of them what the call returns. The engine calls it from one thread, so
it needs no locks. All members are there for every solver and sink: what not all of them have is a default of their base
class.
"""

from __future__ import annotations

import enum
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Identity, Indices, Info
from asot.gpu import cupy
from asot.run.pairs import ListedPairs, PairSet, RowsColumns

if TYPE_CHECKING:
    from asot.run.cluster import Cluster
    from asot.run.engine import Resources, Work

TILE_SECONDS = 0.03
"""A tile should take about this long: long beside Python's overhead, short enough for Ctrl-C and even threads."""

OPEN = 100
"""Status of a pair that a GPU leaves to another solver. It never reaches a result (``common.cuh`` has it, too)."""


class Status(enum.IntEnum):
    """How the solve of a pair ended. ``Status(r.status[t]).text`` is a readable sentence."""

    text: str

    def __new__(cls, number: int, text: str) -> Status:
        member = int.__new__(cls, number)
        member._value_, member.text = number, text
        return member

    OPTIMAL = 0, "exact: optimality was proven by the dual"
    CONVERGED = 1, "entropic: the marginals are met to the tolerance"
    FIXED_ITERATIONS = 2, "entropic: ran the requested number of iterations; convergence was not tested"
    MAX_ITER = 3, "entropic: stopped at max_iter before the tolerance was met; raise max_iter, reg or tol"
    EXACT = 4, "exact: solved on the original points"
    ON_ANCHORS = 5, "on the anchors: optimal there, but its error as an estimate of W_1 is not known"
    ESTIMATED = 6, "estimated: corrected by a fit to exact pairs; `error` is the expected error"
    UNKNOWN = 7, "unknown: read from a file that does not say how the pair was solved"
    BEST_FOUND = 8, "Gromov–Wasserstein: the best plan found, so an upper bound; `lower` is proven"


EXTRAS = ("marginal_error", "lower", "upper", "error")
"""Numbers (P,) that only some solvers report."""


@dataclass(frozen=True)
class Solution:
    """Answers for the P pairs of a tile."""

    values: Float  # (P,)
    status: NDArray[np.int8]  # (P,) asot.Status
    n_iter: NDArray[np.int32]  # (P,)
    marginal_error: Float | None = None  # (P,)
    lower: Float | None = None  # (P,)
    upper: Float | None = None  # (P,)
    error: Float | None = None  # (P,)
    plans: Any = None  # TilePlans, where they are wanted


def empty_solution(n_pairs: int) -> Solution:
    """Arrays for the answers of this many pairs."""
    return Solution(np.empty(n_pairs), np.empty(n_pairs, np.int8), np.empty(n_pairs, np.int32))


def all_ended(status: Status, values: Float, steps: NDArray[np.int32] | None = None, **extras: Any) -> Solution:
    """Answers of which all ended in one way, after so many steps, or none; ``extras`` are other fields."""
    n = len(values)
    steps = np.zeros(n, dtype=np.int32) if steps is None else steps
    return Solution(values, np.full(n, status, dtype=np.int8), steps, **extras)


def joined(parts: list[Solution]) -> Solution:
    """The answers of several tiles, without plans, as those of one."""
    names = ("values", "status", "n_iter", *EXTRAS)
    columns = {name: [getattr(part, name) for part in parts] for name in names}
    there: dict[str, Any] = {name: np.concatenate(column) for name, column in columns.items() if column[0] is not None}
    return Solution(**there)


class TilePlans(NamedTuple):
    """Optimal plans and potentials of the P pairs of a tile."""

    pair: Indices
    """(E,) which pair an entry belongs to, ascending."""
    source: Indices
    """(E,) row of the entry in its plan."""
    sink: Indices
    """(E,) column of the entry."""
    mass: Float
    """(E,) positive."""
    f: Float
    """(P, k) potentials: f_i + g_j ≤ cost_ij everywhere, and ⟨f, a⟩ + ⟨g, b⟩ is the value of the pair."""
    g: Float
    """(P, l)."""


class DeviceSolution(Solution):
    """Answers for the P pairs of a tile, still on a GPU: CuPy arrays, ready when the stream that makes them is.

    ``plans`` are any arrays (P, …), of which `OnDevice.finish_on_host` then makes plans.
    """


def empty_on_device(n_pairs: int) -> DeviceSolution:
    """Arrays on the current GPU for the answers of this many pairs."""
    return DeviceSolution(cupy.empty(n_pairs), cupy.empty(n_pairs, np.int8), cupy.empty(n_pairs, np.int32))


@dataclass(frozen=True)
class Notes:
    """What a call knows about its run. ``info`` is for the result alone: nothing reads it back."""

    info: Info = field(default_factory=dict)
    stage: str | None = None
    """What a bar calls it; None: what the solver says."""
    started: float | None = None
    """When the call began, if its seconds should count from there."""


@runtime_checkable
class Identified(Protocol):
    """A part of a solver that says what answers depend on."""

    def identity(self) -> Identity: ...


def identity_of(solver: str, **parts: Any) -> Identity:
    """The `Solver.identity` of a solver with these parts: arrays, plain values, and what has an identity itself."""
    own = {name: part.identity() if isinstance(part, Identified) else part for name, part in parts.items()}
    return {"solver": solver, **own}


IN_FLOAT64: Info = {"device": "cpu", "precision": "float64", "reg": None}
"""What ``info`` says of exact solvers, in the middle."""


class Tiled(ABC):
    """What all solvers say of themselves, wherever they run."""

    info: Info
    """What this solver is, for `Distances.info`. Nothing reads it back."""

    stage = "distances"
    """What a bar calls a run of it."""

    counts_exact = False
    """Whether ``info`` should tell how many pairs have the status EXACT."""

    @abstractmethod
    def pairs_per_tile(self, memory: int) -> int:
        """How many pairs make a good tile if a thread, or a tile on a GPU, may use ``memory`` bytes of scratch."""


class Solver(Tiled):
    """The base of every solver: `pairs_per_tile` and `solve` must be written, all else has a default."""

    takes_runs = False
    """Whether `solve_runs` may be called: worth it where pairs take nanoseconds."""

    @abstractmethod
    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
        """Solve the pairs (rows[t], columns[t]). If ``stop[0]`` becomes non-zero, return early with any result."""

    def solve_runs(self, rows: Indices, columns: Indices, ends: Indices, room: Solution, stop: Indices) -> None:
        """Solve rows[r] with the columns columns[r]..ends[r]-1, one run r after the other, into the arrays of ``room``.

        Then nobody lists every pair, and nothing is copied.
        """
        raise NotImplementedError(f"{type(self).__name__} takes lists of pairs")

    def expected_seconds(self, n_pairs: int) -> float:
        """About how long one thread takes for this many pairs: very short work gets no other threads."""
        return math.inf

    def seconds_of(self, rows: Indices, columns: Indices) -> float:
        """The same for one of these pairs, on average, where it can be counted; columns count from the first row."""
        return self.expected_seconds(1)

    def identity(self) -> Identity:
        """What the answers depend on, so that a store can tell whether a call is the same again.

        Names are part of users' stores: keep them when code is renamed. Where answers change, change ``"solver"``,
        which names the solver and ends with the version of its answers.
        """
        raise ValueError(
            f"a store must be able to tell whether a call is the same again, and {type(self).__qualname__} does not "
            "say what its answers depend on; write its identity(), or leave out the store"
        )


class OnDevice(ABC):
    """What all pairs share, on one GPU."""

    leaves_open = False
    """Whether some pairs may have the status `OPEN`: `solve_open` is then called for them."""

    gives_bounds = False
    """Whether answers have bounds, which sinks then want of every pair that they keep."""

    is_finished = True
    """Whether answers are those of the call; if not, all of them are sent to the host, for `finish_on_host`."""

    @abstractmethod
    def solve(self, pairs: PairSet, start: int, stop: int) -> DeviceSolution:
        """Enqueue the pairs start..stop-1 of the set on the current CuPy stream; never wait."""

    def solve_open(self, pairs: ListedPairs) -> Any:
        """Answers, on the CPU, for pairs that the GPU has left open: whatever has the fields of a `Solution`."""
        raise NotImplementedError(f"{type(self).__name__} leaves no pair open")

    def finish_on_host(self, found: Solution, rows: Indices, columns: Indices) -> Solution:
        """The answers of the call, on the host, from what the GPU has found of these pairs."""
        return found


class DeviceSolver(Tiled):
    """A solver for GPUs: made on the host, without a device until `on` copies what all pairs share to one."""

    begun = 0
    """Pairs of tiles that are under way already (`asot.run.gpu_engine.begin`): their sizes are what they are."""

    @abstractmethod
    def on(self, device: int) -> OnDevice:
        """Copy the shared data to a GPU, which is the current one."""


# ------------------------------------------------------------------------------------------------------------- sinks

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Tile:
    """Pairs of a set from position ``start`` on, solved."""

    start: int
    solution: Solution
    pairs: PairSet
    chosen: RowsColumns | None = None
    """Rows and columns, if they are already known or if the tile holds only some of its pairs."""
    is_placed: bool = False
    """Whether the answers are where the sink wants them: `SinkBase.room`."""

    def indices(self) -> RowsColumns:
        """Rows and columns of the pairs; only computed for sinks that use them."""
        if self.chosen is not None:
            return self.chosen
        return self.pairs.indices(self.start, self.start + len(self.solution.values))


class Sink(Protocol[T_co]):
    """Where tiles go. ``T_co`` is what `close` returns, and therefore what the call returns."""

    @abstractmethod
    def open(self, pairs: PairSet, info: Info, /) -> None:
        """Receive which pairs will come and what is known about the run; refuse what cannot be kept."""

    @abstractmethod
    def accept(self, tile: Tile, /) -> None:
        """Take the next tile, in pair order."""

    @abstractmethod
    def close(self, info: Info, /) -> T_co:
        """The result. ``info`` now also has what was counted during the run."""


class SinkBase(Sink[T_co]):
    """A `Sink` with everything else that engines ask for; a user's sink needs none of it (`UsersSink`)."""

    edges: Float | None = None
    """(B + 1,) edges between which it only counts values: a GPU then sends counts (`add`)."""

    only_values = False
    """Whether it drops bounds and errors; calls that would give them then refuse it."""

    takes_work = False
    """Whether it cuts whole runs into pieces of its own: then `take` is called, and nothing else."""

    def room(self, start: int, stop: int, extras: tuple[str, ...]) -> Solution | None:
        """Where the answers of the pairs start..stop-1 belong, so that they arrive there and are not copied again."""
        return None

    def limits(self) -> Float | None:
        """Per row (N,): values above the limit of their row (and, within one set, of their column) are useless to it.

        Tiles from a GPU then hold only some of their pairs, in any order.
        """
        return None

    def writes_to(self, folder: Path) -> bool:
        """Whether it keeps its answers in this folder, named from the root."""
        return False

    def add(self, counts: NDArray[Any]) -> None:
        """Count a tile that was counted elsewhere."""
        raise NotImplementedError(f"{type(self).__name__} counts nothing")

    def allocate_with(self, allocate: Callable[[int, Any], NDArray[Any]]) -> None:
        """Prefer this kind of memory, which a GPU writes by itself; called before it is opened."""

    def tell_all_are_numbers(self) -> None:
        """Nothing among the values is NaN: no need to look again."""

    def take(self, work: Work, resources: Resources, cluster: Cluster | None) -> T_co:
        """Solve a whole run, on the workers of a cluster if there is one."""
        raise NotImplementedError(f"{type(self).__name__} takes tiles")


class UsersSink(SinkBase[T_co]):
    """Three methods of somebody else, of which ``open`` may take the pairs alone."""

    def __init__(self, sink: Any) -> None:
        self._sink = sink

    def open(self, pairs: PairSet, info: Info) -> None:
        parameters = inspect.signature(self._sink.open).parameters.values()
        many = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
        self._sink.open(pairs, info) if many or len(parameters) > 1 else self._sink.open(pairs)

    def accept(self, tile: Tile) -> None:
        self._sink.accept(tile)

    def close(self, info: Info) -> T_co:
        return self._sink.close(info)
