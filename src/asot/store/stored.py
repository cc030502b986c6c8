"""The content of a store, read on demand: values, rows, blocks, neighbors, or all of it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Identity, Indices, Info
from asot.data.npz import atomic_write, list_arrays, load_arrays, plain_ids, read_arrays, save_arrays
from asot.printable import printable
from asot.results.distances import Distances, StoredResult
from asot.results.model import NO_MODEL, ModelBase, ModelParts
from asot.results.neighbors import Neighbors
from asot.results.sinks import NearestOfRows, default_sink
from asot.run.engine import Resources
from asot.run.executors import ProgressLike
from asot.run.pairs import ListedPairs, PairSet
from asot.run.protocols import Sink
from asot.store.files import StoreFiles, import_zarr
from asot.validation import as_index, as_positive_int, refuse_what_cannot_fit


class Stored(StoredResult):
    """The result of a run in a store. Nothing is read before it is needed.

    ``r[i, j]`` is one distance, ``r[i]`` a row, ``r[2:5, 7:9]`` a block, ``np.asarray(r)`` the whole matrix. Distances
    that are not computed yet are NaN.
    """

    def __init__(
        self, files: StoreFiles, read_model: Callable[[ModelParts, Any, Path], ModelBase] | None = None
    ) -> None:
        self._files, self._read_model = files, read_model
        self._model: ModelBase | None = None
        self.info: Info = {**files.manifest["settings"], "store": str(files.path)}

    @property
    def pair_set(self) -> PairSet:
        return self._files.grid.pairs

    @property
    def shape(self) -> tuple[int, int]:
        return self.pair_set.n_rows, self.pair_set.n_columns

    @property
    def names(self) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        """Names of the rows and of the columns, if the collections had some."""
        file = self._names_file
        if not file.is_file():
            return None, None
        arrays = read_arrays(file, required=["rows", "columns"])
        if (len(arrays["rows"]), len(arrays["columns"])) != self.shape:
            raise ValueError(f"{file} does not name {self.shape[0]} rows and {self.shape[1]} columns; it is damaged")
        return arrays["rows"], arrays["columns"]

    def keep_names(self, rows: NDArray[Any], columns: NDArray[Any]) -> None:
        """Write the names of rows and columns beside the distances, unless they are there or only count."""
        parts = {"rows": plain_ids(rows), "columns": plain_ids(columns)}
        counting = all(np.array_equal(part, np.arange(len(part))) for part in parts.values())
        wanted = (None, None) if counting else tuple(parts.values())
        try:
            if all(map(_are_same, self.names, wanted)):
                return
        except ValueError:  # damaged: written anew
            pass
        if counting:
            self._names_file.unlink(missing_ok=True)
        else:
            save_arrays(self._names_file, {"kind": "names"}, parts)

    @property
    def model(self) -> ModelBase | None:
        """What the distances were made with, as of `Distances`."""
        file = self._model_file
        if self._model is None and self._read_model is not None and file.is_file():
            header, arrays = load_arrays(file, "model", optional=list_arrays(file))
            arrays.pop("header", None)
            if not isinstance(header.get("model"), dict):
                raise ValueError(f"{file} does not describe a model; it is damaged")
            self._model = self._read_model(ModelParts(header["model"], arrays), self.names, file)
        return self._model

    @property
    def _model_file(self) -> Path:
        return self._names_file.with_name("model.npz")

    def keep_model(self, model: ModelBase) -> None:
        """Write what the distances were made with beside them, unless it is there."""
        parts = None if self._files.n_neighbors is not None else model.parts()
        if parts is None:
            return
        self._model = model
        if not self._model_file.is_file():
            save_arrays(self._model_file, {"kind": "model", "model": parts.header}, parts.arrays)

    def identity(self) -> Identity:
        """What its distances depend on."""
        return {"settings": self._files.manifest["settings"], "inputs": self._files.manifest["inputs"]}

    def extend(
        self,
        new: Any,
        *,
        n_jobs: int | None = None,
        memory: int | str | None = None,
        progress: ProgressLike = None,
        sink: Sink[Any] | None = None,
    ) -> Any:
        """Distances over old and new distributions, as of `Distances.extend`: in memory, or in another store.

        Rows become longer, so a store cannot grow where it is: ``stored.extend(new, sink=asot.sinks.Store(other))``
        copies what is known and computes the rest. The same call again resumes.
        """
        self._needs_values("pairs to extend")
        self._needs_all()
        if self.model is None:
            raise ValueError(NO_MODEL)
        if default_sink(sink).writes_to(self._files.path.absolute()):
            raise ValueError(f"a store cannot grow where it is; name another folder than {self._files.path}")
        return self.model.extend(self, new, Resources(n_jobs, memory, progress), sink)

    @property
    def _names_file(self) -> Path:
        return self._files.path / self.fields[0] / "names.npz"  # in an array: zarr warns of unknown files in a group

    @property
    def ids(self) -> NDArray[Any]:
        """Names of the rows (N,): as given, or 0..N-1."""
        rows, _ = self.names
        return np.arange(self.shape[0]) if rows is None else rows

    @property
    def n_blocks(self) -> int:
        return len(self._files.grid)

    @property
    def n_done(self) -> int:
        """Blocks that are done."""
        return len(self._files.done())

    @property
    def is_complete(self) -> bool:
        return self.n_done == self.n_blocks

    def seconds_left(self) -> float | None:
        """The time left, at the rate between the first block and the last; None if that is unknown."""
        times = self._files.times()
        done = len(times)
        if done < 2 or done == self.n_blocks or times[-1] <= times[0]:
            return None
        return (times[-1] - times[0]) / (done - 1) * (self.n_blocks - done)

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(self._files.fields)

    def __len__(self) -> int:
        return len(self.pair_set)

    def __repr__(self) -> str:
        done = self.n_done
        state = "complete" if done == self.n_blocks else f"{done:,} of {self.n_blocks:,} blocks done"
        return printable(f"Stored: {len(self):,} pairs in {self._files.path}, {', '.join(self.fields)}; {state}")

    def __getitem__(self, index: Any) -> Any:
        both = index if isinstance(index, tuple) and len(index) == 2 else (index, slice(None))
        rows, columns = _as_slice(both[0], "i", self.shape[0]), _as_slice(both[1], "j", self.shape[1])
        found = self.block(rows, columns)[tuple(slice(None) if isinstance(own, slice) else 0 for own in both)]
        return found if np.ndim(found) else float(found)

    def block(self, rows: slice, columns: slice, field: str = "values") -> NDArray[Any]:
        """Distances (or another field) of some rows and columns, read from the chunks that hold them."""
        self._needs_rows()
        (r0, r1), (c0, c1) = _bounds(rows, self.shape[0]), _bounds(columns, self.shape[1])
        found = np.zeros((r1 - r0, c1 - c0), self._dtype_of(field))
        self._fill(found, field, r0, c0)
        if self.pair_set.symmetric:
            self._fill(found.T, field, c0, r0)
        return found

    def _fill(self, found: NDArray[Any], field: str, first: int, left: int) -> None:
        """Write what is stored from row ``first`` and column ``left`` on: of one set, what is above the diagonal."""
        side, symmetric, right = self._files.grid.side, self.pair_set.symmetric, left + found.shape[1]
        for top in range(first // side * side, first + len(found), side):
            low, high = max(top, first), min(top + side, first + len(found))
            start = max(left, top) if symmetric else left
            if start >= right:
                return
            part = self._files.part(field, slice(low, high), slice(start, right))
            own = found[low - first : high - first, start - left :]
            split = max(0, min(top + side, right) - start) if symmetric else 0  # columns that the diagonal crosses
            above = np.arange(low, high)[:, None] < np.arange(start, start + split)
            np.copyto(own[:, :split], part[:, :split], where=above)
            own[:, split:] = part[:, split:]

    def matrix(self) -> NDArray[Any]:
        """All of it (N, M)."""
        refuse_what_cannot_fit(8 * self.shape[0] * self.shape[1], "the matrix", "read blocks of it: r[0:1000]")
        return self.block(slice(None), slice(None))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        whole = self.matrix() if not isinstance(self.pair_set, ListedPairs) else self.values()
        return whole if dtype is None else whole.astype(dtype)

    def values(self, field: str = "values") -> NDArray[Any]:
        """Every value (P,) in pair order, as `Distances.values` has them."""
        refuse_what_cannot_fit(8 * len(self), "all values", "use .condensed(path), which writes them to a file")
        found, position = np.empty(len(self), self._dtype_of(field)), 0
        for part in self._in_pair_order(field):
            found[position : position + len(part)] = part
            position += len(part)
        return found

    def condensed(self, path: str | os.PathLike[str], field: str = "values") -> NDArray[Any]:
        """Every value in pair order as a memory-mapped .npy file (P,), for SciPy and others."""
        dtype = np.dtype(self._dtype_of(field))
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (len(self),)}
        # Written, not mapped: where a disk is full, a write fails, but a page that cannot be stored ends the process.
        with atomic_write(path) as stream:
            np.lib.format.write_array_header_1_0(stream, header)
            for part in self._in_pair_order(field):
                stream.write(np.ascontiguousarray(part, dtype).data)
        return np.lib.format.open_memmap(path, mode="r+")

    def _in_pair_order(self, field: str) -> Iterator[NDArray[Any]]:
        """Every value, row by row."""
        self._dtype_of(field)
        grid, symmetric = self._files.grid, self.pair_set.symmetric
        if grid.is_list:
            yield from (self._files.read(field, number) for number in range(len(grid)))
            return
        n, m = self.shape
        for top in range(0, n, grid.side):
            rows, columns = slice(top, min(top + grid.side, n)), slice(top if symmetric else 0, m)
            strip = self._files.part(field, rows, columns)
            yield from (values[i + 1 :] if symmetric else values for i, values in enumerate(strip))

    def _dtype_of(self, field: str) -> str:
        self._needs_values("values")
        if field not in self._files.fields:
            raise ValueError(f"the store has no {field!r}; it has {', '.join(self.fields)}")
        return self._files.fields[field]

    def at(self, rows: NDArray[np.int64], columns: NDArray[np.int64], field: str = "values") -> NDArray[Any]:
        """The values of some pairs (P,) that lie in few rows, such as a stretch of the pair order."""
        first, last = int(rows.min()), int(rows.max()) + 1
        left, right = int(columns.min()), int(columns.max()) + 1
        return self.block(slice(first, last), slice(left, right), field)[rows - first, columns - left]

    def distances(self) -> Distances:
        """The result in memory, as the call without a store would have returned it."""
        self._needs_all()
        values = self.values().astype(np.float64)
        extra = [name for name in ("lower", "upper", "error") if name in self.fields]
        more: dict[str, Any] = {name: self.values(name).astype(np.float64) for name in extra}
        status = self.values("status") if "status" in self.fields else np.zeros(len(values), np.int8)
        n_iter = np.zeros(len(values), np.int32)
        more |= {"info": dict(self.info), "names": self.names, "model": self.model}
        return Distances(values, status, n_iter, self.pair_set, **more)

    def to_frame(self, form: str = "square") -> Any:
        """A pandas DataFrame with the ids, as of `Distances.to_frame`; all of it is read."""
        return self.distances().to_frame(form)

    def top_k(self, n_neighbors: int | None = None) -> Neighbors:
        """The nearest of every row; in a store of neighbors, as many as it keeps or fewer."""
        kept = self._files.n_neighbors
        most = kept if kept is not None else self.shape[1] - self.pair_set.symmetric
        k = as_positive_int(most if n_neighbors is None else n_neighbors, "n_neighbors")
        if k > most or (kept is None and n_neighbors is None):
            raise ValueError(f"n_neighbors must be given, and at most {most} in this store; found {n_neighbors!r}")
        self._needs_rows()
        self._needs_all()
        if self._files.grid.strips:
            strips = [[self._files.read(name, i) for i in range(self.n_blocks)] for name in ("indices", "distances")]
            indices, distances = (np.concatenate(parts)[:, :k] for parts in strips)
        else:
            nearest = NearestOfRows(self.shape[0], k)
            for number in range(self.n_blocks):
                for rows, columns, values in self._known_of(number):
                    nearest.keep(rows, columns, values)
            indices, distances = nearest.indices, nearest.distances
        info = {**self.info, "n_columns": self.shape[1]}
        return Neighbors(indices, distances.astype(np.float64, copy=False), info, names=self.names)

    def _known_of(self, number: int) -> Iterator[tuple[Indices, Indices, NDArray[Any]]]:
        """Rows, columns and distances of the pairs of a block, or of those that it keeps; from both of their ends."""
        grid = self._files.grid
        if self._files.n_neighbors is None:
            pairs = grid.block(number)
            rows, columns = pairs.indices(0, len(pairs))
            top, left = (place * grid.side for place in grid.place(number))
            values = self._files.read("values", number)[rows - top, columns - left]
            yield from ((rows, columns, values), (columns, rows, values))[: 1 + pairs.symmetric]
            return
        near = self._files.read("indices", number)[0], self._files.read("distances", number)[0]
        for half, place in enumerate(grid.place(number)):  # of its rows, and within one set of its columns
            indices, distances = (part[half * grid.side : (half + 1) * grid.side] for part in near)
            row, at = np.nonzero(np.isfinite(distances))
            yield place * grid.side + row, indices[row, at], distances[row, at]

    def _needs_all(self) -> None:
        if not self.is_complete:
            raise ValueError(f"{self.n_done} of {self.n_blocks} blocks are done; run the same call again first")

    def _needs_rows(self) -> None:
        if isinstance(self.pair_set, ListedPairs):
            raise ValueError("a list of pairs has no rows; use .values() with .pair_set")

    def _needs_values(self, what: str) -> None:
        if self._files.n_neighbors is not None:
            raise ValueError(f"this store only keeps the nearest, and has no {what}; use .top_k()")

    def zarr(self) -> Any:
        """The Zarr group itself. Within one set its arrays hold what is above the diagonal."""
        return import_zarr().open_group(str(self._files.path), mode="r", zarr_format=3, use_consolidated=False)

    def dask(self) -> Any:
        """The matrix as a dask.array, in chunks of a block."""
        da: Any = importlib.import_module("dask.array")
        self._needs_values("matrix")
        side = self._files.grid.side
        self._needs_all()
        upper = da.from_zarr(self._files.array("values"), chunks=(side, side))
        if not self.pair_set.symmetric:
            return upper
        zeros = da.nan_to_num(da.triu(upper, 1))
        return zeros + zeros.T


def _are_same(there: NDArray[Any] | None, wanted: NDArray[Any] | None) -> bool:
    if there is None or wanted is None:
        return there is wanted
    return there.dtype.kind == wanted.dtype.kind and np.array_equal(there, wanted)


def _as_slice(index: Any, name: str, size: int) -> Any:
    """An index as the slice of its row or column alone; what is none stays what it is."""
    if not isinstance(index, (int, np.integer)):
        return index
    place = as_index(index, name, size)
    return slice(place, place + 1)


def _bounds(index: Any, size: int) -> tuple[int, int]:
    if not isinstance(index, slice) or index.step not in (None, 1):
        raise IndexError(f"a store is read by numbers and slices of step 1; found {index!r}")
    start, stop, _ = index.indices(size)
    return start, max(start, stop)
