"""The one place where losses meet a solver: problems on tensors of any device go in, sparse plans come out.

Callers put their problems where `home_of` says, call `solve`, and bring plans to the device that they came from. Arrays
of tensors go to the batched solver of their device as they are. What is wrong with a problem is said by the CPU,
wherever it is solved, so that there is one sentence for it. Imported with the first call.
"""

from __future__ import annotations

import contextlib
import functools
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from asot import batch
from asot.exact import batch as exact
from asot.exact.cuda import cloud_costs, large_assignment, own_costs
from asot.exact.cuda.points_plan import LONG
from asot.run import devices


class Side(NamedTuple):
    """Rows or columns of P problems."""

    starts: Tensor  # (P,) int64: where those of a problem begin among all masses, and among all points
    sizes: Tensor  # (P,) int64
    masses: Tensor | None  # flat float64 (with matrices also float32), or None: uniform of total 1
    most: int  # the largest size, or more
    padded: bool  # whether every problem takes room for `most` of them in the plans; else each takes its own size
    room: int  # of all problems together
    even: bool  # whether all have the largest size


class Matrices(NamedTuple):
    """Costs that are given: entry (i, j) of problem t is ``flat[starts[t] + i · stride + j]``."""

    flat: Tensor  # float64, or float32 if all masses are
    starts: Tensor  # (P,) int64
    stride: int


class Clouds(NamedTuple):
    """Costs that the solver computes: d(x_i, y_j)^power of points, which the sides' starts refer to."""

    x: Tensor  # (N, d) float64, or both float32
    y: Tensor  # (M, d)
    metric: int  # a code of `asot.ground.metrics`
    power: float
    shrink: Tensor | None  # (P,) float64: what the coordinates of a problem are multiplied with, or None: 1
    ordinary: tuple[float, float] | None = None  # sizes of coordinates; others are refused where costs are priced


class Plans(NamedTuple):
    """Optimal plans of P problems, one after the other. A problem of n rows and m columns has room for n + m arcs (with
    their padding, where sides are padded); arcs that it does not use have mass 0, row 0 and column 0. No two tensors
    share their memory. Values and mass may be float32 where costs are."""

    values: Tensor  # (P,) float64
    ends: Tensor  # (2, arcs) int64: rows and columns, each counted within its problem
    mass: Tensor  # (arcs,) float64
    f: Tensor  # (rows.room,) float64, or (0,) where potentials were not wanted
    g: Tensor  # (columns.room,)


MOST_BYTES = 2**28
"""Of costs that are computed before problems are solved."""

REALS = {torch.float32: "float", torch.float64: "double"}
"""What kernels call the coordinates that they take."""

Made = TypeVar("Made")


def home_of(tensor: Tensor) -> torch.device:
    """Where the problems of a tensor are solved: on its own device if that has a solver, else on the CPU."""
    has_solver = tensor.is_cuda and devices.gpu_count() > 0
    return tensor.device if has_solver else torch.device("cpu")


def solve(
    rows: Side,
    columns: Side,
    costs: Matrices | Clouds,
    finish: Callable[[Plans], Made],
    *,
    potentials: bool,
    balance: float,
) -> Made:
    """Check problems that are at home, solve them there, and return what ``finish`` makes of the plans. ``balance``: by
    how much the totals of sides may differ, relative to themselves."""
    home = rows.starts.device
    fits = max(rows.most, columns.most) <= own_costs.MOST_POINTS or _is_large_assignment(rows, columns)
    if has_gpu(home) and fits:
        with on_stream_of(home), noticing(home) as notice:
            plans = enqueue(rows, columns, costs, notice.there, potentials=potentials, balance=balance)
            made = finish(plans)  # is launched before the host waits
        if not notice.given:
            return made
    # What a GPU leaves is refused by the CPU or, where it is only a matter of rounding, solved there.
    solved = solve_on_cpu(rows, columns, costs, potentials=potentials, balance=balance)
    return finish(Plans(*(part.to(home) for part in solved)))


def has_gpu(home: torch.device) -> bool:
    """Whether problems at this home are solved by a GPU."""
    return home.type != "cpu"


