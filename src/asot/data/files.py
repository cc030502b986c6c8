"""Reading and writing what people keep: collections, anchor spaces, distances.

The suffix of a name tells the format. Files are data: see `asot.data.npz` for how arrays are read without trust and
written whole, and `asot.data.tabular` for CSV and Parquet.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asot.data.distributions import Distributions
from asot.data.npz import (
    PLAIN_KINDS,
    PathLike,
    atomic_write,
    check_kind,
    check_writable,
    load_arrays,
    naming,
    read_arrays,
    read_header,
    save_arrays,
)
from asot.data.tabular import load_csv, load_parquet
from asot.run.pairs import AllPairs, CrossPairs, ListedPairs, PairSet, tiles
from asot.run.result import Distances, Status
from asot.validation import as_pairs

if TYPE_CHECKING:
    from asot.anchors.space import AnchorSpace

__all__ = [
    "atomic_write",
    "check_distances_suffix",
    "check_writable",
    "load_arrays",
    "load_collection",
    "load_distances",
    "load_space",
    "read_arrays",
    "read_header",
    "save_arrays",
    "save_collection",
    "save_distances",
    "save_space",
]

COLLECTION_SUFFIXES = (".npz", ".csv", ".parquet")
DISTANCE_SUFFIXES = (".npy", ".npz", ".csv")


# ------------------------------------------------------------------------------------------------------- anchor spaces


def save_space(space: AnchorSpace, path: PathLike) -> None:
    """Write an anchor space: its anchors (k, d), their cost (k, k) unless it is the Euclidean one, and soft codes."""
    from asot.anchors.soft_space import LearnedSpace

    arrays = {"anchors": space.anchors} if space.is_euclidean else {"anchors": space.anchors, "cost": space.cost}
    if not isinstance(space, LearnedSpace):
        save_arrays(path, {"kind": "anchor-space"}, arrays)
        return
    codes = space.codes
    standard = {"centre": codes.centre, "spread": codes.spread, "unit": np.asarray(codes.unit)}
    arrays |= {f"codes_{name}": array for name, array in {**standard, **codes.parameters}.items()}
    if space.nearest is not None:
        arrays["nearest"] = space.nearest.anchors
    # A kind of its own: a version of asot without soft codes must not take it for a space of nearest anchors.
    save_arrays(path, {"kind": "learned-space", "codes": codes.kind, "parameters": sorted(codes.parameters)}, arrays)


def load_space(path: PathLike) -> AnchorSpace:
    """Read an anchor space; safe on files from strangers."""
    from asot.anchors.space import AnchorSpace

    header = read_header(path)
    if header is not None and header.get("kind") == "learned-space":
        return _load_learned_space(path, header)
    _, arrays = load_arrays(path, "anchor-space", required=["anchors"], optional=["cost"])
    with naming(path):
        return AnchorSpace(arrays["anchors"], arrays.get("cost"))


def _load_learned_space(path: PathLike, header: dict[str, Any]) -> AnchorSpace:
    from asot.anchors.soft_codes import SoftCodes
    from asot.anchors.soft_space import LearnedSpace
    from asot.anchors.space import AnchorSpace

    names = header.get("parameters")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(names) > 1000:
        raise ValueError(f"{path}: the header does not name the parameters of the codes; the file is damaged")
    standard = ["centre", "spread", "unit"]
    wanted = [f"codes_{name}" for name in [*standard, *names]]
    arrays = read_arrays(path, required=["anchors", "cost", *wanted], optional=["nearest"])
    with naming(path):
        if arrays["codes_unit"].shape != () or arrays["codes_unit"].dtype.kind != "f":
            raise ValueError("the array 'codes_unit' must hold one number")
        centre, spread = arrays["codes_centre"], arrays["codes_spread"]
        parameters = {name: arrays[f"codes_{name}"] for name in names}
        codes = SoftCodes(str(header.get("codes")), centre, spread, float(arrays["codes_unit"]), parameters)
        nearest = AnchorSpace(arrays["nearest"]) if "nearest" in arrays else None
        return LearnedSpace(arrays["anchors"], arrays["cost"], codes, nearest)


# --------------------------------------------------------------------------------------------------------- collections


def load_collection(path: PathLike) -> Distributions:
    """Read a collection of distributions; the suffix tells the format.

    ``.npz``
        Arrays ``points`` (n, d) and ``offsets`` (N + 1,), optionally ``masses`` (n,) and ``ids`` (N,).
    ``.csv``
        One line per point under a line of column names: ``id`` (or the first column) tells the distribution, ``mass``
        is optional, every other column is a coordinate. Ids stay text; lines of one id need not be neighbours.
    ``.parquet``
        The same columns; ids keep their type. Needs pyarrow: ``pip install asot[tables]``.

    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "cells.csv"
    >>> _ = target.write_text("id,x,y,mass\\nleft,0,0,1\\nleft,0,1,3\\nright,5,5,1\\n")
    >>> load_collection(target)
    Distributions: 2 distributions of 1 to 2 points (mean 1.5, 3 in all) in 2 dimensions, float64
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".npz":
        return _load_npz_collection(path)
    if suffix == ".csv":
        return load_csv(path)
    if suffix == ".parquet":
        return load_parquet(path)
    raise ValueError(f"cannot read a collection from {path}: its name must end in {_one_of(COLLECTION_SUFFIXES)}")


