"""Launches solvers of a GPU on the memory of tensors, without a wait. Imported with the first call."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from asot.exact.cuda import cloud_costs, large_assignment, own_costs
from asot.exact.cuda.points_plan import LONG
from asot.gradients import on_gpu
from asot.gradients.on_gpu import REALS
from asot.gradients.problems import Clouds, Matrices, Plans, Side, steps

MOST_BYTES = 2**28
"""Of costs that are computed before problems are solved."""


def takes(rows: Side, columns: Side) -> bool:
    """Whether their GPU has a solver for problems so large."""
    most = own_costs.most_points(rows.starts.device.index)
    return max(rows.most, columns.most) <= most or _is_large_assignment(rows, columns)


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
    count, notice = len(rows.starts), on_gpu.address(refused)
    is_large = _is_large_assignment(rows, columns)
    given = _as_read(rows, columns, costs, refused, is_large)
    plans = _room_for(rows, columns, given, potentials=potentials, cleared=is_large)
    room = rows.most + columns.most if rows.padded and columns.padded else 0
    places = [side.places() for side in (rows, columns)] if potentials or arcs_at is None else []
    if arcs_at is None:
        arcs_at = steps(count, room, rows.starts.device) if room else places[0] + places[1]
    wanted = (*places, plans.f, plans.g) if potentials else (None,) * 4
    arrays = (arcs_at, plans.values, *plans.ends.unbind(), plans.mass, *wanted)
    answers: list[Any] = [*map(on_gpu.address, arrays), room, plans.mass.dtype == torch.float32]
    on_device = own_costs.DevicePlans(*answers)
    if is_large and isinstance(given, Matrices):
        large_assignment.solve(count, rows.most, given.on_device(), on_device, notice)
    else:
        own_costs.solve(count, rows.on_device(), columns.on_device(), given.on_device(), on_device, balance, notice)
    return plans


def _is_large_assignment(rows: Side, columns: Side) -> bool:
    """Whether points go to points, one to one, in problems so large that each is the work of the whole GPU."""
    is_square = rows.even and columns.even and rows.most == columns.most
    is_uniform = rows.masses is None and columns.masses is None
    return is_square and is_uniform and large_assignment.takes(len(rows.starts), rows.most)


def _as_read(rows: Side, columns: Side, costs: Matrices | Clouds, refused: Tensor, is_large: bool) -> Matrices | Clouds:
    """Costs as kernels read them, in float64 if they compute with them."""
    if isinstance(costs, Matrices):
        return costs._replace(flat=costs.flat.double()) if is_large else costs
    if is_large or pays_to_price(rows, columns, costs):
        return _priced(rows, columns, costs, refused)
    return costs._replace(x=costs.x.double(), y=costs.y.double())


def _room_for(rows: Side, columns: Side, costs: Matrices | Clouds, *, potentials: bool, cleared: bool) -> Plans:
    """Memory for plans, with zeros where kernels do not write all of it."""
    home, arcs = rows.starts.device, rows.room + columns.room
    real = costs.flat.dtype if isinstance(costs, Matrices) else torch.float64
    make = torch.zeros if cleared else torch.empty
    values, mass = (make(size, dtype=real, device=home) for size in (len(rows.starts), arcs))
    f, g = (torch.zeros(side.room if potentials else 0, dtype=torch.float64, device=home) for side in (rows, columns))
    return Plans(values, make((2, arcs), dtype=torch.int64, device=home), mass, f, g)


def pays_to_price(rows: Side, columns: Side, clouds: Clouds) -> bool:
    """Whether points are so long that all costs are computed first, and whether these take little memory."""
    return clouds.x.shape[1] >= LONG and 8 * len(rows.starts) * rows.most * columns.most <= MOST_BYTES


def _priced(rows: Side, columns: Side, clouds: Clouds, refused: Tensor) -> Matrices:
    """The costs of clouds as matrices, each with room for the largest."""
    starts = steps(len(rows.starts), rows.most * columns.most, rows.starts.device)
    flat = torch.empty(len(starts) * rows.most * columns.most, dtype=torch.float64, device=starts.device)
    watch = None if clouds.ordinary is None else cloud_costs.Watch(clouds.ordinary, on_gpu.address(refused))
    sides, real = (rows.on_device(), columns.on_device()), REALS[clouds.x.dtype]
    cloud_costs.price(len(starts), *sides, clouds.on_device(), real, on_gpu.address(flat), watch)
    return Matrices(flat, starts, columns.most)
