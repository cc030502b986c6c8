"""Distances in files: everything (``.npz``), the matrix (``.npy``), or one line per pair (``.csv``).

A table does not say which pairs it holds, so they are recognized by the order of its lines: that of all pairs
of one collection, that of every pair of two, or else a list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Header
from asot.data.npz import (
    PathLike,
    atomic_write,
    list_arrays,
    load_arrays,
    naming,
    plain_ids,
    read_array,
    save_arrays,
    suffix_of,
)
from asot.data.reading import text_array
from asot.data.tabular import csv_rows, csv_writer, guarded, read_columns
from asot.results.distances import Distances
from asot.results.model import ModelParts
from asot.results.plans import Plans
from asot.run.pairs import AllPairs, CrossPairs, ListedPairs, PairSet, tiles
from asot.run.protocols import EXTRAS, Status
from asot.validation import as_pairs, to_array

DISTANCE_SUFFIXES = (".npy", ".npz", ".csv")
_MODEL = "model_"
_OF_PLANS = ("source", "sink", "mass", "start", "f", "g")


def save_distances(
    result: Distances,
    path: PathLike,
    ids_rows: Sequence[Any] | NDArray[Any] | None = None,
    ids_columns: Sequence[Any] | NDArray[Any] | None = None,
    *,
    collection: bool = True,
) -> None:
    """Write distances, with their ids or the given ones; the file extension decides the format. `asot.load_distances`
    reads it back.

    ``.npz``
        Everything a `Distances` holds: values, status, bounds, plans, info, ids, and what it was made with, so that it
        can be extended: with the points of the collection, unless ``collection`` is False.
    ``.npy``
        The matrix (N, N) or (N, M).
    ``.csv``
        One line per pair: id_i, id_j, distance, and lower, upper and error if you asked for them.

    >>> import tempfile, pathlib, numpy as np, asot
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "distances.npz"
    >>> save_distances(asot.emd_many(np.eye(3), cost=1.0 - np.eye(3)), target)
    >>> asot.load_distances(target).values
    array([1., 1., 1.])
    """
    if not isinstance(result, Distances):
        raise TypeError(f"save_distances(result, path) writes Distances; found {type(result).__name__}")
    suffix = suffix_of(path, DISTANCE_SUFFIXES, "write distances to")
    rows = _names_for(ids_rows, result.ids, "rows")
    columns = _names_for(ids_columns, rows if result.pair_set.symmetric else result.ids_columns, "columns")
    if suffix == ".npy":
        matrix = result.matrix()
        with atomic_write(path) as stream:
            np.save(stream, matrix, allow_pickle=False)
    elif suffix == ".npz":
        _save_npz(path, result, rows, columns, collection)
    else:
        _save_csv(path, result, rows, columns)


def read_distances(path: PathLike) -> tuple[Distances, ModelParts | None]:
    """The distances in a file, without what they were made with, and that (`asot.load_distances` puts it together)."""
    suffix = suffix_of(path, DISTANCE_SUFFIXES, "read distances from")
    if suffix == ".csv":
        return _load_csv(path), None
    if suffix == ".npy":
        return _load_npy(path), None
    required = ["values", "status", "n_iter"]
    optional = [*EXTRAS, "pairs", "ids_rows", "ids_columns", "offsets", *(f"plans_{name}" for name in _OF_PLANS)]
    of_model = [name for name in list_arrays(path) if name.startswith(_MODEL)]
    header, arrays = load_arrays(path, "distances", required, [*optional, *of_model])
    model = {name.removeprefix(_MODEL): arrays.pop(name) for name in of_model}
    with naming(path):
        pair_set = _read_pair_set(header.get("pairs"), arrays.get("pairs"))
        for name in [*required, *EXTRAS]:
            if name in arrays:
                _check_per_pair(arrays[name], name, len(pair_set), kinds="iu" if name in ("status", "n_iter") else "f")
        if not np.isin(arrays["status"], list(Status)).all():
            raise ValueError("the array 'status' holds a number that is not a status")
        if len(pair_set) and not 0 <= arrays["n_iter"].min() <= arrays["n_iter"].max() < 2**31:
            raise ValueError("the array 'n_iter' holds a number that is not a count of iterations")
        names, offsets = _read_names(arrays, pair_set), _read_offsets(arrays, pair_set.n_rows)
        plans = _read_plans(arrays, len(pair_set))
    more: dict[str, Any] = {name: arrays[name].astype(np.float64, copy=False) for name in EXTRAS if name in arrays}
    result = Distances(
        values=arrays["values"].astype(np.float64, copy=False),
        status=arrays["status"].astype(np.int8, copy=False),
        n_iter=arrays["n_iter"].astype(np.int32, copy=False),
        pair_set=pair_set,
        plans=plans,
        info=header["info"] if isinstance(header.get("info"), dict) else {},
        names=names,
        offsets=offsets,
        **more,
    )
    described = header.get("model")
    if described is not None and not isinstance(described, dict):
        raise ValueError(f"{path}: the header does not describe a model; the file is damaged")
    return result, None if described is None else ModelParts(described, model)


def _names_for(given: Any, own: NDArray[Any], which: str) -> NDArray[Any]:
    if given is None:
        return plain_ids(own)
    is_text = isinstance(given, list) and all(type(entry) is str for entry in given)
    ids = text_array(given) if is_text else to_array(given, "ids")
    if ids.shape != own.shape:
        raise ValueError(f"the ids of the {which} must name each of the {len(own)}; found {len(given)}")
    return plain_ids(ids)


def _read_names(arrays: dict[str, NDArray[Any]], pairs: PairSet) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    found = []
    for name, n in (("ids_rows", pairs.n_rows), ("ids_columns", pairs.n_columns)):
        ids = arrays.get(name)
        if ids is not None and ids.shape != (n,):
            raise ValueError(f"the array {name!r} must name each of the {n:,} distributions; found shape {ids.shape}")
        found.append(ids)
    return found[0], found[0] if pairs.symmetric else found[1]


def _read_offsets(arrays: dict[str, NDArray[Any]], n: int) -> NDArray[np.int64] | None:
    """The offsets of the rows' collection, which older files do not have."""
    offsets = arrays.get("offsets")
    if offsets is None:
        return None
    is_fine = offsets.shape == (n + 1,) and offsets.dtype.kind in "iu"
    if not is_fine or (np.diff(offsets.astype(np.int64)) < 1).any():
        raise ValueError(f"the array 'offsets' must be {n + 1:,} ascending numbers; found shape {offsets.shape}")
    return offsets.astype(np.int64, copy=False)


