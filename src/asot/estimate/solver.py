"""The solver behind `pairwise` when it needs more than the anchor distance: bounds, a calibrated value, or both.

The anchor problem of a pair is solved once; its plan and potentials then serve the bounds and the correction. To the
engine this is a solver like any other, so that calibrated values go to any sink.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from asot._typing import Identity, Info
from asot.bounds.entropic_bracket import anchor_bounds
from asot.bounds.error_bars import Bounds
from asot.bounds.guarantee import Guaranteed
from asot.entropic.cpu import SinkhornSharedCost
from asot.estimate.calibration import Calibration
from asot.estimate.cuda import EstimatesCuda, FeaturesCuda
from asot.estimate.pair_features import Features, PairFeatures
from asot.exact.shared_cost import ExactSharedCost
from asot.request import Request
from asot.run import devices, gpu_engine
from asot.run.engine import Ready, Work
from asot.run.protocols import Notes, Solution, Solver, Status

MOST_PAIRS = 2**14
"""Most pairs in a tile: enough to make the overhead of a tile negligible; their plans take a few megabytes."""


class BoundedAnchors(Solver):
    """Exact anchor distances with bounds on W_1, moved into them.

    Where the space has soft codes, ``learned`` gives its distances, and ``anchor`` is that of its nearest anchors.
    """

    stage = "distances on anchors"

    def __init__(self, anchor: ExactSharedCost, bounds: Bounds, learned: ExactSharedCost | None = None) -> None:
        self._anchor, self._bounds, self._learned = anchor, bounds, learned
        self.info: Info = {**anchor.info, "bounds": bounds.level}

    def identity(self) -> Identity:
        return {
            "solver": "bounded anchors, 1",
            "anchor": self._anchor.identity(),
            "bounds": self._bounds.identity(),
            "learned": None if self._learned is None else self._learned.identity(),
        }

    def pairs_per_tile(self, memory: int) -> int:
        fitting = memory // (self._anchor.bytes_per_tree() + 256)
        return int(np.clip(min(self._anchor.pairs_per_tile(memory), fitting), 1, MOST_PAIRS))

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        trees = self._anchor.solve_trees(rows, columns, stop)
        values = trees.values if self._learned is None else self._learned.solve(rows, columns, stop).values
        lower, upper = self._bounds.of_trees(trees, rows, columns, stop)
        status = np.full(len(rows), Status.ON_ANCHORS, dtype=np.int8)
        return Solution(np.clip(values, lower, upper), status, trees.pivots, lower=lower, upper=upper)


class Estimates(Solver):
    """Calibrated distances with their expected errors, and with bounds if they are wanted."""

    stage = "estimates"

    def __init__(self, features: Features, calibration: Calibration, *, give_bounds: bool) -> None:
        self.features, self.calibration = features, calibration
        self.give_bounds = give_bounds
        self.info: Info = {**features.info, "calibration": calibration.report.as_dict()}
        if features.level is not None and give_bounds:
            self.info["bounds"] = features.level

    def identity(self) -> Identity:
        return {
            "solver": "estimates, 1",
            "features": self.features.identity(),
            "calibration": self.calibration.identity(),
            "bounds": self.give_bounds,
        }

    def pairs_per_tile(self, memory: int) -> int:
        return self.features.pairs_per_tile(memory)

    def expected_seconds(self, n_pairs: int) -> float:
        return self.features.expected_seconds(n_pairs)

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        measured = self.features.solve(rows, columns, stop)
        values, error, known = self.calibration.estimate(measured, rows, columns)
        lower, upper = measured.lower, measured.upper
        if lower is not None and upper is not None:
            values = np.clip(values, lower, upper)
            error = np.minimum(error, upper - lower)
        if not self.give_bounds:
            lower = upper = None
        status = np.where(known, Status.EXACT, Status.ESTIMATED).astype(np.int8)
        return Solution(values, status, measured.n_iter, lower=lower, upper=upper, error=error)


class BoundedSinkhorn(Solver):
    """Entropic anchor distances with bounds on W_1: what the scalings prove about the anchors, and both radii."""

    stage = "entropic distances"

    def __init__(self, anchor: SinkhornSharedCost, bounds: Bounds) -> None:
        self._anchor, self._bounds = anchor, bounds
        self.info: Info = {**anchor.info, "value": "transport", "bounds": bounds.level}

    def identity(self) -> Identity:
        return {
            "solver": "bounded entropic anchors, 1",
            "anchor": self._anchor.identity(),
            "bounds": self._bounds.identity(),
        }

    def pairs_per_tile(self, memory: int) -> int:
        return self._anchor.pairs_per_tile(memory // 2)

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        solved, scalings = self._anchor.solve_with_scalings(rows, columns, stop)
        low, high = anchor_bounds(scalings, stop)
        lower, upper = self._bounds.of_values(low, high, rows, columns)
        return Solution(
            solved.values, solved.status, solved.n_iter, solved.marginal_error, np.minimum(lower, upper), upper
        )


# ------------------------------------------------------------------------------------------------ where they are made


def place_of(request: Request, price: float, features: PairFeatures) -> devices.Choice:
    """Where estimates are made."""
    seconds = price / request.resources.jobs
    unfit = features.only_on_cpu if request.max_error is None else "max_error is met on the CPU"
    return devices.choose(request.device, needs=("cupy",), cpu_seconds=seconds, unfit=unfit)


def scratch(request: Request) -> int:
    """Bytes for distances of a tile on a GPU that do not fit into its shared memory."""
    return request.resources.budget // (2 * gpu_engine.IN_FLIGHT)


def estimates_work(
    request: Request,
    features: Features,
    calibration: Calibration,
    exact: Callable[[], Solver],
    seconds: float,
    info: Info,
    begun: FeaturesCuda | None = None,
) -> Work:
    """Estimates of all pairs of a request, on the device that suits them; ``exact`` makes a solver for `max_error`."""
    estimates = Estimates(features, calibration, give_bounds=request.level is not None)
    solver: Solver = estimates
    if request.max_error is not None:
        solver = Guaranteed(estimates, exact(), request.max_error)
    info = {**info, "estimate": "calibrated"}
    work = Work(request.pairs, Ready(solver), notes=Notes(info, started=request.started))
    if isinstance(features, PairFeatures):
        place = place_of(request, seconds, features)
        on_gpu = functools.partial(
            EstimatesCuda, estimates, memory=scratch(request), n_jobs=request.resources.jobs, measuring=begun
        )
        work = replace(work, gpu=on_gpu, choice=place)
    return work
