"""``asot::clouds``: optimal plans of pairs of clouds as one operation of torch.

Whatever looks at numbers (checks, the solver) is inside the operation, so that `torch.compile` passes it as one step,
and `torch.func.grad` and `vmap` go through. It has no gradient of its own: the caller prices the arcs again. Where
problems are solved is for `asot.gradients.solver` to say; the arcs of the plans come back to the tensors' device.
Imported with the first call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from asot.gradients.clouds import CODES, CloudPlan
from asot.gradients.eager import is_eager
from asot.gradients.on_gpu import REALS, home_of, in_one_piece
from asot.gradients.problems import Clouds, Plans, Side
from asot.gradients.solver import solve
from asot.gradients.tensors import balance_of, wide
from asot.gradients.units import units_of


def _side(masses: Tensor | None, offsets: Tensor, chosen: Tensor, room: int, home: Any) -> Side:
    """Which points, of which masses, the problems take; ``offsets`` and ``chosen`` are on the CPU."""
    sizes = offsets.diff()[chosen]
    most = int(sizes.max()) if len(sizes) else 0
    return Side(
        offsets[:-1][chosen].to(home),
        sizes.to(home),
        None if masses is None else in_one_piece(masses, home, torch.float64),
        most=most,
        padded=False,
        room=room,
        even=room == most * len(sizes),
    )


class CloudBatch(NamedTuple):
    """What the operation is given: pairs (P, 2) of clouds x (N, d) and y (M, d), cut at their offsets."""

    x: Tensor
    y: Tensor
    a: Tensor | None
    b: Tensor | None
    x_offsets: Tensor
    y_offsets: Tensor
    pairs: Tensor
    rows: int
    columns: int
    """Points of all first, and of all second clouds."""
    power: float
    metric: str
    potentials: bool
    """Whether they are wanted."""


def _solve(*arguments: Any) -> tuple[Tensor, ...]:
    """The parts of a `CloudPlan` for the fields of a `CloudBatch`, and powers of two (P,) by which coordinates were
    divided, as costs are in potentials."""
    given = CloudBatch(*arguments)
    x, y, power, potentials = given.x, given.y, given.power, given.potentials
    home = home_of(x)
    real = x.dtype if x.dtype == y.dtype and x.dtype in REALS else torch.float64
    points = [in_one_piece(part, home, real) for part in (x, y)]
    offsets = given.x_offsets, given.y_offsets
    first, second = given.pairs.unbind(1)
    left = _side(given.a, offsets[0], first, given.rows, home)
    right = _side(given.b, offsets[1], second, given.columns, home)
    costs = Clouds(points[0], points[1], CODES[given.metric], power, None)
    unit = units_of(x.detach().to(home), y.detach().to(home), offsets, given.pairs, costs)
    if unit is not None:
        costs = costs._replace(shrink=1.0 / unit)
    problems = torch.arange(len(given.pairs), device=home)
    n_arcs = given.rows + given.columns
    pair = problems.repeat_interleave(left.sizes + right.sizes, output_size=n_arcs)
    dtype, device = wide(x), x.device

    def finish(plans: Plans) -> tuple[Tensor, ...]:
        """Arcs by the points that they join; outputs of an operation must not share memory."""
        parts = (
            pair, plans.ends[0] + left.starts[pair], plans.ends[1] + right.starts[pair], plans.mass,
            *_places(left, problems, potentials), plans.f, *_places(right, problems, potentials),
            plans.g, problems.new_ones(len(problems), dtype=torch.float64) if unit is None else unit,
        )  # fmt: skip
        return tuple(part.to(device, dtype if part.is_floating_point() else None) for part in parts)

    return solve(left, right, costs, finish, potentials=potentials, balance=balance_of(given.a, given.b))


def _places(side: Side, problems: Tensor, potentials: bool) -> tuple[Tensor, Tensor]:
    """The problem, and the point, of each potential of a side: (room,) and (room,), or nothing."""
    if not potentials:
        return problems.new_empty(0), problems.new_empty(0)
    problem = problems.repeat_interleave(side.sizes, output_size=side.room)
    before = side.sizes.cumsum(0) - side.sizes
    within = torch.arange(side.room, device=problem.device) - before[problem]
    return problem, side.starts[problem] + within


def _shapes(*arguments: Any) -> tuple[Tensor, ...]:
    """Empty parts as `_solve` returns them."""
    given = CloudBatch(*arguments)
    x = given.x

    def room(size: Any, kinds: str) -> list[Tensor]:
        return [x.new_empty((size,), dtype=wide(x) if kind == "f" else torch.int64) for kind in kinds]

    f, g = (given.rows, given.columns) if given.potentials else (0, 0)
    n_arcs = given.rows + given.columns
    return (*room(n_arcs, "iiif"), *room(f, "iif"), *room(g, "iif"), *room(given.pairs.shape[0], "f"))


_SCHEMA = (
    "(Tensor x, Tensor y, Tensor? a, Tensor? b, Tensor x_offsets, Tensor y_offsets, Tensor pairs, SymInt rows, "
    "SymInt columns, float power, str metric, bool potentials) -> ("
    + ", ".join(["Tensor"] * (len(CloudPlan._fields) + 1))
    + ")"
)
_clouds: Any = torch.library.custom_op("asot::clouds", _solve, mutates_args=(), schema=_SCHEMA)
_clouds.register_fake(_shapes)


def solve_clouds(given: CloudBatch) -> tuple[CloudPlan, Tensor]:
    """What `_solve` makes of them: plans and units. Where torch computes at once, no operation is needed, and the first
    one of a process takes torch a second."""
    if is_eager(*given[:4]):
        with torch.no_grad():
            *plans, unit = _solve(*given)
    else:
        *plans, unit = _clouds(*given)
    return CloudPlan(*plans), unit


@_clouds.register_vmap
def _over_batches(info: Any, in_dims: Any, *given: Any) -> Any:
    """V batches are one longer batch of V times as many clouds, whose plans are cut apart again."""
    V, one = info.batch_size, CloudBatch(*given)
    if any(dim is not None for dim in in_dims[4:]):
        raise NotImplementedError("vmap maps points and masses of asot.gradients, but neither offsets nor pairs")
    whole: list[Any] = [
        None if t is None else (t[None].expand(V, *t.shape) if dim is None else t.movedim(dim, 0)).flatten(0, 1)
        for t, dim in zip(given[:4], in_dims, strict=False)
    ]
    x, y, a, b = whole
    N, M, P = x.shape[0] // V, y.shape[0] // V, one.pairs.shape[0]
    step = torch.arange(V, device="cpu")[:, None]
    bounds = [
        torch.cat([offsets[:1], (offsets[None, 1:] + step * size).flatten()])
        for offsets, size in ((one.x_offsets, N), (one.y_offsets, M))
    ]
    clouds = torch.tensor([len(one.x_offsets) - 1, len(one.y_offsets) - 1], device="cpu")
    listed = (one.pairs[None] + step[:, :, None] * clouds).flatten(0, 1)
    batch = one._replace(
        x=x, y=y, a=a, b=b, x_offsets=bounds[0], y_offsets=bounds[1], pairs=listed,
        rows=V * one.rows, columns=V * one.columns,
    )  # fmt: skip
    out = _clouds(*batch)
    *plans, unit = (part.view(V, len(part) // V) for part in out)
    apart = CloudPlan(*plans)
    shift = step.to(x.device)
    moved = apart._replace(
        pair=apart.pair - shift * P, source=apart.source - shift * N, sink=apart.sink - shift * M,
        row_pair=apart.row_pair - shift * P, row=apart.row - shift * N,
        column_pair=apart.column_pair - shift * P, column=apart.column - shift * M,
    )  # fmt: skip
    return (*moved, unit), (0,) * len(out)
