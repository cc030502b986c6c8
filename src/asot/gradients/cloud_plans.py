"""``asot::clouds``: optimal plans of pairs of clouds as one operation of torch.

Whatever looks at numbers (checks, the solver) is inside the operation, so that `torch.compile` passes it as one step,
and `torch.func.grad` and `vmap` go through. It has no gradient of its own: the caller prices the arcs again. The solver
runs on the CPU; tensors of another device are copied there, and the arcs of the plans come back to it. Imported with
the first call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from asot.batch import check_masses, solve_batch
from asot.data.reading import place_of
from asot.exact.batch import Clouds, Side, ranges
from asot.gradients.tensors import balance_of, wide
from asot.ground.metrics import CHEBYSHEV, CITYBLOCK, EUCLIDEAN

CODES = {"euclidean": EUCLIDEAN, "sqeuclidean": EUCLIDEAN, "cityblock": CITYBLOCK, "chebyshev": CHEBYSHEV}
EXTREME = 300
"""A pair whose coordinates, to the power of its costs, are beyond 2^±300 is solved in a unit of its own."""


class CloudPlans(NamedTuple):
    """Plans and potentials of P pairs. A pair of n and m points has room for n + m arcs; masses are 0 where it has
    fewer."""

    pair: Tensor  # (arcs,) which pair an arc belongs to
    source: Tensor  # (arcs,) rows of x
    sink: Tensor  # (arcs,) rows of y
    mass: Tensor  # (arcs,)
    row_pair: Tensor  # (rows,)
    row: Tensor  # (rows,) rows of x
    f: Tensor  # (rows,) potentials, in units of the pair's unit^power
    column_pair: Tensor
    column: Tensor
    g: Tensor
    unit: Tensor  # (P,) a power of two by which coordinates were divided


def solve_clouds(
    x: Tensor,
    y: Tensor,
    a: Tensor | None,
    b: Tensor | None,
    x_offsets: Tensor,
    y_offsets: Tensor,
    pairs: Tensor,
    rooms: tuple[int, int],
    power: float,
    metric: str,
) -> CloudPlans:
    """Plans of the pairs (P, 2) of clouds x (N, d) and y (M, d), which ``rooms`` = (points of all first clouds, points
    of all second clouds) have in all."""
    out: tuple[Tensor, ...] = _clouds(x, y, a, b, x_offsets, y_offsets, pairs, *rooms, power, metric)
    return CloudPlans(*out)


def _numbers(tensor: Tensor) -> NDArray[np.float64]:
    array: NDArray[np.float64] = tensor.detach().to("cpu", torch.float64).contiguous().numpy()
    return array


def _sides(x: Any, a: Any, offsets: Any, chosen: Any, name: str) -> tuple[NDArray[np.float64], Side, NDArray[np.int64]]:
    """Checked points, which of them the pairs take, and the exponent of the largest coordinate of each cloud."""
    points, bounds = _numbers(x), offsets.cpu().numpy()
    sizes = np.diff(bounds)
    largest = np.abs(points).max(axis=1, initial=0.0)
    if not np.isfinite(largest).all():
        cloud, place = place_of(int((~np.isfinite(largest)).argmax()), bounds)
        raise ValueError(f"problem {cloud}: point {place} of its cloud in {name} is not finite")
    most = np.zeros(len(sizes))
    filled = sizes > 0
    if filled.any():
        most[filled] = np.maximum.reduceat(largest, bounds[:-1][filled])
    side = Side(
        np.ascontiguousarray(bounds[:-1][chosen]),
        np.ascontiguousarray(sizes[chosen]),
        None if a is None else _numbers(a),
    )
    return points, side, np.where(most[chosen] > 0, np.frexp(most[chosen])[1], -1100)


def _solve(
    x: Tensor,
    y: Tensor,
    a: Tensor | None,
    b: Tensor | None,
    x_offsets: Tensor,
    y_offsets: Tensor,
    pairs: Tensor,
    rows: int,
    columns: int,
    power: float,
    metric: str,
) -> tuple[Tensor, ...]:
    first, second = pairs.cpu().numpy().T
    points_x, left, exponent_x = _sides(x, a, x_offsets, first, "x")
    points_y, right, exponent_y = _sides(y, b, y_offsets, second, "y")
    check_masses(left, right, balance_of(a, b))
    exponent = np.maximum(exponent_x, exponent_y)
    extreme = (np.abs(exponent) * max(power, 2.0) > EXTREME) & (exponent > -1100)
    unit = np.ldexp(1.0, np.where(extreme, np.clip(exponent, -1000, 1000), 0))
    costs = Clouds(points_x, points_y, CODES[metric], 2.0, power, 1.0 / unit if extreme.any() else None)
    solver = solve_batch(left, right, costs, plans=True, n_jobs=torch.get_num_threads()).solver
    arcs, potentials = solver.arcs, solver.potentials
    assert arcs is not None
    assert potentials is not None
    pair = np.repeat(np.arange(len(pairs)), left.sizes + right.sizes)
    row_pair, row = ranges(left.starts, left.sizes)
    column_pair, column = ranges(right.starts, right.sizes)
    parts = (
        pair, arcs.source + left.starts[pair], arcs.sink + right.starts[pair], arcs.mass,
        row_pair, row, potentials.f, column_pair, column, potentials.g, unit,
    )  # fmt: skip
    dtype = wide(x)
    return tuple(
        torch.as_tensor(part).to(x.device, dtype if part.dtype == np.float64 else torch.int64) for part in parts
    )


def _shapes(
    x: Tensor,
    y: Tensor,
    a: Any,
    b: Any,
    x_offsets: Any,
    y_offsets: Any,
    pairs: Tensor,
    rows: int,
    columns: int,
    *_: Any,
) -> tuple[Tensor, ...]:
    def room(size: Any, kinds: str) -> list[Tensor]:
        return [x.new_empty((size,), dtype=wide(x) if kind == "f" else torch.int64) for kind in kinds]

    return (*room(rows + columns, "iiif"), *room(rows, "iif"), *room(columns, "iif"), *room(pairs.shape[0], "f"))


_SCHEMA = (
    "(Tensor x, Tensor y, Tensor? a, Tensor? b, Tensor x_offsets, Tensor y_offsets, Tensor pairs, SymInt rows, "
    "SymInt columns, float power, str metric) -> (" + ", ".join(["Tensor"] * len(CloudPlans._fields)) + ")"
)
_clouds: Any = torch.library.custom_op("asot::clouds", _solve, mutates_args=(), schema=_SCHEMA)
_clouds.register_fake(_shapes)


@_clouds.register_vmap
def _over_batches(info: Any, in_dims: Any, *given: Any) -> Any:
    """V batches are one longer batch of V times as many clouds, whose plans are cut apart again."""
    V = info.batch_size
    x_offsets, y_offsets, pairs, rows, columns, power, metric = given[4:]
    if any(dim is not None for dim in in_dims[4:]):
        raise NotImplementedError("vmap maps points and masses of asot.gradients, but neither offsets nor pairs")
    whole: list[Any] = [
        None if t is None else (t[None].expand(V, *t.shape) if dim is None else t.movedim(dim, 0)).flatten(0, 1)
        for t, dim in zip(given[:4], in_dims, strict=False)
    ]
    x, y, a, b = whole
    N, M, P = x.shape[0] // V, y.shape[0] // V, pairs.shape[0]
    step = torch.arange(V)[:, None]
    bounds = [
        torch.cat([torch.zeros(1, dtype=torch.int64), (offsets[None, 1:] + step * size).flatten()])
        for offsets, size in ((x_offsets, N), (y_offsets, M))
    ]
    clouds = torch.tensor([len(x_offsets) - 1, len(y_offsets) - 1])
    listed = (pairs[None] + step[:, :, None] * clouds).flatten(0, 1)
    out = CloudPlans(*_clouds(x, y, a, b, *bounds, listed, V * rows, V * columns, power, metric))
    apart = CloudPlans(*(part.reshape(V, -1, *part.shape[1:]) for part in out))
    shift = step.to(x.device)
    moved = apart._replace(
        pair=apart.pair - shift * P, source=apart.source - shift * N, sink=apart.sink - shift * M,
        row_pair=apart.row_pair - shift * P, row=apart.row - shift * N,
        column_pair=apart.column_pair - shift * P, column=apart.column - shift * M,
    )  # fmt: skip
    return tuple(moved), (0,) * len(moved)
