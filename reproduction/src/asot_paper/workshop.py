"""Where cells are run: data, reference distances and learned spaces, made once and shared by the cells that follow.

Times are wall clock. Before anything is timed, the method runs once on a few distributions, so that compiling kernels,
importing packages and starting a GPU do not count.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from asot.data.distributions import Distributions
from asot_paper.cells import Cell
from asot_paper.conditions import regularization, root_mean_square_error
from asot_paper.methods import METHODS, Found, Hardware, Learned, OnEpoch, diagonal, distances, is_authors, learn
from asot_paper.names import PUBLISHED
from asot_paper.problems import Problem, Problems
from asot_paper.reference import References
from asot_paper.scale import MAX_ITER, Scale

FEW = 8
"""Distributions of a rehearsal."""

KEPT_SPACES = 6


@dataclass
class Workshop:
    """Everything that is kept from cell to cell."""

    scale: Scale
    hardware: Hardware
    problems: Problems
    references: References
    _spaces: OrderedDict[tuple[Any, ...], Learned] = field(default_factory=OrderedDict)
    _rehearsed: set[tuple[Any, ...]] = field(default_factory=set)

    @classmethod
    def beside(
        cls, results: Path, scale: Scale, hardware: Hardware, folder: str | None = None, download: bool = True
    ) -> Workshop:
        """A workshop whose reference distances are kept beside a results file."""
        references = References(results.with_name(results.name + ".reference"), hardware.jobs)
        return cls(scale, hardware, Problems(scale, folder, download), references)

    def hardware_of(self, cell: Cell) -> Hardware:
        return replace(self.hardware, device=cell.device)

    def problem(self, cell: Cell, *, whole: bool = False) -> Problem:
        authors = is_authors(str(cell.settings.get("learner")))
        return self.problems.problem(cell.condition, cell.set, cell.fold, cell.seed, whole=whole, authors=authors)

    # -------------------------------------------------------------------------------------------------------- learning

    def space(self, cell: Cell, problem: Problem, k: int) -> Learned | None:
        """The space of a cell's method, learned now or for an earlier cell; None for methods without one."""
        learner = cell.settings.get("learner")
        if learner is None:
            return None
        how = _training(cell)
        data = (cell.condition, cell.set, cell.fold, len(problem.train), problem.train is problem.D)
        place = (learner, *data, cell.seed, cell.device, k, *how.values())
        return self.once(place, lambda: self.learn(cell, problem, k))

    def once(self, place: tuple[Any, ...], learn: Callable[[], Learned]) -> Learned:
        """What was learned under a name, or is learned now; the last few are kept."""
        if place not in self._spaces:
            self._spaces[place] = learn()
            while len(self._spaces) > KEPT_SPACES:
                self._spaces.popitem(last=False)
        return self._spaces[place]

    def learn(self, cell: Cell, problem: Problem, k: int, on_epoch: OnEpoch | None = None) -> Learned:
        """Learn the space of a cell's method now; ``on_epoch`` is called after every epoch."""
        learner, hardware = str(cell.settings["learner"]), self.hardware_of(cell)
        self.rehearse_learning(learner, problem.train, hardware)
        how: dict[str, Any] = {"seed": model_seed(cell), "hardware": hardware, "on_epoch": on_epoch}
        return learn(learner, problem.train, k, **how, **_training(cell))

    def rehearse_learning(self, learner: str, D: Distributions, hardware: Hardware) -> None:
        """Learn once on a few distributions, so that what is needed is loaded and compiled."""
        place = (learner, D.dim, str(D.points.dtype), hardware.device)
        if place in self._rehearsed:
            return
        self._rehearsed.add(place)
        with contextlib.suppress(Exception):  # the same error will come again after the rehearsal, and count then
            learn(learner, D[:FEW], 2, seed=0, epochs=1, n_pairs=8, hardware=hardware)

    # ------------------------------------------------------------------------------------------------------- distances

    def distances(
        self, cell: Cell, D: Distributions, learned: Learned | None, reg: float | None, max_iter: int = MAX_ITER
    ) -> Found:
        """All distances of a collection by the cell's method, timed after a rehearsal on a few distributions."""
        space = None if learned is None else learned.space
        how: dict[str, Any] = {"space": space, "name": cell.set, "reg": reg, "seed": model_seed(cell)}
        for device in self._rehearsal_devices(cell):
            with contextlib.suppress(Exception):  # as above
                hardware = replace(self.hardware, device=device)
                distances(cell.method, cell.condition, D[:FEW], max_iter=2, hardware=hardware, **how)
        return distances(cell.method, cell.condition, D, max_iter=max_iter, hardware=self.hardware_of(cell), **how)

    def _rehearsal_devices(self, cell: Cell) -> tuple[str, ...]:
        """With "auto", a few pairs would not use the GPU that the whole run may use, so it is named."""
        return ("cpu", "cuda") if cell.device == "auto" else (cell.device,)

    def errors(
        self, cell: Cell, D: Distributions, found: Found, learned: Learned | None, reg: float | None, max_iter: int
    ) -> dict[str, float]:
        """Error of distances by the rule of the cell's condition, absolute and as a share of the mean distance."""
        exact = self.references.distances(D)
        own = None
        if cell.condition == PUBLISHED:
            space = None if learned is None else learned.space
            how: dict[str, Any] = {"reg": reg, "max_iter": max_iter, "hardware": self.hardware_of(cell)}
            own = diagonal(cell.method, D, space=space, **how)
        error = root_mean_square_error(cell.condition, found.values, exact, diagonal=own, row_zero=cell.row_zero)
        mean = float(exact.mean())
        return {"rmse": error, "relative": error / mean if mean > 0 else 0.0, "mean_distance": mean}

    def reg(self, cell: Cell, D: Distributions) -> float | None:
        """ε of the cell's method, None if it is not entropic."""
        return regularization(cell.condition, D) if METHODS[cell.method].entropic else None


