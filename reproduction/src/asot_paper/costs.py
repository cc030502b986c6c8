"""How long cells will take: a guess from the size of the work, corrected by the cells that are finished.

The guesses were made for two cores of a common machine and need only be right to a factor of a few. As soon as a method
has run once, here or in an earlier run of the same results file, what it really took scales the guess for the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from asot_paper.cells import Cell
from asot_paper.methods import METHODS
from asot_paper.names import DESCRIBED, PUBLISHED
from asot_paper.scale import FULL, MAX_ITER, Scale
from asot_paper.scaling import POT_LOOP

SIZES = {
    "MUTAG": (188, 18),
    "PTC_MR": (344, 14),
    "ENZYMES": (600, 33),
    "BZR": (405, 36),
    "COX2": (467, 41),
    "NCI1": (4110, 30),
    "ZINC": (5000, 23),
    "MNIST": (500, 150),
}
"""Number of distributions and their mean size."""

LEARNING = {PUBLISHED: {"ML": 0.1, "DL": 0.15, "ours": 0.1}, DESCRIBED: {"ML": 0.3, "DL": 0.4, "ours": 0.6}}
"""Seconds to learn a space at full scale, for each anchor. As published there are few distinct points to learn from."""

BEYOND_KERNELS = ("ENZYMES", "NCI1")
"""Where the costs that ASOT-ML learns, as described, are too large against ε for a kernel: logarithms take longer."""

AROUND = 0.2
"""Seconds that every cell takes around the work: data, reference, rehearsal, file."""


def guess(cell: Cell, scale: Scale) -> float:
    """Seconds that a cell may take."""
    n, size = SIZES[cell.set]
    n = scale.digits if cell.set == "MNIST" else n
    n = min(n, cell.size) if cell.kind == "scaling" and cell.size else n
    pairs = n * (n - 1) / 2
    if cell.method == POT_LOOP:
        return AROUND + min(pairs, scale.scaling_sample) * 2e-4
    k = cell.size if cell.kind == "ablation" and cell.size else size
    looks = scale.curve_points if cell.kind == "curve" and cell.condition == PUBLISHED else 1
    return AROUND + _learning(cell, n, k) + looks * pairs * _per_pair(cell, size, k)


def _shares(cell: Cell) -> bool:
    """Whether an earlier cell has mostly learned the space already."""
    return METHODS[cell.method].space is not None and METHODS[cell.method].entropic


def _learning(cell: Cell, n: int, k: int) -> float:
    space = METHODS[cell.method].space
    if space is None or _shares(cell):
        return 0.0
    if space.endswith("k"):
        return 1e-7 * n * k * SIZES[cell.set][1] + 0.1
    epochs = int(cell.settings.get("epochs", 1))
    full = FULL.epochs(str(cell.settings.get("learner")).endswith("as published"), cell.set)
    return LEARNING[cell.condition][space] * k * epochs / full


def _per_pair(cell: Cell, size: int, k: int) -> float:
    """Seconds of a pair: distributions of ``size`` points, spaces of k anchors."""
    method = METHODS[cell.method]
    products = 2 * int(cell.settings.get("max_iter", MAX_ITER))
    if cell.method == "SW":
        return 1.5e-5 if cell.condition == PUBLISHED else 3e-8 * size
    if cell.method == "BDS-eOT":
        return 6e-10 * products * size**2 + 5e-6
    if cell.method == "eASOT-ML" and cell.condition == DESCRIBED and cell.set in BEYOND_KERNELS:
        return 4e-9 * products * k**2
    if method.space is None:
        return 1.2e-10 * products * size**2 if method.entropic else 5e-9 * size**2 + 2e-6
    return 4e-11 * products * k**2 + 2e-6 if method.entropic else 1e-9 * k**2 + 1e-6


class Forecast:
    """Guesses that learn from what cells took.

    Parameters
    ----------
    scale : Scale
    """

    def __init__(self, scale: Scale) -> None:
        self._scale = scale
        self._took: dict[tuple[str, ...], list[tuple[float, float]]] = {}

    def learn_from(self, cells: Iterable[Cell], records: Mapping[str, Mapping[str, Any]]) -> None:
        """Look at cells that are finished in a results file, by key."""
        for cell in cells:
            record = records.get(cell.key)
            if record is not None and "seconds" in record and cell.method != POT_LOOP:  # most of its time is a sum
                training = 0.0 if _shares(cell) else float(record.get("train_seconds", 0.0))
                self.took(cell, AROUND + float(record["seconds"]) + training)

    def took(self, cell: Cell, seconds: float) -> None:
        """A cell was run."""
        for place in _places(cell):
            self._took.setdefault(place, []).append((guess(cell, self._scale), seconds))

    def seconds(self, cell: Cell) -> float:
        """What a cell may take: the guess, times what the most similar finished cells took against theirs."""
        for place in _places(cell):
            if place in self._took:
                guessed, took = map(sum, zip(*self._took[place], strict=True))
                return guess(cell, self._scale) * took / guessed
        return guess(cell, self._scale)


def _places(cell: Cell) -> list[tuple[str, ...]]:
    """What a cell is similar to, the most similar first."""
    return [
        (cell.kind, cell.condition, cell.set, cell.method, str(cell.size)),
        (cell.kind, cell.condition, cell.method),
        (cell.method,),
        (),
    ]


def words(seconds: float) -> str:
    """A duration for people.

    >>> words(8.2), words(200), words(8000)
    ('8 s', '3 min', '2 h 13 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