def _save_npz(path: PathLike, result: Distances, rows: NDArray[Any], columns: NDArray[Any], collection: bool) -> None:
    arrays: dict[str, NDArray[Any]] = {"ids_rows": rows}
    if not result.pair_set.symmetric:
        arrays["ids_columns"] = columns
    if isinstance(result.pair_set, ListedPairs):
        arrays["pairs"] = result.pair_set.pairs
    there = {name: getattr(result, name) for name in ("values", "status", "n_iter", *EXTRAS, "offsets")}
    arrays |= {name: array for name, array in there.items() if array is not None}
    if result.plans is not None:
        arrays |= {f"plans_{name}": getattr(result.plans, name) for name in _OF_PLANS}
    pairs = result.pair_set
    which = "listed" if isinstance(pairs, ListedPairs) else "all" if isinstance(pairs, AllPairs) else "cross"
    described = {"which": which, "n_rows": pairs.n_rows, "n_columns": pairs.n_columns, "symmetric": pairs.symmetric}
    header: Header = {"kind": "distances", "pairs": described, "info": result.info}
    model = None if result.model is None else result.model.parts(collection)
    if model is not None:
        header["model"] = model.header
        arrays |= {f"{_MODEL}{name}": array for name, array in model.arrays.items()}
    save_arrays(path, header, arrays)


def _read_pair_set(described: Any, listed: NDArray[Any] | None) -> PairSet:
    if not isinstance(described, dict):
        raise ValueError("the header does not say which pairs the distances belong to")
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
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise ValueError(f"{name!r} is not a number at pair {int(np.argmax(np.isnan(values))):,}; the file is damaged")


def _read_plans(arrays: dict[str, NDArray[Any]], n_pairs: int) -> Plans | None:
    parts = {name: arrays.get(f"plans_{name}") for name in _OF_PLANS}
    if all(part is None for part in parts.values()):
        return None
    if any(part is None for part in parts.values()):
        raise ValueError("parts of the plans are missing; the file is damaged")
    source, sink, mass, start, f, g = (np.asarray(parts[name]) for name in _OF_PLANS)
    entries = len(mass)
    shapes = source.shape == sink.shape == mass.shape == (entries,) and start.shape == (n_pairs + 1,)
    kinds = all(part.dtype.kind in "iu" for part in (source, sink, start)) and mass.dtype.kind == "f"
    tables = all(part.ndim == 2 and len(part) == n_pairs and part.dtype.kind == "f" for part in (f, g))
    if not (shapes and kinds and tables):
        raise ValueError("the arrays of the plans do not fit together; the file is damaged")
    inside = entries == 0 or (
        0 <= source.min() <= source.max() < f.shape[1] and 0 <= sink.min() <= sink.max() < g.shape[1]
    )
    if start[0] != 0 or start[-1] != entries or (np.diff(start) < 0).any() or not inside:
        raise ValueError("the plans point outside their arrays; the file is damaged")
    source, sink, start = (part.astype(np.int64, copy=False) for part in (source, sink, start))
    return Plans(source, sink, mass, start, f, g, arrays["values"])


