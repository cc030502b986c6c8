"""`load_spaces`: neurons and distance matrices in other programs' files, as spaces for `gromov`."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.spaces.swc import read_swc
from asot.data.tabular import is_number
from asot.validation import as_choice, as_positive_int


def load_spaces(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, n_points: int = 50,
    distances: str = "euclidean",
) -> dict[str, NDArray[np.float64]]:  # fmt: skip
    """Distance matrices by name, from SWC neurons or from CAJAL's csv of distances within cells.

    Parameters
    ----------
    path : path or list of paths
        A ``.csv`` of CAJAL; or a ``.swc`` file, a folder of them, or a list of them: named after the files.
    n_points : int
        Neurons: how many points are spread evenly along the branches.
    distances : {"euclidean", "path"}
        Neurons: in space, or along the tree.

    Returns
    -------
    dict of str to (n, n) float64, which `gromov`, `gromov_plan` and `Distributions.from_spaces` take.

    Examples
    --------
    >>> import asot, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "cell.swc").write_text("1 1 0 0 0 1 -1\\n2 3 4 0 0 1 1\\n")
    >>> asot.load_spaces(folder, n_points=2)
    {'cell': array([[0., 2.],
           [2., 0.]])}
    """
    n = as_positive_int(n_points, "n_points")
    along_tree = as_choice(distances, "distances", ("euclidean", "path")) == "path"
    if isinstance(path, (str, os.PathLike)):
        given = Path(path)
        if given.suffix == ".csv":
            return _read_cajal(given)
        files = sorted(given.glob("*.swc")) if given.is_dir() else [given]
        if not files:
            raise ValueError(f"the folder {given} has no .swc files")
    else:
        files = [Path(each) for each in path]
    found: dict[str, Any] = {}
    for file in files:
        if file.suffix.lower() != ".swc":
            raise ValueError(f"{file}: load_spaces reads .swc files and CAJAL's .csv; load other matrices yourself")
        if file.stem in found:
            raise ValueError(f"two files are named {file.stem}; names must differ")
        found[file.stem] = read_swc(file, n, along_tree)
    return found


def _read_cajal(path: str | os.PathLike[str]) -> dict[str, NDArray[np.float64]]:
    """Matrices by the names of the cells: a line has a name, and then the condensed matrix."""
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
