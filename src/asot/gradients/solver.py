"""The one place where losses meet a solver: problems on tensors of any device go in, sparse plans come out.

Callers put their problems where `home_of` says, call `solve`, and bring plans to the device that they came from. Arrays
of tensors go to the batched solver of their device as they are. What is wrong with a problem is said by the CPU,
wherever it is solved, so that there is one sentence for it. Imported with the first call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from asot import batch
from asot.exact import batch as exact
from asot.exact.cuda import own_costs
from asot.run import devices


class Side(NamedTuple):
    """Rows or columns of P problems."""

    starts: Tensor  # (P,) int64: where those of a problem begin among all masses, and among all points
    sizes: Tensor  # (P,) int64
    masses: Tensor | None  # flat float64, or None: uniform of total 1
    most: int  # the largest size, or more
    padded: bool  # whether every problem takes room for `most` of them in the plans; else each takes its own size
    room: int  # of all problems together


class Matrices(NamedTuple):
    """Costs that are given: entry (i, j) of problem t is ``flat[starts[t] + i · stride + j]``."""

    flat: Tensor  # float64
    starts: Tensor  # (P,) int64
    stride: int


class Clouds(NamedTuple):
    """Costs that the solver computes: d(x_i, y_j)^power of points, which the sides' starts refer to."""

    x: Tensor  # (N, d) float64
    y: Tensor  # (M, d) float64
    metric: int  # a code of `asot.ground.metrics`
    power: float
    shrink: Tensor | None  # (P,) float64: what the coordinates of a problem are multiplied with, or None: 1


class Plans(NamedTuple):
    """Optimal plans of P problems, one after the other. A problem of n rows and m columns has room for n + m arcs (with
    their padding, where sides are padded); arcs that it does not use have mass 0, row 0 and column 0."""

    values: Tensor  # (P,) float64
    source: Tensor  # (arcs,) int64: rows, each counted within its problem
    sink: Tensor  # (arcs,) int64
    mass: Tensor  # (arcs,) float64
    f: Tensor  # (rows.room,) float64, or (0,) where potentials were not wanted
    g: Tensor  # (columns.room,)


def home_of(tensor: Tensor) -> torch.device:
    """Where the problems of a tensor are solved: on its own device if that has a solver, else on the CPU."""
    has_solver = tensor.is_cuda and devices.gpu_count() > 0
    return tensor.device if has_solver else torch.device("cpu")


def solve(rows: Side, columns: Side, costs: Matrices | Clouds, *, potentials: bool, balance: float) -> Plans:
    """Check problems that are at home, and solve them there. ``balance``: by how much the totals of sides may differ,
    relative to themselves."""
    home = rows.starts.device
    if home.type == "cpu":
        return solve_on_cpu(rows, columns, costs, potentials=potentials, balance=balance)
    if max(rows.most, columns.most) <= own_costs.MOST_POINTS:
        return _solve_on_gpu(rows, columns, costs, potentials=potentials, balance=balance)
    solved = solve_on_cpu(rows, columns, costs, potentials=potentials, balance=balance)
    return Plans(*(part.to(home) for part in solved))


