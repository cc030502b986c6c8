"""``asot::clouds``: optimal plans of pairs of clouds as one operation of torch.

Whatever looks at numbers (checks, the solver) is inside the operation, so that `torch.compile` passes it as one step,
and `torch.func.grad` and `vmap` go through. It has no gradient of its own: the caller prices the arcs again. Where
problems are solved is for `asot.gradients.solver` to say; the arcs of the plans come back to the tensors' device.
Imported with the first call.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from asot.data.reading import place_of
from asot.gradients.clouds import CODES, CloudPlan
from asot.gradients.eager import is_eager
from asot.gradients.on_gpu import REALS, home_of, in_one_piece
from asot.gradients.problems import Clouds, Plans, Side
from asot.gradients.solver import solve
from asot.gradients.tensors import balance_of, wide
from asot.ground.metrics import CHEBYSHEV, CITYBLOCK, EUCLIDEAN

EXTREME = 300
"""A pair whose distances, to the power of its costs, are beyond 2^±300 is solved in a unit of its own."""
NO_EXPONENT = -1100
"""Of points that are all equal."""
NORMS = {EUCLIDEAN: 2.0, CITYBLOCK: 1.0, CHEBYSHEV: float("inf")}


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


def ordinary_sizes(power: float, dim: int) -> tuple[float, float]:
    """Sizes of coordinates (0 aside, at least the first, and less than the second) whose Euclidean distances to a power
    are certainly not too large, and only too small where points are near each other."""
    bits = int(EXTREME / max(power, 2.0))
    room = math.floor(900 / power - math.log2(2.0 * math.sqrt(dim)))
    return 2.0 ** -(bits + 1), 2.0 ** min(bits, room)


def _units(x: Tensor, y: Tensor, offsets: tuple[Tensor, Tensor], pairs: Tensor, costs: Clouds) -> Tensor | None:
    """Powers of two (P,) by which the coordinates of problems are divided, or None: all of them by 1. Refuses what is
    not finite. The host waits for the device once, unless something may be extreme.

    A unit is near the largest distance of a pair: with r_x and r_y, the distances of a cloud's points from its first
    one, and r, that of both first points, max(r_x, r_y, r) is at most twice as much, and at least a third."""
    dim = x.shape[1]
    if not dim or _are_ordinary(x, y, offsets, pairs, costs.power):
        return None
    gaps = [_Gaps.of(*side) for side in ((x, offsets[0]), (y, offsets[1]))]
    chosen = pairs.to(x.device).unbind(1)
    across = [gap.first[own] for gap, own in zip(gaps, chosen, strict=True)]
    widths = [_widest(gap.from_first) for gap in gaps]
    most = [gap.of_clouds(width, 0.0) for gap, width in zip(gaps, widths, strict=True)]
    rough = torch.maximum(torch.maximum(most[0][chosen[0]], most[1][chosen[1]]), _widest(across[0] - across[1]))
    bits = torch.frexp(rough.double()).exponent.abs() + _slack(dim)
    doubtful = (bits * max(costs.power, 2.0) > EXTREME) & (rough != 0)
    if not torch.stack([doubtful.any(), *((~width.isfinite()).any() for width in widths)]).any():
        return None
    sizes = [_checked(*side, pairs) for side in zip((x, y), offsets, "xy", strict=True)]
    norm = NORMS[costs.metric]
    exponents = [
        gap.of_clouds(_exponents(side, gap.first[gap.cloud], norm), NO_EXPONENT)
        for gap, side in zip(gaps, (x, y), strict=True)
    ]
    exponent = torch.maximum(exponents[0][chosen[0]], exponents[1][chosen[1]])
    exponent = torch.maximum(exponent, _exponents(across[0], across[1], norm))
    extreme = (exponent.abs() * max(costs.power, 2.0) > EXTREME) & (exponent > NO_EXPONENT)
    held = [gap.of_clouds(torch.frexp(size).exponent, NO_EXPONENT) for gap, size in zip(gaps, sizes, strict=True)]
    size = torch.maximum(held[0][chosen[0]], held[1][chosen[1]])  # which must be finite in that unit, too
    return _power_of_two(torch.where(extreme, torch.maximum(exponent, size - 1000), 0))


def _are_ordinary(x: Tensor, y: Tensor, offsets: tuple[Tensor, Tensor], pairs: Tensor, power: float) -> bool:
    """Whether the first points of all pairs are so far apart, and all coordinates so small, that no pair's largest
    distance can be extreme. So it mostly is, and nothing else has to be looked at."""
    if not (len(pairs) and len(x) and len(y)):
        return False
    one, two = (
        points[bounds[:-1][own].clamp(max=len(points) - 1).to(points.device)]
        for points, bounds, own in zip((x, y), offsets, pairs.unbind(1), strict=True)
    )
    least, *most = torch.stack([_widest(one - two).min(), *x.aminmax(), *y.aminmax()]).double().abs().tolist()
    if not (least > 0.0 and math.isfinite(sum(most))):
        return False
    exponents = (abs(math.frexp(size)[1]) for size in (least, 2.0 * max(most)))
    return (max(exponents) + _slack(x.shape[1])) * max(power, 2.0) <= EXTREME


def _slack(dim: int) -> float:
    """Bits by which norms differ, and rounding."""
    return math.log2(dim) + 2


class _Gaps(NamedTuple):
    """How far the points of clouds are from the first one of each."""

    first: Tensor  # (clouds, d), of an empty cloud any point
    cloud: Tensor  # (n,)
    from_first: Tensor  # (n, d)

    @classmethod
    def of(cls, points: Tensor, offsets: Tensor) -> _Gaps:
        sizes = offsets.diff().to(points.device)
        cloud = torch.arange(len(sizes), device=points.device).repeat_interleave(sizes, output_size=len(points))
        if not len(points):
            return cls(points.new_zeros(len(sizes), points.shape[1]), cloud, points)
        first = points[offsets[:-1].clamp(max=len(points) - 1).to(points.device)]
        return cls(first, cloud, points - first[cloud])

    def of_clouds(self, numbers: Tensor, least: float) -> Tensor:
        """The largest (clouds,) of numbers (n,), and ``least`` where there is none."""
        return numbers.new_full((len(self.first),), least).scatter_reduce(0, self.cloud, numbers, "amax")


def _checked(points: Tensor, offsets: Tensor, name: str, pairs: Tensor) -> Tensor:
    """The largest coordinate (n,) of each point; refuses what is not finite."""
    largest = _widest(points).double()
    finite = largest.isfinite()
    if not finite.all():
        cloud, place = place_of(int((~finite).int().argmax()), offsets.numpy())
        users = (pairs[:, "xy".index(name)] == cloud).nonzero()
        whose = (
            f"problem {int(users[0])}: point {place} of its cloud" if len(users) else f"point {place} of cloud {cloud}"
        )
        raise ValueError(f"{whose} in {name} is not finite")
    return largest


def _widest(gaps: Tensor) -> Tensor:
    return torch.linalg.vector_norm(gaps, float("inf"), 1)


def _exponents(one: Tensor, two: Tensor, norm: float) -> Tensor:
    """Of the distances of points (n, d), computed without over- or underflow."""
    top = torch.finfo(torch.float64).max
    gap = (one.double() - two.double()).clamp(-top, top)
    widest = _widest(gap)
    near = torch.frexp(widest).exponent.clamp(-1000, 1000)
    rest = torch.linalg.vector_norm(gap * _power_of_two(-near)[:, None], norm, 1)
    return torch.where(widest > 0, near + torch.frexp(rest).exponent, NO_EXPONENT)


def _power_of_two(exponent: Tensor) -> Tensor:
    """As float64; exponents beyond ±1000 count as these."""
    return ((exponent.to(torch.int64).clamp(-1000, 1000) + 1023) << 52).view(torch.float64)


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
    unit = _units(x.detach().to(home), y.detach().to(home), offsets, given.pairs, costs)
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
