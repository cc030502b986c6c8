"""Reading and writing collections, anchor spaces and distances.

The file extension decides the format. See `asot.data.npz` for how arrays are read safely and written atomically,
`asot.data.tabular` for CSV and Parquet, and `asot.data.foreign_files` for the files of other programs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.distributions import Distributions
from asot.data.foreign_files import load_folder, load_h5ad
from asot.data.npz import (
    PathLike,
    check_kind,
    list_arrays,
    naming,
    plain_ids,
    read_arrays,
    read_header,
    save_arrays,
    suffix_of,
)
from asot.data.reading import read_points
from asot.data.tabular import load_csv, load_parquet, save_csv, save_parquet

COLLECTION_SUFFIXES = (".npz", ".csv", ".parquet")


def load_collection(
    path: PathLike, *, groupby: str | None = None, use_rep: str | None = None, attributes: str | None = None
) -> Distributions:
    """Read a collection of distributions; the file extension decides the format.

    ``.npz``
        Arrays ``points`` (n, d) and ``offsets`` (N + 1,), optionally ``masses`` (n,) and ``ids`` (N,).
    ``.csv``
        One line per point under a line of column names: ``id`` (or the first column) names the distribution, ``mass``
        is optional, every other column is a coordinate. Ids stay strings; lines with the same id need not be adjacent.
    ``.parquet``
        The same columns; ids keep their type. Needs pyarrow: ``pip install asot[tables]``.
    ``.h5ad``
        Cells: `groupby` names the column of obs with their samples, `use_rep` where they lie ("X_pca" by default), as
        in `Distributions.from_anndata`. Needs anndata: ``pip install asot[cells]``.
    a folder
        One distribution per file, with the name of the file as its id: ``.npy`` arrays (n, d); ``.csv`` tables of
        coordinates, optionally with a column ``mass``; or ``.graphml`` graphs, whose nodes begin with `attributes`, as
        in `Distributions.from_graphs`. Graphs need networkx.

    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "cells.csv"
    >>> _ = target.write_text("id,x,y,mass\\nleft,0,0,1\\nleft,0,1,3\\nright,5,5,1\\n")
    >>> load_collection(target)
    Distributions: 2 distributions of 1 to 2 points (mean 1.5, 3 in all) in 2 dimensions, float64
    """
    suffix = Path(path).suffix.lower()
    if suffix != ".h5ad" and (groupby is not None or use_rep is not None):
        raise ValueError(f"groupby and use_rep belong to .h5ad files; {path} is none")
    if attributes is not None and not os.path.isdir(path):
        raise ValueError(f"attributes belongs to a folder of .graphml files; {path} is none")
    if os.path.isdir(path):
        return load_folder(path, attributes)
    if suffix == ".h5ad":
        return load_h5ad(path, groupby, "X_pca" if use_rep is None else use_rep)
    readers = {".npz": _load_npz_collection, ".csv": load_csv, ".parquet": load_parquet}
    if suffix in readers:
        return readers[suffix](path)
    known = ".npz, .csv, .parquet or .h5ad"
    raise ValueError(f"cannot read a collection from {path}: its name must end in {known}, or it must be a folder")


def save_collection(collection: Distributions, path: PathLike) -> None:
    """Write a collection; the file extension decides the format. `load_collection` reads it back.

    ``.npz``
        Everything, bit for bit. Ids that are neither numbers nor strings become strings.
    ``.csv``, ``.parquet``
        A table with the columns id, x0, x1, … and, if masses differ or had totals other than 1, mass. Masses are the
        original ones before scaling, so scaling them again may change the last bit. In a CSV file, ids become strings,
        and one that a spreadsheet would take for a formula gets an apostrophe in front, which reading takes away.
        When the file is read, distributions are ordered by id; ids must be unique.

    >>> import tempfile, pathlib, asot
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "two.npz"
    >>> D = asot.Distributions.from_list([[[0, 0], [1, 1]], [[2, 2]]], ids=["left", "right"])
    >>> save_collection(D, target)
    >>> load_collection(target) == D
    True
    """
    suffix = suffix_of(path, COLLECTION_SUFFIXES, "write a collection to")
    if suffix == ".csv":
        save_csv(collection, path)
    elif suffix == ".parquet":
        save_parquet(collection, path)
    else:
        arrays = {**collection_arrays(collection), "ids": plain_ids(collection.ids)}
        save_arrays(path, {"kind": "distributions"}, arrays)


def _load_npz_collection(path: PathLike) -> Distributions:
    header = read_header(path)
    if header is not None:
        check_kind(header, "distributions", path)
    names = list_arrays(path)
    points = ["support", "index"] if header is not None and "support" in names else ["points"]
    arrays = read_arrays(path, required=[*points, "offsets"], optional=["masses", "ids", "totals"])
    with naming(path):
        if header is None:
            arrays.pop("totals", None)
        return collection_of(arrays)


def collection_arrays(collection: Distributions) -> dict[str, NDArray[Any]]:
    """All of a collection but its ids, as arrays that a file can hold."""
    arrays = {"offsets": collection.offsets, "masses": collection.masses, "totals": collection.totals}
    if collection.vocabulary is None:
        arrays["points"] = collection.points
    else:
        arrays["support"], arrays["index"] = collection.vocabulary
    return arrays


def collection_of(arrays: Mapping[str, NDArray[Any]]) -> Distributions:
    """The collection of some arrays from a file, bit for bit; anything that is none is refused."""
    missing = [name for name in ("offsets", "index" if "support" in arrays else "points") if name not in arrays]
    if missing:
        raise ValueError(f"the array {missing[0]!r} is missing; the file is damaged")
    given = arrays.get("masses"), arrays.get("ids")
    if "support" in arrays:
        D = Distributions._on_support(read_points(arrays["support"]), _as_index(arrays), arrays["offsets"], *given)
    else:
        D = Distributions(arrays["points"], arrays["offsets"], *given)
    if "totals" not in arrays:
        return D
    if "masses" not in arrays:
        raise ValueError("the array 'masses' is missing; the file is damaged")
    return _with_totals(D, arrays["masses"], arrays["totals"])


def _as_index(arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
    index = arrays["index"]
    if index.ndim != 1 or index.dtype.kind not in "iu":
        raise ValueError(f"the array 'index' must hold integers (n,); found {index.dtype} of shape {index.shape}")
    if len(index) and not 0 <= index.min() <= index.max() < len(arrays["support"]):
        raise ValueError("the array 'index' points outside the array 'support'; the file is damaged")
    return index.astype(np.int64, copy=False)


def _with_totals(D: Distributions, masses: NDArray[Any], totals: NDArray[Any]) -> Distributions:
    """A collection that was saved with masses of total 1 and its original totals: both as they were, bit for bit."""
    sums = np.add.reduceat(masses, D.offsets[:-1])
    if totals.shape != (len(D),) or totals.dtype != np.float64 or not (totals >= 0).all():
        raise ValueError(f"the array 'totals' must hold a number ≥ 0 for each of the {len(D)} distributions")
    if masses.dtype != np.float64 or np.abs(sums - 1.0).max() > 1e-9:
        raise ValueError("the masses of a distribution do not sum to 1, although the file has totals; it is damaged")
    return D._replaced(masses=masses, totals=totals)
