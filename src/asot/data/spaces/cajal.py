"""Distances within cells as CAJAL writes them: a csv with one line per cell, its name and then the condensed matrix."""

from __future__ import annotations

import csv
import math
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from asot.data.tabular import is_number


def read_cajal(path: str | os.PathLike[str]) -> dict[str, NDArray[np.float64]]:
    """Matrices (n_i, n_i) by the names of the cells."""
    from scipy.spatial.distance import squareform

    found: dict[str, NDArray[np.float64]] = {}
    with Path(path).open(newline="", encoding="utf-8") as lines:
        for number, line in enumerate(csv.reader(lines), start=1):
            if not line or (number == 1 and not is_number(line[-1])):
                continue  # the header, which begins with cell_id
            name, entries = line[0], line[1:]
            try:
                condensed = np.array(entries, dtype=np.float64)
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: an entry of {name!r} is not a number ({error})") from None
            n = (1 + math.isqrt(1 + 8 * len(condensed))) // 2
            if len(condensed) == 0 or n * (n - 1) // 2 != len(condensed):
                raise ValueError(
                    f"{path}, line {number}: {name!r} has {len(condensed)} distances; n points have n (n - 1) / 2"
                )
            if name in found:
                raise ValueError(f"{path}, line {number}: there is already a cell {name!r}; names must differ")
            found[name] = np.asarray(squareform(condensed))
    if not found:
        raise ValueError(f"{path} has no cells; each line must be a name and the distances of its points")
    return found
