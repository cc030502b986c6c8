"""The paper's own numbers: Table 1 and Table 2, every cell, in ``published.csv`` beside this module.

Columns are ``table``, ``set``, ``method`` and ``value``. ``table`` is "rmse" (Table 1), "seconds_training" or
"seconds_distances" (Table 2). No other number in the package is the paper's. The paper gives no spread; it says
that standard deviations are "all less than 0.05".
"""

from __future__ import annotations

import csv
import functools
from importlib import resources

MACHINE = "Intel Core i7-12700KF, NVIDIA RTX 3090 Ti"
"""The paper's machine."""

SLIPS = {("ENZYMES", "SW"): "COX2"}
"""Cells of Table 1 that hold the number of another set."""


@functools.cache
def read_published() -> dict[tuple[str, str, str], float]:
    """The paper's numbers by (table, set, method).

    >>> read_published()["rmse", "MUTAG", "ASOT-DL"]
    0.0262
    """
    text = resources.files("asot_paper").joinpath("published.csv").read_text(encoding="utf-8")
    return {(row["table"], row["set"], row["method"]): float(row["value"]) for row in csv.DictReader(text.splitlines())}


def paper_seconds(name: str, method: str) -> tuple[float, float] | None:
    """Seconds of training and of distances in Table 2; training is 0 for methods that have none.

    >>> paper_seconds("ZINC", "OT-EMD")
    (0.0, 2708.0)
    """
    known = read_published()
    distances = known.get(("seconds_distances", name, method))
    return None if distances is None else (known.get(("seconds_training", name, method), 0.0), distances)