def enqueue(
    rows: Side,
    columns: Side,
    costs: Matrices | Clouds,
    refused: Tensor,
    *,
    potentials: bool,
    balance: float,
    arcs_at: Tensor | None = None,
) -> Plans:
    """Launch the solver on the current stream. Returns where plans will be; ``refused`` (1,) int32 becomes 1 if a
    problem is left out. ``arcs_at`` (P,): where the arcs of each problem begin, if that is known."""
    home = rows.starts.device
    count, of_arcs = len(rows.starts), rows.room + columns.room
    is_assignment = _is_large_assignment(rows, columns)
    if is_assignment and isinstance(costs, Matrices):
        costs = costs._replace(flat=costs.flat.double())
    real = costs.flat.dtype if isinstance(costs, Matrices) else torch.float64
    make = torch.zeros if is_assignment else torch.empty  # own_costs writes all of it
    values, mass = (make(size, dtype=real, device=home) for size in (count, of_arcs))
    rooms = (rows.room, columns.room) if potentials else (0, 0)
    f, g = (torch.zeros(room, dtype=torch.float64, device=home) for room in rooms)
    ends = make((2, of_arcs), dtype=torch.int64, device=home)
    alike_in_room = rows.padded and columns.padded
    if arcs_at is None and alike_in_room:
        arcs_at = steps(count, rows.most + columns.most, home)
    elif arcs_at is None:
        arcs_at = _places(rows) + _places(columns)
    sides = [
        own_costs.DeviceSide(address(side.starts), address(side.sizes), address(side.masses), side.most)
        for side in (rows, columns)
    ]
    by_column = is_assignment and isinstance(costs, Clouds)
    if isinstance(costs, Clouds) and (by_column or pays_to_price(rows, columns, costs)):
        starts = steps(count, rows.most * columns.most, home)
        turned = costs._replace(x=costs.y, y=costs.x) if by_column else costs
        first, second = reversed(sides) if by_column else sides
        costs = _priced(first, second, turned, starts, refused)
    given: own_costs.DeviceMatrices | own_costs.DeviceClouds
    if isinstance(costs, Clouds):
        given = _on_device(costs._replace(x=costs.x.double(), y=costs.y.double()))
    else:
        given = own_costs.DeviceMatrices(address(costs.flat), address(costs.starts), costs.stride)
    wanted = map(address, (_places(rows), _places(columns), f, g)) if potentials else (None,) * 4
    how = rows.most + columns.most if alike_in_room else 0, real == torch.float32
    answers: list[Any] = [*map(address, (arcs_at, values, ends[0], ends[1], mass)), *wanted, *how]
    plans = own_costs.DevicePlans(*answers)
    if is_assignment and isinstance(given, own_costs.DeviceMatrices):
        large_assignment.solve(count, rows.most, given, plans, address(refused), by_column=by_column)
    else:
        own_costs.solve(count, sides[0], sides[1], given, plans, balance, address(refused))
    return Plans(values, ends, mass, f, g)


def _is_large_assignment(rows: Side, columns: Side) -> bool:
    """Whether points go to points, one to one, in problems so large that each is the work of the whole GPU."""
    is_square = rows.even and columns.even and rows.most == columns.most
    is_uniform = rows.masses is None and columns.masses is None
    return is_square and is_uniform and large_assignment.takes(len(rows.starts), rows.most)


def _on_device(clouds: Clouds) -> own_costs.DeviceClouds:
    x, y, shrink = map(address, (clouds.x, clouds.y, clouds.shrink))
    return own_costs.DeviceClouds(x, y, clouds.x.shape[1], clouds.metric, clouds.power, shrink)


def pays_to_price(rows: Side, columns: Side, clouds: Clouds) -> bool:
    """Whether points are so long that all costs are computed first, and whether these take little memory."""
    return clouds.x.shape[1] >= LONG and 8 * len(rows.starts) * rows.most * columns.most <= MOST_BYTES


def _priced(
    rows: own_costs.DeviceSide, columns: own_costs.DeviceSide, clouds: Clouds, starts: Tensor, refused: Tensor
) -> Matrices:
    """The costs of clouds as matrices that begin at ``starts`` (P,), each with room for the largest."""
    flat = torch.empty(len(starts) * rows.most * columns.most, dtype=torch.float64, device=starts.device)
    watch = None if clouds.ordinary is None else cloud_costs.Watch(clouds.ordinary, address(refused))
    cloud_costs.price(len(starts), rows, columns, _on_device(clouds), REALS[clouds.x.dtype], address(flat), watch)
    return Matrices(flat, starts, columns.most)


@functools.lru_cache(maxsize=64)
def steps(count: int, step: int, home: torch.device) -> Tensor:
    """0, step, 2 step, … (count,): kept, since a training step asks for the same ones again and again."""
    return _settled(torch.arange(count, device=home) * step)


@functools.lru_cache(maxsize=64)
def alike(count: int, size: int, home: torch.device) -> Tensor:
    """One size (count,) for all problems."""
    return _settled(torch.full((count,), size, dtype=torch.int64, device=home))


