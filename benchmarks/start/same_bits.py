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
    "Why bits differ, and how that was seen. *Weights*: masses are divided by totals that do not depend on the order "
    "of points; with the division of before put back, 700 points, p = 2 and p = 3 have the bits of before, and so have "
    "weighted points under 12 of the 15 metrics, and all but 1% of the shares.",
    "*A line*: the same division, since all bits agree where masses are multiples of 2⁻¹⁰ and were not divided. "
    "*Unmatched mass*: integers of the pair, not of the collection; before, 70% of pairs differed from themselves "
    "alone, now none.",
    "*70 dimensions, seuclidean, Minkowski, Jensen–Shannon*: single points differ, so their distances are computed in "
    "another way. *Other metrics, on few distinct coordinates*: costs tie and other pivots lead to the same "
    "optimum (13 of 14 changed pairs), while all bits agree for points without ties. *Angles without ties*: arc sines "
    "come from a polynomial and no longer from the C library.",
    "*Sparse rows*: they have a solver of their own, which adds in another order; on the anchors of a pair alone, both "
    "versions have the same bits. *Single problems*: with masses that are multiples of 2⁻¹⁰, plans are the same; "
    "potentials are not unique, and all were checked: none is infeasible, and slack under flow is at most 4e-16.",
    "*Entropic, 50 sweeps*: all numbers that differ belong to the last rows of a tile, which BLAS adds in another "
    "order, and tiles have grown from 1 to 4 MB; with those of before, all bits are the same. *To 1e-9*: pairs that "
    "differ are finished by Newton's method after fewer iterations (17 instead of 25); with the limit and the tiles of "
    "before, 34 values differ, by 1e-15.",
    "*Small ε*: exponentials come from a polynomial and no longer from the C library, row sums and products are added "
    "in eight lanes (before: one by one, and in four), a product with a reciprocal replaces a quotient, and four nodes "
    "are eliminated at a time. With all of these put back, all bits are those of before; each alone changes half of "
    "the pairs. Exponents are as large as 500 there, and rounding one of them changes a flow by 6e-14 of itself.",
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