def _save_csv(path: PathLike, result: Distances, rows: NDArray[Any], columns: NDArray[Any]) -> None:
    bounds = {name: getattr(result, name) for name in ("lower", "upper", "error")}
    measured = {"distance": result.values, **{name: v for name, v in bounds.items() if v is not None}}
    rows, columns = (np.array([guarded(entry) for entry in side.tolist()]) for side in (rows, columns))
    with csv_writer(path) as writer:
        writer.writerow(["id_i", "id_j", *measured])
        for start, stop in tiles(len(result), 2**16):
            pairs = result.pair_set  # listed ones as the caller wrote them
            i, j = pairs.pairs[start:stop].T if isinstance(pairs, ListedPairs) else pairs.indices(start, stop)
            numbers = [values[start:stop].tolist() for values in measured.values()]
            writer.writerows(zip(rows[i].tolist(), columns[j].tolist(), *numbers, strict=True))


def _load_csv(path: PathLike) -> Distances:
    with csv_rows(path) as rows:
        names: list[str] = next(rows, [])
        if names[:3] != ["id_i", "id_j", "distance"] or not set(names[3:]) <= {"lower", "upper", "error"}:
            raise ValueError(f"{path} does not hold distances written by asot: its columns are {', '.join(names)[:80]}")
        found = read_columns(rows, names, [0, 1], path, strips=False)
    pair_set, order_i, order_j = _recognized(*found.places.T)
    ids = text_array(found.texts)
    numbers = {name: np.ascontiguousarray(column) for name, column in zip(names[2:], found.numbers.T, strict=True)}
    return _unknown(numbers.pop("distance"), pair_set, (ids[order_i], ids[order_j]), numbers)


def _recognized(i: NDArray[np.int64], j: NDArray[np.int64]) -> tuple[PairSet, NDArray[np.int64], NDArray[np.int64]]:
    """The pair set whose order the lines have, and the indices of the ids of its rows and columns."""
    count = len(i)
    n = (1 + int(np.sqrt(1 + 8 * count))) // 2
    if n * (n - 1) // 2 == count > 0:
        members = np.concatenate([i[:1], j[: n - 1]])
        rows, columns = AllPairs(n).indices(0, count)
        if np.array_equal(members[rows], i) and np.array_equal(members[columns], j):
            return AllPairs(n), members, members
    width = int(np.argmax(i != i[0])) if count and (i != i[0]).any() else count
    if count and count % width == 0:
        rows, columns = CrossPairs(count // width, width).indices(0, count)
        if np.array_equal(i[::width][rows], i) and np.array_equal(j[:width][columns], j):
            return CrossPairs(count // width, width), i[::width], j[:width]
    (left, row), (right, column) = (np.unique(side, return_inverse=True) for side in (i, j))
    if len(np.intersect1d(left, right)) == 0:
        return ListedPairs(np.stack([row, column], axis=1), len(left), len(right), False), left, right
    both = np.union1d(left, right)
    listed = np.searchsorted(both, np.stack([i, j], axis=1))
    return ListedPairs(listed, len(both), len(both), True), both, both


def _load_npy(path: PathLike) -> Distances:
    matrix = read_array(path)
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiu":
        raise ValueError(f"{path} holds {matrix.dtype} of shape {matrix.shape}, not a matrix of distances")
    matrix = matrix.astype(np.float64, copy=False)
    if np.isnan(matrix).any():
        raise ValueError(f"{path} holds distances that are not numbers")
    n, m = matrix.shape
    if n == m and np.array_equal(matrix, matrix.T) and not np.diagonal(matrix).any():
        return _unknown(matrix[np.triu_indices(n, 1)], AllPairs(n), (None, None), {})
    return _unknown(matrix.ravel(), CrossPairs(n, m), (None, None), {})


def _unknown(values: NDArray[np.float64], pairs: PairSet, names: Any, more: dict[str, Any]) -> Distances:
    status = np.full(len(values), Status.UNKNOWN, dtype=np.int8)
    return Distances(values, status, np.zeros(len(values), dtype=np.int32), pairs, names=names, **more)
