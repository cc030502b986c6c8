"""Distances on the anchors, as the paper defines them: plain, entropic, or together with bounds."""

from __future__ import annotations

from typing import Any

from asot._typing import Float
from asot.anchors.space import POINTS_AT_A_TIME, AnchorSpace
from asot.bounds.bounded_anchors import BoundedAnchors, BoundedSinkhorn
from asot.bounds.error_bars import check_proven, make_bounds, warn_far_from_anchors
from asot.bounds.guarantee import Guaranteed
from asot.choose.on_gpus import on_places
from asot.entropic.cpu import SinkhornSharedCost
from asot.entropic.options import SinkhornOptions
from asot.estimate.attempts import CoarseAttempts
from asot.estimate.coarse import CoarseValues
from asot.exact.auto import euclidean_solver
from asot.exact.cost_check import is_metric
from asot.exact.shared_cost import ExactSharedCost
from asot.ground.metrics import TRANSFORMED
from asot.histograms import Call, run_emd, run_sinkhorn
from asot.request import Request
from asot.results.distances import Distances
from asot.run import devices
from asot.run.engine import Ready, Work, solve_work
from asot.run.executors import one_thread_per_product
from asot.run.protocols import Notes, Solver, Status
from asot.validation import as_histograms


def solve_on_anchors(request: Request, space: AnchorSpace, reg: Any, *, given: bool) -> Any:
    """What the sink makes of the distances in a space; ``given`` says that the space was not made for this call."""
    if not request.distance.is_plain:
        return _other_distance(request, space)
    info = {
        "metric": "euclidean" if space.is_euclidean else "given cost",
        "p": 1,
        "n_anchors": space.n_anchors,
        "estimate": "anchor",
    }
    notes = Notes(info, stage="distances on anchors" if reg is None else None, started=request.started)
    if request.level is None:
        return _plain(request, space, reg, notes)
    check_proven(space, "bounds=True" if request.max_error is None else "max_error")
    with one_thread_per_product():
        solver, radii = _bounded(request, space, reg)
        if given:
            warn_far_from_anchors(space.proven, radii)
        if request.max_error is not None:
            exact = euclidean_solver(request.both, request.column_start)
            solver = Guaranteed(solver, exact, request.max_error)
        return solve_work(Work(request.pairs, Ready(solver), notes=notes), request.bounded_sink, request.resources)


def _plain(request: Request, space: AnchorSpace, reg: Any, notes: Notes) -> Any:
    nearest = devices.of_points(request.device)
    if type(space) is AnchorSpace and request.D.offsets[-1] <= POINTS_AT_A_TIME:
        assigned = space.nearest_of(request.D, device=nearest, n_jobs=request.resources.n_jobs)
        A = space.histograms_of(request.D, assigned.nearest)
    else:
        A = space.histograms(request.D, device=nearest)
    B = None if request.E is None else space.histograms(request.E, device=nearest)
    call: Call[Any] = Call(request.listed, request.device, request.resources, request.sink, notes)
    if reg is not None:
        return run_sinkhorn(A, B, space.cost, SinkhornOptions.read(space.cost, reg=reg), call)
    result: Any = run_emd(A, B, space.cost, call)
    if isinstance(result, Distances):
        result.status[result.status == Status.OPTIMAL] = Status.ON_ANCHORS
    return result


def _bounded(request: Request, space: AnchorSpace, reg: Any) -> tuple[Solver, Float]:
    """The solver that gives bounds, and the radii of all distributions."""
    assert request.level is not None
    proven, level = space.proven, request.level if reg is None else "radius"
    assigned = proven.nearest_of(request.both, device="cpu", n_jobs=request.resources.n_jobs)
    bounds = make_bounds(proven, request.both, request.column_start, level, assigned=assigned)
    histograms = proven.histograms_of(request.both, assigned.nearest)
    A = as_histograms(histograms[: len(request.D)], "A", proven.n_anchors)
    B = None if request.E is None else as_histograms(histograms[len(request.D) :], "B", proven.n_anchors)
    if reg is not None:
        if proven is not space:
            raise ValueError("bounds on entropic distances need nearest anchors, not soft codes; use reg=None")
        entropic = SinkhornSharedCost(A, B, space.cost, SinkhornOptions.read(space.cost, reg=reg))
        return BoundedSinkhorn(entropic, bounds), bounds.radii
    anchor = ExactSharedCost(A, B, proven.cost, cancel=True)
    learned = None
    if proven is not space:
        A = as_histograms(space.histograms(request.D, device="cpu"), "A", space.n_anchors)
        if request.E is not None:
            B = as_histograms(space.histograms(request.E, device="cpu"), "B", space.n_anchors)
        learned = ExactSharedCost(A, B, space.cost, cancel=is_metric(space.cost))
    return BoundedAnchors(anchor, bounds, learned), bounds.radii


def _other_distance(request: Request, space: AnchorSpace) -> Any:
    """The distance between histograms on the anchors, for other orders, norms and unmatched mass."""
    check_proven(space, "another distance than the Euclidean W_1")
    attempts = CoarseAttempts(request, space)
    if attempts.why_exact is not None:
        raise ValueError(f"{attempts.why_exact}; leave out estimate, space and strategy, or use pairwise_exact")
    if space.proven is not space:
        raise ValueError("p, metric and unmatched need nearest anchors, not soft codes; use estimate='auto'")
    if request.distance.metric in TRANSFORMED:
        raise ValueError(f"anchors are not compared by metric={request.distance.metric!r}; use estimate='auto'")
    with one_thread_per_product():
        coarse = attempts.on_places(space, on_anchors=True)
        values = CoarseValues(coarse, give_bounds=request.level is not None)
        solver: Solver = values
        if request.max_error is not None:
            solver = Guaranteed(solver, attempts.exact_solver(), request.max_error)
        info = {**request.distance.info, "n_anchors": space.n_anchors, "estimate": "anchor"}
        work = Work(
            request.pairs, Ready(solver), notes=Notes(info, stage="distances on anchors", started=request.started)
        )
        if request.wants_gpu:
            work = on_places(work, solver, request, coarse, values.of)
        return solve_work(work, request.bounded_sink, request.resources)
