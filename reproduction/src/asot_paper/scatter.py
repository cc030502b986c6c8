"""Estimates against exact distances, pair by pair, with proven error bars.

Error bars are those of k-means anchors. For learned codes none is proven, but a learned space keeps the k-means anchors
that it began with, and what these prove about W_1 holds for any estimate. Estimates are shown as they are, not moved
into their bars.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import asot
from asot.run.pairs import AllPairs, at_places
from asot_paper.cells import Cell, make_cell
from asot_paper.methods import Hardware
from asot_paper.names import CALIBRATED, DESCRIBED, OURS
from asot_paper.scale import Scale
from asot_paper.workshop import Workshop, found_settings

SETS = ("MUTAG", "BZR", "MNIST")
METHODS = ("ASOT-k", CALIBRATED, OURS)
PAIRS = 400


def plan(sets: Sequence[str], methods: Sequence[str], scale: Scale, hardware: Hardware) -> list[Cell]:
    """One cell for each set and method, as described: as published, most of these errors are zero."""
    more = {"pairs": f"at most {PAIRS}, drawn at random", "bounds": "proven by k-means anchors"}
    return [
        make_cell("scatter", DESCRIBED, name, method, scale, hardware, more=more) for name in sets for method in methods
    ]


def run(workshop: Workshop, cell: Cell) -> dict[str, Any]:
    """Exact distance, estimate and bounds of some pairs."""
    problem = workshop.problem(cell)
    D = problem.D
    learned = workshop.space(cell, problem, problem.k)
    assert learned is not None
    rng = np.random.default_rng(cell.seed)
    places = np.sort(rng.choice(problem.n_pairs, min(PAIRS, problem.n_pairs), replace=False))
    exact = workshop.references.distances(D)[places]
    how: dict[str, Any] = {"space": learned.space, "pairs": at_places(AllPairs(len(D)), places).pairs}
    how |= {"device": "cpu", "n_jobs": workshop.hardware.jobs, "progress": False}
    estimate = "calibrated" if cell.method == CALIBRATED else "anchor"
    values = asot.pairwise(D, estimate=estimate, **how).values
    bounded = asot.pairwise(D, bounds=True, estimate="anchor", **how)
    error, mean = float(np.sqrt(np.mean((values - exact) ** 2))), float(exact.mean())
    return {
        "exact": exact,
        "estimate": values,
        "lower": bounded.lower,
        "upper": bounded.upper,
        "rmse": error,
        "relative": error / mean if mean > 0 else 0.0,
        "mean_distance": mean,
        "n_distributions": len(D),
        "n_pairs": len(places),
        "k": learned.space.n_anchors,
        "settings": found_settings(problem, learned, None, None, problem.k),
    }
