"""Time against the number of distributions, for one large set and growing parts of it.

POT's exact solver is called in a Python loop, as people do, on a sample of the pairs; its time for all of them is
extrapolated.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from asot.data.distributions import Distributions
from asot.run.pairs import AllPairs, at_places
from asot_paper.cells import Cell, make_cell
from asot_paper.methods import Hardware
from asot_paper.names import DESCRIBED
from asot_paper.problems import Problem
from asot_paper.scale import Scale
from asot_paper.workshop import FEW, Workshop, found_settings

POT_LOOP = "POT loop"
METHODS = ("OT-EMD", "ASOT-k", "eASOT-k", POT_LOOP)


def plan(sets: Sequence[str], scale: Scale, hardware: Hardware) -> list[Cell]:
    """One cell for each number of distributions and method, if the set is among ``sets``."""
    if scale.scaling_set not in sets:
        return []
    common: dict[str, Any] = {"learned_on": "all that is evaluated"}
    sample: dict[str, Any] = {"sample": scale.scaling_sample, "extrapolated": True}
    return [
        make_cell(
            "scaling", DESCRIBED, scale.scaling_set, method, scale, hardware,
            size=n, more=sample if method == POT_LOOP else common,
        )
        for n in scale.scaling_sizes
        for method in METHODS
    ]  # fmt: skip


def run(workshop: Workshop, cell: Cell) -> dict[str, Any]:
    """Seconds for all pairs of the first ``size`` distributions of a random order of the set."""
    everything = workshop.problem(cell, whole=True).D
    assert cell.size is not None
    order = np.random.default_rng(cell.seed).permutation(len(everything))
    D = everything[np.sort(order[: min(cell.size, len(everything))])]
    problem = Problem(D, D)
    outcome: dict[str, Any] = {"n_distributions": len(D), "n_pairs": problem.n_pairs}
    if cell.method == POT_LOOP:
        return {**outcome, **_pot_loop(D, int(cell.settings["sample"])), "train_seconds": 0.0, "device": "cpu"}
    reg = workshop.reg(cell, D)
    learned = workshop.space(cell, problem, problem.k)
    found = workshop.distances(cell, D, learned, reg)
    return {
        **outcome,
        "seconds": found.seconds,
        "train_seconds": 0.0 if learned is None else learned.seconds,
        "k": None if learned is None else learned.space.n_anchors,
        "device": found.device,
        "settings": found_settings(problem, learned, found, reg, problem.k),
    }


def _pot_loop(D: Distributions, sample: int) -> dict[str, Any]:
    """POT's time on some pairs, extrapolated to all of them."""
    from asot_paper.baselines import pot_emd

    n_pairs = len(D) * (len(D) - 1) // 2
    count = min(sample, n_pairs)
    places = np.sort(np.random.default_rng(0).choice(n_pairs, count, replace=False))
    pairs = at_places(AllPairs(len(D)), places).pairs
    pot_emd(D, pairs=pairs[:FEW], progress=False)  # a rehearsal
    start = time.perf_counter()
    pot_emd(D, pairs=pairs, progress=False)
    seconds = time.perf_counter() - start
    return {"seconds": seconds * n_pairs / count, "settings": {"sample_pairs": count, "sample_seconds": seconds}}
