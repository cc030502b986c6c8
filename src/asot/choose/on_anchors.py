"""Distances on the anchors, as the paper defines them: plain, entropic, or together with bounds on W_1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.anchors.space import POINTS_AT_A_TIME, AnchorSpace
from asot.bounds.error_bars import check_proven, make_bounds, warn_far_from_anchors
from asot.bounds.guarantee import Guaranteed
from asot.entropic.cpu import SinkhornSharedCost
from asot.entropic.options import SinkhornOptions
from asot.estimate.solver import BoundedAnchors, BoundedSinkhorn
from asot.exact.metric_check import is_metric
from asot.exact.shared_cost import ExactSharedCost
from asot.histograms import run_emd, run_sinkhorn
from asot.request.request import Request
from asot.results.distances import Distances
from asot.run.executors import one_thread_per_product
from asot.run.protocols import Solver, Status
from asot.run.work import Ready, Work, solve_work
from asot.validation import as_histograms


def solve_on_anchors(call: Request, space: AnchorSpace, reg: Any, *, given: bool) -> Any:
    """What the sink makes of the distances in a space; ``given`` says that the space was not made for this call."""
    info = {
        "metric": "euclidean" if space.is_euclidean else "given cost",
        "p": 1,
        "n_anchors": space.n_anchors,
        "estimate": "anchor",
        "started": call.started,
    }
    if call.level is None:
        return _plain(call, space, reg, info)
    check_proven(space, "bounds=True" if call.accepted is None else "max_error")
    with one_thread_per_product():
        solver, radii = _bounded(call, space, reg)
        if given:
            warn_far_from_anchors(space.proven, radii)
        if call.accepted is not None:
            solver = Guaranteed(solver, call.D, call.E, call.accepted)
        return solve_work(Work(call.pairs, Ready(solver), info=info), call.bounded_sink, **call.options)


def _plain(call: Request, space: AnchorSpace, reg: Any, info: dict[str, Any]) -> Any:
    if type(space) is AnchorSpace and call.D.offsets[-1] <= POINTS_AT_A_TIME:
        space.nearest_of(call.D, device=call.device, n_jobs=call.running.n_jobs)  # the histograms use it
    A = space.histograms(call.D, device=call.device)
    B = None if call.E is None else space.histograms(call.E, device=call.device)
    common: dict[str, Any] = {"cost": space.cost, "pairs": call.listed, "device": call.device, "info": info}
    if reg is not None:
        return run_sinkhorn(A, B, reg=reg, sink=call.sink, **common, **call.options)
    result: Any = run_emd(A, B, sink=call.sink, **common, **call.options)
    if isinstance(result, Distances):
        result.status[result.status == Status.OPTIMAL] = Status.ON_ANCHORS
    return result


def _bounded(call: Request, space: AnchorSpace, reg: Any) -> tuple[Solver, NDArray[np.float64]]:
    """The solver that gives bounds, and the radii of all distributions."""
    assert call.level is not None
    proven = space.proven
    proven.nearest_of(call.D, device="cpu", n_jobs=call.running.n_jobs)  # the bounds use it
    bounds = make_bounds(proven, call.D, call.E, call.level if reg is None else "radius")
    if reg is not None:
        if proven is not space:
            raise ValueError("bounds on entropic distances need nearest anchors, not soft codes; use reg=None")
        A, B = _histograms(call, space)
        entropic = SinkhornSharedCost(A, B, space.cost, SinkhornOptions.read(space.cost, reg=reg))
        return BoundedSinkhorn(entropic, bounds), bounds.radii
    anchor = ExactSharedCost(*_histograms(call, proven), proven.cost, cancel=True)
    learned = None
    if proven is not space:
        learned = ExactSharedCost(*_histograms(call, space), space.cost, cancel=is_metric(space.cost))
    return BoundedAnchors(anchor, bounds, learned), bounds.radii


def _histograms(call: Request, space: AnchorSpace) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    A = as_histograms(space.histograms(call.D, device="cpu"), "A", space.n_anchors)
    return A, None if call.E is None else as_histograms(space.histograms(call.E, device="cpu"), "B", space.n_anchors)
