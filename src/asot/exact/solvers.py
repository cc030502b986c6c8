"""Which solver the arguments of a call ask for: sorting, W_1 under a metric with a kernel, or any other cost."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.distinct import SparseHistograms, distinct_rows, sparse_histograms
from asot.data.distributions import Distributions
from asot.exact.any_cost import ExactAnyCost
from asot.exact.nested_labels import NestedLabels, nested_codes
from asot.exact.one_dimension import OneDimension
from asot.exact.points_on_devices import with_table
from asot.exact.unmatched import Unmatched, read_unmatched
from asot.ground.costs import GroundCost, Metric, prepare_cost
from asot.ground.metrics import KERNELS, NORMS, prepare_metric
from asot.request.distance import as_order
from asot.run import devices
from asot.run.protocols import Solver


def is_plain(pooled: Distributions, p: Any, metric: Any, unmatched: Any, device: str) -> bool:
    """Whether a call is W_1 with total mass 1 under a metric with its own kernel, which GPUs also solve."""
    on_line = pooled.dim == 1 and metric in NORMS and devices.parse(device)[0] != "cuda"
    return as_order(p) == 1 and unmatched is None and not callable(metric) and metric in KERNELS and not on_line


def cpu_solver(
    pooled: Distributions,
    p: Any,
    metric: Metric,
    parameters: dict[str, Any] | None,
    unmatched: Any,
    column_start: int,
    memory: int,
    histograms: SparseHistograms | None = None,
    n_pairs: int = 0,
) -> Solver:
    """The solver of a collection. ``histograms``: the collection over its distinct points, if already known.

    ``n_pairs`` decides whether distances come from a table, which may change their last bit. A search names all pairs
    that it looks at, so that its distances are those of brute force.
    """
    order = as_order(p)
    if pooled.dim == 1 and metric in NORMS and unmatched is None:
        prepare_metric(pooled.points[:1], str(metric), parameters)  # refuses what means nothing
        return OneDimension(
            pooled.points, pooled.offsets, pooled.masses, p=order, column_start=column_start, metric=str(metric)
        )
    histograms = sparse_histograms(pooled) if histograms is None else histograms
    if metric == "hamming" and order == 1 and unmatched is None:
        codes = nested_codes(histograms.points)
        if codes is not None:
            prepare_metric(histograms.points, "hamming", parameters)  # refuses what means nothing
            return NestedLabels(histograms, codes, column_start)
    if is_plain(pooled, p, metric, unmatched, "cpu"):
        ground = prepare_metric(histograms.points, str(metric), parameters)
        return with_table(histograms, ground, column_start, n_pairs)
    cost = prepare_cost(histograms.points, metric, parameters, memory)
    prices = None if unmatched is None else read_prices(unmatched, pooled, cost)
    return ExactAnyCost(histograms, cost, order, prices, column_start)


def read_prices(unmatched: Any, pooled: Distributions, cost: GroundCost) -> Unmatched:
    """``unmatched=`` of a call, for the distinct points of a collection."""
    index: NDArray[np.int64] = np.full(len(pooled.masses), -1)
    held = pooled.masses > 0
    index[held] = distinct_rows(pooled.points[held])[1]
    return read_unmatched(unmatched, pooled, index, cost)


def on_cpu(p: Any, dim: int, metric: Any, unmatched: Any, device: str) -> dict[str, Any]:
    """For ``info``: what the numbers are, and why no GPU was used. Refuses if the user named a GPU."""
    if devices.parse(device)[0] == "cuda":
        raise ValueError(
            f"device={str(device)!r} solves p=1 under {', '.join(KERNELS)}, without unmatched mass; "
            "use device='auto' or 'cpu'"
        )
    by_sorting = dim == 1 and metric in NORMS and unmatched is None
    reason = "sorting takes no GPU" if by_sorting else "GPUs solve p=1 under metrics with a kernel"
    order = as_order(p)
    return {
        "p": int(order) if order.is_integer() else order,
        "rooted": order != 1,
        "device_reason": "asked for" if device == "cpu" else reason,
    }
