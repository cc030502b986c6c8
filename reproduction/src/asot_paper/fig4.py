"""Figure 4: how error and time depend on the number of anchors.

Spaces are learned on everything that is evaluated: the graphs of MUTAG, or a subset of digits that differs from run to
run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asot_paper.cells import Cell, make_cell
from asot_paper.methods import Hardware
from asot_paper.names import CALIBRATED
from asot_paper.scale import ABLATION_ITERATIONS, Scale
from asot_paper.workshop import Workshop, run_method

SETS = ("MUTAG", "MNIST")
METHODS = ("ASOT-k", "eASOT-k", CALIBRATED)


def plan(
    conditions: Sequence[str],
    sets: Sequence[str],
    methods: Sequence[str],
    scale: Scale,
    hardware: Hardware,
    *,
    row_zero: bool = True,
) -> list[Cell]:
    """One cell for each set, condition, run, number of anchors and method."""
    cells = []
    for name in sets:
        for condition in conditions:
            for seed in range(scale.ablation_runs):
                for k in scale.ablation_sizes:
                    fold = seed if name == "MNIST" else 0
                    where: dict[str, Any] = {"fold": fold, "seed": seed, "row_zero": row_zero, "size": k}
                    more = {"learned_on": "all that is evaluated"}
                    cells += [
                        make_cell(
                            "ablation", condition, name, method, scale, hardware,
                            max_iter=ABLATION_ITERATIONS[name], more=more, **where,
                        )
                        for method in methods
                    ]  # fmt: skip
    return cells


def run(workshop: Workshop, cell: Cell) -> dict[str, Any]:
    """A run with the number of anchors that the cell names."""
    return run_method(workshop, cell, k=cell.size, whole=True)