def model_seed(cell: Cell) -> int:
    """The seed of a learner, different in every fold."""
    return 1000 * cell.seed + cell.fold


def _training(cell: Cell) -> dict[str, Any]:
    return {"epochs": cell.settings.get("epochs", 1), "n_pairs": cell.settings.get("n_pairs", 64)}


def run_method(workshop: Workshop, cell: Cell, *, k: int | None = None, whole: bool = False) -> dict[str, Any]:
    """Run a method on a cell's data: learn, compute all distances, compare with the exact ones.

    ``k`` is the number of anchors, by default the mean size; ``whole=True`` learns on everything that is evaluated.
    """
    problem = workshop.problem(cell, whole=whole)
    asked = problem.k if k is None else k
    return measured(workshop, cell, problem, workshop.space(cell, problem, asked), asked)


def measured(workshop: Workshop, cell: Cell, problem: Problem, learned: Learned | None, asked: int) -> dict[str, Any]:
    """All distances by a method in a learned space, compared with the exact ones."""
    D = problem.D
    max_iter = int(cell.settings.get("max_iter", MAX_ITER))
    reg = workshop.reg(cell, D)
    found = workshop.distances(cell, D, learned, reg, max_iter)
    if cell.method == "OT-EMD":
        workshop.references.put(D, found.values)
    outcome: dict[str, Any] = {
        **workshop.errors(cell, D, found, learned, reg, max_iter),
        "train_seconds": 0.0 if learned is None else learned.seconds,
        "seconds": found.seconds,
        "n_distributions": len(D),
        "n_pairs": problem.n_pairs,
        "k": None if learned is None else learned.space.n_anchors,
        "device": found.device,
        "not_converged": found.not_converged,
    }
    return {**outcome, "settings": found_settings(problem, learned, found, reg, asked)}


def found_settings(
    problem: Problem, learned: Learned | None, found: Found | None, reg: float | None, asked: int
) -> dict[str, Any]:
    """Settings that are known only after a run."""
    settings: dict[str, Any] = {"dimension": problem.D.dim, "timing": "wall clock, after a rehearsal on few pairs"}
    if reg is not None:
        settings["reg"] = reg
    if learned is not None:
        settings |= {"k_asked": asked, "n_train": len(problem.train)}
    notes = list(dict.fromkeys([*(learned.notes if learned else ()), *(found.notes if found else ())]))
    return {**settings, "notes": notes} if notes else settings