def save_collection(collection: Distributions, path: PathLike) -> None:
    """Write a collection as ``.npz``, with the masses it had before they were scaled to total 1."""
    masses = collection.masses * np.repeat(collection.totals, collection.sizes)
    arrays = {"points": collection.points, "offsets": collection.offsets, "masses": masses}
    save_arrays(path, {"kind": "distributions"}, {**arrays, "ids": _plain_ids(collection.ids)})


def _load_npz_collection(path: PathLike) -> Distributions:
    header = read_header(path)
    if header is not None:
        check_kind(header, "distributions", path)
    arrays = read_arrays(path, required=["points", "offsets"], optional=["masses", "ids"])
    with naming(path):
        return Distributions(arrays["points"], arrays["offsets"], arrays.get("masses"), arrays.get("ids"))


# ----------------------------------------------------------------------------------------------------------- distances


def save_distances(
    path: PathLike,
    result: Distances,
    ids_rows: NDArray[Any] | None = None,
    ids_columns: NDArray[Any] | None = None,
) -> None:
    """Write distances; the suffix tells the format.

    ``.npy``
        The matrix (N, N) or (N, M).
    ``.npz``
        Everything a `Distances` holds, and the ids; `load_distances` reads it back.
    ``.csv``
        One line per pair: id_i, id_j, distance, and lower, upper and error where they were asked for.

    >>> import tempfile, pathlib, numpy as np, asot
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "distances.npz"
    >>> save_distances(target, asot.emd_many(np.eye(3), cost=1.0 - np.eye(3)))
    >>> load_distances(target).values
    array([1., 1., 1.])
    """
    check_distances_suffix(path)
    rows = np.arange(result.pair_set.n_rows) if ids_rows is None else _plain_ids(ids_rows)
    if ids_columns is None:
        ids_columns = rows if result.pair_set.symmetric else np.arange(result.pair_set.n_columns)
    columns = _plain_ids(ids_columns)
    suffix = Path(path).suffix.lower()
    if suffix == ".npy":
        matrix = result.matrix()
        with atomic_write(path) as stream:
            np.save(stream, matrix, allow_pickle=False)
    elif suffix == ".npz":
        _save_npz_distances(path, result, rows, columns)
    else:
        _save_csv_distances(path, result, rows, columns)


def check_distances_suffix(path: PathLike) -> None:
    """Raise unless the name of an output tells a format that `save_distances` writes."""
    if Path(path).suffix.lower() not in DISTANCE_SUFFIXES:
        raise ValueError(f"cannot write distances to {path}: its name must end in {_one_of(DISTANCE_SUFFIXES)}")


