"""A results file that nobody ran: every cell of the report, with plausible numbers from a seed.

It has the form of a real one, so that tests of the report need neither data nor hours.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from asot_paper.names import CALIBRATED, DESCRIBED, METHODS, OURS, PUBLISHED, SETS

Cell = dict[str, Any]

# distributions, mean size, mean distance as published and as described
SHAPES = {
    "MUTAG": (188, 18, 0.62, 32.5), "PTC_MR": (344, 14, 1.18, 20.1), "ENZYMES": (600, 33, 1.05, 128.0),
    "BZR": (405, 36, 0.71, 24.9), "COX2": (467, 41, 0.58, 26.3), "NCI1": (4110, 30, 0.88, 27.0),
    "ZINC": (5000, 23, 0.94, 21.7), "MNIST": (500, 104, 0.17, 0.17),
}  # fmt: skip

# error as a share of the mean distance: as published, as described
ERRORS = {
    "OT-EMD": (0.0, 0.0), "SW": (0.75, 0.74), "eOT": (0.16, 0.09), "BDS-eOT": (0.16, 0.09), "ASOT-k": (0.05, 0.16),
    "ASOT-ML": (0.04, 0.31), "ASOT-DL": (0.041, 0.14), "eASOT-k": (0.17, 0.19), "eASOT-ML": (0.18, 0.33),
    "eASOT-DL": (0.17, 0.17), CALIBRATED: (0.001, 0.033), OURS: (0.01, 0.06),
}  # fmt: skip

# microseconds a pair, seconds of training
TIMES = {
    "OT-EMD": (24.0, 0.0), "SW": (9.0, 0.0), "eOT": (210.0, 0.0), "BDS-eOT": (160.0, 0.0), "ASOT-k": (1.6, 0.4),
    "ASOT-ML": (2.9, 34.0), "ASOT-DL": (2.7, 41.0), "eASOT-k": (14.0, 0.4), "eASOT-ML": (14.0, 34.0),
    "eASOT-DL": (14.0, 41.0), CALIBRATED: (3.1, 0.4), OURS: (3.3, 19.0),
}  # fmt: skip

# what is made up for a method that is not listed here
ERRORS = {**dict.fromkeys(METHODS, (0.1, 0.1)), **ERRORS}
TIMES = {**dict.fromkeys(METHODS, (5.0, 1.0)), **TIMES}

SINKHORN = ("eOT", "BDS-eOT", "eASOT-k", "eASOT-ML", "eASOT-DL")


class Maker:
    """Makes cells; the same seed makes the same ones."""

    def __init__(self, seed: int = 0, quick: bool = False) -> None:
        self.rng = np.random.default_rng(seed)
        self.quick = quick
        self.count = 0

    def cell(self, kind: str, condition: str, name: str, method: str, **more: Any) -> Cell:
        self.count += 1
        settings: Cell = {"features": "five copies" if condition == PUBLISHED else "four rounds", "errors": "rms"}
        if condition == PUBLISHED:
            settings["row_zero"] = method != "BDS-eOT"
        if method in SINKHORN:
            settings |= {"reg": 0.1 if condition == PUBLISHED else 0.0316 * SHAPES[name][3], "max_iter": 50}
        return {
            "key": f"made-{self.count}", "kind": kind, "condition": condition, "set": name, "method": method,
            "fold": 0, "seed": 0, "quick": self.quick, "device": "cpu", **more,
            "settings": {**settings, **more.get("settings", {})},
            "machine": {"cpu": "Made Processor 9000", "cores": 2, "threads": 2, "gpu": None, "system": "Linux"},
            "versions": {"python": "3.12.1", "asot": "0.1.0", "numpy": "2.1.0", "torch": None},
            "date": f"2025-01-{1 + self.count % 3:02d}T12:00:00+00:00",
        }  # fmt: skip

    def run(self, condition: str, name: str, method: str, kind: str = "run", **more: Any) -> Cell:
        n, size, *distances = SHAPES[name]
        described = condition == DESCRIBED
        share = ERRORS[method][described] * float(self.rng.normal(1.0, 0.06))
        micro, training = TIMES[method]
        n_pairs = n * (n - 1) // 2
        numbers = {
            "rmse": share * distances[described], "relative": share, "mean_distance": distances[described],
            "train_seconds": training * float(self.rng.uniform(0.9, 1.1)), "seconds": 1e-6 * micro * n_pairs,
            "n_distributions": n, "n_pairs": n_pairs, "k": size if "ASOT" in method or method == OURS else None,
            "not_converged": n_pairs // 3 if method in SINKHORN else 0,
        }  # fmt: skip
        return self.cell(kind, condition, name, method, **{**numbers, **more})

    def curve(self, condition: str, name: str, method: str, seed: int) -> Cell:
        epochs = list(range(1, 101, 3))
        floor = ERRORS[method][condition == DESCRIBED]
        shares = [floor * (1 + 4 * float(np.exp(-e / 15))) * float(self.rng.normal(1.0, 0.03)) for e in epochs]
        mean = SHAPES[name][2 + (condition == DESCRIBED)]
        numbers = {"epochs": epochs, "errors": [s * mean for s in shares], "relative_errors": shares}
        seconds = [0.1 * epoch for epoch in epochs]
        pairs = "all pairs of the set" if condition == PUBLISHED else "held-out pairs of the training folds"
        return self.cell(
            "curve", condition, name, method, seed=seed, seconds_at=seconds, settings={"pairs": pairs}, **numbers
        )

    def ablation(self, condition: str, name: str, method: str, k: int, seed: int) -> Cell:
        cell = self.run(condition, name, method, kind="ablation", seed=seed, size=k)
        grown = {"k": k, "seconds": cell["seconds"] * k / 20, "train_seconds": 0.002 * k}
        shrink = (20 / k) ** 0.5
        return {**cell, **grown, "rmse": cell["rmse"] * shrink, "relative": cell["relative"] * shrink}

    def scatter(self, name: str, method: str, n: int = 400) -> Cell:
        mean = SHAPES[name][3]
        exact = mean * self.rng.gamma(6.0, 1 / 6.0, size=n)
        bias = 0.88 if method == "ASOT-k" else 1.0
        estimate = np.abs(bias * exact * self.rng.normal(1.0, ERRORS[method][1] / 2, size=n))
        bars = {"lower": [], "upper": []}
        if method != OURS:
            lower = np.minimum(exact, estimate) * self.rng.uniform(0.8, 1.0, size=n)
            upper = np.maximum(exact, estimate) * self.rng.uniform(1.0, 1.2, size=n)
            bars = {"lower": lower.tolist(), "upper": upper.tolist()}
        return self.cell("scatter", DESCRIBED, name, method, exact=exact.tolist(), estimate=estimate.tolist(), **bars)

    def scaling(self, method: str, n: int) -> Cell:
        micro = 1100.0 if method == "POT loop" else TIMES[method][0]
        extra = {"extrapolated": "from a sample of the pairs"} if method == "POT loop" else {}
        seconds = 1e-6 * micro * n * (n - 1) / 2
        return self.cell(
            "scaling", DESCRIBED, "NCI1", method, size=n, n_distributions=n, seconds=seconds, train_seconds=0.0,
            settings=extra,
        )  # fmt: skip


def make_cells(seed: int = 0, folds: int = 3, quick: bool = False) -> list[Cell]:
    """All cells of a complete report."""
    make = Maker(seed, quick)
    cells = [
        make.run(condition, name, method, fold=fold)
        for condition in (PUBLISHED, DESCRIBED)
        for name in SETS
        for method in METHODS
        for fold in range(1 if method in ("OT-EMD", "eOT", "BDS-eOT") else folds)
    ]
    cells += [
        make.run(PUBLISHED, name, method, settings={"row_zero": False})
        for name in ("MUTAG", "BZR")
        for method in ("SW", "eOT", "ASOT-k")
    ]
    cells += [
        make.curve(condition, name, method, seed)
        for condition in (PUBLISHED, DESCRIBED)
        for name in ("MUTAG", "PTC_MR", "BZR")
        for method in ("ASOT-ML", "ASOT-DL", OURS)
        for seed in range(2)
    ]
    cells += [
        make.ablation(condition, name, method, k, seed)
        for condition in (PUBLISHED, DESCRIBED)
        for name in ("MUTAG", "MNIST")
        for method in ("ASOT-k", "eASOT-k", CALIBRATED)
        for k in (5, 10, 20, 50, 100, 200)
        for seed in range(3)
    ]
    cells += [
        make.scatter(name, method) for name in ("MUTAG", "BZR", "MNIST") for method in ("ASOT-k", CALIBRATED, OURS)
    ]
    cells += [
        make.scaling(method, n)
        for method in ("OT-EMD", "ASOT-k", "eASOT-k", "POT loop")
        for n in (125, 250, 500, 1000, 2000, 4110)
    ]
    return cells


def write_cells(path: Path, cells: list[Cell]) -> Path:
    """Write cells as a results file; returns its path."""
    path.write_text(json.dumps({"format": "asot-paper", "version": 1, "cells": cells}))
    return path
