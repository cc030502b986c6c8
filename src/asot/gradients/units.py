"""The unit in which a pair of clouds is measured, a power of two.

A distance to a high power leaves the range of numbers where it is large or small. So a pair whose distances are extreme
is solved and priced in a unit near its largest one. Gradients get that unit elsewhere (`times`): one that went through
it and back could leave the range on its way; at 10^290, the derivative of a root of order 50 does. Imported with the
first call.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from asot.data.reading import place_of
from asot.gradients.problems import Clouds
from asot.ground.metrics import CHEBYSHEV, CITYBLOCK, EUCLIDEAN

EXTREME = 300
"""A pair whose distances, to the power of its costs, are beyond 2^±300 is solved in a unit of its own."""
NO_EXPONENT = -1100
"""Of points that are all equal."""
NORMS = {EUCLIDEAN: 2.0, CITYBLOCK: 1.0, CHEBYSHEV: float("inf")}


def ordinary_sizes(power: float, dim: int) -> tuple[float, float]:
    """Sizes of coordinates (0 aside, at least the first, and less than the second) whose Euclidean distances to a power
    are certainly not too large, and only too small where points are near each other."""
    bits = int(EXTREME / max(power, 2.0))
    room = math.floor(900 / power - math.log2(2.0 * math.sqrt(dim)))
    return 2.0 ** -(bits + 1), 2.0 ** min(bits, room)


def units_of(x: Tensor, y: Tensor, offsets: tuple[Tensor, Tensor], pairs: Tensor, costs: Clouds) -> Tensor | None:
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


# ---------------------------------------------------------------------------------------------------------- gradients


class _Times(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(tensor: Tensor, factor: Tensor, slope: Tensor) -> Tensor:
        return tensor * factor

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[2])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient * ctx.saved_tensors[0], None, None


def times(tensor: Tensor, factor: Tensor, slope: Tensor) -> Tensor:
    """``tensor * factor``, whose gradient is multiplied with ``slope``."""
    found: Tensor = _Times.apply(tensor, factor, slope)  # type: ignore[no-untyped-call]
    return found
