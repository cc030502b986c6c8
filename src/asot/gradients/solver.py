"""The one place where losses meet a solver: problems on tensors of any device go in, sparse plans come out.

Callers put their problems where `asot.gradients.on_gpu.home_of` says, call `solve`, and bring plans to the device that
they came from. Arrays of tensors go to the batched solver of their device as they are. What is wrong with a problem is
said by the CPU, wherever it is solved, so that there is one sentence for it. Imported with the first call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from asot import batch
from asot.exact import batch as exact
from asot.gradients import gpu_solver, on_gpu
from asot.gradients.problems import Clouds, Matrices, Plans, Side

Made = TypeVar("Made")


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
    if on_gpu.has_gpu(home) and gpu_solver.takes(rows, columns):
        with on_gpu.stream_of(home), on_gpu.noticing(home) as notice:
            plans = gpu_solver.enqueue(rows, columns, costs, notice.there, potentials=potentials, balance=balance)
            made = finish(plans)  # is launched before the host waits
        if not notice.given:
            return made
    # What a GPU leaves is refused by the CPU or, where it is only a matter of rounding, solved there.
    solved = _solve_on_cpu(rows, columns, costs, potentials=potentials, balance=balance)
    return finish(Plans(*(part.to(home) for part in solved)))


def _solve_on_cpu(rows: Side, columns: Side, costs: Matrices | Clouds, *, potentials: bool, balance: float) -> Plans:
    """Solve on `torch.get_num_threads()` threads."""
    first, second, prepared = _checked(rows, columns, costs, balance)
    solver = exact.ExactBatch(first, second, prepared, plans=True, potentials=potentials)
    values = batch.values_of(solver, len(first.sizes), n_jobs=torch.get_num_threads())
    kept = solver.kept
    ends = np.empty((2, len(kept["mass"])), dtype=np.int64)
    ends[0], ends[1] = kept["source"], kept["sink"]
    f, g = (kept.get(name, np.zeros(0)) for name in "fg")
    return Plans(*map(torch.from_numpy, (values, ends, kept["mass"], f, g)))


def _checked(rows: Side, columns: Side, costs: Matrices | Clouds, balance: float) -> tuple[Any, Any, Any]:
    """Sides and costs as arrays on the CPU. Refuses masses that are no problem, by the name of the first one."""
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
