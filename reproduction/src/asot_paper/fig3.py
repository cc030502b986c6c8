"""Figure 3: the error against the epoch, while a space is learned.

The authors' models are evaluated every few epochs: the error is that of the whole set, by the rule of the condition.
This library's learners keep a history of their own: the error on held-out pairs of the training folds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from asot_paper.cells import Cell, make_cell
from asot_paper.methods import Found, Hardware, Learned, distances
from asot_paper.names import OURS
from asot_paper.problems import Problem
from asot_paper.scale import MAX_ITER, Scale
from asot_paper.workshop import Workshop, found_settings

SETS = ("MUTAG", "PTC_MR", "BZR")
METHODS = ("ASOT-ML", "ASOT-DL", OURS)


def plan(
    conditions: Sequence[str],
    sets: Sequence[str],
    methods: Sequence[str],
    scale: Scale,
    hardware: Hardware,
    *,
    seeds: int = 1,
    row_zero: bool = True,
) -> list[Cell]:
    """One curve for each set, condition, method and seed, learned on the first fold."""
    wanted = [
        (name, condition, method, seed)
        for name in sets
        for condition in conditions
        for method in methods
        for seed in range(seeds)
    ]
    return [
        make_cell("curve", condition, name, method, scale, hardware, seed=seed, row_zero=row_zero)
        for name, condition, method, seed in wanted
    ]


def run(workshop: Workshop, cell: Cell) -> dict[str, Any]:
    """Learn, and record the error along the way."""
    problem = workshop.problem(cell)
    learner = str(cell.settings["learner"])
    watched = learner.endswith("as published")
    mean = float(workshop.references.distances(problem.D).mean())
    workshop.rehearse_learning(learner, problem.train, workshop.hardware_of(cell))
    looks = _Looks(workshop, cell, problem) if watched else None
    learned = workshop.learn(cell, problem, problem.k, on_epoch=looks)
    curve = _history(learned, mean) if looks is None else looks.curve()
    return {
        **curve,
        "relative_errors": [error / mean if mean > 0 else 0.0 for error in curve["errors"]],
        "mean_distance": mean,
        "n_distributions": len(problem.D),
        "k": learned.space.n_anchors,
        "train_seconds": curve["seconds_at"][-1],
        "settings": {
            **found_settings(problem, learned, None, None, problem.k),
            "pairs": "all pairs of the set" if watched else "held-out pairs of the training folds",
        },
    }


class _Looks:
    """Called after every epoch; evaluates some of them, off the clock."""

    def __init__(self, workshop: Workshop, cell: Cell, problem: Problem) -> None:
        self._workshop, self._cell, self._problem = workshop, cell, problem
        epochs = int(cell.settings.get("epochs", 1))
        self._every, self._last = max(1, epochs // workshop.scale.curve_points), epochs
        self._begin, self._looking = time.perf_counter(), 0.0
        self._epochs: list[int] = []
        self._errors: list[float] = []
        self._seconds: list[float] = []

    def __call__(self, epoch: int, space: Any, loss: float) -> None:
        now = time.perf_counter()
        if epoch == 1 or epoch % self._every == 0 or epoch == self._last:
            self._epochs.append(epoch)
            self._errors.append(self._error(space))
            self._seconds.append(now - self._begin - self._looking)
        self._looking += time.perf_counter() - now

    def _error(self, space: Any) -> float:
        cell, D = self._cell, self._problem.D
        hardware = self._workshop.hardware_of(cell)
        found: Found = distances(cell.method, cell.condition, D, space=space, hardware=hardware)
        return self._workshop.errors(cell, D, found, None, None, MAX_ITER)["rmse"]

    def curve(self) -> dict[str, Any]:
        return {"epochs": self._epochs, "errors": self._errors, "seconds_at": self._seconds}


def _history(learned: Learned, mean: float) -> dict[str, Any]:
    """The learner's own history, with errors in the units of the distance."""
    history = learned.history
    finite = [place for place, error in enumerate(history["error"]) if np.isfinite(error)]
    return {
        "epochs": [int(history["epoch"][place]) for place in finite],
        "errors": [history["error"][place] * mean for place in finite],
        "seconds_at": [history["seconds"][place] for place in finite],
    }
