"""Are answers those of an earlier version of asot, bit for bit? Every solver, every metric, plans and potentials.

``ASOT_BEFORE`` names the earlier version as in `before_after`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Options, Report, Table
from benchmarks.start.same_bits_cases import CASES

NEEDS = {"before"}

ROOT = Path(__file__).resolve().parents[2]


def run(options: Options) -> Report:
    """Solve everything with both versions and compare."""
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / name for name in ("before", "after")]
        for place, source in zip(places, (os.environ["ASOT_BEFORE"], str(ROOT / "src")), strict=True):
            place.mkdir()
            environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}
            command = [sys.executable, "-m", "benchmarks.start.same_bits_cases", str(place)]
            subprocess.run(command, env=environment, check=True)
        rows = [_row(name, *(_read(place / f"{i}.npz") for place in places)) for i, name in enumerate(CASES)]
    columns = ["solver", "numbers", "with other bits", "largest difference"]
    return Report(
        "same_bits", "The bits of before", INTRODUCTION, [Table("All numbers of answers.", columns, rows)], NOTES
    )


INTRODUCTION = (
    "Answers of the last version with kernels in numba, and of this one, to 20,000 pairs per solver (six large ones). "
    "A pair has one number, or many where plans and potentials are compared, too. Differences are shares of the "
    "largest number of their case."
)

NOTES = (
    "Meant to differ in last digits: lines, unmatched mass and shares, orders other than 1, Jensen–Shannon. Optimal "
    "plans and potentials need not be unique: single problems have a solver of their own since, which may find others.",
)


def _read(file: Path) -> list[Any]:
    with np.load(file) as arrays:
        return [arrays[name] for name in arrays.files]


def _row(name: str, before: list[Any], after: list[Any]) -> list[str]:
    if [x.shape for x in before] != [x.shape for x in after]:
        return [name, f"{sum(x.size for x in after):,}", "other shapes", "–"]
    first, second = (np.concatenate([x.ravel().astype(float) for x in arrays]) for arrays in (before, after))
    other = int((first != second).sum())
    scale = max(float(np.abs(first).max()), 1e-300)
    return [name, f"{len(first):,}", f"{other:,}", f"{np.abs(first - second).max() / scale:.0e}" if other else "0"]