def load_distances(path: PathLike) -> Distances:
    """Read the ``.npz`` file that `save_distances` wrote; safe on files from strangers."""
    required = ["values", "status", "n_iter"]
    per_pair = ["marginal_error", "lower", "upper", "error"]
    header, arrays = load_arrays(path, "distances", required, [*per_pair, "pairs"])
    with naming(path):
        pair_set = _read_pair_set(header.get("pairs"), arrays.get("pairs"))
        for name in [*required, *per_pair]:
            if name in arrays:
                _check_per_pair(arrays[name], name, len(pair_set), kinds="iu" if name in ("status", "n_iter") else "f")
        if not np.isin(arrays["status"], list(Status)).all():
            raise ValueError("the array 'status' holds a number that is not a status")
    optional: dict[str, Any] = {
        name: arrays[name].astype(np.float64, copy=False) for name in per_pair if name in arrays
    }
    return Distances(
        values=arrays["values"].astype(np.float64, copy=False),
        status=arrays["status"].astype(np.int8, copy=False),
        n_iter=arrays["n_iter"].astype(np.int32, copy=False),
        pair_set=pair_set,
        info=header["info"] if isinstance(header.get("info"), dict) else {},
        **optional,
    )


def _save_npz_distances(path: PathLike, result: Distances, rows: NDArray[Any], columns: NDArray[Any]) -> None:
    arrays: dict[str, NDArray[Any]] = {
        "values": result.values,
        "status": result.status,
        "n_iter": result.n_iter,
        "ids_rows": rows,
    }
    if not result.pair_set.symmetric:
        arrays["ids_columns"] = columns
    if isinstance(result.pair_set, ListedPairs):
        arrays["pairs"] = result.pair_set.pairs
    per_pair = {name: getattr(result, name) for name in ("marginal_error", "lower", "upper", "error")}
    arrays.update({name: values for name, values in per_pair.items() if values is not None})
    header: dict[str, Any] = {"kind": "distances", "pairs": _describe_pair_set(result.pair_set), "info": result.info}
    save_arrays(path, header, arrays)


def _describe_pair_set(pairs: PairSet) -> dict[str, Any]:
    which = "listed" if isinstance(pairs, ListedPairs) else "all" if isinstance(pairs, AllPairs) else "cross"
    return {"which": which, "n_rows": pairs.n_rows, "n_columns": pairs.n_columns, "symmetric": pairs.symmetric}


def _read_pair_set(described: Any, listed: NDArray[Any] | None) -> PairSet:
    if not isinstance(described, dict):
        raise ValueError("the header does not tell which pairs the distances are of")
    n_rows, n_columns = _count(described.get("n_rows")), _count(described.get("n_columns"))
    which = described.get("which")
    if which == "all" and n_rows == n_columns:
        return AllPairs(n_rows)
    if which == "cross":
        return CrossPairs(n_rows, n_columns)
    if which == "listed" and listed is not None:
        symmetric = described.get("symmetric") is True
        return ListedPairs(as_pairs(listed, n_rows, n_columns), n_rows, n_columns, symmetric)
    raise ValueError(f"the header describes pairs that cannot be understood ({which!r})")


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise ValueError(f"the header has {value!r} for a number of distributions")
    return value


def _check_per_pair(values: NDArray[Any], name: str, n_pairs: int, kinds: str) -> None:
    if values.shape != (n_pairs,) or values.dtype.kind not in kinds:
        raise ValueError(f"{name!r} must hold one number for each of the {n_pairs:,} pairs; found {values.shape}")


def _save_csv_distances(path: PathLike, result: Distances, rows: NDArray[Any], columns: NDArray[Any]) -> None:
    bounds = {name: getattr(result, name) for name in ("lower", "upper", "error")}
    measured = {"distance": result.values, **{name: v for name, v in bounds.items() if v is not None}}
    with atomic_write(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["id_i", "id_j", *measured])
        for start, stop in tiles(len(result), 2**16):
            i, j = _listed_or_computed(result.pair_set, start, stop)
            numbers = [values[start:stop].tolist() for values in measured.values()]
            writer.writerows(zip(rows[i].tolist(), columns[j].tolist(), *numbers, strict=True))
        text.detach()


def _listed_or_computed(pairs: PairSet, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns as the caller wrote them, where the caller wrote them."""
    if isinstance(pairs, ListedPairs):
        return pairs.pairs[start:stop, 0], pairs.pairs[start:stop, 1]
    return pairs.indices(start, stop)


def _plain_ids(ids: NDArray[Any]) -> NDArray[Any]:
    """Ids that a file can hold: numbers and text as they are, all else as text."""
    return ids if ids.dtype.kind in PLAIN_KINDS else np.array([str(entry) for entry in ids])


def _one_of(suffixes: Sequence[str]) -> str:
    return f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"
