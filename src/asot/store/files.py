"""The files of a store: a Zarr group with one chunk per block, and a manifest that says what it is the result of.

Chunks are written completely or not at all (zarr's local store renames them into place) and end with a checksum. Their
size is known, so a look at the folder shows which blocks are done; a chunk of another size is incomplete and counts as
not done. The manifest is JSON in the attributes of the group. What a store from elsewhere may say is checked by
`asot.store.metadata`.
"""

from __future__ import annotations

import math
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Header
from asot.lazy import needed
from asot.printable import printable
from asot.run.pairs import AllPairs, CrossPairs, ListedPairs, PairSet
from asot.store.grid import Grid
from asot.store.identity import DECLARED, WORDING, differences
from asot.store.metadata import CHECKSUM_BYTES, FILLS, FORMAT, check_array, check_pairs, read_manifest

PAIRS_AT_A_TIME = 2**20
INSTALL = "a store needs zarr 3.1.3 or newer: pip install 'asot[scale]'"


def import_zarr() -> Any:
    zarr = needed("zarr", INSTALL)
    if tuple(int(part) for part in zarr.__version__.split(".")[:2]) < (3, 1):
        raise ImportError(f"{INSTALL} (found {zarr.__version__})")
    return zarr


class StoreFiles:
    """The group at a path, and which of its blocks are done."""

    def __init__(self, path: str | os.PathLike[str], manifest: Header, pairs: PairSet) -> None:
        self.path, self.manifest = Path(path), manifest
        self.grid = Grid(pairs, manifest["side"], manifest.get("plan") == "strips")
        self.fields: dict[str, str] = manifest["fields"]
        self.n_neighbors: int | None = manifest["n_neighbors"]
        self.shape, self.chunks = _shapes(self.grid, self.n_neighbors)
        self._arrays: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_arrays": {}}  # open files are not pickled

    def check(self) -> StoreFiles:
        """Refuse arrays that this package did not write."""
        for name, dtype in self.fields.items():
            check_array(self.path, name, self.shape, self.chunks, dtype)
        return self

    def array(self, name: str) -> Any:
        """The zarr.Array of a field."""
        if name not in self._arrays:
            self._arrays[name] = import_zarr().open_array(str(self.path / name), mode="r+", zarr_format=3)
        return self._arrays[name]

    def is_done(self, number: int) -> bool:
        place = self._place(number)
        return number in self._empty() or all(
            _size(self._chunk_file(name, place)) == self._chunk_bytes(name) for name in self.fields
        )

    def done(self) -> set[int]:
        """Blocks that are done, as the folder shows: no more than there are files."""
        found = [self._done_of(name) for name in self.fields]
        return set.intersection(*found) | self._empty()

    def _empty(self) -> set[int]:
        """The block of a last row that is alone: it has no pairs, and zarr writes no chunk of nothing."""
        last = len(self.grid) - 1
        return {last} if self.grid.is_triangle and self.grid.size(last) == 0 else set()

    def _done_of(self, name: str) -> set[int]:
        chunks, expected = self.path / name / "c", self._chunk_bytes(name)
        done = set()
        for folder, _, files in os.walk(chunks):
            place = Path(folder).relative_to(chunks).parts
            if len(place) != len(self.chunks) - 1 or not all(part.isdecimal() for part in place):
                continue
            for file in files:
                if file.isdecimal() and _size(Path(folder, file)) == expected:
                    number = self._number((*map(int, place), int(file)))
                    if 0 <= number < len(self.grid):
                        done.add(number)
        return done

    def times(self) -> list[float]:
        """When the blocks that are done were written, in order."""
        main = "values" if "values" in self.fields else "distances"
        done = map(self._place, self.done() - self._empty())
        return sorted(self._chunk_file(main, place).stat().st_mtime for place in done)

    def _number(self, place: tuple[int, ...]) -> int:
        """The block whose chunk is at a place; -1 if there is none."""
        if self._is_row_of_blocks:
            return place[0]
        row, column = place
        below = self.grid.is_triangle and row > column
        outside = row >= self.grid.n_down or column >= self.grid.n_across
        return -1 if below or outside else self.grid.number(row, column)

    def write(self, number: int, chunks: Mapping[str, NDArray[Any]]) -> None:
        """Write the chunks of a block, the values last."""
        try:
            for name in sorted(self.fields, key=lambda name: name in ("values", "distances")):
                self.array(name)[self._region(number)] = chunks[name].astype(self.fields[name])
        except OSError as error:
            done = len(self.done())
            raise OSError(
                error.errno,
                f"the store {self.path} cannot be written ({error.strerror or error}); {done} of {len(self.grid)} "
                "blocks are done and will be kept: free some space or fix permissions, and call again",
            ) from error

    def read(self, name: str, number: int) -> NDArray[Any]:
        """The chunk of a finished block; if it is damaged, the error names it."""
        file = self._chunk_file(name, self._place(number))
        self._check_size(name, file)
        try:
            return np.asarray(self.array(name)[self._region(number)])
        except ValueError as error:
            raise ValueError(f"{file} is damaged ({error}); run the same call again to solve it anew") from error

    def part(self, name: str, rows: slice, columns: slice) -> NDArray[Any]:
        """A part of a table that lies in one row of blocks, none of them below the diagonal of one set."""
        side = self.grid.side
        places = [(rows.start // side, at) for at in range(columns.start // side, -(-columns.stop // side))]
        for place in places:
            self._check_size(name, self._chunk_file(name, place))
        try:
            return np.asarray(self.array(name)[rows, columns])
        except ValueError:  # zarr says that a checksum is wrong, but not where
            for place in places:
                self.read(name, self.grid.number(*place))
            raise

    def is_damaged(self, number: int) -> bool:
        """Whether a checksum of a finished block is wrong."""
        try:
            for name in self.fields:
                self.read(name, number)
        except ValueError:
            return True
        return False

    def discard(self, number: int) -> None:
        """Remove the chunks of a block, so that it is not done."""
        for name in self.fields:
            file = self._chunk_file(name, self._place(number))
            try:
                file.unlink(missing_ok=True)
            except OSError as error:
                raise OSError(
                    error.errno, f"{file} or a chunk of the same block is damaged and cannot be replaced "
                    f"({error.strerror or error}); make the store writable, and call again",
                ) from error  # fmt: skip

    def _check_size(self, name: str, file: Path) -> None:
        """A chunk of another size would be read into memory whole before anyone noticed."""
        size, expected = _size(file), self._chunk_bytes(name)
        if size not in (-1, expected):
            raise ValueError(
                f"{file} is damaged (it has {size:,} bytes, not {expected:,}); run the same call again to solve it anew"
            )

    @property
    def _is_row_of_blocks(self) -> bool:
        """Whether a chunk is known by its first index alone."""
        return self.n_neighbors is not None or self.grid.is_list

    def _place(self, number: int) -> tuple[int, ...]:
        """Where the chunk of a block is in the grid of chunks."""
        return (number, 0, 0)[: len(self.chunks)] if self._is_row_of_blocks else self.grid.place(number)

    def _region(self, number: int) -> tuple[slice, ...]:
        """The part of an array that is the chunk of a block."""
        of = zip(self._place(number), self.chunks, self.shape, strict=True)
        return tuple(slice(at * chunk, min((at + 1) * chunk, size)) for at, chunk, size in of)

    def _chunk_file(self, name: str, place: tuple[int, ...]) -> Path:
        return self.path.joinpath(name, "c", *map(str, place))

    def _chunk_bytes(self, name: str) -> int:
        return math.prod(self.chunks) * np.dtype(self.fields[name]).itemsize + CHECKSUM_BYTES


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return -1


def _shapes(grid: Grid, n_neighbors: int | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of the arrays of a store, and of their chunks."""
    side, pairs = grid.side, grid.pairs
    if grid.is_list:
        return (len(pairs),), (side,)
    if n_neighbors is None:
        return (pairs.n_rows, pairs.n_columns), (side, side)
    if grid.strips:
        return (pairs.n_rows, n_neighbors), (side, n_neighbors)
    return (len(grid), 2 * side, n_neighbors), (1, 2 * side, n_neighbors)


def pairs_record(pairs: PairSet) -> Header:
    """What the manifest says about the pairs."""
    kind = "list" if isinstance(pairs, ListedPairs) else "all" if pairs.symmetric else "cross"
    return {"kind": kind, "n_rows": pairs.n_rows, "n_columns": pairs.n_columns, "symmetric": pairs.symmetric}


def new_manifest(pairs: PairSet, **told: Any) -> Header:
    """What a store of some pairs is told about itself, with this version's marks."""
    from asot import __version__

    return {"format": FORMAT, "asot": __version__, "identity": DECLARED, "pairs": pairs_record(pairs), **told}


def begin(path: str | os.PathLike[str], manifest: Header, pairs: PairSet) -> StoreFiles:
    """Create a store, or reopen one that belongs to the same call. A store of a different call is refused."""
    folder = Path(path)
    if not (folder / "zarr.json").exists():
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(f"{folder} is a file, and a store is a folder; use another path")
        if folder.exists() and any(folder.iterdir()):
            raise ValueError(f"{folder} is a folder with other things in it; a store needs its own folder")
        _make(folder, manifest, pairs)
    there = read_manifest(folder)
    if there["asot"] != manifest["asot"]:
        raise ValueError(
            f"the store {folder} was begun by asot {printable(there['asot'])}, and this is asot {manifest['asot']}: "
            "last digits may differ, so no version goes on with another's work. asot.open_store reads what it holds: "
            "use another path for this call"
        )
    if wrong := differences(_plan(there), _plan(manifest)) or differences(_told(there), _told(manifest)):
        more = f" (and {len(wrong) - 4} more)" if len(wrong) > 4 else ""
        said = printable("; ".join(wrong[:4]))
        raise ValueError(
            f"the store {folder} holds the result of another call: {said}{more}. Use another path, or make the same "
            "call that the store was created with"
        )
    return StoreFiles(folder, there, pairs).check()


def _plan(manifest: Mapping[str, Any]) -> Header:
    """What kind of run it is, without which nothing else can be compared."""
    return {"plan": manifest.get("plan", "squares")}


def _told(manifest: Mapping[str, Any]) -> Header:
    """Everything that must agree. The first call chooses the size of blocks."""
    own = {"fields": str(sorted(manifest["fields"].items()))}
    own |= {f"pairs.{key}": value for key, value in manifest["pairs"].items()}
    own |= {key: value for key, value in manifest["settings"].items() if key not in WORDING}
    return own | {"n_neighbors": manifest["n_neighbors"]} | manifest["inputs"]


def _make(folder: Path, manifest: Header, pairs: PairSet) -> None:
    """Under another name first: whoever comes second uses what is there."""
    zarr = import_zarr()
    from zarr.codecs import Crc32cCodec

    new = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.tmp")
    files = StoreFiles(new, manifest, pairs)
    try:
        group = zarr.open_group(str(new), mode="w", attributes={"asot": manifest})
        for name, dtype in files.fields.items():
            group.create_array(
                name, shape=files.shape, chunks=files.chunks, dtype=dtype, filters=None,
                compressors=[Crc32cCodec()], fill_value=FILLS.get(name, np.nan), config={"write_empty_chunks": True},
            )  # fmt: skip
        if isinstance(pairs, ListedPairs):
            side = min(len(pairs), PAIRS_AT_A_TIME), 2
            group.create_array("pairs", data=pairs.pairs, chunks=side, filters=None, compressors=[Crc32cCodec()])
        os.replace(new, folder)
    except OSError as error:
        if not (folder / "zarr.json").exists():
            raise OSError(error.errno, f"the store {folder} cannot be created ({error.strerror or error})") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def open_files(path: str | os.PathLike[str]) -> StoreFiles:
    """A store as it is on disk."""
    manifest = read_manifest(path)
    told = manifest["pairs"]
    pairs: PairSet
    if told["kind"] == "list":
        pairs = ListedPairs(_read_pairs(Path(path), told), told["n_rows"], told["n_columns"], told["symmetric"])
    else:
        both = told["n_rows"], told["n_columns"]
        pairs = AllPairs(both[0]) if told["kind"] == "all" else CrossPairs(*both)
    return StoreFiles(path, manifest, pairs).check()


def _read_pairs(folder: Path, told: Mapping[str, Any]) -> NDArray[np.int64]:
    """(P, 2), all of them within the table."""
    check_pairs(folder)
    array = import_zarr().open_array(str(folder / "pairs"), mode="r", zarr_format=3)
    try:
        listed = np.asarray(array[:], dtype=np.int64)
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"the pairs in {folder / 'pairs'} are damaged: {error}") from error
    if listed.min() < 0 or (listed.max(axis=0) >= (told["n_rows"], told["n_columns"])).any():
        raise ValueError(f"the pairs in {folder / 'pairs'} are damaged: some lie outside the table")
    return listed