def _solve_on_gpu(rows: Side, columns: Side, costs: Matrices | Clouds, *, potentials: bool, balance: float) -> Plans:
    """Solve on the GPU that has the tensors, on torch's stream."""
    home = rows.starts.device
    count, room = len(rows.starts), rows.room + columns.room
    at = [_places(side) for side in (rows, columns)]
    # Each has memory of its own: outputs of an operation of torch must not share any.
    values, mass = (torch.zeros(size, dtype=torch.float64, device=home) for size in (count, room))
    source, sink = (torch.zeros(room, dtype=torch.int64, device=home) for _ in range(2))
    f, g = (torch.zeros(side.room if potentials else 0, dtype=torch.float64, device=home) for side in (rows, columns))
    with on_stream_of(home):
        sides = [
            own_costs.DeviceSide(_address(side.starts), _address(side.sizes), _address(side.masses), side.most)
            for side in (rows, columns)
        ]
        wanted = map(_address, (*at, f, g)) if potentials else ()
        given: own_costs.DeviceMatrices | own_costs.DeviceClouds
        if isinstance(costs, Clouds):
            given = own_costs.DeviceClouds(
                _address(costs.x),
                _address(costs.y),
                costs.x.shape[1],
                costs.metric,
                costs.power,
                _address(costs.shrink),
            )
        else:
            given = own_costs.DeviceMatrices(_address(costs.flat), _address(costs.starts), costs.stride)
        arcs_at = at[0] + at[1]
        plans = own_costs.DevicePlans(*map(_address, (arcs_at, values, source, sink, mass)), *wanted)
        n_wrong = int(own_costs.solve(count, sides[0], sides[1], given, plans, balance).get()[0])
    if n_wrong:  # refused by the CPU or, where it is only a matter of rounding, solved there
        solved = solve_on_cpu(rows, columns, costs, potentials=potentials, balance=balance)
        return Plans(*(part.to(home) for part in solved))
    return Plans(values, source, sink, mass, f, g)


@contextlib.contextmanager
def on_stream_of(home: torch.device) -> Iterator[None]:
    """CuPy on a GPU of torch's, on the stream that torch uses there."""
    import cupy

    with cupy.cuda.Device(home.index), _stream_of(home):
        yield


def _stream_of(home: torch.device) -> Any:
    """Torch's stream as one of CuPy."""
    import cupy

    stream = torch.cuda.current_stream(home)
    if hasattr(stream, "__cuda_stream__") and hasattr(cupy.cuda.Stream, "from_external"):
        return cupy.cuda.Stream.from_external(stream)
    return cupy.cuda.ExternalStream(stream.cuda_stream, home.index)


def _places(side: Side) -> Tensor:
    """Where each problem's room begins, (P,)."""
    if side.padded:  # as its masses and matrices do
        return side.starts
    return side.sizes.cumsum(0) - side.sizes


def _address(tensor: Tensor | None) -> int | None:
    """Of a tensor on a GPU, as kernels take it: an array of CuPy made of each would cost more than a small batch."""
    return None if tensor is None else tensor.data_ptr()


def solve_on_cpu(rows: Side, columns: Side, costs: Matrices | Clouds, *, potentials: bool, balance: float) -> Plans:
    """Solve on `torch.get_num_threads()` threads."""
    first, second, prepared = check(rows, columns, costs, balance)
    r = batch.solve_batch(
        first, second, prepared, plans=True, potentials=potentials, n_jobs=torch.get_num_threads(), progress=False
    )
    arcs, kept = r.solver.arcs, r.solver.potentials
    assert arcs is not None
    f, g = (np.zeros(0), np.zeros(0)) if kept is None else (kept.f, kept.g)
    parts = r.values, arcs.source.astype(np.int64), arcs.sink.astype(np.int64), arcs.mass, f, g
    return Plans(*(torch.from_numpy(part) for part in parts))


def check(rows: Side, columns: Side, costs: Matrices | Clouds, balance: float) -> tuple[Any, Any, Any]:
    """Refuse masses or matrices that are no problem, by the name of the first one. Returns sides and costs as arrays on
    the CPU."""
    first, second = (
        exact.Side(_array(side.starts), _array(side.sizes), _array(side.masses), side.most if side.padded else None)
        for side in (rows, columns)
    )
    if isinstance(costs, Clouds):
        points = _array(costs.x), _array(costs.y)
        batch.check_masses(first, second, balance)
        return first, second, exact.Clouds(*points, costs.metric, 2.0, costs.power, _array(costs.shrink))
    starts = _array(costs.starts)
    matrices = exact.Costs(_array(costs.flat), starts, np.full(len(starts), costs.stride, dtype=np.int64))
    batch.check_costs(matrices, first, second)
    batch.check_masses(first, second, balance)
    return first, second, matrices


def _array(tensor: Tensor | None) -> Any:
    if tensor is None:
        return None
    array: NDArray[Any] = tensor.detach().cpu().contiguous().numpy()
    return array
