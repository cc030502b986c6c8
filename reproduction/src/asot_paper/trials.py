"""Trials: what the paper's program may have done where its errors are not reproduced.

The paper's text leaves some settings open, and its program has defaults of its own. Each trial changes one of them and
runs the cells that differ again. A trial never replaces a number of the tables. The report shows it beside the miss
that it may explain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from asot_paper.cells import Cell, make_cell
from asot_paper.methods import Hardware, Learned, learn
from asot_paper.names import PUBLISHED
from asot_paper.problems import Problem
from asot_paper.scale import Scale
from asot_paper.workshop import Workshop, measured, model_seed

EVERYTHING = 10**9
"""Distributions of a batch, where a batch is the whole training set."""


@dataclass(frozen=True)
class Trial:
    """One changed setting, and the cells it is tried on."""

    name: str
    words: str
    """What was changed, for the report."""
    sets: tuple[str, ...]
    methods: tuple[str, ...]
    runs: int = 5
    seeds: tuple[int, ...] = (0,)
    """Each gives other folds and other starts; the tables have seed 0."""
    k: int | None = None
    """Number of anchors; by default the mean size, as in the tables."""
    per_batch: int | None = None
    epochs: int | None = None
    keep: str = "last"
    learner: str | None = None
    n_train: int | None = None
    """How many distributions to learn from, the first ones; by default all that the tables learn from."""
    n_evaluated: int | None = None
    """How many distributions to compare with exact distances, drawn at random; by default all. Not for entropic
    methods: their row 0 weighs more in a smaller matrix."""


_ML_DL = ("ASOT-ML", "ASOT-DL", "eASOT-ML", "eASOT-DL")
TRIALS = (
    Trial(
        "other-starts",
        "other folds and other random starts, five times ten",
        ("PTC_MR",),
        ("ASOT-DL", "eASOT-DL"),
        runs=10,
        seeds=(1, 2, 3, 4, 5),
    ),
    Trial(
        "other-starts-large",
        "other folds and other random starts, twice ten (error over 1,000 graphs)",
        ("NCI1",),
        ("ASOT-ML",),
        runs=10,
        seeds=(1, 2),
        n_evaluated=1000,
    ),
    Trial(
        "whole-batch",
        "one batch of the whole training set, the program's default, in place of batches of 500",
        ("ENZYMES",),
        ("ASOT-DL", "eASOT-DL"),
        per_batch=EVERYTHING,
    ),
    Trial(
        "whole-batch-large",
        "one batch of the whole training set, in place of batches of 500 (error over 1,000 graphs)",
        ("NCI1",),
        ("ASOT-ML", "ASOT-DL"),
        runs=10,
        per_batch=EVERYTHING,
        n_evaluated=1000,
    ),
    Trial(
        "whole-batch-all",
        "one batch of the whole training set, in place of batches of 500",
        ("NCI1",),
        ("eASOT-DL",),
        runs=3,
        per_batch=EVERYTHING,
    ),
    Trial(
        "best-epoch",
        "the epoch with the least loss in place of the last, as the program does for ten folds",
        ("PTC_MR", "ENZYMES"),
        ("ASOT-DL", "eASOT-DL"),
        runs=10,
        keep="best",
    ),
    Trial(
        "2000-epochs",
        "2,000 epochs, as in the program's example, in place of 500",
        ("PTC_MR", "ENZYMES"),
        ("ASOT-DL", "eASOT-DL"),
        epochs=2000,
    ),
    Trial("digits-128", "128 anchors in place of the mean number of pixels", ("MNIST",), ("ASOT-k", "eASOT-k"), k=128),
    Trial(
        "digits-networks",
        "the program's own network, 128 anchors, learned from 14 digits",
        ("MNIST",),
        _ML_DL,
        runs=3,
        k=128,
        epochs=200,
        learner="as published",
        n_train=14,
    ),
)
BY_NAME = {trial.name: trial for trial in TRIALS}


def plan(sets: Sequence[str], methods: Sequence[str], scale: Scale, hardware: Hardware) -> list[Cell]:
    """The cells of all trials, of the sets and methods asked for."""
    return [
        make_cell("trial", PUBLISHED, name, method, scale, hardware, fold=fold, seed=seed, more=_changes(trial))
        for trial in TRIALS
        for name in trial.sets
        if name in sets
        for seed in trial.seeds
        for fold in range(min(trial.runs, scale.folds))
        for method in trial.methods
        if method in methods
    ]


def _changes(trial: Trial) -> dict[str, Any]:
    """A trial's name and what it changes, as settings of its cells."""
    names = ("k", "per_batch", "epochs", "n_train", "n_evaluated")
    found = {"trial": trial.name, **{name: at for name in names if (at := getattr(trial, name)) is not None}}
    return found if trial.keep == "last" else {**found, "keep": trial.keep}


def run(workshop: Workshop, cell: Cell) -> dict[str, Any]:
    """Learn with the changed setting, and compare all distances with the exact ones."""
    problem = workshop.problem(cell)
    k = int(cell.settings.get("k", problem.k))
    count = cell.settings.get("n_evaluated")
    if count is not None and count < len(problem.D):
        chosen = np.random.default_rng(0).choice(len(problem.D), count, replace=False)
        problem = Problem(problem.D[np.sort(chosen)], problem.train)
    place = ("trial", cell.settings["trial"], cell.set, cell.fold, cell.seed, _learner(cell))
    learned = workshop.once(place, lambda: _learn(workshop, cell, problem, k))
    return measured(workshop, cell, problem, learned, k)


def _learner(cell: Cell) -> str:
    """The learner of the tables, or the authors' own where the trial asks for it."""
    trial = BY_NAME[str(cell.settings["trial"])]
    return f"{cell.method.removeprefix('e')} {trial.learner}" if trial.learner else str(cell.settings["learner"])


def _learn(workshop: Workshop, cell: Cell, problem: Problem, k: int) -> Learned:
    trial = BY_NAME[str(cell.settings["trial"])]
    train = problem.train if trial.n_train is None else problem.train[: trial.n_train]
    return learn(
        _learner(cell), train, k, seed=model_seed(cell), epochs=int(cell.settings.get("epochs", 1)),
        keep=trial.keep, per_batch=trial.per_batch, hardware=workshop.hardware_of(cell),
    )  # fmt: skip