def _settled(tensor: Tensor) -> Tensor:
    """A tensor that any stream may read."""
    if tensor.is_cuda:
        torch.cuda.current_stream(tensor.device).synchronize()
    return tensor


class Notice:
    """A word of kernels to the host: it lies on the host, so that nothing has to be copied once it is waited for."""

    def __init__(self, home: torch.device) -> None:
        self.there = torch.zeros(1, dtype=torch.int32, device="cpu", pin_memory=home.type == "cuda")  # for kernels
        self._here = self.there.numpy()
        self.given = False

    def read(self) -> None:
        self.given = bool(self._here[0])
        self._here[0] = 0


_notices: defaultdict[str, list[Notice]] = defaultdict(list)
"""Of each type of device, those that nobody uses; memory that a GPU reaches is expensive to make."""


@contextlib.contextmanager
def noticing(home: torch.device) -> Iterator[Notice]:
    """Lends a notice to kernels on the current stream, and waits for them."""
    try:
        notice = _notices[home.type].pop()
    except IndexError:
        notice = Notice(home)
    try:
        yield notice
    finally:
        _wait(home)
        notice.read()
        _notices[home.type].append(notice)


def _wait(home: torch.device) -> None:
    if home.type == "cuda":
        torch.cuda.current_stream(home).synchronize()


@contextlib.contextmanager
def on_stream_of(home: torch.device) -> Iterator[None]:
    """CuPy on a GPU of torch's, on the stream that torch uses there."""
    import cupy

    stream = torch.cuda.current_stream(home)
    with cupy.cuda.Device(home.index), _as_cupy(stream, home.index):
        yield


@functools.lru_cache(maxsize=64)
def _as_cupy(stream: Any, index: int | None) -> Any:
    """A stream of torch's as one of CuPy."""
    import cupy

    if hasattr(stream, "__cuda_stream__") and hasattr(cupy.cuda.Stream, "from_external"):
        return cupy.cuda.Stream.from_external(stream)
    return cupy.cuda.ExternalStream(stream.cuda_stream, index)


def _places(side: Side) -> Tensor:
    """Where each problem's room begins, (P,)."""
    if side.padded:  # as its masses and matrices do
        return side.starts
    return side.sizes.cumsum(0) - side.sizes


def in_one_piece(weights: Tensor) -> tuple[Tensor, int]:
    """Weights (B,) as kernels take them, and the step from one to the next: 0 for a sum's, which are one number."""
    step = 0 if weights.stride(0) == 0 else 1
    return weights.contiguous() if step else weights[:1], step


def address(tensor: Tensor | None) -> int | None:
    """Of a tensor on a GPU, as kernels take it: an array of CuPy made of each would cost more than a small batch."""
    return None if tensor is None else tensor.data_ptr()


def solve_on_cpu(rows: Side, columns: Side, costs: Matrices | Clouds, *, potentials: bool, balance: float) -> Plans:
    """Solve on `torch.get_num_threads()` threads."""
    first, second, prepared = check(rows, columns, costs, balance)
    solver = exact.ExactBatch(first, second, prepared, plans=True, potentials=potentials)
    values = batch.values_of(solver, len(first.sizes), n_jobs=torch.get_num_threads())
    arcs, kept = solver.arcs, solver.potentials
    assert arcs is not None
    ends = np.empty((2, len(arcs.mass)), dtype=np.int64)
    ends[0], ends[1] = arcs.source, arcs.sink
    f, g = (np.zeros(0), np.zeros(0)) if kept is None else (kept.f, kept.g)
    return Plans(*map(torch.from_numpy, (values, ends, arcs.mass, f, g)))


def check(rows: Side, columns: Side, costs: Matrices | Clouds, balance: float) -> tuple[Any, Any, Any]:
    """Refuse masses that are no problem, by the name of the first one. Returns sides and costs as arrays on the CPU."""
    first, second = (
        exact.Side(_array(side.starts), _array(side.sizes), _wide(side.masses), side.most if side.padded else None)
        for side in (rows, columns)
    )
    batch.check_masses(first, second, balance)
    if isinstance(costs, Clouds):
        points = _wide(costs.x), _wide(costs.y)
        return first, second, exact.Clouds(*points, costs.metric, 2.0, costs.power, _array(costs.shrink))
    starts = _array(costs.starts)
    return first, second, exact.Costs(_wide(costs.flat), starts, np.full(len(starts), costs.stride, dtype=np.int64))


def _wide(tensor: Tensor | None) -> Any:
    return None if tensor is None else _array(tensor.double())


def _array(tensor: Tensor | None) -> Any:
    if tensor is None:
        return None
    array: NDArray[Any] = tensor.detach().cpu().contiguous().numpy()
    return array
